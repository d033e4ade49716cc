r"""Moments of the data, all that the training of one linear attention layer depends on.

With the tokens :math:`e = (x, y)` of a sequence, that of the query being :math:`(x_q, 0)`, the
prediction of a layer is linear in the features

.. math:: f_{ijk} = S_{ij}\, x_{q,k}, \qquad S = \frac1N \sum e e^\top, \qquad i \le j,

where the sum runs over the context and the query.  The loss and all its gradients depend on the
sequences through the first two moments of the features only.  These are computed for a training
set, or in closed form for the law of the sequences.
"""

import itertools
from collections.abc import Iterable

import numpy as np
from array_api_compat import array_namespace

from iclimit.checks import check_choice
from iclimit.problem import Problem, check_problem
from iclimit.simulate.arrays import Backend
from iclimit.simulate.descent.constructions import NORMALIZATIONS
from iclimit.simulate.models.moments import FeatureMoments, readout_moments
from iclimit.simulate.prompts import Prompts, regression_tokens

# Largest number of features in memory at a time (32 MiB).
BLOCK = 2**22


# What the law of the sequences may be, beside their sizes: Gaussian inputs, tasks N(0, I), one of
# which all other sequences may share.
LAW = (
    *("input_covariance", "scale", "noise_variance", "fresh_fraction", "shared_task"),
    *("mixing", "prompts"),
)


def check_sequences(problem: Problem) -> None:
    """Check that a problem is a law of sequences whose moments are known."""
    check_problem(problem, *LAW)
    if not problem.covariance_of_inputs.any():
        raise ValueError("input_covariance must not be zero, got zeros only")


def feature_count(dim: int) -> int:
    """Number F = D (D + 1) (D + 2) / 2 of features."""
    return dim * (dim + 1) * (dim + 2) // 2


def sequence_moments(prompts: Prompts, *, normalization: str = "mean") -> FeatureMoments:
    """Moments of a set of sequences.

    Parameters
    ----------
    prompts : Prompts
        The sequences.
    normalization : {"mean", "sum"}
        Whether S is divided by N.
    """
    check_choice("normalization", normalization, NORMALIZATIONS)
    xp = array_namespace(prompts.inputs)
    count, context, dim = prompts.inputs.shape
    size = max(1, BLOCK // feature_count(dim))
    blocks = (slice(start, min(start + size, count)) for start in range(0, count, size))
    parts = (prompts[block] for block in blocks)
    moments = readout_moments(
        ((regression_tokens(part), part.query_label) for part in parts), include_query=True
    )
    # The last entry of the query's token is zero, so that it makes no features.
    pairs = (dim + 1) * (dim + 2) // 2
    kept = xp.asarray([i * (dim + 1) + k for i in range(pairs) for k in range(dim)])
    cross = xp.take(moments.cross, kept, axis=0)
    second = xp.take(xp.take(moments.second, kept, axis=0), kept, axis=1)
    scale = context if normalization == "mean" else 1
    return FeatureMoments(moments.label, cross / scale, second / scale**2)


def population_moments(
    problem: Problem, *, normalization: str = "mean", noise_labels: bool = False
) -> FeatureMoments:
    r"""Moments of the law of the sequences, in closed form.

    Given the task the context tokens are independent and normal with a covariance C(w), so that
    :math:`E S_{ij} S_{mn} = C_{ij} C_{mn} + (C_{im} C_{jn} + C_{in} C_{jm}) / N` plus the terms
    of the query's token.  These are polynomials of degree four in w; their means over normal w
    come from a cubature rule of degree five.  Memory grows as :math:`D^6`: 0.1 GB for D = 12.

    Parameters
    ----------
    problem : Problem
        Law of the sequences.
    normalization : {"mean", "sum"}
        Whether S is divided by N.
    noise_labels : bool
        Replace the labels in the context by independent N(0, 1) noise, to test what was learned
        in the weights.
    """
    check_choice("normalization", normalization, NORMALIZATIONS)
    check_sequences(problem)
    dim = problem.dim
    context = problem.context
    Lambda = problem.covariance_of_inputs
    inputs = np.zeros((dim + 1, dim + 1))
    inputs[:dim, :dim] = Lambda
    weights, tasks = _task_rule(problem)
    covariances = np.stack([_token_covariance(problem, task, noise_labels) for task in tasks])

    fourth = gaussian_moments(inputs, 4)[:, :, :dim, :dim]
    sixth = gaussian_moments(inputs, 6)[..., :dim, :dim]
    mean = np.einsum("p,pij->ij", weights, covariances)
    squares = np.einsum("p,pij,pmn->ijmn", weights, covariances, covariances)
    squares = squares + (squares.transpose(0, 2, 1, 3) + squares.transpose(0, 2, 3, 1)) / context
    query = np.einsum("ij,mnkl->ijmnkl", mean, fourth)
    second = (
        np.einsum("ijmn,kl->ijmnkl", squares, Lambda)
        + (query + query.transpose(2, 3, 0, 1, 4, 5)) / context
        + sixth / context**2
    )
    cross = (
        np.einsum("p,pij,pk->ijk", weights, covariances, tasks @ Lambda)
        + np.einsum("m,ijmk->ijk", weights @ tasks, fourth) / context
    )

    upper = np.triu_indices(dim + 1)
    size = feature_count(dim)
    second = second[upper][:, upper[0], upper[1]].transpose(0, 2, 1, 3).reshape(size, size)
    variance = np.einsum("p,pi,ij,pj->", weights, tasks, Lambda, tasks)
    scale = 1 if normalization == "mean" else context
    return FeatureMoments(
        variance + problem.noise_variance, scale * cross[upper].reshape(size), scale**2 * second
    )


def gaussian_moments(covariance: np.ndarray, order: int) -> np.ndarray:
    """Moments of a centred normal vector, a tensor with ``order`` axes (even; Isserlis)."""
    if order == 0:
        return np.ones(())
    lower = gaussian_moments(covariance, order - 2)
    pairs = np.multiply.outer(covariance, lower)
    return sum((np.moveaxis(pairs, 1, partner) for partner in range(2, order)), start=pairs)


def _task_rule(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Weights and tasks whose averages of polynomials of degree five are those of the law."""
    dim = problem.dim
    fresh = problem.fresh_fraction
    shared = [] if problem.shared_task is None else [problem.shared_task]
    axes = np.sqrt(3) * np.eye(dim)
    single = [sign * axis for axis in axes for sign in (1, -1)]
    double = [
        first * axes[i] + second * axes[j]
        for i, j in itertools.combinations(range(dim), 2)
        for first, second in itertools.product((1, -1), repeat=2)
    ]
    tasks = np.array([np.zeros(dim), *single, *double, *shared])
    weights = np.array(
        [fresh * (1 + dim * (dim - 7) / 18)]
        + [fresh * (4 - dim) / 18] * len(single)
        + [fresh / 36] * len(double)
        + [1 - fresh] * len(shared)
    )
    return weights, tasks


def _token_covariance(problem: Problem, task: np.ndarray, noise_labels: bool) -> np.ndarray:
    """Covariance of a context token given the task."""
    dim = problem.dim
    root = np.vstack([np.eye(dim), np.zeros(dim) if noise_labels else task])
    covariance = root @ problem.covariance_of_inputs @ root.T
    covariance[dim, dim] += 1.0 if noise_labels else problem.noise_variance
    return covariance


def stack_moments(backend: Backend, moments: Iterable[FeatureMoments]) -> FeatureMoments:
    """Moments of several data sets along a first axis."""
    parts = zip(*((of_set.label, of_set.cross, of_set.second) for of_set in moments), strict=True)
    return FeatureMoments(
        *(backend.xp.stack([backend.asarray(x) for x in part]) for part in parts)
    )
