"use strict";
// Grids, random numbers and how numbers are written for people and for Python.

const numbers = {
  linspace: (start, stop, count) =>
    Float64Array.from({ length: count }, (_, i) => start + ((stop - start) * i) / (count - 1)),

  geomspace(start, stop, count) {
    const found = numbers.linspace(Math.log(start), Math.log(stop), count).map(Math.exp);
    [found[0], found[count - 1]] = [start, stop];
    return found;
  },

  // Four digits, as people read them.
  show(value, digits = 4) {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e5)) {
      const [mantissa, exponent] = value.toExponential(digits - 2).split("e");
      const power = [...String(Number(exponent))].map((c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] ?? "⁻").join("");
      const factor = mantissa.replace(/\.?0+$/, "");
      return `${factor === "1" ? "" : factor === "-1" ? "−" : `${factor.replace("-", "−")} × `}10${power}`;
    }
    return String(Number(value.toPrecision(digits))).replace("-", "−");
  },

  // A literal that Python reads as the same number.
  python: (value) => (value === Infinity ? "np.inf" : String(value)),

  // Keyword arguments of a Python call.
  keywords: (values) =>
    Object.entries(values)
      .map(([name, value]) => `${name}=${typeof value === "string" ? value : numbers.python(value)}`)
      .join(", "),

  // Standard normal numbers from a seed: mulberry32 and Box and Muller's transformation.
  normals(seed) {
    let state = (seed * 0x9e3779b1) >>> 0;
    const uniform = () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
    return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  },

  // Eigenvalues of X'X/context for a drawn context of independent normal numbers, ascending.
  sampleSpectrum(context, dim, seed) {
    const draw = numbers.normals(seed);
    const X = mlMatrix.Matrix.zeros(context, dim);
    for (let i = 0; i < context; i++) for (let j = 0; j < dim; j++) X.set(i, j, draw());
    const gram = X.transpose().mmul(X).div(context);
    const found = new mlMatrix.EigenvalueDecomposition(gram, { assumeSymmetric: true });
    return Float64Array.from(found.realEigenvalues, (value) => Math.max(value, 0)).sort();
  },
};
