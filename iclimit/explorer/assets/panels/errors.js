"use strict";
// Panel 1: ICL and IDG errors of linear attention.

{
  const NAMES = ["tau", "alpha", "kappa", "rho", "ridge"];
  const FEWEST_TASKS = 2; // without noise the moments of a single one are singular
  const POINTS = { tau: 32, alpha: 40, kappa: 28 };
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

  // Integers of a run at the sliders, and those along a curve that belong to different points.
  const sizes = (s) => ({ context: Math.max(1, Math.round(s.alpha * s.dim)), tasks: Math.max(1, Math.round(s.kappa * s.dim)), prompts: Math.max(1, Math.round(s.tau * s.dim ** 2)) });
  const VARIED = { tau: "prompts", alpha: "context", kappa: "tasks" };
  const integers = (s) => {
    const unit = s.axis === "tau" ? s.dim ** 2 : s.dim;
    const [low, high] = ENDS[s.axis];
    let x = Array.from(numbers.geomspace(low, high, POINTS[s.axis]));
    if (s.axis === "tau" && s.ridge === 0) {
      const beside = [0, ...[1, 2, 3, 4, 5, 6].flatMap((k) => [0.5 ** k, -(0.5 ** k)])];
      x = [...x, ...beside.map((share) => (1 + 1 / s.dim) * (1 + share))];
    }
    const least = { tau: 1, alpha: explorer.data.finite_size.context, kappa: FEWEST_TASKS }[s.axis];
    const counts = new Set(x.map((each) => Math.round(each * unit)).filter((each) => each >= least));
    return { unit, least, counts: [...counts].sort((one, other) => one - other) };
  };

  // Errors at the reader's dimension.
  const predicted = (s) => {
    const size = sizes(s);
    const { unit, counts } = integers(s);
    if (s.axis !== "alpha" && size.context < explorer.data.finite_size.context) return [];
    if (s.axis !== "kappa" && size.tasks < FEWEST_TASKS) return [];
    const means = counts.map((count) => {
      const { tasks, context, prompts } = { ...size, [VARIED[s.axis]]: count };
      return theory.errors_at_size(s.dim, tasks, context, prompts, s.rho, s.ridge);
    });
    return ["ICL", "IDG"].map((name, part) => ({
      label: `${name}, predicted at d = ${s.dim}`, colour: part, dash: true, width: 1.75,
      x: counts.map((count) => count / unit),
      y: means.map((each) => each[part]),
      across: `counts / ${unit}`,
      python: `at_size[${part}]`,
    }));
  };

  const accuracy = (s, missing) => {
    const { context, tasks } = sizes(s);
    const known = explorer.data.finite_size;
    if (s.axis !== "alpha" && context < known.context) return `Contexts of less than ${known.context} pairs are too short for a prediction at finite size.`;
    if (s.axis !== "kappa" && tasks < FEWEST_TASKS) return "A single task is too few for a prediction at finite size.";
    if (missing) return "The prediction at finite size has no finite value here: τ = 1 without a ridge makes its errors infinite.";
    const long = s.ridge === 0 ? ` Without a ridge, in contexts of more than about ${10 * s.dim} pairs, it may be up to 8/d too low.` : "";
    return `Dashed: prediction for runs in dimension ${s.dim} with tasks on the sphere, the limit with its largest corrections. At nearly all parameters it is within about ${known.loss}/d = ${numbers.show((100 * known.loss) / s.dim, 2)} % of simulations; iclimit.finite_size_errors is closer.${long}`;
  };

  // Whether a line can be drawn: gaps may be the lesser part of it.
  const isFinite = ({ y }) => y.filter(Number.isFinite).length > y.length / 2;

  // The same integers in Python.
  const countsInPython = (s) => {
    const { unit, least } = integers(s);
    const [low, high] = ENDS[s.axis];
    const lines = [`ratios = np.geomspace(${low}, ${high}, ${POINTS[s.axis]})`];
    if (s.axis === "tau" && s.ridge === 0) {
      lines.push("beside = 2.0 ** -np.arange(1, 7)");
      lines.push(`ratios = np.concatenate([ratios, (1 + 1 / ${s.dim}) * np.r_[1, 1 + beside, 1 - beside]])`);
    }
    lines.push(`counts = np.unique(np.floor(${unit} * ratios + 0.5).astype(int))`);
    lines.push(`counts = counts[counts >= ${least}]`);
    return lines;
  };

  // Runs along a curve, or the one at the sliders.
  const finiteRuns = (s, hasCurve) => {
    const size = { dim: s.dim, ...sizes(s), rho: s.rho, ridge: s.ridge };
    if (!hasCurve) return [`run = iclimit.finite_size_errors(${numbers.keywords(size)}, approach="moments", rng=0)`];
    const along = numbers.keywords({ ...size, [VARIED[s.axis]]: "counts" });
    return [
      "from iclimit.asymptotics.pretraining.errors_at_size import errors_at_size",
      ...countsInPython(s),
      `at_size = errors_at_size(${along})`,
    ];
  };

  // One standard deviation of a single run on either side of the curves: of its logarithm, so that
  // an error stays positive.
  const bands = (s, values, x, errors) => ["icl", "idg"].flatMap((name, colour) => {
    const spread = explorer.curve(`${name}_spread`, values, s.axis, x);
    return [1, -1].map((sign) => ({
      label: sign > 0 ? `${name.toUpperCase()}, single runs at d = ${s.dim}: ± one standard deviation` : "",
      x, colour, width: 0.75,
      y: errors[name].map((error, i) => error * Math.exp((sign * spread[i]) / (s.dim * error))),
      python: `${name} * np.exp(${sign} * spread.${name} / (${s.dim} * ${name}))`,
    })).filter(isFinite);
  });

  const compute = (s) => {
    const [low, high] = ENDS[s.axis];
    const places = [...stored(s)].flatMap(([, set]) => set.map((point) => point[s.axis]));
    const reach = [Math.min(low, ...places), Math.max(high, ...places.map((place) => 1.2 * place))];
    const ends = axes.chosen(s, "0x", theory.meta.icl_error.ranges[s.axis]) ?? reach;
    const x = numbers.geomspace(...ends, 400);
    const values = settingOf(s, s.axis);
    const icl = explorer.curve("icl_error", values, s.axis, x);
    const idg = explorer.curve("idg_error", values, s.axis, x);
    const lines = [
      { label: "ICL error: new tasks", x, y: icl, colour: 0, python: "icl" },
      { label: "IDG error: pretraining tasks", x, y: idg, colour: 1, python: "idg" },
    ];
    const dashed = predicted(s);
    lines.push(...dashed.filter(isFinite), ...(s.runs === "shown" ? bands(s, values, x, { icl, idg }) : []));
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
    // As in iclimit.diagrams.combinations.memorisation_width: where the transition is sharp.
    const sharp = s.tau >= 1 && (1 + s.rho) / s.alpha + s.ridge < 1 / 16;
    if (s.axis === "kappa" && sharp) marks.push({ x: 1, label: "κ = 1: memorisation transition" });
    marks.push({ y: 1 + s.rho, label: "predicting 0" });
    const diverges = !icl.some(Number.isFinite);
    const finite = Array.from(diverges ? dashed[0]?.y ?? [] : icl).filter(Number.isFinite).sort((a, b) => a - b);
    const most = Math.max((finite[Math.floor(0.97 * finite.length)] ?? 1) * 1.6, 1.3 * (1 + s.rho));
    const least = Math.max(Math.min(...Array.from(idg).filter((v) => v > 0), finite[0] ?? 0.1), 1e-4) * 0.85;
    const at = explorer.value("icl_error", { ...values, [s.axis]: s[s.axis] });
    const own = explorer.value("idg_error", { ...values, [s.axis]: s[s.axis] });
    const best = x[icl.indexOf(finite[0])];
    const setup = [
      `${s.axis} = np.geomspace(${ends.join(", ")}, 400)`,
      `icl = ${explorer.call("icl_error", values, s.axis)}`,
      `idg = ${explorer.call("idg_error", values, s.axis)}`,
      ...finiteRuns(s, dashed.some(isFinite)),
      ...(s.runs === "shown" ? [`spread = ${explorer.call("icl_spread", values, s.axis).replace(/\.icl$/, "")}`] : []),
    ].join("\n");
    const symbol = parameters.symbol(s.axis);
    return {
      charts: [{
        title: `Errors against ${symbol}`,
        x: { ...parameters.axis(s.axis), python: s.axis },
        y: { label: "mean squared error of a label", log: true, min: least, max: most },
        lines, points, marks,
      }],
      summary: `At ${symbol} = ${numbers.show(s[s.axis], 3)} the error is ${numbers.show(at)} on new tasks and ${numbers.show(own)} on pretraining tasks. ${!diverges ? `Over this range the error on new tasks is least, ${numbers.show(finite[0])}, at ${symbol} = ${numbers.show(best, 3)}.` : "Over this range both are infinite, so that they have no curve: τ = 1 without a ridge is the interpolation threshold."}`,
      note: `${accuracy(s, dashed.length && !dashed.some(isFinite))}${count ? "" : " No stored simulation has these parameters; the buttons below the sliders lead to some."}`,
      python: setup,
      formulas: ["icl_error", "effective_ridge", "context_noise", ...(s.runs === "shown" ? ["icl_spread"] : [])],
    };
  };

  explorer.add({
    id: "icl",
    name: "ICL error",
    title: "How well does it learn in context?",
    intro: "Linear attention is pretrained on n prompts from k tasks and then sees a new task. Lines: the theory in the limit of large dimension d. Points: simulations that others published.",
    guide: [
      ["Raise the ridge λ to 0.1: the peak at τ = 1, the interpolation threshold, goes away.", { axis: "tau", alpha: 1, kappa: 0.5, rho: 0.01, ridge: 0.1 }],
      ["Now vary the tasks, after long pretraining: the error on new tasks falls where κ passes 1.", { axis: "kappa", tau: 10, alpha: 10, rho: 0.01, ridge: 0 }],
      ["With few tasks, κ = 0.2, lengthen the context: the error on new tasks falls, and then rises.", { axis: "alpha", tau: 2, kappa: 0.2, rho: 0.01, ridge: 0 }],
    ],
    controls: [
      { name: "axis", label: "Against", value: "tau", options: [["tau", "τ prompts"], ["alpha", "α context"], ["kappa", "κ tasks"]] },
      ...["tau", "alpha", "kappa"].map(slider),
      parameters.slider("rho"),
      parameters.slider("ridge"),
      parameters.slider("dim", { label: "dimension of the prediction at finite size", min: 12, max: 200, value: 100 }),
      { name: "runs", label: "Scatter of single runs", value: "hidden", options: [["hidden", "hidden"], ["shown", "shown"]] },
      { name: "stored", presets: true, label: "Go to stored simulations", options: explorer.data.presets },
    ],
    compute,
  });
}
