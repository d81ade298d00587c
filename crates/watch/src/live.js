// The live page of served drives: takes ten minutes of updates when it is opened, then one each second, and draws them.
"use strict";
(() => {
  const { touch, size_for, dress, lay, theme, dark, config, load } = bytewayCharts;
  const stages = [/* stages */];
  const purposes = [/* purposes */];
  const points_max = 600;
  const drives_max = 64;
  const hues = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#808080"];
  const dashes = ["solid", "dash", "dot", "dashdot", "longdash"];
  const at = (id) => document.getElementById(id);
  const element = (name, attributes, text) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const line = (name, value, index) => ({ name, value, color: hues[index % hues.length], dash: dashes[index % dashes.length] });
  const ns = (value) => (value === null || value === undefined ? null : value / 1e9);
  const each = (names, value) => names.map((name, index) => line(name, (sample) => value(sample, index), index));
  // Title, axis, its ticks, what it shows, its lines: a name and what they show of a sample.
  const charts = [
    { title: "I/Os", axis: "per second", unit: "", ticks: "~s",
      caption: "Reads and writes that moved data.",
      lines: [line("read", (s) => s.read_ios, 0), line("write", (s) => s.write_ios, 1)] },
    { title: "Latency", axis: "time", unit: "s", ticks: "~s", log: true,
      caption: "From the doorbell to the completion, over the last second: the median, and what one of a hundred exceeds.",
      lines: [line("read, median", (s) => ns(s.read_median), 0), line("read, p99", (s) => ns(s.read_p99), 5),
              line("write, median", (s) => ns(s.write_median), 1), line("write, p99", (s) => ns(s.write_p99), 4)] },
    { title: "Write amplification", axis: "factor", unit: "", ticks: "~g",
      caption: "Bytes programmed for each byte written: over the last second, and since the start.",
      lines: [line("last second", (s) => s.write_amplification, 1), line("since the start", (s) => s.write_amplification_total || null, 0)] },
    { title: "Throughput", axis: "bytes per second", unit: "B/s", ticks: "~s",
      caption: "Data of reads and writes, as hosts see it.",
      lines: [line("read", (s) => s.read_bytes, 0), line("write", (s) => s.write_bytes, 1)] },
    { title: "Queue depth", axis: "commands", unit: "", ticks: "~g",
      caption: "Commands in flight: the mean over the second, and how many there were at its end.",
      lines: [line("mean", (s) => s.depth, 0), line("at the moment", (s) => s.outstanding, 6)] },
    { title: "Latency by stage, median", axis: "time", unit: "s", ticks: "~s", log: true,
      caption: "Of commands that spend time there: what half of them exceed. Stages are as in reports.",
      lines: each(stages, (s, index) => ns(s.stage_median[index])) },
    { title: "Latency by stage, p99", axis: "time", unit: "s", ticks: "~s", log: true,
      caption: "Of commands that spend time there: what one of a hundred exceeds.",
      lines: each(stages, (s, index) => ns(s.stage_p99[index])) },
    { title: "Link", axis: "bytes per second", unit: "B/s", ticks: "~s",
      caption: "Bytes on the wire by purpose, both directions, with headers and framing.",
      lines: each(purposes, (s, index) => s.link_bytes[index] || null) },
  ];

  // By drive: times, and the values of every line of every chart.
  let history = new Map();
  let server = null;
  let last = null;
  let updated = null; // by the page's own clock
  let over = false; // the server has said that it ends
  let chosen = null;
  let drawn = false;
  let wanted = false;
  let revision = 0; // arrays are changed in place, which Plotly would not notice

  const figures = charts.map((chart, index) => {
    const figure = element("figure", { class: "figure" });
    const place = element("div", { class: "chart", id: "chart-" + index, role: "img", "aria-label": chart.title + ": " + chart.caption });
    figure.append(element("h3", {}, chart.title), place, element("figcaption", {}, chart.caption));
    at("figures").append(figure);
    return place;
  });

  // Whole decades, with ticks that never overlap: 1 of each, or more if there are few.
  const log_axis = (lines) => {
    const [low, high] = lines.flat().reduce(([low, high], value) => (value > 0 ? [Math.min(low, value), Math.max(high, value)] : [low, high]), [Infinity, 0]);
    const [from, to] = high > 0 ? [Math.floor(Math.log10(low)), Math.floor(Math.log10(high)) + 1] : [-6, -3];
    const digits = to - from > 3 ? [1] : to - from > 1 ? [1, 3] : [1, 2, 5];
    const values = [];
    for (let decade = from; decade <= to; decade++) digits.forEach((digit) => values.push([digit, decade]));
    const units = ["ns", "us", "ms", "s"];
    const text = ([digit, decade]) => {
      const unit = Math.min(Math.max(Math.floor(decade / 3) + 3, 0), 3);
      return Number((digit * 10 ** (decade - 3 * (unit - 3))).toPrecision(1)) + " " + units[unit];
    };
    return { type: "log", range: [from, to], tickmode: "array", ticksuffix: "",
             tickvals: values.map(([digit, decade]) => digit * 10 ** decade), ticktext: values.map(text) };
  };

  const layout_of = (chart, place, lines) => {
    const axis = { showline: false, ticks: "outside", ticklen: 4, automargin: true };
    const layout = {
      autosize: true, uirevision: "kept", datarevision: ++revision, margin: { t: 8, r: 16, b: 44, l: 64 }, hovermode: "x unified",
      legend: { orientation: "h", y: -0.22, x: 0 }, showlegend: true,
      xaxis: { ...axis, showline: true, title: { text: "time since hosts can attach (s)", standoff: 10 } },
      yaxis: { ...axis, title: { text: chart.axis, standoff: 10 }, tickformat: chart.ticks, ticksuffix: chart.unit,
               rangemode: "tozero", ...(chart.log ? log_axis(lines) : {}) },
    };
    if (touch.matches) layout.dragmode = false; // a finger that scrolls is not to zoom
    return lay(layout, dress(theme(), size_for(place)));
  };

  const traces_of = (chart, kept, index) =>
    chart.lines.flatMap((one, number) => {
      const values = kept ? kept.values[index][number] : [];
      // A purpose or stage that never occurs has no line.
      if (chart.lines.length > 4 && values.every((value) => value === null)) return [];
      return [{
        type: "scatter", mode: "lines", name: one.name, x: kept ? kept.times : [], y: values, connectgaps: false,
        line: { color: one.color, dash: one.dash, width: 2 },
        hovertemplate: "%{y:" + (chart.ticks === "~g" ? ".3~g" : ".4~s") + "}" + chart.unit + "<extra>%{fullData.name}</extra>",
      }];
    });

  const draw = () => {
    wanted = false;
    const kept = history.get(chosen);
    charts.forEach((chart, index) => Plotly.react(figures[index], traces_of(chart, kept, index), layout_of(chart, figures[index], kept ? kept.values[index] : []), config));
    if (!drawn) document.documentElement.setAttribute("data-drawn", charts.length);
    drawn = true;
  };
  // A page that is not seen keeps its figures and draws none.
  const draw_soon = () => {
    if (wanted || document.hidden) return;
    wanted = true;
    requestAnimationFrame(draw);
  };

  const keep = (drive) => {
    if (!drive.sample) return;
    if (!history.has(drive.name)) {
      if (history.size >= drives_max) return;
      history.set(drive.name, { times: [], values: charts.map((chart) => chart.lines.map(() => [])) });
    }
    const kept = history.get(drive.name);
    const add = (list, value) => {
      list.push(value === undefined ? null : value);
      if (list.length > points_max) list.shift();
    };
    add(kept.times, drive.at_s);
    charts.forEach((chart, index) => chart.lines.forEach((one, number) => add(kept.values[index][number], one.value(drive.sample))));
  };

  const table_of = (table) => {
    const around = element("div", { class: "table", tabindex: "0" });
    const made = element("table", {});
    const [head, body] = [element("thead", {}), element("tbody", {})];
    const cell = (name, text, column) => element(name, column >= table.numbers_from ? { class: "number" } : {}, text);
    const top = element("tr", {});
    table.header.forEach((text, column) => {
      const made = cell("th", text, column);
      made.setAttribute("scope", "col");
      top.append(made);
    });
    head.append(top);
    for (const row of table.rows) {
      const line = element("tr", {});
      row.forEach((text, column) => line.append(cell("td", text, column)));
      body.append(line);
    }
    made.append(element("caption", {}, table.title), head, body);
    around.append(made);
    return around;
  };

  const choose = (drives) => {
    const names = drives.map((drive) => drive.name);
    const options = [...at("drive").options].map((option) => option.value);
    if (names.join("\n") !== options.join("\n")) {
      at("drive").replaceChildren(...names.map((name) => element("option", { value: name }, name)));
      if (!names.includes(chosen)) chosen = names[0] ?? null;
      at("drive").value = chosen;
      at("choice").hidden = names.length < 2;
    }
  };
  at("drive").addEventListener("change", () => {
    chosen = at("drive").value;
    draw_soon();
  });

  const say = (text, warning) => {
    if (at("said").textContent !== text) at("said").textContent = text;
    at("warning").hidden = !warning;
    if (at("warning").textContent !== warning) at("warning").textContent = warning;
  };
  const clock = () => new Date().toLocaleTimeString();
  const warning_of = (drives) => {
    const sick = drives.filter((drive) => drive.warnings.length > 0);
    return sick.map((drive) => drive.name + ": critical warning: " + drive.warnings.join(", ")).join("; ");
  };

  const show = (state, has_ended) => {
    if (server !== state.server) {
      history = new Map(); // another server has taken the place of the former
      server = state.server;
    }
    last = clock();
    updated = performance.now();
    over = has_ended;
    state.drives.forEach(keep);
    choose(state.drives);
    at("tables").replaceChildren(...state.tables.map(table_of));
    document.documentElement.toggleAttribute("data-ended", has_ended);
    document.title = "Byteway: " + state.drives.map((drive) => drive.name).join(", ");
    const each = state.drives.map((drive) => drive.name + " " + drive.state).join(", ");
    const what = state.drives.length === 1 ? "The drive has ended" : "The drives have ended";
    say(has_ended ? what + "; figures of " + last : each, warning_of(state.drives));
    draw_soon();
  };

  let events = null;
  const lost = (why) => {
    if (over) return; // what was said holds
    document.documentElement.toggleAttribute("data-ended", true);
    say(why + (last ? "; figures of " + last : ""), "");
  };
  // What the server says where it refuses updates, as when too many pages are open.
  const refusal = async () => {
    const asked = new AbortController();
    try {
      const answer = await fetch("api/events", { signal: asked.signal });
      return answer.ok ? "" : (await answer.text()).trim().slice(0, 200);
    } catch {
      return "";
    } finally {
      asked.abort();
    }
  };
  const listen = () => {
    events = new EventSource("api/events");
    // What the server has kept replaces what the page has: after an interruption it has more.
    events.addEventListener("history", (event) => {
      const before = JSON.parse(event.data);
      history = new Map();
      server = before.server;
      before.updates.forEach((drives) => drives.forEach(keep));
      if (before.updates.length > 0) choose(before.updates.at(-1));
      draw_soon();
    });
    events.addEventListener("update", (event) => show(JSON.parse(event.data), false));
    events.addEventListener("ended", (event) => show(JSON.parse(event.data), true));
    events.addEventListener("error", async () => {
      const refused = events.readyState === EventSource.CLOSED;
      lost("No connection");
      // A browser gives up where it is refused by a status.
      if (!refused) return;
      setTimeout(listen, 5000);
      const why = await refusal();
      if (why) lost("No updates: " + why);
    });
  };
  // A server that stands still, or a network that is gone, ends no connection.
  setInterval(() => {
    if (updated !== null && events.readyState === EventSource.OPEN && performance.now() - updated > 5000) lost("No update");
  }, 1000);

  load("plotly");
  draw();
  dark.addEventListener("change", draw);
  document.addEventListener("visibilitychange", draw_soon);
  // For tests: an update as the server sends it, no more of the server's, and how much is kept.
  window.byteway = {
    show,
    stop: () => events.close(),
    kept: () => [...history.values()].reduce((sum, kept) => sum + kept.times.length + kept.values.flat(2).length, 0),
  };
  listen();
})();
