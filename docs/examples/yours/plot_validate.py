"""
A claim, from run to verdict
============================

``iclimit validate`` runs claims.  Here is one in Python: its comparisons, each with a deviation in
standard errors, and the smallest change of the theory that it would have noticed.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit
from iclimit.validation import CLAIMS, validate

print(CLAIMS["spectra-samples"].statement)
run = validate(["spectra-samples"], jobs=1)
verdict = run.results[0].verdict
print("holds:", run.holds)

# %%
# The deviations of all comparisons.  So many standard normal numbers would look like the curve.

z = np.array([each.z for each in verdict.comparisons if each.standard_error])
figure, ax = plt.subplots()
ax.hist(z, bins=np.linspace(-4, 4, 17), density=True, color="0.8", label=f"{len(z)} comparisons")
x = np.linspace(-4, 4, 200)
ax.plot(x, np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi), color="#0072b2", label="standard normal")
ax.set(xlabel="z", ylabel="density")
ax.legend()

# %%
# What it would have noticed, by function of the theory:

for name, resolution in verdict.resolutions.items():
    print(f"{name}: {100 * resolution:.2g} %")

# %%
# Whom to cite for a function that was validated, as BibTeX:

print(iclimit.cite("wishart_resolvent"))
