// The page: one or two results, one of them shown, one of its layers open.

const results = JSON.parse(document.getElementById("results").textContent);
results.forEach((result, r) => result.layers.forEach((layer, index) => {
  const namesake = results[1 - r]?.layers.find(other => other.name === layer.name);
  layer.index = index;
  layer.view = layer.detail === null ? null : result.details[layer.detail];
  layer.other = namesake?.detail == null ? null : results[1 - r].details[namesake.detail];
}));
const state = { result: 0, layer: 0 };

function show(number) {
  state.result = number;
  const result = results[number];
  const named = result.layers.findIndex(layer => `#${encodeURIComponent(layer.name)}` === location.hash);
  document.getElementById("page").replaceChildren(
    header(result), ...notes(result), cards(result), ...overview(result), ...paretoSection(result), ...comparison(result),
    layerTable(result.layers, index => open(index, true)), make("section", { id: "layer" }));
  open(named < 0 ? dearest(result) : named, false);
}

// The layer that costs most is where a reader begins.
function dearest(result) {
  const { kind } = result.objective;
  const share = ({ latency, energy }) => kind === "energy" ? energy : kind === "edp" ? latency * energy : latency;
  const cost = layer => layer.view ? layer.count * share(layer.view) : -1;
  return result.layers.reduce((best, layer, i) => cost(layer) > cost(result.layers[best]) ? i : best, 0);
}

function open(index, isAsked) {
  const result = results[state.result];
  const count = result.layers.length;
  if (!count) return;
  state.layer = index;
  document.getElementById("layer").replaceWith(layerSection(result.layers[index], result, by => open((index + by + count) % count, true)));
  for (const row of document.querySelectorAll("tr[data-layer]")) row.setAttribute("aria-selected", Number(row.dataset.layer) === index);
  if (!isAsked) return;
  history.replaceState(null, "", `#${encodeURIComponent(result.layers[index].name)}`);
  const behavior = matchMedia("(prefers-reduced-motion: reduce)").matches ? "instant" : "smooth";
  document.getElementById("layer").scrollIntoView({ behavior, block: "start" });
}

// --- Head and summary ---

const label = result => `${result.network} on ${result.arch}`;

function header(result) {
  const { kind, alpha, beta } = result.objective;
  const objective = kind === "blended" ? `least ${alpha} × cycles + ${beta} × nJ` : kind === "edp" ? "least latency × energy" : `least ${kind}`;
  const tabs = results.length < 2 ? null : choice("result", results.map((other, i) => [i, `${"AB"[i]}: ${other.source}`]), state.result, show);
  return make("header", {},
    make("div", {}, make("h1", {}, label(result)), make("p", { class: "soft" }, `${objective} · ${plural(result.totals.layers, "layer")} · solved in ${result.totals.seconds.toFixed(1)} s · ${result.source}`)),
    make("div", { class: "tools" }, tabs, choice("theme", [["light", "light"], ["dark", "dark"]], theme(), setTheme)));
}

function notes(result) {
  const stale = result.layers.filter(layer => layer.view?.stale).length;
  const missing = result.totals.layers - result.totals.mapped;
  return [
    result.shared,
    result.totals.interrupted && "The run was interrupted: these are the best mappings found until then.",
    missing > 0 && `Without a mapping: ${plural(missing, "layer")}. The sums leave ${missing === 1 ? "it" : "them"} out.`,
    stale > 0 && `The file holds other predictions for ${plural(stale, "layer")} than this version makes; this page shows this version's.`,
  ].filter(Boolean).map(text => make("p", { class: "note" }, text));
}

function totals(result) {
  const mapped = result.layers.filter(layer => layer.view);
  const total = of => sum(mapped.map(layer => layer.count * of(layer)));
  return { latency: total(l => l.view.latency), energy: total(l => l.view.energy), activations: total(l => sum(l.view.activations)), full: total(l => l.view.cycles.macs) };
}

function cards(result) {
  const own = totals(result);
  const other = results.length > 1 ? totals(results[1 - state.result]) : null;
  const worst = Math.max(0, ...result.layers.map(layer => layer.gap ?? 0));
  const proven = sum(result.layers.map(layer => layer.status === "OPTIMAL" ? layer.count : 0));
  const card = (name, value, text) => make("div", { class: "card" }, make("span", {}, name), make("b", {}, value), make("span", {}, text));
  const against = figure => other && other[figure] ? [changed(own[figure] / other[figure]), " to the other"] : null;
  return make("div", { class: "cards" },
    card("Latency", `${compact(own.latency)}`, against("latency") ?? "cycles"),
    card("Energy", energy(own.energy), against("energy") ?? `${energy(own.energy / (result.totals.macs || 1))} a MAC`),
    card("Row activations", compact(own.activations), against("activations") ?? "of all tensors"),
    card("Array at work", own.latency ? percent(own.full / own.latency) : "–", "of its peak, over the whole run"),
    card("MACs", compact(result.totals.macs), plural(result.totals.layers, "layer")),
    card("Proven optimal", `${exact(proven)} of ${exact(result.totals.layers)}`, worst ? `worst gap ${proof(worst)}` : proven === result.totals.layers ? "no gap" : "no gap known"));
}

// --- All layers ---

function overview(result) {
  const layers = result.layers.filter(layer => layer.view);
  if (!layers.length) return [];
  const cycles = layer => Object.fromEntries(Object.entries(layer.view.cycles).map(([key, value]) => [timeKey(key), layer.count * value]));
  const joules = layer => Object.fromEntries(Object.entries(layer.view.energies).map(([key, fj]) => [key, layer.count * fj / 1e15]));
  return [
    bars("Where the time goes", "cycles of each layer times how often it runs", layers, TIMES, cycles, "cycles", compact),
    bars("Where the energy goes", "of each layer times how often it runs", layers, ENERGIES, joules, "J", value => energy(value * 1e15)),
    make("section", { id: "fullness" }, heading("How full it is", "PEs and lanes that work; tiles over the usable part of each buffer"), chart(() => fullness(result.layers), index => open(index, true))),
  ];
}

function paretoSection(result) {
  const axes = front => `${front.x} ${front.y}${front.z ? ` ${front.z} of ${front.name}` : ""}`;
  const text = front => `${front.z ? `${front.name}: no point has less of all three` : "no point has less of both"}; open circles are not proven`;
  return [...new Set(result.pareto.map(axes))].map(same => result.pareto.filter(front => axes(front) === same)).map(fronts => make("section", { class: "pareto" }, heading("Pareto fronts", text(fronts[0])), chart(() => paretoFronts(fronts))));
}

function comparison(result) {
  if (!result.layers.some(layer => layer.view && layer.other)) return [];
  return [make("section", { id: "comparison" }, heading("Against the other result", `${label(results[1 - state.result])}, layers of the same name; below 1 this result is better`),
    legend([["latency", "accent"], ["energy", "buffer"]]), chart(() => ratios(result.layers), index => open(index, true)))];
}

start(() => show(0));
