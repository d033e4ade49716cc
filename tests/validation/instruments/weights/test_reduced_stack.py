"""Stacks read as GD++: round trips, projections by least squares, implicit weights, theory."""

import math

import numpy as np
import pytest
from matplotlib.figure import Figure
from refusals import arithmetic_error, type_error, value_error

import iclimit
from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent.constructions import descent_layer
from iclimit.simulate.gdpp import gdpp_transformer, implicit_weights
from iclimit.simulate.models.linear_transformer import LinearTransformer, build
from iclimit.simulate.prompts import draw_prompts
from iclimit.validation.instruments.weights.layouts import get_layout
from iclimit.validation.instruments.weights.reduced import reduced_gamma
from iclimit.validation.instruments.weights.stacks import reduced_stack

D, CONTEXT = 3, 8
ROUNDING = 1e-11
STANDARD_ERRORS = 4.5
SETTING = {
    "layout": "versatile2024",
    "context": CONTEXT,
    "noise_variance": 0.0,
    "test_prompts": 500,
}


def full_transformer(seed):
    """Two layers of two heads, near GD++."""
    generator = np.random.default_rng(seed)
    base = gdpp_transformer([0.8, 1.0], [0.3], context=CONTEXT, dim=D)
    projection, lookup = (np.repeat(each, 2, axis=1) for each in (base.projection, base.lookup))
    noise = generator.standard_normal((2, *projection.shape))
    return LinearTransformer("full", projection / 2 + 0.002 * noise[0], lookup + 0.05 * noise[1])


def test_gdpp_is_read_back():
    rates = [0.9, 1.1, 1.4]
    gammas = [0.2, 0.4]
    model = gdpp_transformer(rates, gammas, context=CONTEXT, dim=D)
    found = reduced_stack(model.layers, **SETTING)
    assert found.rates == pytest.approx(rates, rel=ROUNDING)
    assert found.gammas == pytest.approx(gammas, rel=ROUNDING)
    assert found.preconditioners == pytest.approx(np.stack([np.eye(D)] * 3))
    assert found.anisotropy == pytest.approx(0)
    assert all(share.mean < 1e-20 for share in found.ignored.values())
    assert found.errors["gd++"].mean == pytest.approx(found.errors["stack"].mean)
    # The same weights on inputs of another variance, and from mappings of arrays.
    arrays = [{"P": p, "Q": q} for p, q in zip(model.projection, model.lookup, strict=True)]
    layout = get_layout("versatile2024", input_variance=0.25)
    scaled = reduced_stack(arrays, **SETTING | {"layout": layout})
    assert scaled.rates == pytest.approx(0.25 * np.array(rates), rel=ROUNDING)


def test_diagonal_transformers_are_read_back():
    parameters = 0.1 * np.random.default_rng(0).standard_normal((3, 2, 4))
    model = build("diag", parameters, D)
    found = reduced_stack(model.layers, **SETTING)
    assert found.omegas == pytest.approx(model.omegas, rel=ROUNDING)
    assert found.ignored["diag"].mean < 1e-20 < found.ignored["gd++"].mean


def test_preconditioned_descent_is_read_back():
    matrix = np.eye(D) + 0.3 * np.random.default_rng(1).standard_normal((D, D))
    layers = [
        descent_layer(rate, context=CONTEXT, dim=D, preconditioner=matrix) for rate in (0.5, 0.7)
    ]
    found = reduced_stack(layers, **SETTING)
    scale = np.trace(matrix) / D
    assert found.rates == pytest.approx(scale * np.array([0.5, 0.7]), rel=ROUNDING)
    assert found.gammas == pytest.approx([0], abs=ROUNDING)
    assert found.preconditioners[1] == pytest.approx(matrix / scale, rel=ROUNDING)
    assert found.ignored["preconditioned"].mean < 1e-20 < found.ignored["diag"].mean
    # One layer is the reduced matrix: x_q^T Gamma h, with the rates of the mean.
    setting = {name: SETTING[name] for name in ("layout", "context", "noise_variance")}
    gamma = reduced_gamma(layers[0], **setting).gamma[:, :D]
    assert gamma == pytest.approx(found.rates[0] * found.preconditioners[0], rel=ROUNDING)


def test_numbers_are_projections_of_the_tensor():
    """Least squares of the whole update tensor on the four forms, entry by entry."""
    model = full_transformer(2)
    found = reduced_stack(model.layers, **SETTING)
    size = D + 1
    inputs = np.diag([1.0] * D + [0.0])
    label = np.diag([0.0] * D + [1.0])
    forms = [
        np.einsum("ia,bj->iabj", output, lookup)
        for output in (inputs, label)
        for lookup in (inputs, label)
    ]
    for depth in range(2):
        tensor = np.einsum("hia,hbj->iabj", model.projection[depth], model.lookup[depth])
        tensor, *symmetric = (each + each.swapaxes(1, 2) for each in (tensor, *forms))
        basis = np.reshape(symmetric, (4, size**4)).T
        fitted = np.linalg.lstsq(basis, tensor.ravel())[0]
        assert found.omegas[depth].ravel() == pytest.approx(fitted, rel=1e-9)


def test_shares_agree_with_implicit_weights():
    """Other prompts, and the mean over queries taken exactly."""
    model = full_transformer(3)
    found = reduced_stack(model.layers, **SETTING | {"test_prompts": 4000}, rng=1)
    scale = -CONTEXT
    gdpp = gdpp_transformer(
        scale * found.omegas[:, 1, 0], scale * found.omegas[:1, 0, 0], context=CONTEXT, dim=D
    )
    law = Problem(dim=D, context=CONTEXT, scale=1)
    backend = get_backend("numpy")
    prompts = draw_prompts(law, backend, np.random.default_rng(4), 4000)
    exact, kept = (implicit_weights(prompts, each).weights[-1] for each in (model, gdpp))
    part, total = (np.sum(each**2, axis=1) for each in (kept - exact, exact))
    ratio = np.mean(part) / np.mean(total)
    error = np.std(part - ratio * total) / np.mean(total) / math.sqrt(len(part))
    share = found.ignored["gd++"]
    assert 0.001 < ratio < 0.5
    assert abs(share.mean - ratio) < STANDARD_ERRORS * math.hypot(error, share.standard_error)


def test_errors_are_those_of_the_theory():
    rates = [0.6, 1.5]
    gammas = [0.3]
    model = gdpp_transformer(rates, gammas, context=20, dim=5)
    found = reduced_stack(
        model.layers, layout="versatile2024", context=20, noise_variance=0.0, test_prompts=20_000
    ).errors["gd++"]
    theory = iclimit.gdpp.gdpp_loss(rates, gammas=gammas, context=20, dim=5)
    assert abs(found.z(theory)) < STANDARD_ERRORS
    assert found.standard_error < 0.06 * theory


def test_covariances_of_inputs_and_tasks():
    """One layer has the exact errors of its reduced matrix."""
    generator = np.random.default_rng(5)
    sigma, C = (each @ each.T / 9 for each in generator.standard_normal((2, D, 9)))
    layer = descent_layer(0.5, context=CONTEXT, dim=D, preconditioner=np.diag([1.0, 2.0, 0.5]))
    law = {"input_covariance": sigma, "task_covariance": C, "noise_variance": 0.6}
    layout = get_layout("versatile2024", input_variance=0.5)
    setting = SETTING | law | {"test_prompts": 20_000, "layout": layout}
    found = reduced_stack([layer], **setting).errors["stack"]
    setting.pop("test_prompts")
    assert abs(found.z(reduced_gamma(layer, **setting).errors().icl)) < STANDARD_ERRORS


def test_table_and_picture():
    model = gdpp_transformer([0.9, 1.1], [0.2], context=CONTEXT, dim=D)
    found = reduced_stack(model.layers, **SETTING)
    assert "0.9000  0.2000" in str(found)
    ax = Figure().subplots()
    assert found.plot(ax) is ax
    assert ax.lines[0].get_ydata() == pytest.approx([0.9, 1.1])


def test_bad_input_is_named():
    for change, message in (
        ({"layout": "lu2025"}, "layout must be one in which the prediction is minus"),
        ({"stack": [{"P": np.eye(4)}]}, "layer lacks key and query"),
        ({"stack": [{"P": np.eye(n), "Q": np.eye(n)} for n in (3, 4)]}, "tokens of one size"),
        ({"context": 0}, "context must be an integer >= 1"),
        ({"test_prompts": 0}, "test_prompts must be an integer >= 2"),
    ):
        good = {"stack": [{"P": np.eye(4), "Q": np.eye(4)}]} | SETTING
        value_error(message, reduced_stack, **good | change)
    value_error("input_variance must be > 0", get_layout, "lu2025", input_variance=0.0)
    message = "takes layout, .*got 'normalisation'; did you mean normalization"
    type_error(message, get_layout, "lu2025", normalisation="sum")


def test_a_stack_is_a_sequence():
    with pytest.raises(TypeError, match="stack must be a sequence"):
        reduced_stack({"P": np.eye(4), "Q": np.eye(4)}, **SETTING)


def test_overflow_is_said():
    layer = {"P": 1e200 * np.eye(4), "Q": np.eye(4)}
    arithmetic_error("predictions overflow", reduced_stack, [layer] * 2, **SETTING)
