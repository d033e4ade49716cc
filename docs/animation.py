"""Write the moving pictures of the landing page, one for phones: python docs/animation.py.

The number of pretraining tasks passes that of the dimensions, and the error on new tasks falls;
then ``iclimit check`` names the mistake behind a table of halved losses.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

import iclimit

IMAGES = Path(__file__).parent / "images"

# Seconds until the picture begins again, and share of them after which the terminal is shown.
DURATION = 9
TERMINAL = 0.3

# Parameters that stay, and numbers of tasks over dimension.
SETTING = {"tau": 4.0, "alpha": 4.0, "rho": 0.1}
KAPPA = np.geomspace(0.05, 20, 60)

# Errors at the lower and the upper corner of the axes.
RANGE = (0.0, 1.6)

TABLE = {"d": [24, 24], "alpha": [1, 2], "loss": [0.877, 0.802], "icl_se": [0.004, 0.004]}


@dataclass(frozen=True)
class Layout:
    """Where things are, in pixels; all letters have the same height.

    Attributes
    ----------
    width, height : int
        Size of the picture.
    left, right, top, bottom : int
        Corners of the axes.
    x, y : int
        Upper left corner of the terminal.
    """

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    x: int
    y: int

    def points(self, kappa: np.ndarray, errors: np.ndarray) -> list[tuple[float, float]]:
        """Points of a curve in the picture."""
        share = np.log(kappa / KAPPA[0]) / np.log(KAPPA[-1] / KAPPA[0])
        height = (errors - RANGE[0]) / (RANGE[1] - RANGE[0])
        x = self.left + (self.right - self.left) * share
        y = self.bottom - (self.bottom - self.top) * height
        return [(float(a), float(b)) for a, b in zip(x, y, strict=True)]


# Pictures by their names: axes and terminal beside each other, and below each other.
LAYOUTS = {
    "moving": Layout(820, 300, left=40, right=420, top=40, bottom=240, x=446, y=72),
    "moving-narrow": Layout(400, 470, left=30, right=380, top=40, bottom=240, x=17, y=310),
}


def answer() -> list[str]:
    """Lines of the terminal, as the library says them."""
    shared = {"tau": 2, "kappa": 0.5, "rho": 0.1}
    check = iclimit.check_runs(TABLE, columns={"dim": "d", "icl": "loss"}, parameters=shared)
    verdict = "The table contradicts the theory:" if not check.holds else "It agrees."
    return ["$ iclimit check runs.csv", verdict, f"{check.fits[0].text}."]


def curve(layout: Layout, errors: np.ndarray, colour: str, name: str, above: int) -> str:
    """A curve with its name at its beginning, and a point that moves along it.

    The points of all curves pass each kappa at the same time.
    """
    places = layout.points(KAPPA, errors)
    points = [f"{x:.1f},{y:.1f}" for x, y in places]
    height = places[0][1] + above
    lengths = np.cumsum([0.0, *np.hypot(*np.diff(places, axis=0).T)])
    passed = ";".join(f"{share:.3f}" for share in lengths / lengths[-1])
    times = ";".join(f"{time:.4f}" for time in np.linspace(0, TERMINAL, len(places)))
    return (
        f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2.5"/>'
        f'<text x="{layout.left + 12}" y="{height:.0f}" fill="{colour}">{name}</text>'
        f'<circle r="7" fill="{colour}">'
        f'<animateMotion dur="{DURATION}s" repeatCount="indefinite" calcMode="linear" '
        f'keyPoints="{passed};1" keyTimes="{times};1" path="M{" L".join(points)}"/></circle>'
    )


def terminal(layout: Layout) -> str:
    """The command, and the lines of its answer, which appear one after another."""
    command, *lines = answer()
    left = layout.x + 18
    parts = [
        f'<rect x="{layout.x}" y="{layout.y}" width="366" height="132" rx="8" fill="#1c2833"/>'
        '<g font-family="monospace">'
        f'<text x="{left}" y="{layout.y + 37}" fill="#ecf0f1">{command}</text>'
    ]
    for number, line in enumerate(lines):
        begins = TERMINAL + 0.08 * number
        times = f"0;{begins:.2f};{begins + 0.01:.2f};1"
        colour = ("#ecf0f1", "#f4d03f")[number]
        height = layout.y + 71 + 32 * number
        parts.append(
            f'<text x="{left}" y="{height}" fill="{colour}">{line}'
            f'<animate attributeName="opacity" values="0;0;1;1" keyTimes="{times}" '
            f'dur="{DURATION}s" repeatCount="indefinite"/></text>'
        )
    return "".join([*parts, "</g>"])


def axes(layout: Layout) -> str:
    """The axes, with a mark where there are as many tasks as dimensions."""
    ((one, _),) = layout.points(np.ones(1), np.zeros(1))
    middle = (layout.left + layout.right) / 2
    return (
        f'<path d="M{layout.left} {layout.top}V{layout.bottom}H{layout.right}" stroke="#566573" '
        f'fill="none"/><path d="M{one:.0f} {layout.top}V{layout.bottom}" stroke="#aab7b8" '
        f'stroke-dasharray="4 4"/><g fill="#1c2833">'
        f'<text x="{one:.0f}" y="{layout.bottom + 20}" text-anchor="middle">1</text>'
        f'<text x="{middle:.0f}" y="{layout.bottom + 42}" text-anchor="middle">'
        "pretraining tasks over dimension, κ</text>"
        f'<text x="{layout.left}" y="{layout.top - 14}">error</text></g>'
    )


def picture(layout: Layout) -> str:
    """The whole file."""
    icl = iclimit.icl_error(kappa=KAPPA, **SETTING)
    idg = iclimit.idg_error(kappa=KAPPA, **SETTING)
    curves = curve(layout, icl, "#0072b2", "new tasks (ICL)", -14)
    curves += curve(layout, idg, "#d55e00", "training tasks (IDG)", -38)
    size = f'{layout.width} {layout.height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} font-family="sans-serif" '
        'font-size="16" role="img"><title>More tasks than dimensions: the error on new tasks '
        "falls; a table of halved losses is explained</title>"
        f'<rect width="{layout.width}" height="{layout.height}" rx="8" fill="#ffffff"/>'
        f"{axes(layout)}{curves}{terminal(layout)}</svg>\n"
    )


if __name__ == "__main__":
    for name, layout in LAYOUTS.items():
        (IMAGES / f"{name}.svg").write_text(picture(layout), encoding="utf-8")
