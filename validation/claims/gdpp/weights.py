"""Implicit weights of linear transformers: the lemmas' recursions.

The predictions of trained linear transformers are those of the implicit weights that the
lemmas' recursions give, to rounding; the figure has the trained scalars.

Source: {vladymyrov2024}, Theorem 4.1, Lemmas 4.3 and 4.4, Figure 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent.regression import regression_tokens
from iclimit.simulate.gdpp import NoisyRegression, implicit_weights, train_linear_transformer
from iclimit.simulate.gdpp.implicit_weights import diagonal_recursion
from iclimit.simulate.transformer import prediction
from iclimit.validation.claim import Cell, Claim, Preset, Verdict
from iclimit.validation.claims.gdpp.profiles import PROFILED
from iclimit.validation.claims.gdpp.published_table import SIZE
from iclimit.validation.claims.gdpp.tables import DIAG, shade
from iclimit.validation.comparisons import compare

# Relative difference of implicit weights and forward pass.
RECURSION_ACCURACY = 1e-10


@dataclass(frozen=True)
class RecursionErrors:
    """Largest relative differences from the token-level forward pass."""

    full: float
    diagonal: float


def recursion_errors(
    *, noise_law: str, layers: int, rng: Any, backend: str = "numpy"
) -> RecursionErrors:
    """Implicit weights of trained models by the lemmas, against predictions from tokens."""
    del backend  # a reference: always on the host
    train_seed, test_seed, diag_seed = np.random.SeedSequence(
        rng.entropy, spawn_key=rng.spawn_key
    ).spawn(3)
    problem = NoisyRegression(noise_law, **SIZE)
    settings: dict[str, Any] = {"layers": layers, "starts": 2, "contexts": 4096, "steps": 20}
    diag = train_linear_transformer(problem, kind="diag", rng=diag_seed, **settings).model
    dense = train_linear_transformer(
        problem, kind="full", initial=[diag], rng=train_seed, **settings
    ).model
    prompts = problem.sample(get_backend("numpy"), np.random.default_rng(test_seed), 200).prompts

    def error(found: Any, model: Any) -> float:
        exact = prediction(regression_tokens(prompts), model.layers)
        ours = np.sum(found.weights[-1] * prompts.x_query, axis=-1)
        return float(np.max(np.abs(ours - exact)) / np.max(np.abs(exact)))

    return RecursionErrors(
        error(implicit_weights(prompts, dense), dense),
        error(diagonal_recursion(prompts, diag), diag),
    )


def _cells(preset: Preset) -> dict[Any, Cell]:
    recursion = Cell.of(recursion_errors, noise_law=PROFILED, layers=3)
    deepest = {law: DIAG.column(preset, law)[-1] for law in DIAG.columns[preset]}
    return {"errors": recursion, **deepest}


def _judge(preset: Preset, results: Mapping[Any, Any]) -> Verdict:
    errors: RecursionErrors = results["errors"]
    comparisons = tuple(
        compare(f"{lemma} against tokens, trained, 3 layers", 0.0, error, allowance=accuracy)
        for lemma, error, accuracy in (
            ("Lemma 4.3", errors.full, RECURSION_ACCURACY),
            ("Lemma 4.4", errors.diagonal, RECURSION_ACCURACY),
        )
    )
    notes = (
        "The effective scalars of the deepest diagonal transformer trained for each noise law.  "
        "Left out are the last layer's omega_xx and omega_xy, which have no effect.",
    )
    models = {law: results[law].model for law in DIAG.columns[preset]}
    return Verdict(comparisons, partial(_draw, models), notes)


def _draw(models: Mapping[str, Any], figure: Any) -> None:
    figure.set_size_inches(7.6, 5.0)
    axes = figure.subplots(2, 2)
    for (i, j), ax in np.ndenumerate(axes):
        for law, model in models.items():
            omegas = model.omegas[:, i, j]
            if i == 0:
                omegas[-1] = np.nan  # without effect on the prediction
            layers = range(1, model.depth + 1)
            ax.plot(layers, omegas, "o-", markersize=4, color=shade(law), label=law)
        ax.set_title(rf"$\omega_{{{'xy'[i]}{'xy'[j]}}}$")
        ax.xaxis.get_major_locator().set_params(integer=True)
    for ax in axes[1]:
        ax.set_xlabel("layer")
    axes[0, 1].legend(title="noise", loc="center left", bbox_to_anchor=(1, 0.5))


claim = Claim.of("noisy-weights", __doc__, _cells, _judge)
