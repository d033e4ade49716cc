"""Nested contexts: a query joins the contexts after it.

Mean errors of linear attention that is trained on all positions of sequences equal their
prediction.  The same equations for contexts of their own, without the query of one position in the
contexts of later ones, are rejected: their errors on fresh tasks are at least a twentieth too
small where there are no more sequences than dimensions.

Source: Derived in the documentation.
"""

from iclimit.asymptotics.pretraining import predict
from iclimit.asymptotics.pretraining.finite_all_positions import independent_context_error
from iclimit.experiment import Point
from iclimit.results import Estimate
from iclimit.samples import Samples
from iclimit.simulate.pretraining import sample
from iclimit.validation.claim import Claim, Effort, Rows, bound, call, run
from iclimit.validation.claims.pretraining.points import with_uncertainty
from iclimit.validation.rows import both_errors

# Fresh tasks, each with one sequence: nothing but nesting tells sequences from prompts then.
POINTS = tuple(
    Point(sequence_ratio=ratio, alpha=2, alpha_min=0.5, rho=0.1, ridge=0.1) for ratio in (0.5, 1)
)

# Runs by dimension.
REPEATS = {"tiny": {8: 8}, "quick": {16: 100, 24: 60}, "medium": {16: 600, 24: 400, 32: 200}}

# Most of the error of runs that independent contexts have: simulated runs say .86 to .89.
MOST = 0.95


def share(independent: float, errors: Samples) -> Estimate:
    """Error of independent contexts over that of runs."""
    icl = errors.icl
    ratio = independent / icl.mean
    return Estimate(ratio, ratio * icl.standard_error / icl.mean, icl.repeats)


def rows(effort: Effort) -> Rows:
    """Each point at its dimensions."""
    for point in POINTS:
        for dim, count in effort.by_size(**REPEATS).items():
            stated = point.at(dim)
            label = f"d={dim} nu={point.sequence_ratio:g}"
            errors = run(sample, run=stated, repeats=count)
            own = call(with_uncertainty, run(predict, run=stated))
            yield from both_errors(label, own, errors, of="predict")
            ratio = call(share, call(independent_context_error, stated), errors)
            yield bound(f"ICL error without nesting over that of runs, {label}", MOST, ratio)


claim = Claim.of("nesting", __doc__, rows, figure=False)
