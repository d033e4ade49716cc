"""All claims by name, one in a file; `iclimit.validation.claim` says how such a file is built."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from iclimit.notation import did_you_mean
from iclimit.validation.claim import Claim

FILES = (
    "pretraining.ridgeless",
    "pretraining.ridge",
    "pretraining.double_descent",
    "pretraining.context_length",
    "pretraining.nonmonotonicity",
    "pretraining.task_diversity",
    "pretraining.dmmse",
    "pretraining.published",
    "descent.learning_rate",
    "descent.training",
    "descent.preconditioner",
    "descent.transfer",
    "descent.schedules",
    "descent.divergence",
    "descent.dampening",
    "descent.constructions",
    "gdpp.spectrum",
    "gdpp.layers",
    "gdpp.error",
    "gdpp.baselines",
    "gdpp.gdpp_table",
    "gdpp.diagonal_table",
    "gdpp.full_table",
    "gdpp.profiles",
    "gdpp.weights",
    "gdpp.two_levels",
    "dynamics.merged",
    "dynamics.cubic",
    "dynamics.plateaus",
    "dynamics.drop_times",
    "dynamics.heads",
    "dynamics.mixtures",
    "dynamics.training_set",
    "dynamics.published",
    "pretraining.structured_tests",
    "pretraining.structured_context",
    "pretraining.structured_rank",
    "pretraining.structured_inputs",
    "pretraining.structured_limits",
    "spectra.sample_covariance",
    "spectra.free_convolution",
    "pretraining.solver",
    "pretraining.sampler",
    "pretraining.exact_error",
)
"""Files of the claims, in the order of the report: the theory first, then the simulator's own
references."""

_CLAIMS: list[Claim] = [import_module(f"{__name__}.{file}").claim for file in FILES]
CLAIMS = {claim.name: claim for claim in _CLAIMS}
"""All claims by name."""


def select_claims(names: Sequence[str]) -> list[Claim]:
    """Return the claims of these names, in the order given; all of them for no names.

    Raises
    ------
    ValueError
        If a name is unknown.
    """
    unknown = [name for name in names if name not in CLAIMS]
    if unknown:
        raise ValueError(
            f"claim must be one of {', '.join(CLAIMS)}, "
            f"got {unknown[0]!r}{did_you_mean(unknown[0], CLAIMS)}"
        )
    return [CLAIMS[name] for name in dict.fromkeys(names)] if names else list(CLAIMS.values())
