"""Two layers perform ridge regression for either of two noise levels.

The adjusted loss of two layers that are constructed for two noise levels, with inputs N(0, I/N)
and either noise level, vanishes in the limit of long contexts.

Source: {vladymyrov2024}, Theorem 5.2.
"""

from typing import Any

import numpy as np

from iclimit.drawing import COLOURS, Figure, draw_family, finish, panels
from iclimit.results import Estimate
from iclimit.simulate.gdpp import two_level_ridge_transformer
from iclimit.simulate.gdpp.contexts import gram_matrices
from iclimit.simulate.gdpp.gram_pass import GramPass
from iclimit.simulate.pretraining.estimators import ridge_weights
from iclimit.statistics import extrapolate_runs
from iclimit.validation import Cell, Claim, Preset, Results, Verdict, compare_limits

DIM, LEVELS = 3, (0.6, 1.5)
SIZES = (250, 500, 1000, 2000, 4000)
CONTEXTS: dict[Preset, int] = {"quick": 500, "medium": 4000, "full": 40_000}


def two_level_loss(*, noise_level: float, context: int, contexts: int, rng: Any) -> Estimate:
    """Adjusted loss with inputs N(0, I/N)."""
    model = two_level_ridge_transformer(
        LEVELS, context=context, dim=DIM, input_variance=1 / context
    )
    generator = np.random.default_rng(rng)
    losses = []
    for _ in range(contexts // 500):
        x = generator.standard_normal((500, context, DIM)) / np.sqrt(context)
        tasks = generator.standard_normal((500, DIM, 1))
        y = (x @ tasks)[:, :, 0] + noise_level * generator.standard_normal((500, context))
        weights = GramPass(gram_matrices(x, y), model).weights
        oracle = ridge_weights(x, y, np.full(500, noise_level**2))
        losses.append(np.sum((weights - oracle) ** 2, axis=1) / 2)
    return Estimate.of(np.concatenate(losses))


def cells(preset: Preset) -> dict[Any, Cell]:
    """Losses by noise level and context length."""
    return {
        (level, size): Cell.of(
            two_level_loss, noise_level=level, context=size, contexts=CONTEXTS[preset]
        )
        for level in LEVELS
        for size in SIZES
    }


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare the extrapolated losses with zero."""
    comparisons, notes = [], []
    for level in LEVELS:
        runs = [results[level, size] for size in SIZES]
        fit = extrapolate_runs(SIZES, runs, order=1)
        label = f"adjusted loss at noise level {level:g}, N to infinity"
        comparisons += compare_limits({label: 0.0}, fit)
        notes.append(
            f"Noise level {level:g}: fit of order {fit.order} in 1/N, chi-square "
            f"{fit.chi_square:.1f} for {fit.degrees} degrees of freedom; N times the loss tends "
            f"to {fit.coefficients[1, 0]:.2f}."
        )

    def draw(figure: Figure) -> None:
        (ax,) = panels(figure, 1, width=5.4, height=3.8)
        for level, colour in zip(LEVELS, COLOURS, strict=False):
            runs = [results[level, size] for size in SIZES]
            line = SIZES, runs[-1].mean * SIZES[-1] / np.array(SIZES)
            draw_family(ax, line, (SIZES, runs), colour, rf"$\sigma = {level:g}$")
        legend = rf"one model, $d = {DIM}$"
        finish(ax, "context length $N$", "adjusted loss", log="xy", legend=legend)

    return Verdict(comparisons, draw, notes)


claim = Claim.of("noisy-two-levels", __doc__, cells, judge)
