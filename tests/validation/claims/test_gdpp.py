"""The claims on GD++ can fail: results or theory that are off must turn the verdict."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from judged_claims import Results, draw, failed, judge, run_cells

from iclimit.results import Estimate
from iclimit.simulate.gdpp import layer_spectra
from iclimit.validation.claims.gdpp import error, layers, reached, spectrum
from iclimit.validation.claims.gdpp.controls import spectral_controls, trace_controls
from iclimit.validation.claims.gdpp.minima import errors, local_minima
from iclimit.validation.claims.gdpp.reached import METHODS, TARGETS

OTHER = {"optimal": "monotone", "monotone": "optimal"}


@pytest.fixture(scope="module", autouse=True)
def small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spectrum, "EIGENVALUES", {"quick": 3000})
        patch.setattr(error, "CONTEXTS", {"quick": 500})
        yield


@pytest.fixture(scope="module")
def spectra(small: None) -> Results:  # noqa: ARG001
    return run_cells("gdpp-spectrum")


@pytest.fixture(scope="module")
def counts() -> Results:
    return run_cells("gdpp-layers")


@pytest.fixture(scope="module")
def losses(small: None) -> Results:  # noqa: ARG001
    return run_cells("gdpp-error")


# Spectra layer by layer.


def test_spectra_hold_and_draw(spectra: Results) -> None:
    verdict = judge("gdpp-spectrum", spectra)
    assert verdict.holds, failed(verdict)
    labels = [c.label for c in verdict.comparisons]
    assert len(set(labels)) == len(labels)
    means = 2 * len(spectrum.SIZES) * spectrum.LAYERS
    assert sum("mean eigenvalue" in label for label in labels) == means
    fields = {row.of.partition(".")[2] for row in verdict.comparisons if "schedule" in row.of}
    assert fields == {"condition_number", "excess", "top", "residual", "final_rate"}
    draw(verdict)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("layer", range(1, spectrum.LAYERS + 1))
def test_every_mean_eigenvalue_can_fail(method: str, layer: int, spectra: Results) -> None:
    for dim in spectrum.SIZES:
        key = "means", method, dim
        run = spectra[key]
        means = [*run.means]
        means[layer - 1] = moved(means[layer - 1], 8 * means[layer - 1].standard_error)
        found = failed(judge("gdpp-spectrum", spectra | {key: replace(run, means=means)}))
        label = f"mean eigenvalue after {layer} layers, {method}, d = {dim}"
        assert label in found
        assert all("common" in other or other == label for other in found)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kappa", [10.0, 1e3])
def test_every_image_can_fail(method: str, kappa: float, spectra: Results) -> None:
    key = "image", method, kappa, 1.0
    layers = spectra[key].shape[1]
    assert layers > 3
    for end, name in enumerate(("lower", "upper")):
        for layer in range(layers):
            ends = layer in (0, layers - 1)
            for factor in (1 - 3e-7, math.nan) if ends else (1 - 3e-7,):
                image = spectra[key].copy()
                image[end, layer] *= factor
                found = failed(judge("gdpp-spectrum", spectra | {key: image}))
                setting = f"up to 1, {method}, from {kappa:g}: worst after {layer} layers"
                assert f"{name} {setting}" in found
                assert f"condition_number {setting}" in found
                assert all(label.endswith(setting) for label in found)


def test_wrong_theories_of_the_spectrum_fail(
    spectra: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact, schedule = spectrum.eigenvalues_after, spectrum.condition_number_schedule
    with monkeypatch.context() as patch:
        patch.setattr(spectrum, "eigenvalues_after", lambda e, g: exact(e, 1.02 * np.array(g)))
        found = failed(judge("gdpp-spectrum", spectra))
        for kind in ("mean eigenvalue", "least eigenvalue", "largest eigenvalue"):
            assert {label.split(", ")[1] for label in found if kind in label} == set(METHODS)
        assert all("eigenvalue" in label for label in found)
    with monkeypatch.context() as patch:
        # The methods exchanged, for the condition numbers only.
        gammas = {method: spectrum.gammas_of(method) for method in METHODS}
        right = {(m, k): spectrum.schedule_of(m, k) for m in METHODS for k in spectrum.STARTS}
        patch.setattr(spectrum, "gammas_of", gammas.__getitem__)
        patch.setattr(
            spectrum,
            "schedule_of",
            lambda method, start: schedule(
                start, steps=len(right[method, start].gammas), method=OTHER[method]
            ),
        )
        found = failed(judge("gdpp-spectrum", spectra))
        assert len(found) > 20
        assert not any("eigenvalue" in label for label in found)


def test_spectra_of_layers_by_hand() -> None:
    found = spectrum.spectral_means(gammas=(0.3, 0.4), dim=3, contexts=40, rng=5)
    x = np.random.default_rng(5).standard_normal((40, 12, 3))
    traces = np.empty((40, 3))
    for k, z in enumerate(x):
        for layer, gamma in enumerate((0.3, 0.4, 0.0)):
            covariance = z.T @ z / 12
            traces[k, layer] = np.trace(covariance) / 3
            if k == 0:
                right = np.linalg.eigvalsh(covariance)
                np.testing.assert_allclose(found.context[layer], right, rtol=1e-12)
            z = z @ (np.eye(3) - gamma * covariance)
    for estimate, plain in zip(found.means, traces[:, 1:].T, strict=True):
        assert abs(estimate.mean - np.mean(plain)) < np.std(plain)
        assert estimate.standard_error < np.std(plain) / math.sqrt(40)


def test_images_of_an_interval() -> None:
    """One layer maps the eigenvalues from 1/30 to 1 by e (1 - e/5)^2, which increases."""
    found = reached.image_ends(gammas=(0.2,), lower=1 / 30, upper=1.0, rng=0)
    ends = [[e, e * (1 - 0.2 * e) ** 2] for e in (1 / 30, 1)]
    np.testing.assert_allclose(found, ends, rtol=1e-12)


def test_the_last_step_alone_leaves_the_residual_of_the_condition_number() -> None:
    """(kappa - 1)/(kappa + 1) at the best rate, 1 - 1/kappa at rate 1."""
    errors = reached.reached_layers(condition_number=30.0, gammas=(0.2,), rates=(60 / 31,), rng=0)
    assert errors == [pytest.approx(29 / 31, rel=1e-9)]
    found = reached.largest_error(rates=(1.0,), gammas=(), condition_number=30.0, rng=0)
    assert found == pytest.approx(29 / 30, rel=1e-12)
    x = np.random.default_rng(1).standard_normal((2, 9, 4))
    assert layer_spectra(x, [0.1]).shape == (2, 2, 4)


# Numbers of layers.


def test_layers_hold_and_draw(counts: Results) -> None:
    verdict = judge("gdpp-layers", counts)
    assert verdict.holds, failed(verdict)
    count = 2 * len(reached.STARTS) * len(TARGETS)
    assert len(verdict.comparisons) == count + 2 + 4 + 2 * len(layers.WORST)
    draw(verdict)


def later(errors: list[float]) -> list[float]:
    return [1.0, *errors]


def sooner(errors: list[float]) -> list[float]:
    return errors[1:]


def never(errors: list[float]) -> list[float]:
    return [1.0] * len(errors)


@pytest.mark.parametrize("change", [later, sooner, never])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kappa", reached.STARTS)
def test_one_layer_more_or_less_fails(
    method: str, kappa: float, change: Callable[[list[float]], list[float]], counts: Results
) -> None:
    key = method, kappa
    assert failed(judge("gdpp-layers", counts | {key: change(counts[key])})) == [
        f"layers from {kappa:g} to an error of {target:g}, {method}" for target in TARGETS
    ]


def test_wrong_numbers_of_layers_fail(counts: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    """One layer more everywhere changes no growth."""
    exact = layers.steps_needed
    monkeypatch.setattr(layers, "steps_needed", lambda *a, **k: exact(*a, **k) + 1)
    assert failed(judge("gdpp-layers", counts)) == [
        f"layers from {kappa:g} to an error of {target:g}, {method}"
        for method in METHODS
        for kappa in reached.STARTS
        for target in TARGETS
    ] + [f"layers from 1e+12 to an excess of 1e-06, {method}" for method in METHODS]


def test_every_largest_error_can_fail(counts: Results) -> None:
    for condition, number in layers.WORST.items():
        key = "worst", condition
        for factor in (1 - 1e-8, 1 + 1e-8, math.nan):
            found = failed(judge("gdpp-layers", counts | {key: factor * counts[key]}))
            label = f"largest error of {number} layers, condition number {condition:g}"
            assert found == [label, label]


GROWTHS = {
    "kappa": "layers from 10000 to 1e+40",
    "excess": "layers from an excess of 1e-10 to 1e-160",
}
LIMITS = {
    ("kappa", "optimal"): 36 * math.log(10) / math.log(27 / 4),
    ("kappa", "monotone"): 36 * math.log(10) / math.log(9 / 4),
    ("excess", "optimal"): 4.0,
    ("excess", "monotone"): 4.0,
}
"""Layers for 36 powers of ten, and for sixteen times the digits."""


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", GROWTHS)
def test_every_growth_of_the_layers_can_fail(
    name: str, method: str, counts: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = layers.steps_needed

    def judged(
        factor: float = 1.0, more: float = 0.0, difference: float | None = None
    ) -> list[str]:
        def wrong(kappa: Any, tol: Any, *, method: str) -> Any:
            counts = exact(kappa, tol, method=method)
            several = np.size(kappa if name == "kappa" else tol) > 1
            if not several or method != chosen:
                return counts
            if difference is not None:
                return counts[0] + np.array([0, difference])
            return factor * counts + more

        monkeypatch.setattr(layers, "steps_needed", wrong)
        return failed(judge("gdpp-layers", counts))

    chosen = method
    label = f"{GROWTHS[name]}, {method}"
    assert judged(more=3) == []
    # Differences within a layer of the limit, and no others.
    limit = LIMITS[name, method]
    for difference in (*range(round(limit) - 3, round(limit) + 4), math.nan):
        found = judged(difference=difference)
        assert found == ([] if abs(difference - limit) <= 1 else [label])
    # Rates off: by 5 % of some forty or a hundred layers, by more of three or four.
    for factor in (0.95, 1.05) if name == "kappa" else (0.66, 1.7):
        assert judged(factor) == [label]


def test_exchanged_growths_fail(counts: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of kappa only: log log 1/eps has the same factor for both methods."""
    exact = layers.steps_needed
    monkeypatch.setattr(
        layers,
        "steps_needed",
        lambda *a, method: exact(
            *a, method=OTHER[method] if np.ndim(a[0]) or np.ndim(a[1]) else method
        ),
    )
    assert failed(judge("gdpp-layers", counts)) == [
        f"{GROWTHS['kappa']}, {method}" for method in METHODS
    ]


# Test errors.


def test_errors_hold(losses: Results) -> None:
    verdict = judge("gdpp-error", losses)
    assert verdict.holds, failed(verdict)
    # Losses at every size and in the limit; the best of two layers, its bound, and two minima.
    assert len(verdict.comparisons) == 2 * (len(error.SIZES) + 1) + 2 * 4


def test_the_figure_of_errors(losses: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    """With two layers for more: the search for the best three takes a second."""
    exact = error.optimal_gdpp
    monkeypatch.setattr(error, "optimal_gdpp", lambda n, **k: exact(min(n, 2), **k))
    draw(judge("gdpp-error", losses))


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("count", [2, 3])
def test_every_error_can_fail(count: int, sign: int, losses: Results) -> None:
    for dim in error.SIZES:
        run = losses[count, dim]
        one = losses | {(count, dim): moved(run, 7 * sign * run.standard_error)}
        # The extrapolation meets a power series no more, and may fail too.
        found = failed(judge("gdpp-error", one))
        assert f"{count} layers, d = {dim}, exact" in found
        assert all(label.startswith(f"{count} layers") or "common" in label for label in found)


def moved(run: Estimate, shift: float) -> Estimate:
    return replace(run, mean=run.mean + shift, samples=run.samples + shift)


def test_wrong_theories_of_the_error_fail(
    losses: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = error.gdpp_loss
    finite = {f"{n} layers, d = {dim}, exact" for n in (2, 3) for dim in error.SIZES}
    limits = {f"{n} layers, d to infinity" for n in (2, 3)}

    def judged(theory: Callable[..., Any]) -> set[str]:
        with monkeypatch.context() as patch:
            patch.setattr(error, "gdpp_loss", theory)
            return {each for each in failed(judge("gdpp-error", losses)) if "common" not in each}

    # Without noise, and with half its variance.
    assert judged(lambda *a, **k: exact(*a, **k | {"noise_ratio": 0.0})) >= finite
    assert judged(lambda *a, **k: exact(*a, **k | {"noise_ratio": k["noise_ratio"] / 2})) >= finite
    # The limit in place of the loss at finite size.
    only = judged(lambda *a, noise_ratio, **_: exact(*a, ratio=0.5, noise_ratio=noise_ratio))
    assert only == finite
    # A wrong limit only: 500 contexts for the smallest size know it to 1 % (measured).
    wrong = judged(lambda *a, **k: exact(*a, **k) * (1.08 if "ratio" in k else 1.0))
    assert wrong == limits


@pytest.mark.parametrize("name", ["optimal_gdpp", "gdpp_minima"])
def test_wrong_minima_fail(name: str, losses: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    search = getattr(error, name)

    def wrong(*args: Any, **kwargs: Any) -> Any:
        found = search(*args, **kwargs)
        several = found if isinstance(found, list) else [found]
        several = [replace(each, loss=each.loss * (1 + 1e-9)) for each in several]
        return several if isinstance(found, list) else several[0]

    monkeypatch.setattr(error, name, wrong)
    found = failed(judge("gdpp-error", losses))
    kind = {"optimal_gdpp": "least loss", "gdpp_minima": "minimum"}[name]
    assert len(found) >= 2
    assert all(label.startswith(kind) for label in found)


def test_minima_are_where_the_gradient_vanishes() -> None:
    """One layer without noise: eta = m1/m2, loss 1 - m1^2/m2."""
    nodes, weights = np.array([0.5, 1.0, 2.5]), np.array([0.3, 0.5, 0.2])
    first, second = weights @ nodes, weights @ nodes**2
    (found,) = local_minima(nodes, weights, 0.0, layers=1, starts=5, rng=0)
    assert found == pytest.approx([first / second], rel=1e-7)
    bias, root = errors(found, nodes, 0.0)
    assert weights @ bias**2 == pytest.approx(1 - first**2 / second, rel=1e-12)
    assert not root.any()
    # Two layers, by hand: the second sees preconditioned eigenvalues.
    bias, root = errors([0.3, 0.4, 0.2], np.array([2.0]), 0.5)
    assert bias == pytest.approx([(1 - 0.6) * (1 - 0.4 * 2 * 0.6**2)])
    assert root == pytest.approx(math.sqrt(0.5) * (1 - bias) / math.sqrt(2.0))


def test_trace_controls_are_centred() -> None:
    x = np.random.default_rng(4).standard_normal((5000, 9, 4))
    gram = x.transpose(0, 2, 1) @ x
    controls = trace_controls(gram, 9)
    assert controls[7, 0] == pytest.approx(np.sum(x[7] ** 2) / 36 - 1)
    for control in controls.T:
        assert abs(Estimate.of(control).z(0)) < 4
    same = spectral_controls(np.linalg.eigvalsh(gram), 9)[:, :2]
    np.testing.assert_allclose(same, controls, atol=1e-12)
