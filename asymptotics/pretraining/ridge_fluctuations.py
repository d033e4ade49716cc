r"""Mean and covariance of the test errors of ridge regression, over training sets.

n samples with features of covariance S (p x p) and labels :math:`y = \varphi^\top b_* +` noise of
variance :math:`\sigma^2`; b minimises :math:`\frac1n |y - \Phi b|^2 + \lambda |b|^2`.  A test law
has the error :math:`e(b) = e_0 + (b - t)^\top B (b - t)`.

An error is the derivative by u of the minimum of training cost plus u e, at u = 0, for every
training set.  That minimum is a quadratic form of one resolvent; revealing the samples one by one
gives its covariance as a geometric series (one ladder).  With the effective ridge :math:`\xi`,
:math:`n (1 - \lambda/\xi) = \operatorname{tr} S K`, :math:`K = (S + \xi)^{-1}`,
:math:`b = K S b_*`, :math:`f = \frac1n \operatorname{tr} SKSK`, and for each test law

.. math::

   a &= \frac{\operatorname{tr} SKBK}{n (1 - f)}, \quad N = B - \xi a, \quad
   x = -\frac1n \operatorname{tr} KSKSKN, \\
   C &= KB(b - t) - a \xi K S K b_*, \quad r = \xi\, C^\top S K S b_*, \quad
   l = a + \frac{2r}{r_0} + \frac{x}{1 - f},

where :math:`r_0` is the error of the mean prediction b on the training law, the mean error is
:math:`e_0 + (b - t)^\top B (b - t) + a r_0`, and

.. math:: \operatorname{Cov}(e, e') = \frac{2 r_0^2}{n (1 - f)} \Bigl\{ l l'
   + 2 \Bigl[\frac{C^\top S C'}{r_0} - \frac{r r'}{r_0^2}\Bigr]
   + \frac{\operatorname{tr} KSKNKSKN'}{n (1 - f)} + \frac{x x'}{(1 - f)^2} \Bigr\}.

The features need residuals that are nearly Gaussian when a sample is left out: Gaussian features,
or sums of many independent terms.
"""

import math
from dataclasses import dataclass

import numpy as np

from iclimit.asymptotics.checks import check_integers, real_array, real_number
from iclimit.asymptotics.pretraining.deterministic_equivalent import effective_ridge
from iclimit.checks import check_shape
from iclimit.results import Result

# Numbers of samples next to the number of features for which interpolation of Gaussian features
# has errors of infinite variance.
INTERPOLATED = 3


@dataclass(frozen=True, eq=False, repr=False)
class RidgeFluctuations(Result):
    """Test errors of ridge regression over training sets.

    Attributes
    ----------
    mean : ndarray (m,)
        Mean error of each test law.
    covariance : ndarray (m, m)
        Covariance of the errors of one training set.
    """

    mean: np.ndarray
    covariance: np.ndarray


def ridge_fluctuations(
    feature_covariance: np.ndarray,
    *,
    label_weights: np.ndarray,
    observations: int,
    noise_variance: float,
    ridge: float = 0.0,
    test_covariances: np.ndarray | None = None,
    test_label_weights: np.ndarray | None = None,
) -> RidgeFluctuations:
    r"""Mean and covariance of test errors of ridge regression over training sets.

    Parameters
    ----------
    feature_covariance : array (p, p)
        Covariance S of the features, positive definite.
    label_weights : array (p,)
        Weights of the features in the labels.
    observations : int >= 1
        Training samples n.
    noise_variance : float >= 0
        Variance of the label noise, in training and test.
    ridge : float >= 0
        Penalty :math:`\lambda` beside the mean squared error; 0 is the solution of least norm.
    test_covariances : array (m, p, p), optional
        Covariances B of the features in the tests; None: one test, on the training law.
    test_label_weights : array (m, p), optional
        Weights t of the labels in the tests; None: those of training.

    Returns
    -------
    RidgeFluctuations
        ``mean`` (m,) and ``covariance`` (m, m), to leading order in 1/p.  ``inf`` without a ridge
        where n is within 3 of p: the variance over Gaussian features is infinite there.

    Raises
    ------
    ValueError
        If an argument is outside its range or shapes do not fit.

    References
    ----------
    Module `iclimit.asymptotics.pretraining.ridge_fluctuations`; the mean is that of Hastie,
    Montanari, Rosset and Tibshirani, Ann. Statist. 50 (2022).

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.asymptotics.pretraining import ridge_fluctuations
    >>> errors = ridge_fluctuations(
    ...     np.eye(100),
    ...     label_weights=np.full(100, 0.1),
    ...     observations=200,
    ...     noise_variance=0.5,
    ...     ridge=0.1,
    ... )
    >>> errors.mean.round(3), np.sqrt(np.diag(errors.covariance)).round(4)
    (array([0.819]), array([0.0535]))
    """
    check_integers(observations=observations)
    S = real_array("feature_covariance", feature_covariance)
    p = len(S)
    target = real_array("label_weights", label_weights)
    noise_variance = real_number("noise_variance", noise_variance)
    ridge = real_number("ridge", ridge)
    B = S[None] if test_covariances is None else real_array("test_covariances", test_covariances)
    m = len(B)
    t = np.broadcast_to(target, (m, p)) if test_label_weights is None else test_label_weights
    t = real_array("test_label_weights", t)
    shapes = {"feature_covariance": (S, (p, p)), "label_weights": (target, (p,))}
    shapes |= {"test_covariances": (B, (m, p, p)), "test_label_weights": (t, (m, p))}
    for name, (array, shape) in shapes.items():
        check_shape(name, array, shape)
    eigenvalues = np.linalg.eigvalsh(S)
    if not eigenvalues[0] > 0:
        raise ValueError(
            f"feature_covariance must be positive definite, got the eigenvalue {eigenvalues[0]}"
        )
    if ridge == 0 and abs(observations - p) <= INTERPOLATED:
        return RidgeFluctuations(np.full(m, math.inf), np.full((m, m), math.inf))
    return _fluctuations(S, target, observations, noise_variance, ridge, eigenvalues, B, t)


def _fluctuations(
    S: np.ndarray,
    target: np.ndarray,
    n: int,
    noise_variance: float,
    ridge: float,
    eigenvalues: np.ndarray,
    B: np.ndarray,
    t: np.ndarray,
) -> RidgeFluctuations:
    """Result at checked arguments (module docstring)."""
    xi = effective_ridge(eigenvalues, n, ridge)
    K = np.linalg.inv(S + xi * np.eye(len(S)))
    SK = S @ K
    b = K @ S @ target
    difference = b - target
    r0 = noise_variance + difference @ S @ difference
    f = np.sum(SK * SK.T) / n
    KSK = K @ SK
    a = np.einsum("ij,mji->m", KSK, B) / (n * (1 - f))
    N = B - (xi * a)[:, None, None] * np.eye(len(S))
    x = -np.einsum("ij,mji->m", KSK @ SK, N) / n
    pushed = np.einsum("mij,mj->mi", B, b - t)
    C = pushed @ K - (a * xi)[:, None] * (K @ b)
    r = xi * C @ S @ b
    level = a + 2 * r / r0 + x / (1 - f)
    field = C @ S @ C.T / r0 - np.outer(r, r) / r0**2
    through = np.einsum("ij,mjk->mik", KSK, N)
    pairs = np.einsum("mik,lki->ml", through, through) / (n * (1 - f))
    terms = np.outer(level, level) + 2 * field + pairs + np.outer(x, x) / (1 - f) ** 2
    mean = noise_variance + np.einsum("mi,mi->m", b - t, pushed) + a * r0
    return RidgeFluctuations(mean, 2 * r0**2 / (n * (1 - f)) * terms)
