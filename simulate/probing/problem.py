r"""Laws of regression prompts that a model is asked with.

A prompt holds N pairs and a query with labels :math:`y = \langle w, x\rangle + \epsilon`.  Inputs
are :math:`x = s\,\Sigma^{1/2} z` with independent coordinates z of a given law, tasks follow a law
of their own or are drawn from a given set, and the noise level may differ between prompts.

Prompts come in blocks.  Block r depends on the seed and r only, so the first prompts of a longer
run are those of a shorter one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from iclimit.checks import check_arguments, check_choice, parse_array
from iclimit.notation import explaining
from iclimit.simulate.arrays import Array, Backend, get_backend
from iclimit.simulate.gdpp.noisy_regression import NoiseLevels
from iclimit.simulate.pretraining.covariances import covariance_root, parse_covariance, times_root
from iclimit.simulate.pretraining.prompts import (
    INPUT_LAWS,
    STANDARD_DEVIATION,
    TASK_LAWS,
    sample_coordinates,
    sample_tasks,
)

BLOCK_NUMBERS = 2**19
"""Input numbers drawn from one seed (4 MiB): part of what a seed means."""

TESTED_TASKS = ("fresh", "pretraining")
"""Where the tasks of prompts come from: their law, or the given set."""


@dataclass(frozen=True, eq=False)
class DrawnPrompts:
    """Prompts as a model sees them, and what it does not see.

    Attributes
    ----------
    inputs : array (n, context, dim)
        Inputs of the labelled pairs.
    labels : array (n, context)
        Their noisy labels.
    query : array (n, dim)
        Inputs whose labels are asked for.
    tasks : array (n, dim)
        Task vectors.
    noise_variance : array (n,)
        Variance of the label noise.
    """

    inputs: Array
    labels: Array
    query: Array
    tasks: Array
    noise_variance: Array

    @property
    def target(self) -> Array:
        """Labels of the queries without noise, (n,): the best possible answers."""
        return array_namespace(self.query).vecdot(self.query, self.tasks)

    def __len__(self) -> int:
        return self.query.shape[0]

    def rows(self, chosen: slice | Array) -> DrawnPrompts:
        """Some of the prompts, which a slice or their numbers choose."""
        return DrawnPrompts(*(each[chosen, ...] for each in vars(self).values()))


@dataclass(frozen=True, eq=False)
class Problem:
    r"""Law of the prompts that a model is asked with.

    Parameters
    ----------
    context : int >= 1
        Number N of labelled pairs in a prompt.
    dim : int >= 1
        Dimension d of the inputs.
    input_law : {"gaussian", "uniform", "rademacher", "laplace"}
        Law of the independent coordinates z: N(0, 1), U(-1, 1), random signs, or the Laplace law
        with density exp(-\|z\|)/2.
    scale : float > 0
        Factor s of the inputs: :math:`1/\sqrt d` in the units of Lu et al.
    input_covariance : array (d,) or (d, d), optional
        Covariance :math:`\Sigma` in :math:`x = s\,\Sigma^{1/2} z`, or the eigenvalues of a
        diagonal one; the identity by default.
    task_law : {"gaussian", "sphere"}
        Law of fresh tasks: normal, or uniform on a sphere; both with coordinates of variance
        task_variance.
    task_variance : float > 0
        Variance of a task coordinate.
    task_covariance : array (d,) or (d, d), optional
        Covariance of the tasks over their variance; the identity by default.
    noise_variance : float >= 0
        Variance of the label noise.
    noise_law : str, optional
        Law of a noise level drawn for each prompt, instead of ``noise_variance``:
        "fixed:SIGMA", "uniform:SIGMA_MAX" or "categorical:SIGMA,SIGMA,..." in standard deviations.
    tasks : array (k, d), optional
        The tasks that the model was pretrained on, for tests on them.

    Raises
    ------
    ValueError
        If an argument is outside its range or has another shape.

    Examples
    --------
    >>> from iclimit.simulate.probing.problem import Problem
    >>> problem = Problem(context=40, dim=20, noise_variance=0.25)
    >>> drawn = problem.sample(3, rng=0)
    >>> drawn.inputs.shape, drawn.labels.shape, drawn.query.shape
    ((3, 40, 20), (3, 40), (3, 20))
    """

    context: int
    dim: int
    input_law: str = "gaussian"
    scale: float = 1.0
    input_covariance: Any = None
    task_law: str = "gaussian"
    task_variance: float = 1.0
    task_covariance: Any = None
    noise_variance: float = 0.0
    noise_law: Any = None
    tasks: Any = None

    def __post_init__(self) -> None:
        numbers = ("context", "dim", "scale", "task_variance", "noise_variance")
        check_arguments(**{name: getattr(self, name) for name in numbers})
        check_choice("input_law", self.input_law, INPUT_LAWS)
        check_choice("task_law", self.task_law, TASK_LAWS)
        for name in ("input_covariance", "task_covariance"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, parse_covariance(name, given, self.dim))
        if self.tasks is not None:
            parsed = parse_array("tasks", self.tasks, (None, self.dim))
            object.__setattr__(self, "tasks", parsed)
        if self.noise_law is not None:
            if self.noise_variance:
                found = f"both noise_variance={self.noise_variance!r} and {self.noise_law!r}"
                raise ValueError(
                    f"noise_law must be None where noise_variance is given, got {found}"
                )
            object.__setattr__(self, "noise_law", NoiseLevels.parse(self.noise_law))

    @property
    def input_variance(self) -> float:
        """Variance of an input coordinate where the covariance is the identity."""
        return (self.scale * STANDARD_DEVIATION.get(self.input_law, 1.0)) ** 2

    @property
    def mean_noise_variance(self) -> float:
        """Variance of the label noise, on average over prompts."""
        return self.noise_variance if self.noise_law is None else self.noise_law.mean_variance

    def sample(self, count: int, *, rng: Any, tasks: str = "fresh") -> DrawnPrompts:
        """Draw prompts, each with its own task and noise level.

        Parameters
        ----------
        count : int >= 1
            Number of prompts.
        rng : int, SeedSequence or Generator
            Root seed.
        tasks : {"fresh", "pretraining"}
            Whether tasks follow their law or are drawn from the given ones.

        Returns
        -------
        DrawnPrompts
            Arrays of NumPy.
        """
        blocks = list(self.blocks(count, rng=rng, tasks=tasks))
        names = ("inputs", "labels", "query", "tasks", "noise_variance")
        columns = ([getattr(block, name) for block in blocks] for name in names)
        return DrawnPrompts(*map(np.concatenate, columns))

    def blocks(
        self, count: int, *, rng: Any, tasks: str = "fresh", backend: str = "numpy"
    ) -> Iterator[DrawnPrompts]:
        """Draw the same prompts in blocks of bounded memory.

        Parameters are those of `sample`, and the backend.

        Yields
        ------
        DrawnPrompts
            Arrays of the backend.
        """
        check_choice("tasks", tasks, TESTED_TASKS)
        if tasks == "pretraining" and self.tasks is None:
            raise ValueError("tasks must be 'fresh' where the problem has no pretraining tasks")
        device = get_backend(backend)
        block = max(1, BLOCK_NUMBERS // ((self.context + 1) * self.dim))
        for index, generator in enumerate(device.generators(rng, math.ceil(count / block))):
            drawn = self.draw(device, generator, block, tasks)
            yield drawn.rows(slice(min(block, count - index * block)))

    def draw(
        self, backend: Backend, generator: Any, count: int, tasks: str = "fresh"
    ) -> DrawnPrompts:
        """Draw prompts with a generator of a backend, for a training."""
        xp = backend.xp
        roots = {
            name: None if each is None else backend.asarray(covariance_root(each))
            for name, each in {"x": self.input_covariance, "w": self.task_covariance}.items()
        }
        if tasks == "fresh":
            drawn = sample_tasks(
                backend, generator, count, self.dim, self.task_law, root=roots["w"]
            )
            drawn = math.sqrt(self.task_variance) * drawn
        else:
            chosen = generator.integers(0, len(self.tasks), size=count)
            drawn = xp.take(backend.asarray(self.tasks), chosen, axis=0)
        shape = (count, self.context + 1, self.dim)
        z = sample_coordinates(backend, generator, shape, self.input_law)
        x = self.scale * times_root(z, roots["x"])
        if self.noise_law is None:
            variance = xp.full((count,), float(self.noise_variance))
        else:
            variance = self.noise_law.sample(backend, generator, count) ** 2
        noise = xp.sqrt(variance)[:, None] * generator.standard_normal(shape[:2])
        inputs = x[:, :-1, :]
        labels = (inputs @ drawn[:, :, None])[:, :, 0] + noise[:, :-1]
        return DrawnPrompts(inputs, labels, x[:, -1, :], drawn, variance)


Problem.__init__ = explaining(Problem.__init__)  # type: ignore[method-assign]
