r"""The shape that spends compute best: the sum of power laws, and the exact numbers.

Simulated: stacks whose layers, width, context and training time are all finite, at the best shape
of the sum of four power laws.  Their losses, extrapolated to infinitely many copies of each of 32
eigenvalues, equal the exact number.

Source: Bordelon, Letey and Pehlevan, arXiv:2510.01098 (version 1), Result 8 and Figure 5;
constants, closed form and exact numbers derived in the documentation.
"""

from iclimit.asymptotics.depth import tied_flow
from iclimit.validation.claim import Claim, Effort, Rows, call, limit, run
from iclimit.validation.claims.depth.power_law import PowerLaw, context_losses

# Exponent of the eigenvalues k^-nu.
NU = 2.0
# Exponent of the label variance: mode k holds k^(-nu beta - 1) of it.
BETA = 0.7
# Modes that are simulated, each in copies.
DRAWN = PowerLaw.of(NU, BETA, single=32)
# Copies of each mode, from which losses are extrapolated.
COPIES = (2, 3, 4, 6)
# Computes, with layers, width and context of the best shape of the sum, rounded, and the gain that
# gradient flow reaches in the time that the compute leaves.  It is a number here, so that the
# simulation does not change with the theory.
POINTS = {1e6: (4, 14, 9, 4.344369), 1e8: (9, 20, 14, 6.853974)}

# Contexts of the quick preset times copies.
CONTEXTS = 400


def simulated_loss(compute: float) -> float:
    """Mean over the drawn eigenvalues of the exact loss at the shape that is simulated."""
    depth, width, context, _ = POINTS[compute]
    time = compute / (depth * width**2 * context**2)
    narrow = width / DRAWN.number
    times = time * DRAWN.number / narrow**2
    alpha = context / DRAWN.number
    law = DRAWN.joint
    flow = tied_flow(times=times, depth=depth, spectrum=law, alpha=alpha, width_ratio=narrow)
    return float(flow.loss)


def rows(effort: Effort) -> Rows:
    """Simulations against exact numbers."""
    for compute, (depth, width, context, gain) in POINTS.items():
        runs = {
            copies: run(
                context_losses,
                **DRAWN.stated_levels(copies),
                rates=[gain / depth] * depth,
                width=width * copies,
                context=context * copies,
                repeats=effort(CONTEXTS // copies),
            )
            for copies in COPIES
        }
        yield limit(
            {f"loss at compute {compute:.0e}, all finite": call(simulated_loss, compute)},
            runs,
            of=["tied_flow.loss"],
            draws=f"compute {compute:g}",
            fit_label=f"chi-square, C = {compute:.0e}",
            size="copies",
        )


claim = Claim.of("compute-optimal", __doc__, rows, figure=False)
