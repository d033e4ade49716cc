r"""Scaling laws of depth, time, width and context: losses at finite resources, and exponents.

Simulations have the losses of the theory at the same sizes: drawn isotropic contexts at several
depths, extrapolated in 1/d, of which one layer leaves 1/(1 + alpha); gradient flow of full
matrices with fixed covariances, and mode by mode with many modes, for fixed and for rotated
covariances; the best common step of simulated stacks; and random projections and interpolation of
drawn contexts, extrapolated to infinitely many copies of each eigenvalue.  Slopes and constants of
the theory, refined in size, are then compared with the exponents and with the constants of the
joint law: this is theory against theory.

Source: Bordelon, Letey and Pehlevan, arXiv:2510.01098 (version 1), Results 2 to 8, Figures 1, 3
and 4; corrections, constants and finite sizes derived in the documentation.
"""

from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import minimize_scalar

from iclimit.asymptotics.depth import (
    DepthLoss,
    depth_loss,
    scaling_exponents,
    scaling_terms,
    tied_flow,
    untied_depth,
)
from iclimit.drawing import COLOURS, Axes, Figure, draw_points, finish, panels
from iclimit.simulate.depth import simulate_depth_loss, simulate_matrix_flow
from iclimit.statistics import Extrapolation, extrapolate_runs
from iclimit.validation import (
    Cell,
    Claim,
    Comparison,
    Preset,
    Results,
    Verdict,
    compare,
    compare_limits,
    compare_p_value,
)
from iclimit.validation.claims.depth.power_law import PowerLaw

ALPHAS = (0.5, 2.0)
ISO_DEPTHS = (1, 2, 4)
ISO_DIMS = (20, 40, 60, 100)
"""Isotropic contexts.  Deeper stacks would need more dimensions: at the best step the residual at
the end of the spectrum is 0.94, and its fluctuations are raised to the power 2 L."""

CONTEXTS = 600
"""Contexts of the quick preset at d = 20; larger dimensions have fewer, in proportion to 1/d."""

NU, BETA = 2.0, 0.7
"""Exponents of the power law that is followed in time and depth."""

FIXED_DEPTH = 4
"""Layers of the flow with fixed covariances, whose exponent is that of any depth; covariances in a
random basis have infinitely many."""

TIMES = 4.0 ** np.arange(1, 12)
"""Times of the flows; those of the second, fifth and ninth power are compared."""

COMPARED = [1, 4, 8]
DEEP = (64, 256)
"""Depths of the isotropic integral, where the best residual is 1 at both ends of the spectrum."""

TRAINED = PowerLaw.of(NU, BETA, single=12)
"""Eigenvalues of the flow of full matrices."""

STACKED = PowerLaw.of(NU, BETA, single=48)
STACK_DEPTHS = (1, 2, 4, 8, 16, 32)

DRAWN = PowerLaw.of(NU, 1.5, single=24)
"""Eigenvalues of drawn projections and contexts.  The published exponent of width and context,
nu beta, would be 3; that of width is 2 for beta > 1."""

COPIES = (2, 4, 6, 10)
SIZES = (3, 6, 12)
"""Copies of each eigenvalue, and widths or context lengths per copy."""

DRAWS = 800
"""Draws of the quick preset times copies."""

RESOURCES = ("width", "context")
MORE: dict[Preset, int] = {"quick": 1, "medium": 10, "full": 100}

INTEGRATED = 1e-8
"""Relative error of the losses of integrated flows (measured: at most 2e-10)."""

SUMMED = 1e-6
"""Relative error of refined slopes because eigenvalues are discrete: it does not shrink smoothly
(measured: at most 5e-7)."""

MINIMISED = {"loss": 1e-10, "gamma": 1e-6}
"""Relative errors of a minimum and of its place that is found by losses (measured: 4e-15 and
2e-8)."""

PRINTED = BETA / (NU + NU * BETA + 1)
"""Exponent of time for fixed covariances in version 1, drawn for comparison."""


def isotropic_losses(*, dim: int, context: int, step: float, repeats: int, rng: Any) -> np.ndarray:
    """Losses of contexts at all depths, of the same draws; shape (depths, repeats)."""
    setting: dict[str, Any] = {"eigenvalues": np.ones(dim), "context": context, "rng": rng}
    runs = [
        simulate_depth_loss(rates=[step] * depth, repeats=repeats, **setting)
        for depth in ISO_DEPTHS
    ]
    return np.array([run.losses for run in runs])


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
        ).losses[0]

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


def cells(preset: Preset) -> dict[Any, Cell]:
    """Isotropic contexts, flows, stacks and draws."""
    more = MORE[preset]
    isotropic = {
        ("iso", alpha, dim): Cell.of(
            isotropic_losses,
            dim=dim,
            context=round(alpha * dim),
            step=alpha / (1 + alpha),
            repeats=more * CONTEXTS * ISO_DIMS[0] // dim,
        )
        for alpha in ALPHAS
        for dim in ISO_DIMS
    }
    drawn = {
        ("drawn", copies): Cell.of(drawn_losses, copies=copies, repeats=more * DRAWS // copies)
        for copies in COPIES
    }
    flows = {("flow", setting): Cell.of(flow, setting=setting) for setting in ("fs", "rrs")}
    stacks = {("stack", depth): Cell.of(best_stack, depth=depth) for depth in STACK_DEPTHS}
    return isotropic | flows | stacks | drawn | {("matrices",): Cell.of(matrix_flow)}


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


def refine(label: str, exact: Any, values: np.ndarray, of: str) -> Comparison:
    """Compare with the limit of a sequence, as Aitken extrapolates it from its last three values.

    The allowance is the error of the limit: what the extrapolation and the last value change.
    """
    first, second = np.diff(values[-3:])
    change = second**2 / (first - second)
    error = float(abs(change) + abs(second) + SUMMED * abs(exact))
    return compare(label, float(exact), float(values[-1] + change), allowance=error, of=of)


def compare_refined() -> list[Comparison]:
    """Exponents and constants against slopes and losses of the theory at large sizes."""
    law, terms = infinite_law(), scaling_terms(nu=NU, beta=BETA)
    power, fixed, untied = (
        scaling_exponents(nu=NU, beta=BETA, setting=name) for name in ("rrs", "fs", "untied")
    )
    times, depths, sizes = TIMES[-4:], 2 ** np.arange(11, 15), 4.0 ** np.arange(5, 9)
    few = 2 ** np.arange(5, 9)
    best = untied_depth(law.eigenvalues, law.counts * law.labels, depth=int(few[-1])).losses
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {
        "time": (followed("rrs", times), times),
        "depth": (depth_loss(depth=depths, spectrum=law.joint).loss * law.number, depths),
        **{each: (left_over(law, each, sizes), sizes) for each in RESOURCES},
    }
    exponents = [
        ("time, fixed covariances", fixed.time, slopes(followed("fs", times), times), "time"),
        ("depth, untied", untied.depth, slopes(best[few - 1], few), "depth"),
    ]
    for name, (loss, size) in found.items():
        exponents.append((name, getattr(power, name), slopes(loss, size), name))
    for beta in (1.5, 2.5):
        steep = PowerLaw.of(NU, beta, single=300, last=1e9, nodes=200)
        for name in RESOURCES:
            exponent = getattr(scaling_exponents(nu=NU, beta=beta), name)
            local = slopes(left_over(steep, name, sizes), sizes)
            exponents.append((f"{name}, beta = {beta}", exponent, local, name))
    rows = [
        refine(f"exponent of {label}, refined theory", exact, local, f"scaling_exponents.{name}")
        for label, exact, local, name in exponents
    ]
    for name, (loss, size) in found.items():
        constants = loss * size ** float(getattr(power, name))
        label, of = f"constant of {name}, refined theory", f"scaling_terms.{name}"
        rows.append(refine(label, getattr(terms, name), constants, of))
    return rows


def compare_exact(results: Results) -> list[Comparison]:
    """Flows, the best stacks, and the isotropic integral, which have no scatter."""
    rows = []
    for setting, label in (("fs", "fixed"), ("rrs", "rotated")):
        theory, found = followed(setting, TIMES), results["flow", setting]
        rows += [
            compare(
                f"loss at time {TIMES[at]:.0f}, {label} covariances",
                theory[at],
                found[at],
                relative=INTEGRATED,
                of="tied_flow.loss",
            )
            for at in COMPARED
        ]
    trained = tied_flow(times=TIMES, depth=FIXED_DEPTH, spectrum=TRAINED.joint, setting="fs").loss
    rows += [
        compare(
            f"loss at time {TIMES[at]:.0f}, full matrices",
            trained[at],
            results["matrices",][at],
            relative=INTEGRATED,
            of="tied_flow.loss",
        )
        for at in COMPARED
    ]
    best = depth_loss(depth=STACK_DEPTHS, spectrum=STACKED.joint)
    for which, depth in enumerate(STACK_DEPTHS):
        rows += compare_minimum(f"stack of {depth}", best, which, results["stack", depth])
    deep = depth_loss(depth=DEEP, alpha=1.0, setting="iso")
    for which, depth in enumerate(DEEP):
        label = f"isotropic integral, {depth} layers"
        rows += compare_minimum(label, deep, which, isotropic_minimum(depth))
    return rows


def compare_minimum(
    label: str, theory: DepthLoss, which: int, found: tuple[float, float]
) -> list[Comparison]:
    """Compare a least loss, and the gain that has it.

    They count for no function: what a report states of `depth_loss` should be about finite
    contexts.
    """
    return [
        compare(
            f"best {name}, {label}", getattr(theory, name)[which], value, relative=MINIMISED[name]
        )
        for name, value in zip(MINIMISED, found, strict=True)
    ]


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


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare simulations at finite sizes, and the refined theory with its exponents."""
    comparisons, isotropic = [*compare_exact(results), *compare_refined()], {}
    for alpha in ALPHAS:
        runs = [results["iso", alpha, dim] for dim in ISO_DIMS]
        fit = isotropic[alpha] = extrapolate_runs(ISO_DIMS, runs)
        theory = depth_loss(depth=ISO_DEPTHS, alpha=alpha, setting="iso").loss
        labels = [f"isotropic, alpha = {alpha}, {depth} layers" for depth in ISO_DEPTHS]
        of = ["depth_loss.loss"] * len(labels)
        limits = dict(zip(labels, theory, strict=True))
        comparisons += compare_limits(limits, fit, of=of, draws=alpha)
        comparisons.append(compare_p_value(f"chi-square, alpha = {alpha}", fit.p_value))
    drawn = extrapolate_runs(COPIES, [results["drawn", copies] for copies in COPIES])
    modes = len(DRAWN.ranks)
    limits = {
        f"loss at {resource} {size} of {modes}": loss / modes
        for resource in RESOURCES
        for size, loss in zip(SIZES, left_over(DRAWN, resource, SIZES), strict=True)
    }
    of = ["depth_loss.loss"] * len(limits)
    comparisons += compare_limits(limits, drawn, of=of, draws="drawn")
    comparisons.append(compare_p_value("chi-square, width and context", drawn.p_value))

    def draw(figure: Figure) -> None:
        first, second, third, fourth = panels(figure, 2, 2, width=9.0, height=6.6)
        draw_isotropic(first, isotropic)
        draw_time(second, results)
        draw_depth(third, results)
        draw_sizes_left(fourth, drawn)

    notes = (
        "Comparisons called refined are theory against theory: slopes of the losses against the "
        "exponents, with the error of the refinement as allowance.",
        f"Width and context: {drawn.summary}.",
    )
    return Verdict(comparisons, draw, notes)


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


def draw_time(ax: Axes, results: Results) -> None:
    """Local exponents of time."""
    fine = 2.0 ** np.arange(2, 23)
    for (setting, label), colour in zip(
        (("fs", f"fixed, $L = {FIXED_DEPTH}$"), ("rrs", r"rotated, $L = \infty$")),
        COLOURS,
        strict=False,
    ):
        ax.plot(middle(fine), slopes(followed(setting, fine), fine), color=colour, label=label)
        found = slopes(results["flow", setting], TIMES)
        ax.plot(middle(TIMES), found, "o", color=colour, markersize=4)
        exponent = scaling_exponents(nu=NU, beta=BETA, setting=setting).time
        ax.axhline(float(exponent), color=colour, linestyle="--", linewidth=0.9)
    ax.axhline(PRINTED, color="0.5", linestyle=":", label="printed, fixed")
    finish(ax, "time", "local exponent", title="dashed: exponents", log="x", legend="")


def draw_depth(ax: Axes, results: Results) -> None:
    """Local exponents of depth, for modes without end and for those of the stacks."""
    depths = 2 ** np.arange(0, 13)
    exponent = float(scaling_exponents(nu=NU, beta=BETA).depth)
    for law, colour, label in (
        (infinite_law(), COLOURS[0], "all modes"),
        (STACKED, COLOURS[1], f"{len(STACKED.ranks)} modes"),
    ):
        kept = depths if law is not STACKED else np.array(STACK_DEPTHS)
        loss = depth_loss(depth=kept, spectrum=law.joint).loss
        ax.plot(middle(kept), slopes(loss, kept), color=colour, label=label)
    losses = np.array([results["stack", depth][0] for depth in STACK_DEPTHS])
    at = np.array(STACK_DEPTHS)
    ax.plot(middle(at), slopes(losses, at), "o", color=COLOURS[1], markersize=4)
    ax.axhline(exponent, color=COLOURS[0], linestyle="--", linewidth=0.9)
    finish(ax, "depth", "local exponent", title="tied layers, rotated", log="x", legend="")


def draw_sizes_left(ax: Axes, fit: Extrapolation) -> None:
    """Local exponents of width and context."""
    fine, far = np.geomspace(2, 16, 12), 2.0 ** np.arange(1, 10)
    steep = PowerLaw.of(NU, DRAWN.beta, single=100, last=1e6, nodes=100)
    for which, (resource, colour) in enumerate(zip(RESOURCES, COLOURS, strict=False)):
        curve = slopes(left_over(DRAWN, resource, fine), fine)
        ax.plot(middle(fine), curve, color=colour, label=resource)
        endless = slopes(left_over(steep, resource, far), far)
        ax.plot(middle(far), endless, color=colour, linewidth=0.8, alpha=0.6)
        part = slice(which * len(SIZES), (which + 1) * len(SIZES))
        # The covariance of logarithms, and of their differences.
        relative = fit.covariance[part, part] / np.outer(fit.value[part], fit.value[part])
        steps = np.diff(np.eye(len(SIZES)), axis=0) / np.diff(np.log(SIZES))[:, None]
        errors = np.sqrt(np.diag(steps @ relative @ steps.T))
        at = np.array(SIZES)
        draw_points(ax, middle(at), slopes(fit.value[part], at), errors, colour)
        exponent = getattr(scaling_exponents(nu=NU, beta=DRAWN.beta), resource)
        ax.axhline(float(exponent), color=colour, linestyle="--", linewidth=0.9)
    title = rf"{len(DRAWN.ranks)} modes (thin: all), $\beta = {DRAWN.beta:g}$"
    finish(ax, "width or context", "local exponent", title=title, log="x", legend="")


def middle(sizes: np.ndarray) -> np.ndarray:
    """Geometric means of neighbours."""
    return np.sqrt(sizes[1:] * sizes[:-1])


claim = Claim.of("depth-scaling", __doc__, cells, judge)
