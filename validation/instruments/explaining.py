"""Which mistakes would explain a contradiction: what runs and curves have in common.

Mistakes are tried if what was measured contradicts the theory; none is ever applied.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from tqdm.auto import tqdm

# From what is stated, and a fitted value, to fields that are true instead.
Change = Callable[[Any, float], Mapping[str, Any]]


@dataclass(frozen=True)
class Mistake:
    """A possible mistake in what is stated.

    Attributes
    ----------
    text : str
        Completes "agrees if"; what it depends on is written at ``{}``.
    change : callable
        What is true instead of what is stated; nothing if the mistake is not possible.
    """

    text: str
    change: Change = lambda *_: {}


Tried = TypeVar("Tried")
Outcome = TypeVar("Outcome")


def try_all(
    mistakes: Iterable[Tried], attempt: Callable[[Tried], Outcome], *, progress: bool = False
) -> Iterator[Outcome]:
    """What comes of each mistake that is in the range of the theory."""
    for mistake in tqdm(mistakes, disable=not progress, desc="trying mistakes", leave=False):
        with suppress(ValueError, ArithmeticError):
            yield attempt(mistake)
