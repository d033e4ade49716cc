"""A claim of one's own: inputs need not be Gaussian.

Run it: python docs/tables/universality_claim.py
"""

from pathlib import Path

import numpy as np

from iclimit import icl_error, idg_error, simulate_errors
from iclimit.runs import Cell
from iclimit.validation import Claim, Comparison, Verdict, extrapolate, validate
from iclimit.validation.drawing import COLOURS, draw_points
from iclimit.validation.report import table, write_report

POINT = {"tau": 1.5, "alpha": 2.0, "kappa": 1.5, "rho": 0.1, "ridge": 0.05}
REPEATS = {
    "quick": {12: 200, 16: 120, 24: 60, 32: 30},
    "full": {16: 1000, 24: 500, 32: 300, 48: 150, 64: 80},
}


def cells(preset):
    """One cell per size.  Keyword arguments only: they are the identity of the cell."""
    return [
        Cell.of(
            simulate_errors,
            d=d,
            context=round(POINT["alpha"] * d),
            tasks=round(POINT["kappa"] * d),
            prompts=round(POINT["tau"] * d**2),
            rho=POINT["rho"],
            ridge=POINT["ridge"],
            inputs="uniform",
            test_prompts=4000,
            repeats=repeats,
        )
        for d, repeats in REPEATS[preset].items()
    ]


def judge(preset, results):
    """Compare the extrapolated errors with the formulas: no allowance."""
    runs = [results[cell] for cell in cells(preset)]
    sizes = list(REPEATS[preset])
    means = np.array([[run.icl_mean, run.idg_mean] for run in runs])
    covariances = np.array([np.cov(run.icl, run.idg) / run.repeats for run in runs])
    fit = extrapolate(sizes, means, covariances)
    theory = [float(icl_error(**POINT)), float(idg_error(**POINT))]
    comparisons = tuple(
        Comparison(f"{name} d=inf, uniform inputs", limit, float(value), float(error))
        for name, limit, value, error in zip(
            ("ICL", "IDG"), theory, fit.value, fit.standard_error, strict=True
        )
    )

    def draw(figure):
        ax = figure.subplots()
        for column, (name, limit) in enumerate(zip(("ICL", "IDG"), theory, strict=True)):
            errors = np.sqrt(covariances[:, column, column])
            x = [1 / d for d in sizes]
            draw_points(ax, x, means[:, column], errors, COLOURS[column], label=name)
            ax.plot(0, limit, "*", color=COLOURS[column], markersize=11, clip_on=False)
        ax.set(xlabel="1/d", ylabel="test error", xlim=(0, None))
        ax.legend()

    note = f"order {fit.order} in 1/d, p = {fit.p_value:.2f}"
    return Verdict(comparisons, draw, (note,))


claim = Claim(
    name="universality",
    title="Errors do not depend on the law of the inputs",
    source="this page",
    statement=(
        "With inputs uniform on a cube, in place of Gaussian ones of the same covariance, the "
        "errors extrapolated to infinite dimension equal the asymptotic ones."
    ),
    cells=cells,
    judge=judge,
)

if __name__ == "__main__":
    outcome = validate([claim], preset="quick", seed=0, jobs=1)
    print(table(outcome))
    print(write_report(outcome, Path("universality-report")).name)
