"""Softmax attention: heads on linear regression, kernels, and the best of all attention."""

from iclimit.asymptotics.softmax.derivations import (
    derive_long_context,
    derive_sine_optimum,
    derive_softmax_head,
)
from iclimit.asymptotics.softmax.functional import (
    FunctionalOptimum,
    finite_rank_loss,
    functional_optimum,
)
from iclimit.asymptotics.softmax.heads import SoftmaxHead, optimal_softmax, softmax_loss
from iclimit.asymptotics.softmax.kernels import (
    KernelHead,
    attention_loss,
    heads_efficiency,
    kernel_efficiency,
    optimal_kernel,
)
from iclimit.asymptotics.softmax.limits import (
    SoftmaxMatrix,
    long_context_softmax,
    optimal_softmax_matrix,
)
from iclimit.asymptotics.softmax.uniform_inputs import uniform_softmax, uniform_softmax_loss
from iclimit.asymptotics.softmax.whole_tokens import TaskOptimum, sine_optimum, whole_token_optimum
from iclimit.notation import explain_names

__all__ = [
    "FunctionalOptimum",
    "KernelHead",
    "SoftmaxHead",
    "SoftmaxMatrix",
    "TaskOptimum",
    "attention_loss",
    "derive_long_context",
    "derive_sine_optimum",
    "derive_softmax_head",
    "finite_rank_loss",
    "functional_optimum",
    "heads_efficiency",
    "kernel_efficiency",
    "long_context_softmax",
    "optimal_kernel",
    "optimal_softmax",
    "optimal_softmax_matrix",
    "sine_optimum",
    "softmax_loss",
    "uniform_softmax",
    "uniform_softmax_loss",
    "whole_token_optimum",
]

explain_names(__name__)
