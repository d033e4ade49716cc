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
      const [mantissa, exponent] = value.toExponential(Math.max(digits - 2, 0)).split("e");
      const power = [...String(Number(exponent))].map((c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] ?? "⁻").join("");
      const factor = mantissa.replace(/\.?0+$/, "");
      return `${factor === "1" ? "" : factor === "-1" ? "−" : `${factor.replace("-", "−")} × `}10${power}`;
    }
    return String(Number(value.toPrecision(digits))).replace("-", "−");
  },

  // A count with its noun.
  count: (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`,

  // A literal that Python reads as the same number.
  python: (value) => (value === Infinity ? "np.inf" : String(value)),

  // Keyword arguments of a Python call.
  keywords: (values) =>
    Object.entries(values)
      .map(([name, value]) => `${name}=${typeof value === "string" ? value : numbers.python(value)}`)
      .join(", "),

  // Random numbers from a seed: mulberry32, and Box and Muller's transformation.
  random(seed) {
    let state = (seed * 0x9e3779b1) >>> 0;
    const uniform = () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return (((t ^ (t >>> 14)) >>> 0) + 0.5) / 4294967296;
    };
    const normal = () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
    // Squares of k normal numbers, added: Marsaglia and Tsang's gamma variable of shape k/2.
    const chiSquared = (k) => {
      if (k < 2) return normal() ** 2;
      const shape = k / 2 - 1 / 3;
      for (;;) {
        const z = normal();
        const v = (1 + z / Math.sqrt(9 * shape)) ** 3;
        if (v > 0 && Math.log(uniform()) < z * z / 2 + shape * (1 - v + Math.log(v))) return 2 * shape * v;
      }
    };
    return { uniform, normal, chiSquared };
  },

  // Eigenvalues of a symmetric tridiagonal matrix: implicit QL steps, as in EISPACK.  `off[i]`
  // stands between i and i + 1; both arrays are overwritten.
  tridiagonalEigenvalues(diagonal, off) {
    const size = diagonal.length;
    for (let low = 0; low < size; low++) {
      for (let count = 0; count < 60; count++) {
        let end = low;
        while (end < size - 1 && Math.abs(off[end]) > 2e-16 * (Math.abs(diagonal[end]) + Math.abs(diagonal[end + 1]))) end++;
        if (end === low) break;
        let g = (diagonal[low + 1] - diagonal[low]) / (2 * off[low]);
        const root = Math.sqrt(g * g + 1);
        g = diagonal[end] - diagonal[low] + off[low] / (g + (g < 0 ? -root : root));
        let [sine, cosine, shift, i] = [1, 1, 0, end - 1];
        for (; i >= low; i--) {
          const f = sine * off[i];
          const b = cosine * off[i];
          const length = Math.sqrt(f * f + g * g);
          off[i + 1] = length;
          if (length === 0) {
            diagonal[i + 1] -= shift;
            off[end] = 0;
            break;
          }
          [sine, cosine] = [f / length, g / length];
          g = diagonal[i + 1] - shift;
          const r = (diagonal[i] - g) * sine + 2 * cosine * b;
          shift = sine * r;
          diagonal[i + 1] = g + shift;
          g = cosine * r - b;
        }
        if (i >= low) continue;
        diagonal[low] -= shift;
        off[low] = g;
        off[end] = 0;
      }
    }
    return diagonal;
  },

  // Eigenvalues of X'X/context for a context of independent normal numbers, ascending.  They have
  // the law of those of a tridiagonal matrix (Dumitriu and Edelman, J. Math. Phys. 43 (2002) 5830).
  sampleSpectrum(context, dim, seed) {
    const { chiSquared } = numbers.random(seed);
    const [few, many] = [Math.min(context, dim), Math.max(context, dim)];
    const a = Float64Array.from({ length: few }, (_, i) => chiSquared(many - i));
    const b = Float64Array.from({ length: few - 1 }, (_, i) => chiSquared(few - 1 - i));
    const diagonal = a.map((value, i) => (value + (i ? b[i - 1] : 0)) / context);
    const off = a.map((value, i) => (i < few - 1 ? Math.sqrt(value * b[i]) / context : 0));
    const found = new Float64Array(dim);
    found.set(numbers.tridiagonalEigenvalues(diagonal, off).sort().map((v) => Math.max(v, 0)), dim - few);
    return found;
  },
};
