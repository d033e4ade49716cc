r"""The reduced matrix of one linear attention layer, read off its weights.

The prediction of a layer is linear in the second moments of its tokens and in the query
(`iclimit.validation.instruments.weights.label_free`).  Moments of inputs with labels, and of
labels, are the context summary h, so these parts are :math:`x_q^\top \Gamma h`, whatever the
weights are factored into.  The rest sees no label.  It is left out of :math:`\Gamma`, and its
share of the mean square of the prediction is computed exactly for Gaussian inputs.  So are the
errors of the layer with it.  A layer stands beside what pretraining on finitely many prompts is
predicted to give.

Everything here is in the units of the library (`iclimit.units`): inputs of
variance 1/d, tasks of variance 1, and so noiseless labels of variance 1.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from iclimit.asymptotics.checks import check_integers, real_array, real_number
from iclimit.asymptotics.losses import TaskErrors
from iclimit.asymptotics.pretraining import (
    OptimalGamma,
    errors_of_gamma,
    expected_gamma,
    finite_size_errors,
    optimal_gamma,
)
from iclimit.asymptotics.pretraining.gamma_errors import fresh_task_moments
from iclimit.asymptotics.pretraining.joint_spectrum import covariance_matrix
from iclimit.asymptotics.pretraining.summary_moments import task_set_moments
from iclimit.checks import check_choice
from iclimit.drawing import COLOURS, Axes, finish
from iclimit.notation import explaining
from iclimit.prediction import Prediction
from iclimit.problem import Problem
from iclimit.results import Estimate, Result
from iclimit.samples import Samples
from iclimit.simulate.arrays import Seed, get_backend, seed_sequences
from iclimit.simulate.pretraining import simulate_errors
from iclimit.simulate.prompts.sampling import draw_fresh_tasks
from iclimit.tables import aligned
from iclimit.units import Units
from iclimit.validation.instruments.weights.label_free import LabelFree
from iclimit.validation.instruments.weights.layouts import (
    Layout,
    Products,
    Weights,
    get_layout,
    parse_layer,
)
from iclimit.words import percent

# Tasks (k, d), or how many fresh ones.
Tasks: TypeAlias = float | np.ndarray

# Task sets that the prediction is averaged over.
DRAWS = 20


@dataclass(frozen=True, repr=False)
class PretrainingComparison(Result):
    """Errors of a layer beside those of ridge regression on the same number of prompts.

    Attributes
    ----------
    errors : TaskErrors
        Of the layer.  Its ``idg`` is on fresh tasks if only the number of tasks is known.
    predicted : Prediction
        What the theory predicts at these integers.
    simulated : Samples
        Simulated pretrainings at the same integers.
    eigenvalues : ndarray (d,)
        Ascending eigenvalues of the block (d, d) of the layer's reduced matrix.
    expected : ndarray (d,)
        Those of the mean matrix of such a pretraining, a mean over task sets where only the
        number of tasks is known.
    same_tasks : bool
        Whether the tasks are those of the layer, so that the IDG errors can be compared.
    """

    errors: TaskErrors
    predicted: Prediction
    simulated: Samples
    eigenvalues: np.ndarray
    expected: np.ndarray
    same_tasks: bool

    def z(self, error: str = "icl") -> float:
        """Distance from the prediction in standard deviations of one simulated pretraining."""
        check_choice("error", error, self._compared)
        distance = getattr(self.errors, error) - getattr(self.predicted, error).mean
        return float(distance / self._run(error).standard_error)

    @property
    def _compared(self) -> tuple[str, ...]:
        return ("icl", "idg") if self.same_tasks else ("icl",)

    def _run(self, error: str) -> Estimate:
        """Error of one simulated pretraining, with its standard deviation."""
        runs = getattr(self.simulated, error)
        return Estimate(runs.mean, runs.standard_error * math.sqrt(runs.repeats), 1)

    def draw(self, ax: Axes) -> None:
        """Draw the eigenvalues of the layer's matrix beside those of the mean matrix."""
        draw_spectra(
            ax, self.eigenvalues, "this layer", {"mean of such a pretraining": self.expected}
        )

    def __str__(self) -> str:
        """Short table."""
        lines = [["", "layer", "predicted", "one run", "z"]]
        for error in self._compared:
            run = self._run(error)
            name = "fresh" if error == "icl" else "pretraining"
            layer = getattr(self.errors, error)
            predicted = getattr(self.predicted, error).mean
            spread = f"{run.mean:.4g} ± {run.standard_error:.2g}"
            numbers = [f"{layer:.4g}", f"{predicted:.4g}", spread, f"{self.z(error):.2f}"]
            lines.append([f"{name} tasks", *numbers])
        return "\n".join(aligned(lines, "<>"))


def block_eigenvalues(gamma: np.ndarray) -> np.ndarray:
    """Ascending eigenvalues of the symmetric part of the block (d, d) of a reduced matrix."""
    block = gamma[:, : len(gamma)]
    return np.linalg.eigvalsh((block + block.T) / 2)


def _task_sets(run: dict[str, Any], generator: np.random.Generator) -> np.ndarray:
    """Task sets (DRAWS, k, d) of the law of a run, given by arguments of `simulate_errors`."""
    covariance = run["task_covariance"]
    law = run["task_law"] if covariance is None else "gaussian"
    problem = Problem(run["dim"], run["context"], task_law=law, task_covariance=covariance)
    drawn = draw_fresh_tasks(problem, get_backend("numpy"), generator, DRAWS * run["tasks"])
    return np.reshape(drawn, (DRAWS, run["tasks"], run["dim"]))


def draw_spectra(
    ax: Axes, values: np.ndarray, label: str, theory: dict[str, np.ndarray], title: str = ""
) -> None:
    """Draw eigenvalues as points and those of the theory, by their labels, as lines."""
    index = np.arange(1, len(values) + 1)
    for colour, (name, line) in zip(COLOURS[:1] + COLOURS[2:], theory.items(), strict=False):
        ax.plot(index, line, color=colour, label=name)
    ax.plot(index, values, "o", color=COLOURS[1], markersize=4, label=label)
    every = np.concatenate([values, *theory.values()])
    ax.set_ylim(1.1 * min(0.0, every.min()), 1.25 * max(0.1, every.max()))
    ax.locator_params(axis="x", integer=True)
    finish(ax, "index, ascending", r"eigenvalue of $\Gamma$", title=title, legend="")


# Ignored share above which a table asks for the layout.  Measured: .0003 for a layer trained on
# fresh tasks, .14 for its matrices read as their transposes, .56 for one trained on four tasks.
LARGE_SHARE = 0.1


@dataclass(frozen=True, repr=False)
class ReducedGamma(Result):
    r"""Reduced matrix of a layer, and what it leaves out.

    Attributes
    ----------
    gamma : ndarray (d, d + 1)
        :math:`\Gamma` of the prediction :math:`x_q^\top \Gamma h`, in the units of the library.
    ignored : float
        Share of the mean square of the layer's prediction that :math:`\Gamma` leaves out, on
        fresh tasks.
    label_free : LabelFree
        That part, in the units of the library.
    context : int
        Context length :math:`\ell`.
    rho : float
        Variance of the label noise.
    layout : Layout
        How the weights were read.
    units : Units
        Convert errors to the units of the layout, and back.
    law : dict
        Law of tasks and inputs, as arguments of `errors_of_gamma`.
    """

    gamma: np.ndarray
    ignored: float
    label_free: LabelFree = field(repr=False)
    context: int
    rho: float
    layout: Layout = field(repr=False)
    units: Units = field(repr=False)
    law: dict[str, Any] = field(repr=False)

    @property
    def dim(self) -> int:
        """Dimension d of the inputs."""
        return len(self.gamma)

    def gamma_at(self, context: int) -> np.ndarray:
        """The same weights at another context length: sums over the context grow with it."""
        check_integers(context=context)
        scales = [length * self.layout.factor(length) for length in (context, self.context)]
        return self.gamma * (scales[0] / scales[1])

    def errors(
        self,
        *,
        tasks: Tasks = math.inf,
        test_covariance: np.ndarray | None = None,
        test_context: int | None = None,
        test_noise_variance: float | None = None,
        whole: bool = False,
    ) -> TaskErrors:
        r"""Exact errors of :math:`\Gamma` on Gaussian inputs, in the units of the library.

        Parameters
        ----------
        tasks : inf or array (k, d)
            Pretraining tasks of the IDG error, in the units of the layout; ``inf`` for fresh ones.
        test_covariance : array (d, d) or (d,), optional
            Covariance of the Gaussian tasks behind the ICL error; None: the law of the tasks.
        test_context : int >= 1, optional
            Context length of the prompts behind the ICL error; None: that of the layer.
        test_noise_variance : float >= 0, optional
            Their label noise, in the units of the layout; None: that of the layer.
        whole : bool
            Whether of the layer itself, with the part that the matrix leaves out.

        Returns
        -------
        TaskErrors
        """
        context = self.context if test_context is None else test_context
        rho = self.rho
        if test_noise_variance is not None:
            rho = self.units.to_library("noise_variance", test_noise_variance)
        matrix = self.gamma_at(context)
        task_set = self._scaled(tasks)
        fresh: dict[str, Any] = {
            "test_covariance": test_covariance,
            "test_context": context,
            "test_rho": rho,
        }
        setting: dict[str, Any] = {"context": self.context, "rho": self.rho} | self.law
        icl = float(errors_of_gamma(matrix, **setting, **fresh).icl)
        idg = float(errors_of_gamma(self.gamma, **setting, tasks=task_set).idg)
        if whole:
            icl += self._added(matrix, context, rho, test_covariance)
            idg += self._added(self.gamma, self.context, self.rho, None, task_set)
        return TaskErrors(icl, idg)

    def best(self, *, tasks: Tasks = math.inf) -> OptimalGamma:
        """Best matrix for fresh tasks, or for a set of tasks in the units of the layout."""
        return optimal_gamma(
            dim=self.dim, context=self.context, rho=self.rho, tasks=self._scaled(tasks), **self.law
        )

    @cached_property
    def optimum(self) -> OptimalGamma:
        """Best matrix for fresh tasks, and its error."""
        return self.best()

    @property
    def excess(self) -> float:
        """Error of the matrix on fresh tasks minus that of the best one."""
        return float(self.errors().icl - self.optimum.error)

    @property
    def eigenvalues(self) -> np.ndarray:
        """Ascending eigenvalues of the symmetric part of the block (d, d) of the matrix."""
        return block_eigenvalues(self.gamma)

    @property
    def asymmetry(self) -> float:
        """Share of the antisymmetric part in the squared norm of that block."""
        block = self.gamma[:, : self.dim]
        total = np.sum(block**2)
        return float(np.sum((block - block.T) ** 2) / 4 / total) if total else 0.0

    def against_pretraining(
        self,
        *,
        tasks: float | np.ndarray,
        prompts: int,
        ridge: float = 0.0,
        repeats: int = 20,
        rng: Seed = 0,
    ) -> PretrainingComparison:
        """Compare with ridge regression on so many prompts, which the finite-size theory predicts.

        Parameters
        ----------
        tasks : int >= 1, inf, or array (k, d)
            Pretraining tasks, or their number; the vectors in the units of the layout.
        prompts : int >= 1
            Pretraining prompts.
        ridge : float >= 0
            Ridge, in the units of the library.
        repeats : int >= 2
            Simulated pretrainings, whose spread tells what distance from the prediction is usual.
        rng : int, SeedSequence or Generator
            Seed of the simulation and of the task sets.

        Returns
        -------
        PretrainingComparison
        """
        check_integers(least=2, repeats=repeats)
        theory, simulation, sets = seed_sequences(rng, 3)
        same_tasks = bool(np.ndim(tasks))
        given = self._scaled(tasks)
        run: dict[str, Any] = {"dim": self.dim, "context": self.context, "tasks": given}
        run |= {"prompts": prompts, "rho": self.rho, "ridge": ridge} | self.law
        predicted = finite_size_errors(**run, rng=theory, draws=DRAWS)
        several = not same_tasks and given != math.inf
        drawn = _task_sets(run, np.random.default_rng(sets)) if several else [given]
        spectra = [
            block_eigenvalues(expected_gamma(**run | {"tasks": task_set})) for task_set in drawn
        ]
        return PretrainingComparison(
            self.errors(tasks=tasks if same_tasks else math.inf, whole=True),
            predicted,
            simulate_errors(**run, rng=simulation, repeats=repeats),
            eigenvalues=self.eigenvalues,
            expected=np.mean(spectra, axis=0),
            same_tasks=same_tasks,
        )

    def draw(self, ax: Axes) -> None:
        """Draw the eigenvalues of the block (d, d) beside those of the best matrix."""
        draw_spectra(
            ax,
            self.eigenvalues,
            f"this layer, error {self.errors().icl:.4g}",
            {f"best, error {self.optimum.error:.4g}": block_eigenvalues(self.optimum.gamma)},
            title=f"ignored share of the prediction {percent(self.ignored, 3)}",
        )

    def __str__(self) -> str:
        """Short table."""
        error = float(self.errors().icl)
        null = float(errors_of_gamma(0 * self.gamma, context=1, rho=self.rho, **self.law).icl)
        gap = null - self.optimum.error
        reached = (null - error) / gap if gap > 0 else math.nan
        rows = [
            ("  Gamma of the layer", f"{error:.5g}"),
            ("  layer with the ignored part", f"{self.errors(whole=True).icl:.5g}"),
            ("  best Gamma", f"{self.optimum.error:.5g}"),
            ("  null predictor", f"{null:.5g}"),
            ("  share of the best gain", percent(reached, 3)),
        ]
        lines = [
            f"layer in layout {self.layout.describe()}",
            f"d = {self.dim}, context = {self.context}, rho = {self.rho:.4g}",
            f"ignored share of the prediction: {percent(self.ignored, 3)}",
            "error on fresh tasks (Gaussian inputs, noiseless labels of variance 1)",
            *aligned(rows, "<>"),
        ]
        if not (np.any(self.gamma) or self.ignored):
            lines.append("the prediction is 0 on every prompt: another layout?")
        if self.ignored > LARGE_SHARE:
            lines.append(
                "a large share is ignored: another layout, or few tasks whose mean is learnt?"
            )
        if error > null:
            lines.append(
                "worse than predicting 0: another sign, normalization or unit, or few tasks?"
            )
        return "\n".join(lines)

    def _added(
        self,
        gamma: np.ndarray,
        context: int,
        rho: float,
        covariance: np.ndarray | None,
        tasks: Tasks = math.inf,
    ) -> float:
        """What the part without labels adds to an error."""
        d = self.dim
        sigma = self.law["input_covariance"]
        C = self.law["task_covariance"]
        if covariance is not None:
            C = covariance_matrix("test_covariance", covariance, d)
        mean = np.zeros(d)
        moments = fresh_task_moments(C, sigma, d, self.law["task_law"], rho)
        if isinstance(tasks, np.ndarray):
            mean = np.mean(tasks, axis=0)
            moments = task_set_moments(tasks, sigma, rho)
        part = self.label_free.times(
            self.layout.factor(context) / self.layout.factor(self.context)
        )
        product = part.product(gamma, moments, mean, context, rho, sigma)
        return part.square(context, sigma) + 2 * product

    def _scaled(self, tasks: Tasks) -> Tasks:
        """Tasks in the units of the library."""
        if not np.ndim(tasks):
            return tasks
        return real_array("tasks", tasks, "(-inf, inf)") / math.sqrt(
            self.units.value("task_variance")
        )


@explaining
def reduced_gamma(
    layer: Weights,
    *,
    layout: str | Layout = "lu2025",
    context: int,
    noise_variance: float,
    heads: int = 1,
    readout: float | np.ndarray | None = None,
    task_covariance: np.ndarray | None = None,
    input_covariance: np.ndarray | None = None,
) -> ReducedGamma:
    r"""Reduced matrix of a linear attention layer from its weights.

    Parameters
    ----------
    layer : mapping of arrays, or Layer
        Weights by name, in shapes (rows, D) or (H, rows, D) with D = d + 1; an opened ``.npz``
        file is such a mapping.  All layouts know ``W_Q``, ``W_K``, ``W_V`` and ``W_O`` (may be
        left out), and the products ``W_KQ`` :math:`= W_K^\top W_Q` and ``W_PV``
        :math:`= W_O W_V`; further names are those of the paper.  A layer of
        `iclimit.train_attention` works too, in the layout "versatile2024".
    layout : str or Layout
        Arrangement of a paper: ``lu2025``, ``vonoswald2023``, ``blog2024``, ``ahn2023``,
        ``zhang2024``, ``versatile2024`` or ``linattn2025``; with other choices, or another
        law of inputs and tasks, from `iclimit.validation.get_layout`.
    context : int >= 1
        Number of labelled pairs in a prompt.
    noise_variance : float >= 0
        Variance of the label noise, in the units of the layout.
    heads : int >= 1
        Heads that are stacked in matrices (H rows, D), as PyTorch has them; those of arrays
        (H, rows, D) need not be told.
    readout : float or array (D,), optional
        What the output of the query's token is multiplied with: a factor of its last entry, or a
        vector; 1 or -1 by the layout.
    task_covariance : array (d, d) or (d,), optional
        Covariance of Gaussian tasks over the layout's variance of tasks.
    input_covariance : array (d, d) or (d,), optional
        Covariance of the inputs over the layout's variance of inputs.

    Returns
    -------
    ReducedGamma
        Matrix, ignored share, and methods for errors, optimum, comparison with pretraining.

    Raises
    ------
    ValueError
        If an argument is outside its range, a name is not known, or shapes do not fit.
    TypeError
        If an argument is of another kind.

    Notes
    -----
    The query's label is zero, as in all seven layouts.  A layout that is not that of the weights
    mostly shows in a large ``ignored``, since labels are then taken for inputs; a wrong factor or
    sign shows in the error.

    References
    ----------
    Reduced matrix: Lu et al., arXiv:2405.11751.  Layouts: von Oswald et al., arXiv:2212.07677;
    Ahn et al., arXiv:2306.00297; Zhang, Frei and Bartlett, arXiv:2306.09927; Vladymyrov et al.,
    arXiv:2402.14180; Zhang et al., arXiv:2501.16265.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.validation.instruments.weights.reduced import reduced_gamma
    >>> d = 3
    >>> layer = {"V": np.diag([0, 0, 0, 1.0]), "K": np.eye(4), "Q": 1.5 * np.diag([1.0, 1, 1, 0])}
    >>> reduced = reduced_gamma(layer, layout="lu2025", context=12, noise_variance=0.1)
    >>> reduced.gamma[0], reduced.ignored
    (array([0.5, 0. , 0. , 0. ]), 0.0)
    >>> round(reduced.errors().icl, 4), round(reduced.optimum.error, 4)
    (0.4396, 0.3638)
    """
    chosen = get_layout(layout)
    check_integers(heads=heads, context=context)
    products = parse_layer(layer, chosen, heads)
    d = products.dim
    convention = chosen.convention
    noise = real_number("noise_variance", noise_variance)
    units = convention.units(dim=d, context=context, noise_variance=noise)
    rho = units.to_library("noise_variance", noise)
    law: dict[str, Any] = {"task_law": convention.task_law}
    covariances = {"task_covariance": task_covariance, "input_covariance": input_covariance}
    for name, value in covariances.items():
        law[name] = None if value is None else covariance_matrix(name, value, d)
    read = _readout(readout, products, chosen)
    gamma = _summed(products, read, chosen, units)
    part = LabelFree.of(products, read, chosen, units)
    reduced = ReducedGamma(gamma, 0.0, part, context, rho, chosen, units, law)
    return replace(reduced, ignored=_ignored(reduced))


def _readout(readout: float | np.ndarray | None, products: Products, layout: Layout) -> np.ndarray:
    """Vector (m,) that the output of the query's token is multiplied with."""
    size = products.output.shape[1]
    last = np.eye(size)[-1]
    if readout is None:
        return layout.sign * last
    vector = real_array("readout", readout, "(-inf, inf)")
    if vector.shape not in ((), (size,)):
        raise ValueError(f"readout must be a number or of shape ({size},), got {vector.shape}")
    return vector if vector.ndim else vector * last


def _summed(products: Products, readout: np.ndarray, layout: Layout, units: Units) -> np.ndarray:
    """Gamma in the units of the library."""
    d = products.dim
    factor = layout.factor(units.context)
    read = factor * np.einsum("m,hma->ha", readout, products.output)
    lookup = products.lookup[:, :, :d]
    first = np.einsum("ha,hi->ia", read[:, :d], lookup[:, d])
    first += np.einsum("h,hai->ia", read[:, d], lookup[:, :d])
    last = np.einsum("h,hi->i", read[:, d], lookup[:, d])
    # So far the matrix stands between the query and sums over the context.
    sums = replace(units.convention, product_factor="1", square_factor="1")
    units = replace(units, convention=sums)
    return np.asarray(units.to_library("gamma", np.column_stack([first, last])))


def _ignored(reduced: ReducedGamma) -> float:
    """Share of the mean square of the prediction on fresh tasks that sees no label."""
    # Errors are quadratic in gamma: their even part is the mean square of the prediction by it.
    law: dict[str, Any] = {"context": reduced.context, "rho": reduced.rho} | reduced.law
    both = np.stack([reduced.gamma, -reduced.gamma, 0 * reduced.gamma])
    plus, minus, null = errors_of_gamma(both, **law).icl
    square = reduced.label_free.square(reduced.context, reduced.law["input_covariance"])
    total = (plus + minus) / 2 - null + reduced.errors(whole=True).icl - plus
    return float(square / total) if total > 0 else 0.0
