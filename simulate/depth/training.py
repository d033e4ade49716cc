r"""Training of deep linear attention on fresh contexts, by SGD or Adam.

A step draws B contexts, each with a task :math:`\beta \sim N(0, \Omega)`, P labelled tokens and K
queries,

.. math:: x \sim N(0, \Sigma), \qquad y = x \cdot \beta/\sqrt d + \sigma\epsilon,

and moves the reduced matrices of the layers down the gradient of the mean squared error
:math:`\mathcal L` on the queries (`iclimit.simulate.depth.stacks`),

.. math:: \Gamma_l \to \Gamma_l - \eta\,\frac{c\,d}2\,\nabla_{\Gamma_l} \mathcal L, \qquad
   c = \begin{cases} 1 & \text{layers that share one matrix,} \\ L & \text{otherwise.}
   \end{cases}

With the factor c equal layers move alike in both cases.  For one layer and isotropic data the mean
gradient is :math:`A_0 \Gamma - I`.  So :math:`\eta` times the number of steps is a time of
the flow :math:`\dot\Gamma = -\frac d2 \nabla \mathcal L`.

Covariances are those of the two settings of Bordelon, Letey and Pehlevan (arXiv:2510.01098):
``"fs"`` has fixed :math:`\Sigma = \Lambda` and :math:`\Omega`, both diagonal, and ``"rrs"``
:math:`O \Lambda O^\top` and :math:`O \Omega O^\top` with a random rotation O of each context.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from iclimit.checks import check_arguments, check_choice, check_flags, parse_array
from iclimit.results import Estimate, Result
from iclimit.simulate.arrays import Array, get_backend, to_host
from iclimit.simulate.depth.contexts import parse_spectrum
from iclimit.simulate.depth.draws import ContextLaw, HeldOut
from iclimit.simulate.depth.stacks import loss_and_gradient, mean_losses
from iclimit.simulate.dynamics.stability import UNSTABLE
from iclimit.simulate.optimizers import adam_step

SETTINGS = ("fs", "rrs")
OPTIMIZERS = ("sgd", "adam")


@dataclass(frozen=True, eq=False, repr=False)
class DepthTraining(Result):
    r"""Training of deep linear attention.

    Attributes
    ----------
    steps : ndarray (n,)
        Numbers of steps before each record.
    losses : ndarray (repeats, n)
        Mean squared error on noiseless query labels: mean over held-out contexts of the loss that
        is exact given the covariance of a context, averaged over queries, tasks and label noise.
    medians : ndarray (repeats, n)
        The medians over these contexts.
    standard_errors : ndarray (repeats, n)
        Standard errors of ``losses`` over held-out contexts, which are the same at all records; 0
        where all contexts have the same loss.
    traces : ndarray (repeats, n, matrices)
        :math:`\operatorname{tr} \Gamma_l/d`; one matrix for layers that share it, else L.
    squares : ndarray (repeats, n, matrices)
        :math:`|\Gamma_l|^2/d`.  With the traces t these give the distances
        :math:`|\Gamma_l - c I|^2/d`: squares - 2 c t + :math:`c^2`.
    gammas : ndarray (repeats, matrices, d, d)
        Matrices after the last step.
    parameters : dict
        What was simulated.
    """

    steps: np.ndarray
    losses: np.ndarray = field(repr=False)
    medians: np.ndarray = field(repr=False)
    standard_errors: np.ndarray = field(repr=False)
    traces: np.ndarray = field(repr=False)
    squares: np.ndarray = field(repr=False)
    gammas: np.ndarray = field(repr=False)
    parameters: dict[str, Any] = field(repr=False)

    @property
    def loss(self) -> tuple[Estimate, ...]:
        """Loss at each record: mean over repeats, whose held-out contexts are independent."""
        return tuple(map(Estimate.of, self.losses.T))

    @property
    def times(self) -> np.ndarray:
        """Steps times the learning rate, for SGD; see the module."""
        return self.parameters["learning_rate"] * self.steps


def train_depth(
    *,
    depth: int,
    eigenvalues: Any,
    task_spectrum: Any = None,
    setting: str = "rrs",
    shared: bool = False,
    context: int | float = math.inf,
    query_count: int | float = math.inf,
    width: int | float = math.inf,
    noise_variance: float = 0.0,
    query_noise_variance: float = 0.0,
    initial: Any = 0.0,
    batch: int,
    learning_rate: float,
    optimizer: str = "sgd",
    steps: int,
    record: int = 1,
    held_out: int = 64,
    repeats: int = 4,
    rng: Any,
    backend: str = "numpy",
) -> DepthTraining:
    r"""Train the reduced matrices of deep linear attention on fresh contexts.

    Parameters
    ----------
    depth : int >= 1
        Number L of layers.
    eigenvalues : array (d,)
        Eigenvalues of the covariance of the inputs, >= 0; ones for isotropic inputs.
    task_spectrum : array (d,), optional
        Eigenvalues of the covariance of the tasks, >= 0, in the order of those of the inputs; 1 by
        default.
    setting : {"rrs", "fs"}
        Covariances rotated at random in each context, or fixed and diagonal.
    shared : bool
        Whether all layers have one matrix.
    context : int >= 1, or inf
        Context length P, in training and in held-out contexts.
    query_count : int >= 1, or inf
        Queries K of each context in training.
    width : int >= 1, or inf
        Width N of the residual stream, which sees the inputs through a random projection, one for
        each repeat.
    noise_variance : float >= 0
        Variance of the noise of context labels.
    query_noise_variance : float >= 0
        The same for query labels in training.  With infinitely many queries it has no effect.
    initial : number, array (L,) or array (repeats, matrices, d, d)
        Matrices at the start: a multiple of the identity, one for each layer, or matrices such as
        the ``gammas`` of another training.
    batch : int >= 1
        Contexts B of a step, each with one task.
    learning_rate : float > 0
        Learning rate :math:`\eta`, in the units of the module.  For Adam the size of a step of
        an entry of a matrix.
    optimizer : {"sgd", "adam"}
        Plain steps, or Adam without decay of the rate.
    steps : int >= 1
        Number of steps.
    record : int >= 1
        Steps between records, the first before the first step; the last step has one too.
    held_out : int >= 2
        Fresh contexts on which losses are recorded.
    repeats : int >= 1
        Independent trainings, side by side.
    rng : int, SeedSequence or Generator
        Root seed.  Repeat r depends on (root, r) only, so more repeats extend fewer.
    backend : {"numpy", "cupy"}
        Where to compute.

    Returns
    -------
    DepthTraining

    Raises
    ------
    ValueError
        If an argument is outside its range, or shapes do not fit.
    TypeError
        If ``shared`` is no flag.
    RuntimeError
        If the backend is not available.
    ArithmeticError
        If training diverges: the learning rate or the start is too large.

    Notes
    -----
    Losses need no sampling but for the covariance of the context: none for fixed or isotropic
    covariances at infinite context and width, where ``standard_errors`` are 0.

    Rare contexts can carry the mean of many steps at finite context; compare medians there.

    All contexts of a step are in memory at once: repeats times batch times (context + query_count)
    times d numbers, and d for each size that is infinite.

    References
    ----------
    Bordelon, Letey, Pehlevan, arXiv:2510.01098.

    Examples
    --------
    One layer learns isotropic data at a context of twice the dimension:

    >>> import numpy as np
    >>> from iclimit.simulate.depth import train_depth
    >>> setting = dict(eigenvalues=np.ones(20), context=40, batch=20, rng=0)
    >>> run = train_depth(depth=1, **setting, query_count=20, learning_rate=0.05, steps=60)
    >>> run.losses.shape, run.traces.shape, 0.3 < run.loss[-1].mean < 0.5
    ((4, 61), (4, 61, 1), True)

    Two untied layers, whose covariance is rotated afresh in each context:

    >>> lam = 1 / np.arange(1.0, 7.0)
    >>> run = train_depth(
    ...     depth=2, eigenvalues=lam, batch=32, learning_rate=0.5, steps=200, record=200, rng=0
    ... )
    >>> (run.losses[:, -1] / lam.mean()).round(2)
    array([0.09, 0.09, 0.09, 0.09])
    """
    lam = parse_spectrum("eigenvalues", eigenvalues, (None,))
    tasks = np.ones_like(lam) if task_spectrum is None else task_spectrum
    omega = parse_spectrum("task_spectrum", tasks, lam.shape)
    check_choice("setting", setting, SETTINGS)
    check_choice("optimizer", optimizer, OPTIMIZERS)
    check_flags(shared=shared)
    finite = {"context": context, "query_count": query_count, "width": width}
    check_arguments(**{name: size for name, size in finite.items() if size != math.inf})
    check_arguments(
        depth=depth,
        noise_variance=noise_variance,
        query_noise_variance=query_noise_variance,
        batch=batch,
        learning_rate=learning_rate,
        steps=steps,
        record=record,
        held_out=held_out,
        repeats=repeats,
    )
    device = get_backend(backend)
    start = _parse_initial(initial, 1 if shared else depth, repeats, lam.size)
    noises = noise_variance, query_noise_variance
    law = ContextLaw(device, lam, omega, setting == "rrs", context, query_count, *noises)
    generators = device.generators(rng, repeats)
    projector = law.draw_projector(generators, width)
    fresh = law.draw_held_out(generators, held_out)
    run = _Run(depth, shared, law, projector, fresh)
    gammas = device.asarray(start)
    if projector is not None:
        gammas = projector[:, None, :, :] @ gammas @ projector[:, None, :, :]
    scale = learning_rate * (1 if shared or optimizer == "adam" else depth)
    first = second = 0.0 * gammas
    records: dict[int, dict[str, np.ndarray]] = {}
    for step in range(steps + 1):
        if step % record == 0 or step == steps:
            records[step] = run.measure(gammas)
            medians = np.nan_to_num(records[step]["medians"], nan=math.inf)
            if np.max(medians) > UNSTABLE * np.mean(lam * omega):
                raise ArithmeticError(
                    f"{learning_rate = !r} or initial is too large: the median loss of repeat "
                    f"{np.argmax(medians)} is {np.max(medians):.3g} after {step} steps"
                )
        if step < steps:
            with np.errstate(over="ignore", invalid="ignore"):
                move = run.gradient(gammas, generators, batch)
                if optimizer == "adam":
                    move, first, second = adam_step(move, first, second, step)
                gammas = gammas - scale * move
    parameters = {
        "depth": depth,
        "eigenvalues": lam.tolist(),
        "task_spectrum": omega.tolist(),
        "setting": setting,
        "shared": shared,
        **finite,
        "noise_variance": noise_variance,
        "query_noise_variance": query_noise_variance,
        "batch": batch,
        "learning_rate": learning_rate,
        "optimizer": optimizer,
        "held_out": held_out,
        "backend": backend,
    }
    curves = {
        name: np.stack([each[name] for each in records.values()], axis=1) for name in records[0]
    }
    return DepthTraining(
        steps=np.array(list(records)), **curves, gammas=to_host(gammas), parameters=parameters
    )


def _parse_initial(initial: Any, matrices: int, repeats: int, dim: int) -> np.ndarray:
    """Matrices at the start, (repeats, matrices, d, d)."""
    shape = (repeats, matrices, dim, dim)
    given = parse_array("initial", initial, (), (matrices,), shape)
    if given.ndim < 4:
        given = np.broadcast_to(given, (matrices,))[:, None, None] * np.eye(dim)
    return np.broadcast_to(given, shape).copy()


@dataclass(frozen=True)
class _Run:
    """What a training repeats: gradients on fresh contexts and losses on held-out ones."""

    depth: int
    shared: bool
    law: ContextLaw
    projector: Array | None
    held_out: HeldOut

    def layers(self, gammas: Array) -> list[Array]:
        """Matrices of all layers."""
        return [gammas[:, 0 if self.shared else each, :, :] for each in range(self.depth)]

    def gradient(self, gammas: Array, generators: list[Any], batch: int) -> Array:
        """d/2 times the gradient on a batch, in the shape of the matrices."""
        xp = array_namespace(gammas)
        drawn = self.law.draw_batch(generators, batch, self.projector)
        _, gradients = loss_and_gradient(self.layers(gammas), *drawn)
        stacked = xp.stack(gradients, axis=1)
        return xp.sum(stacked, axis=1, keepdims=True) if self.shared else stacked

    def measure(self, gammas: Array) -> dict[str, np.ndarray]:
        """What is recorded, each with the repeats first."""
        xp, layers = array_namespace(gammas), self.layers(gammas)
        with np.errstate(over="ignore", invalid="ignore"):
            found = [
                mean_losses(layers, *block, self.law.relative_noise, self.projector)
                for block in self.held_out.blocks(xp)
            ]
            losses = to_host(xp.concat(found, axis=1))
            count = losses.shape[1]
            spread = np.std(losses, axis=1, ddof=1) if count > 1 else np.zeros(len(losses))
            return {
                "losses": np.mean(losses, axis=1),
                "medians": np.median(losses, axis=1),
                "standard_errors": spread / math.sqrt(count),
                "traces": to_host(xp.linalg.trace(gammas)) / gammas.shape[-1],
                "squares": to_host(xp.sum(gammas**2, axis=(-2, -1))) / gammas.shape[-1],
            }
