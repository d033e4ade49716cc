r"""Training of linear transformers on regression with random noise levels.

The loss is the adjusted loss, made robust, on large fixed sets of contexts.  It depends on them
through their Gram matrices (`iclimit.simulate.gdpp.gram_pass`) and is minimised by
Levenberg-Marquardt steps (`iclimit.simulate.gdpp.adjusted_loss`).  It has many local minima, so
several starts compete: all of them on few contexts, the best on more, the winner on all.

Vladymyrov et al. (arXiv:2402.14180) train for 200,000 steps of Adam at a rate of 1e-4 on fresh
batches of 2048 prompts, and keep the best of 5 seeds.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from iclimit.checks import check_arguments, check_choice
from iclimit.problem import Problem
from iclimit.results import Ending
from iclimit.simulate.arrays import Backend, Seed, concatenate_fields, get_backend, seed_sequences
from iclimit.simulate.gdpp.adjusted_loss import AdjustedLoss, Descent
from iclimit.simulate.gdpp.contexts import check_versatile, context_blocks
from iclimit.simulate.models.linear_transformer import (
    KINDS,
    LinearTransformer,
    build,
    free_parameters,
    random_parameters,
)
from iclimit.simulate.training.checkpoints import identify
from iclimit.simulate.training.loop import State, TrainingLoop, UnstableTraining
from iclimit.simulate.training.results import Training
from iclimit.statement import named_cell
from iclimit.threads import one_blas_thread

# Rounds of a training: share of the contexts, starts kept for the round (None for all), and the
# relative gain of a step below which a descent ends.
ROUNDS = ((1 / 32, None, 1e-2), (1 / 8, 4, 1e-3), (1.0, 1, 1e-3))

# For the kind "full" that gain is smaller by this factor: descents in hundreds of parameters are
# slower.
_FULL_TOLERANCE = 0.1

# Least number of contexts per parameter in a round: with fewer the best start is the one that
# overfits best.
_CONTEXTS_PER_PARAMETER = 10

# Scale of layers inserted into a shallower transformer, relative to random ones.
_INSERTED = 0.3


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TrainedTransformer(Training):
    """A trained linear transformer, and how it was found.

    Attributes
    ----------
    model : LinearTransformer
        The best one.
    loss : float
        Its adjusted loss on the contexts of the last round that it took a step in.
    start_losses : ndarray (n,)
        Losses that the starts reached in the first round, the random ones first.  Their spread
        shows how many minima there are.  Infinite for a start that overflowed or was not reached.
    steps : int
        Levenberg-Marquardt steps of all descents.
    ending : Ending
        Whether the winner's loss stopped falling before its steps ran out.
    parameters
        See `iclimit.simulate.training.results.Training`.
    """

    model: LinearTransformer
    loss: float
    start_losses: np.ndarray


@named_cell("train_linear_transformer")
def train_linear_transformer(
    problem: Problem,
    *,
    kind: str = "diag",
    layers: int = 1,
    heads: int = 1,
    starts: int = 16,
    contexts: int = 2**15,
    steps: int = 80,
    initial: Sequence[LinearTransformer] = (),
    rare: bool = True,
    rng: Seed,
    backend: str = "numpy",
    checkpoint: str | os.PathLike | None = None,
    progress: bool = False,
) -> TrainedTransformer:
    """Train a linear transformer on regression with random noise levels.

    Parameters
    ----------
    problem : Problem
        Law of the prompts.
    kind : {"full", "axial", "diag", "gd++"}
        Which weights are free, from all to three numbers in a layer; see
        `iclimit.simulate.models.linear_transformer`.
    layers, heads : int >= 1
        Number of layers; number of heads in each layer.
    starts : int >= 1
        Number of random starts.
    contexts : int >= 1
        Number of contexts in the last round of training.  The rounds before have a thirty-second
        and an eighth of them, but at least ten for every parameter.
    steps : int >= 1
        Largest number of steps in a round.
    initial : sequence of LinearTransformer
        Further starts, of the same kind or one it contains, and with the same heads.  A shallower
        one starts once for every place where small random layers can be inserted.
    rare : bool
        Draw weighted contexts from a mixture with more rare ones.  Otherwise deep transformers
        have huge losses on contexts that occur once in 100,000.
    rng : int, SeedSequence or Generator
        Seed of starts and contexts.
    backend : {"numpy", "cupy"}
        Where to compute.
    checkpoint : path, optional
        File that holds the state after every step.  If it exists the training continues from
        there, and its result is the same as without the interruption.
    progress : bool
        Show a progress bar.

    Returns
    -------
    TrainedTransformer
        After Ctrl-C the best transformer so far is returned, marked as interrupted.  If no step
        has been taken, the KeyboardInterrupt is raised again.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the checkpoint is of another training.
    TypeError
        If problem or initial is of another kind.
    RuntimeError
        If the backend is not available.
    OSError
        If the checkpoint cannot be written.
    ArithmeticError
        If the loss of every start in a round is infinite.

    Notes
    -----
    ``converged`` means that the loss stopped falling, not that the minimum is the global one:
    ``start_losses`` shows how many others there are.  A step with 20,000 contexts takes 0.2 s for
    three layers on two cores.

    Examples
    --------
    >>> import iclimit
    >>> from iclimit.simulate.gdpp import train_linear_transformer
    >>> problem = iclimit.Problem(dim=2, context=8, scale=1, noise_law="fixed:1")
    >>> run = train_linear_transformer(problem, layers=1, starts=2, contexts=2000, rng=0)
    >>> run.converged, run.loss < 0.2
    (True, True)
    """
    check_versatile(problem)
    check_choice("kind", kind, KINDS)
    numbers = {"layers": layers, "heads": heads, "starts": starts}
    numbers |= {"contexts": contexts, "steps": steps}
    check_arguments(**numbers)
    if not isinstance(initial, Sequence):
        raise TypeError(f"initial must be a sequence of LinearTransformers, got {initial!r}")
    shallower = [_known_parameters(model, kind, layers, heads, problem.dim) for model in initial]
    seeds = seed_sequences(rng, 1 + len(ROUNDS))
    settings = {
        **{"kind": kind, "backend": backend, "rare": rare},
        **numbers,
        "initial": [identify(known) for known in shallower],
        "seed": [str(seeds[0].entropy), list(seeds[0].spawn_key[:-1])],
        "problem": identify(problem),
    }
    device = get_backend(backend)
    title = f"{kind}, {layers} layers"
    loop = TrainingLoop(
        State([]), checkpoint=checkpoint, settings=settings, progress=progress, title=title
    )
    if loop.state.memory:
        tournament = _Tournament.of(loop.state.memory)
    else:
        generator = np.random.default_rng(seeds[0])
        tournament = _Tournament(_starts(problem, shallower, loop.settings, generator))
    with loop:
        while tournament.round < len(ROUNDS):
            _run_round(tournament, problem, device, seeds[1 + tournament.round], loop)
    descents = tournament.descents
    if loop.interrupted and not any(math.isfinite(descent.loss) for descent in descents):
        raise KeyboardInterrupt
    # After an interruption the losses of untouched descents are those on fewer contexts.
    best = min(
        descents, key=lambda descent: (descent.loss == math.inf, descent.steps == 0, descent.loss)
    )
    return TrainedTransformer(
        model=build(kind, best.parameters, problem.dim),
        loss=best.loss,
        start_losses=np.array(tournament.start_losses or [descent.loss for descent in descents]),
        steps=loop.state.steps,
        ending=Ending.of(converged=best.converged, interrupted=loop.interrupted),
        parameters=settings | {"problem": problem},
    )


@dataclass
class _Tournament:
    """The descents that still compete, and the round."""

    descents: list[Descent]
    round: int = 0
    start_losses: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, memory: Mapping[str, Any]) -> _Tournament:
        """From what a checkpoint holds."""
        return cls(
            **{**memory, "descents": [Descent(**descent) for descent in memory["descents"]]}
        )

    def end_round(self) -> None:
        """Keep the best descents for the next round."""
        if self.round == 0:
            self.start_losses = [descent.loss for descent in self.descents]
        self.round += 1
        if self.round < len(ROUNDS):
            kept = sorted(self.descents, key=lambda descent: descent.loss)[: ROUNDS[self.round][1]]
            self.descents = [Descent(descent.parameters, descent.loss) for descent in kept]


def _starts(
    problem: Problem,
    shallower: list[np.ndarray],
    settings: Mapping[str, Any],
    generator: np.random.Generator,
) -> list[Descent]:
    """Random starts, and the given ones with small random layers inserted at every place."""

    sizes = {"heads": settings["heads"], "dim": problem.dim, "context": problem.context}
    law = sizes | {"kind": settings["kind"], "variance": problem.mean_noise_variance}
    draw = partial(random_parameters, generator, **law)
    starts = [draw(layers=settings["layers"]) for _ in range(settings["starts"])]
    for known in shallower:
        missing = settings["layers"] - len(known)
        if missing == 0:
            starts.append(known)
        else:
            inserted = (_INSERTED * draw(layers=missing) for _ in range(len(known) + 1))
            starts += [np.insert(known, at, new, axis=0) for at, new in enumerate(inserted)]
    return [Descent(parameters) for parameters in starts]


def _run_round(
    state: _Tournament,
    problem: Problem,
    backend: Backend,
    seed: np.random.SeedSequence,
    loop: TrainingLoop,
) -> None:
    """Run the descents of a round to their ends, and keep the best for the next.

    Raises
    ------
    UnstableTraining
        If all losses are infinite.
    """
    settings = loop.settings
    kind = settings["kind"]
    contexts = settings["contexts"]
    share, _, tolerance = ROUNDS[state.round]
    if kind == "full":
        tolerance *= _FULL_TOLERANCE
    least = _CONTEXTS_PER_PARAMETER * state.descents[0].parameters.size
    count = min(contexts, max(math.ceil(share * contexts), least))
    sample_seed, probe_seed = seed.spawn(2)
    host = get_backend("numpy")
    summaries = concatenate_fields(
        context_blocks(problem, host, count, sample_seed, rare=settings["rare"])
    )
    # BLAS leaves the cores to the blocks of contexts.
    with one_blas_thread, ThreadPoolExecutor(os.cpu_count()) as pool:
        run = pool.map if backend.name == "numpy" else map
        probes = np.random.default_rng(probe_seed)
        objective = AdjustedLoss(summaries, kind, backend, probes, run)
        for descent in state.descents:
            while descent.steps < settings["steps"] and not descent.converged:
                descent.advance(objective, tolerance)
                loop.bar.set_postfix(round=state.round + 1, loss=f"{descent.loss:.4g}")
                loop.advance(State([], loop.state.steps + 1, asdict(state)))
    if not any(math.isfinite(descent.loss) for descent in state.descents):
        known = f", {min(state.start_losses):.4g} in round 1" if state.start_losses else ""
        raise UnstableTraining(
            f"the loss of every start is infinite in round {state.round + 1}, after step "
            f"{loop.state.steps}{known}"
        )
    state.end_round()


def _known_parameters(model: object, kind: str, layers: int, heads: int, dim: int) -> np.ndarray:
    """Parameters of a given start that is not too deep."""
    if not isinstance(model, LinearTransformer):
        raise TypeError(f"initial must hold LinearTransformers, got {model!r}")
    known = free_parameters(model, kind)
    if len(known) > layers or known.shape[1] != heads or model.dim != dim:
        raise ValueError(
            f"initial must have at most {layers} layers, {heads} heads and dimension {dim}, "
            f"got {len(known)}, {known.shape[1]} and {model.dim}"
        )
    return known
