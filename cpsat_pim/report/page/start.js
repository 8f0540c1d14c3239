// Light or dark, and the start of a page: the plotting library is unpacked, then the page is drawn.

const theme = () => document.documentElement.dataset.theme;

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  redraw();
}

async function loadPlotting() {
  const packed = Uint8Array.from(atob(document.getElementById("plotting").textContent), char => char.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  document.head.append(make("script", {}, await new Response(stream).text()));
}

const dark = matchMedia("(prefers-color-scheme: dark)");
document.documentElement.dataset.theme = dark.matches ? "dark" : "light";
dark.addEventListener("change", () => { setTheme(dark.matches ? "dark" : "light"); });
function start(draw) {
  loadPlotting().then(draw).catch(error => {
    document.getElementById("page").textContent = `The report could not be drawn: ${error}`;
    throw error;
  });
}
