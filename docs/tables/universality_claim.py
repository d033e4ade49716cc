"""A claim of one's own: inputs need not be Gaussian.

Run it: python docs/tables/universality_claim.py
"""

from pathlib import Path

from iclimit import icl_error, idg_error, simulate_errors
from iclimit.drawing import COLOURS, draw_sizes, finish
from iclimit.runs import Cell
from iclimit.statistics import extrapolate_runs
from iclimit.validation import Claim, Verdict, compare_limits, compare_p_value, validate
from iclimit.validation.judge.report import write_report
from iclimit.validation.judge.summary import table

POINT = {"tau": 1.5, "alpha": 2.0, "kappa": 1.5, "rho": 0.1, "ridge": 0.05}
REPEATS = {
    "quick": {12: 200, 16: 120, 24: 60, 32: 30},
    "full": {16: 1000, 24: 500, 32: 300, 48: 150, 64: 80},
}


def cells(preset):
    """One cell per size, which is its key."""
    return {
        dim: Cell.of(
            simulate_errors,
            dim=dim,
            context=round(POINT["alpha"] * dim),
            tasks=round(POINT["kappa"] * dim),
            prompts=round(POINT["tau"] * dim**2),
            rho=POINT["rho"],
            ridge=POINT["ridge"],
            input_law="uniform",
            test_prompts=4000,
            repeats=repeats,
        )
        for dim, repeats in REPEATS[preset].items()
    }


def judge(_preset, results):
    """Compare the extrapolated errors with the formulas: no allowance."""
    sizes = list(results)
    fit = extrapolate_runs(sizes, [(run.icl, run.idg) for run in results.values()])
    theory = {
        "ICL d=inf, uniform inputs": icl_error(**POINT),
        "IDG d=inf, uniform inputs": idg_error(**POINT),
    }
    comparisons = (
        *compare_limits(theory, fit, of=("icl_error", "idg_error")),
        compare_p_value("chi-square of the fit", fit.p_value),
    )

    def draw(figure):
        ax = figure.subplots()
        for k, (name, limit) in enumerate(zip(("icl", "idg"), theory.values(), strict=True)):
            runs = [getattr(run, name) for run in results.values()]
            draw_sizes(
                ax, sizes, runs, COLOURS[k], limit=limit, fit=fit, quantity=k, label=name.upper()
            )
        finish(ax, "1/d", "test error", legend="")

    return Verdict(comparisons, draw, (fit.summary,))


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
    outcome = validate([claim], preset="quick", rng=0, jobs=1)
    print(table(outcome))
    print(write_report(outcome, Path("universality-report")).name)
