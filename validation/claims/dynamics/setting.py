"""What all claims on training dynamics share: the published law of the data, drawn curves."""

from numpy.typing import ArrayLike

from iclimit.drawing import Axes
from iclimit.problem import Problem
from iclimit.validation.reference.curves import CONTEXT, eigenvalues

# Label of axes of time.
TIME = r"time $t/\tau$"


def problem(dim: int, noise_variance: float = 0.0) -> Problem:
    """Law of the sequences in the published simulations, or with noisy labels."""
    return Problem(
        dim, CONTEXT, input_covariance=eigenvalues(dim), noise_variance=noise_variance, scale=1
    )


def draw_prediction(
    ax: Axes,
    x: ArrayLike,
    simulated: ArrayLike,
    theory: ArrayLike,
    colour: str,
    labels: tuple[str | None, str | None] = (None, None),
) -> None:
    """Draw a simulated curve as a broad line, and its prediction as a dashed one on top."""
    ax.plot(x, simulated, color=colour, linewidth=3, alpha=0.4, label=labels[0])
    ax.plot(x, theory, color=colour, linestyle="--", linewidth=1.2, label=labels[1])
