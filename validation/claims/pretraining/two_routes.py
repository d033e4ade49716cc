"""Functions of the theory by two routes, at drawn settings.

Where simulations would be slow or blunt, or no formula of a limit stands alone, numbers are
compared that come from different functions, or from a function and what its definition says:
slopes with differences, fluctuations of ridge
regression with regressions, rows of structured inputs with isotropic ones, constants of scaling
laws with sums over modes, best shapes and gates with searches, weights of pairs in a memory with
regressions on contexts, and losses half-way down a stair with those of its plateaus.  What is best
is held to losses around it, endless contexts and many steps to long ones, and correlated queries
to regression on a dense operator.  The seed draws the settings.

Source: documentation of each function.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import mpmath
import numpy as np
from numpy.random import Generator, SeedSequence
from scipy.optimize import brentq, minimize
from scipy.special import ndtri

from iclimit.asymptotics import depth, dynamics, pretraining, recurrent, softmax
from iclimit.asymptotics.pretraining.finite_size_spread import paired_covariance
from iclimit.asymptotics.recurrent.errors import token_moments
from iclimit.problem import Problem
from iclimit.simulate.dynamics import simulate_gradient_flow
from iclimit.simulate.prompts.timed_moments import timed_moments
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows
from iclimit.validation.claims.pretraining.other_arguments import (
    of_covariances,
    of_depths,
    of_structured_optima,
    of_ways,
)
from iclimit.validation.claims.pretraining.searched_optima import (
    of_ends,
    of_fractions,
    of_layers,
    of_optima,
    of_queries,
)
from iclimit.validation.claims.random_settings import Pair, pair_rows

# Relative differences: of rounding, and of numerical differences and searches.
ROUNDING, SEARCHED = 1e-10, 1e-5
# First order in the shift of the leverages of rows (0.4 % was seen).
BY_ROWS = 0.01
# Bases that stand for the sphere (2e-5 was seen).
BASES, BY_BASES = 400, 2e-4
# Regressions whose errors scatter, with so many features: of a mean, and of a covariance.
REGRESSIONS, FEATURES, OF_MEAN, OF_SCATTER = 1500, 30, 0.03, 0.15
# Modes of a power law, layers, time, and what sums over them lack of integrals.
MODES, LAYERS, TIME, OF_SUMS = 1000, 64, 1e4, 0.05
# Contexts of a memory in blocks, and standard errors that chance explains.
BLOCKS, CONTEXTS, CHANCE = 30, 400, 5.0
# Initial weights of a staircase, whose drops are then far apart.
SMALL = 1e-4
# A flow from larger ones (1e-5 was seen).
BY_FLOW = 1e-3
# Relative moves of a temperature around the best one, and what the third order shifts.
MOVE, OF_VERTEX = 0.03, 0.02
# Coefficients in each direction and bins of whole tokens, and what the bins reveal beside labels.
POINTS, BINS, OF_BINS = 81, 32, 0.03


def sphere(generator: Generator, tasks: int, dim: int) -> np.ndarray:
    """Tasks of the squared norm d."""
    w = generator.standard_normal((tasks, dim))
    return np.asarray(w * math.sqrt(dim) / np.linalg.norm(w, axis=1, keepdims=True))


def difference(function: Callable[..., Any], name: str, point: Mapping[str, float]) -> float:
    """Derivative of an error by a parameter, to the right at 0."""
    with mpmath.workdps(30):
        digits = {key: mpmath.mpf(x) for key, x in point.items()}
        start = digits.pop(name)
        right = int(start == 0)
        return float(
            mpmath.diff(lambda x: function(**digits, **{name: x}), start, direction=right)
        )


def of_slopes(generator: Generator) -> Iterator[Pair]:
    """Slopes of errors by the context and the ridge, up to the positive factor that they leave."""
    errors = pretraining.icl_error, pretraining.idg_error
    for where, low, high, ridge in (
        ("tau < 1", 0.4, 0.9, 0.0),
        ("tau > 1", 1.2, 3.0, 0.0),
        ("ridge", 0.4, 3.0, 0.3),
    ):
        point = {"tau": float(generator.uniform(low, high))}
        point["alpha"] = float(generator.uniform(0.5, 4))
        point |= {"kappa": float(generator.uniform(0.5, 3)), "rho": float(generator.uniform(0, 1))}
        slopes: dict[str, Callable[..., Any]] = {
            "alpha": partial(pretraining.context_slope, ridge=ridge)
        }
        if not ridge:
            slopes["ridge"] = pretraining.ridge_slope
        for name, function in slopes.items():
            icl, idg = (float(function(**point, objective=each)) for each in ("icl", "idg"))
            first, second = (difference(f, name, point | {"ridge": ridge}) for f in errors)
            label = f"slope by {name}, {where}"
            yield f"{label}, ratio", icl * second, idg * first, SEARCHED
            if where == "tau > 1":
                left = 1 - 1 / point["tau"]
                factor = left * point["alpha"] if name == "alpha" else left**3
                yield label, icl, factor * first, SEARCHED


def of_structure(generator: Generator) -> Iterator[Pair]:
    """Rows of inputs that are isotropic after all, tasks of the sphere, and many levels."""
    w = sphere(generator, 9, 12)
    rng = int(generator.integers(1000))
    inputs: tuple[dict[str, Any], ...] = {"input_covariance": np.ones(12)}, {}
    sizes: dict[str, Any] = {"dim": 12, "context": 20, "rho": 0.2, "rng": rng}
    for prompts, ridge in ((100, 0.05), (300, 0.1)):
        run = sizes | {"prompts": prompts, "ridge": ridge, "tasks": w, "draws": 2}
        rows, plain = (pretraining.finite_size_errors(**run, **more) for more in inputs)
        for name in ("icl", "idg"):
            theory, value = (getattr(each, name).mean for each in (rows, plain))
            yield f"{name} by rows, {prompts} prompts", theory, value, BY_ROWS
    # Orthogonal bases, with both signs, have the odd and the second moments of the sphere.
    bases = np.linalg.qr(generator.standard_normal((BASES, 12, 12)))[0].reshape(-1, 12)
    known = np.concat([bases, -bases]) * math.sqrt(12)
    run = sizes | {"prompts": 300, "ridge": 0.1, "task_law": "sphere", "approach": "moments"}
    run["input_covariance"] = np.linspace(0.3, 1.7, 12)
    theory, value = (
        pretraining.finite_size_errors(**run, tasks=tasks).icl.mean for tasks in (math.inf, known)
    )
    yield "tasks of the sphere", theory, value, BY_BASES

    point = {"tau": 0.7, "alpha": 1.5, "kappa": 1.2, "rho": 0.1, "ridge": 0.2}
    slope = generator.uniform(0.2, 0.7)
    errors = []
    for nodes in (14, 40):
        x, weight = np.polynomial.legendre.leggauss(nodes)
        levels: dict[str, Any] = {"inputs": 1 - slope * x, "weight": weight / 2}
        spectrum = pretraining.JointSpectrum(task=1 + slope * x, test=1 + 0.3 * x, **levels)
        errors.append(pretraining.structured_errors(**point, spectrum=spectrum))
    for name in ("icl", "idg"):
        few, many = (float(getattr(each, name)) for each in errors)
        yield f"{name} of many levels", few, many, ROUNDING


def of_fluctuations(generator: Generator) -> Iterator[Pair]:
    """Means and scatter of errors of ridge regression on the training law and on another."""
    p = FEATURES
    n = 50
    noise = 0.3
    ridge = 0.15
    roots = generator.standard_normal((2, p, 2 * p)) / math.sqrt(2 * p)
    S, B = roots @ np.swapaxes(roots, 1, 2)
    targets = generator.standard_normal((2, p)) / math.sqrt(p)
    features = generator.standard_normal((REGRESSIONS, n, p)) @ np.linalg.cholesky(S).T
    labels = features @ targets[0] + math.sqrt(noise) * generator.standard_normal((REGRESSIONS, n))
    gram = np.swapaxes(features, 1, 2) @ features / n + ridge * np.eye(p)
    moments = (labels[:, None, :] @ features)[:, 0, :] / n
    found = np.linalg.solve(gram, moments[:, :, None])[:, :, 0]
    errors = [
        noise + np.sum((found - target) @ matrix * (found - target), axis=1)
        for matrix, target in zip((S, B), targets, strict=True)
    ]
    theory = pretraining.ridge_fluctuations(
        S,
        label_weights=targets[0],
        observations=n,
        noise_variance=noise,
        ridge=ridge,
        test_covariances=np.stack([S, B]),
        test_label_weights=targets,
    )
    covariance = np.cov(errors)
    for k, name in enumerate(("training law", "another law")):
        yield f"mean error, {name}", theory.mean[k], np.mean(errors[k]), OF_MEAN
        spread = math.sqrt(theory.covariance[k, k]), math.sqrt(covariance[k, k])
        yield f"scatter of errors, {name}", *spread, OF_SCATTER
    total = [each[0, 0] + each[1, 1] + 2 * each[0, 1] for each in (theory.covariance, covariance)]
    yield "scatter of the sum of errors", *np.sqrt(total), OF_SCATTER
    run: dict[str, Any] = {"dim": 12, "context": 15, "tasks": 9, "prompts": 300, "rho": 0.2}
    run |= {"ridge": float(generator.uniform(0.1, 0.5)), "rng": 0, "draws": 3}
    tests: tuple[dict[str, Any], ...] = {}, {"test_rho": 0.5}, {}
    paired = paired_covariance(tests, **run)
    for k, test in enumerate(tests[:2]):
        alone = pretraining.finite_size_spread(**run, **test).icl
        yield f"scatter in test {k + 1} of several", alone, math.sqrt(paired[k, k]), ROUNDING
        label = f"covariance of test {k + 1} with the first and with its copy"
        yield label, paired[0, k], paired[k, 2], ROUNDING


def of_scaling(generator: Generator) -> Iterator[Pair]:
    """Constants of four power laws by exact losses and sums, and the best shape by a search."""
    nu = float(generator.uniform(1.7, 1.9))
    beta = float(generator.uniform(0.5, 0.6))
    terms = depth.scaling_terms(nu=nu, beta=beta)
    rank = np.arange(1.0, MODES + 1)
    modes: dict[str, Any] = {"spectrum": rank**-nu, "task_spectrum": rank ** (nu - nu * beta - 1)}
    flow = depth.tied_flow(times=TIME * MODES, depth=np.inf, **modes).loss
    yield "constant of time", terms.time, flow * MODES * TIME ** (beta / (2 + beta)), OF_SUMS
    deep = depth.depth_loss(depth=LAYERS, **modes).loss
    yield "constant of depth", terms.depth, deep * MODES * LAYERS**beta, OF_SUMS
    rank = np.arange(1.0, 1e5 + 1)
    lam = rank**-nu
    label = rank ** (-nu * beta - 1)
    end = rank[-1] + 0.5

    def excess(kappa: float) -> float:
        return float(np.sum(lam / (lam + kappa))) + end ** (1 - nu) / (nu - 1) / kappa - MODES

    kappa = brentq(excess, 1e-9, 1e-1, rtol=1e-8)
    share = kappa / (lam + kappa)
    tail = end ** (-nu * beta) / (nu * beta)
    width = label @ share + tail
    context = (label @ share**2 + tail) / (1 - np.sum((1 - share) ** 2) / MODES)
    for name, value in (("width", width), ("context", context)):
        yield f"constant of {name}", getattr(terms, name), value * MODES ** (nu * beta), OF_SUMS
    constants = np.array([terms.time, terms.depth, terms.width, terms.context], dtype=float)
    exponents = beta * np.array([1 / (2 + beta), 1, nu, nu])
    costs = np.array([1, 1, 2, 2])
    budget = math.log(1e24)
    best = depth.compute_optimal(compute=1e24, nu=nu, beta=beta)
    search = minimize(
        lambda x: np.log(np.sum(constants * np.exp(-exponents * x))),
        np.full(4, budget / 6),
        constraints={"type": "eq", "fun": lambda x: costs @ x - budget},
        options={"ftol": 1e-14},
    )
    yield "least loss at a compute", float(best.loss), math.exp(search.fun), SEARCHED
    for name, value in zip(("time", "depth", "width", "context"), search.x, strict=True):
        yield f"best {name}", math.log(getattr(best, name)), value, 100 * SEARCHED


def of_memories(generator: Generator) -> Iterator[Pair]:
    """Weights of pairs, moments token by token, and best gates by a search."""
    d = 3
    context = 4
    rho = 0.3
    drift = float(generator.uniform(0.1, 0.6))
    gates = generator.uniform(0.6, 1, context)
    steps = generator.uniform(0.3, 0.9, context)
    setting: dict[str, Any] = {"context": context, "dim": d, "rho": rho, "drift": drift}
    weights = recurrent.memory_weights(**setting, gates=gates, step_sizes=steps)
    found = np.array(
        [regressed_weights(generator, d, rho, drift, gates, steps) for _ in range(BLOCKS)]
    )
    error = np.std(found, axis=0) / math.sqrt(BLOCKS)
    for k in range(context):
        allowed = CHANCE * error[k] / weights[k]
        yield f"weight of pair {k + 1}", weights[k], np.mean(found, axis=0)[k], allowed

    known = recurrent.recurrent_errors(
        "gated-delta", **setting, gates=gates, step_sizes=steps, writes=steps
    )
    power = 0.0
    signal = 0.0
    one = {name: setting[name] for name in ("dim", "rho", "drift")}
    for k in range(context):
        token = {"gate": gates[k], "step_size": steps[k], "write": steps[k]}
        power, signal, _ = token_moments(power=power, signal=signal, **one, **token)
    yield "power, token by token", known.power[-1], power, ROUNDING
    yield "signal, token by token", known.signal[-1], signal, ROUNDING

    # Where neighbours are alike, older pairs would have negative gates.
    age = abs(np.arange(6)[:, None] - np.arange(6))
    wave = np.cos(0.9 * age) * 0.9**age
    law: dict[str, Any] = {"dim": d, "rho": 0.05, "drift": drift}
    for name, correlation in (("plain", 0.2), ("waves", wave)):
        best = recurrent.optimal_gates(context=6, **law, correlation=correlation)

        def missed(g: np.ndarray, correlation: Any = correlation) -> float:
            return -float(recurrent.gated_context(g, **law, correlation=correlation).alpha)

        search = minimize(missed, np.full(6, 0.5), bounds=[(0, 1)] * 6, options={"ftol": 1e-13})
        yield f"context of the best gates, {name}", best.alpha, -search.fun, SEARCHED


def of_plain_contexts(generator: Generator) -> Iterator[Pair]:
    """Queries and contexts without correlations are plain ones, of another length and ridge."""
    point = {"tau": 1.4, "kappa": 1.7, "rho": float(generator.uniform(0.1, 0.5))}
    ridge, rate, alpha = (
        float(generator.uniform(*ends)) for ends in ((0.1, 0.5), (0.3, 1), (1, 3))
    )
    context = {"alpha": alpha, "forgetting": rate}
    found = recurrent.correlated_query_errors(**point, **context, correlation=0.0, ridge=ridge)
    signal = -math.expm1(-rate * alpha) / (rate * alpha)
    length = float(recurrent.effective_context(**context, rho=point["rho"]))
    plain = point | {"alpha": length, "ridge": ridge / signal**2}
    yield "icl of plain queries", pretraining.icl_error(**plain), found.icl, ROUNDING
    yield "idg of plain queries", pretraining.idg_error(**plain), found.idg, ROUNDING
    d = 4
    N = 7
    label = 1 + point["rho"]
    moments = timed_moments(Problem(d, N, noise_variance=point["rho"], task_law="sphere"), None)
    expected = {"signal": 1.0, "square": 1 + 1 / N, "noise": d * label / N, "tail": label}
    expected |= {"mixed": label * (1 + 2 / N), "tail_square": label**2 * (1 + 2 / N)}
    for name, value in expected.items():
        yield f"{name} of a plain context", getattr(moments, name), value, ROUNDING


def regressed_weights(
    generator: Generator, d: int, rho: float, drift: float, gates: np.ndarray, steps: np.ndarray
) -> np.ndarray:
    """Coefficients of the pairs in a memory, by least squares over contexts."""
    memory = np.zeros((CONTEXTS, d))
    pairs = []
    kept = math.exp(-drift / d)
    task = generator.standard_normal((CONTEXTS, d))
    for gate, step in zip(gates, steps, strict=True):
        task = kept * task + math.sqrt(1 - kept**2) * generator.standard_normal(task.shape)
        x = generator.standard_normal((CONTEXTS, d)) / math.sqrt(d)
        noise = math.sqrt(rho) * generator.standard_normal(CONTEXTS)
        y = np.sum(x * task, axis=1) + noise
        pairs.append((x * y[:, None]).ravel())
        memory = gate * memory
        memory = memory + step * x * (y - np.sum(x * memory, axis=1))[:, None]
    return np.linalg.lstsq(np.stack(pairs, axis=1), memory.ravel())[0]


def of_stairs(generator: Generator) -> Iterator[Pair]:
    """Losses of separate attention at its ends and half-way down, for heads of rank 1 and 2."""
    size: dict[str, Any] = {"eigenvalues": [1.0, 0.5, 0.25], "context": 30, "noise_variance": 0.1}
    levels = dynamics.plateau_losses(**size)
    e = np.eye(3)
    maps = e[:, None, :], np.array([[e[0], e[1]], [e[2], 0.1 * e[0]]])
    for rank, directions in enumerate(maps, start=1):
        value, norms = SMALL * generator.uniform(0.8, 1.2, (2, len(directions)))
        heads = {"key": norms[:, None, None] * directions}
        heads["query"] = generator.uniform(0.9, 1.1) * heads["key"]
        stair = dynamics.separate_attention_staircase(value, **heads, **size)
        yield f"loss at the start, rank {rank}", levels[0], stair.loss(0.0), SEARCHED
        yield f"loss at the end, rank {rank}", levels[-1], stair.loss(np.inf), SEARCHED
        for step, time in enumerate(stair.drop_times):
            middle = (levels[step] + levels[step + 1]) / 2
            label = f"loss half-way down step {step + 1}, rank {rank}"
            yield label, middle, stair.loss(time), SEARCHED


def of_plateaus(generator: Generator) -> Iterator[Pair]:
    """Plateaus that a flow of separate attention finds by its speed, and growth by its time."""
    eigenvalues = np.array([1.0, 0.4])
    noise = 0.1
    small = 0.01
    problem = Problem(2, 30, noise_variance=noise, input_covariance=eigenvalues, scale=1)
    value = np.zeros((2, 3))
    key = np.zeros((2, 1, 3))
    value[:, -1] = small * generator.uniform(0.8, 1.2, 2)
    key[[0, 1], 0, [0, 1]] = small * generator.uniform(0.8, 1.2, 2)
    flow = simulate_gradient_flow(
        problem,
        model="separate",
        heads=2,
        rank=1,
        initial=[value, key, key[:, :, :2]],
        duration=20 / small / eigenvalues[-1] ** 2,
    )
    head: dict[str, Any] = {"eigenvalue": 0.7, "trace": 1.9, "context": 30}
    for time in (-float(generator.uniform(1, 50)), float(generator.uniform(1, 5))):
        grown = dynamics.head_growth(time, **head)
        again = float(dynamics.time_from_pole(grown, **head))
        yield f"growth of a head, {'before' if time < 0 else 'after'}", time, again, ROUNDING
    known = dynamics.plateau_losses(eigenvalues, context=30, noise_variance=noise)
    found = flow.plateaus().losses
    yield "number of plateaus", 1.0, len(found), ROUNDING
    yield "plateau of a flow", known[1], found[0], BY_FLOW


def of_softmax(generator: Generator) -> Iterator[Pair]:
    """Contexts of one and two pairs, and whole tokens of functions with Gaussian coefficients."""
    noise, value, t = (float(generator.uniform(*ends)) for ends in ((0, 1), (0.2, 1), (0.2, 1)))
    one: dict[str, Any] = {"context": 1, "dim": 3, "noise_variance": noise, "value": value}
    yield "one pair and two heads", 3.0, softmax.softmax_loss(t, heads=2, **one), ROUNDING
    single = 3 + value**2 * (3 + noise)
    yield "one pair and a head", single, softmax.softmax_loss(t, heads=1, **one), ROUNDING
    pair: dict[str, Any] = {"context": 2, "dim": 1, "noise_variance": noise}
    best = softmax.optimal_softmax(**pair)
    low, middle, high = (
        softmax.softmax_loss(best.inverse_temperature * (1 + move), value=best.value, **pair)
        for move in (-MOVE, 0, MOVE)
    )
    vertex = 1 + MOVE * (low - high) / (low - 2 * middle + high) / 2
    yield "best temperature of two pairs", 1.0, vertex, OF_VERTEX
    z = ndtri((np.arange(POINTS) + 0.5) / POINTS)
    c = np.stack(np.meshgrid(z, z)).reshape(2, -1) / np.std(z)
    slope = float(generator.uniform(1, 3))

    def features(x: np.ndarray) -> np.ndarray:
        return np.stack([np.ones_like(x), slope * x])

    f = features((np.arange(1000) + 0.5) / 500 - 1)
    moments = [each @ f.T / f.shape[1] for each in (f, f / np.sum(f**2, axis=0))]
    for N in (1, 4):
        found = softmax.whole_token_optimum(
            features=features, coefficients=c, inputs=(-1.0, 1.0), context=N, bins=BINS
        ).loss
        known = softmax.finite_rank_loss(
            task_covariance=np.eye(2),
            feature_moments=moments[0],
            scaled_moments=moments[1],
            context=N,
        )
        yield f"whole tokens, context {N}", found, known, OF_BINS


SECTIONS = (
    *(of_slopes, of_structure, of_fluctuations),
    *(of_scaling, of_memories, of_plain_contexts, of_stairs, of_plateaus, of_softmax),
    *(of_optima, of_fractions, of_layers, of_ends, of_queries),
    *(of_structured_optima, of_covariances, of_depths, of_ways),
)


@named_cell("pairs")
def pairs(*, rng: SeedSequence) -> list[Pair]:
    """All of them, with generators of their own."""
    # The first seed was that of a section that went.
    generators = map(np.random.default_rng, rng.spawn(1 + len(SECTIONS))[1:])
    return [
        (label, float(theory), float(value), float(relative))
        for section, generator in zip(SECTIONS, generators, strict=True)
        for label, theory, value, relative in section(generator)
    ]


def rows(_: Effort) -> Rows:
    """All pairs."""
    yield from pair_rows(pairs)


claim = Claim.of("two-routes", __doc__, rows, figure=False)
