"""Tables of measured errors, read into runs in our units.

Sizes are integers, read from columns of integers or of ratios.  Single runs of one setting are
taken together, and so are means of one setting.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from iclimit.asymptotics.gdpp import ridge_risk
from iclimit.checks import check_choice
from iclimit.links import parse_link, stored_link
from iclimit.notation import PARAMETERS, did_you_mean, size_of
from iclimit.results import Estimate
from iclimit.units import Convention, Units, get_convention
from iclimit.validation.instruments.reading import Table, read_table
from iclimit.validation.instruments.runs.measured import (
    ACCURACIES,
    ACCURACY,
    ATTENTION,
    ESTIMATORS,
    LABELS,
    MEASURED,
    RATIOS,
    TESTS,
    MeasuredRun,
    experiment_of,
)
from iclimit.validation.instruments.runs.positions import (
    POSITIONS,
    prompts_of_ratios,
    read_positions,
)
from iclimit.validation.instruments.runs.trainings import (
    TRAININGS,
    prompts_of_steps,
    read_trainings,
)

# A number is an integer if it is within this relative distance: ratios are written shortly.
WHOLE = 1e-6

# How integers come out of ratios; "exact": they must be integers.
ROUNDINGS = {"exact": None, "nearest": round, "floor": math.floor, "ceil": math.ceil}

Columns = dict[str, list[float]]

# Endings of columns with standard errors and standard deviations, and what others call them.
ERROR_BARS = {"_se": ("stderr", "sem", "err", "error", "ste"), "_sd": ("std", "stdev", "sigma")}

PARAMETER_COLUMNS = (
    "dim",
    *(name for pair in RATIOS.items() for name in pair),
    "rho",
    "noise_variance",
    "ridge",
    "runs",
    "estimator",
    "penalty",
    *TESTS,
    *TRAININGS,
    *LABELS,
    *POSITIONS,
)

# What accuracies are measured in: the units of the library leave numbers as they are.
NO_UNITS = get_convention("lu2025").units(dim=1, context=1)

# Range of measured errors, so that squares of their squares are finite.
LIMITS = "(-1e50, 1e50)"

# Range of standard errors in units of the library, so that the squares of their squares are finite
# and not 0, and of the number of runs behind a mean.
LEAST_BAR = 1e-50
MOST_BAR = 1e50
RUNS = "[1, 1e15]"
SEVERAL_RUNS = "[2, 1e15]"

# Penalties of ridge regression, in units of the library as `ridge_risk` takes them.
PENALTIES = "[0, 1e28]"

# Range of a noise variance or a ridge that is not 0, in units of the library.
LEAST_LEVEL = 1e-100
MOST_LEVEL = 1e50

# Columns of what is measured, and all that a table may have.
COLUMNS = (*MEASURED, *ACCURACIES.values())
KNOWN = (
    *PARAMETER_COLUMNS,
    *COLUMNS,
    *(name + ending for name in COLUMNS for ending in ERROR_BARS),
)


def read_sizes(table: Table, rounding: str) -> tuple[Columns, Columns]:
    """Columns dim, context, tasks and prompts, and what of it came out of ratios, unrounded.

    Raises
    ------
    ValueError
        If a size is neither given nor a ratio stands for it, a ratio does not give an integer, or
        contradicts the integer beside it.
    """
    check_choice("rounding", rounding, ROUNDINGS)
    if "dim" not in table:
        raise ValueError("the table needs a column dim, or dim among the parameters")
    sizes = {"dim": table.numbers("dim")}
    unrounded = Columns()
    for name, ratio in RATIOS.items():
        if name in table:
            sizes[name] = table.numbers(name)
        elif ratio not in table:
            raise ValueError(f"the table needs a column {name} or {ratio}, or one as a parameter")
        if ratio in table:
            ratios = table.numbers(ratio, "(0, inf]" if ratio == "kappa" else "(0, inf)")
            exact = [
                size_of(ratio, value, int(dim))
                for value, dim in zip(ratios, sizes["dim"], strict=True)
            ]
            if name in table:
                _refuse_conflict(table, name, sizes[name], exact)
            else:
                sizes[name] = _rounded(table, name, exact, rounding)
                unrounded[name] = exact
    return sizes, unrounded


def _rounded(table: Table, name: str, exact: Sequence[float], rounding: str) -> list[float]:
    ratio = RATIOS[name]
    sizes = list[float]()
    for row, value in enumerate(exact, 1):
        whole = value == math.inf or abs(value - round(value)) <= WHOLE * max(1.0, value)
        function = round if whole else ROUNDINGS[rounding]
        if function is None:
            problem = (
                f"gives {value:.6g} {name}, which is no integer: give the integers, or say how "
                "they were rounded (rounding='nearest', --rounding nearest)"
            )
            raise table.fault(row, ratio, problem)
        size = value if value == math.inf else function(value)
        if size < 1:
            raise table.fault(row, ratio, f"gives {value:.3g} {name}, but there must be 1 or more")
        sizes.append(size)
    return sizes


def _refuse_conflict(
    table: Table, name: str, sizes: Sequence[float], exact: Sequence[float]
) -> None:
    for row, (size, value) in enumerate(zip(sizes, exact, strict=True), 1):
        if size != value and not abs(size - value) < 1:
            problem = f"gives {value:.6g} {name}, but the column {name} has {size:g}"
            raise table.fault(row, RATIOS[name], problem)


def read_runs(
    table: object,
    *,
    columns: Mapping[str, str] | None = None,
    ignore: Sequence[str] | str = (),
    parameters: Mapping[str, Any] | None = None,
    convention: Convention,
    rounding: str = "exact",
    ddof: int = 1,
    starts: Mapping[str, float] | None = None,
    planned: bool = False,
) -> list[MeasuredRun]:
    """Read a table of measured errors; arguments and errors are those of `check_runs`.

    ``starts`` are values of parameters that the table need not have; ``planned``: it need not
    have errors.
    """
    if ddof not in (0, 1):
        raise ValueError(f"ddof must be 0 or 1, got {ddof!r}")
    entries = read_table(table, KNOWN, columns=columns, ignore=ignore, hint=_hint)
    entries = _with_parameters(entries, parameters or {})
    lacking = {name: value for name, value in (starts or {}).items() if not _has(entries, name)}
    entries = _with_parameters(entries, lacking)
    if not (planned or any(name in entries for name in COLUMNS)):
        raise ValueError(f"the table needs a column {', '.join(COLUMNS)}: what was measured?")
    runs = []
    if planned or any(name in entries for name in MEASURED):
        runs += _runs_of(entries, convention, rounding, ddof)
    if any(name in entries for name in ACCURACIES.values()):
        accuracies = _of_accuracies(entries)
        # Accuracies have no units.
        runs += [
            replace(run, estimator=ACCURACY)
            for run in _runs_of(accuracies, convention, rounding, ddof, plain=True)
        ]
    return runs


def _of_accuracies(table: Table) -> Table:
    """The table with its accuracies in the place of its errors."""
    if "link" not in table:
        raise ValueError(
            "accuracy needs a column link, or link among the parameters: which labels are learned?"
        )
    entries = dict(table.entries)
    names = dict(table.names)
    for error, accuracy in (*ACCURACIES.items(), ("gap", "")):
        for ending in ("", *ERROR_BARS):
            entries.pop(error + ending, None)
            column = entries.get(accuracy + ending) if accuracy else None
            if column is not None:
                entries[error + ending] = column
                names[error + ending] = table.names.get(accuracy + ending, accuracy + ending)
    return Table(entries, names, len(table))


def _runs_of(
    entries: Table, convention: Convention, rounding: str, ddof: int, *, plain: bool = False
) -> list[MeasuredRun]:
    """Runs of a table, of whose errors or, where they are plain numbers, accuracies."""
    names = [name for name in MEASURED if name in entries]
    estimators = [ATTENTION] * len(entries)
    if "estimator" in entries:
        estimators = entries.words("estimator", ESTIMATORS)
    if ATTENTION not in estimators and not {"prompts", "tau"} & set(entries.entries):
        entries = _with_parameters(entries, {"prompts": 1})  # it plays no part
    if set(estimators) == {"ridge"} and not {"tasks", "kappa"} & set(entries.entries):
        entries = _with_parameters(entries, {"tasks": math.inf})  # nor do tasks
    entries = prompts_of_ratios(prompts_of_steps(entries))
    sizes, unrounded = read_sizes(entries, rounding)
    units = _units(entries, sizes, convention)
    rho = [unit.to_library("noise_variance", unit.noise_variance) for unit in units]
    ridges = entries.numbers("ridge") if "ridge" in entries else [0.0] * len(entries)
    ridge = [unit.to_library("ridge", value) for unit, value in zip(units, ridges, strict=True)]
    _refuse_extremes(entries, "rho" if "rho" in entries else "noise_variance", rho)
    _refuse_extremes(entries, "ridge", ridge)
    penalties = _penalties(entries, estimators, units)
    measured_in = [NO_UNITS] * len(entries) if plain else units
    errors = {name: _errors(entries, name, measured_in) for name in names}
    bars = {name: _error_bars(entries, name, measured_in, ddof) for name in names}
    counts = _run_counts(entries) if "runs" in entries else None
    single = not (np.isfinite(list(bars.values())).any() or "runs" in entries)

    tests = _tests(entries, estimators, sizes["context"], rho)
    trainings = read_trainings(entries, sizes, units)
    if trainings and set(estimators) != {ATTENTION}:
        raise ValueError(f"{', '.join(trainings)}: only attention is trained")
    labels = _labels(entries, estimators)
    losses = read_positions(entries, sizes["context"], [*tests, *trainings, *labels])
    if losses and set(estimators) != {ATTENTION}:
        raise ValueError(f"{', '.join(losses)}: only attention is trained on positions")
    tests |= trainings | labels | losses
    groups: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    keys = zip(*sizes.values(), rho, ridge, estimators, penalties, *tests.values(), strict=True)
    for row, key in enumerate(keys):
        groups[key].append(row)
    runs = []
    for members in groups.values():
        row = members[0]
        if single:
            means = {name: Estimate.of(column[members]) for name, column in errors.items()}
            correlation = _sample_correlation(means)
            count = len(members)
            if "icl" in means and "idg" in means:
                means.setdefault("gap", Estimate.of(means["icl"].samples - means["idg"].samples))
        else:
            count = 0 if counts is None else int(sum(counts[members]))
            weights = _weights(members, counts, bars)
            means = {
                name: Estimate(
                    float(weights @ errors[name][members]),
                    float(np.linalg.norm(weights * bars[name][members])),
                    count,
                )
                for name in names
            }
            correlation = _paired_correlation(entries, row, means)
        integers = {
            name: values[row] if values[row] == math.inf else int(values[row])
            for name, values in sizes.items()
        }
        stated = {name: values[row] for name, values in tests.items()}
        stated |= integers | {"rho": rho[row], "ridge": ridge[row]}
        runs.append(
            MeasuredRun(
                rows=tuple(member + 1 for member in members),
                experiment=experiment_of(stated),
                errors=means,
                correlation=correlation,
                runs=count or None,
                unrounded={name: values[row] for name, values in unrounded.items()},
                deviations_given=any(f"{name}_sd" in entries for name in names),
                estimator=estimators[row],
                penalty=penalties[row],
                labels_stated="link" in entries,
            )
        )
    return runs


def _penalties(
    table: Table, estimators: Sequence[str], units: Sequence[Units]
) -> list[float | None]:
    """Penalties of ridge regression for inputs of variance 1; None where none is stated."""
    if "penalty" not in table:
        return [None] * len(table)
    if set(estimators) != {"ridge"}:
        raise ValueError("penalty is one of ridge regression, so estimator must be ridge")
    stated = table.numbers("penalty", PENALTIES)
    return [
        value / unit.value("input_variance") for value, unit in zip(stated, units, strict=True)
    ]


def _run_counts(table: Table) -> np.ndarray:
    """Numbers of runs that the rows stand for."""
    counts = table.numbers("runs", RUNS)
    for row, count in enumerate(counts, 1):
        if count != int(count):
            raise table.fault(row, "runs", f"must be an integer >= 1, got {count:g}")
    return np.array(counts)


def _tests(
    table: Table, estimators: Sequence[str], contexts: Sequence[float], rho: Sequence[float]
) -> dict[str, list[Any]]:
    """Columns of the law of the test prompts; that of the pretraining where they are empty."""
    tests: dict[str, list[Any]] = {}
    for name, own in zip(TESTS, (contexts, rho), strict=True):
        if name in table:
            pairs = zip(table.entries[name], own, strict=True)
            filled = [default if entry in (None, "") else entry for entry, default in pairs]
            whole = Table({**table.entries, name: filled}, table.names, len(table))
            tests[name] = whole.numbers(name)
    if tests and set(estimators) != {ATTENTION}:
        raise ValueError(f"{' and '.join(tests)}: only attention has predictions of other tests")
    if "test_context" in tests:
        tests["test_context"] = list(map(int, tests["test_context"]))
    return tests


def _labels(table: Table, estimators: Sequence[str]) -> dict[str, list[Any]]:
    """Columns of link and flips, where there are such."""
    labels: dict[str, list[Any]] = {}
    if "link" in table:
        labels["link"] = []
        for row, entry in enumerate(table.entries["link"], 1):
            try:
                link = parse_link(entry)
            except ValueError as error:
                raise table.fault(row, "link", str(error).removeprefix("link ")) from None
            if link.function is not None:
                raise table.fault(row, "link", "must be a name or two moments, got a function")
            labels["link"].append(stored_link(link))
    if "flips" in table:
        labels["flips"] = table.numbers("flips")
    if labels and set(estimators) != {ATTENTION}:
        raise ValueError(f"{' and '.join(labels)}: only attention has predictions of such labels")
    return labels


def _has(table: Table, name: str) -> bool:
    """Whether a table says something about a parameter of the limit."""
    others = {ratio: size for size, ratio in RATIOS.items()}
    others |= {"rho": "noise_variance", "sequence_ratio": "prompts"}
    return name in table or others.get(name, name) in table


def _weights(
    members: Sequence[int], counts: np.ndarray | None, bars: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Weights of several means of one setting: by their runs if known, else by their errors."""
    if counts is None:
        known = [errors[members] for errors in bars.values() if np.isfinite(errors).all()]
        weights = 1 / np.sum(np.square(known), axis=0)
    else:
        weights = counts[members]
    return weights / np.sum(weights)


def _hint(own: str) -> str:
    """End of a message about an unknown column: what was probably meant."""
    text = own.lower()
    head, _, tail = text.rpartition("_")
    for ending, words in ERROR_BARS.items():
        if head in MEASURED and tail in words:
            return f"; did you mean {head}{ending}?"
    if head in MEASURED:
        return f"; did you mean {head}?"
    if text in ("train", "training", "train_loss"):
        return "; training losses have no prediction at finite size;"
    if text == "examples":
        return "; errors against the number of examples are for iclimit check-positions;"
    if text == "numavg" or text in PARAMETERS["repeats"].synonyms:
        return "; did you mean runs (number of runs)?"
    return did_you_mean(own, KNOWN)


def _with_parameters(table: Table, parameters: Mapping[str, Any]) -> Table:
    """Table with more columns, of one value each."""
    if not isinstance(parameters, Mapping):
        raise TypeError(f"parameters must map names to values, got {parameters!r}")
    for name in parameters:
        if name not in PARAMETER_COLUMNS:
            known = ", ".join(PARAMETER_COLUMNS)
            hint = did_you_mean(name, PARAMETER_COLUMNS)
            raise ValueError(f"parameters must name one of {known}, got {name!r}{hint}")
        if name in table:
            raise ValueError(f"{name} must be a column or among the parameters, not both")
    constant = {name: [value] * len(table) for name, value in parameters.items()}
    return Table({**table.entries, **constant}, table.names, len(table))


def with_oracle(units: Units) -> Units:
    """Units that know the loss of ridge regression which a convention subtracts."""
    if not units.convention.minus_oracle:
        return units
    # Ridge regression for inputs and tasks of variance 1, whose loss is a half.
    scale = units.value("input_variance") * units.value("task_variance")
    relative = units.noise_variance / scale
    risk = float(
        ridge_risk(relative, noise_variance=relative, context=units.context, dim=units.dim)
    )
    return replace(units, oracle_loss=2 * units.value("loss_factor") * scale * risk)


def _units(
    table: Table, sizes: Mapping[str, Sequence[float]], convention: Convention
) -> list[Units]:
    """Units of the rows, with the noise that errors may need."""
    if ("rho" in table) == ("noise_variance" in table):
        which = "only one of them" if "rho" in table else "one of them (0 without label noise)"
        raise ValueError(f"the table needs a column rho or noise_variance, {which}")
    name = "rho" if "rho" in table else "noise_variance"
    noises = table.numbers(name)
    units_of_rows = list[Units]()
    for dim, context, noise in zip(sizes["dim"], sizes["context"], noises, strict=True):
        units = convention.units(dim=int(dim), context=int(context))
        variance = units.from_library("noise_variance", noise) if name == "rho" else noise
        given = convention.units(dim=int(dim), context=int(context), noise_variance=variance)
        units_of_rows.append(with_oracle(given))
    return units_of_rows


def _refuse_extremes(table: Table, name: str, levels: Sequence[float]) -> None:
    """Refuse noise and ridge in units of the library of which predictions over- or underflow."""
    for row, level in enumerate(levels, 1):
        if level and not LEAST_LEVEL <= level <= MOST_LEVEL:
            allowed = f"0 or from {LEAST_LEVEL:g} to {MOST_LEVEL:g} in units of the library"
            raise table.fault(row, name, f"must be {allowed}, got {table.entries[name][row - 1]}")


def _errors(table: Table, name: str, units: Sequence[Units]) -> np.ndarray:
    quantity = "difference" if name == "gap" else "error"
    values = table.numbers(name, LIMITS)
    return np.array([unit.to_library(quantity, v) for unit, v in zip(units, values, strict=True)])


def _error_bars(table: Table, name: str, units: Sequence[Units], ddof: int) -> np.ndarray:
    """Standard errors of a column of means; infinite if none are given."""
    given = [f"{name}{ending}" for ending in ERROR_BARS if f"{name}{ending}" in table]
    if not given:
        return np.full(len(table), math.inf)
    if len(given) > 1:
        raise ValueError(f"{given[0]} and {given[1]} say the same: ignore one of them")
    stated = np.array(table.numbers(given[0], "(0, inf)"))
    bars = stated / np.array([unit.factor("difference") for unit in units])
    if given[0].endswith("_sd"):
        if "runs" not in table:
            raise ValueError(f"{given[0]} needs a column runs, or runs among the parameters")
        counts = np.array(table.numbers("runs", SEVERAL_RUNS))
        bars /= np.sqrt(counts - 1 + ddof)
    for row, bar in enumerate(bars, 1):
        if not LEAST_BAR <= bar <= MOST_BAR:
            problem = (
                f"must give a standard error from {LEAST_BAR:g} to {MOST_BAR:g} (in units of the "
                f"library), got {stated[row - 1]:g}"
            )
            raise table.fault(row, given[0], problem)
    return bars


def _sample_correlation(means: Mapping[str, Estimate]) -> float | None:
    """Correlation of the two errors over single runs."""
    if "icl" not in means or "idg" not in means or means["icl"].repeats < 3:
        return None
    spread = np.cov(means["icl"].samples, means["idg"].samples)
    product = math.sqrt(spread[0, 0] * spread[1, 1])
    return float(spread[0, 1] / product) if product > 0 else None


def _paired_correlation(table: Table, row: int, means: Mapping[str, Estimate]) -> float | None:
    """Correlation of the two errors that the standard error of their paired difference implies."""
    if set(means) != set(MEASURED):
        return None
    icl = means["icl"].standard_error
    idg = means["idg"].standard_error
    gap = means["gap"].standard_error
    if not math.isfinite(icl + idg + gap):
        return None
    correlation = (icl**2 + idg**2 - gap**2) / (2 * icl * idg)
    if abs(correlation) > 1.001:
        problem = (
            f"must be an error bar from {abs(icl - idg):.3g} to {icl + idg:.3g} (in units of the "
            f"library) beside those of icl and idg, got {gap:.3g}"
        )
        raise table.fault(row + 1, "gap_se" if "gap_se" in table else "gap_sd", problem)
    return min(max(correlation, -1.0), 1.0)
