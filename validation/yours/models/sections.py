r"""Plan of what a model is asked: sections of prompts, each for one question.

================================  ===========  ==================================================
Section                           Purpose      Prompts
================================  ===========  ==================================================
fresh                             error        tasks from their law
pretraining                       error        tasks from the given set
permuted                          order        contexts of fresh in a random order
labels:other                      linearity    labels y' of other tasks on the inputs of fresh
labels:sum                        linearity    labels y + y'
labels:zero                       linearity    labels 0
query:plus, query:minus           sensitivity  query :math:`\pm h e_i` for each coordinate i
labels:plus, labels:minus         sensitivity  label :math:`y_j \pm h` for each pair j
inputs:half, inputs:double        shift        inputs times 1/2 and 2
tasks:half, tasks:double          shift        tasks times 1/2 and 2
noise:none, noise:fourfold        shift        variance of the label noise times 0 and 4
noise:added                       shift        noise of a quarter of the variance of the labels
inputs:reversed, inputs:rotated   shift        covariance with its eigenvalues in the opposite
                                               order, or its eigenvectors turned at random
tasks:reversed, tasks:rotated     shift        the same for tasks
context:half, context:double      shift        half and twice as many pairs
================================  ===========  ==================================================

A section is left out where it says nothing: pretraining without given tasks, noise:none and
noise:fourfold without noise, noise:added with noise, covariances that are the identity.

Everything is paired.  Prompt i of a section is prompt i of fresh with one thing changed; only
pretraining and other context lengths have prompts of their own.  A section of sensitivities has
several variants of each prompt, which follow each other.

**The step h** is `STEP` times the root mean square of the coordinates of the query, or of the
labels.  A central difference has two errors.  Relative to the derivative, curvature gives
:math:`\tfrac16 \mathrm{STEP}^2 = 4\cdot 10^{-5}` for a function that varies on the scale of its
argument, and nothing for a linear one.  The answers of a float32 model are rounded by about
:math:`u = 10^{-7}` to :math:`10^{-6}`, which gives :math:`\sqrt p\,u/\mathrm{STEP}`, p being the
number of coordinates that share the sensitivity: 4e-5 to 4e-4 for p = 40.  The sum is least near
:math:`(3 u \sqrt p)^{1/3} = 0.012` to 0.027, in the middle of which STEP lies.  Against exact
gradients of a random transformer (three layers with layer norms, d = 20, N = 40) the relative root
mean square error was 7e-5 for the query and 7e-4 for labels in float32, and 2e-5 and 6e-4 in
float64; twice and half the step were worse in float32, or the same within a tenth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from iclimit.checks import check_arguments
from iclimit.problem import Problem, check_problem
from iclimit.simulate.arrays import seed_sequences
from iclimit.simulate.prompts import Prompts, prompt_blocks, sample_prompts
from iclimit.simulate.prompts.sampling import BLOCK_NUMBERS, linear_labels
from iclimit.validation.yours.models.problem_units import ProblemUnits


def round_to_float32(drawn: Prompts) -> Prompts:
    """What a model sees, rounded to float32."""
    seen = {name: getattr(drawn, name) for name in ("inputs", "labels", "query")}
    return replace(drawn, **{name: v.astype("f4").astype(float) for name, v in seen.items()})


def permute_pairs(drawn: Prompts, block: int, *, seed: np.random.SeedSequence) -> Prompts:
    """Prompts with their pairs in a random order."""
    # Row by row, so that the first prompts of a longer run are those of a shorter one.
    keys = _generator(seed, block).random(drawn.labels.shape)
    order = np.argsort(keys, axis=1)
    inputs = np.take_along_axis(drawn.inputs, order[:, :, None], axis=1)
    return replace(drawn, inputs=inputs, labels=np.take_along_axis(drawn.labels, order, axis=1))


def add_other_labels(
    drawn: Prompts,
    block: int,
    *,
    problem: Problem,
    seed: np.random.SeedSequence,
    factors: tuple[int, int],
) -> Prompts:
    """Prompts with a sum of their labels and those of another task on the same inputs.

    The noise variance stays that of the prompt: an algorithm that is told it uses the same one for
    all labels.
    """
    other = sample_prompts(problem.with_fresh_tasks(), len(drawn), rng=_child(seed, block))
    noise = other.labels - linear_labels(other.inputs, other.tasks)
    labels = linear_labels(drawn.inputs, other.tasks) + noise
    query_label = np.vecdot(drawn.query, other.tasks) + other.query_label - other.target
    own, new = factors
    return replace(
        drawn,
        labels=own * drawn.labels + new * labels,
        query_label=own * drawn.query_label + new * query_label,
        tasks=own * drawn.tasks + new * other.tasks,
    )


def move_one(drawn: Prompts, moved: np.ndarray, *, what: str, step: float) -> Prompts:
    """Prompts with a step in one coordinate of the query, or in one label, of each."""
    values = np.array(getattr(drawn, what))
    values[np.arange(len(values)), moved] += step
    return replace(drawn, **{what: values})


def _child(seed: np.random.SeedSequence, block: int) -> np.random.SeedSequence:
    """Seed of a block."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, block))


def _generator(seed: np.random.SeedSequence, block: int) -> np.random.Generator:
    return np.random.default_rng(_child(seed, block))


def shifted_problems(
    problem: Problem, rotation: np.random.SeedSequence
) -> dict[str, tuple[str, Problem]]:
    """Other laws of the prompts, by the names of their sections, with a description."""
    shifts = {}
    for name, factor in (("half", 0.5), ("double", 2.0)):
        changed = replace(problem, scale=factor * problem.input_scale)
        shifts[f"inputs:{name}"] = f"inputs times {factor:g}", changed
    for name, factor in (("half", 0.5), ("double", 2.0)):
        changed = replace(problem, task_variance=factor**2 * problem.task_variance)
        shifts[f"tasks:{name}"] = f"tasks times {factor:g}", changed
    if problem.mean_noise_variance:
        silent = replace(problem, noise_variance=0.0, noise_law=None)
        shifts["noise:none"] = "no label noise", silent
        text = "label noise of four times the variance"
        shifts["noise:fourfold"] = text, _with_fourfold_noise(problem)
    else:
        # The variance, to three digits that a report can show.
        noise = float(f"{ProblemUnits(problem).signal / 4:.3g}")
        changed = replace(problem, noise_variance=noise, noise_law=None)
        shifts["noise:added"] = f"label noise of variance {noise:g}", changed
    for what in ("input", "task"):
        covariance = getattr(problem, f"{what}_covariance")
        if covariance is None:
            continue
        for how, text in (
            ("reversed", "eigenvalues in the opposite order"),
            ("rotated", "eigenvectors turned at random"),
        ):
            turned = _reversed(covariance) if how == "reversed" else _rotated(covariance, rotation)
            changes: dict[str, Any] = {f"{what}_covariance": turned}
            changed = replace(problem, **changes)
            shifts[f"{what}s:{how}"] = f"covariance of the {what}s: {text}", changed
    return shifts


def _with_fourfold_noise(problem: Problem) -> Problem:
    if problem.noise_law is None:
        return replace(problem, noise_variance=4 * problem.noise_variance)
    return replace(problem, noise_law=problem.level_law.times(2))


def mean_eigenvalue(covariance: np.ndarray | None) -> float:
    """Mean eigenvalue of a covariance; None stands for the identity."""
    if covariance is None:
        return 1.0
    return float(np.mean(covariance if covariance.ndim == 1 else np.diag(covariance)))


def _reversed(covariance: np.ndarray) -> np.ndarray:
    """The same eigenvectors, the largest eigenvalue where the smallest was, and so on."""
    if covariance.ndim == 1:
        turned = np.empty_like(covariance)
        order = np.argsort(covariance, kind="stable")
        turned[order] = covariance[order[::-1]]
        return turned
    eigenvalues, basis = np.linalg.eigh(covariance)
    return _symmetric((basis * np.maximum(eigenvalues[::-1], 0)) @ basis.T)


def _rotated(covariance: np.ndarray, seed: np.random.SeedSequence) -> np.ndarray:
    """The same eigenvalues, with eigenvectors turned by a uniformly distributed rotation."""
    gaussian = np.random.default_rng(seed).standard_normal((len(covariance),) * 2)
    basis, triangle = np.linalg.qr(gaussian)
    basis = basis * np.sign(np.diag(triangle))
    matrix = np.diag(covariance) if covariance.ndim == 1 else covariance
    return _symmetric(basis @ matrix @ basis.T)


def _symmetric(matrix: np.ndarray) -> np.ndarray:
    return (matrix + matrix.T) / 2


STEP = 2.0**-6
"""Step of finite differences over the root mean square of what is changed; see the module."""

SHARES = {"error": 1.0, "order": 0.05, "linearity": 0.05, "shift": 0.1}
"""Prompts of a section over those of fresh, by purpose.  Differences on the same prompts need
fewer of them than errors."""

FEWEST = 200
"""Least number of prompts of a section, unless fresh has fewer."""

PRETRAINING_SHARE = 0.25
"""Prompts on pretraining tasks over those on fresh tasks."""

SENSITIVITY_PROMPTS = (10, 50)
"""Least and largest number of prompts whose sensitivities are measured."""

SENSITIVITY_VARIANTS = 4000
"""Coordinates of the query and labels that are moved in all these prompts, about: in between."""

LAW = (
    *("tasks", "prompts", "noise_variance", "noise_law", "input_law", "scale"),
    *("input_covariance", "task_law", "task_variance", "task_covariance"),
)
"""What a problem may say beside its sizes."""

SIZES = (1e-12, 1e12)
"""Smallest and largest scale, variance or task of a problem: models in float32 square them."""

SEEDS = ("fresh", "pretraining", "other", "order", "context:half", "context:double", "rotation")
"""What has random numbers of its own.  The place is part of what a seed means: add at the end."""

Change = Callable[[Prompts, Any], Prompts]
"""Turns prompts of fresh into those of a section.  It is told the number of their block, or which
variant (n,) each of them shall be."""


@dataclass(frozen=True, eq=False)
class Section:
    """Prompts that answer one question.

    Attributes
    ----------
    name : str
        Name, as in the table of the module.
    purpose : {"error", "order", "linearity", "sensitivity", "shift"}
        Which question they answer.
    description : str
        What is asked, in words.
    problem : Problem
        Law that the prompts follow; for sections that change single prompts, that of fresh.
    drawn : int
        Number of prompts that are drawn, of each of which there are ``variants``.
    seed : int or SeedSequence
        Of the prompts.
    variants : int
        Variants of each prompt, which follow each other.
    step : float
        Step of a finite difference; 0 where there is none.
    paired : bool
        Whether its prompts are those of fresh, with something changed.
    change : callable, optional
        What is changed in single prompts, see `Change`.
    float32 : bool
        Whether inputs, labels and query are rounded to float32, as in a file of such numbers.
    """

    name: str
    purpose: str
    description: str
    problem: Problem
    drawn: int
    seed: int | np.random.SeedSequence
    variants: int = 1
    step: float = 0.0
    paired: bool = True
    change: Change | None = None
    float32: bool = False

    def __len__(self) -> int:
        """Number of prompts that a model is asked, with all variants."""
        return self.drawn * self.variants

    def blocks(self) -> Iterator[Prompts]:
        """Draw the prompts in blocks of bounded memory, the same at every call.

        Yields
        ------
        Prompts
            Arrays of NumPy.
        """
        for block in self._changed_blocks():
            yield round_to_float32(block) if self.float32 else block

    def _changed_blocks(self) -> Iterator[Prompts]:
        known = self.name == "pretraining"
        law = self.problem if known else self.problem.with_fresh_tasks()
        for index, block in enumerate(prompt_blocks(law, self.drawn, rng=self.seed)):
            if self.change is None:
                yield block
                continue
            if not self.step:
                yield self.change(block, index)
                continue
            step = max(1, BLOCK_NUMBERS // ((self.problem.context + 1) * self.problem.dim))
            for start in range(0, len(block) * self.variants, step):
                rows = np.arange(start, min(start + step, len(block) * self.variants))
                yield self.change(block[rows // self.variants], rows % self.variants)


def plan_sections(
    problem: Problem, *, test_prompts: int = 20_000, rng: Any = 0, context_lengths: bool = False
) -> list[Section]:
    """Plan what a model is asked about a problem.

    Parameters
    ----------
    problem : Problem
        Law of the prompts.
    test_prompts : int >= 1
        Prompts with fresh tasks; other sections have a share of them.
    rng : int, SeedSequence or Generator
        Root seed.
    context_lengths : bool
        Whether the model takes prompts of other context lengths, too.

    Returns
    -------
    list of Section
        In the order of the table of this module.

    Raises
    ------
    ValueError
        If an argument is outside its range, or a number of the problem so large or small that
        single precision could not hold its square.

    Examples
    --------
    >>> from iclimit.problem import Problem, check_problem
    >>> from iclimit.validation.yours.models.sections import plan_sections
    >>> sections = plan_sections(Problem(dim=20, context=40, scale=1), test_prompts=20_000)
    >>> for section in sections[:3]:
    ...     print(section.name, section.purpose, len(section))
    fresh error 20000
    permuted order 1000
    labels:other linearity 1000
    """
    check_arguments(test_prompts=test_prompts)
    check_problem(problem, *LAW)
    if problem.task_set is None and problem.tasks != math.inf:
        raise ValueError(f"tasks of a problem must be given or inf here, got {problem.tasks}")
    _check_sizes(problem)
    seeds = dict(zip(SEEDS, seed_sequences(rng, len(SEEDS)), strict=True))
    counts = {
        purpose: max(math.ceil(share * test_prompts), min(FEWEST, test_prompts))
        for purpose, share in SHARES.items()
    }
    section = partial(Section, problem=problem, seed=seeds["fresh"])
    fresh = section("fresh", "error", "fresh tasks", drawn=test_prompts)
    plan = [fresh]
    if problem.task_set is not None:
        drawn = max(math.ceil(PRETRAINING_SHARE * test_prompts), min(FEWEST, test_prompts))
        known = section("pretraining", "error", "tasks of the pretraining", drawn=drawn)
        plan.append(replace(known, seed=seeds["pretraining"], paired=False))
    permute = partial(permute_pairs, seed=seeds["order"])
    text = "context in a random order"
    plan.append(section("permuted", "order", text, drawn=counts["order"], change=permute))
    other = partial(add_other_labels, problem=problem, seed=seeds["other"])
    for name, (text, factors) in _LABELS.items():
        change = partial(other, factors=factors)
        drawn = counts["linearity"]
        plan.append(section(f"labels:{name}", "linearity", text, drawn=drawn, change=change))
    least, most = SENSITIVITY_PROMPTS
    moved = max(least, min(most, SENSITIVITY_VARIANTS // (problem.dim + problem.context)))
    plan += _sensitivities(problem, fresh, min(moved, test_prompts))
    for name, (text, shifted) in shifted_problems(problem, seeds["rotation"]).items():
        plan.append(section(name, "shift", text, problem=shifted, drawn=counts["shift"]))
    if context_lengths:
        plan += _context_lengths(problem, counts["shift"], seeds)
    return plan


def central_differences(plus: np.ndarray, minus: np.ndarray, section: Section) -> np.ndarray:
    """Sensitivities (prompts, variants) from the answers to the two sections of a change.

    Parameters
    ----------
    plus, minus : array (len(section),)
        Answers to "query:plus" and "query:minus", or to the same of labels.
    section : Section
        Either of the two.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.problem import Problem, check_problem
    >>> from iclimit.validation.yours.models.sections import central_differences, plan_sections
    >>> plan = {each.name: each for each in plan_sections(Problem(2, 3), test_prompts=4)}
    >>> sections = plan["query:plus"], plan["query:minus"]
    >>> plus, minus = [np.concatenate([b.query[:, 0] for b in s.blocks()]) for s in sections]
    >>> central_differences(plus, minus, sections[0]).round(9)[:2]
    array([[1., 0.],
           [1., 0.]])
    """
    return (plus - minus).reshape(-1, section.variants) / (2 * section.step)


def _check_sizes(problem: Problem) -> None:
    """Raise a ValueError if a number of the problem is too large or too small."""
    least, most = SIZES
    sizes = {
        "scale": problem.input_scale,
        "task_variance": problem.task_variance,
        "noise_variance": problem.mean_noise_variance,
    }
    arrays = {"tasks": problem.task_set, "input_covariance": problem.input_covariance}
    for name, array in (arrays | {"task_covariance": problem.task_covariance}).items():
        if array is not None:
            sizes[name] = float(np.max(np.abs(array)))
    for name, value in sizes.items():
        if value and not least <= value <= most:
            allowed = f"0 or from {least:g} to {most:g} in size"
            raise ValueError(f"{name} of a problem must be {allowed}, got {value:g}")


_LABELS = {
    "other": ("labels y' of another task", (0, 1)),
    "sum": ("labels y + y'", (1, 1)),
    "zero": ("labels 0", (0, 0)),
}
"""Sections of linearity: description, and factors of y and y'."""


def _sensitivities(problem: Problem, fresh: Section, drawn: int) -> list[Section]:
    """Sections of finite differences along coordinates of the query and along labels."""
    inputs = problem.input_variance * mean_eigenvalue(problem.input_covariance)
    labels = ProblemUnits(problem).signal + problem.mean_noise_variance
    plan = []
    for what, variance, variants in (
        ("query", inputs, problem.dim),
        ("labels", labels, problem.context),
    ):
        for sign, side in ((1, "plus"), (-1, "minus")):
            # Even where all inputs are 0, plus and minus differ.
            step = STEP * (math.sqrt(variance) or 1.0)
            plan.append(
                replace(
                    fresh,
                    name=f"{what}:{side}",
                    purpose="sensitivity",
                    description=f"one {_ENTRIES[what]} {'+-'[sign < 0]} {step:.3g}",
                    drawn=drawn,
                    variants=variants,
                    step=step,
                    change=partial(move_one, what=what, step=sign * step),
                )
            )
    return plan


_ENTRIES = {"query": "coordinate of the query", "labels": "label"}


def _context_lengths(
    problem: Problem, drawn: int, seeds: dict[str, np.random.SeedSequence]
) -> list[Section]:
    """Sections with half and twice the context length, with prompts of their own."""
    lengths = {"half": problem.context // 2, "double": 2 * problem.context}
    return [
        Section(
            f"context:{name}",
            "shift",
            f"context of {length} pairs",
            replace(problem, context=length),
            drawn,
            seeds[f"context:{name}"],
            paired=False,
        )
        for name, length in lengths.items()
        if length
    ]
