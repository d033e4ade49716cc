r"""
Bands of a sample covariance
============================

Eigenvalues of a covariance matrix, seen through a finite number of samples, spread into bands.
Where they lie, and the density between their edges, follows from one equation.
"""

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np

from iclimit.asymptotics.spectra import Atoms, Exponential, Mixture, SampleCovariance

# %%
# Three levels: half of the eigenvalues are 1, three tenths 4, the rest 12.  With 12 samples per
# dimension they are seen apart.  With 2 the gaps are about to close; the lower one, from 1.6591 to
# 1.6601, is found all the same.  With 1/2 there is one band, and half of the eigenvalues are zero.
# Histograms: one matrix of 400 dimensions each.  The axis is logarithmic, the density that of
# the logarithm: areas are masses.

d = 400
population = Atoms([1.0, 4.0, 12.0], [0.5, 0.3, 0.2])
eigenvalues = population.quantiles(d)
rng = np.random.default_rng(0)


def draw_bands(ax, law, color, label):
    for lower, upper in law.support:
        x = np.geomspace(max(lower, 1e-3), upper, 200) if upper > 0 else np.empty(0)
        ax.plot(x, x * law.density(x), color=color, label=label if upper == law.edges[1] else None)


figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.4))
for ax, samples in zip(axes, (12 * d, 2 * d, d // 2), strict=True):
    law = SampleCovariance(population, d / samples)
    z = rng.standard_normal((samples, d)) * np.sqrt(eigenvalues)
    found = np.linalg.eigvalsh(z.T @ z / samples)
    found = found[found > 1e-9]
    counts, edges = np.histogram(np.log(found), bins=40)
    ax.stairs(
        counts / d / np.diff(edges), np.exp(edges), fill=True, color="0.85", label="one matrix"
    )
    draw_bands(ax, law, "#0072b2", "density")
    bands = [band for band in law.support if band[1] > 0]
    ends = np.ravel(bands)
    ax.plot(ends, np.zeros_like(ends), "|", ms=14, color="#d55e00", label="edges")
    ax.set(xscale="log", title=f"c = {law.ratio:.3g}", xlabel="eigenvalue", ylim=(0, None))
    print(f"{samples / d:g} samples per dimension")
    for lower, upper in bands:
        mass = np.diff(law.cdf([lower, upper]))[0]
        inside = np.sum((found >= lower) & (found <= upper)) / d
        print(f"  {lower:7.4f} to {upper:7.4f}: mass {mass:.4f}, in the matrix {inside:.4f}")
axes[0].legend()

# %%
# The population may be any measure.  Here most eigenvalues decay exponentially, and a tenth are 8;
# the gap closes as the number of samples falls.

population = Mixture([Exponential(2.0), Atoms([8.0])], [0.9, 0.1])
figure, ax = plt.subplots(figsize=(6.8, 3.6))
for ratio, color in ((0.02, "#0072b2"), (0.3, "#009e73"), (2.0, "#d55e00")):
    draw_bands(ax, SampleCovariance(population, ratio), color, f"c = {ratio:g}")
ax.set(xscale="log", xlabel="eigenvalue", ylabel="density of the logarithm", ylim=(0, None))
ax.legend()
