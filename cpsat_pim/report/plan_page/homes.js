// Tensors along the network: a row a layer with the home of its output, arcs from writers to readers.

const ROW = 42, ARCS = 150;

function homesSection() {
  const names = ["input", ...plan.steps.map(step => step.layer)];
  const homeOf = Object.fromEntries(plan.homes.flatMap(home => home.members.map(member => [member, home])));
  const rows = names.map((name, i) => homeRow(name, homeOf[name], i - 1));
  return make("section", { id: "homes" }, heading("Homes and layouts", "each tensor has one place and one order of its axes until its last reader is done; arcs lead from a layer to those that read it"),
    make("div", { class: "scroll dag" }, make("div", { class: "network" }, arcs(names), make("div", {}, rows))));
}

function arcs(names) {
  const order = Object.fromEntries(names.map((name, i) => [name, i]));
  const middle = i => (i + 0.5) * ROW;
  const longest = Math.max(1, ...plan.steps.flatMap(step => step.reads.map(name => order[step.layer] - order[name])));
  const edges = plan.steps.flatMap(step => step.reads.map(name => {
    const [from, to] = [order[name], order[step.layer]];
    const x = ARCS - 12, bend = to - from === 1 ? 0 : 24 + (ARCS - 44) * Math.sqrt((to - from - 1) / longest);
    return draw("path", { class: "arc", d: `M${x} ${middle(from)}C${x - 1.3 * bend} ${middle(from)} ${x - 1.3 * bend} ${middle(to)} ${x} ${middle(to)}` },
      draw("title", {}, `${step.layer} reads ${name}`));
  }));
  const dots = names.map((name, i) => draw("circle", { cx: ARCS - 12, cy: middle(i), r: 5, class: "dot" }));
  const height = names.length * ROW;
  return draw("svg", { width: ARCS, height, viewBox: `0 0 ${ARCS} ${height}`, role: "img", "aria-label": "which layer reads which" }, edges, dots);
}

function homeRow(name, home, step) {
  const split = [home.rows && `rows ${home.rows}`, home.columns && `columns ${home.columns}`].filter(Boolean).join(", ") || "not split";
  const isShared = home.members.length > 1;
  const open_ = step < 0 ? {} : { tabindex: 0, "data-step": step, click: () => openAndScroll(step), keydown: event => { if (event.key === "Enter") openAndScroll(step); } };
  return make("div", { class: "home", style: `height: ${ROW}px`, ...open_ },
    make("b", { title: name }, name), homePicture(home), make("span", { class: `pill ${home.layout}` }, home.layout),
    make("span", {}, split), make("span", { class: "soft" }, `${home.shape.join(" × ")}, ${bytes(home.bytes)}${isShared ? `, with ${home.members.filter(other => other !== name).join(", ")}` : ""}`));
}

// The region of a home within the array.
function homePicture(home) {
  const side = 28 / Math.max(ROWS, COLS), [y, x, h, w] = home.region;
  return draw("svg", { width: 30, height: 30, viewBox: "-1 -1 30 30", role: "img", "aria-label": `rows ${y} to ${y + h - 1}, columns ${x} to ${x + w - 1}` },
    draw("rect", { width: COLS * side, height: ROWS * side, class: "array" }), draw("rect", { x: x * side, y: y * side, width: w * side, height: h * side, class: "part" }),
    draw("path", { class: "grid", d: [...Array.from({ length: COLS - 1 }, (_, i) => `M${(i + 1) * side} 0V${ROWS * side}`), ...Array.from({ length: ROWS - 1 }, (_, i) => `M0 ${(i + 1) * side}H${COLS * side}`)].join("") || "M0 0" }));
}
