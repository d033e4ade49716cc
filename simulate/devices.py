"""What a machine has for simulations, and whether it computes there what NumPy computes."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from iclimit.results import Result
from iclimit.simulate.arrays import Backend, get_backend, to_host
from iclimit.simulate.models.stack import AttentionNetwork
from iclimit.simulate.pretraining.ridge import solve_ridge
from iclimit.simulate.prompts.sampling import Prompts
from iclimit.simulate.prompts.summaries import sample_summaries
from iclimit.threads import one_blas_thread

# Dimension of the inputs in the checks.  With these three sizes the checks take a second or two on
# one core.
DIM = 40

# Number of pairs in a context of the checks.
CONTEXT = 40

# Number of prompts in the checks.
PROMPTS = 8000

# Relative deviation that rounding explains, of a solution whose residual is 1e-8.
ROUNDING = 1e-6

# Deviation that chance explains, in standard errors.
CHANCE = 4.5


@dataclass(frozen=True)
class DeviceRow:
    """A check of one device.

    Attributes
    ----------
    device : str
        Backend, and the name of the GPU.
    check : str
        What was computed.
    deviation : float
        Largest relative deviation from NumPy; of drawn numbers, standard errors of the mean.
    agrees : bool
        Whether rounding or chance explains it.
    seconds : float
        The second time, when everything is loaded.
    """

    device: str
    check: str
    deviation: float
    agrees: bool
    seconds: float


@dataclass(frozen=True, repr=False)
class Devices(Result):
    """Checks of all devices.

    Attributes
    ----------
    checks : list of DeviceRow
        NumPy first.
    missing : str
        Why there is no GPU; empty if there is one.
    """

    checks: list[DeviceRow]
    missing: str

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each check of each device."""
        return [asdict(row) for row in self.checks]

    @property
    def holds(self) -> bool:
        """Whether every device computes what NumPy computes."""
        return all(row.agrees for row in self.checks)

    def __str__(self) -> str:
        width = max(len(row.device) for row in self.checks)
        lines = [f"{'device':{width}}  {'check':8}  {'deviation':>9}  {'seconds':>8}"]
        for row in self.checks:
            verdict = "" if row.agrees else "  NOT what NumPy computes"
            lines.append(
                f"{row.device:{width}}  {row.check:8}  {row.deviation:9.1e}"
                f"  {row.seconds:8.3f}{verdict}"
            )
        return "\n".join([*lines, *([f"no GPU: {self.missing}"] if self.missing else [])])


@one_blas_thread
def check_devices() -> Devices:
    """Solve, train and sample on every device, and compare with NumPy.

    Returns
    -------
    Devices
        Prints as a table.  ``solve`` is the structured ridge regression of pretraining, ``train``
        the loss and the gradient of a softmax network, both on the same numbers; ``sample`` draws
        context summaries, whose random numbers differ from device to device.

    Examples
    --------
    >>> from iclimit.simulate.devices import check_devices
    >>> devices = check_devices()
    >>> devices.holds, devices.checks[0].check
    (True, 'solve')
    """
    backends = [get_backend("numpy")]
    missing = ""
    try:
        backends.append(get_backend("cupy"))
    except RuntimeError as error:
        missing = str(error)
    checks: list[DeviceRow] = []
    host: dict[str, np.ndarray] = {}
    for backend in backends:
        device = _name(backend)
        for check, compute in {"solve": _solved, "train": _gradient}.items():
            result, seconds = _timed(compute, backend)
            known = host.setdefault(check, result)
            deviation = float(np.max(abs(result - known)) / np.max(abs(known)))
            checks.append(DeviceRow(device, check, deviation, deviation <= ROUNDING, seconds))
        sample, seconds = _timed(_label_squares, backend)
        # The mean square of labels of unit variance, whose noise has a tenth of it.
        standard_error = float(np.std(sample) / math.sqrt(len(sample)))
        z = abs(float(np.mean(sample)) - 1.1) / standard_error
        checks.append(DeviceRow(device, "sample", z, z <= CHANCE, seconds))
    return Devices(checks, missing)


def _name(backend: Backend) -> str:
    if backend.name == "numpy":
        return "numpy"
    properties = backend.xp.cuda.runtime.getDeviceProperties(0)
    return f"{backend.name}, {properties['name'].decode()}"


def _timed(compute: Callable[[Backend], Any], backend: Backend) -> tuple[np.ndarray, float]:
    """Result on the host, and the time of a second computation with its transfer."""
    compute(backend)
    start = time.perf_counter()
    result = to_host(compute(backend))
    return result, time.perf_counter() - start


def _solved(backend: Backend) -> Any:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((PROMPTS, DIM))
    h = rng.standard_normal((PROMPTS, DIM + 1))
    y = np.sum(x * h[:, :DIM], axis=1) + rng.standard_normal(PROMPTS)
    solution = solve_ridge(
        backend.asarray(x), backend.asarray(h), backend.asarray(y), 0.01, tolerance=1e-10
    )
    return solution.gamma


def _gradient(backend: Backend) -> Any:
    rng = np.random.default_rng(0)
    network = AttentionNetwork(dim=DIM, layers=2, width=2 * DIM)
    arrays = [
        rng.standard_normal(shape)
        for shape in ((200, CONTEXT, DIM), (200, CONTEXT), (200, DIM), (200,))
    ]
    prompts = Prompts(*map(backend.asarray, arrays))
    weights = {name: backend.asarray(weight) for name, weight in network.initial(rng).items()}
    loss, gradient = network.loss_and_gradient(weights, prompts)
    xp = backend.xp
    parts = [xp.reshape(gradient[name], (-1,)) for name in network.shapes]
    return xp.concat([xp.reshape(loss, (1,)), *parts])


def _label_squares(backend: Backend) -> Any:
    generator = backend.generator(np.random.SeedSequence(0))
    tasks = generator.standard_normal((PROMPTS, DIM))
    tasks *= math.sqrt(DIM) / backend.xp.linalg.vector_norm(tasks, axis=1, keepdims=True)
    return sample_summaries(backend, generator, tasks, CONTEXT, 0.1)[:, DIM]
