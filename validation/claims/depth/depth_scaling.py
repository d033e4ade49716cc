r"""Scaling laws of depth, time, width and context: losses at finite resources, and exponents.

Simulations have the losses of the theory at the same sizes: drawn isotropic contexts at several
depths, extrapolated in 1/d, of which one layer leaves 1/(1 + alpha); gradient flow of full
matrices with fixed covariances, and mode by mode with many modes, for fixed and for rotated
covariances; the best common step of simulated stacks; and random projections and interpolation of
drawn contexts, extrapolated to infinitely many copies of each eigenvalue.  Losses of the flows and
of many drawn modes fall with the predicted exponents of time, width and context.

Source: Bordelon, Letey and Pehlevan, arXiv:2510.01098 (version 1), Results 2 to 8, Figures 1, 3
and 4; corrections, constants and finite sizes derived in the documentation.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import SeedSequence
from scipy.integrate import solve_ivp
from scipy.optimize import minimize, minimize_scalar

from iclimit.asymptotics.depth import depth_loss, scaling_exponents, tied_flow
from iclimit.simulate.depth import simulate_depth_loss, simulate_matrix_flow
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort
from iclimit.validation.claims.depth.power_law import PowerLaw
from iclimit.validation.rows import Later, Rows, call, exact, limit, run

# Context lengths over dimension of isotropic contexts.
ALPHAS = (0.5, 2.0)
# Layers on isotropic contexts.  Deeper stacks would need more dimensions: at the best step the
# residual at the end of the spectrum is 0.94, and its fluctuations are raised to the power 2 L.
ISO_DEPTHS = (1, 2, 4)
# Dimensions of isotropic contexts.
ISO_DIMS = (20, 40, 60, 100)

# Contexts of the quick preset at d = 20; larger dimensions have fewer, in proportion to 1/d.
CONTEXTS = 600

# Exponent of the eigenvalues k^-nu.
NU = 2.0
# Exponent of the label variance of the power law that is followed in time and depth: mode k holds
# k^(-nu beta - 1) of it.
BETA = 0.7

# Layers of the flow with fixed covariances, whose exponent is that of any depth; covariances in a
# random basis have infinitely many.
FIXED_DEPTH = 4

# Times of the flows.
TIMES = 4.0 ** np.arange(1, 12)

# Numbers of the times that are compared.
COMPARED = [1, 4, 8]
# Depths of the isotropic integral, where the best residual is 1 at both ends of the spectrum.
DEEP = (64, 256)

# Eigenvalues of the flow of full matrices, which starts at zero, as the theory does.
TRAINED = PowerLaw.of(NU, BETA, single=12)

# Eigenvalues of the stacks whose best common step is searched for.
STACKED = PowerLaw.of(NU, BETA, single=48)
# Layers of these stacks.
STACK_DEPTHS = (1, 2, 4, 8, 16, 32)

# Eigenvalues of drawn projections and contexts.  The published exponent of width and context, nu
# beta, would be 3; that of width is 2 for beta > 1.
DRAWN = PowerLaw.of(NU, 1.5, single=24)

# Copies of each of these eigenvalues.
COPIES = (2, 4, 6, 10)
# Widths or context lengths per copy.
SIZES = (3, 6, 12)

# Draws of the quick preset times copies.
DRAWS = 800

# Resources whose exponents are measured on drawn modes.
RESOURCES = ("width", "context")
# Exponents that follow from others.
COMBINED = ("depth_of_width", "context_of_width", "time_of_width", "compute", "time_of_weights")
# Relative accuracy of a search for these exponents.
SEARCHED = 1e-5

# Relative deviation of the local exponent at the last times (measured: 5e-7).
LATE = 1e-5
# Relative deviation of the local exponent between two widths or context lengths of many modes
# (measured: 1 to 4 %, scatter 1 %).
LOCAL = 0.08
# The two widths, which are the two context lengths as well.
FAR = (32, 64)
# Number of modes of which they are drawn.
MODES = 1500
# Exponents of the labels of these modes.
BETAS = (0.7, 1.5)
# Relative error of the losses of integrated flows (measured: at most 2e-10).
INTEGRATED = 1e-8

# Relative errors of a minimum and of its place that is found by losses (measured: 4e-15 and 2e-8).
MINIMISED = {"loss": 1e-10, "gamma": 1e-6}


@named_cell("isotropic_losses")
def isotropic_losses(
    *, dim: int, context: int, step: float, repeats: int, rng: SeedSequence
) -> np.ndarray:
    """Losses of contexts at all depths, of the same draws; shape (depths, repeats)."""
    setting: dict[str, Any] = {"eigenvalues": np.ones(dim), "context": context, "rng": rng}
    runs = [
        simulate_depth_loss(rates=[step] * depth, repeats=repeats, **setting)
        for depth in ISO_DEPTHS
    ]
    return np.array([run.loss.samples for run in runs])


@named_cell("flow")
def flow(*, setting: str, rng: SeedSequence) -> np.ndarray:  # noqa: ARG001
    """Loss of gradient flow at the times, summed over modes, by integration in log(1 + t)."""
    law = infinite_law()
    x = law.eigenvalues
    labels = law.labels
    counts = law.counts

    def left(gain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Residual polynomial, and minus its derivative by the gain over that by x."""
        if setting == "rrs":
            p = np.exp(-gain * x)
            return p, p
        base = 1 - gain * x / FIXED_DEPTH
        return base**FIXED_DEPTH, base ** (FIXED_DEPTH - 1)

    def speed(log_time: float, gain: np.ndarray) -> np.ndarray:
        p, slope = left(gain)
        pull = labels * x * p * slope
        return np.exp(log_time) * (pull if setting == "fs" else np.sum(counts * pull)[None])

    start = np.zeros(x.size if setting == "fs" else 1)
    at = np.log1p(TIMES)
    flowed = solve_ivp(speed, (0, at[-1]), start, "DOP853", at, rtol=1e-11, atol=1e-12)
    return np.array([np.sum(counts * labels * left(gain)[0] ** 2) for gain in flowed.y.T])


@named_cell("matrix_flow")
def matrix_flow(*, rng: SeedSequence) -> np.ndarray:  # noqa: ARG001
    """Loss of gradient flow of the matrix that all layers share, with fixed covariances."""
    law = TRAINED.levels()
    return simulate_matrix_flow(depth=FIXED_DEPTH, **law, shared=True, times=TIMES).losses


@named_cell("best_stack")
def best_stack(*, depth: int, rng: SeedSequence) -> tuple[float, float]:
    """Least loss of a stack at infinite context, and its gain: a search over the common step."""

    def loss(step: float) -> float:
        rates = [step] * depth
        return simulate_depth_loss(**STACKED.levels(), rates=rates, rng=rng, repeats=1).loss.mean

    return least(loss, 2.0, depth)


def least(loss: Callable[[float], float], most: float, depth: int) -> tuple[float, float]:
    """Least value of a loss of the common step, and its gain."""
    minimum = minimize_scalar(loss, bounds=(0, most), method="bounded", options={"xatol": 1e-9})
    return float(minimum.fun), float(minimum.x) * depth


@named_cell("drawn_losses")
def drawn_losses(*, copies: int, repeats: int, rng: SeedSequence) -> np.ndarray:
    """Losses that any number of steps leaves, (widths and contexts, repeats), of the same draws.

    A projection on random directions, orthogonal in the metric of the inputs, and the residual of
    interpolation.
    """
    x = np.repeat(DRAWN.eigenvalues, copies)
    tasks = np.repeat(DRAWN.tasks, copies)
    generator = np.random.default_rng(rng)
    losses = np.empty((2, len(SIZES), repeats))
    for draw in range(repeats):
        rows = generator.standard_normal((max(SIZES) * copies, x.size))
        for which, size in enumerate(SIZES):
            z = rows[: size * copies]
            covered = np.sum(z * np.linalg.solve((z * x) @ z.T, z), axis=0)
            losses[0, which, draw] = np.mean(tasks * (x - x**2 * covered))
            tokens = z * np.sqrt(x)
            null = np.eye(x.size) - tokens.T @ np.linalg.solve(tokens @ tokens.T, tokens)
            losses[1, which, draw] = np.mean(tasks * (null**2 @ x))
    return losses.reshape(-1, repeats)


@named_cell("local_exponents")
def local_exponents(*, beta: float, repeats: int, rng: SeedSequence) -> tuple[float, float]:
    """Exponents of width and context between two sizes, from losses of many drawn modes."""
    generator = np.random.default_rng(rng)
    k = np.arange(1.0, MODES + 1)
    x = k**-NU
    labels = k ** (-NU * beta - 1)
    losses = np.zeros((len(RESOURCES), len(FAR)))
    for _ in range(repeats):
        rows = generator.standard_normal((max(FAR), MODES))
        for which, size in enumerate(FAR):
            z = rows[:size]
            tokens = rows[:size] * np.sqrt(x)
            covered = np.sum(z * np.linalg.solve((z * x) @ z.T, z), axis=0)
            losses[0, which] += labels @ (1 - x * covered)
            # The projection on the tokens is A^T B A with B = tokens tokens^T.
            A = np.linalg.solve(tokens @ tokens.T, tokens)
            spread = np.sum(A * (((tokens * x) @ tokens.T) @ A), axis=0)
            losses[1, which] += labels @ (1 - 2 * np.sum(tokens * A, axis=0) + spread / x)
    width, context = np.log(losses[:, 0] / losses[:, 1]) / math.log(FAR[1] / FAR[0])
    return float(width), float(context)


def infinite_law() -> PowerLaw:
    """The power law up to modes that no resource here reaches."""
    return PowerLaw.of(NU, BETA, single=300, last=1e9, nodes=400)


def followed(setting: str) -> np.ndarray:
    """Theory of the flows, summed over modes."""
    law = infinite_law()
    fixed = setting == "fs"
    curve = tied_flow(
        times=TIMES if fixed else TIMES * law.number,
        depth=FIXED_DEPTH if fixed else np.inf,
        spectrum=law.joint,
        setting=setting,
    )
    return curve.loss * law.number


def isotropic_minimum(depth: int) -> tuple[float, float]:
    """Least integral over the law of Marchenko and Pastur at alpha = 1, and its gain."""
    # On x = 2 + 2 cos(angle) the law is 1 - cos(angle); the trapezoidal rule is exact.
    panels = 2 * depth + 2
    angle = np.linspace(0, np.pi, panels + 1)
    x = 2 + 2 * np.cos(angle)
    weights = (1 - np.cos(angle)) / panels
    weights[-1] /= 2

    def loss(step: float) -> float:
        return float(weights @ (1 - step * x) ** (2 * depth))

    return least(loss, 1.0, depth)


def best_rows(label: str, theory: Later, which: int, best: Later) -> Rows:
    """A least loss, and the gain that has it.

    They count for no function: what a report states of `depth_loss` should be about finite
    contexts.
    """
    for number, (name, error) in enumerate(MINIMISED.items()):
        value = getattr(theory, name)[which]
        yield exact(f"best {name}, {label}", value, best[number], relative=error, of="")


def exact_rows() -> Rows:
    """Flows, the best stacks, and the isotropic integral, which have no scatter."""
    trained = call(
        tied_flow, times=TIMES, depth=FIXED_DEPTH, spectrum=TRAINED.joint, setting="fs"
    ).loss
    flows = {setting: run(flow, setting=setting) for setting in ("fs", "rrs")}
    for label, theory, losses in (
        ("fixed covariances", call(followed, "fs"), flows["fs"]),
        ("rotated covariances", call(followed, "rrs"), flows["rrs"]),
        ("full matrices", trained, run(matrix_flow)),
    ):
        for at in COMPARED:
            where = f"loss at time {TIMES[at]:.0f}, {label}"
            of = "tied_flow.loss"
            yield exact(where, theory[at], losses[at], relative=INTEGRATED, of=of)
    for setting, losses in flows.items():
        theory = call(scaling_exponents, nu=NU, beta=BETA, setting=setting).time
        yield exact(
            f"exponent of time, {setting}", theory, call(last_slope, losses), relative=LATE
        )
    best = call(depth_loss, depth=STACK_DEPTHS, spectrum=STACKED.joint)
    for which, depth in enumerate(STACK_DEPTHS):
        stack = run(best_stack, depth=depth)
        yield from best_rows(f"stack of {depth}", best, which, stack)
    deep = call(depth_loss, depth=DEEP, alpha=1.0, setting="iso")
    for which, depth in enumerate(DEEP):
        label = f"isotropic integral, {depth} layers"
        yield from best_rows(label, deep, which, call(isotropic_minimum, depth))


def combined_exponents(beta: float) -> list[float]:
    """The ``COMBINED`` exponents, by searching where a budget is best spent and by integration."""
    exponents = scaling_exponents(nu=NU, beta=beta)
    names = ("time", "depth", *RESOURCES)
    powers = np.array([float(getattr(exponents, name)) for name in names])
    costs = np.array([1, 1, 2, 2])  # of the compute t L N^2 P^2

    def resources(free: np.ndarray, budget: float) -> np.ndarray:
        return np.append(free, (budget - costs[:-1] @ free) / costs[-1])

    def loss(free: np.ndarray, budget: float) -> float:
        return float(np.logaddexp.reduce(-powers * resources(free, budget)))

    budgets = (100.0, 200.0)
    ends = []
    least = []
    for budget in budgets:
        start = np.full(3, budget / costs.sum())
        search = minimize(loss, start, args=(budget,), method="BFGS", tol=1e-9)
        ends.append(resources(search.x, budget))
        least.append(search.fun)
    time, depth, width, context = ends[1] - ends[0]
    compute = (least[0] - least[1]) / (budgets[1] - budgets[0])

    def grow(log_time: float, log_gamma: np.ndarray) -> np.ndarray:
        """Growth of gamma = w^5 whose weights w descend a loss of gamma^-beta."""
        return np.exp(log_time + (8 / 5 - beta - 2) * log_gamma)

    late = (50, 60)
    steps = solve_ivp(grow, (0, 60), [0.0], rtol=1e-9, atol=1e-9, method="LSODA", t_eval=late)
    by_weights = beta * np.diff(steps.y[0])[0] / (late[1] - late[0])
    return [depth / width, context / width, time / width, compute, by_weights]


def rows(effort: Effort) -> Rows:
    """Simulations at finite sizes."""
    yield from exact_rows()
    for alpha in ALPHAS:
        runs = {
            dim: run(
                isotropic_losses,
                dim=dim,
                context=round(alpha * dim),
                step=alpha / (1 + alpha),
                repeats=effort(CONTEXTS * ISO_DIMS[0] // dim),
            )
            for dim in ISO_DIMS
        }
        losses = call(depth_loss, depth=ISO_DEPTHS, alpha=alpha, setting="iso").loss
        yield limit(
            {
                f"isotropic, alpha = {alpha}, {depth} layers": losses[which]
                for which, depth in enumerate(ISO_DEPTHS)
            },
            runs,
            draws=alpha,
            fit_label=f"chi-square, alpha = {alpha}",
        )
    for beta in BETAS:
        exponents = call(scaling_exponents, nu=NU, beta=beta)
        drawn = run(local_exponents, beta=beta, repeats=effort(20))
        for which, resource in enumerate(RESOURCES):
            label = f"exponent of {resource}, beta = {beta:g}"
            theory = getattr(exponents, resource)
            yield exact(label, theory, drawn[which], relative=LOCAL)
        searched = call(combined_exponents, beta)
        for which, name in enumerate(COMBINED):
            label = f"{name.replace('_', ' ')} by search, beta = {beta:g}"
            yield exact(label, getattr(exponents, name), searched[which], relative=SEARCHED, of="")
    modes = len(DRAWN.ranks)
    yield limit(
        {
            f"loss at {resource} {size} of {modes}": call(mean_left_over, resource, size)
            for resource in RESOURCES
            for size in SIZES
        },
        {
            copies: run(drawn_losses, copies=copies, repeats=effort(DRAWS // copies))
            for copies in COPIES
        },
        of=["depth_loss.loss"] * len(RESOURCES) * len(SIZES),
        draws="drawn",
        fit_label="chi-square, width and context",
        name="Width and context",
        size="copies",
    )


def last_slope(losses: np.ndarray) -> float:
    """Exponent of time between the last two times."""
    return math.log(losses[-2] / losses[-1]) / math.log(TIMES[-1] / TIMES[-2])


def mean_left_over(resource: str, size: int) -> float:
    """Theory of infinitely many layers at a width or context length, over the drawn modes."""
    ratio: Any = {{"width": "width_ratio", "context": "alpha"}[resource]: size / DRAWN.number}
    return float(depth_loss(depth=np.inf, spectrum=DRAWN.joint, **ratio).loss)


claim = Claim.of("depth-scaling", __doc__, rows, figure=False)
