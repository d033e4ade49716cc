"""Curves and phase diagrams of named quantities, with boundaries and simulated points."""

from iclimit.diagrams.scans import curve, phase_diagram
from iclimit.diagrams.sensitivities import sensitivity
from iclimit.diagrams.solutions import solve

__all__ = ["curve", "phase_diagram", "sensitivity", "solve"]
