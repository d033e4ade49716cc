"""Named errors of a run, measured or predicted: what all rooms answer with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iclimit import tables
from iclimit.results import Estimate, Result


@dataclass(frozen=True, eq=False, repr=False)
class Errors(Result):
    """Base of the answers to an experiment: an estimate for each named error.

    The headline errors are "icl", on fresh tasks, and "idg", on the tasks of training.

    Attributes
    ----------
    names : tuple of str
        Names of the m errors.
    """

    names: tuple[str, ...]

    def __getitem__(self, name: str) -> Estimate:
        """Mean of a named error, with its standard error."""
        raise NotImplementedError

    @property
    def icl(self) -> Estimate:
        """Error on fresh tasks."""
        return self["icl"]

    @property
    def idg(self) -> Estimate:
        """Error on the tasks of training."""
        return self["idg"]

    def printed(self) -> dict[str, Any]:
        """The estimates by name."""
        return {name: self[name] for name in self.names}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.printed() == other.printed()

    def __hash__(self) -> int:
        return hash(tuple(self.printed().items()))

    def to_dict(self) -> dict[str, Any]:
        """The estimates by name, and all fields."""
        return tables.plain(self.printed()) | super().to_dict()
