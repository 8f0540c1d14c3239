// The table of steps, and how full the nodes are from step to step.

const phaseOf = (step, name) => step.phases.find(phase => phase.name === name);
const phaseCycles = (step, ...names) => sum(names.map(name => phaseOf(step, name).cycles));
const heaviest = step => Math.max(...step.phases.map(phase => phase.max_link_flits));

const STEP_COLUMNS = [
  ["layer", step => step.layer, "left", "a layer is a step"],
  ["rows", step => step.rows || "–", "left", "how rows of the region split the layer: Q4 is Q in four parts"],
  ["columns", step => step.columns || "–", "left", "how columns of the region split the layer"],
  ["WR", step => exact(step.replicas), "", "replicas of the weights"],
  ["node", step => exact(step.parts.compute), "", "cycles of the node program"],
  ["pull", step => exact(phaseCycles(step, "weights", "pull")), "", "cycles until weights and inputs have arrived"],
  ["reduce", step => exact(phaseCycles(step, "reduce")), "", "cycles in which partial sums are added"],
  ["push", step => exact(phaseCycles(step, "push")), "", "cycles in which outputs are sent to their home"],
  ["cycles", step => exact(step.cycles), "", "sum of the four"],
  ["share", step => percent(step.cycles / (sum(plan.steps.map(other => other.cycles)) || 1)), "", "of the cycles of all steps"],
  ["link flits", step => exact(heaviest(step)), "", "on the busiest link in any phase"],
  ["fullest node", step => bytes(Math.max(...step.used_bytes)), "", "bytes on the fullest node"],
];

function stepTable() {
  const heads = STEP_COLUMNS.map(([title, , side, text]) => make("th", { class: `plain ${side}`, scope: "col", title: text }, title));
  const body = plan.steps.map(step => make("tr", {
    tabindex: 0, "data-step": step.index, click: () => openAndScroll(step.index),
    keydown: event => { if (event.key === "Enter") openAndScroll(step.index); },
  }, STEP_COLUMNS.map(([, show, side]) => make("td", { class: side }, show(step)))));
  return make("section", { id: "steps" }, heading("Steps", "how each layer is split, and cycles of its node program and of its phases of data exchange; a row opens the array above"),
    make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, heads)), make("tbody", {}, body))));
}

function capacitySection() {
  const capacity = plan.array.capacity_bytes, peak = plan.totals.peak_bytes;
  const text = `weights, tensors at home and what is staged, by step; a node has ${bytes(capacity)}, the fullest uses ${percent(peak / capacity)}`;
  return make("section", { id: "capacity" }, heading("Bytes on the nodes", text),
    legend([["fullest node", "accent"], ["mean of the nodes", "O"], ["emptiest node", "compute"], ...(peak * 3 > capacity ? [["capacity", "buffer"]] : [])]),
    chart(capacityLines, index => openAndScroll(index)));
}

// Steps of a line each for the fullest, the mean and the emptiest node; the capacity where it is near.
function capacityLines() {
  const capacity = plan.array.capacity_bytes, peak = plan.totals.peak_bytes;
  const line = (name, shade, of) => {
    const values = plan.steps.map(step => of(step.used_bytes));
    return {
      type: "scatter", mode: "lines+markers", name, x: plan.steps.map(step => step.index), y: values.map(value => value / 2 ** 20),
      line: { shape: "hvh", color: colour(shade), width: 2 }, marker: { size: 6 }, customdata: plan.steps.map(step => step.index),
      text: plan.steps.map((step, i) => `<b>${escaped(step.layer)}</b><br>${name}: ${bytes(values[i])}, ${percent(values[i] / capacity)}`), hovertemplate: "%{text}<extra></extra>",
    };
  };
  const limit = { type: "line", xref: "paper", x0: 0, x1: 1, y0: capacity / 2 ** 20, y1: capacity / 2 ** 20, line: { color: colour("buffer"), width: 1.5, dash: "dot" } };
  return { data: [
    line("emptiest node", "compute", used => Math.min(...used)), line("mean of the nodes", "O", used => sum(used) / used.length), line("fullest node", "accent", used => Math.max(...used)),
  ], layout: {
    height: 300, xaxis: layerAxis(plan.steps, false), shapes: peak * 3 > capacity ? [limit] : [],
    yaxis: { title: { text: "MiB", standoff: 8 }, rangemode: "tozero", fixedrange: true },
  } };
}
