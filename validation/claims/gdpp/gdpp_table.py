"""GD++ with random noise levels: the table, its local minimum and its floor.

GD++ trained from random starts reaches the least loss found over the exact spectrum and is at
or below the published one; without noise the published loss of two layers is the second local
minimum; no depth is below ridge regression with the mean noise variance.

Source: {vladymyrov2024}, Table 1; exact loss at finite size: documentation.
"""

from iclimit.asymptotics.gdpp import gdpp_minima
from iclimit.validation import Claim, Comparison, Preset, Results, Verdict, compare
from iclimit.validation.claims.gdpp.published_table import (
    SIZE,
    baselines,
    published_error,
    published_table,
)
from iclimit.validation.claims.gdpp.tables import GDPP, draw_table
from iclimit.validation.claims.gdpp.trained import Trained, compare_published
from iclimit.validation.drawing import Figure

# Relative excess over the optimum of GD++ trained on a finite set of contexts (measured: at most
# 0.4 %).
TRAINED_ALLOWANCE = 0.01

# Up to this many layers trained models are compared with the best minimum.  From three layers on,
# rates chosen on a sample have means that no sample shows.
EXACT_LAYERS = 2

# Published GD++ losses (.344) below the least loss of GD++ of any depth (.3615, that of ConstRR,
# for which the table itself has .365).
BELOW_BOUND = {("uniform:5", layers) for layers in range(3, 8)}

# Published GD++ loss (9.91e-5) below the least mean that was found over the exact spectrum
# (3.98e-4, see the documentation): it is a mean over sequences without the rare ones that
# determine it.
UNREACHED = ("uniform:0", 4)


def minima_of(noise_law: str, layers: int) -> list[float]:
    """Adjusted losses at the local minima of GD++."""
    best, dim = baselines(noise_law), SIZE["dim"]
    found = gdpp_minima(layers, noise_ratio=best.penalty / SIZE["context"], **SIZE)
    return [dim / 2 * each.loss - best.oracle for each in found]


def judge(preset: Preset, results: Results) -> Verdict:
    """Compare trained models with the published losses, the floor and the minima."""
    comparisons, notes = [], []
    for each in GDPP.trained(preset, results):
        setting = each.noise_law, each.model.depth
        if setting == UNREACHED:
            notes.append(
                f"Not compared: {each.label}, {each.held_out.mean:.3g} +- "
                f"{each.held_out.standard_error:.1g}, published {each.published:.3g}.  The least "
                "mean found over the exact spectrum is above both: means over sequences miss the "
                "rare ones that determine it."
            )
        elif setting not in BELOW_BOUND:
            comparisons.append(compare_published(each))
        floor = baselines(each.noise_law).constant
        label = f"ConstRR is at most GD++, {each.label}"
        comparisons.append(compare(label, each.held_out, floor, upper_bound=True))
        if each.model.depth <= EXACT_LAYERS:
            minima = minima_of(*setting)
            label = f"trained against the best found, {each.label}"
            row = compare(label, minima[0], each.held_out, relative=TRAINED_ALLOWANCE)
            comparisons.append(row)
        if each.model.depth == 2:
            comparisons += compare_minima(each, minima)
            notes.append(
                f"{each.label}: local minima "
                f"{' and '.join(f'{loss:.4f}' for loss in minima[:2])}, published "
                f"{published_table()['GD++', 2, each.noise_law]:.3f}; {each.at_best} of "
                f"{each.starts} starts reach the best one."
            )
    notes.append(
        "Not compared: the published .344 of 3 to 7 layers at uniform:5.  No GD++ of any depth is "
        f"below ConstRR, {baselines('uniform:5').constant:.4f} (published: .365)."
    )

    def draw(figure: Figure) -> None:
        draw_table(figure, GDPP, preset, results, bound=True)

    return Verdict(comparisons, draw, notes)


def compare_minima(model: Trained, minima: list[float]) -> list[Comparison]:
    """Compare the second minimum of two layers, or the only one, with the published loss."""
    published = published_table()["GD++", 2, model.noise_law]
    # From uniform:5 on there is one minimum only.
    place = "second" if len(minima) > 1 else "only"
    found = minima[:2][-1]
    label = f"the {place} minimum is at most the published, {model.label}"
    error = published_error(published, model.noise_law)
    comparisons = [Comparison(label, published, found, error, upper_bound=True)]
    if model.noise_law == "uniform:0":
        error = published_error(published, model.noise_law, model.spread)
        label = f"the second minimum is the published, {model.label}"
        comparisons.append(Comparison(label, found, published, error))
    return comparisons


claim = Claim.of("noisy-gdpp", __doc__, GDPP.cells, judge)
