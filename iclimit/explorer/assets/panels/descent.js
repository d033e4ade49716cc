"use strict";
// Panel 5: gradient descent in context: one step, its best rate, many steps, dampening.

{
  const CONTEXTS = 400;

  // True labels of queries and what a step of rate 1 predicts, in drawn contexts.
  let drawn = { key: "" };
  const sample = (s) => {
    const key = [s.context, s.dim, s.noise_variance].join();
    if (drawn.key === key) return drawn;
    const { normal, chiSquared } = numbers.random(7);
    const [labels, steps] = [new Float64Array(CONTEXTS), new Float64Array(CONTEXTS)];
    const noise = Math.sqrt(s.noise_variance);
    for (let k = 0; k < CONTEXTS; k++) {
      // Labels are the task along the query times inputs along it, and a normal rest: the rest of
      // the task and noise.  So a step needs the sum of squares of these inputs only.
      const size = Math.sqrt(chiSquared(s.dim));
      const along = normal();
      const rest = Math.hypot(noise, s.dim > 1 ? Math.sqrt(chiSquared(s.dim - 1)) : 0);
      const squares = chiSquared(s.context);
      steps[k] = (size / s.context) * (along * squares + rest * Math.sqrt(squares) * normal());
      labels[k] = size * along + noise * normal();
    }
    drawn = { key, labels, steps };
    return drawn;
  };

  const meanLoss = ({ labels, steps }, rate) => {
    const errors = labels.map((label, k) => (label - rate * steps[k]) ** 2);
    const mean = errors.reduce((a, b) => a + b) / CONTEXTS;
    const variance = errors.reduce((a, b) => a + (b - mean) ** 2, 0) / (CONTEXTS - 1);
    return [mean, Math.sqrt(variance / CONTEXTS)];
  };

  const size = (s) => ({ context: s.context, dim: s.dim, noise_variance: s.noise_variance, task_variance: 1 });

  const oneStep = (s) => {
    const setting = size(s);
    const best = explorer.value("optimal_learning_rate", setting);
    const least = explorer.value("optimal_learning_rate_loss", setting);
    const x = numbers.linspace(0, 2.4 * best, 300);
    const loss = explorer.curve("learning_rate_loss", setting, "rate", x);
    const simulated = sample(s);
    const places = numbers.linspace(0.15 * best, 2.25 * best, 8);
    const found = Array.from(places, (rate) => meanLoss(simulated, rate));
    const null_ = s.dim + s.noise_variance;
    const rate = s.relative * best;
    const shown = Array.from({ length: 200 }, (_, k) => k);
    const reach = 2.7 * Math.sqrt(null_);
    return {
      charts: [
        {
          title: "Loss of one step",
          x: { label: "learning rate η, of the mean over the pairs", short: "η", python: "rate" },
          y: { label: "mean squared error", min: 0, max: 1.55 * null_ },
          lines: [{ label: "expected loss", x, y: loss, colour: 0, python: "loss" }],
          points: [{ label: `${CONTEXTS} drawn contexts`, x: places, y: found.map((f) => f[0]), error: found.map((f) => f[1]), colour: 1 }],
          marks: [
            { x: best, label: `best rate ${numbers.show(best, 3)}` },
            { y: null_, label: "predicting 0" },
          ],
        },
        {
          title: "Labels of queries and their predictions",
          x: { label: "true label", short: "label", min: -reach, max: reach },
          y: { label: `prediction at rate ${numbers.show(rate, 3)}`, min: -reach, max: reach },
          lines: [{ label: "perfect prediction", x: [-reach, reach], y: [-reach, reach], colour: 0 }],
          points: [{ label: "one query in each of 200 contexts", x: shown.map((k) => simulated.labels[k]), y: shown.map((k) => rate * simulated.steps[k]), colour: 1, size: 2.5 }],
        },
      ],
      summary: `With ${numbers.count(s.context, "pair")} in dimension ${s.dim} the best rate is ${numbers.show(best)}; it leaves ${numbers.show((100 * least) / null_, 3)} % of the loss of predicting 0. At twice this rate a step is no better than that.`,
      python: [
        `rate = np.linspace(0, ${2.4 * best}, 300)`,
        `loss = ${explorer.call("learning_rate_loss", setting, "rate")}`,
        `best = ${explorer.call("optimal_learning_rate", setting)}`,
      ].join("\n"),
      formulas: ["learning_rate_loss", "optimal_learning_rate"],
    };
  };

  const byContext = (s) => {
    const uniform = s.inputs === "uniform";
    const setting = uniform ? { dim: s.dim } : { dim: s.dim, noise_variance: s.noise_variance, task_variance: 1 };
    const [lossName, rateName] = uniform
      ? ["uniform_step_loss", "uniform_step_rate"]
      : ["optimal_learning_rate_loss", "optimal_learning_rate"];
    const x = numbers.geomspace(1, 400, 300);
    const loss = explorer.curve(lossName, setting, "context", x);
    const rate = explorer.curve(rateName, setting, "context", x);
    const published = uniform && s.dim === 5 ? explorer.data.blog.context : [];
    const points = (name, label, colour, more) => ({
      label, colour, ...more, x: published.map((row) => row.context), y: published.map((row) => row[name]),
    });
    return {
      charts: [
        {
          title: "Loss at the best rate",
          x: { ...parameters.axis("context"), python: "context" },
          y: { label: "mean squared error", log: true },
          lines: [{ label: "one step at its best rate", x, y: loss, colour: 0, python: "loss" }],
          points: published.length
            ? [points("step", "best step (Figure 9)", 2, { open: true, size: 5.5 }), points("trained", "trained linear attention (Figure 9)", 1, { size: 2.5 })]
            : [],
          marks: [{ x: s.dim, label: "context = dimension" }],
        },
        {
          title: "The best rate",
          x: { ...parameters.axis("context"), python: "context" },
          y: { label: "learning rate η*, of the mean over the pairs", short: "learning rate η*", min: 0 },
          lines: [{ label: "best rate", x, y: rate, colour: 0, python: "rate" }],
          marks: [{ x: s.dim, label: "context = dimension" }],
        },
      ],
      summary: `In dimension ${s.dim} one step at its best rate leaves ${numbers.show(explorer.value(lossName, { ...setting, context: 10 }), 3)} after 10 pairs and ${numbers.show(explorer.value(lossName, { ...setting, context: 100 }), 3)} after 100: in long contexts ${setting.noise_variance ? `what exceeds the noise, ${numbers.show(setting.noise_variance, 3)},` : "the loss"} falls as one over their length.`,
      note: uniform && s.dim !== 5 ? "The published networks have dimension 5." : "",
      python: [
        "context = np.geomspace(1, 400, 300)",
        `loss = ${explorer.call(lossName, setting, "context")}`,
        `rate = ${explorer.call(rateName, setting, "context")}`,
      ].join("\n"),
      formulas: ["optimal_learning_rate"],
    };
  };

  const METHODS = [
    ["best schedule", 0, "best"],
    ["best in the worst case", 2, "chebyshev"],
    ["one rate, the best", 1, "constant"],
  ];
  const bySteps = (s) => {
    const { ratio, steps: count } = s;
    const most = theory.meta.optimal_schedule_bound.ranges.steps[1];
    const steps = Array.from({ length: most }, (_, i) => i + 1);
    const losses = ["optimal_schedule_bound", "chebyshev_schedule_loss", "constant_schedule_loss"].map((name) =>
      steps.map((each) => explorer.value(name, { ratio, steps: each, noise_ratio: 0 })));
    const [low, high] = theory.marchenko_pastur_edges(ratio);
    const x = numbers.linspace(0, 1.04 * high, 400);
    const rate = theory.best_constant_rate(ratio, count, 0);
    const residuals = [
      explorer.curve("optimal_residual", { ratio, steps: count }, "eigenvalue", x),
      explorer.curve("chebyshev_residual", { ratio, steps: count }, "eigenvalue", x),
      explorer.curve("constant_residual", { rate, steps: count }, "eigenvalue", x),
    ];
    const rates = theory.optimal_rates(ratio, count);
    const [own, , constant] = losses.map((values) => values[count - 1]);
    const many = numbers.count(count, "step");
    return {
      charts: [
        {
          title: "Loss after several steps",
          x: { label: "steps L", short: "L", python: "steps", min: 0.7, max: most + 0.3, whole: true },
          y: { label: "loss relative to predicting 0", log: true },
          lines: METHODS.map(([label, colour, name], i) => ({ label, x: steps, y: losses[i], colour, python: `[each.loss for each in ${name}]` })),
          marks: [{ x: count, label: many }],
        },
        {
          title: `What ${many} leave of each direction`,
          x: { label: "eigenvalue λ of the context's covariance", short: "λ", python: "eigenvalue", min: 0, max: x.at(-1) },
          y: { label: "P(λ) = (1 − η₁λ) … (1 − η_Lλ)", min: -1.1, max: 1.1 },
          lines: METHODS.map(([label, colour, name], i) => ({ label, x, y: residuals[i], colour, python: `residual(${name}[${count - 1}].rates)` })),
          marks: [{ x: low, label: "smallest eigenvalue" }, { x: high, label: "largest" }, { y: 0, label: "" }],
        },
      ],
      summary: `${many} at the best rates ${rates.map((each) => numbers.show(each, 3)).join(", ")} leave ${numbers.show(own)} of the loss; one rate for all, ${numbers.show(rate, 3)}, leaves ${numbers.show(constant)}.`,
      python: [
        `steps = range(1, ${most + 1})`,
        `best = [iclimit.descent.optimal_schedule(steps=each, ratio=${ratio}) for each in steps]`,
        `chebyshev = [iclimit.descent.chebyshev_schedule(steps=each, ratio=${ratio}) for each in steps]`,
        `constant = [iclimit.descent.constant_schedule(steps=each, ratio=${ratio}) for each in steps]`,
        `eigenvalue = np.linspace(0, ${x.at(-1)}, 400)`,
        "residual = lambda rates: np.prod([1 - rate * eigenvalue for rate in rates], axis=0)",
      ].join("\n"),
      formulas: ["optimal_residual", "optimal_rates"],
    };
  };

  const byDampening = (s) => {
    const x = numbers.linspace(0.05, 1.5, 300);
    const setting = { ratio: s.ratio, noise_ratio: s.noise_ratio };
    const shown = [1, 2, 4, 8];
    const label = (steps) => numbers.count(steps, "step");
    const lines = shown.map((steps, colour) => ({
      label: label(steps), x, colour,
      y: explorer.curve("dampened_loss", { ...setting, steps }, "dampening", x),
      python: `curve.values[${colour}]`,
    }));
    const limit = (2 * (1 + s.ratio + s.noise_ratio)) / theory.marchenko_pastur_edges(s.ratio)[1];
    const best = shown.map((steps) => explorer.value("dampening_of_recurrent_layer", { ...setting, steps }));
    const same = best.every((value) => Math.abs(value - 1) < 1e-6);
    const exact = explorer.data.blog.dampening;
    const down = (y) => exact.x[y.indexOf(Math.min(...y))];
    const y = { label: "loss relative to predicting 0", log: true, min: 0.01, max: 10 };
    return {
      charts: [
        {
          title: "One layer repeated, in the limit",
          x: { label: "dampening δ: rate over the best one of one step", short: "δ", python: "dampening" },
          y, lines,
          marks: [{ x: limit, label: "diverges beyond, for many steps" }, { y: 1, label: "predicting 0" }],
        },
        {
          title: "The same with 10 pairs in dimension 10 (Figure 13)",
          x: { label: "dampening δ: rate over the best one of one step", short: "δ" },
          y,
          lines: shown.map((steps, colour) => ({ label: label(steps), x: exact.x, y: exact.losses[steps], colour })),
          marks: [{ x: 0.7, label: "" }, { x: 0.75, label: "0.70 and 0.75, as published" }, { y: 1, label: "predicting 0" }],
        },
      ],
      summary: `In the limit the best dampening is ${same ? "1 for any number of steps" : best.map((value, i) => `${numbers.show(value, 2)} for ${label(shown[i])}`).join(", ")}. With 10 pairs in dimension 10 rare contexts dominate the mean: for 8 steps it is best near ${numbers.show(down(exact.losses[8]), 2)}; von Oswald et al. took 0.75, the blog post 0.70.`,
      python: [
        "dampening = np.linspace(0.05, 1.5, 300)",
        `curve = iclimit.curve("dampened_loss", dampening=dampening, steps=${JSON.stringify(shown)}, ${numbers.keywords(setting)})`,
      ].join("\n"),
      formulas: ["dampened_loss", "optimal_learning_rate"],
    };
  };

  const VIEWS = { step: oneStep, context: byContext, steps: bySteps, dampening: byDampening };
  const only = (...views) => ({ when: (s) => views.includes(s.view) });

  explorer.add({
    id: "descent",
    name: "Gradient descent",
    title: "Gradient descent in context",
    intro: "A layer of linear attention can take a step of gradient descent on the pairs of its context. Its best rate depends on their number and on the dimension.",
    guide: [
      ["Shorten the context to 5 pairs: the best rate falls, and a step gains less.", { view: "step", context: 5, dim: 5 }],
      ["Now take 8 steps: rates that differ leave far less than one rate for all.", { view: "steps", ratio: 0.5, steps: 8 }],
      ["Repeat one layer: beyond the dashed line many steps diverge.", { view: "dampening", ratio: 1, noise_ratio: 0 }],
    ],
    controls: [
      { name: "view", label: "Look at", long: true, value: "step", options: [["step", "One step and its rate"], ["context", "Context length (Figures 9 and 10)"], ["steps", "Several steps and their polynomial"], ["dampening", "Dampening of a repeated layer (Figure 13)"]] },
      { name: "inputs", label: "Inputs", value: "uniform", options: [["gaussian", "Gaussian"], ["uniform", "uniform"]], ...only("context") },
      parameters.slider("context", { max: 200, ...only("step") }),
      parameters.slider("dim", { max: 50, value: 5, ...only("step", "context") }),
      parameters.slider("noise_variance", { when: (s) => s.view === "step" || (s.view === "context" && s.inputs === "gaussian") }),
      { name: "relative", label: "rate of the predictions over the best one", min: 0, max: 2, value: 1, ...only("step") },
      parameters.slider("ratio", { label: "dimension over context pairs, d/N", ...only("steps", "dampening") }),
      parameters.slider("noise_ratio", only("dampening")),
      parameters.slider("steps", { ...only("steps") }),
    ],
    compute: (s) => VIEWS[s.view](s),
  });
}
