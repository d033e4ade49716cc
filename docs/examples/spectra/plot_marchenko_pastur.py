"""
Marchenko-Pastur law
====================

The spectrum of a sample covariance matrix, its density and its quadrature rule.
"""

import matplotlib.pyplot as plt
import numpy as np

from iclimit import MarchenkoPastur
from iclimit.spectra import wishart_resolvent

# %%
# Eigenvalues of one matrix of 1000 dimensions and 2000 or 500 samples.  In the second case half
# of them are zero: the atom of the law.

d = 1000
rng = np.random.default_rng(0)
for samples in (2000, 500):
    law = MarchenkoPastur(d / samples)
    z = rng.standard_normal((samples, d))
    eigenvalues = np.linalg.eigvalsh(z.T @ z / samples)
    positive = eigenvalues[eigenvalues > 1e-9]
    lower, upper = law.edges
    x = np.linspace(lower, upper, 600)
    counts, edges = np.histogram(positive, bins=40)
    figure, ax = plt.subplots()
    ax.stairs(counts / d / np.diff(edges), edges, fill=True, color="0.8", label="one matrix")
    ax.plot(x, law.density(x), color="#0072b2", label="density")
    ax.set(title=f"c = {law.ratio:g}, atom {law.atom:g}", xlabel="eigenvalue", ylim=(0, None))
    print(f"c = {law.ratio:g}: {np.mean(eigenvalues < 1e-9):.3f} of the eigenvalues are zero")
    ax.legend()

# %%
# Integrals against the law need no adaptive quadrature: the rule is exact for polynomials and
# converges geometrically for smooth functions.  Here it is held against a closed form, the
# resolvent :math:`M_\kappa(q)` with :math:`\kappa = 1/c`.

law, q = MarchenkoPastur(0.5), 0.3
for order in (5, 10, 20, 40):
    nodes, weights = law.quadrature(order)
    error = weights @ (1 / (nodes + q)) / wishart_resolvent(q, kappa=2.0) - 1
    print(f"order {order:2d}: relative error {abs(error):.0e}")
