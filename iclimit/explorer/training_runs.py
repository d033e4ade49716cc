"""Published loss curves of linear attention in training, beside the plateaus of the theory."""

from typing import Any

import numpy as np

from iclimit.asymptotics import dynamics
from iclimit.validation.reference.curves import CONTEXT, CURVES, eigenvalues

# Most points of a curve; the published ones have up to 1001.
POINTS = 250


def training_runs() -> list[dict[str, Any]]:
    """Curves, the eigenvalues of their inputs and the losses with 0, 1, ... directions learned."""
    runs = []
    for curve in CURVES:
        steps, losses = curve.read().T
        kept = np.unique(np.linspace(0, len(steps) - 1, POINTS).astype(int))
        spectrum = eigenvalues(curve.settings["dim"])
        runs.append(
            {
                "label": curve.label,
                "heads": curve.settings["heads"],
                "eigenvalues": spectrum.tolist(),
                "context": CONTEXT,
                "plateaus": dynamics.plateau_losses(spectrum, context=CONTEXT).tolist(),
                "learned": [0, *curve.learned, len(spectrum)],
                "steps": steps[kept].astype(int).tolist(),
                "losses": [float(f"{loss:.6g}") for loss in losses[kept]],
            }
        )
    return runs
