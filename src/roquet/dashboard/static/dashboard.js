// Times in the reader's zone, charts, the theme, and pages that follow the cluster.
"use strict";
(() => {
  const language = document.documentElement.lang;
  // Swedish writes ISO 8601, which is read the same way everywhere.
  const moment = new Intl.DateTimeFormat("sv", {
    year: "numeric", month: "2-digit", day: "2-digit",
    hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false,
  });

  const hour = new Intl.DateTimeFormat("sv", { hour: "2-digit", minute: "2-digit", hour12: false });

  const second = new Intl.DateTimeFormat("sv", {
    hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false,
  });

  const day = new Intl.DateTimeFormat("sv", { month: "2-digit", day: "2-digit" });

  function showTimes(root) {
    for (const each of root.querySelectorAll("time[datetime]")) {
      const exact = each.getAttribute("datetime");
      each.textContent = moment.format(new Date(exact));
      each.title = exact;
    }
  }

  // Charts.

  const plots = new Map();

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function shortNumber(value) {
    if (value === null || value === undefined) return "–";
    return new Intl.NumberFormat(language, { notation: "compact", maximumFractionDigits: 1 }).format(value);
  }

  // As exact as neighbours need to differ: seconds within minutes, days beyond a day or two.
  function timesOfAxis(times) {
    const span = times.length ? times[times.length - 1] - times[0] : 0;
    const form = span > 2 * 86400 ? day : span < 600 ? second : hour;
    return times.map((each) => form.format(each * 1000));
  }

  function drawn(chart, points) {
    const place = chart.querySelector(".plot");
    const old = plots.get(chart);
    if (old) {
      old.setData(points);
      return;
    }
    const labels = chart.dataset.labels.split("|");
    const lines = [colour("--line-1"), colour("--line-2"), colour("--line-3")];
    const axis = { stroke: colour("--dim"), grid: { stroke: colour("--rule"), width: 1 }, ticks: { show: false } };
    plots.set(chart, new uPlot({
      width: place.clientWidth, height: 180, legend: { live: true }, cursor: { y: false },
      series: [{}, ...labels.map((label, index) => ({
        label, stroke: lines[index], width: 2, spanGaps: true, points: { show: false },
        fill: index === 0 ? lines[index] + "22" : undefined,
        value: (_, value) => shortNumber(value),
      }))],
      axes: [{ ...axis, values: (_, times) => timesOfAxis(times) }, { ...axis, size: 52, values: (_, values) => values.map(shortNumber) }],
      scales: { y: { range: (_, low, high) => [0, Math.max(high * 1.1, 1)] } },
    }, points, place));
  }

  async function refresh(chart) {
    const pressed = chart.querySelector("[aria-pressed=true]");
    const answer = await fetch(`${chart.dataset.chart}&span=${pressed.dataset.span}`);
    if (!answer.ok) return;
    const { points, problem } = await answer.json();
    if (!chart.isConnected) return;
    drawn(chart, points);
    const note = chart.querySelector(".problem");
    note.hidden = problem === null;
    note.textContent = problem === null ? "" : `${note.dataset.label}: ${problem}`;
  }

  function refreshCharts() {
    for (const chart of plots.keys()) if (!chart.isConnected) plots.delete(chart);
    for (const chart of document.querySelectorAll("[data-chart]")) refresh(chart).catch(() => {});
  }

  function redrawCharts() {
    for (const plot of plots.values()) plot.destroy();
    plots.clear();
    refreshCharts();
  }

  let resizing;
  addEventListener("resize", () => {
    clearTimeout(resizing);
    resizing = setTimeout(() => {
      for (const [chart, plot] of plots) plot.setSize({ width: chart.querySelector(".plot").clientWidth, height: 180 });
    }, 100);
  });

  // Clicks.

  document.addEventListener("click", (event) => {
    const span = event.target.closest("[data-span]");
    if (span) {
      for (const each of span.parentElement.children) each.removeAttribute("aria-pressed");
      span.setAttribute("aria-pressed", "true");
      refresh(span.closest("[data-chart]"));
      return;
    }
    if (event.target.closest("[data-theme-toggle]")) {
      const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      document.documentElement.dataset.theme = theme;
      localStorage.setItem("theme", theme);
      redrawCharts();
    }
    const fold = event.target.closest("[data-tree-open], [data-tree-close]");
    if (fold) foldTree(fold.dataset.treeOpen || fold.dataset.treeClose, fold.hasAttribute("data-tree-open"));
    const all = event.target.closest("[data-tick-all]");
    if (all) {
      for (const box of all.closest("form").querySelectorAll("input[name=letter]")) box.checked = all.checked;
    }
  });

  // The tree of a JSON body: found values are marked, their branches unfolded, the others hidden.

  function leavesOf(tree) {
    return tree.querySelectorAll("p, summary");
  }

  function searchTree(input) {
    const tree = document.getElementById(input.dataset.treeSearch);
    const wanted = input.value.trim().toLowerCase();
    let hits = 0;
    for (const each of tree.querySelectorAll("details, p")) each.hidden = wanted !== "";
    for (const leaf of leavesOf(tree)) {
      const isHit = wanted !== "" && leaf.textContent.toLowerCase().includes(wanted);
      leaf.classList.toggle("hit", isHit);
      if (!isHit) continue;
      hits += 1;
      const inside = leaf.matches("summary") ? leaf.parentElement : null;
      if (inside) for (const each of inside.querySelectorAll("details, p")) each.hidden = false;
      for (let node = leaf; node && node !== tree; node = node.parentElement) {
        node.hidden = false;
        if (node.matches("details")) node.open = true;
      }
    }
    input.parentElement.querySelector("[data-tree-hits]").textContent = wanted === "" ? "" : String(hits);
  }

  document.addEventListener("input", (event) => {
    if (event.target.matches("[data-tree-search]")) searchTree(event.target);
  });
  // What was typed before this script was there.
  for (const input of document.querySelectorAll("[data-tree-search]")) if (input.value !== "") searchTree(input);

  function foldTree(id, isOpen) {
    for (const each of document.getElementById(id).querySelectorAll("details details")) each.open = isOpen;
  }

  // Times of forms: shown in the zone of the reader, sent in UTC.

  function localText(date) {
    const shifted = new Date(date.getTime() - date.getTimezoneOffset() * 60000);
    return shifted.toISOString().slice(0, 16);
  }

  function localiseFields(root) {
    for (const field of root.querySelectorAll("input[data-moment]")) {
      if (field.type === "datetime-local") continue;
      const given = field.value.trim();
      const date = new Date(/(Z|[+-]\d\d:?\d\d)$/.test(given) ? given : `${given}Z`);
      if (given !== "" && Number.isNaN(date.getTime())) continue;
      field.type = "datetime-local";
      field.value = given === "" ? "" : localText(date);
      const zone = new Intl.DateTimeFormat(language, { timeZoneName: "short" }).formatToParts(given === "" ? new Date() : date);
      field.closest("label").querySelector("[data-zone]").textContent = zone.find((each) => each.type === "timeZoneName").value;
    }
  }

  document.addEventListener("formdata", (event) => {
    for (const field of event.target.querySelectorAll("input[data-moment]")) {
      if (field.type === "datetime-local" && field.value !== "") event.formData.set(field.name, new Date(field.value).toISOString());
    }
  });

  // A press of "/" leads to the filter of a page.
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, textarea, select");
    const filter = document.querySelector("[type=search]");
    if (event.key === "/" && !isTyping && filter) {
      event.preventDefault();
      filter.focus();
    }
  });

  // The page follows the cluster, unless it is hidden, or something is opened, typed, ticked or marked.

  function isBusy(live) {
    const active = document.activeElement;
    return document.hidden || (live.contains(active) && active.matches("input, textarea, select"))
      || live.querySelector("details.card[open], input[name=letter]:checked") !== null
      || !getSelection().isCollapsed;
  }

  function follow() {
    const source = new EventSource("/events");
    source.onmessage = () => {
      const live = document.getElementById("live");
      if (live.hasAttribute("hx-get") && !isBusy(live)) htmx.trigger(live, "live");
      if (!document.hidden) refreshCharts();
    };
  }

  document.addEventListener("htmx:after:swap", () => {
    showTimes(document);
    localiseFields(document);
    refreshCharts();
  });

  // On a narrow screen the pages are a row that scrolls: the current one has to be seen.
  const current = document.querySelector("nav [aria-current]");
  if (current) current.parentElement.scrollLeft = current.offsetLeft - 40;

  showTimes(document);
  localiseFields(document);
  refreshCharts();
  if (document.querySelector("nav")) follow();
})();
