"use strict";
// Sliders, choices, switches and presets, from descriptions that each panel lists.
//
// slider: {name, label, symbol, min, max, value, log, integer, zero}; choice: {name, label, value,
// options: [[value, text], ...]}; switch: {name, label, value}; presets: {label, options: [[text,
// {name: value}], ...]}.  `when(state)` hides a control that has no effect.

const controls = {
  STEPS: 1000,

  isSlider: (control) => control.min !== undefined,

  // Position of a slider for a value, and back; `zero` gives a logarithmic slider a 0 at its end.
  position(control, value) {
    if (!control.log) return ((value - control.min) / (control.max - control.min)) * controls.STEPS;
    if (control.zero && value < control.min) return 0;
    const start = control.zero ? 20 : 0;
    const part = Math.log(value / control.min) / Math.log(control.max / control.min);
    return start + part * (controls.STEPS - start);
  },

  value(control, position) {
    let value;
    if (!control.log) {
      value = control.min + ((control.max - control.min) * position) / controls.STEPS;
    } else {
      const start = control.zero ? 20 : 0;
      if (control.zero && position < start / 2) return 0;
      const part = Math.max(position - start, 0) / (controls.STEPS - start);
      value = control.min * (control.max / control.min) ** part;
    }
    return control.integer ? Math.round(value) : Number(value.toPrecision(3));
  },

  // A number as people write it: commas stand between thousands, or for the decimal point.
  number(text) {
    const plain = text.trim();
    if (plain === "") return NaN;
    return Number(/^[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?$/.test(plain) ? plain.replaceAll(",", "") : plain.replace(",", "."));
  },

  // A number within the range.
  admissible(control, number) {
    if (control.zero && number <= 0) return 0;
    const bounded = Math.min(Math.max(number, control.min), control.max);
    return control.integer ? Math.round(bounded) : bounded;
  },

  // Value of a typed text, and a hint where it is not what was typed.
  understand(control, text, otherwise) {
    const number = controls.number(text);
    if (!Number.isFinite(number)) return [otherwise, `“${text.trim()}” is not a number; the value is still ${otherwise}.`];
    const value = controls.admissible(control, number);
    const low = control.zero ? "0 or from " : "from ";
    if (value !== number && control.integer && Math.round(number) === value) return [value, `Only whole numbers: ${text.trim()} became ${value}.`];
    if (value !== number) return [value, `Values go ${low}${control.min} to ${control.max}: ${text.trim()} became ${value}.`];
    return [value, text.includes(",") ? `${text.trim()} was read as ${value}.` : ""];
  },

  // Options of a choice, which may depend on the state.
  options: (control, state) =>
    typeof control.options === "function" ? control.options(state) : control.options,

  // What a link says about a control, read back, and a hint where that is not what it says.
  parse(control, text, state) {
    if (controls.isSlider(control)) return controls.understand(control, text, control.value);
    if (control.options) {
      const options = controls.options(control, state);
      return [options.find(([value]) => String(value) === text)?.[0] ?? control.value, ""];
    }
    return [text === "true", ""];
  },

  element(tag, attributes = {}, ...children) {
    const found = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name in found && name !== "list") found[name] = value;
      else found.setAttribute(name, value);
    }
    found.append(...children);
    return found;
  },

  slider(control, id, change) {
    const make = controls.element;
    const range = make("input", { type: "range", id, min: 0, max: controls.STEPS, step: 1 });
    const { symbol, label } = control;
    let shown = control.value;
    let typed = null; // a value that is still to be shown
    const hint = make("p", { className: "hint", role: "status" });
    const say = (text) => { hint.textContent = text; };
    const box = make("input", { type: "text", inputMode: "decimal", autocomplete: "off", className: "box" });
    box.setAttribute("aria-label", `${label}, value`);
    range.addEventListener("input", () => {
      say("");
      change(control.name, controls.value(control, Number(range.value)));
    });
    // One key press moves an integer by one, which may be less than a step of the slider.
    range.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
      if (!by || !control.integer) return;
      event.preventDefault();
      say("");
      change(control.name, controls.admissible(control, shown + by));
    });
    box.addEventListener("change", () => {
      const [value, text] = controls.understand(control, box.value, shown);
      typed = value;
      say(text);
      change(control.name, value);
    });
    const title = make("label", { htmlFor: id });
    if (symbol) title.append(make("span", { className: "symbol" }, symbol), " ");
    title.append(label);
    const root = make("div", { className: "control slider" }, title, box, range, hint);
    const show = (value) => {
      if (typed !== null && typed !== value) say(`This quantity has no value there: ${typed} became ${value}.`);
      [shown, typed] = [value, null];
      range.value = controls.position(control, value);
      range.setAttribute("aria-valuetext", numbers.show(value));
      box.value = value;
      const filled = (100 * range.value) / controls.STEPS;
      range.style.setProperty("--filled", `${filled}%`);
    };
    return { root, show, say };
  },

  choice(control, id, change) {
    const make = controls.element;
    if (control.long) {
      const select = make("select", { id });
      select.addEventListener("change", () => change(control.name, select.value));
      const title = make("label", { htmlFor: id }, control.label);
      const root = make("div", { className: "control choice" }, title, select);
      const show = (shown, state) => {
        const options = controls.options(control, state);
        const key = options.join();
        if (select.dataset.key !== key) {
          const groups = Map.groupBy(options, ([, , group]) => group ?? "");
          select.replaceChildren(...Array.from(groups, ([label, members]) => {
            const found = members.map(([value, text]) => make("option", { value }, text));
            return label ? [make("optgroup", { label }, ...found)] : found;
          }).flat());
          select.dataset.key = key;
        }
        select.value = shown;
      };
      return { root, show };
    }
    const group = make("div", { className: "segments" });
    const inputs = control.options.map(([value, text]) => {
      const input = make("input", { type: "radio", name: id, value, id: `${id}-${value}` });
      input.addEventListener("change", () => change(control.name, value));
      group.append(input, make("label", { htmlFor: input.id }, text));
      return input;
    });
    const legend = make("legend", {}, control.label);
    const root = make("fieldset", { className: "control" }, legend, group);
    const show = (value) => inputs.forEach((each) => { each.checked = each.value === String(value); });
    return { root, show };
  },

  toggle(control, id, change) {
    const input = controls.element("input", { type: "checkbox", id });
    input.addEventListener("change", () => change(control.name, input.checked));
    const label = controls.element("label", { htmlFor: id }, input, " ", control.label);
    const root = controls.element("div", { className: "control switch" }, label);
    return { root, show: (value) => { input.checked = value; } };
  },

  presets(control, change) {
    const group = controls.element("div", { className: "presets" });
    for (const [text, values] of control.options) {
      const button = controls.element("button", { type: "button" }, text);
      button.addEventListener("click", () => change(values));
      group.append(button);
    }
    const legend = controls.element("legend", {}, control.label);
    return { root: controls.element("fieldset", { className: "control" }, legend, group), show() {} };
  },

  build(control, panel, change) {
    const id = `${panel.id}-${control.name}`;
    if (control.presets) return controls.presets(control, change);
    if (controls.isSlider(control)) return controls.slider(control, id, change);
    return control.options ? controls.choice(control, id, change) : controls.toggle(control, id, change);
  },
};
