"""Training on all positions of sequences: the limit, and what runs show.

Mean errors after the whole context of linear attention that is trained on all positions of
sequences, extrapolated to infinite dimension, equal the limit; at given integers they equal their
prediction.

Source: Derived in the documentation.
"""

import math
from typing import Any

from iclimit.validation.claim import Claim, Effort, Rows
from iclimit.validation.claims.pretraining.sequence_points import compared

# Law that the settings share.
LAW: dict[str, Any] = {"sequence_ratio": 2, "alpha": 1.5, "rho": 0.2, "ridge": 0.3}

# Settings of the limit, and whether tasks have equally many sequences; all sizes are integers at
# multiples of 4.
SETTINGS: tuple[tuple[dict[str, Any], bool], ...] = (
    (LAW | {"alpha_min": 0.5, "kappa": math.inf}, False),
    (LAW | {"alpha_min": 0.25, "kappa": 0.5}, False),
    (LAW | {"kappa": 0.5, "normalization": "length"}, True),
)

# Factor of the repeats where all tasks are fresh: these runs scatter most and cost least.
MORE = 3

# Runs by dimension.  From d = 16 on ratios bend: 1 - r is 0.91/d there and 1.05/d at d = 32.
REPEATS: dict[str, dict[int, int]] = {
    "tiny": {8: 8, 12: 8, 16: 8},
    "quick": {16: 200, 24: 120, 32: 80},
    "medium": {16: 2400, 24: 1200, 32: 800, 48: 300},
    "full": {16: 8000, 24: 5000, 32: 3000, 48: 1000, 64: 400},
}
# Order of the ratios in 1/d, where runs are precise enough for it.
ORDER = {"quick": 1, "medium": 2}


def rows(effort: Effort) -> Rows:
    """All settings."""
    repeats = effort.by_size(**REPEATS)
    order = effort.pick(**ORDER)
    more = {dim: MORE * count for dim, count in repeats.items()}
    for point, balanced in effort.pick(tiny=SETTINGS[:1], quick=SETTINGS):
        own = more if math.isinf(point["kappa"]) else repeats
        yield from compared(point, own, balanced=balanced, order=order)


claim = Claim.of("all-positions", __doc__, rows, figure=False)
