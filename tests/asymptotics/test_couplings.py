"""What theory refuses beyond the range of one argument: arguments that do not fit each other.

Ranges and types of single arguments are tested for all functions in tests/test_arguments.py.
"""

import math
from functools import partial

import array_api_strict
import mpmath
import numpy as np
import sympy
from refusals import refuse

from iclimit.asymptotics.depth import (
    balanced_saddle,
    depth_loss,
    depth_schedule_loss,
    iterated_icl_errors,
    tied_flow,
    untied_depth,
)
from iclimit.asymptotics.descent import (
    chebyshev_schedule,
    constant_schedule,
    derive_learning_rate,
    derive_schedule,
    optimal_learning_rate,
    optimal_preconditioner,
    optimal_schedule,
    preconditioner_loss,
    schedule_loss,
)
from iclimit.asymptotics.dynamics import (
    effective_init_scale,
    fixed_point_losses,
    growth_time,
    head_growth,
    merged_attention_curve,
    merged_attention_loss,
    merged_curve_drop_time,
    merged_drop_time,
    mixture_growth_rate,
    mixture_predictor,
    plateau_losses,
    separate_attention_staircase,
    time_from_pole,
)
from iclimit.asymptotics.gdpp import (
    adaptive_ridge_loss,
    baseline_profiles,
    condition_number_schedule,
    eigenvalues_after,
    gdpp_loss,
    gdpp_minima,
    interval_after,
    optimal_gdpp,
    ridge_baselines,
    ridge_risk,
    steps_needed,
    worst_case_residual,
)
from iclimit.asymptotics.pretraining import (
    JointSpectrum,
    best_test_covariance,
    derive_effective_ridge,
    derive_many_tasks,
    derive_resolvent,
    diversity_slope,
    errors_of_gamma,
    finite_size_errors,
    icl_error,
    idg_error,
    structured_errors,
)
from iclimit.asymptotics.softmax import (
    finite_rank_loss,
    functional_optimum,
    heads_efficiency,
    kernel_efficiency,
    optimal_kernel,
    optimal_softmax,
    softmax_loss,
    uniform_softmax,
    uniform_softmax_loss,
)
from iclimit.asymptotics.spectra import (
    Atoms,
    DensityMeasure,
    FreeSum,
    IndependentEntries,
    MarchenkoPastur,
    Mixture,
    PowerLaw,
    Pushforward,
    SampleCovariance,
    TwoPoint,
    Uniform,
    Wishart,
    spectrum,
    wishart_moment,
)

N, MP = sympy.Symbol("N", positive=True), mpmath.mpf
SIZES = {"context": 4, "dim": 2}
SHAPES = "must have shapes that broadcast"


def test_depth():
    endless = {"tau": 2.0, "alpha": 1e13, "kappa": 1.0, "steps": 2}
    refuse("alpha is too large for so few tasks", iterated_icl_errors, **endless)
    lam = np.arange(1, 21) ** -1.0
    refuse("spectrum must be given for setting='rrs'", depth_loss, depth=1)
    refuse("spectrum must not be given", depth_loss, depth=1, spectrum=lam, setting="iso")
    refuse("must have a bounded support", depth_loss, depth=1, spectrum="powerlaw:0.5")
    refuse("depth must be an integer >= 1, or inf, got 1.5", depth_loss, depth=1.5, setting="iso")
    two = {"depth": 1, "spectrum": [1.0, 2.0]}
    refuse("spectrum and task_spectrum must be lists", depth_loss, **two, task_spectrum=[1.0])
    fixed = {**two, "setting": "fs"}
    refuse("width_ratio must be >= 1 for setting='fs'", depth_loss, **fixed, width_ratio=0.5)
    refuse("gamma must be > 0 and finite, got 0", depth_loss, **fixed, gamma=[0.0, 1.0])
    refuse("gamma must have one number for each", depth_loss, **fixed, gamma=[1.0, 1.0, 1.0])
    refuse("must have its largest eigenvalue", depth_loss, depth=2, spectrum=1e-200 * lam)
    refuse("task_spectrum must be > 0", depth_loss, depth=2, spectrum=lam, task_spectrum=0 * lam)

    law = {"spectrum": lam, "alpha": 2.0}
    refuse("rates must be real or in conjugate pairs", depth_schedule_loss, [1j, 1.0], **law)
    refuse("degree <= 400, got 401 layers", depth_schedule_loss, [0.5] * 401, **law)
    two = {"rates": [0.1, 0.2], "gammas": [0.1, 0.1]}
    refuse("one number less than rates, 1", depth_schedule_loss, **two, **law)
    refuse("got 7 layers of GD++", depth_schedule_loss, [0.1] * 7, gammas=[0.1] * 6, **law)
    refuse("gamma must not be given for", depth_schedule_loss, [0.1], gamma=lam, **law)
    refuse("does not resolve the loss of the rates", depth_schedule_loss, [1e200, 1e200], **law)
    refuse("alpha must be >= 1e-06 here", depth_schedule_loss, [1.0], spectrum=lam, alpha=1e-9)

    refuse("depth must be <= 400 at finite", untied_depth, lam, weights=lam, depth=401, alpha=2.0)
    k = np.arange(1.0, 51)
    nearly = {"weights": k**-2.2, "depth": 12, "width_ratio": 1 - 1e-9}
    refuse("does not resolve the loss at depth 12", untied_depth, k**-1.2, **nearly)
    for function in (untied_depth, balanced_saddle):
        refuse("lists of the same length", function, [1.0, 2.0], weights=[1.0], depth=2)
        refuse("positive sum", function, [1.0], weights=[0.0], depth=2)
    refuse("one > 0", balanced_saddle, [0.0], weights=[1.0], depth=2)

    refuse("times must have at least one number", tied_flow, times=[], depth=2, **law)
    fixed = {"times": [1.0], "depth": 2, "setting": "fs"}
    refuse("alpha and width_ratio must be inf for setting='fs'", tied_flow, **fixed, **law)


def test_descent():
    refuse("input_law must be one of gaussian, uniform", derive_learning_rate, "cauchy")
    for half in ({"context": 5}, {"dim": 5}):
        refuse("give both context and dim, or neither, got", derive_schedule, 2, **half)
    rate = {"context": 10, "dim": 3}
    for law in ((1.0, 0.99), (0.0, 1.0), (1.0, math.inf), (math.nan, 1.0), ("1", 3.0)):
        refuse("input_law", optimal_learning_rate, **rate, input_law=law)
    two = np.ones(2)
    three = np.ones(3)
    refuse(SHAPES, optimal_learning_rate, context=two, dim=three)
    refuse("do not mix with arrays", optimal_learning_rate, context=two, dim=N)

    I2 = np.eye(2)
    both = ("input_covariance", "task_covariance")
    known = {"input_covariance": I2, "task_covariance": I2, "context": 5}
    symbolic = {"input_covariance": sympy.eye(2), "context": N}
    for function in (optimal_preconditioner, partial(preconditioner_loss, I2)):
        for wrong, message in (
            *(({name: [[1.0, 0.5], [0.4, 1.0]]}, f"{name} must be symmetric") for name in both),
            *(({name: I2 - 1.5}, f"{name} must have eigenvalues >= 0") for name in both),
            *(({name: np.ones((2, 3))}, " must have shape") for name in both),
            *(({name: np.full((2, 2), np.nan)}, f"{name} must be finite") for name in both),
            ({"task_covariance": np.eye(3)}, "task_covariance must have shape"),
            ({"mixing": 2 * I2}, "T T^T = input_covariance"),
            ({"mixing": np.ones((2, 3))}, "mixing must be a square matrix"),
            ({"mixing": np.full((2, 2), np.nan)}, "mixing must be finite"),
            ({"excess_kurtosis": three}, "must have shape"),
        ):
            refuse(message, function, **known | wrong)
        for wrong, message in (
            ({"excess_kurtosis": 3.0}, "excess_kurtosis must be 0 for SymPy"),
            ({"input_covariance": sympy.Matrix([[1, 2], [3, 4]])}, "must be a symmetric matrix"),
            ({"task_covariance": sympy.eye(3)}, "task_covariance must be a symmetric matrix"),
            ({"input_covariance": N}, "input_covariance must be a matrix"),
        ):
            refuse(message, function, **symbolic | wrong)
    singular = {"input_covariance": sympy.ones(2, 2), "context": N}
    refuse("input_covariance must be invertible", optimal_preconditioner, **singular)
    for wrong, message in ((sympy.eye(3), "have shape"), (N, "be a matrix")):
        refuse(f"matrix must {message}", preconditioner_loss, wrong, **symbolic)

    kinds = (optimal_schedule, constant_schedule, chebyshev_schedule)
    for schedule in (partial(schedule_loss, [0.5, 0.5]), *(partial(f, steps=2) for f in kinds)):
        for wrong in ({"ratio": 0.5, **SIZES}, {"ratio": 0.5, "dim": 3}, {}, {"context": 5}):
            refuse("give either ratio or context and dim, got", schedule, **wrong)
        refuse(SHAPES, schedule, ratio=two, noise_ratio=three)
    for number in (MP("0.1"), N):
        setting = {"ratio": 0.5, "noise_ratio": number}
        refuse("noise_ratio must be 0 for more than", optimal_schedule, steps=2, **setting)
    refuse("steps must be 1 or 2 for symbolic", optimal_schedule, steps=3, context=N, dim=4)
    for rates in ([], np.ones((2, 0))):
        refuse("rates must not be empty", schedule_loss, rates, ratio=0.5)
    refuse("do not mix with arrays", schedule_loss, [MP(1)], ratio=two)
    refuse("rates must be", schedule_loss, array_api_strict.asarray([1.0]), ratio=0.5)


def test_dynamics():
    sizes = {"context": 9, "init_scale": 0.1}
    start = "init_scale must be so small"
    refuse(start, merged_drop_time, 0.1, dim=4, context=31, init_scale=[0.01, 1.0])
    refuse(start, merged_curve_drop_time, 0.1, eigenvalues=[1, 2], context=31, init_scale=1.0)
    for scale in (2, 100):
        late = {"context": 10, "init_scale": scale}
        refuse("start below their final values", merged_drop_time, dim=2, **late)
        refuse("start below their final", merged_curve_drop_time, eigenvalues=[1, 1], **late)
    refuse(SHAPES, merged_attention_loss, t=[1, 2], dim=[1, 2, 3], **sizes)
    for wrong, message in (([], "empty"), ([0, 0], "trace"), ([[1, 2]], "list of")):
        refuse(message, merged_attention_curve, 1.0, eigenvalues=wrong, **sizes)
    heads = {"key_query": np.ones((1, 4, 4)), "eigenvalues": np.ones(4)}
    refuse("must have shapes", effective_init_scale, np.ones(3), **heads)
    refuse("value must be finite", effective_init_scale, [np.nan], **heads)
    refuse("must be arrays", effective_init_scale, MP(1), key_query=1, eigenvalues=1)

    growth = {"eigenvalue": 1.0, "trace": 2.0, "context": 30, "initial_value": 0.1}
    refuse("value - initial_value must be >= 0", growth_time, 0.05, **growth)
    refuse("value over the fixed point must be <= 1", growth_time, 1.5, **growth)
    pole = {"eigenvalue": 1.0, "trace": 0.9, "context": 30}
    refuse("trace - eigenvalue must be >= 0", growth_time, 0.5, initial_value=0.1, **pole)
    for function in (time_from_pole, head_growth):
        refuse("trace - eigenvalue must be >= 0", function, 0.2, **pole)
    refuse("at most 20", fixed_point_losses, np.ones(21), context=5)
    refuse("must be a list of numbers", fixed_point_losses, np.ones((2, 3)), context=5)
    refuse("eigenvalues must not be empty", plateau_losses, [], context=5)
    refuse(SHAPES, plateau_losses, np.ones((3, 2)), context=[1, 2])


def test_mixtures():
    mixture = {"input_covariance": np.eye(3), "shared_task": np.ones(3), "context": 5}
    for wrong, message in (
        ({"shared_task": np.zeros(3)}, "norm of shared_task must be > 0"),
        ({"shared_task": np.ones(2)}, "input_covariance must have shape (2, 2) or (2,), got"),
        ({"shared_task": 1.0}, "shared_task must have shape (D,), got ()"),
        ({"input_covariance": np.diag([1.0, 1.0, 0.0])}, "smallest eigenvalue of"),
        ({"input_covariance": np.triu(np.ones((3, 3)))}, "input_covariance must be symmetric"),
        ({"input_covariance": np.full((3, 3), np.inf)}, "input_covariance must be finite"),
    ):
        for function in (mixture_predictor, mixture_growth_rate):
            refuse(message, function, 0.5, **mixture | wrong)


def test_staircases():
    matrix = 0.1 * np.eye(2)
    heads = {"value": [0.1, 0.1], "key": matrix, "query": matrix, "eigenvalues": [1, 0.5]}
    for wrong, message in (
        ({"value": [[0.1, 0.1]]}, "value must have shape"),
        ({"value": []}, "value must have shape"),
        ({"value": [0.1, np.nan]}, "value must be finite"),
        ({"value": MP(1)}, "value must be a number or a NumPy array"),
        ({"key": np.ones((3, 2))}, "key must have shape (2, 2)"),
        ({"key": np.ones(2)}, "key must have shape"),
        ({"key": np.ones((2, 1, 2))}, "query must have the shape"),
        ({"query": [[np.inf, 0], [0, 1]]}, "query must be finite"),
        ({"eigenvalues": [1, 0]}, "eigenvalues must be > 0"),
        ({"eigenvalues": [1, 1, 1]}, "key must have shape"),
    ):
        refuse(message, separate_attention_staircase, **heads | {"context": 10} | wrong)


def test_condition_numbers():
    of = condition_number_schedule
    for wrong in ({}, {"steps": 2, "tol": 1e-3}):
        refuse("give either steps or tol, got steps=", of, 3.0, **wrong)
    for wrong in ({}, {"condition_number": 3.0, "excess": 1.0}):
        message = "give either condition_number or excess, got condition_number="
        refuse(message, of, steps=2, **wrong)
        refuse(message, steps_needed, tol=0.1, **wrong)
    refuse("tol must be given", steps_needed, 3.0)
    refuse(f"condition_number, cap, margin {SHAPES}", of, np.ones(2), steps=2, cap=np.ones(3))
    refuse("do not mix with arrays", of, np.ones(2), steps=2, margin=MP(0))
    strict = array_api_strict.asarray([2.0])
    refuse("condition_number must be a number or a NumPy array", of, strict, steps=2)
    refuse("tol must not be given with SymPy numbers", of, N, tol=1e-3)
    refuse("tol must not be given with SymPy numbers", steps_needed, N, tol=1e-3)
    refuse("steps must be fewer, got 1000000000: the spectrum", of, 3.0, steps=10**9)
    for gammas in ([1, "a"], [True], [1j], [[1], [1, 2]]):
        refuse("gammas must be a", eigenvalues_after, [1.0], gammas=gammas)
        refuse("gammas must be a", interval_after, gammas, lower=0.1, upper=1.0)
    refuse("lower must be <= upper, got 1.0", interval_after, [1.0], lower=1.0, upper=0.5)
    message = f"gammas without its last axis, lower, upper {SHAPES}"
    refuse(message, interval_after, np.ones((2, 1)), lower=np.ones(3), upper=1.0)
    refuse("upper must be a number, got N", interval_after, [sympy.Integer(1)], lower=0, upper=N)
    refuse("gammas must be a number, got N", interval_after, [N], lower=0, upper=1)
    refuse("do not mix with arrays", interval_after, [MP(1)], lower=np.zeros(2), upper=1)
    refuse("too extreme for float64", eigenvalues_after, 1e200, gammas=[1e200, 0.0])
    refuse("too extreme for float64", interval_after, [1e200, 0.0], lower=1e199, upper=1e200)


def test_gdpp():
    both = ((gdpp_loss, {"ratio": 0.5}), (worst_case_residual, {"condition_number": 2.0}))
    for function, setting in both:
        for gammas in ([], [0.1, 0.2], np.ones((3, 2))):
            message = "gammas must be one less than the 2"
            refuse(message, function, [0.1, 0.2], gammas=gammas, **setting)
        refuse("at most 8 layers here, got 9", function, [0.1] * 9, gammas=[0.1] * 8, **setting)
    refuse("at most 4 layers here, got 5", gdpp_loss, [0.1] * 5, gammas=[0.1] * 4, **SIZES)
    refuse("one less than the 2 rates", gdpp_loss, [MP(1), MP(2)], gammas=[], ratio=0.5)
    refuse("rates must not be empty", gdpp_loss, np.ones((3, 0)), gammas=[], ratio=0.5)
    for wrong in ({}, {"context": 4}, {"dim": 2}, {"ratio": 0.5, **SIZES}):
        refuse("give either ratio or context and dim, got", gdpp_loss, [0.1], gammas=[], **wrong)
        refuse("give either ratio or context and dim, got", gdpp_minima, 2, **wrong)
        refuse("give either ratio or context and dim, got", optimal_gdpp, 2, **wrong)
    for more in ({"ratio": 0.5}, SIZES, {"dim": 2}):
        message = "give exactly one of condition_number, ratio, and context"
        refuse(message, optimal_gdpp, 2, condition_number=10.0, **more)
    for most, setting in ((6, {"ratio": 0.5}), (5, {"condition_number": 2.0}), (4, SIZES)):
        message = f"layers must be of at most {most} layers here, got"
        refuse(message, optimal_gdpp, most + 1, **setting)
    worst = {"condition_number": 10.0}
    refuse("noise_ratio must be 0 in the worst case", optimal_gdpp, 2, **worst, noise_ratio=0.1)
    refuse("dim/context must be from 0.001 to 1000", gdpp_minima, 2, context=2000, dim=1)
    refuse(SHAPES, gdpp_loss, np.ones((2, 2)), gammas=np.ones((3, 1)), ratio=0.5)
    refuse(SHAPES, gdpp_loss, [0.1], gammas=[], ratio=np.ones(2), noise_ratio=np.ones(3))
    numbers = {"gammas": [], "condition_number": np.full(3, 2.0)}
    refuse(SHAPES, worst_case_residual, np.ones((2, 1)), **numbers)
    refuse("rates must be a real number", worst_case_residual, [MP(1)], **numbers)
    refuse("must all be arrays or all scalars", gdpp_loss, [MP(1)], gammas=[], ratio=np.ones(2))
    refuse("input_law must be gaussian", optimal_gdpp, 2, input_law="uniform", **worst)
    few = {"context": 5, "dim": 5, "input_law": "uniform"}
    refuse("layers must be of at most 2 layers here, got 3", optimal_gdpp, 3, **few)

    message = "penalty must be 0 or in [1e-30, 1e+30], got 1e-31"
    refuse(message, ridge_risk, 1e-31, noise_variance=1.0, **SIZES)
    refuse("context must be > dim", ridge_baselines, "fixed:1", context=10, dim=10)
    refuse("context must be > dim", adaptive_ridge_loss, "fixed:1", context=5, dim=10)
    large = {"noise_law": "fixed:1", "context": 9, "dim": 2}
    refuse("threshold must be finite if", adaptive_ridge_loss, **large, multiplier=math.inf)
    refuse("noise_level must be 0 or in", baseline_profiles, 1e16, **large)


def test_pretraining():
    point = {"tau": 2.0, "alpha": 1.0, "kappa": 1.0, "rho": 0.1}
    shapes = {"tau": [1, 2], "rho": [1, 2, 3]}
    refuse("tau, alpha, kappa, rho, ridge must have shapes", icl_error, **point | shapes)
    refuse("too extreme for float64", icl_error, **point | {"tau": 1e-300})
    for scalar in (MP(1), sympy.Integer(1)):
        for array in (np.ones(2), array_api_strict.asarray([1.0, 2.0])):
            refuse("do not mix with arrays", icl_error, **point | {"tau": array, "alpha": scalar})
    for ridge in (0.1, N):
        symbols = dict.fromkeys(("tau", "alpha", "kappa", "rho"), N)
        refuse("ridge must be 0 for SymPy expressions", icl_error, **symbols, ridge=ridge)
    limit = {"tau": sympy.Integer(2), "alpha": sympy.oo, "kappa": sympy.Rational(1, 2), "rho": 0}
    refuse("take sympy.limit, or pass numbers", idg_error, **limit)  # SymPy cannot take q -> 0

    run = {"dim": 8, "context": 8, "prompts": 100, "tasks": 4, "rho": 0.1, "rng": 0}
    for wrong, message in (
        ({"task_covariance": -np.ones(8)}, "task_covariance must have eigenvalues >= 0"),
        ({"test_covariance": np.eye(3)}, "test_covariance must have shape (8,) or (8, 8)"),
        ({"input_covariance": np.triu(np.ones((8, 8)))}, "input_covariance must be symmetric"),
        ({"tasks": np.ones((3, 5))}, "tasks must have shape (any, 8)"),
        # Singular moments and extreme ridges or contexts: never a warning, a NaN or nonsense.
        ({"tasks": 1, "rho": 0.0}, "not defined in float64"),
        ({"ridge": 1e15, "approach": "moments"}, "not defined in float64"),
        ({"ridge": 1e17}, "not defined in float64"),
        ({"context": 10**18}, "not defined in float64"),
    ):
        refuse(message, finite_size_errors, **run | wrong)
    for wrong, message in (
        ({"gamma": np.zeros((3, 5))}, "gamma must have shape"),
        ({"gamma": np.full((2, 2), np.nan)}, "gamma must be finite"),
        ({"tasks": np.ones((3, 4))}, "tasks must have shape (k, 2)"),
        ({"input_covariance": np.ones(3)}, "input_covariance must have shape (2, 2)"),
    ):
        refuse(message, errors_of_gamma, **{"gamma": np.eye(2), "context": 5, "rho": 0.1} | wrong)
    half = sympy.Rational(1, 2)
    for derive in (derive_resolvent, derive_effective_ridge, derive_many_tasks):
        refuse("spectrum must have an eigenvalue", derive, {})
        refuse("spectrum must hold eigenvalues and weights >= 0, got -1", derive, {-1: 1})
        refuse("spectrum must have weights that sum to 1", derive, {1: half, 2: half / 2})


def test_joint_spectra():
    of_matrices = JointSpectrum.of_matrices
    of_measures = JointSpectrum.of_measures
    for wrong, message in (
        ([1.0, -0.5], "task_covariance must have eigenvalues >= 0, got -0.5"),
        ([0.0, 0.0], "task must have a positive eigenvalue"),
        ([1.0, np.nan], "task_covariance must be finite"),
        ([[1.0, 0.5], [0.2, 1.0]], "task_covariance must be symmetric"),
        (np.ones((2, 3)), "task_covariance must have shape (d, d) or (d,), got shape (2, 3)"),
        ([], "task_covariance must have shape"),
        (1.0, "task_covariance must have shape"),
    ):
        refuse(message, of_matrices, wrong)
    two = [1.0, 2.0]
    rotated = np.array([[1.5, 0.5], [0.5, 1.5]])
    refuse("test_covariance must have shape (2, 2)", of_matrices, two, np.eye(3))
    refuse("inputs must be > 0", of_matrices, two, input_covariance=[1.0, 0.0])
    refuse("finite_size_errors", of_matrices, two, input_covariance=rotated)
    atoms = {"task": two, "test": two, "inputs": [1.0, 1.0], "weight": [0.5, 0.5]}
    for wrong, message in (
        ({"weight": [0.5, 0.6]}, "weight must sum to 1"),
        ({"weight": [1.0, 0.0]}, "weight must be > 0"),
        ({"test": [-1.0, 1.0]}, "test must be >= 0 and finite, got -1.0"),
        ({"test": [1.0]}, "equal length"),
        ({"task": [[1.0, 1.0]]}, "one-dimensional"),
    ):
        refuse(message, JointSpectrum, **atoms | wrong)
    negative = Uniform(-1.0, 1.0)
    refuse("task_spectrum must have eigenvalues >= 0, got the support", of_measures, negative)

    joint = of_matrices([1.6, 0.4], test_covariance=[1.0, 1.0])
    point = {"tau": 2.0, "alpha": 1.0, "kappa": 1.0, "rho": 0.1, "spectrum": joint}
    shapes = {"tau": [1.0, 2.0], "test_rho": [1.0, 2.0, 3.0]}
    refuse("shapes that broadcast", structured_errors, **point | shapes)
    refuse("tau must not be 1 with ridge = 0", diversity_slope, **point | {"tau": 1.0})
    refuse("must be single numbers, got", best_test_covariance, **point | {"tau": [1.0, 2.0]})
    refuse("the error is infinite for all", best_test_covariance, **point | {"tau": 1.0})


def test_softmax():
    random = {"covariance": lambda x, z: np.exp(-((x - z) ** 2)), "inputs": (0.0, 1.0)}
    for wrong, message in (
        ({"inputs": (1.0, 0.0)}, "inputs must be (lower, upper) with lower < upper, got"),
        ({"inputs": np.zeros((2, 2, 2))}, "inputs must be an interval or an array"),
        ({"inputs": np.arange(3.0), "weights": [1.0]}, "weights must have shape (3,), got (1,)"),
        ({"inputs": [0.0, 1.0], "weights": [0.5, 0.6]}, "weights must be 2 probabilities > 0 of"),
        ({"inputs": [0.0, 1.0], "weights": ["a", "b"]}, "weights must be an array of real"),
        ({"inputs": [0.0, 1.0], "weights": lambda x: x}, "weights must be an array of real"),
        ({"covariance": lambda x, z: x + 2 * z}, "covariance must give a symmetric matrix"),
        ({"covariance": lambda x, z: 0 * x * z}, "covariance must be > 0 on its diagonal"),
        ({"covariance": lambda x, z: np.nan * x * z}, "covariance must be finite on the nodes"),
        ({"covariance": 1}, "covariance must be a function of two inputs, got 1"),
    ):
        refuse(message, functional_optimum, **random | {"context": 3} | wrong)
    matrices = {"task_covariance": np.eye(2), "scaled_moments": np.eye(2), "context": 3}
    message = "must be square matrices of one shape"
    refuse(message, finite_rank_loss, feature_moments=np.eye(3), **matrices)
    for wrong, message in (
        ({"context": 10}, "give either ratio and noise_ratio or context, dim and noise_variance"),
        ({"ratio": 1.0, "dim": 3}, "give either ratio and noise_ratio"),
        ({"ratio": 1.0, "noise_variance": 0.1}, "give either ratio and noise_ratio"),
        ({"context": 2.5, "dim": 3}, "context must be an integer, got 2.5"),
        ({"context": 10, "dim": 3, "heads": 3}, "heads must be 1 or 2 at finite context and dim"),
    ):
        refuse(message, optimal_softmax, **wrong)
    refuse("relative error", softmax_loss, 200.0, value=0.5, context=1000, dim=1)
    narrow = {"context": 3, "dim": 1, "heads": 2}
    refuse("inverse_temperature must be from -4.", softmax_loss, 50.0, value=0.5, **narrow)
    refuse("context must be an integer, got 2.5", uniform_softmax, context=2.5, dim=3)
    refuse("heads must be 1 or 2, got 3", uniform_softmax, context=5, dim=3, heads=3)
    refuse("must not be 0", uniform_softmax_loss, 0.0, value=1.0, context=5, dim=3)
    for wrong, message in (
        (3, "score_function must be a function of a score, got 3"),
        (lambda _: 0.0, "score_function must not vanish everywhere"),
        (lambda s: s + math.inf, "the mean of score_function over scores is not"),
        (lambda s: f"{s}", "score_function must return a number for a score, got"),
    ):
        refuse(message, kernel_efficiency, wrong)
    message = "a weight for each entry"
    refuse(message, optimal_kernel, lambda s: s.sum(), inverse_temperature=1.0, context=3, dim=2)
    refuse("must be all different, got [1, 1]", heads_efficiency, [1, 1])
    near = [1.0, 1.0 + 1e-6, 1.0 - 1e-6]
    refuse("too near to each other for float64: pass mpmath", heads_efficiency, near)
    refuse("inverse_temperatures must not be empty", heads_efficiency, [])


def test_measures():
    for spec, message in (
        *((spec, "spec must be one of isotropic") for spec in ("powerlaw:a", "powerlaw:1,2,3")),
        *((spec, "spec must be one of isotropic") for spec in ("atoms:1;2;3", "isotropic:2")),
        ("powerlaw:1", "exponent must be >= 0 and < 1"),
        ("powerlaw:nan", "exponent must be >= 0 and < 1, got nan"),
        ("powerlaw:-1,3", "EXPONENT in [0, 50] and an integer COUNT"),
        ("powerlaw:1,2.5", "got 'powerlaw:1,2.5'"),
        ("powerlaw:inf,3", "must have an EXPONENT in"),
        ("exponential:0", "decay must be > 0 and <= 600"),
        ("uniform:2,1", "lower must be < upper"),
        ("uniform:-1,1", "spec must have eigenvalues >= 0"),
        ("atoms:-0.1,1", "spec must have eigenvalues >= 0"),
        ("atoms:1,2;0.5", "weights must be 2 numbers"),
        ("atoms:1,2;0.5,0.6", "weights must be >= 0 and of sum 1"),
    ):
        refuse(message, spectrum, spec)
    for values in ([], [[1.0]], [1.0, np.inf]):
        refuse("values must be a non-empty list", Atoms, values)
    refuse("weights must be >= 0", Atoms, [1.0, 2.0], [-0.5, 1.5])
    refuse("matrix must be square", Atoms.of_matrix, np.ones((2, 3)))
    refuse("matrix must be finite and symm", Atoms.of_matrix, [[1.0, 2.0], [0.0, 1.0]])
    for density, support, message in (
        (lambda x: x, (0, 1), "total mass 1, got 0.5"),
        (lambda x: 1 / x, (0, 1), "total mass 1"),
        (lambda x: 1 / (1 + x), (0, np.inf), "total mass 1"),
        (lambda x: 4 * x - 1, (0, 1), "density must be >= 0"),
        (lambda x: np.nan * x, (0, 1), "total mass 1"),
        (np.ones_like, (1, 0), "support must be ascending"),
        (np.ones_like, [(0, 1), (0.5, 2)], "support must be ascending"),
        (np.ones_like, (-np.inf, 0), "support must be intervals"),
        (np.ones_like, [1.0], "support must be intervals"),
    ):
        refuse(message, DensityMeasure, density, support)
    unit = Uniform(0.0, 1.0)
    refuse("weights must be >= 0 and of sum 1", Mixture, [unit], [0.9])
    refuse("ratio must be one number", lambda: MarchenkoPastur([0.5, 1.0]).support)
    for polynomial in ([1.0], [1.0, 0.0], [0.0, np.nan], [[1.0, 2.0]], []):
        refuse("polynomial must be", Pushforward, unit, polynomial)
    for values in ([-1.0, 2.0], [0.0]):
        message = "population must have a support in [0, inf)"
        refuse(message, SampleCovariance, Atoms(values), 0.5)
    refuse("population must have a support in [0, inf)", TwoPoint, Atoms([-1.0, 1.0]))
    law = TwoPoint(Atoms([1.0, 2.0, 3.0, 4.0]), alpha=2.0)
    narrow = TwoPoint(Atoms([1.0, 2.0]), width_ratio=0.5)
    refuse("outer must have one number for each of the 4", law.mean, np.exp, outer=np.ones(3))
    refuse("function grows too fast next to the spectrum", law.mean, lambda z: np.cos(1e14 * z))
    refuse("inner must be the eigenvalues of the population", narrow.mean, lambda z: z)
    refuse("first must not be a point mass", FreeSum, Atoms([1.0]), unit)
    for width in (1e-300, 1e-30, 1e-7):
        narrow = Uniform(0.0, width)
        refuse("second must have a support of", FreeSum, unit, narrow)
        refuse("first must have a support of", FreeSum, narrow, MarchenkoPastur(2.0))
    entries = IndependentEntries(context=3, dim=2, input_law="uniform")
    refuse("order must be <= 8 for entries of a law, got 9", entries.moment, 9)
    for powers in ([-1], [1.5], [True], ["a"], [[1]]):
        refuse("powers must be an integer >= 0, got", wishart_moment, powers, context=4, dim=3)
    refuse("context and dim must be integers", Wishart(context=N, dim=3).quadrature, 2)


LAWS = [
    *(Uniform(0.5, 1.5), MarchenkoPastur(0.5), SampleCovariance(Atoms([1.0, 10.0]), 3.0)),
    FreeSum(Atoms([0.0, 10.0]), Uniform(0.0, 1.0)),
    Pushforward(Uniform(0.0, 1.0), [0, 0, 1]),
]


def test_points_of_the_support():
    for law in LAWS:
        for lower, upper in law.support:
            for z in (lower, (lower + upper) / 2, upper):
                refuse("z must lie outside the support", law.stieltjes, z)
        for z in (np.nan, complex(np.nan, 1)):
            refuse("z must", law.stieltjes, z)


def test_transforms():
    law = Uniform(0.5, 1.5)
    refuse("z must be a number or a NumPy array", law.stieltjes, MP(-1))
    refuse("-1/snr must lie outside the support", law.eta_transform, -1.0)
    refuse("snr must leave 1 + snr x > 0", law.shannon_transform, -20.0)
    refuse("z must lie outside the support", law.stieltjes, 1.5 + 0j)
    refuse("s_transform needs a support in", Uniform(-1.0, 2.0).s_transform, -0.1)
    refuse("s_transform needs a support in", Atoms([0.0]).s_transform, -0.1)
    for transform in (PowerLaw(0.5).r_transform, PowerLaw(0.5).s_transform):
        refuse("<= 0 for an unbounded support", transform, 0.1)
        refuse("< 0 for a derivative over an unbounded", transform, 0.0, derivative=1)
    sample = MarchenkoPastur(0.5)
    for z in (*sample.edges, 0.0):
        refuse("z must lie outside the sup", sample.companion_stieltjes, z, derivative=1)
