"use strict";
// Panel 2: phase diagram of any quantity over two of its parameters, with its boundaries.

{
  const FINE = 200;
  const LINE = 120;
  const LEAST = 20;
  // Milliseconds that a map may take, and a boundary, before workers refine them.
  const TIME = [6, 1];
  const COUNTED = ["steps", "layers", "heads", "depth"];

  // Parameters that a choice of the size fixes, and those that may be on an axis.
  const sizeOf = (name) => (theory.meta[name].sizes.length ? ["context", "dim"] : []);
  const axesOf = (name) => theory.meta[name].arguments.filter((each) => ![...COUNTED, ...sizeOf(name)].includes(each));
  const quantities = Object.keys(theory.meta).filter((name) =>
    !name.startsWith("margin_") && axesOf(name).length > 1 && axesOf(name).every((each) => parameters.ranges[each]));
  const SHELVES = {
    pretraining: "Pretraining", descent: "Gradient descent", gdpp: "GD++ and ridge regression", spectra: "Spectra",
    dynamics: "Training", softmax: "Softmax attention", depth: "Depth and test-time steps",
    recurrent: "Recurrent layers",
  };

  // Maps to start with; the others follow by subject.
  const FIRST = [
    "icl_error", "idg_error", "task_gap", "optimal_ridge", "optimal_icl_error", "budget_icl_error",
    "dmmse_icl_error", "constant_schedule_loss", "optimal_schedule_bound", "test_time_error",
    "tied_depth_loss", "gated_error",
  ];

  // The axes of a state; those of another quantity give way to its first two parameters.
  const chosen = (s) => {
    const possible = axesOf(s.quantity);
    const x = possible.includes(s.x) ? s.x : possible.find((each) => each !== s.y);
    const y = possible.includes(s.y) && s.y !== x ? s.y : possible.find((each) => each !== x);
    return [x, y];
  };

  const STROKES = [
    ["#ffffff", []], ["#e69f00", []], ["#56b4e9", [8, 5]], ["#ffffff", [2, 5]], ["#d55e00", [8, 5]], ["#cc79a7", []],
  ];

  // Ends of an axis: those of its slider, as far as the function is held against Python.
  const ends = (name, axis) => {
    const [min, max] = parameters.ranges[axis];
    const [low, high] = theory.meta[name].ranges[axis] ?? [min, max];
    return [Math.max(axis === "rate" ? 0.01 : min, low), Math.min(max, high)];
  };
  const limits = (name, axis) => {
    const [low, high] = theory.meta[name].ranges[axis] ?? parameters.ranges[axis];
    return [isLinear(axis) ? low : Math.max(low, 1e-12), high];
  };
  const isLinear = (axis) => parameters.ranges[axis][3] === "linear";
  // Ends of the axes x and y of a diagram: the reader's, or those of the sliders.
  const span = (s, axis) => {
    const name = axis === chosen(s)[0] ? "0x" : "0y";
    return axes.chosen(s, name, limits(s.quantity, axis)) ?? ends(s.quantity, axis);
  };
  const points = (s, axis, count) =>
    numbers[isLinear(axis) ? "linspace" : "geomspace"](...span(s, axis), count);
  const bounded = (s) => Object.fromEntries(theory.meta[s.quantity].arguments.map((name) => {
    const [low, high] = ends(s.quantity, name);
    const [least, , , kind] = parameters.ranges[name];
    const free = kind === "zero" && s[name] === 0 && low === least;
    const place = sizeOf(s.quantity).indexOf(name);
    if (place >= 0) return [name, Number(s.size.split(",")[place])];
    return [name, free ? 0 : Math.min(Math.max(s[name], low), high)];
  }));

  const grid = (name, s, x, y, count) => {
    const [xs, ys] = [x, y].map((axis) => points(s, axis, count));
    return { name, values: explorer.arguments(name, bounded(s)), x, xs, y, ys };
  };

  // Values of a grid on as many points as there is time for, by how long the last ones took.
  const costs = {};
  const rough = (name, s, x, y, most, time) => {
    const key = [name, x, y].join();
    const count = costs[key] === undefined ? LEAST : Math.floor(Math.sqrt(time / costs[key]));
    const given = grid(name, s, x, y, Math.max(LEAST, Math.min(most, count)));
    const started = performance.now();
    const values = theory.grid(name, given.values, x, given.xs, y, given.ys);
    costs[key] = Math.max((performance.now() - started) / values.length, 1e-5);
    return { ...given, found: values };
  };

  const compute = (s) => {
    const [x, y] = chosen(s);
    const names = [s.quantity, ...Object.values(theory.meta[s.quantity].boundaries)];
    const grids = names.map((name, i) => rough(name, s, x, y, i ? LINE / 2 : FINE, TIME[Number(i > 0)]));
    if (names.length === 1 && grids[0].xs.length === FINE) return diagram(s, grids, false);
    const fine = names.map((name, i) => grid(name, s, x, y, i ? LINE : FINE));
    const finish = (found) => diagram(s, fine.map((each, i) => ({ ...each, found: found[i] })), false);
    return { ...diagram(s, grids, true), finer: { grids: fine, finish } };
  };

  // Margins that vanish on boundaries, with positive and negative values in this diagram.
  const boundaries = (s, grids) => {
    const shown = [];
    Object.keys(theory.meta[s.quantity].boundaries).forEach((label, i) => {
      const { found: values, xs } = grids[i];
      if (!values.some((v) => v > 0) || !values.some((v) => v < 0)) return;
      const [colour, dash] = STROKES[shown.length % STROKES.length];
      shown.push({ values, columns: xs.length, rows: xs.length, label, colour, dash });
    });
    return shown;
  };

  // Ends of the colours, and place of the least and size of the largest finite value.
  const extremes = (values) => {
    let [least, largest] = [-1, -1];
    for (let k = 0; k < values.length; k++) {
      if (!Number.isFinite(values[k])) continue;
      if (least < 0 || values[k] < values[least]) least = k;
      if (largest < 0 || values[k] > values[largest]) largest = k;
    }
    const sample = values.filter((v, k) => k % 7 === 0 && Number.isFinite(v)).sort();
    let low = sample[Math.floor(0.01 * sample.length)] ?? 0;
    let high = sample[Math.floor(0.985 * sample.length)] ?? 1;
    if (high - low < 1e-12 * Math.abs(high)) [low, high] = [low - 0.5, high + 0.5];
    return { low, high, log: low > 0 && high / low > 8, least, largest };
  };

  // What the colours leave out, so that a few extreme values do not hide the others.
  const clipped = (values, low, high) => {
    const [below, above] = [values.some((v) => v < low), values.some((v) => v > high)];
    const ends = [below && `below ${numbers.show(low, 2)}`, above && `above ${numbers.show(high, 2)}`].filter(Boolean);
    return ends.length ? `; ${ends.join(" and ")} the colour stays the same` : "";
  };

  const diagram = (s, [own, ...margins], rough) => {
    const { x, y, xs, ys, found: values } = own;
    const count = xs.length;
    const { low, high, log, least, largest } = extremes(values);
    const contours = boundaries(s, margins);
    const label = explorer.data.quantities[s.quantity].label;
    const rest = Object.fromEntries(theory.meta[s.quantity].arguments.filter((n) => n !== x && n !== y).map((n) => [n, bounded(s)[n]]));
    const scale = (axis, list) => ({ ...parameters.axis(axis), min: list[0], max: list.at(-1) });
    const space = (axis) => {
      const [low, high] = span(s, axis);
      return `np.${isLinear(axis) ? "linspace" : "geomspace"}(${low}, ${high}, ${count})`;
    };
    const setup = [
      "diagram = iclimit.phase_diagram(",
      `    "${s.quantity}", x="${x}", y="${y}",`,
      `    ${x}=${space(x)}, ${y}=${space(y)},`,
      `    ${numbers.keywords(rest)},`,
      ")",
    ];
    if (!Object.keys(rest).length) setup.splice(3, 1);
    return {
      charts: [{
        title: explorer.data.formulas[s.quantity].title,
        plot: "diagram.plot(ax)",
        free: true,
        x: scale(x, xs), y: scale(y, ys),
        heat: { values, columns: count, rows: count, x: xs, y: ys, low, high, log, label, contours, rough, python: "diagram.values" },
      }],
      note: least < 0 ? `${label} has no finite value in this diagram.` : "",
      summary: least < 0 ? `${label} over ${parameters.symbol(x)} and ${parameters.symbol(y)} has no finite value here.` : `${label} over ${parameters.symbol(x)} and ${parameters.symbol(y)}: from ${numbers.show(values[least])} at ${parameters.symbol(x)} = ${numbers.show(xs[least % count], 3)}, ${parameters.symbol(y)} = ${numbers.show(ys[Math.floor(least / count)], 3)} to ${values.includes(Infinity) ? "∞" : numbers.show(values[largest])}${clipped(values, low, high)}.${contours.length ? ` Lines: ${contours.map((c) => c.label).join("; ")}.` : ""}`,
      python: setup.join("\n"),
      formulas: [s.quantity],
    };
  };

  const shelf = (name) => SHELVES[theory.meta[name].source.split(".")[2]];
  const all = [...new Set(quantities.flatMap((name) => theory.meta[name].arguments))];
  const sized = quantities.flatMap((name) => theory.meta[name].sizes);
  const sizes = [...new Set(sized.map(([context, dim]) => `${context},${dim}`))].map((size) => [size, size.replace(",", " and ")]);

  explorer.add({
    id: "phases",
    name: "Phases",
    title: "Phase diagrams",
    intro: "Any quantity of the theory over two of its parameters, with the boundaries at which something changes.",
    guide: [
      ["Start with contexts and tasks: long contexts help only above κ = 1.", { quantity: "icl_error", x: "alpha", y: "kappa", tau: 2, rho: 0.01, ridge: 0 }],
      ["Now prompts and ridge: a small ridge leaves a ridge of errors at τ = 1.", { quantity: "icl_error", x: "tau", y: "ridge", alpha: 1, kappa: 0.5, rho: 0.01 }],
      ["Then the gap between new and pretraining tasks: it closes with many tasks.", { quantity: "task_gap", x: "tau", y: "kappa", alpha: 10, rho: 0.01, ridge: 0.01 }],
    ],
    controls: [
      { name: "quantity", label: "Quantity", long: true, value: "icl_error", options: [
        ...FIRST.map((name) => [name, explorer.data.formulas[name].title, "Start with"]),
        ...quantities.filter((name) => !FIRST.includes(name)).map((name) => [name, explorer.data.formulas[name].title, `More: ${shelf(name)}`]),
      ] },
      { name: "x", label: "Across", long: true, value: "alpha", options: (s) => axesOf(s.quantity).map((name) => [name, parameters.symbol(name)]) },
      { name: "y", label: "Up", long: true, value: "kappa", options: (s) => axesOf(s.quantity).map((name) => [name, parameters.symbol(name)]) },
      { name: "size", label: "Context and dimension", long: true, value: "20,10", options: sizes, when: (s) => sizeOf(s.quantity).length > 0 },
      ...all.map((name) => parameters.slider(name, {
        when: (s) => bounded(s)[name] !== undefined && ![...chosen(s), ...sizeOf(s.quantity)].includes(name),
      })),
    ],
    // Axes are those of the quantity, and sliders stay within what it has.
    correct(s) {
      [s.x, s.y] = chosen(s);
      const fixed = sizeOf(s.quantity);
      for (const [name, value] of Object.entries(bounded(s))) if (!fixed.includes(name)) s[name] = value;
    },
    compute,
  });
}
