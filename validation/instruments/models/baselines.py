"""Algorithms that a model is compared with: at the best parameters for a problem, or fitted."""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from iclimit.notation import did_you_mean
from iclimit.problem import Problem
from iclimit.simulate.arrays import Seed
from iclimit.simulate.networks import AttentionNetwork, LinearAttention, Network
from iclimit.simulate.softmax import MergedHeads
from iclimit.validation.instruments.models.algorithm import Algorithm, Baseline
from iclimit.validation.instruments.models.algorithms import ALGORITHMS
from iclimit.validation.instruments.models.best_parameters import trained_attention
from iclimit.validation.instruments.models.problem_units import ProblemUnits


def baselines(
    problem: Problem,
    *,
    prompts: int | None = None,
    ridge: float = 0.0,
    rng: Seed = 0,
    names: Collection[str] | None = None,
) -> list[Baseline]:
    r"""Algorithms at the parameters that are best for a problem.

    Parameters
    ----------
    problem : Problem
        Law of the prompts.
    prompts : int >= 1, optional
        Number of prompts that linear attention is trained on; without it that is left out.
    ridge : float >= 0
        Ridge of this training, in the units of Lu et al.
    rng : int, SeedSequence or Generator
        Root seed of its prompts.
    names : collection of str, optional
        Only those of these names; the parameters of others are not searched for.

    Returns
    -------
    list of Baseline
        From the simplest to the best informed: "null", "averaging", "nearest_neighbours",
        "one_step", "preconditioner" (where there is a covariance), "steps_2", "steps_3",
        "steps_5", "gdpp_2", "gdpp_3", "softmax_1", "softmax_minus" (a head of either sign) and
        "softmax_2" (both, for isotropic Gaussian inputs), "least_squares", "ridge" (where there
        is noise), "adaptive_ridge", "bayes" and "oracle_ridge" (where the noise level varies),
        "dmmse" (where tasks are given), "sign_readout" (for classes), "linear_attention" (where
        prompts are given).  What would coincide with another one is left out.

    Raises
    ------
    ValueError
        If the labels of the problem do not depend on the inputs, or only in ways that no algorithm
        of linear regression sees.

    Notes
    -----
    The parameters are the best ones for fresh tasks.  Other prompts, of another context length,
    scale or noise, are answered with these same parameters.

    For several steps and GD++ they come from the theory of isotropic Gaussian inputs; for other
    laws they are fitted to simulated contexts, and the loss is not stated.

    Labels with a link or flips count as linear ones with their unexplained variance as noise
    (`iclimit.pretraining.effective_labels`), without losses; "dmmse" is the posterior mean for the
    labels as they are, and "sign_readout" is there for classes.

    Examples
    --------
    >>> from iclimit.problem import Problem
    >>> from iclimit.validation.instruments.models.baselines import baselines
    >>> problem = Problem(dim=20, context=40, scale=1, noise_variance=0.25)
    >>> found = baselines(problem)
    >>> for baseline in found[3:6]:
    ...     print(f"{baseline.name}: {baseline.loss:.2f}")
    one_step: 7.19
    steps_2: 3.47
    steps_3: 1.97
    """
    units = ProblemUnits(problem)
    if units.signal == 0:
        raise ValueError(
            "problem must have labels that depend on the inputs, got covariances of inputs and "
            "tasks whose product is zero"
        )
    chosen = [algorithm.at_best(units) for algorithm in named_algorithms(names)]
    known = [baseline for baseline in chosen if baseline is not None]
    if prompts is not None and (names is None or "linear_attention" in names):
        best = trained_attention(units, prompts, ridge, rng)
        known.append(ALGORITHMS["linear_attention"].with_best(best))
    return known


def named_algorithms(names: Collection[str] | None) -> list[Algorithm]:
    """Algorithms of these names, or all."""
    return [row for row in ALGORITHMS.values() if names is None or row.name in names]


def choose_baselines(
    known: Callable[[frozenset[str] | None], Iterable[Baseline]],
    wanted: Sequence[str | Baseline] | None,
) -> list[Baseline]:
    """Baselines that are named or given, by default all.

    Parameters
    ----------
    known : callable
        Returns the baselines of some names, or all for None.
    wanted : sequence of str or Baseline, optional
        Names, or baselines.
    """
    if isinstance(wanted, str):
        raise TypeError(f"baselines must be a list of names, got {wanted!r}")
    if wanted is None:
        return list(known(None))
    names = frozenset(choice for choice in wanted if isinstance(choice, str))
    by_name = {baseline.name: baseline for baseline in known(names)}
    chosen = []
    for choice in wanted:
        if isinstance(choice, str) and choice not in by_name:
            every = [baseline.name for baseline in known(None)]
            hint = did_you_mean(choice, every)
            raise ValueError(f"baselines must be of {', '.join(every)}, got {choice!r}{hint}")
        chosen.append(by_name[choice] if isinstance(choice, str) else choice)
    if not chosen:
        raise ValueError("baselines must be at least one, got none")
    return chosen


def best_loss(network: Network, problem: Problem) -> float | None:
    """Least loss of a network in context, where the theory has it.

    Parameters
    ----------
    network : Network
        One layer of attention on tokens as they are: `MergedHeads`, `LinearAttention` or
        `AttentionNetwork`.
    problem : Problem
        What it is trained on, with a fresh task in every prompt.

    Returns
    -------
    float or None
        Least mean squared error on labels without noise; None for other networks and problems.

    References
    ----------
    Of linear attention `iclimit.descent.optimal_preconditioner`, of one softmax head and of two
    `iclimit.softmax.optimal_softmax`, for isotropic Gaussian inputs.

    Examples
    --------
    >>> import iclimit
    >>> from iclimit.softmax import MergedHeads
    >>> problem = iclimit.Problem(context=10, dim=5, scale=1)
    >>> round(iclimit.validation.best_loss(MergedHeads(dim=5), problem), 3)
    2.932
    """
    units = ProblemUnits(problem)
    ordered = problem.drift or problem.is_correlated  # then theory has the least loss of no layer
    if problem.task_count != math.inf or units.signal == 0 or ordered or not units.exact:
        return None
    kind = "softmax"
    if isinstance(network, (AttentionNetwork, LinearAttention)):
        more: dict[str, Any] = {}
        if isinstance(network, AttentionNetwork):
            kind = network.kinds[0]
            more = {"attention": network.attention}
        else:
            kind = "linear"
        plain = type(network)(network.dim, init_scale=network.init_scale, **more)
        if replace(network, heads=1) != plain:  # more than one layer, or more in it
            return None
    elif not isinstance(network, MergedHeads):
        return None
    if kind == "linear":
        name = "one_step" if units.isotropic else "preconditioner"
    else:
        name = f"softmax_{network.heads}"
    best = ALGORITHMS[name].at_best(units) if name in ALGORITHMS else None
    return None if best is None else best.loss - units.noise_variance


def families(problem: Problem) -> list[Algorithm]:
    """Algorithms whose parameters can be fitted to a model of a problem.

    Parameters
    ----------
    problem : Problem
        Law of the prompts.
    """
    return [row for row in ALGORITHMS.values() if row.words and row.fits(problem)]
