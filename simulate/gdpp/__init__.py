"""Linear transformers and GD++ on regression with random noise levels."""

from iclimit.notation import explain_names
from iclimit.simulate.gdpp.adjusted_loss import HeldOutLosses, held_out_losses
from iclimit.simulate.gdpp.implicit_weights import ImplicitWeights, implicit_weights
from iclimit.simulate.gdpp.linear_transformer import LinearTransformer, two_level_ridge_transformer
from iclimit.simulate.gdpp.noisy_regression import NoisyRegression
from iclimit.simulate.gdpp.preconditioned_descent import (
    gdpp_transformer,
    layer_spectra,
    simulate_gdpp,
)
from iclimit.simulate.gdpp.ridge_baselines import (
    RidgeTuning,
    SimulatedBaselines,
    simulate_ridge_baselines,
    tune_ridge,
)
from iclimit.simulate.gdpp.transformer_training import TrainedTransformer, train_linear_transformer

__all__ = [
    "HeldOutLosses",
    "ImplicitWeights",
    "LinearTransformer",
    "NoisyRegression",
    "RidgeTuning",
    "SimulatedBaselines",
    "TrainedTransformer",
    "gdpp_transformer",
    "held_out_losses",
    "implicit_weights",
    "layer_spectra",
    "simulate_gdpp",
    "simulate_ridge_baselines",
    "train_linear_transformer",
    "tune_ridge",
    "two_level_ridge_transformer",
]

explain_names(__name__)
