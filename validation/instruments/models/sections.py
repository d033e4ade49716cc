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

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from iclimit.checks import check_arguments
from iclimit.problem import Problem, check_problem
from iclimit.simulate.arrays import Seed, concatenate_fields, seed_sequence, seed_sequences
from iclimit.simulate.prompts import Prompts, prompt_blocks
from iclimit.simulate.prompts.links import linked_labels
from iclimit.simulate.prompts.sampling import BLOCK_NUMBERS, block_size, linear_labels
from iclimit.validation.instruments.models.labels import effective_problem


def drawn_blocks(problem: Problem, count: int, seed: Seed) -> Iterator[Prompts]:
    """Blocks of `prompt_blocks`, of which what most sections share is drawn once."""
    root = seed_sequence(seed)
    size = block_size(problem)
    if count > size:
        yield from prompt_blocks(problem, count, rng=root)
        return
    entropy = root.entropy if isinstance(root.entropy, int) else tuple(root.entropy or ())
    block = _first_block(problem, size, entropy, root.spawn_key)[slice(count)]
    # Copies, since a model may change what it is given.
    yield Prompts(*(None if array is None else array.copy() for array in vars(block).values()))


@lru_cache(maxsize=8)
def _first_block(
    problem: Problem, size: int, entropy: int | tuple[int, ...], key: tuple[int, ...]
) -> Prompts:
    """First block of prompts, some megabytes, of which a few would cost as much to draw."""
    return next(prompt_blocks(problem, size, rng=np.random.SeedSequence(entropy, spawn_key=key)))


def round_to_float32(drawn: Prompts) -> Prompts:
    """What a model sees, rounded to float32."""
    seen = {name: getattr(drawn, name) for name in ("inputs", "labels", "query")}
    return replace(drawn, **{name: v.astype("f4").astype(float) for name, v in seen.items()})


def permute_pairs(drawn: Prompts, block: int, *, seed: np.random.SeedSequence) -> Prompts:
    """Prompts with their pairs in a random order."""
    # Row by row, so that the first prompts of a longer run are those of a shorter one.
    keys = np.random.default_rng(_child(seed, block)).random(drawn.labels.shape)
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
    linear = problem.with_fresh_tasks(link="identity", flips=0.0)
    other = concatenate_fields(drawn_blocks(linear, len(drawn), _child(seed, block)))
    noise = other.labels - linear_labels(other.inputs, other.tasks)
    labels = linked_labels(problem, linear_labels(drawn.inputs, other.tasks))
    clean_label = linked_labels(problem, np.vecdot(drawn.query, other.tasks))
    if problem.flips:
        # Row by row, as in `permute_pairs`.
        chances = np.random.default_rng(_child(seed, block)).random(labels.shape)
        labels = np.where(chances < problem.flips, -labels, labels)
    query_label = clean_label + other.query_label - other.target
    own, new = factors
    changed = replace(
        drawn,
        labels=own * drawn.labels + new * (labels + noise),
        query_label=own * drawn.query_label + new * query_label,
        tasks=own * drawn.tasks + new * other.tasks,
    )
    if drawn.clean_label is None:
        return changed
    return replace(changed, clean_label=own * drawn.clean_label + new * clean_label)


def move_one(drawn: Prompts, moved: np.ndarray, *, what: str, step: float) -> Prompts:
    """Prompts with a step in one coordinate of the query, or in one label, of each."""
    values = np.array(getattr(drawn, what))
    values[np.arange(len(values)), moved] += step
    return replace(drawn, **{what: values})


def _child(seed: np.random.SeedSequence, block: int) -> np.random.SeedSequence:
    """Seed of a block."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, block))


def shifted_problems(
    problem: Problem, rotation: np.random.SeedSequence
) -> dict[str, tuple[str, Problem]]:
    """Other laws of the prompts, by the names of their sections, with a description."""
    scale = problem.input_scale
    variance = problem.task_variance
    noise = problem.mean_noise_variance
    shifts: list[tuple[str, str, dict[str, Any]]] = [
        ("inputs:half", "inputs times 0.5", {"scale": scale / 2}),
        ("inputs:double", "inputs times 2", {"scale": 2 * scale}),
        ("tasks:half", "tasks times 0.5", {"task_variance": variance / 4}),
        ("tasks:double", "tasks times 2", {"task_variance": 4 * variance}),
    ]
    if noise:
        silent = {"noise_variance": 0.0, "noise_law": None}
        louder: dict[str, Any] = {"noise_variance": 4 * problem.noise_variance}
        if problem.noise_law is not None:
            louder = {"noise_law": problem.level_law.times(2)}
        shifts += [
            ("noise:none", "no label noise", silent),
            ("noise:fourfold", "label noise of four times the variance", louder),
        ]
    else:
        # The variance, to three digits that a report can show.
        added = float(f"{_label_square(problem) / 4:.3g}")
        changes = {"noise_variance": added, "noise_law": None}
        shifts.append(("noise:added", f"label noise of variance {added:g}", changes))
    for what in ("input", "task"):
        covariance = getattr(problem, f"{what}_covariance")
        name = f"{what}_covariance"
        if covariance is not None:
            text = f"covariance of the {what}s: eigen"
            turned = _reversed(covariance), _rotated(covariance, rotation)
            shifts += [
                (f"{what}s:reversed", f"{text}values in the opposite order", {name: turned[0]}),
                (f"{what}s:rotated", f"{text}vectors turned at random", {name: turned[1]}),
            ]
    return {name: (text, replace(problem, **changes)) for name, text, changes in shifts}


def _label_square(problem: Problem) -> float:
    """Mean square of a label of a fresh task."""
    return effective_problem(problem.with_fresh_tasks()).label_square


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


# Step of finite differences over the root mean square of what is changed; see the module.
STEP = 2.0**-6

# Prompts of a section over those of fresh, by purpose.  Differences on the same prompts need fewer
# of them than errors.
SHARES = {"pretraining": 0.25, "order": 0.05, "linearity": 0.05, "shift": 0.1}

# Least number of prompts of a section, unless fresh has fewer.
FEWEST = 200

# Least and largest number of prompts whose sensitivities are measured.
SENSITIVITY_PROMPTS = (10, 50)

# Coordinates of the query and labels that are moved in all these prompts, about: in between.
SENSITIVITY_VARIANTS = 4000

# Fields of a problem that may be set, beside its sizes: where labels are linear, and all.
LINEAR_LAW = (
    *("tasks", "prompts", "noise_variance", "noise_law", "input_law", "scale"),
    *("input_covariance", "task_law", "task_variance", "task_covariance"),
)
LAW = (*LINEAR_LAW, "link", "flips")

# Smallest and largest scale, variance or task of a problem: models in float32 square them.
SIZES = (1e-12, 1e12)

# What has random numbers of its own.  The place is part of what a seed means: add at the end.
SEEDS = ("fresh", "pretraining", "other", "order", "context:half", "context:double", "rotation")

# Turns prompts of fresh into those of a section.  It is told the number of their block, or which
# variant (n,) each of them shall be.
Change = Callable[[Prompts, Any], Prompts]


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
        for index, block in enumerate(drawn_blocks(law, self.drawn, self.seed)):
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
    problem: Problem, *, test_prompts: int = 20_000, rng: Seed = 0, context_lengths: bool = False
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
    >>> from iclimit.validation.instruments.models.sections import plan_sections
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
    fresh = Section("fresh", "error", "fresh tasks", problem, test_prompts, seeds["fresh"])
    plan = [fresh]
    if problem.task_set is not None:
        known = replace(fresh, name="pretraining", description="tasks of the pretraining")
        drawn = _share("pretraining", test_prompts)
        plan.append(replace(known, drawn=drawn, seed=seeds["pretraining"]))
    plan += _changes(fresh, seeds)
    plan += _sensitivities(problem, fresh)
    shift = replace(fresh, purpose="shift", drawn=_share("shift", test_prompts))
    for name, (text, law) in shifted_problems(problem, seeds["rotation"]).items():
        plan.append(replace(shift, name=name, description=text, problem=law))
    if context_lengths:
        plan += _lengths(shift, seeds)
    return plan


def _lengths(shift: Section, seeds: Mapping[str, np.random.SeedSequence]) -> Iterator[Section]:
    """Yield sections of half and of twice the context length."""
    context = shift.problem.context
    for name, length in {"context:half": context // 2, "context:double": 2 * context}.items():
        if length:
            law = replace(shift.problem, context=length)
            text = f"context of {length} pairs"
            yield replace(shift, name=name, description=text, problem=law, seed=seeds[name])


def _share(purpose: str, test_prompts: int) -> int:
    """Number of prompts of a section for a purpose."""
    return max(math.ceil(SHARES[purpose] * test_prompts), min(FEWEST, test_prompts))


def _changes(fresh: Section, seeds: Mapping[str, np.random.SeedSequence]) -> Iterator[Section]:
    """Yield sections in which the order or the labels of fresh prompts are changed."""

    def changed(name: str, purpose: str, description: str, change: Change) -> Section:
        question = replace(fresh, name=name, purpose=purpose, description=description)
        return replace(question, drawn=_share(purpose, fresh.drawn), change=change)

    permute = partial(permute_pairs, seed=seeds["order"])
    yield changed("permuted", "order", "context in a random order", permute)
    other = partial(add_other_labels, problem=fresh.problem, seed=seeds["other"])
    for name, (text, factors) in _LABELS.items():
        yield changed(f"labels:{name}", "linearity", text, partial(other, factors=factors))


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
    >>> from iclimit.validation.instruments.models.sections import central_differences
    >>> from iclimit.validation.instruments.models.sections import plan_sections
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


# Sections of linearity: description, and factors of y and y'.
_LABELS = {
    "other": ("labels y' of another task", (0, 1)),
    "sum": ("labels y + y'", (1, 1)),
    "zero": ("labels 0", (0, 0)),
}


def _sensitivities(problem: Problem, fresh: Section) -> list[Section]:
    """Sections of finite differences along coordinates of the query and along labels."""
    least, most = SENSITIVITY_PROMPTS
    drawn = max(least, min(most, SENSITIVITY_VARIANTS // (problem.dim + problem.context)))
    inputs = float(np.trace(problem.covariance_of_inputs)) / problem.dim
    labels = _label_square(problem)
    plan = []
    for what, moved, variance, variants in (
        ("query", "coordinate of the query", inputs, problem.dim),
        ("labels", "label", labels, problem.context),
    ):
        # Even where all inputs are 0, plus and minus differ.
        step = STEP * (math.sqrt(variance) or 1.0)
        for sign, side in ((1, "plus"), (-1, "minus")):
            plan.append(
                replace(
                    fresh,
                    name=f"{what}:{side}",
                    purpose="sensitivity",
                    description=f"one {moved} {'+-'[sign < 0]} {step:.3g}",
                    drawn=min(drawn, fresh.drawn),
                    variants=variants,
                    step=step,
                    change=partial(move_one, what=what, step=sign * step),
                )
            )
    return plan
