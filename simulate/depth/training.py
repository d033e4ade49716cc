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

import math
from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike

from iclimit.checks import by_name, check_arguments, check_choice, check_flag, parse_array
from iclimit.simulate.arrays import Array, Seed, get_backend, to_host
from iclimit.simulate.depth.draws import ContextLaw, HeldOut, check_sizes, parse_spectra
from iclimit.simulate.depth.stacks import loss_and_gradient, mean_losses
from iclimit.simulate.training.loop import State, TrainingLoop, UnstableTraining
from iclimit.simulate.training.results import TrainingCurves, curves_of
from iclimit.simulate.training.rules import Adam, GradientDescent
from iclimit.simulate.training.stability import UNSTABLE

SETTINGS = ("fs", "rrs")
OPTIMIZERS = ("sgd", "adam")

MEASURES = ("held_out", "median", "standard_error", "traces", "squares")


def train_depth(
    *,
    depth: int,
    eigenvalues: ArrayLike,
    task_spectrum: ArrayLike | None = None,
    setting: str = "rrs",
    shared: bool = False,
    context: int | float = math.inf,
    query_count: int | float = math.inf,
    width: int | float = math.inf,
    noise_variance: float = 0.0,
    query_noise_variance: float = 0.0,
    initial: ArrayLike = 0.0,
    batch: int,
    learning_rate: float,
    optimizer: str = "sgd",
    steps: int,
    record: int = 1,
    held_out: int = 64,
    repeats: int = 4,
    rng: Seed,
    backend: str = "numpy",
    progress: bool = False,
) -> TrainingCurves:
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
        the ``weights[0]`` of another training.
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
    progress : bool
        Show a progress bar.

    Returns
    -------
    TrainingCurves
        Times are steps times the learning rate, for SGD, see the module.  ``losses`` are those of
        the batches, on labels with noise.  ``measures`` has, each (repeats, n) or
        (repeats, n, matrices):

        - "held_out": mean squared error on noiseless query labels, mean over held-out contexts of
          the loss that is exact given the covariance of a context, averaged over queries, tasks
          and label noise; "median" is the median over these contexts, and "standard_error" the
          standard error over them, which are the same at all records: 0 where all contexts have
          the same loss;
        - "traces": :math:`\operatorname{tr} \Gamma_l/d`, and "squares": :math:`|\Gamma_l|^2/d`, of
          one matrix for layers that share it, else of L.  With the traces t the squares give the
          distances :math:`|\Gamma_l - c I|^2/d`: squares - 2 c t + :math:`c^2`.

        ``weights`` holds one array (repeats, matrices, d, d), the matrices after the last step.

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
    covariances at infinite context and width, where the standard errors are 0.

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
    >>> held_out = run.measures["held_out"]
    >>> held_out.shape, run.measures["traces"].shape, bool(0.3 < held_out[:, -1].mean() < 0.5)
    ((4, 61), (4, 61, 1), True)

    Two untied layers, whose covariance is rotated afresh in each context:

    >>> lam = 1 / np.arange(1.0, 7.0)
    >>> run = train_depth(
    ...     depth=2, eigenvalues=lam, batch=32, learning_rate=0.5, steps=200, record=200, rng=0
    ... )
    >>> (run.measures["held_out"][:, -1] / lam.mean()).round(2)
    array([0.09, 0.09, 0.09, 0.09])
    """
    lam, omega = parse_spectra(eigenvalues, task_spectrum)
    check_choice("setting", setting, SETTINGS)
    check_choice("optimizer", optimizer, OPTIMIZERS)
    check_flag("shared", shared)
    check_sizes({"context": context, "query_count": query_count, "width": width})
    check_arguments(
        depth=depth,
        noise_variance=noise_variance,
        query_noise_variance=query_noise_variance,
        batch=batch,
        learning_rate=learning_rate,
        held_out=held_out,
        steps=steps,
        record=record,
        repeats=repeats,
    )
    device = get_backend(backend)
    law = ContextLaw(
        device,
        lam,
        omega,
        setting == "rrs",
        context,
        query_count,
        noise_variance,
        query_noise_variance,
    )
    generators = device.generators(rng, repeats)
    stack = _Stack(law, depth, shared, law.draw_projector(generators, width))
    fresh = law.draw_held_out(generators, held_out)
    start = device.asarray(_parse_initial(initial, 1 if shared else depth, repeats, lam.size))
    loop = TrainingLoop(
        State([stack.projected(start)]), steps=steps, record=record, progress=progress
    )

    def gradient(_: int, weights: list[Array]) -> tuple[Array, list[Array]]:
        return stack.gradient(weights, law.draw_batch(generators, batch, stack.projector))

    def measure(weights: list[Array], _: list[Array]) -> dict[str, np.ndarray]:
        with np.errstate(over="ignore", invalid="ignore"):
            measured = _summarize(stack.losses(weights, fresh), weights[0])
        _refuse_unstable(
            measured["median"], UNSTABLE * np.mean(lam * omega), learning_rate, loop.state.steps
        )
        return measured

    descent = GradientDescent(learning_rate * (1 if shared else depth))
    with loop:
        loop.descend(gradient, Adam(learning_rate) if optimizer == "adam" else descent, measure)
    parameters = by_name(
        depth=depth,
        eigenvalues=lam.tolist(),
        task_spectrum=omega.tolist(),
        setting=setting,
        shared=shared,
        context=context,
        query_count=query_count,
        width=width,
        noise_variance=noise_variance,
        query_noise_variance=query_noise_variance,
        batch=batch,
        learning_rate=learning_rate,
        optimizer=optimizer,
        held_out=held_out,
        backend=backend,
    )
    return curves_of(loop, time_step=learning_rate, measures=MEASURES, parameters=parameters)


@dataclass(frozen=True)
class _Stack:
    """Layers that are trained on contexts of a law.

    Attributes
    ----------
    law : ContextLaw
        The law.
    depth : int
        Number of layers.
    shared : bool
        Whether all have the same matrix.
    projector : array, optional
        Directions that a smaller width leaves.
    """

    law: ContextLaw
    depth: int
    shared: bool
    projector: Array | None

    def projected(self, gammas: Array) -> Array:
        """Matrices within a smaller width."""
        if self.projector is None:
            return gammas
        return self.projector[:, None, :, :] @ gammas @ self.projector[:, None, :, :]

    def layers(self, weights: list[Array]) -> list[Array]:
        """Matrices of all layers."""
        return [weights[0][:, 0 if self.shared else layer, :, :] for layer in range(self.depth)]

    def gradient(
        self, weights: list[Array], drawn: tuple[Array, ...]
    ) -> tuple[Array, list[Array]]:
        """Losses of a batch and d/2 times their gradient, in the shape of the matrices."""
        xp = array_namespace(weights[0])
        losses, gradients = loss_and_gradient(self.layers(weights), *drawn)
        stacked = xp.stack(gradients, axis=1)
        if self.shared:
            stacked = xp.sum(stacked, axis=1, keepdims=True)
        return xp.mean(losses, axis=1), [stacked]

    def losses(self, weights: list[Array], contexts: HeldOut) -> np.ndarray:
        """Losses (repeats, contexts)."""
        xp = array_namespace(weights[0])
        layers = self.layers(weights)
        blocks = [
            mean_losses(layers, *block, self.law.relative_noise, self.projector)
            for block in contexts.blocks(xp)
        ]
        return to_host(xp.concat(blocks, axis=1))


def _refuse_unstable(
    medians: np.ndarray, largest: float, learning_rate: float, steps: int
) -> None:
    """Raise an UnstableTraining if a median loss of the repeats has grown too large."""
    medians = np.nan_to_num(medians, nan=math.inf)
    if np.max(medians) > largest:
        raise UnstableTraining(
            f"{learning_rate = !r} or initial is too large: the median loss of repeat "
            f"{np.argmax(medians)} is {np.max(medians):.3g} after {steps} steps"
        )


def _parse_initial(initial: ArrayLike, matrices: int, repeats: int, dim: int) -> np.ndarray:
    """Matrices at the start, (repeats, matrices, d, d)."""
    shape = (repeats, matrices, dim, dim)
    given = parse_array("initial", initial, (), (matrices,), shape)
    if given.ndim < 4:
        given = np.broadcast_to(given, (matrices,))[:, None, None] * np.eye(dim)
    return np.broadcast_to(given, shape).copy()


def _summarize(losses: np.ndarray, gammas: Array) -> dict[str, np.ndarray]:
    """What is recorded of losses (repeats, contexts) and matrices, each with the repeats first."""
    xp = array_namespace(gammas)
    dim = gammas.shape[-1]
    count = losses.shape[1]
    spread = np.std(losses, axis=1, ddof=1) if count > 1 else np.zeros(len(losses))
    return {
        "held_out": np.mean(losses, axis=1),
        "median": np.median(losses, axis=1),
        "standard_error": spread / math.sqrt(count),
        "traces": to_host(xp.linalg.trace(gammas)) / dim,
        "squares": to_host(xp.sum(gammas**2, axis=(-2, -1))) / dim,
    }
