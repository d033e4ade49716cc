r"""Training on mixtures: sequences with random tasks and sequences that share one.

With probability c (``fresh_fraction``) a sequence has its own task :math:`w \sim N(0, I)`;
otherwise it has the task vector :math:`w_*` that all those sequences share, which a model can also
store in its weights.  Inputs are :math:`N(0, \Lambda)` with :math:`\Lambda = S^2`; labels have
noise of variance :math:`\sigma^2`.

*Best predictor* :math:`\beta^\top \Gamma x_q`.  For whitened inputs the task is :math:`S w`.  The
predictor depends on the law of the tasks through its second moment only:

.. math:: K = E\, S w w^\top S = c \Lambda + (1 - c)\, S w_* w_*^\top S .

With :math:`\beta = S \tilde\beta`, :math:`E \tilde\beta (Sw)^\top = K` and
:math:`E \tilde\beta \tilde\beta^\top = K + \frac1N \bigl[K + (\operatorname{tr} K + \sigma^2) I
\bigr]`, so :math:`\Gamma = S^{-1} \tilde\Gamma S^{-1}` with :math:`\tilde\Gamma` diagonal in the
basis of K and the loss that of in-context regression with the eigenvalues :math:`\kappa` of K in
place of those of :math:`\Lambda`:

.. math:: \tilde\Gamma = \Bigl[K + \frac{K + (\operatorname{tr} K + \sigma^2) I}N\Bigr]^{-1} K,
   \qquad L = \sigma^2 + \sum_d \kappa_d \Bigl(1 - \frac1{c_d}\Bigr), \quad
   c_d = 1 + \frac1N \Bigl(1 + \frac{\operatorname{tr} K + \sigma^2}{\kappa_d}\Bigr).

There is no singular case as long as the shared task is not zero, not even c = 0, where K has rank
one.  For :math:`\Lambda = \lambda I` the eigenvalues are :math:`\lambda (c + (1 - c)|w_*|^2)` and,
D - 1 times, :math:`\lambda c`.

*First growth.*  The whole model sees :math:`v^\top S U x_q`, with the second moment :math:`S =
\frac1N \sum e e^\top` of the tokens :math:`e_n = (x_n, y_n)`, the query token :math:`(x_q, 0)`
included.  From small weights it grows at the rate of the largest singular value of
:math:`T_{i,jk} = E\, y_q S_{ij} x_{q,k}`.  With :math:`p = 1 - c`, :math:`m = \Lambda w_*`,
:math:`C = c \Lambda^2 + p\, m m^\top` and the label as index y,

.. math:: T_{i,jk} = p \Bigl[\Lambda_{ij} m_k + \frac1N (\Lambda_{ij} m_k + \Lambda_{ik} m_j
   + \Lambda_{jk} m_i)\Bigr], \quad T_{i,yk} = T_{y,ik} = C_{ik}, \quad
   T_{y,yk} = p\, (w_*^\top \Lambda w_* + \sigma^2)\, m_k .

The terms in 1/N in brackets are those of the query token.  For c = 1 the rate is
:math:`|\Lambda^2|_F`, that of `iclimit.asymptotics.dynamics.merged`.

References
----------
Zhang, Singh, Latham and Saxe, ICML 2025 (arXiv:2501.16265) train on such mixtures; the formulas
are not in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iclimit.asymptotics.checks import CheckedValues, broadcast, check_range, checked, real_array
from iclimit.asymptotics.numbers import Namespace, Number, Value
from iclimit.asymptotics.pretraining.joint_spectrum import covariance_matrix
from iclimit.results import Result


@dataclass(frozen=True, eq=False, repr=False)
class MixturePredictor(Result):
    r"""Best predictor :math:`\beta^\top \Gamma x_q` for a mixture, and its losses.

    All losses are mean squared errors on a noisy query label (no 1/2), of the shape of the
    broadcast arguments.

    Attributes
    ----------
    gamma : ndarray (..., D, D)
        The matrix :math:`\Gamma`.
    train_loss : float or ndarray
        Loss on the mixture.
    icl_loss : float or ndarray
        Loss on sequences with random tasks.
    iwl_loss : float or ndarray
        Loss on sequences with the shared task.
    iwl_noise_loss : float or ndarray
        Loss on sequences whose context labels are independent N(0, 1) while the query has the
        shared task: a test of what is stored in the weights.
    """

    gamma: np.ndarray
    train_loss: Value
    icl_loss: Value
    iwl_loss: Value
    iwl_noise_loss: Value


def mixture_predictor(
    fresh_fraction: Number,
    *,
    input_covariance: Number,
    shared_task: Number,
    context: Number,
    noise_variance: Number = 0.0,
) -> MixturePredictor:
    r"""Best predictor of the form :math:`\beta^\top \Gamma x_q` for a mixture of tasks.

    Parameters
    ----------
    fresh_fraction : number or array in [0, 1]
        Fraction c of sequences with random tasks.
    input_covariance : array (D, D) or (D,)
        Covariance :math:`\Lambda` of the inputs, symmetric and positive definite, or the diagonal
        of a diagonal one.
    shared_task : array (D,)
        Task vector :math:`w_*` of all other sequences, not zero.
    context : number or array >= 1
        Number N of context pairs.
    noise_variance : number or array >= 0
        Variance of the label noise.

    Returns
    -------
    MixturePredictor
        With fields ``gamma``, ``train_loss``, ``icl_loss``, ``iwl_loss`` and ``iwl_noise_loss``.

    Raises
    ------
    ValueError
        If an argument is outside its range or of wrong shape.
    TypeError
        If an argument is not a number or a NumPy array.

    Notes
    -----
    The training loss bounds the smallest loss of merged attention from above.  For c = 1 the two
    agree, in general they do not: merged attention also sees the second moments of the inputs and
    of the labels.  These have a mean, so that it can store :math:`w_*` in its weights.  The
    predictor here is linear in the context labels and cannot: its ``iwl_noise_loss`` is never
    below :math:`w_*^\top \Lambda w_* + \sigma^2`.

    References
    ----------
    Module `iclimit.asymptotics.dynamics.mixtures`.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.asymptotics.dynamics import mixture_predictor
    >>> law = {"input_covariance": np.eye(2), "shared_task": [2, 0], "context": 20}
    >>> best = mixture_predictor([0, 0.5, 1], **law)
    >>> best.train_loss.round(4)
    array([0.3636, 0.3774, 0.2609])
    >>> best.icl_loss.round(4)
    array([1.1322, 0.2811, 0.2609])
    >>> best.gamma[0].round(4)
    array([[0.9091, 0.    ],
           [0.    , 0.    ]])
    """
    math_, covariance, task, values = _mixture(
        fresh_fraction, input_covariance, shared_task, context, noise_variance
    )
    c = values.fresh_fraction
    noise = values.noise_variance
    root, inverse = _roots(covariance)
    shared = root @ task
    with math_.quiet():
        share = c[..., None, None]
        moment = share * covariance + (1 - share) * np.outer(shared, shared)
        kappa, axes = np.linalg.eigh(moment)
        kappa = np.maximum(kappa, 0)
        size = np.sum(kappa, axis=-1) + noise
        fluctuation = (kappa + size[..., None]) / values.context[..., None]
        total = kappa + fluctuation
        gain = kappa / total
        lack = fluctuation / total
        squared = np.sum(gain**2, axis=-1)

        def loss(second: np.ndarray) -> np.ndarray:
            """Bias and variance for whitened tasks with these second moments in the basis of K."""
            bias = np.sum(lack**2 * second, axis=-1)
            spread = np.sum(gain**2 * second, axis=-1)
            return (
                noise
                + bias
                + (spread + (np.sum(second, axis=-1) + noise) * squared) / values.context
            )

        random = np.einsum("...id,ij,...jd->...d", axes, covariance, axes)
        icl_loss = loss(random)
        iwl_loss = loss((axes.swapaxes(-1, -2) @ shared) ** 2)
        whitened = (axes * gain[..., None, :]) @ axes.swapaxes(-1, -2)
        return MixturePredictor(
            math_.finish(inverse @ whitened @ inverse),
            math_.finish(c * icl_loss + (1 - c) * iwl_loss),
            math_.finish(icl_loss),
            math_.finish(iwl_loss),
            math_.finish(noise + shared @ shared + squared / values.context),
        )


def mixture_growth_rate(
    fresh_fraction: Number,
    *,
    input_covariance: Number,
    shared_task: Number,
    context: Number,
    noise_variance: Number = 0.0,
) -> Value:
    r"""Rate of the first exponential growth of merged attention on a mixture of tasks.

    Parameters
    ----------
    fresh_fraction, input_covariance, shared_task, context, noise_variance
        As in `mixture_predictor`.

    Returns
    -------
    float or ndarray
        Largest singular value of T in units of :math:`1/\tau`, for weights that include those of
        the label and query tokens.  From a small start of size s the loss drops after about
        :math:`\ln(1/s)` over this rate.

    Raises
    ------
    ValueError
        If an argument is outside its range or of wrong shape.
    TypeError
        If an argument is not a number or a NumPy array.

    References
    ----------
    Module `iclimit.asymptotics.dynamics.mixtures`.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.asymptotics.dynamics import mixture_growth_rate
    >>> more = {"input_covariance": np.eye(4) / 4, "shared_task": [1, -1, 1, 1], "context": 31}
    >>> mixture_growth_rate([0, 0.5, 1], **more).round(4)
    array([0.6275, 0.3434, 0.125 ])
    """
    math_, covariance, task, values = _mixture(
        fresh_fraction, input_covariance, shared_task, context, noise_variance
    )
    c = values.fresh_fraction
    N = values.context
    noise = values.noise_variance
    D = len(task)
    with math_.quiet():
        mean = covariance @ task
        shared = (1 - c)[..., None, None, None]
        seen = np.einsum("ij,k->ijk", covariance, mean)
        of_query = seen + seen.transpose(0, 2, 1) + seen.transpose(2, 0, 1)
        cross = c[..., None, None] * covariance @ covariance
        cross = cross + shared[..., 0] * np.outer(mean, mean)
        T = np.zeros((*c.shape, D + 1, D + 1, D))
        T[..., :D, :D, :] = shared * (seen + of_query / N[..., None, None, None])
        T[..., :D, D, :] = cross
        T[..., D, :D, :] = cross
        T[..., D, D, :] = shared[..., 0, 0] * (task @ mean + noise)[..., None] * mean
        unfolded = math_.convert(T.reshape(*c.shape, D + 1, -1))
        math_.finish(unfolded)
        return math_.finish(np.linalg.norm(unfolded, ord=2, axis=(-2, -1)))


def _mixture(
    fresh_fraction: Number,
    input_covariance: Number,
    shared_task: Number,
    context: Number,
    noise_variance: Number,
) -> tuple[Namespace, np.ndarray, np.ndarray, CheckedValues]:
    """Number system, covariance, shared task, and the numbers, broadcast to one shape."""
    vector = real_array("shared_task", shared_task, "(-inf, inf)")
    math_, values = checked(
        systems="numpy",
        fresh_fraction=fresh_fraction,
        context=context,
        noise_variance=noise_variance,
    )
    if vector.ndim != 1 or not vector.size:
        raise ValueError(f"shared_task must have shape (D,), got {vector.shape}")
    matrix = covariance_matrix("input_covariance", input_covariance, len(vector))
    smallest = np.min(np.linalg.eigvalsh(matrix))
    check_range(math_, "smallest eigenvalue of input_covariance", smallest, "(0, inf)")
    check_range(math_, "norm of shared_task", np.max(np.abs(vector)), "(0, inf)")
    return math_, matrix, vector, broadcast(values)


def _roots(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Root of a covariance and its inverse."""
    lam, basis = np.linalg.eigh(covariance)
    return (basis * np.sqrt(lam)) @ basis.T, (basis / np.sqrt(lam)) @ basis.T
