"""Two layers perform ridge regression for either of two noise levels.

The adjusted loss of two layers that are constructed for two noise levels, with inputs N(0, I/N)
and either noise level, vanishes in the limit of long contexts.

Source: {vladymyrov2024}, Theorem 5.2.
"""

import numpy as np
from numpy.random import SeedSequence

from iclimit.results import Estimate
from iclimit.simulate.gdpp import two_level_ridge_transformer
from iclimit.simulate.gdpp.contexts import gram_matrices
from iclimit.simulate.gdpp.gram_pass import GramPass
from iclimit.simulate.pretraining.estimators import ridge_weights
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows, limit, run

# Dimension of the inputs.
DIM = 3
# The two noise levels.
LEVELS = (0.6, 1.5)
# Lengths of the contexts.
SIZES = (250, 500, 1000, 2000, 4000)


@named_cell("two_level_loss")
def two_level_loss(
    *, noise_level: float, context: int, contexts: int, rng: SeedSequence
) -> Estimate:
    """Adjusted loss with inputs N(0, I/N)."""
    model = two_level_ridge_transformer(
        LEVELS, context=context, dim=DIM, input_variance=1 / context
    )
    generator = np.random.default_rng(rng)
    losses = []
    for _ in range(contexts // 500):
        x = generator.standard_normal((500, context, DIM)) / np.sqrt(context)
        tasks = generator.standard_normal((500, DIM, 1))
        y = (x @ tasks)[:, :, 0] + noise_level * generator.standard_normal((500, context))
        weights = GramPass(gram_matrices(x, y), model).weights
        oracle = ridge_weights(x, y, np.full(500, noise_level**2))
        losses.append(np.sum((weights - oracle) ** 2, axis=1) / 2)
    return Estimate.of(np.concatenate(losses))


def rows(effort: Effort) -> Rows:
    """The losses, extrapolated to long contexts, against zero."""
    contexts = effort.pick(quick=500, medium=3000, full=18_000)
    for level in LEVELS:
        runs = {
            size: run(two_level_loss, noise_level=level, context=size, contexts=contexts)
            for size in SIZES
        }
        label = f"adjusted loss at noise level {level:g}, N to infinity"
        yield limit({label: 0.0}, runs, order=1, name=f"Noise level {level:g}", size="$N$")


claim = Claim.of("noisy-two-levels", __doc__, rows, figure=False)
