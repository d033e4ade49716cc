"""Functions of the theory with optional arguments that no simulation has, by other functions.

Sections of the claim `two-routes`: functions of the theory at drawn settings.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator

from iclimit.asymptotics import depth, descent, gdpp, pretraining
from iclimit.validation.claims.pretraining.searched_optima import OF_ROUNDING, Optimum, around
from iclimit.validation.claims.random_settings import Pair

# Relative move of central differences, and what they lack; what contours leave.
STEP, OF_STEP, OF_CONTOURS = 1e-4, 1e-5, 1e-7
# Eigenvalues of structured data.
ATOMS = 3


def drawn_spectrum(
    generator: Generator,
) -> tuple[pretraining.JointSpectrum, dict[str, Any], dict[str, Any]]:
    """Structured data, where they are pretrained on, and on what they are tested."""
    task, test = generator.uniform(0.4, 1.6, (2, ATOMS))
    weight = generator.dirichlet(np.full(ATOMS, 4.0))
    spectrum = pretraining.JointSpectrum(
        task=task, test=test, weight=weight, inputs=np.ones(ATOMS)
    )
    names = ("tau", "alpha", "kappa", "rho", "ridge", "test_alpha", "test_rho")
    numbers = generator.uniform((1.2, 1, 0.5, 0.1, 0.1, 1, 0.1), (3, 4, 3, 0.5, 0.5, 5, 1))
    given = dict(zip(names, numbers.tolist(), strict=True))
    return spectrum, {name: given.pop(name) for name in names[:5]}, given


def of_covariances(generator: Generator) -> Iterator[Pair]:
    """Slopes beside differences, and the best covariance of the tests beside all others."""
    spectrum, point, tests = drawn_spectrum(generator)

    def error(spectrum: Any = spectrum, **changed: float) -> float:
        given = point | tests | changed
        return float(pretraining.structured_errors(**given, spectrum=spectrum).icl)

    low, high = (error(kappa=point["kappa"] * factor) for factor in (1 - STEP, 1 + STEP))
    slope = float(pretraining.diversity_slope(**point, **tests, spectrum=spectrum))
    yield "slope by the diversity", slope, (high - low) / (2 * STEP * point["kappa"]), OF_STEP
    slopes = pretraining.direction_slopes(
        **point, test_alpha=tests["test_alpha"], spectrum=spectrum
    )
    # The error is linear in the variances of the test tasks.
    for atom, moved in enumerate(spectrum.test + np.eye(ATOMS)):
        rise = error(replace(spectrum, test=moved)) - error()
        label = f"slope by the tests along atom {atom + 1}"
        yield label, slopes[atom] * spectrum.weight[atom], rise, OF_ROUNDING
    best = pretraining.best_test_covariance(**point, **tests, spectrum=spectrum)
    trace = float(spectrum.weight @ spectrum.test)
    alone = [
        error(replace(spectrum, test=trace / spectrum.weight[atom] * np.eye(ATOMS)[atom]))
        for atom in range(ATOMS)
    ]
    yield "error of the best tests", best.icl, min(alone), OF_ROUNDING


def of_structured_optima(generator: Generator) -> Iterator[Pair]:
    """What is best for structured data by the losses around it."""
    yield from around(structured_optima(generator))


def structured_optima(generator: Generator) -> Iterator[Optimum]:
    """Best training covariances, splits of a budget, and ridges for the training tasks."""
    spectrum, point, tests = drawn_spectrum(generator)
    best = pretraining.best_training_covariance(**point, **tests, spectrum=spectrum)
    *_, second, first = np.argsort(best.spectrum.task)
    direction = (np.eye(ATOMS)[first] - np.eye(ATOMS)[second]) / best.spectrum.weight

    def of_covariance(x: float) -> Any:
        moved = replace(best.spectrum, task=best.spectrum.task + (x - 1) * direction)
        return pretraining.structured_errors(**point, **tests, spectrum=moved).icl

    yield "training covariance", (1.0,), best.icl, of_covariance
    budget, power = generator.uniform((5, 1.1), (50, 1.6)).tolist()
    law: dict[str, Any] = {name: point[name] for name in ("rho", "kappa", "ridge")}
    law |= {"spectrum": spectrum, "test_alpha": tests["test_alpha"]}
    split = pretraining.compute_optimal_pretraining(
        budget=budget, **law, cost_law=lambda tau, alpha: tau**power * alpha
    )

    def of_split(tau: float) -> Any:
        return pretraining.structured_errors(tau=tau, alpha=budget / tau**power, **law).icl

    yield "split of a budget", (float(split.tau),), float(split.error), of_split
    setting: dict[str, Any] = {name: point[name] for name in ("tau", "alpha", "kappa", "rho")}
    ridge = pretraining.optimal_ridge(**setting, objective="idg")

    def of_ridge(x: float) -> Any:
        return pretraining.idg_error(**setting, ridge=x)

    yield "ridge for the tasks", (float(ridge.ridge),), ridge.error, of_ridge


def of_depths(generator: Generator) -> Iterator[Pair]:
    """Tied layers, and layers of any steps, by each other."""
    eigenvalues, tasks = generator.uniform(0.2, 1.5, (2, 6))
    law: dict[str, Any] = {"spectrum": eigenvalues, "task_spectrum": tasks}
    alpha, noise, width, gamma = generator.uniform((2, 0, 0.3, 0.5), (5, 0.5, 0.9, 1.5)).tolist()
    size: dict[str, Any] = {"alpha": alpha, "noise_variance": noise}
    narrow = size | {"width_ratio": width}
    layers = int(generator.integers(2, 5))
    even = np.full(layers, gamma / layers)
    tied = depth.depth_loss(depth=layers, gamma=gamma, **law, **narrow).loss
    given = depth.depth_schedule_loss(even, **law, **narrow).loss
    yield "tied layers by their steps", tied, given, OF_CONTOURS
    matrix = generator.uniform(0.3, 1.2, eigenvalues.size)
    fixed: dict[str, Any] = law | {"setting": "fs"}
    tied = depth.depth_loss(depth=layers, gamma=layers * matrix, **fixed).loss
    given = depth.depth_schedule_loss(np.ones(layers), gamma=matrix, **fixed).loss
    yield "tied layers of a matrix by their steps", tied, given, OF_CONTOURS
    flow = depth.tied_flow(times=[0.5, 3.0], depth=layers, **law, **size)
    for number, reached in enumerate(flow.gamma):
        tied = depth.depth_loss(depth=layers, gamma=reached, **law, **size).loss
        yield f"loss of a flow with noise {number + 1}", flow.loss[number], tied, OF_CONTOURS
    labels = eigenvalues * tasks
    sizes: dict[str, Any] = {"alpha": alpha, "width_ratio": width}
    best = depth.untied_depth(eigenvalues, weights=labels, depth=2, **sizes)
    given = depth.depth_schedule_loss(best.steps, **law, **sizes).loss
    yield "untied layers by their steps", best.loss * labels.mean(), given, OF_CONTOURS
    rates = generator.uniform(0.2, 0.8, 2)
    gammas = generator.uniform(0, 0.3, 1)
    isotropic: dict[str, Any] = {"spectrum": np.ones(2), "alpha": alpha}
    deep = depth.depth_schedule_loss(rates, gammas=gammas, **isotropic).loss
    loss = gdpp.gdpp_loss(rates, gammas=gammas, ratio=1 / alpha)
    yield "preconditioned layers by their steps", loss, deep, OF_CONTOURS
    plain = descent.schedule_loss(rates, ratio=1 / alpha)
    loss = gdpp.gdpp_loss(rates, gammas=[0.0], ratio=1 / alpha)
    yield "steps by layers", plain, loss, OF_ROUNDING


def of_ways(generator: Generator) -> Iterator[Pair]:
    """The same number by different arguments."""
    start = float(generator.uniform(5, 500))
    margin = float(generator.uniform(0.01, 0.2))
    by: dict[str, Any] = {
        "excess": ({"excess": start - 1}, {"condition_number": start}),
        "cap": ({"condition_number": start, "cap": 1.0}, {"condition_number": start}),
        "margin": (
            {"condition_number": start, "margin": margin},
            {"condition_number": start * (1 + margin)},
        ),
    }
    for name, (given, same) in by.items():
        method = "monotone" if name == "cap" else "optimal"
        first = gdpp.condition_number_schedule(**given, steps=3)
        second = gdpp.condition_number_schedule(**same, steps=3, method=method)
        numbers = (each.condition_number[-1] for each in (first, second))
        yield f"condition number by its {name}", *numbers, OF_ROUNDING
    needed = gdpp.steps_needed(excess=start - 1, tol=1e-6)
    layers = gdpp.condition_number_schedule(start, tol=1e-6).gammas.size
    yield "layers by the excess", float(needed), float(layers), OF_ROUNDING
    dim = 40
    kappa = float(generator.uniform(0.5, 3))
    point: dict[str, Any] = {"alpha": float(generator.uniform(0.5, 2)), "rho": 0.3, "dim": dim}
    many = np.sort(generator.uniform(0.5, 3, 70_000))  # more than a block
    errors = pretraining.icl_error(tau=many, alpha=1.5, kappa=kappa, rho=0.1, ridge=0.0)
    for place in (0, -1):
        alone = pretraining.icl_error(tau=many[place], alpha=1.5, kappa=kappa, rho=0.1, ridge=0.0)
        yield f"{'first' if place == 0 else 'last'} of many", alone, errors[place], OF_ROUNDING
    by_tasks = pretraining.dmmse_errors(kappa=kappa, **point).icl
    by_theta = pretraining.dmmse_errors(theta=math.log(kappa * dim) / dim, **point).icl
    yield "dMMSE by its tasks", float(by_tasks), float(by_theta), OF_ROUNDING
