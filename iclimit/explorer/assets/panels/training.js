"use strict";
// Panel 7: training: the staircase of separate heads, the drop of merged ones, the loss landscape.

{
  const DIRECTIONS = [1, 2, 3, 4];

  const staircase = (s) => {
    const eigenvalues = DIRECTIONS.map((k) => Number((k ** -s.decay).toPrecision(4)));
    // Heads start with values that differ a little, as drawn ones do.
    const values = DIRECTIONS.map((k) => Number((s.start * (1 + 0.15 * (k - 1))).toPrecision(4)));
    const given = Object.fromEntries([
      ...DIRECTIONS.map((k, i) => [`eigenvalue_${k}`, eigenvalues[i]]),
      ...DIRECTIONS.map((k, i) => [`value_${k}`, values[i]]),
      ["context", s.context], ["noise_variance", s.noise_variance],
    ]);
    const waits = eigenvalues.map((eigenvalue, i) => explorer.value("escape_time", { eigenvalue, initial_value: values[i] }));
    const end = 1.25 * waits.at(-1);
    const x = numbers.linspace(0, end, 500);
    const y = explorer.curve("staircase_loss", given, "t", x);
    const start = numbers.geomspace(1e-3, 0.1, 200);
    const setup = [
      `value = ${JSON.stringify(values)}`,
      `eigenvalues = ${JSON.stringify(eigenvalues)}`,
      "heads = np.diag(value)  # keys and queries: each head sees one direction",
      "stairs = iclimit.dynamics.separate_attention_staircase(",
      `    value, key=heads, query=heads, eigenvalues=eigenvalues, context=${s.context}, noise_variance=${s.noise_variance})`,
      `t = np.linspace(0, ${end}, 500)`,
      "loss = stairs.loss(t)",
      "initial_value = np.geomspace(1e-3, 0.1, 200)",
    ];
    return {
      charts: [
        {
          title: "The loss in training falls in steps",
          x: { label: "time, in units of the inverse learning rate", short: "t", python: "t", min: 0, max: end },
          y: { label: "mean squared error", min: 0, max: 1.15 * y[0] },
          lines: [{ label: "predicted from the initial weights", x, y, colour: 0, python: "loss" }],
          marks: waits.map((wait, i) => ({ x: wait, label: i ? "" : "heads escape" })),
        },
        {
          title: "How long a head waits",
          x: { label: "initial weight", short: "w(0)", log: true, python: "initial_value" },
          y: { label: "time of escape", log: true },
          lines: eigenvalues.map((eigenvalue, i) => ({
            label: `eigenvalue ${numbers.show(eigenvalue, 2)}`, x: start, colour: i,
            y: explorer.curve("escape_time", { eigenvalue }, "initial_value", start),
            python: explorer.call("escape_time", { eigenvalue }, "initial_value"),
          })),
          marks: [{ x: s.start, label: "" }],
        },
      ],
      summary: `Four heads that start at about ${numbers.show(s.start, 2)} learn one direction each, the largest eigenvalue first, at the times ${waits.map((wait) => numbers.show(wait, 3)).join(", ")}. The waits grow as one over the initial weight and as one over the square of the eigenvalue.`,
      python: setup.join("\n"),
      formulas: ["escape_time", "head_growth"],
    };
  };

  const drop = (s) => {
    const setting = { dim: s.dim, context: s.context, init_scale: s.init_scale, input_variance: 1, noise_variance: s.noise_variance };
    const half = explorer.value("merged_drop_time", { ...setting, drop_fraction: 0.5 });
    const x = numbers.linspace(0, 2 * half, 400);
    const scales = [s.init_scale, 1e-2, 1e-4, 1e-6];
    const lines = scales.map((init_scale, colour) => ({
      label: colour ? `start at ${numbers.show(init_scale, 2)}` : `your start, ${numbers.show(init_scale, 2)}`,
      x, colour, dash: colour > 0,
      y: explorer.curve("merged_attention_loss", { ...setting, init_scale }, "t", x),
      python: explorer.call("merged_attention_loss", { ...setting, init_scale }, "t"),
    }));
    return {
      charts: [{
        title: "One abrupt drop",
        x: { label: "time, in units of the inverse learning rate", short: "t", python: "t", min: 0, max: 2 * half },
        y: { label: "mean squared error", min: 0, max: 1.15 * lines[0].y[0] },
        lines,
        marks: [{ x: half, label: `half of the drop at ${numbers.show(half, 3)}` }],
      }],
      summary: `With merged key and query all directions are learned at once. From a start of ${numbers.show(s.init_scale, 2)} half of the drop is reached at ${numbers.show(half)}: each factor of ten in the start delays it by the same time.`,
      python: [
        `t = np.linspace(0, ${2 * half}, 400)`,
      ].join("\n"),
      formulas: ["merged_attention_loss", "merged_drop_time"],
    };
  };

  // A layer with value weight u and key-query weight w takes a step of rate uw.
  const landscape = (s) => {
    const setting = { context: s.context, dim: s.dim, noise_variance: s.noise_variance, task_variance: 1 };
    const best = explorer.value("optimal_learning_rate", setting);
    const [, ...rest] = explorer.arguments("learning_rate_loss", setting); // the rate comes first
    const loss = (u, w) => theory.learning_rate_loss(u * w, ...rest);
    const reach = 2;
    const count = 200;
    const grid = numbers.linspace(-reach, reach, count);
    const values = new Float64Array(count * count);
    for (let j = 0; j < count; j++) for (let i = 0; i < count; i++) values[j * count + i] = loss(grid[i], grid[j]);
    const null_ = s.dim + s.noise_variance;
    const marks = numbers.linspace(-reach, reach, 60);
    const valley = Float64Array.from({ length: 3600 }, (_, k) => marks[k % 60] * marks[Math.floor(k / 60)] - best);
    let [u, w] = [s.u, s.w];
    const h = 1e-4;
    const path = [[u, w]];
    const turns = [];
    const losses = [loss(u, w)];
    const gradient = () => [(loss(u + h, w) - loss(u - h, w)) / (2 * h), (loss(u, w + h) - loss(u, w - h)) / (2 * h)];
    let first = null;
    for (let k = 0; k < s.descents; k++) {
      const [a, b] = gradient();
      const length = Math.hypot(a, b);
      first ??= [a / length, b / length];
      turns.push(length > 1e-9 ? (180 / Math.PI) * Math.acos(Math.max(-1, Math.min(1, (a * first[0] + b * first[1]) / length))) : turns.at(-1) ?? 0);
      u -= (s.pace * a) / null_;
      w -= (s.pace * b) / null_;
      if (!(Math.hypot(u, w) < 50)) break;
      path.push([u, w]);
      losses.push(loss(u, w));
    }
    const steps = turns.map((_, k) => k);
    return {
      charts: [
        {
          title: "Loss landscape of one layer",
          x: { label: "value weight u", short: "u", python: "u", min: -reach, max: reach },
          y: { label: "key-query weight w", short: "w", python: "w", min: -reach, max: reach },
          heat: {
            values, columns: count, rows: count, x: grid, y: grid, log: true,
            python: "values", low: explorer.value("optimal_learning_rate_loss", setting) || 1e-3, high: 20 * null_, label: "mean squared error",
            contours: [{ values: valley, columns: 60, rows: 60, python: "u * w - best", label: "best rate, uw = η*", colour: "#ffffff" }],
            paths: [{ x: path.map(([a]) => a), y: path.map(([, b]) => b), label: "gradient descent", colour: "#e69f00" }],
          },
        },
        {
          title: "Gradients turn, and the loss falls",
          x: { label: "training step", short: "step", min: 0, max: s.descents },
          y: { label: "degrees; percent", min: 0, max: 185 },
          lines: [
            { label: "angle of the gradient to the first one, in degrees", x: steps, y: turns, colour: 1 },
            { label: "loss, in percent of that at zero weights", x: losses.map((_, k) => k), y: losses.map((each) => (100 * each) / null_), colour: 0 },
          ],
        },
      ],
      summary: `Any weights with uw = ${numbers.show(best, 3)} make the best step. From (${numbers.show(s.u, 2)}, ${numbers.show(s.w, 2)}) training ${path.length <= s.descents ? "diverges" : `arrives at (${numbers.show(u, 2)}, ${numbers.show(w, 2)}), where the rate is ${numbers.show(u * w, 3)}`}; on its way the gradient turns by ${Math.round(Math.max(...turns))} degrees.`,
      note: losses[0] > 1.85 * null_ ? `The loss starts above the right chart, at ${numbers.show((100 * losses[0]) / null_, 3)} %.` : "",
      python: [
        `u, w = np.meshgrid(np.linspace(-${reach}, ${reach}, ${count}), np.linspace(-${reach}, ${reach}, ${count}))`,
        `values = iclimit.descent.learning_rate_loss(rate=u * w, ${numbers.keywords(setting)})`,
        `best = ${explorer.call("optimal_learning_rate", setting)}`,
      ].join("\n"),
      formulas: ["learning_rate_loss"],
    };
  };

  // What Figures 15 and 16 measure: name there, title, value of a network that predicts 0.
  const DISTANCES = {
    predictions: ["L2 error (predictions)", "mean squared distance of the predictions", (power) => power, "10 / 3 - level"],
    // A step is linear in the query, whose entries have the variance 1/3.
    gradients: ["L2 error (gradients)", "mean squared distance of the gradients, per entry", (power) => 0.3 * power, "0.3 * (10 / 3 - level)"],
    similarity: ["Model similarity", "mean cosine of the gradients", () => 0, "0 * level"],
  };

  const lstm = (s) => {
    const of = (figure) => explorer.data.blog.lstm.filter((each) => each.figure === figure && each.layers === s.layers);
    const level = explorer.value("uniform_step_loss", { context: 10, dim: 10 });
    const [name, title, ofZero, python] = DISTANCES[s.distance];
    const zero = ofZero(10 / 3 - level);
    const line = (label, colour) => ({ rows }) => ({ label, colour, x: rows.map(([x]) => x), y: rows.map(([, y]) => y) });
    const losses = of(14);
    const last = losses.map(({ series, rows }) => `${series} ${numbers.show(rows.at(-1)[1], 3)}`);
    const steps = { label: "training step", short: "step", min: 0, max: 25000 };
    const theoryAt = (label, y, python) => ({ label, x: [0, 25000], across: "[0, 25000]", y: [y, y], colour: 0, dash: true, python: `[${python}, ${python}]` });
    return {
      charts: [
        {
          title: `Losses of ${numbers.count(s.layers, "layer")} in training (Figure 14)`,
          x: steps,
          y: { label: "mean squared error", min: 1.3 },
          lines: [theoryAt("theory: one step at its best rate", level, "level"), ...losses.map((each, i) => line(each.series, i + 1)(each))],
        },
        {
          title: "From the network to one step (Figures 15 and 16)",
          x: steps,
          y: { label: title, min: s.distance === "similarity" ? -0.05 : 0, max: s.distance === "similarity" ? 1.02 : 1.15 * zero },
          lines: [
            theoryAt("theory: of predicting 0", zero, python),
            ...of(16).filter(({ series }) => series === name).map(line("BI-LSTM", 1)),
            ...of(15).filter(({ series }) => series === name).map(line("UNI-LSTM", 2)),
          ],
        },
      ],
      summary: `Published medians with 10 pairs in dimension 10. After 25,000 steps: ${last.join(", ")}; one step of gradient descent at its best rate has ${numbers.show(level)}. A network that predicts 0 has ${s.distance === "similarity" ? "no cosine with" : `the distance ${numbers.show(zero, 3)} from`} that step.`,
      note: "Numbers of the blog post 'Understanding in-context learning in transformers' (ICLR 2024), read from its interactive figures, as mean squared errors and distances; it states halves.",
      python: ['level = iclimit.optimal_learning_rate(context=10, dim=10, input_law="uniform").loss'].join("\n"),
      formulas: ["optimal_learning_rate"],
    };
  };

  const runs = (s) => {
    const run = explorer.data.training_runs[s.run];
    const end = run.steps.at(-1);
    const passed = run.learned.map((count) => ({ count, height: run.plateaus[count] }));
    return {
      charts: [{
        title: `A published run: ${run.label}`,
        x: { label: "training step", short: "step", min: 0, max: end },
        y: { label: "training loss, mean squared error", min: 0 },
        lines: [
          { label: "published", x: run.steps, y: run.losses, colour: 1 },
          ...passed.map(({ count, height }, i) => ({
            label: i ? "" : "theory: directions learned", x: [0, end], across: `[0, ${end}]`, y: [height, height], colour: 0, dash: true, width: 1.5, python: `heights[[${count}, ${count}]]`,
          })),
        ],
        marks: passed.map(({ count, height }) => ({ y: height, label: count ? `${count} learned` : "" })),
      }],
      summary: `Inputs have the eigenvalues ${run.eigenvalues.map((each) => numbers.show(each, 2)).join(", ")}, contexts ${run.context} pairs. The first loss is ${numbers.show(run.losses[0], 3)}, the last one ${numbers.show(run.losses.at(-1), 3)}; with all directions learned theory has ${numbers.show(run.plateaus.at(-1), 3)} on fresh contexts. ${run.learned.length > 2 ? "Separate keys and queries learn one group of directions after the other." : "Merged keys and queries learn all directions in one drop."}`,
      note: "Losses on the training set, from the public script of Zhang, Singh, Latham and Saxe (arXiv:2501.16265). A training set is finite, so a loss may end below that of fresh contexts.",
      python: [
        `heights = iclimit.dynamics.plateau_losses(${JSON.stringify(run.eigenvalues)}, context=${run.context})`,
      ].join("\n"),
      formulas: ["plateau_losses"],
    };
  };

  // Errors of a minimiser-to-be against the time of gradient flow on n prompts.
  const ERRORS = [["icl", "new tasks (ICL)"], ["idg", "pretraining tasks (IDG)"], ["training", "training prompts"]];
  const TIMED = ["tau", "alpha", "kappa", "rho", "ridge", "start_variance"];

  const prompts = (s) => {
    const setting = Object.fromEntries(TIMED.map((name) => [name, s[name]]));
    const ends = axes.chosen(s, "0x", [1e-4, 1e5]) ?? [1e-2, 1e3];
    const x = numbers.geomspace(...ends, 120);
    const found = Array.from(x, (time) => flow.errors(time, setting));
    const of = (part) => found.map((errors) => errors[part]);
    const best = [0, 1].map((part) => flow.bestTime(part, setting, x, of(part)));
    const inside = (time) => time > 0 && Number.isFinite(time);
    const least = best.map((time, part) => (inside(time) ? flow.errors(time, setting)[part] : NaN));
    const stops = best.map((time, part) => (inside(time)
      ? `for ${ERRORS[part][1]} at t = ${numbers.show(time, 3)}, where the error is ${numbers.show(least[part], 3)}`
      : `for ${ERRORS[part][1]} ${time ? "after the times shown" : "before them"}`));
    const fades = best[0] < best[1]
      ? "Between these times in-context learning fades while the pretraining tasks still improve."
      : "The error on new tasks falls for longer than that on the pretraining tasks.";
    return {
      charts: [{
        title: "Errors during pretraining on n prompts",
        x: { ...parameters.axis("time"), python: "time" },
        y: { label: "mean squared error", min: 0, max: 1.6 * (1 + s.rho) },
        lines: ERRORS.map(([name, label], part) => ({ label, x, y: of(part), colour: part, dash: part === 2, python: `errors.${name}` })),
        points: [0, 1].filter((part) => inside(best[part])).map((part) => ({ label: `best stop, ${ERRORS[part][1]}`, x: [best[part]], y: [least[part]], colour: part })),
        marks: [{ y: 1 + s.rho, label: "predicting 0" }],
      }],
      summary: `Training is best stopped ${stops.join(", and ")}. ${Number.isFinite(s.kappa) ? fades : ""}`,
      python: [
        `time = np.geomspace(${ends.join(", ")}, 120)`,
        `errors = iclimit.pretraining.training_errors(time=time, ${numbers.keywords(setting)})`,
      ].join("\n"),
      formulas: [],
    };
  };

  const VIEWS = { staircase, drop, prompts, runs, landscape, lstm };
  const only = (...views) => ({ when: (s) => views.includes(s.view) });

  explorer.add({
    id: "training",
    name: "Training",
    title: "Training: plateaus and sudden drops",
    intro: "Linear attention that starts from small weights does nothing for a long time, and then learns one direction of the inputs after the other, each in a moment.",
    guide: [
      ["Start the heads at 0.002: the steps come later, in the same order.", { view: "staircase", start: 0.002 }],
      ["Merge key and query: all directions are learned in one drop.", { view: "drop", init_scale: 1e-4 }],
      ["Train on n prompts of few tasks: the error on new tasks turns up first.", { view: "prompts", tau: 2, alpha: 1, kappa: 0.5, rho: 0.1 }],
    ],
    controls: [
      { name: "view", label: "Look at", long: true, value: "staircase", options: [["staircase", "Staircase of separate heads"], ["drop", "Drop of merged heads"], ["prompts", "Errors against the time on n prompts"], ["runs", "Published runs"], ["landscape", "Loss landscape (Figure 11)"], ["lstm", "LSTM networks (Figures 14 to 16)"]] },
      { name: "run", label: "Run", long: true, value: 2, options: explorer.data.training_runs.map(({ label }, i) => [i, label]), ...only("runs") },
      { name: "start", symbol: "w(0)", label: "initial weight of the heads", min: 1e-3, max: 0.1, value: 0.01, log: true, ...only("staircase") },
      { name: "decay", symbol: "a", label: "decay of the eigenvalues, 1/kᵃ", min: 0.2, max: 1.2, value: 0.7, ...only("staircase") },
      ...TIMED.map((name) => parameters.slider(name, { ...(name === "rho" ? { value: 0.1 } : {}), ...only("prompts") })),
      parameters.slider("init_scale", only("drop")),
      parameters.slider("dim", { max: 50, value: 5, ...only("drop", "landscape") }),
      parameters.slider("context", { value: 30, ...only("staircase", "drop", "landscape") }),
      parameters.slider("noise_variance", { max: 1, ...only("staircase", "drop", "landscape") }),
      { name: "u", symbol: "u", label: "first value weight", min: -1.9, max: 1.9, value: -1.1, ...only("landscape") },
      { name: "w", symbol: "w", label: "first key-query weight", min: -1.9, max: 1.9, value: 1.6, ...only("landscape") },
      { name: "pace", label: "learning rate of training", min: 0.005, max: 0.3, value: 0.05, log: true, ...only("landscape") },
      { name: "descents", label: "steps of training", min: 10, max: 200, value: 80, integer: true, ...only("landscape") },
      { name: "distance", label: "Distance to the step", value: "predictions", options: [["predictions", "Predictions"], ["gradients", "Gradients"], ["similarity", "Cosine"]], ...only("lstm") },
      parameters.slider("layers", { max: 5, value: 1, log: false, ...only("lstm") }),
    ],
    compute: (s) => VIEWS[s.view](s),
  });
}
