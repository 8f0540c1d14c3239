// Numbers as people read them, and elements of the page. Text from results only ever becomes text nodes.

function prefixed(value, steps, digits = 4) {
  const [scale, unit] = steps.find(([scale]) => Math.abs(value) >= scale) ?? steps.at(-1);
  const scaled = value / scale;
  const shown = Math.abs(scaled) >= 10 ** digits || Number.isInteger(scaled)
    ? Math.round(scaled).toLocaleString("en-US")
    : Number(scaled.toPrecision(digits)).toLocaleString("en-US", { maximumFractionDigits: 20 });
  return unit ? `${shown} ${unit}` : shown;
}

const exact = value => Math.round(value).toLocaleString("en-US");
const compact = value => value < 1e6 ? exact(value) : prefixed(value, [[1e12, "T"], [1e9, "G"], [1e6, "M"]]);
const ENERGY_UNITS = [[1e12, "mJ"], [1e9, "µJ"], [1e6, "nJ"], [1e3, "pJ"], [1, "fJ"]];
const TIME_UNITS = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
const duration = seconds => prefixed(seconds, TIME_UNITS);
const power = watts => prefixed(watts, [[1, "W"], [1e-3, "mW"], [1e-6, "µW"], [1e-9, "nW"]]);
const hertz = perSecond => prefixed(perSecond, [[1e9, "GHz"], [1e6, "MHz"], [1e3, "kHz"], [1, "Hz"]]);
const rate = perSecond => prefixed(perSecond, [[1e15, "POPS"], [1e12, "TOPS"], [1e9, "GOPS"], [1e6, "MOPS"], [1, "OPS"]]);
// The unit of an axis: the one in which its largest value has digits in front of the point.
const unitOf = (peak, units) => units.find(([size]) => peak >= size) ?? units.at(-1);
const energy = fj => prefixed(fj, ENERGY_UNITS);
const bytes = size => prefixed(size, [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]], 3);
const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;
// A ratio as a difference in percent; far from 1, where all differences look alike, as a factor.
const change = ratio => ratio >= 10 ? `× ${compact(ratio)}` : ratio > 0 && ratio <= 0.1 ? `÷ ${compact(1 / ratio)}` : ratio === 1 ? "0" : Math.abs(ratio - 1) < 5e-5 ? "< 0.01 %" : `${ratio > 1 ? "+" : "−"}${percent(Math.abs(ratio - 1), Math.abs(ratio - 1) < 0.1 ? 2 : 1)}`;
const proof = gap => gap === null ? "–" : gap === 0 ? "0" : gap < 1e-5 ? "< 0.001 %" : percent(gap, gap < 0.01 ? 3 : 1);
const plural = (count, word, many = `${word}s`) => `${exact(count)} ${count === 1 ? word : many}`;
const sum = values => values.reduce((total, value) => total + value, 0);

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  fill(element, attributes, children);
  return element;
}

function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(element, attributes, children);
  return element;
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter(child => child !== null));
}

function choice(label, options, chosen, choose) {
  const buttons = options.map(([value, text]) =>
    make("button", { type: "button", "aria-pressed": value === chosen, click: () => pick(value) }, text));
  const pick = value => {
    options.forEach(([other], i) => buttons[i].setAttribute("aria-pressed", other === value));
    choose(value);
  };
  return make("div", { class: "choice", role: "group", "aria-label": label }, buttons);
}

function legend(entries) {
  return make("div", { class: "legend" }, entries.map(([text, colour]) =>
    make("span", {}, make("i", { style: `background: var(--${colour})` }), text)));
}

// A button that offers a text as a file.
function download(label, name, text) {
  return make("button", { type: "button", class: "file", click: () => {
    const link = make("a", { href: URL.createObjectURL(new Blob([text()], { type: "text/csv" })), download: name });
    link.click();
    URL.revokeObjectURL(link.href);
  } }, label);
}

// Comma-separated values; text that a spreadsheet would run as a formula begins with an apostrophe.
function commaSeparated(rows) {
  const cell = value => {
    const text = value == null ? "" : String(value);
    const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
  };
  return rows.map(row => row.map(cell).join(",")).join("\n") + "\n";
}

function heading(title, text, ...tools) {
  return make("div", { class: "head" }, make("h2", {}, title), make("span", { class: "soft small" }, text), tools);
}
