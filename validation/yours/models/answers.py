"""Answers of a model and of baselines to the same prompts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from iclimit.results import Estimate


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers to one section of prompts, which all of them were asked.

    Attributes
    ----------
    section : str
        Which prompts: "fresh", "pretraining", "permuted" and so on.
    model : array (n,)
        Answers of the model.
    baselines : mapping of str to array (n,)
        Answers of the baselines, by their names.
    target : array (n,)
        Labels of the queries without noise.
    noise_variance : array (n,)
        Variance of the label noise.
    """

    section: str
    model: np.ndarray
    baselines: Mapping[str, np.ndarray]
    target: np.ndarray
    noise_variance: np.ndarray

    def errors(self, answers: np.ndarray) -> np.ndarray:
        """Squared errors (n,) on noisy query labels, averaged over the noise of the query."""
        return (answers - self.target) ** 2 + self.noise_variance

    def error(self, name: str = "") -> Estimate:
        """Mean squared error of a baseline, by default of the model."""
        return Estimate.of(self.errors(self.baselines[name] if name else self.model))
