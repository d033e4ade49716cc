r"""Random contexts of deep linear attention, for batches of training and for held-out losses.

Every array is stacked over repeats and contexts, and every repeat has its own generator.  The
eigenbasis of a context is Q of the QR decomposition of a Gaussian matrix; up to signs of its
columns, which do not matter for covariances, it is a random rotation.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike

from iclimit.checks import check_arguments, parse_array
from iclimit.simulate.arrays import Array, Backend, Generator, row_blocks
from iclimit.simulate.depth.stacks import Product

# Arguments of `iclimit.simulate.depth.stacks.loss_and_gradient` after the matrices.
Batch = tuple[Array, Product, Array, Array]


def check_sizes(sizes: Mapping[str, int | float]) -> None:
    """Check sizes by the notation, and let infinite ones pass."""
    check_arguments(**{name: size for name, size in sizes.items() if size != math.inf})


def parse_spectra(
    eigenvalues: ArrayLike, task_spectrum: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues >= 0 of the covariances of inputs and of tasks, by default 1."""
    lam = parse_spectrum("eigenvalues", eigenvalues)
    tasks = np.ones_like(lam) if task_spectrum is None else task_spectrum
    return lam, parse_spectrum("task_spectrum", tasks, lam.shape)


def parse_spectrum(
    name: str, values: ArrayLike, shape: tuple[int | None, ...] = (None,)
) -> np.ndarray:
    """Numbers >= 0 of this shape."""
    parsed = parse_array(name, values, shape)
    if not np.all(parsed >= 0):
        raise ValueError(f"{name} must be >= 0, got {parsed.min()}")
    return parsed


@dataclass(frozen=True)
class HeldOut:
    """Held-out contexts, arrays (repeats, contexts, d, d).

    Attributes
    ----------
    covariance : array
        Covariances of the tokens of the contexts.
    query_root, task_root : array
        Roots of the covariances of queries and tasks.
    """

    covariance: Array
    query_root: Array
    task_root: Array

    def blocks(self, xp: ModuleType) -> Iterator[tuple[Array, Array, Array]]:
        """Blocks of contexts of all repeats."""
        repeats, contexts, dim, _ = self.covariance.shape
        for rows in row_blocks(xp, contexts, 8 * repeats * dim**2):
            yield tuple(
                array[:, rows, :, :] if array.shape[1] > 1 else array
                for array in vars(self).values()
            )


@dataclass(frozen=True)
class ContextLaw:
    """Law of contexts with tasks and queries.

    Attributes
    ----------
    device : Backend
    eigenvalues, task_spectrum : ndarray (d,)
        Of the covariances of inputs and tasks.
    rotated : bool
        Whether the eigenbasis is random.
    context, query_count : int or inf
        Tokens and queries of a context.
    noise_variance, query_noise_variance : float
        Of their labels.
    """

    device: Backend
    eigenvalues: np.ndarray
    task_spectrum: np.ndarray
    rotated: bool
    context: float
    query_count: float
    noise_variance: float
    query_noise_variance: float

    @property
    def dim(self) -> int:
        """Dimension d."""
        return self.eigenvalues.size

    @property
    def relative_noise(self) -> float:
        """Variance of label noise over the context length."""
        return self.noise_variance / self.context

    def draw_projector(self, generators: list[Generator], width: float) -> Array | None:
        """Projectors on random subspaces, one for each repeat; None if the width is no less."""
        if width >= self.dim:
            return None
        xp = self.device.xp
        basis = xp.linalg.qr(self._normal(generators, (self.dim, int(width))))[0]
        return basis @ xp.matrix_transpose(basis)

    def draw_batch(
        self, generators: list[Generator], batch: int, projector: Array | None
    ) -> Batch:
        """One task for each context, with its tokens and queries."""
        xp = self.device.xp
        query_root, task_root = self._roots(generators, batch)
        task = self._normal(generators, (batch, 1, self.dim)) @ task_root
        tokens, labels = self._sample(
            generators, query_root, task, self.context, self.noise_variance
        )
        queries, targets = self._sample(
            generators, query_root, task, self.query_count, self.query_noise_variance
        )
        if projector is not None:
            projection = projector[:, None, :, :]
            tokens = tokens @ projection
            queries = queries @ projection
        columns = xp.matrix_transpose(tokens)
        return labels @ tokens, lambda rows: (rows @ columns) @ tokens, queries, targets

    def draw_held_out(self, generators: list[Generator], contexts: int) -> HeldOut:
        """Held-out contexts; a single one where all are the same."""
        xp = self.device.xp
        if self.context == math.inf and not self._turns:
            contexts = 1
        query_root, task_root = self._roots(generators, contexts)
        tokens = query_root
        if self.context < math.inf:
            tokens = self._normal(generators, (contexts, int(self.context), self.dim))
            tokens = tokens @ query_root / math.sqrt(self.context)
        covariance = xp.matrix_transpose(tokens) @ tokens
        shape = (len(generators), contexts, self.dim, self.dim)
        return HeldOut(xp.broadcast_to(covariance, shape), query_root, task_root)

    @property
    def _turns(self) -> bool:
        """Whether a rotation changes a covariance."""
        spectra = self.eigenvalues, self.task_spectrum
        return self.rotated and any(np.ptp(spectrum) > 0 for spectrum in spectra)

    def _roots(self, generators: list[Generator], contexts: int) -> tuple[Array, Array]:
        """Roots of the covariances of inputs and tasks."""
        xp = self.device.xp
        scales = [
            self.device.asarray(np.sqrt(spectrum))
            for spectrum in (self.eigenvalues, self.task_spectrum)
        ]
        if not self._turns:
            return tuple(xp.eye(self.dim)[None, None, :, :] * scale for scale in scales)
        basis = xp.linalg.qr(self._normal(generators, (contexts, self.dim, self.dim)))[0]
        return tuple(xp.matrix_transpose(basis * scale) for scale in scales)

    def _sample(
        self, generators: list[Generator], root: Array, task: Array, count: float, noise: float
    ) -> tuple[Array, Array]:
        r"""Inputs over the root of their number, and labels times :math:`\sqrt d`."""
        xp = array_namespace(root)
        batch = task.shape[1]
        if count == math.inf:
            return root, task @ xp.matrix_transpose(root)
        size = int(count)
        x = self._normal(generators, (batch, size, self.dim)) @ root / math.sqrt(size)
        y = task @ xp.matrix_transpose(x)
        if noise > 0:
            scale = math.sqrt(noise * self.dim / size)
            y = y + scale * self._normal(generators, (batch, 1, size))
        return x, y

    def _normal(self, generators: list[Generator], shape: tuple[int, ...]) -> Array:
        """Standard normal numbers (repeats, *shape)."""
        return self.device.xp.stack([generator.standard_normal(shape) for generator in generators])
