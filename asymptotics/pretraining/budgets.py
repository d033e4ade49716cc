r"""How to split a budget of label pairs between prompts and their length.

Pretraining on n prompts of :math:`\ell` pairs shows :math:`n\ell = B d^3` labels.  In the limit
of `iclimit.asymptotics.pretraining.icl` this is :math:`B = \tau\alpha`: more prompts of shorter
contexts, or fewer of longer ones.

**Closed form.**  With a fresh task in each prompt pretraining is ridge regression with isotropic
features.  Let :math:`r = 1 + \rho` and :math:`x = r/(\alpha + r)`, the misfit of the best linear
prediction from a context: noise has the variance :math:`\rho + x`, and the signal :math:`1 - x`.
The best ridge is :math:`\lambda = (\rho + x)/(\tau(1 - x)^2)`, and its error is the root of
:math:`e^2 - re + (\tau\alpha x/r)(e - \rho - x) = 0`, which is stationary at
:math:`x = (e - \rho)/2`.  With :math:`b = B/(4r)`,

.. formula: best_split

.. math:: e - \rho = \frac{1 - \rho + \sqrt{(1 - \rho)^2 + 4 (1 + b)\rho}}{2(1 + b)}, \qquad
   \alpha = r\Bigl(\frac{2}{e - \rho} - 1\Bigr), \qquad \tau = \frac{B}{\alpha}.

**Without a ridge** the error has a minimum on either side of :math:`\tau = 1`.  With
:math:`g = \rho B + r^2` they are

.. formula: ridgeless_split

.. math:: \tau_< = \frac{B (1 - \rho)(B + r)}{\bigl(r\sqrt{g} + B\sqrt{B + 2r}\bigr)
   \bigl(\sqrt{g} + \sqrt{B + 2r}\bigr)}, \qquad
   \tau_> = \frac{B (r^2 + \sqrt{rg})}{r (B - r^2)} \quad (B > r^2),

.. formula: ridgeless_errors

.. math:: e_< = \frac{\rho + x}{1 - \tau_<} + (1 - x)(1 - \tau_<), \qquad
   e_> = \frac{(\rho + x)\,\tau_>}{\tau_> - 1},

and the lower of the two is the best.  It changes sides at a critical budget :math:`B_c(\rho)`,
where the best number of prompts jumps.  For :math:`\rho \ge 1` the first minimum is at
:math:`\tau = 0`: below :math:`B_c = r^2` no pretraining beats predicting 0.

**Exponents.**  The error of a best split moves with the budget as if the split stayed.

.. page: pretraining/budgets: How to spend a budget of label pairs

.. symbols:
   e: error on fresh tasks
   r: 1 + ρ
   b: B/4r
   x: misfit of the best linear prediction from a context: r/(α + r)
   g: ρB + r²
   e_<,\ \tau_<: of the minimum at fewer prompts than τ = 1
   e_>,\ \tau_>: of the minimum at more prompts than τ = 1
   \tau_<: prompts of the minimum below τ = 1
   \tau_>: prompts of the minimum above τ = 1
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from iclimit.asymptotics.checks import CheckedValues, checked, flattened
from iclimit.asymptotics.numbers import Namespace, Number, Value, numpy_namespace
from iclimit.asymptotics.pretraining.joint_spectrum import JointSpectrum, check_spectrum
from iclimit.asymptotics.pretraining.structured import structured_errors
from iclimit.asymptotics.searches import find_root
from iclimit.checks import check_choice
from iclimit.results import Result

# Cost of pretraining from tau and alpha, in units of the budget.
Cost: TypeAlias = Callable[[np.ndarray, np.ndarray], np.ndarray]

# The grid on which the search starts extends in log tau by this beyond tau = 1 and tau = B.
MARGIN = math.log(1e3)

# Points of this grid in log tau.
TAUS = 64

# Ends of this grid in log ridge, and its points.
RIDGES = math.log(1e-8), math.log(1e4), 20

# Grid points on either side of the best one in every later step.
NEIGHBOURS = 2

# Factor by which the distances of grid points shrink in a step.
SHRINKING = 0.7

# Steps in which the grid is refined.
STEPS = 50

# A positive ridge must gain more than rounding.
_BETTER = 1 - 1e-12

# Contexts among which that of a given cost is looked for.
ALPHAS = (1e-9, 1e12)

# Change of log B for exponents.
CHANGE = 1e-4


@dataclass(frozen=True, repr=False)
class ComputeOptimalPretraining(Result):
    r"""Best split of a budget, and what it reaches.

    Attributes
    ----------
    error : number or array
        Least error on fresh tasks.
    tau, alpha, ridge : number or array
        Prompts, context length and ridge that reach it; tau = 0 and alpha = inf where no
        pretraining beats predicting 0.
    exponent : number or array
        Power of the budget with which error - rho falls, :math:`-d \log(e - \rho)/d \log B`.
    """

    error: Value
    tau: Value
    alpha: Value
    ridge: Value
    exponent: Value


def compute_optimal_pretraining(
    *,
    budget: Number,
    rho: Number,
    ridge: Number | str = "optimal",
    kappa: Number = math.inf,
    test_alpha: Number | None = None,
    spectrum: JointSpectrum | None = None,
    cost_law: Cost | None = None,
) -> ComputeOptimalPretraining:
    r"""Find the numbers of prompts and of pairs per prompt with the least error at a given cost.

    Parameters
    ----------
    budget : number or array, > 0
        Label pairs of all prompts over the cubed dimension, :math:`B = n\ell/d^3`.
    rho : number or array, rho >= 0
        Variance of the label noise.
    ridge : "optimal", number or array
        The ridge is chosen together with the split, or is this one; 0 for the predictor of least
        norm.
    kappa : number or array, kappa > 0
        Pretraining tasks over dimension; ``inf``: a fresh task in every prompt.
    test_alpha : number or array, > 0, optional
        Context length of the tests over dimension; None: that of pretraining, which varies with
        the split.
    spectrum : JointSpectrum, optional
        Eigenvalues of structured data; None: isotropic.
    cost_law : callable, optional
        Cost of pretraining from arrays of tau and alpha, increasing in alpha, in the units of
        ``budget``; None: tau alpha.

    Returns
    -------
    ComputeOptimalPretraining
        With fields ``error``, ``tau``, ``alpha``, ``ridge`` and ``exponent``.

    Raises
    ------
    ValueError
        If an argument is outside its range, or nothing is affordable.
    TypeError
        If a closed form does not exist and an argument is not a number or a NumPy array.

    Notes
    -----
    With infinitely many tasks, ridge 0 or optimal, and none of the last three arguments, this is a
    closed form for all number systems.  Otherwise it is a search, within factors of 1000 of
    tau = 1 and tau = budget; its error is accurate to 1e-11, the place to 1e-5, because the error
    is flat at its minimum.  A point takes 50 to 100 ms, many together a few ms each.

    References
    ----------
    Derivation: module `iclimit.asymptotics.pretraining.budgets`.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import compute_optimal_pretraining
    >>> best = compute_optimal_pretraining(budget=[10.0, 1000.0], rho=0.1)
    >>> best.error.round(3), best.tau.round(2), best.alpha.round(1)
    (array([0.46 , 0.123]), array([ 1.99, 10.57]), array([ 5. , 94.6]))
    >>> jump = compute_optimal_pretraining(budget=[3.3, 3.4], rho=0.1, ridge=0.0)
    >>> jump.tau.round(2)
    array([0.4 , 3.55])
    """
    chosen = isinstance(ridge, str)
    if isinstance(ridge, str):
        check_choice("ridge", ridge, ("optimal",))
    plain = test_alpha is None and spectrum is None and cost_law is None and np.ndim(kappa) == 0
    if plain and kappa == math.inf and (chosen or (np.ndim(ridge) == 0 and ridge == 0)):
        math_, values = checked(budget=budget, rho=rho)
        with math_.quiet():
            split = _with_ridge if chosen else _ridgeless
            fields = split(math_, values.budget, values.rho)
            return ComputeOptimalPretraining(*map(math_.finish, fields))
    if spectrum is not None:
        check_spectrum(spectrum)
    _, values = checked(
        systems="numpy",
        optional=("test_alpha", "ridge") if chosen else ("test_alpha",),
        budget=budget,
        rho=rho,
        kappa=kappa,
        ridge=None if chosen else ridge,
        test_alpha=test_alpha,
    )
    shape, points = flattened(values)
    fields = _searched(points, spectrum, cost_law)
    return ComputeOptimalPretraining(*(field.reshape(shape)[()] for field in fields))


def critical_budget(rho: Number) -> Value:
    """Budget at which the best number of prompts without a ridge jumps across tau = 1.

    Parameters
    ----------
    rho : number or array, rho >= 0
        Variance of the label noise.

    Returns
    -------
    float or ndarray
        Below it tau < 1 is best, and above it tau > 1.  From rho = 1 on it is (1 + rho)^2, below
        which no pretraining without a ridge beats predicting 0.

    Raises
    ------
    ValueError
        If rho is negative.

    References
    ----------
    Module `iclimit.asymptotics.pretraining.budgets`.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import critical_budget
    >>> critical_budget([0.0, 0.5, 1.0]).round(3)
    array([3.569, 3.46 , 4.   ])
    """
    math_, values = checked(systems="numpy", rho=rho)
    rho = values.rho
    with math_.quiet():
        # Above it 1 is as good as any.
        quiet = math_.where(rho < 1, lambda: rho, lambda: 0)

        def difference(B: Value, rho: Value) -> Value:
            low, high = _branches(math_, B, rho)
            return high[0] - low[0]

        ends = (1 + quiet) ** 2 * (1 + 1e-15), 4 + 0 * quiet
        root = find_root(math_, difference, ends, {"rho": quiet}, "critical budget")
        return math_.finish(math_.where(rho < 1, lambda: root, lambda: (1 + rho) ** 2))


def _with_ridge(math_: Namespace, B: Value, rho: Value) -> tuple[Value, ...]:
    """Fields of the result with the best ridge (module docstring)."""
    r = 1 + rho
    b = B / (4 * r)
    root = math_.sqrt((1 - rho) ** 2 + 4 * (1 + b) * rho)
    excess = math_.stable(
        rho <= 1, lambda: (1 - rho + root) / (2 * (1 + b)), lambda: 2 * rho / (rho - 1 + root)
    )
    alpha = r * (2 - excess) / excess
    tau = B / alpha
    x = excess / 2
    return rho + excess, tau, alpha, (rho + x) / (tau * (1 - x) ** 2), b * excess / root


def _ridgeless(math_: Namespace, B: Value, rho: Value) -> tuple[Value, ...]:
    """Fields of the result without a ridge: those of the better branch."""
    low, high = _branches(math_, B, rho)
    better = high[0] < low[0]

    def pick(above: Value, below: Value) -> Value:
        return math_.where(better, lambda: above, lambda: below)

    return tuple(map(pick, high, low))


def _branches(math_: Namespace, B: Value, rho: Value) -> tuple[tuple[Value, ...], ...]:
    """Fields of the minima at tau < 1 and tau > 1; the error is inf where there is none."""
    r = 1 + rho
    g = rho * B + r**2
    edge = math_.sqrt(B + 2 * r)
    root = math_.sqrt(g)
    h = math_.sqrt(r * g)
    whole = r * root + B * edge
    some = rho < 1
    low = math_.where(some, lambda: B * (1 - rho) * (B + r) / (whole * (root + edge)), lambda: 0)
    kept = math_.where(some, lambda: root * (B + r) / whole, lambda: 1)  # 1 - tau
    x = r * low / (B + r * low)
    falls = x * (1 - x) * low * (2 - low) / (x + rho * low + (1 - x) * kept**2)
    alpha = math_.where(low > 0, lambda: math_.divide(B, low), lambda: math_.inf)
    below = (rho + x) / kept + (1 - x) * kept, low, alpha, 0 * low, falls

    spare = B - r**2
    some = spare > 0
    x = (r**2 + h) / (B + h)
    factor = B * (r**2 + h) / (h * (h + B))
    error = math_.where(some, lambda: (rho + x) * factor, lambda: math_.inf)
    high = math_.divide(B * (r**2 + h), r * spare)
    falls = x * (spare / (B + h)) / (x + math_.divide(rho, high))
    return below, (error, high, r * spare / (r**2 + h), 0 * error, falls)


def _searched(
    points: CheckedValues, spectrum: JointSpectrum | None, cost_law: Cost | None
) -> tuple[np.ndarray, ...]:
    """Fields of the result by a search, for flat arrays; the ridge is searched if it is None."""
    B = points.budget
    chosen = points.ridge is None
    fixed = np.zeros(B.shape) if chosen else points.ridge

    def error(tau: np.ndarray, ridge: np.ndarray, B: np.ndarray = B) -> np.ndarray:
        alpha = _affordable(cost_law, B, tau)
        errors = structured_errors(
            tau=tau,
            alpha=np.where(alpha > 0, alpha, 1.0),
            kappa=points.kappa,
            rho=points.rho,
            ridge=ridge,
            test_alpha=points.test_alpha,
            spectrum=spectrum,
        ).icl
        return np.where(alpha > 0, errors, np.inf)

    ends = np.minimum(0, np.log(B)) - MARGIN, np.maximum(0, np.log(B)) + MARGIN
    taus = np.linspace(*ends, TAUS)
    [tau], value = _zoomed(lambda x: error(np.exp(x[0]), fixed), [taus])
    ridge = fixed
    if chosen:
        ridges = np.linspace(*RIDGES)[:, None] + 0 * B
        point, least = _zoomed(lambda x: error(*np.exp(x)), [taus, ridges])
        better = least < value * _BETTER
        tau = np.where(better, point[0], tau)
        value = np.where(better, least, value)
        ridge = np.where(better, np.exp(point[1]), ridge)
    tau = np.exp(tau)
    if np.any(np.isinf(value)):
        raise ValueError(f"budget must pay for some prompts, got {B[np.isinf(value)][0]}")
    above = error(tau, ridge, B * math.exp(CHANGE)) - points.rho
    below = error(tau, ridge, B * math.exp(-CHANGE)) - points.rho
    falls = np.where(value > points.rho, _fall(below, above), 0.0)
    return value, tau, _affordable(cost_law, B, tau), ridge, falls


def _fall(below: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Exponent by which errors fall from a smaller to a larger budget."""
    with np.errstate(all="ignore"):
        return np.log(below / above) / (2 * CHANGE)


def _affordable(cost_law: Cost | None, B: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Alpha that a budget leaves at tau, 0 where it leaves none."""
    if cost_law is None:
        return B / tau
    lower = math.log(ALPHAS[0])
    upper = math.log(ALPHAS[1])
    B, tau = np.broadcast_arrays(B, tau)
    price = [cost_law(tau, np.full(tau.shape, alpha)) for alpha in ALPHAS]
    alpha = np.where(price[1] <= B, ALPHAS[1], 0.0)
    some = (price[0] < B) & (price[1] > B)

    def spare(log_alpha: np.ndarray, tau: np.ndarray, B: np.ndarray) -> np.ndarray:
        return cost_law(tau, np.exp(log_alpha)) - B

    given = {"tau": tau[some], "budget": B[some]}
    bracket = np.full(given["tau"].shape, lower), np.full(given["tau"].shape, upper)
    math_ = numpy_namespace({"budget": B})
    alpha[some] = np.exp(find_root(math_, spare, bracket, given, "context that a budget pays for"))
    return alpha


def _zoomed(
    function: Callable[[np.ndarray], np.ndarray], axes: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Points (axes, n) and values of n minima, on a grid of axes (m, n) that is refined.

    Around the best point there are always the same number of grid points, ever closer.
    """
    rules = np.meshgrid(*(np.arange(len(axis)) for axis in axes), indexing="ij")
    points = np.stack([axis[rule.ravel()] for axis, rule in zip(axes, rules, strict=True)])
    step = np.stack([axis[1] - axis[0] for axis in axes])
    near = np.meshgrid(*[np.arange(-NEIGHBOURS, NEIGHBOURS + 1.0)] * len(axes))
    around = np.stack([places.ravel() for places in near])[:, :, None]
    for _ in range(STEPS):
        best = np.argmin(function(points), axis=0)
        step = step * SHRINKING
        points = points[:, best, np.arange(len(best))][:, None] + step[:, None] * around
    values = function(points)
    best = np.argmin(values, axis=0)
    column = np.arange(len(best))
    return points[:, best, column], values[best, column]
