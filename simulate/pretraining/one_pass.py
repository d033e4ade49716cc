"""Pretraining by one pass of SGD: fresh prompts in every step."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike

from iclimit.checks import check_arguments, check_integers, parse_array
from iclimit.problem import Problem, check_problem
from iclimit.results import Result
from iclimit.simulate.arrays import Array, Generator, Seed, get_backend
from iclimit.simulate.pretraining.ridge import RidgeSolution
from iclimit.simulate.prompts.sampling import draw_task_set
from iclimit.simulate.prompts.summaries import Drawn, SummaryLaw
from iclimit.statement import named_cell
from iclimit.threads import blas_threads_for

# Fields of a problem that count here; all other ones have their defaults.
_KNOWN = ("tasks", "noise_variance", "task_law")

# Prompts that are drawn at a time.
_BLOCK = 4096


@dataclass(frozen=True, repr=False)
class OnePassRuns(Result):
    """Errors during one pass of SGD.

    Attributes
    ----------
    steps : ndarray (records,)
        Steps taken.
    icl, idg : ndarray (repeats, records)
        Squared errors on noisy query labels: fresh tasks, and those of the pretraining.
    """

    steps: np.ndarray
    icl: np.ndarray
    idg: np.ndarray


@named_cell("simulate_one_pass")
def simulate_one_pass(
    problem: Problem,
    *,
    batch: int,
    steps: int,
    learning_rate: float | ArrayLike,
    record: int | None = None,
    rng: Seed,
    repeats: int = 1,
    first_repeat: int = 0,
    backend: str = "numpy",
) -> OnePassRuns:
    """Train the reduced model by SGD from zero, on fresh prompts in every step.

    Parameters
    ----------
    problem : Problem
        Law of the prompts, in the units of this library: Gaussian inputs, fresh or fixed tasks.
    batch : int >= 1
        Prompts in a step.
    steps : int >= 1
        Steps of SGD; ``steps * batch`` prompts are drawn.
    learning_rate : float > 0, or sequence of floats
        Rate on the mean squared error of a batch; or one for each step.
    record : int >= 1, optional
        Steps from one record of the errors to the next; by default only the last step has one.
    rng : int, SeedSequence or Generator
        Root seed.  Repeat r depends on (root, r) only, so more repeats extend fewer.
    repeats : int >= 1
        Number of independent runs.
    first_repeat : int >= 0
        Number of the first of them.
    backend : {"numpy", "cupy"}
        Where to compute.

    Returns
    -------
    OnePassRuns
        Errors of each run at each record, exact for the trained matrix.

    Raises
    ------
    TypeError
        If it is no problem.
    ValueError
        If an argument is outside its range, or the problem has what is not simulated here.
    RuntimeError
        If the backend is not available.
    ArithmeticError
        If a run overflowed.

    Examples
    --------
    >>> import iclimit
    >>> from iclimit.simulate.pretraining import simulate_one_pass
    >>> law = iclimit.Problem(dim=10, context=20, noise_variance=0.1, task_law="sphere")
    >>> runs = simulate_one_pass(law, batch=10, steps=40, learning_rate=0.05, rng=0, repeats=4)
    >>> runs.icl.shape, bool(0.6 < runs.icl.mean() < 0.9)
    ((4, 1), True)
    """
    check_problem(problem, *_KNOWN)
    check_arguments(batch=batch, steps=steps, repeats=repeats, first_repeat=first_repeat)
    every = steps if record is None else record
    check_integers(least=1, record=every)
    if every > steps:
        raise ValueError(f"record must be at most the {steps} steps, got {every}")
    rates = _rates(learning_rate, steps)
    arrays = get_backend(backend)
    law = SummaryLaw(arrays, problem)
    recorded = np.array([step for step in range(1, steps + 1) if step % every == 0])
    errors = []
    with blas_threads_for(problem.dim), np.errstate(over="ignore", invalid="ignore"):
        for generator in arrays.generators(rng, repeats, first_repeat):
            task_set = draw_task_set(problem, arrays, generator)
            gamma = arrays.xp.zeros((problem.dim, problem.dim + 1))
            curve = []
            for step, drawn in enumerate(_batches(law, generator, batch, steps, task_set), 1):
                gamma = after_step(gamma, *drawn, float(rates[step - 1]))
                if step % every == 0:
                    curve.append(_errors(law, generator, gamma, task_set))
            errors.append(curve)
    both = np.array(errors)
    if not np.all(np.isfinite(both)):
        raise ArithmeticError("a run overflowed: learning_rate is too large")
    return OnePassRuns(recorded, both[..., 0], both[..., 1])


def after_step(gamma: Array, query: Array, summary: Array, label: Array, rate: float) -> Array:
    """Gamma after a step of gradient descent on the mean squared error of a batch."""
    missed = array_namespace(gamma).sum((query @ gamma) * summary, axis=1) - label
    scaled = 2 * rate / query.shape[0] * missed
    return gamma - (query * scaled[:, None]).T @ summary


def follow_pass(x: Array, h: Array, y: Array, rates: np.ndarray, batch: int) -> RidgeSolution:
    """Gamma after one pass over prompts from zero, a batch in each step.

    Raises
    ------
    ArithmeticError
        If it overflowed.
    """
    xp = array_namespace(x)
    gamma = xp.zeros((x.shape[1], h.shape[1]))
    with np.errstate(over="ignore", invalid="ignore"):
        for step, rate in enumerate(rates):
            rows = slice(step * batch, (step + 1) * batch)
            gamma = after_step(gamma, x[rows, :], h[rows, :], y[rows], float(rate))
    if not bool(xp.all(xp.isfinite(gamma))):
        raise ArithmeticError("a run overflowed: learning_rate is too large")
    return RidgeSolution(gamma, "sgd", len(rates), 0.0)


def _rates(learning_rate: float | ArrayLike, steps: int) -> np.ndarray:
    """Learning rate of each step."""
    if not np.ndim(learning_rate):
        check_arguments(learning_rate=learning_rate)
        return np.full(steps, float(np.asarray(learning_rate)))
    rates = parse_array("learning_rate", learning_rate, (steps,))
    for rate in rates:
        check_arguments(learning_rate=rate)
    return rates


def _batches(
    law: SummaryLaw, generator: Generator, batch: int, steps: int, task_set: Array | None
) -> Iterator[Drawn]:
    """Fresh prompts of each step; several steps are drawn at a time."""
    at_once = max(1, _BLOCK // batch)
    for start in range(0, steps, at_once):
        number = min(at_once, steps - start)
        query, summary, label = law.draw(generator, number * batch, task_set)
        for step in range(number):
            rows = slice(step * batch, (step + 1) * batch)
            yield query[rows, :], summary[rows, :], label[rows]


def _errors(
    law: SummaryLaw, generator: Generator, gamma: Array, task_set: Array | None
) -> tuple[float, float]:
    """ICL and IDG error, which are exact: no test prompt is drawn."""
    icl = law.test_error(generator, gamma, 1, None)
    if task_set is None:
        return icl, icl
    return icl, law.test_error(generator, gamma, 1, task_set)
