// The page: one or two results, one of them shown, one of its layers open.

const results = JSON.parse(document.getElementById("results").textContent);
results.forEach((result, r) => {
  result.layers.forEach(layer => {
    const namesake = results[1 - r]?.layers.find(other => other.name === layer.name);
    layer.view = layer.detail === null ? null : result.details[layer.detail];
    layer.other = namesake?.detail == null ? null : results[1 - r].details[namesake.detail];
    layer.otherStatus = namesake?.status;
    layer.otherGap = namesake?.gap;
    const differs = part => Boolean(namesake) && String(namesake[part]) !== String(layer[part]);
    layer.hasOtherShape = differs("shape");
    layer.hasOtherWidths = differs("bytes");
    layer.names = [layer.name];
  });
  result.every = numbered(result.layers);
  result.groups = numbered(grouped(result.layers));
});
const state = { result: 0, layer: 0, isEvery: false };
const shownLayers = result => state.isEvery ? result.every : result.groups;

function numbered(layers) {
  return layers.map((layer, index) => ({ ...layer, index }));
}

// One for all layers that are equal in shape and result, named after the first.
function grouped(layers) {
  const groups = new Map();
  for (const layer of layers) {
    const key = JSON.stringify([layer.shape, layer.detail, layer.status, layer.gap, Boolean(layer.other)]);
    groups.set(key, [...groups.get(key) ?? [], layer]);
  }
  return [...groups.values()].map(equal => ({
    ...equal[0], count: sum(equal.map(layer => layer.count)), names: equal.map(layer => layer.name),
    name: equal.length > 1 ? `${equal[0].name} +${equal.length - 1}` : equal[0].name,
  }));
}

function show(number) {
  state.result = number;
  const result = results[number];
  const layers = shownLayers(result);
  const asked = decodeURIComponent(location.hash.slice(1));
  const named = layers.findIndex(layer => layer.names.includes(asked));
  document.getElementById("page").replaceChildren(
    header(result), ...notes(result), cards(result), ...overview(result), ...paretoSection(result), ...comparison(result),
    layerTable(layers, index => open(index, true), result), make("section", { id: "layer" }));
  open(named < 0 ? dearest(result) : named, false);
}

const isEveryShown = () => state.isEvery;

function showEvery(isEvery) {
  state.isEvery = isEvery;
  show(state.result);
  document.getElementById("layers").scrollIntoView({ behavior: "instant" });
}

// The layer that costs most is where a reader begins.
function dearest(result) {
  const { kind } = result.objective;
  const share = ({ latency, energy }) => kind === "energy" ? energy : kind === "edp" ? latency * energy : latency;
  const cost = layer => layer.view ? layer.count * share(layer.view) : -1;
  const layers = shownLayers(result);
  return layers.reduce((best, layer, i) => cost(layer) > cost(layers[best]) ? i : best, 0);
}

function open(index, isAsked) {
  const result = results[state.result];
  const layers = shownLayers(result);
  const count = layers.length;
  if (!count) return;
  state.layer = index;
  document.getElementById("layer").replaceWith(layerSection(layers[index], result, by => open((index + by + count) % count, true)));
  for (const row of document.querySelectorAll("tr[data-layer]")) row.setAttribute("aria-selected", Number(row.dataset.layer) === index);
  if (!isAsked) return;
  history.replaceState(null, "", `#${encodeURIComponent(layers[index].names[0])}`);
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
  const unlike = of => {
    const found = result.layers.filter(of);
    return found.length > 1 && found.length === result.layers.length ? "all layers" : found.map(layer => layer.name).join(", ");
  };
  const shapes = unlike(layer => layer.hasOtherShape), widths = unlike(layer => layer.hasOtherWidths);
  const missing = result.totals.layers - result.totals.mapped;
  return [
    result.shared,
    result.totals.interrupted && "The run was interrupted: these are the best mappings found until then.",
    missing > 0 && `Without a mapping: ${plural(missing, "layer")}. The sums leave ${missing === 1 ? "it" : "them"} out.`,
    shapes && `Of the same name, but of another shape in the other result: ${shapes}.`,
    widths && `With elements of other widths in the other result: ${widths}.`,
    stale > 0 && `The file holds other predictions for ${plural(stale, "layer")} than this version makes; this page shows this version's.`,
  ].filter(Boolean).map(text => make("p", { class: "note" }, text));
}

function totals(result, layers) {
  const total = of => sum(layers.map(layer => layer.count * of(layer)));
  const cycles = total(l => l.view.latency), fj = total(l => l.view.energy);
  const seconds = result.clock ? cycles / result.clock : null;
  return {
    cycles, energy: fj, seconds, time: seconds ?? cycles, full: total(l => l.view.cycles.macs), macs: total(l => l.macs),
    joules: fj / 1e15 + (seconds ?? 0) * result.static_power, activations: total(l => sum(l.view.activations)),
  };
}

// Cycles are compared only where both machines have a clock, then as times, or neither has.
const areTimesComparable = () => results.length > 1 && Boolean(results[0].clock) === Boolean(results[1].clock);
const commonLayers = result => result.every.filter(layer => layer.view && layer.other);

// The other result's layers that are common to both, in the form of this result's.
const asOther = layers => layers.map(layer => ({ ...layer, view: layer.other }));

function cards(result) {
  const mapped = result.every.filter(layer => layer.view);
  const own = totals(result, mapped);
  const common = results.length > 1 ? commonLayers(result) : [];
  const [mine, other] = [totals(result, common), totals(results[1 - state.result] ?? result, asOther(common))];
  const worst = Math.max(0, ...result.layers.map(layer => layer.gap ?? 0));
  const proven = sum(result.layers.map(layer => layer.status === "OPTIMAL" ? layer.count : 0));
  const card = (name, value, text) => make("div", { class: "card" }, make("span", {}, name), make("b", {}, value), make("span", {}, text));
  const where = common.length < mapped.length ? ` against the other, over ${plural(common.length, "common layer")}` : " against the other";
  const against = (figure, isComparable = true) => common.length && other[figure] && isComparable ? [changed(mine[figure] / other[figure]), where] : null;
  const isWhole = mapped.length === result.every.length;
  const latency = own.seconds === null ? [compact(own.cycles), "cycles"] : [duration(own.seconds), `${compact(own.cycles)} cycles at ${hertz(result.clock)}`];
  return make("div", { class: "cards" },
    card("Latency", latency[0], against("time", areTimesComparable()) ?? latency[1]),
    card("Energy", energy(own.energy), against("energy") ?? `${energy(own.energy / (own.macs || 1))} a MAC`),
    ...(own.seconds ? [
      card("Power", power(own.joules / own.seconds), result.static_power ? `${power(result.static_power)} of it static` : "without static power"),
      card("Throughput", rate(2 * own.macs / own.seconds), `${prefixed(2 * own.macs / own.joules / 1e12, [[1, ""]])} TOPS/W${isWhole ? ` · ${prefixed(1 / own.seconds, [[1, ""]])} runs/s` : ""}`),
    ] : []),
    card("Row activations", compact(own.activations), against("activations") ?? "of all tensors"),
    card("PE utilisation", own.cycles ? percent(own.full / own.cycles) : "–", "over the latency"),
    card("MACs", compact(result.totals.macs), plural(result.totals.layers, "layer")),
    card("Proven optimal", `${exact(proven)} of ${exact(result.totals.layers)}`, worst ? `worst gap ${proof(worst)}` : proven === result.totals.layers ? "no gap" : "no gap known"));
}

// --- All layers ---

function overview(result) {
  const layers = shownLayers(result).filter(layer => layer.view);
  if (!layers.length) return [];
  const cyclesOf = layer => Object.fromEntries(Object.entries(layer.view.cycles).map(([key, value]) => [timeKey(key), layer.count * value]));
  const energiesOf = layer => Object.fromEntries(Object.entries(layer.view.energies).map(([key, fj]) => [key, layer.count * fj]));
  const all = results.flatMap(each => shownLayers(each).filter(layer => layer.view).map(layer => [each, layer]));
  const scaled = (values, size) => layer => Object.fromEntries(Object.entries(values(layer)).map(([key, value]) => [key, value / size]));
  // All results have one axis, but one whose bars were invisible on it has its own.
  const peakOf = figure => {
    const [own, every] = [result, null].map(only => Math.max(0, ...all.filter(([each]) => !only || each === only).map(([each, layer]) => layer.count * figure(each, layer.view))));
    return every < 100 * own ? every : own;
  };
  const fjPeak = peakOf((_, view) => view.energy);
  const [fjSize, fjUnit] = unitOf(fjPeak, ENERGY_UNITS);
  const isTimed = results.every(each => each.clock);
  const timePeak = peakOf((each, view) => view.latency / (isTimed ? each.clock : 1));
  const [timeSize, timeUnit] = isTimed ? unitOf(timePeak, TIME_UNITS) : [1, "cycles"];
  const perUnit = isTimed ? timeSize * result.clock : 1;
  const peak = (value, size) => results.length > 1 ? value / size : null;
  return [
    bars("Where the time goes", "of each layer times how often it runs", layers, TIMES, scaled(cyclesOf, perUnit), [timeUnit, isTimed ? "time" : "cycles"],
      isTimed ? value => `${duration(value * timeSize)} (${compact(value * perUnit)} cycles)` : compact, areTimesComparable() ? peak(timePeak, timeSize) : null),
    bars("Where the energy goes", "of each layer times how often it runs", layers, ENERGIES, scaled(energiesOf, fjSize), [fjUnit, "energy"], value => energy(value * fjSize), peak(fjPeak, fjSize)),
    make("section", { id: "fullness" }, heading("How full it is", "PEs and lanes that work, over the latency and in compute steps; tiles over the usable part of each buffer"), chart(() => fullness(shownLayers(result)), index => open(index, true))),
  ];
}

function paretoSection(result) {
  const axes = front => `${front.x} ${front.y}${front.z ? ` ${front.z} of ${front.name}` : ""}`;
  const text = front => `${front.z ? `${front.name}: no point has less of all three` : "no point has less of both"}; open circles are not proven`;
  return [...new Set(result.pareto.map(axes))].map(same => result.pareto.filter(front => axes(front) === same)).map(fronts => make("section", { class: "pareto" }, heading("Pareto fronts", text(fronts[0])), chart(() => paretoFronts(fronts, result.clock))));
}

const isProven = layer => layer.status === "OPTIMAL" && layer.otherStatus === "OPTIMAL";

// The ratio of the optima lies here: each is at most its mapping's figure, and at least that less its gap.
function intervalOf(layer, ratio) {
  return layer.gap === null || layer.otherGap == null ? [ratio, ratio] : [ratio * (1 - layer.gap), ratio / (1 - layer.otherGap || 1)];
}

function comparison(result) {
  const layers = shownLayers(result).filter(layer => layer.view && layer.other);
  if (!layers.length) return [];
  const other = results[1 - state.result];
  const tempo = result.clock && other.clock ? other.clock / result.clock : 1;
  const kind = result.objective.kind === other.objective.kind ? result.objective.kind : null;
  const figure = (name, shade, symbol, of) => ({ name, shade, symbol, of, interval: kind === name ? layer => intervalOf(layer, of(layer)) : null });
  const figures = [
    ...(areTimesComparable() ? [figure("latency", "latency", "circle", layer => layer.view.latency / layer.other.latency * tempo)] : []),
    figure("energy", "energy", "diamond", layer => layer.view.energy / layer.other.energy),
  ];
  const basis = !areTimesComparable() ? "; latencies are not compared, as only one machine has a clock" : result.clock ? "; latencies in seconds" : "; latencies in cycles, as no machine has a clock";
  return [make("section", { id: "comparison" },
    heading("Against the other result", `${label(other)}: ${plural(commonLayers(result).length, "layer")} of the same name${basis}. Below 1 this result is better; open marks are not proven${kind ? ", lines span where the ratio of the optima lies" : ""}`),
    legend(figures.map(({ name, shade }) => [name, shade])), chart(() => ratios(layers, figures), index => open(index, true)))];
}

start(() => show(0));
