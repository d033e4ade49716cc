"""Where gradient descent with a constant rate diverges.

The fraction of contexts on which a constant rate converges is that of the exact law of the
largest Wishart eigenvalue: a step at the limit's threshold, smeared by the finite dimension.  The
rate at which the mean largest eigenvalue diverges, its Tracy-Widom shift taken off, extrapolates
to that threshold.  Mean losses of few steps equal the exact ones.

Source: Largest Wishart eigenvalue: Chiani, J. Multivariate Anal. 129 (2014); shift: Johnstone,
Ann. Stat. 29 (2001) 295; documentation.
"""

import math
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import ArrayLike

from iclimit.asymptotics.descent import divergence_rate, schedule_loss
from iclimit.asymptotics.spectra import largest_eigenvalue_cdf
from iclimit.comparison import Comparison, compare, compare_p_value
from iclimit.results import Estimate
from iclimit.simulate.descent import ContextLosses, simulate_schedule
from iclimit.simulate.descent.schedules import largest_eigenvalues
from iclimit.statistics import extrapolate_runs
from iclimit.validation.claim import Claim, Effort, Rows, call, judged, mean, note, run
from iclimit.validation.claims.spectra.matrices import TRACY_WIDOM_MEAN

# Dimension over context length.
RATIO = 0.5
# Size at which mean losses are compared.
SIZE = {"context": 20, "dim": 10}
# Dimensions at which fractions of convergent contexts are compared.
DIMS = (10, 20, 40)
# Dimensions that the threshold is extrapolated from.
LARGE = (20, 40, 80, 160)
# Rates at which they are compared.
RATES = (0.5, 0.6, 0.65, 0.7, 0.8)
# A rate below the threshold of the limit.
FIXED_RATE = 0.5
# Number of steps after which the mean loss diverges at this rate.
LONG = 20
# Numbers of steps whose mean loss is compared.
MEANS = (2, 3)
# Numbers of steps that are simulated.
SIMULATED = (2, 3, 8, 12, 16, LONG)
# Probabilities this close to 0 and 1 are left out: there a relative error means little, and
# fractions are no normal variables.
EDGE = 0.05


def convergent(rates: ArrayLike, dim: int) -> np.ndarray:
    """Probability that a context converges at a constant rate."""
    return largest_eigenvalue_cdf(2 / np.array(rates), context=round(dim / RATIO), dim=dim)


def rows(effort: Effort) -> Rows:
    """Fractions of convergent contexts, the threshold, and mean losses."""
    largest = {
        dim: run(
            largest_eigenvalues,
            context=round(dim / RATIO),
            dim=dim,
            contexts=effort(round(80_000 * (10 / dim) ** 2)),
        )
        for dim in sorted({*DIMS, *LARGE})
    }
    yield judged(call(compare_threshold, {dim: largest[dim] for dim in LARGE}))
    for dim in DIMS:
        yield judged(call(compare_fractions, dim, largest[dim], call(convergent, RATES, dim)))
    # A run of fewer steps is padded with steps at rate 0.
    schedules = tuple((FIXED_RATE,) * steps + (0.0,) * (LONG - steps) for steps in SIMULATED)
    losses = run(simulate_schedule, rates=schedules, **SIZE, contexts=effort(30_000))
    for number, steps in enumerate(SIMULATED):
        if steps in MEANS:
            label = f"mean loss of {steps} steps at rate {FIXED_RATE:g}, d=10"
            theory = call(schedule_loss, [FIXED_RATE] * steps, **SIZE)
            yield mean(label, theory, losses.losses[number], draws="losses")
    yield note(call(describe_rare, losses))


def compare_threshold(largest: Mapping[int, np.ndarray]) -> Iterator[Comparison]:
    """Compare the rate at which the largest eigenvalue diverges in the limit."""
    N = 1 / RATIO
    scale = (math.sqrt(N) + 1) * (1 / math.sqrt(N) + 1) ** (1 / 3) / N
    runs = [(x - TRACY_WIDOM_MEAN * scale * dim ** (-2 / 3))[None] for dim, x in largest.items()]
    fit = extrapolate_runs(list(largest), runs, order=1)
    edge = float(fit.value[0])
    error = float(fit.standard_error[0])
    theory = float(divergence_rate(RATIO))
    estimate = Estimate(2 / edge, 2 * error / edge**2, 2)
    label = "rate of divergence, d to infinity"
    degrees = fit.error_degrees
    yield compare(label, theory, estimate, degrees=degrees, of="divergence_rate")
    yield compare_p_value("chi-square of its fit in 1/d", fit.p_value)


def compare_fractions(
    dim: int, largest: np.ndarray, probabilities: np.ndarray
) -> Iterator[Comparison]:
    """Compare fractions of contexts that converge."""
    for rate, theory in zip(RATES, probabilities, strict=True):
        if EDGE < theory < 1 - EDGE:
            label = f"fraction converging at rate {rate:g}, d={dim}"
            converged = largest < 2 / rate
            of = "largest_eigenvalue_cdf"
            yield compare(label, theory, Estimate.of(converged), of=of, draws=dim)


def describe_rare(losses: ContextLosses) -> str:
    """Mean and median after many steps."""
    last = losses.losses[-1]
    return (
        f"After {LONG} steps at rate {FIXED_RATE:g}, below the threshold "
        f"{float(divergence_rate(RATIO)):.4f} of the limit, the exact mean loss at d = 10 is "
        f"{float(schedule_loss([FIXED_RATE] * LONG, **SIZE)):.3g}, the mean of "
        f"{last.repeats:,} contexts {last.mean:.3g}, the median "
        f"{losses.medians[-1]:.3g}: rare contexts carry the mean."
    )


claim = Claim.of("gd-divergence", __doc__, rows, figure=False)
