"use strict";
// Panel 4: the Marchenko-Pastur law and its resolvent, beside a drawn sample.

{
  const BINS = 36;

  let drawn = { key: "" };
  const sample = (s) => {
    const context = Math.max(1, Math.round(s.dim / s.ratio));
    const key = [context, s.dim, s.seed].join();
    if (drawn.key !== key) drawn = { key, context, values: numbers.sampleSpectrum(context, s.dim, s.seed) };
    return drawn;
  };

  // Of the positive values, as shares of all: zeros are an atom and no part of the density.
  const histogram = (values, low, high) => {
    const width = (high - low) / BINS;
    const edges = numbers.linspace(low, high, BINS + 1);
    const heights = new Float64Array(BINS);
    for (const value of values) {
      const bin = Math.floor((value - low) / width);
      if (value > 1e-9 * high && bin >= 0 && bin < BINS) heights[bin] += 1 / (values.length * width);
    }
    return { edges, heights };
  };

  const compute = (s) => {
    const c = s.ratio;
    const [low, high] = theory.marchenko_pastur_edges(c);
    const { values, context } = sample(s);
    const positive = values.filter((value) => value > 1e-9 * high);
    // Denser at the edges, where the density rises like a root.
    const x = numbers.linspace(0, Math.PI, 400).map((t) => low + ((high - low) * (1 - Math.cos(t))) / 2);
    const density = explorer.curve("marchenko_pastur_density", { ratio: c }, "x", x);
    const largest = Math.max(high, positive.at(-1)) * 1.04;
    const bars = histogram(values, positive[0] < 0.04 * largest ? 0 : 0.9 * Math.min(low, positive[0]), largest);
    const q = numbers.geomspace(1e-3, 100, 300);
    const limit = explorer.curve("wishart_resolvent", { kappa: 1 / c }, "q", q);
    const places = numbers.geomspace(1.5e-3, 70, 14);
    const own = places.map((z) => values.reduce((sum, value) => sum + 1 / (value + z), 0) / values.length);
    const most = Math.max(...Array.from(density).filter((v) => Number.isFinite(v) && v < 30));
    const zeros = theory.marchenko_pastur_atom(c);
    const atom = zeros > 0 ? ` A share of ${numbers.show(zeros, 3)} of the eigenvalues is 0.` : "";
    return {
      charts: [
        {
          title: "Eigenvalues of the covariance of one context",
          x: { label: "eigenvalue λ of XᵀX/N", short: "λ", python: "x", min: bars.edges[0], max: largest },
          y: { label: "density", min: 0, max: 1.12 * Math.max(Math.min(most, 6), Math.min(Math.max(...bars.heights), 6)) },
          lines: [{ label: `Marchenko–Pastur law of ratio ${numbers.show(c, 3)}`, x, y: density, colour: 0, python: "density" }],
          bars: [{ label: `one sample, d = ${s.dim}, N = ${context}`, colour: 1, ...bars }],
        },
        {
          title: "Resolvent: the mean of 1/(λ + q)",
          x: { label: "q", short: "q", log: true, python: "q" },
          y: { label: "tr (XᵀX/N + q)⁻¹ / d", log: true },
          lines: [{ label: "limit M(q)", x: q, y: limit, colour: 0, python: "resolvent" }],
          points: [{ label: "the same sample", x: places, y: own, colour: 1 }],
        },
      ],
      summary: `The eigenvalues of a context of N = ${numbers.count(context, "pair")} in dimension ${s.dim} fill the interval from ${numbers.show(low, 3)} to ${numbers.show(high, 3)}; those of this sample reach from ${numbers.show(positive[0], 3)} to ${numbers.show(positive.at(-1), 3)}.${atom}`,
      python: [
        `law = iclimit.spectra.MarchenkoPastur(ratio=${c})`,
        "low, high = law.edges",
        "x = low + (high - low) * (1 - np.cos(np.linspace(0, np.pi, 400))) / 2",
        "density = law.density(x)",
        "q = np.geomspace(1e-3, 100, 300)",
        `resolvent = iclimit.spectra.wishart_resolvent(q=q, kappa=${1 / c})`,
      ].join("\n"),
      formulas: ["marchenko_pastur_density", "wishart_resolvent"],
    };
  };

  explorer.add({
    id: "spectra",
    name: "Spectra",
    title: "The Marchenko–Pastur law and its resolvent",
    intro: "Errors, learning rates and schedules are averages over the eigenvalues of a context's covariance. In high dimension a single context already shows the limit.",
    guide: [
      ["Make context and dimension equal, d/N = 1: the smallest eigenvalue goes to 0.", { ratio: 1, dim: 120 }],
      ["Go on to d/N = 2: half of the eigenvalues are 0, the others fill an interval.", { ratio: 2, dim: 120 }],
      ["Lower the dimension to 10: one sample scatters around the law.", { ratio: 0.5, dim: 10 }],
    ],
    controls: [
      parameters.slider("ratio", { label: "dimension over context pairs, d/N" }),
      parameters.slider("dim", { min: 10, max: 200, value: 120, label: "dimension of the sample" }),
      { name: "seed", label: "sample number", min: 1, max: 50, value: 1, integer: true },
    ],
    compute,
  });
}
