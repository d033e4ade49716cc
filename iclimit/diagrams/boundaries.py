"""Boundary curves of phase diagrams.

A boundary is where a signed function of a quantity's parameters, its margin, vanishes.  The margin
is evaluated on a grid, contours through its changes of sign are joined to lines, and every vertex
is moved along its grid edge to the root, so that vertices are exact whatever the grid: it only
decides which features are seen, and how smooth a line looks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import elementwise

from iclimit import asymptotics
from iclimit.asymptotics.pretraining.phase_margins import (
    context_information,
    context_slope,
    ridge_slope,
)
from iclimit.diagrams.quantities import named_quantity
from iclimit.diagrams.structure import Structure

_POINTS = 401
"""Most grid points along an axis at which margins are evaluated."""

_STRUCTURED_POINTS = 31, 101
_NUMBERS = 2**20
"""Fewest and most for structured data, and numbers that an array over all of them may have."""

_FULL_RANK = 1e-9
"""Rounding of a sum of weights."""

_JUMP = 1e-6
"""A change of sign at which the margin stays larger than this, relative to the ends of its edge,
is a jump and no boundary."""


@dataclass(frozen=True)
class Boundary:
    """A named boundary.

    Attributes
    ----------
    label : str
        What is true on it, in the notation.
    margin : callable
        Signed function of the parameters, zero on the boundary, NaN where there is none.
    quantities : tuple of str
        Quantities whose diagrams show it.
    """

    label: str
    margin: Callable[..., Any]
    quantities: tuple[str, ...]


def _interpolation(*, tau: Any, ridge: Any = 0.0, **_: Any) -> Any:
    return np.where(np.asarray(ridge) == 0, tau - 1, np.nan)


def _without_ridge(objective: str) -> Callable[..., Any]:
    def margin(ridge: Any = 0.0, **setting: Any) -> Any:
        slope = ridge_slope(**setting, objective=objective)
        return np.where(np.asarray(ridge) == 0, slope, np.nan)

    return margin


def _below(error: Callable[..., Any]) -> Callable[..., Any]:
    """Margin of an ICL error below another: of reciprocals, which are finite where it diverges."""
    return lambda **p: 1 / asymptotics.pretraining.icl_error(**p) - 1 / error(**p)


def _gap(**p: Any) -> Any:
    """Of reciprocals as well; where both errors diverge so does the gap."""
    icl, idg = asymptotics.pretraining.icl_error(**p), asymptotics.pretraining.idg_error(**p)
    return np.where(np.isinf(icl) & np.isinf(idg), np.nan, 1 / idg - 1 / icl)


def _identified(*, theta: Any, alpha: Any, rho: Any, dim: Any = np.inf) -> Any:
    """The limit only: at finite d the transition is smeared."""
    return np.where(np.isinf(dim), theta - context_information(alpha=alpha, rho=rho), np.nan)


def _attention_wins(
    *, theta: Any, alpha: Any, rho: Any, tau: Any = np.inf, ridge: Any = 0.0, dim: Any = np.inf
) -> Any:
    dmmse = asymptotics.pretraining.dmmse_errors(theta=theta, alpha=alpha, rho=rho, dim=dim).icl
    setting = {"tau": tau, "alpha": alpha, "kappa": np.inf, "rho": rho, "ridge": ridge}
    return 1 / asymptotics.pretraining.icl_error(**setting) - 1 / dmmse


def _half_drop(
    *, t: Any, dim: Any, input_variance: Any = 1.0, noise_variance: Any = 0.0, **start: Any
) -> Any:
    """Loss at t above the mean of the losses at zero weights and at the end."""
    setting = {"dim": dim, "input_variance": input_variance, "noise_variance": noise_variance}
    now, end = (
        asymptotics.dynamics.merged_attention_loss(s, **setting, **start) for s in (t, np.inf)
    )
    return now - (end + dim * input_variance + noise_variance) / 2


def _rate_over_best(rate: Any, **setting: Any) -> Any:
    return rate / asymptotics.descent.optimal_learning_rate(**setting).rate


_ERRORS = ("icl_error", "idg_error", "task_gap")
_STRUCTURED = (*_ERRORS, "misalignment_error", "scalar_error")
_DMMSE = ("dmmse_icl_error", "dmmse_idg_error", "attention_over_dmmse")

BOUNDARIES = {
    "interpolation": Boundary(r"$\tau = 1$: interpolation threshold", _interpolation, _ERRORS),
    "memorisation": Boundary(
        r"$\kappa = 1$: memorisation transition, sharp as $\alpha \to \infty$",
        lambda kappa, **_: kappa - 1,
        _ERRORS,
    ),
    "icl_context": Boundary(
        r"$\partial e_{\mathrm{ICL}}/\partial\alpha = 0$: best or worst context length",
        context_slope,
        ("icl_error",),
    ),
    "idg_context": Boundary(
        r"$\partial e_{\mathrm{IDG}}/\partial\alpha = 0$: best or worst context length",
        lambda **p: context_slope(**p, objective="idg"),
        ("idg_error",),
    ),
    "icl_ridge": Boundary(
        r"$\partial e_{\mathrm{ICL}}/\partial\lambda = 0$ at $\lambda = 0$: ridge helps beyond",
        _without_ridge("icl"),
        ("icl_error", "optimal_ridge", "optimal_icl_error"),
    ),
    "idg_ridge": Boundary(
        r"$\partial e_{\mathrm{IDG}}/\partial\lambda = 0$ at $\lambda = 0$: ridge helps beyond",
        _without_ridge("idg"),
        ("idg_error", "optimal_idg_ridge", "optimal_idg_error"),
    ),
    "fixed_dmmse": Boundary(
        r"$e_{\mathrm{ICL}} = 2 + \rho$: that of dMMSE on $k \propto d$ tasks",
        _below(lambda rho, **_: 2 + rho),
        ("icl_error",),
    ),
    "null": Boundary(
        r"$e_{\mathrm{ICL}} = 1 + \rho$: that of predicting 0",
        _below(lambda rho, **_: 1 + rho),
        ("icl_error",),
    ),
    "gap": Boundary(r"$e_{\mathrm{ICL}} = e_{\mathrm{IDG}}$", _gap, ("task_gap",)),
    "identified": Boundary(
        r"$\theta = I(\alpha, \rho)$: a context identifies its task", _identified, _DMMSE
    ),
    "attention": Boundary(
        r"$e_{\mathrm{ICL}}$ of linear attention equals that of dMMSE",
        _attention_wins,
        ("dmmse_icl_error", "attention_over_dmmse"),
    ),
    "best_rate": Boundary(
        r"$\eta = \eta^*$: best rate",
        lambda **p: _rate_over_best(**p) - 1,
        ("learning_rate_loss",),
    ),
    "useless_rate": Boundary(
        r"$\eta = 2\eta^*$: no better than predicting 0",
        lambda **p: _rate_over_best(**p) - 2,
        ("learning_rate_loss",),
    ),
    "divergence": Boundary(
        r"$\eta = 2/(1 + \sqrt{c})^2$: divergence as $L \to \infty$",
        lambda rate, ratio, **_: rate - asymptotics.descent.divergence_rate(ratio),
        ("constant_rate_loss",),
    ),
    "dampened_divergence": Boundary(
        r"$\delta\eta^* = 2/(1 + \sqrt{c})^2$: divergence as $L \to \infty$",
        lambda dampening, ratio, noise_ratio=0.0, **_: (
            dampening / (1 + ratio + noise_ratio) - asymptotics.descent.divergence_rate(ratio)
        ),
        ("dampened_loss",),
    ),
    "oracle": Boundary(
        r"$\lambda = \sigma^2$: best penalty",
        lambda penalty, noise_variance, **_: penalty - noise_variance,
        ("ridge_risk",),
    ),
    "half_drop": Boundary("half of the drop", _half_drop, ("merged_attention_loss",)),
}
"""Boundaries by name."""


def boundary_curves(
    quantity: str,
    x: tuple[str, np.ndarray],
    y: tuple[str, np.ndarray],
    fixed: Mapping[str, float],
    structure: Structure | None = None,
) -> dict[str, list[np.ndarray]]:
    """Curves of all boundaries of a quantity within a diagram, as {label: list of (n, 2)}."""
    if structure is None:
        boundaries, points = BOUNDARIES, _POINTS
    else:
        boundaries, points = structured_boundaries(structure), _structured_points(structure)
    found = {}
    for boundary in boundaries.values():
        if quantity in boundary.quantities:
            lines = zero_lines(boundary.margin, x, y, fixed, points)
            if lines:
                found[boundary.label] = lines
    return found


def structured_boundaries(structure: Structure) -> dict[str, Boundary]:
    """Boundaries that hold for structured data, by name."""
    spectrum = structure.joint
    carried = float(spectrum.weight @ (spectrum.inputs * spectrum.test))
    rank = float(spectrum.weight @ (spectrum.task > 0))
    icl, gap = (named_quantity(name, structure) for name in ("icl_error", "task_gap"))

    def null(rho: Any, test_rho: Any = None, **p: Any) -> Any:
        given = {} if test_rho is None else {"test_rho": test_rho}
        noise = rho if test_rho is None else test_rho
        return 1 / icl.evaluate({**p, **given, "rho": rho}) - 1 / (carried + noise)

    def diversity(tau: Any, alpha: Any, ridge: Any = 0.0, **p: Any) -> Any:
        undefined = ((np.asarray(tau) == 1) & (np.asarray(ridge) == 0)) | np.isinf(alpha)
        slope = asymptotics.pretraining.diversity_slope(
            tau=np.where(undefined, 2.0, tau),
            alpha=np.where(undefined, 1.0, alpha),
            ridge=ridge,
            **p,
            spectrum=spectrum,
        )
        return np.where(undefined, np.nan, slope)

    full = abs(rank - 1) < _FULL_RANK
    return {
        "interpolation": replace(BOUNDARIES["interpolation"], quantities=_STRUCTURED),
        "memorisation": Boundary(
            BOUNDARIES["memorisation"].label
            if full
            else rf"$\kappa = {rank:.3g}$, the rank of $C$: memorisation, sharp as "
            r"$\alpha \to \infty$",
            lambda kappa, **_: kappa - (1.0 if full else rank),
            _STRUCTURED,
        ),
        "diversity": Boundary(
            r"$\partial e_{\mathrm{ICL}}/\partial\kappa = 0$: more tasks begin or cease to hurt",
            diversity,
            ("icl_error",),
        ),
        "null": Boundary(
            r"$e_{\mathrm{ICL}} = \operatorname{tr} C' \Sigma/d + \rho'$: that of predicting 0",
            null,
            ("icl_error",),
        ),
        "gap": Boundary(BOUNDARIES["gap"].label, lambda **p: gap.evaluate(p), ("task_gap",)),
    }


def _structured_points(structure: Structure) -> int:
    """Grid points along an axis: fewer where a point takes longer."""
    joint = structure.joint
    numbers = joint.weight.size * np.unique(joint.inputs).size
    return int(np.clip(math.sqrt(_NUMBERS / numbers), *_STRUCTURED_POINTS))


def zero_lines(
    margin: Callable[..., Any],
    x: tuple[str, np.ndarray],
    y: tuple[str, np.ndarray],
    fixed: Mapping[str, float],
    points: int = _POINTS,
) -> list[np.ndarray]:
    """Lines on which a margin vanishes.

    Parameters
    ----------
    margin : callable
        Signed function of the parameters as keyword arguments, broadcasting.
    x, y : tuple of str and ndarray
        Name and ascending grid of the parameter along each axis.
    fixed : mapping
        The other parameters.
    points : int
        Most points of a grid that are used.

    Returns
    -------
    list of ndarray (n, 2)
        Vertices x, y of each line in order; of a closed line the first is also the last.
    """
    from contourpy import contour_generator

    (x_name, x_grid), (y_name, y_grid) = x, y
    x_grid, y_grid = _thinned(x_grid, points), _thinned(y_grid, points)
    if min(x_grid.size, y_grid.size) < 2:
        return []

    def at(x_values: Any, y_values: Any) -> np.ndarray:
        with np.errstate(all="ignore"):
            values = margin(**fixed, **{x_name: x_values, y_name: y_values})
        return np.asarray(values, dtype=float)

    shape = (y_grid.size, x_grid.size)
    values = np.broadcast_to(at(x_grid[None, :], y_grid[:, None]), shape)
    above = values > 0
    if not np.any(above):
        above = values >= 0  # it may vanish on the last row or column
    signs = np.ma.masked_array(np.where(above, 1.0, -1.0), mask=np.isnan(values))
    # In units of grid points every vertex is in the middle of an edge.
    lines: Any = contour_generator(z=signs, corner_mask=False).lines(0.0)
    if not lines:
        return []
    middles = np.concatenate(lines)
    polished = _polished(at, x_grid, y_grid, middles)
    parts = np.split(polished, np.cumsum([len(line) for line in lines])[:-1])
    return [piece for line in parts for piece in _unbroken(line)]


def _thinned(grid: np.ndarray, points: int) -> np.ndarray:
    """Finite points of a grid, not more than are needed."""
    grid = grid[np.isfinite(grid)]
    return grid[np.linspace(0, grid.size - 1, min(grid.size, points)).round().astype(int)]


def _polished(
    at: Callable[..., np.ndarray], x_grid: np.ndarray, y_grid: np.ndarray, middles: np.ndarray
) -> np.ndarray:
    """Move vertices along their edges to the roots; NaN where the margin jumps."""
    column, row = middles.T
    ends = (
        x_grid[np.floor(column).astype(int)],
        x_grid[np.ceil(column).astype(int)],
        y_grid[np.floor(row).astype(int)],
        y_grid[np.ceil(row).astype(int)],
    )

    def along(part: Any, x0: Any, x1: Any, y0: Any, y1: Any) -> np.ndarray:
        return at(_between(part, x0, x1), _between(part, y0, y1))

    found = elementwise.find_root(
        along,
        (np.zeros(len(middles)), np.ones(len(middles))),
        args=ends,
        tolerances={"xatol": 1e-14, "xrtol": 1e-14, "fatol": 0, "frtol": 0},
    )
    scale = np.maximum(
        abs(along(np.zeros(len(middles)), *ends)), abs(along(np.ones(len(middles)), *ends))
    )
    root = np.stack([_between(found.x, *ends[:2]), _between(found.x, *ends[2:])], axis=1)
    root[~(abs(found.f_x) <= _JUMP * scale)] = np.nan
    return root


def _between(part: Any, low: Any, high: Any) -> Any:
    """Point between low and high, exactly low or high at the ends."""
    return np.where(low == high, low, (1 - part) * low + part * high)


def _unbroken(line: np.ndarray) -> list[np.ndarray]:
    """Split a line at vertices that are NaN; what is a single point is no line."""
    good = np.isfinite(line[:, 0])
    pieces = np.split(line, np.flatnonzero(np.diff(good)) + 1)
    return [piece for piece in pieces if np.isfinite(piece[0, 0]) and np.any(np.ptp(piece, 0) > 0)]
