"""Phase diagrams: a quantity over two parameters, with contours and analytic boundaries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.curves import is_geometric
from iclimit.quantities import get_quantity
from iclimit.validation.drawing import COLOURS, LABELS, log_scale, symbol


@dataclass(frozen=True)
class PhaseDiagram:
    """A quantity over a grid of two parameters.

    Attributes
    ----------
    quantity : str
        Name of the quantity.
    x, y : str
        Parameters along the axes.
    x_grid, y_grid : ndarray
        Their values.
    fixed : dict
        The other parameters.
    values : ndarray (y points, x points)
        Theory.
    label : str
        Colour bar label.
    """

    quantity: str
    x: str
    y: str
    x_grid: np.ndarray
    y_grid: np.ndarray
    fixed: dict[str, float]
    values: np.ndarray
    label: str

    def rows(self) -> list[dict[str, Any]]:
        """Values as rows of a table, in long form."""
        return [
            {"quantity": self.quantity, **self.fixed, self.x: x, self.y: y, "value": value}
            for y, line in zip(self.y_grid.tolist(), self.values.tolist(), strict=True)
            for x, value in zip(self.x_grid.tolist(), line, strict=True)
        ]

    def boundaries(self) -> dict[str, tuple[str, float]]:
        """Analytic boundaries within the diagram, as {label: (parameter, value)}.

        tau = 1: the ridgeless interpolation threshold, where errors diverge.  kappa = 1: the
        transition from memorisation to in-context learning, sharp as alpha grows.
        """
        candidates = {}
        if self.quantity in ("icl_error", "idg_error", "task_gap"):
            candidates["memorisation transition"] = ("kappa", 1.0)
            if self.fixed.get("ridge", 0.0) == 0 and "ridge" not in (self.x, self.y):
                candidates["interpolation threshold"] = ("tau", 1.0)
        grids = {self.x: self.x_grid, self.y: self.y_grid}
        return {
            label: (name, value)
            for label, (name, value) in candidates.items()
            if name in grids and grids[name].min() <= value <= grids[name].max()
        }

    def plot(self, ax: Any = None) -> Any:
        """Draw the diagram with contours and boundaries; return the axes."""
        from matplotlib.colors import LogNorm
        from matplotlib.ticker import LogLocator, MaxNLocator

        for name, grid in ((self.x, self.x_grid), (self.y, self.y_grid)):
            if not np.all(np.isfinite(grid)):
                raise ValueError(f"{name} must be finite on an axis to be drawn, got {grid}")
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(layout="constrained")[1]
        shown = np.ma.masked_invalid(self.values)
        low, high = np.percentile(shown.compressed(), [0, 98]) if shown.count() else (0.0, 1.0)
        logarithmic = low > 0 and high > 20 * low
        norm = LogNorm(low, high) if logarithmic else None
        limits = {} if logarithmic else {"vmin": low, "vmax": high}
        mesh = ax.pcolormesh(
            self.x_grid, self.y_grid, shown, norm=norm, cmap="viridis", shading="nearest",
            rasterized=True, **limits,
        )  # fmt: skip
        ax.figure.colorbar(mesh, ax=ax, label=self.label, extend="max")
        if high > low:
            locator = LogLocator(subs=(1, 2, 5)) if logarithmic else MaxNLocator(8)
            levels = [v for v in locator.tick_values(low, high) if low < v < high]
            if levels:
                lines = ax.contour(
                    self.x_grid, self.y_grid, shown, levels=levels, colors="white", linewidths=0.7
                )
                ax.clabel(lines, fontsize=7, fmt="%g")
        for (label, (name, value)), style in zip(
            self.boundaries().items(), ("--", ":"), strict=False
        ):
            line = ax.axvline if name == self.x else ax.axhline
            line(value, color=COLOURS[1], linewidth=1.8, linestyle=style, label=label)
        if self.boundaries():
            ax.legend(loc="upper right", fontsize=8, frameon=True, framealpha=0.85)
        for name, grid in (("x", self.x_grid), ("y", self.y_grid)):
            if is_geometric(grid):
                log_scale(ax, name)
        ax.set_xlabel(LABELS[self.x])
        ax.set_ylabel(LABELS[self.y])
        ax.grid(visible=False)
        fixed = ", ".join(f"{symbol(name)} = {value:g}" for name, value in self.fixed.items())
        ax.set_title(f"${fixed}$" if fixed else "")
        return ax


def phase_diagram(quantity: str, *, x: str, y: str, **parameters: Any) -> PhaseDiagram:
    """Compute a quantity over two of its parameters.

    Parameters
    ----------
    quantity : str
        Name, as in `curve`.
    x, y : str
        Names of the parameters along the axes.
    **parameters : number or sequence
        The quantity's parameters: ascending sequences for x and y, numbers for the rest.

    Returns
    -------
    PhaseDiagram
        With ``.rows()``, ``.boundaries()`` and ``.plot(ax=None)``.

    Raises
    ------
    ValueError
        If the quantity or a parameter is unknown, missing or out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import iclimit
    >>> diagram = iclimit.phase_diagram(
    ...     "icl_error", x="alpha", y="kappa", alpha=np.geomspace(0.1, 100, 50),
    ...     kappa=np.geomspace(0.1, 10, 40), tau=4, rho=0.1,
    ... )
    >>> diagram.values.shape, list(diagram.boundaries())
    ((40, 50), ['memorisation transition'])
    """
    if x == y:
        raise ValueError(f"x and y must be different parameters, got {x!r} for both")
    chosen = get_quantity(quantity, parameters)
    for axis, name in (("x", x), ("y", y)):
        if name not in parameters:
            raise ValueError(f"{axis} must be one of {', '.join(parameters)}, got {name!r}")
    grids = {name: np.asarray(parameters[name], dtype=float) for name in (x, y)}
    for name, grid in grids.items():
        if grid.ndim != 1 or grid.size < 2 or not np.all(np.diff(grid) > 0):
            raise ValueError(f"{name} must be an ascending sequence of at least two numbers")
    fixed = {}
    for name, value in parameters.items():
        if name not in grids:
            if np.ndim(value) != 0:
                raise ValueError(f"{name} must be a number (x is {x}, y is {y}), got {value!r}")
            fixed[name] = float(value)
    values = chosen.evaluate(fixed | {x: grids[x][None, :], y: grids[y][:, None]})
    values = np.broadcast_to(values, (grids[y].size, grids[x].size))
    return PhaseDiagram(quantity, x, y, grids[x], grids[y], fixed, values, chosen.label)
