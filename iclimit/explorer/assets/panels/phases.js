"use strict";
// Panel 2: phase diagram of any quantity over two of its parameters, with its boundaries.

{
  const FINE = 200;
  const LEAST = 20;
  // Milliseconds that a map may take, and a boundary, while a slider moves and when it rests.
  const TIME = { moving: [40, 12], resting: [600, 100] };
  const COUNTED = ["steps", "layers", "heads", "depth"];

  const quantities = Object.keys(theory.meta).filter((name) => {
    const own = theory.meta[name].arguments.filter((each) => !COUNTED.includes(each));
    return explorer.data.quantities[name] && own.length > 1 && own.every((each) => parameters.ranges[each]);
  });
  const axes = (s) => theory.meta[s.quantity].arguments.filter((each) => !COUNTED.includes(each));

  // The axes of a state; those of another quantity give way to its first two parameters.
  const chosen = (s) => {
    const possible = axes(s);
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
  const isLinear = (axis) => parameters.ranges[axis][3] === "linear";
  const points = (name, axis, count) =>
    numbers[isLinear(axis) ? "linspace" : "geomspace"](...ends(name, axis), count);
  const bounded = (s) => Object.fromEntries(theory.meta[s.quantity].arguments.map((name) => {
    const [low, high] = ends(s.quantity, name);
    const free = parameters.ranges[name][3] === "zero" && s[name] === 0;
    return [name, free ? 0 : Math.min(Math.max(s[name], low), high)];
  }));

  const tabulated = (name, s, x, y, count) => {
    const [xs, ys] = [x, y].map((axis) => points(s.quantity, axis, count));
    return { xs, ys, values: theory.grid(name, explorer.arguments(name, bounded(s)), x, xs, y, ys) };
  };

  // Points along an axis that a function has time for, by how long few of them take.
  const costs = {};
  const affordable = (name, s, x, y, time) => {
    const key = [name, x, y].join();
    if (costs[key] === undefined) {
      tabulated(name, s, x, y, 4);
      const started = performance.now();
      tabulated(name, s, x, y, 8);
      costs[key] = Math.max((performance.now() - started) / 64, 1e-4);
    }
    return Math.max(LEAST, Math.min(FINE, Math.floor(Math.sqrt(time / costs[key]))));
  };

  // Margins that vanish on boundaries, with positive and negative values in this diagram.
  const boundaries = (s, x, y, time) => {
    const found = [];
    for (const [label, margin] of Object.entries(theory.meta[s.quantity].boundaries)) {
      const count = Math.min(120, affordable(margin, s, x, y, time));
      const { values } = tabulated(margin, s, x, y, count);
      if (!values.some((v) => v > 0) || !values.some((v) => v < 0)) continue;
      const [colour, dash] = STROKES[found.length % STROKES.length];
      found.push({ values, columns: count, rows: count, label, colour, dash });
    }
    return found;
  };

  const compute = (s, sharp) => {
    const [x, y] = chosen(s);
    const [time, own] = sharp ? TIME.resting : TIME.moving;
    const count = affordable(s.quantity, s, x, y, time);
    const { xs, ys, values } = tabulated(s.quantity, s, x, y, count);
    const found = Array.from(values).filter(Number.isFinite).sort((a, b) => a - b);
    let low = found[Math.floor(0.01 * found.length)] ?? 0;
    let high = found[Math.floor(0.985 * found.length)] ?? 1;
    if (high - low < 1e-12 * Math.abs(high)) [low, high] = [low - 0.5, high + 0.5];
    const log = low > 0 && high / low > 8;
    const contours = boundaries(s, x, y, own);
    const { label, meaning } = explorer.data.quantities[s.quantity];
    const rest = Object.fromEntries(theory.meta[s.quantity].arguments.filter((n) => n !== x && n !== y).map((n) => [n, bounded(s)[n]]));
    const scale = (axis, list) => ({ ...parameters.axis(axis), min: list[0], max: list.at(-1) });
    const space = (axis) => {
      const [low, high] = ends(s.quantity, axis);
      return `np.${isLinear(axis) ? "linspace" : "geomspace"}(${low}, ${high}, ${count})`;
    };
    const python = [
      "import iclimit, numpy as np",
      "diagram = iclimit.phase_diagram(",
      `    "${s.quantity}", x="${x}", y="${y}",`,
      `    ${x}=${space(x)}, ${y}=${space(y)},`,
      `    ${numbers.keywords(rest)},`,
      ")",
      "diagram.plot()",
    ];
    if (!Object.keys(rest).length) python.splice(4, 1);
    const best = values.indexOf(found[0]);
    return {
      coarse: !sharp,
      charts: [{
        title: `${meaning[0].toUpperCase()}${meaning.slice(1)}`,
        x: scale(x, xs), y: scale(y, ys),
        heat: { values, columns: count, rows: count, x: xs, y: ys, low, high, log, label, contours, python: "diagram.values" },
      }],
      summary: `${label} over ${parameters.symbol(x)} and ${parameters.symbol(y)}: from ${numbers.show(found[0])} at ${parameters.symbol(x)} = ${numbers.show(xs[best % count], 3)}, ${parameters.symbol(y)} = ${numbers.show(ys[Math.floor(best / count)], 3)} to ${found.length < values.length ? "∞" : numbers.show(found.at(-1))}.${contours.length ? ` Lines: ${contours.map((c) => c.label).join("; ")}.` : ""}`,
      python: python.join("\n"),
      formulas: [s.quantity],
    };
  };

  const named = (name) => {
    const { meaning } = explorer.data.quantities[name];
    return `${meaning[0].toUpperCase()}${meaning.slice(1)}`;
  };
  const all = [...new Set(quantities.flatMap((name) => theory.meta[name].arguments))];

  explorer.add({
    id: "phases",
    name: "Phases",
    title: "Phase diagrams",
    intro: "Any quantity of the theory over two of its parameters, with the boundaries at which something changes.",
    controls: [
      { name: "quantity", label: "Quantity", long: true, value: "icl_error", options: quantities.map((name) => [name, named(name)]) },
      { name: "x", label: "Across", long: true, value: "alpha", options: (s) => axes(s).map((name) => [name, parameters.symbol(name)]) },
      { name: "y", label: "Up", long: true, value: "kappa", options: (s) => axes(s).map((name) => [name, parameters.symbol(name)]) },
      ...all.map((name) => parameters.slider(name, {
        when: (s) => theory.meta[s.quantity].arguments.includes(name) && !chosen(s).includes(name),
      })),
    ],
    correct(s) { [s.x, s.y] = chosen(s); },
    compute,
  });
}
