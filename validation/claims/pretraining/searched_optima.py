"""What the theory calls best, beside losses around it, and limits beside what tends to them.

Sections of the claim `two-routes`: functions of the theory at drawn settings.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import sympy
from numpy.random import Generator
from scipy.optimize import minimize_scalar

from iclimit.asymptotics import depth, descent, gdpp, pretraining, recurrent, softmax
from iclimit.validation.claims.random_settings import Pair
from iclimit.validation.claims.recurrent.dense_operator import dense_errors

# Relative moves around what is best; differences of least losses, and of the vertex of a parabola
# through losses there, which higher orders shift (1e-6 was seen).
MOVE, OF_LOSS, OF_PLACE = 1e-3, 1e-10, 1e-5
# Eigenvalues at which an image is looked at, and what lies between them.
GRID, OF_GRID = 4001, 1e-5
# What rounding leaves.
OF_ROUNDING = 1e-11
# A context that is as good as endless, in units of what gates forget; nearly all steps, and what
# the others change.
LONG, MANY, OF_MANY = 60.0, 250, 1e-3
# What sums over tokens lack of the limit (1.5e-3 was seen).
OF_TOKENS = 5e-3

# What is best, where, its least loss if theory states one, and the loss at a place.
Optimum: TypeAlias = tuple[str, tuple[float, ...], Any, Callable[..., Any]]


def around(found: Iterable[Optimum]) -> Iterator[Pair]:
    """Least losses, and that the loss is stationary there and rises on both sides."""
    for name, place, least, loss in found:
        middle = float(loss(*place))
        if least is not None:
            yield f"{name}, least loss", least, middle, OF_LOSS
        for number, best in enumerate(place):
            sides = [
                [*place[:number], best * f, *place[number + 1 :]] for f in (1 - MOVE, 1 + MOVE)
            ]
            low, high = (float(loss(*each)) for each in sides)
            curvature = max(low - 2 * middle + high, 0.0)
            vertex = 1 + MOVE * (low - high) / curvature / 2 if curvature else math.inf
            yield f"{name}, place {number + 1}", 1.0, vertex, OF_PLACE


def of_optima(generator: Generator) -> Iterator[Pair]:
    """What is best by the losses around it."""
    yield from around(optima(generator))


def optima(generator: Generator) -> Iterator[Optimum]:
    """Best steps, memories, penalties, rates and temperatures."""

    def draw(low: float, high: float) -> float:
        return float(generator.uniform(low, high))

    alpha = draw(1, 5)
    rho = draw(0.1, 1)
    drift = draw(0.1, 1)
    point = {"alpha": alpha, "rho": rho, "drift": drift}
    step = recurrent.constant_delta_step(**point)

    def of_step(x: float) -> Any:
        return recurrent.delta_rule_error(**point, step_size=x)

    yield "constant step", (float(step.step_size),), step.error, of_step
    tracking = recurrent.optimal_tracking(drift=drift, rho=rho)

    def of_tracking(x: float, omega: float) -> Any:
        return recurrent.tracking_error(drift=drift, rho=rho, step_size=x, forgetting=omega)

    place = float(tracking.step_size), float(tracking.forgetting)
    yield "gated delta rule", place, tracking.error, of_tracking
    gate: dict[str, Any] = {"rho": rho, "drift": drift, "correlation": draw(-0.4, 0.6)}
    forgetting = recurrent.optimal_forgetting(**gate)

    def of_gate(omega: float) -> Any:
        return recurrent.gated_error(alpha=np.inf, **gate, forgetting=omega)

    yield "gate", (float(forgetting.forgetting),), forgetting.error, of_gate
    memory = recurrent.optimal_memory(**point)

    def of_memory(penalty: float, omega: float) -> Any:
        return recurrent.forgetting_error(**point, penalty=penalty, forgetting=omega)

    yield "memory", (float(memory.penalty), float(memory.forgetting)), memory.error, of_memory

    setting: dict[str, Any] = {
        "tau": draw(0.5, 3),
        "alpha": alpha,
        "kappa": draw(0.5, 3),
        "rho": rho,
    }
    ridge = pretraining.optimal_ridge(**setting)

    def of_ridge(x: float) -> Any:
        return pretraining.icl_error(**setting, ridge=x)

    yield "ridge", (float(ridge.ridge),), ridge.error, of_ridge
    size: dict[str, Any] = {"context": int(generator.integers(8, 30)), "dim": 5}
    noisy = size | {"noise_ratio": draw(0.05, 0.3)}
    constant = descent.constant_schedule(steps=3, **noisy)

    def of_rates(*x: float) -> Any:
        return descent.schedule_loss(x if x[1:] else 3 * x, **noisy)

    yield "constant rate", (float(constant.rates[0]),), constant.loss, of_rates
    noise = noisy["noise_ratio"] * size["context"]
    one = descent.optimal_learning_rate(**size, noise_variance=noise)
    factor = float(descent.optimal_dampening(steps=3, **noisy))

    def of_factor(x: float) -> Any:
        return descent.schedule_loss(3 * [x * float(one.rate)], **noisy)

    yield "dampening", (factor,), None, of_factor
    two = descent.optimal_schedule(steps=2, **noisy)
    yield "two rates", tuple(two.rates.tolist()), two.loss, of_rates
    yield from best_matrices(generator, size["context"])
    layers = gdpp.gdpp_minima(2, **noisy)[0]

    def of_two_layers(first: float, second: float, gamma: float) -> Any:
        return gdpp.gdpp_loss([first, second], gammas=[gamma], **noisy)

    yield (
        "two layers",
        (*layers.rates.tolist(), float(layers.gammas[0])),
        layers.loss,
        of_two_layers,
    )
    for heads in (1, 2):
        given: dict[str, Any] = {"noise_variance": draw(0, 2), "heads": heads, **size}
        head = softmax.optimal_softmax(**given)
        place = float(head.inverse_temperature), float(head.value)

        def of_head(t: float, value: float, given: dict[str, Any] = given) -> Any:
            return softmax.softmax_loss(t, value=value, **given)

        yield f"{heads} heads", place, float(head.loss), of_head


def best_matrices(generator: Generator, context: int) -> Iterator[Optimum]:
    """Best matrices of one step and of a pretraining, moved in a drawn direction."""
    d = 4
    roots = generator.standard_normal((2, d, d)) / math.sqrt(d)
    S, W = roots @ np.swapaxes(roots, 1, 2) + 0.2 * np.eye(d)
    law = {"input_covariance": S, "task_covariance": W, "context": context}
    law["noise_variance"] = float(generator.uniform(0, 1))
    step = descent.optimal_preconditioner(**law)
    direction = generator.standard_normal((d, d))

    def of_step(x: float) -> Any:
        return descent.preconditioner_loss(step.matrix + (x - 1) * direction, **law)

    yield "preconditioner", (1.0,), step.loss, of_step
    setting: dict[str, Any] = {"context": context, "rho": float(generator.uniform(0.1, 1))}
    setting["tasks"] = generator.standard_normal((3, d))
    setting["input_covariance"] = np.diag(S) / np.mean(np.diag(S))
    best = pretraining.optimal_gamma(**setting)
    move = generator.standard_normal((d, d + 1))

    def of_gamma(x: float) -> Any:
        return pretraining.errors_of_gamma(best.gamma + (x - 1) * move, **setting).idg

    yield "reduced matrix", (1.0,), best.error, of_gamma


def of_fractions(generator: Generator) -> Iterator[Pair]:
    """Loss of a matrix, and the best matrix, in floating point and in SymPy's fractions."""
    law = np.diag(generator.integers(1, 9, 2)) / 4 + np.array([[0, 1], [1, 0]]) / 8
    matrices = generator.integers(1, 5, (2, 2)) / 16, law, law + np.eye(2)
    (loss, best), (known, exact) = (
        (
            descent.preconditioner_loss(A, input_covariance=S, task_covariance=W, **size),
            descent.optimal_preconditioner(input_covariance=S, task_covariance=W, **size),
        )
        for (A, S, W), size in (
            (matrices, {"context": 7, "noise_variance": 0.375}),
            (map(fractions, matrices), {"context": 7, "noise_variance": sympy.Rational(3, 8)}),
        )
    )
    yield "loss of a matrix, in fractions", loss, known, OF_ROUNDING
    yield "least loss of a matrix, in fractions", best.loss, exact.loss, OF_ROUNDING
    for number in range(4):
        label = f"entry {number + 1} of the best matrix, in fractions"
        yield label, best.matrix.flat[number], exact.matrix[number], OF_ROUNDING


def fractions(matrix: np.ndarray) -> sympy.Matrix:
    """A matrix of numbers that floating point holds."""
    numbers = (sympy.Rational(*x.as_integer_ratio()) for x in matrix.ravel().tolist())
    return sympy.Matrix(*matrix.shape, list(numbers))


def of_layers(generator: Generator) -> Iterator[Pair]:
    """Least condition numbers that a layer of GD++ can reach, and what repeated ones do."""
    start = float(generator.uniform(2, 200))
    eigenvalues = np.linspace(1, start, GRID)
    for method in ("optimal", "monotone"):
        plan = gdpp.condition_number_schedule(start, steps=2, method=method)
        first, second = plan.condition_number[1:]
        image = eigenvalues * (1 - plan.gammas[0] / start * eigenvalues) ** 2
        yield f"condition number, {method}", first, np.ptp(image) / image.min() + 1, OF_GRID
        again = gdpp.condition_number_schedule(first, steps=1, method=method)
        yield f"second layer, {method}", second, again.condition_number[1], OF_ROUNDING
    search = minimize_scalar(
        lambda gamma: math.log(
            np.max(eigenvalues * (1 - gamma * eigenvalues) ** 2)
            / np.min(eigenvalues * (1 - gamma * eigenvalues) ** 2)
        ),
        bounds=(0.2 / start, 0.95 / start),
        method="bounded",
        options={"xatol": 1e-12},
    )
    best = gdpp.condition_number_schedule(start, steps=1).condition_number[1]
    yield "least condition number", best, math.exp(search.fun), OF_GRID
    # Two layers make a polynomial of degree 4 with the value 1 at 0.
    bound = 1 / math.cosh(4 * math.acosh((start + 1) / (start - 1)))
    found = gdpp.optimal_gdpp(2, condition_number=start).lower_bound
    yield "bound of all polynomials", bound, found, OF_ROUNDING


def of_ends(generator: Generator) -> Iterator[Pair]:
    """Endless contexts and infinitely many steps, beside long ones."""
    low = (0.3, 0, -0.4, 0.1, 0.15, 4, 0.05, 0.4)
    high = (2, 1, 0.6, 1, 0.3, 8, 0.5, 0.8)
    *gates, rho, alpha, tau, noise, dampening = generator.uniform(low, high).tolist()
    gate = dict(zip(("forgetting", "drift", "correlation"), gates, strict=True))
    for name, function in (
        ("effective context", recurrent.effective_context),
        ("gated error", recurrent.gated_error),
    ):
        end, far = (
            float(function(alpha=length, rho=rho, **gate))
            for length in (np.inf, LONG / gate["forgetting"])
        )
        yield f"endless {name}", end, far, OF_ROUNDING
    setting = {"alpha": alpha, "tau": tau, "noise_variance": noise, "dampening": dampening}
    errors = depth.test_time_errors(**setting, steps=MANY)
    final = float(depth.final_test_time_error(**setting))
    yield "error after many steps", final, errors[-1], OF_MANY
    best = depth.best_test_time_steps(**setting, steps=MANY)
    yield "best number of steps", float(np.argmin(errors)), float(best.steps), OF_ROUNDING
    yield "error after the best number", float(np.min(errors)), float(best.error), OF_ROUNDING


def of_queries(generator: Generator) -> Iterator[Pair]:
    """Errors of correlated queries by regression on a dense operator."""
    for number, (low, high) in enumerate(((0.3, 0.8), (1.3, 4))):
        tau, alpha, kappa, rho, forgetting, correlation = generator.uniform(
            (low, 1, 0.5, 0.1, 0, 0.3), (high, 3, 3, 1, 1, 0.8)
        ).tolist()
        setting = {"tau": tau, "alpha": alpha, "kappa": kappa, "rho": rho}
        setting |= {"forgetting": forgetting, "correlation": (-1) ** number * correlation}
        setting["ridge"] = float(generator.integers(2)) * 0.1
        errors = recurrent.correlated_query_errors(**setting)
        for name, value in zip(("icl", "idg"), dense_errors(**setting), strict=True):
            label = f"{name} of correlated queries, tau {'>' if number else '<'} 1"
            yield label, getattr(errors, name), value, OF_TOKENS
