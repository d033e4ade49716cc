"""Linear attention on token matrices, its reduced form, and explicit loops."""

import numpy as np
from token_attention import features, linear_attention, predict, token_matrix, weights_from_gamma

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.prompts import context_summary, draw_prompts
from iclimit.simulate.prompts.sampling import draw_fresh_tasks
from iclimit.simulate.prompts.summary_moments import squared_errors

ROUNDING = 1e-12  # relative; sums of at most a few hundred products of order one
BACKEND = get_backend("numpy")
SIZES = [(1, 1), (1, 5), (2, 1), (3, 4), (8, 5), (6, 30)]


def draw(d, context, n=12, rho=0.2):
    """Prompts and a random gamma of order one."""
    generator = np.random.default_rng([d, context])
    tasks = draw_fresh_tasks(Problem(d, 1, task_law="gaussian"), BACKEND, generator, n)
    prompts = draw_prompts(
        Problem(tasks.shape[1], context, noise_variance=rho), BACKEND, generator, tasks=tasks
    )
    return prompts, generator.standard_normal((d, d + 1))


def loop_attention(Z, value, key, query):
    """A(Z) = Z + V Z (K Z)^T (Q Z) / l for one token matrix, entry by entry."""
    size, columns = Z.shape
    out = Z.copy()
    for a in range(size):
        for c in range(columns):
            for b in range(columns):
                moved = sum(value[a, e] * Z[e, b] for e in range(size))
                score = sum(
                    key[e, f] * Z[f, b] * query[e, g] * Z[g, c]
                    for e in range(size)
                    for f in range(size)
                    for g in range(size)
                )
                out[a, c] += moved * score / (columns - 1)
    return out


def test_forward_pass_equals_loops():
    generator = np.random.default_rng(1)
    Z = generator.standard_normal((2, 3, 4))
    value, key, query = generator.standard_normal((3, 3, 3))
    out = linear_attention(Z, value, key, query)
    for m in range(2):
        expected = loop_attention(Z[m], value, key, query)
        np.testing.assert_allclose(out[m], expected, rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_array_equal(predict(Z, value, key, query), out[:, 2, 3])


def test_full_pass_equals_reduced_form():
    for d, context in SIZES:
        prompts, gamma = draw(d, context)
        full = predict(token_matrix(prompts), *weights_from_gamma(gamma))
        summary = context_summary(prompts)
        inner = np.sum(gamma * features(prompts.query, summary), axis=(1, 2))
        bilinear = np.array([x @ gamma @ h for x, h in zip(prompts.query, summary, strict=True)])
        scale = np.max(np.abs(full))
        np.testing.assert_allclose(inner, full, rtol=0, atol=ROUNDING * scale)
        np.testing.assert_allclose(bilinear, full, rtol=0, atol=ROUNDING * scale)
        np.testing.assert_allclose(
            squared_errors(gamma, prompts.query, summary, prompts.query_label),
            (prompts.query_label - full) ** 2,
            rtol=0,
            atol=ROUNDING * (scale + np.max(np.abs(prompts.query_label))) ** 2,
        )


def test_context_summary_equals_loops():
    prompts, _ = draw(3, 4)
    summary = context_summary(prompts)
    assert summary.shape == (12, 4)
    for m in range(12):
        first = np.zeros(3)
        last = 0.0
        for i in range(4):
            first += 3 / 4 * prompts.labels[m, i] * prompts.inputs[m, i]
            last += prompts.labels[m, i] ** 2 / 4
        np.testing.assert_allclose(summary[m], [*first, last], rtol=ROUNDING, atol=1e-15)
