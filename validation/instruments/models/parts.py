"""Verdicts on the parts of a model: its answers after each layer, or what each head adds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.drawing import COLOURS, Axes, draw_estimates, finish
from iclimit.problem import Problem
from iclimit.results import Result
from iclimit.tables import aligned
from iclimit.validation.instruments.models.probe import probe
from iclimit.validation.instruments.models.report import AlgorithmReport

# Algorithms whose errors are drawn beside those of the parts.
DRAWN = ("one_step", "steps_2", "steps_3", "ridge")


@dataclass(frozen=True, repr=False)
class PartReports(Result):
    """What each part of a model does.

    Attributes
    ----------
    names : tuple of str
        The parts.
    reports : tuple of AlgorithmReport
        Their probes.
    """

    names: tuple[str, ...]
    reports: tuple[AlgorithmReport, ...]
    dims = ("part",)

    def __getitem__(self, name: str) -> AlgorithmReport:
        return self.reports[self.names.index(name)]

    def columns(self) -> dict[str, Any]:
        """Error and verdict of each part."""
        return {
            "part": self.names,
            "error": tuple(report.fresh.error for report in self.reports),
            "verdict": tuple(report.verdict.sentence for report in self.reports),
        }

    def draw(self, ax: Axes) -> None:
        """Draw the errors of the parts, beside those of known algorithms."""
        places = np.arange(len(self.names))
        draw_estimates(ax, places, [report.fresh.error for report in self.reports], COLOURS[0])
        rungs = [rung for rung in self.reports[0].fresh.rungs if rung.name in DRAWN]
        for colour, rung in zip(COLOURS[1:], rungs, strict=False):
            ax.axhline(rung.error.mean, color=colour, label=rung.name)
        ax.set_xticks(places, self.names)
        finish(ax, "part", "mean squared error", legend="")

    def __str__(self) -> str:
        """One line for each part."""
        columns = self.columns()
        lines = zip(self.names, map(str, columns["error"]), columns["verdict"], strict=True)
        return "\n".join(aligned([("part", "error", "verdict"), *lines], "<"))


def probe_parts(
    predict: Callable[..., Any], problem: Problem, *, names: Sequence[str], **options: Any
) -> PartReports:
    """Probe each part of a model: its answers after each layer, or what each head adds to them.

    Parameters
    ----------
    predict : callable
        The parts: ``predict(inputs, labels, query)`` of arrays (batch, context, dim),
        (batch, context) and (batch, dim) returns (batch, parts).  Of a stack of linear attention
        layers `iclimit.validation.stack_parts` makes it.  It is called for each part anew.
    problem : Problem
        Law of the prompts.
    names : sequence of str
        The parts, in the order of these columns.
    **options
        As in `iclimit.probe`, for all parts alike.

    Returns
    -------
    PartReports
        A report for each part.

    Raises
    ------
    ValueError
        If the names are none or not all different, the answers have another number of columns,
        or `iclimit.probe` raises it.
    TypeError
        If an argument is of another kind.

    Examples
    --------
    >>> import numpy as np
    >>> import iclimit
    >>> problem = iclimit.Problem(dim=4, context=20, scale=1)
    >>> def steps(inputs, labels, query):
    ...     first = 0.5 * np.mean(labels[:, :, None] * inputs, axis=1)
    ...     left = labels - np.vecdot(inputs, first[:, None, :])
    ...     second = first + 0.5 * np.mean(left[:, :, None] * inputs, axis=1)
    ...     return np.stack([np.vecdot(query, first), np.vecdot(query, second)], axis=1)
    >>> found = iclimit.validation.probe_parts(
    ...     steps, problem, names=("layer 1", "layer 2"), test_prompts=300
    ... )
    >>> print(found["layer 1"].verdict.sentences[0])
    It is one gradient step of rate 0.5: it leaves 0 % of the mean square unexplained.
    """
    if isinstance(names, str) or not names or len(set(names)) < len(names):
        raise ValueError(f"names must be one name or more, all different, got {names!r}")

    def part(number: int) -> Callable[..., np.ndarray]:
        def answer(*prompts: np.ndarray) -> np.ndarray:
            answers = np.asarray(predict(*prompts))
            if answers.shape != (len(prompts[0]), len(names)):
                allowed = (len(prompts[0]), len(names))
                raise ValueError(f"predict must return shape {allowed}, got {answers.shape}")
            return answers[:, number]

        return answer

    names = tuple(names)
    reports = [probe(part(number), problem, **options) for number in range(len(names))]
    return PartReports(names, tuple(reports))
