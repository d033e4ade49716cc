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

  /* The last search for a minimum: how many there were, the place that was found, and which of the
     points was the best.  Where to look first, if `width` or `atEnd` says so: see `theory.grid`. */
  const search = { calls: 0, place: NaN, index: -1, guess: NaN, width: 0, atEnd: false };

  /* Least of some points, refined between its neighbours; of equal ones the first. */
  const minimum = (f, points) => {
    search.calls++;
    if (search.width > 0) {
      const found = minimumNear(f, search.guess, search.width);
      if (!Number.isNaN(found)) return found;
    }
    const given = Float64Array.from(points()).sort();
    const last = given.length - 1;
    if (search.atEnd) {
      const value = f(given[search.index]), least = value - 4e-16 * Math.abs(value);
      let k = 0;
      while (k <= last && !(f(given[k]) < least)) k += 12;
      if (k > last) return given[search.index];
    }
    const values = given.map((x) => f(x));
    let best = 0, least = Infinity;
    for (let k = 0; k <= last; k++) {
      if (values[k] < least - (least < Infinity ? 4e-16 * Math.abs(least) : 0)) {
        best = k;
        least = values[k];
      }
    }
    search.index = best;
    search.place = best === 0 || best === last
      ? given[best]
      : brent(f, given[best - 1], given[best], given[best + 1], values[best - 1], least, values[best + 1]);
    return search.place;
  };

  /* The minimum near a guess: downhill with growing steps until there are higher points on both
     sides.  NaN where there are none. */
  const minimumNear = (f, guess, width) => {
    let a = guess - width, x = guess, b = guess + width, fa = f(a), fx = f(x), fb = f(b);
    for (let k = 0; k < 6 && !(fx <= fa && fx <= fb); k++) {
      if (fa < fb) {
        [b, fb, x, fx] = [x, fx, a, fa];
        a = x - 2 * (b - x);
        fa = f(a);
      } else {
        [a, fa, x, fx] = [x, fx, b, fb];
        b = x + 2 * (x - a);
        fb = f(b);
      }
    }
    return fx <= fa && fx <= fb ? brent(f, a, x, b, fa, fx, fb) : NaN;
  };

  /* Minimum between a and b, x being lower than both: parabolas and golden sections (Brent). */
  const brent = (f, a, x, b, fa, fx, fb) => {
    const golden = (3 - Math.sqrt(5)) / 2;
    let [w, fw, v, fv] = fa < fb ? [a, fa, b, fb] : [b, fb, a, fa];
    let d = b - a, e = d;
    for (let k = 0; k < 100; k++) {
      const middle = (a + b) / 2, tol = 1e-8 * Math.abs(x) + 1e-12;
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

  return { hypot, isInfinite, root, rootAbove, minimum, search, repeat, count };
})();

/* Values of a function along one of its arguments, or over two of them (rows of equal y). */
const tabulate = (theory) => {
  const { search } = runtime;
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
    const fill = (m, k) => {
      row[i] = xs[k];
      row[j] = ys[m];
      found[m * xs.length + k] = f(...row);
    };
    search.calls = 0;
    fill(0, 0);
    if (search.calls === 1) tiles(fill, ys.length, xs.length);
    else for (let m = 0; m < ys.length; m++) for (let k = 0; k < xs.length; k++) fill(m, k);
    return found;
  };

  /* Fill a grid of minima.  Where the whole searches at the corners of a tile lead to neighbouring
     points, those within the tile begin at the place interpolated between the corners; other tiles
     are divided. */
  const TILE = 8, NEIGHBOURS = 4;
  const tiles = (fill, rows, columns) => {
    const places = new Float64Array(rows * columns), indices = new Int32Array(rows * columns);
    const done = new Uint8Array(rows * columns);
    const whole = (m, k) => {
      const at = m * columns + k;
      if (done[at]) return;
      search.index = -1;
      fill(m, k);
      [done[at], places[at], indices[at]] = [1, search.place, search.index];
    };
    const tile = (top, bottom, left, right) => {
      if (bottom - top < 2 && right - left < 2) return;
      const corners = [top, bottom].flatMap((m) => [left, right].map((k) => m * columns + k));
      const [a, b, c, d] = corners.map((at) => places[at]);
      const found = corners.map((at) => indices[at]);
      const [low, high] = [Math.min(...found), Math.max(...found)];
      if (low < 0 ? high >= 0 : high - low > (low === 0 ? 0 : NEIGHBOURS)) {
        const [m, k] = [(top + bottom) >> 1, (left + right) >> 1];
        for (const row of [top, m, bottom]) for (const column of [left, k, right]) whole(row, column);
        for (const [first, last] of [[top, m], [m, bottom]]) {
          if (first < last || top === bottom) [[left, k], [k, right]].forEach(([start, end]) => {
            if (start < end || left === right) tile(first, last, start, end);
          });
        }
        return;
      }
      search.atEnd = low === 0 && high === 0;
      const spread = Math.max(a, b, c, d) - Math.min(a, b, c, d);
      for (let m = top; m <= bottom; m++) {
        for (let k = left; k <= right; k++) {
          const at = m * columns + k;
          if (done[at]) continue;
          const u = bottom > top ? (m - top) / (bottom - top) : 0;
          const v = right > left ? (k - left) / (right - left) : 0;
          search.guess = (1 - u) * ((1 - v) * a + v * b) + u * ((1 - v) * c + v * d);
          if (low > 0) search.width = 0.1 * spread + 1e-4 * Math.abs(search.guess) + 1e-7;
          search.index = low;
          fill(m, k);
          done[at] = 1;
        }
      }
      search.width = 0;
      search.atEnd = false;
    };
    for (let top = 0; top === 0 || top < rows - 1; top += TILE) {
      for (let left = 0; left === 0 || left < columns - 1; left += TILE) {
        const [bottom, right] = [Math.min(top + TILE, rows - 1), Math.min(left + TILE, columns - 1)];
        for (const m of [top, bottom]) for (const k of [left, right]) whole(m, k);
        tile(top, bottom, left, right);
      }
    }
  };
  return theory;
};
