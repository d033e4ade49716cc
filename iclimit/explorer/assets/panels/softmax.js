"use strict";
// Panel 8: softmax heads: what a temperature costs.

{
  const CONTEXTS = 200;
  const SCORES = 12000; // of the contexts of a point, where their number is neither least nor most
  const [LEAST, MOST] = [30, 600];
  const RATIOS = [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2];

  const mean = (values) => values.reduce((sum, each) => sum + each, 0) / values.length;

  // Drawn contexts.  Given the norm of the query and the scores x·x_q of the inputs, over that norm,
  // the mean over tasks and label noise is exact, so that nothing else needs to be drawn.
  const kept = new Map();
  const draw = (dim, context, count) => {
    const key = [dim, context, count].join();
    if (!kept.has(key)) {
      if (kept.size > 20) kept.clear();
      const { normal, chiSquared } = numbers.random(11);
      const drawn = Float64Array.from({ length: count }, () => Math.sqrt(chiSquared(dim)));
      const size = Math.sqrt(dim / mean(drawn.map((norm) => norm ** 2))); // their mean square is known
      const scores = Float64Array.from({ length: count * context }, normal);
      kept.set(key, { dim, context, norms: drawn.map((norm) => norm * size), scores, heard: new Map() });
    }
    return kept.get(key);
  };

  // Mean score that heads hear in each context, and the sum of their squared weights.
  const hear = ({ dim, context, norms, scores, heard }, heads, t) => {
    const key = [heads, t].join();
    if (heard.has(key)) return heard.get(key);
    const [means, squares] = [new Float64Array(norms.length), new Float64Array(norms.length)];
    const weights = new Float64Array(context);
    for (let k = 0; k < norms.length; k++) {
      const own = scores.subarray(k * context, (k + 1) * context);
      const scale = (t * norms[k]) / Math.sqrt(dim);
      let [total, opposite] = [0, 0];
      for (let i = 0; i < context; i++) {
        total += Math.exp(scale * own[i]);
        if (heads === 2) opposite += Math.exp(-scale * own[i]);
      }
      for (let i = 0; i < context; i++) {
        weights[i] = Math.exp(scale * own[i]) / total;
        if (heads === 2) weights[i] -= Math.exp(-scale * own[i]) / opposite;
        means[k] += weights[i] * own[i];
        squares[k] += weights[i] * weights[i];
      }
    }
    heard.set(key, { means, squares });
    return heard.get(key);
  };

  // Loss at one temperature and its best value, relative to predicting 0, with its standard error.
  const simulated = (drawn, { heads, noise_ratio }, t) => {
    const { dim, context, norms } = drawn;
    const { means, squares } = hear(drawn, heads, t);
    const rest = dim - 1 + noise_ratio * context;
    const value = mean(norms.map((norm, k) => norm * means[k])) / mean(means.map((each, k) => each ** 2 + rest * squares[k]));
    const losses = norms.map((norm, k) => ((norm - value * means[k]) ** 2 + value ** 2 * rest * squares[k]) / dim);
    const loss = mean(losses);
    // What varies with the norm has no error, as the mean square of the norms is exact.
    const excess = norms.map((norm) => norm ** 2 - dim);
    const slope = mean(losses.map((each, k) => each * excess[k])) / mean(excess.map((each) => each ** 2));
    const variance = mean(losses.map((each, k) => (each - loss - slope * excess[k]) ** 2));
    return [loss, Math.sqrt(variance / (losses.length - 2))];
  };

  // The same at the best temperature: the lowest point of a parabola through the best of a few.
  const bestOf = (drawn, given) => {
    const places = numbers.geomspace(0.4, 6, 9);
    const losses = Array.from(places, (t) => simulated(drawn, given, t)[0]);
    const i = Math.min(Math.max(losses.indexOf(Math.min(...losses)), 1), 7);
    const [low, middle, high] = losses.slice(i - 1, i + 2);
    const shift = (low - high) / (2 * (low - 2 * middle + high));
    return simulated(drawn, given, places[i] * (places[1] / places[0]) ** shift);
  };

  // Least loss over the value, of which the loss is a quadratic function.
  const atBestValue = (setting, t) => {
    const [up, down] = [1, -1].map((value) => explorer.value("softmax_head_loss", { ...setting, inverse_temperature: t, value }));
    const [curvature, slope] = [(up + down) / 2 - 1, (up - down) / 2];
    return { loss: 1 - slope ** 2 / (4 * curvature), value: -slope / (2 * curvature) };
  };

  const temperature = (s) => {
    const x = numbers.geomspace(0.05, 4, 240);
    const setting = { ratio: s.ratio, noise_ratio: s.noise_ratio };
    const heads = [1, 2];
    const lines = heads.map((count, colour) => ({
      label: count === 1 ? "one head" : "two opposite heads", x, colour,
      y: x.map((t) => atBestValue({ ...setting, heads: count }, t).loss),
      dash: count !== s.heads,
      python: count === 1 ? "one" : "two",
    }));
    const linear = theory.attention_loss(1, s.ratio, s.noise_ratio);
    const least = heads.map((count) => explorer.value("softmax_limit_loss", { ...setting, heads: count }));
    const contexts = draw(s.dim, Math.max(2, Math.round(s.dim / s.ratio)), CONTEXTS);
    const places = numbers.geomspace(0.07, 3.6, 9);
    const found = Array.from(places, (t) => simulated(contexts, s, t));
    const lowest = found.reduce((best, each) => (each[0] < best[0] ? each : best));
    const best = atBestValue({ ...setting, heads: 1 }, 1);
    return {
      charts: [{
        title: "Loss against the inverse temperature, at the best value",
        x: { label: "inverse temperature t = β√d", short: "t", log: true, python: "t" },
        y: { label: "loss relative to predicting 0", min: 0, max: 1.12 },
        lines,
        points: [{ label: `${s.heads === 1 ? "one head" : "two heads"}, mean of ${CONTEXTS} drawn contexts, d = ${s.dim}, N = ${contexts.context}`, x: places, y: found.map((f) => f[0]), error: found.map((f) => f[1]), colour: s.heads - 1 }],
        marks: [{ x: 1, label: "t = 1" }, { y: linear, label: "linear attention" }],
      }],
      summary: `In the limit one softmax head is best at t = 1, with ${numbers.show(least[0])} (value ${numbers.show(best.value, 3)} √d), where linear attention has ${numbers.show(linear)}: it sees e = 2.718 times less context. Two opposite heads of high temperature reach linear attention. On the drawn contexts of ${contexts.context} pairs ${s.heads === 1 ? "one head has" : "two heads have"} ${numbers.show(lowest[0], 3)} ± ${numbers.show(lowest[1], 1)} at the best of the points, t = ${numbers.show(places[found.indexOf(lowest)], 2)}.`,
      note: `The curves are the limit of large dimension. In a context of N pairs few of them carry the weights as t comes near √(ln N), here ${numbers.show(Math.sqrt(Math.log(contexts.context)), 2)}: there points leave the curves.`,
      python: [
        "t = np.geomspace(0.05, 4, 240)",
        ...[["one", "[each]"], ["two", "[each, -each]"]].map(([name, temperatures]) =>
          `${name} = iclimit.softmax.attention_loss([iclimit.softmax.heads_efficiency(${temperatures}) for each in t], ratio=${s.ratio}, noise_ratio=${s.noise_ratio})`),
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
    // The best head of finite contexts, at the temperature that is best on the drawn ones.
    const contexts = [...new Set(RATIOS.map((c) => Math.max(2, Math.round(s.dim / c))))];
    const drawn = contexts.map((context) => draw(s.dim, context, Math.round(Math.min(Math.max(SCORES / context, LEAST), MOST))));
    const given = { heads: 1, noise_ratio: s.noise_ratio };
    const found = drawn.map((each) => bestOf(each, given));
    return {
      charts: [{
        title: "What more context buys",
        x: { label: "dimension over context pairs, c = d/N", short: "c", log: true, python: "ratio" },
        y: { label: "loss relative to predicting 0", log: true },
        lines: [
          { label: "one softmax head", x, y: one, colour: 0, python: "softmax" },
          { label: "linear attention", x, y: linear, colour: 1, python: "linear" },
          { label: `attention of efficiency ${numbers.show(s.efficiency, 3)}`, x, y: own, colour: 2, dash: true, python: "own" },
        ],
        points: [{ label: `best softmax head in dimension ${s.dim}, means of ${drawn[0].norms.length} to ${drawn.at(-1).norms.length} drawn contexts`, x: contexts.map((context) => s.dim / context), y: found.map((f) => f[0]), error: found.map((f) => f[1]), colour: 0 }],
      }],
      summary: `Attention of efficiency q does with N pairs what linear attention does with qN. One softmax head has the efficiency 1/e = 0.368 at best. That is the limit; in dimension ${s.dim} the best head has ${numbers.show(found.at(-1)[0], 3)} with ${contexts.at(-1)} pairs and ${numbers.show(found[0][0], 3)} with ${contexts[0]}.`,
      python: [
        "ratio = np.geomspace(0.01, 10, 300)",
        `softmax = iclimit.softmax.optimal_softmax(ratio=ratio, noise_ratio=${s.noise_ratio}).loss`,
        `linear = iclimit.softmax.attention_loss(1, ratio=ratio, noise_ratio=${s.noise_ratio})`,
        `own = iclimit.softmax.attention_loss(${s.efficiency}, ratio=ratio, noise_ratio=${s.noise_ratio})`,
        `contexts = np.array([${contexts.join(", ")}])`,
        `size = {"context": contexts, "dim": ${s.dim}, "noise_variance": ${s.noise_ratio} * contexts}`,
        `exact = iclimit.softmax.optimal_softmax(**size).loss / ${s.dim}  # what the points estimate`,
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
    guide: [
      ["Find the best temperature: in the limit the loss of one head is least at t = 1.", { view: "temperature", heads: 1 }],
      ["Take two opposite heads: at high temperature they reach linear attention.", { view: "temperature", heads: 2 }],
      ["Now lengthen the context: a softmax head needs e = 2.7 times as many pairs.", { view: "ratio" }],
    ],
    controls: [
      { name: "view", label: "Look at", value: "temperature", options: [["temperature", "Temperature"], ["ratio", "Context"]] },
      { name: "heads", label: "Drawn contexts for", value: 1, options: [[1, "one head"], [2, "two heads"]], ...only("temperature") },
      parameters.slider("ratio", { label: "dimension over context pairs, d/N", min: 0.05, value: 0.3, ...only("temperature") }),
      parameters.slider("noise_ratio", { max: 1, ...only("temperature", "ratio") }),
      parameters.slider("dim", { label: "dimension of the drawn contexts", min: 5, max: 60, value: 30, ...only("temperature", "ratio") }),
      parameters.slider("efficiency", only("ratio")),
    ],
    compute: (s) => VIEWS[s.view](s),
  });
}
