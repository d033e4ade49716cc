"""How results print: in short whatever their size, in notebooks, as data frames."""

import sys
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import iclimit
from iclimit.results import Result

CURVE: dict[str, Any] = {"tau": np.linspace(1.5, 3, 40), "alpha": 1, "kappa": 1, "rho": 0.1}


def results() -> dict[str, Any]:
    """Results of every subject with large arrays in them."""
    line = np.linspace(0.1, 1, 500)
    problem = iclimit.descent.Regression(context=4, dim=3)
    mixture = iclimit.dynamics.TaskMixture([0.6, 0.4], 6)
    spectrum = iclimit.JointSpectrum.of_matrices([1.6, 0.4])
    run: dict[str, Any] = {"dim": 6, "context": 6, "tasks": 4, "prompts": 60, "rho": 0.1, "rng": 0}
    structured: dict[str, Any] = {
        "tau": 2 * line,
        "alpha": 1,
        "kappa": 1,
        "rho": 0.1,
        "spectrum": spectrum,
    }
    return {
        "simulated": iclimit.simulate_errors(**run, repeats=50),
        "predicted": iclimit.finite_size_errors(**run, draws=50),
        "trained": iclimit.train_attention(problem, rng=0, steps=100),
        "structured": iclimit.structured_errors(**structured),
        "rates": iclimit.optimal_learning_rate(context=np.arange(1, 900), dim=3),
        "schedule": iclimit.condition_number_schedule(1e4, steps=30),
        "softmax": iclimit.optimal_softmax(context=8, dim=np.arange(1, 12)),
        "dynamics": iclimit.dynamics.simulate_gradient_descent(
            mixture, heads=2, init_scale=0.1, training_set=200, learning_rate=0.05, steps=50, rng=0
        ),
        "curves": iclimit.curve("icl_error", **CURVE),
        "diagram": iclimit.phase_diagram(
            "bayes_error", x="alpha", y="rho", alpha=line + 1, rho=line
        ),
    }


class Cells(HTMLParser):
    """Texts of a page, and how deep its tags go at the end."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.open = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:  # noqa: ARG002
        self.open += 1

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002
        self.open -= 1

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_results_print_in_short() -> None:
    for name, result in results().items():
        assert isinstance(result, Result), name
        assert len(repr(result)) < 500, f"{name}: {result!r}"
        assert "\n" not in repr(result)
        page = result._repr_html_()
        assert len(page) < 5000, name
        assert Cells(page).open == 0


def test_numbers_are_in_what_is_printed() -> None:
    run = iclimit.simulate_errors(dim=6, context=6, tasks=4, prompts=60, rho=0.1, rng=0, repeats=4)
    assert repr(run) == f"SimulatedErrors(icl={run.icl}, idg={run.idg})"
    assert str(run.icl) in Cells(run._repr_html_()).texts
    best = iclimit.optimal_learning_rate(context=10, dim=10)
    assert repr(best) == f"LearningRate(rate={best.rate:.6g}, loss={best.loss:.6g})"


def test_text_is_escaped() -> None:
    row = {"icl": 1.2, "icl_se": 0.1, "tau": 2, "alpha": 1, "kappa": 1, "rho": 0.1, "dim": 20}
    page = iclimit.check_runs([row])._repr_html_()
    assert page.startswith("<pre>")
    assert "<" not in page.removeprefix("<pre>").removesuffix("</pre>")


def test_gaps_do_not_spoil_a_mean() -> None:
    curves = iclimit.curve(
        "icl_error", **CURVE | {"tau": [1.5, 3]}, simulation={"dim": 6, "repeats": 2}, jobs=1
    )
    frame = curves.to_pandas()
    assert list(frame.columns) == list(curves.rows()[0])
    assert frame["standard_error"].mean() > 0
    assert frame["dim"].isna().sum() == 2
    assert frame.groupby("source")["value"].mean().loc["theory"] == pytest.approx(
        curves.values.mean()
    )
    texts = Cells(curves._repr_html_()).texts
    assert texts[:2] == ["source", "quantity"]
    assert f"... {len(frame)} rows" in texts


def test_pandas_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="to_pandas needs pandas: pip install pandas"):
        iclimit.curve("icl_error", **CURVE).to_pandas()
