"""Errors for structured data: 50-digit solutions, identities, other routes and edges."""

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize

from iclimit.asymptotics.pretraining import finite_size_errors, icl_error, idg_error
from iclimit.asymptotics.pretraining import structured_fixed_point as module
from iclimit.asymptotics.pretraining.joint_spectrum import JointSpectrum
from iclimit.asymptotics.pretraining.structured import structured_errors
from iclimit.asymptotics.searches import MOST_STEPS

ACCURACY = 1e-12

NAMES = ("tau", "alpha", "kappa", "rho", "ridge")
ONE = JointSpectrum.of_matrices([1.0])


def spectrum_of(task, test, inputs, weight):
    return JointSpectrum(*(np.array(values) for values in (task, test, inputs, weight)))


SKEW = spectrum_of(
    task=[2.0, 0.5, 0.5, 0.0],
    test=[0.3, 1.0, 2.0, 0.7],
    inputs=[0.4, 0.4, 1.7, 1.0],
    weight=[0.1, 0.3, 0.4, 0.2],
)
SETTING = {"tau": 0.7, "alpha": 1.5, "kappa": 0.6, "rho": 0.2, "ridge": 0.05}


def errors(spectrum, **setting):
    found = structured_errors(spectrum=spectrum, **setting)
    return np.array([found.icl, found.idg])


class Exact:
    """The errors at 50 digits, by traces of the deterministic equivalents.

    No use of the positive forms of the module, and no whitening of the fixed point: features of
    variance sigma_i r_j, G replaced by F and G X G by F (X + s' T) F row by row.
    """

    def __init__(self, spectrum):
        fields = (spectrum.task, spectrum.test, spectrum.inputs, spectrum.weight)
        c, t, self.sigma, p = ([mpmath.mpf(float(x)) for x in values] for values in fields)
        self.p = [x / mpmath.fsum(p) for x in p]
        self.T = [a * b for a, b in zip(c, self.sigma, strict=True)]
        self.T_test = [a * b for a, b in zip(t, self.sigma, strict=True)]
        self.rows = sorted(set(self.sigma))

    def mean(self, values):
        return mpmath.fdot(self.p, values)

    def D(self, q, xi, row):
        return [q + xi / (row * sigma) for sigma in self.sigma]

    def equations(self, q, xi, scales, setting):
        found = []
        features = mpmath.mpf(0)
        for row, s in zip(self.rows, scales, strict=True):
            pairs = list(zip(self.T, self.D(q, xi, row), strict=True))
            found.append(
                1 / s - 1 - self.mean(T / (T * s + D) for T, D in pairs) / setting["kappa"]
            )
            share = mpmath.fsum(p for p, x in zip(self.p, self.sigma, strict=True) if x == row)
            features += share * self.mean((T * s + q) / (T * s + D) for T, D in pairs)
        if xi == 0:
            return found
        return [setting["tau"] * (1 - setting["ridge"] / xi) - features, *found]

    def solve(self, q, setting):
        """Refine the minimum of the convex potential, found by SciPy in float64."""
        tau, ridge, kappa = (float(setting[name]) for name in ("tau", "ridge", "kappa"))
        ridgeless = ridge == 0 and tau >= 1
        sigma, T, p = (np.array([float(x) for x in v]) for v in (self.sigma, self.T, self.p))
        rows = np.array([float(x) for x in self.rows])
        share = np.array([p[sigma == row].sum() for row in rows])

        def potential(v):
            xi = 0.0 if ridgeless else np.exp(v[0])
            log_s = v if ridgeless else v[1:]
            D = float(q) + xi / (rows[:, None] * sigma)
            logs = np.log(T * np.exp(log_s)[:, None] + D) @ p
            value = share @ (logs + kappa * (np.exp(log_s) - log_s))
            return value if ridgeless else value - (1 - tau) * v[0] + tau * ridge / xi

        start = np.zeros(len(rows) + (not ridgeless))
        near = minimize(potential, start, method="BFGS", options={"gtol": 1e-6}).x
        with mpmath.workdps(60):

            def equations(*v):
                xi = mpmath.mpf(0) if ridgeless else mpmath.exp(v[0])
                scales = [mpmath.exp(x) for x in (v if ridgeless else v[1:])]
                return self.equations(q, xi, scales, setting)

            root = mpmath.findroot(equations, [mpmath.mpf(x) for x in near], tol=1e-100)
        values = [mpmath.exp(x) for x in root]
        return (mpmath.mpf(0), values) if ridgeless else (values[0], values[1:])

    def errors(self, **given):
        setting = {name: mpmath.mpf(value) for name, value in given.items()}
        rho = setting["rho"]
        test_rho = setting["test_rho"]
        q = (self.mean(self.T) + rho) / setting["alpha"]
        q_test = (self.mean(self.T_test) + test_rho) / setting["test_alpha"]
        Y = [x + q_test for x in self.T_test]
        xi, scales = self.solve(q, setting)
        train = rho
        test = test_rho
        df2 = mpmath.mpf(0)
        transfer = mpmath.mpf(0)
        for row, s in zip(self.rows, scales, strict=True):
            D = self.D(q, xi, row)
            delta = [x - q for x in D]
            F = [1 / (T * s + x) for T, x in zip(self.T, D, strict=True)]
            TF = [T * f for T, f in zip(self.T, F, strict=True)]
            loss = 1 - s**2 * self.mean(x**2 for x in TF) / setting["kappa"]

            def twice(X, TF=TF, F=F, s=s, loss=loss):
                both = self.mean(a * b * x for a, b, x in zip(TF, F, X, strict=True))
                slope = s**2 * both / setting["kappa"] / loss
                return [f**2 * (x + T * slope) for f, x, T in zip(F, X, self.T, strict=True)]

            ridged = twice(delta)
            tested = twice(Y)
            share = mpmath.mpf(0)
            for j, sigma in enumerate(self.sigma):
                if sigma != row:
                    continue
                share += self.p[j]
                d = D[j]
                f = F[j]
                x = delta[j]
                train += self.p[j] * (d - d**2 * f - (x - 2 * d * f * x + d**2 * ridged[j]))
                linear = self.T_test[j] * (1 - d * f)
                quadratic = Y[j] - 2 * d * f * Y[j] + d**2 * tested[j]
                test += self.p[j] * (self.T_test[j] - 2 * linear + quadratic)
            dF = [x * f for x, f in zip(delta, F, strict=True)]
            df2 += share * self.mean(
                1 - 2 * a + x * b for a, x, b in zip(dF, delta, ridged, strict=True)
            )
            transfer += share * self.mean(
                y * f - x * b for y, f, x, b in zip(Y, F, delta, tested, strict=True)
            )
        idg = train / (1 - df2 / setting["tau"])
        return [test + idg / setting["tau"] * transfer, idg]


# Of random settings in these ranges the worst is 2e-15 (60 settings, in ranges a hundred times
# wider).
EXACT_SETTINGS = 12


@pytest.mark.parametrize("seed", range(EXACT_SETTINGS))
def test_agrees_with_50_digits(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 4))
    task, test = 10 ** rng.uniform(-2, 1, (2, m))
    if seed % 3 == 0:
        task[0] = 0.0
    inputs = np.ones(m) if seed % 2 else 10 ** rng.uniform(-0.5, 0.5, m)
    spectrum = JointSpectrum(task, test, inputs, rng.dirichlet(np.ones(m)))
    setting = {
        "tau": 1 + rng.choice([-1, 1]) * 1e-6 if seed % 5 == 0 else 10 ** rng.uniform(-1, 1),
        "alpha": 10 ** rng.uniform(-1, 2),
        "kappa": 10 ** rng.uniform(-1, 1),
        "rho": rng.uniform(0, 1),
        "ridge": 0.0 if seed % 4 < 2 else 10 ** rng.uniform(-3, 0),
        "test_alpha": 10 ** rng.uniform(-1, 2),
        "test_rho": rng.uniform(0, 1),
    }
    with mpmath.workdps(50):
        expected = [float(x) for x in Exact(spectrum).errors(**setting)]
    assert errors(spectrum, **setting) == pytest.approx(expected, rel=ACCURACY)


def random_settings(rng, count):
    near_one = 1 + 10 ** rng.uniform(-12, -1, count) * rng.choice([-1, 1], count)
    pick = rng.integers(6, size=count)
    return {
        "tau": np.where(pick == 0, near_one, 10 ** rng.uniform(-2, 3, count)),
        "alpha": np.where(pick == 1, np.inf, 10 ** rng.uniform(-3, 6, count)),
        "kappa": np.select(
            [pick == 2, pick == 3, pick == 1],
            [near_one, np.inf, rng.choice([0.5, 1.0, 2.0], count)],
            10 ** rng.uniform(-2, 3, count),
        ),
        "rho": rng.uniform(0, 2, count),
        "ridge": np.where(rng.random(count) < 0.4, 0.0, 10 ** rng.uniform(-10, 2, count)),
    }


def test_isotropic_spectrum_is_the_foundation():
    setting = random_settings(np.random.default_rng(0), 3000)
    found = structured_errors(spectrum=ONE, **setting)
    with np.errstate(all="ignore"):
        for value, expected in (
            (found.icl, icl_error(**setting)),
            (found.idg, idg_error(**setting)),
        ):
            assert np.array_equal(np.isinf(value), np.isinf(expected))
            finite = np.isfinite(expected)
            np.testing.assert_allclose(value[finite], expected[finite], rtol=ACCURACY)


def test_equal_atoms_are_one():
    many = JointSpectrum(np.ones(7), np.ones(7), np.ones(7), np.full(7, 1 / 7))
    for setting in (SETTING, SETTING | {"ridge": 0.0}, SETTING | {"tau": 3.0, "kappa": 1.0}):
        assert errors(many, **setting) == pytest.approx(errors(ONE, **setting), rel=ACCURACY)


def published(C, C_test, setting):
    """The ridgeless formulas of the paper's code at tau > 1, with its resolvent iterated."""
    tau, alpha, kappa, rho = (setting[name] for name in NAMES[:4])
    nu = (C.mean() + rho) / alpha
    M = 1 / nu
    for _ in range(2000):
        M = np.mean(1 / (C * (1 - 1 / kappa + nu * M / kappa) + nu))
    F = 1 / (C * (1 - 1 / kappa + nu * M / kappa) + nu)
    slope = -(M * np.mean(F**2 * C) / kappa + np.mean(F**2)) / (1 + nu * np.mean(F**2 * C) / kappa)
    F2 = F**2 * (C * (M + nu * slope) / kappa + 1)
    Q = (rho + nu - nu**2 * M) / (tau - 1)
    scalar = rho + (C_test.mean() + rho) / alpha * (1 + (Q - 2 * nu) * M - nu**2 * slope)
    misalignment = Q * np.mean(C_test * F) + nu**2 * np.mean(C_test * F2)
    return np.array([scalar, misalignment, tau * Q])


def test_decomposition_is_the_published_one():
    C = np.arange(1, 41.0) ** -0.9
    C *= 40 / C.sum()
    C_test = C[::-1]
    setting = {"tau": 3.0, "alpha": 0.5, "kappa": 2.0, "rho": 0.1}
    found = structured_errors(spectrum=JointSpectrum.of_matrices(C, C_test), **setting)
    expected = published(C, C_test, setting)
    assert (found.scalar, found.misalignment, found.idg) == pytest.approx(expected, rel=1e-10)
    assert found.icl == found.scalar + found.misalignment


# Second order of the extrapolation from two sizes; measured 1e-3 from d = 120 and 240.
RICHARDSON = 4e-3
STANDARD_ERRORS = 4.0


@pytest.mark.parametrize("setting", [SETTING | {"tau": 1.4}, SETTING | {"tau": 0.5, "alpha": 2.0}])
def test_is_the_limit_of_finite_sizes(setting):
    tau, alpha, kappa = (setting[name] for name in NAMES[:3])
    predictions = []
    spreads = []
    for d in (60, 120):
        task, test, inputs = (
            np.repeat(values, np.round(d * SKEW.weight).astype(int))
            for values in (SKEW.task, SKEW.test, SKEW.inputs)
        )
        sizes = {"context": round(alpha * d), "tasks": round(kappa * d), "test_context": 3 * d}
        law = {"task_covariance": task, "test_covariance": test, "input_covariance": inputs}
        law |= {"rho": setting["rho"], "test_rho": 0.4, "ridge": setting["ridge"]}
        prompts = round(tau * d * d)
        sizes |= {"prompts": prompts, "approach": "moments"}
        run = finite_size_errors(dim=d, **sizes, **law, rng=2, draws=30)
        predictions.append(np.array([run.icl.mean, run.idg.mean]))
        spreads.append(np.array([run.icl.standard_error, run.idg.standard_error]))
    expected = errors(SKEW, **setting, test_alpha=3.0, test_rho=0.4)
    gap = np.abs(2 * predictions[1] - predictions[0] - expected)
    error = np.hypot(2 * spreads[1], spreads[0])
    assert np.all(gap < STANDARD_ERRORS * error + RICHARDSON * expected)


def test_infinite_and_zero_arguments_are_limits():
    for near, limit in (
        ({"tau": 1e12}, {"tau": np.inf}),
        ({"kappa": 1e12}, {"kappa": np.inf}),
        ({"alpha": 1e12, "ridge": 0.1}, {"alpha": np.inf, "ridge": 0.1}),
        ({"ridge": 1e-13}, {"ridge": 0.0}),
        ({"tau": 1.5, "ridge": 1e-13}, {"tau": 1.5, "ridge": 0.0}),
        ({"test_alpha": 1e13}, {"test_alpha": np.inf}),
    ):
        expected = errors(SKEW, **(SETTING | limit))
        assert errors(SKEW, **(SETTING | near)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("decades", [1e-9, 0.5, 6.0])
@pytest.mark.parametrize("ridge", [0.0, 1e-9, 0.05])
def test_many_input_variances_start_from_few(decades, ridge, monkeypatch):
    """The solution does not depend on where the iterations start."""
    rng = np.random.default_rng(1)
    inputs = rng.permutation(10 ** np.linspace(-decades / 2, decades / 2, 40))
    inputs[:9] = inputs[0]
    spectrum = JointSpectrum(rng.random(40), rng.random(40), inputs, rng.dirichlet(np.ones(40)))
    point = {
        "tau": np.array([0.3, 0.99, 1.0, 1.5, np.inf]),
        "alpha": np.array([[0.5], [np.inf]]),
        "kappa": np.array([0.05, 0.9, np.inf])[:, None, None],
        "rho": 0.1,
        "ridge": ridge,
        "spectrum": spectrum,
    }
    found = structured_errors(**point)
    monkeypatch.setattr(module, "_NODES", 1000)  # no first solution
    expected = structured_errors(**point)
    np.testing.assert_allclose(found.icl, expected.icl, rtol=1e-12)
    np.testing.assert_allclose(found.idg, expected.idg, rtol=1e-12)


def test_where_the_errors_diverge():
    assert np.all(np.isinf(errors(SKEW, **(SETTING | {"tau": 1.0, "ridge": 0.0}))))
    endless = SETTING | {"alpha": np.inf, "tau": 2.0, "ridge": 0.0}
    # Test tasks outside the span of fewer training tasks than their rank; and inside it.
    assert errors(SKEW, **endless)[0] == np.inf
    inside = spectrum_of([2.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.5, 0.5])
    assert np.all(np.isfinite(errors(inside, **endless)))
    assert errors(inside, **(endless | {"kappa": 0.4}))[0] == np.inf


def test_rank_deficient_tasks_lose_what_was_never_trained():
    """With infinite data and context, variance outside the training tasks is the error."""
    half = spectrum_of([2.0, 0.0], [0.3, 0.7], [1.0, 1.0], [0.5, 0.5])
    setting = {"tau": np.inf, "alpha": np.inf, "kappa": 3.0, "rho": 0.2}
    assert errors(half, **setting) == pytest.approx([0.2 + 0.5 * 0.7, 0.2], rel=ACCURACY)


def test_random_spectra_stay_within_the_bound_on_iterations():
    from benchmarks.stress_structured import stress

    report = stress(spectra=20, seed=11)
    assert report["most iterations"] < MOST_STEPS / 3
    assert report["least error"] >= 0


@pytest.mark.parametrize("slope", [0.3, 0.65])
def test_many_levels_are_few_at_the_nodes_of_a_rule(slope):
    """Gauss rules of a smooth law: 14 nodes are as good as 40, which start from fewer."""
    by_nodes = []
    for nodes in (14, 40):
        x, weight = np.polynomial.legendre.leggauss(nodes)
        spectrum = JointSpectrum(
            task=1 + slope * x, test=1 + 0.3 * x, inputs=1 - slope * x, weight=weight / 2
        )
        by_nodes.append(errors(spectrum, tau=0.7, alpha=1.5, kappa=1.2, rho=0.1, ridge=0.2))
    assert by_nodes[0] == pytest.approx(by_nodes[1], rel=1e-10)
