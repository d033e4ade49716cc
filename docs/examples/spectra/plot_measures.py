"""
Spectral measures, sums and moments
===================================

A measure of eigenvalues has a density, moments and transforms, and new ones are made of it: sums
of matrices in random position, polynomials, finite sizes.
"""

import matplotlib.pyplot as plt
import numpy as np

from iclimit.spectra import (
    Atoms,
    FreeSum,
    MarchenkoPastur,
    PowerLaw,
    Pushforward,
    TwoPoint,
    Uniform,
    Wishart,
    wishart_density,
    wishart_moment,
)

# %%
# Two matrices of random signs in random position add up to the arcsine law; random signs and a
# flat spectrum to two bands.

figure, ax = plt.subplots()
for law, colour, label in (
    (FreeSum(Atoms([-1.0, 1.0]), Atoms([-1.0, 1.0])), "#0072b2", "signs + signs"),
    (FreeSum(Atoms([-1.0, 1.0]), Uniform(-0.6, 0.6)), "#d55e00", "signs + uniform"),
):
    lower, upper = law.edges
    x = np.linspace(lower, upper, 402)[1:-1]
    ax.plot(x, law.density(x), color=colour, label=label)
ax.set(xlabel="eigenvalue", ylabel="density", ylim=(0, 1))
ax.legend()

# %%
# The mean density at finite size is close to the limit inside, and goes on beyond its edges.

law = MarchenkoPastur(0.5)
x = np.linspace(0.01, 4, 500)
figure, ax = plt.subplots()
for dim, colour in ((4, "#009e73"), (10, "#d55e00")):
    ax.plot(x, wishart_density(x, context=2 * dim, dim=dim), color=colour, label=f"d = {dim}")
ax.plot(x, law.density(x), color="#0072b2", label="limit")
ax.set(xlabel="eigenvalue", ylabel="mean density", ylim=(0, 1.1))
ax.legend()

# %%
# Moments are exact rational numbers.  A step of gradient descent is a polynomial of the spectrum.

print("E tr W^2 at N = 20, d = 10:", wishart_moment([2], context=20, dim=10))
print("mean square eigenvalue:", Wishart(context=20, dim=10).moment(2), "limit:", law.moment(2))
step = Pushforward(law, [1.0, -0.5])
print("after a step of rate 1/2:", step.support, "mean square", round(float(step.moment(2)), 6))
print("power law, exponent 0.9:", round(float(PowerLaw(0.9).stieltjes(-0.1)), 6))

# %%
# Two functions of one sample covariance with a matrix between them, in the limit:

eigenvalues = [0.5, 1.5]
value, error = TwoPoint(Atoms(eigenvalues), alpha=2.0).mean(
    lambda z: (1 - 0.4 * z) ** 4, inner=lambda x: x
)
print(f"four steps, read in the population: {value:.6f}, numerical error {error:.0e}")
