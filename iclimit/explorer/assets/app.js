"use strict";
// The explorer: which panel is shown, its state, its link and what is drawn from it.
//
// A panel is {id, name, title, intro, guide, controls, compute(state)}.  The guide lists steps to try,
// [text, values].  compute returns {charts, summary, python, formulas} and, if it needs them, a note
// and what is computed later.

const explorer = {
  panels: [],
  states: {},
  data: JSON.parse(document.getElementById("data").textContent),

  add: (panel) => explorer.panels.push(panel),

  // Value of a function of the theory, its arguments taken by name.
  value: (name, values) => theory[name](...explorer.arguments(name, values)),

  arguments: (name, values) => theory.meta[name].arguments.map((argument) => values[argument]),

  curve: (name, values, axis, x) => theory.curve(name, explorer.arguments(name, values), axis, x),

  // The same as a Python call, an array for the axis being a variable of its name.
  call(name, values, ...axes) {
    const given = theory.meta[name].arguments.filter((each) => values[each] !== undefined || axes.includes(each));
    const keywords = given.map((each) => `${each}=${axes.includes(each) ? each : numbers.python(values[each])}`);
    return theory.meta[name].python.replace("{}", keywords.join(", "));
  },

  defaults(panel) {
    const own = panel.controls.filter((control) => !control.presets);
    return { ...Object.fromEntries(own.map((control) => [control.name, control.value])), axes: "" };
  },

  link(panel) {
    const values = Object.entries(explorer.states[panel.id]).filter(([name, value]) => name !== "axes" || value);
    const parts = values.map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
    return `#${[`panel=${panel.id}`, ...parts].join("&")}`;
  },

  // Panel and state that a link asks for.
  follow(link) {
    const asked = new URLSearchParams(link.slice(1));
    const panel = explorer.panels.find((each) => each.id === asked.get("panel")) ?? explorer.panels[0];
    const hints = panel.controls.map((control) => {
      const text = asked.get(control.name);
      if (text === null) return "";
      const [value, hint] = controls.parse(control, text, explorer.states[panel.id]);
      explorer.states[panel.id][control.name] = value;
      return hint;
    });
    if (asked.has("axes")) explorer.states[panel.id].axes = axes.write(axes.parse(asked.get("axes")));
    if (explorer.panel !== panel) explorer.open(panel);
    else explorer.update();
    explorer.widgets.forEach((widget, i) => widget.say?.(hints[i]));
  },

  open(panel) {
    explorer.panel = panel;
    explorer.charts?.forEach((chart) => chart.destroy());
    explorer.charts = [];
    explorer.ends = [];
    for (const link of document.querySelectorAll("nav a")) {
      if (link.dataset.panel === panel.id) {
        link.setAttribute("aria-current", "page");
        link.parentElement.scrollLeft = link.offsetLeft - link.parentElement.offsetWidth / 3; // on a telephone
      } else link.removeAttribute("aria-current");
    }
    const byId = (id) => document.getElementById(id);
    byId("title").textContent = panel.title;
    byId("intro").textContent = panel.intro;
    byId("charts").replaceChildren();
    byId("guide").replaceChildren(...panel.guide.map(([text, values]) => {
      const button = controls.element("button", { type: "button" }, text);
      button.addEventListener("click", () => change(values));
      return controls.element("li", {}, button);
    }));
    const change = (name, value) => {
      const isSlider = panel.controls.some((control) => control.name === name && controls.isSlider(control));
      Object.assign(explorer.states[panel.id], typeof name === "string" ? { [name]: value } : name, isSlider ? {} : { axes: "" });
      explorer.later();
    };
    explorer.widgets = panel.controls.map((control) => controls.build(control, panel, change));
    byId("controls").replaceChildren(...explorer.widgets.map((widget) => widget.root));
    explorer.update();
  },

  // Once per frame, however many events there are.
  later() {
    explorer.frame ??= requestAnimationFrame(() => {
      explorer.frame = null;
      explorer.update();
    });
  },

  update() {
    const { panel } = explorer;
    const state = explorer.states[panel.id];
    panel.correct?.(state);
    panel.controls.forEach((control, i) => {
      explorer.widgets[i].root.hidden = control.when ? !control.when(state) : false;
      if (!control.presets) explorer.widgets[i].show(state[control.name], state);
    });
    const started = performance.now();
    const result = panel.compute(state);
    explorer.computed = performance.now() - started;
    explorer.show(result);
    workers.drop();
    clearTimeout(explorer.refining);
    explorer.refining = setTimeout(explorer.refine, 30);
  },

  // What a result leaves for a pause: its map on all points, by workers.
  refine() {
    clearTimeout(explorer.refining);
    const { finer } = explorer.result;
    if (finer) workers.fill(finer.grids, (found) => explorer.show(finer.finish(found)));
  },

  show(result) {
    explorer.result = result;
    explorer.draw(result);
    document.querySelector("#python code").textContent = python.script(result);
    const link = document.getElementById("link");
    link.href = explorer.link(explorer.panel);
    explorer.note(result.note ?? "");
    clearTimeout(explorer.settling);
    explorer.settling = setTimeout(explorer.rest, 180);
  },

  // What can wait until the parameters rest: text, table and address.
  rest() {
    clearTimeout(explorer.settling);
    const { result } = explorer;
    document.getElementById("summary").textContent = result.summary;
    const names = explorer.distinct(result.formulas);
    const key = names.join();
    if (key !== explorer.shown) {
      explorer.shown = key;
      explorer.formulas(names);
    }
    explorer.table();
    history.replaceState(null, "", document.getElementById("link").href);
  },

  note(text) {
    const note = document.getElementById("note");
    note.textContent = text;
    note.hidden = !text;
  },

  // Set ends of the axes of a chart, or all automatically.
  zoom(number, ends) {
    const state = explorer.states[explorer.panel.id];
    const ranges = axes.parse(state.axes);
    for (const name of ["x", "y"]) {
      if (ends === null) delete ranges[`${number}${name}`];
      else if (ends[name]) ranges[`${number}${name}`] = ends[name].map((end) => Number(end.toPrecision(4)));
    }
    state.axes = axes.write(ranges);
    explorer.later();
  },

  draw(result) {
    const state = explorer.states[explorer.panel.id];
    explorer.specs = result.charts.map((spec, i) => axes.apply(axes.withPins(spec, explorer.panel, state, i), state, i));
    document.getElementById("unpin").hidden = !axes.pinned(explorer.panel, state).length;
    document.getElementById("pin").hidden = !result.charts.some((spec) => spec.lines?.length);
    const place = document.getElementById("charts");
    while (explorer.charts.length > result.charts.length) {
      explorer.charts.pop().destroy();
      explorer.ends.pop();
      place.lastElementChild.remove();
    }
    while (explorer.charts.length < result.charts.length) {
      const make = controls.element;
      const body = make("div", { className: "chart", tabIndex: 0, role: "group" });
      const parts = [make("h3"), make("div", { className: "legend" }), body, make("p", { className: "readout" }, charts.HINT)];
      const number = explorer.charts.length;
      explorer.ends.push(axes.widget((ends) => explorer.zoom(number, ends)));
      place.append(make("section", { className: "figure" }, ...parts, explorer.ends.at(-1).root));
      explorer.charts.push(charts.create(body, (ends) => explorer.zoom(number, ends)));
    }
    place.classList.toggle("two", result.charts.length > 1);
    explorer.specs.forEach((spec, i) => {
      const section = place.children[i];
      section.querySelector("h3").textContent = spec.title;
      section.querySelector(".chart").setAttribute("aria-label", `${spec.title}; arrow keys read values`);
      explorer.charts[i].update(spec);
      const legend = charts.legend(spec);
      const old = section.querySelector(".legend");
      if (old.dataset.content !== legend) {
        old.innerHTML = legend;
        old.dataset.content = legend;
      }
    });
    // Charts have their axes after the task.
    const { specs } = explorer;
    queueMicrotask(() => queueMicrotask(() => {
      if (specs === explorer.specs) explorer.ranges().forEach((ranges, i) => explorer.ends[i].show(specs[i], ranges));
    }));
  },

  // Functions that are given by one formula show it once.
  distinct(names) {
    const texts = names.map((name) => explorer.data.formulas[name]?.latex);
    return names.filter((_, i) => texts[i] && texts.indexOf(texts[i]) === i);
  },

  formulas(names) {
    const make = controls.element;
    const parts = names.map((name) => {
      const { mathml, latex, title, source, symbols, page } = explorer.data.formulas[name];
      const math = make("div", { className: "math", tabIndex: 0, role: "group" });
      math.setAttribute("aria-label", `Formula of ${title}`);
      math.innerHTML = mathml;
      const text = make("pre", { tabIndex: 0 }, make("code", {}, latex));
      const details = make("details", {}, make("summary", {}, "LaTeX"), text);
      const meanings = make("ul", { className: "symbols" }, ...symbols.map(([symbol, meaning]) => {
        const term = make("span");
        term.innerHTML = symbol;
        return make("li", {}, term, make("span", {}, meaning));
      }));
      return make("article", {}, make("h4", {}, title), math, meanings, explorer.origin(source, page), details);
    });
    document.getElementById("formulas").replaceChildren(...parts);
    // Long formulas are drawn smaller, down to three quarters, before they are scrolled.
    for (const math of document.querySelectorAll("#formulas .math")) {
      const share = math.clientWidth / math.scrollWidth;
      if (share < 1) math.style.fontSize = `${Math.max(share * 0.99, 0.75) * parseFloat(getComputedStyle(math).fontSize)}px`;
    }
  },

  // Where a formula is derived, and the module that computes it.
  origin(source, page) {
    const make = controls.element;
    const line = make("p", { className: "origin" });
    if (page) {
      const [path, title] = page;
      const { docs } = explorer.data;
      const name = docs
        ? make("a", { href: `${docs}theory/${path}.html`, target: "_top" }, title)
        : make("span", {}, `“${title}” (theory/${path} in the documentation)`);
      line.append("Derivation: ", name, ". ");
    }
    line.append("Module: ", make("code", {}, source));
    return line;
  },

  rows() {
    const rows = [["series", "x", "y", "standard error"]];
    for (const spec of explorer.result.charts) {
      for (const set of [...(spec.lines ?? []), ...(spec.points ?? [])]) {
        set.x.forEach((x, i) => rows.push([set.label, x, set.y[i], set.error?.[i] ?? ""]));
      }
      for (const set of spec.bars ?? []) {
        set.heights.forEach((y, i) => rows.push([set.label, (set.edges[i] + set.edges[i + 1]) / 2, y, ""]));
      }
      if (spec.heat) {
        const { columns, rows: lines, values, x, y } = spec.heat;
        for (let row = 0; row < lines; row++) {
          for (let i = 0; i < columns; i++) rows.push([`${spec.y.symbol ?? spec.y.short} = ${numbers.show(y[row])}`, x[i], values[row * columns + i], ""]);
        }
      }
    }
    return rows;
  },

  // The table shows some twenty rows of each series; the file has all.
  table() {
    const details = document.getElementById("table");
    if (!details.open) return;
    const [head, ...rows] = explorer.rows();
    const step = Math.max(1, Math.ceil(rows.length / 120));
    const make = controls.element;
    const cell = (value) => (typeof value === "string" ? value : numbers.show(value, 6));
    const header = make("tr", {}, ...head.map((text) => make("th", { scope: "col" }, text)));
    const body = rows
      .filter((_, i) => i % step === 0)
      .map((row) => make("tr", {}, ...row.map((value) => make("td", {}, cell(value)))));
    const table = make("table", {}, make("thead", {}, header), make("tbody", {}, ...body));
    details.querySelector(".rows").replaceChildren(table);
  },

  // Ends of the axes of all charts, as they are shown.
  ranges: () => explorer.charts.map(({ plot }) => Object.fromEntries(["x", "y"].map((name) => [name, [plot.scales[name].min, plot.scales[name].max]]))),

  // A file for the reader to keep.
  download(blob, ending) {
    const url = URL.createObjectURL(blob);
    controls.element("a", { href: url, download: `iclimit-${explorer.panel.id}.${ending}` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  },

  async savePicture(ending) {
    const svg = picture.svg(explorer.specs, explorer.ranges());
    explorer.download(ending === "svg" ? new Blob([svg], { type: "image/svg+xml" }) : await picture.png(svg), ending);
  },

  saveNumbers() {
    const quote = (value) => (typeof value === "string" ? `"${value.replaceAll('"', '""')}"` : value);
    const text = explorer.rows().map((row) => row.map(quote).join()).join("\n");
    explorer.download(new Blob([`${text}\n`], { type: "text/csv" }), "csv");
  },

  // What the browser keeps for the next visit, where it keeps anything.
  memory(name, value) {
    try {
      if (value !== undefined) localStorage.setItem(`iclimit-${name}`, value);
      return localStorage.getItem(`iclimit-${name}`);
    } catch {
      return null;
    }
  },

  async copy(button, text) {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select it and press Ctrl+C";
    }
    setTimeout(() => { button.textContent = button.dataset.text; }, 1500);
  },

  start() {
    const nav = document.querySelector("nav");
    for (const panel of explorer.panels) {
      explorer.states[panel.id] = explorer.defaults(panel);
      const link = controls.element("a", { href: `#panel=${panel.id}` }, panel.name);
      link.dataset.panel = panel.id;
      nav.append(link);
    }
    const root = document.documentElement;
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const theme = document.getElementById("theme");
    const paint = (isDark) => {
      root.dataset.theme = isDark ? "dark" : "light";
      theme.textContent = isDark ? "Light" : "Dark";
      theme.setAttribute("aria-label", `Switch to ${isDark ? "light" : "dark"} colours`);
      explorer.charts?.forEach((chart) => chart.redraw());
    };
    const remembered = explorer.memory("theme");
    paint(remembered ? remembered === "dark" : dark.matches);
    dark.addEventListener("change", () => explorer.memory("theme") || explorer.framed || paint(dark.matches));
    // A page that holds the explorer in a frame says which colours it has.
    addEventListener("message", ({ source, data }) => {
      if (source !== parent || !["light", "dark"].includes(data?.theme)) return;
      explorer.framed = true;
      paint(data.theme === "dark");
    });
    theme.addEventListener("click", () => {
      paint(root.dataset.theme !== "dark");
      explorer.memory("theme", root.dataset.theme);
    });
    // Paper is light.
    let wasDark = false;
    addEventListener("beforeprint", () => {
      wasDark = root.dataset.theme === "dark";
      paint(false);
    });
    addEventListener("afterprint", () => paint(wasDark));
    for (const button of document.querySelectorAll("[data-copy]")) {
      button.dataset.text = button.textContent;
      const source = { python: () => python.script(explorer.result), link: () => document.getElementById("link").href };
      button.addEventListener("click", () => explorer.copy(button, source[button.dataset.copy]()));
    }
    document.getElementById("reset").addEventListener("click", () => {
      explorer.states[explorer.panel.id] = explorer.defaults(explorer.panel);
      explorer.update();
    });
    document.getElementById("save").addEventListener("click", explorer.saveNumbers);
    document.getElementById("pin").addEventListener("click", () => {
      const { panel, states, result } = explorer;
      axes.pin(panel, states[panel.id], result.charts);
      explorer.draw(result);
    });
    document.getElementById("unpin").addEventListener("click", () => {
      axes.pins = [];
      explorer.draw(explorer.result);
    });
    for (const button of document.querySelectorAll("[data-picture]")) {
      button.addEventListener("click", () => explorer.savePicture(button.dataset.picture));
    }
    document.getElementById("table").addEventListener("toggle", explorer.table);
    // On narrow screens the first chart stays in view as long as there are controls below it.
    const [side, place] = [document.querySelector(".side"), document.getElementById("charts")];
    const pin = () => {
      const height = place.firstElementChild.offsetHeight;
      place.classList.toggle("pinned", side.getBoundingClientRect().bottom > height + 40);
    };
    addEventListener("scroll", pin, { passive: true });
    addEventListener("hashchange", () => explorer.follow(location.hash));
    let width = innerWidth;
    addEventListener("resize", () => {
      if (width === innerWidth) return; // a phone's address bar changes only the height
      width = innerWidth;
      explorer.charts.forEach((chart) => chart.redraw());
    });
    explorer.follow(location.hash);
  },
};
