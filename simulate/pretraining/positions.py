"""Errors at every position: a trained model on contexts of every length."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iclimit.checks import check_arguments, check_integers
from iclimit.experiment import Experiment
from iclimit.results import Result
from iclimit.simulate.arrays import Seed, get_backend
from iclimit.simulate.pretraining.cells import check_experiment, trained_models
from iclimit.simulate.pretraining.sequences import length_factor
from iclimit.statement import named_cell
from iclimit.threads import blas_threads_for


@dataclass(frozen=True, repr=False)
class PositionRuns(Result):
    """Errors at positions of sequences.

    Attributes
    ----------
    positions : ndarray (m,)
        Numbers of examples seen.
    icl, idg : ndarray (repeats, m)
        Squared errors on noisy labels: fresh tasks, and those of the pretraining.
    """

    positions: np.ndarray
    icl: np.ndarray
    idg: np.ndarray


@named_cell("simulate_positions")
def simulate_positions(
    run: Experiment,
    *,
    positions: Sequence[int] | np.ndarray | None = None,
    rng: Seed,
    repeats: int = 1,
    first_repeat: int = 0,
    backend: str = "numpy",
) -> PositionRuns:
    """Simulate a run, and test it at every position: after each number of examples.

    Parameters
    ----------
    run : Experiment
        With any loss, in the units of this library; `iclimit.sample` tests it after the whole
        context.
    positions : sequence of ints >= 1, optional
        Numbers of examples seen; by default all up to the context of the run.
    rng : int, SeedSequence or Generator
        Root seed.  Repeat r depends on (root, r) only, so more repeats extend fewer.
    repeats : int >= 1
        Number of independent runs.
    first_repeat : int >= 0
        Number of the first of them.
    backend : {"numpy", "cupy"}
        Where to compute.

    Returns
    -------
    PositionRuns
        Errors of each run at each position, exact for the trained matrix if inputs are Gaussian.

    Raises
    ------
    TypeError
        If it is no experiment.
    ValueError
        If an argument is outside its range, or the run has parts that are not simulated.
    RuntimeError
        If the backend is not available.
    ArithmeticError
        As `iclimit.sample`.

    Examples
    --------
    >>> import iclimit
    >>> law = iclimit.Problem(dim=8, context=16, noise_variance=0.1, task_law="sphere")
    >>> loss = iclimit.AllPositions()
    >>> run = iclimit.Experiment(law, prompts=64, loss=loss, training=iclimit.Ridge(0.1))
    >>> errors = iclimit.pretraining.simulate_positions(run, positions=[4, 16], rng=0, repeats=8)
    >>> errors.icl.mean(axis=0).round(1)
    array([1. , 0.7])
    """
    check_experiment(run)
    check_arguments(repeats=repeats, first_repeat=first_repeat)
    listed = np.arange(1, run.problem.context + 1) if positions is None else np.ravel(positions)
    for position in listed.tolist():
        check_integers(least=1, positions=position)
    if run.model.gates is not None or run.tests.gates is not None:
        raise ValueError("gates must be None: they are of one context length")
    arrays = get_backend(backend)
    icl = []
    idg = []
    with blas_threads_for(run.dim):
        for model in trained_models(run, arrays, rng, repeats, first_repeat):
            own = []
            fresh = []
            for position in listed.tolist():
                gamma = length_factor(run, position) * model.solution.gamma
                tests = model.test.of_context(position), model.train.of_context(position)
                fresh.append(tests[0].test_error(model.generator, gamma, model.counted, None))
                task_set = model.task_set
                own.append(tests[1].test_error(model.generator, gamma, model.counted, task_set))
            icl.append(fresh)
            idg.append(own)
    return PositionRuns(listed, np.array(icl), np.array(idg))
