r"""How a model uses its context, whatever algorithm it is: by eigenvalues and by positions.

**The spectral filter.**  Of a predictor with the weights :math:`w = \varphi(H)\, b`, H being the
covariance of the inputs of a context and b the mean of y x, the answer is :math:`\sum_j
\varphi(h_j)\, a_j` over the eigenvalues :math:`h_j`, with known :math:`a_j`
(`iclimit.validation.instruments.models.algorithms`).  With :math:`\varphi` linear between `KNOTS`
quantiles of the eigenvalues that is a least-squares problem for its values there.  The share of
the answers that it explains says whether the model is such a predictor: ridge regression is
:math:`1/(h + \lambda/N)`, gradient descent a polynomial, least squares :math:`1/h`.

**Positions.**  The weights :math:`c_i` of the pairs minimise :math:`E[f - \frac1N \sum_i c_i y_i\,
x_i \cdot x_q]^2`.  They are equal if the order does not matter.  The number of examples that count
is :math:`(\sum_i c_i)^2/\sum_i c_i^2`, and the effective rate the one weight that fits best for
all.  Those of a fitted delta rule or decay are known (`iclimit.asymptotics.recurrent.positions`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from iclimit.drawing import COLOURS, Axes, draw_estimates, finish, show_zero
from iclimit.problem import Problem
from iclimit.results import Estimate, Result
from iclimit.validation.instruments.models.algorithm import Examples
from iclimit.validation.instruments.models.algorithms import ALGORITHMS
from iclimit.validation.instruments.models.fitting import Fit
from iclimit.validation.instruments.models.members import descent_filter, ridge_filter
from iclimit.validation.instruments.models.problem_units import ProblemUnits
from iclimit.validation.instruments.ratios import best_factor, best_weights, ratio
from iclimit.words import measured, percent

# Eigenvalues at which the filter is found.
KNOTS = 12

# Least number of prompts for each of these eigenvalues, or for each position in the context.
FEWEST = 10

# Algorithms whose filters are drawn beside that of the model.
DRAWN: dict[str, Callable[..., np.ndarray]] = {"ridge": ridge_filter, "descent": descent_filter}


@dataclass(frozen=True, repr=False)
class ContextUse(Result):
    """How a model uses its context.

    Attributes
    ----------
    eigenvalue : array (k,)
        Eigenvalues of the covariance of a context.
    filter : tuple of Estimate
        The spectral filter there.
    explained : Estimate
        Share of the answers that the filter explains.
    weights : tuple of Estimate
        Weight of the pair at each position; empty for too few prompts.
    examples : float
        How many examples count.
    rate : Estimate
        Effective rate, of one gradient step.
    penalty : Estimate or None
        Effective penalty, of ridge regression.
    pairs : int
        Number of pairs of a context.
    """

    eigenvalue: np.ndarray
    filter: tuple[Estimate, ...]
    explained: Estimate
    weights: tuple[Estimate, ...]
    examples: float
    rate: Estimate
    penalty: Estimate | None
    pairs: int

    @property
    def sentence(self) -> str:
        """What is known of any model."""
        penalty = "" if self.penalty is None else f", penalty {measured(self.penalty)}"
        count = f"; {self.examples:.3g} of {self.pairs} examples count" if self.weights else ""
        return (
            f"A filter of the eigenvalues of the context explains {percent(self.explained)}; "
            f"effective rate {measured(self.rate)}{penalty}{count}."
        )

    def draw(self, ax: Axes, *, fits: Iterable[Fit] = ()) -> None:
        """Draw the filter beside those of fitted algorithms and of least squares."""
        h = np.linspace(self.eigenvalue[0], self.eigenvalue[-1], 300)
        h = h[h > 0]
        top = 1.3 * max(estimate.mean for estimate in self.filter)
        ax.plot(h, 1 / h, ":", color="0.45", label="least squares, 1/h")
        filters = [fit for fit in fits if fit.family in DRAWN]
        colours = [colour for colour in COLOURS if colour != COLOURS[1]]
        for fit, colour in zip(filters, colours, strict=False):
            values = {name: estimate.mean for name, estimate in fit.parameters.items()}
            line = DRAWN[fit.family](h, self.pairs, **values)
            ax.plot(h, line, color=colour, label=fit.name.replace("_", " "))
        draw_estimates(ax, self.eigenvalue, self.filter, COLOURS[1], label="model", zorder=3)
        ax.set_ylim(min(0.0, *(1.3 * estimate.mean for estimate in self.filter)), max(top, 0.0))
        finish(ax, "eigenvalue h of the context", r"filter $\varphi(h)$", legend="")

    def draw_positions(
        self, ax: Axes, *, fits: Iterable[Fit] = (), problem: Problem | None = None
    ) -> None:
        """Draw the weight of the pair at each position, beside that of the nearest recurrence."""
        for fit in fits:
            known = None if problem is None else expected_weights(fit, problem)
            if known is not None:
                label = f"{fit.family.replace('_', ' ')}, theory"
                ax.plot(range(1, self.pairs + 1), known, color=COLOURS[0], label=label)
                break
        draw_estimates(ax, range(1, self.pairs + 1), self.weights, COLOURS[1], label="model")
        ax.axhline(self.rate.mean, color="0.45", linestyle="--", label="equal weights")
        ax.locator_params(axis="x", integer=True)
        show_zero(ax)
        finish(ax, "position of the pair", "its weight", legend="")


def expected_weights(fit: Fit, problem: Problem) -> np.ndarray | None:
    """Weights of the positions by theory; None where there is none."""
    units = ProblemUnits(problem)
    weights = ALGORITHMS[fit.family].weights
    if weights is None or not units.solved:
        return None
    return weights(units, **{name: estimate.mean for name, estimate in fit.parameters.items()})


def context_use(
    examples: Examples, model: np.ndarray, fits: Iterable[Fit] = ()
) -> ContextUse | None:
    """Find the spectral filter of a model, and how much each position counts.

    Parameters
    ----------
    examples : Examples
        Prompts.
    model : array (n,)
        Answers of the model to them.
    fits : iterable of Fit
        Families that were fitted, of which ridge regression has the effective penalty.

    Returns
    -------
    ContextUse or None
        None for answers that vanish, or too few prompts for the filter.
    """
    values, loads = examples.spectrum
    # Large eigenvalues are rare, but have most of the answers.
    weights = loads**2 + np.mean(loads**2)
    quantiles = np.quantile(
        values, np.linspace(0.01, 1, KNOTS), weights=weights, method="inverted_cdf"
    )
    knots = quantiles[np.append(True, np.diff(quantiles) > 1e-6 * quantiles[-1])]
    if len(model) < FEWEST * len(knots) or not np.mean(model**2):
        return None
    # A function that is 1 at one knot, 0 at the others and linear between them, for each.
    hats = [np.vecdot(np.interp(values, knots, hat), loads) for hat in np.eye(len(knots))]
    columns = np.stack(hats, axis=1)
    fitted = _estimates(model, columns)
    unexplained = ratio((model - columns @ [estimate.mean for estimate in fitted]) ** 2, model**2)
    count = examples.pairs
    of_pairs = tuple[Estimate, ...]()
    number = 0.0
    if len(model) >= FEWEST * count:
        of_pairs = _estimates(model, examples.products / count)
        means = np.array([weight.mean for weight in of_pairs])
        # Squares are too large by the variances of the errors.
        squares = np.sum(means**2) - sum(weight.standard_error**2 for weight in of_pairs)
        number = float(np.sum(means) ** 2 / max(squares, np.sum(means) ** 2 / count))
    penalties = [fit.parameters["penalty"] for fit in fits if fit.family == "ridge"]
    return ContextUse(
        knots,
        fitted,
        Estimate(1 - unexplained.mean, unexplained.standard_error, unexplained.repeats),
        of_pairs,
        number,
        best_factor(model, np.mean(examples.products, axis=1)),
        penalties[0] if penalties else None,
        count,
    )


def _estimates(target: np.ndarray, columns: np.ndarray) -> tuple[Estimate, ...]:
    """Least-squares weights of columns with their standard errors."""
    weights, covariance = best_weights(target, columns)
    errors = np.sqrt(np.diag(covariance))
    return tuple(
        Estimate(float(weight), float(error), len(target))
        for weight, error in zip(weights, errors, strict=True)
    )
