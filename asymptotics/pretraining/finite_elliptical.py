r"""What a run of finite size should show whose inputs are elliptical.

Inputs are :math:`x = \sqrt u\, N(0, I/d)` (`iclimit.asymptotics.pretraining.elliptical`).  The
leverage of a prompt is a product of the factors of its summary and of its query, and the scale u
of the query multiplies the latter: the law of u enlarges that of leverages in
`iclimit.asymptotics.pretraining.deterministic_equivalent`.  The factor of a summary is in
proportion to the mean of :math:`u^2` over its context, and varies around that as if there were
fewer pairs, :math:`(\sum u^2)^2/\sum u^4` of them.  With one law for all contexts errors near
tau = 1 were up to 25 % off after 6 pairs; now they are up to 6 %, half of the difference is in
doubt.  Summaries have the moments of
`iclimit.asymptotics.pretraining.linked_contexts`.  What tasks share by their prompts is a factor,
that of Gaussian inputs after contexts so short that summaries have about the same noise.

Derived here; claim ``elliptical``.

.. page: pretraining/labels: Any labels
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from iclimit.asymptotics.pretraining.deterministic_equivalent import (
    Inputs,
    equivalent_errors,
    fresh_task_law,
    task_set_law,
)
from iclimit.asymptotics.pretraining.finite_size import NAMES, predicted_errors, read_run
from iclimit.asymptotics.pretraining.linked_contexts import LinkedContexts
from iclimit.checks import Seed
from iclimit.experiment import Experiment, Ridge, check_loss, check_training
from iclimit.links import parse_link
from iclimit.prediction import Prediction
from iclimit.problem import Problem, check_problem
from iclimit.scale_laws import parse_scale_law
from iclimit.threads import blas_threads_by_dim

# Fields of a problem that predictions of elliptical inputs know.
KNOWN = ("tasks", "noise_variance", "task_law", "scale_law")

# Part of what the law of leverages changes that is in doubt.
OPEN = 0.5

# Degrees of freedom of Student's law up to which leverages have no variance.
HEAVIEST = 8.0


@blas_threads_by_dim
def predicted_elliptical_errors(
    run: Experiment, *, rng: Seed | None = None, draws: int = 10, approach: str = "tasks"
) -> Prediction:
    """Mean errors of a run with elliptical inputs; arguments as of `finite_size_errors`.

    Raises
    ------
    ValueError
        If it is not trained by ridge regression on tasks from the sphere, has gates or tests of
        another law of the scale, or leverages without a variance.
    """
    _check(run)
    # One seed for the same task sets in all predictions.
    seed: Seed = int(np.random.default_rng(rng).integers(2**63))
    if isinstance(rng, int | np.random.SeedSequence):
        seed = rng
    contexts = _contexts(run.problem)
    tested = _contexts(run.tests.problem)
    near = _with_gaussian_inputs(run, contexts)
    inputs = Inputs.of(None, run.dim)
    test = fresh_task_law(run.dim, tested.context, tested.rho, "sphere", tested)
    laws = [
        task_set_law(tasks, contexts.context, contexts.rho, contexts)
        for tasks in read_run(near, seed, draws).sets
    ] or [fresh_task_law(run.dim, contexts.context, contexts.rho, "sphere", contexts)]
    errors = [equivalent_errors(law, test, run.prompts, run.ridge, inputs) for law in laws]
    if approach == "moments":
        doubt = predicted_errors(near, rng=seed, draws=1, approach=approach).doubt
        return Prediction(NAMES, np.array(errors), doubt)
    moments = predicted_errors(near, rng=seed, draws=draws, approach="moments")
    by_tasks = predicted_errors(near, rng=seed, draws=draws, approach=approach)
    means = [np.mean(prediction.over_tasks, axis=0) for prediction in (by_tasks, moments)]
    with np.errstate(invalid="ignore"):
        factors = means[0] / means[1]
    factors = np.where(np.isfinite(factors), factors, 1.0)
    # One law of leverages for all contexts is the other way to take them.
    alike = replace(laws[0], timed=replace(contexts, alike=True))
    other = equivalent_errors(alike, test, run.prompts, run.ridge, inputs)
    with np.errstate(invalid="ignore"):
        open_share = np.nan_to_num(np.abs(np.divide(other, errors[0]) - 1), posinf=1.0)
    doubt = np.vstack([by_tasks.doubt, OPEN * open_share])
    return Prediction(NAMES, np.array(errors) * factors, doubt)


def _check(run: Experiment) -> None:
    """Refuse what is not known for elliptical inputs."""
    check_training(run, Ridge)
    check_loss(run)
    for law in (run.problem, run.tests.problem):
        check_problem(law, *KNOWN)
        if law.task_law != "sphere":
            raise ValueError(f"task_law must be sphere for a scale_law, got {law.task_law!r}")
        if law.scale_law != run.problem.scale_law:
            raise ValueError(
                f"test must have the scale_law of training, {run.problem.scale_law!r}, got "
                f"{law.scale_law!r}"
            )
        if parse_scale_law(law.scale_law).degrees <= HEAVIEST:
            raise ValueError(
                f"scale_law must be of more than {HEAVIEST:g} degrees of freedom here, got "
                f"{law.scale_law!r}: leverages have no variance; "
                "iclimit.pretraining.elliptical_errors has the limit"
            )
    for name, gates in (("gates", run.model.gates), ("test_gates", run.tests.gates)):
        if gates is not None:
            raise ValueError(f"{name} must be None for a scale_law")


def _contexts(problem: Problem) -> LinkedContexts:
    """Contexts of elliptical inputs."""
    return LinkedContexts(
        dim=problem.dim,
        context=problem.context,
        rho=float(problem.noise_variance),
        link=parse_link("identity"),
        flips=0.0,
        scale_law=parse_scale_law(problem.scale_law),
    )


def _with_gaussian_inputs(run: Experiment, contexts: LinkedContexts) -> Experiment:
    """The run with Gaussian inputs, in contexts so short that summaries have the same noise."""
    labels = contexts.labels
    context = max(1, round(contexts.context * labels.square / labels.across))
    return run.with_(problem=replace(run.problem, scale_law=None, context=context), test=None)
