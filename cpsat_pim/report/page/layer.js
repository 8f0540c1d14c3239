// One layer: what ends last, where the energy goes, its loop nest with tiles, its DRAM rows, the solver's way.

function layerSection(layer, result, step) {
  const view = layer.view;
  const head = make("div", { class: "head" },
    make("h2", {}, layer.name, " ", make("span", { class: `pill ${layer.status}` }, layer.status)),
    make("span", { class: "soft small" }, [layer.shape, `${compact(layer.macs)} MACs`, layer.gap ? `gap ${proof(layer.gap)}` : null].filter(Boolean).join(" · ")),
    make("div", { class: "choice", role: "group", "aria-label": "other layers" },
      make("button", { type: "button", click: () => step(-1), "aria-label": "previous layer" }, "‹"),
      make("button", { type: "button", click: () => step(1), "aria-label": "next layer" }, "›")));
  if (!view) return make("section", { id: "layer" }, head, make("p", {}, "No mapping was found."), progressBlock(layer, result));
  return make("section", { id: "layer" }, head,
    make("div", { class: "columns" }, termsBlock(view), energyBlock(view)),
    make("div", { class: "block" }, make("h3", {}, "Loop nest, tiles and buffers"), nest(view)),
    make("div", { class: "columns" }, dimsBlock(view), arrayBlock(view)),
    make("div", { class: "block" }, make("h3", {}, "DRAM rows opened"), rowMaps(view)),
    progressBlock(layer, result));
}

function termsBlock(view) {
  const rows = Object.entries(view.terms).map(([term, end]) => ({ name: termName(term), end, busy: view.busy[term], shade: termColour(term) }));
  return make("div", {}, make("h3", {}, `What ends last: ${termName(view.bound)}`),
    make("p", { class: "soft small" }, `Pale: when each would end with nothing else in its way; full: how long it is busy. Predicted ${exact(view.latency)} cycles, ${view.simulated === null ? "not simulated to the end" : `simulated ${exact(view.simulated)}`}.`),
    chart(() => endsAndBusy(rows)));
}

function energyBlock(view) {
  const rows = ENERGIES.map(([key, name, shade]) => [name, view.energies[key], shade]);
  const [size, unit] = unitOf(Math.max(...rows.map(([, fj]) => fj)), ENERGY_UNITS);
  return make("div", {}, make("h3", {}, "Energy by level"),
    make("p", { class: "soft small" }, `${energy(view.energy)} a run.`),
    chart(() => ranked(rows.map(([name, fj, shade]) => [name, fj / size, shade]), unit, value => energy(value * size))));
}

// --- The nest ---

const PLACE_SHADES = ["DRAM", "ROW_BUFFER", "GLOBAL_BUFFER", "macs", "PE", "idle"];

function nest(view) {
  const bands = view.places.map((place, i) => band(place, i));
  const body = make("div", { class: "body mono", style: `margin-left: ${view.places.length * 14}px` }, "O[n,g,k,q,p] += I[n,g,c,h,w] * W[g,k,c,s,r]");
  const layout = TENSORS.map((tensor, i) => `${tensor} ${view.layout[i]}`).join(", ");
  return make("div", {},
    make("p", { class: "soft small" }, `Each picture is the tile from above, cut by this level's loops; in colour its first part. In DRAM: ${layout}${view.layout.some(order => order.startsWith("[")) ? " (in brackets: row-aligned)" : ""}.`),
    bands, body);
}

function band(place, depth) {
  const loops = place.loops.map(([dim, factor, over], i) => [" ".repeat(i), over ? "parallel-for " : "for ", make("em", {}, dim), ` in [0:${factor})`, over && over !== "INTERNAL" ? `  over ${over}` : "", "\n"]);
  return make("div", { class: "place", style: `margin-left: ${depth * 14}px; --of: var(--${PLACE_SHADES[depth]})` },
    make("div", {}, make("b", {}, place.title), make("pre", {}, loops.flat().length ? loops.flat() : make("span", { class: "soft" }, "no loops"))),
    make("div", { class: "small" }, place.held ? store(place) : ""),
    make("div", { class: "tiles" }, TENSORS.map(tensor => tile(tensor, place))));
}

function store(place) {
  const used = sum(Object.values(place.held).map(tile => tile.bytes));
  const parts = Object.entries(place.held).map(([tensor, tile]) =>
    make("i", { style: `width: ${100 * tile.bytes / place.usable}%; background: var(--${tensor})`, title: `${tensor}: ${bytes(tile.bytes)}` }));
  const half = place.usable < place.capacity ? ` (half of ${bytes(place.capacity)}, double buffered)` : "";
  const own = place.separate ? `: ${Object.entries(place.separate).map(([tensor, size]) => `${tensor} ${bytes(size)}`).join(", ")}` : "";
  const limit = `${bytes(place.usable)}${half}${own}`;
  const held = Object.entries(place.held).map(([tensor, tile]) => `${tensor} ${bytes(tile.bytes)}`).join(", ");
  return [
    make("span", {}, held || make("span", { class: "soft" }, "holds no tile")),
    make("div", { class: "full", role: "img", "aria-label": `${percent(used / place.usable)} full` }, parts),
    make("span", { class: "soft" }, used ? `${percent(used / place.usable)} of ${limit}` : limit),
  ];
}

const SIDE = 44, MOST = 12;
function tile(tensor, place) {
  const [across, down] = place.cuts[tensor];
  const [columns, rows] = [Math.min(across, MOST), Math.min(down, MOST)];
  const [w, h] = [SIDE / columns, SIDE / rows];
  const lines = [
    ...Array.from({ length: columns - 1 }, (_, i) => `M${(i + 1) * w} 0V${SIDE}`), ...Array.from({ length: rows - 1 }, (_, i) => `M0 ${(i + 1) * h}H${SIDE}`),
  ].join("");
  const picture = draw("svg", { width: SIDE + 2, height: SIDE + 2, viewBox: `-1 -1 ${SIDE + 2} ${SIDE + 2}`, role: "img", "aria-label": `${tensor}: ${across} by ${down} parts` },
    draw("rect", { width: SIDE, height: SIDE, rx: 2, fill: "none", stroke: `var(--${tensor})`, "stroke-width": 1.2 }),
    draw("rect", { width: w, height: h, fill: `var(--${tensor})` }),
    draw("path", { d: lines, stroke: `var(--${tensor})`, "stroke-width": 0.6, opacity: 0.8 }));
  const uncut = across * down === 1;
  return make("div", { class: uncut ? "idle" : "" }, picture, `${tensor} ${uncut ? "whole" : `${exact(across)} × ${exact(down)}`}`);
}

// --- Factors, array ---

const FACTOR_PLACES = ["DRAM", "row buffer", "global buffer", "PE array", "PE", "lanes"];

function dimsBlock(view) {
  const rows = Object.entries(view.dims).map(([dim, factors]) => make("div", { class: "dim" },
    make("b", { class: "mono" }, `${dim} ${exact(factors.reduce((a, b) => a * b))}`),
    make("div", {}, factors.map((factor, i) => factor === 1 ? null : make("i", {
      class: TINTS.includes(PLACE_SHADES[i]) ? "tint" : null, style: `flex: ${Math.log2(factor)} 1 0; background: var(--${PLACE_SHADES[i]})`, title: `${dim}: ${factor} in ${FACTOR_PLACES[i]}`,
    }, String(factor))))));
  return make("div", {}, make("h3", {}, "How each bound is split"), legend(FACTOR_PLACES.map((name, i) => [name, PLACE_SHADES[i]])), rows);
}

function arrayBlock(view) {
  const { rows, columns, lanes, H, W, INTERNAL } = view.array;
  const cell = Math.max(3, Math.min(16, Math.floor(420 / columns), Math.floor(260 / rows)));
  const gap = cell > 6 ? 2 : 0.6;
  const square = (i, share, shade) => draw("rect", {
    x: i % columns * cell, y: Math.floor(i / columns) * cell, width: (cell - gap) * share, height: cell - gap, rx: cell > 6 ? 2 : 0, fill: `var(--${shade})`,
  });
  const all = Array.from({ length: rows * columns }, (_, i) => i);
  const busy = all.filter(i => Math.floor(i / columns) < H && i % columns < W);
  const squares = [...all.map(i => square(i, 1, "line")), ...busy.map(i => square(i, INTERNAL / lanes, "macs"))];
  return make("div", { class: "array" }, make("h3", {}, `PE array: ${percent(view.utilisation)} of its MACs in compute steps`),
    make("p", { class: "soft small" }, `${percent(view.latency_utilisation)} over the latency. ${H} of ${rows} rows, ${W} of ${columns} columns, ${INTERNAL} of ${plural(lanes, "lane")} a PE; ${view.flow} dataflow.`),
    draw("svg", { width: columns * cell, height: rows * cell, viewBox: `0 0 ${columns * cell} ${rows * cell}`, role: "img", "aria-label": "PEs in use" }, squares));
}

// --- DRAM rows, solver ---

function rowMaps(view) {
  if (!view.maps) return make("p", { class: "soft small" }, "Not drawn: the simulation did not reach its end within the time limit.");
  return make("div", { class: "thirds" }, view.maps.map(map => make("div", {},
    map.tensors.length > 1 ? make("p", { class: "small soft" }, `${map.tensors.map(one => one.tensor).join(", ")} share a bank, each in rows of its own`) : "",
    map.tensors.map(one => openings(one, view, map.tensors.length > 1)),
    map.tensors.some(one => one.activations) ? chart(() => activationMap(map)) : "")));
}

// A line of text on a tensor's rows, with its colour where several are in one picture.
function openings(one, view, isShared) {
  const i = TENSORS.indexOf(one.tensor);
  const counts = `${plural(one.activations, "activation")} in ${plural(openedRows(one), "row")}, ${plural(view.columns[i], "column access", "column accesses")}`;
  return make("p", { class: "small" }, isShared ? make("i", { class: "swatch", style: `background: var(--${one.tensor})` }) : "", make("b", {}, one.tensor), ` ${view.layout[i]}: `,
    make("span", { class: "soft" }, one.activations ? counts : "no activations"));
}

function progressBlock(layer, result) {
  if (!layer.progress.length) return null;
  const isEnergy = result.objective.kind === "energy";
  const peak = Math.max(...layer.progress.flatMap(([, ...values]) => values.map(value => value ?? 0)));
  const [energySize, energyUnit] = unitOf(peak, ENERGY_UNITS);
  const [unit, size] = { energy: [energyUnit, energySize], latency: ["cycles", 1], edp: ["cycles × nJ", 1e6] }[result.objective.kind] ?? ["objective", 1];
  const scaled = layer.progress.map(([s, ...values]) => [s, ...values.map(value => value === null ? null : value / size)]);
  return make("div", { class: "block" }, make("h3", {}, "The solver's best and bound"), legend([["best mapping so far", "accent"], ["nothing is better than", "compute"]]),
    chart(() => progressLines(scaled, unit, value => isEnergy ? energy(value * size) : compact(value))));
}
