r"""The optimal preconditioner of one gradient-descent step in context.

Inputs :math:`x = T z` with independent coordinates of z of mean 0, variance 1 and excess kurtosis
:math:`\kappa_4`, :math:`\Lambda = T T^\top`; tasks of covariance W, label noise :math:`\sigma^2`,
N context pairs.  One layer of linear self-attention predicts
:math:`\hat y = x_q^\top A \beta` with :math:`\beta = \frac1N \sum_n y_n x_n`: a
gradient-descent step with preconditioner A.  With

.. math:: S = E \beta\beta^\top = \Bigl(1 + \frac1N\Bigr) \Lambda W \Lambda
   + \frac{t + \sigma^2}N \Lambda + \frac{\kappa_4}N T \operatorname{diag}(T^\top W T) T^\top,
   \qquad t = \operatorname{tr} W \Lambda,

the loss on a noisy query label and its minimum are

.. math:: \mathcal L(A) = \sigma^2 + t - 2 \operatorname{tr} A \Lambda W \Lambda
   + \operatorname{tr} \Lambda A S A^\top, \qquad
   A^* = W \Lambda S^{-1}, \quad
   \mathcal L^* = \sigma^2 + t - \operatorname{tr} \Lambda A^* \Lambda W.

For Gaussian inputs and the eigenvalues :math:`b_i` of
:math:`B = \Lambda^{1/2} W \Lambda^{1/2}` this is

.. math:: \mathcal L^* = \sigma^2 + \sum_i \frac{b_i (b_i + t + \sigma^2)}
   {(N + 1) b_i + t + \sigma^2}.

W = I is Theorem 1 of Ahn, Cheng, Daneshmand and Sra (NeurIPS 2023, arXiv:2306.00297) and the limit
of gradient flow in Zhang, Frei and Bartlett (JMLR 2024, arXiv:2306.09927).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from iclimit.asymptotics.checks import checked, real_array
from iclimit.asymptotics.numbers import Number, Value
from iclimit.asymptotics.pretraining.joint_spectrum import covariance_matrix
from iclimit.checks import check_shape
from iclimit.results import Result

# Relative size up to which singular values are rounding.
_ROUNDING = 1e-14


@dataclass(frozen=True, repr=False)
class Preconditioner(Result):
    """Optimal preconditioner and its loss.

    Attributes
    ----------
    matrix : ndarray (d, d) or SymPy matrix
        A, for the mean over the context.
    loss : float or SymPy expression
        Mean squared error on a noisy query label.
    """

    matrix: Value
    loss: Value


def optimal_preconditioner(
    input_covariance: ArrayLike | None,
    *,
    task_covariance: ArrayLike | None = None,
    context: Number,
    noise_variance: Number = 0.0,
    excess_kurtosis: Number = 0.0,
    mixing: Number | None = None,
) -> Preconditioner:
    r"""Preconditioner of one gradient-descent step with the least expected loss.

    Parameters
    ----------
    input_covariance : array (d, d) or SymPy matrix
        :math:`\Lambda`, symmetric positive semidefinite; as an array (d,) the diagonal of a
        diagonal one.
    task_covariance : array (d, d) or SymPy matrix, optional
        W, likewise; the identity by default.  It need not commute with :math:`\Lambda`.
    context : number >= 1
        Number N of context pairs.
    noise_variance : number >= 0
        Variance of the label noise.
    excess_kurtosis : number or array (d,), >= -2
        Excess kurtosis of the independent coordinates of the inputs: 0 for Gaussian, -1.2 for
        uniform, -2 for random signs, 3 for Laplace.
    mixing : array (d, d), optional
        T of :math:`x = T z`, needed to tell what the independent coordinates are; the symmetric
        root of the covariance by default.  Without excess kurtosis it has no effect.

    Returns
    -------
    Preconditioner
        With fields ``matrix`` and ``loss``.  On the null space of the inputs, where it has no
        effect, the matrix is zero.

    Raises
    ------
    ValueError
        If a matrix is not symmetric positive semidefinite, shapes do not fit, or a number is
        outside its range.
    TypeError
        If an argument is of another kind.

    Notes
    -----
    SymPy matrices (with Gaussian inputs) give exact expressions; the covariance must then be
    invertible.

    References
    ----------
    Zhang, Frei and Bartlett, JMLR 2024 (arXiv:2306.09927), Theorem 4.1: noiseless, W = I.
    Mahankali, Hashimoto and Ma, ICLR 2024 (arXiv:2307.03576): noise, W the identity or the
    inverse of the input covariance.  General W and kurtosis: module docstring.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.asymptotics.descent import optimal_preconditioner
    >>> best = optimal_preconditioner(np.diag([2.0, 1.0]), context=10, noise_variance=0.5)
    >>> best.matrix.round(4)
    array([[0.3922, 0.    ],
           [0.    , 0.6897]])
    >>> round(float(best.loss), 4)
    1.2417
    """
    _, values = checked(single=True, context=context, noise_variance=noise_variance)
    N = values.context
    noise = values.noise_variance
    if _is_symbolic(input_covariance, task_covariance, context, noise_variance):
        Lambda, W = _symbolic(input_covariance, task_covariance, excess_kurtosis)
        if Lambda.det().simplify() == 0:
            raise ValueError("input_covariance must be invertible for SymPy matrices")
        K = W * Lambda
        R = K + (K.trace() + noise) * K.eye(K.rows)
        C = N * K * (N * K + R).inv()
        matrix = (C * Lambda.inv()).applyfunc(lambda entry: entry.factor())
        return Preconditioner(matrix, (noise + (C * R).trace() / N).factor())
    T, W, kurtosis = _arrays(input_covariance, task_covariance, excess_kurtosis, mixing)
    left, scale, right = np.linalg.svd(T)
    kept = scale > _ROUNDING * len(scale) * scale[0]
    left = left[:, kept]
    scale = scale[kept]
    right = right[kept]
    # In the coordinates u of x = (left * scale) u nothing is inverted but well-conditioned sums.
    K = right @ T.T @ W @ T @ right.T
    R = K + (np.trace(K) + noise) * np.eye(len(K))
    R += (right * (kurtosis * np.diag(T.T @ W @ T))) @ right.T
    C = np.linalg.solve(N * K + R, N * K).T if np.trace(R) > 0 else 0 * K
    inverse = left / scale
    return Preconditioner(inverse @ C @ inverse.T, float(noise + np.trace(C @ R) / N))


def preconditioner_loss(
    matrix: Number,
    *,
    input_covariance: ArrayLike | None,
    task_covariance: ArrayLike | None = None,
    context: Number,
    noise_variance: Number = 0.0,
    excess_kurtosis: Number = 0.0,
    mixing: Number | None = None,
) -> Value:
    r"""Expected loss of one gradient-descent step with any preconditioner.

    With the optimal matrix of one context length and the ``context`` of another this is the risk
    at a test length different from that of training.

    Parameters
    ----------
    matrix : array (d, d) or SymPy matrix
        A, for the mean over the context.
    input_covariance, task_covariance, context, noise_variance, excess_kurtosis, mixing
        As in `optimal_preconditioner`.

    Returns
    -------
    float or SymPy expression
        Mean squared error on a noisy query label.

    Raises
    ------
    ValueError
        If a matrix is not symmetric positive semidefinite, shapes do not fit, or a number is
        outside its range.
    TypeError
        If an argument is of another kind.

    References
    ----------
    Test length: Zhang, Frei and Bartlett, JMLR 2024 (arXiv:2306.09927), Theorem 4.2, averaged
    over tasks.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.asymptotics.descent import optimal_preconditioner, preconditioner_loss
    >>> trained = optimal_preconditioner(np.eye(5), context=20).matrix
    >>> round(preconditioner_loss(trained, input_covariance=np.eye(5), context=20), 4)
    1.1538
    >>> round(preconditioner_loss(trained, input_covariance=np.eye(5), context=1000), 4)
    0.284
    """
    _, values = checked(single=True, context=context, noise_variance=noise_variance)
    N = values.context
    noise = values.noise_variance
    if _is_symbolic(matrix, input_covariance, task_covariance, context, noise_variance):
        Lambda, W = _symbolic(input_covariance, task_covariance, excess_kurtosis)
        A = _symbolic_matrix("matrix", matrix)
        identity = Lambda.eye(Lambda.rows)
        check_shape("matrix", A, identity.shape)
        spread = Lambda * W * Lambda + ((W * Lambda).trace() + noise) * Lambda
        missed = identity - A * Lambda
        loss = (Lambda * missed * W * missed.T).trace() + (Lambda * A * spread * A.T).trace() / N
        return noise + loss
    T, W, kurtosis = _arrays(input_covariance, task_covariance, excess_kurtosis, mixing)
    A = _matrix("matrix", matrix)
    check_shape("matrix", A, T.shape)
    K = T.T @ W @ T
    C = T.T @ A @ T
    R = K + (np.trace(K) + noise) * np.eye(len(K)) + np.diag(kurtosis * np.diag(K))
    missed = np.eye(len(K)) - C
    return float(noise + np.trace(missed @ K @ missed.T) + np.trace(C @ R @ C.T) / N)


def _is_symbolic(*values: object) -> bool:
    return any(hasattr(value, "free_symbols") for value in values)


def _symbolic(input_covariance: Value, task_covariance: Value, excess_kurtosis: Value) -> Value:
    """Covariances as SymPy matrices."""
    if np.any(excess_kurtosis != 0):
        raise ValueError(f"excess_kurtosis must be 0 for SymPy matrices, got {excess_kurtosis}")
    Lambda = _symbolic_matrix("input_covariance", input_covariance)
    identity = Lambda.eye(Lambda.rows)
    W = (
        identity
        if task_covariance is None
        else _symbolic_matrix("task_covariance", task_covariance)
    )
    for name, matrix in (("input_covariance", Lambda), ("task_covariance", W)):
        if matrix.shape != identity.shape or not matrix.is_symmetric():
            raise ValueError(f"{name} must be a symmetric matrix of shape {identity.shape}")
    return Lambda, W


def _symbolic_matrix(name: str, value: Value) -> Value:
    import sympy

    try:
        return sympy.ImmutableMatrix(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be a matrix, got {value!r}") from error


def _arrays(
    input_covariance: Value, task_covariance: Value, excess_kurtosis: Value, mixing: Value
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mixing matrix, task covariance and excess kurtosis per coordinate, checked."""
    Lambda = covariance_matrix("input_covariance", input_covariance)
    d = len(Lambda)
    given = np.ones(d) if task_covariance is None else task_covariance
    W = covariance_matrix("task_covariance", given, d)
    kurtosis = real_array("excess_kurtosis", excess_kurtosis)
    check_shape("excess_kurtosis", kurtosis, (), (d,))
    if mixing is None:
        values, vectors = np.linalg.eigh(Lambda)
        return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T, W, kurtosis
    T = _matrix("mixing", mixing)
    if T.shape != (d, d) or not np.allclose(T @ T.T, Lambda, rtol=0, atol=1e-8 * np.max(Lambda)):
        raise ValueError("mixing must be a (d, d) matrix T with T T^T = input_covariance")
    return T, W, kurtosis


def _matrix(name: str, value: Value) -> np.ndarray:
    matrix = real_array(name, value, "(-inf, inf)")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ValueError(f"{name} must be a square matrix, got shape {matrix.shape}")
    return matrix
