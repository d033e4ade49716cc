"""Whether a model depends on the order of its context, and how far it is from linear in labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iclimit.results import Estimate
from iclimit.validation.yours.models.ratios import ratio


@dataclass(frozen=True)
class Diagnosis:
    r"""Properties of a predictor f; all are 0, up to rounding, for linear attention.

    Attributes
    ----------
    order : Estimate
        Mean square of the change of the answers when the context is permuted, over twice their
        mean square: 0 if the order does not matter, 1 if answers to two orders are unrelated.
    nonlinearity : Estimate
        Mean square of :math:`f(y + y') - f(y) - f(y') + f(0)`, over that of :math:`f(y + y')`.
    constant : Estimate
        Mean square of f(0), over that of f(y).
    """

    order: Estimate
    nonlinearity: Estimate
    constant: Estimate


def diagnose(
    fresh: np.ndarray,
    permuted: np.ndarray,
    other: np.ndarray,
    summed: np.ndarray,
    zero: np.ndarray,
) -> Diagnosis:
    """Compare answers to the same inputs with other labels, or in another order.

    Parameters
    ----------
    fresh : array (n,)
        Answers to prompts.
    permuted : array (m,)
        To the first of them, with the pairs of the context permuted.
    other, summed, zero : array (m,)
        To the first of them with labels y' of other tasks, with y + y', and with labels 0.
    """
    first = fresh[: len(permuted)]
    order = ratio((permuted - first) ** 2, 2 * first**2)
    first = fresh[: len(other)]
    defect = summed - first - other + zero
    return Diagnosis(order, ratio(defect**2, summed**2), ratio(zero**2, first**2))
