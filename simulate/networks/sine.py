r"""Regression of sines in context: a task that no layer of attention solves on raw inputs.

A prompt is a function :math:`y = a \sin(x + \phi)` with :math:`a \sim U(0.1, 0.5)`,
:math:`\phi \sim U(0, \pi)` and inputs :math:`x \sim U(-5, 5)`, as in von Oswald et al.
(arXiv:2212.07677).  Their code draws amplitude and phase with the same random key, so that
:math:`a = 0.1 + 0.4\,\phi/\pi`: the amplitude is tied to the phase.
"""

import math
from dataclasses import dataclass

from iclimit.checks import check_arguments
from iclimit.simulate.arrays import Backend, Generator
from iclimit.simulate.prompts import Prompts

AMPLITUDES = (0.1, 0.5)
LARGEST_INPUT = 5.0


@dataclass(frozen=True)
class SineTask:
    """Law of prompts of sines.

    Parameters
    ----------
    context : int >= 1
        Number N of labelled pairs in a prompt.
    tied : bool
        Whether the amplitude is tied to the phase, as the published code draws them.

    Raises
    ------
    ValueError
        If context is outside its range.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.simulate.arrays import get_backend
    >>> from iclimit.simulate.networks import SineTask
    >>> prompts = SineTask(context=10).draw(get_backend("numpy"), np.random.default_rng(0), 500)
    >>> prompts.inputs.shape, bool(abs(prompts.target).max() < 0.5)
    ((500, 10, 1), True)
    """

    context: int
    tied: bool = False

    def __post_init__(self) -> None:
        check_arguments(context=self.context)

    @property
    def dim(self) -> int:
        """Dimension of the inputs."""
        return 1

    def draw(self, backend: Backend, generator: Generator, count: int) -> Prompts:
        """Draw prompts with a generator of a backend."""
        xp = backend.xp
        low, high = AMPLITUDES
        share = generator.random((count, 2))
        phase = math.pi * share[:, :1]
        amplitude = low + (high - low) * (share[:, :1] if self.tied else share[:, 1:])
        x = LARGEST_INPUT * (2 * generator.random((count, self.context + 1)) - 1)
        y = amplitude * xp.sin(x + phase)
        inputs = x[:, :-1, None]
        labels = y[:, :-1]
        silent = xp.zeros(count)
        return Prompts(inputs, labels, x[:, -1:], y[:, -1], noise_variance=silent)
