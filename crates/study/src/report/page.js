// Draws the charts of the page, in the colours that the reader prefers, and for A4 when the page is printed.
"use strict";
(() => {
  const themes = {
    light: { ink: "#1a1d21", soft: "#5a626c", grid: "#e3e6ea", line: "#9aa2ac", paper: "#ffffff" },
    dark: { ink: "#e8eaed", soft: "#a3abb5", grid: "#2a3037", line: "#646d78", paper: "#1d2126" },
  };
  const printed_px = 680; // A4 between margins of 15 mm
  const face = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  const touch = window.matchMedia("(pointer: coarse)");

  const size_for = (element) => (element.clientWidth < 480 ? 11 : 13);

  // What the theme and the size of its letters decide about a chart.
  const dress = (theme, size) => {
    const changes = {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      "font.family": face,
      "font.size": size,
      "font.color": theme.ink,
      "modebar.bgcolor": theme.paper,
      "modebar.color": theme.soft,
      "modebar.activecolor": theme.ink,
      "hoverlabel.bgcolor": theme.paper,
      "hoverlabel.bordercolor": theme.line,
      "hoverlabel.font.color": theme.ink,
    };
    for (const axis of ["xaxis", "yaxis"]) {
      changes[axis + ".gridcolor"] = theme.grid;
      changes[axis + ".linecolor"] = theme.line;
      changes[axis + ".zerolinecolor"] = theme.grid;
      changes[axis + ".tickcolor"] = theme.line;
      changes[axis + ".title.font.size"] = size;
    }
    return changes;
  };

  // {"a.b": 1} laid upon an object.
  const lay = (target, changes) => {
    for (const [path, value] of Object.entries(changes)) {
      const keys = path.split(".");
      const last = keys.pop();
      let at = target;
      for (const key of keys) at = at[key] = typeof at[key] === "object" ? at[key] : {};
      at[last] = value;
    }
    return target;
  };

  const elements = charts.map((_, index) => document.getElementById("chart-" + index));
  const theme = () => (dark.matches ? themes.dark : themes.light);
  const config = {
    responsive: true,
    displayModeBar: true, // shown by the style while it is pointed at
    displaylogo: false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
  };

  const draw = (chart, index) => {
    const element = elements[index];
    for (const axis of ["xaxis", "yaxis"]) {
      Object.assign(chart.layout[axis], { showline: axis === "xaxis", ticks: "outside", ticklen: 4 });
      chart.layout[axis].title.standoff = 10;
    }
    chart.layout.autosize = true;
    if (touch.matches) chart.layout.dragmode = false; // a finger that scrolls is not to zoom
    lay(chart.layout, dress(theme(), size_for(element)));
    return Plotly.newPlot(element, chart.data, chart.layout, config);
  };

  // Plotly is compressed and in base 64. It is inflated and run at once: what loads later would be missing where a page
  // is printed as soon as it has loaded.
  const load = (id) => {
    const packed = atob(document.getElementById(id).textContent);
    const bytes = fflate.gunzipSync(Uint8Array.from(packed, (letter) => letter.charCodeAt(0)));
    const script = document.createElement("script");
    script.textContent = new TextDecoder().decode(bytes);
    document.head.append(script);
  };
  const done = () => document.documentElement.setAttribute("data-drawn", charts.length);
  if (charts.length > 0) load("plotly");
  Promise.all(charts.map(draw)).then(done);

  dark.addEventListener("change", () => {
    elements.forEach((element) => Plotly.relayout(element, dress(theme(), size_for(element))));
  });
  let printing = false;
  // Paper cannot be unfolded.
  const folds = [...document.querySelectorAll("details")];
  let folded = [];
  const print = (begins) => {
    if (begins === printing) return;
    printing = begins;
    if (begins) folded = folds.filter((fold) => !fold.open);
    for (const fold of folded) fold.open = begins;
    for (const element of elements) {
      const changes = begins
        ? { ...dress(themes.light, 11), autosize: false, width: printed_px, height: element.clientHeight }
        : { ...dress(theme(), size_for(element)), autosize: true, width: null, height: null };
      Plotly.relayout(element, changes);
    }
  };
  window.addEventListener("beforeprint", () => print(true));
  window.addEventListener("afterprint", () => print(false));
})();
