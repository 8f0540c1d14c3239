// Rings: the order in which nodes that share data pass it on, drawn over the array.

const RINGS = { weights: "weights", pull: "inputs", pull_w: "second input", reduce: "partial sums" };
const RING_SHADES = ["I", "W", "O", "bus", "macs", "buffer", "activation", "energy"];

// The rings that are shown at a step: those that were chosen, if the step has them.
const shownRings = step => step.rings[state.rings] ?? [];

function ringChoice(step) {
  const options = [["none", "no rings"], ...Object.keys(RINGS).filter(name => step.rings[name]).map(name => [name, `rings of ${RINGS[name]}`])];
  const chosen = step.rings[state.rings] ? state.rings : "none";
  return options.length > 1 ? choice("rings", options, chosen, name => { state.rings = name; drawArray(); }) : null;
}

function ringText(step) {
  const shown = shownRings(step);
  if (!shown.length) return null;
  return make("p", { class: "soft small" }, `${plural(shown.length, "set")} of ${shown[0].length} nodes; each node passes on to the next what it received last, in ${plural(shown[0].length - 1, "round")}.`);
}

// A closed line a set, moved aside a little so that sets on one row stay apart.
function rings(step, cell, place) {
  return shownRings(step).map((tour, set) => {
    const aside = ((set % 8) - 3.5) * cell * 0.045;
    const points = tour.map(node => place(node).map(at => at + cell / 2 + aside));
    const shade = RING_SHADES[set % RING_SHADES.length];
    const dots = points.map(([x, y], i) => draw("circle", { cx: x, cy: y, r: i ? 2.5 : 4, style: `fill: var(--${shade})` }));
    const line = draw("path", { class: "ring", style: `stroke: var(--${shade})`, d: `M${points.map(point => point.join(" ")).join("L")}Z` });
    return draw("g", {}, draw("title", {}, `set ${set + 1}: ${tour.join(" → ")}`), line, dots);
  });
}
