r"""What a simulated cell will cost, before it is run.

Memory follows from the arrays that are alive together, operations from the sizes and the expected
number of iterations, time from these and from rates that are measured for a fraction of a second
on the machine itself.

The number of conjugate gradient iterations follows from the edges of the spectrum of the system:
Marchenko-Pastur, deformed by the spectrum of the context summaries.  Edges of the support of
:math:`\sum_a t_a u_a u_a^\top` are critical values of
:math:`z(m) = -1/m + \frac1n\sum_a t_a/(1 + t_a m)` (times n; Silverstein and Choi, J. Multivariate
Anal. 54, 295, 1995).
"""

import math
import time
import timeit
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from iclimit.checks import check_arguments
from iclimit.experiment import Experiment, Ridge, check_loss, check_training
from iclimit.losses import AllPositions, LastPosition
from iclimit.problem import Problem, check_one_output
from iclimit.results import Result
from iclimit.simulate.arrays import HOST_BLOCK, get_backend
from iclimit.simulate.pretraining.cells import TOLERANCE, check_experiment, simulate_errors
from iclimit.simulate.pretraining.ridge import (
    choose_method,
    conjugate_gradients,
    normal,
    row_pairs,
    solve_ridge,
)
from iclimit.simulate.pretraining.sequences import row_count
from iclimit.simulate.prompts.covariances import covariance_rank, times_root
from iclimit.simulate.prompts.sampling import draw_fresh_tasks, input_root, task_root
from iclimit.simulate.prompts.summaries import sample_summaries

# Number of tasks over d from which their second moments are those of their law.
MANY_TASKS = 100

# Eigenvalues below this part of the largest are rounding, of either sign, and count as zero.
NULL = 1e-12


def _iterations(method: str, variances: np.ndarray, prompts: int, ridge: float) -> int:
    """Expected conjugate gradient iterations of one solve with features of these variances."""
    dim = len(variances)
    if not np.any(variances):
        return 0
    edges = _primal_edges if method == "primal-cg" else _dual_edges
    low, high = edges(variances, prompts, ridge)
    root = math.sqrt(high / low) if low > 0 else math.inf
    rate = (root - 1) / (root + 1) if root < math.inf else 1.0
    bound = math.log(TOLERANCE) / math.log(rate) if 0 < rate < 1 else math.inf
    # Near the threshold rounding takes more iterations than there are eigenvalues; measured at
    # tau = 1.1, d = 16: 400 to 730 with 272.
    return math.ceil(max(1.0, min(bound, 2 * prompts, 2 * dim * (dim + 1))))


def _feature_variances(problem: Problem) -> np.ndarray:
    """Variances of the features of a query and a summary, as means over d quantiles."""
    host = get_backend("numpy")
    dim = problem.dim
    tasks = problem.task_count
    query_root = input_root(problem, host)
    factor = times_root(times_root(np.eye(dim), task_root(problem, host)), query_root)
    variance = float(np.sum(factor**2)) / dim + problem.noise_variance
    if tasks > MANY_TASKS * dim:
        scatter = factor.T @ factor
    else:
        drawn = np.random.default_rng(0).standard_normal((int(tasks), dim)) @ factor
        scatter = drawn.T @ drawn / tasks
    second = times_root(scatter + variance * dim / problem.context * np.eye(dim), query_root)
    summaries = _eigenvalues(times_root(second.T, query_root))
    queries = _eigenvalues(times_root(times_root(np.eye(dim), query_root).T, query_root))
    products = np.multiply.outer(queries, summaries)
    return np.asarray(np.mean(np.reshape(np.sort(products, axis=None), (dim, dim)), axis=1))


def _eigenvalues(matrix: np.ndarray) -> np.ndarray:
    """Eigenvalues of a covariance, without the rounding of its null space."""
    values = np.linalg.eigvalsh(matrix)
    return np.where(values > NULL * np.max(values), values, 0.0)


def _primal_edges(summaries: np.ndarray, prompts: int, ridge: float) -> tuple[float, float]:
    """Edges of the whitened normal operator.

    A direction of the summaries of variance s has its share s/(s + ridge) of the fluctuations;
    the others are at 1.
    """
    dim = len(summaries)
    present = summaries[summaries > 0]
    share = present / (present + ridge)
    ratio = math.sqrt((dim + 1) * float(np.sum(share)) / prompts)
    weight = float(np.sum(share**2) / np.sum(share))
    below = (1 - ratio) ** 2 - 1
    above = (1 + ratio) ** 2 - 1
    return max(0.0, 1 + weight * below), 1 + weight * above


def _dual_edges(summaries: np.ndarray, prompts: int, ridge: float) -> tuple[float, float]:
    """Edges of the Gram matrix of the features plus the penalty, times d/n."""
    dim = len(summaries)
    largest = float(np.max(summaries))
    ratio = (dim + 1) / prompts

    def position(m: np.ndarray) -> np.ndarray:
        return -1 / m + ratio * np.sum(summaries / (1 + np.multiply.outer(m, summaries)), axis=-1)

    high_side = -(1 - np.geomspace(1e-6, 1 - 1e-6, 400)) / largest
    low_side = np.geomspace(1e-6, 1e8, 2000) / largest
    low = float(np.max(position(low_side)))
    high = float(np.min(position(high_side)))
    return max(0.0, low) + ridge, high + ridge


# Largest direct solve that is timed; larger ones are scaled.
DENSE_SAMPLE = 1024

# Operations that a normal number counts for, and a run beside its draws and its solve.  Measured
# with d from 12 to 64: numbers took 17 to 27 ns, runs 1.3 to 3 ms, where solves made 4 to 30
# operations in a nanosecond.
NORMAL_OPERATIONS = 200
RUN_OPERATIONS = 1.5e7

# Operations in a second of one core, for whoever wants seconds that are the same everywhere.
OPERATIONS_PER_SECOND = 1e10

# Iterations that the corrections in float64 count for.
CORRECTIONS = 4

# Bound on the dimensions among which the largest that fits is searched for.
LARGEST = 2**24

# Conjugate gradient iterations that are timed together.
STEPS = 5


@dataclass(frozen=True, repr=False)
class CellCost(Result):
    """Estimated cost of a cell.

    Attributes
    ----------
    seconds : float
        CPU time on one core of this machine.
    memory_bytes : int
        Peak of what is allocated, beyond the interpreter and its modules.
    method : str
        How the regression is solved, see `iclimit.simulate.pretraining.ridge`.
    iterations : int
        Iterations of one solve; 0 for the direct solve.
    operations : float
        Floating-point operations (`count_operations`).
    """

    seconds: float
    memory_bytes: int
    method: str
    iterations: int
    operations: float


def estimate_cost(
    *,
    dim: int,
    context: int,
    tasks: int | float | np.ndarray,
    prompts: int,
    rho: float,
    ridge: float = 0.0,
    repeats: int = 1,
    input_covariance: ArrayLike | None = None,
    task_covariance: ArrayLike | None = None,
    test_covariance: ArrayLike | None = None,
    test_context: int | None = None,
    test_rho: float | None = None,
) -> CellCost:
    """Estimate time and memory of `simulate_errors` with Gaussian inputs on NumPy.

    Memory is within a factor of two of the truth, and so is time on a machine that is no more or
    less busy than during the estimate; measured ratios are in ``benchmarks/README.md``.

    Parameters
    ----------
    dim, context, tasks, prompts, rho, ridge, repeats, input_covariance, task_covariance
        As of `simulate_errors`.
    test_covariance, test_context, test_rho
        Without influence, since errors are computed in closed form.

    Returns
    -------
    CellCost

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> from iclimit.simulate.pretraining.cell_cost import estimate_cost
    >>> cost = estimate_cost(dim=30, context=30, tasks=15, prompts=1800, rho=0.1)
    >>> cost.method, 30 < cost.iterations < 60, cost.seconds < 1
    ('primal-cg', True, True)
    >>> 3e5 < cost.memory_bytes < 3e6
    True
    """
    run = Experiment.of(
        dim=dim,
        context=context,
        tasks=tasks,
        prompts=prompts,
        rho=rho,
        ridge=ridge,
        input_covariance=input_covariance,
        task_covariance=task_covariance,
        test_covariance=test_covariance,
        test_context=test_context,
        test_rho=test_rho,
    )
    return cost(run, repeats=repeats)


def cost(run: Experiment, *, repeats: int = 1) -> CellCost:
    """Estimate time and memory of `iclimit.sample` with Gaussian inputs on NumPy.

    Parameters
    ----------
    run : Experiment
        Without drift, correlation and gates, which take more time.
    repeats : int >= 1
        Number of independent runs.

    Returns
    -------
    CellCost

    Raises
    ------
    TypeError
        If it is no experiment.
    ValueError
        If an argument is outside its range, or the run has parts that are not simulated.

    Examples
    --------
    >>> import iclimit
    >>> run = iclimit.Point(tau=2, alpha=1, kappa=0.5, rho=0.1).at(dim=30)
    >>> iclimit.cost(run).method
    'primal-cg'
    """
    check_experiment(run)
    check_training(run, Ridge)
    check_loss(run, LastPosition, AllPositions)
    check_arguments(repeats=repeats)
    problem = run.problem
    check_one_output(problem)
    prompts = row_count(run)
    dim = run.dim
    count = problem.task_count
    rank = covariance_rank(problem.input_covariance, dim)
    method, iterations = _solver(run)
    seconds = _per_prompt(dim, count == math.inf) * prompts + _per_run(dim, count)
    part = min(prompts, DENSE_SAMPLE)
    if method == "primal-dense":
        seconds += _direct_solve(part, rank, method) * prompts / part
    elif method == "dual-dense":
        seconds += _direct_solve(part, dim, method) * (prompts / part) ** 2.7
    else:
        part = min(prompts, 4 * HOST_BLOCK // (4 * (dim + 1)))
        iteration, single, double = _solver_seconds(part, dim)
        seconds += iterations * (iteration + (prompts - part) * single)
        # In float64: residuals of three corrections, covariance, right side and conversion.
        seconds += 4 * prompts * double
    memory = cell_memory(dim=dim, prompts=prompts)
    operations = repeats * count_operations(run)
    return CellCost(repeats * seconds, memory, method, iterations, operations)


def _solver(run: Experiment) -> tuple[str, int]:
    """How the regression of a run is solved, and in how many iterations."""
    problem = run.problem
    prompts = row_count(run)
    method = choose_method(prompts, covariance_rank(problem.input_covariance, run.dim))
    if method.endswith("dense"):
        return method, 0
    return method, _iterations(method, _feature_variances(problem), prompts, run.ridge)


def count_operations(run: Experiment) -> float:
    """Floating-point operations of a run, the same on every machine.

    Draws of queries and context summaries are :math:`2nd` normal numbers (:math:`3nd` if every
    prompt has its own task), whatever the length l of the contexts, which are never drawn.  A
    direct solve takes :math:`np^2 + p^3/3` with the :math:`p = d(d + 1)` features or
    :math:`4n^2d + n^3/3` with the Gram matrix of the prompts; an iteration of conjugate gradients
    :math:`4np`, at half the price in float32; corrections in float64 :math:`16np`.  Of sequences
    that are trained on all positions n is the number of all their queries.

    Parameters
    ----------
    run : Experiment
        As of `cost`.

    Examples
    --------
    >>> import iclimit
    >>> from iclimit.simulate.pretraining.cell_cost import count_operations
    >>> run = iclimit.Point(tau=2, alpha=1, kappa=0.5, rho=0.1).at(dim=30)
    >>> 1e8 < count_operations(run) < 1e9
    True
    """
    dim = run.dim
    prompts = row_count(run)
    features = dim * (dim + 1)
    drawn = 3 if run.problem.task_count == math.inf else 2
    operations = RUN_OPERATIONS + NORMAL_OPERATIONS * drawn * prompts * dim
    method, iterations = _solver(run)
    if method == "primal-dense":
        return operations + prompts * features**2 + features**3 / 3
    if method == "dual-dense":
        return operations + 4 * prompts**2 * dim + prompts**3 / 3
    return operations + (iterations / 2 + CORRECTIONS) * 4 * prompts * features


def cell_memory(*, dim: int, prompts: int) -> int:
    """Bytes that a cell allocates at its peak, whatever the number of repeats.

    Queries and summaries in both precisions, or in float64 beside fresh tasks: 3 n d numbers;
    some vectors over prompts; matrices over dimensions; blocks; the matrices of a direct solve,
    in float32 and sometimes in float64, and a block of explicit features.
    """
    numbers = prompts * (3 * dim + 12) + 12 * (dim + 1) ** 2
    method = choose_method(prompts, dim)
    if method == "dual-dense":
        numbers += prompts**2
    if method == "primal-dense":
        size = dim * (dim + 1)
        numbers += size**2 + min(HOST_BLOCK, prompts * size) // 2
    return 8 * numbers + min(2 * HOST_BLOCK, 16 * prompts * (dim + 1))


def largest_dimension(
    *, tau: float, alpha: float = 1.0, kappa: float = 1.0, memory: float | None = None
) -> int:
    """Largest d of which a cell fits into memory.

    Parameters
    ----------
    tau, alpha, kappa : float > 0
        Prompts over d^2, context length and number of tasks over d; kappa may be ``inf``.  The
        context length has no influence, since contexts are never held.
    memory : float > 0, optional
        Bytes; by default what the system reports as free.

    Raises
    ------
    ValueError
        If an argument is outside its range, or not even d = 1 fits.

    Examples
    --------
    >>> from iclimit.simulate.pretraining.cell_cost import largest_dimension
    >>> largest_dimension(tau=2.0, memory=2**30)
    279
    """
    memory = free_memory() if memory is None else memory
    check_arguments(tau=tau, alpha=alpha, kappa=kappa, memory=memory)

    def too_large(dim: int) -> bool:
        tasks = 0.0 if kappa == math.inf else 24 * kappa * dim**2
        return cell_memory(dim=dim, prompts=math.ceil(tau * dim**2)) + tasks > memory

    if math.isinf(tau) or too_large(1):
        raise ValueError(f"memory must be enough for d = 1, got {memory}")
    return bisect_left(range(1, LARGEST), True, key=too_large)


def free_memory(backend: str = "numpy") -> int:
    """Bytes that can be allocated: of memory without swapping, or of the GPU's."""
    return get_backend(backend).free_memory()


# Constants of this machine.


def _best(function: Callable[[], object], calls: int = 3) -> float:
    """CPU seconds of the quickest of some calls after one that warms up."""
    function()
    return min(timeit.repeat(function, timer=time.thread_time, repeat=calls, number=1))


@cache
def _per_prompt(dim: int, fresh_tasks: bool) -> float:
    """Seconds to draw a prompt."""
    backend = get_backend("numpy")
    generator = np.random.default_rng(0)
    rows = max(64, 2**18 // dim)
    chosen = None if fresh_tasks else generator.integers(0, 1, size=rows)
    problem = Problem(dim, dim, task_law="sphere")

    def draw() -> None:
        tasks = draw_fresh_tasks(problem, backend, generator, rows if fresh_tasks else 1)
        sample_summaries(backend, generator, tasks, dim, 0.1, chosen=chosen)
        generator.standard_normal((rows, dim))

    return _best(draw) / rows


@cache
def _per_run(dim: int, tasks: float) -> float:
    """Seconds of a run that hardly has prompts: tasks, moments, errors, overheads."""
    numbers: dict[str, Any] = {"prompts": 2, "rho": 0.1, "ridge": 1.0, "rng": 0}
    return _best(lambda: simulate_errors(dim=dim, context=dim, tasks=tasks, **numbers))


@cache
def _direct_solve(prompts: int, dim: int, method: str) -> float:
    """Seconds of a direct solve."""
    x, h, y = _features(prompts, dim)
    return _best(lambda: solve_ridge(x, h, y, 1.0, method=method), calls=2)


@cache
def _solver_seconds(rows: int, dim: int) -> tuple[float, float, float]:
    """Seconds of an iteration with so many prompts, and a prompt in float32 and float64."""
    x, h, _ = _features(rows, dim)
    gamma = np.eye(dim, dim + 1)
    start = gamma.astype(np.float32)
    root = np.eye(dim + 1, dtype=np.float32)
    blocks = row_pairs(x.astype(np.float32), h.astype(np.float32))
    doubles = row_pairs(x, h)

    def operator(v: np.ndarray) -> np.ndarray:
        return normal(blocks, v @ root) @ root + v @ root

    iteration = _best(lambda: conjugate_gradients(operator, start, 0.0, STEPS)) / STEPS
    single = _best(lambda: normal(blocks, start)) / rows
    return iteration, single, _best(lambda: normal(doubles, gamma)) / rows


def _features(rows: int, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((rows, dim))
    h = generator.standard_normal((rows, dim + 1))
    return x, h, generator.standard_normal(rows)
