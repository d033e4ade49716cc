"use strict";
// Panel 7: softmax heads: what a temperature costs.

{
  const CONTEXTS = 200;

  // Scores and labels of drawn contexts, in the scaling in which the limit is taken.
  let drawn = { key: "" };
  const sample = (s) => {
    const context = Math.max(2, Math.round(s.dim / s.ratio));
    const key = [context, s.dim, s.noise_ratio].join();
    if (drawn.key === key) return drawn;
    const { normal, chiSquared } = numbers.random(11);
    const noise = Math.sqrt(s.noise_ratio * context);
    const [scores, labels] = [new Float64Array(CONTEXTS * context), new Float64Array(CONTEXTS * context)];
    const answers = new Float64Array(CONTEXTS);
    for (let k = 0; k < CONTEXTS; k++) {
      // Only the inputs along the query, and along what is left of the task, are seen.
      const size = Math.sqrt(chiSquared(s.dim));
      const [along, across] = [normal(), Math.sqrt(chiSquared(s.dim - 1))];
      answers[k] = size * along;
      for (let i = k * context; i < (k + 1) * context; i++) {
        const [first, second] = [normal(), normal()];
        scores[i] = size * first;
        labels[i] = along * first + across * second + noise * normal();
      }
    }
    drawn = { key, context, scores, labels, answers };
    return drawn;
  };

  // Loss of the drawn contexts at one temperature and its best value, with its standard error.
  const simulated = ({ context, scores, labels, answers }, s, t) => {
    const beta = t / Math.sqrt(s.dim);
    const outputs = answers.map((_, k) => {
      let found = 0;
      for (const sign of s.heads === 2 ? [1, -1] : [1]) {
        let [total, sum] = [0, 0];
        for (let i = k * context; i < (k + 1) * context; i++) {
          const weight = Math.exp(sign * beta * scores[i]);
          total += weight;
          sum += weight * labels[i];
        }
        found += (sign * sum) / total;
      }
      return found;
    });
    const dot = (a, b) => a.reduce((all, each, k) => all + each * b[k], 0);
    const value = dot(outputs, answers) / dot(outputs, outputs);
    const errors = answers.map((answer, k) => (answer - value * outputs[k]) ** 2 / s.dim);
    const mean = errors.reduce((a, b) => a + b) / CONTEXTS;
    const variance = errors.reduce((a, b) => a + (b - mean) ** 2, 0) / (CONTEXTS - 1);
    return [mean, Math.sqrt(variance / CONTEXTS)];
  };

  // Least loss over the value, of which the loss is a quadratic function.
  const atBestValue = (setting, t) => {
    const [up, down] = [1, -1].map((value) => explorer.value("softmax_head_loss", { ...setting, inverse_temperature: t, value }));
    const [curvature, slope] = [(up + down) / 2 - 1, (up - down) / 2];
    return { loss: 1 - slope ** 2 / (4 * curvature), value: -slope / (2 * curvature) };
  };

  const temperature = (s) => {
    const x = numbers.geomspace(0.05, 2.5, 240);
    const setting = { ratio: s.ratio, noise_ratio: s.noise_ratio };
    const heads = [1, 2];
    const lines = heads.map((count, colour) => ({
      label: count === 1 ? "one head" : "two opposite heads", x, colour,
      y: x.map((t) => atBestValue({ ...setting, heads: count }, t).loss),
      dash: count !== s.heads,
      python: count === 1 ? "losses" : undefined,
    }));
    const linear = theory.attention_loss(1, s.ratio, s.noise_ratio);
    const least = heads.map((count) => explorer.value("softmax_limit_loss", { ...setting, heads: count }));
    const contexts = sample(s);
    const places = numbers.geomspace(0.07, 2.2, 8);
    const found = Array.from(places, (t) => simulated(contexts, s, t));
    const best = atBestValue({ ...setting, heads: 1 }, 1);
    return {
      charts: [{
        title: "Loss against the inverse temperature, at the best value",
        x: { label: "inverse temperature t = β√d", short: "t", log: true },
        y: { label: "loss relative to predicting 0", min: 0, max: 1.12 },
        lines,
        points: [{ label: `${s.heads === 1 ? "one head" : "two heads"} on ${CONTEXTS} drawn contexts, d = ${s.dim}, N = ${contexts.context}`, x: places, y: found.map((f) => f[0]), error: found.map((f) => f[1]), colour: s.heads - 1 }],
        marks: [{ x: 1, label: "t = 1" }, { y: linear, label: "linear attention" }],
      }],
      summary: `One softmax head is best at t = 1, with ${numbers.show(least[0])} (value ${numbers.show(best.value, 3)} √d), where linear attention has ${numbers.show(linear)}: it sees e = 2.718 times less context. Two opposite heads of high temperature reach linear attention.`,
      python: [
        "import iclimit, numpy as np",
        "efficiencies = [iclimit.softmax.heads_efficiency([t]) for t in np.geomspace(0.05, 2.5, 240)]",
        `losses = iclimit.softmax.attention_loss(efficiencies, ratio=${s.ratio}, noise_ratio=${s.noise_ratio})`,
        `best = iclimit.softmax.optimal_softmax(ratio=${s.ratio}, noise_ratio=${s.noise_ratio}, heads=${s.heads})`,
      ].join("\n"),
      formulas: ["softmax_limit_loss", "attention_loss"],
    };
  };

  const ratio = (s) => {
    const x = numbers.geomspace(0.01, 10, 300);
    const setting = { noise_ratio: s.noise_ratio };
    const one = explorer.curve("softmax_limit_loss", { ...setting, heads: 1 }, "ratio", x);
    const linear = explorer.curve("attention_loss", { ...setting, efficiency: 1 }, "ratio", x);
    const own = explorer.curve("attention_loss", { ...setting, efficiency: s.efficiency }, "ratio", x);
    return {
      charts: [{
        title: "What more context buys",
        x: { label: "dimension over context pairs, c = d/N", short: "c", log: true },
        y: { label: "loss relative to predicting 0", log: true },
        lines: [
          { label: "one softmax head", x, y: one, colour: 0, python: "softmax" },
          { label: "linear attention", x, y: linear, colour: 1, python: "linear" },
          { label: `attention of efficiency ${numbers.show(s.efficiency, 3)}`, x, y: own, colour: 2, dash: true },
        ],
      }],
      summary: `Attention of efficiency q does with N pairs what linear attention does with qN. One softmax head has the efficiency 1/e = 0.368 at best.`,
      python: [
        "import iclimit, numpy as np",
        "ratio = np.geomspace(0.01, 10, 300)",
        `softmax = iclimit.softmax.optimal_softmax(ratio=ratio, noise_ratio=${s.noise_ratio}).loss`,
        `linear = iclimit.softmax.attention_loss(1, ratio=ratio, noise_ratio=${s.noise_ratio})`,
      ].join("\n"),
      formulas: ["softmax_limit_loss", "attention_loss"],
    };
  };

  const VIEWS = { temperature, ratio };
  const only = (...views) => ({ when: (s) => views.includes(s.view) });

  explorer.add({
    id: "softmax",
    name: "Softmax",
    title: "Softmax heads and their temperature",
    intro: "A softmax head weighs the pairs of its context by how similar they are to the query. Too cold, it listens to few pairs; too hot, it cannot tell them apart.",
    controls: [
      { name: "view", label: "Look at", value: "temperature", options: [["temperature", "Temperature"], ["ratio", "Context"]] },
      { name: "heads", label: "Drawn contexts for", value: 1, options: [[1, "one head"], [2, "two heads"]], ...only("temperature") },
      parameters.slider("ratio", { label: "dimension over context pairs, d/N", min: 0.05, value: 0.3, ...only("temperature") }),
      parameters.slider("noise_ratio", { max: 1, ...only("temperature", "ratio") }),
      parameters.slider("dim", { label: "dimension of the drawn contexts", min: 5, max: 60, value: 30, ...only("temperature") }),
      parameters.slider("efficiency", only("ratio")),
    ],
    compute: (s) => VIEWS[s.view](s),
  });
}
