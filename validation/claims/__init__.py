"""All claims by name, one in a file; `iclimit.validation.claim` says how such a file is built."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from iclimit.checks import check_choice
from iclimit.validation.claim import Claim

# Files whose order in the report is chosen: the theory first, then the simulator's own references.
# All other files that define a claim follow, shelf by shelf.
FIRST = (
    ("pretraining", "ridgeless ridge double_descent context_length nonmonotonicity"),
    ("pretraining", "task_diversity dmmse spread budget published"),
    ("descent", "learning_rate training preconditioner transfer schedules divergence dampening"),
    ("descent", "constructions random_steps"),
    ("gdpp", "spectrum layers error baselines gdpp_table diagonal_table full_table profiles"),
    ("gdpp", "weights two_levels published_layers linear_layers"),
    ("dynamics", "merged cubic plateaus drop_times heads mixtures training_set published"),
    ("softmax", "head published_layer pair limits kernels"),
    ("networks", "sine copying softmax_layers layer_norm"),
    ("depth", "overthinking depth_loss untied_flow untied_depth depth_scaling compute_optimal"),
    ("depth", "online_sgd"),
    ("recurrent", "layers limits pretraining published trained flipped_labels"),
    ("pretraining", "structured_tests structured_context structured_rank structured_inputs"),
    ("pretraining", "structured_directions alignment"),
    ("softmax", "double_descent"),
    ("networks", "lstm"),
    ("spectra", "sample_covariance free_convolution"),
    ("pretraining", "mean_matrix random_points solver cost sampler exact_error"),
)


def _claims() -> Iterator[Claim]:
    """Claims of all files, each with its shelf as subject."""
    chosen = [(shelf, file) for shelf, files in FIRST for file in files.split()]
    folder = Path(__file__).parent
    present = [
        (shelf, module.name)
        for shelf in dict(FIRST)
        for module in iter_modules([str(folder / shelf)])
    ]
    for shelf, file in dict.fromkeys([*chosen, *present]):
        module = import_module(f"{__name__}.{shelf}.{file}")
        if hasattr(module, "claim"):
            yield replace(module.claim, subject=shelf)


# All claims by name.
CLAIMS = {claim.name: claim for claim in _claims()}


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
