"""The single drop of merged attention.

Gradient flow of merged attention from tiny random weights grows and drops as predicted from its
effective initial scale: by the sigmoid for white inputs, and by the reduced equations for any
others.  The effective scales of random weights have the predicted mean and spread of logarithms.

Source: {zhang2025}, eq. (10) and Figure 1; any covariance, law of the effective scale:
documentation.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.dynamics import (
    effective_init_scale,
    effective_init_scale_moments,
    merged_attention_curve,
    merged_attention_loss,
    merged_curve_drop_time,
    merged_drop_time,
    plateau_losses,
)
from iclimit.drawing import COLOURS, Figure, draw_points, finish, panels
from iclimit.problem import Problem
from iclimit.results import Estimate
from iclimit.simulate.dynamics import AttentionModel, simulate_gradient_flow
from iclimit.validation import Comparison, compare
from iclimit.validation.claim import Claim, Effort
from iclimit.validation.claims.dynamics.setting import CONTEXT, TIME, draw_prediction, eigenvalues
from iclimit.validation.rows import Rows, call, drawing, judged, mean, note, run

SPECTRA = {"white": np.full(4, 0.25), "4:3:2:1": eigenvalues(4), "8:...:1": eigenvalues(8)}
HEADS, SCALE, RTOL = 8, 1e-8, 1e-10
# Parts of the drop whose times are compared.
FRACTIONS = (0.1, 0.5, 0.9)
# Relative.  Weights that do not grow make an error of the order of their scale; the rest is
# interpolation between the steps of the integrator (measured: at most 2e-8).
TOLERANCE = 1e-6
# Growth of the weights, still small, from which the effective scale is found.
GROWTH = 1e4

LAW_HEADS = (1, 8)
BLOCK = 5000


@dataclass(frozen=True)
class MergedCell:
    """A flow of merged attention and the weights that it starts from.

    Attributes
    ----------
    value : list of float
        Initial values, one for each head.
    key_query : list
        Initial lookup matrices of the heads.
    grown : float
        Norm of the values after exponential growth, over the growth.
    crossings : list of float
        Times of the ``FRACTIONS`` of the drop.
    times, losses : list of float
        The curve.
    """

    value: list[float]
    key_query: list
    grown: float
    crossings: list[float]
    times: list[float]
    losses: list[float]


def merged_flow(*, spectrum: str, rng: Any) -> MergedCell:
    """Flow of merged attention from random weights."""
    lam = SPECTRA[spectrum]
    dim, rate = len(lam), float(np.linalg.norm(lam**2))
    weights = AttentionModel("merged", dim, HEADS).random_weights(
        np.random.default_rng(rng), SCALE
    )
    early, whole = (
        simulate_gradient_flow(
            Problem(dim=len(lam), context=CONTEXT, input_covariance=lam, scale=1),
            model="merged",
            heads=HEADS,
            initial=weights,
            duration=math.log(growth) / rate,
            rtol=RTOL,
        )
        for growth in (GROWTH, SCALE**-2)
    )
    first, last = plateau_losses(lam, context=CONTEXT)[[0, -1]]
    crossings = whole.crossing_times(first - np.array(FRACTIONS) * (first - last))
    times = np.linspace(0, 1.8 * crossings[1], 41)
    return MergedCell(
        weights[0][:, -1].tolist(),
        weights[1][:, :dim].tolist(),
        float(np.linalg.norm(early.weights[0])) / GROWTH,
        crossings.tolist(),
        times.tolist(),
        whole.at(times).tolist(),
    )


def log_scales(*, heads: int, blocks: int, rng: Any) -> np.ndarray:
    """Means and standard deviations, by blocks, of ln(effective scale / scale): (2, blocks)."""
    lam = SPECTRA["4:3:2:1"]
    direction = lam**2 / np.linalg.norm(lam**2)
    model, found = AttentionModel("cubic", len(lam), heads * BLOCK), []
    for seed in rng.spawn(blocks):
        value, lookup = model.random_weights(np.random.default_rng(seed), 1.0)
        growing = value[:, 0] / 2 + np.einsum("hdd,d->h", lookup, direction) / 2
        logs = np.log(np.linalg.norm(growing.reshape(BLOCK, heads), axis=1))
        found.append((np.mean(logs), np.std(logs, ddof=1)))
    return np.transpose(found)


def rows(effort: Effort) -> Rows:
    """Scales, curves and drop times, and the law of the scales."""
    flows = {spectrum: run(merged_flow, spectrum=spectrum) for spectrum in SPECTRA}
    for spectrum, flow in flows.items():
        yield judged(call(compare_flow, spectrum, flow))
    laws = {heads: run(log_scales, heads=heads, blocks=effort(40)) for heads in LAW_HEADS}
    for heads, samples in laws.items():
        law = call(effective_init_scale_moments, heads)
        for number, name in enumerate(("mean", "std")):
            label = f"{name} of the logarithm of the effective scale, {heads} heads"
            yield mean(label, getattr(law, name), samples[number], draws=heads)
    yield note(
        f"Initial weights of {SCALE}.  The effective scale is compared with the values after "
        f"they have grown {GROWTH:.0f} times."
    )
    yield drawing(draw, flows, laws)


def compare_flow(spectrum: str, flow: MergedCell) -> Iterator[Comparison]:
    """Compare a flow with what is predicted from its initial weights."""
    for name, theories, values in predictions(spectrum, flow):
        for number, pair in enumerate(zip(theories, values, strict=True), start=1):
            label = f"{name} {number}, {spectrum}"
            yield compare(label, *pair, relative=TOLERANCE, of=name)


def predictions(spectrum: str, run: MergedCell) -> list[tuple[str, Any, Any]]:
    """Functions with what they predict and what was found, arrays of the same length."""
    lam = SPECTRA[spectrum]
    scale = float(effective_init_scale(run.value, key_query=run.key_query, eigenvalues=lam))
    more: dict[str, Any] = {"context": CONTEXT, "init_scale": scale}
    drops = [merged_curve_drop_time(part, eigenvalues=lam, **more) for part in FRACTIONS]
    times, losses = run.times[20::4], run.losses[20::4]
    found = [
        ("effective_init_scale", [scale], [run.grown]),
        ("merged_curve_drop_time", drops, run.crossings),
        ("merged_attention_curve", merged_attention_curve(times, eigenvalues=lam, **more), losses),
    ]
    if spectrum == "white":
        white: dict[str, Any] = {"dim": len(lam), "input_variance": lam[0], **more}
        found += [
            ("merged_drop_time", merged_drop_time(np.array(FRACTIONS), **white), run.crossings),
            ("merged_attention_loss", merged_attention_loss(times, **white), losses),
        ]
    return found


def draw(figure: Figure, flows: Mapping[str, MergedCell], laws: Mapping[int, np.ndarray]) -> None:
    """Draw the flows, and the law of the effective scale."""
    left, right = panels(figure, width=8.0, height=3.6)
    for spectrum, colour in zip(SPECTRA, COLOURS, strict=False):
        run, lam = flows[spectrum], SPECTRA[spectrum]
        scale = float(effective_init_scale(run.value, key_query=run.key_query, eigenvalues=lam))
        theory = merged_attention_curve(
            run.times, eigenvalues=lam, context=CONTEXT, init_scale=scale
        )
        draw_prediction(left, run.times, run.losses, theory, colour, (None, spectrum))
    finish(left, TIME, "loss", legend="eigenvalues (dashed: theory)")
    heads = np.geomspace(LAW_HEADS[0], LAW_HEADS[-1])
    law = effective_init_scale_moments(heads)
    for k, name in enumerate(("mean", "std")):
        right.plot(heads, getattr(law, name), color=COLOURS[k], label=name)
        found = [Estimate.of(laws[each][k]) for each in LAW_HEADS]
        means, errors = zip(*((each.mean, each.standard_error) for each in found), strict=True)
        draw_points(right, LAW_HEADS, means, errors, COLOURS[k])
    finish(right, "heads", "logarithm of the effective scale", legend="")


claim = Claim.of("dynamics-merged", __doc__, rows)
