"""Claims at settings that the seed of a validation draws: other seeds explore other settings."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from iclimit.comparison import Comparison, compare
from iclimit.results import Estimate
from iclimit.tables import entry
from iclimit.validation.claim import Effort, Rows, call, judged, limit, mean, note, run

# Settings of each kind.
NUMBER = 2


@dataclass(frozen=True)
class RandomSetting:
    """Theory and simulation at a setting that was drawn.

    Attributes
    ----------
    words : str
        The setting.
    values : dict
        Theory and estimate by what is compared.
    """

    words: str
    values: Mapping[str, tuple[Estimate | float, Estimate]]


def describe(setting: Mapping[str, Any]) -> str:
    """A setting in words."""
    return " ".join(f"{name}={entry(value, 4)}" for name, value in setting.items())


def random_rows(
    effort: Effort,
    kind: str,
    function: Callable[..., RandomSetting],
    repeats: int,
    of: Mapping[str, str],
    **given: Any,
) -> Rows:
    """Comparisons at settings that a function draws, simulates and predicts.

    ``of`` names what is compared, and the functions of the theory behind it.
    """
    for number in range(NUMBER):
        drawn = run(function, number=number, repeats=effort(repeats), **given)
        for name, tested in of.items():
            pair = drawn.values[name]
            label = f"{name}, {kind}, drawn setting {number + 1}"
            yield mean(label, pair[0], pair[1], of=tested, draws=(kind, number))
        yield note(
            call(f"{kind.capitalize()}, drawn setting {number + 1}: {{}}.".format, drawn.words)
        )


@dataclass(frozen=True)
class RandomLimit:
    """Limits at a setting that was drawn, and simulations at several sizes.

    Attributes
    ----------
    words : str
        The setting.
    limits : dict
        By what is compared.
    runs : dict
        Samples (quantities, repeats) by size.
    """

    words: str
    limits: Mapping[str, float]
    runs: Mapping[int, np.ndarray]


def random_limit(
    effort: Effort,
    kind: str,
    function: Callable[..., RandomLimit],
    repeats: Mapping[int, int],
    of: Mapping[str, str],
    **options: Any,
) -> Rows:
    """Extrapolations at a setting that a function draws, simulates and predicts.

    ``of`` is as in `random_rows`; the options are those of the fit.
    """
    where = f"{kind}, drawn setting"
    sizes = effort.by_size(repeats)
    drawn = run(function, counts=tuple(sizes.items()))
    theories = {f"{name}, {where}": drawn.limits[name] for name in of}
    runs = {size: drawn.runs[size] for size in sizes}
    yield limit(theories, runs, of=list(of.values()), about=where, **options)
    yield note(call(f"{kind.capitalize()}, drawn setting: {{}}.".format, drawn.words))


# Labels, the theory, the other number, and the relative difference that is allowed.
Pair: TypeAlias = tuple[str, Any, Any, float]


def compare_pairs(pairs: Iterable[Pair]) -> Iterator[Comparison]:
    """Comparisons of numbers; where the theory is 0 the difference is absolute."""
    for label, theory, value, relative in pairs:
        allowance = 0.0 if theory else relative
        yield compare(label, theory, value, relative=relative, allowance=allowance)


def pair_rows(function: Callable[..., list[Pair]]) -> Rows:
    """Comparisons of the pairs that a function draws and computes."""
    yield judged(call(compare_pairs, run(function)))
