"""All claims by name, one in a file; `iclimit.validation.claim` says how such a file is built."""

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module

from iclimit.checks import check_choice
from iclimit.validation.claim import Claim

# Shelves and files of the claims, in the order of the report: the theory first, then the
# simulator's own references.
FILES = (
    ("pretraining", "ridgeless ridge double_descent context_length nonmonotonicity"),
    ("pretraining", "task_diversity dmmse spread budget published"),
    ("descent", "learning_rate training preconditioner transfer schedules divergence dampening"),
    ("descent", "constructions random_steps"),
    ("gdpp", "spectrum layers error baselines gdpp_table diagonal_table full_table profiles"),
    ("gdpp", "weights two_levels published_layers linear_layers"),
    ("dynamics", "merged cubic plateaus drop_times heads mixtures training_set published"),
    ("softmax", "head published_layer pair limits kernels"),
    ("networks", "sine copying softmax_layers layer_norm algorithms"),
    ("depth", "overthinking depth_loss untied_flow untied_depth depth_scaling compute_optimal"),
    ("depth", "online_sgd"),
    ("recurrent", "layers limits pretraining published trained flipped_labels"),
    ("pretraining", "structured_tests structured_context structured_rank structured_inputs"),
    ("pretraining", "structured_directions alignment"),
    ("softmax", "double_descent"),
    ("networks", "lstm gradients"),
    ("spectra", "sample_covariance free_convolution transforms"),
    ("pretraining", "mean_matrix random_points number_systems two_routes derivations"),
    ("pretraining", "solver cost sampler exact_error"),
)

_CLAIMS: list[Claim] = [
    replace(import_module(f"{__name__}.{shelf}.{file}").claim, subject=shelf)
    for shelf, files in FILES
    for file in files.split()
]
# All claims by name.
CLAIMS = {claim.name: claim for claim in _CLAIMS}


def select_claims(names: Sequence[str]) -> list[Claim]:
    """Return the claims of these names, in the order given; all of them for no names.

    Raises
    ------
    ValueError
        If a name is unknown.
    """
    for name in names:
        check_choice("claim", name, CLAIMS)
    return [CLAIMS[name] for name in dict.fromkeys(names)] if names else list(CLAIMS.values())
