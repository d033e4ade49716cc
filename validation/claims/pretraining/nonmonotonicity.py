"""Where the ICL error is nonmonotonic in the context length.

Inside the region in (kappa, tau) where the ridgeless ICL error is least at a finite context
length, simulated errors rise with longer contexts.  Outside they fall.  Both changes are as large
as the finite-size prediction says.

Source: {lu2025}, Figure 3; boundary: documentation.
"""

from collections.abc import Sequence

import numpy as np

from iclimit.asymptotics.pretraining import icl_error
from iclimit.drawing import COLOURS, Axes, Figure, finish, panels, write_key
from iclimit.validation.claim import Claim, Effort, Rows, drawing
from iclimit.validation.claims.pretraining.curves import LEGEND, Curve, CurveResults, curve_rows
from iclimit.validation.claims.pretraining.points import Point

# Variance of the label noise.
RHO = 0.5
# Context lengths over dimension.
ALPHAS = (2.0, 8.0, 64.0)
# Errors against the context length at a place inside the region and at one outside.
CURVES = {
    "inside": Curve(Point(tau=1.5, alpha=1, kappa=1.5, rho=RHO), "alpha", ALPHAS),
    "outside": Curve(Point(tau=4, alpha=1, kappa=4, rho=RHO), "alpha", ALPHAS),
}
# Points between which the ICL error changes.
RISES = {
    f"ICL from alpha=8 to 64, {name} the region": (curve.at(8.0), curve.at(64.0))
    for name, curve in CURVES.items()
}


def rows(effort: Effort) -> Rows:
    """Errors at both places, and their changes with the context."""
    yield from curve_rows(effort, CURVES.values(), RISES)
    yield drawing(draw, [curve.results(effort) for curve in CURVES.values()])


def nonmonotonicity_boundary(kappa: np.ndarray, rho: float) -> np.ndarray:
    r"""Largest tau > 1 at which the ridgeless ICL error nears its alpha = inf limit from below.

    For kappa > 1 the error at large alpha is :math:`e_\infty + c q + O(q^2)` with
    :math:`q = (1+\rho)/\alpha`, :math:`(\tau - 1)(c - 1) = w(1 + \rho - \rho w^2)` and
    :math:`w = \kappa/(\kappa - 1)`; the boundary is c = 0.  NaN where c > 0 for every tau > 1.
    """
    w = kappa / (kappa - 1)
    tau = 1 + w * (rho * w**2 - 1 - rho)
    return np.where(tau > 1, tau, np.nan)


def optimal_context(tau: np.ndarray, kappa: np.ndarray, rho: float) -> np.ndarray:
    """Alpha of the least ridgeless ICL error, inf if it decreases throughout."""
    alpha = np.append(np.geomspace(1e-2, 1e5, 141), np.inf)
    errors = icl_error(tau=tau[..., None], alpha=alpha, kappa=kappa[..., None], rho=rho)
    return alpha[np.argmin(errors, axis=-1)]


def draw(figure: Figure, results: Sequence[CurveResults]) -> None:
    """Draw the region, and the errors at a point inside and at one outside."""
    region, ax = panels(figure)
    _draw_region(figure, region)
    for result, colour in zip(results, COLOURS, strict=False):
        result.draw(ax, "icl", colour, rf"$\kappa = {result.curve.base.kappa:g}$")
    title = rf"$\rho = {RHO}$, at the circle and the square"
    finish(ax, "alpha", "icl_error", log="x", title=title, legend="")
    write_key(figure, LEGEND.format(results[0].dim))


def _draw_region(figure: Figure, ax: Axes) -> None:
    """Draw the best context over kappa and tau, the boundary, and the two simulated places."""
    kappa, tau = np.meshgrid(np.geomspace(0.2, 10, 120), np.geomspace(0.2, 10, 120))
    best = np.ma.masked_invalid(np.log10(optimal_context(tau, kappa, RHO)))
    image = ax.pcolormesh(kappa, tau, best, cmap="cividis", shading="auto", rasterized=True)
    figure.colorbar(image, ax=ax, label=r"$\log_{10}$ optimal $\alpha$ (blank: infinite)")
    line = np.geomspace(1.0001, 10, 2000)
    ax.plot(line, nonmonotonicity_boundary(line, RHO), color=COLOURS[1], linewidth=2)
    for curve, marker in zip(CURVES.values(), "os", strict=True):
        ax.plot(curve.base.kappa, curve.base.tau, marker, color="white", markeredgecolor="black")
    ax.set(xlim=(0.2, 10), ylim=(0.2, 10))
    title = rf"$\rho = {RHO}$; line: analytic boundary, $\kappa, \tau > 1$"
    finish(ax, "kappa", "tau", title=title, log="xy")
    ax.grid(visible=False)


claim = Claim.of("nonmonotonicity", __doc__, rows)
