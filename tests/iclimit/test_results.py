"""The contract of results, and means and medians with their standard errors."""

import importlib
import itertools
import json
import math
import pkgutil
from dataclasses import dataclass, field, fields

import numpy as np
import pytest
from refusals import type_error, value_error
from result_contract import Cells

import iclimit
from iclimit.figure_files import figure_parameters
from iclimit.results import Ending, Estimate, Judgement, Result

pytestmark = pytest.mark.usefixtures("few_predictions")

CURVE = {"tau": np.linspace(1.5, 3, 40), "alpha": 1, "kappa": 1, "rho": 0.1}
DERIVED = {"plot", "to_pandas", "endings", "__repr__", "_repr_html_"}
"""What follows from the rest of a result; no class has its own."""


def subclasses(cls):
    """All subclasses of a class."""
    for each in cls.__subclasses__():
        yield each
        yield from subclasses(each)


def test_every_result_keeps_the_contract_and_no_more():
    """Examples of docstrings show what results do (test_doctests)."""
    for _, name, _ in pkgutil.walk_packages(iclimit.__path__, "iclimit."):
        if not name.endswith("__main__"):
            importlib.import_module(name)
    for each in subclasses(Result):
        if each.__module__.startswith("iclimit."):
            # A plot with points of one's own has an argument more.
            own = {"plot"} if "with_points" in vars(each) else set()
            assert not (DERIVED - own) & vars(each).keys(), each
            names = {attribute.name for attribute in fields(each)}
            assert not names & vars(Result).keys(), f"{each}: fields named like methods"


@dataclass(frozen=True, repr=False)
class Errors(Result):
    """Errors by algorithm and number of examples."""

    names: list
    error: tuple
    exact: np.ndarray
    weights: np.ndarray
    scale: float = 2.0
    parameters: dict = field(default_factory=lambda: {"dim": 3, "law": "gaussian"}, repr=False)

    dims = ("algorithm", "examples")

    def columns(self):
        shown = {"error": self.error, "exact": self.exact, "weights": self.weights}
        return {"algorithm": self.names, "examples": [0, 5], **shown, "kind": "fresh"}

    def draw(self, ax, **line):
        ax.plot([0, 5], self.exact.T, **line)


@pytest.fixture
def errors():
    several = tuple(tuple(Estimate(i + j, 0.1, 5) for j in range(2)) for i in range(3))
    return Errors(["a", "b", "c"], several, np.arange(6.0).reshape(3, 2), np.ones((4, 4)))


def test_columns_are_declared_once(errors, tmp_path):
    rows = errors.rows()
    assert len(rows) == 6
    assert rows[3] == {
        "algorithm": "b",
        "examples": 5,
        "error": 2.0,
        "error_standard_error": 0.1,
        "exact": 3.0,
        "kind": "fresh",
    }
    arrays = errors.to_xarray()
    assert arrays["exact"].sel(algorithm="b", examples=5) == 3
    assert arrays.attrs == {"scale": 2.0, "dim": 3, "law": "gaussian"}
    assert arrays["algorithm"].dims == ("algorithm",)
    errors.write(tmp_path / "errors.json")
    written = json.loads((tmp_path / "errors.json").read_text())
    assert written["error"][2][1] == {"mean": 3, "standard_error": 0.1}
    assert written["weights"] == np.ones((4, 4)).tolist()
    errors.write(tmp_path / "errors.svg", parameters={"why": "test"}, linewidth=3)
    assert figure_parameters(tmp_path / "errors.svg")["why"] == "test"
    for name in ("errors", "errors.txt"):
        with pytest.raises(ValueError, match=r"path must end in \.csv, \.json, \.nc, .*errors"):
            errors.write(tmp_path / name)


def test_a_result_without_a_figure_says_so(tmp_path):
    best = iclimit.optimal_learning_rate(context=10, dim=10)
    type_error("LearningRate has no figure", best.plot)
    type_error("ax must be matplotlib axes, got .curve.png.: write", best.plot, "curve.png")
    value_error("path must end in", best.write, tmp_path / "best.png")


def test_long_results_print_in_short():
    line = np.linspace(0.1, 1, 500)
    for result in (
        iclimit.optimal_learning_rate(context=np.arange(1, 900), dim=3),
        iclimit.pretraining.structured_errors(
            tau=2 * line,
            alpha=1,
            kappa=1,
            rho=0.1,
            spectrum=iclimit.pretraining.JointSpectrum.of_matrices([1.6, 0.4]),
        ),
        iclimit.gdpp.condition_number_schedule(1e4, steps=30),
        iclimit.phase_diagram("bayes_error", x="alpha", y="rho", alpha=line + 1, rho=line),
        iclimit.curve("icl_error", **CURVE),
    ):
        assert len(repr(result)) < 500
        assert "\n" not in repr(result)
        assert len(result._text_html()) < 5000


def test_numbers_are_in_what_is_printed():
    run = iclimit.simulate_errors(dim=6, context=6, tasks=4, prompts=60, rho=0.1, rng=0, repeats=4)
    assert repr(run) == f"Samples(icl={run.icl}, idg={run.idg})"
    assert str(run.icl) in Cells(run._repr_html_()).texts
    best = iclimit.optimal_learning_rate(context=10, dim=10)
    assert repr(best) == f"LearningRate(rate={best.rate:.6g}, loss={best.loss:.6g})"


def test_text_is_escaped():
    verdict = Judgement("none", False, "<It> & nothing else")
    assert verdict._repr_html_() == "<pre>&lt;It&gt; &amp; nothing else</pre>"


def test_gaps_do_not_spoil_a_mean():
    curves = iclimit.curve(
        "icl_error", **CURVE | {"tau": [1.5, 3]}, simulation={"dim": 6, "repeats": 2}, jobs=1
    )
    frame = curves.to_pandas()
    assert list(frame.columns) == list(curves.rows()[0])
    assert frame["standard_error"].mean() > 0
    assert frame["dim"].isna().sum() == 2
    expected = curves.values.mean()
    assert frame.groupby("source")["value"].mean().loc["theory"] == pytest.approx(expected)
    texts = Cells(curves._repr_html_()).texts
    assert texts[:2] == ["source", "quantity"]


def test_endings_have_advice():
    assert Ending.of(converged=True, interrupted=True).interrupted
    assert Ending.of(converged=True).advice == ""
    assert "allow more" in Ending.of(converged=False).advice
    value_error(r"kind must be one of converged, .*, got 'done'", Ending, "done")


def test_tiny_numbers_have_an_exponent():
    for mean, error, text in (
        (1.284, 0.012, "1.284(12)"),
        (1.59e-29, 1.3e-30, "1.59(13)e-29"),
        (-3e-12, 2e-13, "-3.00(20)e-12"),
        (0.2, 5e-14, "0.200000000000000(50)"),
        (0.0, 1e-30, "0.0(10)e-30"),
        (5e-324, 5e-324, "4.94066e-324"),
    ):
        assert str(Estimate(mean, error, 9)) == text


def test_error_of_the_median_is_that_of_all_samples_with_replacement():
    drawn = [0.3, 1.0, 1.7, 4.0, 9.0]
    medians = [np.median(each) for each in itertools.product(drawn, repeat=5)]
    found = Estimate.of_median(drawn[::-1])
    assert found.mean == 1.7
    assert found.standard_error == pytest.approx(np.std(medians), rel=1e-13)


def test_median_does_not_notice_rare_infinite_samples():
    """For n normal samples the error is (pi / 2n)^(1/2)."""
    drawn = np.random.default_rng(0).standard_normal(4000)
    finite = Estimate.of_median(drawn)
    assert abs(finite.z(0.0)) < 4
    assert finite.standard_error == pytest.approx(math.sqrt(math.pi / 8000), rel=0.2)
    wild = Estimate.of_median(np.where(drawn > 1.5, math.inf, drawn))
    assert wild.mean == finite.mean
    assert wild.standard_error == pytest.approx(finite.standard_error, rel=1e-9)
    mostly = Estimate.of_median([1.0, math.inf, math.inf])
    assert mostly.mean == mostly.standard_error == math.inf
    assert Estimate.of_median([1.0, 2.0]) == Estimate.of([1.0, 2.0])
