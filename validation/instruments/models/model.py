"""Questions to a model that somebody else wrote, and checks of what it answers.

A model is a function of arrays.  Anything can be behind it, so nothing is taken for granted: it is
given copies, and its answers must be real, finite and of the right shape.  One batch is asked
again, to see whether answers are random or depend on the rest of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from iclimit.checks import check_arguments, refuse_masked
from iclimit.results import Estimate
from iclimit.simulate.arrays import to_host
from iclimit.simulate.probing.prefixes import all_inputs
from iclimit.simulate.prompts import Prompts
from iclimit.simulate.prompts.links import linked_labels
from iclimit.validation.instruments.models.algorithm import Baseline
from iclimit.validation.instruments.models.labels import expected_labels
from iclimit.validation.instruments.models.sections import Section


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers to one section of prompts, which all of them were asked.

    Attributes
    ----------
    section : str
        Which prompts: "fresh", "pretraining", "permuted" and so on.
    model : array (n,) or (n, N + 1)
        Answers of the model; at every position, if it gives them, the query last.
    baselines : mapping of str to array of that shape
        Answers of the baselines, by their names.
    target : array of that shape
        What is asked for: labels without noise, on average over flips.
    noise_variance : array of that shape
        Variance of the labels around them: that of noise and flips.
    """

    section: str
    model: np.ndarray
    baselines: Mapping[str, np.ndarray]
    target: np.ndarray
    noise_variance: np.ndarray

    def errors(self, answers: np.ndarray) -> np.ndarray:
        """Squared errors (n,) on noisy query labels, averaged over the noise of the query."""
        return (answers - self.target) ** 2 + self.noise_variance

    def rows(self, chosen: slice) -> Answers:
        """Answers to some of the prompts."""
        others = {name: predictions[chosen] for name, predictions in self.baselines.items()}
        target = self.target[chosen]
        noise = self.noise_variance[chosen]
        return Answers(self.section, self.model[chosen], others, target, noise)

    def at(self, position: int) -> Answers:
        """Those at one position, of answers (n, N + 1) at every position."""
        others = {name: predictions[:, position] for name, predictions in self.baselines.items()}
        own = self.model[:, position]
        target = self.target[:, position]
        return Answers(self.section, own, others, target, self.noise_variance[:, position])

    def error(self, name: str = "") -> Estimate:
        """Mean squared error of a baseline, by default of the model."""
        return Estimate.of(self.errors(self.baselines[name] if name else self.model))


# Largest difference of answers to the same batch, over their root mean square.  Sums in another
# order, as on a GPU, change float32 answers by 1e-7 to 1e-6; finite differences multiply that by
# 64. Dropout changes them by 1e-2 or more.
SAME_BATCH = 1e-5

# The same for prompts in another batch.  Libraries choose their algorithms by the size of the
# batch, which matters in half precision: one rounding of bfloat16 is 4e-3.  A batch norm in
# training mode changes answers in a batch of 8 by 1/10 and more.
OTHER_BATCH = 1e-2

# Prompts of the other batch.
SMALL_BATCH = 8

# Largest size of an answer, so that variances of squares are finite.
LARGEST = 1e50


@dataclass(frozen=True)
class Model:
    """A model that is asked in batches, with its answers checked.

    Parameters
    ----------
    predict : callable
        ``predict(inputs, labels, query)`` with arrays (batch, context, dim), (batch, context) and
        (batch, dim) returns predictions (batch,).  With ``per_position``,
        ``predict(inputs, labels)`` of arrays (batch, context + 1, dim) and (batch, context + 1),
        in which the query with label 0 is last, returns predictions (batch, context + 1).
    batch : int >= 1, optional
        Most prompts at once; by default a block of about 4 MiB of inputs.
    deterministic : bool
        Whether answers must be the same when a batch is asked again, and in another batch.
    per_position : bool
        Whether the model predicts every label from the pairs before it.

    Examples
    --------
    >>> import numpy as np
    >>> import iclimit
    >>> from iclimit.validation.instruments.models.model import Model
    >>> problem = iclimit.Problem(dim=2, context=5)
    >>> model = Model(lambda inputs, labels, query: np.zeros((len(query), 1)))
    >>> model.answer(iclimit.sample_prompts(problem, 3, rng=0))
    Traceback (most recent call last):
        ...
    ValueError: predict must return an array of shape (3,), got (3, 1): return predictions[:, 0]
    """

    predict: Callable[..., Any]
    batch: int | None = None
    deterministic: bool = True
    per_position: bool = False

    def __post_init__(self) -> None:
        if not callable(self.predict):
            raise TypeError(f"predict must be a function, got {self.predict!r}")
        if self.batch is not None:
            check_arguments(batch=self.batch)

    def answer(self, drawn: Prompts, *, section: str = "fresh", first: int = 0) -> np.ndarray:
        """Answers (n,), or (n, context + 1) per position, to prompts.

        Parameters
        ----------
        drawn : Prompts
            The prompts.
        section : str
            Name of their section, for messages.
        first : int
            Number of the first one in the section, for messages.

        Raises
        ------
        TypeError
            If answers are no array of real numbers.
        ValueError
            If an answer is not finite, their shape is wrong or arguments were changed.
        """
        arguments = self._arguments(drawn)
        step = self.batch or len(drawn)
        parts = []
        for start in range(0, len(drawn), step):
            batch = {name: array[start : start + step] for name, array in arguments.items()}
            parts.append(self._ask(batch, _Where(section, first + start)))
        return np.concatenate(parts)

    def check(self, drawn: Prompts, *, section: str = "fresh") -> None:
        """Ask some first prompts of a section again, in the same batch and in another.

        Parameters
        ----------
        drawn : Prompts
            The prompts.
        section : str
            Name of their section, for messages.

        Raises
        ------
        ValueError
            If the answers are others, or look ahead where they are per position.
        """
        where = _Where(section, 0)
        arguments = {name: array[: self.batch] for name, array in self._arguments(drawn).items()}
        answers = self._ask(arguments, where)
        count = len(answers)
        size = float(np.sqrt(np.mean(answers**2)))
        if self.deterministic:
            again = self._ask(arguments, where)
            if (odd := _first_over(np.abs(again - answers), SAME_BATCH * size)) is not None:
                raise ValueError(
                    "predict must answer the same batch alike, got "
                    f"{answers[odd]:.6g} and then {again[odd]:.6g} for "
                    f"{where.prompt(odd[0])}: dropout or a random number left on? "
                    "deterministic=False allows it"
                )
        few = max(2, min(SMALL_BATCH, count // 2))
        if self.deterministic and count > 1:
            backwards = {name: array[few - 1 :: -1] for name, array in arguments.items()}
            other = self._ask(backwards, where)[::-1]
            difference = np.abs(other - answers[:few])
            if (odd := _first_over(difference, OTHER_BATCH * size)) is not None:
                raise ValueError(
                    "predict must answer a prompt alike in every batch, got "
                    f"{answers[odd]:.6g} in a batch of {count} and {other[odd]:.6g} in "
                    f"one of {few} for {where.prompt(odd[0])}: a batch norm in training mode, or "
                    "a mean over the batch? deterministic=False allows it"
                )
        if self.per_position and self.deterministic:
            self._check_causality(arguments, answers, where)

    def _check_causality(
        self, arguments: Mapping[str, np.ndarray], answers: np.ndarray, where: _Where
    ) -> None:
        """Check that other labels from the middle on change no answer up to the middle."""
        middle = answers.shape[1] // 2
        inputs = np.array(arguments["inputs"])
        labels = np.array(arguments["labels"])
        inputs[:, middle + 1 :] *= -2
        labels[:, middle:] = 1 - 2 * labels[:, middle:]
        other = self._ask({"inputs": inputs, "labels": labels}, where)
        difference = np.abs(other - answers)[:, : middle + 1]
        size = float(np.sqrt(np.mean(answers**2)))
        if (odd := _first_over(difference, SAME_BATCH * size)) is not None:
            raise ValueError(
                "predict must answer a position from the pairs before it and its own input, got "
                f"another answer at position {odd[1]} of {where.prompt(odd[0])} after labels from "
                f"position {middle} on were changed: does position i return the prediction of "
                "label i, and is attention causal?"
            )

    def _arguments(self, drawn: Prompts) -> dict[str, np.ndarray]:
        inputs = to_host(drawn.inputs)
        labels = to_host(drawn.labels)
        query = to_host(drawn.query)
        if self.per_position:
            inputs = np.concatenate([inputs, query[:, None, :]], axis=1)
            return {"inputs": inputs, "labels": np.pad(labels, ((0, 0), (0, 1)))}
        return {"inputs": inputs, "labels": labels, "query": query}

    def _ask(self, arguments: Mapping[str, np.ndarray], where: _Where) -> np.ndarray:
        """Answers to one batch."""
        copies = {name: np.array(array, order="C") for name, array in arguments.items()}
        shape = arguments["labels"].shape if self.per_position else arguments["labels"].shape[:1]
        try:
            returned = self.predict(*copies.values())
        except Exception as error:
            error.add_note(f"raised by predict for {where.prompts(shape[0])}")
            if isinstance(error, TypeError) and not self.per_position:
                error.add_note("a model of inputs and labels alone takes form='positions'")
            raise
        for name, copy in copies.items():
            if not np.array_equal(copy, arguments[name]):
                changed = np.reshape(copy != arguments[name], (shape[0], -1)).any(axis=1)
                raise ValueError(
                    f"predict must not change its arguments, got other {name} for "
                    f"{where.prompt(int(np.argmax(changed)))}: work on a copy"
                )
        positions = arguments["labels"].shape[1] + 1
        return _checked(_as_array(returned), shape, positions, where)


@dataclass(frozen=True)
class _Where:
    """Section and number of the first prompt of a batch, for messages."""

    section: str
    first: int

    def prompt(self, index: int) -> str:
        return f"prompt {self.first + index} of section {self.section!r}"

    def prompts(self, count: int) -> str:
        return f"prompts {self.first} to {self.first + count - 1} of section {self.section!r}"


def _as_array(returned: object) -> np.ndarray:
    """What a model returned as an array of NumPy."""
    refuse_masked("predictions", returned)
    # CuPy converts only when asked to.  Tensors of PyTorch, without "get", may refuse to say
    # whether they have the other attribute.
    if hasattr(returned, "get") and hasattr(returned, "__cuda_array_interface__"):
        returned = returned.get()
    try:
        return np.asarray(returned)
    except Exception as error:  # of any library
        hint = (
            ": return predictions.detach().cpu().float().numpy()"
            if hasattr(returned, "detach")
            else ""
        )
        kind = f"{type(returned).__module__}.{type(returned).__qualname__}"
        raise TypeError(
            f"predict must return an array that NumPy can read, got {kind} ({error}){hint}"
        ) from error


def _checked(
    answers: np.ndarray, shape: tuple[int, ...], positions: int, where: _Where
) -> np.ndarray:
    """Answers as float64, if they are what they should be."""
    if answers.dtype.kind != "f":
        raise TypeError(f"predict must return real floating-point numbers, got {answers.dtype}")
    if answers.shape != shape:
        hint = ": return predictions[:, 0]" if answers.shape == (*shape, 1) else ""
        if len(shape) == 1 and answers.shape == (*shape, positions):
            hint = ": a model that answers at every position takes form='positions'"
        raise ValueError(
            f"predict must return an array of shape {shape}, got {answers.shape}{hint}"
        )
    with np.errstate(over="ignore"):
        answers = answers.astype(float)
    if (odd := first_unusable(answers)) is not None:
        position = f"position {odd[1]} of " if len(odd) > 1 else ""
        raise ValueError(
            f"predict must return finite numbers, got {answers[odd]:g} for {position}"
            f"{where.prompt(odd[0])}"
        )
    return answers


def first_unusable(answers: np.ndarray) -> tuple[int, ...] | None:
    """Index of the first answer that is NaN, infinite or larger than `LARGEST`."""
    usable = np.abs(answers) <= LARGEST
    return None if usable.all() else tuple(map(int, np.argwhere(~usable)[0]))


def _first_over(differences: np.ndarray, allowed: float) -> tuple[int, ...] | None:
    """Index of the first difference above what is allowed."""
    over = differences > allowed
    return tuple(map(int, np.argwhere(over)[0])) if over.any() else None


class Answering(Protocol):
    """What answers prompts: a model, or a file of its predictions."""

    def answer(self, drawn: Prompts, *, section: str, first: int) -> np.ndarray:
        """Answers to prompts of a section, the first of which has this number."""

    def check(self, drawn: Prompts, *, section: str) -> None:
        """Raise a ValueError if its answers to some first prompts depend on more than those."""


def ask(
    model: Answering,
    baselines: Iterable[Baseline],
    section: Section,
    *,
    positions: bool = False,
    advance: Callable[[int], object] | None = None,
) -> Answers:
    """Answers of a model and of baselines to one section.

    Parameters
    ----------
    model : Model or Recorded
        What is asked.
    baselines : iterable of Baseline
        Algorithms that are asked the same.
    section : Section
        The prompts.
    positions : bool
        Whether all positions count, of what answers at every one, or only the query.
    advance : callable, optional
        Called with the number of prompts after each block.

    Returns
    -------
    Answers
        Arrays of len(section) rows.  Prompts are dropped after each block.
    """
    by_name = {baseline.name: baseline for baseline in baselines}
    answers = []
    predictions: dict[str, list[np.ndarray]] = {name: [] for name in by_name}
    targets = []
    noise_variances = []
    first = 0
    for block in section.blocks():
        own = model.answer(block, section=section.name, first=first)
        for name, baseline in by_name.items():
            predictions[name].append(np.asarray(baseline.predict(block)))
        clean = block.target
        if positions:
            linear = (all_inputs(block) @ block.tasks[:, :, None])[:, :, 0]
            clean = linked_labels(section.problem, linear)
        elif own.ndim > 1:
            own = own[:, -1]
        target, variance = expected_labels(section.problem, clean, block.noise_variance)
        answers.append(own)
        targets.append(target)
        noise_variances.append(variance)
        first += len(block)
        if advance is not None:
            advance(len(block))
    return Answers(
        section.name,
        np.concatenate(answers),
        {name: np.concatenate(blocks) for name, blocks in predictions.items()},
        np.concatenate(targets),
        np.concatenate(noise_variances),
    )


def ask_all(
    model: Answering,
    baselines: Sequence[Baseline],
    sections: Iterable[Section],
    *,
    positions: bool = False,
    progress: bool = False,
) -> dict[str, Answers]:
    """Answers to several sections by name, after a check of the model on the first of them.

    Parameters
    ----------
    model : Model or Recorded
        What is asked.
    baselines : sequence of Baseline
        Algorithms that are asked the same.
    sections : iterable of Section
        The prompts.
    positions : bool
        As in `ask`.
    progress : bool
        Whether to show a progress bar.

    Examples
    --------
    >>> import iclimit
    >>> from iclimit.validation.instruments.models.model import ask_all
    >>> from iclimit.validation.instruments.models.model import Model
    >>> from iclimit.validation.instruments.models.sections import plan_sections
    >>> model = Model(lambda inputs, labels, query: 0.0 * query[:, 0])
    >>> problem = iclimit.Problem(dim=5, context=10, scale=1)
    >>> sections = plan_sections(problem, test_prompts=2000)
    >>> answers = ask_all(model, [], sections)
    >>> print(answers["fresh"].error())
    4.89(17)
    """
    from tqdm.auto import tqdm

    sections = list(sections)
    if sections:
        model.check(next(iter(sections[0].blocks())), section=sections[0].name)
    answers = {}
    with tqdm(total=sum(map(len, sections)), unit="prompt", disable=not progress) as bar:
        for section in sections:
            bar.set_description(section.name)
            answers[section.name] = ask(
                model, baselines, section, positions=positions, advance=bar.update
            )
    return answers
