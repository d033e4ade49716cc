r"""Training of linear attention layers from random weights.

All of key, query, value and projection are trained.  Adam (Kingma and Ba, arXiv:1412.6980) draws
fresh prompts at every step.  Its learning rate is constant until the loss no longer falls and then
goes linearly to zero: at a constant rate the weights keep jittering (at 0.01 for N = 50, D = 10,
two percent above the least loss).  L-BFGS minimises the loss over one fixed batch.  A single layer
knows that batch by its moments, so that an iteration costs the same for any number of prompts.

Settings of von Oswald et al., arXiv:2212.07677, for comparison: 5000 steps of Adam at a rate of
1e-3 on batches of 2048 prompts, gradients clipped to a norm of 1e-3, initial standard deviation
0.0135.  Defaults here reach the loss of one gradient-descent step in a tenth of that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import minimize
from tqdm import tqdm

from iclimit.simulate.arrays import Array, Backend, get_backend, seed_sequences, to_host
from iclimit.simulate.blocks import looks_every
from iclimit.simulate.checks import check_choice, check_integers, check_positive
from iclimit.simulate.descent.gradients import (
    loss_and_gradients,
    moment_loss_and_gradients,
    readout_moments,
)
from iclimit.simulate.descent.regression import Regression, regression_tokens
from iclimit.simulate.transformer import Layer

OPTIMIZERS = ("adam", "lbfgs")
BATCH = {"adam": 2048, "lbfgs": 2**16}
DECAY = (0.9, 0.98)
"""Adam's decay rates of the gradient's first and second moments, as in arXiv:2212.07677."""

TINY = 1e-30
"""Keeps Adam's quotient finite for weights that have had no gradient yet."""

FALL = 1e-10
"""L-BFGS has converged when the loss falls by less than this fraction in an iteration."""

TOKEN_BLOCK = 2**21
"""Most numbers in the tokens that are held at a time (16 MiB)."""

MOMENT_FEATURES = 5000
"""Most features whose moments are formed (200 MB); beyond, L-BFGS runs on the tokens."""


@dataclass(frozen=True)
class TrainedAttention:
    """Trained layers and how they came about.

    Attributes
    ----------
    layers : list of Layer
        The stack, in the order of application; a shared layer is repeated.
    losses : ndarray
        Training loss before every step, over the prompts of that step; for L-BFGS over the fixed
        batch, and after the last step too.
    steps : int
        Number of steps taken.
    converged : bool
        Whether the loss stopped falling before the steps ran out.
    interrupted : bool
        Whether Ctrl-C ended the training.
    parameters : dict
        The settings.
    snapshots : dict
        Layers after the numbers of steps asked for.
    """

    layers: list[Layer]
    losses: np.ndarray
    steps: int
    converged: bool
    interrupted: bool
    parameters: dict[str, Any] = field(repr=False)
    snapshots: dict[int, list[Layer]] = field(repr=False, default_factory=dict)


def train_attention(
    problem: Regression,
    *,
    layers: int = 1,
    heads: int = 1,
    shared: bool = False,
    include_query: bool = False,
    optimizer: str = "adam",
    steps: int = 5000,
    batch: int | None = None,
    learning_rate: float = 0.02,
    clip: float = 1.0,
    patience: int = 100,
    init_scale: float = 0.03,
    snapshots: Sequence[int] = (),
    rng: Any,
    backend: str = "numpy",
    progress: bool = False,
) -> TrainedAttention:
    r"""Train a stack of linear attention layers on regression in context.

    The loss is the mean squared error on the query label.

    Parameters
    ----------
    problem : Regression
        Law of the prompts.
    layers : int >= 1
        Number of layers.
    heads : int >= 1
        Heads per layer.
    shared : bool
        One layer, applied ``layers`` times, instead of separate weights.
    include_query : bool
        Whether the query's token is among the keys and values.
    optimizer : {"adam", "lbfgs"}
        Adam on fresh prompts in every step, or L-BFGS on one fixed batch.
    steps : int >= 1
        Most steps, or iterations of L-BFGS.
    batch : int >= 1, optional
        Prompts per step, 2048 by default; for "lbfgs" all prompts, 65,536 by default.
    learning_rate : float > 0
        Of Adam, before its decay over the last third of the run.
    clip : float > 0
        Largest norm of the gradient of all weights for Adam; a longer one is scaled down.  The
        loss of L layers is a polynomial of degree :math:`3^L` in the tokens, so rare prompts have
        huge gradients: without clipping three layers do not train (loss .3 against .008 at
        N = 8, D = 4).  One layer does not notice.
    patience : int >= 1
        The decay of Adam's learning rate begins when the mean loss over so many steps is not
        significantly below the mean over as many before, or with the last third of ``steps``.
    init_scale : float > 0
        Standard deviation of the initial weights, which are normal and independent.  From 0.1
        L-BFGS has been seen to end on a plateau at N = 50, D = 10.
    snapshots : sequence of int >= 1
        Numbers of steps after which the layers are kept for later inspection; those that the
        training does not reach are left out.
    rng : int, SeedSequence or Generator
        Seed of initial weights and prompts.
    backend : {"numpy", "cupy"}
        Where to compute.
    progress : bool
        Show a progress bar.

    Returns
    -------
    TrainedAttention
        What Ctrl-C leaves is returned too, marked as interrupted.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If problem or snapshots is of another kind.
    RuntimeError
        If the backend is not available.
    ArithmeticError
        If the loss became infinite.

    Notes
    -----
    The loss has other stationary points than its minimum.  On isotropic inputs all of 60 runs of
    one layer reached the minimum; on anisotropic ones half ended where the layer reads out inputs
    instead of labels, a step of rank one.  ``converged`` only says that the loss stopped falling:
    take several seeds and keep the best.

    Examples
    --------
    >>> from iclimit.simulate.descent.regression import Regression
    >>> from iclimit.simulate.descent.training import train_attention
    >>> problem = Regression(context=8, dim=2, input_law="uniform")
    >>> run = train_attention(problem, optimizer="lbfgs", batch=4096, rng=0)
    >>> run.converged, bool(run.losses[-1] < 0.5 * run.losses[0])
    (True, True)
    """
    check_choice("optimizer", optimizer, OPTIMIZERS)
    batch = BATCH[optimizer] if batch is None else batch
    check_integers(layers=layers, heads=heads, steps=steps, batch=batch, patience=patience)
    check_positive(learning_rate=learning_rate, init_scale=init_scale)
    if clip != math.inf:
        check_positive(clip=clip)
    if not isinstance(problem, Regression):
        raise TypeError(f"problem must be a Regression, got {problem!r}")
    if not isinstance(snapshots, Sequence):
        raise TypeError(f"snapshots must be a sequence of integers, got {snapshots!r}")
    for step in snapshots:
        check_integers(snapshots=step)
    place = get_backend(backend)
    weight_rng, prompt_rng = map(place.generator, seed_sequences(rng, 2))
    objective = _Objective(place, problem, prompt_rng, layers, shared, include_query, batch)
    size = problem.dim + 1
    weights = init_scale * weight_rng.standard_normal(
        (1 if shared else layers, 4, heads, size, size)
    )
    with tqdm(total=steps, disable=not progress, unit="step", desc="training") as bar:
        if optimizer == "adam":
            run = _adam(objective, _Run(weights, snapshots), bar, learning_rate, clip, patience)
        else:
            run = _lbfgs(objective, _Run(weights, snapshots), bar)
    parameters = {
        "problem": problem,
        "layers": layers,
        "heads": heads,
        "shared": shared,
        "include_query": include_query,
        "optimizer": optimizer,
        "steps": steps,
        "batch": batch,
        "learning_rate": learning_rate,
        "clip": clip,
        "patience": patience,
        "init_scale": init_scale,
        "backend": backend,
    }
    return TrainedAttention(
        objective.stack(run.weights),
        np.array(run.losses),
        run.steps,
        run.converged,
        run.interrupted,
        parameters,
        {step: objective.stack(weights) for step, weights in run.kept.items()},
    )


@dataclass(frozen=True)
class _Objective:
    """Loss of weights (depth, 4, heads, D, D) and its gradient."""

    place: Backend
    problem: Regression
    generator: Any
    layers: int
    shared: bool
    include_query: bool
    batch: int

    def stack(self, weights: Array) -> list[Layer]:
        """Layers in the order of application."""
        stack = [
            Layer(*(weights[depth, kind, ...] for kind in range(4)))
            for depth in range(weights.shape[0])
        ]
        return stack * self.layers if self.shared else stack

    def pack(self, gradients: list[Layer]) -> Array:
        """Gradient by the weights from those by the layers."""
        xp = self.place.xp
        parts = xp.stack([xp.stack([g.key, g.query, g.value, g.projection]) for g in gradients])
        return xp.sum(parts, axis=0, keepdims=True) if self.shared else parts

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """Tokens and labels of fresh prompts."""
        size = max(1, TOKEN_BLOCK // ((self.problem.context + 1) * (self.problem.dim + 1)))
        for start in range(0, self.batch, size):
            count = min(size, self.batch - start)
            prompts = self.problem.sample(self.place, self.generator, count)
            yield regression_tokens(prompts), prompts.y_query

    def on_tokens(
        self, weights: Array, blocks: Iterable[tuple[Array, Array]]
    ) -> tuple[Any, Array]:
        stack, total = self.stack(weights), self.place.xp.zeros_like(weights)
        mean = 0.0
        for tokens, labels in blocks:
            loss, gradients = loss_and_gradients(
                tokens, labels, stack, include_query=self.include_query
            )
            share = labels.shape[0] / self.batch
            mean += share * loss
            total += share * self.pack(gradients)
        return mean, total

    def fixed(self) -> Callable[[Array], tuple[Any, Array]]:
        """The loss and its gradient on prompts drawn once, by their moments where that pays."""
        size = self.problem.dim + 1
        if self.layers > 1 or size**2 * (size + 1) // 2 > MOMENT_FEATURES:
            blocks = list(self.blocks())
            return lambda weights: self.on_tokens(weights, blocks)
        moments = readout_moments(self.blocks(), include_query=self.include_query)

        def on_moments(weights: Array) -> tuple[Any, Array]:
            loss, gradients = moment_loss_and_gradients(moments, self.stack(weights)[0])
            return loss, self.pack([gradients])

        return on_moments


@dataclass
class _Run:
    """Where an optimiser is."""

    weights: Array
    snapshots: Sequence[int]
    kept: dict[int, Array] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)
    steps: int = 0
    converged: bool = False
    interrupted: bool = False
    unread: list[Any] = field(default_factory=list)

    def read(self) -> None:
        """Copy new losses to the host; refuse a divergent one."""
        losses, self.unread = [float(loss) for loss in self.unread], []
        for loss in losses:
            if not math.isfinite(loss):
                raise ArithmeticError(
                    f"training diverged at step {len(self.losses)}: "
                    "try a smaller init_scale, learning_rate or clip"
                )
            self.losses.append(loss)

    def move(self, weights: Array) -> None:
        """Take a step."""
        self.weights, self.steps = weights, self.steps + 1
        if self.steps in self.snapshots:
            self.kept[self.steps] = weights


def _adam(
    objective: _Objective, run: _Run, bar: Any, learning_rate: float, clip: float, patience: int
) -> _Run:
    xp = objective.place.xp
    first, second = xp.zeros_like(run.weights), xp.zeros_like(run.weights)
    plateau, end = 2 * bar.total // 3, bar.total
    # glibc keeps freed memory only up to the size of the largest block ever freed: without this
    # every step returns its arrays to the system and faults them in again: 6.3 ms instead of 4.2
    # for the default batch at N = D = 10.
    np.empty(2**22 - 2**10)
    try:
        while run.steps < end:
            loss, gradient = objective.on_tokens(run.weights, objective.blocks())
            run.unread.append(loss)
            if run.steps % looks_every(xp) == 0:
                run.read()
            norm = xp.sqrt(xp.sum(gradient**2))
            steep, one = norm > clip, xp.ones_like(norm)
            gradient = gradient * xp.where(steep, clip / xp.where(steep, norm, one), one)
            first = DECAY[0] * first + (1 - DECAY[0]) * gradient
            second = DECAY[1] * second + (1 - DECAY[1]) * gradient**2
            rate = learning_rate * min(1.0, (end - run.steps) / (end - plateau))
            factor = rate * math.sqrt(1 - DECAY[1] ** (run.steps + 1))
            factor /= 1 - DECAY[0] ** (run.steps + 1)
            run.move(run.weights - factor * first / (xp.sqrt(second) + TINY))
            bar.update()
            if run.steps % patience == 0:
                run.read()
                bar.set_postfix(loss=f"{np.mean(run.losses[-patience:]):.4g}", refresh=False)
                if run.steps < plateau and _stalled(np.array(run.losses), patience):
                    plateau, end, run.converged = run.steps, 3 * run.steps // 2, True
    except KeyboardInterrupt:
        run.interrupted = True
    run.read()
    return run


def _stalled(losses: np.ndarray, patience: int) -> bool:
    """Whether the loss fell before, and no longer does."""
    recent = losses[-patience:]

    def higher(past: np.ndarray) -> bool:
        error = math.sqrt((np.var(past) + np.var(recent)) / patience)
        return bool(np.mean(past) - np.mean(recent) > 2 * error)

    return higher(losses[:patience]) and not higher(losses[-2 * patience : -patience])


def _lbfgs(objective: _Objective, run: _Run, bar: Any) -> _Run:
    place, shape = objective.place, run.weights.shape

    def keep(intermediate_result: Any) -> None:
        run.unread.append(intermediate_result.fun)
        run.read()
        # SciPy goes on to change x in place.
        run.move(place.asarray(intermediate_result.x.reshape(shape).copy()))
        bar.set_postfix(loss=f"{run.losses[-1]:.4g}", refresh=False)
        bar.update()

    try:
        value = objective.fixed()
        run.unread.append(value(run.weights)[0])
        run.read()

        def on_host(flat: np.ndarray) -> tuple[float, np.ndarray]:
            loss, gradient = value(place.asarray(flat.reshape(shape)))
            return float(loss), to_host(gradient).reshape(-1)

        result = minimize(
            on_host,
            to_host(run.weights).reshape(-1),
            jac=True,
            method="L-BFGS-B",
            callback=keep,
            options={"maxiter": bar.total, "maxfun": math.inf, "ftol": FALL, "gtol": 0.0},
        )
        run.converged = bool(result.success)
    except KeyboardInterrupt:
        run.interrupted = True
    return run
