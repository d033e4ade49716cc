"""Training curves of attention that several tests read: descent and flow on one law of inputs."""

import math
from functools import cache

import numpy as np

from iclimit.problem import Problem
from iclimit.simulate.dynamics import (
    AttentionModel,
    initial_weights,
    simulate_gradient_descent,
    simulate_gradient_flow,
)

LAM, CONTEXT = (0.6, 0.3, 0.1), 20
LAW = {"eigenvalues": LAM, "context": CONTEXT}
PROBLEM = Problem(dim=len(LAM), context=CONTEXT, input_covariance=LAM, scale=1)
MERGED = {"heads": 4, "init_scale": 1e-4, "learning_rate": 0.05}
SEPARATE = {"model": "separate", "heads": 4, "init_scale": 1e-2, **LAW}


@cache
def merged_descents(repeats):
    """Descents of merged attention on the law of the data."""
    law = {"training_set": math.inf, "repeats": repeats, "rng": 1}
    return simulate_gradient_descent(PROBLEM, steps=1600, record=4, **law, **MERGED)


@cache
def separate_flow():
    """Flow of separate attention as a table, and its initial weights."""
    scale = SEPARATE["init_scale"]
    model = {"model": "separate", "heads": 4, "init_scale": scale}
    flow = simulate_gradient_flow(PROBLEM, **model, duration=4000.0, rtol=1e-6, rng=5)
    value, key, query = initial_weights(AttentionModel("separate", 3, 4), scale, rng=5)
    times = np.arange(0, 4000, 0.5)
    weights = {"value": value[:, -1], "key": key[..., :-1], "query": query}
    return {"time": times, "loss": flow.at(times)}, weights
