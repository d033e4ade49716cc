"""Probe a model: ask it about a problem, and say which algorithm its answers come from."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

from iclimit.checks import check_arguments, check_choice
from iclimit.problem import Problem
from iclimit.simulate.arrays import Seed
from iclimit.simulate.prompts import Prompts
from iclimit.validation.instruments.models.algorithm import Baseline
from iclimit.validation.instruments.models.algorithms import ALGORITHMS
from iclimit.validation.instruments.models.baselines import baselines as best_baselines
from iclimit.validation.instruments.models.baselines import choose_baselines, families
from iclimit.validation.instruments.models.context_use import context_use
from iclimit.validation.instruments.models.files import PromptFile
from iclimit.validation.instruments.models.fitting import fit_families, fit_size
from iclimit.validation.instruments.models.identification import TOLERANCE, identify
from iclimit.validation.instruments.models.interview import Interview, cosines
from iclimit.validation.instruments.models.model import Answering, Model
from iclimit.validation.instruments.models.positions import (
    PositionErrors,
    ask_positions,
    position_baselines,
)
from iclimit.validation.instruments.models.predictions import Recorded
from iclimit.validation.instruments.models.report import AlgorithmReport
from iclimit.validation.instruments.models.sections import Section, plan_sections

# How a model is called.
FORMS = ("query", "positions")

# Standard errors from fewer prompts say nothing.
FEWEST_PROMPTS = 20

# Most prompts whose positions are all looked at.
POSITION_PROMPTS = 5000

# Algorithms that a model is compared with: names of known ones, or one's own.
Wanted: TypeAlias = Sequence[str | Baseline] | Mapping[str, Callable[..., Any]] | None


def judge(
    model: Answering,
    baselines: Sequence[Baseline],
    sections: Sequence[Section],
    *,
    tolerance: float,
    gradients: Callable[..., Any] | None = None,
    positions: PositionErrors | None = None,
    seed: str = "",
    progress: bool = False,
) -> AlgorithmReport:
    """Ask a model and baselines, and make a report of their answers.

    Parameters
    ----------
    model : Model or Recorded
        What is judged.
    baselines : sequence of Baseline
        Algorithms.
    sections : sequence of Section
        What is asked, fresh prompts first.
    tolerance, gradients, progress
        As in `probe`.
    positions : PositionErrors, optional
        Errors by position.
    seed : str
        Of the prompts, for the record.
    """
    interview = Interview.of(model, baselines, sections, gradients=gradients, progress=progress)
    problem = interview.problem
    fresh = interview.fresh
    fits, near = fit_families(families(problem), interview.sections["fresh"], fresh, tolerance)
    interview = interview.with_answers_of(near)
    chosen = [*baselines, *near]
    linear = interview.linear_part()
    verdict = identify(
        interview.answers["fresh"],
        chosen,
        fits=fits,
        differences=partial(interview.differences, tolerance),
        tolerance=tolerance,
        pretraining=interview.answers.get("pretraining"),
        linear=linear,
        fitted=fit_size(problem, len(fresh)),
    )
    first = min(len(fresh), 2 * fit_size(problem, 2 * len(fresh)))
    pretraining = None
    if "pretraining" in interview.sections:
        pretraining = interview.ladder("pretraining", chosen)
    return AlgorithmReport(
        problem=problem,
        test_prompts=len(fresh),
        verdict=verdict,
        fresh=interview.ladder("fresh", chosen),
        pretraining=pretraining,
        sensitivities={moved: cosines(slopes) for moved, slopes in interview.slopes.items()},
        linear=linear,
        use=context_use(interview.first(first), fresh[:first], fits),
        diagnosis=interview.diagnosis(),
        shifts=tuple(interview.ladder(name, chosen) for name in interview.shifts),
        positions=positions,
        seed=seed,
    )


def probe(
    predict: Callable[..., Any],
    problem: Problem,
    *,
    test_prompts: int = 20_000,
    baselines: Wanted = None,
    prompts: int | None = None,
    ridge: float = 0.0,
    gradients: Callable[..., Any] | None = None,
    form: str = "query",
    tolerance: float = TOLERANCE,
    context_lengths: bool = False,
    batch: int | None = None,
    deterministic: bool = True,
    rng: Seed = 0,
    progress: bool = False,
) -> AlgorithmReport:
    """Ask a model about a problem, and say which algorithm its answers come from.

    The model is asked for the labels of queries after contexts of labelled pairs.  Its errors are
    compared with those of algorithms on the same prompts, and so are its answers: the verdict
    names the algorithm that leaves less of them unexplained than the tolerance, or a mixture, or
    none (`iclimit.validation.instruments.models.identification`).

    Parameters
    ----------
    predict : callable
        The model.  With the form "query", ``predict(inputs, labels, query)`` of arrays
        (batch, context, dim), (batch, context) and (batch, dim) returns predictions (batch,).
        With "positions", ``predict(inputs, labels)`` returns predictions (batch, positions), each
        from the pairs before its position; the query is the last position, with label 0.
    problem : Problem
        Law of the prompts.
    test_prompts : int >= 20
        Prompts with fresh tasks; other questions take a part of as many.
    baselines : sequence of str or Baseline, mapping of str to callable, optional
        Algorithms to compare with.  Names of those of
        `iclimit.validation.instruments.models.baselines.baselines`, or "module:function" of
        your own: only these.  Functions ``f(inputs, labels, query)`` by name: beside all of
        those, which is the default.
    prompts : int >= 1, optional
        Prompts of the problem on which linear attention is trained, to be one of the algorithms.
    ridge : float >= 0
        Ridge of this training, in the units of Lu et al.
    gradients : callable, optional
        ``gradients(inputs, labels, query)`` returns derivatives of the predictions by the query,
        (batch, dim), and by the labels, (batch, context).  Finite differences by default.
    form : {"query", "positions"}
        How the model is called.
    tolerance : float
        Share of the mean square of the answers that an algorithm may leave unexplained, in (0, 1).
    context_lengths : bool
        Whether the model takes prompts of half and twice the context length, too.
    batch : int >= 1, optional
        Most prompts that the model is given at once.
    deterministic : bool
        Whether a model that answers the same prompt differently is refused.
    rng : int, SeedSequence or Generator
        Root seed of the prompts.
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    AlgorithmReport
        ``print`` shows it, ``plot`` draws the ladder, ``save`` writes a page.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the model's answers are no finite numbers of the
        right shape, change from call to call, or come with changed arguments.
    TypeError
        If an argument is of another kind.

    References
    ----------
    Models as predictors, least squares and nearest neighbours beside them: Garg et al.,
    arXiv:2208.01066.  Sensitivities: von Oswald et al., arXiv:2212.07677.

    Examples
    --------
    >>> import numpy as np
    >>> import iclimit
    >>> problem = iclimit.Problem(dim=5, context=20, noise_variance=0.25, scale=1)
    >>> def ridge(inputs, labels, query):
    ...     gram = inputs.mT @ inputs + 0.25 * np.eye(5)
    ...     weights = np.linalg.solve(gram, inputs.mT @ labels[:, :, None])
    ...     return (query[:, None, :] @ weights)[:, 0, 0]
    >>> report = iclimit.probe(ridge, problem, test_prompts=300, rng=0)
    >>> print(report.verdict.sentences[0])
    It is ridge regression with the best penalty: it leaves 0 % of the mean square unexplained.
    """
    check_choice("form", form, FORMS)
    check_arguments(tolerance=tolerance)
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be an iclimit.Problem, got {problem!r}")
    if gradients is not None and not callable(gradients):
        raise TypeError(f"gradients must be a function, got {gradients!r}")
    check_prompts(test_prompts)
    chosen = all_baselines(partial(known_baselines, problem, prompts, ridge), baselines)
    sections = plan_sections(
        problem, test_prompts=test_prompts, rng=rng, context_lengths=context_lengths
    )
    model = Model(predict, batch, deterministic, form == "positions")
    positions = _positions(model, chosen, sections[0]) if form == "positions" else None
    options: dict[str, Any] = {"tolerance": tolerance, "seed": str(rng), "progress": progress}
    return judge(model, chosen, sections, gradients=gradients, positions=positions, **options)


def judge_predictions(
    prompts: PromptFile,
    predictions: np.ndarray,
    *,
    positions: np.ndarray | None = None,
    baselines: Wanted = None,
    trained_on: int | None = None,
    ridge: float = 0.0,
    tolerance: float = TOLERANCE,
    progress: bool = False,
) -> AlgorithmReport:
    """Make a report of the answers of a model that ran elsewhere.

    Parameters
    ----------
    prompts : PromptFile
        What was asked (`iclimit.validation.instruments.models.files.read_prompts`).
    predictions : array (n,)
        What was answered (`iclimit.validation.instruments.models.predictions.read_predictions`).
    positions : array (m, context + 1), optional
        Answers at all positions of the first m fresh prompts, see
        `iclimit.validation.instruments.models.predictions.read_positions`.
    trained_on : int >= 1, optional
        Number of prompts on which the linear attention is trained that is one of the baselines,
        called ``prompts`` in `probe`.
    baselines, ridge, tolerance, progress
        As in `probe`.
    """
    check_arguments(tolerance=tolerance)
    check_prompts(prompts.test_prompts)
    known = partial(known_baselines, prompts.problem, trained_on, ridge)
    chosen = all_baselines(known, baselines)
    sections = prompts.sections
    by_position = None
    if positions is not None:
        recorded = Recorded(positions, sections)
        by_position = _positions(recorded, chosen, sections[0], len(positions))
    recorded = Recorded(predictions, sections)
    options: dict[str, Any] = {"tolerance": tolerance, "seed": str(prompts.seed)}
    return judge(recorded, chosen, sections, positions=by_position, progress=progress, **options)


def all_baselines(
    known: Callable[[frozenset[str] | None], Iterable[Baseline]], wanted: Wanted
) -> list[Baseline]:
    """Baselines that are named or given, and functions that are algorithms of one's own.

    Parameters
    ----------
    known : callable
        Returns the baselines of some names, or all for None.
    wanted : sequence of str or Baseline, mapping of str to callable, optional
        Names, "module:function" or baselines, and only these; or functions of arrays by name,
        beside all that are known.
    """
    if isinstance(wanted, Mapping):
        own = [own_baseline(name, function) for name, function in wanted.items()]
        return [*choose_baselines(known, None), *own]
    if wanted is not None and not isinstance(wanted, str):
        wanted = [
            own_baseline(_own_name(choice), load_function(choice))
            if isinstance(choice, str) and ":" in choice
            else choice
            for choice in wanted
        ]
    return choose_baselines(known, wanted)


def own_baseline(name: str, function: Callable[..., Any]) -> Baseline:
    """Algorithm of one's own, a function of inputs, labels and query as a model is."""
    if _is_ours(name):
        raise ValueError(f"baselines must not be called as ours are, got {name!r}: rename yours")
    if not callable(function):
        raise TypeError(f"baselines must be functions by name, got {function!r} for {name!r}")
    model = Model(function)

    def answer(prompts: Prompts) -> np.ndarray:
        try:
            return model.answer(prompts)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"baselines: {name}: {error}") from error

    return Baseline(name, f"your own {name}", answer)


def _own_name(text: str) -> str:
    """Name of the function "module:function", which is all of it if ours is called so."""
    name = text.rpartition(":")[2]
    return text if _is_ours(name) else name


def _is_ours(name: str) -> bool:
    """Whether a verdict has words of its own for an algorithm of this name."""
    return name in ALGORITHMS and bool(ALGORITHMS[name].title)


def load_function(text: str) -> Callable[..., Any]:
    """Function "module:function", of a module that is installed or in the working directory.

    Raises
    ------
    ValueError
        If there is no such module or function.
    """
    module, _, name = text.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        function: Callable[..., Any] = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"baselines must be names, or module:function of your own, got {text!r}: {error}"
        ) from None
    finally:
        sys.path.remove(os.getcwd())
    return function


def check_prompts(test_prompts: int) -> None:
    """Raise a ValueError for fewer prompts than standard errors need."""
    check_arguments(test_prompts=test_prompts)
    if test_prompts < FEWEST_PROMPTS:
        raise ValueError(f"test_prompts must be >= {FEWEST_PROMPTS}, got {test_prompts!r}")


@lru_cache(maxsize=8)
def known_baselines(
    problem: Problem, prompts: int | None, ridge: float, names: frozenset[str] | None = None
) -> tuple[Baseline, ...]:
    """Baselines of a problem, all or those of some names, found once: GD++ takes a second."""
    return tuple(best_baselines(problem, prompts=prompts, ridge=ridge, names=names))


def _positions(
    model: Answering, chosen: Sequence[Baseline], fresh: Section, most: int = POSITION_PROMPTS
) -> PositionErrors:
    """Errors at all positions of the first fresh prompts, with those algorithms that have them."""
    names = {baseline.name for baseline in chosen} | {"fixed_step", "best_delta_rule"}
    known = position_baselines(fresh.problem, names)
    return ask_positions(model, known, replace(fresh, drawn=min(fresh.drawn, most)))
