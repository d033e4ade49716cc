r"""Labels that are no linear function of the inputs, and flips, as algorithms of a probe see them.

Labels :math:`y = s\,(g(z) + \epsilon)` with :math:`z = \langle w, x\rangle` have the linear part
:math:`E(zy)\, z`; what is left is uncorrelated with every linear function of the inputs.  An
algorithm of linear regression takes it as noise, so its best parameters are those for linear
labels of the tasks :math:`E(zy)\, w` with this noise: `effective_problem`.  Its exact errors are
not known at finite size.

Of models, the error is that on labels as they are.  A flip is averaged over, as the noise of a
query is: :func:`expected_labels`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from iclimit.links import LinkLike, link_text
from iclimit.problem import Problem
from iclimit.simulate.arrays import softmax
from iclimit.simulate.prompts import Prompts
from iclimit.simulate.prompts.links import link_moments, linked_labels

# Share of the mean square of the labels below which their linear part counts as none.
LEAST_LINEAR = 1e-12

# Variance of noise, over the mean square of the labels, that stands for none.
LEAST_NOISE = 1e-12

# What other labels than linear ones do not go with: their moments are those of z of variance 1
# and of one noise level.
EXCLUDED = ("input_covariance", "task_covariance", "mixing", "noise_law")


@lru_cache(maxsize=32)
def _linear_part(link: LinkLike, flips: float) -> tuple[float, float]:
    """Linear part and mean square of labels without noise, of variance 1 if they are linear."""
    moments = link_moments(Problem(dim=1, context=1, link=link, flips=flips))
    if moments.slope**2 <= LEAST_LINEAR * moments.square:
        raise ValueError(
            f"link and flips must leave labels a linear part, got {link_text(link)} with flips = "
            f"{flips!r}: no algorithm of linear regression learns anything of such labels"
        )
    return float(moments.slope), float(moments.square)


def effective_problem(problem: Problem) -> Problem:
    """Problem of linear labels that stands for one with a link or flips; others as they are.

    Raises
    ------
    ValueError
        If labels have no linear part, or a covariance or law of noise levels beside a link.
    """
    if problem.has_linear_labels:
        return problem
    for name in EXCLUDED:
        if getattr(problem, name) is not None:
            raise ValueError(
                f"{name} must be None for labels with a link or flips here, "
                f"got {getattr(problem, name)!r}"
            )
    slope, square = _linear_part(problem.link, problem.flips)
    rest = problem.label_unit * (square - slope**2)
    return replace(
        problem,
        link="identity",
        flips=0.0,
        tasks=problem.tasks if problem.task_set is None else slope * problem.task_set,
        task_variance=slope**2 * problem.task_variance,
        noise_variance=problem.noise_variance + max(rest, 0.0),
    )


def expected_labels(
    problem: Problem, clean: np.ndarray, noise_variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of labels given those without flips and noise.

    Parameters
    ----------
    problem : Problem
        Law of the prompts.
    clean : array (n,) or (n, m)
        Labels without flips and noise.
    noise_variance : array (n,)
        Variance of the noise.
    """
    noise = noise_variance if clean.ndim == 1 else noise_variance[:, None]
    if not problem.flips:
        return clean, np.broadcast_to(noise, clean.shape)
    flipped = 4 * problem.flips * (1 - problem.flips)
    return (1 - 2 * problem.flips) * clean, noise + flipped * clean**2


def posterior_labels(prompts: Prompts, problem: Problem) -> np.ndarray:
    """Posterior mean (n,) of the query's label over the given tasks, told noise, link and flips.

    Parameters
    ----------
    prompts : Prompts
        Prompts, of which inputs, labels, query and noise variance are looked at.
    problem : Problem
        Its tasks, link and flips.
    """
    tasks = problem.task_set
    assert tasks is not None
    inputs = np.concatenate([prompts.inputs, prompts.query[:, None, :]], axis=1)
    known = linked_labels(problem, inputs @ tasks.T)
    labels = prompts.labels[:, :, None]
    least = LEAST_NOISE * np.mean(prompts.labels**2, axis=1)
    variance = 2 * np.maximum(prompts.noise_variance, least)[:, None, None]
    chances = []
    for sign, chance in ((1, 1 - problem.flips), (-1, problem.flips)):
        if chance:
            misfit = (labels - sign * known[:, :-1, :]) ** 2
            chances.append(math.log(chance) - misfit / variance)
    likelihood = np.sum(np.logaddexp.reduce(chances), axis=1)
    return (1 - 2 * problem.flips) * np.vecdot(softmax(likelihood), known[:, -1, :])
