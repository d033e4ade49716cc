r"""Pretraining on prompts of random length.

Of :math:`n = \tau d^2` prompts each draws the length :math:`\ell = \alpha d` of its context.
Summaries are divided by that length (p = 1) or by a fixed one (:math:`p = \alpha/A`):
:math:`h = p\,(w + \sqrt q\,z)` with :math:`q = (1 + \rho)/\alpha`.  Norms of features then differ
between prompts by factors, and leverages with them: the theory of one length at the averaged q is
not exact.

With :math:`\langle\cdot\rangle` over lengths, :math:`g = 1/G` the mean resolvent of the features
and the leverages :math:`1 - G\hat r`,

.. math:: \hat r = \frac1{G + p^2(q + P)/\tau}, \qquad
   P = \frac1{1 + \langle p^2\hat r\rangle/\kappa}, \qquad
   1 - \frac\lambda G = \langle p^2 (q + P)\hat r\rangle ,

where P is the variance of a task coordinate given the other prompts of the task.  The mean of
:math:`\Gamma` is c times the identity and z is its variance, :math:`d^{-1}` times the squared
norm:

.. math:: c = \langle p\hat r\rangle P, \qquad
   z = \frac{D_{yy} - 2c D_{fy} + c^2 D_{ff}}{1 - D_{ff}}, \qquad
   D = \frac{\mathrm d (G F)}{\mathrm d G}

with the response of labels and features within a task

.. math:: F_{yy} = (1 + \rho)\langle\hat r\rangle - \langle p\hat r\rangle^2 P/\kappa, \quad
   F_{fy} = \langle p\hat r\rangle P, \quad
   F_{ff} = \langle p^2\hat r\rangle P + \langle p^2 q\hat r\rangle .

After a context of any length, with its own p and q,

.. math:: e_{\mathrm{ICL}} &= \rho + (1 - cp)^2 + c^2p^2 q + z p^2 (1 + q), \\
   e_{\mathrm{IDG}} &= e_{\mathrm{ICL}} - \frac{2p}\kappa\bigl[(1 - cp)(\langle p\hat r\rangle
   - c\langle p^2\hat r\rangle) P + z p \langle p^2\hat r\rangle P\bigr]
   - \frac{p^2}\kappa\,\partial_\epsilon\bigl[F_{yy} - 2c F_{fy} + (c^2 + z) F_{ff}\bigr] ,

the derivative being that where tasks have the variance :math:`1 + \epsilon` in the response.
Derivatives are taken with an imaginary step, to rounding.

**At finite size** tasks have m prompts each, a random number, a prompt shares its task with
:math:`m - 1` others, :math:`q = ((1 + \rho) d + 1)/\ell`, and the last entry of the summary adds
:math:`\gamma (1 + \rho)^2/d` to the variance of tasks in the response
(`iclimit.asymptotics.pretraining.finite_random_lengths`).

.. page: pretraining/random-lengths: Prompts of random length, and the context a model is best for
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from iclimit.asymptotics.checks import checked, flattened
from iclimit.asymptotics.numbers import Number, Value
from iclimit.checks import check_choice, parse_array
from iclimit.experiment import NORMALIZATIONS
from iclimit.results import Result

# Imaginary step of derivatives; its square is below rounding.
STEP = 1e-25

# Most Newton steps for the variance of a task coordinate; 9 were the most at 1000 random points.
MOST_STEPS = 100

# A smaller relative change ends them.
CLOSE = 1e-15

# Where 1 minus the overlap of the features is below this, errors are infinite.
LEAST_OVERLAP = 1e-10


@dataclass(frozen=True, repr=False)
class RandomLengthErrors(Result):
    r"""Errors of a model that was trained on prompts of random length.

    Attributes
    ----------
    icl : number or array
        Squared error on a noisy query label for fresh tasks.
    idg : number or array
        The same for fresh prompts of the pretraining tasks.
    training : number or array
        Mean squared error on the training prompts, without the penalty.
    rate : number or array
        Multiple c of the identity that the mean of :math:`\Gamma` is.
    variance : number or array
        Variance z of the entries of :math:`\Gamma` times d.
    """

    icl: Value
    idg: Value
    training: Value
    rate: Value
    variance: Value


def random_length_errors(
    *,
    tau: Number,
    alphas: ArrayLike,
    probabilities: ArrayLike | None = None,
    kappa: Number,
    rho: Number,
    ridge: Number = 0.0,
    normalization: str = "mean",
    test_alpha: Number | None = None,
) -> RandomLengthErrors:
    r"""Asymptotic errors of linear attention that is trained on prompts of random length.

    Parameters
    ----------
    tau : number or array, tau > 0
        Prompts over squared dimension; ``inf`` is the limit of infinite data.
    alphas : array (m,) of numbers > 0
        Possible context lengths over dimension.  A density is a quadrature rule.
    probabilities : array (m,) of numbers >= 0, optional
        Their probabilities, which are divided by their sum; equal ones by default.
    kappa, rho, ridge : number or array
        As in `icl_error`.
    normalization : {"mean", "length"}
        Whether the summary of a context is divided by its length, or by the longest one.
    test_alpha : number or array > 0, optional
        Context length of tests over dimension; by default the longest one of training.

    Returns
    -------
    RandomLengthErrors
        With fields ``icl``, ``idg``, ``training``, ``rate`` and ``variance``, broadcast over tau,
        kappa, rho, ridge and test_alpha.  The errors are ``inf`` at tau = 1 with ridge = 0.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number or a NumPy array.

    Notes
    -----
    With one length it is `icl_error` and `idg_error` to 1e-10.  A point takes 10 ms.

    References
    ----------
    Derived here: module `iclimit.asymptotics.pretraining.random_lengths`.  One length: Lu et al.,
    arXiv:2405.11751.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import icl_error, random_length_errors
    >>> point = {"tau": 2, "kappa": 0.5, "rho": 0.1, "ridge": 0.02}
    >>> errors = random_length_errors(**point, alphas=[0.5, 1, 2], test_alpha=[1, 2])
    >>> errors.icl.round(4)
    array([1.4344, 1.203 ])
    """
    check_choice("normalization", normalization, NORMALIZATIONS)
    lengths = parse_array("alphas", alphas, (None,))
    if np.any(lengths <= 0):
        raise ValueError(f"alphas must be > 0, got {alphas!r}")
    shares = _parse_shares(probabilities, len(lengths))
    longest = float(np.max(lengths[shares > 0]))
    _, values = checked(
        systems="numpy",
        tau=tau,
        kappa=kappa,
        rho=rho,
        ridge=ridge,
        test_alpha=longest if test_alpha is None else test_alpha,
    )
    shape, points = flattened(values)
    factors = lengths / longest if normalization == "length" else np.ones(len(lengths))
    results = np.empty((5, points.tau.size))
    columns = (points.tau, points.kappa, points.rho, points.ridge, points.test_alpha)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for place, (own_tau, own_kappa, own_rho, own_ridge, length) in enumerate(rows):
        mixture = Mixture(
            tau=own_tau,
            rho=own_rho,
            ridge=own_ridge,
            per_task=1 / own_kappa,
            shares=shares,
            factors=factors,
            noise=(1 + own_rho) / lengths,
            task_shares=np.ones(1),
            whole=np.array([1 / own_kappa]),
            others=np.array([1 / own_kappa]),
        )
        factor = length / longest if normalization == "length" else 1.0
        results[:, place] = mixture.solved().errors(factor, (1 + own_rho) / length)
    return RandomLengthErrors(*(np.reshape(row, shape)[()] for row in results))


def _parse_shares(probabilities: ArrayLike | None, count: int) -> np.ndarray:
    """Probabilities of so many lengths, with the sum 1."""
    if probabilities is None:
        return np.full(count, 1 / count)
    weights = parse_array("probabilities", probabilities, (count,))
    if np.any(weights < 0) or not np.any(weights > 0):
        raise ValueError(
            f"probabilities must be numbers >= 0, not all of them 0, got {probabilities!r}"
        )
    return weights / np.sum(weights)


@dataclass(frozen=True, eq=False)
class Mixture:
    """Prompts of several lengths, whose tasks have several numbers of prompts.

    Arrays over the numbers of prompts of a task come first, those over lengths last.

    Attributes
    ----------
    tau, rho, ridge : float
    per_task : float
        Dimension over the number of tasks.
    shares : ndarray (m,)
        Shares of the lengths.
    factors, noise : ndarray (m,)
        Factor p of their summaries and the variance q of what is not the task in these.
    task_shares : ndarray (k,)
        Shares of the prompts whose tasks have so many prompts.
    whole, others : ndarray (k,)
        Prompts of these tasks, and those but one, times d/n.
    own : float
        The same for a single prompt; 0 in the limit.
    dim : float
        Dimension; inf in the limit.
    tail : float
        What the last entry of the summaries adds to the variance of tasks in the response.
    """

    tau: float
    rho: float
    ridge: float
    per_task: float
    shares: np.ndarray
    factors: np.ndarray
    noise: np.ndarray
    task_shares: np.ndarray
    whole: np.ndarray
    others: np.ndarray
    own: float = 0.0
    dim: float = math.inf
    tail: float = 0.0

    def over_lengths(self, values: Value) -> Value:
        """Mean over lengths."""
        return values @ self.shares

    def response(self, G: complex, P: np.ndarray) -> np.ndarray:
        """Response r of each kind of prompt, (k, m)."""
        return 1 / (G + self.factors**2 * (self.noise + P) / self.tau)

    def with_itself(self, r: np.ndarray) -> np.ndarray:
        """Response of a prompt to its own noise, too."""
        return r / (1 + self.own * self.factors**2 * self.noise * r)

    def variance_of_task(self, G: complex, epsilon: complex = 0.0) -> np.ndarray:
        """Variance P of a task coordinate given the other prompts, (k, 1).

        Newton's method from 0 for an increasing concave function, so it rises to the root.
        """
        P = np.zeros((len(self.others), 1), dtype=np.result_type(G, epsilon))
        precision = 1 / (1 + self.tail + epsilon)
        square = self.factors**2
        for _ in range(MOST_STEPS):
            r = self.response(G, P)
            T = self.with_itself(r)
            known = precision + self.others * self.over_lengths(square * T)
            change = self.others * self.over_lengths(square**2 * T**2) / self.tau
            step = (P[:, 0] * known - 1) / (known - P[:, 0] * change)
            P = P - step[:, None]
            if np.all(np.abs(step) <= CLOSE * np.abs(P[:, 0])):
                break
        return P

    def learnt(self, G: float) -> float:
        """Share of the features that the prompts determine, less the last entry's own."""
        P = self.variance_of_task(G)
        square = self.factors**2
        r = self.response(G, P)
        learnt = float(self.task_shares @ self.over_lengths(square * (self.noise + P) * r))
        if math.isinf(self.dim):
            return learnt
        if self.ridge == 0:
            return learnt - 1 / self.dim
        last = (1 + self.rho) ** 2 * G * float(self.task_shares @ self.over_lengths(square * r))
        return learnt - last / (self.ridge + last) / self.dim

    def residual(self, G: float) -> float:
        """What the equation of G leaves, increasing in G."""
        return 1 - self.ridge / G - self.learnt(G)

    def solved(self) -> Solution:
        """The solution of the equation of G; 0 without a ridge and with too few prompts."""
        mean_square = float(self.over_lengths(self.factors**2 * (1 + self.tail + self.noise)))
        upper = (self.ridge + mean_square) * (1 + 1e-9)
        # Without a ridge, errors at a smaller G do not differ from those at 0 by more than this.
        lower = self.ridge * (1 - 1e-9) / (1 + 1 / self.dim) or 1e-14 * upper
        if self.ridge == 0 and self.residual(lower) >= 0:
            return Solution(self, 0.0, 1 - self.learnt(0.0))
        if not self.residual(lower) < 0 < self.residual(upper):
            raise ArithmeticError(
                f"the resolvent was not found at tau={self.tau:g}, rho={self.rho:g}, "
                f"ridge={self.ridge:g}"
            )
        root = float(brentq(self.residual, lower, upper, xtol=1e-300, rtol=8.9e-16))
        return Solution(self, root, self.ridge / root)

    def forms(self, G: complex, epsilon: complex = 0.0) -> np.ndarray:
        """Forms of the response: F_yy, F_fy, the part of F_ff along the task, and F_ff; (4,)."""
        p = self.factors
        r = self.with_itself(self.response(G, self.variance_of_task(G, epsilon)))
        head = self.over_lengths(p * r)
        square = self.over_lengths(p**2 * r)
        variance = 1 + self.tail + epsilon
        shrunk = 1 / (1 + variance * self.whole * square)
        labels = (1 + self.rho) * self.over_lengths(r) - variance * self.whole * head**2 * shrunk
        features = square * shrunk + self.over_lengths(p**2 * self.noise * r)
        forms = np.stack([labels, head * shrunk, square * shrunk, features])
        return np.asarray(forms @ self.task_shares)


@dataclass(frozen=True, eq=False)
class Solution:
    """A mixture and the solution of its equation, from which all errors follow.

    Attributes
    ----------
    mixture : Mixture
    G : float
        Inverse of the mean resolvent.
    kept : float
        Ridge over G, or its limit.
    """

    mixture: Mixture
    G: float
    kept: float

    def tail(self) -> float:
        """What the last entry of the summaries adds to the variance of tasks, at this solution."""
        mixture = self.mixture
        r = mixture.response(self.G, mixture.variance_of_task(self.G))
        label = (1 + mixture.rho) ** 2
        square = float(mixture.task_shares @ mixture.over_lengths(mixture.factors**2 * r))
        return label / (self.kept + label * square) / mixture.dim

    def errors(self, factor: float, noise: float) -> tuple[float, ...]:
        """ICL, IDG and training error, c and z, for tests with this p and q."""
        mixture = self.mixture
        G = self.G
        forms = mixture.forms(G)
        c = float(forms[1] / (self.kept + forms[3]))
        weights = np.array([1.0, -2 * c, 0.0, c**2])
        moved = G + STEP * 1j
        slopes = (moved * mixture.forms(moved)).imag / STEP
        overlap = float(1 - slopes[3])
        if overlap <= LEAST_OVERLAP:
            return math.inf, math.inf, 0.0, c, math.inf
        z = float(weights @ slopes) / overlap
        power = factor**2
        icl = mixture.rho + (1 - c * factor) ** 2 + power * (c**2 * noise + z * (1 + noise))
        training = G * float(weights @ forms + z * (forms[3] - 1))
        return icl, icl - self._gap(factor, noise, c, z), training, c, z

    def _gap(self, p: float, noise: float, c: float, z: float) -> float:
        """ICL minus IDG error."""
        mixture = self.mixture
        if mixture.per_task == 0:
            return 0.0
        _, F_fy, along, F_ff = mixture.forms(self.G)
        C_yy, C_fy, _, C_ff = mixture.forms(self.G, STEP * 1j).imag / STEP
        linear = (1 - c * p) * (F_fy - c * along) + z * p * along
        curved = C_yy - 2 * c * C_fy + (c**2 + z) * C_ff
        gap = mixture.per_task * float(2 * p * linear + p**2 * curved)
        if math.isinf(mixture.dim):
            return gap
        drawn = 2 * c * (F_fy - c * F_ff) + z - 2 * z * F_ff
        return gap - p**2 * noise * mixture.per_task / mixture.dim * float(drawn)
