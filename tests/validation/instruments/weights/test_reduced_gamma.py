"""Reduced matrices against forward passes of each paper's layer, written out token by token."""

import math
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from refusals import type_error, value_error
from sampled_means import assert_mean
from token_attention import weights_from_gamma

import iclimit
from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent.constructions import descent_layer
from iclimit.simulate.dynamics.attention_models import AttentionModel, MomentLoss
from iclimit.simulate.dynamics.feature_moments import population_moments
from iclimit.simulate.models.transformer import Layer, prediction
from iclimit.simulate.prompts import context_summary, draw_prompts, regression_tokens
from iclimit.simulate.prompts.sampling import draw_fresh_tasks
from iclimit.validation.instruments.weights.layouts import LAYOUTS, get_layout
from iclimit.validation.instruments.weights.reduced import reduced_gamma

D, CONTEXT, HEADS, ROWS = 3, 4, 2, 2
# Choices of `get_layout`.
CHOICES = {
    *("orientation", "normalization", "include_query"),
    *("input_variance", "task_variance", "task_law"),
}
ROUNDING = 1e-11
SAMPLES = 40_000


def embedding(x, y, query):
    """Columns (x_i, y_i), the last one (x_q, 0): E of Zhang et al., Z of the others."""
    return np.vstack([np.vstack([x, query]).T, np.append(y, 0.0)])


def lu2025(w, x, y, query):
    """A(Z) = Z + V Z (K Z)^T (Q Z) / l, last entry of the last column."""
    Z = embedding(x, y, query)
    return float((Z + w["V"] @ Z @ (w["K"] @ Z).T @ (w["Q"] @ Z) / len(y))[-1, -1])


def vonoswald2023(w, x, y, query):
    """e_j + sum_h P_h sum_i (W_V e_i) (W_K e_i)^T (W_Q e_j) over the context, minus the label."""
    e = np.append(query, 0.0)
    out = e.copy()
    for h in range(HEADS):
        for x_i, y_i in zip(x, y, strict=True):
            e_i = np.append(x_i, y_i)
            score = (w["W_K"][h] @ e_i) @ (w["W_Q"][h] @ e)
            out = out + w["P"][h] @ (w["W_V"][h] @ e_i) * score
    return -float(out[-1])


def blog2024(w, x, y, query):
    """The same with the mean over the context."""
    return vonoswald2023(w | {"P": w["P"] / len(y)}, x, y, query)


def ahn2023(w, x, y, query):
    """Z + P Z M (Z^T Q Z) / n, M without the query; minus the last entry."""
    Z = embedding(x, y, query)
    M = np.diag(np.append(np.ones(len(y)), 0.0))
    return -float((Z + w["P"] @ Z @ M @ (Z.T @ w["Q"] @ Z) / len(y))[-1, -1])


def zhang2024(w, x, y, query):
    """E + W^PV E (E^T W^KQ E) / rho with rho = N, the last entry."""
    E = embedding(x, y, query)
    return float((E + w["W_PV"] @ E @ (E.T @ w["W_KQ"] @ E) / len(y))[-1, -1])


def versatile2024(w, x, y, query):
    """e + sum_h P_h (sum_j e_j e_j^T) Q_h e over the context; minus the last entry."""
    tokens = np.column_stack([x, y])
    e = np.append(query, 0.0)
    change = sum(P @ (tokens.T @ tokens) @ Q @ e for P, Q in zip(w["P"], w["Q"], strict=True))
    return -float((e + change)[-1])


def linattn2025(w, x, y, query):
    """sum_h v_h^T S U_h x_q with S the mean over the context of tokens, the query's included."""
    Z = embedding(x, y, query)
    S = Z @ Z.T / len(y)
    return float(sum(v @ S @ U @ query for v, U in zip(w["v"], w["U"], strict=True)))


FORWARD = {
    each.__name__: each
    for each in (lu2025, vonoswald2023, blog2024, ahn2023, zhang2024, versatile2024, linattn2025)
}
SEPARATE = {
    "P": (HEADS, D + 1, ROWS),
    "W_V": (HEADS, ROWS, D + 1),
    "W_K": (HEADS, ROWS, D + 1),
    "W_Q": (HEADS, ROWS, D + 1),
}
SHAPES = {
    "lu2025": dict.fromkeys("VKQ", (D + 1, D + 1)),
    "vonoswald2023": SEPARATE,
    "blog2024": SEPARATE,
    "ahn2023": dict.fromkeys("PQ", (D + 1, D + 1)),
    "zhang2024": dict.fromkeys(("W_PV", "W_KQ"), (D + 1, D + 1)),
    "versatile2024": dict.fromkeys("PQ", (HEADS, D + 1, D + 1)),
    "linattn2025": {"v": (HEADS, D + 1), "U": (HEADS, D + 1, D)},
}


def random_weights(layout, seed=0):
    generator = np.random.default_rng(seed)
    return {name: generator.standard_normal(shape) for name, shape in SHAPES[layout].items()}


def read(layer, layout="lu2025", **changes):
    """A layer as it is read at the usual context length and noise."""
    choices = {name: changes.pop(name) for name in CHOICES & changes.keys()}
    chosen = get_layout(layout, **choices)
    setting = {"layout": chosen, "context": CONTEXT, "noise_variance": 0.1}
    return reduced_gamma(layer, **setting | changes)


def scales(layout):
    """Standard deviations of inputs, tasks and noiseless labels, as the papers have them."""
    inputs = {
        "lu2025": 1 / math.sqrt(D),
        "linattn2025": 1 / math.sqrt(D),
        "vonoswald2023": math.sqrt(1 / 12),
        "blog2024": math.sqrt(1 / 3),
    }.get(layout, 1.0)
    return inputs, 1.0, inputs * math.sqrt(D)


def random_prompt(layout, generator):
    x = scales(layout)[0] * generator.standard_normal((CONTEXT + 1, D))
    return x[:-1], generator.standard_normal(CONTEXT), x[-1]


def summary(layout, x, y):
    """Context summary in the units of the library."""
    s, _, label = scales(layout)
    x = x / s / math.sqrt(D)
    y = y / label
    return np.append(D / len(y) * (y @ x), np.mean(y**2))


def test_forward_passes_are_gamma_and_what_sees_no_label():
    for layout in FORWARD:
        weights = random_weights(layout)
        reduced = read(weights, layout, noise_variance=0.2)
        generator, (s, _, label) = np.random.default_rng(1), scales(layout)
        assert 0 < reduced.ignored < 1
        for _ in range(3):
            x, y, query = random_prompt(layout, generator)
            predicted = FORWARD[layout](weights, x, y, query)
            without = FORWARD[layout](weights, x, 0 * y, query)
            by_gamma = query / s / math.sqrt(D) @ reduced.gamma @ summary(layout, x, y)
            assert predicted - without == pytest.approx(label * by_gamma, rel=ROUNDING)


def test_ignored_share_and_errors_against_sampled_tokens():
    """Few prompts, since the forward passes are loops; other tests are sharper."""
    for layout in FORWARD:
        weights = {name: 0.5 * each for name, each in random_weights(layout, 2).items()}
        s, _, label = scales(layout)
        noise = 0.2 * label**2
        mixing = np.array([[1.2, 0, 0], [0.3, 0.8, 0], [0, -0.2, 0.7]])
        law = {"task_law": "gaussian", "input_covariance": mixing @ mixing.T}
        reduced = read(weights, layout, noise_variance=noise, **law)
        assert reduced.rho == pytest.approx(0.2)
        generator = np.random.default_rng(3)
        ignored = []
        errors = []
        squares = []
        for _ in range(800):
            x = s * generator.standard_normal((CONTEXT + 1, D)) @ mixing.T
            y = x @ generator.standard_normal(D) + math.sqrt(noise) * generator.standard_normal(
                CONTEXT + 1
            )
            predicted = FORWARD[layout](weights, x[:-1], y[:-1], x[-1])
            without = FORWARD[layout](weights, x[:-1], 0 * y[:-1], x[-1])
            ignored.append((without / label) ** 2)
            squares.append((predicted / label) ** 2)
            errors.append(((predicted - y[-1]) / label) ** 2)
        square = reduced.label_free.square(CONTEXT, mixing @ mixing.T)
        assert_mean(np.array(ignored), square)
        assert_mean(np.array(squares), square / reduced.ignored)
        assert_mean(np.array(errors), reduced.errors(whole=True).icl)


@pytest.mark.parametrize("include_query", [True, False])
@pytest.mark.parametrize("fresh", [True, False])
def test_errors_of_the_layer_with_the_ignored_part(fresh, include_query):
    """Labels and the ignored part are correlated: through the mean task and squared labels."""
    generator = np.random.default_rng(12)
    weights = {name: 0.1 * generator.standard_normal((D + 1, D + 1)) for name in ("P", "Q")}
    weights["P"][-1], weights["Q"] = [0.3, 0.3, 0.3, -0.2], weights["Q"] + np.eye(D + 1)
    weights["Q"][-1, :D] = -0.5
    few = 1 + generator.standard_normal((2, D))
    mixing = np.diag([1.2, 0.8, 0.5])
    layout = get_layout("versatile2024", normalization="mean", include_query=include_query)
    setting = {"layout": layout, "input_covariance": mixing**2}
    reduced = reduced_gamma(weights, context=9, noise_variance=0.6, **setting)
    law = Problem(dim=D, context=6, noise_variance=0.9, mixing=mixing, scale=1)
    device = get_backend("numpy")
    if fresh:
        prompts = draw_prompts(law, device, generator, SAMPLES)
        found = reduced.errors(test_context=6, test_noise_variance=0.9, whole=True).icl
        by_gamma = reduced.errors(test_context=6, test_noise_variance=0.9).icl
    else:
        prompts = draw_prompts(
            law,
            device,
            generator,
            len(few[generator.integers(0, 2, SAMPLES)]),
            tasks=few[generator.integers(0, 2, SAMPLES)],
        )
        reduced = reduced_gamma(weights, context=6, noise_variance=0.9, **setting)
        found = reduced.errors(tasks=few, whole=True).idg
        by_gamma = reduced.errors(tasks=few).idg
    eye = np.eye(D + 1)[None]
    layer = Layer(eye, weights["Q"][None], eye, weights["P"][None])
    tokens = regression_tokens(prompts)
    predicted = prediction(tokens, [layer], include_query=include_query, dampening=1 / 6)
    samples = (predicted - prompts.query_label) ** 2 / D
    assert_mean(samples, found)
    # The test sees the correlation: with the mean square alone it would fail.
    alone = by_gamma + reduced.label_free.square(6, mixing**2)
    assert abs(np.mean(samples) - alone) > 6 * np.std(samples) / math.sqrt(SAMPLES)


@pytest.mark.parametrize("kind", ["merged", "separate"])
def test_losses_from_the_moments_of_all_features(kind):
    """Cubature over tasks and Isserlis' sums of sixth order, for any weights: no sampling.

    The simulation of training dynamics has its own moments of token features, which the query's
    token is part of.  Fresh tasks, and a single shared one.
    """
    generator = np.random.default_rng(11)
    model = AttentionModel(kind, dim=D, heads=HEADS, rank=2 if kind == "separate" else 1)
    weights = [0.5 * generator.standard_normal(shape) for shape in model.shapes]
    if kind == "merged":
        layer = {"v": weights[0], "U": weights[1]}
    else:
        layer = dict(zip(("v", "W_K", "W_Q"), weights, strict=True))
    factor = generator.standard_normal((D, 9)) / 3
    sigma = factor @ factor.T
    task = np.array([1.0, -0.5, 0.7])
    setting = {"layout": "linattn2025", "context": 5, "noise_variance": 0.3}
    reduced = reduced_gamma(layer, input_covariance=sigma, **setting)
    found = reduced.errors(tasks=task[None], whole=True)
    fresh = Problem(D, 5, input_covariance=sigma / D, noise_variance=0.3, scale=1)
    shared = replace(fresh, fresh_fraction=0.0, shared_task=task)
    problems = {found.icl: fresh, found.idg: shared}
    for error, problem in problems.items():
        loss = MomentLoss(model, population_moments(problem))([each[None] for each in weights])[0]
        assert error == pytest.approx(float(loss[0]), rel=ROUNDING)


def test_weights_that_were_made_from_gamma_are_read_back():
    gamma = np.random.default_rng(4).standard_normal((D, D + 1))
    value, key, query = weights_from_gamma(gamma)
    layer = {"V": value, "K": key, "Q": query}
    reduced = read(layer)
    assert reduced.gamma == pytest.approx(gamma, rel=ROUNDING)
    assert reduced.ignored == 0
    exact = iclimit.pretraining.errors_of_gamma(gamma, context=CONTEXT, rho=0.1)
    assert reduced.errors().icl == pytest.approx(exact.icl, rel=ROUNDING)


@pytest.mark.parametrize("normalization", ["mean", "sum"])
def test_a_constructed_step_is_read_as_its_preconditioner(normalization):
    matrix = np.random.default_rng(5).standard_normal((D, D))
    layer = descent_layer(
        0.4, context=CONTEXT, dim=D, preconditioner=matrix, normalization=normalization
    )
    reduced = read(layer, "versatile2024", noise_variance=0.3)
    # The sum over the context is the layer's own; its rate may be divided by the context.
    rate = 0.4 if normalization == "mean" else 0.4 * CONTEXT
    # A layer looks up K^T Q = A^T, and the step is A X^T y.
    assert reduced.gamma[:, :D] == pytest.approx(rate * matrix, rel=ROUNDING)
    assert reduced.ignored == 0
    expected = 0.25 * np.sum((matrix - matrix.T) ** 2) / np.sum(matrix**2)
    assert reduced.asymmetry == pytest.approx(expected)


def test_a_trained_layer_reaches_the_optimum():
    """Trained without the theory, in two dimensions: the excess is a few per mille."""
    problem = Problem(dim=2, context=8, noise_variance=0.2, scale=1)
    run = iclimit.train_attention(problem, optimizer="lbfgs", batch=2**14, rng=0)
    reduced = reduced_gamma(run.layers[0], layout="versatile2024", context=8, noise_variance=0.2)
    assert reduced.rho == pytest.approx(0.1)
    assert 0 < reduced.excess < 0.01 * reduced.optimum.error
    assert reduced.ignored < 0.01
    # The loss of the batch is close to the exact error of the layer.
    loss = reduced.units.to_library("difference", run.losses[-1]) / 2
    assert loss == pytest.approx(reduced.errors().icl, rel=0.05)


def test_rows_are_columns_transposed():
    weights = random_weights("vonoswald2023", 6)
    columns = read(weights, "vonoswald2023")
    transposed = {name: np.swapaxes(each, -1, -2) for name, each in weights.items()}
    rows = read(transposed, "vonoswald2023", orientation="rows")
    assert rows.gamma == pytest.approx(columns.gamma, rel=ROUNDING)
    assert rows.ignored == pytest.approx(columns.ignored, rel=ROUNDING)
    # Heads as PyTorch stacks them, and products instead of factors.
    stacked = {name: np.concatenate(each) for name, each in weights.items() if name != "P"}
    stacked["W_O"] = np.concatenate(weights["P"], axis=1)
    found = read(stacked, "vonoswald2023", heads=HEADS)
    assert found.gamma == pytest.approx(columns.gamma)
    products = {
        "W_KQ": np.swapaxes(weights["W_K"], 1, 2) @ weights["W_Q"],
        "W_PV": weights["P"] @ weights["W_V"],
    }
    found = read(products, "vonoswald2023")
    assert found.gamma == pytest.approx(columns.gamma, rel=ROUNDING)


def test_heads_of_jax():
    """Kernels (D, H, rows) and (H, rows, D) of Flax, and the same with joined axes."""
    weights = random_weights("vonoswald2023", 13)
    columns = read(weights, "vonoswald2023")
    kernels = {name: weights[name].transpose(2, 0, 1) for name in ("W_Q", "W_K", "W_V")}
    out = weights["P"].transpose(0, 2, 1)
    split = {name: each.transpose(1, 0, 2) for name, each in kernels.items()} | {"W_O": out}
    joined = {name: each.reshape(D + 1, -1) for name, each in kernels.items()}
    joined["W_O"] = out.reshape(-1, D + 1)
    for layer, heads in ((split, 1), (joined, HEADS)):
        rows = read(layer, "vonoswald2023", orientation="rows", heads=heads)
        assert rows.gamma == pytest.approx(columns.gamma, rel=ROUNDING)


@pytest.mark.parametrize("residual", [True, False])
def test_any_readout_and_the_residual_connection(residual):
    """The last column, read by a vector; the residual connection lets it see the query."""
    weights = random_weights("lu2025", 14)
    readout = np.array([0.5, -0.3, 0.2, 1.5])
    layout = replace(LAYOUTS["lu2025"], residual=residual, normalization="tokens")
    reduced = read(weights, layout, readout=readout)
    generator = np.random.default_rng(15)
    squares = []

    def forward(x, y, query):
        Z = embedding(x, y, query)
        change = weights["V"] @ Z @ (weights["K"] @ Z).T @ (weights["Q"] @ Z) / (len(y) + 1)
        return float(readout @ (residual * Z + change)[:, -1])

    for _ in range(2000):
        x, y, query = random_prompt("lu2025", generator)
        without = forward(x, 0 * y, query)
        squares.append(without**2)
        if len(squares) <= 3:
            by_gamma = query @ reduced.gamma @ summary("lu2025", x, y)
            assert forward(x, y, query) - without == pytest.approx(by_gamma, rel=ROUNDING)
    assert_mean(np.array(squares), reduced.label_free.square(CONTEXT, None))
    # A number is a factor of the last entry.
    unit = read(weights)
    double = read(weights, readout=2.0)
    assert double.gamma == pytest.approx(2 * unit.gamma, rel=ROUNDING)


def test_files_are_mappings(tmp_path):
    weights = random_weights("zhang2024", 16)
    np.savez(tmp_path / "layer.npz", **weights)
    with np.load(tmp_path / "layer.npz") as layer:
        found = read(layer, "zhang2024").gamma
    assert np.array_equal(found, read(weights, "zhang2024").gamma)


def test_a_wrong_layout_shows_in_the_ignored_share():
    """A good layer, read as if its label came first: tokens (y, x) instead of (x, y)."""
    value, key, query = weights_from_gamma(0.6 * np.eye(D, D + 1))
    right = read({"V": value, "K": key, "Q": query})
    turn = np.roll(np.eye(D + 1), 1, axis=0)
    wrong = {"V": turn @ value @ turn.T, "K": turn @ key @ turn.T, "Q": turn @ query @ turn.T}
    assert right.ignored == 0
    assert "the prediction is 0" in str(read(wrong))
    # With some weights everywhere, as after training.
    generator = np.random.default_rng(7)
    noisy = {n: each + 0.1 * generator.standard_normal((4, 4)) for n, each in wrong.items()}
    found = read(noisy)
    assert found.ignored > 0.3
    assert "a large share is ignored: another layout" in str(found)
    assert "worse than predicting 0" in str(read({"V": -value, "K": key, "Q": query}))


def test_other_context_lengths():
    weights = random_weights("versatile2024", 8)
    for normalization, factor in {"sum": 3.0, "mean": 1.0, "tokens": 3 * 5 / 13}.items():
        short, long = (
            read(weights, "versatile2024", context=context, normalization=normalization)
            for context in (CONTEXT, 3 * CONTEXT)
        )
        assert short.gamma_at(3 * CONTEXT) == pytest.approx(long.gamma, rel=ROUNDING)
        assert long.gamma == pytest.approx(factor * short.gamma, rel=ROUNDING)
        found = short.errors(test_context=3 * CONTEXT)
        assert found.icl == pytest.approx(long.errors().icl, rel=ROUNDING)
        assert found.idg == pytest.approx(short.errors().icl, rel=ROUNDING)


def test_tasks_come_in_the_units_of_the_layout():
    weights = random_weights("zhang2024", 9)
    tasks = np.random.default_rng(10).standard_normal((5, D))
    plain = read(weights, "zhang2024", noise_variance=0.3)
    # Labels twice as large: the same layer on them has a prediction of half the relative size
    # in the part of Gamma that multiplies labels once.
    double = read(weights, "zhang2024", noise_variance=1.2, task_variance=4.0)
    assert double.rho == pytest.approx(plain.rho)
    assert double.gamma[:, :D] == pytest.approx(plain.gamma[:, :D])
    assert double.gamma[:, D] == pytest.approx(2 * plain.gamma[:, D])
    expected = iclimit.pretraining.errors_of_gamma(
        double.gamma, context=CONTEXT, rho=0.1, tasks=tasks
    ).idg
    assert double.errors(tasks=2 * tasks).idg == pytest.approx(expected)


def test_comparison_with_pretraining():
    """The best matrix is better than any run with so few prompts."""
    run = {"tasks": 6, "prompts": 100, "ridge": 0.1, "repeats": 20}
    best = iclimit.pretraining.optimal_gamma(dim=8, context=10, rho=0.1)
    value, key, query = weights_from_gamma(best.gamma)
    reduced = read({"V": value, "K": key, "Q": query}, context=10)
    found = reduced.against_pretraining(rng=1, **run)
    assert found.z() < -4
    simulated = found.simulated.icl
    assert abs(found.predicted.icl.mean - simulated.mean) < 5 * simulated.standard_error
    assert "fresh tasks" in str(found)
    # Two of eight directions have no task in them.
    assert found.eigenvalues == pytest.approx([best.gamma[0, 0]] * 8)
    assert found.expected[:2] == pytest.approx(0, abs=1e-12)
    assert found.expected[2] > 0.01
    ax = Figure().subplots()
    assert found.plot(ax) is ax
    tasks = np.random.default_rng(2).standard_normal((6, 8))
    known = reduced.against_pretraining(rng=1, **run | {"tasks": tasks})
    assert known.expected[:2] == pytest.approx(0, abs=1e-12)
    assert known.z("idg") != 0
    value_error("error must be one of icl, got 'idg'", found.z, "idg")


def test_usual_pretrainings_are_found_usual():
    """Ridge regressions by brute force: z of their errors has about the moments of a normal."""
    d = 8
    context = 10
    prompts = 100
    ridge = 0.1
    found = []
    backend = get_backend("numpy")
    for seed in range(10):
        generator = np.random.default_rng(seed)
        tasks = draw_fresh_tasks(Problem(d, 1, task_law="sphere"), backend, generator, 6)
        drawn = tasks[generator.integers(0, 6, prompts)]
        seen = draw_prompts(
            Problem(drawn.shape[1], context, noise_variance=0.1),
            backend,
            generator,
            len(drawn),
            tasks=drawn,
        )
        features = seen.query[:, :, None] * context_summary(seen)[:, None, :]
        flat = features.reshape(prompts, -1)
        gram = flat.T @ flat + prompts / d * ridge * np.eye(flat.shape[1])
        gamma = np.linalg.solve(gram, flat.T @ seen.query_label).reshape(d, d + 1)
        layer = dict(zip("VKQ", weights_from_gamma(gamma), strict=True))
        reduced = read(layer, context=context)
        run = reduced.against_pretraining(tasks=tasks, prompts=prompts, ridge=ridge, rng=seed)
        found.append([run.z("icl"), run.z("idg")])
    deviations = np.array(found)
    # Of ten normal deviates the mean has a spread of 0.3 and the standard deviation of 0.2.
    assert np.all(np.abs(np.mean(deviations, axis=0)) < 1.2)
    spread = np.std(deviations, axis=0)
    assert np.all((spread > 0.4) & (spread < 2))


def test_table_and_picture():
    value, key, query = weights_from_gamma(0.6 * np.eye(D, D + 1))
    reduced = read({"V": value, "K": key, "Q": query})
    assert f"{reduced.errors().icl:.5g}" in str(reduced)
    assert "ignored share of the prediction: 0 %" in str(reduced)
    ax = Figure().subplots()
    assert reduced.plot(ax) is ax
    assert ax.lines[1].get_ydata() == pytest.approx([0.6] * D)


EYE = {"V": np.eye(4), "K": np.eye(4), "Q": np.eye(4)}


def test_bad_input_is_named():
    for change, message in (
        ({"layout": "lu2024"}, "layout must be one of lu2025, .*did you mean lu2025"),
        ({"layer": {"V": np.eye(4), "K": np.eye(4)}}, "layer lacks query"),
        ({"layer": EYE | {"W_Q": np.eye(4)}}, "layer has 'Q' and 'W_Q', which are the same"),
        ({"layer": EYE | {"W_QK": np.eye(4)}}, "a matrix 'W_QK', which .*did you mean W_Q"),
        ({"layer": EYE | {"W_KQ": np.eye(4)}}, "key and query, or their product, not both"),
        ({"layer": {"K": np.eye(4), "Q": np.eye(4)}}, "must have one value matrix"),
        ({"layer": EYE | {"V": np.eye(3)}}, "V must act on tokens of 4 numbers, got 3"),
        ({"layer": EYE | {"Q": np.eye(5)}}, "K and Q must have as many rows, got 4 and 5"),
        ({"layer": EYE | {"V": np.ones((2, 4, 4))}}, "V and Q must have as many heads"),
        ({"layer": EYE | {"V": np.full((4, 4), np.nan)}}, "V must be finite"),
        ({"orientation": "row"}, "orientation must be one of columns, rows.*did you mean rows"),
        ({"normalization": "none"}, "normalization must be one of sum, mean, tokens"),
        ({"noise_variance": -1.0}, "noise_variance must be >= 0"),
        ({"readout": np.ones(3)}, r"readout must be a number or of shape \(4,\)"),
        ({"heads": 3}, "V must be divisible into 3 heads"),
        ({"task_law": "cube"}, "task_law must be one of sphere, gaussian"),
    ):
        value_error(message, read, **{"layer": EYE} | change)
        type_error("layer must be a mapping", read, np.eye(4))


@pytest.mark.parametrize("kind", [str, bytes, bool, object])
def test_entries_that_are_no_numbers_are_refused(kind):
    layer = EYE | {"V": np.eye(4).astype(kind)}
    type_error("V must be an array of real numbers", read, layer)
    for kept in (np.float32, np.int64):
        assert read(EYE | {"V": np.eye(4).astype(kept)}).gamma.dtype == float


def test_layouts_are_those_of_the_tests():
    assert set(LAYOUTS) == set(FORWARD)


def test_names_and_stacks_of_libraries():
    """State dictionaries of PyTorch, Hugging Face and nanoGPT are the same layer."""
    rng = np.random.default_rng(3)
    size = 4
    q, k, v, o = rng.standard_normal((4, size, size))
    law = {"context": 7, "noise_variance": 0.1, "layout": "vonoswald2023"}
    expected = reduced_gamma({"W_Q": q, "W_K": k, "W_V": v, "P": o}, **law).gamma
    stacked = np.concatenate([q, k, v])
    head = "model.layers.0.self_attn."
    separate = {"q_proj.weight": q, "k_proj.weight": k, "v_proj.weight": v, "o_proj.weight": o}
    for layer in (
        {head + name: matrix for name, matrix in separate.items()},
        {"in_proj_weight": stacked, "in_proj_bias": np.zeros(12), "out_proj.weight": o},
        {"h.0.attn.c_attn.weight": stacked, "h.0.attn.c_proj.weight": o},
        {"h.0.attn.c_attn.weight": stacked.T, "h.0.attn.c_proj.weight": o.T}
        | {"h.0.attn.c_attn.bias": np.zeros(12)},
    ):
        assert np.allclose(reduced_gamma(layer, **law).gamma, expected)
    rows = {"in_proj_weight": stacked, "out_proj": o.T}
    on_rows = law | {"layout": get_layout("vonoswald2023", orientation="rows")}
    assert np.allclose(reduced_gamma(rows, **on_rows).gamma, expected)
    two = separate | {f"layers.1.{name}": matrix for name, matrix in separate.items()}
    for layer, message in (
        (two, "of several layers: give one, .*reduced_stack"),
        (separate | {"q_proj.bias": np.ones(4)}, "has a bias 'q_proj.bias'"),
        ({"c_attn": q}, r"must stack queries, keys and values, .*got shape \(4, 4\)"),
        (separate | {"wte.weight": q}, "ask the network instead, iclimit.probe"),
    ):
        value_error(message, reduced_gamma, layer, **law)
