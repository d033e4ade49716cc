"""What claims on trained networks measure, on networks that were hardly trained."""

import math

import numpy as np
import pytest

from iclimit.results import Estimate
from iclimit.simulate.networks import TokenSensitivities
from iclimit.validation import CLAIMS
from iclimit.validation.claim import Effort
from iclimit.validation.claims.networks import lstm, sine, transformer_transition
from iclimit.validation.claims.networks.lstm import LAW, NULL, OwnLstm, trained_lstm
from iclimit.validation.claims.softmax import double_descent
from iclimit.validation.claims.softmax.double_descent import FittedHeads, fitted_heads


def own_lstm(excess, distance):
    """What a network of this excess at this distance would give."""
    noise = np.random.default_rng(0).standard_normal((4, 10))
    step, difference, away, surplus = (0.003 * (row - row.mean()) for row in noise)
    return OwnLstm(
        losses=np.array([NULL, LAW + excess]),
        loss=Estimate.of(LAW + excess + step),
        step=Estimate.of(LAW + step),
        excess=Estimate.of(excess + difference),
        distance=Estimate.of(distance + away),
        gradient_distance=Estimate.of(0.3 * distance + away),
        cosine=Estimate.of(0.9 + away),
        surplus=Estimate.of(excess - distance + surplus),
    )


def judged(name, made_up, preset="full"):
    """Verdict on made-up results, by the arguments of their cells."""
    claim = CLAIMS[name]
    results = {cell: made_up(**dict(cell.parameters)) for cell in claim.cells(preset)}
    return claim.judge(preset, results)


@pytest.mark.parametrize(
    ("uni", "bi", "label"),
    [
        ((-0.02, 0.1), (-0.02, 0.1), None),
        ((0.05, 0.1), (-0.02, 0.1), "excess, ours, uni-directional"),
        ((-0.02, 0.1), (0.05, 0.04), "ours, bi-directional, layers 2"),
    ],
)
def test_lstm_notices_a_network_above_the_step(uni, bi, label):
    verdict = judged("lstm", lambda bidirectional, **_: own_lstm(*(bi if bidirectional else uni)))
    failures = [row.label for row in verdict.failures]
    assert any(label in each for each in failures) if label else not failures


@pytest.mark.parametrize("factor", [1.0, 0.3, 2.0])
def test_networks_of_whole_tokens_lie_between_two_optima(factor):
    def run(tied, embedded=None, **_):
        best = sine.optimum(tied, False)
        least = sine.optimum(tied, True)
        if embedded is None:
            return Estimate(best, 1e-4 * best, 1000)
        loss = factor * 0.5 * (best + least) if embedded == "tokens" else 1.005 * best
        estimate = Estimate(loss, 1e-3 * loss, 1000)
        return estimate, Estimate(1.005, 1e-4, 1000), np.ones(3)

    verdict = judged("sine", run)
    assert verdict.holds == (factor == 1.0)
    assert all("whole tokens" in row.label for row in verdict.failures if not row.pooled)


@pytest.mark.parametrize(
    ("loss", "others", "label"),
    [
        (0.52, 0.02, None),
        (0.9, 0.02, "loss of the best run"),
        (0.52, 0.2, "dependence on other tokens"),
    ],
)
def test_copying_notices_what_is_not_learned(loss, others, label):
    """All starts but the first fail, and the dependence of failed ones does not count."""

    def run(repeat, **_):
        after = TokenSensitivities(own=1.0, following=1.0, others=0.9 if repeat else others)
        value = 1.0 if repeat else loss
        held_out = Estimate(value, 1e-3, 100)
        return {"loss": held_out, "losses": np.ones(3), "before": after, "after": after}

    verdict = judged("copying", run, "quick")
    failures = [row.label for row in verdict.failures]
    assert any(label in each for each in failures) if label else not failures
    largest, failed = verdict.notes
    assert largest.endswith(f"{others:.2g}")
    assert failed.startswith(f"{3 + (loss == 0.9)} of 4 seeds failed, with 0%")


@pytest.mark.parametrize(
    ("loss", "label"),
    [
        (0.045, None),
        (0.5, "pairs over one linear"),
        (0.02, "linear layers over run"),
        (None, "no trained network"),
    ],
)
def test_softmax_layers_notice_losses_outside_the_bracket(loss, label):
    estimate = None if loss is None else Estimate(loss, 1e-4, 100)
    verdict = judged("softmax-layers", lambda **_: estimate, "quick")
    failures = [row.label for row in verdict.failures]
    assert any(label in each for each in failures) if label else not failures


def test_lstm_trains_networks_in_the_larger_presets():
    claim = CLAIMS["lstm"]
    cells = [len(list(claim.cells(each))) for each in ("quick", "medium", "full", "day")]
    assert cells == [0, 0, 2, 5]
    assert list(claim.rows(Effort("quick")))


def test_network_without_training_is_at_the_distance_of_the_null_predictor(monkeypatch):
    monkeypatch.setattr(lstm, "BLOCKS", 5)
    sizes = {"layers": 1, "hidden": 4, "bidirectional": True, "batch": 4, "steps": 50}
    run = trained_lstm(**sizes, rng=np.random.SeedSequence(0))
    assert run.losses.shape == (50 + 1,)
    # Its predictions are small, not zero: a few percent of the labels.
    assert run.loss.mean == pytest.approx(NULL, rel=0.1)
    assert abs(run.step.z(LAW)) < 4
    assert run.distance.mean == pytest.approx(NULL - LAW, rel=0.1)
    assert run.gradient_distance.mean == pytest.approx(0.3 * (NULL - LAW), rel=0.1)
    assert run.surplus.mean == pytest.approx(run.loss.mean - run.step.mean - run.distance.mean)


def test_fits_of_a_softmax_head_have_errors_with_the_noise_of_the_label():
    heads = fitted_heads(tau=0.5, repeats=2, iterations=1, rng=np.random.SeedSequence(1))
    # After one iteration the head has learned little, or the wrong thing.
    assert all(each > 0.8 * double_descent.NULL for each in heads.test)
    assert heads.converged == 0
    assert len(set(heads.training)) == 2


def test_fits_of_a_softmax_head_that_failed_are_left_out():
    near = 0.004 * np.linspace(-1, 1, 8)
    fits = FittedHeads([*(0.88 + near), 1.0], [*(0.68 * (1 + near)), 0.95], 8)
    assert fits.succeeded.shape == (2, 8)
    assert "1 of 9 at tau=30" in double_descent.describe({30.0: fits}, 300)


@pytest.mark.parametrize(("factor", "holds"), [(1.0, True), (1.2, False), (0.8, False)])
def test_transformers_of_other_errors_are_noticed(factor, holds):
    def made_up(repeat=None, tasks=None, network=None, prompts=None):  # noqa: ARG001
        if network is not None:
            values = {
                name: value
                for (own, name), value in transformer_transition.RECORDED.items()
                if own == network
            }
            return {name: Estimate(value[0], 1e-4, 1000) for name, value in values.items()}
        # Seeds scatter by 3 %, as on record for fresh tasks.
        means = {4: 1.0, 16: 0.5, 64: 0.320, math.inf: 0.331}
        offsets = np.linspace(-1, 1, 8) * 0.03 * np.sqrt(3)
        return factor * means[tasks] * (1 + offsets[repeat])

    assert judged("transformer-transition", made_up).holds == holds
