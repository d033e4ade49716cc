r"""What a layer predicts without labels: the part that :math:`\Gamma` cannot express.

The prediction of one layer is

.. math:: \hat y = m^\top x_q + \sum_{abi} T_{abi} G_{ab}\, x_{q,i}, \qquad
   T_{abi} = \sum_h (r^\top O_h)_a (B_h)_{bi},

with the second moments G of the tokens, the readout r and, with a residual connection, its part m
that reads the query itself.  Entries of G with a label make :math:`\Gamma`.  The others,
:math:`S_{iab} = \frac12 (T_{abi} + T_{bai})` for :math:`a, b \le d`, weigh
:math:`X = \sum_s x_s x_s^\top` over the context, and :math:`x_q x_q^\top` where the query is among
the keys:

.. math:: r = \sum_i x_{q,i} \bigl[m_i + \operatorname{tr} S_i X + x_q^\top S_i x_q\bigr] .

For Gaussian inputs of covariance :math:`R R^\top` all is written in white coordinates, with S and
m multiplied by R along every index.  X is then a Wishart matrix of :math:`\ell` degrees of
freedom: :math:`\operatorname{tr} A X` has the mean :math:`\ell \operatorname{tr} A` and the
covariance :math:`2\ell \operatorname{tr} A B` with :math:`\operatorname{tr} B X`, A and B being
symmetric.
The last term is a cubic form of a Gaussian vector.  Hence

.. math:: E\,r^2 = |\mu|^2 + 2 \ell \sum_i \lVert S_i\rVert_F^2
   + [\,6 \lVert \bar S\rVert^2 + 9 |t|^2 + 6 \mu^\top t\,], \qquad
   \mu_i = m_i + \ell \operatorname{tr} S_i,

the bracket only with the query among the keys; :math:`\bar S` is S made symmetric in all three
indices and :math:`t_i = \sum_a \bar S_{aai}`.

This part is not independent of the labels: on few tasks it can learn their mean, and the squares
of the labels in h know the norms of the inputs.  Given the inputs, the mean of
:math:`x_q^\top \Gamma h - y` over tasks and noise is :math:`\sum_i x_{q,i} [\operatorname{tr}
A_i X + \rho \Gamma_{i,d+1} - \bar w_i]` with :math:`A_i = \frac d\ell \Gamma_i \bar w^\top +
\frac1\ell \Gamma_{i,d+1} E\,ww^\top`.  With the mean a of the bracket over the inputs,

.. math:: E\,(x_q^\top \Gamma h - y)\, r = a^\top \mu + 2 \ell \sum_i \operatorname{tr} A_i S_i
   + [\,3 a^\top t\,] .
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from iclimit.asymptotics.pretraining.deterministic_equivalent import matrix_root
from iclimit.asymptotics.pretraining.summary_moments import TaskMoments
from iclimit.units import Units
from iclimit.validation.instruments.weights.layouts import Layout, Products


@dataclass(frozen=True)
class LabelFree:
    """The part without labels.

    Attributes
    ----------
    form : ndarray (d, d, d)
        S, the index of the query first.
    linear : ndarray (d,)
        m.
    include_query : bool
        Whether the query is among the keys.
    """

    form: np.ndarray
    linear: np.ndarray
    include_query: bool

    @classmethod
    def of(
        cls, products: Products, readout: np.ndarray, layout: Layout, units: Units
    ) -> LabelFree:
        """From the weights, in the units of the library."""
        d = products.dim
        inputs = math.sqrt(units.value("input_variance") * d)
        labels = math.sqrt(units.factor("noise_variance"))
        read = layout.factor(units.context) * np.einsum("m,hma->ha", readout, products.output)
        form = np.einsum("ha,hbi->iab", read[:, :d], products.lookup[:, :d, :d], optimize=True)
        form = (form + form.swapaxes(1, 2)) / 2 * inputs**3 / labels
        linear = readout[:d] if layout.residual and len(readout) == d + 1 else np.zeros(d)
        return cls(form, linear * inputs / labels, layout.include_query)

    def times(self, factor: float) -> LabelFree:
        """With another factor of the layer; the residual connection has none."""
        return replace(self, form=factor * self.form)

    def square(self, context: int, sigma: np.ndarray | None) -> float:
        """Mean square, for inputs of covariance sigma / d."""
        white = self._white(_root(sigma, len(self.linear)))
        mean = white.linear + context * _trace(white.form)
        form = white.form
        square = np.sum(mean**2) + 2 * context * np.sum(form**2)
        if self.include_query:
            cubic = _symmetric(form)
            t = _trace(cubic)
            square += 6 * np.sum(cubic**2) + 9 * np.sum(t**2) + 6 * mean @ t
        return float(square)

    def product(
        self,
        gamma: np.ndarray,
        tasks: TaskMoments,
        mean_task: np.ndarray,
        context: int,
        rho: float,
        sigma: np.ndarray | None,
    ) -> float:
        """Mean of (prediction by gamma minus label) times this part."""
        d = len(gamma)
        root = _root(sigma, d)
        white = self._white(root)
        last = gamma[:, d]
        A = d / context * gamma[:, :d, None] * mean_task
        A += last[:, None, None] / context * tasks.second
        A = _form_times(root, A)
        mean = context * _trace(A) + _vector_times(root, rho * last - mean_task)
        mean_product = mean @ (white.linear + context * _trace(white.form))
        mean_product += 2 * context * np.sum(A * white.form)
        if self.include_query:
            mean_product += 3 * mean @ _trace(_symmetric(white.form))
        return float(mean_product)

    def _white(self, root: float | np.ndarray) -> LabelFree:
        return replace(
            self, form=_form_times(root, self.form), linear=_vector_times(root, self.linear)
        )


def _root(sigma: np.ndarray | None, d: int) -> float | np.ndarray:
    """Root of the covariance of the inputs; a number for isotropic ones."""
    return (1.0 if sigma is None else matrix_root(sigma)) / math.sqrt(d)


def _vector_times(root: float | np.ndarray, vector: np.ndarray) -> np.ndarray:
    return vector * root if isinstance(root, float) else vector @ root


def _form_times(root: float | np.ndarray, form: np.ndarray) -> np.ndarray:
    """Form with every index multiplied by the root."""
    if isinstance(root, float):
        return form * root**3
    return np.asarray(np.einsum("iab,ij,ac,bd->jcd", form, root, root, root, optimize=True))


def _trace(form: np.ndarray) -> np.ndarray:
    return np.einsum("iaa->i", form)


def _symmetric(form: np.ndarray) -> np.ndarray:
    """Symmetric in all indices, from a form that is so in the last two."""
    return (form + form.transpose(1, 0, 2) + form.transpose(2, 1, 0)) / 3
