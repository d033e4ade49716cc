"""Boundary curves against brute force: scans, iterations and other formulas than their margins."""

from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

import iclimit
from iclimit import asymptotics
from iclimit.diagrams.boundaries import BOUNDARIES
from iclimit.diagrams.zero_lines import zero_lines

PLACE = 1e-10
"""Relative error of a vertex: roots are found to 1e-14 of an edge, and margins have 1e-13."""


def diagram_of(quantity, **parameters):
    """Diagram over the two parameters that are arrays, in their order."""
    x, y = (name for name, each in parameters.items() if np.ndim(each))
    return iclimit.phase_diagram(quantity, x=x, y=y, **parameters)


def lines_of(name, quantity, **parameters):
    """All vertices of a boundary in a diagram, checked to be inside it."""
    diagram = diagram_of(quantity, **parameters)
    lines = diagram.boundaries[BOUNDARIES[name].label]
    assert quantity in BOUNDARIES[name].quantities
    vertices = np.concatenate(lines)
    assert np.all(np.isfinite(vertices))
    for column, grid in zip(vertices.T, (diagram.x_grid, diagram.y_grid), strict=True):
        assert np.all((grid[0] <= column) & (column <= grid[-1]))
    return vertices


def some(vertices, count=12):
    return vertices[np.linspace(0, len(vertices) - 1, count).astype(int)]


# The machinery, on margins whose zeros are known.


def square(points, low=-1.0, high=1.0):
    grid = np.linspace(low, high, points)
    return ("x", grid), ("y", grid)


def zeros_of(margin, x, y, fixed):
    return zero_lines(lambda parameters: margin(**parameters), x, y, fixed)


def test_a_closed_line_is_closed_and_exact():
    (line,) = zeros_of(lambda x, y: x**2 + y**2 - 0.5, *square(30), {})
    np.testing.assert_array_equal(line[0], line[-1])
    np.testing.assert_allclose(np.hypot(*line.T), np.sqrt(0.5), rtol=1e-13)
    # In order: neighbours are neighbours, and the polygon has the area of the disc.
    assert np.hypot(*np.diff(line, axis=0).T).max() < 0.1
    area = abs(np.sum(line[:-1, 0] * line[1:, 1] - line[1:, 0] * line[:-1, 1])) / 2
    assert area == pytest.approx(np.pi / 2, rel=0.01)


def test_a_line_that_leaves_the_grid_ends_at_its_edge():
    lines = zeros_of(lambda x, y: x**2 + y**2 - 1.5, *square(41), {})
    assert len(lines) == 4
    for line in lines:
        for end in (line[0], line[-1]):
            assert np.abs(end).max() == 1
            assert np.abs(end).min() == pytest.approx(np.sqrt(0.5), rel=1e-13)


@pytest.mark.parametrize("edge", [-1.0, 1.0])
def test_a_line_along_the_edge_is_found(edge):
    (line,) = zeros_of(lambda x, y: x - edge + 0 * y, *square(5), {})
    np.testing.assert_array_equal(line[:, 0], edge)
    assert np.ptp(line[:, 1]) == 2


def test_a_line_through_grid_points_is_found():
    (line,) = zeros_of(lambda x, y: x - y, *square(9), {})
    np.testing.assert_allclose(line[:, 0], line[:, 1], atol=1e-13)


def test_absent_lines_jumps_and_gaps():
    assert zeros_of(lambda x, y: 2 + x + y, *square(9), {}) == []
    assert (
        zeros_of(
            lambda x, y: np.full(np.broadcast_shapes(x.shape, y.shape), np.nan), *square(9), {}
        )
        == []
    )
    # A pole changes the sign but is no zero; where a margin is not defined a line is cut.
    assert zeros_of(lambda x, y: 1 / (x - 0.01) + 0 * y, *square(8), {}) == []
    lines = zeros_of(lambda x, y: np.where(abs(y) < 0.3, np.nan, x - 0.01), *square(41), {})
    assert sorted(float(np.sign(line[0, 1])) for line in lines) == [-1, 1]
    assert all(np.abs(line[:, 1]).min() >= 0.3 for line in lines)


def test_infinite_grid_points_have_no_lines():
    x = ("x", np.array([0.0, 1.0, 2.0, np.inf]))
    y = ("y", np.array([0.0, 1.0]))
    (line,) = zeros_of(lambda x, y: x - 1.5 + 0 * y, x, y, {})
    np.testing.assert_array_equal(line[:, 0], 1.5)
    assert zeros_of(lambda x, y: x - 1.5 + 0 * y, (x[0], x[1][-2:]), y, {}) == []


def test_a_fine_grid_is_thinned_and_its_ends_kept():
    (line,) = zeros_of(lambda x, y: y - x**3, *square(3001), {})
    assert len(line) < 1500
    assert line[:, 0].min() == -1
    assert line[:, 0].max() == 1
    np.testing.assert_allclose(line[:, 1], line[:, 0] ** 3, atol=1e-13)


# The boundaries of linear attention.


def test_the_interpolation_threshold_is_where_errors_are_largest():
    tau = np.geomspace(0.2, 5, 31)
    vertices = lines_of(
        "interpolation", "icl_error", tau=tau, kappa=np.geomspace(0.2, 5, 8), alpha=3, rho=0.1
    )
    np.testing.assert_allclose(vertices[:, 0], 1, rtol=1e-14)
    scan = np.linspace(0.9, 1.1, 20_000)  # even: 1 itself is not in it
    for _, kappa in vertices:
        error = asymptotics.pretraining.icl_error(tau=scan, alpha=3, kappa=kappa, rho=0.1)
        assert scan[np.argmax(error)] == pytest.approx(1, abs=1e-5)
    ridged = diagram_of("icl_error", tau=tau, kappa=[0.5, 1, 2], alpha=3, rho=0.1, ridge=0.1)
    assert BOUNDARIES["interpolation"].label not in ridged.boundaries


def test_the_memorisation_transition_sharpens_with_the_context():
    """The longer the context, the sharper the noiseless error bends at kappa = 1."""
    kappa = np.geomspace(0.25, 4, 41)
    grid = {"alpha": np.geomspace(1, 1e6, 6), "kappa": kappa}
    vertices = lines_of("memorisation", "icl_error", **grid, tau=np.inf, rho=0.0)
    np.testing.assert_allclose(vertices[:, 1], 1, rtol=1e-14)
    assert vertices[:, 0].min() == pytest.approx(10**2.4)  # the next context length is 10^1.2
    scan = np.geomspace(0.25, 4, 4001)
    steepest = []
    slope = []
    for alpha in (10.0, 1e3, 1e5, 1e7):
        error = asymptotics.pretraining.icl_error(tau=np.inf, alpha=alpha, kappa=scan, rho=0.0)
        turn = np.gradient(np.gradient(error, np.log(scan)), np.log(scan))
        steepest.append(abs(np.log(scan[np.argmax(turn)])))
        slope.append(turn.max())
    assert np.all(np.diff(slope) > 0)
    assert np.all(np.diff(steepest) <= 0)
    assert steepest[-1] < 2e-3


def test_the_memorisation_transition_is_not_drawn_where_it_is_gradual():
    """With few prompts, a ridge, or noisy contexts the error bends gradually."""
    for more in ({"tau": 0.5}, {"ridge": 0.2}, {"rho": 3.0, "alpha": np.geomspace(4, 50, 6)}):
        setting = {"alpha": np.geomspace(20, 1e6, 6), "kappa": np.geomspace(0.5, 2, 9)}
        setting |= {"tau": 3.0, "rho": 0.0} | more
        found = diagram_of("icl_error", **setting).boundaries
        assert BOUNDARIES["memorisation"].label not in found


def test_every_minimum_over_contexts_is_on_the_line():
    """The other way round: what a scan of each row finds is found."""
    alpha = np.geomspace(0.1, 100, 400)
    kappa = np.geomspace(0.2, 5, 30)
    diagram = diagram_of("icl_error", alpha=alpha, kappa=kappa, tau=4, rho=0.1)
    vertices = np.concatenate(diagram.boundaries[BOUNDARIES["icl_context"].label])
    seen = 0
    for y, row in zip(kappa, diagram.values, strict=True):
        turns = np.flatnonzero(np.diff(np.sign(np.diff(row)))) + 1
        here = np.sort(vertices[vertices[:, 1] == y, 0])
        assert len(here) == len(turns)
        np.testing.assert_allclose(here, alpha[turns], rtol=0.02)
        seen += len(turns)
    assert seen > 10


@pytest.mark.parametrize(
    ("tau", "kappa", "ridge"), [(0.6, 1.5, 0), (3.0, 1.2, 0), (2.0, 0.5, 0.1)]
)
@pytest.mark.parametrize("objective", ["icl", "idg"])
def test_vertices_are_roots_of_a_multiprecision_derivative(tau, kappa, ridge, objective):
    quantity = f"{objective}_error"
    error = getattr(asymptotics.pretraining, quantity)
    setting = {"tau": tau, "kappa": kappa, "ridge": ridge}
    diagram = iclimit.phase_diagram(
        quantity,
        x="alpha",
        y="rho",
        alpha=np.geomspace(0.05, 1e3, 50),
        rho=np.geomspace(1e-3, 3, 40),
        **setting,
    )
    label = BOUNDARIES[f"{objective}_context"].label
    for alpha, rho in [v for line in diagram.boundaries.get(label, []) for v in some(line, 2)]:
        with mp.workdps(30):
            exact = {name: mp.mpf(value) for name, value in setting.items()} | {"rho": mp.mpf(rho)}

            def slope(log_alpha, exact=exact):
                return mp.diff(lambda s: error(alpha=mp.exp(s), **exact), log_alpha)

            root = mp.findroot(slope, (mp.log(alpha) - 1e-4, mp.log(alpha) + 1e-4), tol=1e-20)
            assert abs(mp.exp(root) / alpha - 1) < PLACE


def test_the_best_context_moves_to_infinity_where_theory_says():
    """At tau = 1 + w (rho w^2 - 1 - rho), w = kappa/(kappa - 1): an expansion at long contexts."""
    kappa = 1.5
    rho = 0.3
    grid = {"tau": np.linspace(1.1, 9, 40), "alpha": np.geomspace(10, 1e7, 60)}
    vertices = lines_of("icl_context", "icl_error", **grid, kappa=kappa, rho=rho)
    w = kappa / (kappa - 1)
    farthest = vertices[np.argmax(vertices[:, 1])]
    assert farthest[0] == pytest.approx(1 + w * (rho * w**2 - 1 - rho), rel=1e-4)


def test_the_optimal_ridge_of_pretraining_tasks_becomes_zero_on_the_line():
    """On one side the least error over a grid of ridges is at 0, on the other it is not."""
    tau = np.geomspace(0.02, 0.9, 20)
    kappa = np.geomspace(0.05, 1, 20)
    setting = {"alpha": 3.0, "rho": 0.03}
    vertices = lines_of("idg_ridge", "optimal_idg_ridge", tau=tau, kappa=kappa, **setting)
    setting["ridge"] = np.concatenate([[0.0], np.geomspace(1e-8, 10, 400)])
    error = asymptotics.pretraining.idg_error
    for at, other in some(vertices, 8):
        best = [np.argmin(error(tau=at * f, kappa=other, **setting)) for f in (0.98, 1.02)]
        assert min(best) == 0 < max(best)


def test_the_optimal_ridge_is_zero_on_one_side_of_the_line():
    grid = {"tau": np.geomspace(1, 60, 30), "kappa": np.geomspace(0.3, 20, 20)}
    diagram = diagram_of("optimal_ridge", **grid, alpha=10, rho=0.01)
    _brute_force_agrees(diagram, BOUNDARIES["icl_ridge"].label, diagram.values > 0)


def test_the_ridge_line_is_that_of_a_multiprecision_difference():
    grid = {"tau": np.geomspace(2, 30, 20), "rho": np.geomspace(1e-3, 0.3, 20)}
    vertices = lines_of("icl_ridge", "optimal_icl_error", **grid, kappa=5.0, alpha=10.0)
    for tau, rho in some(vertices, 3):
        with mp.workdps(50):

            def gain(at, rho=rho):
                setting = {"tau": at, "alpha": mp.mpf(10), "kappa": mp.mpf(5), "rho": mp.mpf(rho)}
                small = mp.mpf(10) ** -30
                with_ridge = asymptotics.pretraining.icl_error(**setting, ridge=small)
                return (with_ridge - asymptotics.pretraining.icl_error(**setting)) / small

            root = mp.findroot(gain, (mp.mpf(tau) * 0.9999, mp.mpf(tau) * 1.0001), tol=1e-16)
            assert abs(root / tau - 1) < PLACE


@pytest.mark.parametrize(("name", "level"), [("fixed_dmmse", 2.0), ("null", 1.0)])
def test_levels_of_the_icl_error(name, level):
    grid = {"tau": np.geomspace(0.2, 5, 41), "alpha": np.geomspace(0.1, 300, 30)}
    fixed = {"kappa": 0.7, "rho": 0.1}
    vertices = lines_of(name, "icl_error", **grid, **fixed)
    tau, alpha = vertices.T
    errors = asymptotics.pretraining.icl_error(tau=tau, alpha=alpha, **fixed)
    np.testing.assert_allclose(errors, level + 0.1, rtol=1e-9)
    # dMMSE on k = kappa d tasks, at a dimension so large that its corrections are below 1e-3.
    if name == "fixed_dmmse":
        theta = np.log(0.7e9) / 1e9
        dmmse = asymptotics.pretraining.dmmse_errors(theta=theta, alpha=3.0, rho=0.1)
        assert dmmse.icl == pytest.approx(2.1, rel=1e-3)


def test_the_gap_line_separates_the_signs_of_the_gap():
    grid = {"tau": np.geomspace(0.05, 0.5, 60), "alpha": np.geomspace(1, 1e4, 50)}
    diagram = diagram_of("task_gap", **grid, kappa=0.1, rho=2.0)
    _brute_force_agrees(diagram, BOUNDARIES["gap"].label, diagram.values > 0)


# Other boundaries.


def _brute_force_agrees(diagram, label, above):
    """Every edge on which the brute-force region ends has a vertex, and no other edge has one."""
    vertices = np.concatenate(diagram.boundaries[label])
    for y, row in zip(diagram.y_grid, above, strict=True):
        changes = np.flatnonzero(np.diff(row.astype(int)))
        here = np.sort(vertices[vertices[:, 1] == y, 0])
        assert len(here) == len(changes)
        assert np.all((diagram.x_grid[changes] <= here) & (here <= diagram.x_grid[changes + 1]))
    assert above.any()
    assert not above.all()


def test_dmmse_freezes_where_its_errors_say():
    """On pretraining tasks it finds the task up to the line: its error is rho on one side only."""
    grid = {"theta": np.linspace(0.02, 1.5, 40), "alpha": np.geomspace(0.1, 30, 30)}
    diagram = diagram_of("dmmse_idg_error", **grid, rho=0.1)
    _brute_force_agrees(diagram, BOUNDARIES["identified"].label, diagram.values > 0.1)


def test_the_information_is_that_of_random_contexts():
    rng = np.random.default_rng(0)
    d = 200
    alpha = 2.0
    rho = 0.3
    samples = []
    for _ in range(20):
        context = rng.standard_normal((int(alpha * d), d)) / np.sqrt(d)
        samples.append(np.linalg.slogdet(np.eye(d) + context.T @ context / rho)[1] / (2 * d))
    theta = asymptotics.pretraining.context_information(alpha=alpha, rho=rho)
    assert np.mean(samples) == pytest.approx(theta, rel=5e-3)


def test_attention_beats_dmmse_on_one_side():
    diagram = diagram_of(
        "dmmse_icl_error", theta=np.linspace(0.02, 2, 40), alpha=np.geomspace(0.2, 30, 20), rho=0.1
    )
    q = 1.1 / diagram.y_grid[:, None]
    one_step = 0.1 + q / (1 + q)  # attention after unlimited pretraining: one step of descent
    _brute_force_agrees(diagram, BOUNDARIES["attention"].label, one_step > diagram.values)


@pytest.mark.parametrize("name", ["best_rate", "useless_rate"])
def test_rates_of_one_step(name):
    setting = {"dim": 10.0, "noise_variance": 0.5, "task_variance": 2.0}
    grid = {"context": np.geomspace(1, 100, 20), "rate": np.linspace(0.01, 2, 20)}
    vertices = lines_of(name, "learning_rate_loss", **grid, **setting)
    loss = asymptotics.descent.learning_rate_loss
    if name == "useless_rate":
        found = loss(vertices[:, 1], context=vertices[:, 0], **setting)
        np.testing.assert_allclose(found, 2.0 * 10 + 0.5, rtol=1e-12)
    else:
        for context, rate in some(vertices):
            near = rate * (1 + 1e-3 * np.arange(-20, 21))
            assert np.argmin(loss(near, context=context, **setting)) == 20


def test_divergence_is_that_of_the_iteration():
    """Residuals of many steps on a random spectrum grow on one side and shrink on the other."""
    grid = {"ratio": np.geomspace(0.2, 0.8, 10), "rate": np.geomspace(0.3, 3, 40)}
    vertices = lines_of("divergence", "constant_rate_loss", **grid, steps=5)
    rng = np.random.default_rng(1)
    d = 800
    for ratio, rate in some(vertices, 4):
        context = rng.standard_normal((round(d / ratio), d))
        largest = np.linalg.eigvalsh(context.T @ context / len(context))[-1]
        assert rate * largest == pytest.approx(2, rel=0.04)
    for factor, grows in ((0.97, False), (1.03, True)):
        few, many = (
            asymptotics.descent.schedule_loss(
                np.full((len(vertices), steps), factor) * vertices[:, 1:], ratio=vertices[:, 0]
            )
            for steps in (100, 400)
        )
        assert np.all((many > few) == grows)


def test_dampened_divergence_is_that_of_the_rate():
    grid = {"ratio": np.geomspace(0.1, 5, 10), "dampening": np.linspace(0.3, 3, 40)}
    vertices = lines_of("dampened_divergence", "dampened_loss", **grid, steps=5, noise_ratio=0.2)
    best = [
        float(asymptotics.descent.optimal_schedule(steps=1, ratio=c, noise_ratio=0.2).rates[0])
        for c in vertices[:, 0]
    ]
    edge = (1 + np.sqrt(vertices[:, 0])) ** 2
    np.testing.assert_allclose(vertices[:, 1] * best * edge, 2, rtol=1e-9)


def test_the_best_ridge_of_a_regression_is_its_noise():
    grid = {"penalty": np.geomspace(0.1, 5, 8), "noise_variance": np.geomspace(0.1, 5, 9)}
    sizes = {"context": 8, "dim": 5}
    for penalty, variance in some(lines_of("oracle", "ridge_risk", **grid, **sizes), 5):
        near = penalty * (1 + 1e-3 * np.arange(-20, 21))
        risks = asymptotics.gdpp.ridge_risk(near, noise_variance=variance, **sizes)
        assert np.argmin(risks) == 20


def test_half_of_the_drop_is_at_the_drop_time():
    setting = {"dim": 5.0, "context": 30.0, "noise_variance": 0.2}
    grid = {"t": np.linspace(0, 3, 20), "init_scale": np.geomspace(1e-3, 0.1, 9)}
    vertices = lines_of("half_drop", "merged_attention_loss", **grid, **setting)
    times = asymptotics.dynamics.merged_drop_time(init_scale=vertices[:, 1], **setting)
    np.testing.assert_allclose(vertices[:, 0], times, rtol=1e-9)


def test_overthinking_is_where_late_errors_grow():
    """Errors after 100 steps against those after 70, beside the closed threshold."""
    grid = {"tau": np.geomspace(1.2, 20, 7), "alpha": np.array([0.3, 0.5, 1.8, 4.0])}
    diagram = diagram_of("final_test_time_error", **grid)
    setting = {"alpha": grid["alpha"][:, None], "tau": grid["tau"]}
    errors = asymptotics.depth.test_time_errors(**setting, steps=100)
    grown = errors[..., -1] > 1.01 * errors[..., 70]
    _brute_force_agrees(diagram, BOUNDARIES["overthinking"].label, ~grown)


def test_errors_from_labels_grow_beyond_a_ratio_of_one():
    """Errors after 40 steps against those after 30, also in the window of few prompts."""
    grid = {
        "tau": np.array([0.55, 0.75, 0.9, 1.1, 2.0, 6.0]),
        "alpha": np.array([0.5, 2.0, 12.0, 30.0]),
    }
    setting = {"noise_variance": 0.1, "ridge": 0.02}
    diagram = diagram_of("overthinking_ratio", **grid, **setting)
    grown = np.empty(diagram.values.shape, dtype=bool)
    for row, alpha in enumerate(grid["alpha"]):
        for column, tau in enumerate(grid["tau"]):
            errors = asymptotics.depth.iterated_icl_errors(
                tau=tau, alpha=alpha, kappa=np.inf, **setting, steps=40
            )
            grown[row, column] = errors[-1] > 1.05 * errors[30]
    _brute_force_agrees(diagram, BOUNDARIES["growing_errors"].label, ~grown)


def test_unseen_directions_are_left_below_one():
    grid = {"alpha": np.linspace(0.2, 2.0, 30), "tau": np.array([30.0, 100.0])}
    diagram = diagram_of("test_time_error", steps=2, **grid)
    vertices = np.concatenate(diagram.boundaries[BOUNDARIES["unseen"].label])
    assert vertices[:, 0] == pytest.approx(1)


def test_the_best_number_of_prompts_jumps_where_few_and_many_prompts_err_alike():
    """On a fine grid the best tau is below 1 on one side of the line, and above on the other."""
    grid = {"budget": np.geomspace(2.5, 6, 9), "rho": np.array([0.0, 0.2, 0.6])}
    vertices = lines_of("jump", "ridgeless_budget_icl_error", **grid)
    tau = np.concatenate([np.linspace(0.02, 0.98, 400), np.geomspace(1.05, 40, 400)])
    for budget, rho in some(vertices, 4):
        best = [
            tau[
                np.argmin(
                    asymptotics.pretraining.icl_error(
                        tau=tau, alpha=near * budget / tau, kappa=np.inf, rho=rho
                    )
                )
            ]
            for near in (0.97, 1.03)
        ]
        assert best[0] < 1 < best[1]


def test_every_boundary_is_tested_here():
    source = Path(__file__).read_text(encoding="utf-8")
    by_objective = ["idg_context"]
    named = source.split("by_objective")[0]
    assert [name for name in BOUNDARIES if f'"{name}"' not in named] == by_objective


def test_gap_boundary_is_not_drawn_where_both_errors_diverge():
    """A grid through tau = 1: the gap is 10.6 and more on both sides and infinite between."""
    diagram = diagram_of(
        "task_gap", tau=np.linspace(0.5, 1.5, 11), alpha=np.linspace(0.5, 2, 5), kappa=1, rho=0.1
    )
    assert not [label for label in diagram.boundaries if "e_{\\mathrm{IDG}}$" in label]
