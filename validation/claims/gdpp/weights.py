"""Implicit weights of linear transformers: the lemmas' recursions.

The predictions of trained linear transformers are those of the implicit weights that the
lemmas' recursions give, to rounding.  The figure has the effective scalars of the deepest diagonal
transformer trained for each noise law, without those of the last layer that have no effect.

Source: {vladymyrov2024}, Theorem 4.1, Lemmas 4.3 and 4.4, Figure 4.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.drawing import Figure, finish, panels, write_key
from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend, seed_sequences
from iclimit.simulate.gdpp import LinearTransformer, implicit_weights, train_linear_transformer
from iclimit.simulate.gdpp.implicit_weights import diagonal_recursion
from iclimit.simulate.models.transformer import prediction
from iclimit.simulate.prompts import draw_prompts, regression_tokens
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows, drawing, exact, run
from iclimit.validation.claims.gdpp.profiles import PROFILED
from iclimit.validation.claims.gdpp.tables import DIAG, shade
from iclimit.validation.reference.noise_levels import SIZE

# Relative difference of implicit weights and forward pass.  One start: they agree for all weights.
RECURSION_ACCURACY = 1e-10


@named_cell("recursion_errors")
def recursion_errors(*, noise_law: str, layers: int, rng: SeedSequence) -> dict[str, float]:
    """Largest relative differences of predictions from tokens and from implicit weights.

    By the lemma that gives the implicit weights of trained models.
    """
    train_seed, test_seed, diag_seed = seed_sequences(rng, 3)
    problem = Problem(**SIZE, noise_law=noise_law, scale=1)
    settings: dict[str, Any] = {"layers": layers, "starts": 1, "contexts": 64, "steps": 4}
    diag = train_linear_transformer(problem, kind="diag", rng=diag_seed, **settings).model
    dense = train_linear_transformer(
        problem, kind="full", initial=[diag], rng=train_seed, **settings
    ).model
    prompts = draw_prompts(problem, get_backend("numpy"), np.random.default_rng(test_seed), 200)

    def error(weights: Any, model: Any) -> float:
        exact = prediction(regression_tokens(prompts), model.layers)
        ours = np.sum(weights.weights[-1] * prompts.query, axis=-1)
        return float(np.max(np.abs(ours - exact)) / np.max(np.abs(exact)))

    return {
        "Lemma 4.3": error(implicit_weights(prompts, dense), dense),
        "Lemma 4.4": error(diagonal_recursion(prompts, diag), diag),
    }


def rows(effort: Effort) -> Rows:
    """The implicit weights beside tokens, and the deepest diagonal model of each noise law."""
    errors = run(recursion_errors, noise_law=PROFILED, layers=3)
    for lemma in ("Lemma 4.3", "Lemma 4.4"):
        label = f"{lemma} against tokens, trained, 3 layers"
        yield exact(label, 0.0, errors[lemma], allowance=RECURSION_ACCURACY)
    laws = DIAG.depths(effort)
    yield drawing(draw, {law: DIAG.column(effort, law)[-1].model for law in laws})


def draw(figure: Figure, models: Mapping[str, LinearTransformer]) -> None:
    """Draw the scalars of each layer, one below the other."""
    [ax] = panels(figure, 1, height=4)
    ax.set_xscale("symlog", linthresh=1e-4)
    for number, (law, model) in enumerate(models.items()):
        # The input part of the last layer has no effect on the prediction.
        kept = [at for at in np.ndindex(model.omegas.shape) if at[:2] != (model.depth - 1, 0)]
        heights = np.arange(len(kept)) + 0.15 * number
        values = [model.omegas[at] for at in kept]
        ax.plot(values, heights, "o", markersize=5, color=shade(law), label=law.replace(":", " "))
    parts = [rf"$\omega_{{{'xy'[i]}{'xy'[j]}}}$, layer {layer + 1}" for layer, i, j in kept]
    ax.set_yticks(range(len(parts)), parts)
    ax.invert_yaxis()
    finish(ax, "trained scalar (symmetric logarithmic scale)", "scalar of a layer", legend="")
    write_key(figure, "points: trained scalars, by the noise of training")


claim = Claim.of("noisy-weights", __doc__, rows)
