"use strict";
// Panel 6: GD++ squeezes the spectrum of the context layer by layer; layers of trained networks.

{
  let drawn = { key: "" };
  const sample = (s) => {
    const context = Math.round(s.dim / s.ratio);
    const key = [context, s.dim].join();
    if (drawn.key !== key) drawn = { key, values: numbers.sampleSpectrum(context, s.dim, 3) };
    return drawn.values;
  };

  const squeeze = (s) => {
    const start = sample(s);
    const condition = start.at(-1) / start[0];
    const gammas = theory.gdpp_gammas(condition, s.layers);
    // Condition numbers minus one, by a formula that does not subtract; samples end at round-off.
    const known = Array.from({ length: s.layers + 1 }, (_, steps) =>
      (steps ? explorer.value("condition_number_excess", { condition_number: condition, steps }) : condition - 1));
    const least = 1e-13;
    const stages = [start.map((value) => value / start.at(-1))];
    for (const gamma of gammas) stages.push(stages.at(-1).map((value) => theory.gdpp_eigenvalue(value, gamma)));
    const rank = numbers.linspace(0, 1, s.dim);
    const shown = stages.map((values) => {
      const sorted = values.slice().sort();
      return sorted.map((value) => value / sorted.at(-1));
    });
    const layers = stages.map((_, i) => i);
    const plain = (1 - 1 / condition) / (1 + 1 / condition);
    const name = (i) => (i ? `after ${numbers.count(i, "layer")}` : "inputs");
    return {
      charts: [
        {
          title: "Eigenvalues of a drawn context, layer by layer",
          x: { label: "eigenvalues in ascending order, as a share", short: "share", min: 0, max: 1 },
          y: { label: "eigenvalue over the largest", log: true, max: 1.3 },
          lines: shown.map((y, i) => ({ label: name(i), x: rank, y, colour: i })),
        },
        {
          title: "Condition number",
          x: { label: "layers of GD++", short: "layers", python: `range(${s.layers + 1})`, min: -0.2, max: s.layers + 0.2, whole: true },
          y: { label: "condition number minus 1", log: true, min: known.at(-1) < least ? least : undefined },
          lines: [{ label: "theory", x: layers, y: known, colour: 0, python: "schedule.excess" }],
          points: [{ label: "the same context", x: layers, y: shown.map((values, i) => (known[i] > least ? 1 / values[0] - 1 : NaN)), colour: 1 }],
        },
      ],
      summary: `A context of ${Math.round(s.dim / s.ratio)} pairs in dimension ${s.dim} has the condition number ${numbers.show(condition, 3)}; ${s.layers} ${s.layers === 1 ? "layer brings" : "layers bring"} it down to 1 + ${numbers.show(known.at(-1), 3)}. Then one more step leaves at most ${numbers.show((100 * known.at(-1)) / (known.at(-1) + 2), 3)} % of any direction; without GD++ a step leaves up to ${numbers.show(100 * plain, 3)} %.`,
      note: known.at(-1) < least ? "Below 10⁻¹³ nothing is drawn: there the eigenvalues of the context end at round-off." : "",
      python: [
        `schedule = iclimit.gdpp.condition_number_schedule(${condition}, steps=${s.layers})`,
      ].join("\n"),
      formulas: ["gdpp_eigenvalue", "gdpp_gammas", "condition_number_excess"],
    };
  };

  const worst = (s) => {
    const x = numbers.geomspace(1.1, 1e4, 300);
    const counts = [1, 2, 3, 4, 6];
    const lines = counts.map((steps, colour) => ({
      label: numbers.count(steps, "layer"), x, colour,
      y: explorer.curve("condition_number_excess", { steps }, "condition_number", x),
      python: `curve.values[${colour}]`,
    }));
    const needed = theory.steps_needed(s.condition_number, s.tol);
    return {
      charts: [{
        title: "What layers of GD++ leave of a condition number",
        x: { label: "condition number of the context, ν/μ", short: "ν/μ", log: true, python: "condition_number" },
        y: { label: "condition number minus 1", log: true, min: 1e-8, max: 1e4 },
        lines,
        marks: [{ x: s.condition_number, label: `${numbers.count(needed, "layer")} needed` }, { y: s.tol, label: "wanted" }],
      }],
      summary: `From a condition number of ${numbers.show(s.condition_number, 3)} it takes ${numbers.count(needed, "layer")} to come within ${numbers.show(s.tol, 2)} of 1: first each layer divides it by 27/4, then its excess is squared.`,
      python: [
        "condition_number = np.geomspace(1.1, 1e4, 300)",
        `curve = iclimit.curve("condition_number_excess", condition_number=condition_number, steps=${JSON.stringify(counts)})`,
        `needed = iclimit.gdpp.steps_needed(${s.condition_number}, tol=${s.tol})`,
      ].join("\n"),
      formulas: ["condition_number_excess"],
    };
  };

  const published = (s) => {
    const wanted = explorer.data.blog.layers.filter(({ model }) => model.startsWith(s.model));
    const context = numbers.geomspace(2, 100, 200);
    const one = explorer.curve("uniform_step_loss", { dim: 5 }, "context", context);
    const last = (layers) => wanted.find((each) => each.layers === layers).rows.at(-1)[1];
    const points = wanted.map(({ layers, rows }) => ({
      label: numbers.count(layers, "layer"),
      colour: layers,
      x: rows.map(([x]) => x),
      y: rows.map(([, y]) => y),
    }));
    return {
      charts: [{
        title: s.model === "linear" ? "Trained linear attention (Figure 8)" : "Trained softmax attention (Figure 7)",
        x: { label: "context length N", short: "N", python: "context", log: true, min: 1.8, max: 110 },
        y: { label: "mean squared error", log: true },
        lines: [{ label: "theory: one step at its best rate", x: context, y: one, colour: 0, python: "one_step" }],
        points,
      }],
      summary: `Published medians over seeds in dimension 5 with uniform inputs. At the longest context one layer has ${numbers.show(last(1), 3)}, five have ${numbers.show(last(5), 3)}. One linear layer is one step of gradient descent; more layers of GD++ go below it.`,
      note: "Numbers of the blog post 'Understanding in-context learning in transformers' (ICLR 2024), read from its interactive figures, as mean squared errors; it states halves.",
      python: [
        "context = np.geomspace(2, 100, 200)",
        'one_step = iclimit.optimal_learning_rate(context=context, dim=5, input_law="uniform").loss',
      ].join("\n"),
      formulas: ["optimal_learning_rate"],
    };
  };

  const VIEWS = { squeeze, worst, published };
  const only = (view) => ({ when: (s) => s.view === view });

  explorer.add({
    id: "gdpp",
    name: "GD++",
    title: "GD++: layers that squeeze the spectrum",
    intro: "A layer may also transform the inputs of its context, so that all directions are learned at the same speed: the spread of their eigenvalues shrinks from layer to layer.",
    guide: [
      ["Bring d/N near 1: the spectrum is wide, and few layers still squeeze it.", { view: "squeeze", ratio: 0.9, layers: 5 }],
      ["Raise the condition number to 1000 and count the layers that are needed.", { view: "worst", condition_number: 1000, tol: 0.01 }],
      ["Compare with trained networks: one linear layer is one step of gradient descent.", { view: "published", model: "linear" }],
    ],
    controls: [
      { name: "view", label: "Look at", long: true, value: "squeeze", options: [["squeeze", "A spectrum, layer by layer"], ["worst", "Layers that are needed"], ["published", "Layers of trained networks (Figures 7, 8)"]] },
      parameters.slider("ratio", { label: "dimension over context pairs, d/N", max: 0.95, value: 0.5, ...only("squeeze") }),
      parameters.slider("dim", { label: "dimension of the context", min: 5, max: 120, value: 60, ...only("squeeze") }),
      parameters.slider("layers", { max: 6, value: 4, ...only("squeeze") }),
      parameters.slider("condition_number", only("worst")),
      { name: "tol", symbol: "ε", label: "excess over 1 that may be left", min: 1e-8, max: 0.5, value: 0.01, log: true, ...only("worst") },
      { name: "model", label: "Attention", value: "linear", options: [["linear", "linear"], ["softmax", "softmax"]], ...only("published") },
    ],
    compute: (s) => VIEWS[s.view](s),
  });
}
