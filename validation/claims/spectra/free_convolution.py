"""Sums and products of matrices in random position.

Eigenvalues of A + U B U^T with a random rotation U extrapolate to the free additive
convolution: their resolvent, logarithm, distribution function and, with Tracy-Widom means taken
off, the four edges of its support.  Those of products have the transform whose S-transform is the
product of the two.

Source: Voiculescu (1986, 1987); subordination: Biane, Math. Z. 227 (1998) 143.
"""

from typing import Any

import numpy as np
from scipy.optimize import brentq

from iclimit.asymptotics.spectra import FreeSum, SpectralMeasure, spectrum
from iclimit.drawing import COLOURS, Figure, finish, panels
from iclimit.validation import Cell, Claim, Preset, Results, Verdict
from iclimit.validation.claims.spectra import matrices

MATRICES = {"sum": ("atoms:0,3", "uniform:0,2"), "product": ("atoms:0.5,2", "uniform:0.2,1.8")}
"""Spectra of the two matrices that are added or multiplied."""
SUM_POINTS = (1.0, 4.0)
"""Where the share of eigenvalues of the sum below is compared."""
PRODUCT_POINTS = (0.3, 1.0, 3.0)
"""Arguments of the eta transform of the product."""


def rotated_eigenvalues(
    *, first: str, second: str, operation: str, dim: int, count: int, rng: Any
) -> np.ndarray:
    """Ascending eigenvalues of A + U B U^T or of the root of A times U B U^T times it."""
    generator = np.random.default_rng(rng)
    a, b = (spectrum(each).quantiles(dim) for each in (first, second))
    found = np.empty((count, dim))
    for row in found:
        U = np.linalg.qr(generator.standard_normal((dim, dim)))[0]
        rotated = (U * b) @ U.T
        together = (
            rotated + np.diag(a) if operation == "sum" else np.sqrt(np.outer(a, a)) * rotated
        )
        row[:] = np.linalg.eigvalsh(together)
    return found


def product_eta(first: SpectralMeasure, second: SpectralMeasure, gamma: float) -> float:
    """Eta transform of the free multiplicative convolution: S-transforms multiply."""
    ends = -1 + 1e-9, -1e-9
    return 1 + brentq(lambda x: product_gamma(first, second, x) - gamma, *ends, xtol=1e-14)


def product_gamma(first: SpectralMeasure, second: SpectralMeasure, x: Any) -> Any:
    """Where the eta transform of the free multiplicative convolution is 1 + x."""
    return -x / (1 + x) * first.s_transform(x) * second.s_transform(x)


def cells(preset: Preset) -> dict[Any, Cell]:
    """Eigenvalues by operation and size."""
    return {
        (operation, dim): Cell.of(
            rotated_eigenvalues,
            first=first,
            second=second,
            operation=operation,
            dim=dim,
            count=matrices.EIGENVALUES[preset] // dim,
        )
        for operation, (first, second) in MATRICES.items()
        for dim in matrices.SIZES
    }


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare the extrapolated statistics of sums and products."""
    law = FreeSum(*map(spectrum, MATRICES["sum"]))
    first, second = map(spectrum, MATRICES["product"])
    etas: matrices.Statistics = {
        f"mean of 1/(1 + {gamma:g} x)": (
            matrices.mean_eta(gamma),
            product_eta(first, second, gamma),
            "s_transform",
        )
        for gamma in PRODUCT_POINTS
    }
    families = {
        "sum": matrices.all_statistics(law, SUM_POINTS),
        "product": dict.fromkeys(matrices.SIZES, etas),
    }
    comparisons, notes = matrices.compare_statistics(families, results)

    def draw(figure: Figure) -> None:
        left, right = panels(figure, height=3.6)
        dim = max(matrices.SIZES)
        matrices.draw_density(left, results["sum", dim], law)
        left.set_title("A + U B U$^T$, A: {}, B: {}".format(*MATRICES["sum"]), fontsize=9)
        left.legend()
        eta = np.linspace(0.97, 0.05, 60)
        gamma = product_gamma(first, second, eta - 1)
        right.plot(gamma, eta, color=COLOURS[0], label="S-transforms multiplied")
        x = results["product", dim].ravel()
        means = [np.mean(1 / (1 + g * x)) for g in gamma[::6]]
        right.plot(gamma[::6], means, "o", color=COLOURS[1], markersize=4, label="simulated")
        right.set_xscale("log")
        finish(right, r"$\gamma$", r"$\eta(\gamma)$ of the product", legend="")
        right.set_title("A: {}, B: {}".format(*MATRICES["product"]), fontsize=9)

    return Verdict(comparisons, draw, notes)


claim = Claim.of("spectra-free", __doc__, cells, judge)
