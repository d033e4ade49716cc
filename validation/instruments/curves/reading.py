"""Training curves of a user's table, with what is stated of their training."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iclimit.array_files import read_arrays
from iclimit.asymptotics.checks import check_integers
from iclimit.checks import given, parse_array
from iclimit.validation.instruments.curves.setting import OPTIMIZERS, CurveSetting
from iclimit.validation.instruments.curves.table import Curve, read_curves
from iclimit.validation.instruments.curves.theory import Starts, Weights

# Names of the weights, of merged and of separate attention.
WEIGHTS = ("value", "key_query"), ("value", "key", "query")


@dataclass(frozen=True, eq=False)
class StatedCurves:
    """Curves, and how they were trained.

    Attributes
    ----------
    curves : list of Curve
        The curves that can be used.
    left_out : list of str
        Which others there are, and why they cannot be used.
    setting : CurveSetting
        What is stated of the training.
    starts : Starts
        What is known of the initial weights.
    """

    curves: list[Curve]
    left_out: list[str]
    setting: CurveSetting
    starts: Starts


def read_stated_curves(
    table: object,
    *,
    columns: Mapping[str, str] | None,
    ignore: Sequence[str] | str,
    record: int | None,
    initial: Mapping[str, Any] | str | os.PathLike | None,
    draws: int,
    rng: int,
    impossible: bool = False,
    **stated: Any,
) -> StatedCurves:
    """Read curves, and check what is stated of them.

    Arguments, all of them, and errors are those of `check_curve`; ``impossible`` is that of
    `read_curves`.
    """
    check_integers(least=2, draws=draws)
    check_integers(**given({"record": record}))
    if isinstance(rng, bool) or not isinstance(rng, int) or rng < 0:
        raise TypeError(f"rng must be an integer >= 0, got {rng!r}")
    curves, left_out = read_curves(
        table, record=record, columns=columns, ignore=ignore, impossible=impossible
    )
    setting = CurveSetting.of(**stated)
    rate = setting.learning_rate
    stepwise = curves[0].axis == "step"
    if stepwise != (rate is not None) and setting.optimizer != OPTIMIZERS[1]:
        needed = "be given for a table with steps" if stepwise else "not be given with times"
        raise ValueError(f"learning_rate must {needed}, got {rate!r}")
    weights = _parse_initial(initial, setting, len(curves))
    return StatedCurves(curves, left_out, setting, Starts(weights, draws, rng))


def _parse_initial(
    initial: Mapping[str, Any] | str | os.PathLike | None, setting: CurveSetting, count: int
) -> list[Weights]:
    """Initial weights of each curve; none if they are not given."""
    if initial is None:
        return []
    if not isinstance(initial, Mapping):
        initial = read_arrays(initial)
    names = WEIGHTS[setting.model == "separate"]
    if set(initial) != set(names):
        raise ValueError(
            f"initial must hold {', '.join(names)} for model {setting.model!r}, "
            f"got {', '.join(map(str, initial))}"
        )
    dim = len(setting.eigenvalues)
    heads = setting.heads
    last = (setting.rank, dim) if setting.model == "separate" else (dim, dim)
    weights = {}
    for name in names:
        shape = (heads,) if name == "value" else (heads, *last)
        shapes = [(count, *shape)]
        if count == 1:
            shapes.append(shape)
        array = parse_array(f"initial[{name!r}]", initial[name], *shapes)
        weights[name] = array.reshape(count, *shape)
    return [{name: array[k] for name, array in weights.items()} for k in range(count)]
