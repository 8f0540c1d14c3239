// The page of a plan: what it costs, its steps, the array at one of them, capacity, and where tensors lie.

const plan = JSON.parse(document.getElementById("results").textContent);
const { rows: ROWS, cols: COLS } = plan.array;
plan.steps.forEach((step, index) => Object.assign(step, { index, name: step.layer }));
// The step and the phase that the picture of the array shows.
const state = { step: 0, phase: "all", rings: "none" };

function show() {
  const [fjSize, fjUnit] = unitOf(Math.max(...plan.steps.map(step => sum(Object.values(step.energies)))), ENERGY_UNITS);
  document.getElementById("page").replaceChildren(
    header(), ...notes(), cards(),
    bars("Where the time goes", "cycles of each step; a phase of data exchange counts as network or DRAM, whichever ends later", plan.steps, PARTS, step => step.parts, ["cycles", "cycles"], compact),
    bars("Where the energy goes", "of all nodes in each step; sums at the end of a segment are left out", plan.steps, ENERGY_PARTS, scaledEnergies(fjSize), [fjUnit, "energy"], value => energy(value * fjSize)),
    ganttSection(), make("section", { id: "array" }), capacitySection(), stepTable(), homesSection());
  open(named() ?? longest(), false);
}

const PARTS = [["compute", "node programs", "macs"], ["network", "network", "buffer"], ["dram", "DRAM", "DRAM"]];
const ENERGY_PARTS = [["compute", "node programs", "macs"], ["network", "network", "buffer"], ["dram", "DRAM", "DRAM"], ["additions", "additions", "W"]];
const scaledEnergies = fjSize => step => Object.fromEntries(Object.entries(step.energies).map(([part, fj]) => [part, fj / fjSize]));

// The step of the address, and the step that takes longest, where a reader begins.
const named = () => plan.steps.find(step => `#${encodeURIComponent(step.layer)}` === location.hash)?.index;
const longest = () => plan.steps.reduce((best, step) => step.cycles > plan.steps[best].cycles ? step.index : best, 0);

function open(index, isAsked) {
  state.step = index;
  drawArray();
  for (const row of document.querySelectorAll("[data-step]")) row.setAttribute("aria-selected", Number(row.dataset.step) === index);
  if (isAsked) history.replaceState(null, "", `#${encodeURIComponent(plan.steps[index].layer)}`);
}

function openAndScroll(index) {
  open(index, true);
  const behavior = matchMedia("(prefers-reduced-motion: reduce)").matches ? "instant" : "smooth";
  document.getElementById("array").scrollIntoView({ behavior, block: "start" });
}

function header() {
  const { solved } = plan;
  const parts = [
    solved ? `minimum ${solved.objective_kind}` : "a given plan, no search",
    plan.batch > 1 && `batch ${exact(plan.batch)}`, plural(plan.steps.length, "step"), plural(plan.segments.length, "segment"),
    solved && `${solved.seconds.toFixed(1)} s`,
  ];
  return make("header", {},
    make("div", {}, make("h1", {}, `${plan.network} on ${ROWS} × ${COLS} nodes of ${plan.array.node}`), make("p", { class: "soft" }, parts.filter(Boolean).join(" · "))),
    make("div", { class: "tools" }, choice("theme", [["light", "light"], ["dark", "dark"]], theme(), setTheme)));
}

function notes() {
  const joins = plan.segments.filter(segment => segment.join_cycles).length;
  const parallel = plan.segments.some(segment => segment.regions.length > 1);
  return [
    parallel && "Regions of one segment run at the same time, so the cycles of the steps add up to more than the latency.",
    joins > 0 && `${plural(joins, "segment")} ${joins === 1 ? "ends" : "end"} with sums of tensors; their cycles belong to no step.`,
  ].filter(Boolean).map(text => make("p", { class: "note" }, text));
}

function cards() {
  const { totals, performance, solved, simulated, array } = plan;
  const compute = sum(plan.steps.map(step => step.parts.compute)), all = sum(plan.steps.map(step => step.cycles));
  const card = (name, value, text) => make("div", { class: "card" }, make("span", {}, name), make("b", {}, value), make("span", {}, text));
  const time = performance ? `cycles, ${duration(performance.latency_s)}` : "cycles";
  const proof_ = solved && [solved.status.toLowerCase(), solved.gap === null ? "no gap known" : solved.gap ? `gap ${proof(solved.gap)}` : "no plan of the space costs less"];
  return make("div", { class: "cards" },
    card("Latency", compact(totals.latency_cycles), time),
    card("Energy", energy(totals.energy_fj), `${percent(totals.node_energy_fj / totals.energy_fj)} in node programs`),
    performance && card("Throughput", rate(1e12 * performance.tops), `${prefixed(performance.runs_per_second, [[1e6, "M"], [1e3, "k"], [1, ""]])} runs/s${plan.batch > 1 ? ` of ${exact(plan.batch)} samples` : ""}`),
    performance && card("Power", power(performance.power_w), `${prefixed(performance.tops_per_w ?? 0, [[1, "TOPS/W"]])}, ${performance.static_energy_j ? "with" : "without"} static power`),
    card("Node programs", percent(compute / (all || 1)), "of the cycles of all steps"),
    card("Over the network", bytes(totals.message_bytes), `${compact(totals.flit_hops)} flit-hops`),
    card("Fullest node", bytes(totals.peak_bytes), `${percent(totals.peak_bytes / array.capacity_bytes)} of ${bytes(array.capacity_bytes)}`),
    proof_ && card("Proof", ...proof_),
    simulated && card("Simulated", compact(simulated.latency_cycles), `cycles, ${change(simulated.latency_cycles / totals.latency_cycles)} to the estimate`));
}

start(show);
