"""A user's training curves against the theory of training dynamics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from iclimit.asymptotics.checks import check_integers, real_array
from iclimit.statistics import z_threshold
from iclimit.validation.yours.curves.curve_check import CurveCheck
from iclimit.validation.yours.curves.features import inner_plateau
from iclimit.validation.yours.curves.mistakes import likely_mistakes
from iclimit.validation.yours.curves.rows import compare_curves
from iclimit.validation.yours.curves.setting import CurveSetting
from iclimit.validation.yours.curves.table import Curve, read_curves
from iclimit.validation.yours.curves.theory import CurveTheory, predict_curve

UNEXPECTED = 0.2
"""A plateau in the single drop of merged attention is reported if the loss falls there at less
than this part of its speed on both sides."""

INSIDE = 0.1, 0.8
"""Such plateaus are looked for between these parts of the drop."""

VAGUE = 0.3
"""A mistake with larger allowances than this would explain anything."""

WEIGHTS = ("value", "key_query"), ("value", "key", "query")
"""Names of the weights, of merged and of separate attention."""


def check_curve(
    table: Any,
    *,
    model: str = "merged",
    eigenvalues: Sequence[float] | np.ndarray,
    context: int,
    heads: int,
    init_scale: float,
    learning_rate: float | None = None,
    rank: int = 1,
    initialization: str = "per-head",
    normalization: str = "mean",
    noise_variance: float = 0.0,
    query_noise: bool = True,
    loss_factor: float = 1.0,
    training_set: int | float = math.inf,
    standardize: bool = False,
    initial: Mapping[str, Any] | None = None,
    record: int | None = None,
    columns: Mapping[str, str] | None = None,
    ignore: Sequence[str] | str = (),
    draws: int = 16,
    rng: int = 0,
) -> CurveCheck:
    r"""Compare training curves of one linear attention layer with the theory of its training.

    Plateaus, drops, their durations and the final loss are found in the curves, and each is
    compared with the theory of gradient flow from small random weights.

    Parameters
    ----------
    table : path, data frame, mapping of columns, sequence of rows, or TrainingCurves
        Curves: a column ``step`` (of gradient descent) or ``time`` (of the flow), a column
        ``loss``, or ``loss_0``, ``loss_1``, ... of several runs; or a column ``run`` that tells
        the rows of several runs apart.  Files end in .csv, .json or .parquet.
    model : {"merged", "separate", "cubic"}
        One matrix for key and query, one for each, or a two-layer network on cubic features.
    eigenvalues : sequence of float > 0
        Eigenvalues of the covariance of the inputs.
    context : int >= 1
        Number N of pairs in a prompt, without the query.
    heads, rank : int >= 1
        Heads; rows of the key and query weights of "separate".
    init_scale : float > 0
        Standard deviation of the initial weights; of keys and queries of "separate" times
        :math:`1/\sqrt{R (D + 1)}`.
    learning_rate : float > 0, optional
        Learning rate of gradient descent, for a table with steps.
    initialization : {"per-head", "per-layer"}
        What ``init_scale`` is divided by for "separate", as in `simulate_gradient_descent`.
    normalization : {"mean", "sum"}
        Whether scores are divided by N.
    noise_variance : float >= 0
        Variance of the label noise, in the context and of the query label.
    query_noise : bool
        Whether the recorded loss is that of noisy query labels.
    loss_factor : float > 0
        Factor of the mean squared error in the loss that is trained on and recorded, such as 0.5.
    training_set : int >= 1 or inf
        Number of training sequences; ``inf`` for new ones in every step.  Recorded losses are
        training losses.
    standardize : bool
        Whether the training set is standardised, as in `simulate_gradient_descent`.
    initial : mapping, optional
        Initial weights, in the eigenbasis of the covariance: value (H,) and key_query (H, D, D),
        or for "separate" value (H,), key and query (H, R, D); several curves along a first axis.
        Without them the law of random weights is used.
    record : int >= 1, optional
        Steps from one row to the next, for a table without steps.
    columns : mapping of str, optional
        What the user's columns are called: ``{"loss": "train_mse"}``.
    ignore : sequence of str or "others"
        Columns that are not used.
    draws : int >= 2
        Random starts of "separate" from which the law of its drop times is found.
    rng : int
        Seed of these.

    Returns
    -------
    CurveCheck
        With ``rows``, ``verdict``, ``fits``, ``plot()``; its text is a table.

    Raises
    ------
    ValueError
        If an argument is outside its range, the table cannot be read, or no curve can be used.
    TypeError
        If an argument is of another kind.

    Notes
    -----
    The theory is that of gradient flow on the mean squared error.  It knows no momentum, no Adam,
    no weight decay, no changing learning rate, and no noise of minibatches.  Half-drop steps are
    compared in their law over initial weights.  Durations of drops, from a quarter to three
    quarters of them, do not depend on the start.  If the curves contradict the theory, likely
    mistakes in the statement are tried: those that would explain everything are in ``fits``.

    References
    ----------
    Zhang, Singh, Latham and Saxe, ICML 2025 (arXiv:2501.16265).

    Examples
    --------
    >>> import iclimit
    >>> law = {"eigenvalues": [0.4, 0.3, 0.2, 0.1], "context": 31}
    >>> times = [5 * k for k in range(40)]
    >>> curve = iclimit.dynamics.merged_attention_curve(times, init_scale=1.5e-3, **law)
    >>> more = {"model": "merged", "heads": 8, "init_scale": 1e-3, **law}
    >>> check = iclimit.check_curve({"time": times, "loss": curve}, **more)
    >>> check.verdict
    'agrees'
    >>> check = iclimit.check_curve({"time": times, "loss": curve / 2}, **more)
    >>> check.verdict, check.fits
    ('contradicts', ('losses are recorded with half the stated factor',))
    """
    check_integers(draws=draws, **({} if record is None else {"record": record}))
    if draws < 2:
        raise ValueError(f"draws must be an integer >= 2, got {draws!r}")
    if isinstance(rng, bool) or not isinstance(rng, int) or rng < 0:
        raise TypeError(f"rng must be an integer >= 0, got {rng!r}")
    curves, axis, left_out = read_curves(table, columns=columns, ignore=ignore, record=record)
    if (axis == "step") != (learning_rate is not None):
        needed = "be given for a table with steps" if axis == "step" else "not be given with times"
        raise ValueError(f"learning_rate must {needed}, got {learning_rate!r}")
    setting = CurveSetting(
        model=model,
        eigenvalues=tuple(np.asarray(eigenvalues, dtype=float).ravel().tolist()),
        context=context,
        heads=heads,
        rank=rank,
        init_scale=init_scale,
        initialization=initialization,
        learning_rate=learning_rate,
        normalization=normalization,
        noise_variance=noise_variance,
        query_noise=query_noise,
        loss_factor=loss_factor,
        training_set=training_set,
        standardize=standardize,
    )
    weights = _parse_initial(initial, setting, len(curves))
    theory = predict_curve(setting, weights, draws, rng)
    rows, remarks = compare_curves(curves, theory)
    outliers = [row for row in rows if not abs(row.z) <= z_threshold(len(rows))]
    unexpected = _unexpected(curves, theory)
    fits = []
    if outliers or unexpected:
        for text, other in likely_mistakes(setting, bool(weights), bool(unexpected)):
            try:
                explains = _explains(curves, predict_curve(other, weights, draws, rng))
            except (ValueError, ArithmeticError):  # out of the range of the theory
                continue
            fits += [text] if explains else []
    return CurveCheck(
        tuple(rows),
        (*left_out, *remarks),
        tuple(_errors(theory, bool(weights))),
        tuple(fits),
        tuple(outliers),
        tuple(unexpected),
        tuple(curves),
        theory,
        axis,
    )


def _parse_initial(
    initial: Mapping[str, Any] | None, setting: CurveSetting, count: int
) -> list[dict[str, np.ndarray]]:
    """Initial weights of each curve; none if they are not given."""
    if initial is None:
        return []
    names = WEIGHTS[setting.model == "separate"]
    if set(initial) != set(names):
        raise ValueError(
            f"initial must hold {', '.join(names)} for model {setting.model!r}, "
            f"got {', '.join(map(str, initial))}"
        )
    dim, heads = len(setting.eigenvalues), setting.heads
    last = (setting.rank, dim) if setting.model == "separate" else (dim, dim)
    shapes = {name: (heads,) if name == "value" else (heads, *last) for name in names}
    found = {}
    for name, shape in shapes.items():
        array = real_array(f"initial[{name!r}]", initial[name], "(-inf, inf)")
        if array.shape == shape and count == 1:
            array = array[None]
        if array.shape != (count, *shape):
            raise ValueError(
                f"initial[{name!r}] must have shape {(count, *shape)}, one for each curve, "
                f"got {array.shape}"
            )
        found[name] = array
    return [{name: array[k] for name, array in found.items()} for k in range(count)]


def _explains(curves: Sequence[Curve], theory: CurveTheory) -> bool:
    """Whether curves agree with another theory, in more than their initial loss."""
    rows, _ = compare_curves(curves, theory)
    threshold = z_threshold(len(rows))
    sharp = len(rows) > 1 and all(row.allowance < VAGUE for row in rows)
    good = sharp and all(abs(row.z) <= threshold for row in rows)
    return good and not _unexpected(curves, theory)


def _unexpected(curves: Sequence[Curve], theory: CurveTheory) -> list[str]:
    """Plateaus in the single drop of merged attention."""
    if theory.setting.model == "separate":
        return []
    first, last = theory.levels[[0, -1]]
    found = []
    for curve in curves:
        begin, end = (curve.losses[0] * (1 - part * (1 - last / first)) for part in INSIDE)
        height, contrast = inner_plateau(curve.steps, curve.losses, begin, end)
        if contrast < UNEXPECTED:
            found.append(
                f"{curve.label} has a plateau at {height:.4g}, within the single drop of model "
                f"{theory.setting.model!r}"
            )
    return found


def _errors(theory: CurveTheory, known_start: bool) -> list[str]:
    """What the theory does not know."""
    setting, fluctuations = theory.setting, theory.fluctuations
    errors = []
    if not known_start:
        spread = np.sqrt(theory.start.variance)
        shown = ", ".join(f"{each:.1%}" for each in spread)
        errors.append(f"initial weights are not known: drop times of a run vary by {shown}")
    if setting.model == "separate" and np.any(theory.staircase_variance > 0):
        largest = math.sqrt(float(theory.staircase_variance.max()))
        errors.append(
            f"initial weights are not small: predicted times are uncertain by up to {largest:.1%}"
        )
    if setting.model != "separate":
        errors.append(f"order of the initial weights: {setting.start:.1g} of drop times")
    if math.isinf(setting.training_set):
        errors.append("training set: none, sequences are taken to be new in every step")
    else:
        errors.append(
            f"{setting.training_set:g} training sequences: losses vary by up to "
            f"{fluctuations.losses.max():.1%}, rates by {fluctuations.rates.max():.1%}; the final "
            f"loss is lower by up to {fluctuations.bias:.1%}"
        )
    if setting.learning_rate is not None:
        errors.append(
            f"steps of finite length: half-drops come later by up to {theory.delays[0].max():.1%},"
            f" durations are longer by up to {theory.delays[1].max():.1%}"
        )
    return errors
