"""On anisotropic inputs a trained layer finds the optimal preconditioner.

With correlated inputs, Gaussian or not, tasks of another covariance and label noise, the optimal
preconditioner and its loss are those that simulated contexts give.  About half the layers trained
from random weights end at twice the loss, as steps of rank one, and are counted.  The best of them
is within 1 % of that loss, and the part of its prediction that changes sign with the labels has
the loss of the step read off its weights.

Source: Ahn et al., NeurIPS 2023, arXiv:2306.00297; Zhang, Frei, Bartlett, JMLR 2024,
arXiv:2306.09927; non-commuting covariances and kurtosis: documentation.
"""

import math
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.descent import optimal_preconditioner, preconditioner_loss
from iclimit.problem import Problem
from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent.training import train_attention
from iclimit.simulate.prompts import draw_prompts
from iclimit.statement import Derived, named_cell
from iclimit.validation.claim import Claim, Effort, Rows, call, mean, note, run
from iclimit.validation.claims.descent.contexts import BLOCKS, jackknife
from iclimit.validation.claims.descent.paired import Paired, excess_row, held_out, paired_losses
from iclimit.validation.claims.starts import arrived, describe_starts

# Pairs of a context, and variance of the label noise.
SETTING: dict[str, Any] = {"context": 12, "noise_variance": 0.2}
# Eigenvalues of the inputs.
SPECTRUM = (3.0, 1.5, 0.8, 0.4, 0.2)
# Eigenvalues of the tasks.
TASK_SPECTRUM = (0.3, 2.0, 0.6, 1.5, 1.0)
# Bases of the two covariances.
ROTATIONS = np.linalg.qr(np.random.default_rng(5).standard_normal((2, 5, 5)))[0]
# Matrix that mixes independent coordinates into inputs.
MIXING = (ROTATIONS[0] * np.sqrt(SPECTRUM)) @ ROTATIONS[1]
# Roots of the covariances of inputs and tasks, which do not commute.
TASK_ROOT = ROTATIONS[1] * np.sqrt(TASK_SPECTRUM)
# Excess kurtosis of these coordinates, by their law.
KURTOSIS = {"gaussian": 0.0, "uniform": -1.2}
# Scales at which coordinates have variance 1, as in the theory.
UNIT_SCALE = {"gaussian": 1.0, "uniform": math.sqrt(3)}
# Starts of a training.  Of 24 starts 13 ended where the layer reads out the inputs instead of the
# labels, a step of rank one with twice the loss.  With 10 starts none arrives in one seed of 1000.
STARTS = {"tiny": 4, "quick": 10, "medium": 20}
# Prompts that each is trained on.
TRAINING_SET = 60_000


def statistics(law: str) -> dict[str, Any]:
    """Arguments of the theory."""
    return {
        "input_covariance": MIXING @ MIXING.T,
        "task_covariance": TASK_ROOT @ TASK_ROOT.T,
        "mixing": MIXING,
        "excess_kurtosis": KURTOSIS[law],
        **SETTING,
    }


@named_cell("trained_preconditioner")
def trained_preconditioner(
    *,
    input_law: str,
    optimum: np.ndarray,
    starts: int,
    held_out: int,
    rng: SeedSequence,
    batch: int = TRAINING_SET,
) -> tuple[Paired, tuple[Estimate, ...], list[float]]:
    """Train layers on anisotropic inputs, and compare the best one with the optimal step.

    With it come the diagonal of the preconditioner that is best on simulated contexts, and the
    training losses at the ends of all starts.
    """
    problem = Problem(
        dim=len(SPECTRUM),
        **SETTING,
        input_law=input_law,
        scale=UNIT_SCALE[input_law],
        mixing=MIXING,
        task_covariance=TASK_ROOT @ TASK_ROOT.T,
    )
    training, testing, contexts = rng.spawn(3)
    runs = [
        train_attention(problem, optimizer="lbfgs", batch=batch, rng=seed)
        for seed in training.spawn(starts)
    ]
    losses = [float(run.losses[-1]) for run in runs]
    layer = runs[int(np.argmin(losses))].layers[0]
    paired = paired_losses(problem, layer, optimum, held_out, np.random.default_rng(testing))
    return paired, best_diagonal(problem, held_out, contexts), losses


def best_diagonal(problem: Problem, contexts: int, rng: SeedSequence) -> tuple[Estimate, ...]:
    """Diagonal of the preconditioner of least mean loss over simulated contexts.

    With beta = H w + X^T noise/N it solves A E[beta beta^T] = E[w w^T] E[x x^T], and only the mean
    over tasks and noise is known: E[beta beta^T] = E[H W H] + E[H] times noise variance over N.
    """
    backend = get_backend("numpy")
    generator = np.random.default_rng(rng)
    W = TASK_ROOT @ TASK_ROOT.T
    inputs = MIXING @ MIXING.T
    blocks = []
    for _ in range(BLOCKS):
        x = draw_prompts(problem, backend, generator, contexts // BLOCKS).inputs
        H = np.swapaxes(x, 1, 2) @ x / problem.context
        spread = H @ W @ H + problem.noise_variance / problem.context * H
        blocks.append(np.mean(spread, axis=0))
    return tuple(
        jackknife(lambda mean: np.diag(np.linalg.solve(mean, inputs @ W)), np.array(blocks))
    )


def describe_losses(law: str, losses: list[float]) -> str:
    """How many starts arrive, in words; their losses are those on the prompts of the training."""
    best = float(optimal_preconditioner(**statistics(law)).loss)
    null = float(np.trace(MIXING @ MIXING.T @ TASK_ROOT @ TASK_ROOT.T)) + SETTING["noise_variance"]
    good = arrived(losses, best=best, null=null)
    return describe_starts(f"One layer, {law} inputs", losses, good, best=best)


def rows(effort: Effort) -> Rows:
    """Preconditioners and losses by law of the inputs."""
    for law in KURTOSIS:
        name = f"{law} inputs"
        optimum = optimal_preconditioner(**statistics(law)).matrix
        trained = run(
            trained_preconditioner,
            input_law=law,
            optimum=Derived(optimum, "optimal"),
            starts=effort.pick(**STARTS),
            held_out=10 * held_out(effort),
            batch=effort.pick(tiny=8_000, quick=TRAINING_SET),
        )
        best = call(optimal_preconditioner, **statistics(law))
        layer = trained[0]
        yield mean(f"loss of the optimal step, {name}", best.loss, layer.step)
        own = call(preconditioner_loss, layer.matrix, **statistics(law))
        yield mean(f"loss of descent in the layer, {name}", own, layer.descent)
        yield excess_row(name, layer)
        yield note(call(describe_losses, law, trained[2]))
        for k in range(len(SPECTRUM)):
            label = f"entry {k + 1}, {k + 1} of the preconditioner, {name}"
            yield mean(label, best.matrix[k][k], trained[1][k], draws=law)


claim = Claim.of("gd-preconditioner", __doc__, rows, figure=False)
