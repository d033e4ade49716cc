"use strict";
// Ends of axes that the reader sets, by typing them or by a drag over a chart, and pinned curves.
//
// The state holds the ends as text, so that a link does: "0x:0.1:10;0y:0:2" are those of the axes
// of the first chart.

const axes = {
  parse(text) {
    const parts = (text ?? "").split(";").map((part) => part.split(":"));
    const isRange = ([key, low, high]) => /^[01][xy]$/.test(key) && low && high && Number(low) < Number(high);
    return Object.fromEntries(parts.filter(isRange).map(([key, low, high]) => [key, [Number(low), Number(high)]]));
  },

  write: (ranges) => Object.entries(ranges).map(([key, ends]) => [key, ...ends].join(":")).join(";"),

  // Ends of one axis that the reader has set, within limits.
  chosen(state, key, [least, most] = [-Infinity, Infinity]) {
    const ends = axes.parse(state.axes)[key]?.map((end) => Math.min(Math.max(end, least), most));
    return ends && ends[0] < ends[1] ? ends : undefined;
  },

  // Maps are drawn over the ranges that they are computed for.
  isFree: (spec) => !spec.heat || Boolean(spec.free),

  apply(spec, state, number) {
    if (spec.heat) return spec;
    const set = (name) => {
      const ends = axes.chosen(state, `${number}${name}`, spec[name].log ? [1e-300, Infinity] : undefined);
      return ends ? { ...spec[name], min: ends[0], max: ends[1] } : spec[name];
    };
    return { ...spec, x: set("x"), y: set("y") };
  },

  // Boxes for the ends of the axes of a chart; `change` takes {x: [low, high], y: …} or nothing.
  widget(change) {
    const make = controls.element;
    const hint = make("p", { className: "hint", role: "status" });
    const boxes = Object.fromEntries(["x", "y"].map((name) => [name, ["from", "to"].map((end) => {
      const box = make("input", { type: "text", inputMode: "decimal", autocomplete: "off", className: "box" });
      box.setAttribute("aria-label", `${name} axis ${end}`);
      return box;
    })]));
    const logs = {};
    const shown = {};
    for (const [name, pair] of Object.entries(boxes)) {
      for (const box of pair) {
        box.addEventListener("change", () => {
          const ends = pair.map((each) => controls.number(each.value));
          const wrong = !ends.every(Number.isFinite) ? "Both ends must be numbers"
            : !(ends[0] < ends[1]) ? "The lower end must be below the upper one"
              : logs[name] && !(ends[0] > 0) ? "A logarithmic axis has positive ends" : "";
          hint.textContent = wrong && `${wrong}: the ${name} axis is unchanged.`;
          if (wrong) pair.forEach((each, i) => { each.value = shown[name][i]; });
          else change({ [name]: ends });
        });
      }
    }
    const summary = make("summary", {});
    const automatic = make("button", { type: "button" }, "Automatic");
    automatic.addEventListener("click", () => change(null));
    const row = (name) => make("span", {}, `${name} from `, boxes[name][0], " to ", boxes[name][1]);
    const root = make("details", { className: "axes" }, summary, make("p", { className: "ends" }, row("x"), row("y"), automatic), hint);
    const show = (spec, ranges) => {
      root.hidden = !axes.isFree(spec);
      for (const name of ["x", "y"]) {
        logs[name] = spec[name].log;
        shown[name] = ranges[name].map((end) => Number(end.toPrecision(4)));
        boxes[name].forEach((box, i) => { if (box !== document.activeElement) box.value = shown[name][i]; });
      }
      const text = (name) => `${spec[name].symbol ?? name} ${shown[name].map((end) => numbers.show(end, 3)).join(" to ")}`;
      summary.textContent = `Axes: ${text("x")}, ${text("y")}`;
    };
    return { root, show };
  },

  // Curves that the reader has pinned, of the choices of a state; what differs is their label.
  pins: [],
  MOST: 3,

  key(panel, state) {
    const choices = panel.controls.filter((control) => !control.presets && !controls.isSlider(control));
    return [panel.id, ...choices.map(({ name }) => state[name])].join();
  },

  pin(panel, state, specs) {
    const lines = specs.map((spec) => (spec.lines ?? []).filter((line) => !line.dash && line.label));
    axes.pins = [...axes.pins, { key: axes.key(panel, state), state: { ...state }, lines }].slice(-axes.MOST);
  },

  pinned: (panel, state) => axes.pins.filter(({ key }) => key === axes.key(panel, state)),

  withPins(spec, panel, state, number) {
    const lines = axes.pinned(panel, state).flatMap((pin) => {
      const differing = panel.controls.filter((control) => controls.isSlider(control) && pin.state[control.name] !== state[control.name]);
      const texts = differing.map(({ name, symbol, label }) => `${symbol || label} = ${numbers.show(pin.state[name], 3)}`);
      const label = `pinned: ${texts.join(", ") || "as now"}`;
      return (pin.lines[number] ?? []).map((line, i) => ({ ...line, label: i ? "" : label, faded: true, width: 1.5 }));
    });
    return lines.length ? { ...spec, lines: [...(spec.lines ?? []), ...lines] } : spec;
  },
};
