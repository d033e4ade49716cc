"""Algorithms that a model is compared with, at the parameters that are best for a problem."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from iclimit.asymptotics.descent import optimal_preconditioner, optimal_schedule
from iclimit.asymptotics.gdpp import optimal_gdpp
from iclimit.asymptotics.gdpp.ridge_losses import level_rule, level_step
from iclimit.asymptotics.softmax import SoftmaxHead, optimal_softmax
from iclimit.notation import did_you_mean
from iclimit.problem import Problem
from iclimit.simulate.arrays import Seed
from iclimit.simulate.descent.steps import descend
from iclimit.simulate.networks import AttentionNetwork, LinearAttention, Network
from iclimit.simulate.probing.predictors import (
    Predictor,
    adaptive_ridge_weights,
    dmmse_weights,
    gdpp_weights,
    in_blocks,
    linear_predictor,
    nearest_neighbours,
    noise_mixture_weights,
    regression_weights,
    softmax_heads,
)
from iclimit.simulate.prompts import Prompts
from iclimit.simulate.prompts.covariances import covariance_root
from iclimit.simulate.softmax import MergedHeads
from iclimit.validation.instruments.models.fitted_layers import context_moments, fit_layers
from iclimit.validation.instruments.models.linear_attention import (
    answer_with,
    exact_error,
    expected_errors,
    pretrain_attention,
)
from iclimit.validation.instruments.models.problem_units import ProblemUnits

# Numbers of steps of gradient descent beside one.
STEPS = (2, 3, 5)

# Numbers of layers of GD++: the search for the best four takes seconds.
LAYERS = (2, 3)

# The same where they are fitted.  Rare contexts dominate the loss of three, of degree 26 in their
# eigenvalues: fitted to thousands of contexts it is far larger on others.
FITTED_LAYERS = (2,)

# Number of softmax heads, and the sign of the first.
SOFTMAX = {"softmax_1": (1, 1), "softmax_minus": (1, -1), "softmax_2": (2, 1)}

# Shortest contexts with so many softmax heads: pairs take seconds to optimise below.
SHORTEST = {1: 2, 2: 4}

# Factor by which blocks of dMMSE are smaller than those of other algorithms: half the time.
CACHED = 8

# Neighbours that are averaged over, as in Garg et al. (arXiv:2208.01066).
NEIGHBOURS = 3


@dataclass(frozen=True)
class Baseline:
    """An algorithm that answers prompts.

    Attributes
    ----------
    name : str
        Short name, such as "one_step".
    description : str
        What it is, with its parameters.
    predict : callable
        Predictions (n,) for prompts; it looks at inputs, labels, query and noise variance only.
    loss : float, optional
        Its exact mean squared error on noisy labels of fresh tasks, where the theory knows it; of
        algorithms that answer at every position an array, see `position_baselines`.
    title : str
        What a verdict calls it; by default its name, or that of `TITLES`.
    parameters : int
        Number of its parameters that were fitted to the model.
    contains : tuple of str
        Algorithms and families that are special cases of its family.
    """

    name: str
    description: str
    predict: Callable[[Any], np.ndarray]
    loss: Any = None
    title: str = ""
    parameters: int = 0
    contains: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """What a verdict calls it."""
        return self.title or TITLES.get(self.name, self.name)


# The algorithms in English.
TITLES = {
    "null": "zero",
    "averaging": "averaging",
    "nearest_neighbours": f"the mean label of the {NEIGHBOURS} nearest inputs",
    "one_step": "one gradient step at the best rate",
    "preconditioner": "one gradient step with the best preconditioner",
    **{f"steps_{count}": f"{count} gradient steps at the best rates" for count in STEPS},
    **{f"gdpp_{count}": f"{count} layers of GD++ at the best parameters" for count in LAYERS},
    "softmax_1": "the best softmax head",
    "softmax_minus": "the best softmax head of negative temperature",
    "softmax_2": "the two best opposite softmax heads",
    "least_squares": "least squares",
    "ridge": "ridge regression with the best penalty",
    "adaptive_ridge": "ridge regression with an estimated noise level",
    "bayes": "the posterior mean for an unknown noise level",
    "oracle_ridge": "ridge regression that is told the noise level",
    "dmmse": "the posterior mean over the given tasks",
    "linear_attention": "linear attention trained on such prompts",
}


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
        "dmmse" (where tasks are given), "linear_attention" (where prompts are given).  What would
        coincide with another one is left out.

    Raises
    ------
    ValueError
        If the labels of the problem do not depend on the inputs.

    Notes
    -----
    The parameters are the best ones for fresh tasks.  Other prompts, of another context length,
    scale or noise, are answered with these same parameters.

    For several steps and GD++ they come from the theory of isotropic Gaussian inputs; for other
    laws they are fitted to simulated contexts, and the loss is not stated.

    Examples
    --------
    >>> from iclimit.problem import Problem
    >>> from iclimit.validation.instruments.models.baselines import baselines
    >>> problem = Problem(dim=20, context=40, scale=1, noise_variance=0.25)
    >>> found = baselines(problem)
    >>> for each in found[3:6]:
    ...     print(f"{each.name}: {each.loss:.2f}")
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

    def wanted(name: str) -> bool:
        return names is None or name in names

    steps = [count for count in STEPS if wanted(f"steps_{count}")]
    every: Sequence[int] = LAYERS if units.solved else FITTED_LAYERS
    layers = [count for count in every if units.has_gdpp and wanted(f"gdpp_{count}")]
    # Contexts are drawn only where no theory gives the parameters.
    fitted = not units.solved and (steps or layers)
    moments = context_moments(units, max(STEPS)) if fitted else None
    parts = (
        simple_baselines(units),
        one_step_baselines(units),
        step_baselines(units, steps, moments),
        _gdpp_baselines(units, layers, moments),
        softmax_baselines(units, filter(wanted, SOFTMAX)),
        regression_baselines(units),
    )
    chosen = [baseline for part in parts for baseline in part if wanted(baseline.name)]
    if prompts is not None and wanted("linear_attention"):
        chosen.append(_linear_attention(units, prompts, ridge, rng))
    return chosen


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


def simple_baselines(units: ProblemUnits) -> Iterator[Baseline]:
    """What takes no fit and no inverse."""
    eye = np.eye(units.problem.dim)
    yield Baseline("null", "zero", _null, units.step_loss(0 * eye))
    rate = 1 / units.input_variance
    weights = partial(descend, rates=[rate])
    text = f"averaging: {rate:.4g} times the mean of y x"
    yield _linear(units, "averaging", text, weights, units.step_loss(rate * eye))
    nearest: Predictor = partial(nearest_neighbours, neighbours=NEIGHBOURS)
    text = f"mean label of the {NEIGHBOURS} nearest inputs"
    yield Baseline("nearest_neighbours", text, in_blocks(nearest, _prompt_numbers(units)))


def _null(prompts: Prompts) -> np.ndarray:
    return 0 * prompts.query[:, 0]


def one_step_baselines(units: ProblemUnits) -> Iterator[Baseline]:
    """One step of gradient descent, with and without a preconditioner."""
    eye = np.eye(units.problem.dim)
    # The loss is a quadratic function of the rate.
    unit = 1 / units.input_variance
    lower = units.step_loss(-unit * eye)
    middle = units.step_loss(0 * eye)
    upper = units.step_loss(unit * eye)
    rate = (lower - upper) / (lower + upper - 2 * middle) / 2 * unit
    weights = partial(descend, rates=[rate])
    text = f"a step of gradient descent at the best rate {rate:.4g}"
    yield _linear(units, "one_step", text, weights, units.step_loss(rate * eye))
    if not units.isotropic:
        best = optimal_preconditioner(**units.law)
        weights = partial(descend, rates=[1.0], preconditioner=best.matrix)
        text = "a step of gradient descent with the best preconditioner"
        yield _linear(units, "preconditioner", text, weights, float(best.loss))


def step_baselines(
    units: ProblemUnits, steps: Sequence[int], moments: np.ndarray | None
) -> Iterator[Baseline]:
    """Several steps of gradient descent; with moments of contexts their rates are fitted."""
    for count in steps:
        best = optimal_schedule(steps=count, **units.size, noise_ratio=units.noise_ratio)
        rates, _ = _best_layers(units, moments, best.rates, np.zeros(count - 1))
        text = f"{count} steps of gradient descent at the best rates {_listed(rates)}"
        weights = partial(descend, rates=rates)
        yield _linear(units, f"steps_{count}", text, weights, units.loss_of(best.loss))


def _gdpp_baselines(
    units: ProblemUnits, layers: Sequence[int], moments: np.ndarray | None
) -> Iterator[Baseline]:
    """Layers of GD++, likewise."""
    for count in layers:
        best = _best_gdpp(count, noise_ratio=units.noise_ratio, **units.size)
        rates, gammas = _best_layers(units, moments, best.rates, best.gammas)
        parameters = f"best rates {_listed(rates)} and gammas {_listed(gammas)}"
        text = f"{count} layers of GD++ with {parameters}"
        weights = partial(gdpp_weights, rates=rates.tolist(), gammas=gammas.tolist())
        yield _linear(units, f"gdpp_{count}", text, weights, units.loss_of(best.loss))


@lru_cache(maxsize=32)
def _best_gdpp(layers: int, *, context: int, dim: int, noise_ratio: float) -> Any:
    """GD++ of least loss, searched for once: three layers take a second."""
    return optimal_gdpp(layers, context=context, dim=dim, noise_ratio=noise_ratio)


def softmax_baselines(
    units: ProblemUnits, names: Iterable[str] = tuple(SOFTMAX)
) -> Iterator[Baseline]:
    """Softmax heads where their theory is exact: one of either sign, and two opposite ones.

    A head is as good as its mirror image, with the other sign of temperature and value, and
    trainings end at either.
    """
    noise = units.noise_variance * units.problem.dim / units.signal
    for name in names if units.solved else ():
        heads, sign = SOFTMAX[name]
        if units.problem.context < SHORTEST[heads]:
            continue
        best = _best_heads(heads, noise_variance=noise, **units.size)
        temperature = sign * float(best.inverse_temperature) / units.input_variance
        value = sign * float(best.value)
        predict = partial(
            softmax_heads, inverse_temperature=temperature, value=value, opposite=heads == 2
        )
        which = "a softmax head" if heads == 1 else "two opposite softmax heads"
        text = f"{which} of inverse temperature {temperature:.4g} and value {value:.4g}"
        loss = units.loss_of(best.loss / units.problem.dim)
        yield Baseline(name, text, in_blocks(predict, _prompt_numbers(units)), loss)


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
    if problem.task_count != math.inf or units.signal == 0 or ordered:
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
        losses = [baseline.loss for baseline in one_step_baselines(units)]
        loss = losses[-1]
    else:
        # The search for two heads, which takes seconds, is not begun for one.
        name = f"softmax_{network.heads}"
        known = softmax_baselines(units, (name,)) if name in SOFTMAX else iter(())
        loss = next((baseline.loss for baseline in known), None)
    return None if loss is None else loss - units.noise_variance


@lru_cache(maxsize=32)
def _best_heads(heads: int, *, context: int, dim: int, noise_variance: float) -> SoftmaxHead:
    """Softmax heads of least loss, found once: two take a second."""
    return optimal_softmax(context=context, dim=dim, noise_variance=noise_variance, heads=heads)


def _best_layers(
    units: ProblemUnits, moments: np.ndarray | None, rates: np.ndarray, gammas: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rates and gammas in units of the problem, fitted from these if there are moments."""
    if moments is not None:
        rates, gammas = fit_layers(moments, rates, gammas)
    return rates / units.input_variance, gammas / units.input_variance


def regression_baselines(units: ProblemUnits) -> Iterator[Baseline]:
    """Least squares, ridge regression, and the posterior mean over given tasks."""
    problem = units.problem
    covariance = units.problem.task_covariance
    root = None if covariance is None else covariance_root(covariance)
    text = "least squares, of minimum norm"
    weights = partial(regression_weights, penalty=0.0)
    yield _linear(units, "least_squares", text, weights, units.ridge_loss(0.0))
    penalty = units.noise_variance / problem.task_variance
    # Without noise it is least squares, unless that leaves directions to the prior.
    if penalty or (root is not None and problem.context < problem.dim):
        weights = partial(regression_weights, penalty=penalty, task_root=root)
        prior = "" if root is None else " under the covariance of the tasks"
        text = f"ridge regression with the best penalty {penalty:.4g}{prior}"
        yield _linear(units, "ridge", text, weights, units.ridge_loss(penalty))
    if problem.noise_law is not None and problem.level_law.kind != "fixed":
        yield from _for_any_noise(units, root)
    if problem.task_set is not None:
        weights = partial(dmmse_weights, tasks=problem.task_set)
        text = (
            f"posterior mean over the {len(problem.task_set)} tasks, told the noise of the prompt"
        )
        # Small blocks: squares of residuals are sums over numbers in the cache.
        numbers = CACHED * problem.context * len(problem.task_set)
        yield _linear(units, "dmmse", text, weights, None, numbers)


def _for_any_noise(units: ProblemUnits, root: np.ndarray | None) -> Iterator[Baseline]:
    """Ridge regression where the noise level differs from prompt to prompt."""
    problem = units.problem
    prior: dict[str, Any] = {"task_variance": problem.task_variance, "task_root": root}
    freedom = problem.context - problem.dim
    if freedom > 0:
        weights = partial(adaptive_ridge_weights, **prior)
        text = "ridge regression with the noise estimated from the residuals"
        yield _linear(units, "adaptive_ridge", text, weights, units.informed_loss(True))
    levels, chances = level_rule(units.noise_law, level_step(max(freedom, 1)))
    mixture: dict[str, Any] = {
        "noise_variances": levels**2 * units.signal / problem.dim,
        "chances": chances,
    }
    weights = partial(noise_mixture_weights, **mixture, **prior)
    numbers = len(levels) * min(problem.context, problem.dim)
    text = "posterior mean of Gaussian tasks at unknown noise"
    yield _linear(units, "bayes", text, weights, None, numbers)
    weights = partial(_told_ridge, **prior)
    text = "ridge regression that is told the noise of the prompt"
    yield _linear(units, "oracle_ridge", text, weights, units.informed_loss(False))


def _told_ridge(
    prompts: Prompts, task_variance: float, task_root: np.ndarray | None
) -> np.ndarray:
    penalty = prompts.noise_variance / task_variance
    return regression_weights(prompts, penalty, task_root=task_root)


def _linear_attention(units: ProblemUnits, prompts: int, ridge: float, rng: Seed) -> Baseline:
    """Linear attention that is trained on so many prompts, with the error that theory expects."""
    problem = units.problem
    gamma = pretrain_attention(problem, prompts=prompts, ridge=ridge, rng=rng)
    expected = expected_errors(problem, prompts=prompts, ridge=ridge)
    text = f"linear attention trained on {prompts} prompts with ridge {ridge:.4g}"
    if expected:
        errors = " and ".join(f"{error:.4g} {where}" for where, error in expected.items())
        text += f", for which theory expects the error {errors}"
    answer = in_blocks(partial(answer_with, gamma, problem), _prompt_numbers(units))
    return Baseline("linear_attention", text, answer, exact_error(gamma, problem))


def _linear(
    units: ProblemUnits,
    name: str,
    description: str,
    weights: Callable[[Prompts], Any],
    loss: float | None,
    numbers: int = 0,
) -> Baseline:
    """Baseline that is linear in the query, with so many numbers per prompt in between."""
    predict = in_blocks(linear_predictor(weights), max(numbers, _prompt_numbers(units)))
    return Baseline(name, description, predict, loss)


def _prompt_numbers(units: ProblemUnits) -> int:
    """Numbers in the inputs of a context or in their covariance."""
    return units.problem.dim * max(units.problem.context, units.problem.dim)


def _listed(numbers: np.ndarray) -> str:
    return ", ".join(f"{number:.4g}" for number in numbers)
