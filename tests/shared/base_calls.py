"""Valid calls of all public functions of the theory, from which tests depart."""

import importlib
import inspect
from functools import cache

import numpy as np
from public_functions import FUNCTIONS, parameters_of
from sympy import Eq, Symbol

from iclimit.asymptotics.derivation import Derivation
from iclimit.asymptotics.pretraining import JointSpectrum
from iclimit.asymptotics.spectra import Atoms, IndependentEntries, MarchenkoPastur
from iclimit.experiment import SGD, Descent, Experiment
from iclimit.notation import PARAMETERS
from iclimit.prediction import Scatter
from iclimit.problem import Problem
from iclimit.results import Result
from iclimit.simulate.dynamics import AttentionModel
from iclimit.simulate.gdpp import gdpp_transformer
from iclimit.simulate.networks import AttentionNetwork
from iclimit.simulate.prompts import sample_prompts

LAW = MarchenkoPastur(0.5)
PROBLEM = Problem(dim=3, context=6)
RUN = Experiment(Problem(3, 6, tasks=3, noise_variance=0.1), prompts=60)
ONE_PASS = RUN.with_(prompts=8, training=SGD(0.05, batch=4))
STEPPED = RUN.with_(training=Descent(4, 0.05))
ATOMS = Atoms([1.0, 2.0])
IDENTITY = np.eye(3)
HEADS = {"value": np.full(2, 0.1), "key": np.full((2, 1, 2), 0.1), "query": np.ones((2, 1, 2))}
TYPICAL = {name: row.typical for name, row in PARAMETERS.items() if row.typical is not None}
OBJECTS = {
    "arguments": (1.0,),
    "coefficients": np.ones((4, 2)),
    "covariance": np.minimum,
    "density": np.ones_like,
    "feature_covariance": IDENTITY,
    "feature_moments": np.array([[2.0, 0.5], [0.5, 1.0]]),
    "features": lambda x: np.stack([np.ones_like(x), x]),
    "first": LAW,
    "function": np.exp,
    "functions": np.ones((2, 2)),
    "gamma": IDENTITY,
    "input_covariance": IDENTITY,
    "inputs": (0.0, 1.0),
    "key": np.ones((2, 1, 2)),
    "key_query": IDENTITY,
    "label_weights": np.ones(3),
    "matrix": IDENTITY,
    "measure": ATOMS,
    "measures": [ATOMS, LAW],
    "model": AttentionModel("merged", 2, 1),
    "network": AttentionNetwork(3),
    "population": ATOMS,
    "problem": PROBLEM,
    "query": np.ones((2, 1, 2)),
    "run": RUN,
    "samples": sample_prompts(PROBLEM, 4, rng=0),
    "scale_law": ("student", 10.0),
    "scaled_moments": np.array([[3.0, 0.5], [0.5, 2.0]]),
    "score_function": np.exp,
    "second": LAW,
    "shared_task": np.ones(3),
    "spectrum": JointSpectrum.of_measures(ATOMS, order=4),
    "support": [(0.0, 1.0)],
    "task_covariance": IDENTITY,
    "task_set": IDENTITY,
    "task_spectrum": ATOMS,
}
BASE = TYPICAL | OBJECTS
"""Values of all arguments: typical ones of the notation, and what is no number or list."""
SIZES = {"context": 6, "dim": 3}
RATIO = {"ratio": 0.5}
NOISY = {"problem": Problem(dim=10, context=20, noise_law="uniform:5", scale=1.0)}
CALLS = {
    "separate_attention_staircase": (HEADS,),
    "effective_init_scale": ({"value": np.ones(2), "key_query": np.ones((2, 2, 2))},),
    "simulate_gradient_flow": ({"rng": 0},),
    "simulate_untied_flow": ({"initial": [0.0, 0.1]},),
    **dict.fromkeys(("simulate_ridge_baselines", "train_linear_transformer"), (NOISY,)),
    "held_out_losses": ({**NOISY, "model": gdpp_transformer([0.1], [], context=20, dim=10)},),
    "simulate_learning_rate": (SIZES,),
    "simulate_softmax": (SIZES,),
    "simulate_one_pass": ({"run": ONE_PASS},),
    "simulate_positions": ({"positions": [2, 6]},),
    "exact_position_errors": ({**SIZES, "rho": 0.1, "first": 2, "task_set": IDENTITY},),
    "simulate_descent": ({"run": STEPPED},),
    "one_pass_task_errors": ({"learning_rate": 0.1},),
    "position_errors_at_size": ({"positions": [2, 6]},),
    **dict.fromkeys(
        ("all_position_errors", "balanced_position_errors", "sequence_worth"),
        ({"alpha_min": 0.25},),
    ),
    **dict.fromkeys(("optimal_sequence_ridge", "sequences_needed"), ({"alpha_min": 0.25},)),
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
    "Derivation": Derivation((("state the loss", Eq(Symbol("L"), Symbol("x") ** 2)),)),
    "IndependentEntries": IndependentEntries(context=6, dim=3, input_law="uniform"),
    "Scatter": Scatter(
        *(0.1, 0.08, 0.05, 0.8), prompts=np.eye(2), tasks=np.eye(2), mean=np.ones(2)
    ),
    "SpectralMeasure": LAW,
}
"""Instances of classes that no base call of themselves, or of a function of theirs, makes."""
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
    return getattr(item if on_class else instance(owner, item), *method)


@cache
def instance(owner, item):
    """Instance of a class: one that is written down, a result of a function, or a plain one."""
    if owner in INSTANCES:
        return INSTANCES[owner]
    for name, (function, _) in FUNCTIONS.items():
        made = inspect.signature(function).return_annotation
        if issubclass(item, Result) and owner in (made, getattr(made, "__name__", "")):
            return function(**base_call(function, name.split(".")[-1], ""))
    return item(**base_call(item, owner, ""))


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
