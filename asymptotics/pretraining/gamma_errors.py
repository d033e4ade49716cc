r"""Exact test errors of a given :math:`\Gamma`, and the best one.

Linear attention whose reduced matrix is :math:`\Gamma` predicts :math:`\hat y = x_q^\top \Gamma h`
with the context summary h.  For inputs :math:`x \sim N(0, \Sigma/d)` its mean squared error on a
noisy query label is a quadratic in :math:`\Gamma`,

.. math:: e(\Gamma) = E\,v + \frac1d \operatorname{tr} \Sigma \Gamma G \Gamma^\top
   - \frac2d \operatorname{tr} \Sigma \Gamma A,
   \qquad G = E\,hh^\top, \quad A = E\,hw^\top,

with the moments of `iclimit.asymptotics.pretraining.summary_moments`, v being the variance of a
label given its task.  This is exact at any dimension and context length: no limit is taken and
nothing is sampled.  The minimum is at :math:`\Gamma = A^\top G^{-1}`, which makes
:math:`\Gamma h` the best linear estimate of the task from the summary.

For fresh tasks the best :math:`\Gamma` is, up to the factor 1/d, the preconditioner of
`iclimit.asymptotics.descent.optimal_preconditioner`, and its last column is zero.  On a set of
tasks the last column is not.

The formula of the error is written once for all number systems: NumPy and CuPy arrays (stacks of
:math:`\Gamma` along the leading axes), mpmath and SymPy matrices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import array_api_compat
import numpy as np
from numpy.typing import ArrayLike

from iclimit.asymptotics.checks import check_integers, checked
from iclimit.asymptotics.losses import TaskErrors
from iclimit.asymptotics.numbers import ArrayMath, Number, Value, convert, namespace
from iclimit.asymptotics.pretraining.deterministic_equivalent import (
    effective_ridge,
    undefined_in_float64,
)
from iclimit.asymptotics.pretraining.joint_spectrum import covariance_matrix, optional_covariance
from iclimit.asymptotics.pretraining.summary_moments import (
    TaskMoments,
    centred_moments,
    summary_moments,
    task_set_moments,
)
from iclimit.checks import check_choice, refuse_masked
from iclimit.problem import TASK_LAWS
from iclimit.results import Result

# Standard deviations of labels, inputs and tasks up to this have products that float64 holds.
_LARGE = 2.0**60


@dataclass(frozen=True, repr=False)
class OptimalGamma(Result):
    """Matrix Gamma of least error, and its error.

    Attributes
    ----------
    gamma : ndarray (d, d + 1)
        The matrix.
    error : float
        Mean squared error on a noisy query label.
    """

    gamma: np.ndarray
    error: float


def errors_of_gamma(
    gamma: Number,
    *,
    context: Number,
    rho: Number,
    tasks: Number = math.inf,
    task_law: str = "sphere",
    task_covariance: ArrayLike | None = None,
    test_covariance: ArrayLike | None = None,
    test_context: Number | None = None,
    test_rho: Number | None = None,
    input_covariance: ArrayLike | None = None,
) -> TaskErrors:
    r"""Exact ICL and IDG error of linear attention with a given reduced matrix.

    Parameters
    ----------
    gamma : array (..., d, d + 1) or (..., d, d)
        Reduced matrix :math:`\Gamma`, or a stack of them; NumPy, CuPy, or one matrix of mpmath or
        SymPy.  A square one has no last column: :math:`\frac1\ell \sum_i y_i^2` is not used.
    context : number >= 1
        Context length :math:`\ell`.
    rho : number >= 0
        Variance of the label noise.
    tasks : inf or array (k, d)
        Pretraining tasks of the IDG error, equally likely; ``inf`` for fresh tasks of the law.
    task_law : {"sphere", "gaussian"}
        Law of fresh tasks: uniform on the sphere :math:`|w|^2 = d`, or N(0, I).  Not used where a
        covariance of tasks is given.
    task_covariance : array (d, d) or (d,), optional
        Covariance of Gaussian tasks; the eigenvalues of a diagonal one.
    test_covariance : array (d, d) or (d,), optional
        Covariance of the Gaussian tasks behind the ICL error; None: the law of the tasks.
    test_context : number >= 1, optional
        Context length of the prompts behind the ICL error; None: ``context``.
    test_rho : number >= 0, optional
        Label noise of the prompts behind the ICL error; None: ``rho``.
    input_covariance : array (d, d) or (d,), optional
        Covariance :math:`\Sigma` of inputs :math:`x \sim N(0, \Sigma/d)`.  It need not commute
        with the covariances of the tasks.

    Returns
    -------
    TaskErrors
        With fields ``icl`` and ``idg``: numbers, or arrays of the shape of the stack.

    Raises
    ------
    ValueError
        If an argument is outside its range, or shapes do not fit.
    TypeError
        If an argument is of another kind.

    Notes
    -----
    The laws are those of `finite_size_errors`, which predicts the errors of a trained
    :math:`\Gamma`; this function has the errors of one that is there.

    References
    ----------
    Reduced matrix and summary: Lu et al., arXiv:2405.11751.  Moments: module
    `iclimit.asymptotics.pretraining.summary_moments`.

    Examples
    --------
    One step of gradient descent, at several rates:

    >>> import numpy as np
    >>> from iclimit.asymptotics.pretraining import errors_of_gamma
    >>> rates = np.array([0.0, 0.4, 0.8])
    >>> errors_of_gamma(rates[:, None, None] * np.eye(5), context=10, rho=0.1).icl.round(3)
    array([1.1  , 0.564, 0.556])

    The same as a formula:

    >>> import sympy
    >>> rate, length = sympy.symbols("eta ell", positive=True)
    >>> error = errors_of_gamma(rate * sympy.eye(2), context=length, rho=0).icl
    >>> error.expand().collect(rate)
    eta**2*(1 + 3/ell) - 2*eta + 1
    """
    matrix = _gamma(gamma)
    d = matrix.shape[-2]
    check_choice("task_law", task_law, TASK_LAWS)
    test_context = context if test_context is None else test_context
    test_rho = rho if test_rho is None else test_rho
    covariances = {
        "task_covariance": task_covariance,
        "test_covariance": test_covariance,
        "input_covariance": input_covariance,
    }
    given = (gamma, tasks, *covariances.values())
    exact = next((value for value in given if _is_exact(value)), None)
    parsed = {
        name: None if value is None else _covariance(name, value, d, exact is not None)
        for name, value in covariances.items()
    }
    C = parsed["task_covariance"]
    C_test = parsed["test_covariance"]
    sigma = parsed["input_covariance"]
    # Matrices of mpmath or SymPy make the numbers beside them such numbers too.
    entry = 0.0 if exact is None else _entries("gamma", exact).flat[0]
    math_, values = checked(
        single=True,
        context=context,
        rho=rho,
        test_context=test_context,
        test_rho=test_rho,
        gamma=entry,
    )
    task_set = _task_set(tasks, d, exact is not None)
    tested = C if C_test is None else C_test
    test = _law(tested, sigma, None, d, task_law, values.test_context, values.test_rho)
    trained = _law(C, sigma, task_set, d, task_law, values.context, values.rho)
    if not isinstance(math_, ArrayMath):
        return TaskErrors(icl=_error(matrix, test), idg=_error(matrix, trained))
    with math_.quiet():
        return TaskErrors(icl=_float_error(matrix, test), idg=_float_error(matrix, trained))


def optimal_gamma(
    *,
    context: Number,
    rho: Number,
    dim: int | None = None,
    tasks: Number = math.inf,
    task_law: str = "sphere",
    task_covariance: ArrayLike | None = None,
    input_covariance: ArrayLike | None = None,
) -> OptimalGamma:
    r"""Matrix :math:`\Gamma` of least error, on fresh tasks or on a set of tasks.

    Parameters
    ----------
    context, rho, tasks, task_law, task_covariance, input_covariance
        As in `errors_of_gamma`: the matrix minimises its IDG error.
    dim : int >= 1, optional
        Dimension of the inputs, where neither tasks nor a covariance tell it.

    Returns
    -------
    OptimalGamma
        With fields ``gamma`` and ``error``.

    Raises
    ------
    ValueError
        If an argument is outside its range, shapes do not fit, or the dimension is not known.
    TypeError
        If an argument is of another kind.

    Notes
    -----
    Where the moments are singular (few tasks without noise) it is the solution of least norm.
    For fresh tasks `iclimit.optimal_preconditioner` has the same matrix times d, with SymPy too.

    References
    ----------
    Fresh tasks: Ahn et al., arXiv:2306.00297; Zhang, Frei and Bartlett, arXiv:2306.09927.

    Examples
    --------
    The best single step on isotropic inputs; to know its two tasks gives a matrix more:

    >>> import numpy as np
    >>> from iclimit.asymptotics.pretraining import optimal_gamma
    >>> best = optimal_gamma(dim=4, context=8, rho=0.1)
    >>> best.gamma[0].round(3), round(best.error, 3)
    (array([0.597, 0.   , 0.   , 0.   , 0.   ]), 0.503)
    >>> tasks = np.array([[2.0, 0, 0, 0], [0, 2.0, 0, 0]])
    >>> round(optimal_gamma(context=8, rho=0.1, tasks=tasks).error, 3)
    0.343
    """
    given = _parse_law(
        context=context,
        rho=rho,
        dim=dim,
        tasks=tasks,
        task_law=task_law,
        task_covariance=task_covariance,
        input_covariance=input_covariance,
    )
    units = given.units()
    law = given.measured_in(units)
    G, A = law.summary_moments()
    # Squares of labels have another scale than inputs, which would move the cut-off of lstsq.
    scale = np.sqrt(np.maximum(np.diag(G), np.finfo(float).tiny))
    best = np.linalg.lstsq(G / np.outer(scale, scale), A / scale[:, None])[0]
    gamma = (best / scale[:, None]).T
    error = float(_error(gamma, law))
    return OptimalGamma(gamma / units.of_gamma(len(G)), error * units.label * units.label)


def expected_gamma(
    *,
    context: Number,
    prompts: int,
    rho: Number,
    ridge: Number = 0.0,
    dim: int | None = None,
    tasks: Number = math.inf,
    task_law: str = "sphere",
    task_covariance: ArrayLike | None = None,
    input_covariance: ArrayLike | None = None,
) -> np.ndarray:
    r"""Mean of the matrix :math:`\Gamma` that ridge regression on n prompts finds.

    In the eigenbases of :math:`\Sigma` and G, with eigenvalues :math:`\sigma_i` and :math:`g_a`,
    it is the population solution at the effective ridge :math:`\xi`:

    .. math:: \Gamma_{ia} = \frac{\sigma_i (A^\top)_{ia}}{\sigma_i g_a + \xi}, \qquad
       n \Bigl(1 - \frac\lambda\xi\Bigr) = \sum_{ia} \frac{\sigma_i g_a}{\sigma_i g_a + \xi}\,.

    Parameters
    ----------
    context, rho, tasks, task_law, task_covariance, input_covariance, dim
        As in `optimal_gamma`.
    prompts : int >= 1
        Number of training prompts, n.
    ridge : float >= 0
        Ridge :math:`\lambda` of the penalty :math:`\frac nd \lambda \lVert\Gamma\rVert_F^2`.

    Returns
    -------
    ndarray (d, d + 1)

    Raises
    ------
    ValueError
        If an argument is outside its range, shapes do not fit, or the dimension is not known.
    TypeError
        If an argument is of another kind.

    Notes
    -----
    A deterministic equivalent, right up to O(1/d): for few tasks, contexts of 2 d pairs, d^2
    prompts and a ridge of 0.1 the mean was longer by 7 to 13 % at d = 8 and 2 to 5 % at d = 16.
    The matrix of one run differs from the mean by noise, which moves extreme eigenvalues outwards.

    References
    ----------
    Module `iclimit.asymptotics.pretraining.deterministic_equivalent`.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import expected_gamma, optimal_gamma
    >>> setting = {"dim": 10, "context": 20, "rho": 0.1}
    >>> mean = expected_gamma(**setting, prompts=150, ridge=0.1)
    >>> round(float(mean[0, 0]), 3), round(float(optimal_gamma(**setting).gamma[0, 0]), 3)
    (0.535, 0.625)
    """
    law = _parse_law(
        context=context,
        rho=rho,
        dim=dim,
        tasks=tasks,
        task_law=task_law,
        task_covariance=task_covariance,
        input_covariance=input_covariance,
    )
    Sigma = law.sigma
    check_integers(prompts=prompts)
    _, values = checked(systems="numpy", single=True, ridge=ridge)
    with undefined_in_float64():
        G, A = law.summary_moments()
    d = len(G) - 1
    sigma, basis = (np.ones(1), np.eye(d)) if Sigma is None else np.linalg.eigh(Sigma)
    g, right = np.linalg.eigh(G)
    feature = np.maximum(sigma, 0.0)[:, None] * np.maximum(g, 0.0)
    # One eigenvalue of isotropic inputs stands for all d directions.
    samples = prompts / (d if Sigma is None else 1)
    with undefined_in_float64():
        xi = effective_ridge(feature, samples, float(values.ridge))
    target = basis.T @ A.T @ right
    share = np.divide(sigma[:, None], feature + xi, out=0 * feature, where=feature + xi > 0)
    return np.asarray(basis @ (share * target) @ right.T)


def fresh_task_moments(
    covariance: np.ndarray | None, sigma: np.ndarray | None, d: int, task_law: str, rho: Value
) -> TaskMoments:
    """Moments of fresh tasks: Gaussian ones of a covariance, else isotropic ones of the law."""
    return _law(covariance, sigma, None, d, task_law, 1, rho).task_moments()


@dataclass(frozen=True)
class _Units:
    """Standard deviations of labels and inputs, powers of two, that numbers are over."""

    label: float
    input: float

    def of_gamma(self, columns: int) -> np.ndarray:
        """Factors of the columns of Gamma; the last of d + 1 belongs to squares of labels."""
        factors = np.full(columns, self.input * self.input)
        factors[-1] = self.input * self.label
        return factors


@dataclass(frozen=True)
class _Law:
    """Law of prompts; of fresh tasks by their second moment, or of the rows of a task set."""

    second: np.ndarray
    sphere: bool
    tasks: np.ndarray | None
    sigma: np.ndarray | None
    context: Value
    rho: Value

    def task_moments(self) -> TaskMoments:
        if self.tasks is not None:
            return task_set_moments(self.tasks, self.sigma, self.rho)
        return centred_moments(self.second, self.sigma, self.rho, sphere=self.sphere)

    def summary_moments(self) -> tuple[np.ndarray, np.ndarray]:
        return summary_moments(self.task_moments(), self.context, self.sigma)

    def units(self) -> _Units:
        """Units in which fourth powers of labels and inputs stay finite; 1 where they do so."""
        inputs = 1.0 if self.sigma is None else math.sqrt(np.max(np.abs(self.sigma)))
        if self.tasks is None:
            weights = math.sqrt(np.max(np.abs(self.second)))
        else:
            weights = float(np.max(np.abs(self.tasks)))
        unit = _power_of_two(inputs)
        return _Units(max(_power_of_two(math.sqrt(self.rho)), unit * _power_of_two(weights)), unit)

    def measured_in(self, units: _Units) -> _Law:
        """Return the same law over these units, in which weights are labels over inputs."""
        weight = units.label / units.input
        return replace(
            self,
            second=self.second / weight / weight,
            tasks=None if self.tasks is None else self.tasks / weight,
            sigma=None if self.sigma is None else self.sigma / units.input / units.input,
            rho=self.rho / units.label / units.label,
        )


def _law(
    covariance: np.ndarray | None,
    sigma: np.ndarray | None,
    tasks: np.ndarray | None,
    d: int,
    task_law: str,
    context: Value,
    rho: Value,
) -> _Law:
    sphere = covariance is None and task_law == "sphere"
    unit = np.eye(d, dtype=int) * (1 + 0 * rho)  # of the number system of rho
    return _Law(unit if covariance is None else covariance, sphere, tasks, sigma, context, rho)


def _power_of_two(size: float) -> float:
    """Return the power of two next to a size whose fourth power is too large for float64, or 1."""
    return 2.0 ** round(math.log2(size)) if size > _LARGE else 1.0


def _parse_law(
    *,
    context: Number,
    rho: Number,
    dim: int | None,
    tasks: Value,
    task_law: str,
    task_covariance: Value,
    input_covariance: Value,
) -> _Law:
    """Law of the prompts of a fit.

    The dimension is that of tasks or covariances unless it is given.
    """
    given = [matrix for matrix in (task_covariance, input_covariance) if matrix is not None]
    sizes = [np.shape(array)[-1] for array in (*given, tasks) if np.ndim(array)]
    if dim is None and not sizes:
        raise ValueError("dim must be given where neither tasks nor a covariance tell it")
    d = sizes[0] if dim is None else dim
    check_integers(dim=d)
    check_choice("task_law", task_law, TASK_LAWS)
    _, values = checked(systems="numpy", single=True, context=context, rho=rho)
    C = optional_covariance("task_covariance", task_covariance, d)
    sigma = optional_covariance("input_covariance", input_covariance, d)
    task_set = _task_set(tasks, d, exact=False)
    return _law(C, sigma, task_set, d, task_law, float(values.context), float(values.rho))


def _float_error(gamma: Value, law: _Law) -> Value:
    """Error in units in which nothing overflows before the error does."""
    units = law.units()
    xp = array_api_compat.array_namespace(gamma)
    if units.label > 1 or units.input > 1:
        gamma = gamma * xp.asarray(units.of_gamma(law.second.shape[0] + 1)[: gamma.shape[-1]])
        law = law.measured_in(units)
    error = xp.asarray(_error(gamma, law) * units.label * units.label)
    # The form is not negative: where its terms exceed float64, and are inf - inf, so does it.
    error = xp.where(xp.isnan(error), math.inf, error)
    return error if error.ndim else float(error)


def _error(gamma: Value, law: _Law) -> Value:
    """Quadratic form of the module docstring."""
    tasks = law.task_moments()
    sigma = law.sigma
    G, A = summary_moments(tasks, law.context, sigma)
    d, columns = gamma.shape[-2:]
    linear = A.T if sigma is None else sigma @ A.T
    xp = np if _is_exact(gamma) else array_api_compat.array_namespace(gamma)
    G = xp.asarray(G[:columns, :columns])
    linear = xp.asarray(linear[:, :columns])
    weighted = gamma if sigma is None else xp.asarray(sigma) @ gamma
    form = xp.sum(weighted * (gamma @ G) - 2 * gamma * linear, axis=(-2, -1))
    label = float(tasks.label) if isinstance(tasks.label, np.generic) else tasks.label
    error = form / d + label
    return float(error) if getattr(error, "ndim", None) == 0 else error


def _is_exact(value: Value) -> bool:
    """Whether it is an array or a matrix of mpmath or SymPy."""
    objects = isinstance(value, np.ndarray) and value.dtype == np.dtype(object)
    return objects or type(value).__module__.startswith(("mpmath.", "sympy."))


def _entries(name: str, value: Value, exact: bool = False) -> Value:
    """Array of Python objects from exact numbers, else a finite one of the value's library."""
    if exact or _is_exact(value):
        entries = np.array(value.tolist() if hasattr(value, "tolist") else value, dtype=object)
        for entry in entries.flat:
            convert(namespace({name: entry}), name, entry)
        return entries
    refuse_masked(name, value)
    math_ = namespace({name: value})
    assert isinstance(math_, ArrayMath)
    array = convert(math_, name, value)
    if math_.violates(array, lambda v: abs(v) < math.inf) is not None:
        raise ValueError(f"{name} must be finite, got NaN or inf among its entries")
    return array


def _gamma(value: Value) -> Value:
    """Reduced matrices as an array whose last two axes are (d, d + 1) or (d, d)."""
    matrix = _entries("gamma", value)
    shape: Sequence[int] = matrix.shape
    if len(shape) < 2 or shape[-2] < 1 or shape[-1] - shape[-2] not in (0, 1):
        raise ValueError(f"gamma must have shape (..., d, d + 1) or (..., d, d), got {shape}")
    return matrix


def _covariance(name: str, value: Value, d: int, exact: bool) -> np.ndarray:
    """Covariance of any number system."""
    if not (exact or _is_exact(value)):
        return covariance_matrix(name, value, d)
    matrix = _entries(name, value, exact)
    matrix = np.diag(matrix) if matrix.ndim == 1 else matrix
    if matrix.shape != (d, d) or not np.all(matrix == matrix.T):
        raise ValueError(f"{name} must be a symmetric matrix of shape ({d}, {d})")
    return matrix


def _task_set(tasks: Value, d: int, exact: bool) -> np.ndarray | None:
    """Pretraining tasks as an array (k, d); None stands for infinitely many."""
    if not np.ndim(tasks):
        if tasks != math.inf:
            raise ValueError(f"tasks must be inf or an array of shape (k, {d}), got {tasks!r}")
        return None
    task_set = ArrayMath(np).host(_entries("tasks", tasks, exact))
    if task_set.ndim != 2 or task_set.shape[1] != d or not len(task_set):
        shape = task_set.shape
        raise ValueError(f"tasks must have shape (k, {d}) with k >= 1, got shape {shape}")
    return task_set
