// How charts look on a page, in the colours that the reader prefers, and how the script that draws them is unpacked.
"use strict";
const bytewayCharts = (() => {
  const themes = {
    light: { ink: "#1a1d21", soft: "#5a626c", grid: "#e3e6ea", line: "#9aa2ac", paper: "#ffffff" },
    dark: { ink: "#e8eaed", soft: "#a3abb5", grid: "#2a3037", line: "#646d78", paper: "#1d2126" },
  };
  const face = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
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

  const theme = () => (dark.matches ? themes.dark : themes.light);
  const config = {
    responsive: true,
    displayModeBar: true, // shown by the style while it is pointed at
    displaylogo: false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
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
  return { themes, dark, touch, size_for, dress, lay, theme, config, load };
})();
