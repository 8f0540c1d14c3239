// Charts, each a function from data to traces and layout; colours come from the style sheet, so that both themes have their own.

const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
// What is written on a colour: tints are pale in the light theme and deep in the dark one, all others the other way round.
const TINTS = ["idle", "PE", "ROW_BUFFER"];
// The one of the page's two that stands out more from a colour.
const luminance = hex => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => sum + weight * (parseInt(hex.slice(1 + 2 * i, 3 + 2 * i), 16) / 255) ** 2.2, 0);
const contrast = (a, b) => Math.abs(Math.log((luminance(a) + 0.05) / (luminance(b) + 0.05)));
const legible = shade => ["ink", "card"].map(colour).reduce((a, b) => contrast(a, shade) > contrast(b, shade) ? a : b);
const TENSORS = ["I", "W", "O"];
const MANY = 28;

const TIMES = [
  ["macs", "MACs on a full array", "macs"], ["idle", "idle PEs", "idle"], ["compute", "stalls, way in and out", "compute"],
  ["dram_I", "waits for DRAM: I", "I"], ["dram_W", "waits for DRAM: W", "W"], ["dram_O", "waits for DRAM: O", "O"],
  ["dram_bus", "waits for the DRAM bus", "bus"], ["bank", "waits for a shared bank", "activation"], ["pipeline", "loads that coincide", "pipeline"], ["buffers", "waits for buffers", "buffer"],
];
const ENERGIES = [
  ["MAC", "MACs", "MAC"], ["PE", "PE buffers", "PE"], ["GLOBAL_BUFFER", "global buffer", "GLOBAL_BUFFER"],
  ["ROW_BUFFER", "row buffer", "ROW_BUFFER"], ["DRAM", "DRAM accesses", "DRAM"], ["activation", "row activations", "activation"],
];
const TERMS = {
  compute: "compute", dram_I: "DRAM stream I", dram_W: "DRAM stream W", dram_O: "DRAM stream O", dram_bus: "DRAM bus",
  pipeline: "loads that coincide",
  pe: "PE buffers", global_buffer: "global buffer", row_buffer: "row buffer", interconnect: "interconnect",
  row_buffer_I: "row buffer, I", row_buffer_W: "row buffer, W",
};
const isBank = term => term.startsWith("bank_");
const termName = term => TERMS[term] ?? (isBank(term) ? `bank of ${[...term.slice(5)].join(", ")}` : term);
const termColour = term => ({ compute: "macs", dram_I: "I", dram_W: "W", dram_O: "O", dram_bus: "bus", pipeline: "pipeline" })[term] ?? (isBank(term) ? "activation" : "buffer");
const timeKey = term => TIMES.some(([key]) => key === term) ? term : isBank(term) ? "bank" : "buffers";

// A chart in the page: drawn now, and again whenever the theme changes.
const charts = new Map();
function chart(figure, click) {
  const place = make("div", { class: "chart" });
  charts.set(place, figure);
  queueMicrotask(() => plot(place).then(() => click && place.on("plotly_click", event => click(event.points[0].customdata))));
  return place;
}

function plot(place) {
  const { data, layout } = charts.get(place)();
  place.style.height = `${layout.height}px`;
  return Plotly.react(place, data, themed(layout), {
    responsive: true, displaylogo: false, modeBarButtons: [["toImage", "resetScale2d"]], toImageButtonOptions: { format: "svg", filename: "chart" },
  });
}

function redraw() {
  for (const place of charts.keys()) place.isConnected ? plot(place) : charts.delete(place);
}

function themed(layout) {
  const axis = { gridcolor: colour("grid"), linecolor: colour("line"), zerolinecolor: colour("line"), tickcolor: colour("line") };
  const axes = Object.keys(layout).filter(key => /^[xy]axis/.test(key));
  return {
    font: { family: "system-ui, 'DejaVu Sans', sans-serif", size: 12, color: colour("soft") },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, hovermode: "closest",
    margin: { l: 60, r: 16, t: 8, b: layout.xaxis.showticklabels === false ? 24 : 44 },
    hoverlabel: { bgcolor: colour("card"), bordercolor: colour("line"), font: { color: colour("ink") } },
    ...layout,
    ...Object.fromEntries(axes.map(key => [key, { ...axis, automargin: true, ...layout[key] }])),
  };
}

const numbers = unit => ({ tickformat: "~s", exponentformat: "SI", title: { text: unit, standoff: 8 }, fixedrange: false });

// An axis of plain numbers: their unit, with its prefix, is in the title.
const plainNumbers = unit => ({ ...numbers(unit), tickformat: ",.4~g" });

// Stacked bars by layer: lying with their names while few, standing while many. All results have the axis up to `peak`.
function stackedBars(layers, series, values, unit, show, isShare, peak) {
  const lying = layers.length <= MANY;
  const places = layers.map((_, i) => i);
  const sums = layers.map(layer => series.reduce((sum, [key]) => sum + (values(layer)[key] ?? 0), 0));
  const data = series.filter(([key]) => layers.some(layer => values(layer)[key])).map(([key, name, shade]) => {
    const sizes = layers.map((layer, i) => (values(layer)[key] ?? 0) / (isShare ? sums[i] || 1 : 1));
    return {
      type: "bar", name, orientation: lying ? "h" : "v", [lying ? "y" : "x"]: places, [lying ? "x" : "y"]: sizes,
      marker: { color: colour(shade) }, customdata: layers.map(layer => layer.index),
      text: layers.map((layer, i) => `<b>${escaped(layer.name)}</b><br>${name}: ${show(values(layer)[key] ?? 0)}, ${percent((values(layer)[key] ?? 0) / (sums[i] || 1))}`),
      hovertemplate: "%{text}<extra></extra>", textposition: "none",
    };
  });
  const sizes = { ...(unit === "cycles" ? numbers : plainNumbers)(isShare ? "" : unit), ...(isShare ? { tickformat: ".0%", range: [0, 1] } : peak ? { range: [0, 1.03 * peak] } : {}) };
  const names = layerAxis(layers, lying);
  return { data, layout: {
    barmode: "stack", bargap: lying ? 0.28 : 0.12, height: lying ? 62 + 27 * layers.length : 330,
    [lying ? "xaxis" : "yaxis"]: sizes, [lying ? "yaxis" : "xaxis"]: names,
  } };
}

// A section with such bars, as values or as shares; a click opens a layer.
function bars(title, text, layers, series, values, [unit, measure], show, peak) {
  let isShare = false;
  const used = series.filter(([key]) => layers.some(layer => values(layer)[key]));
  const place = chart(() => stackedBars(layers, series, values, unit, show, isShare, peak), index => open(index, true));
  return make("section", { class: "bars" },
    heading(title, text, choice("scale", [[false, measure], [true, "share"]], false, value => { isShare = value; plot(place); })),
    legend(used.map(([, name, shade]) => [name, shade])), place);
}

function layerAxis(layers, lying) {
  const few = layers.length <= 60;
  const range = [-0.5, layers.length - 0.5];
  return {
    tickvals: few ? layers.map((_, i) => i) : null, ticktext: few ? layers.map(layer => shortened(layer.name)) : null,
    showticklabels: few, ticks: few ? null : "", range: lying ? range.reverse() : range, showgrid: false, zeroline: false, fixedrange: lying, ticklabelstandoff: 4,
    title: { text: few ? "" : "layers in execution order", standoff: 6 }, tickangle: lying || layers.length <= 8 ? 0 : innerWidth < 900 ? -90 : -60,
    ...(lying || innerWidth >= 900 ? {} : { tickfont: { size: 10 } }),
  };
}

const shortened = name => escaped(name.length > 30 ? `${name.slice(0, 14)}…${name.slice(-14)}` : name);
// What the plotting library would take for markup.
const escaped = text => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

// How full the array and the buffers are: a row of cells each, a column a layer.
function fullness(layers) {
  const rows = [["PEs, of latency", d => d.latency_utilisation], ["PEs, of steps", d => d.utilisation], ...["PE", "GLOBAL_BUFFER", "ROW_BUFFER"].map(level => [places[level], d => occupancy(d, level)])];
  const z = rows.map(([, of]) => layers.map(layer => layer.view ? of(layer.view) : null));
  return { data: [{
    type: "heatmap", z, x: layers.map((_, i) => i), y: rows.map(([name]) => name), zmin: 0, zmax: 1, xgap: layers.length > 80 ? 0 : 2, ygap: 3,
    colorscale: [[0, colour("raised")], [1, colour("full")]], // the ink stands out from all shades between them
    customdata: rows.map(() => layers.map(layer => layer.index)),
    text: z.map((row, r) => row.map((value, i) => `<b>${escaped(layers[i].name)}</b><br>${rows[r][0]}: ${value === null ? "no mapping" : percent(value)}`)),
    hovertemplate: "%{text}<extra></extra>",
    colorbar: { thickness: 10, tickformat: ".0%", outlinewidth: 0, tickvals: [0, 0.5, 1] },
    ...(layers.length <= 14 ? { texttemplate: "%{z:.2~p}", textfont: { color: colour("ink") } } : {}),
  }], layout: { height: layers.length <= 60 ? 250 : 190, xaxis: layerAxis(layers, false), yaxis: { autorange: "reversed", fixedrange: true, showgrid: false } } };
}

const places = { PE: "PE buffer", GLOBAL_BUFFER: "global buffer", ROW_BUFFER: "row buffer", DRAM: "DRAM" };
function occupancy(view, level) {
  const place = view.places.find(place => place.level === level);
  return Object.values(place.held).reduce((sum, tile) => sum + tile.bytes, 0) / place.usable;
}

// One bar a row, the longest on top.
function ranked(rows, unit, show, line) {
  const sorted = rows.filter(([, value]) => value > 0).sort((a, b) => a[1] - b[1]);
  return { data: [{
    type: "bar", orientation: "h", y: sorted.map(([name]) => name), x: sorted.map(([, value]) => value),
    marker: { color: sorted.map(([, , shade]) => colour(shade)) },
    text: sorted.map(([, value]) => show(value)), textposition: "auto", cliponaxis: false, insidetextfont: { color: sorted.map(([, , shade]) => legible(colour(shade))) }, outsidetextfont: { color: colour("soft") },
    hovertemplate: "%{y}: %{text}<extra></extra>",
  }], layout: {
    height: 66 + 30 * sorted.length, bargap: 0.25, xaxis: { ...plainNumbers(unit), fixedrange: true, rangemode: "tozero" },
    yaxis: { fixedrange: true, showgrid: false, ticklabelstandoff: 4 },
    shapes: line ? [{ type: "line", x0: line, x1: line, yref: "paper", y0: 0, y1: 1, line: { color: colour("ink"), width: 1.5, dash: "dot" } }] : [],
  } };
}

// Which rows of a bank are opened in which order: how many activations of each tensor fall into each cell. The tensor
// with most rows is drawn first, so that of two tensors in one cell the smaller one is seen.
function activationMap(map) {
  const tensors = map.tensors.filter(one => one.activations).sort((a, b) => openedRows(b) - openedRows(a));
  const activations = sum(tensors.map(one => one.activations)), rows = Math.max(...tensors.map(one => one.end_row));
  const width = Math.ceil(activations / map.order_width), height = Math.ceil(rows / map.row_width);
  const grids = tensors.map(one => cellGrid(one.cells, width, height));
  const most = Math.max(...tensors.flatMap(one => one.cells.filter((_, i) => i % 3 === 2))); // one scale for all tensors
  const middles = (count, step) => Array.from({ length: count }, (_, i) => (i + 0.5) * step - 0.5);
  const span = (i, step, last) => step === 1 ? exact(i) : `${exact(i * step)}–${exact(Math.min((i + 1) * step, last) - 1)}`;
  const counts = (r, i) => tensors.flatMap((one, t) => grids[t][r][i] === null ? [] : [map.tensors.length > 1 ? `${one.tensor} ${exact(grids[t][r][i])}` : exact(grids[t][r][i])]).join(", ");
  const text = grids[0].map((row, r) => row.map((_, i) => `activations ${span(i, map.order_width, activations)}<br>rows ${span(r, map.row_width, rows)}: ${counts(r, i)}`));
  return { data: tensors.map((one, t) => ({
    type: "heatmap", name: one.tensor, z: grids[t], x: middles(width, map.order_width), y: middles(height, map.row_width), showscale: false, zmin: 0, zmax: most,
    colorscale: [[0, `${colour(one.tensor)}44`], [1, colour(one.tensor)]], hoverongaps: false, text, hovertemplate: "%{text}<extra></extra>",
  })), layout: {
    height: 240, margin: { l: 52, r: 8, t: 6, b: 42 },
    xaxis: counted("activations in order", width * map.order_width), yaxis: counted("row", height * map.row_width, true),
  } };
}

// The rows from a tensor's first one to the last one opened.
const openedRows = ({ first_row, end_row }) => Math.max(0, end_row - first_row);

// A grid of counts by row and order; null where nothing was opened. `cells` is flat: order, row, count, order, ...
function cellGrid(cells, width, height) {
  const grid = Array.from({ length: height }, () => Array(width).fill(null));
  for (let i = 0; i < cells.length; i += 3) grid[cells[i + 1]][cells[i]] = cells[i + 2];
  return grid;
}

// An axis of whole numbers from 0, never so few that a single one fills it.
function counted(title, count, isDown = false) {
  const shown = Math.max(count, 8);
  return {
    title: { text: title, standoff: 6 }, showgrid: false, zeroline: false, range: isDown ? [shown - 0.5, -0.5] : [-0.5, shown - 0.5],
    ...(shown <= 10 ? { dtick: 1 } : {}), tickformat: shown < 1000 ? "d" : "~s",
  };
}

// Where all values are one the library would show one unit to either side of it, however small it is.
function around(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return low === high && low > 0 ? { range: [0.9 * low, 1.1 * high] } : {};
}

// Best and bound over time: steps, as nothing is known between.
function progressLines(progress, unit, show) {
  const line = (name, column, shade, dash) => {
    const known = progress.filter(entry => entry[column] !== null);
    return {
      type: "scatter", mode: "lines+markers", name, x: known.map(entry => entry[0]), y: known.map(entry => entry[column]),
      line: { shape: "hv", color: colour(shade), dash, width: 2 }, marker: { size: 5 },
      text: known.map(entry => show(entry[column])), hovertemplate: `%{x:.1f} s, ${name}: %{text}<extra></extra>`,
    };
  };
  const values = progress.flatMap(([, ...both]) => both.filter(value => value !== null));
  const isShort = /J$/.test(unit) || Math.max(...values) < 1e6;
  return { data: [line("best", 1, "accent", "solid"), line("bound", 2, "compute", "dot")], layout: {
    height: 270, xaxis: { title: { text: "seconds", standoff: 6 }, rangemode: "tozero" },
    yaxis: { ...numbers(unit), ...around(values), ...(isShort ? { tickformat: ",.7~g" } : {}) },
  } };
}

// Title, scale and text of what a front may have on its axes; latencies are times where the machine has a clock.
const scaledTo = (name, units) => peak => { const [size, unit] = unitOf(peak, units); return [`${name}, ${unit}`, 1 / size, plainNumbers]; };
const inTime = clock => [peak => { const [title, scale, axis] = scaledTo("latency", TIME_UNITS)(peak / clock); return [title, scale / clock, axis]; }, value => `${duration(value / clock)} (${compact(value)} cycles)`];
const FIGURES = {
  latency_cycles: [() => ["latency, cycles", 1, numbers], value => `${compact(value)} cycles`],
  energy_fj: [scaledTo("energy", ENERGY_UNITS), energy],
  row_activations: [() => ["row activations", 1, numbers], value => `${compact(value)} activations`],
};
// Title, scale, kind of axis and text of the figure on a front's axis.
function figureOn(axis, fronts, clock) {
  const name = fronts[0][axis];
  const [scale, text] = name === "latency_cycles" && clock ? inTime(clock) : FIGURES[name] ?? [() => [escaped(name ?? ""), 1, numbers], exact];
  return [...scale(Math.max(...fronts.flatMap(front => front.points.map(point => point[axis] ?? 0)))), text];
}
// A front of two figures is a staircase; of three, alone in its chart, the third one is the colour.
function paretoFronts(fronts, clock) {
  const shades = ["accent", "W", "O", "buffer", "bus", "macs"];
  const [[xTitle, xScale, xAxis, xText], [yTitle, yScale, yAxis, yText], [zTitle, zScale, , zText]] = ["x", "y", "z"].map(axis => figureOn(axis, fronts, clock));
  const all = (axis, scale) => fronts.flatMap(front => front.points.map(point => point[axis] * scale));
  const isColoured = Boolean(fronts[0].z);
  return { data: fronts.map((front, i) => {
    const points = [...front.points].sort((a, b) => a.x - b.x);
    const shade = colour(shades[i % shades.length]);
    return {
      type: "scatter", mode: isColoured ? "markers" : "lines+markers", name: escaped(front.name), x: points.map(p => p.x * xScale), y: points.map(p => p.y * yScale),
      line: { shape: "hv", width: 1.5, color: shade },
      marker: {
        size: 9, symbol: points.map(p => p.status === "FEASIBLE" ? "circle-open" : "circle"),
        ...(isColoured ? { color: points.map(p => p.z * zScale), coloraxis: "coloraxis" } : { color: shade }),
      },
      text: points.map(p => `<b>${escaped(p.label ?? front.name)}</b><br>${xText(p.x)}, ${yText(p.y)}${isColoured ? `, ${zText(p.z)}` : ""}`),
      hovertemplate: "%{text}<extra></extra>",
    };
  }), layout: {
    height: 360, showlegend: fronts.length > 1, legend: { orientation: "h", y: 1.08 },
    xaxis: { ...xAxis(xTitle), ...around(all("x", xScale)) }, yaxis: { ...yAxis(yTitle), ...around(all("y", yScale)) },
    ...(isColoured ? { coloraxis: { colorscale: [[0, colour("W")], [1, colour("accent")]], colorbar: { title: { text: zTitle, side: "right" }, thickness: 10, outlinewidth: 0, tickformat: "~s" } } } : {}),
  } };
}

// When each resource ends, in pale, and for how long it works by then.
function endsAndBusy(rows) {
  const sorted = rows.filter(({ end }) => end > 0).sort((a, b) => a.end - b.end);
  const bar = (name, of, alpha, text) => ({
    type: "bar", orientation: "h", name, y: sorted.map(row => row.name), x: sorted.map(of),
    marker: { color: sorted.map(row => `${colour(row.shade)}${alpha}`) }, text: text ? sorted.map(row => exact(row.end)) : null, textposition: "outside", cliponaxis: false,
    outsidetextfont: { color: colour("soft") }, hovertext: sorted.map(row => `<b>${row.name}</b><br>busy ${exact(row.busy)} cycles, ends after ${exact(row.end)}`), hoverinfo: "text",
  });
  const peak = Math.max(...sorted.map(row => row.end));
  return { data: [bar("ends", row => row.end, "55", true), bar("busy", row => row.busy, "", false)], layout: {
    barmode: "overlay", height: 66 + 30 * sorted.length, bargap: 0.25, xaxis: { ...numbers("cycles"), fixedrange: true, range: [0, 1.22 * peak] },
    yaxis: { fixedrange: true, showgrid: false, ticklabelstandoff: 4 },
  } };
}

// Round numbers on both sides of 1; only powers of ten where there are many of them.
function wideMarks(low, high) {
  const powers = Array.from({ length: 25 }, (_, i) => i - 12);
  const steps = high > 1000 * low ? [1] : [1, 2, 5];
  return powers.flatMap(power => steps.map(step => Number(`${step}e${power}`))).filter(mark => mark >= low / 10 && mark <= high * 10);
}

// This result over the other, layer by layer; below 1 this one is better. A line spans where the ratio of the optima lies.
function ratios(layers, figures) {
  const lying = layers.length <= MANY;
  const dots = ({ name, shade, symbol, of, interval }) => {
    const values = layers.map(of), ends = layers.map(interval ?? (layer => [of(layer), of(layer)]));
    return {
      type: "scatter", mode: "markers", name, customdata: layers.map(layer => layer.index),
      [lying ? "x" : "y"]: values, [lying ? "y" : "x"]: layers.map((_, i) => i),
      [lying ? "error_x" : "error_y"]: {
        type: "data", symmetric: false, visible: Boolean(interval), array: ends.map(([, high], i) => high - values[i]), arrayminus: ends.map(([low], i) => values[i] - low), color: colour(shade), thickness: 1.5, width: 3,
      },
      marker: { color: colour(shade), size: lying ? 11 : 8, symbol: layers.map(layer => isProven(layer) ? symbol : `${symbol}-open`) },
      text: layers.map((layer, i) => `<b>${escaped(layer.name)}</b><br>${name}: ${change(values[i])}${ends[i][0] < ends[i][1] ? `, of the optima from ${change(ends[i][0])} to ${change(ends[i][1])}` : ""}`),
      hovertemplate: "%{text}<extra></extra>",
    };
  };
  const values = [1, ...figures.flatMap(({ of, interval }) => layers.flatMap(layer => interval ? interval(layer) : [of(layer)]))];
  const isWide = Math.max(...values) / Math.min(...values) > 2;
  const marks = isWide ? wideMarks(Math.min(...values), Math.max(...values)) : [0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.4, 1.6, 1.8, 2];
  const sizes = { type: "log", title: { text: "this result / the other", standoff: 8 }, tickvals: marks, ticktext: marks.map(mark => `${mark} ×`) };
  const one = { type: "line", line: { color: colour("ink"), width: 1, dash: "dot" } };
  return { data: figures.map(dots), layout: {
    height: lying ? 80 + 27 * layers.length : 320, [lying ? "xaxis" : "yaxis"]: sizes, [lying ? "yaxis" : "xaxis"]: layerAxis(layers, lying),
    shapes: [lying ? { ...one, x0: 1, x1: 1, yref: "paper", y0: 0, y1: 1 } : { ...one, y0: 1, y1: 1, xref: "paper", x0: 0, x1: 1 }],
  } };
}
