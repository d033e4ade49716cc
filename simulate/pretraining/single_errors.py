"""Squared errors of single test prompts of trained models."""

from __future__ import annotations

import numpy as np

from iclimit.checks import check_arguments
from iclimit.experiment import Experiment
from iclimit.simulate.arrays import Seed, get_backend, to_host
from iclimit.simulate.pretraining.cells import check_experiment, trained_models
from iclimit.simulate.prompts.summary_moments import squared_errors
from iclimit.threads import blas_threads_for


def squared_test_errors(
    run: Experiment, *, rng: Seed, repeats: int = 1, test_prompts: int = 1000
) -> np.ndarray:
    """Draw the squared errors of single test prompts.

    Parameters
    ----------
    run : Experiment
        In the units of this library, trained as `sample` knows.
    rng : int, SeedSequence or Generator
        Root seed.
    repeats : int >= 1
        Number of independent runs.
    test_prompts : int >= 1
        Prompts of each, with fresh tasks, and with its pretraining tasks.

    Returns
    -------
    ndarray (2, repeats, test_prompts)
        On fresh tasks, and on pretraining tasks.

    Raises
    ------
    TypeError, ValueError, ArithmeticError
        As `sample`.
    """
    check_experiment(run)
    check_arguments(repeats=repeats, test_prompts=test_prompts)
    arrays = get_backend("numpy")
    errors = np.empty((2, repeats, test_prompts))
    with blas_threads_for(run.dim):
        for number, model in enumerate(trained_models(run, arrays, rng, repeats, 0)):
            gamma = model.solution.gamma
            fresh = model.test.draw(model.generator, test_prompts, None)
            own = model.train.draw(model.generator, test_prompts, model.task_set)
            errors[0, number] = to_host(squared_errors(gamma, *fresh))
            errors[1, number] = to_host(squared_errors(gamma, *own))
    return errors
