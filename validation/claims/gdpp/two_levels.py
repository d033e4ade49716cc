"""Two layers that perform ridge regression for either of two noise levels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from iclimit.simulate.gdpp import two_level_ridge_transformer
from iclimit.simulate.gdpp.gram_pass import GramPass
from iclimit.simulate.gdpp.noisy_regression import gram_matrices, ridge_weights
from iclimit.validation.claim import Cell, Claim, Comparison, Preset, Verdict
from iclimit.validation.claims.descent.paired import mean_and_error
from iclimit.validation.claims.gdpp.noisy_regression import PAPER
from iclimit.validation.drawing import COLOURS, draw_points, log_scale
from iclimit.validation.statistics import extrapolate

DIM, LEVELS = 3, (0.6, 1.5)
SIZES = (250, 500, 1000, 2000, 4000)
REPEATS: dict[Preset, int] = {"quick": 2_000, "full": 40_000}


def two_level_loss(
    *, level: float, context: int, repeats: int, rng: Any, backend: str = "numpy"
) -> tuple[float, float]:
    """Adjusted loss and its standard error, inputs N(0, I/N)."""
    del backend
    model = two_level_ridge_transformer(
        LEVELS, context=context, dim=DIM, input_variance=1 / context
    )
    generator = np.random.default_rng(rng)
    losses = []
    for _ in range(repeats // 500):
        x = generator.standard_normal((500, context, DIM)) / np.sqrt(context)
        tasks = generator.standard_normal((500, DIM, 1))
        y = (x @ tasks)[:, :, 0] + level * generator.standard_normal((500, context))
        weights = GramPass(gram_matrices(x, y), model).weights
        oracle = ridge_weights(x, y, np.full(500, level**2))
        losses.append(np.sum((weights - oracle) ** 2, axis=1) / 2)
    return mean_and_error(np.concatenate(losses))


def _cell(preset: Preset, level: float, size: int) -> Cell:
    return Cell.of(two_level_loss, level=level, context=size, repeats=REPEATS[preset])


def _cells(preset: Preset) -> list[Cell]:
    return [_cell(preset, level, size) for level in LEVELS for size in SIZES]


def _judge(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    comparisons, notes = [], []
    for level in LEVELS:
        runs = np.array([results[_cell(preset, level, size)] for size in SIZES])
        fit = extrapolate(SIZES, runs[:, :1], runs[:, 1:, None] ** 2, orders=(1, 2))
        comparisons.append(
            Comparison(
                f"adjusted loss at noise level {level:g}, N to infinity",
                0.0,
                float(fit.value[0]),
                float(fit.covariance[0, 0] ** 0.5),
            )
        )
        notes.append(
            f"Noise level {level:g}: fit of order {fit.order} in 1/N, chi-square "
            f"{fit.chi_square:.1f} for {fit.degrees} degrees of freedom; N times the loss tends "
            f"to {fit.coefficients[1, 0]:.2f}."
        )

    def draw(figure: Any) -> None:
        figure.set_size_inches(5.4, 3.8)
        ax = figure.subplots()
        for level, colour in zip(LEVELS, COLOURS, strict=False):
            runs = np.array([results[_cell(preset, level, size)] for size in SIZES])
            draw_points(ax, SIZES, runs[:, 0], runs[:, 1], colour, label=rf"$\sigma = {level:g}$")
            ax.plot(SIZES, runs[-1, 0] * SIZES[-1] / np.array(SIZES), color=colour, linewidth=1)
        ax.set_xlabel("context length $N$")
        ax.set_ylabel("adjusted loss")
        log_scale(ax, "xy")
        ax.legend(title=rf"one model, $d = {DIM}$")

    return Verdict(tuple(comparisons), draw, tuple(notes))


two_levels_claim = Claim(
    name="noisy-two-levels",
    title="Two layers perform ridge regression for either of two noise levels",
    source=f"{PAPER}, Theorem 5.2",
    statement=(
        "The adjusted loss of the construction, inputs N(0, I/N) and either noise level, vanishes "
        "in the limit."
    ),
    cells=_cells,
    judge=_judge,
)
