// Draws the charts of the page, in the colours that the reader prefers, and for A4 when the page is printed.
"use strict";
(() => {
  const { themes, dark, touch, size_for, dress, lay, theme, config, load } = bytewayCharts;
  const printed_px = 680; // A4 between margins of 15 mm
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const elements = charts.map((_, index) => document.getElementById("chart-" + index));
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
