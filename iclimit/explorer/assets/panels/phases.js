"use strict";
// Panel 2: phase diagram of any quantity over two of its parameters, with its boundaries.

{
  const FINE = 200;
  const MOST = 60; // milliseconds of a map while a slider moves
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

  const COLOURS = ["#ffffff", "#e69f00", "#56b4e9"];
  const DASHES = [[], [7, 5], [2, 5]];

  const points = (name, count) => {
    const [min, max, , kind] = parameters.ranges[name];
    const lowest = name === "rate" ? 0.01 : min;
    return kind === "linear" ? numbers.linspace(lowest, max, count) : numbers.geomspace(min, max, count);
  };

  let cost = 0.0005; // milliseconds of a value, as last measured

  const compute = (s, sharp) => {
    const [x, y] = chosen(s);
    const wanted = Math.floor(Math.sqrt(MOST / cost));
    const count = sharp ? FINE : Math.max(25, Math.min(FINE, wanted));
    const [xs, ys] = [points(x, count), points(y, count)];
    const started = performance.now();
    const values = theory.grid(s.quantity, explorer.arguments(s.quantity, s), x, xs, y, ys);
    cost = Math.max((performance.now() - started) / values.length, 1e-5);
    const found = Array.from(values).filter(Number.isFinite).sort((a, b) => a - b);
    let low = found[Math.floor(0.01 * found.length)] ?? 0;
    let high = found[Math.floor(0.985 * found.length)] ?? 1;
    if (high - low < 1e-12 * Math.abs(high)) [low, high] = [low - 0.5, high + 0.5];
    const log = low > 0 && high / low > 8;
    const contours = [];
    for (const [label, margin] of Object.entries(theory.meta[s.quantity].boundaries)) {
      const coarse = Math.min(count, 100);
      const [cx, cy] = [points(x, coarse), points(y, coarse)];
      const field = theory.grid(margin, explorer.arguments(margin, s), x, cx, y, cy);
      if (field.some((v) => v > 0) && field.some((v) => v < 0)) {
        const index = contours.length;
        const dash = DASHES[(index + Math.floor(index / 3)) % 3];
        contours.push({ values: field, columns: coarse, rows: coarse, label, colour: COLOURS[index % 3], dash });
      }
    }
    const { label, meaning } = explorer.data.quantities[s.quantity];
    const rest = Object.fromEntries(theory.meta[s.quantity].arguments.filter((n) => n !== x && n !== y).map((n) => [n, s[n]]));
    const scale = (axis, list) => ({ ...parameters.axis(axis), min: list[0], max: list.at(-1) });
    const space = (axis) => {
      const list = points(axis, FINE);
      const kind = parameters.ranges[axis][3] === "linear" ? "linspace" : "geomspace";
      return `np.${kind}(${list[0]}, ${Number(list.at(-1).toPrecision(12))}, ${FINE})`;
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
      coarse: !sharp && count < FINE,
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
