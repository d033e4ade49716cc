"""Several queries after one context: plain runs, one query, and another program's numbers."""

import numpy as np
import pytest
from sequence_runs import exact_errors, on_sphere

from iclimit.asymptotics.pretraining import icl_error, shared_context_errors

# Half a unit of the last digit of the numbers of another program, which iterates responses.
ROUNDED = 6e-7
# Standard errors that the worst of a few simulated numbers may lie off.
SIGMAS = 4.0


@pytest.mark.parametrize(
    ("point", "icl"),
    [
        ((2, 1, 1.5, 0.1, 0.1), 1.076210),
        ((1, 2, 1.5, 0.1, 0.3), 0.999971),
        ((3, 0.5, 2, 0.2, 0.05), 1.457952),
    ],
)
def test_numbers_of_another_program(point, icl):
    names = ("sequence_ratio", "query_ratio", "alpha", "rho", "ridge")
    errors = shared_context_errors(**dict(zip(names, point, strict=True)))
    assert errors.icl == pytest.approx(icl, abs=ROUNDED)


def test_single_queries_of_many_contexts():
    """As few queries after each context as one: prompts of their own."""
    tau = np.array([0.5, 2.0, 8.0])
    few = 1e-9
    errors = shared_context_errors(
        sequence_ratio=tau / few, query_ratio=few, alpha=1.5, rho=0.2, ridge=0.05
    )
    prompts = icl_error(tau=tau, alpha=1.5, kappa=np.inf, rho=0.2, ridge=0.05)
    np.testing.assert_allclose(errors.icl, prompts, rtol=1e-7)


def shared_run(rng, dim, rho, ridge):
    """ICL error of a run of 2 d contexts of 3 d/2 examples with d/2 queries each, alpha = 3/2."""
    prompts = 2 * dim
    context = 3 * dim // 2
    queries = dim // 2
    tasks = on_sphere(rng, prompts, dim)
    x = rng.standard_normal((prompts, context + queries, dim)) / np.sqrt(dim)
    y = np.einsum("nld,nd->nl", x, tasks) + np.sqrt(rho) * rng.standard_normal(x.shape[:2])
    head = dim / context * np.einsum("nl,nld->nd", y[:, :context], x[:, :context])
    last = np.mean(y[:, :context] ** 2, axis=1)
    h = np.concatenate([head, last[:, None]], axis=1)
    rows = x[:, context:, :, None] * h[:, None, None, :]
    rows = rows.reshape(prompts * queries, -1)
    gram = rows.T @ rows / len(rows) + ridge / dim * np.eye(rows.shape[1])
    gamma = np.linalg.solve(gram, rows.T @ y[:, context:].ravel() / len(rows))
    return exact_errors(gamma.reshape(dim, dim + 1), tasks, context, rho)[0]


@pytest.mark.slow
def test_plain_runs_tend_to_the_limit():
    """Runs at three dimensions, extrapolated by a parabola in 1/d."""
    sizes = {8: 800, 16: 200, 32: 30}
    runs = [
        np.array(
            [shared_run(np.random.default_rng((dim, k)), dim, 0.1, 0.4) for k in range(repeats)]
        )
        for dim, repeats in sizes.items()
    ]
    inverse = 1 / np.array(list(sizes))
    weights = np.linalg.solve(np.vander(inverse, increasing=True).T, [1.0, 0.0, 0.0])
    extrapolated = weights @ [run.mean() for run in runs]
    variances = np.array([run.var() / (run.size - 1) for run in runs])
    resolution = np.sqrt(weights**2 @ variances)
    limit = shared_context_errors(sequence_ratio=2, query_ratio=0.5, alpha=1.5, rho=0.1, ridge=0.4)
    assert resolution < 0.02 * limit.icl
    assert abs(extrapolated - limit.icl) < SIGMAS * resolution


def test_training_errors_without_noise_of_features():
    """With many contexts the training error is that of fresh prompts."""
    errors = shared_context_errors(sequence_ratio=1e7, query_ratio=1, alpha=2, rho=0.1, ridge=1e-9)
    assert errors.training == pytest.approx(float(errors.icl), rel=1e-5)


def test_no_ridge_is_refused():
    with pytest.raises(ValueError, match="ridge must be > 0"):
        shared_context_errors(sequence_ratio=2, query_ratio=1, alpha=2, rho=0.1, ridge=0)
