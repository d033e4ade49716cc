"""Fixed sets of prompts to train on, standardised as a published script does.

The set of Zhang, Singh, Latham and Saxe (ICML 2025, arXiv:2501.16265): prompts with tasks of their
own come first, those with the shared task last.
"""

from iclimit.problem import Problem
from iclimit.simulate.arrays import Backend, Generator
from iclimit.simulate.prompts.sampling import (
    Prompts,
    draw_fresh_tasks,
    draw_inputs,
    draw_tasks,
    label_prompts,
)


def draw_training_set(
    problem: Problem,
    backend: Backend,
    generator: Generator,
    count: int,
    *,
    standardize: bool = True,
) -> Prompts:
    """Draw prompts, by default standardised as the published script does.

    The inputs at each place of a prompt get mean zero over the prompts; if all tasks are random,
    these get mean zero and covariance I.

    Raises
    ------
    ValueError
        If there are too few prompts to be standardised, or for both kinds of tasks.
    """
    xp = backend.xp
    fraction = problem.fresh_fraction
    least = problem.dim if fraction == 1 else 1
    if standardize and count <= least:
        raise ValueError(f"training_set must be > {least} to be standardised, got {count!r}")
    if 0 < fraction < 1 and not 0 < round(count * fraction) < count:
        raise ValueError(
            f"training_set must be large enough for both kinds of tasks, got {count!r} "
            f"with fresh_fraction = {fraction!r}"
        )
    if standardize and fraction == 1:
        tasks = draw_fresh_tasks(problem, backend, generator, count)
        tasks = tasks - xp.mean(tasks, axis=0)
        variances, axes = xp.linalg.eigh(tasks.T @ tasks / (count - 1))
        tasks = tasks @ ((axes / xp.sqrt(variances)) @ axes.T)
    else:
        tasks = draw_tasks(problem, backend, generator, count)
    x = draw_inputs(problem, backend, generator, (count, problem.context + 1))
    if standardize:
        x = x - xp.mean(x, axis=0)
    noise = xp.full((count,), float(problem.noise_variance))
    return label_prompts(problem, backend, generator, x, tasks, noise)
