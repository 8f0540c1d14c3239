// The schedule: a row a node, time to the right; phases in colours, steps open the array.

const SPAN_SHADES = { compute: "macs", weights: "W", pull: "I", reduce: "buffer", push: "O" };
const SPAN_NAMES = { compute: "node program", weights: "weights", pull: "inputs", reduce: "partial sums", push: "outputs" };

function ganttSection() {
  const shown = Object.keys(SPAN_SHADES).filter(name => plan.spans.some(span => span[1] === name));
  return make("section", { id: "gantt" }, heading("Schedule", "a row a node, predicted times; the nodes of a region keep step; a gap is a node without work"),
    legend(shown.map(name => [SPAN_NAMES[name], SPAN_SHADES[name]])), make("div", { class: "gantt" }, ganttPicture(), ganttAxis()));
}

const scheduleEnd = () => Math.max(1, ...plan.spans.map(span => span[3]));

function ganttPicture() {
  const count = ROWS * COLS, height = Math.max(120, Math.min(420, 14 * count));
  const picture = draw("svg", { viewBox: `0 0 ${scheduleEnd()} ${count}`, width: "100%", height, preserveAspectRatio: "none", role: "img", "aria-label": "schedule of the nodes" },
    plan.spans.flatMap(span => spanBars(span)));
  return make("div", { class: "rows" }, make("span", { class: "soft small first" }, "node 0"), picture, make("span", { class: "soft small last" }, `node ${count - 1}`));
}

// One bar over all nodes with neighbouring numbers: regions as wide as the array are one, others one a row.
function spanBars([number, name, start, end]) {
  const step = plan.steps[number], [y, x, h, w] = step.region;
  const blocks = w === COLS ? [[y * COLS, h * COLS]] : Array.from({ length: h }, (_, i) => [(y + i) * COLS + x, w]);
  return blocks.map(([first, nodes]) => draw("rect", {
    x: start, y: first, width: end - start, height: nodes, class: "span", "data-step": number, style: `fill: var(--${SPAN_SHADES[name]})`, click: () => openAndScroll(number),
  }, draw("title", {}, `${step.layer}: ${SPAN_NAMES[name]}, ${exact(end - start)} cycles from ${exact(start)} on`)));
}

function ganttAxis() {
  const marks = [0, 0.25, 0.5, 0.75, 1];
  return make("div", { class: "axis soft small" }, marks.map(mark => make("span", {}, `${compact(Math.round(mark * scheduleEnd()))}${mark === 1 ? " cycles" : ""}`)));
}
