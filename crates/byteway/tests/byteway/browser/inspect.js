// What can be seen of a page's figures, and what is wrong with them.
(() => {
  const problems = [];
  const box = (element) => element.getBoundingClientRect();
  const text = (root, selector) =>
    [...root.querySelectorAll(selector)].map((element) => element.textContent).join("").trim();
  const overlap = (a, b, slack) =>
    a.left + slack < b.right && b.left + slack < a.right && a.top + slack < b.bottom && b.top + slack < a.bottom;
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > window.innerWidth) {
    problems.push(`the page is ${document.documentElement.scrollWidth} px wide in a window of ${window.innerWidth}`);
  }
  const figures = [...document.querySelectorAll(".figure")];
  for (const figure of figures) {
    const name = figure.querySelector("h3")?.textContent || "(no heading)";
    const complain = (what) => problems.push(`figure "${name}": ${what}`);
    const chart = figure.querySelector(".chart");
    const svg = figure.querySelector("svg.main-svg");
    if (!chart || !svg) {
      complain("not drawn");
      continue;
    }
    if (!chart.getAttribute("aria-label")) complain("no description for who can't see it");
    const marks = [...figure.querySelectorAll(".scatterlayer .trace, .barlayer .trace, .heatmaplayer .hm")];
    const sized = marks.filter((mark) => box(mark).width > 0 || box(mark).height > 0);
    if (marks.length === 0) complain("no marks");
    else if (sized.length === 0) complain("marks without size");
    const titles = [".xtitle", ".ytitle"].map((selector) => text(figure, selector));
    if (titles.every((title) => title === "")) complain("no axis has a title");
    for (const axis of ["x", "y"]) {
      const ticks = [...figure.querySelectorAll(`.${axis}tick text`)].filter((tick) => tick.textContent.trim());
      if (ticks.length < 2 && !text(figure, `.${axis}tick`)) complain(`the ${axis} axis has no ticks`);
      const turned = ticks.some((tick) => /rotate\(-?[1-9]/.test(tick.getAttribute("transform") || ""));
      const boxes = ticks.map(box).sort((a, b) => a.left - b.left || a.top - b.top);
      if (!turned && boxes.some((a, index) => index > 0 && overlap(boxes[index - 1], a, 1))) {
        complain(`labels of the ${axis} axis overlap`);
      }
    }
    const outer = box(svg);
    if (outer.width < 100 || outer.height < 100) complain(`only ${outer.width} x ${outer.height} px`);
    if (outer.right > width + 1 || outer.right > box(figure).right + 1) complain("does not fit its width");
    const legend = figure.querySelector(".legend");
    const area = figure.querySelector(".nsewdrag");
    if (legend && area && overlap(box(legend), box(area), 2)) complain("the legend covers the chart");
    if (area && box(area).height < 80) complain("less than 80 px are left for what it shows");
    for (const part of figure.querySelectorAll(".xtitle, .ytitle, .legendtext")) {
      const at = box(part);
      if (at.left < outer.left - 1 || at.right > outer.right + 1) complain(`"${part.textContent}" is cut off`);
    }
  }
  return { figures: figures.length, problems };
})()
