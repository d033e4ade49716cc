"""A layer beside what pretraining on finitely many prompts is predicted to give."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.checks import check_integers
from iclimit.asymptotics.pretraining import (
    FiniteSizeErrors,
    GammaErrors,
    expected_gamma,
    finite_size_errors,
)
from iclimit.asymptotics.pretraining.deterministic_equivalent import matrix_root
from iclimit.asymptotics.pretraining.joint_spectrum import covariance_matrix
from iclimit.drawing import COLOURS, Axes, finish, house_style, new_figure
from iclimit.results import Result
from iclimit.simulate.arrays import get_backend, seed_sequences
from iclimit.simulate.pretraining import SimulatedErrors, simulate_errors
from iclimit.simulate.pretraining.prompts import sample_tasks

DRAWS = 20
"""Task sets that the prediction is averaged over."""


@dataclass(frozen=True, repr=False)
class PretrainingComparison(Result):
    """Errors of a layer beside those of ridge regression on the same number of prompts.

    Attributes
    ----------
    errors : GammaErrors
        Of the layer.  Its ``idg`` is on fresh tasks if only the number of tasks is known.
    predicted : FiniteSizeErrors
        What the theory predicts at these integers.
    simulated : SimulatedErrors
        Simulated pretrainings at the same integers.
    eigenvalues : ndarray (d,)
        Ascending eigenvalues of the block (d, d) of the layer's reduced matrix.
    expected : ndarray (d,)
        Those of the mean matrix of such a pretraining, a mean over task sets where only the
        number of tasks is known.
    same_tasks : bool
        Whether the tasks are those of the layer, so that the IDG errors can be compared.
    """

    errors: GammaErrors
    predicted: FiniteSizeErrors
    simulated: SimulatedErrors
    eigenvalues: np.ndarray
    expected: np.ndarray
    same_tasks: bool

    def z(self, error: str = "icl") -> float:
        """Distance from the prediction in standard deviations of one simulated pretraining."""
        allowed = ("icl", "idg") if self.same_tasks else ("icl",)
        if error not in allowed:
            raise ValueError(f"error must be one of {', '.join(allowed)}, got {error!r}")
        runs = getattr(self.simulated, error)
        spread = runs.standard_error * math.sqrt(runs.repeats)
        mean = getattr(self.predicted, error).mean
        return float((getattr(self.errors, error) - mean) / spread)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the eigenvalues of the layer's matrix beside those of the mean matrix.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw into; new ones otherwise.

        Returns
        -------
        Axes
        """
        return draw_spectra(
            ax, self.eigenvalues, "this layer", {"mean of such a pretraining": self.expected}
        )

    def __str__(self) -> str:
        """Short table."""
        lines = [f"{'':<22}{'layer':>10}{'predicted':>12}{'one run':>16}{'z':>8}"]
        for error in ("icl", "idg") if self.same_tasks else ("icl",):
            runs = getattr(self.simulated, error)
            spread = runs.standard_error * math.sqrt(runs.repeats)
            run = f"{runs.mean:.4g} ± {spread:.2g}"
            mean = getattr(self.predicted, error).mean
            found = getattr(self.errors, error)
            name = "fresh tasks" if error == "icl" else "pretraining tasks"
            lines.append(f"{name:<22}{found:>10.4g}{mean:>12.4g}{run:>16}{self.z(error):>8.2f}")
        return "\n".join(lines)


def block_eigenvalues(gamma: np.ndarray) -> np.ndarray:
    """Ascending eigenvalues of the symmetric part of the block (d, d) of a reduced matrix."""
    block = gamma[:, : len(gamma)]
    return np.linalg.eigvalsh((block + block.T) / 2)


def compare_with_pretraining(
    errors: GammaErrors, gamma: np.ndarray, run: dict[str, Any], repeats: int, rng: Any
) -> PretrainingComparison:
    """Predict and simulate a run given by arguments of `simulate_errors`."""
    check_integers(least=2, repeats=repeats)
    theory, simulation, sets = seed_sequences(rng, 3)
    predicted = finite_size_errors(**run, rng=theory, draws=DRAWS)
    tasks, same_tasks = run["tasks"], not isinstance(run["tasks"], (int, float))
    if same_tasks or tasks == math.inf:
        drawn = [tasks]
    else:
        drawn = list(_task_sets(run, np.random.default_rng(sets)))
    spectra = [block_eigenvalues(expected_gamma(**run | {"tasks": each})) for each in drawn]
    return PretrainingComparison(
        errors,
        predicted,
        simulate_errors(**run, rng=simulation, repeats=repeats),
        eigenvalues=block_eigenvalues(gamma),
        expected=np.mean(spectra, axis=0),
        same_tasks=same_tasks,
    )


def _task_sets(run: dict[str, Any], generator: np.random.Generator) -> np.ndarray:
    """Task sets of the law of a run, (DRAWS, k, d)."""
    covariance, law = run["task_covariance"], run["task_law"]
    root = None
    if covariance is not None:
        root = matrix_root(covariance_matrix("task_covariance", covariance, run["dim"]))
        law = "gaussian"
    count = DRAWS * run["tasks"]
    drawn = sample_tasks(get_backend("numpy"), generator, count, run["dim"], law, root=root)
    return np.reshape(drawn, (DRAWS, run["tasks"], run["dim"]))


def draw_spectra(
    ax: Axes | None, values: np.ndarray, label: str, theory: dict[str, np.ndarray], title: str = ""
) -> Axes:
    """Draw eigenvalues as points and those of the theory, by their labels, as lines."""
    from matplotlib.ticker import MaxNLocator

    with house_style():
        axes = new_figure().subplots() if ax is None else ax
        index = np.arange(1, len(values) + 1)
        for colour, (name, line) in zip(COLOURS[:1] + COLOURS[2:], theory.items(), strict=False):
            axes.plot(index, line, color=colour, label=name)
        axes.plot(index, values, "o", color=COLOURS[1], markersize=4, label=label)
        every = np.concatenate([values, *theory.values()])
        axes.set_ylim(1.1 * min(0.0, every.min()), 1.25 * max(0.1, every.max()))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        finish(axes, "index, ascending", r"eigenvalue of $\Gamma$", title=title, legend="")
    return axes
