"""GD++ with random noise levels: the table, its local minimum and its floor.

GD++ trained from random starts, of which the best is taken and notes count how many come near it,
is at or below the published loss, and not below the least loss found over the exact spectrum;
descents over sampled spectra end at the same loss.  Without
noise the published loss of two layers is the second local minimum.  No depth is below ridge
regression with the mean noise variance.

Source: {vladymyrov2024}, Table 1 and Figure 1; exact loss at finite size: documentation.
"""

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.gdpp import gdpp_minima
from iclimit.comparison import Comparison
from iclimit.problem import NoiseLaw
from iclimit.results import Estimate
from iclimit.simulate.arrays import seed_sequences
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows, bound, call, judged, mean, note, run
from iclimit.validation.claims.gdpp.controls import controlled, spectral_controls
from iclimit.validation.claims.gdpp.minima import errors, local_minima
from iclimit.validation.claims.gdpp.tables import GDPP, describe_starts
from iclimit.validation.claims.gdpp.trained import Trained, published_row
from iclimit.validation.reference.noise_levels import (
    SIZE,
    baselines,
    published_error,
    published_table,
)
from iclimit.words import counted

# Up to this many layers trained models are compared with the best minimum.  From three layers on,
# rates chosen on a sample have means that no sample shows.
EXACT_LAYERS = 2

# Laws whose best minima are found again over sampled eigenvalues.  At lower noise rare contexts
# determine the loss there.
SAMPLED = ("uniform:5", "categorical:1,3,5")
# Neighbouring eigenvalues that are replaced by their mean in a descent.
MERGED = 100
# Random starts of the descent.
STARTS = 20

# Published GD++ losses (.344) below the least loss of GD++ of any depth (.3615, that of ConstRR,
# for which the table itself has .365).
BELOW_BOUND = {("uniform:5", layers) for layers in range(3, 8)}

# Published GD++ loss (9.91e-5) below the least mean that was found over the exact spectrum
# (3.98e-4, see the documentation): it is a mean over sequences without the rare ones that
# determine it.
UNREACHED = ("uniform:0", 4)


@named_cell("sampled_minimum")
def sampled_minimum(*, noise_law: str, contexts: int, rng: SeedSequence) -> Estimate:
    """Least loss of two layers over sampled eigenvalues."""
    context = SIZE["context"]
    dim = SIZE["dim"]
    draw_seed, start_seed = seed_sequences(rng, 2)
    noise = NoiseLaw.parse(noise_law).mean_variance / context
    x = np.random.default_rng(draw_seed).standard_normal((contexts, context, dim))
    eigenvalues = np.linalg.eigvalsh(x.transpose(0, 2, 1) @ x)
    controls = spectral_controls(eigenvalues, context)
    eigenvalues /= context
    nodes = np.mean(np.sort(eigenvalues, axis=None).reshape(-1, MERGED), axis=1)
    weights = np.full(nodes.size, 1 / nodes.size)
    best = local_minima(nodes, weights, noise, layers=2, starts=STARTS, rng=start_seed)[0]
    losses = sum(part**2 for part in errors(best, eigenvalues, noise))
    return controlled(np.mean(losses, axis=1), controls)


def rows(effort: Effort) -> Rows:
    """Trained models, the published losses, the floor and the minima."""
    models = GDPP.trained(effort)
    for (law, layers), model in models.items():
        where = f"{counted(layers, 'layer')}, {law}"
        if (law, layers) == UNREACHED:
            yield note(call(describe_unreached, model))
        elif (law, layers) not in BELOW_BOUND:
            yield published_row("gd++", law, layers, model)
        label = f"ConstRR is at most GD++, {where}"
        yield bound(label, model.held_out, baselines(law).constant)
        if layers <= EXACT_LAYERS:
            minima = call(minima_of, law, layers)
            yield bound(f"the best found is at most trained, {where}", model.held_out, minima[0])
        if layers == 2:
            yield judged(call(compare_minima, model, minima))
    contexts = effort.pick(quick=4000, medium=24_000, full=144_000)
    for law in SAMPLED:
        least = call(relative_minima, law, 2)[0]
        sampled = run(sampled_minimum, noise_law=law, contexts=contexts)
        label = f"least loss over sampled eigenvalues, {law}"
        yield mean(label, least, sampled, of="gdpp_minima.loss")
    yield note(
        "Not compared: the published .344 of 3 to 7 layers at uniform:5.  No GD++ of any depth is "
        f"below ConstRR, {baselines('uniform:5').constant:.4f} (published: .365)."
    )
    yield note(call(describe_starts, [*models.values()]))
    yield GDPP.drawing(effort, bound=True)


def describe_unreached(model: Trained) -> str:
    """Why a published loss is not compared."""
    return (
        f"Not compared: {model.label}, {model.held_out.mean:.3g} +- "
        f"{model.held_out.standard_error:.1g}, published {model.published:.3g}.  The least "
        "mean found over the exact spectrum is above both: means over sequences miss the "
        "rare ones that determine it."
    )


def minima_of(noise_law: str, layers: int) -> list[float]:
    """Adjusted losses at the local minima of GD++."""
    losses = relative_minima(noise_law, layers)
    return [SIZE["dim"] / 2 * loss - baselines(noise_law).oracle for loss in losses]


def relative_minima(noise_law: str, layers: int) -> list[float]:
    """Losses relative to the null predictor's at the local minima of GD++."""
    noise_ratio = baselines(noise_law).penalty / SIZE["context"]
    return [minimum.loss for minimum in gdpp_minima(layers, noise_ratio=noise_ratio, **SIZE)]


def compare_minima(model: Trained, minima: list[float]) -> list[Comparison]:
    """Compare the second minimum of two layers, or the only one, with the published loss."""
    published = published_table()["GD++", 2, model.noise_law]
    # From uniform:5 on there is one minimum only.
    place = "second" if len(minima) > 1 else "only"
    least = minima[:2][-1]
    label = f"the {place} minimum is at most the published, {model.label}"
    error = published_error(published, model.noise_law)
    comparisons = [Comparison(label, published, least, error, upper_bound=True)]
    if model.noise_law == "uniform:0":
        error = published_error(published, model.noise_law, model.spread)
        label = f"the second minimum is the published, {model.label}"
        comparisons.append(Comparison(label, least, published, error))
    return comparisons


claim = Claim.of("noisy-gdpp", __doc__, rows)
