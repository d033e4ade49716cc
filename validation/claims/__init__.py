"""The registry of claims, one subject per file."""

from __future__ import annotations

from collections.abc import Sequence

from iclimit.validation.claim import Claim
from iclimit.validation.claims.descent.constructions import constructions_claim
from iclimit.validation.claims.descent.dampening import dampening_claim
from iclimit.validation.claims.descent.learning_rates import learning_rate_claim
from iclimit.validation.claims.descent.preconditioner import preconditioner_claim
from iclimit.validation.claims.descent.schedules import divergence_claim, schedules_claim
from iclimit.validation.claims.descent.training import training_claim
from iclimit.validation.claims.descent.transfer import transfer_claim
from iclimit.validation.claims.dynamics.data import published_curves_claim, training_set_claim
from iclimit.validation.claims.dynamics.merged import cubic_claim, heads_claim, merged_claim
from iclimit.validation.claims.dynamics.mixtures import mixtures_claim
from iclimit.validation.claims.dynamics.separate import drop_times_claim, plateaus_claim
from iclimit.validation.claims.gdpp.gdpp import error_claim, layers_claim, spectrum_claim
from iclimit.validation.claims.gdpp.noisy_baselines import baselines_claim
from iclimit.validation.claims.gdpp.noisy_training import (
    dense_claim,
    diag_claim,
    gdpp_table_claim,
    profiles_claim,
    weights_claim,
)
from iclimit.validation.claims.gdpp.two_levels import two_levels_claim
from iclimit.validation.claims.pretraining.baselines import dmmse_claim
from iclimit.validation.claims.pretraining.large_size import ridge_claim, ridgeless_claim
from iclimit.validation.claims.pretraining.machinery import risk_claim, sampler_claim, solver_claim
from iclimit.validation.claims.pretraining.published import published_claim
from iclimit.validation.claims.pretraining.structured_errors import (
    context_claim,
    inputs_claim,
    rank_claim,
    tests_claim,
)
from iclimit.validation.claims.pretraining.structured_limits import limits_claim
from iclimit.validation.claims.pretraining.sweeps import (
    context_length_claim,
    double_descent_claim,
    nonmonotonicity_claim,
)
from iclimit.validation.claims.pretraining.task_diversity import task_diversity_claim
from iclimit.validation.claims.spectra.eigenvalues import rotated_claim, samples_claim

CLAIMS: dict[str, Claim] = {
    claim.name: claim
    for claim in (
        ridgeless_claim,
        ridge_claim,
        double_descent_claim,
        context_length_claim,
        nonmonotonicity_claim,
        task_diversity_claim,
        dmmse_claim,
        published_claim,
        learning_rate_claim,
        training_claim,
        preconditioner_claim,
        transfer_claim,
        schedules_claim,
        divergence_claim,
        dampening_claim,
        constructions_claim,
        spectrum_claim,
        layers_claim,
        error_claim,
        baselines_claim,
        gdpp_table_claim,
        diag_claim,
        dense_claim,
        profiles_claim,
        weights_claim,
        two_levels_claim,
        merged_claim,
        cubic_claim,
        plateaus_claim,
        drop_times_claim,
        heads_claim,
        mixtures_claim,
        training_set_claim,
        published_curves_claim,
        tests_claim,
        context_claim,
        rank_claim,
        inputs_claim,
        limits_claim,
        samples_claim,
        rotated_claim,
        solver_claim,
        sampler_claim,
        risk_claim,
    )
}
"""All claims by name: the theory first, then the simulator's own references."""

FIGURES = (
    "double-descent",
    "context-length",
    "nonmonotonicity",
    "task-diversity",
    "gd-learning-rate",
    "gd-training",
    "gd-preconditioner",
    "gd-transfer",
    "gd-schedules",
    "gd-divergence",
    "gd-dampening",
    "gd-constructions",
    "gdpp-spectrum",
    "gdpp-layers",
    "gdpp-error",
    "noisy-baselines",
    "noisy-gdpp",
    "noisy-diag",
    "noisy-full",
    "noisy-profiles",
    "noisy-weights",
    "noisy-two-levels",
    "dynamics-merged",
    "dynamics-cubic",
    "dynamics-plateaus",
    "dynamics-drop-times",
    "dynamics-heads",
    "dynamics-mixtures",
    "dynamics-training-set",
    "dynamics-published",
    "structured-tests",
    "structured-context",
    "structured-rank",
    "structured-inputs",
    "structured-limits",
    "spectra-samples",
    "spectra-free",
)
"""Claims whose figures are those of papers, or belong beside them."""


def select_claims(names: Sequence[str]) -> list[Claim]:
    """Return the claims of these names, in the order given; all of them for no names.

    Raises
    ------
    ValueError
        If a name is unknown.
    """
    unknown = [name for name in names if name not in CLAIMS]
    if unknown:
        raise ValueError(f"claim must be one of {', '.join(CLAIMS)}, got {unknown[0]!r}")
    return [CLAIMS[name] for name in dict.fromkeys(names)] if names else list(CLAIMS.values())
