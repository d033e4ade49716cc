"use strict";
// Errors of linear attention after a time of gradient flow, as `training_errors` has them: double
// integrals over complex ridges, of which the recorded functions of `theory` know nothing.

const flow = {
  NODES: 12,
  RANGE: 3,

  // Complex numbers are pairs [real, imaginary].
  add: (a, b) => [a[0] + b[0], a[1] + b[1]],
  sub: (a, b) => [a[0] - b[0], a[1] - b[1]],
  mul: (a, b) => [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]],
  scale: (a, factor) => [a[0] * factor, a[1] * factor],
  div(a, b) {
    const square = b[0] * b[0] + b[1] * b[1];
    return [(a[0] * b[0] + a[1] * b[1]) / square, (a[1] * b[0] - a[0] * b[1]) / square];
  },
  exp: (a) => [Math.exp(a[0]) * Math.cos(a[1]), Math.exp(a[0]) * Math.sin(a[1])],
  sqrt(a) {
    const size = Math.hypot(a[0], a[1]);
    const real = Math.sqrt((size + Math.abs(a[0])) / 2);
    if (real === 0) return [0, 0];
    const other = Math.abs(a[1]) / (2 * real);
    const sign = a[1] < 0 ? -1 : 1;
    return a[0] >= 0 ? [real, sign * other] : [other, sign * real];
  },

  // Resolvent M of the tasks' covariance at q + ξ.
  resolvent(xi, s) {
    const nu = [s.q + xi[0], xi[1]];
    const offset = Number.isFinite(s.kappa) ? 1 - 1 / s.kappa : 1;
    const largest = 1 + Math.sqrt(1 / s.kappa);
    const linear = [nu[0] + offset, nu[1]];
    const low = (offset / largest) ** 2;
    const root = flow.mul(flow.sqrt([nu[0] + low, nu[1]]), flow.sqrt([nu[0] + largest ** 2, nu[1]]));
    if (linear[0] * root[0] + linear[1] * root[1] >= 0) return flow.div([2, 0], flow.add(linear, root));
    return flow.div(flow.scale(flow.sub(root, linear), s.kappa), flow.scale(nu, 2));
  },

  // Newton step of ln ξ for 1 - z/ξ = (1 - ξ M)/τ.
  newton(xi, z, s) {
    const M = flow.resolvent(xi, s);
    const u = flow.div(M, [1 + M[0] / s.kappa, M[1] / s.kappa]);
    const square = flow.scale(flow.mul(u, u), 1 / s.kappa);
    const slope = flow.div(flow.mul(M, M), [1 - square[0], -square[1]]);
    const ratio = flow.div(z, xi);
    const product = flow.mul(xi, M);
    const residual = [1 - ratio[0] - (1 - product[0]) / s.tau, -ratio[1] + product[1] / s.tau];
    const growth = flow.scale(flow.mul(xi, flow.sub(M, flow.mul(xi, slope))), 1 / s.tau);
    return flow.div(flow.scale(residual, -1), flow.add(ratio, growth));
  },

  // Effective ridge at a real ridge z > 0, by bisection: 1 - z/ξ - (1 - ξ M)/τ increases.
  real(z, s) {
    const excess = (xi) => 1 - z / xi - (1 - xi * flow.resolvent([xi, 0], s)[0]) / s.tau;
    let low = Math.log(z);
    let high = low + 1;
    while (excess(Math.exp(high)) < 0 && high < 700) high += high - low;
    for (let k = 0; k < 60; k++) {
      const middle = (low + high) / 2;
      if (excess(Math.exp(middle)) < 0) low = middle;
      else high = middle;
    }
    return Math.exp((low + high) / 2);
  },

  // Nodes of the parabola above the real axis, each with all that the errors need there.
  nodes(time, s) {
    const crossing = (Math.PI * flow.NODES) / 12;
    const step = flow.RANGE / flow.NODES;
    let xi = [flow.real(crossing / time + s.ridge, s), 0];
    return Array.from({ length: flow.NODES }, (_, k) => {
      const line = [1, (k + 0.5) * step];
      const node = flow.scale(flow.mul(line, line), crossing);
      const z = flow.scale(node, 1 / time);
      const decayed = [z[0] + s.ridge, z[1]];
      for (let count = 0; count < 40; count++) {
        const move = flow.newton(xi, decayed, s);
        xi = flow.mul(xi, flow.exp(move));
        if (Math.hypot(...move) < 1e-9) break;
      }
      const M = flow.resolvent(xi, s);
      const w = [1 + M[0] / s.kappa, M[1] / s.kappa];
      const weight = flow.scale(flow.div(flow.exp(node), line), step / Math.PI);
      const kept = flow.div(flow.mul(xi, z), decayed);
      return { xi, M, w, u: flow.div(M, w), kept, share: flow.div(decayed, xi), weight };
    });
  },

  conjugate: (node) => Object.fromEntries(Object.entries(node).map(([name, [re, im]]) => [name, [re, -im]])),

  // ICL error, IDG error and training loss between two ridges.
  between(first, second, s) {
    const { add, sub, mul, div, scale } = flow;
    const one = [1, 0];
    const product = mul(first.u, second.u);
    const once = div(product, sub(one, scale(product, 1 / s.kappa)));
    const P = div(mul(first.M, second.M), sub(one, scale(product, 1 / s.kappa)));
    const lacking = sub(sub(one, first.u), second.u);
    const K = mul(once, add(one, scale(lacking, 1 / s.kappa)));
    const Q = add(once, scale(P, s.q));
    const missed = div(mul(sub(one, first.u), sub(one, second.u)), sub(one, scale(product, 1 / s.kappa)));
    const start = scale(mul(first.kept, second.kept), s.start_variance);
    const lost = sub(add(mul(first.xi, first.M), mul(second.xi, second.M)), mul(mul(first.xi, second.xi), P));
    const denominator = [1 - 1 / s.tau + lost[0] / s.tau, lost[1] / s.tau];
    const misfit = add(add([s.rho, 0], div(missed, mul(first.w, second.w))), scale(K, s.q));
    const idg = div(add(misfit, mul(start, Q)), denominator);
    const noise = scale(add(mul(start, P), scale(mul(Q, idg), 1 / s.tau)), 1 + s.q);
    const icl = add(add([s.rho, 0], missed), add(scale(K, s.q), noise));
    return [icl, idg, mul(mul(first.share, second.share), idg)];
  },

  // [ICL, IDG, training loss] at a time > 0 of a setting {tau, alpha, kappa, rho, ridge, start_variance}.
  errors(time, setting) {
    const s = { ...setting, q: (1 + setting.rho) / setting.alpha };
    const upper = flow.nodes(time, s);
    const all = [...upper, ...upper.map(flow.conjugate)];
    const sums = [0, 0, 0];
    for (const first of upper) {
      for (const second of all) {
        const weight = flow.scale(flow.mul(first.weight, second.weight), 2);
        flow.between(first, second, s).forEach((error, i) => { sums[i] += flow.mul(weight, error)[0]; });
      }
    }
    return [sums[0], sums[1], Math.max(sums[2], 0)];
  },

  // Time of least error of a part, by golden sections about the least of errors at times.
  bestTime(part, setting, times, found) {
    const place = found.indexOf(Math.min(...found));
    // With weight decay errors may fall to the end, up to rounding.
    if (found.at(-1) <= found[place] * (1 + 1e-8)) return Infinity;
    if (place === 0) return 0;
    let [a, b] = [Math.log(times[place - 1]), Math.log(times[place + 1])];
    const golden = (Math.sqrt(5) - 1) / 2;
    for (let k = 0; k < 12; k++) {
      const [left, right] = [b - golden * (b - a), a + golden * (b - a)];
      if (flow.errors(Math.exp(left), setting)[part] < flow.errors(Math.exp(right), setting)[part]) b = right;
      else a = left;
    }
    return Math.exp((a + b) / 2);
  },
};
