"""Untied layers: the balanced saddle, the growth of asymmetry, and what depth is worth.

Gradient flow of the gains of untied layers is integrated.  From equal gains it is the flow of
tied layers and ends at their optimum.  From gains that differ by 1e-8 it first does the same; then
the asymmetry grows at the rate of the balanced saddle, and the flow ends at the best untied
layers.  The flow of all entries of the matrices has the losses of the flows in closed or reduced
form, with fixed covariances and averaged over rotations that keep multiples of the identity.  For
drawn eigenvalues, label variances and depths, flows of gains and of matrices are that of theory.

Source: Balanced flow of Bordelon, Letey and Pehlevan, arXiv:2510.01098, Figure 8; saddle and
optimum derived in the documentation.
"""

from typing import Any

import numpy as np
from numpy.random import SeedSequence
from scipy.special import roots_sh_jacobi

from iclimit.asymptotics.depth import (
    balanced_saddle,
    tied_flow,
    untied_depth,
    untied_power_law_loss,
    untied_power_law_steps,
)
from iclimit.simulate.depth import (
    MatrixFlow,
    UntiedFlow,
    simulate_matrix_flow,
    simulate_untied_flow,
)
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Later, Rows, call, exact, run
from iclimit.validation.claims.random_settings import Pair, pair_rows

# Exponent of the power law of the eigenvalues.
BETA = 1.5
# Nodes and weights of a Gauss rule for this law.
_NODES, _SHARES = roots_sh_jacobi(8, BETA, BETA)
# Numbers of the eigenvalues of another law.
_MODES = np.arange(1, 101)
# Eigenvalues and shares of the label variance.  Losses are integrals of polynomials, for which
# eight Gauss nodes have exactly the continuous law :math:`\beta x^{\beta - 1}`.
LAWS = {
    "power law": (_NODES, _SHARES / _SHARES.sum()),
    "100 eigenvalues": (1 / _MODES, _MODES**-2.0 / np.sum(_MODES**-2.0)),
}

# Laws and depths.
CASES = (("power law", 2), ("power law", 3), ("100 eigenvalues", 2))

# Differences of neighbouring gains at the start of the asymmetric flow.
ASYMMETRY = 1e-8

# Times between which the growth is measured, in units of the escape time: the common gain has
# settled, and the asymmetry, 1e-5 to 1e-4, is small.
WINDOW = 0.35, 0.5

# End of the flow in the same units.
END = 8.0

# Times of the curves, on an even grid that contains the window.
POINTS = 641

# Of these, those at which the loss of tied layers is compared.
EARLY = [1, 4, 16]

# Relative error of gains and losses, of the integrator and of what the flow still has to go
# (measured: at most 2e-11).
ACCURACY = 1e-10

# Settings of the flows of whole matrices, and whether layers share one.
MATRICES = (("rrs", True), ("rrs", False), ("fs", True), ("fs", False))
# Layers of these flows.
MATRIX_DEPTH = 3
# Times at which their losses are compared.
MATRIX_TIMES = (2.0, 10.0, 40.0)

# Relative error of the growth rate: the integrator errs by 1e-12 at asymmetries of 1e-5, and the
# growth deviates by the square of the asymmetry, 1e-8 at the end (measured: at most 2e-7).
RATE_ACCURACY = 1e-6


def end_time(law: str, depth: int) -> float:
    """End of the flow."""
    values, shares = LAWS[law]
    return END * float(balanced_saddle(values, weights=shares, depth=depth).escape_time(ASYMMETRY))


@named_cell("flow")
def flow(*, law: str, depth: int, asymmetry: float, rng: SeedSequence) -> UntiedFlow:  # noqa: ARG001
    """Flow from gains that are zero but for given differences."""
    values, shares = LAWS[law]
    return simulate_untied_flow(
        eigenvalues=values,
        weights=shares,
        initial=asymmetry * np.arange(depth),
        times=np.linspace(0, end_time(law, depth), POINTS),
    )


@named_cell("matrix_flow")
def matrix_flow(*, setting: str, shared: bool, rng: SeedSequence) -> MatrixFlow:  # noqa: ARG001
    """Flow of all entries of the matrices from zero."""
    values, shares = LAWS["power law"]
    shifts = np.stack([np.roll(np.eye(values.size), k, axis=0) for k in range(values.size)])
    return simulate_matrix_flow(
        depth=MATRIX_DEPTH,
        eigenvalues=values,
        task_spectrum=shares / values,
        rotations=shifts if setting == "rrs" else None,
        shared=shared,
        times=MATRIX_TIMES,
    )


@named_cell("drawn_flows")
def drawn_flows(*, rng: SeedSequence) -> list[Pair]:
    """Losses of tied layers of a drawn depth and spectrum, and of flows from equal gains."""
    generator = np.random.default_rng(rng)
    values = generator.uniform(0.2, 1.5, 6)
    shares = generator.dirichlet(np.ones(6))
    depth = int(generator.integers(2, 6))
    times = np.sort(generator.uniform(0.5, 30, 3))
    law = {"eigenvalues": values, "task_spectrum": shares / values * values.size}
    curve = tied_flow(
        times=times, depth=depth, spectrum=values, task_spectrum=law["task_spectrum"]
    ).loss
    gains = simulate_untied_flow(
        eigenvalues=values, weights=shares, initial=np.zeros(depth), times=times / 2
    )
    fixed = tied_flow(times=times, depth=depth, setting="fs", spectrum=values).loss
    matrices = simulate_matrix_flow(depth=depth, eigenvalues=values, shared=True, times=times)
    return [
        (f"loss of drawn {name} at time {number + 1}", theory, value, ACCURACY)
        for name, losses in (
            ("gains", (curve, gains.losses)),
            ("matrices", (fixed, matrices.losses)),
        )
        for number, (theory, value) in enumerate(zip(*losses, strict=True))
    ]


def growth_rate(flow: UntiedFlow) -> float:
    """Rate at which asymmetry grows in the window."""
    first = round(WINDOW[0] / END * (POINTS - 1))
    last = round(WINDOW[1] / END * (POINTS - 1))
    spread = np.ptp(flow.gains, axis=1)
    return np.log(spread[last] / spread[first]) / (flow.times[last] - flow.times[first])


def step(flow: UntiedFlow, which: str) -> float:
    """Largest or smallest step at the end of a flow."""
    end = flow.gains[-1]
    return float((end.max() if which == "largest" else end.min()) / end.size)


def flow_rows(law: str, depth: int, even: Later, uneven: Later) -> Rows:
    """Flows from equal gains and from slightly different ones."""
    values, shares = LAWS[law]
    where = f"{law}, {depth} layers"
    saddle = call(balanced_saddle, values, weights=shares, depth=depth)
    best = call(untied_depth, values, weights=shares, depth=depth)
    rate = call(growth_rate, uneven)
    yield exact(f"growth rate, {where}", saddle.growth_rate, rate, relative=RATE_ACCURACY)
    gain = call(np.mean, even.gains[-1])
    largest = call(step, uneven, "largest")
    compared: list[tuple[str, Later, Later]] = [
        ("tied loss", saddle.loss, even.losses[-1]),
        ("tied gain", saddle.gamma, gain),
        ("untied loss", best.losses[-1], uneven.losses[-1]),
        ("largest step", best.steps[-1], largest),
    ]
    curve = call(
        tied_flow,
        times=2 * even.times[EARLY],
        depth=depth,
        spectrum=values,
        task_spectrum=shares / values * values.size,
    )
    end = end_time(law, depth)
    for number, place in enumerate(EARLY):
        time = end * place / (POINTS - 1)
        label = f"tied loss at time {time:.0f}"
        compared.append((label, curve.loss[number], even.losses[place]))
    if law == "power law":
        loss = call(untied_power_law_loss, BETA, depth=depth)
        smallest = call(untied_power_law_steps, BETA, depth=depth)[0]
        compared += [
            ("untied loss, closed", loss, uneven.losses[-1]),
            ("smallest step", smallest, call(step, uneven, "smallest")),
        ]
    for label, theory, value in compared:
        yield exact(f"{label}, {where}", theory, value, relative=ACCURACY)


def rows(effort: Effort) -> Rows:  # noqa: ARG001
    """Flows of gains, and the flow of all entries of the matrices."""
    for law, depth in CASES:
        even = run(flow, law=law, depth=depth, asymmetry=0.0)
        uneven = run(flow, law=law, depth=depth, asymmetry=ASYMMETRY)
        yield from flow_rows(law, depth, even, uneven)
    values, shares = LAWS["power law"]
    for setting, shared in MATRICES:
        losses = run(matrix_flow, setting=setting, shared=shared).losses
        given: dict[str, Any] = {"spectrum": values, "task_spectrum": shares / values}
        curve = call(tied_flow, times=MATRIX_TIMES, depth=MATRIX_DEPTH, setting=setting, **given)
        layers = "one shared matrix" if shared else f"{MATRIX_DEPTH} matrices"
        for number, time in enumerate(MATRIX_TIMES):
            label = f"loss of {layers} at time {time:g}, {setting}"
            yield exact(label, curve.loss[number], losses[number], relative=ACCURACY)
    yield from pair_rows(drawn_flows)


claim = Claim.of("untied-flow", __doc__, rows, figure=False)
