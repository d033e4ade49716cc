"""The registry of quantities."""

import numpy as np
import pytest
from refusals import value_error

import iclimit
from iclimit import asymptotics, pretraining
from iclimit.diagrams import combinations
from iclimit.diagrams.derivatives import OPTIMA, _difference, _slope_in_many_digits
from iclimit.diagrams.quantities import QUANTITIES, one_at_a_time
from iclimit.notation import LABELS, PARAMETERS

VALUES = {
    name: described.typical
    for quantity in QUANTITIES.values()
    for name, described in quantity.all_parameters.items()
}
"""A value of every parameter at which every quantity is defined."""


@pytest.mark.parametrize("name", QUANTITIES)
def test_every_quantity_takes_every_parameter_and_broadcasts(name):
    """Over each of its parameters the values are those at single points."""
    quantity = QUANTITIES[name]
    required = {n: VALUES[n] for n in quantity.parameters}
    alone = float(quantity.evaluate(required))
    assert np.isfinite(alone) or "inf where" in quantity.meaning
    several = quantity.evaluate(required | {n: VALUES[n] for n in quantity.optional})
    assert np.isfinite(several)
    for parameter, described in quantity.parameters.items():
        other = VALUES[parameter] + 1 if described.integer else VALUES[parameter] * 1.01
        if described.integer and "search" in quantity.meaning:
            continue  # two layers take seconds
        row = quantity.evaluate(required | {parameter: np.array([VALUES[parameter], other])})
        single = quantity.evaluate(required | {parameter: other})
        np.testing.assert_allclose(row, [alone, float(single)], rtol=1e-9)


@pytest.mark.parametrize("name", QUANTITIES)
def test_slopes_in_many_digits_are_those_of_floats(name):
    """No quantity rounds mpmath numbers in silence."""
    quantity = QUANTITIES[name]
    at = {n: float(VALUES[n]) for n in quantity.all_parameters}
    value = float(quantity.evaluate(at))
    for parameter, described in quantity.all_parameters.items():
        if described.integer:
            continue
        exact = _slope_in_many_digits(quantity, at, parameter, value)
        if exact is None:
            continue
        # An optimum is known to some 1e-8 in float64, of which a step is 3e-3 at least.
        precision = 1e-5 if name in OPTIMA else 1e-7
        allowed = precision * max(abs(exact), abs(value) / max(abs(at[parameter]), 1))
        assert _difference(quantity, at, parameter, value) == pytest.approx(exact, abs=allowed)


def test_registry_is_in_order():
    assert set(VALUES) <= set(PARAMETERS)
    assert not [name for name, value in VALUES.items() if value is None]
    for quantity in QUANTITIES.values():
        assert not set(quantity.parameters) & set(quantity.optional)


def test_prompts_are_counted_in_the_units_of_the_pretraining():
    """Weight prediction has d labels in a prompt, and the prediction of a label one."""
    weights = QUANTITIES["test_time_error"]
    labels = QUANTITIES["iterated_icl_error"]
    assert weights.parameters["tau"].label == r"$\tau = n/d$"
    assert labels.parameters["tau"].label == r"$\tau = n/d^2$"


def test_tables_lose_no_parameter():
    """Values of a quantity have a column of their own, also beside a parameter called value."""
    for quantity in QUANTITIES.values():
        assert quantity.column not in quantity.all_parameters
    setting = {"context": 10, "dim": 10, "inverse_temperature": [0.1, 0.2]}
    row = iclimit.curve("softmax_loss", value=0.5, **setting).rows()[0]
    assert (row["value"], row["softmax_loss"]) == (0.5, pytest.approx(9.40605818891))
    setting |= {"x": "value", "y": "noise_variance", "inverse_temperature": 0.1}
    setting |= {"value": [0.5, 0.6], "noise_variance": [0, 1]}
    row = iclimit.phase_diagram("softmax_loss", **setting).rows()[0]
    assert (row["value"], row["softmax_loss"]) == (0.5, pytest.approx(9.40605818891))


def test_integers_are_asked_for():
    point = {"penalty": 1, "noise_variance": 1, "context": 12, "dim": 2.5}
    with pytest.raises((ValueError, TypeError), match="dim must be an integer"):
        QUANTITIES["ridge_risk"].evaluate(point)


def test_blocks_are_the_whole():
    """A grid large enough to be cut gives the same numbers as points of it."""
    tau = np.geomspace(0.1, 10, 300)
    alpha = np.geomspace(0.1, 10, 310)
    setting = {"kappa": 0.5, "rho": 0.1, "ridge": 0.01}
    grid = {"alpha": alpha[None, :], "tau": tau[:, None]}
    values = QUANTITIES["icl_error"].evaluate(setting | grid)
    assert values.shape == (300, 310)
    for i, j in ((0, 0), (150, 7), (299, 309)):
        point = asymptotics.pretraining.icl_error(tau=tau[i], alpha=alpha[j], **setting)
        assert values[i, j] == pytest.approx(float(point), rel=1e-14)
    line = np.linspace(0.1, 3, 100_000)
    errors = QUANTITIES["bayes_error"].evaluate({"alpha": line, "rho": 0.1})
    np.testing.assert_array_equal(errors, asymptotics.pretraining.bayes_error(alpha=line, rho=0.1))


def test_errors_in_blocks_are_raised():
    with pytest.raises(ValueError, match="alpha must be > 0, or inf, got 0"):
        QUANTITIES["bayes_error"].evaluate({"alpha": np.linspace(0, 1, 100_000), "rho": 0.1})


def test_one_at_a_time_calls_once_for_each_combination():
    calls = []

    def function(a, b, c):
        assert isinstance(a, int)
        calls.append((a, b))
        return a + 10 * b + 100 * np.asarray(c)

    broadcast = one_at_a_time(function, ["a", "b"])
    a = np.array([2, 1, 2])[:, None]
    c = np.arange(4.0)
    np.testing.assert_array_equal(broadcast(a=a, b=0.5, c=c), a + 5 + 100 * c)
    assert sorted(calls) == [(1, 0.5), (2, 0.5)]


def test_names_and_parameters_are_checked():
    for name, parameters, message in (
        ("icl_error", {"tau": 1, "alpha": 1}, "icl_error needs kappa, rho"),
        ("icl_error", {"theta": 1}, "icl_error takes tau, alpha, kappa, rho, ridge, got 'theta'"),
        ("icl_eror", {}, "quantity must be one of .*; did you mean icl_error"),
        ("optimal_gdp_loss", {}, "quantity must be one of .*; did you mean optimal_gdpp_loss"),
        ("bayes_error", {"alhpa": 1}, r"got 'alhpa'; did you mean alpha\?"),
    ):
        value_error(message, iclimit.diagrams.quantities.get_quantity, name, parameters)


def excess_over_bayes(tau, alpha, kappa=np.inf, rho=0.1):
    """Error of linear attention above that of Bayes."""
    attention = asymptotics.pretraining.icl_error(tau=tau, alpha=alpha, kappa=kappa, rho=rho)
    return attention - asymptotics.pretraining.bayes_error(alpha=alpha, rho=rho)


def test_a_function_of_ones_own_is_a_curve():
    tau = np.array([1.5, 2, 4])
    alpha = [1, 10]
    curves = iclimit.curve(excess_over_bayes, tau=tau, alpha=alpha, rho=0.2)
    np.testing.assert_array_equal(curves.values[1], excess_over_bayes(tau, 10.0, rho=0.2))
    assert curves.rows()[0] == {
        **{"source": "theory", "quantity": "excess_over_bayes"},
        **{"tau": 1.5, "alpha": 1, "rho": 0.2, "value": curves.values[0, 0]},
    }
    ax = curves.plot()
    assert ax.get_xlabel() == LABELS["tau"]
    assert ax.get_ylabel() == "excess over bayes"


def test_a_function_of_ones_own_is_a_phase_diagram():
    """Of names that the notation does not have, and of any names."""
    given = {"slope": [1, 2, 3], "kappa": [0.5, 1]}
    for function in (lambda slope, kappa: slope * kappa, lambda **p: p["slope"] * p["kappa"]):
        diagram = iclimit.phase_diagram(function, x="slope", y="kappa", **given)
        np.testing.assert_array_equal(diagram.values, np.outer([0.5, 1], [1, 2, 3]))
        assert diagram.boundaries == {}
        ax = diagram.plot()
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("slope", LABELS["kappa"])
    assert diagram.to_xarray()["value"].shape == (2, 3)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([1, 2], r"shape \(2,\)"),
        ("a", "'a'"),
        (1j, "1j"),
        (np.ones((2, 1, 3)), r"shape \(2, 1, 3\)"),
    ],
)
def test_what_a_function_of_ones_own_may_not_return(value, problem):
    with pytest.raises(ValueError, match=rf"of shape \(1, 3\), or one number, got {problem}"):
        iclimit.curve(lambda **_: value, x=[1, 2, 3])


def test_public_functions_are_their_quantities():
    """With the label, the boundaries and the simulation of the name."""
    setting = {"tau": [0.5, 2, 4], "kappa": [0.5, 2], "alpha": 1, "rho": 0.1}
    of_function, of_name = (
        iclimit.phase_diagram(quantity, x="tau", y="kappa", **setting)
        for quantity in (iclimit.icl_error, "icl_error")
    )
    assert of_function.quantity is of_name.quantity
    assert of_function.boundaries.keys() == of_name.boundaries.keys()


def test_functions_of_ones_own_are_told_apart_from_those_of_the_theory():
    def icl_error(tau):
        return 2 * tau

    curves = iclimit.curve(icl_error, tau=[1, 2])
    assert curves.quantity.name == "own_icl_error"
    assert not iclimit.phase_diagram(
        lambda tau, rho: tau + rho, x="tau", y="rho", **AXES
    ).boundaries


AXES = {"tau": [0.5, 2.0], "rho": [0.1, 0.2]}


def test_what_a_function_of_ones_own_does_not_take():
    for options, message in (
        ({"tau": [1, 2]}, "excess_over_bayes needs alpha"),
        ({"tau": [1, 2], "alhpa": 1}, r"got 'alhpa'; did you mean alpha"),
        ({"tau": [1, 2], "alpha": 1, "task_spectrum": "atoms:1,2"}, "to take a spectrum"),
        ({"tau": [1, 2], "alpha": 1, "simulation": {"dim": 8}}, "to be simulated"),
    ):
        value_error(message, iclimit.curve, excess_over_bayes, **options)


def test_the_price_of_one_pass_from_its_parts():
    """At (tau, alpha, rho) = (2, 10, .01): 0.2902514 by hand, and ridge regression 0.186164."""
    price = QUANTITIES["one_pass_price"].evaluate({"tau": 2, "alpha": 10, "rho": 0.01})
    assert price == pytest.approx(0.2902514 / 0.186164, rel=1e-5)


@pytest.mark.parametrize("normalization", ["mean", "length"])
@pytest.mark.parametrize("first", [1, 4, 90])
def test_closed_forms_of_one_rate_are_the_sums_over_positions(normalization, first):
    setting = {"dim": 5, "context": 90, "rho": 0.3, "first": first}
    errors = pretraining.exact_position_errors(**setting, normalization=normalization)
    functions = {
        "mean": combinations.mean_rate_errors,
        "length": combinations.fixed_length_rate_errors,
    }
    found = functions[normalization](test_context=errors.positions, **setting)
    np.testing.assert_allclose(found[:, 0], errors.icl, rtol=1e-11)
    np.testing.assert_allclose(found[:, 1], errors.best, rtol=1e-11)
    np.testing.assert_allclose(found[:, 2], errors.effective_context, rtol=1e-11)
