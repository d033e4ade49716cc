/* What kernels call: NumPy's extremes, which keep NaN, and searches after SciPy's scipy.optimize.elementwise. */

__device__ inline double larger(double a, double b) { return a >= b || a != a ? a : b; }

__device__ inline double smaller(double a, double b) { return a <= b || a != a ? a : b; }

/* Root between two ends of different sign: Chandrupatla's method. */
template <typename Function>
__device__ double root(Function f, double a, double b) {
  double x1 = a, x2 = b, f1 = f(a), f2 = f(b);
  if (f1 == 0) return x1;
  if (f2 == 0) return x2;
  if (!(f1 * f2 < 0)) return nan("");
  double x3 = x1, f3 = f1, t = 0.5;
  for (int k = 0; k < 200; k++) {
    const double x = x1 + t * (x2 - x1), fx = f(x);
    if (isnan(fx)) return fx;
    if ((fx > 0) == (f1 > 0)) {
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
    const double best = fabs(f1) < fabs(f2) ? x1 : x2;
    const double least = (4e-16 * fabs(best) + 1e-300) / fabs(x2 - x1);
    if (f1 == 0 || least > 0.5) return best;
    const double xi = (x1 - x2) / (x3 - x2), phi = (f1 - f2) / (f3 - f2);
    t = 0.5;
    if (phi * phi < xi && (1 - phi) * (1 - phi) < 1 - xi) {
      t = f1 / (f2 - f1) * (f3 / (f2 - f3)) + (x3 - x1) / (x2 - x1) * (f1 / (f3 - f1)) * (f2 / (f3 - f2));
    }
    t = smaller(1 - least, larger(least, t));
  }
  return x1;
}
