r"""Training of linear attention layers from random weights.

All of key, query, value and projection are trained.  Adam (Kingma and Ba, arXiv:1412.6980) draws
fresh prompts at every step.  Its learning rate is constant until the loss no longer falls and then
goes linearly to zero: at a constant rate the weights keep jittering (at 0.01 for N = 50, D = 10,
two percent above the least loss).  L-BFGS minimises the loss over one fixed batch.  The loss
of a single layer depends on that batch through its moments only, so that an iteration costs the
same for any number of prompts.

Settings of von Oswald et al., arXiv:2212.07677, for comparison: 5000 steps of Adam at a rate of
1e-3 on batches of 2048 prompts, gradients clipped to a norm of 1e-3, initial standard deviation
0.0135.  Defaults here reach the loss of one gradient-descent step in a tenth of that.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from iclimit.checks import check_arguments, check_choice, check_integers
from iclimit.results import Result
from iclimit.simulate.arrays import Array, Backend, get_backend, seed_sequences
from iclimit.simulate.descent.gradients import (
    loss_and_gradients,
    moment_loss_and_gradients,
    readout_moments,
)
from iclimit.simulate.descent.regression import Regression, regression_tokens
from iclimit.simulate.optimizers import Objective, Run, run_adam, run_lbfgs
from iclimit.simulate.transformer import Layer

BATCH = {"adam": 2048, "lbfgs": 2**16}
"""Prompts by default, for each optimizer."""

NUMBERS = ("layers", "heads", "steps", "batch", "learning_rate", "clip", "patience", "init_scale")
"""Arguments of `train_attention` that are numbers."""

NOT_SETTINGS = ("snapshots", "rng", "progress")
"""Arguments of `train_attention` that the parameters of a result leave out."""

TOKEN_BLOCK = 2**21
"""Most numbers in the tokens that are held at a time (16 MiB)."""

MOMENT_FEATURES = 5000
"""Most features whose moments are formed (200 MB); beyond, L-BFGS runs on the tokens."""


@dataclass(frozen=True, repr=False)
class TrainedAttention(Result):
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
    check_choice("optimizer", optimizer, tuple(BATCH))
    batch = BATCH[optimizer] if batch is None else batch
    parameters = {name: value for name, value in locals().items() if name not in NOT_SETTINGS}
    check_arguments(**{name: parameters[name] for name in NUMBERS})
    if not isinstance(problem, Regression):
        raise TypeError(f"problem must be a Regression, got {problem!r}")
    if not isinstance(snapshots, Sequence):
        raise TypeError(f"snapshots must be a sequence of integers, got {snapshots!r}")
    for step in snapshots:
        check_integers(snapshots=step)
    device = get_backend(backend)
    weight_rng, prompt_rng = map(device.generator, seed_sequences(rng, 2))
    objective = _Objective(device, problem, prompt_rng, layers, shared, include_query, batch)
    shape = (1 if shared else layers, 4, heads, problem.dim + 1, problem.dim + 1)
    run = Run(init_scale * weight_rng.standard_normal(shape), snapshots)
    with tqdm(total=steps, disable=not progress, unit="step", desc="training") as bar:
        if optimizer == "adam":
            run_adam(objective.on_tokens, run, bar, learning_rate, clip, patience)
        else:
            run_lbfgs(objective.fixed, run, bar, device)
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

    device: Backend
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
        xp = self.device.xp
        parts = xp.stack([xp.stack([g.key, g.query, g.value, g.projection]) for g in gradients])
        return xp.sum(parts, axis=0, keepdims=True) if self.shared else parts

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """Tokens and labels of fresh prompts."""
        size = max(1, TOKEN_BLOCK // ((self.problem.context + 1) * (self.problem.dim + 1)))
        for start in range(0, self.batch, size):
            count = min(size, self.batch - start)
            prompts = self.problem.sample(self.device, self.generator, count)
            yield regression_tokens(prompts), prompts.y_query

    def on_tokens(
        self, weights: Array, blocks: Iterable[tuple[Array, Array]] | None = None
    ) -> tuple[Any, Array]:
        """Loss and gradient on given prompts in blocks, by default on fresh ones."""
        stack, total = self.stack(weights), self.device.xp.zeros_like(weights)
        mean = 0.0
        for tokens, labels in self.blocks() if blocks is None else blocks:
            loss, gradients = loss_and_gradients(
                tokens, labels, stack, include_query=self.include_query
            )
            share = labels.shape[0] / self.batch
            mean += share * loss
            total += share * self.pack(gradients)
        return mean, total

    def fixed(self) -> Objective:
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
