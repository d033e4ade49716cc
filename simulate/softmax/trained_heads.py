r"""Training of softmax heads, and what isotropic heads their weights are.

The loss of heads has flat directions.  Those of a pair with opposite weights depend on the product
of temperature and value, and hardly on the temperature.  There training is slow, and noise of the
gradient drives it to colder heads: batches are larger here than for other networks.  At N = d = 10
these defaults leave 0.1 % of the loss of one head and 0.5 % of that of two, in some 6 and 12 CPU
seconds.  Batches of 512 prompts leave 1.2 % for two heads.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.simulate.networks.training import TrainedNetwork, train_network
from iclimit.simulate.probing.problem import Problem
from iclimit.simulate.softmax.merged_heads import MergedHeads


@dataclass(frozen=True, eq=False, repr=False)
class TrainedSoftmax(TrainedNetwork):
    """Trained softmax heads: a `TrainedNetwork` that says which isotropic heads it is.

    The attributes are those of `TrainedNetwork`.
    """

    network: MergedHeads

    @property
    def inverse_temperature(self) -> np.ndarray:
        """Factors of the scores, (heads,): the isotropic part of the key-query matrices."""
        entries = np.arange(self.network.dim)
        return np.asarray(np.mean(self.weights["lookup"][:, entries, entries], axis=1))

    @property
    def value(self) -> np.ndarray:
        """Factors of the labels, (heads,)."""
        return self.weights["value"][:, -1]

    @property
    def lookup_rest(self) -> np.ndarray:
        """Root mean square of what else is in the key-query matrices, (heads,)."""
        isotropic = self.network.isotropic(self.inverse_temperature, self.value)["lookup"]
        return np.sqrt(np.mean((self.weights["lookup"] - isotropic) ** 2, axis=(1, 2)))

    @property
    def value_rest(self) -> np.ndarray:
        """Root mean square of the factors of the inputs, (heads,)."""
        return np.sqrt(np.mean(self.weights["value"][:, :-1] ** 2, axis=1))


def train_softmax(
    *,
    heads: int = 1,
    init_scale: float = 0.2,
    steps: int = 5000,
    batch: int = 2048,
    learning_rate: float = 0.005,
    patience: int = 200,
    held_out: int = 20_000,
    rng: Any,
    backend: str = "numpy",
    checkpoint: str | os.PathLike | None = None,
    progress: bool = False,
    **problem: Any,
) -> TrainedSoftmax:
    r"""Train softmax heads on linear regression from random weights.

    The heads are `MergedHeads`, all that one layer of softmax attention can have; every step of
    Adam takes fresh prompts.

    Parameters
    ----------
    heads : int >= 1
        Number of heads.
    init_scale : float > 0
        Standard deviation of the initial weights.
    steps, batch, learning_rate, patience, held_out
        As in `iclimit.networks.train_network`; the defaults are for these heads.
    rng, backend, checkpoint, progress
        As there.
    **problem
        Arguments of `iclimit.Problem`: context, dim, noise_variance, input_law and others.

    Returns
    -------
    TrainedSoftmax
        A `TrainedNetwork` with the properties ``inverse_temperature`` and ``value`` of each head,
        and ``lookup_rest`` and ``value_rest``, which say how far the weights are from heads
        :math:`\mathrm{softmax}_i(\beta\, x_q \cdot x_i)` with labels as values.

    Raises
    ------
    ValueError, TypeError, RuntimeError, OSError, ArithmeticError
        As `iclimit.networks.train_network` does.

    Notes
    -----
    Keys and values of the opposite sign are another head of the same loss; the seed decides.
    Several heads begin on the plateau of one head, which smaller rates or a smaller patience may
    take for the end.

    Examples
    --------
    >>> from iclimit.simulate.softmax import train_softmax
    >>> run = train_softmax(context=6, dim=2, batch=512, learning_rate=0.01, rng=0)
    >>> bool(run.held_out.mean < 0.6 * run.null_loss), run.converged
    (True, True)
    >>> run.inverse_temperature.shape, run.value.shape
    ((1,), (1,))
    """
    law = Problem(**problem)
    network = MergedHeads(law.dim, heads, init_scale)
    run = train_network(
        network,
        law,
        steps=steps,
        batch=batch,
        learning_rate=learning_rate,
        patience=patience,
        held_out=held_out,
        rng=rng,
        backend=backend,
        checkpoint=checkpoint,
        progress=progress,
    )
    return TrainedSoftmax(**vars(run))
