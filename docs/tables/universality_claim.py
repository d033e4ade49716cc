"""Errors do not depend on the law of the inputs.

With inputs uniform on a cube, in place of Gaussian ones of the same covariance, the errors
extrapolated to infinite dimension equal the asymptotic ones.

Source: this page.
"""

from pathlib import Path

from iclimit import icl_error, idg_error, simulate_errors
from iclimit.validation import Claim, validate
from iclimit.validation.report.report import write_report
from iclimit.validation.report.summary import table
from iclimit.validation.rows import call, limit, run

POINT = {"tau": 1.5, "alpha": 2.0, "kappa": 1.5, "rho": 0.1, "ridge": 0.05}


def rows(effort):
    """Both errors, extrapolated over four sizes."""
    runs = {
        dim: run(
            simulate_errors,
            dim=dim,
            context=round(POINT["alpha"] * dim),
            tasks=round(POINT["kappa"] * dim),
            prompts=round(POINT["tau"] * dim**2),
            rho=POINT["rho"],
            ridge=POINT["ridge"],
            input_law="uniform",
            test_prompts=4000,
            repeats=effort(repeats),
        )
        for dim, repeats in {12: 200, 16: 120, 24: 60, 32: 30}.items()
    }
    theories = {
        "ICL d=inf, uniform inputs": call(icl_error, **POINT),
        "IDG d=inf, uniform inputs": call(idg_error, **POINT),
    }
    errors = {dim: (result.icl, result.idg) for dim, result in runs.items()}
    yield limit(theories, errors, fit_label="chi-square of the fit", name="fit")


claim = Claim.of("universality", __doc__, rows, figure=False)

if __name__ == "__main__":
    outcome = validate([claim], preset="quick", rng=0, jobs=1)
    print(table(outcome))
    print(write_report(outcome, Path("universality-report")).name)
