"""
How much one run scatters
=========================

Error bars before the run.  Two runs with the same sizes differ in their prompts and tasks, so
their errors differ: by about 1.5/d of the error, and more beside the interpolation threshold.
The theory has the standard deviation of both errors and their correlation.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit

d, runs = 20, 12
sizes = {"dim": d, "context": 2 * d, "tasks": 30}
setting = {"rho": 0.1, "ridge": 0.02}
taus = np.array([0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0])
prompts = [round(tau * d**2) for tau in taus]

# %%
# A band of one predicted standard deviation around the predicted error of a run, and twelve runs
# at each number of prompts: two thirds of them should be within it.

means, spreads, simulated = (
    [
        function(**sizes, **setting, prompts=n, rng=seed, **options)
        for seed, n in enumerate(prompts)
    ]
    for function, options in (
        (iclimit.finite_size_errors, {}),
        (iclimit.pretraining.finite_size_spread, {}),
        (iclimit.simulate_errors, {"repeats": runs}),
    )
)
mean = np.array([each.icl.mean for each in means])
spread = np.array([each.icl for each in spreads])
points = np.array([each.icl.samples for each in simulated])

figure, ax = plt.subplots()
ax.fill_between(taus, mean - spread, mean + spread, alpha=0.3, label="one standard deviation")
ax.plot(taus, mean, label="prediction at d = 20")
ax.plot(np.repeat(taus, runs), points.ravel(), ".", color="black", ms=4, label="single runs")
ax.set(xscale="log", xlabel=r"$\tau = n/d^2$", ylabel=r"$e_{\mathrm{ICL}}$")
ax.set_xticks([0.5, 1, 2, 4], ["0.5", "1", "2", "4"])
ax.minorticks_off()
ax.legend()

# %%
# In the limit, d times the standard deviation over the error: what one run resolves.  Without a
# ridge it diverges at the threshold, faster than the error itself.

tau = np.geomspace(0.2, 10, 400)
figure, relative = plt.subplots()
for ridge in (0.0, 0.02, 0.2):
    point = {"tau": tau, "alpha": 2.0, "kappa": 1.5, "rho": 0.1, "ridge": ridge}
    ratio = iclimit.pretraining.error_spread(**point).icl / iclimit.icl_error(**point)
    relative.plot(tau, ratio, label=rf"$\lambda = {ridge:g}$")
relative.set(xscale="log", yscale="log", xlabel=r"$\tau$", ylim=(0.3, 30))
relative.set_ylabel(r"$d \times$ standard deviation / error")
relative.legend()

# %%
# ICL and IDG error of one run go up and down together, so their difference is sharper than
# either: the standard deviations, and that of independent errors.

run = spreads[5]
print(f"ICL {run.icl:.3f}, IDG {run.idg:.3f}, correlation {run.correlation:.2f}")
print(f"difference {run.gap:.3f}; of independent errors {np.hypot(run.icl, run.idg):.3f}")

# %%
# Behind this is a result on ridge regression with any covariances: mean and covariance of the
# errors on several test laws, over training sets.

rng = np.random.default_rng(0)
eigenvalues = np.linspace(0.2, 2, 60)
errors = iclimit.pretraining.ridge_fluctuations(
    np.diag(eigenvalues),
    label_weights=rng.standard_normal(60) / np.sqrt(60),
    observations=120,
    noise_variance=0.1,
    ridge=0.05,
    test_covariances=np.stack([np.diag(eigenvalues), np.eye(60)]),
)
deviations = np.sqrt(np.diag(errors.covariance))
for name, value, deviation in zip(
    ("training law", "isotropic"), errors.mean, deviations, strict=True
):
    print(f"{name}: {value:.3f} +- {deviation:.3f} from one training set")
