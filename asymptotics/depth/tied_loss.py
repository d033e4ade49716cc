r"""Loss of linear attention with L tied layers, at any context length and width.

Labels :math:`y = x \cdot \beta/\sqrt d + \sigma \epsilon`, inputs of covariance :math:`\Sigma`,
tasks of covariance :math:`\Omega`, contexts of :math:`P = \alpha d` tokens of covariance S.
A residual stack of L layers of linear attention whose weights reduce to :math:`\Gamma` makes L
steps of preconditioned gradient descent,

.. math:: f(x) = \frac1{LP}\, x^\top \Gamma \sum_{l < L} (I - S \Gamma/L)^l X^\top y .

For :math:`\Gamma = \gamma I` its loss on a noiseless query label is, with
:math:`p(z) = (1 - \gamma z/L)^L` and :math:`q = (1 - p)/z`,

.. formula: loss

.. math:: \mathcal L = \frac1d E \operatorname{tr} \Omega\, p(S)\, \Sigma\, p(S)
   + \frac{\sigma^2}\alpha\, \frac1d E \operatorname{tr} \Sigma\, S\, q(S)^2 .

Three settings of the data (Bordelon, Letey and Pehlevan, arXiv:2510.01098):

* ``"iso"``: :math:`\Sigma = \Omega = I`;
* ``"rrs"``: fixed eigenvalues in a basis that is rotated at random in each context; then training
  keeps :math:`\Gamma = \gamma I`;
* ``"fs"``: fixed :math:`\Sigma` and :math:`\Omega`, which commute.  :math:`\Gamma` may have the
  eigenvalues :math:`g_k` in their basis, and the loss is that of ``"rrs"`` with
  :math:`\gamma = 1`, inputs of eigenvalues :math:`g_k \lambda_k` and tasks of
  :math:`\omega_k/g_k`.  For :math:`\Gamma = \gamma \Sigma^{-1}` it is that of ``"iso"`` times
  :math:`\operatorname{tr} \Omega \Sigma/d`.

A residual stream of width N < d sees the inputs through a random projection: S becomes
:math:`M = \Pi S`.  The means are those of `iclimit.asymptotics.spectra.TwoPoint`, of which this
module evaluates one quadratic form for all depths and all :math:`\gamma` at once.

.. page: depth/tied: Finite context and width

.. symbols:
   \mathcal L: error on a noiseless query label over that of predicting 0
   \Omega: covariance of the tasks
   \Sigma: covariance of the inputs
   S: covariance of a context's inputs
   p: what L steps leave of an error, (1 − γz/L)ᴸ with the best γ
   q: (1 − p)/z
   E: mean over contexts
   \operatorname{tr}: trace
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import elementwise
from scipy.special import expm1, log1p

from iclimit.asymptotics.numbers import Number, Value
from iclimit.asymptotics.spectra.two_point import QuadraticForm, TwoPoint

# Optima are looked for where the residual at the upper end of the spectrum is below this: there
# the loss of any mode of mass above 1e-6 exceeds that of the null predictor.
_REACH = 1e3

# At infinite depth optima are looked for up to this gamma, times the largest eigenvalue.
_DEEPEST = 1e3

# Points of an even grid of gamma, and of a geometric one, from which an optimum is refined.
_SCAN = 12

# Number of depths and of values of gamma that contours are chosen by.
_STANDING_FOR = 12


@dataclass(frozen=True)
class TiedLoss:
    """Loss of tied layers as a function of depth, gamma and noise, at one context and width.

    Attributes
    ----------
    law : TwoPoint
        Law of the sample covariances.
    form : QuadraticForm
        Its form for the tasks and inputs.
    """

    law: TwoPoint
    form: QuadraticForm

    @classmethod
    def reaching(
        cls, law: TwoPoint, tasks: np.ndarray, depth: np.ndarray, gamma: np.ndarray
    ) -> TiedLoss:
        """Loss that is accurate up to given values of gamma, one for each depth."""
        order = np.lexsort((gamma, depth))
        picked = order[
            np.unique(np.linspace(0, order.size - 1, _STANDING_FOR).round().astype(int))
        ]
        steepest = np.argmax(gamma / np.minimum(depth, 1e9))
        picked = np.unique(np.append(picked, [steepest, np.argmax(gamma)]))
        depth = depth[picked]
        gamma = gamma[picked]

        def functions(z: np.ndarray) -> np.ndarray:
            return np.concatenate(
                [residual(z, depth, gamma), residual(z, depth, 0.3 * gamma)], axis=0
            )

        return cls(law, law.form(functions, outer=tasks, inner=law.values))

    def value(self, depth: Number, gamma: Number, noise: Number) -> Value:
        """Loss, broadcast over depths, gammas and noise variances."""
        z = self.form.nodes[0]
        p = residual(z, depth, gamma)
        bias = self.form.pair([p])
        if self.law.is_deterministic or not np.any(noise):
            return bias
        return bias + self._per_token(noise) * self.form.single(
            [learned(z, depth, gamma) ** 2 / z]
        )

    def error(self, depth: Number, gamma: Number, noise: Number) -> Value:
        """Numerical error of the loss."""
        p = [residual(z, depth, gamma) for z in self.form.nodes]
        error = self.form.pair_error(p)
        if self.law.is_deterministic or not np.any(noise):
            return error
        q = [learned(z, depth, gamma) ** 2 / z for z in self.form.nodes]
        return error + self._per_token(noise) * self.form.single_error(q)

    def slope(self, depth: Number, gamma: Number, noise: Number) -> Value:
        """Derivative of the loss by gamma."""
        z = self.form.nodes[0]
        p, change = residual(z, depth, gamma, slope=True)
        bias = 2 * self.form.pair([p], [change])
        if self.law.is_deterministic or not np.any(noise):
            return bias
        noisy = self.form.single([2 * learned(z, depth, gamma) * change / z])
        return bias - self._per_token(noise) * noisy

    def _per_token(self, noise: Value) -> Value:
        return noise / self.law.alpha

    def best_of_one_layer(self, noise: Number) -> Value:
        """Gamma of least loss of one layer, where the loss is a parabola."""
        nodes = self.form.nodes
        square = self.form.pair(nodes) + self._per_token(noise) * self.form.single(nodes)
        return self.form.pair(nodes, [np.ones_like(z) for z in nodes]) / square

    def optimum(self, depth: np.ndarray, noise: np.ndarray, most: np.ndarray) -> np.ndarray:
        """Gamma of least loss, up to given values; arrays of one shape.

        Raises
        ------
        ArithmeticError
            If the loss still falls there.
        """
        top = self.law.edges[1]
        single = self.best_of_one_layer(noise)
        even = np.linspace(0, 1, _SCAN + 1)[1:, None] * np.minimum(most, 2.2 * depth / top)
        scan = np.sort(np.concatenate([even, np.geomspace(0.05 * single, most, _SCAN)]), axis=0)
        losses = np.stack([self.value(depth, gamma, noise) for gamma in scan])
        best = np.argmin(losses, axis=0)
        if np.any(best == len(scan) - 1):
            raise ArithmeticError(
                "the best gamma is out of reach: the loss still falls where the residual at the "
                f"upper end of the spectrum is {_REACH:g}, or at infinite depth where gamma times "
                f"this end is {_DEEPEST:g}; give gamma"
            )
        best = np.maximum(best, 1)[None]
        lower = np.take_along_axis(scan, best - 1, axis=0)[0]
        middle = np.take_along_axis(scan, best, axis=0)[0]
        upper = np.take_along_axis(scan, best + 1, axis=0)[0]
        with np.errstate(all="ignore"):
            root = elementwise.find_root(
                lambda gamma, depth, noise: self.slope(depth, gamma, noise),
                (lower, upper),
                args=(depth, noise),
                tolerances={"xrtol": 1e-13},
            )
        # A loss that is zero to rounding has no slope.
        return np.where(root.success, root.x, middle)


def residual(z: np.ndarray, depth: Number, gamma: Number, slope: bool = False) -> Value:
    """p(z) = (1 - gamma z/L)^L with a last axis for z, and on demand its derivative by gamma."""
    depth = np.asarray(depth, float)[..., None]
    gamma = np.asarray(gamma, float)[..., None]
    with np.errstate(invalid="ignore", over="ignore"):
        base = 1 - gamma * z / depth
        power = base ** np.where(depth == np.inf, 0, depth - 1)
        if np.any(depth == np.inf):
            power = np.where(depth == np.inf, np.exp(-gamma * z), power)
        return (power * base, -z * power) if slope else power * base


def learned(z: np.ndarray, depth: Number, gamma: Number) -> Value:
    """1 - p(z) for complex z, accurate for small gamma too, which much noise makes the best."""
    depth = np.asarray(depth, float)[..., None]
    gamma = np.asarray(gamma, float)[..., None]
    with np.errstate(invalid="ignore", over="ignore"):
        exponent = np.where(depth == np.inf, -gamma * z, depth * log1p(-gamma * z / depth))
        return -expm1(exponent)


def largest_gamma(law: TwoPoint, depth: np.ndarray) -> np.ndarray:
    """Where optima are looked for."""
    top = law.edges[1]
    with np.errstate(invalid="ignore"):
        finite = depth * (1 + _REACH ** (1 / depth)) / top
    return np.where(depth == np.inf, _DEEPEST / top, finite)
