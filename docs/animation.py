"""Write the moving picture of the landing page: python docs/animation.py.

The number of pretraining tasks passes that of the dimensions, and the error on new tasks falls;
then ``iclimit check`` names the mistake behind a table of halved losses.
"""

from pathlib import Path

import numpy as np

import iclimit

TARGET = Path(__file__).parent / "images" / "moving.svg"

# Seconds until the picture begins again, and share of them after which the terminal is shown.
DURATION = 9
TERMINAL = 0.3

# Parameters that stay, and numbers of tasks over dimension.
SETTING = {"tau": 4.0, "alpha": 4.0, "rho": 0.1}
KAPPA = np.geomspace(0.05, 20, 60)

# Corners of the axes in pixels, and the errors at the lower and the upper one.
LEFT, RIGHT = 70, 410
TOP, BOTTOM = 40, 230
RANGE = (0.0, 1.6)

TABLE = {"d": [24, 24], "alpha": [1, 2], "loss": [0.877, 0.802], "icl_se": [0.004, 0.004]}


def pixels(errors: np.ndarray) -> str:
    """Points of a curve in the picture."""
    share = np.log(KAPPA / KAPPA[0]) / np.log(KAPPA[-1] / KAPPA[0])
    height = (errors - RANGE[0]) / (RANGE[1] - RANGE[0])
    x = LEFT + (RIGHT - LEFT) * share
    y = BOTTOM - (BOTTOM - TOP) * height
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))


def answer() -> list[str]:
    """Lines of the terminal, as the library says them."""
    shared = {"tau": 2, "kappa": 0.5, "rho": 0.1}
    check = iclimit.check_runs(TABLE, columns={"dim": "d", "icl": "loss"}, parameters=shared)
    verdict = "The table contradicts the theory:" if not check.holds else "It agrees."
    return ["$ iclimit check runs.csv", verdict, f"{check.fits[0].text}."]


def curve(errors: np.ndarray, colour: str, name: str, above: int) -> str:
    """A curve with its name at its beginning, and a point that moves along it."""
    points = pixels(errors)
    forth = "M" + " L".join(points.split())
    height = float(points.split()[0].split(",")[1]) + above
    return (
        f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>'
        f'<text x="{LEFT + 14}" y="{height:.0f}" fill="{colour}">{name}</text>'
        f'<circle r="7" fill="{colour}">'
        f'<animateMotion dur="{DURATION}s" repeatCount="indefinite" calcMode="linear" '
        f'keyPoints="0;1;1" keyTimes="0;{TERMINAL};1" path="{forth}"/></circle>'
    )


def terminal() -> str:
    """The command, and the lines of its answer, which appear one after another."""
    command, *lines = answer()
    parts = [
        '<rect x="450" y="62" width="380" height="124" rx="8" fill="#1c2833"/>'
        f'<text x="470" y="97" fill="#ecf0f1" font-family="monospace">{command}</text>'
    ]
    for number, line in enumerate(lines):
        begins = TERMINAL + 0.08 * number
        times = f"0;{begins:.2f};{begins + 0.01:.2f};1"
        colour = ("#ecf0f1", "#f4d03f")[number]
        parts.append(
            f'<text x="470" y="{129 + 32 * number}" fill="{colour}" font-family="monospace">{line}'
            f'<animate attributeName="opacity" values="0;0;1;1" keyTimes="{times}" '
            f'dur="{DURATION}s" repeatCount="indefinite"/></text>'
        )
    return "".join(parts)


def picture() -> str:
    """The whole file."""
    icl = iclimit.icl_error(kappa=KAPPA, **SETTING)
    idg = iclimit.idg_error(kappa=KAPPA, **SETTING)
    middle = LEFT + (RIGHT - LEFT) * np.log(1 / KAPPA[0]) / np.log(KAPPA[-1] / KAPPA[0])
    axes = (
        f'<path d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}" stroke="#566573" fill="none"/>'
        f'<path d="M{middle:.0f} {TOP}V{BOTTOM}" stroke="#aab7b8" stroke-dasharray="4 4"/>'
        f'<g fill="#1c2833"><text x="{middle:.0f}" y="{BOTTOM + 18}" text-anchor="middle">1</text>'
        f'<text x="{(LEFT + RIGHT) / 2:.0f}" y="{BOTTOM + 38}" text-anchor="middle">'
        "pretraining tasks over dimension, κ</text>"
        f'<text x="{LEFT}" y="{TOP - 14}">error</text></g>'
    )
    curves = curve(icl, "#0072b2", "on new tasks (ICL)", -14)
    curves += curve(idg, "#d55e00", "on training tasks (IDG)", -38)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 850 280" font-family="sans-serif" '
        'font-size="14" role="img"><title>More tasks than dimensions: the error on new tasks '
        "falls; a table of halved losses is explained</title>"
        '<rect width="850" height="280" rx="8" fill="#ffffff"/>'
        f"{axes}{curves}{terminal()}</svg>\n"
    )


if __name__ == "__main__":
    TARGET.write_text(picture(), encoding="utf-8")
