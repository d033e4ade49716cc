"""Conventions of papers against experiments in their own units, written out by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from refusals import value_error

from iclimit.asymptotics.descent import optimal_learning_rate
from iclimit.units import CONVENTIONS, QUANTITIES, get_convention
from iclimit.validation.instruments.runs.table import with_oracle

RNG = np.random.default_rng(4)
DIM, CONTEXT, RHO = 5, 7, 0.3


def test_conversions_are_undone_by_the_way_back():
    for name in CONVENTIONS:
        units = with_oracle(CONVENTIONS[name].units(dim=DIM, context=CONTEXT, noise_variance=0.4))
        for quantity in QUANTITIES:
            value = RNG.standard_normal((DIM, DIM + 1)) if quantity == "gamma" else 0.7
            there = units.from_library(quantity, value)
            assert units.to_library(quantity, there) == pytest.approx(value, rel=1e-13)


BY_HAND = {
    # Standard deviation of inputs, factors of the summary, of the loss and of the penalty.
    "lu2025": (1 / math.sqrt(DIM), DIM / CONTEXT, 1 / CONTEXT, 1.0, 1 / DIM),
    "vonoswald2023": (math.sqrt(1 / 12), 1.0, 1.0, 0.5, 1.0),
    "blog2024": (math.sqrt(1 / 3), 1 / CONTEXT, 1 / CONTEXT, 0.5, 1.0),
    "versatile2024": (1.0, 1.0, 1.0, 0.5, 1.0),
    "linattn2025": (1 / math.sqrt(DIM), 1 / CONTEXT, 1 / CONTEXT, 1.0, 1.0),
    # Inputs and tasks N(0, I).
    **dict.fromkeys(
        ("garg2022", "raventos2023", "ahn2023", "zhang2024"),
        (1.0, 1 / CONTEXT, 1 / CONTEXT, 1.0, 1.0),
    ),
}


@pytest.mark.parametrize("name", CONVENTIONS)
def test_the_same_data_give_the_same_predictor_in_all_units(name):
    """Prompts in the units of the paper, fitted there and in those of the library."""
    std, product, square, loss, penalty = BY_HAND[name]
    prompts = 60
    ridge = 0.02
    x = RNG.standard_normal((prompts, CONTEXT + 1, DIM))
    w = RNG.standard_normal((prompts, DIM))
    noise = math.sqrt(RHO) * RNG.standard_normal((prompts, CONTEXT + 1))

    def fit(x, y, product, square, loss, weight):
        """Gamma of least penalised mean loss, its loss and its labels predicted."""
        sums = np.einsum("nl,nld->nd", y[:, :-1], x[:, :-1]) * product
        squares = square * np.sum(y[:, :-1] ** 2, axis=1, keepdims=True)
        h = np.concatenate([sums, squares], axis=1)[:, : DIM if weight else DIM + 1]
        features = np.einsum("ni,nj->nij", x[:, -1], h).reshape(prompts, -1)
        gram = loss * features.T @ features / prompts + weight * np.eye(features.shape[1])
        found = np.linalg.solve(gram, loss * features.T @ y[:, -1] / prompts)
        error = loss * np.mean((features @ found - y[:, -1]) ** 2)
        return found.reshape(DIM, -1), error

    label = std * math.sqrt(DIM)  # noiseless labels of tasks N(0, I)
    theirs = std * x, label * (np.einsum("nld,nd->nl", x, w) / math.sqrt(DIM) + noise)
    ours = x / math.sqrt(DIM), np.einsum("nld,nd->nl", x, w) / math.sqrt(DIM) + noise
    variance = label**2 * RHO
    units = CONVENTIONS[name].units(dim=DIM, context=CONTEXT, noise_variance=variance)
    assert units.to_library("noise_variance", variance) == pytest.approx(RHO)
    for theirs_ridge in (0.0, ridge):
        gamma, error = fit(*theirs, product, square, loss, penalty * theirs_ridge)
        weight = units.to_library("ridge", theirs_ridge) / DIM
        mine, expected = fit(*ours, DIM / CONTEXT, 1 / CONTEXT, 1.0, weight)
        assert units.to_library("gamma", gamma) == pytest.approx(mine, rel=1e-8)
        if CONVENTIONS[name].query_noise:  # others are tested below, and in the checks of tables
            assert units.to_library("error", error) == pytest.approx(expected, rel=1e-10)


def test_rates_and_losses_published_in_two_units():
    """One step on uniform inputs, D = C = 10: numbers of von Oswald's and of Rossi's setting."""
    step = optimal_learning_rate(context=10, dim=10, input_law="uniform")  # inputs U(-1, 1)
    rate = step.rate / 3
    error = step.loss / (10 / 3)
    for name, best, loss in (("vonoswald2023", 0.60606, 0.20623), ("blog2024", 1.51515, 0.82492)):
        units = CONVENTIONS[name].units(dim=10, context=10)
        assert units.from_library("rate", rate) == pytest.approx(best, rel=1e-4)
        assert units.from_library("error", error) == pytest.approx(loss, rel=1e-4)


def test_adjusted_losses_leave_out_oracle_and_noise():
    """Ridge regression at the true noise has the adjusted loss 0, in any units of its inputs."""
    context = 20
    variance = 4.0
    prompts = 4000
    x = RNG.standard_normal((prompts, context, 10))
    w = RNG.standard_normal((prompts, 10))
    y = np.einsum("nld,nd->nl", x, w) + math.sqrt(variance) * RNG.standard_normal(x.shape[:2])
    gram = np.einsum("nli,nlj->nij", x, x) + variance * np.eye(10)
    found = np.linalg.solve(gram, np.einsum("nli,nl->ni", x, y)[..., None])[..., 0]
    samples = np.sum((found - w) ** 2, axis=1) / 10 + variance / 10  # in units of the library
    convention = CONVENTIONS["versatile2024"]
    error = np.std(samples) / math.sqrt(prompts)
    for scale, noise in (("1", variance), ("1/4", variance / 4)):
        changed = replace(convention, input_variance=scale)
        units = with_oracle(changed.units(dim=10, context=context, noise_variance=noise))
        adjusted = units.from_library("error", float(np.mean(samples)))
        z = adjusted / units.from_library("difference", error)
        assert abs(z) < 4
        noisy = replace(changed, query_noise=True)  # the noise is in both losses
        again = with_oracle(noisy.units(dim=10, context=context, noise_variance=noise))
        assert again.from_library("error", 1.3) == pytest.approx(units.from_library("error", 1.3))


def test_tasks_of_another_norm_rescale_labels():
    units = replace(CONVENTIONS["linattn2025"], task_variance="1/d").units(dim=4, context=3)
    assert units.from_library("error", 1.0) == pytest.approx(0.25)
    assert units.from_library("noise_variance", 0.5) == pytest.approx(0.125)


def test_unknown_names_and_values_are_refused():
    value_error(r"convention must be one of .*did you mean lu2025", get_convention, "lu2024")
    units = get_convention(CONVENTIONS["lu2025"]).units(dim=3, context=4)
    value_error(r"quantity must be one of .*did you mean ridge", units.to_library, "rigde", 1.0)
    with pytest.raises(ValueError, match=r"gamma must have shape \(3, 3\) or \(3, 4\), got"):
        units.to_library("gamma", np.eye(2))
    value_error("error must be finite, got nan", units.to_library, "error", math.nan)
    with pytest.raises(ValueError, match="noise_variance must be >= 0"):
        get_convention("lu2025").units(dim=3, context=4, noise_variance=-1.0)
    with pytest.raises(ValueError, match="oracle_loss must be given: losses of versatile2024"):
        get_convention("versatile2024").units(dim=3, context=4).to_library("error", 1.0)
    wrong = replace(CONVENTIONS["lu2025"], input_variance="1/n")
    with pytest.raises(ValueError, match=r"input_variance must be a number > 0 .*, got '1/n'"):
        wrong.units(dim=3, context=4).factor("error")
