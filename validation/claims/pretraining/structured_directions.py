"""Errors direction by direction, and the test and training covariances of least error.

Each trained model is tested on tasks that vary along one eigenvector of the training
covariance only, on tasks of two other covariances, and on none.  Differences of these errors
extrapolate to the slopes of the ICL error; the least errors, over directions and over orders of
given eigenvalues, extrapolate to those of the best test covariances.  The best training
covariance is that of a scan.

Source: {letey2025}: the error is affine in the test covariance; derived in the documentation.
"""

import math

import numpy as np
from numpy.random import SeedSequence
from scipy.optimize import minimize_scalar

from iclimit.asymptotics import pretraining
from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.pretraining.ridge import solve_ridge
from iclimit.simulate.prompts.summaries import SummaryLaw
from iclimit.simulate.prompts.summary_moments import exact_error, fresh_task_moments
from iclimit.statement import named_cell
from iclimit.statistics import extrapolate_ratios
from iclimit.validation.claim import Claim, Effort, Rows, call, exact, limit, run

# Prompts over the squared dimension.
TAU = 0.5
# Context length over dimension.
ALPHA = 2.0
# Variance of the label noise.
RHO = 0.1
# Ridge of the pretraining.
RIDGE = 0.4
# The same as arguments of the theory.
POINT = {"tau": TAU, "alpha": ALPHA, "kappa": math.inf, "rho": RHO, "ridge": RIDGE}
# Eigenvalues of the training tasks, equally frequent.
TASK = (0.4, 1.6)
# Variances of the test tasks along the weak and the strong directions.
TESTS = {
    "none": (0.0, 0.0),
    "weak direction": (2.0, 0.0),
    "strong direction": (0.0, 2.0),
    "weak direction more": (1.5, 0.5),
    "strong direction more": (0.5, 1.5),
}
# Trained models by dimension.
SIZES = {
    "quick": {16: 500, 24: 200, 32: 280},
    "medium": {16: 3000, 24: 1200, 32: 1200, 48: 200},
    "full": {24: 9000, 32: 9000, 48: 2400, 64: 600},
}
# Dimensions from which the limit of the finite-size predictions is extrapolated.
ANCHORS = (40, 56, 80, 104, 136)
# Joint spectrum of the training tasks.
TRAINED_ON = pretraining.JointSpectrum.of_matrices(TASK)
# Setting of the scan.
SCANNED = POINT | {"tau": 2.0, "kappa": 2.0}
# Shares of the trace along the weak direction that are tried for the best training covariance.
SHARES = np.linspace(0.005, 0.995, 100)
# Relative, of the least error.
SCAN_ACCURACY = 1e-9
# Functions that give the limits of what is measured.
FUNCTIONS = {
    "slope of ICL along the weak direction": "direction_slopes",
    "slope of ICL along the strong direction": "direction_slopes",
    "least ICL over directions of tests": "best_test_covariance.icl",
    "least ICL over orders of test eigenvalues": "best_test_covariance.icl",
}


def spread(values: tuple[float, ...], dim: int) -> np.ndarray:
    """Eigenvalues of a covariance in d dimensions."""
    return np.repeat(values, dim // 2)


@named_cell("direction_errors")
def direction_errors(*, dim: int, count: int, rng: SeedSequence) -> np.ndarray:
    """Errors of trained models on all tests, (tests, count)."""
    backend = get_backend("numpy")
    context = round(ALPHA * dim)
    law = SummaryLaw(
        backend, Problem(dim, context, noise_variance=RHO, task_covariance=spread(TASK, dim))
    )
    moments = [
        fresh_task_moments(
            backend, dim, context, RHO, "gaussian", covariance=np.diag(spread(test, dim))
        )
        for test in TESTS.values()
    ]
    errors = []
    for generator in backend.generators(rng, count):
        gamma = solve_ridge(*law.draw(generator, round(TAU * dim**2), None), RIDGE).gamma
        errors.append([float(exact_error(gamma, test)) for test in moments])
    return np.array(errors).T


@named_cell("predicted_errors")
def predicted_errors(*, dim: int, rng: SeedSequence) -> np.ndarray:
    """Finite-size predictions of the errors on all tests, without random numbers."""
    return np.array(
        [
            pretraining.finite_size_errors(
                dim=dim,
                context=round(ALPHA * dim),
                tasks=math.inf,
                prompts=round(TAU * dim**2),
                rho=RHO,
                ridge=RIDGE,
                task_covariance=spread(TASK, dim),
                test_covariance=spread(test, dim),
                draws=1,
                rng=rng,
            ).icl.mean
            for test in TESTS.values()
        ]
    )


def measured(errors: np.ndarray) -> np.ndarray:
    """Slopes in both directions, least error over directions, and over orders of eigenvalues.

    All variance in one direction, of trace d, raises the error by the slope.  Which tests have the
    least error is clear from run to run.
    """
    none, weak, strong, *orders = errors
    best = [min(pair, key=np.mean) for pair in ((weak, strong), orders)]
    return np.stack([weak - none, strong - none, *best])


def theory() -> list[float]:
    """What `measured` tends to."""
    weak, strong = pretraining.direction_slopes(**POINT, spectrum=TRAINED_ON)
    spectrum = pretraining.JointSpectrum.of_matrices(TASK, TESTS["weak direction more"])
    best = [
        pretraining.best_test_covariance(**POINT, spectrum=spectrum, fixed=fixed).icl
        for fixed in ("trace", "spectrum")
    ]
    return [weak, strong, *best]


def scan() -> float:
    """Least error over training covariances, for tests that vary along the strong direction."""
    tests = TESTS["strong direction more"]

    def error(weak: float) -> float:
        tried = pretraining.JointSpectrum.of_matrices((2 * weak, 2 - 2 * weak), tests)
        return float(pretraining.structured_errors(**SCANNED, spectrum=tried).icl)

    place = int(np.argmin([error(share) for share in SHARES]))
    ends = SHARES[[max(place - 1, 0), min(place + 1, len(SHARES) - 1)]]
    options = {"xatol": 1e-7}
    return float(minimize_scalar(error, bounds=ends, method="bounded", options=options).fun)


def rows(effort: Effort) -> Rows:
    """Slopes and least errors, extrapolated as ratios to their predictions, and the scan."""
    sizes = effort.by_size(**SIZES)
    expected = call(theory)
    yield limit(
        {label: expected[number] for number, label in enumerate(FUNCTIONS)},
        {d: call(measured, run(direction_errors, dim=d, count=n)) for d, n in sizes.items()},
        fit=extrapolate_ratios,
        predictions={
            dim: call(measured, run(predicted_errors, dim=dim)) for dim in (*sizes, *ANCHORS)
        },
        anchors=ANCHORS,
        anchored_order=3,
        of=[*FUNCTIONS.values()],
        draws="models",
        fit_label="chi-square of the ratios",
        name="ratio to the prediction",
    )
    spectrum = pretraining.JointSpectrum.of_matrices(TASK, TESTS["strong direction more"])
    best = call(pretraining.best_training_covariance, **SCANNED, spectrum=spectrum)
    label = "least ICL error over training covariances"
    yield exact(label, best.icl, call(scan), relative=SCAN_ACCURACY)


claim = Claim.of("structured-directions", __doc__, rows, figure=False)
