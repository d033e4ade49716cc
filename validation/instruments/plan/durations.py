"""How long runs are trained: steps of descent, and the times at which errors are least."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from iclimit.asymptotics.pretraining import optimal_stopping
from iclimit.experiment import Experiment, Point

# Part of the longest stable step that follows the flow: errors are then those of the flow to a
# few per cent of their change, in the directions that are learned at that time.
SMALL_STEP = 0.1


def duration_notes(setting: Point | Experiment) -> Iterator[str]:
    """Sentences on the training of a setting; none for minimisers.

    Parameters
    ----------
    setting : Point or Experiment
        With ratios of its own or of its integers.
    """
    ratios = dict(setting.limit)
    time = ratios.pop("time", None)
    if time is None or not 0 < time < math.inf:
        return
    step = small_step(ratios)
    yield (
        f"Descent to the time {time:g} takes {math.ceil(time / step)} steps of all prompts at the "
        f"rate {step / 2:.2g} d, {SMALL_STEP:g} of the largest stable one."
    )
    best = [float(optimal_stopping(**ratios, objective=name).time) for name in ("icl", "idg")]
    steps = [math.ceil(own / step) if own < math.inf else own for own in best]
    yield (
        f"Errors are least at the times {best[0]:.3g} (ICL) and {best[1]:.3g} (IDG): after "
        f"{steps[0]} and {steps[1]} of these steps."
    )


def descent_operations(run: Experiment) -> float:
    """Floating-point operations of the steps of a run, 4 n d (d + 1) each; 0 without a time."""
    ratios = dict(run.limit)
    time = ratios.pop("time", math.inf)
    if time == math.inf:
        return 0.0
    steps = math.ceil(time / small_step(ratios))
    return 4.0 * steps * run.prompts * run.dim * (run.dim + 1)


def small_step(limit: Mapping[str, float]) -> float:
    r"""Time of a step that follows the flow, from the numbers of a run in the limit.

    The largest eigenvalue of the flow is bounded by that of the features,
    :math:`(1 + \kappa^{-1/2})^2 + (1 + \rho)/\alpha`, times :math:`(1 + \tau^{-1/2})^2` for
    finitely many prompts, plus the weight decay.
    """
    tasks = (1 + limit["kappa"] ** -0.5) ** 2
    contexts = (1 + limit["rho"]) / limit["alpha"]
    largest = (tasks + contexts) * (1 + limit["tau"] ** -0.5) ** 2 + limit.get("ridge", 0.0)
    return SMALL_STEP * 2 / largest
