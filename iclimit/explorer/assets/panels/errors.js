"use strict";
// Panel 1: ICL and IDG errors of linear attention.

{
  const NAMES = ["tau", "alpha", "kappa", "rho", "ridge"];
  const ENDS = { tau: [0.1, 10], alpha: [0.1, 100], kappa: [0.05, 20] };
  const slider = (name) => parameters.slider(name, { when: (s) => s.axis !== name });
  const same = (a, b) => Math.abs(a - b) <= 0.02 * Math.max(Math.abs(a), Math.abs(b)) || Math.max(a, b) < 1e-6;
  const settingOf = (s, axis) => Object.fromEntries(NAMES.filter((n) => n !== axis).map((n) => [n, s[n]]));

  // Stored points at the parameters of the sliders, by where they come from.
  const stored = (s) => {
    const sources = new Map();
    for (const point of explorer.data.errors) {
      if (!NAMES.every((name) => name === s.axis || same(point[name], s[name]))) continue;
      const label = `${point.source}, d = ${point.dim}`;
      if (!sources.has(label)) sources.set(label, []);
      sources.get(label).push(point);
    }
    return sources;
  };

  // Errors at the reader's dimension along a stored sweep: a polynomial in 1/d through the stored
  // predictions and the limit.
  const predicted = (s, values) => {
    const rows = explorer.data.predictions.filter((row) =>
      s.ridge === 0 && ["tau", "alpha", "kappa", "rho"].every((name) => name === s.axis || same(row[name], s[name])));
    const places = [...new Set(rows.map((row) => row[s.axis]))].sort((a, b) => a - b);
    if (places.length < 4) return [];
    const at = (name, place) => {
      const limit = explorer.value(`${name}_error`, { ...values, [s.axis]: place });
      const nodes = [[0, Math.log(limit)], ...rows.filter((row) => row[s.axis] === place).map((row) => [1 / row.dim, Math.log(row[name])])];
      let sum = 0;
      nodes.forEach(([u, value], i) => {
        sum += nodes.reduce((weight, [other], j) => (i === j ? weight : (weight * (1 / s.dim - other)) / (u - other)), value);
      });
      return Math.exp(sum);
    };
    const gap = s.axis === "tau" && places[0] < 1 && places.at(-1) > 1;
    const x = gap ? [...places.filter((p) => p < 1), 1, ...places.filter((p) => p > 1)] : places;
    return [["icl", 0], ["idg", 1]].map(([name, colour]) => ({
      label: `${name.toUpperCase()}, predicted at d = ${s.dim}`, colour, dash: true, width: 1.75, x,
      y: x.map((place) => (gap && place === 1 ? NaN : at(name, place))),
    }));
  };

  const finiteRun = (s) => {
    const size = { dim: s.dim, context: Math.round(s.alpha * s.dim), tasks: Math.max(1, Math.round(s.kappa * s.dim)), prompts: Math.round(s.tau * s.dim ** 2), rho: s.rho };
    return `run = iclimit.finite_size_errors(${numbers.keywords(size)}, approach="moments", rng=0)`;
  };

  const compute = (s) => {
    const ends = ENDS[s.axis];
    const x = numbers.geomspace(...ends, 400);
    const values = settingOf(s, s.axis);
    const icl = explorer.curve("icl_error", values, s.axis, x);
    const idg = explorer.curve("idg_error", values, s.axis, x);
    const lines = [
      { label: "ICL error: new tasks", x, y: icl, colour: 0, python: "icl" },
      { label: "IDG error: pretraining tasks", x, y: idg, colour: 1 },
    ];
    lines.push(...predicted(s, values));
    const points = [];
    let count = 0;
    for (const [label, set] of stored(s)) {
      count += set.length;
      for (const [name, colour] of [["icl", 0], ["idg", 1]]) {
        const kept = set.filter((point) => point[name] !== undefined);
        if (!kept.length) continue;
        points.push({
          label: `${name.toUpperCase()}, ${label}`,
          x: kept.map((point) => point[s.axis]),
          y: kept.map((point) => point[name]),
          error: kept.map((point) => point[`${name}_se`]),
          colour,
        });
      }
    }
    const marks = [];
    if (s.axis === "tau") marks.push({ x: 1, label: "τ = 1: interpolation threshold" });
    if (s.axis === "kappa") marks.push({ x: 1, label: "κ = 1: memorisation transition" });
    marks.push({ y: 1 + s.rho, label: "predicting 0" });
    const finite = Array.from(icl).filter(Number.isFinite).sort((a, b) => a - b);
    const most = Math.max(finite[Math.floor(0.97 * finite.length)] * 1.6, 1.3 * (1 + s.rho));
    const least = Math.max(Math.min(...Array.from(idg).filter((v) => v > 0), finite[0]), 1e-4) * 0.85;
    const at = explorer.value("icl_error", { ...values, [s.axis]: s[s.axis] });
    const own = explorer.value("idg_error", { ...values, [s.axis]: s[s.axis] });
    const best = x[icl.indexOf(finite[0])];
    const python = [
      "import iclimit, numpy as np",
      `${s.axis} = np.geomspace(${ends.join(", ")}, 400)`,
      `icl = ${explorer.call("icl_error", values, s.axis)}`,
      `idg = ${explorer.call("idg_error", values, s.axis)}`,
    ].join("\n");
    const symbol = parameters.symbol(s.axis);
    return {
      charts: [{
        title: `Errors against ${symbol}`,
        x: parameters.axis(s.axis),
        y: { label: "mean squared error of a label", log: true, min: least, max: most },
        lines, points, marks,
      }],
      summary: `At ${symbol} = ${numbers.show(s[s.axis], 3)} the error is ${numbers.show(at)} on new tasks and ${numbers.show(own)} on pretraining tasks. Over this range the error on new tasks is least, ${numbers.show(finite[0])}, at ${symbol} = ${numbers.show(best, 3)}.`,
      note: count ? "" : "No stored simulation or prediction at finite size has these parameters; the buttons below the sliders lead to some.",
      python: lines.length > 2 ? `${python}\n${finiteRun(s)}` : python,
      formulas: ["icl_error", "effective_ridge", "context_noise"],
    };
  };

  explorer.add({
    id: "icl",
    name: "ICL error",
    title: "How well does it learn in context?",
    intro: "Linear attention is pretrained on n prompts from k tasks and then sees a new task. The curves are the limit of large dimension d; points are finite models.",
    controls: [
      { name: "axis", label: "Against", value: "tau", options: [["tau", "τ prompts"], ["alpha", "α context"], ["kappa", "κ tasks"]] },
      ...["tau", "alpha", "kappa"].map(slider),
      parameters.slider("rho"),
      parameters.slider("ridge"),
      parameters.slider("dim", { label: "dimension of a prediction at finite size", min: 12, max: 400, value: 100, when: (s) => predicted(s, settingOf(s, s.axis)).length > 0 }),
      { name: "stored", presets: true, label: "Go to stored simulations", options: explorer.data.presets },
    ],
    compute,
  });
}
