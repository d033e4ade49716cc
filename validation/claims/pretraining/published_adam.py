"""Published runs of Adam, where prompts have one minimum.

Linear attention that others have trained by Adam on all prompts, with merged and with separate
keys and queries, ends at the predicted ICL error of the minimiser from tau = 1.5 on, where the
minimum is unique and training reached it.  Below, the end depends on the start and the optimiser,
and nothing is compared.

Source: Li, Bai, Huang, arXiv:2408.02288, Figure S1: data of its public repository
(validation/reference/README.md).
"""

from iclimit.asymptotics.pretraining import predict
from iclimit.experiment import Experiment
from iclimit.problem import Problem
from iclimit.results import Estimate
from iclimit.validation.claim import Claim, Effort, Rows, call, mean, run
from iclimit.validation.claims.pretraining.points import with_uncertainty
from iclimit.validation.reference import read_reference

# Setting of the runs.
LAW = Problem(dim=20, context=100, task_law="gaussian")
RUNS = 50
# Prompts over squared dimension from which on runs are compared.
LEAST_TAU = 1.5


def rows(effort: Effort) -> Rows:
    """Published means against the prediction at the same integers."""
    published = [
        row
        for row in read_reference("li_adam_double_descent.csv")
        if float(row["tau"]) >= LEAST_TAU
    ]
    for row in published[:: effort.pick(tiny=3, quick=1)]:
        experiment = Experiment(LAW, prompts=int(row["prompts"]))
        theory = call(with_uncertainty, run(predict, run=experiment))
        for keys in ("merged", "separate"):
            error = float(row[f"{keys}_std"]) / RUNS**0.5
            yield mean(
                f"published ICL by Adam, {keys} keys and queries, tau={row['tau']}",
                theory.icl,
                Estimate(float(row[f"{keys}_mean"]), error, RUNS),
                of="predict.icl",
            )


claim = Claim.of("published-adam", __doc__, rows, figure=False)
