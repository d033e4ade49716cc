"""Double descent of a softmax head, beside published transformers.

One merged softmax head is fitted to the end on tau d^2 prompts, d = 8.  Most fits interpolate few
prompts.  Near tau = 1 its test error is above that of predicting zero.  With many prompts the best
head of the theory lies between training and test error, and to leading order in the middle.  The
published transformers of one and two softmax blocks have peaks of similar height.  But their mean
errors are above predicting zero at every tau, and so are both errors behind the published
transition in task diversity.  From the medium preset on a head and a transformer of two blocks are
trained on few tasks.  On these they stay above dMMSE, on fresh tasks above ridge regression, and
with many tasks the transformer is worse than predicting zero on both, as the published ones are.

Source: {lu2025}, Figures 5 and 6, for the transformers; heads derived in the theory of softmax
attention.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.pretraining import finite_size_errors, icl_error, task_gap
from iclimit.asymptotics.softmax import optimal_softmax
from iclimit.drawing import COLOURS, Figure, draw_points, finish, panels, write_key
from iclimit.problem import Problem
from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend, seed_sequences
from iclimit.simulate.networks import AttentionNetwork, train_network
from iclimit.simulate.prompts import Prompts, draw_prompts
from iclimit.simulate.softmax import MergedHeads
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort
from iclimit.validation.reference import read_reference
from iclimit.validation.rows import Rows, bound, call, drawing, mean, note, published, run

# Dimension of our heads, which is their context length too.
DIM = 8
# Noise variance at inputs of covariance I/d.
RHO = 0.01
# Standard deviation of the initial weights.  Below tau = 10 the errors depend on it.
INIT_SCALE = 0.1
# Error of predicting zero.
NULL = 1 + RHO
# Prompts that heads are tested on.
HELD_OUT = 20_000
# Least tau at which the best head is compared.
MANY = 10.0
# Least tau at which it should be in the middle.  The next order goes as 1/tau^2: it is 4 % of the
# error at tau = 30 (measured), so about 0.4 % here.
MIDDLE = 100.0
# Tau at which most fits interpolate.
FEW = 0.5
# Tau near the peak.
PEAK = 1.0
# Training error that counts as interpolation, relative to the test error.
FITTED = 1e-3
# Seeds by tau.
TAUS = {
    "tiny": {0.5: 2, 1.0: 2, 10.0: 3},
    "quick": {0.5: 3, 1.0: 3, 3.0: 3, 10.0: 6},
    "medium": dict.fromkeys((0.3, 0.5, 0.7, 1.0, 1.5, 3.0, 10.0, 30.0, 100.0), 12),
    "full": dict.fromkeys(
        (0.3, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0), 24
    ),
}
# Most iterations of L-BFGS, which stops when one lowers the training error by less than 1e-10 of
# it.
ITERATIONS = {"quick": 300, "medium": 1000, "full": 3000}

# Panels of the published figure with transformers.
BLOCKS = {"5B": "one softmax block", "5C": "two softmax blocks"}
# Setting of the published errors against task diversity.
DIVERSITY: dict[str, Any] = {"tau": 10.0, "alpha": 1.0, "rho": RHO, "ridge": 0.0}
# Name of the head that is trained there on few tasks.
HEAD = "one head"
# Name of the transformer that is trained there.
TRANSFORMER = "two softmax blocks"
# These networks with their iterations.  An iteration of the transformer takes 40 ms.
NETWORKS = {
    HEAD: (MergedHeads(DIM, init_scale=INIT_SCALE), 1000),
    TRANSFORMER: (AttentionNetwork(DIM, layers=2, width=16, mlp=32, layer_norm=True), 100),
}
# Numbers of tasks.
FEW_TASKS = (2, 4, 8, 64)
# Prompts of each test.
TESTED = 4000
# Seeds of each.
TRAINED: dict[str, dict[str, int]] = {
    "quick": {},
    "medium": {HEAD: 12, TRANSFORMER: 4},
    "full": {HEAD: 24, TRANSFORMER: 8},
}


@dataclass(frozen=True)
class FittedHeads:
    """Heads of several seeds.

    Attributes
    ----------
    test, training : list of float
        Errors with noisy query labels.
    converged : int
        Heads whose training error stopped falling.
    """

    test: list[float]
    training: list[float]
    converged: int

    @property
    def succeeded(self) -> np.ndarray:
        """Test and training errors, (2, n), of fits closer to the best than to predicting zero.

        A few end in another minimum: with many prompts training errors are near 0.7, or 0.95.
        """
        errors = np.array([self.test, self.training])
        return errors[:, errors[1] < (np.min(errors[1]) + NULL) / 2]


def fit_to(tau: float) -> dict[str, Any]:
    """Settings of a fit of labels with noise in a given set of prompts."""
    return {"optimizer": "lbfgs", "batch": round(tau * DIM**2), "query_noise": True}


@named_cell("fitted_heads")
def fitted_heads(*, tau: float, repeats: int, iterations: int, rng: SeedSequence) -> FittedHeads:
    """Fit one head for each seed."""
    problem = Problem(dim=DIM, context=DIM, scale=1 / math.sqrt(DIM), noise_variance=RHO)
    head = MergedHeads(DIM, init_scale=INIT_SCALE)
    setting: dict[str, Any] = {"steps": iterations, "held_out": HELD_OUT, **fit_to(tau)}
    seeds = seed_sequences(rng, repeats)
    runs = [train_network(head, problem, **setting, rng=seed) for seed in seeds]
    return FittedHeads(
        [run.held_out.mean + RHO for run in runs],
        [float(run.losses[-1]) for run in runs],
        sum(run.converged for run in runs),
    )


@dataclass(frozen=True)
class FewTasks:
    """Errors of networks that were trained on few tasks, by seed, on noisy labels.

    Attributes
    ----------
    icl, idg : list of float
        Of the network, on fresh tasks and on those of the training.
    ridge, dmmse : list of float
        Least errors of any predictor there: of ridge regression and of dMMSE, on the same prompts.
    """

    icl: list[float]
    idg: list[float]
    ridge: list[float]
    dmmse: list[float]

    @property
    def gap(self) -> Estimate:
        """ICL minus IDG error."""
        return Estimate.of(np.subtract(self.icl, self.idg))

    @property
    def shares(self) -> tuple[Estimate, Estimate]:
        """Least errors over those of the network, on fresh tasks and on those of the training."""
        on_fresh = Estimate.of(np.divide(self.ridge, self.icl))
        on_known = Estimate.of(np.divide(self.dmmse, self.idg))
        return on_fresh, on_known


@named_cell("few_tasks")
def few_tasks(*, network: str, tasks: int, repeats: int, rng: SeedSequence) -> FewTasks:
    """Train a network on a fixed set of prompts with few tasks, once for each seed."""
    device = get_backend("numpy")
    errors_of_seeds = []
    model, iterations = NETWORKS[network]
    for seed in seed_sequences(rng, repeats):
        generator = np.random.default_rng(seed)
        known = generator.standard_normal((tasks, DIM))
        law = Problem(DIM, DIM, tasks=known, scale=1 / math.sqrt(DIM), noise_variance=RHO)
        setting: dict[str, Any] = {"steps": iterations, "held_out": 2, **fit_to(DIVERSITY["tau"])}
        trained = train_network(model, law, **setting, rng=seed)
        errors = []
        for test in (law.with_fresh_tasks(), law):
            drawn = draw_prompts(test, device, generator, TESTED)
            answers = trained(drawn.inputs, drawn.labels, drawn.query), best_answers(drawn, test)
            errors += [RHO + np.mean((answer - drawn.target) ** 2) for answer in answers]
        errors_of_seeds.append(errors)
    icl, ridge, idg, dmmse = np.transpose(errors_of_seeds).tolist()
    return FewTasks(icl, idg, ridge, dmmse)


def best_answers(drawn: Prompts, law: Problem) -> np.ndarray:
    """Posterior means: of ridge regression for fresh tasks, else of dMMSE."""
    if law.task_set is None:
        cross = np.einsum("nld,nl->nd", drawn.inputs, drawn.labels)
        gram = np.einsum("nld,nle->nde", drawn.inputs, drawn.inputs) + RHO * np.eye(DIM)
        return np.einsum("nd,nd->n", np.linalg.solve(gram, cross[..., None])[..., 0], drawn.query)
    misfit = drawn.labels[..., None] - drawn.inputs @ law.task_set.T
    fit = -np.sum(misfit**2, axis=1) / (2 * RHO)
    weights = np.exp(fit - fit.max(axis=1, keepdims=True))
    known = drawn.query @ law.task_set.T
    return np.sum(weights * known, axis=1) / np.sum(weights, axis=1)


def best_error() -> float:
    """Error of the best head with a context of as many pairs as dimensions."""
    best = optimal_softmax(context=DIM, dim=DIM, noise_variance=RHO * DIM)
    return float(best.loss) / DIM + RHO


def training_over_test(heads: FittedHeads) -> float:
    """Median training error over the least test error: a fit in 24 ends in another minimum."""
    return float(np.median(heads.training)) / min(heads.test)


def null_over_test(heads: FittedHeads) -> float:
    """Error of predicting zero over the median test error."""
    return float(NULL / np.median(heads.test))


def training_error(heads: FittedHeads) -> Estimate:
    """Training error of the fits that succeeded."""
    return Estimate.of(heads.succeeded[1])


def best_over_test(heads: FittedHeads) -> Estimate:
    """Error of the best head over the test errors."""
    return Estimate.of(best_error() / heads.succeeded[0])


def middle(heads: FittedHeads) -> Estimate:
    """Middle of training and test error."""
    return Estimate.of(heads.succeeded.mean(axis=0))


def published_rows() -> Rows:
    """Published errors against predicting zero."""
    for row in read_reference("lu_fig5_summary.csv"):
        if row["panel"] in BLOCKS:
            label = f"predicting zero over the least error, {BLOCKS[row['panel']]}, d={row['d']}"
            ratio = NULL / float(row["smallest_mean"])
            yield published(f"published {label}", 1.0, ratio, upper_bound=True)
    gaps = [row for row in read_reference("lu_fig6_gap.csv") if float(row["kappa"]) >= 1]
    for dim in dict.fromkeys(row["d"] for row in gaps):
        least = min(float(row["idg_mean"]) for row in gaps if row["d"] == dim)
        label = f"published predicting zero over the least IDG error, kappa >= 1, d={dim}"
        yield published(label, 1.0, NULL / least, upper_bound=True)


def describe(fits: dict[float, FittedHeads], iterations: int) -> str:
    """Which fits did not end, and which failed, in words."""
    unfinished = ", ".join(
        f"{len(heads.test) - heads.converged} of {len(heads.test)} at tau={tau:g}"
        for tau, heads in fits.items()
        if heads.converged < len(heads.test)
    )
    failed = ", ".join(
        f"{len(heads.test) - heads.succeeded.shape[1]} of {len(heads.test)} at tau={tau:g}"
        for tau, heads in fits.items()
        if tau >= MANY
    )
    return (
        f"Weights start from a standard deviation of {INIT_SCALE}; test errors below tau = 10 "
        "depend on it (heights of the peak from 3 to 6 were seen), and no theory of the height is "
        f"known. Not at the end of L-BFGS after {iterations} iterations: "
        f"{unfinished or 'none'}. Fits nearer to predicting zero than to the best, which are not "
        f"compared: {failed}."
    )


def null_over_idg(errors: FewTasks) -> Estimate:
    """Error of predicting zero over that on the tasks of the training."""
    return Estimate.of(NULL / np.array(errors.idg))


def describe_diversity(trained: Mapping[tuple[str, int], FewTasks]) -> str:
    """Gaps of the errors of networks, in words, beside those of linear attention and dMMSE."""
    lines = []
    for tasks in FEW_TASKS:
        ours = {name: errors for (name, count), errors in trained.items() if count == tasks}
        size: dict[str, Any] = {"dim": DIM, "context": DIM, "tasks": tasks}
        prompts = round(DIVERSITY["tau"] * DIM**2)
        predicted = finite_size_errors(**size, prompts=prompts, rho=RHO, ridge=0.0, rng=0)
        limit = task_gap(kappa=tasks / DIM, **DIVERSITY)
        means = ", ".join(f"{name} {errors.gap}" for name, errors in ours.items())
        least = np.mean(ours[HEAD].dmmse)
        lines.append(
            f"kappa = {tasks / DIM:g}: {means}, linear attention {limit:.3g} in the limit and "
            f"{predicted.icl.mean - predicted.idg.mean:.3g} at this size, "
            f"dMMSE error on its tasks {least:.3g}"
        )
    return (
        f"ICL minus IDG error after training on {DIVERSITY['tau']:g} d^2 prompts, d = {DIM}: "
        f"{'; '.join(lines)}.  The transition to learning in context takes "
        "prompts that are not seen again: claim transformer-transition."
    )


def rows(effort: Effort) -> Rows:
    """Our heads against the best one, and published errors against predicting zero."""
    iterations = effort.pick(**ITERATIONS)
    of = "optimal_softmax.loss"
    fits = {
        tau: run(fitted_heads, tau=tau, repeats=repeats, iterations=iterations)
        for tau, repeats in effort.pick(**TAUS).items()
    }
    ratio = call(training_over_test, fits[FEW])
    yield bound(f"training over test error, tau={FEW:g}", FITTED, ratio)
    label = f"predicting zero over the median test error, tau={PEAK:g}"
    yield bound(label, 1.0, call(null_over_test, fits[PEAK]))
    for tau, heads in fits.items():
        if tau >= MANY:
            label = f"training error, tau={tau:g}"
            yield bound(label, call(best_error), call(training_error, heads), of=of)
            label = f"best head over test error, tau={tau:g}"
            yield bound(label, 1.0, call(best_over_test, heads))
        if tau >= MIDDLE:
            label = f"middle of training and test, tau={tau:g}"
            yield mean(label, call(best_error), call(middle, heads), of=of)
    yield from published_rows()
    repeats = effort.pick(
        tiny={}, quick={}, medium={HEAD: 12, TRANSFORMER: 4}, full={HEAD: 24, TRANSFORMER: 8}
    )
    trained = {
        (name, tasks): run(few_tasks, network=name, tasks=tasks, repeats=count)
        for name, count in repeats.items()
        for tasks in FEW_TASKS
    }
    for (name, tasks), errors in trained.items():
        for number, least in enumerate(("ridge regression over ICL", "dMMSE over IDG")):
            label = f"{least} error, {name}, k={tasks}"
            yield bound(label, 1.0, errors.shares[number])
        if name == TRANSFORMER and tasks == FEW_TASKS[-1]:
            ratio = call(null_over_idg, errors)
            yield bound(f"predicting zero over the IDG error, {name}, k={tasks}", 1.0, ratio)
    if trained:
        yield note(call(describe_diversity, trained))
    yield note(call(describe, fits, iterations))
    yield note(
        "The published transformers are trained by AdamW for a given time, and ours is one head "
        "without embedding: the two share the shape of the curve, not its numbers.  That their "
        "ICL and IDG errors agree for kappa >= 1 is agreement of two errors above that of "
        "predicting zero."
    )
    yield drawing(draw, fits, trained)


def draw(
    figure: Figure, fits: dict[float, FittedHeads], trained: Mapping[tuple[str, int], FewTasks]
) -> None:
    """Draw errors against tau, and the task gap against kappa."""
    left, right = panels(figure, height=4.2)
    taus = np.geomspace(0.25, 110, 300)
    linear = icl_error(tau=taus, alpha=1, kappa=math.inf, rho=RHO)
    left.plot(taus, np.minimum(linear, 30), color="0.6", label="linear attention")
    left.axhline(best_error(), color=COLOURS[0], linewidth=1, label="best head")
    left.axhline(NULL, color="0", linestyle=":", linewidth=1, label="predicting zero")
    for name, marker in (("test", "o"), ("training", "v")):
        for tau, heads in fits.items():
            values = np.maximum(getattr(heads, name), 0.02)
            style: dict[str, Any] = {"color": COLOURS[0], "markersize": 4, "linestyle": "none"}
            label = f"our head, {name}" if tau == FEW else ""
            left.plot(np.full(len(values), tau), values, marker, mfc="none", label=label, **style)
    for panel, colour in zip(BLOCKS, COLOURS[1:], strict=False):
        rows = [row for row in read_reference("lu_fig5_summary.csv") if row["panel"] == panel]
        for row in rows:
            x = [float(row[name]) for name in ("tau_of_largest_mean", "largest_tau")]
            y = [float(row[name]) for name in ("largest_mean", "mean_at_largest_tau")]
            label = BLOCKS[panel] if row is rows[0] else ""
            left.plot(x, y, "s", color=colour, markersize=4, label=label)
    left.set_ylim(0.018, 35)
    kappas = np.geomspace(0.02, 25, 200)
    theory = task_gap(kappa=kappas, **DIVERSITY)
    right.plot(kappas, theory, color="0.6", label="linear attention")
    for dim, colour in zip(("20", "40", "80"), COLOURS[2:], strict=False):
        rows = [row for row in read_reference("lu_fig6_gap.csv") if row["d"] == dim]
        kappa = [float(row["kappa"]) for row in rows]
        gap = [float(row["gap_mean"]) for row in rows]
        error = [float(row["gap_se_paired"]) for row in rows]
        draw_points(right, kappa, gap, error, colour, label=f"published, d = {dim}", markersize=3)
    for name, marker in zip(NETWORKS, "o^", strict=True):
        gaps = [errors.gap for (network, _), errors in trained.items() if network == name]
        if gaps:
            where = np.array(FEW_TASKS) / DIM
            y = [gap_of_tasks.mean for gap_of_tasks in gaps]
            error = [gap_of_tasks.standard_error for gap_of_tasks in gaps]
            style = {"markersize": 4, "mfc": "none", "capsize": 2}
            right.errorbar(where, y, error, fmt=marker, color="0", label=f"our {name}", **style)
    finish(left, "tau", "error (at least 0.02)", log="xy", legend="")
    finish(right, "kappa", "task_gap", log="x", legend="")
    write_key(figure, "lines: theory; open points: simulation; filled points: published")


claim = Claim.of("softmax-double-descent", __doc__, rows)
