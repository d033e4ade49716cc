"use strict";
// Panel 11: linear attention that is trained on all positions of sequences, with infinite data.

{
  const DIVISORS = [["mean", "means", "mean_rate_errors"], ["fixed", "sums over L", "fixed_length_rate_errors"]];

  // Errors at all positions that count, the best ones, and the context that one rate is right for.
  const solve = (name, setting, x) => {
    const found = Array.from(x, (position) => explorer.value(name, { ...setting, test_context: position }));
    const [icl, best] = [0, 1].map((part) => Float64Array.from(found, (each) => each[part]));
    const context = found[0][2];
    // There the curve touches the best errors.
    return { icl, best, context, error: explorer.value(name, { ...setting, test_context: context })[1] };
  };

  const compute = (s) => {
    const first = Math.min(s.first, s.context);
    const setting = { dim: s.dim, context: s.context, rho: s.rho, first };
    const x = Array.from({ length: s.context - first + 1 }, (_, i) => first + i);
    const models = DIVISORS.map(([python, label, name], colour) => ({ python, label, colour, ...solve(name, setting, x) }));
    const [mean, fixed] = models;
    const across = { label: "examples seen, ℓ", short: "ℓ", python: "mean.positions", min: 0, max: s.context };
    const over = ({ icl, best }) => icl.map((error, i) => error / best[i]);
    const price = (model) => `${numbers.show(100 * (over(model).at(-1) - 1), 3)} %`;
    // Means of the first few examples are nearly all noise: what they cost would leave the rest flat.
    const highest = (values) => Math.max(...values(fixed), values(mean).at(-1));
    return {
      charts: [
        {
          title: `Error at each position, d = ${s.dim}`,
          x: across,
          y: { label: "error on a noisy query label", min: 0, max: Math.max(1.25 * (1 + s.rho), 1.1 * highest(({ icl }) => icl)) },
          lines: [
            ...models.map(({ label, colour, python, icl }) => ({ label: `one rate, ${label}`, x, y: icl, colour, python: `${python}.icl` })),
            { label: "best rate at each position", x, y: mean.best, colour: 4, python: "mean.best" },
            {
              label: "regression (limit)", x, colour: 6, dash: true, python: `iclimit.bayes_error(alpha=mean.positions / ${s.dim}, rho=${s.rho})`,
              y: Float64Array.from(x, (position) => explorer.value("bayes_error", { alpha: position / s.dim, rho: s.rho })),
            },
          ],
          points: models.map(({ label, colour, context, error }) => ({ label: `effective context, ${label}`, x: [context], y: [error], colour })),
          marks: [{ y: 1 + s.rho, label: "predicting 0" }],
        },
        {
          title: "What one rate costs",
          x: across,
          y: { label: "error over the best at the position", min: 0.9, max: Math.max(1.5, 1.1 * highest(over)) },
          lines: models.map((model) => ({ label: model.label, x, y: over(model), colour: model.colour, python: `${model.python}.icl / ${model.python}.best` })),
          marks: [{ y: 1, label: "" }],
        },
      ],
      summary: first === s.context
        ? "Only the last position counts, for which one rate is enough."
        : `On means of the examples seen the model has the best rate for ${numbers.show(mean.context, 3)} examples: with all ${s.context} its error is ${price(mean)} above the best of one step. On sums divided by L it has that for ${numbers.show(fixed.context, 3)} examples, and its error is ${price(fixed)} above.`,
      note: `This is for infinitely many sequences. ${s.first > s.context ? `A sequence has no position ${s.first}: the first one that counts is the last, ${s.context}. ` : ""}iclimit.pretraining.position_errors_at_size has the errors after a number of sequences.`,
      python: [
        `setting = dict(${numbers.keywords(setting)})`,
        "mean = iclimit.pretraining.exact_position_errors(**setting)",
        'fixed = iclimit.pretraining.exact_position_errors(**setting, normalization="length")',
      ].join("\n"),
      formulas: ["mean_rate_errors"],
    };
  };

  explorer.add({
    id: "positions",
    name: "Positions",
    title: "What training on all positions makes of a model",
    intro: "Linear attention answers at every position of a sequence, and its loss is the mean over all positions. It learns a step of one rate, which is best for one context length, its effective context. What the step sums over the examples seen is divided by their number (means), or by the length of the sequence (sums over L).",
    guide: [
      ["Lengthen the sequences: the rate for means of the examples remains that of a few of them.", { context: 200, first: 1, dim: 20, rho: 0 }],
      ["Let the loss begin at position 50: the rate for means is now nearly right at all positions that count.", { context: 200, first: 50, dim: 20, rho: 0 }],
      ["Add noise: every position wants a smaller rate, but the effective contexts stay.", { context: 200, first: 1, dim: 20, rho: 0.5 }],
    ],
    controls: [
      parameters.slider("context", { symbol: "L", label: "examples in a sequence", min: 2, value: 40 }),
      parameters.slider("first", { label: "first position that counts" }),
      parameters.slider("dim", { value: 20 }),
      parameters.slider("rho", { value: 0 }),
    ],
    compute,
  });
}
