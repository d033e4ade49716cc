r"""Which algorithm a model performs: the rule of the verdict.

The tolerance is the largest share of the mean square of the model's answers that an algorithm may
leave unexplained (1 %).  Limits hold together, over all algorithms, with probability 95 %.
Algorithms are the best ones for the problem
(`iclimit.validation.instruments.models.baselines`), one's own, and members of families that were
fitted to other answers of the model (`iclimit.validation.instruments.models.fitting`).

* **algorithm**: the upper limit of the share that X leaves is below the tolerance, and everything
  else for which this is so is significantly further from the model, has more parameters or
  contains X as a special case.
* **ambiguous**: X and Y are both within the tolerance, have as many parameters, and these prompts
  do not tell which of them is nearer.
* **algorithm**, too, where none of these is within the tolerance, but linear attention with any
  matrix is, on prompts held out: one step with that preconditioner.
* **mixture**: no algorithm is within the tolerance, but a sum of at most three with positive
  weights is (`iclimit.validation.instruments.models.mixtures`); a single algorithm with a
  factor counts as one.
* **like**: the lower limits of all algorithms and of the best mixture are above the tolerance, but
  the nearest explains at least half of the mean square: a trained network, mostly.  The verdict
  says how much it explains, and how much worse the model is than the best algorithm.
* **none**: not even half.
* **undecided**: none of these; more prompts decide.

A problem with given tasks has two laws of tasks: the verdict on answers to prompts of these tasks
stands beside that on fresh ones, and the headline speaks for both.

Whatever else is within the tolerance is listed, with the other prompts on which it is not.

A model whose answers are small against the labels is the null predictor: its mean square is below
the tolerance times that of the labels without noise.

**Likeness.**  The distance of a model f to an algorithm g is :math:`E(f - g)^2`, over the
prompts.  The share that g leaves unexplained is this distance over :math:`E f^2`: 0 for equal
answers, 1 for the null predictor, and more for answers worse than none.  The factor c minimises
:math:`E(f - cg)^2`: it is not 1 where the model takes another rate.  Prompts whose answer is more
than thirty times the median one have less weight, so that it counts as thirty times the median: a
method that diverges on few contexts would be judged by these alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from iclimit.results import Estimate, Judgement
from iclimit.statistics import z_threshold
from iclimit.validation.instruments.models.algorithm import Baseline
from iclimit.validation.instruments.models.algorithms import ALGORITHMS
from iclimit.validation.instruments.models.fitting import Fit
from iclimit.validation.instruments.models.linear_attention import LinearPart
from iclimit.validation.instruments.models.mixtures import GAIN, Mixture, best_mixture
from iclimit.validation.instruments.models.model import Answers
from iclimit.validation.instruments.ratios import (
    DOUBT,
    LARGEST_OVER_MEDIAN,
    ROUNDING,
    best_factor,
    bounded_weights,
    larger,
    quantile,
    ratio,
    z_of,
)
from iclimit.words import measured, percent, z_text

# A model is like an algorithm that leaves less than this share of its answers unexplained.
HALF = 0.5


@dataclass(frozen=True)
class Likeness:
    """How near a model is to an algorithm.

    Attributes
    ----------
    name : str
        The algorithm.
    distance : Estimate
        Mean squared distance of the answers.
    unexplained : Estimate
        The distance over the mean square of the model's answers.
    factor : Estimate
        Factor of the algorithm that is nearest to the model.
    factor_z : float
        Deviation of the factor from 1.
    same : tuple of str
        Other algorithms that give the same answers to these prompts.
    """

    name: str
    distance: Estimate
    unexplained: Estimate
    factor: Estimate
    factor_z: float
    same: tuple[str, ...] = ()

    @property
    def explained(self) -> Estimate:
        """Share of the mean square of the model's answers that the algorithm explains."""
        share = self.unexplained
        return Estimate(1 - share.mean, share.standard_error, share.repeats)

    @property
    def label(self) -> str:
        """Its name and those of the algorithms that cannot be told from it."""
        return " = ".join((self.name, *self.same))


def likenesses(answers: Answers) -> list[Likeness]:
    """How near a model is to each baseline that answers differently, the nearest first."""
    model = answers.model
    square = answers.model**2
    algorithms = []
    for name, same in equal_answers(answers.baselines).items():
        baseline = answers.baselines[name]
        distance = (model - baseline) ** 2
        factor = best_factor(model, baseline)
        likeness = Likeness(
            name,
            Estimate.of(distance, keep=False),
            ratio(distance, square),
            factor,
            z_of(factor, 1.0),
            same,
        )
        algorithms.append(likeness)
    return sorted(algorithms, key=lambda likeness: likeness.unexplained.mean)


def equal_answers(baselines: Mapping[str, np.ndarray]) -> dict[str, tuple[str, ...]]:
    """Baselines that answer differently, each with those that answer as it does."""
    equal: dict[str, tuple[str, ...]] = {}
    for name, answers in baselines.items():
        for first in equal:
            other = baselines[first]
            if np.mean((answers - other) ** 2) <= ROUNDING**2 * np.mean(other**2):
                equal[first] += (name,)
                break
        else:
            equal[name] = ()
    return equal


# Verdicts in a few words, by their kind.
HEADLINES = {
    "algorithm": "It is {}",
    "ambiguous": "These prompts cannot tell {} from others",
    "mixture": "It is a mixture of algorithms",
    "like": "It is like {}",
    "none": "It is none of these algorithms",
    "undecided": "These prompts are too few to tell",
    "null": "It answers next to nothing",
}

# Share of the mean square that an algorithm may leave unexplained by default.
TOLERANCE = 0.01

# Most algorithms, or prompts on which one differs, that a sentence lists.
MOST_LISTED = 3

# Most prompts that a verdict asks for.
MOST_PROMPTS = 1e9


@dataclass(frozen=True, repr=False)
class Identification(Judgement):
    """Which algorithm a model performs.

    Attributes
    ----------
    kind : {"algorithm", "ambiguous", "mixture", "like", "none", "undecided", "null"}
        The verdict on fresh tasks, see the module.
    holds : bool
        Whether it names an algorithm or a mixture.
    sentence : str
        The verdict in words.
    names : tuple of str
        The algorithms that it names.
    tied : tuple of str
        Others that these prompts do not tell from the first of them.
    within : tuple of str
        All algorithms within the tolerance, the nearest first.
    differences : mapping of str to tuple of str
        Other prompts on which each of them is beyond the tolerance.
    likenesses : tuple of Likeness
        All algorithms, the nearest first.
    fits : tuple of Fit
        Families with the parameters that are nearest to the model, the nearest first.
    mixture : Mixture
        The best mixture.
    tolerance : float
        Share that may be left unexplained.
    sentences : tuple of str
        The sentences of the verdict, of which the first says what the model is.
    pretraining : Identification or None
        The same on the pretraining tasks, where the problem has them.
    """

    names: tuple[str, ...]
    tied: tuple[str, ...]
    within: tuple[str, ...]
    differences: Mapping[str, tuple[str, ...]]
    likenesses: tuple[Likeness, ...]
    fits: tuple[Fit, ...]
    mixture: Mixture
    tolerance: float
    sentences: tuple[str, ...]
    pretraining: Identification | None = None

    def __getitem__(self, name: str) -> Likeness:
        return next(
            likeness for likeness in self.likenesses if name in (likeness.name, *likeness.same)
        )

    @property
    def headline(self) -> str:
        """The verdict in a few words, with the title of an algorithm."""
        if not self.names:
            return HEADLINES[self.kind]
        name = self.names[0]
        titles = {algorithm: row.title for algorithm, row in ALGORITHMS.items()}
        titles |= {fit.name: fit.title for fit in self.fits}
        return HEADLINES[self.kind].format(titles.get(name) or name.replace("_", " "))

    def fit(self, family: str) -> Fit:
        """The member of a family that is nearest to the model."""
        return next(fit for fit in self.fits if fit.family == family)


def identify(
    answers: Answers,
    algorithms: Iterable[Baseline] = (),
    *,
    fits: Sequence[Fit] = (),
    differences: Callable[[str], tuple[str, ...]] = lambda _: (),
    tolerance: float = TOLERANCE,
    pretraining: Answers | None = None,
    linear: LinearPart | None = None,
    fitted: int = 0,
) -> Identification:
    """Say which algorithm the answers of a model come from.

    Parameters
    ----------
    answers : Answers
        To fresh prompts.
    algorithms : iterable of Baseline
        What the algorithms of these answers are called, and what they contain; without them all
        are called by their names.
    fits : sequence of Fit
        Families that were fitted, for the record.
    differences : callable
        From the name of an algorithm to descriptions of prompts on which it is beyond the
        tolerance.
    tolerance : float
        Share of the mean square that may be left unexplained, in (0, 1).
    pretraining : Answers, optional
        To prompts of the pretraining tasks.
    linear : LinearPart, optional
        Linear attention that is nearest to the answers to fresh prompts: where no algorithm is
        within the tolerance, a step with any preconditioner may be.
    fitted : int
        Number of the first prompts on which parameters were fitted: the verdict is on the others.
    """
    titles = {name: row.title for name, row in ALGORITHMS.items()}
    known = {
        name: Baseline(name, "", np.zeros_like, title=titles.get(name, ""))
        for name in answers.baselines
    }
    known |= {algorithm.name: algorithm for algorithm in algorithms}
    judged = answers.rows(slice(fitted, None))
    fresh = _identify(judged, known, fits, differences, tolerance, linear)
    fresh = _beside_best(fresh, answers, known)
    if pretraining is None:
        return fresh
    own = _identify(pretraining, known, (), lambda _: (), tolerance)
    own = _beside_best(own, pretraining, known)
    on_own = _on("its own tasks", own.sentences)
    on_fresh = _on("fresh tasks", fresh.sentences)
    # What the model is comes first: none of these on fresh tasks says what it is not.
    first = fresh.kind in ("none", "undecided") and own.kind not in ("none", "undecided")
    sentences = [*on_own, *on_fresh] if first else [*on_fresh, *on_own]
    headline = " ".join(sentences)
    return replace(fresh, sentence=headline, sentences=tuple(sentences), pretraining=own)


def _on(tasks: str, sentences: Sequence[str]) -> list[str]:
    """Sentences of a verdict, the first of which says on which tasks it is."""
    first, *others = sentences
    return [f"On {tasks} {first[0].lower()}{first[1:]}", *others]


def _identify(
    answers: Answers,
    known: Mapping[str, Baseline],
    fits: Sequence[Fit],
    differences: Callable[[str], tuple[str, ...]],
    tolerance: float,
    linear: LinearPart | None = None,
) -> Identification:
    """Verdict on the answers to one law of tasks."""
    weight = bounded_weights(answers.model)
    size = ratio(answers.model**2, answers.target**2)
    evidence = _Evidence.of(_times(answers, weight), known, tolerance)
    differing: dict[str, tuple[str, ...]] = {}
    if _upper(size, quantile(1)) < tolerance:
        sentence = f"It answers next to nothing: {percent(size)} of the mean square of the labels."
        finding = _Finding("null", [sentence], ("null",))
    elif evidence.within:
        differing = {likeness.name: differences(likeness.name) for likeness in evidence.within}
        finding = evidence.named(differing)
    elif _upper(evidence.mixture.unexplained, evidence.limit) < tolerance:
        finding = evidence.mixed()
    elif linear is not None and _lower(linear.explained, quantile(1)) > 1 - tolerance:
        finding = _Finding("algorithm", [linear.title], ("linear_attention",))
    else:
        finding = evidence.unnamed()
    sentences = [*finding.sentences, *_bounded(weight)]
    return Identification(
        kind=finding.kind,
        holds=finding.kind in ("algorithm", "mixture"),
        sentence=" ".join(sentences),
        names=finding.names,
        tied=finding.tied,
        within=tuple(likeness.name for likeness in evidence.within),
        differences=differing,
        likenesses=tuple(evidence.near),
        fits=tuple(fits),
        mixture=evidence.mixture,
        tolerance=tolerance,
        sentences=tuple(sentences),
    )


def _beside_best(
    verdict: Identification, answers: Answers, known: Mapping[str, Baseline]
) -> Identification:
    """The verdict with the error of a model that is no algorithm beside that of the best one."""
    errors = {
        name: Estimate.of(answers.errors(predictions), keep=False)
        for name, predictions in answers.baselines.items()
        if not known[name].parameters
    }
    if verdict.kind not in ("like", "none") or not errors:
        return verdict
    best = min(errors, key=lambda name: errors[name].mean)
    own = Estimate.of(answers.errors(answers.model), keep=False)
    predictions = answers.baselines[best]
    left = ratio((answers.model - predictions) ** 2, predictions**2)
    side = "more" if own.mean > errors[best].mean else "less"
    sentence = (
        f"Its error is {measured(own)}, {side} than the {measured(errors[best])} of "
        f"{known[best].words}, of whose answers it leaves {percent(left)} unexplained."
    )
    sentences = (*verdict.sentences, sentence)
    return replace(verdict, sentences=sentences, sentence=" ".join(sentences))


def _times(answers: Answers, weight: np.ndarray) -> Answers:
    """Answers of all, times a factor for each prompt."""
    others = {name: weight * predictions for name, predictions in answers.baselines.items()}
    return replace(answers, model=weight * answers.model, baselines=others)


def _bounded(weight: np.ndarray) -> list[str]:
    """Sentence on the prompts whose answers count less."""
    large = np.count_nonzero(weight < 1)
    if not large:
        return []
    most = f"{LARGEST_OVER_MEDIAN:g} times the median"
    return [f"Answers above {most} ({large:,} of {len(weight):,}) count as that."]


@dataclass(frozen=True)
class _Finding:
    """Kind of a verdict, its sentences, the algorithms that it names, and those that are tied."""

    kind: str
    sentences: list[str]
    names: tuple[str, ...] = ()
    tied: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class _Evidence:
    """What a verdict rests on.

    Attributes
    ----------
    answers : Answers
        Of the model and the algorithms.
    known : mapping of str to Baseline
        The algorithms.
    near : sequence of Likeness
        How near they are, the nearest first.
    mixture : Mixture
        The best mixture.
    tolerance : float
        Share that may be left unexplained.
    """

    answers: Answers
    known: Mapping[str, Baseline]
    near: Sequence[Likeness]
    mixture: Mixture
    tolerance: float

    @classmethod
    def of(cls, answers: Answers, known: Mapping[str, Baseline], tolerance: float) -> _Evidence:
        """Compare the model with each algorithm, and with mixtures of those without fits."""
        near = likenesses(answers)
        plain = [likeness.name for likeness in near if not known[likeness.name].parameters]
        columns = {name: answers.baselines[name] for name in plain}
        return cls(answers, known, near, best_mixture(answers.model, columns), tolerance)

    @property
    def limit(self) -> float:
        """Standard errors of limits that hold together over all algorithms."""
        return quantile(len(self.near))

    @cached_property
    def within(self) -> list[Likeness]:
        """Those within the tolerance, the nearest first."""
        return [
            likeness
            for likeness in self.near
            if _upper(likeness.unexplained, self.limit) < self.tolerance
        ]

    def squares(self, likeness: Likeness) -> np.ndarray:
        """Squared distances (n,) of an algorithm to the model."""
        return (self.answers.model - self.answers.baselines[likeness.name]) ** 2

    def parameters(self, likeness: Likeness) -> int:
        """Number of parameters that were fitted."""
        return self.known[likeness.name].parameters

    def contains(self, likeness: Likeness, other: Likeness) -> bool:
        """Whether another algorithm is a special case of one."""
        return self.known[other.name].algorithm in self.known[likeness.name].contains

    def named(self, differences: Mapping[str, tuple[str, ...]]) -> _Finding:
        """Verdict where algorithms are within the tolerance.

        Of those that these prompts do not tell from the nearest one it names the one with the
        fewest parameters, and leaves out families that it is a member of.
        """
        tied = self._tied()
        best = min(tied, key=self.parameters)
        others = self._others(best)
        alike = [likeness for likeness in others if likeness in tied]
        least = self.parameters(best)
        rivals = [likeness for likeness in alike if self.parameters(likeness) <= least]
        if rivals:
            sentences = [self._ambiguous(best, rivals)]
        else:
            sentences = [self._single(best, bool(differences[best.name]))]
        sentences += self._fitted(best)
        if differences[best.name]:
            sentences.append(f"On others it is not: it differs at {_some(differences[best.name])}")
        texts = {likeness: self._beside(likeness, differences) for likeness in others}
        unclear = [texts[likeness] for likeness in alike if likeness not in rivals]
        if unclear:
            sentences.append(f"These prompts cannot tell it from {_some(unclear)}")
        further = [texts[likeness] for likeness in others if likeness not in tied]
        if further:
            share = percent(self.tolerance, 3)
            sentences.append(f"Within the tolerance of {share}, too: {_some(further)}")
        return _Finding(
            "ambiguous" if rivals else "algorithm",
            [f"{sentence}." for sentence in sentences],
            tuple(likeness.name for likeness in (best, *rivals)),
            tuple(likeness.name for likeness in alike),
        )

    def _tied(self) -> list[Likeness]:
        """Those that these prompts do not tell from the nearest, which is the first of them."""
        limit = quantile(len(self.known))
        rounding = ROUNDING**2 * float(np.mean(self.answers.model**2))
        nearest = self.within[0]
        least = self.squares(nearest)
        further = [
            likeness
            for likeness in self.within[1:]
            if not larger(self.squares(likeness), least, limit, rounding)
        ]
        return [nearest, *further]

    def _others(self, best: Likeness) -> list[Likeness]:
        """Others within the tolerance, without families of one that is as near."""

        def is_family(likeness: Likeness) -> bool:
            most = (1 + GAIN) * likeness.unexplained.mean
            return any(
                self.contains(likeness, member)
                and (member is best or member.unexplained.mean <= most)
                for member in self.within
            )

        return [
            likeness
            for likeness in self.within
            if likeness is not best and not is_family(likeness)
        ]

    def _ambiguous(self, best: Likeness, rivals: Sequence[Likeness]) -> str:
        listed = _some([self.title(rival) for rival in rivals])
        share = _share_left(best.unexplained)
        return (
            f"These prompts cannot tell {self.title(best)} from {listed}: nearest is the first, "
            f"{share}"
        )

    def _single(self, best: Likeness, differs: bool) -> str:
        refined = "" if self.parameters(best) else self._refined(best)
        subject = "On these prompts it is" if differs else "It is"
        return f"{subject} {self.title(best)}: {_share_left(best.unexplained)}{refined}"

    def _fitted(self, best: Likeness) -> list[str]:
        """Sentence with the parameters of the simplest family that an algorithm is a member of."""
        # On pretraining tasks a member that was fitted to fresh ones may be far away.
        near = [name for likeness in self.within for name in (likeness.name, *likeness.same)]
        around = [self.known[name] for name in near if best.name in self.known[name].contains]
        # Least squares is a limit: the parameters are 0 or infinite.
        if not around or best.name == "least_squares":
            return []
        return [f"Fitted, it is {min(around, key=lambda family: family.parameters).words}"]

    def title(self, likeness: Likeness) -> str:
        """What an algorithm is called, with those that answer alike and are no family of its."""
        same = [self.known[name] for name in likeness.same]
        others = [algorithm for algorithm in same if likeness.name not in algorithm.contains]
        return " = ".join(algorithm.words for algorithm in (self.known[likeness.name], *others))

    def _beside(self, likeness: Likeness, differences: Mapping[str, tuple[str, ...]]) -> str:
        """An algorithm within the tolerance, with what is known of it."""
        parts = [percent(likeness.unexplained)]
        if not self.parameters(likeness) and _has_factor(likeness):
            parts.append(f"factor {measured(likeness.factor)}")
        if differences[likeness.name]:
            parts.append(f"differs at {_some(differences[likeness.name])}")
        return f"{self.title(likeness)} ({', '.join(parts)})"

    def _refined(self, best: Likeness) -> str:
        """What is known beyond the verdict: a factor that is not 1, a mixture that is nearer."""
        if len(self.mixture.terms) > 1 and best.unexplained.mean > ROUNDING**2:
            return f"; still nearer is {self._sum()}"
        if _has_factor(best):
            z = f" (z = {z_text(best.factor_z)})" if math.isfinite(best.factor_z) else ""
            return f", with a factor of {measured(best.factor)}, which is not 1{z}"
        return ""

    def _sum(self) -> str:
        """The mixture in words."""
        terms = [
            f"{measured(term.weight)} times {self.known[term.name].words}"
            for term in self.mixture.terms
        ]
        return " plus ".join(terms) or "zero"

    def mixed(self) -> _Finding:
        """Verdict where only a mixture is within the tolerance."""
        mixture = self.mixture
        nearest = self.near[0]
        other = ""
        if mixture.alternatives:
            other = f"; these prompts cannot tell it from {' or '.join(mixture.alternatives)}"
        alone = f"{self.title(nearest)} alone leaves {percent(nearest.unexplained)}"
        kind = "a mixture, " if len(mixture.terms) > 1 else ""
        share = _share_left(mixture.unexplained)
        sentence = f"It is {kind}{self._sum()}: {share}{other} ({alone})."
        return _Finding("mixture", [sentence], mixture.names)

    def unnamed(self) -> _Finding:
        """Verdict where nothing is within the tolerance: none, or more prompts must tell."""
        reason = self._reason()
        shares = self._open()
        nearest = self.near[0]
        if not shares and nearest.unexplained.mean < HALF:
            return _Finding("like", [self._like()], (nearest.name,))
        if not shares:
            return _Finding("none", [f"It is none of these algorithms: {reason}."])
        needed = [
            (self.limit * share.standard_error / (share.mean - self.tolerance)) ** 2
            for share in shares
        ]
        count = len(self.answers.model) * max(1.0, *needed)
        enough = ""
        if count < MOST_PROMPTS:
            enough = f", some {float(f'{2 * count:.1g}'):,.0f} would tell"
        sentence = f"These prompts are too few for a verdict{enough}: {reason}."
        return _Finding("undecided", [sentence], (self.near[0].name,))

    def _like(self) -> str:
        """What the model is like, and how much of its answers that explains."""
        nearest = self.near[0]
        share = nearest.unexplained
        explained = Estimate(1 - share.mean, share.standard_error, share.repeats)
        sentence = (
            f"It is like {self.title(nearest)}, which explains {percent(explained)} of the mean "
            f"square of its answers, but not exactly that nor any other of these algorithms"
        )
        mixture = self.mixture.unexplained
        if len(self.mixture.terms) > 1 and mixture.mean < share.mean:
            sentence += f"; the best mixture ({self._sum()}) leaves {percent(mixture)}"
        return f"{sentence}."

    def _reason(self) -> str:
        """What is nearest."""
        nearest = self.near[0]
        if not np.any(self.answers.baselines[nearest.name]):
            return "none is nearer to its answers than zero"
        reason = (
            f"the nearest, {self.title(nearest)}, leaves {percent(nearest.unexplained)} of the "
            "mean square of its answers unexplained"
        )
        if len(self.mixture.terms) > 1:
            reason += f", the best mixture ({self._sum()}) {percent(self.mixture.unexplained)}"
        return reason

    def _open(self) -> list[Estimate]:
        """Shares that may be within the tolerance."""
        allowed = self.tolerance * self.answers.model**2
        shares = [
            likeness.unexplained
            for likeness in self.near
            if not larger(self.squares(likeness), allowed, self.limit)
        ]
        mixture = self.mixture.unexplained
        if _lower(mixture, self.limit) < self.tolerance:
            shares.append(mixture)
        return shares


def _share_left(share: Estimate) -> str:
    return f"it leaves {percent(share)} of the mean square unexplained"


def _has_factor(likeness: Likeness) -> bool:
    """Whether a multiple of an algorithm is nearer than itself."""
    return abs(likeness.factor_z) > z_threshold(1, DOUBT)


def _some(texts: Sequence[str]) -> str:
    """The first of some texts, and how many more there are."""
    listed = list(texts[:MOST_LISTED])
    if len(texts) > MOST_LISTED:
        listed.append(f"{len(texts) - MOST_LISTED} more")
    return " and ".join(filter(None, (", ".join(listed[:-1]), listed[-1])))


def _upper(share: Estimate, limit: float) -> float:
    return share.mean + limit * share.standard_error


def _lower(share: Estimate, limit: float) -> float:
    return share.mean - limit * share.standard_error
