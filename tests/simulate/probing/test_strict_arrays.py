"""Every algorithm on array-api-strict arrays: what passes here uses no NumPy-only behaviour."""

from functools import partial

import array_api_strict
import numpy as np
import pytest
from prompt_arrays import arrays_of

from iclimit.problem import Problem
from iclimit.simulate.descent.steps import descend
from iclimit.simulate.probing import predictors
from iclimit.simulate.probing.prefixes import (
    by_prefix,
    prefix_delta_rule,
    prefix_dmmse,
    prefix_regression,
)
from iclimit.simulate.prompts import Prompts, sample_prompts

TASKS = np.random.default_rng(0).standard_normal((5, 3))
ROOT = np.array([[1.2, 0.4, 0.0], [0.4, 0.9, 0.2], [0.0, 0.2, 0.5]])
ALGORITHMS = {
    "steps": lambda drawn, _: descend(drawn, [0.3, 0.8]),
    "gd++": lambda drawn, _: predictors.gdpp_weights(drawn, [0.3, 0.8], [0.2]),
    "ridge": lambda drawn, to: predictors.regression_weights(drawn, 0.3, task_root=to(ROOT)),
    "least squares": lambda drawn, _: predictors.regression_weights(drawn, 0.0),
    "some penalties": lambda drawn, _: predictors.regression_weights(drawn, drawn.noise_variance),
    "adaptive ridge": lambda drawn, _: predictors.adaptive_ridge_weights(drawn, 2.0),
    "noise mixture": lambda drawn, to: predictors.noise_mixture_weights(
        drawn, to(np.array([0.1, 1.0])), to(np.array([0.3, 0.7])), 2.0
    ),
    "dmmse": lambda drawn, to: predictors.dmmse_weights(drawn, to(TASKS)),
    "neighbours": lambda drawn, _: predictors.nearest_neighbours(drawn, 3),
    "softmax": lambda drawn, _: predictors.softmax_heads(drawn, 0.5, 2.0, opposite=True),
    "in blocks": lambda drawn, _: predictors.in_blocks(
        partial(predictors.nearest_neighbours, neighbours=2), predictors.BLOCK_NUMBERS // 2
    )(drawn),
    "delta rule at positions": lambda drawn, to: prefix_delta_rule(drawn, to(np.full(99, 0.1))),
    "regression at positions": lambda drawn, _: prefix_regression(drawn, 0.0),
    "ridge at positions": lambda drawn, to: prefix_regression(drawn, 0.3, task_root=to(ROOT)),
    "dmmse at positions": lambda drawn, to: prefix_dmmse(drawn, to(TASKS)),
    "steps at positions": lambda drawn, _: by_prefix(
        lambda count: predictors.linear_predictor(lambda cut: descend(cut, [1.0 / count]))
    )(drawn),
}


def same(value):
    return value


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("context", [6, 2])
def test_algorithms_take_any_arrays(name, context):
    drawn = sample_prompts(
        Problem(dim=3, context=context, noise_law="categorical:0,1", scale=1), 5, rng=1
    )
    strict = Prompts(*map(array_api_strict.asarray, arrays_of(drawn).values()))
    found = ALGORITHMS[name](strict, array_api_strict.asarray)
    assert isinstance(found, type(strict.query))
    expected = ALGORITHMS[name](drawn, same)
    assert np.allclose(np.from_dlpack(found), expected, rtol=1e-10, atol=1e-12)
