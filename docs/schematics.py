"""Schematic figures of the theory pages: what happens, and beside it what is computed."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from iclimit import bayes_error, icl_error, idg_error
from iclimit.asymptotics.descent import learning_rate_loss
from iclimit.asymptotics.gdpp import ridge_risk
from iclimit.asymptotics.spectra import Atoms, MarchenkoPastur, SampleCovariance
from iclimit.drawing import COLOURS, Axes, house_style

# Width and height in inches, and the share of the width that the boxes have; on a telephone the
# boxes stand below each other.
SIZE, BOXES = (8.6, 1.9), 2.3
NARROW, NARROW_BOXES = (3.7, 2.7), 0.9

# One direction after another is learnt: times of the drops, and losses of the plateaus.
DROPS, PLATEAUS = np.array([2.0, 4.5, 8.0]), np.array([1.0, 0.6, 0.3, 0.1])


def draw_boxes(ax: Axes, texts: tuple[str, ...], down: bool = False) -> None:
    """Draw boxes with texts from left to right, or down, and arrows between them."""
    count = len(texts)
    before = None
    for place, text in enumerate(texts):
        ends = place == count - 1
        frame = {
            "boxstyle": f"round,pad={0.25 if down else 0.45}",
            "facecolor": "#eaf3fa" if not ends else "#fdf0e6",
            "edgecolor": COLOURS[0] if not ends else COLOURS[1],
        }
        along = (place + 0.5) / count
        last = (place - 0.5) / count
        here, there = [(0.5, 1 - each) if down else (each, 0.5) for each in (along, last)]
        drawn = ax.text(*here, text, ha="center", va="center", fontsize=8, bbox=frame)
        if before is not None:
            arrow = {"arrowstyle": "->", "color": "0.4", "shrinkA": 0, "shrinkB": 0}
            arrow |= {"patchA": before.get_bbox_patch(), "patchB": drawn.get_bbox_patch()}
            ax.annotate("", here, there, arrowprops=arrow)
        before = drawn
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.axis("off")


def draw_curves(
    x: np.ndarray,
    curves: dict[str, np.ndarray],
    words: tuple[str, str],
    ax: Axes,
    *,
    log: str = "",
    top: float | None = None,
    sketch: bool = False,
) -> None:
    """Draw curves without ticks, with their names; a sketch says that it is one."""
    for (label, y), colour in zip(curves.items(), COLOURS, strict=False):
        ax.plot(x, y, color=colour, label=label)
    for axis in log:
        getattr(ax, f"set_{axis}scale")("log")
    if top is not None:
        ax.set_ylim(top=top)
    ax.minorticks_off()
    ax.set(xticks=[], yticks=[])
    ax.set_xlabel(words[0], fontsize=8)
    ax.set_ylabel(words[1], fontsize=8)
    if sketch:
        ax.set_title("sketch", fontsize=7, color="0.35", loc="right", pad=2)
    if any(curves):
        ax.legend(fontsize=7, handlelength=1.2, borderaxespad=0.1)


def staircase(times: np.ndarray) -> np.ndarray:
    """Losses that drop from plateau to plateau."""
    steps = 1 / (1 + np.exp(-6 * (times[:, None] - DROPS)))
    return PLATEAUS[0] - steps @ -np.diff(PLATEAUS)


def schematics() -> dict[str, tuple[tuple[str, ...], Callable[[Axes], None]]]:
    """Boxes and curves of each page."""
    line = np.linspace(0.02, 4, 200)
    decades = np.geomspace(0.1, 100, 200)
    tau = np.geomspace(0.2, 5, 301)
    point = {"alpha": 1.0, "kappa": 0.5, "rho": 0.01}
    steps = np.arange(1, 31)
    law = MarchenkoPastur(0.5)
    mixed = SampleCovariance(Atoms([1.0, 4.0]), ratio=0.1)
    eigenvalues = np.linspace(0.01, 3.2, 300)
    wide = np.linspace(0.2, 7, 300)
    unit = np.linspace(0, 1, 200)
    first = np.polynomial.chebyshev.Chebyshev.basis(4)
    second = 1 + 2 * 0.1
    chebyshev = first(second - 2 * unit * 1.1) / first(second)
    sigma = np.linspace(0.1, 5, 100)
    context = {"context": 10, "dim": 10}
    rates = np.linspace(0, 1.5, 80)
    spread = np.linspace(-3, 3, 200)
    tokens = np.arange(1, 41)
    return {
        "icl": (
            (
                "$k$ tasks\n$w_1, ..., w_k$",
                "$n$ prompts of $\\ell$ pairs\n$(x_i, y_i)$, query $x_q$",
                "summary\n$\\frac{d}{\\ell}\\sum_i y_i x_i$",
                "ridge fit\nof $\\Gamma$",
                "error on\nfresh tasks: ICL\nold tasks: IDG",
            ),
            partial(
                draw_curves,
                tau,
                {
                    "ICL": icl_error(tau=tau, ridge=1e-3, **point),
                    "IDG": idg_error(tau=tau, ridge=1e-3, **point),
                },
                (r"prompts, $\tau = n/d^2$", "error"),
                log="xy",
            ),
        ),
        "structured-data": (
            (
                "inputs\ncovariance $C_x$",
                "training tasks\ncovariance $C$",
                "fit of $\\Gamma$",
                "test tasks\ncovariance $C'$",
                "error: how well\n$C'$ lies in $C$",
            ),
            partial(
                draw_curves,
                np.arange(1, 13),
                {"training": np.arange(1, 13) ** -0.9, "tests": np.arange(12, 0, -1) ** -0.9},
                ("direction", "task variance"),
                sketch=True,
            ),
        ),
        "finite-size": (
            (
                "integers\n$d, \\ell, k, n$",
                "exact law of\nthe summaries",
                "prompts of\neach task",
                "fixed point\nat these integers",
                "error that\na run shows",
            ),
            partial(
                draw_curves,
                line,
                {"prediction": 1 + line**0.9, "limit": np.ones_like(line)},
                ("$1/d$", "error"),
                sketch=True,
            ),
        ),
        "fluctuations": (
            (
                "draw tasks\nand prompts",
                "fit $\\Gamma$",
                "one error",
                "repeat",
                "scatter $O(1/d)$",
            ),
            partial(
                draw_curves,
                spread,
                {"large $d$": 2 * np.exp(-2 * spread**2), "small $d$": np.exp(-(spread**2) / 2)},
                ("error of a run", "density"),
                sketch=True,
            ),
        ),
        "budgets": (
            (
                "budget\n$B d^3$ label pairs",
                "$n$ prompts of\n$\\ell$ pairs: $\\tau\\alpha = B$",
                "fit of $\\Gamma$",
                "error on\nfresh tasks",
                "best split",
            ),
            partial(
                draw_curves,
                decades,
                {
                    "": icl_error(
                        tau=20 / decades, alpha=decades, kappa=np.inf, rho=0.1, ridge=1e-2
                    )
                },
                (r"context, $\alpha$ at fixed $\tau\alpha$", "error"),
                log="x",
            ),
        ),
        "bayes": (
            (
                "context\n$X, y$",
                "prior: all tasks\nor the $k$ tasks",
                "posterior",
                "mean of\nthe prediction",
                "no estimator\nis better",
            ),
            partial(
                draw_curves,
                decades,
                {
                    "attention": icl_error(tau=np.inf, alpha=decades, kappa=np.inf, rho=0.1),
                    "Bayes": bayes_error(alpha=decades, rho=0.1),
                },
                (r"context, $\alpha$", "error"),
                log="xy",
            ),
        ),
        "nonmonotonicity": (
            (
                "few tasks",
                "long contexts\nin training",
                "$\\Gamma$ fits\nthese tasks",
                "fresh task",
            ),
            partial(
                draw_curves,
                decades,
                {
                    f"$\\kappa = {kappa}$": icl_error(tau=4, alpha=decades, kappa=kappa, rho=0.25)
                    for kappa in (0.5, 4)
                },
                (r"context, $\alpha$", "ICL error"),
                log="x",
            ),
        ),
        "resolvent": (
            (
                "$k$ vectors $w_j$",
                "$\\hat C = \\frac{1}{k}\\sum_j w_j w_j^\\top$",
                "$(\\hat C + q)^{-1}$",
                "$M(q)$: its trace / $d$",
            ),
            partial(
                draw_curves,
                eigenvalues,
                {"": law.density(eigenvalues)},
                (r"eigenvalue of $\hat C$", "density"),
                top=1.0,
            ),
        ),
        "spectral-measures": (
            (
                "eigenvalues,\ndensity or shape",
                "sample, add,\nmap, mix",
                "Stieltjes\ntransform",
                "density, moments,\nquadrature",
            ),
            partial(draw_curves, wide, {"": mixed.density(wide)}, ("eigenvalue", "density")),
        ),
        "gradient-descent": (
            (
                "context\n$(x_i, y_i)$",
                "start at\n$w = 0$",
                "one step\n$\\frac{\\eta}{N}\\sum_i y_i x_i$",
                "answer\n$w \\cdot x_q$",
                "loss",
            ),
            partial(
                draw_curves,
                rates,
                {"": learning_rate_loss(rates, **context)},
                (r"learning rate $\eta$", "loss"),
            ),
        ),
        "schedules": (
            (
                "step $\\eta_1$",
                "step $\\eta_2$",
                "...",
                "step $\\eta_L$",
                "residual\n$\\prod_l (1 - \\eta_l \\lambda)$",
            ),
            partial(
                draw_curves,
                unit,
                {"constant": (1 - unit) ** 4, "Chebyshev": chebyshev},
                (r"eigenvalue $\lambda$", "residual"),
            ),
        ),
        "gdpp": (
            (
                "inputs $x_i$",
                "layer shrinks the\nlarge directions",
                "spectrum\nnarrows",
                "step of descent\nconverges fast",
            ),
            partial(
                draw_curves,
                unit,
                {"before": unit, "after, $\\times 4$": 4 * unit * (1 - 2 * unit / 3) ** 2},
                ("eigenvalue before", "after"),
            ),
        ),
        "noisy-regression": (
            (
                "each prompt has\nits own noise $\\sigma$",
                "estimate $\\sigma$\nfrom the prompt",
                "choose\nthe ridge",
                "answer",
            ),
            partial(
                draw_curves,
                sigma,
                {
                    "one ridge": ridge_risk(9.0, noise_variance=sigma**2, **context),
                    "best ridge": ridge_risk(sigma**2, noise_variance=sigma**2, **context),
                },
                (r"noise level $\sigma$", "loss"),
            ),
        ),
        "dynamics": (
            (
                "small random\nkey, query, value",
                "gradient flow\non the loss",
                "wait at\na plateau",
                "a direction\nis learnt: drop",
            ),
            partial(
                draw_curves,
                3 * line,
                {"": staircase(3 * line)},
                ("training time", "loss"),
                sketch=True,
            ),
        ),
        "softmax": (
            (
                "scores\n$x_q^\\top A x_i$",
                "weights\n$\\propto e^{\\mathrm{score}}$",
                "mean of $y_i$\nwith these weights",
                "loss of the\nbest head",
            ),
            partial(
                draw_curves,
                spread,
                {"softmax": np.exp(spread / 2), "linear": 1 + spread / 2},
                ("score", "weight"),
            ),
        ),
        "networks": (
            (
                "tokens\n$(x_i, y_i)$, $(x_q, 0)$",
                "attention",
                "residual stream\n(layer norm)",
                "... $L$ layers",
                "answer at the\nlast token",
            ),
            partial(
                draw_curves,
                steps,
                {f"$L = {layers}$": (1 + steps / 3) ** -float(layers) for layers in (1, 2, 3)},
                ("context length", "loss"),
                log="y",
                sketch=True,
            ),
        ),
        "lstm": (
            ("$(x_1, y_1)$", "$(x_2, y_2)$", "...", "$(x_q, 0)$", "answer from\nthe state"),
            partial(
                draw_curves,
                line,
                {
                    "uni-directional": 0.8 + np.exp(-line),
                    "bi-directional": 0.52 + np.exp(-line),
                    "step of descent": np.full_like(line, 0.5),
                },
                ("training", "loss"),
                sketch=True,
            ),
        ),
        "tied": (
            (
                "context of $P$,\nwidth $N$",
                "layer $\\Gamma$",
                "layer $\\Gamma$",
                "...",
                "residual after\n$L$ equal layers",
            ),
            partial(
                draw_curves,
                steps,
                {"finite context": 0.15 + 0.7**steps, "all data": 0.7**steps + 0.01},
                ("layers $L$", "loss"),
                sketch=True,
            ),
        ),
        "untied": (
            (
                "layer $\\Gamma_1$",
                "layer $\\Gamma_2$",
                "...",
                "layer $\\Gamma_L$",
                "residual\n$\\prod_l (1 - \\gamma_l \\lambda)$",
            ),
            partial(
                draw_curves,
                unit,
                {f"$L = {layers}$": (1 - unit) ** layers for layers in (1, 4)},
                (r"eigenvalue $\lambda$", "residual"),
            ),
        ),
        "time": (
            ("fresh prompts", "step of SGD\non $\\Gamma$", "repeat $t$ times", "loss and floor"),
            partial(
                draw_curves,
                line,
                {"loss": 0.3 + np.exp(-2 * line), "floor": np.full_like(line, 0.3)},
                ("training steps", "loss"),
                sketch=True,
            ),
        ),
        "test-time": (
            (
                "trained $\\Gamma$",
                "apply it once",
                "apply it again",
                "... $s$ times",
                "better, then\noverthinking",
            ),
            partial(
                draw_curves,
                steps,
                {"": 0.85**steps + 0.012 * steps},
                ("steps at test time", "error"),
                sketch=True,
            ),
        ),
        "contexts": (
            (
                "tokens at times\n$1, ..., \\ell$",
                "state\n$S \\leftarrow \\gamma S + y_t x_t$",
                "old tokens\nfade",
                "as if the context\nwere shorter",
            ),
            partial(
                draw_curves,
                tokens,
                {f"$\\gamma = {gate}$": gate ** (40.0 - tokens) for gate in (1, 0.9)},
                ("token", "weight"),
            ),
        ),
        "layers": (
            (
                "token\n$(x_t, y_t)$",
                "gate: forget\npart of the state",
                "write: correct\nwhat it answers",
                "read: answer\nat every position",
            ),
            partial(
                draw_curves,
                tokens,
                {"linear attention": 1 / (1 + tokens / 10), "delta rule": 0.9**tokens},
                ("position", "error"),
                log="y",
                sketch=True,
            ),
        ),
    }


def write_schematics(folder: Path) -> None:
    """Draw the figures of all pages."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (texts, draw) in schematics().items():
        for narrow in (False, True):
            size, share = (NARROW, NARROW_BOXES) if narrow else (SIZE, BOXES)
            with house_style():
                figure = Figure(figsize=size)
                boxes, curves = figure.subplots(1, 2, width_ratios=[share, 1])
                bottom, top = (0.1, 0.94) if narrow else (0.14, 0.93)
                space = 0.2 if narrow else 0.06
                figure.subplots_adjust(0, bottom, 0.99, top, wspace=space)
                draw_boxes(boxes, texts, narrow)
                draw(curves)
                ending = "-narrow" * narrow
                figure.savefig(folder / f"{name}{ending}.svg", metadata={"Date": None})
