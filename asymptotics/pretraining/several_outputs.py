r"""Several outputs: the labels of a token are a vector, and one matrix answers for all entries.

Output c of a prompt has a task :math:`w_c` and noise of its own, its context summary :math:`h_c`
is that of a prompt of one output, and :math:`\Gamma` minimises the mean loss

.. math:: \frac1{nC} \sum_{i=1}^n \sum_{c=1}^C \bigl(y_{ic} - x_i^\top \Gamma h_{ic}\bigr)^2
   + \frac\lambda d \lVert\Gamma\rVert_F^2 .

So a prompt gives C rows of features :math:`x \otimes h_c`.  Times nC this is the objective of nC
prompts of one output with the *same* ridge.  (For the sum over outputs it is
:math:`\lambda / C`.)  Rows of a prompt are uncorrelated, since their tasks are independent and
labels have mean zero: in the limit, C fixed, errors are those of :math:`C\tau`.

**Finite size.**  Rows of a prompt share inputs, so that they overlap.  Let
:math:`B = \frac dN \Phi^\top (I \otimes g) \Phi` hold the overlaps of the C rows
:math:`\Phi` of a prompt, with N = nC, :math:`g = (M + \lambda + \mu F)^{-1}`, and

.. math:: M = \frac dC E\, \Phi (I + B)^{-1} \Phi^\top, \qquad
   T = \frac dC E\, \Phi (I + B)^{-1} y\, x^\top, \qquad E_y = \frac1C E\, y^\top (I + B)^{-1} y .

The minimum of the objective plus :math:`\mu` times a test error with second moments F of its
summaries, T' of summaries and tasks, and :math:`E_y'` of labels is

.. math:: E_y + \mu E_y' - \frac1d \operatorname{tr} (T + \mu T')^\top g\, (T + \mu T') ,

and the test error is its slope at :math:`\mu = 0`.  The diagonal of B, b, gives the errors of nC
prompts with :math:`\theta = 1/(1 + b)`.  An off-diagonal entry o is
:math:`O(d^{-1/2})`.  To second order it changes, for each of the C - 1 other rows,

.. math:: M: \ -\theta^2 \tfrac dN E\, \Sigma g \Sigma + \theta^3 s^2 R, \qquad
   T: \ -\theta^2 \tfrac dN E\, \Sigma g P + \theta^3 s^2 W, \qquad
   E_y: \ -\theta^2 \tfrac1N \operatorname{tr} E\, P^\top g P + \theta^3 s^2 E y^2 ,

where :math:`\Sigma = E[h h^\top | X]`, :math:`P = E[h w^\top | X]`,
:math:`s^2 = E\, o^2 = (d/N)^2 \operatorname{tr} E\, g \Sigma g \Sigma`, and W and R are the second
moments of tasks and summaries.  Rows of the same one of k tasks, a fraction 1/k, overlap by O(1),
which is taken exactly.  The averages over the inputs X of a context are over a few draws.

Derived here; claim ``outputs``.

**A free read-out.**  With a matrix for every pair of outputs an output learns Cd(d + 1) weights
from n rows.  Those of other outputs are features without a signal, of the same spectrum.  The
fixed point is that of :math:`\tau/C` and so are signal and variance: the error is that of
:math:`\tau/C`, with the ridge of the output's own mean loss.  It needs :math:`C^2` times the
prompts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from iclimit.asymptotics.pretraining.deterministic_equivalent import effective_ridge
from iclimit.asymptotics.pretraining.finite_size import Run, predicted_errors, read_run
from iclimit.asymptotics.pretraining.labels import label_moments
from iclimit.checks import Seed
from iclimit.experiment import Experiment, Ridge, check_training
from iclimit.prediction import Prediction
from iclimit.problem import check_few_outputs, check_problem

# Fields of a problem that predictions of several outputs know.
KNOWN = ("tasks", "noise_variance", "task_law", "link", "flips", "outputs")

# Relative error of the change by shared inputs: higher orders in C/d and C/context are left out.
#
# Simulations of 24 random settings with 2 to 4 outputs at d = 21 to 40 were within the stated
# uncertainty, this one included, and two standard errors.  With contexts of 5 to 10 pairs the
# change is half of the predicted one.
SHARING_LOSS = 0.6

# Inputs of contexts that moments are averaged over: so many by dimension, and at least so many.
# They scatter the change by less than 4 % of it (15 % with 16 at d = 24).
DRAWS_BY_DIM = 6000
LEAST_DRAWS = 16

# Ridge over the mean feature that stands for none.
LEAST_RIDGE = 1e-7

# Step of a derivative along the imaginary axis, relative to the ridge.
STEP = 1e-20


def predicted_output_errors(
    run: Experiment, *, rng: Seed | None = None, draws: int = 10, approach: str = "tasks"
) -> Prediction:
    """Mean errors of a run with several outputs; arguments as of `finite_size_errors`."""
    check_training(run, Ridge)
    for law in (run.problem, run.tests.problem):
        check_problem(law, *KNOWN)
        check_few_outputs(law)
    for name, gates in (("gates", run.model.gates), ("test_gates", run.tests.gates)):
        if gates is not None:
            raise ValueError(f"{name} must be None for several outputs")
    alone = one_output(run)
    prediction = predicted_errors(alone, rng=rng, draws=draws, approach=approach)
    change = (run.problem.outputs - 1) * sharing_change(alone)
    return replace(
        prediction,
        over_tasks=prediction.over_tasks * (1 + change),
        doubt=np.vstack([prediction.doubt * np.ones(2), SHARING_LOSS * np.abs(change)]),
    )


def one_output(run: Experiment) -> Experiment:
    """The run of one output that has a prompt for each output of each prompt."""
    test = run.test
    if test is not None:
        test = replace(test, problem=replace(test.problem, outputs=1))
    return run.with_(
        problem=replace(run.problem, outputs=1),
        prompts=run.prompts * run.problem.outputs,
        test=test,
    )


def sharing_change(alone: Experiment) -> np.ndarray:
    """Relative changes of the ICL and the IDG error for each other row with the same inputs.

    Parameters
    ----------
    alone : Experiment
        Of one output, with as many prompts as there are rows.
    """
    run = read_run(alone, 0, 1)
    rows = _Rows.of(run, alone)
    d = alone.dim
    fresh = run.test.second[:d, :d]
    tests = (
        _TestLaw(np.ones(d), np.full(d, np.mean(np.diagonal(fresh))), run.test.label),
        _TestLaw(rows.tasks, rows.summaries, rows.label),
    )
    return np.array([_relative_change(rows, test) for test in tests])


class _TestLaw(NamedTuple):
    """Eigenvalues of cross and second moments of test summaries, and the mean squared label."""

    cross: np.ndarray
    second: np.ndarray
    label: float


@dataclass(frozen=True)
class _Rows:
    """Law of the rows of a run, in the eigenbasis of the second moments of its tasks.

    Attributes
    ----------
    tasks : ndarray (d,)
        Eigenvalues of the second moments W of the tasks.
    task_count : float
        Number of tasks; inf where all are fresh.
    context : int
    count : int
        Number of rows, N.
    rho, shared_rho : float
        Noise, and the part of it that two rows of one task and the same inputs have in common.
    ridge : float
        Not zero.
    """

    tasks: np.ndarray
    task_count: float
    context: int
    count: int
    rho: float
    shared_rho: float
    ridge: float

    @classmethod
    def of(cls, run: Run, alone: Experiment) -> _Rows:
        """The rows of a run, whose noise and ridge are those of labels over their linear part."""
        d = alone.dim
        tasks = np.ones(d)
        if run.sets:
            own = run.sets[0]
            tasks = np.clip(np.linalg.eigvalsh(own.T @ own / len(own)), 0, None)
        rows = cls(
            tasks=tasks,
            task_count=alone.problem.task_count,
            context=alone.problem.context,
            count=alone.prompts,
            rho=run.rho,
            shared_rho=label_moments(alone.problem.link, 0.0, 0.0).square - 1,
            ridge=run.ridge,
        )
        return replace(rows, ridge=max(run.ridge, LEAST_RIDGE * float(np.mean(rows.summaries))))

    @property
    def label(self) -> float:
        """Mean squared label."""
        return float(np.mean(self.tasks)) + self.rho

    @property
    def shape(self) -> float:
        """Dimension over context."""
        return len(self.tasks) / self.context

    @cached_property
    def summaries(self) -> np.ndarray:
        """Eigenvalues of the second moments R of the summaries."""
        return self.tasks * (1 + 1 / self.context) + self.label * self.shape

    @cached_property
    def overlaps(self) -> np.ndarray:
        """Means of squares of Sigma, of Sigma times P transposed and squares of P, (3, d, d)."""
        d = len(self.tasks)
        generator = np.random.default_rng(0)
        sums = np.zeros((3, d, d))
        draws = max(LEAST_DRAWS, DRAWS_BY_DIM // d)
        for _ in range(draws):
            inputs = generator.standard_normal((self.context, d))
            covariance = inputs.T @ inputs / self.context
            cross = covariance * self.tasks
            sigma = cross @ covariance + self.rho * self.shape * covariance
            sums += [sigma * sigma, sigma * cross.T, cross * cross]
        return sums / draws

    def changes(self, resolvent: np.ndarray, theta: complex) -> _Change:
        """First-order changes of M, T and E_y by another row of the same inputs.

        Parameters
        ----------
        resolvent : ndarray (d,)
            Eigenvalues of g (module docstring).
        theta : complex
            Weight of a row, 1/(1 + b).
        """
        change = self._by_any_row(resolvent, theta)
        return self._with_rows_of_one_task(change, resolvent, theta)

    def _by_any_row(self, resolvent: np.ndarray, theta: complex) -> _Change:
        """Changes by a row of any task, to second order in the overlap."""
        per_row = len(self.tasks) / self.count
        sigma_squares, sigma_crosses, cross_squares = self.overlaps
        mean_square_overlap = per_row**2 * (resolvent @ sigma_squares @ resolvent)
        own = theta**3 * mean_square_overlap
        shared = theta**2 * per_row
        shared_labels = theta**2 / self.count * np.sum(resolvent @ cross_squares)
        return _Change(
            own * self.summaries - shared * (sigma_squares @ resolvent),
            own * self.tasks - shared * (sigma_crosses @ resolvent),
            own * self.label - shared_labels,
        )

    def _with_rows_of_one_task(
        self, change: _Change, resolvent: np.ndarray, theta: complex
    ) -> _Change:
        """Changes with those beyond the second order, by one row in k that has the same task."""
        common_summaries = self.summaries - (self.rho - self.shared_rho) * self.shape
        common_label = float(np.mean(self.tasks)) + self.shared_rho
        overlap = len(self.tasks) / self.count * np.sum(resolvent * common_summaries)
        # (I + B)^-1 of two rows has `inverse_own` on its diagonal and `inverse_shared` beside it.
        determinant = theta**-2 - overlap**2
        inverse_own = 1 / (theta * determinant)
        inverse_shared = -overlap / determinant
        own = (inverse_own - theta - theta**3 * overlap**2) / self.task_count
        shared = (inverse_shared + theta**2 * overlap) / self.task_count
        return _Change(
            change.M + own * self.summaries + shared * common_summaries,
            change.T + (own + shared) * self.tasks,
            change.E + own * self.label + shared * common_label,
        )


class _Change(NamedTuple):
    """Changes of M and T, (d,), and of E_y."""

    M: np.ndarray
    T: np.ndarray
    E: complex


def _relative_change(rows: _Rows, test: _TestLaw) -> float:
    """Relative change of a test error, from derivatives by the weight of the test error."""
    scale = len(rows.tasks) / rows.count
    R = rows.summaries
    theta = rows.ridge / effective_ridge(R, 1 / scale, rows.ridge)
    plain = 1 / (theta * R + rows.ridge)
    feedback = 1 - theta**2 * scale * np.sum((plain * R) ** 2)
    slope = theta**2 * scale * np.sum(plain**2 * R * test.second) / feedback
    # The derivative is the imaginary part over the step, without cancellation.
    step = STEP * rows.ridge
    weight = 1j * step
    at = theta + weight * slope
    g = 1 / (at * R + rows.ridge + weight * test.second)
    target = at * rows.tasks + weight * test.cross
    error = at * rows.label + weight * test.label - np.mean(target**2 * g)
    change = rows.changes(g, at)
    feedback = 1 - at**2 * scale * np.sum((g * R) ** 2)
    moved = at**2 * scale * np.sum(g**2 * R * change.M) / feedback
    changed = moved * rows.label + change.E
    changed -= 2 * np.mean(target * (moved * rows.tasks + change.T) * g)
    changed += np.mean((target * g) ** 2 * (moved * R + change.M))
    return float(changed.imag / error.imag)
