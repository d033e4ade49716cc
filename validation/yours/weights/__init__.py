"""Reads weights: from the matrices of linear attention to what they compute, and how well."""

from iclimit.validation.yours.weights.layouts import LAYOUTS, Layout, get_layout
from iclimit.validation.yours.weights.reduced import (
    PretrainingComparison,
    ReducedGamma,
    reduced_gamma,
)
from iclimit.validation.yours.weights.stacks import ReducedStack, reduced_stack

__all__ = [
    "LAYOUTS",
    "Layout",
    "PretrainingComparison",
    "ReducedGamma",
    "ReducedStack",
    "get_layout",
    "reduced_gamma",
    "reduced_stack",
]
