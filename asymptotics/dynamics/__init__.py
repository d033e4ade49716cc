"""Training dynamics of linear attention that learns to learn in context."""

from iclimit.asymptotics.dynamics.growth import (
    escape_time,
    growth_time,
    head_growth,
    time_from_pole,
)
from iclimit.asymptotics.dynamics.merged import (
    EffectiveInitScaleMoments,
    effective_init_scale,
    effective_init_scale_moments,
    merged_attention_loss,
    merged_drop_time,
)
from iclimit.asymptotics.dynamics.mixtures import (
    MixturePredictor,
    mixture_growth_rate,
    mixture_predictor,
)
from iclimit.asymptotics.dynamics.plateaus import (
    FixedPoints,
    fixed_point_losses,
    plateau_head_values,
    plateau_losses,
)
from iclimit.asymptotics.dynamics.reduced_flow import (
    merged_attention_curve,
    merged_curve_drop_time,
)
from iclimit.asymptotics.dynamics.staircase import Staircase, separate_attention_staircase
from iclimit.notation import explain_names

__all__ = [
    "EffectiveInitScaleMoments",
    "FixedPoints",
    "MixturePredictor",
    "Staircase",
    "effective_init_scale",
    "effective_init_scale_moments",
    "escape_time",
    "fixed_point_losses",
    "growth_time",
    "head_growth",
    "merged_attention_curve",
    "merged_attention_loss",
    "merged_curve_drop_time",
    "merged_drop_time",
    "mixture_growth_rate",
    "mixture_predictor",
    "plateau_head_values",
    "plateau_losses",
    "separate_attention_staircase",
    "time_from_pole",
]

explain_names(__name__)
