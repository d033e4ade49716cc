"""Which sizes and how many runs answer a question, for the least cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from iclimit.checks import by_name, check_choice, check_integers, given
from iclimit.experiment import Experiment, Point
from iclimit.notation import PARAMETERS
from iclimit.problem import TASK_LAWS
from iclimit.simulate.arrays import Seed
from iclimit.simulate.pretraining.cell_cost import OPERATIONS_PER_SECOND
from iclimit.validation.instruments.fitted_parameters import check_free
from iclimit.validation.instruments.plan.durations import duration_notes
from iclimit.validation.instruments.plan.points import (
    RATIOS,
    TESTS,
    Cost,
    NotProposed,
    Planner,
    Setting,
    check_ratio,
    run_at,
    task_law_of,
)
from iclimit.validation.instruments.plan.proposals import Goal, Proposal
from iclimit.validation.instruments.plan.questions import (
    LISTS,
    QUESTIONS,
    SKEWED_NOTE,
    SWEEP,
    Against,
    Terms,
    second_of,
)
from iclimit.validation.instruments.plan.run_plan import RunPlan
from iclimit.validation.instruments.runs.measured import MEASURED
from iclimit.validation.instruments.runs.predictions import Theory
from iclimit.validation.instruments.runs.run_model import FREE, check_of_sequences

# Unknowns of which larger values are better.
UPWARDS = ("power", "significance")

# Dimensions that are tried.
DIMENSIONS = (12, 16, 20, 24, 32, 48, 64)

# Task sets that predictions are averaged over.
SETS = 30

# Fewest points of a sweep.
FEWEST_VALUES = 4

# How the cost is found, unless another one is given.
COST_NOTE = (
    f"Costs assume a core of {OPERATIONS_PER_SECOND / 1e9:g} GFLOP/s; "
    "machines differ by some factor."
)

# What is planned where every position is trained on.
SEQUENCES_NOTE = (
    "Prompts are sequences of one example more than context, trained on all positions from "
    "first_position on."
)


def plan_runs(
    question: str,
    run: Point | Experiment | None = None,
    *,
    quantity: str = "icl",
    tau: float | Sequence[float] | None = None,
    alpha: float | Sequence[float] | None = None,
    kappa: float | Sequence[float] | None = None,
    rho: float | Sequence[float] | None = None,
    ridge: float | Sequence[float] | None = None,
    test_alpha: float | None = None,
    test_rho: float | None = None,
    sequence_ratio: float | Sequence[float] | None = None,
    alpha_min: float | None = None,
    normalization: str | None = None,
    against: Against | None = None,
    effect: float | None = None,
    significance: float | None = None,
    power: float | None = None,
    repeats: int | None = None,
    max_cost: float | None = None,
    free: Sequence[str] = (),
    dim: int | Sequence[int] | None = None,
    cost: Cost | None = None,
    unit: str = "s",
    task_law: str | None = None,
    rng: Seed = 0,
    progress: bool = False,
) -> RunPlan:
    r"""Plan runs of pretrained linear attention: which sizes, and how many repeats.

    Of effect, significance, power and the number of runs, all but one are fixed, and the last one
    is computed: the repeats unless ``repeats`` or ``max_cost`` is given, otherwise the effect
    (where the question takes one), the power or the significance, the first that is left out.

    Parameters
    ----------
    question : {"precision", "difference", "theories", "transition", "bend", "forecast"}
        "precision": measure an error to a relative ``effect``.  "difference": tell the errors of
        two settings from each other, each with runs of its own unless only the tests differ; or
        ICL from IDG errors (the gap, without ``against``) of the same runs.  "theories": tell two
        theories of the same runs from each other.  "transition": find the place of a transition
        along the parameter that has several values, to a relative ``effect``.  "bend": is one
        there at all, as the curve along this parameter is not straight in its logarithm.
        "forecast": fit the parameters ``free``, each within a relative ``effect``; parameters of
        the setting may have several values then, one for each planned run.
    run : Point or Experiment, optional
        What is run, in place of the numbers from ``tau`` to ``test_rho`` and of ``task_law``; a
        point with a ``time`` is trained for it, and the notes say for how many steps.  One
        number of a point has increasing values for a transition.  An experiment that does not come
        from a point has its own dimension only.
    quantity : {"icl", "idg", "gap"}
        What is measured: the error on fresh tasks, that on pretraining tasks, or their paired
        difference.
    tau, alpha, kappa, rho, ridge : float
        Setting of the runs, as of `icl_error`; one of them has increasing values for a transition.
        The ridge is 0 by default.
    test_alpha, test_rho : float, optional
        Context length over dimension and label noise of the tests on fresh tasks, if they differ.
    sequence_ratio, alpha_min, normalization : optional
        In the place of tau: sequences over dimension, trained on all positions from alpha_min d
        on, and the divisor of their summaries, as of `all_position_errors`.  Errors are those
        after the whole sequence, or at ``test_alpha``.
    against : mapping, Point, Experiment, str or callable, optional
        The second setting or theory: parameters that differ, as ``{"kappa": 1}``; as a theory also
        "dmmse" or "ridge", the Bayes estimators on the pretraining tasks and on all tasks, or a
        function of any of tau, alpha, kappa, rho, ridge, dim, context, tasks and prompts.
    effect : float, optional
        Relative change that is to be noticed, or deviation from the truth that is allowed.
    significance : float, optional
        Standard errors at which a theory is excluded; default 5.
    power : float, optional
        Probability of the right answer; default 0.95.
    repeats : int, optional
        Runs of each setting.
    max_cost : float, optional
        Largest cost of all runs.
    free : sequence of str
        Parameters that a fit will leave free, as of `fit_runs`: tau, alpha, kappa, rho, ridge, and
        "factor", "offset" or "task_norm" of the errors.
    dim : int or sequence of int, optional
        Dimensions that are tried; by default that of an experiment, otherwise 12 to 64.
    cost : callable, optional
        Cost of a run as a function of dim, context, tasks and prompts; by default the
        floating-point operations of `simulate_errors`, or of small steps of descent to a time, in
        seconds of a core that makes 1e10 in one.
    unit : str
        Unit of the cost.
    task_law : {"sphere", "gaussian"}, optional
        Law of the tasks; the sphere by default.
    rng : int, SeedSequence or Generator
        Root of the task sets that predictions are averaged over.
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    RunPlan
        Print it for the table, ranked by cost; ``runs`` and ``write_runs`` give the runs,
        ``plot`` the figure.

    Raises
    ------
    ValueError
        If an argument is outside its range, unknown or missing, or nothing is left to compute.
    TypeError
        If the setting is not stated, or what is run is of another kind.

    Notes
    -----
    A theory is excluded if what is measured is further from it than ``significance`` standard
    errors plus u, the stated uncertainty of the prediction at finite size
    (`iclimit.finite_size_errors`); module `iclimit.validation.instruments.plan.questions` has the
    formulas.  Standard errors are predicted (`iclimit.pretraining.finite_size_spread`); of runs on
    all positions they are those of 60 simulated runs, at d = 16 or below.  A second theory whose
    scatter is not known is taken to scatter as much, relative to its error.

    Where the standard deviation of a run is more than a tenth of the error, its law is skewed:
    at least ten repeats are proposed, and if fewer are given, judge logarithms.  Where it has a
    heavy tail (``heavy`` of `iclimit.pretraining.finite_size_spread`), twice as many as its
    kurtosis are the fewest that are proposed.  Sizes at which the variance of a run is infinite
    are not proposed: contexts of up to four pairs without a ridge, with fewer prompts than
    d (d + 1).

    Examples
    --------
    >>> import iclimit
    >>> setting = {"tau": 2, "alpha": 1, "kappa": 0.5, "rho": 0.1, "ridge": 0.1}
    >>> cost = lambda dim, context, tasks, prompts: prompts * dim**2 / 1e6
    >>> plan = iclimit.plan_runs("precision", **setting, effect=0.02, dim=[16, 24], cost=cost)
    >>> [(row["dim"], row["repeats"]) for row in plan.rows()]
    [(16, 113), (24, 27)]
    >>> point = iclimit.Point(**setting)
    >>> again = iclimit.plan_runs("precision", point, effect=0.02, dim=[16, 24], cost=cost)
    >>> again.rows() == plan.rows()
    True
    """
    goal = Goal(question, effect, significance, power, repeats, max_cost)
    check_choice("quantity", quantity, MEASURED)
    numbers = by_name(
        tau=tau,
        alpha=alpha,
        kappa=kappa,
        rho=rho,
        ridge=ridge,
        test_alpha=test_alpha,
        test_rho=test_rho,
        sequence_ratio=sequence_ratio,
        alpha_min=alpha_min,
        normalization=normalization,
        task_law=task_law,
    )
    settings, along = _settings(question, run, given(numbers))
    second = second_of(question, against, settings[0], quantity)
    if QUESTIONS[question].runs_second and second is not None:
        settings.append(second)
    terms = Terms(settings, along, second, _checked_free(question, free, settings))
    root = int(np.random.default_rng(rng).integers(2**62))
    theory = Theory(task_law=task_law_of(settings[0]), draws=SETS, root=root)
    sizes = _sizes(run, dim)
    bar = tqdm(sizes, disable=not progress, unit="size", desc="planning", leave=False)
    proposals, notes = _proposals(goal, Planner(quantity, cost, theory), terms, bar)
    if cost is None and proposals:
        notes.append(COST_NOTE)
    for setting in settings:
        notes += duration_notes(setting)
    if any(proposal.design.points[0].run.by_position for proposal in proposals):
        notes.append(SEQUENCES_NOTE)
    # At the same cost the sharpest comes first.
    key = "cost" if goal.unknown == "repeats" else goal.unknown
    sign = -1 if goal.unknown in UPWARDS else 1
    proposals.sort(key=lambda proposal: (sign * getattr(proposal, key), proposal.cost))
    return RunPlan(
        question=question,
        proposals=proposals,
        unit=unit,
        along=along,
        notes=notes,
        _least_power=goal.least_power,
        _max_cost=max_cost,
        _against=_in_words(against),
    )


def _in_words(against: Against | None) -> str:
    """What is stated of the second setting or theory."""
    if against is None:
        return ""
    if isinstance(against, Mapping):
        pairs = (f"${PARAMETERS[name].symbol}$ = {value:g}" for name, value in against.items())
        return f"with {', '.join(pairs)}"
    if isinstance(against, str):
        return against.replace("dmmse", "dMMSE")
    return getattr(against, "__name__", "the other run")


def _sizes(run: Point | Experiment | None, dim: int | Sequence[int] | None) -> list[int]:
    """Dimensions that are tried."""
    if dim is None:
        dim = run.dim if isinstance(run, Experiment) else DIMENSIONS
    sizes: list[int] = np.atleast_1d(dim).tolist()
    for size in sizes:
        check_integers(dim=size)
    return sizes


def _proposals(
    goal: Goal, planner: Planner, terms: Terms, sizes: Iterable[int]
) -> tuple[list[Proposal], list[str]]:
    """Proposals for the sizes, what they cannot tell, and why others are not proposed."""
    proposals = []
    notes = list[str]()
    refused = list[str]()
    for size in sizes:
        try:
            points = [planner.at(run_at(setting, size)) for setting in terms.settings]
            design = QUESTIONS[goal.question].design(planner, points, terms)
            notes = [*design.notes]
            proposals.append(goal.proposal(design))
        except NotProposed as error:
            refused.append(f"Not proposed: d = {size}: {error}.")
    if any(proposal.skewed for proposal in proposals):
        notes.append(SKEWED_NOTE)
    return proposals, notes + refused


def _checked_free(
    question: str, free: Sequence[str], settings: Sequence[Setting]
) -> tuple[str, ...]:
    """Parameters that a fit leaves free; those that are fitted to a share of them are not 0."""
    if not QUESTIONS[question].takes_free:
        if free:
            raise ValueError(f"free must be left out for {question}, got {free!r}")
        return ()
    names = check_free(free, FREE)
    check_of_sequences(names, sequences="sequence_ratio" in settings[0].limit)
    for name in names:
        if name in ("rho", "ridge") and not all(setting.limit[name] for setting in settings):
            raise ValueError(f"{name} must be > 0 to be fitted within a share of it, got 0")
    return names


def _settings(
    question: str, run: Point | Experiment | None, numbers: dict[str, Any]
) -> tuple[list[Setting], str]:
    """What is run, and the parameter along which the settings of a transition lie.

    Raises
    ------
    ValueError
        If a parameter is outside its range, or has several values where it should have one.
    TypeError
        If the setting is not stated, or twice.
    """
    if run is not None and numbers:
        raise TypeError(f"{', '.join(numbers)} must be left out beside a run")
    if isinstance(run, Experiment) and run.point is None:
        _check_swept(question, {})
        return [run], ""
    columns = _columns(run, numbers)
    if QUESTIONS[question].takes_free and any(name in columns for name in TESTS):
        raise ValueError(f"test_alpha and test_rho must be left out for {question}")
    several = {name: values for name, values in columns.items() if len(values) != 1}
    _check_swept(question, several)
    for name, values in columns.items():
        for value in values:
            if name in RATIOS:
                check_ratio(name, value)
    count = max(len(values) for values in columns.values())
    settings: list[Setting] = [
        Point(**{name: values[number % len(values)] for name, values in columns.items()})
        for number in range(count)
    ]
    along = next(iter(several)) if QUESTIONS[question].swept == SWEEP else ""
    return settings, along


def _columns(run: Point | Experiment | None, numbers: dict[str, Any]) -> dict[str, list[Any]]:
    """Values of each parameter of a point."""
    if isinstance(run, Experiment):
        run = run.point
    if isinstance(run, Point):
        numbers = given(vars(run))
    elif run is not None:
        raise TypeError(f"run must be a Point or an Experiment, got {run!r}")
    count = "sequence_ratio" if "sequence_ratio" in numbers else "tau"
    if missing := [name for name in (count, "alpha", "kappa", "rho") if name not in numbers]:
        raise TypeError(f"plan_runs needs {', '.join(missing)}, or a Point")
    check_choice("task_law", numbers.get("task_law", "sphere"), TASK_LAWS)
    return {name: np.ravel(values).tolist() for name, values in numbers.items()}


def _check_swept(question: str, several: Mapping[str, list[Any]]) -> None:
    """Check which parameters have several values, and how many."""
    wanted = QUESTIONS[question].swept
    if wanted == LISTS:
        if len({len(values) for values in several.values()}) > 1:
            raise ValueError(f"{' and '.join(several)} must have the same number of values")
        return
    if len(several) != (wanted == SWEEP):
        raise ValueError(f"{wanted} may have several values for {question}, got {[*several]}")
    for name, values in several.items():
        if len(values) < FEWEST_VALUES or np.min(np.diff([0.0, *values])) <= 0:
            allowed = f"one number, or {FEWEST_VALUES} or more increasing numbers > 0"
            raise ValueError(f"{name} must be {allowed}, got {values}")
