r"""Scaling laws of depth, time, width and context: losses at finite resources, and exponents.

Simulations have the losses of the theory at the same sizes: drawn isotropic contexts at several
depths, extrapolated in 1/d, of which one layer leaves 1/(1 + alpha); gradient flow of full
matrices with fixed covariances, and mode by mode with many modes, for fixed and for rotated
covariances; the best common step of simulated stacks; and random projections and interpolation of
drawn contexts, extrapolated to infinitely many copies of each eigenvalue.  The figure has the
exponents beside the slopes of the losses.

Source: Bordelon, Letey and Pehlevan, arXiv:2510.01098 (version 1), Results 2 to 8, Figures 1, 3
and 4; corrections, constants and finite sizes derived in the documentation.
"""

from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp
from scipy.optimize import minimize_scalar

from iclimit.asymptotics.depth import depth_loss, scaling_exponents, tied_flow
from iclimit.drawing import COLOURS, Axes, Figure, draw_points, finish, panels
from iclimit.simulate.depth import simulate_depth_loss, simulate_matrix_flow
from iclimit.statistics import Extrapolation
from iclimit.validation.claim import Claim, Effort
from iclimit.validation.claims.depth.power_law import PowerLaw
from iclimit.validation.rows import Later, Limit, Rows, call, drawing, exact, limit, run

# Isotropic contexts.  Deeper stacks would need more dimensions: at the best step the residual at
# the end of the spectrum is 0.94, and its fluctuations are raised to the power 2 L.
ALPHAS = (0.5, 2.0)
ISO_DEPTHS = (1, 2, 4)
ISO_DIMS = (20, 40, 60, 100)

# Contexts of the quick preset at d = 20; larger dimensions have fewer, in proportion to 1/d.
CONTEXTS = 600

# Exponents of the power law that is followed in time and depth.
NU, BETA = 2.0, 0.7

# Layers of the flow with fixed covariances, whose exponent is that of any depth; covariances in a
# random basis have infinitely many.
FIXED_DEPTH = 4

# Times of the flows; those of the second, fifth and ninth power are compared.
TIMES = 4.0 ** np.arange(1, 12)

COMPARED = [1, 4, 8]
# Depths of the isotropic integral, where the best residual is 1 at both ends of the spectrum.
DEEP = (64, 256)

# Eigenvalues of the flow of full matrices.
TRAINED = PowerLaw.of(NU, BETA, single=12)

STACKED = PowerLaw.of(NU, BETA, single=48)
STACK_DEPTHS = (1, 2, 4, 8, 16, 32)

# Eigenvalues of drawn projections and contexts.  The published exponent of width and context, nu
# beta, would be 3; that of width is 2 for beta > 1.
DRAWN = PowerLaw.of(NU, 1.5, single=24)

# Copies of each eigenvalue, and widths or context lengths per copy.
COPIES = (2, 4, 6, 10)
SIZES = (3, 6, 12)

# Draws of the quick preset times copies.
DRAWS = 800

RESOURCES = ("width", "context")
# Relative error of the losses of integrated flows (measured: at most 2e-10).
INTEGRATED = 1e-8

# Relative errors of a minimum and of its place that is found by losses (measured: 4e-15 and 2e-8).
MINIMISED = {"loss": 1e-10, "gamma": 1e-6}

# Exponent of time for fixed covariances in version 1, drawn for comparison.
PRINTED = BETA / (NU + NU * BETA + 1)


def isotropic_losses(*, dim: int, context: int, step: float, repeats: int, rng: Any) -> np.ndarray:
    """Losses of contexts at all depths, of the same draws; shape (depths, repeats)."""
    setting: dict[str, Any] = {"eigenvalues": np.ones(dim), "context": context, "rng": rng}
    runs = [
        simulate_depth_loss(rates=[step] * depth, repeats=repeats, **setting)
        for depth in ISO_DEPTHS
    ]
    return np.array([run.loss.samples for run in runs])


def flow(*, setting: str, rng: Any) -> np.ndarray:  # noqa: ARG001
    """Loss of gradient flow at the times, summed over modes, by integration in log(1 + t)."""
    law = infinite_law()
    x, labels, counts = law.eigenvalues, law.labels, law.counts

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
    found = solve_ivp(speed, (0, at[-1]), start, "DOP853", at, rtol=1e-11, atol=1e-12)
    return np.array([np.sum(counts * labels * left(gain)[0] ** 2) for gain in found.y.T])


def matrix_flow(*, rng: Any) -> np.ndarray:  # noqa: ARG001
    """Loss of gradient flow of the matrix that all layers share, with fixed covariances."""
    return simulate_matrix_flow(
        depth=FIXED_DEPTH,
        eigenvalues=TRAINED.eigenvalues,
        task_spectrum=TRAINED.tasks,
        shared=True,
        times=TIMES,
    ).losses


def best_stack(*, depth: int, rng: Any) -> tuple[float, float]:
    """Least loss of a stack at infinite context, and its gain: a search over the common step."""

    def loss(step: float) -> float:
        return simulate_depth_loss(
            eigenvalues=STACKED.eigenvalues,
            task_spectrum=STACKED.tasks,
            rates=[step] * depth,
            rng=rng,
            repeats=1,
        ).loss.mean

    found = minimize_scalar(loss, bounds=(0, 2), method="bounded", options={"xatol": 1e-9})
    return float(found.fun), float(found.x) * depth


def drawn_losses(*, copies: int, repeats: int, rng: Any) -> np.ndarray:
    """Losses that any number of steps leaves, (widths and contexts, repeats), of the same draws.

    A projection on random directions, orthogonal in the metric of the inputs, and the residual of
    interpolation.
    """
    x, tasks = (np.repeat(each, copies) for each in (DRAWN.eigenvalues, DRAWN.tasks))
    generator = np.random.default_rng(rng)
    losses = np.empty((2, len(SIZES), repeats))
    for draw in range(repeats):
        rows = generator.standard_normal((max(SIZES) * copies, x.size))
        for which, size in enumerate(SIZES):
            z = rows[: size * copies]
            met = np.sum(z * np.linalg.solve((z * x) @ z.T, z), axis=0)
            losses[0, which, draw] = np.mean(tasks * (x - x**2 * met))
            tokens = z * np.sqrt(x)
            null = np.eye(x.size) - tokens.T @ np.linalg.solve(tokens @ tokens.T, tokens)
            losses[1, which, draw] = np.mean(tasks * (null**2 @ x))
    return losses.reshape(-1, repeats)


def infinite_law() -> PowerLaw:
    """The power law up to modes that no resource here reaches."""
    return PowerLaw.of(NU, BETA, single=300, last=1e9, nodes=400)


def followed(setting: str, times: np.ndarray) -> np.ndarray:
    """Theory of the flows, summed over modes."""
    law = infinite_law()
    fixed = setting == "fs"
    curve = tied_flow(
        times=times if fixed else times * law.number,
        depth=FIXED_DEPTH if fixed else np.inf,
        spectrum=law.joint,
        setting=setting,
    )
    return curve.loss * law.number


def left_over(law: PowerLaw, resource: str, sizes: Any) -> np.ndarray:
    """Theory of infinitely many layers at some widths or context lengths, summed over modes."""
    ratios = {"width": "width_ratio", "context": "alpha"}
    ratio: Any = {ratios[resource]: np.asarray(sizes, float) / law.number}
    return depth_loss(depth=np.inf, spectrum=law.joint, **ratio).loss * law.number


def slopes(loss: np.ndarray, sizes: Any) -> np.ndarray:
    """Local exponents between neighbouring sizes."""
    return -np.diff(np.log(loss)) / np.diff(np.log(sizes))


def isotropic_minimum(depth: int) -> tuple[float, float]:
    """Least integral over the law of Marchenko and Pastur at alpha = 1, and its gain."""
    # On x = 2 + 2 cos(angle) the law is 1 - cos(angle); the trapezoidal rule is exact.
    panels = 2 * depth + 2
    angle = np.linspace(0, np.pi, panels + 1)
    x, weights = 2 + 2 * np.cos(angle), (1 - np.cos(angle)) / panels
    weights[-1] /= 2

    def loss(step: float) -> float:
        return float(weights @ (1 - step * x) ** (2 * depth))

    found = minimize_scalar(loss, bounds=(0, 1), method="bounded", options={"xatol": 1e-9})
    return float(found.fun), float(found.x) * depth


def best_rows(label: str, theory: Later, which: int, best: Later) -> Rows:
    """A least loss, and the gain that has it.

    They count for no function: what a report states of `depth_loss` should be about finite
    contexts.
    """
    for number, (name, error) in enumerate(MINIMISED.items()):
        value = getattr(theory, name)[which]
        yield exact(f"best {name}, {label}", value, best[number], relative=error, of="")


def exact_rows(flows: dict[str, Later], stacks: dict[int, Later]) -> Rows:
    """Flows, the best stacks, and the isotropic integral, which have no scatter."""
    trained = call(
        tied_flow, times=TIMES, depth=FIXED_DEPTH, spectrum=TRAINED.joint, setting="fs"
    ).loss
    for label, theory, losses in (
        ("fixed covariances", call(followed, "fs", TIMES), flows["fs"]),
        ("rotated covariances", call(followed, "rrs", TIMES), flows["rrs"]),
        ("full matrices", trained, run(matrix_flow)),
    ):
        for at in COMPARED:
            where, of = f"loss at time {TIMES[at]:.0f}, {label}", "tied_flow.loss"
            yield exact(where, theory[at], losses[at], relative=INTEGRATED, of=of)
    best = call(depth_loss, depth=STACK_DEPTHS, spectrum=STACKED.joint)
    for which, (depth, stack) in enumerate(stacks.items()):
        yield from best_rows(f"stack of {depth}", best, which, stack)
    deep = call(depth_loss, depth=DEEP, alpha=1.0, setting="iso")
    for which, depth in enumerate(DEEP):
        label = f"isotropic integral, {depth} layers"
        yield from best_rows(label, deep, which, call(isotropic_minimum, depth))


def rows(effort: Effort) -> Rows:
    """Simulations at finite sizes."""
    flows = {setting: run(flow, setting=setting) for setting in ("fs", "rrs")}
    stacks = {depth: run(best_stack, depth=depth) for depth in STACK_DEPTHS}
    yield from exact_rows(flows, stacks)
    isotropic = {}
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
        isotropic[alpha] = limit(
            {
                f"isotropic, alpha = {alpha}, {depth} layers": losses[which]
                for which, depth in enumerate(ISO_DEPTHS)
            },
            runs,
            draws=alpha,
            fit_label=f"chi-square, alpha = {alpha}",
        )
        yield isotropic[alpha]
    modes = len(DRAWN.ranks)
    drawn = limit(
        {
            f"loss at {resource} {size} of {modes}": call(mean_left_over, resource, which)
            for resource in RESOURCES
            for which, size in enumerate(SIZES)
        },
        {
            copies: run(drawn_losses, copies=copies, repeats=effort(DRAWS // copies))
            for copies in COPIES
        },
        of=["depth_loss.loss"] * len(RESOURCES) * len(SIZES),
        draws="drawn",
        fit_label="chi-square, width and context",
        name="Width and context",
    )
    yield drawn
    yield drawing(draw, isotropic, flows, stacks, drawn)


def mean_left_over(resource: str, which: int) -> float:
    """Mean over the drawn eigenvalues of the loss at a size."""
    return float(left_over(DRAWN, resource, SIZES)[which]) / len(DRAWN.ranks)


def draw(
    figure: Figure,
    isotropic: dict[float, Limit],
    flows: dict[str, np.ndarray],
    stacks: dict[int, tuple[float, float]],
    drawn: Limit,
) -> None:
    """Draw isotropic losses, and the local exponents of the four resources."""
    first, second, third, fourth = panels(figure, 2, 2, width=9.0, height=6.6)
    draw_isotropic(first, {alpha: row.fit for alpha, row in isotropic.items()})
    draw_time(second, flows)
    draw_depth(third, stacks)
    draw_sizes_left(fourth, drawn.fit)


def draw_isotropic(ax: Axes, fits: dict[float, Extrapolation]) -> None:
    """Loss against depth; crosses are what is printed for one layer."""
    depths = 2 ** np.arange(7)
    for (alpha, fit), colour in zip(fits.items(), COLOURS, strict=False):
        theory = depth_loss(depth=depths, alpha=alpha, setting="iso").loss
        ax.plot(depths, theory, color=colour, label=f"{alpha:g}")
        draw_points(ax, ISO_DEPTHS, fit.value, fit.standard_error, colour)
        ax.plot(1, (1 + alpha) ** -2, "x", color=colour)
    ax.set_ylim(1e-3, 1)
    title = r"isotropic; crosses: $(1 + \alpha)^{-2}$"
    finish(ax, "depth", "loss", title=title, log="xy", legend=r"$\alpha$")


def draw_time(ax: Axes, flows: dict[str, np.ndarray]) -> None:
    """Local exponents of time."""
    fine = 2.0 ** np.arange(2, 23)
    for (setting, label), colour in zip(
        (("fs", f"fixed, $L = {FIXED_DEPTH}$"), ("rrs", r"rotated, $L = \infty$")),
        COLOURS,
        strict=False,
    ):
        draw_slopes(ax, fine, followed(setting, fine), colour, label=label)
        draw_slopes(ax, TIMES, flows[setting], colour, "o")
        draw_exponent(ax, scaling_exponents(nu=NU, beta=BETA, setting=setting).time, colour)
    ax.axhline(PRINTED, color="0.5", linestyle=":", label="printed, fixed")
    finish(ax, "time", "local exponent", title="dashed: exponents", log="x", legend="")


def draw_depth(ax: Axes, stacks: dict[int, tuple[float, float]]) -> None:
    """Local exponents of depth, for modes without end and for those of the stacks."""
    for law, depths, colour, label in (
        (infinite_law(), 2 ** np.arange(0, 13), COLOURS[0], "all modes"),
        (STACKED, np.array(STACK_DEPTHS), COLOURS[1], f"{len(STACKED.ranks)} modes"),
    ):
        loss = depth_loss(depth=depths, spectrum=law.joint).loss
        draw_slopes(ax, depths, loss, colour, label=label)
    losses = np.array([loss for loss, _ in stacks.values()])
    draw_slopes(ax, list(stacks), losses, COLOURS[1], "o")
    draw_exponent(ax, scaling_exponents(nu=NU, beta=BETA).depth, COLOURS[0])
    finish(ax, "depth", "local exponent", title="tied layers, rotated", log="x", legend="")


def draw_sizes_left(ax: Axes, fit: Extrapolation) -> None:
    """Local exponents of width and context."""
    fine, far = np.geomspace(2, 16, 12), 2.0 ** np.arange(1, 10)
    steep = PowerLaw.of(NU, DRAWN.beta, single=100, last=1e6, nodes=100)
    for which, (resource, colour) in enumerate(zip(RESOURCES, COLOURS, strict=False)):
        draw_slopes(ax, fine, left_over(DRAWN, resource, fine), colour, label=resource)
        draw_slopes(ax, far, left_over(steep, resource, far), colour, linewidth=0.8, alpha=0.6)
        part = slice(which * len(SIZES), (which + 1) * len(SIZES))
        # The covariance of logarithms, and of their differences.
        relative = fit.covariance[part, part] / np.outer(fit.value[part], fit.value[part])
        steps = np.diff(np.eye(len(SIZES)), axis=0) / np.diff(np.log(SIZES))[:, None]
        errors = np.sqrt(np.diag(steps @ relative @ steps.T))
        at = np.array(SIZES)
        draw_points(ax, middle(at), slopes(fit.value[part], at), errors, colour)
        draw_exponent(ax, getattr(scaling_exponents(nu=NU, beta=DRAWN.beta), resource), colour)
    title = rf"{len(DRAWN.ranks)} modes (thin: all), $\beta = {DRAWN.beta:g}$"
    finish(ax, "width or context", "local exponent", title=title, log="x", legend="")


def middle(sizes: np.ndarray) -> np.ndarray:
    """Geometric means of neighbours."""
    return np.sqrt(sizes[1:] * sizes[:-1])


def draw_slopes(
    ax: Axes, sizes: ArrayLike, loss: np.ndarray, colour: str, style: str = "-", **options: Any
) -> None:
    """Draw local exponents between neighbouring sizes."""
    at = np.asarray(sizes)
    ax.plot(middle(at), slopes(loss, at), style, color=colour, markersize=4, **options)


def draw_exponent(ax: Axes, exponent: SupportsFloat, colour: str) -> None:
    """Draw an exponent of the theory."""
    ax.axhline(float(exponent), color=colour, linestyle="--", linewidth=0.9)


claim = Claim.of("depth-scaling", __doc__, rows)
