"""Write icl_errors.csv: ICL and IDG errors by an independent route, correct to 20 digits.

The route shares nothing with the library: the printed trace formulas (not their positive-term
forms), the effective ridge as a root of its quartic polynomial, at 400 digits, parameters taken
as the exact values of the float64 numbers in the table.

Run as ``python tests/asymptotics/tables/make_icl_errors.py``; it takes a few minutes.
"""

import csv
import itertools
import random
from collections.abc import Iterator
from pathlib import Path

from mpmath import mp, mpf, polyroots, sqrt

mp.dps = 400
COLUMNS = ("tau", "alpha", "kappa", "rho", "ridge", "icl", "idg")
DIGITS = 20


def resolvent(x: mpf, kappa: mpf) -> mpf:
    b = x + 1 - 1 / kappa
    return 2 / (b + sqrt(b**2 + 4 * x / kappa))


def derivative(x: mpf, kappa: mpf) -> mpf:
    """Differentiate (x/kappa) M^2 + (x + 1 - 1/kappa) M - 1 = 0 implicitly."""
    M = resolvent(x, kappa)
    return -(M**2 / kappa + M) / (2 * x * M / kappa + x + 1 - 1 / kappa)


def effective_ridge(t: mpf, q: mpf, k: mpf, lam: mpf) -> mpf:
    """Positive root of the quartic with u = (1 - tau) xi + tau lambda > 0."""
    if lam == 0 and t >= 1:
        return mpf(0)
    # (xi + q) u^2 + (kappa (xi + q + 1) - 1) u xi^2 - kappa xi^4, u = a xi + c
    a = 1 - t
    c = t * lam
    b0 = k * (q + 1) - 1
    b1 = k
    coefficients = [
        b1 * a - k,  # xi^4
        a**2 + b0 * a + b1 * c,
        q * a**2 + 2 * a * c + b0 * c,
        2 * q * a * c + c**2,
        q * c**2,
    ]
    while coefficients[-1] == 0:
        coefficients.pop()
    scale = max(abs(x) for x in coefficients)
    roots = polyroots([x / scale for x in coefficients], maxsteps=4000, extraprec=1600)
    good = [
        r.real
        for r in roots
        if abs(r.imag) < abs(r) * mpf(10) ** -100 and r.real > 0 and a * r.real + c > 0
    ]
    (xi,) = good
    return xi


def errors(*point: float) -> tuple[mpf, mpf]:
    tau, alpha, kappa, rho, ridge = map(mpf, point)
    q = (1 + rho) / alpha
    xi = effective_ridge(tau, q, kappa, ridge)
    nu = q + xi
    M = resolvent(nu, kappa)
    D = derivative(nu, kappa)
    bias = 1 - 2 * nu * M - nu**2 * D
    B = rho + nu - nu**2 * M - xi * bias
    Q = B / (tau - (1 - 2 * xi * M - xi**2 * D))
    icl = (1 + q) * (bias + Q * (M + xi * D)) - 2 * (1 - nu * M) + 1 + rho
    return icl, tau * Q


def points() -> Iterator[tuple[float, ...]]:
    near = [1e-9, -1e-9]
    taus = [0.01, 0.5, 1 - 1e-9, 1 + 1e-9, 1.6, 1e6]
    kappas = [1e-3, 0.5, 1 - 1e-9, 1.0, 1 + 1e-9, 2.0, 1e4]
    alphas = [1e-6, 1.0, 1e10]
    corners = list(itertools.product(taus, alphas, kappas, [0.0, 0.1, 10.0], [0.0, 1e-12, 1e2]))
    rng = random.Random(2405)
    yield from rng.sample(corners, 400)
    for _ in range(400):
        yield (
            10 ** rng.uniform(-2, 6) if rng.random() < 0.7 else 1 + rng.choice(near),
            10 ** rng.uniform(-6, 10),
            10 ** rng.uniform(-3, 4) if rng.random() < 0.7 else 1 + rng.choice(near),
            rng.choice([0.0, rng.uniform(0, 10)]),
            rng.choice([0.0, 10 ** rng.uniform(-12, 2)]),
        )


def main() -> None:
    with open(Path(__file__).with_name("icl_errors.csv"), "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for point in points():
            icl, idg = errors(*point)
            writer.writerow([*map(repr, point), mp.nstr(icl, DIGITS), mp.nstr(idg, DIGITS)])


if __name__ == "__main__":
    main()
