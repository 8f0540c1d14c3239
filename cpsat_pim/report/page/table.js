// The table of layers: a heading sorts, words and a choice filter, a row opens its layer.

const COLUMNS = [
  ["layer", layer => layer.name, layer => layer.name, "left"],
  ["×", layer => layer.count, layer => exact(layer.count)],
  ["cycles", layer => layer.view?.latency, layer => exact(layer.view.latency)],
  ["energy", layer => layer.view?.energy, layer => energy(layer.view.energy)],
  ["ends last", layer => layer.view && termName(layer.view.bound), layer => termName(layer.view.bound), "left"],
  ["util. latency", layer => layer.view?.latency_utilisation, layer => percent(layer.view.latency_utilisation)],
  ["util. steps", layer => layer.view?.utilisation, layer => percent(layer.view.utilisation)],
  ["activations", layer => layer.view && sum(layer.view.activations), layer => exact(sum(layer.view.activations))],
  ["flow", layer => layer.view?.flow, layer => layer.view.flow, "left"],
  ["status", layer => layer.status, layer => make("span", { class: `pill ${layer.status}` }, layer.status), "left"],
  ["gap", layer => layer.gap, layer => proof(layer.gap)],
  ["sim.", layer => layer.view?.simulated == null ? null : layer.view.simulated / layer.view.latency, layer => change(layer.view.simulated / layer.view.latency)],
  ["s", layer => layer.solve_seconds, layer => layer.solve_seconds.toFixed(1)],
];
// Titles that say the unit of the bare number.
const CSV_TITLES = { "×": "count", energy: "energy_fj", time: "time_s", s: "solve_seconds", "sim.": "simulated_over_predicted" };
const timeColumn = clock => ["time", layer => layer.view && layer.view.latency / clock, layer => duration(layer.view.latency / clock)];

function comparedColumns(result) {
  const other = results[1 - state.result];
  const tempo = result.clock && other?.clock ? other.clock / result.clock : 1;
  const column = (title, of) => [title, layer => layer.other && layer.view && of(layer), layer => changed(of(layer))];
  return [
    ...(areTimesComparable() ? [column(result.clock ? "Δ time" : "Δ cycles", layer => layer.view.latency / layer.other.latency * tempo)] : []),
    column("Δ energy", layer => layer.view.energy / layer.other.energy),
  ];
}

function columnsOf(layers, result) {
  const figures = result.clock ? [...COLUMNS.slice(0, 3), timeColumn(result.clock), COLUMNS[3]] : COLUMNS.slice(0, 4);
  const others = COLUMNS.slice(4);
  if (!layers.some(layer => layer.other)) return [...figures, ...others];
  // What the comparison needs room for.
  return [...figures, ...comparedColumns(result), ...others.filter(([title]) => title !== "sim." && title !== "s")];
}

const changed = ratio => make("span", { class: ratio < 1 ? "better" : ratio > 1 ? "worse" : "" }, change(ratio));

function layerTable(layers, open, result) {
  const columns = columnsOf(layers, result);
  const state = { column: null, descending: false, words: "", kept: "" };
  const rows = layers.map(layer => tableRow(layer, columns, open));
  const body = make("tbody", {}, rows);
  const shown = make("span", { class: "soft small", "aria-live": "polite" });
  const heads = columns.map(([title, , , side]) => make("th", { class: side ?? "", scope: "col", "aria-sort": "none" },
    make("button", { type: "button", click: () => sortBy(title) }, title)));

  function sortBy(title) {
    const column = columns.findIndex(([other]) => other === title);
    state.descending = state.column === column && !state.descending;
    state.column = column;
    heads.forEach((head, i) => head.setAttribute("aria-sort", i !== column ? "none" : state.descending ? "descending" : "ascending"));
    update();
  }

  function update() {
    const order = layers.map((_, i) => i);
    if (state.column !== null) order.sort(by(columns[state.column][1], state.descending));
    const kept = order.filter(i => matches(rows[i], layers[i]));
    body.replaceChildren(...kept.map(i => rows[i]));
    const all = sum(layers.map(layer => layer.names.length));
    const different = all > layers.length ? `, ${exact(layers.length)} different` : "";
    shown.textContent = kept.length === layers.length ? `${plural(all, "layer")}${different}` : `${exact(sum(kept.map(i => layers[i].names.length)))} of ${plural(all, "layer")}`;
  }

  const by = (value, descending) => (i, j) => {
    const [a, b] = [value(layers[i]), value(layers[j])];
    if (a == null || b == null) return (a == null) - (b == null);
    return (a < b ? -1 : a > b ? 1 : 0) * (descending ? -1 : 1);
  };

  function matches(row, layer) {
    const text = `${row.textContent} ${layer.names.join(" ")} ${layer.shape}`.toLowerCase();
    return state.words.toLowerCase().split(/\s+/).every(word => text.includes(word))
      && (!state.kept || layer.status === state.kept || layer.view?.bound === state.kept);
  }

  const tools = make("div", { class: "tools" },
    make("input", { type: "search", placeholder: "name, shape, flow …", "aria-label": "filter layers by words", input: event => { state.words = event.target.value; update(); } }),
    result.groups.length < result.every.length ? choice("rows", [[false, "different layers"], [true, "every layer"]], isEveryShown(), showEvery) : null,
    download("CSV", `${result.network}.csv`, () => commaSeparated([columns.map(([title]) => CSV_TITLES[title] ?? title), ...layers.map(layer => columns.map(([, value]) => value(layer)))])),
    filterChoice(layers, value => { state.kept = value; update(); }));
  update();
  return make("section", { id: "layers" },
    make("div", { class: "head" }, make("h2", {}, "Layers"), make("span", { class: "small" }, shown), tools),
    make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, heads)), body)));
}

function tableRow(layer, columns, open) {
  const cells = columns.map(([, value, show, side], i) =>
    make("td", { class: side ?? "", title: i === 0 ? `${layer.names.join(", ")}: ${layer.shape}` : null }, value(layer) == null ? "–" : show(layer)));
  return make("tr", {
    tabindex: 0, "data-layer": layer.index, click: () => open(layer.index),
    keydown: event => { if (event.key === "Enter") open(layer.index); },
  }, cells);
}

function filterChoice(layers, choose) {
  const option = (value, text) => make("option", { value }, text);
  const found = values => [...new Set(values.filter(Boolean))].sort();
  return make("select", { "aria-label": "filter layers by status or bound", change: event => choose(event.target.value) },
    option("", "all layers"),
    make("optgroup", { label: "status" }, found(layers.map(l => l.status)).map(status => option(status, status.toLowerCase()))),
    make("optgroup", { label: "ends last" }, found(layers.map(l => l.view?.bound)).map(bound => option(bound, termName(bound)))));
}
