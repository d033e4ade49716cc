"""Curves and phase diagrams of named quantities, with boundaries and simulated points."""

from iclimit.diagrams.curves import curve
from iclimit.diagrams.phases import phase_diagram
from iclimit.diagrams.sensitivities import sensitivity

__all__ = ["curve", "phase_diagram", "sensitivity"]
