"""Valid calls of all public functions of the theory, from which tests depart."""

import importlib
import inspect

import numpy as np
from public_functions import FUNCTIONS, parameters_of
from sympy import Eq, Symbol

from iclimit.asymptotics.depth import balanced_saddle, depth_loss
from iclimit.asymptotics.derivation import Derivation
from iclimit.asymptotics.dynamics import merged_attention_drop, separate_attention_staircase
from iclimit.asymptotics.pretraining import JointSpectrum
from iclimit.asymptotics.spectra import (
    Atoms,
    DensityMeasure,
    Exponential,
    FreeSum,
    IndependentEntries,
    MarchenkoPastur,
    Mixture,
    PowerLaw,
    Pushforward,
    SampleCovariance,
    TwoPoint,
    Uniform,
    Wishart,
)
from iclimit.experiment import Experiment
from iclimit.prediction import Scatter
from iclimit.problem import Problem
from iclimit.simulate.dynamics import AttentionModel
from iclimit.simulate.gdpp import gdpp_transformer
from iclimit.simulate.networks import AttentionNetwork
from iclimit.simulate.prompts import sample_prompts

LAW = MarchenkoPastur(0.5)
PROBLEM = Problem(dim=3, context=6)
RUN = Experiment(Problem(3, 6, tasks=3, noise_variance=0.1), prompts=60)
ATOMS = Atoms([1.0, 2.0])
IDENTITY = np.eye(3)
BASE = {
    **{"tau": 1.6, "alpha": 1.5, "kappa": 0.5, "rho": 0.1, "theta": 0.05, "q": 1.0, "ratio": 0.5},
    **{"budget": 10.0, "rtol": 1e-6},
    **{"chances": 0.4, "run": RUN},
    **{"dim": 3, "context": 6, "tasks": 3, "prompts": 60, "test_tasks": 100, "depth": 2},
    **{"steps": 2, "layers": 2, "order": 2, "derivative": 0, "bins": 10, "heads": 2},
    **{"probability": 0.5, "drop_fraction": 0.5, "x": 0.5, "z": -1.0},
    **{"snr": 1.0, "factor": 2.0, "shift": 1.0},
    **{"rate": 0.3, "rates": [0.3, 0.2], "gammas": [0.1], "penalty": 1.0, "noise_variance": 0.1},
    **{"noise_level": 1.0, "mean_noise_variance": 1.0, "noise_law": "uniform:5"},
    **{"t": 1.0, "value": 0.5, "initial_value": 0.1, "eigenvalue": 1.0, "trace": 3.0},
    **{"eigenvalues": [2.0, 1.0], "weights": [0.5, 0.5], "init_scale": 0.1, "fresh_fraction": 0.5},
    **{"nu": 1.5, "beta": 0.5, "compute": 1e6, "learning_rate": 0.1, "times": [0.0, 1.0]},
    **{"batch_ratio": 1.0, "query_ratio": 1.0, "efficiency": 0.5, "inverse_temperature": 0.5},
    **{"inverse_temperatures": [0.5, 1.0], "powers": [1, 2], "lower": 1.0, "upper": 2.0},
    **{"exponent": 0.5, "decay": 1.0, "asymmetry": 0.1, "condition_number": 3.0},
    **{"input_covariance": IDENTITY, "task_covariance": IDENTITY, "matrix": IDENTITY},
    **{"gamma": IDENTITY, "shared_task": np.ones(3), "values": [1.0, 2.0], "spec": "powerlaw:0.5"},
    **{"key_query": IDENTITY, "key": np.ones((2, 1, 2)), "query": np.ones((2, 1, 2))},
    **{"spectrum": JointSpectrum.of_measures(ATOMS, order=4), "task_spectrum": ATOMS},
    **{"measure": ATOMS, "measures": [ATOMS, LAW], "population": ATOMS, "first": LAW},
    **{"second": LAW, "input_law": "gaussian", "score_function": np.exp, "polynomial": [0.0, 1.0]},
    **{"function": np.exp, "functions": np.ones((2, 2)), "support": [(0.0, 1.0)]},
    **{"feature_covariance": IDENTITY, "label_weights": np.ones(3), "observations": 9},
    **{"feature_moments": np.array([[2.0, 0.5], [0.5, 1.0]]), "arguments": (1.0,)},
    **{"scaled_moments": np.array([[3.0, 0.5], [0.5, 2.0]]), "coefficients": np.ones((4, 2))},
    **{"features": lambda x: np.stack([np.ones_like(x), x])},
    **{
        "rule": "gated-delta",
        "forgetting": 0.4,
        "drift": 0.3,
        "step_size": 0.6,
        "separation": 1.5,
    },
    **{"gates": [0.8, 0.9, 1.0], "correlation": 0.4, "test_correlation": 0.2, "separation": 1.5},
    **{"density": np.ones_like, "covariance": lambda x, y: np.minimum(x, y), "inputs": (0.0, 1.0)},
}
SIMULATED = {
    **{"rng": 0, "repeats": 1, "contexts": 4, "batch": 4, "estimator": "ridge", "width": 4},
    **{"duration": 1.0, "initial": 0.1, "network": AttentionNetwork(3), "problem": PROBLEM},
    **{"model": AttentionModel("merged", 2, 1), "kind": "merged", "noise_levels": (0.5, 1.0)},
    "samples": sample_prompts(PROBLEM, 4, rng=0),
}
BASE |= SIMULATED
SIZES, RATIO = {"context": 6, "dim": 3}, {"ratio": 0.5}
NOISY = {"problem": Problem(dim=10, context=20, noise_law="uniform:5", scale=1.0)}
HEADS = {"value": np.full(2, 0.1), "key": np.full((2, 1, 2), 0.1), "query": np.ones((2, 1, 2))}
CALLS = {
    "separate_attention_staircase": (HEADS,),
    "effective_init_scale": ({"value": np.ones(2), "key_query": np.ones((2, 2, 2))},),
    "simulate_gradient_flow": ({"rng": 0},),
    "simulate_untied_flow": ({"initial": [0.0, 0.1]},),
    **dict.fromkeys(
        ("simulate_ridge_baselines", "train_linear_transformer", "tune_ridge"), (NOISY,)
    ),
    "held_out_losses": ({**NOISY, "model": gdpp_transformer([0.1], [], context=20, dim=10)},),
    "simulate_learning_rate": (SIZES,),
    "simulate_softmax": (SIZES,),
    "simulate_errors": ({**SIZES, "tasks": 3, "prompts": 60, "rho": 0.1},),
    "derive_schedule": (SIZES,),
    "structured_errors": ({"test_alpha": 2.0, "test_rho": 0.2},),
    "diversity_slope": ({"test_alpha": 2.0, "test_rho": 0.2},),
    "final_test_time_error": ({"alpha": 5.0, "tau": 9.0, "dampening": 0.5},),
    "expected_gamma": ({"dim": 3},),
    "optimal_gamma": ({"dim": 3},),
    "dmmse_errors": ({"theta": 0.1}, {"kappa": 0.5, "dim": 8}),
    "optimal_gdpp": (RATIO, SIZES, {"condition_number": 3.0}),
    "condition_number_schedule": (
        {"condition_number": 3.0, "steps": 2},
        {"excess": 2.0, "tol": 0.1},
    ),
    "steps_needed": ({"condition_number": 3.0, "tol": 0.1}, {"excess": 2.0, "tol": 0.1}),
    "optimal_softmax": ({**RATIO, "noise_ratio": 0.1}, {**SIZES, "noise_variance": 0.1}),
    "softmax_loss": ({**RATIO, "noise_ratio": 0.1}, {**SIZES, "noise_variance": 0.1}),
    "depth_loss": ({"spectrum": ATOMS},),
    "depth_schedule_loss": ({"spectrum": ATOMS},),
    "tied_flow": ({"spectrum": ATOMS},),
    "recurrent_errors": ({"dim": 3},),
}
"""Base calls of functions that need more, or other, arguments than those without defaults."""
INSTANCES = {
    "Atoms": ATOMS,
    "DensityMeasure": DensityMeasure(np.ones_like, [(0.0, 1.0)]),
    "Exponential": Exponential(1.0),
    "FreeSum": FreeSum(LAW, LAW),
    "IndependentEntries": IndependentEntries(context=6, dim=3, input_law="uniform"),
    "MarchenkoPastur": LAW,
    "Mixture": Mixture([ATOMS, LAW], [0.5, 0.5]),
    "PowerLaw": PowerLaw(0.5),
    "Pushforward": Pushforward(ATOMS, [0.0, 1.0]),
    "SampleCovariance": SampleCovariance(ATOMS, 0.5),
    "SpectralMeasure": LAW,
    "TwoPoint": TwoPoint(ATOMS, alpha=1.0),
    "Uniform": Uniform(1.0, 2.0),
    "Wishart": Wishart(context=6, dim=3),
    "Derivation": Derivation((("state the loss", Eq(Symbol("L"), Symbol("x") ** 2)),)),
    "Staircase": separate_attention_staircase(**HEADS, eigenvalues=[1.0, 2.0], context=6),
    "MergedDrop": merged_attention_drop(eigenvalues=[1.0, 2.0], context=6, init_scale=0.01),
    "BalancedSaddle": balanced_saddle([1.0, 2.0], weights=[0.5, 0.5], depth=2),
    "DepthLoss": depth_loss(depth=2, spectrum=ATOMS),
    "Scatter": Scatter(
        *(0.1, 0.08, 0.05, 0.8), prompts=np.eye(2), tasks=np.eye(2), mean=np.ones(2)
    ),
}
FIRST = {id(function): name for name, (function, _) in reversed(FUNCTIONS.items())}
CALLABLES = [
    name
    for name in reversed(FIRST.values())
    if name.startswith("asymptotics.") and parameters_of(FUNCTIONS[name][0])
]
SIMULATIONS = [
    "Problem",
    *(
        name
        for name in FIRST.values()
        if name.startswith("simulate.")
        and name.count(".") == 2
        and parameters_of(FUNCTIONS[name][0])
        and name != "simulate.gdpp.layer_spectra"  # takes arrays of any library as they are
    ),
]


def bound(name):
    """Function of a qualified name, bound to a class or to an instance."""
    if name == "Problem":
        return Problem
    room, shelf, owner, *method = name.split(".")
    item = getattr(importlib.import_module(f"iclimit.{room}.{shelf}"), owner)
    if not method:
        return item
    on_class = inspect.ismethod(getattr(item, *method))
    return getattr(item if on_class else INSTANCES[owner], *method)


def base_call(function, label, argument):
    """Arguments of a call: those without a default, and the alternative with this argument."""
    parameters = inspect.signature(function).parameters
    sizes = parameters.keys() >= {"ratio", "context", "dim"}
    alternatives = CALLS.get(label, (RATIO, SIZES) if sizes else ({},))
    chosen = next((each for each in alternatives if argument in each), alternatives[0])
    needed = {
        name
        for name, each in parameters.items()
        if each.default is each.empty and each.kind is not each.VAR_KEYWORD
    }
    needed -= chosen.keys() | {"path", "pole", "kernel"}
    assert needed <= BASE.keys(), f"a base value is missing for {needed - BASE.keys()}"
    return {name: BASE[name] for name in needed} | chosen
