r"""Conventions of five papers, and the conversion of numbers between them and this library.

The same experiment has other numbers in another paper: inputs of another variance, a sum over the
context instead of a mean, half the squared error.  A convention says these choices, and its units
at a dimension d and a context of :math:`\ell` pairs convert numbers in both directions.

**Units of the library.**  Inputs have variance 1/d and tasks coordinates of variance 1, so that
noiseless labels have variance 1.  Errors are squared errors of a noisy query label.  The ridge
:math:`\lambda` is that of the mean squared error plus :math:`\frac\lambda d \lVert\Gamma\rVert^2`.
The prediction is :math:`x_q^\top \Gamma h` with the summary
:math:`h = (\frac d\ell \sum_i y_i x_i, \frac1\ell \sum_i y_i^2)`.

**Conversion.**  Let inputs have variance s and tasks coordinates of variance :math:`a^2`.  Labels
then have variance :math:`c^2 = a^2 s d`, by which noise variances and squared errors are
multiplied.  Let the summary be :math:`(u \sum_i y_i x_i, v \sum_i y_i^2)`.  The same prediction
needs

.. math:: \Gamma = (s \ell u\, \Gamma'_{1 \ldots d},\; a s d \ell v\, \Gamma'_{d+1}) .

A gradient step of the rate :math:`\eta'` has :math:`\Gamma'_{1 \ldots d} = \eta' I`, so in this
library's units its rate is :math:`\eta = s \ell u\, \eta'`: that of the mean over the context for
inputs of variance 1.  If f times the mean squared error plus :math:`p \lambda' \lVert\Gamma'
\rVert^2` is minimised,

.. math:: \lambda = \frac{d\, p\, \lambda'}{f c^2 (s \ell u)^2} .

A step of training of the rate :math:`\eta'` on f times the mean squared error has the rate
:math:`f c^2 (s \ell u)^2 \eta'` in the units of the library.

This takes the last column of :math:`\Gamma` to scale as the others.  It does not in general, which
changes errors by O(1/d).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from iclimit.checks import check_arguments, check_choice, check_shape, refuse_masked
from iclimit.notation import read_table

# Quantities that `Units` convert; a difference is one of two errors, or a standard error.
QUANTITIES = (
    *("error", "difference", "noise_variance", "ridge", "rate", "learning_rate", "gamma"),
)


@dataclass(frozen=True)
class Convention:
    """Choices of a paper.  Factors are text: a fraction, or ``1/d``, ``1/l`` or ``d/l``.

    `dataclasses.replace` changes single choices.

    Attributes
    ----------
    name : str
        Name of the convention.
    paper : str
        Key of the paper in the bibliography.
    input_law : {"gaussian", "uniform"}
        Law of the coordinates of the inputs.
    input_variance, task_variance : str
        Variance of one coordinate of an input and of a task.
    task_law : {"sphere", "gaussian"}
        Whether all tasks have the same norm.
    product_factor, square_factor : str
        Factors u of the sum of label times input over the context, and v of the sum of squared
        labels.
    loss_factor : str
        Factor f of the squared error in a loss.
    query_noise : bool
        Whether the query label has label noise, too.
    minus_oracle : bool
        Whether the loss of ridge regression with the noise known is subtracted.
    ridge_factor : str
        Factor p of the ridge times the squared norm of Gamma, beside the *mean* loss.
    remark : str
        What else there is to know.

    Examples
    --------
    >>> from iclimit.units import CONVENTIONS
    >>> units = CONVENTIONS["vonoswald2023"].units(dim=10, context=10)
    >>> round(units.to_library("rate", 0.6061), 3)
    0.505
    >>> round(units.from_library("error", 1.0), 4)  # loss of the null predictor
    0.4167
    """

    name: str
    paper: str
    input_law: str
    input_variance: str
    task_law: str
    product_factor: str
    square_factor: str
    loss_factor: str = "1"
    query_noise: bool = True
    minus_oracle: bool = False
    ridge_factor: str = "1"
    task_variance: str = "1"
    remark: str = ""

    def units(self, *, dim: int, context: int, noise_variance: float = 0.0) -> Units:
        """Units at a dimension and a context length.

        Parameters
        ----------
        dim, context : int >= 1
            Dimension of the inputs and number of labelled pairs.
        noise_variance : float >= 0
            Variance of the label noise in this convention.  Only errors need it, where the query
            has no noise or an oracle is subtracted.
        """
        return Units(self, dim, context, noise_variance)


@dataclass(frozen=True)
class Units:
    """Units of a convention at a dimension and a context length (`Convention.units`).

    Attributes
    ----------
    convention : Convention
    dim, context : int
    noise_variance : float
        Variance of the label noise in the convention.
    oracle_loss : float, optional
        Loss of ridge regression that is told the noise, in the convention and without query noise:
        errors need it where the convention subtracts it.
    """

    convention: Convention
    dim: int
    context: int
    noise_variance: float = 0.0
    oracle_loss: float | None = None

    def __post_init__(self) -> None:
        check_arguments(dim=self.dim, context=self.context, noise_variance=self.noise_variance)

    def to_library(self, quantity: str, value: ArrayLike) -> Any:
        """Convert to the units of the library.

        Parameters
        ----------
        quantity : {"error", "difference", "noise_variance", "ridge", "rate", "learning_rate", ...}
            What the value is: "difference" that of two errors, or a standard error; "rate" that of
            a step in context, "learning_rate" that of a step of training; or "gamma", a
            matrix (d, d) or (d, d + 1) that stands between the query and the summary.
        value : float or array
            In the units of the convention.
        """
        value, factor = self._checked(quantity, value)
        converted = (value + self._offset if quantity == "error" else value) / factor
        return converted if np.ndim(converted) else float(converted)

    def from_library(self, quantity: str, value: ArrayLike) -> Any:
        """Convert from the units of the library; parameters are those of `to_library`."""
        value, factor = self._checked(quantity, value)
        converted = value * factor - (self._offset if quantity == "error" else 0.0)
        return converted if np.ndim(converted) else float(converted)

    def factor(self, quantity: str) -> Any:
        """Value in the convention over that in the library; of gamma, column by column."""
        check_choice("quantity", quantity, QUANTITIES)
        factor = self._factors[quantity]
        if quantity == "gamma":
            return np.append(np.full(self.dim, factor[0]), factor[1])
        return factor

    def value(self, name: str) -> float:
        """Value of a choice of the convention that is a number, such as "input_variance"."""
        text = getattr(self.convention, name)
        known = {"1/d": 1 / self.dim, "1/l": 1 / self.context, "d/l": self.dim / self.context}
        try:
            value = known[text] if text in known else float(Fraction(text))
        except (ValueError, ZeroDivisionError):
            value = -1.0
        if value <= 0:
            allowed = "a number > 0 or a fraction as text, 1/d, 1/l or d/l"
            raise ValueError(f"{name} must be {allowed}, got {text!r}")
        return value

    @cached_property
    def _factors(self) -> Mapping[str, Any]:
        variance = self.value("input_variance")
        task = self.value("task_variance")
        label = task * variance * self.dim
        loss = self.value("loss_factor") * label
        step = variance * self.context * self.value("product_factor")
        square = math.sqrt(task) * variance * self.dim * self.context
        last = square * self.value("square_factor")
        return {
            "error": loss,
            "difference": loss,
            "noise_variance": label,
            "ridge": loss * step**2 / (self.dim * self.value("ridge_factor")),
            "rate": 1 / step,
            "learning_rate": 1 / (loss * step**2),
            "gamma": (1 / step, 1 / last),  # of the first d columns, and of the last
        }

    @cached_property
    def _offset(self) -> float:
        """What reported losses leave out."""
        noiseless = self.convention.minus_oracle or not self.convention.query_noise
        missing = self.value("loss_factor") * self.noise_variance if noiseless else 0.0
        if self.convention.minus_oracle:
            if self.oracle_loss is None:
                raise ValueError(
                    f"oracle_loss must be given: losses of {self.convention.name} are those above "
                    "ridge regression that is told the noise"
                )
            missing += self.oracle_loss
        return missing

    def _checked(self, quantity: str, value: ArrayLike) -> tuple[np.ndarray, Any]:
        """Value as an array, and its factor."""
        factor = self.factor(quantity)
        refuse_masked(quantity, value)
        array = np.asarray(value, dtype=float)
        if not np.all(np.isfinite(array)):
            raise ValueError(f"{quantity} must be finite, got {value!r}")
        if quantity != "gamma":
            return array, factor
        check_shape("gamma", array, (self.dim, self.dim), (self.dim, self.dim + 1))
        return array, factor[: array.shape[1]]


def _convention(row: dict[str, str]) -> Convention:
    flags = {name: row.pop(name) == "yes" for name in ("query_noise", "minus_oracle")}
    return Convention(**row, **flags)  # type: ignore[arg-type]


# The conventions by name: the rows of ``conventions.csv``.
CONVENTIONS = {row["name"]: _convention(row) for row in read_table("conventions.csv")}


def get_convention(convention: str | Convention) -> Convention:
    """Return a convention by its name, or as it is given.

    Raises
    ------
    ValueError
        If there is none of this name.
    """
    if isinstance(convention, Convention):
        return convention
    check_choice("convention", convention, CONVENTIONS)
    return CONVENTIONS[convention]
