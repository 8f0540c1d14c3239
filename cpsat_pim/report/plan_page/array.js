// The array at one step: its regions, the bytes on each node, and the flits on each link, both ways.

const PHASES = [["all", "all phases"], ["weights", "weights"], ["pull", "pull"], ["reduce", "reduce"], ["push", "push"]];
const WAYS = [["east", 0, 1], ["west", 0, -1], ["south", 1, 0], ["north", -1, 0]];

function drawArray() {
  const step = plan.steps[state.step], last = plan.steps.length - 1;
  const move = index => open(Math.max(0, Math.min(last, index)), true);
  const slider = make("input", { type: "range", min: 0, max: last, value: state.step, "aria-label": "step", "aria-valuetext": step.layer, input: event => move(Number(event.target.value)) });
  const steps = make("div", { class: "tools stepping" },
    make("button", { type: "button", "aria-label": "previous step", click: () => move(state.step - 1) }, "‹"), slider,
    make("button", { type: "button", "aria-label": "next step", click: () => move(state.step + 1) }, "›"),
    choice("phase", PHASES, state.phase, phase => { state.phase = phase; drawArray(); }), ringChoice(step));
  const focused = document.activeElement?.closest("#array") && document.activeElement.getAttribute("aria-label");
  document.getElementById("array").replaceChildren(
    heading(`Step ${state.step + 1} of ${last + 1}: ${step.layer}`, stepText(step)), steps,
    make("div", { class: "atstep" }, make("div", {}, arrayPicture(step), linkScale(step), ringText(step)), phaseFacts(step)));
  if (focused) document.querySelector(`#array [aria-label="${focused}"]`)?.focus();
}

function stepText(step) {
  const regions = plan.segments[step.segment].regions.length;
  const split = [step.rows && `rows split ${step.rows}`, step.columns && `columns split ${step.columns}`].filter(Boolean).join(", ") || "not split";
  return `${split}; ${plural(step.replicas, "replica")} of the weights${regions > 1 ? `; segment ${step.segment + 1} has ${regions} regions` : ""}`;
}

// Flits by node and way in the phases that are shown.
function loadsOf(step) {
  const shown = step.phases.filter(phase => phase.loads && (state.phase === "all" || phase.name === state.phase));
  return Array.from({ length: ROWS * COLS }, (_, node) => WAYS.map((_, way) => sum(shown.map(phase => phase.loads[node][way]))));
}

function arrayPicture(step) {
  const cell = Math.max(26, Math.min(120, 720 / Math.max(ROWS, COLS)));
  const loads = loadsOf(step), most = Math.max(1, ...loads.flat());
  const place = node => [node % COLS * cell, Math.floor(node / COLS) * cell];
  const nodes = loads.map((_, node) => nodeSquare(step, node, cell, place(node)));
  const links = loads.flatMap((flits, node) => WAYS.map((way, i) => link(way, flits[i], most, node, cell, place(node))));
  const regions = plan.segments[step.segment].regions.map(({ region: [y, x, h, w], layers }) => draw("rect", {
    x: (x + 0.04) * cell, y: (y + 0.04) * cell, width: (w - 0.08) * cell, height: (h - 0.08) * cell, rx: 8, class: layers.includes(step.layer) ? "region own" : "region",
  }, draw("title", {}, `region of ${layers.join(", ")}`)));
  const [width, height] = [COLS * cell, ROWS * cell];
  return draw("svg", { class: "mesh", width, height, viewBox: `-2 -2 ${width + 4} ${height + 4}`, role: "img", "aria-label": `array at ${step.layer}` }, regions, links, nodes, rings(step, cell, place));
}

function nodeSquare(step, node, cell, [x, y]) {
  const side = 0.5 * cell, used = step.used_bytes[node], share = used / plan.totals.peak_bytes;
  const [top, left, height, width] = step.region;
  const isInside = node % COLS >= left && node % COLS < left + width && Math.floor(node / COLS) >= top && Math.floor(node / COLS) < top + height;
  const words = cell < 60 ? [] : [
    draw("text", { x: x + cell / 2, y: y + cell / 2 - 2, class: "number" }, String(node)),
    draw("text", { x: x + cell / 2, y: y + cell / 2 + 12, class: "held" }, bytes(used)),
  ];
  return draw("g", { class: isInside ? "node" : "node outside" },
    draw("title", {}, `node ${node} (row ${Math.floor(node / COLS)}, column ${node % COLS}): ${bytes(used)}, ${percent(used / plan.array.capacity_bytes)} of its capacity`),
    draw("rect", { x: x + cell / 2 - side / 2, y: y + cell / 2 - side / 2, width: side, height: side, rx: 4, class: "box" }),
    draw("rect", { x: x + cell / 2 - side / 2, y: y + cell / 2 + side / 2 - side * share, width: side, height: side * share, rx: 4, class: "fill" }), words);
}

// An arrow beside the line between two nodes, on the right of those who travel.
function link([way, down, right], flits, most, node, cell, [x, y]) {
  const row = Math.floor(node / COLS) + down, column = node % COLS + right;
  if (row < 0 || row >= ROWS || column < 0 || column >= COLS) return null;
  const aside = 0.1 * cell, half = 0.25 * cell + 2, tip = Math.min(7, 0.1 * cell);
  const [cx, cy] = [x + cell / 2 - down * aside, y + cell / 2 + right * aside];
  const at = (along, across) => `${cx + right * along - down * across} ${cy + down * along + right * across}`;
  const end = cell - half;
  return draw("path", {
    d: `M${at(half, 0)}L${at(end - tip, 0)}M${at(end - tip, tip / 1.6)}L${at(end, 0)}L${at(end - tip, -tip / 1.6)}z`, "data-flits": flits,
    class: "link", style: `--load: ${flits ? 15 + 85 * flits / most : 0}%; stroke-width: ${flits ? 1.5 + 3 * flits / most : 1}px`,
  }, draw("title", {}, `node ${node} to node ${row * COLS + column} (${way}): ${plural(flits, "flit")}`));
}

function linkScale(step) {
  const most = Math.max(0, ...loadsOf(step).flat());
  return make("p", { class: "soft small scale" }, "flits on a link: 0 ", make("i", {}), ` ${exact(most)}. Squares: bytes on a node, full at ${bytes(plan.totals.peak_bytes)}, the most of any step.`);
}

function phaseFacts(step) {
  const columns = [
    ["phase", phase => phase.name], ["cycles", phase => exact(phase.cycles)], ["network", phase => exact(phase.network_cycles)], ["DRAM", phase => exact(phase.dram_cycles)],
    ["link flits", phase => exact(phase.max_link_flits)], ["sent", phase => bytes(phase.bytes)], ["columns", phase => exact(phase.columns)],
  ];
  const compute = make("tr", {}, make("td", { class: "left" }, "compute"), make("td", {}, exact(step.parts.compute)), columns.slice(2).map(() => make("td", {}, "–")));
  const rows = step.phases.map(phase => make("tr", {}, columns.map(([, show], i) => make("td", { class: i ? "" : "left" }, show(phase)))));
  return make("div", {},
    make("div", { class: "scroll facts" }, make("table", {},
      make("thead", {}, make("tr", {}, columns.map(([title], i) => make("th", { class: `plain ${i ? "" : "left"}`, scope: "col" }, title)))),
      make("tbody", {}, [...rows.slice(0, 2), compute, ...rows.slice(2)]))),
    make("p", { class: "soft small" }, `reads ${step.reads.join(", ")}; ${exact(step.cycles)} cycles in all. A phase ends when both network and DRAM do.`));
}
