"""Sums and products of matrices in random position.

Eigenvalues of A + U B U^T with a random rotation U extrapolate to the free additive
convolution: their resolvent, logarithm, distribution function and, with Tracy-Widom means taken
off, the four edges of its support.  Those of products have the transform whose S-transform is the
product of the two.

Source: Voiculescu (1986, 1987); subordination: Biane, Math. Z. 227 (1998) 143.
"""

import numpy as np
from numpy.random import SeedSequence
from scipy.optimize import brentq

from iclimit.asymptotics.spectra import FreeSum, SpectralMeasure, spectrum
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows, call
from iclimit.validation.claims.spectra import matrices

# Spectra of the two matrices that are added or multiplied.
MATRICES = {"sum": ("atoms:0,3", "uniform:0,2"), "product": ("atoms:0.5,2", "uniform:0.2,1.8")}
# Where the share of eigenvalues of the sum below is compared.
SUM_POINTS = (1.0, 4.0)
# Arguments of the eta transform of the product.
PRODUCT_POINTS = (0.3, 1.0, 3.0)


@named_cell("rotated_eigenvalues")
def rotated_eigenvalues(
    *, first: str, second: str, operation: str, dim: int, count: int, rng: SeedSequence
) -> np.ndarray:
    """Ascending eigenvalues of A + U B U^T or of the root of A times U B U^T times it."""
    generator = np.random.default_rng(rng)
    a = spectrum(first).quantiles(dim)
    b = spectrum(second).quantiles(dim)
    eigenvalues = np.empty((count, dim))
    for row in eigenvalues:
        U = np.linalg.qr(generator.standard_normal((dim, dim)))[0]
        rotated = (U * b) @ U.T
        together = (
            rotated + np.diag(a) if operation == "sum" else np.sqrt(np.outer(a, a)) * rotated
        )
        row[:] = np.linalg.eigvalsh(together)
    return eigenvalues


def product_eta(first: SpectralMeasure, second: SpectralMeasure, gamma: float) -> float:
    """Eta transform of the free multiplicative convolution: S-transforms multiply."""

    def excess(x: float) -> float:
        return -x / (1 + x) * float(first.s_transform(x) * second.s_transform(x)) - gamma

    return 1 + brentq(excess, -1 + 1e-9, -1e-9, xtol=1e-14)


def etas() -> dict[int, matrices.Statistics]:
    """Transforms of the product, at all sizes the same."""
    names = MATRICES["product"]
    first = spectrum(names[0])
    second = spectrum(names[1])
    statistics = {
        f"mean of 1/(1 + {gamma:g} x)": (
            matrices.mean_eta(gamma),
            product_eta(first, second, gamma),
            "s_transform",
        )
        for gamma in PRODUCT_POINTS
    }
    return dict.fromkeys(matrices.SIZES, statistics)


def rows(effort: Effort) -> Rows:
    """Statistics of sums and products."""
    law = FreeSum(*map(spectrum, MATRICES["sum"]))
    statistics = {"sum": call(matrices.all_statistics, law, SUM_POINTS), "product": call(etas)}
    for operation, (first, second) in MATRICES.items():
        pair = {"first": first, "second": second, "operation": operation}
        eigenvalues = matrices.eigenvalue_runs(effort, rotated_eigenvalues, **pair)
        yield from matrices.statistics_rows(operation, statistics[operation], eigenvalues)


claim = Claim.of("spectra-free", __doc__, rows, figure=False)
