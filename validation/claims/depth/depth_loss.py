"""Depth at finite context and width: tied layers, label noise, and the best untied layers.

Residual linear attention is applied to drawn contexts, each of which has an exact loss.  Means
over contexts, extrapolated to infinite dimension, equal the two-point theory: at finite context,
with a narrow residual stream, with both and label noise, and for the best layers that are not
tied.

Source: Model of Bordelon, Letey and Pehlevan, arXiv:2510.01098; theory at finite context and width
derived in the documentation.
"""

import numpy as np

from iclimit.asymptotics.depth import depth_loss, depth_schedule_loss, untied_depth
from iclimit.validation.claim import Claim, Effort, Later, Rows, call, limit, run
from iclimit.validation.claims.depth.power_law import context_losses

# Eigenvalues of inputs and tasks, each d/5 times.  Neither decides on the other, so that the loss
# is no integral over one spectrum.
EIGENVALUES = np.array([0.2, 0.4, 0.8, 1.2, 1.6])
TASKS = np.array([2.0, 1.0, 0.5, 1.5, 1.0])

SPECTRA = {"spectrum": EIGENVALUES, "task_spectrum": TASKS}
DIMS = (10, 20, 40, 80)
# Contexts at d = 10; larger dimensions have fewer, in proportion to 1/d.
CONTEXTS = 1700

# No rare contexts carry these means.  Tied layers would diverge on contexts whose largest
# eigenvalue is out by 4.5 or more of its standard deviations; the residual of the two untied
# layers is 0.43 at the end of the spectrum and grows slowly, as a square.
TIED = {
    "context $P = 4d$": {"depth": 4, "gamma": 1.6, "alpha": 4.0},
    "width $N = d/2$": {"depth": 6, "gamma": 4.0, "width_ratio": 0.5},
    "$P = 1.5 d$, $N = 0.6 d$, noise": {
        "depth": 3,
        "gamma": 1.0,
        "alpha": 1.5,
        "width_ratio": 0.6,
        "noise_variance": 0.3,
    },
}
UNTIED, UNTIED_DEPTH, UNTIED_ALPHA = "best untied layers, $P = 8d$", 2, 8.0


def contexts(
    effort: Effort,
    rates: np.ndarray,
    alpha: float = np.inf,
    width_ratio: float = np.inf,
    noise_variance: float = 0.0,
) -> dict[int, Later]:
    """Losses by dimension; the integers have exactly the ratios of the limit."""
    return {
        dim: run(
            context_losses,
            eigenvalues=np.repeat(EIGENVALUES, dim // EIGENVALUES.size),
            task_spectrum=np.repeat(TASKS, dim // EIGENVALUES.size),
            rates=rates,
            context=alpha * dim if np.isinf(alpha) else round(alpha * dim),
            width=width_ratio * dim if np.isinf(width_ratio) else round(width_ratio * dim),
            noise_variance=noise_variance,
            repeats=effort(CONTEXTS * DIMS[0] // dim),
        )
        for dim in DIMS
    }


def rows(effort: Effort) -> Rows:
    """Extrapolated means of losses, those of given steps by other contours."""
    for name, point in TIED.items():
        sizes = dict(point)
        depth, gamma = int(sizes.pop("depth")), sizes.pop("gamma")
        rates = np.full(depth, gamma / depth)
        runs, label = contexts(effort, rates, **sizes), f"loss, {name}, {depth} layers"
        limits = {label: call(depth_loss, **SPECTRA, **point).loss}
        yield limit(limits, runs, about=name)
        if "noise_variance" in point:
            given = call(depth_schedule_loss, rates, **SPECTRA, **sizes).loss
            yield limit({f"{label}, steps given": given}, runs, draws=name)
    labels = EIGENVALUES * TASKS
    best = untied_depth(EIGENVALUES, weights=labels, depth=UNTIED_DEPTH, alpha=UNTIED_ALPHA)
    runs = contexts(effort, best.steps, alpha=UNTIED_ALPHA)
    limits = {f"loss, {UNTIED}, {UNTIED_DEPTH} layers": best.loss * labels.mean()}
    yield limit(limits, runs, of=["untied_depth.losses"], about=UNTIED)


claim = Claim.of("depth-loss", __doc__, rows, figure=False)
