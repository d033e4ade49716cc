r"""The loss of softmax heads on linear regression, at any context length and dimension.

Inputs :math:`x_i, x_q \sim N(0, I_d)`, a task :math:`w \sim N(0, I_d)` and N context pairs with
labels :math:`y_i = w \cdot x_i + \epsilon_i`, :math:`\epsilon_i \sim N(0, \sigma^2)`.  A softmax
head whose keys and queries are the inputs and whose values are the labels predicts

.. math:: \hat y = v \sum_i p_i y_i, \qquad
   p_i = \frac{e^{\beta x_q \cdot x_i}}{\sum_j e^{\beta x_q \cdot x_j}},

with the inverse temperature :math:`\beta` and the value v.  The query attends to the context only.

Given :math:`r = |x_q|` the scores :math:`s_i = x_q \cdot x_i/r` are independent N(0, 1), the
weights are softmax weights at :math:`t = \beta r`, and the components of x orthogonal to the query
are independent of them.  With :math:`m = \sum_i p_i s_i` and :math:`q = E \sum_i p_i^2`, which
`iclimit.asymptotics.softmax.weight_averages` computes, the loss on a noiseless query label is

.. math:: \mathcal L(\beta, v) = E_r \Bigl[ (r - v E m)^2
   + v^2 \bigl( \operatorname{var} m + (d - 1 + \sigma^2)\, q \bigr) \Bigr],

a sum of positive terms.  The best value at a temperature is
:math:`v = E_r[r E m]/E_r[E m^2 + (d - 1 + \sigma^2) q]`.

Two heads with opposite keys and values, :math:`\pm\beta` and :math:`\pm v`, have the same form:
:math:`m` becomes :math:`\sum_i (p^+_i - p^-_i) s_i`, and q becomes
:math:`E \sum_i (p^+_i - p^-_i)^2` (`iclimit.asymptotics.softmax.pair_averages`).

*Quadrature.*  The mean over r is a trapezoidal sum over u of :math:`r = \sqrt{e d}
\exp(u - e^{-u})`, which decays doubly exponentially on the left, as a power of r is not enough in
low dimension.
"""

from dataclasses import dataclass

import numpy as np

from iclimit.asymptotics.softmax.pair_averages import pair_averages
from iclimit.asymptotics.softmax.weight_averages import weight_averages

# Largest inverse temperature of scores, by the number of heads.  The integrals of two heads cost
# as its cube; those of one head would overflow at 1e154.
_COLDEST = {1: 1e100, 2: 40.0}

# Logarithm of the relative weight below which a node is left out.
_NEGLIGIBLE = -36.0


@dataclass(frozen=True)
class Brackets:
    """What the loss at a temperature is made of, at the nodes of the norm of the query.

    Attributes
    ----------
    dim : float
        Dimension d.
    norm, weight : ndarray (nodes,)
        Norm of the query, and weights of sum 1.
    mean : ndarray (nodes,)
        Mean of the prediction per value, along the query.
    variance : ndarray (nodes,)
        Its variance.
    concentration : ndarray (nodes,)
        Sum of the squared weights: variance per label of what is not along the query.
    """

    dim: float
    norm: np.ndarray
    weight: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    concentration: np.ndarray

    def loss(self, value: float, noise_variance: float) -> float:
        missed = (self.norm - value * self.mean) ** 2
        return float(self.weight @ (missed + value**2 * self._noise(noise_variance)))

    def best_value(self, noise_variance: float) -> float:
        signal = self.weight @ (self.norm * self.mean)
        return float(signal / (self.weight @ (self.mean**2 + self._noise(noise_variance))))

    def _noise(self, noise_variance: float) -> np.ndarray:
        return self.variance + (self.dim - 1 + noise_variance) * self.concentration


def query_norms(dim: float, context: float, coarse: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the mean over the norm of a Gaussian query."""
    # Long contexts have sharper features in r: weights condense at a temperature.
    step = coarse * max(0.03, 0.125 - 0.0045 * np.log(context)) / np.sqrt(1 + dim / 4)
    u = np.arange(-4.0, 3.5, step)
    log_r = u - np.exp(-u) + 0.5 + np.log(dim) / 2
    with np.errstate(over="ignore"):
        log_weight = dim * log_r - np.exp(2 * log_r) / 2 + np.log1p(np.exp(-u))
    log_weight -= log_weight.max()
    kept = log_weight > _NEGLIGIBLE
    weight = np.exp(log_weight[kept])
    return np.exp(log_r[kept]), weight / weight.sum()


def brackets(
    inverse_temperature: float, context: float, dim: float, heads: int, coarse: float = 1.0
) -> Brackets:
    """Averages of one head, or of two with opposite keys and values."""
    r, weight = query_norms(dim, context, coarse)
    t = abs(inverse_temperature) * r
    most = _COLDEST[heads] / r.max()
    if abs(inverse_temperature) > most:
        raise ValueError(
            f"inverse_temperature must be from {-most:.3g} to {most:.3g} with heads={heads} in "
            f"dimension {dim:g}, got {inverse_temperature:g}"
        )
    averages = (weight_averages if heads == 1 else pair_averages)(context, t, coarse)
    # A negative inverse temperature is that of the opposite keys.
    mean = np.copysign(t * averages.spread, inverse_temperature)
    return Brackets(dim, r, weight, mean, averages.variance, averages.concentration)
