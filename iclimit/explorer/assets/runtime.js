/* What generated functions call: searches, after SciPy's scipy.optimize.elementwise. */
const runtime = (() => {
  const hypot = (a, b) => {
    a = Math.abs(a);
    b = Math.abs(b);
    const large = a > b ? a : b;
    if (large === 0 || large === Infinity) return large;
    const share = (a > b ? b : a) / large;
    return large * Math.sqrt(1 + share * share);
  };

  const isInfinite = (value) => Math.abs(value) === Infinity;

  /* Root between two ends of different sign: Chandrupatla's method. */
  const root = (f, [a, b]) => {
    let x1 = a, x2 = b, f1 = f(a), f2 = f(b);
    if (f1 === 0) return x1;
    if (f2 === 0) return x2;
    if (!(f1 * f2 < 0)) return NaN;
    let x3 = x1, f3 = f1, t = 0.5;
    for (let k = 0; k < 200; k++) {
      const x = x1 + t * (x2 - x1), fx = f(x);
      if (Number.isNaN(fx)) return NaN;
      if (fx > 0 === f1 > 0) {
        x3 = x1;
        f3 = f1;
      } else {
        x3 = x2;
        f3 = f2;
        x2 = x1;
        f2 = f1;
      }
      x1 = x;
      f1 = fx;
      const best = Math.abs(f1) < Math.abs(f2) ? x1 : x2;
      const least = (4e-16 * Math.abs(best) + 1e-300) / Math.abs(x2 - x1);
      if (f1 === 0 || least > 0.5) return best;
      const xi = (x1 - x2) / (x3 - x2), phi = (f1 - f2) / (f3 - f2);
      t = 0.5;
      if (phi * phi < xi && (1 - phi) * (1 - phi) < 1 - xi) {
        t = (f1 / (f2 - f1)) * (f3 / (f2 - f3))
          + ((x3 - x1) / (x2 - x1)) * (f1 / (f3 - f1)) * (f2 / (f3 - f2));
      }
      t = Math.min(1 - least, Math.max(least, t));
    }
    return x1;
  };

  /* Root above a point, the nearer ones first. */
  const rootAbove = (f, [start]) => {
    const sign = f(start) > 0;
    let low = start, step = 1;
    for (let k = 0; k < 64; k++) {
      const high = start + step;
      if (f(high) > 0 !== sign) return root(f, [low, high]);
      low = high;
      step *= 2;
    }
    return NaN;
  };

  /* Least of some points, refined between its neighbours: golden sections and parabolas (Brent). */
  const minimum = (f, given) => {
    const points = Float64Array.from(given).sort();
    let best = 0, least = Infinity;
    for (let k = 0; k < points.length; k++) {
      const value = f(points[k]);
      if (value < least) {
        best = k;
        least = value;
      }
    }
    if (best === 0 || best === points.length - 1) return points[best];
    const golden = (3 - Math.sqrt(5)) / 2;
    let a = points[best - 1], b = points[best + 1], x = points[best], w = x, v = x;
    let fx = least, fw = fx, fv = fx, d = 0, e = 0;
    for (let k = 0; k < 100; k++) {
      const middle = (a + b) / 2, tol = 1e-9 * Math.abs(x) + 1e-12;
      if (Math.abs(x - middle) <= 2 * tol - (b - a) / 2) break;
      let useGolden = true;
      if (Math.abs(e) > tol) {
        let r = (x - w) * (fx - fv), q = (x - v) * (fx - fw), p = (x - v) * q - (x - w) * r;
        q = 2 * (q - r);
        if (q > 0) p = -p;
        q = Math.abs(q);
        r = e;
        e = d;
        if (Math.abs(p) < Math.abs(q * r / 2) && p > q * (a - x) && p < q * (b - x)) {
          d = p / q;
          const u = x + d;
          if (u - a < 2 * tol || b - u < 2 * tol) d = x < middle ? tol : -tol;
          useGolden = false;
        }
      }
      if (useGolden) {
        e = x < middle ? b - x : a - x;
        d = golden * e;
      }
      const u = x + (Math.abs(d) >= tol ? d : d > 0 ? tol : -tol), fu = f(u);
      if (fu <= fx) {
        if (u < x) b = x; else a = x;
        v = w; fv = fw; w = x; fw = fx; x = u; fx = fu;
      } else {
        if (u < x) a = u; else b = u;
        if (fu <= fw || w === x) {
          v = w; fv = fw; w = u; fw = fu;
        } else if (fu <= fv || v === x || v === w) {
          v = u; fv = fu;
        }
      }
    }
    return x;
  };

  /* A step applied again and again until it changes x by less than 1e-15 (1 + x). */
  const repeat = (step, [start, most]) => {
    let x = start;
    for (let k = 0; k < most; k++) {
      const before = x;
      x = step(x);
      if (!(Math.abs(x - before) > 1e-15 * (1 + x))) break;
    }
    return x;
  };

  /* How often a step is applied to x until x <= goal. */
  const count = (step, [start, goal]) => {
    let found = 0;
    for (let x = start; x > goal && found < 1000; found++) x = step(x);
    return found;
  };

  return { hypot, isInfinite, root, rootAbove, minimum, repeat, count };
})();

/* Values of a function along one of its arguments, or over two of them (rows of equal y). */
const tabulate = (theory) => {
  const place = (name, argument) => {
    const found = theory.meta[name].arguments.indexOf(argument);
    if (found < 0) throw new RangeError(`${name} has no argument ${argument}`);
    return found;
  };
  theory.curve = (name, values, x, xs) => {
    const f = theory[name], row = values.slice(), i = place(name, x);
    const found = new Float64Array(xs.length);
    for (let k = 0; k < xs.length; k++) {
      row[i] = xs[k];
      found[k] = f(...row);
    }
    return found;
  };
  theory.grid = (name, values, x, xs, y, ys) => {
    const f = theory[name], row = values.slice(), i = place(name, x), j = place(name, y);
    const found = new Float64Array(xs.length * ys.length);
    for (let m = 0; m < ys.length; m++) {
      row[j] = ys[m];
      for (let k = 0; k < xs.length; k++) {
        row[i] = xs[k];
        found[m * xs.length + k] = f(...row);
      }
    }
    return found;
  };
  return theory;
};
