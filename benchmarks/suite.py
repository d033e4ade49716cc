"""The benchmarks: which measurements are made, and the tables made of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from tqdm import tqdm

from benchmarks.child import measure

CELL_SIZES = (40, 60, 80)
LARGE_SIZE = 100
STRUCTURED_SIZES = (40, 60, 80, 100, 140, 200)
DENSE_SIZES = (30, 40, 60, 80)
RUNS = 3
"""Child processes per measurement, of which the median is taken."""
NOISY = 0.1
"""Spread of CPU times above which the report says so."""
THEORY = {False: 1_000_000, True: 100_000}
"""Points without and with a ridge."""
CONTEXTS = (10, 20)
PAIRS: dict[str, tuple[str, str, dict[str, int]]] = {
    **{
        f"learning rate, N = {context}": ("learning_rate", "line_search", {"context": context})
        for context in CONTEXTS
    },
    **{
        f"training, N = {context}": ("training", "plain_training", {"context": context})
        for context in CONTEXTS
    },
    **{
        f"transformer, {layers} layers": ("transformer", "plain_transformer", {"layers": layers})
        for layers in (2, 3)
    },
    "Wishart moments": ("moments", "moment_recursion", {}),
}
"""Benchmarks of gradient descent: ours, the other way, arguments."""
BASELINES = {"structured": ["iclimit.simulate"], "dense": ["benchmarks.dense"]}
"""What a measurement of memory imports; that much is subtracted."""


@dataclass
class Measured:
    """Medians over processes of one measurement."""

    seconds: float
    memory: float
    spread: float
    extra: dict[str, float]


@dataclass
class Results:
    """Everything measured in one run."""

    structured: dict[int, Measured] = field(default_factory=dict)
    dense: dict[int, Measured] = field(default_factory=dict)
    theory: dict[bool, Measured] = field(default_factory=dict)
    loop: dict[bool, Measured] = field(default_factory=dict)
    ours: dict[str, Measured] = field(default_factory=dict)
    other: dict[str, Measured] = field(default_factory=dict)

    @property
    def spread(self) -> float:
        """Median over the measurements of (largest - smallest)/median CPU time of the runs."""
        parts = (
            self.structured, self.dense, self.theory, self.loop, self.ours, self.other
        )  # fmt: skip
        return median(m.spread for part in parts for m in part.values())


def run_all(large: bool) -> Results:
    """Make all measurements, interleaved so that both sides of a ratio see the same machine."""
    sizes = sorted({*STRUCTURED_SIZES, *DENSE_SIZES, *CELL_SIZES})
    dense_sizes = sorted({*DENSE_SIZES, *CELL_SIZES, *([LARGE_SIZE] if large else [])})
    results = Results()
    jobs: list[tuple[dict, object, str, dict]] = []
    for d in sizes:
        if d in STRUCTURED_SIZES:
            jobs.append((results.structured, d, "structured", {"d": d}))
        if d in dense_sizes:
            jobs.append((results.dense, d, "dense", {"d": d}))
    for ridge, count in THEORY.items():
        jobs.append((results.theory, ridge, "theory", {"count": count, "with_ridge": ridge}))
        jobs.append((results.loop, ridge, "theory_loop", {"with_ridge": ridge}))
    for name, (ours, other, arguments) in PAIRS.items():
        jobs.append((results.ours, name, ours, arguments))
        jobs.append((results.other, name, other, arguments))
    baseline = {
        name: median(measure("idle", modules=modules)["memory"] for _ in range(RUNS))
        for name, modules in BASELINES.items()
    }
    samples: list[list[dict[str, float]]] = [[] for _ in jobs]
    order = [(seed, index) for seed in range(RUNS) for index in range(len(jobs))]
    for seed, index in tqdm(order, disable=None, unit="run"):
        _, _, name, arguments = jobs[index]
        samples[index].append(measure(name, seed=seed, **arguments))
    for (target, key, name, _), drawn in zip(jobs, samples, strict=True):
        seconds = [s["seconds"] for s in drawn]
        target[key] = Measured(
            seconds=median(seconds),
            memory=median(s["memory"] for s in drawn) - baseline.get(name, 0.0),
            spread=(max(seconds) - min(seconds)) / median(seconds),
            extra={
                value: sum(s[value] for s in drawn) / len(drawn)
                for value in drawn[0]
                if value not in ("seconds", "memory")
            },
        )
    return results


def slope(measured: dict[int, Measured]) -> tuple[float, float]:
    """Exponent of CPU time in d, and its standard error from the scatter about the line."""
    x = [math.log(d) for d in measured]
    y = [math.log(m.seconds) for m in measured.values()]
    n = len(x)
    mean_x, mean_y = sum(x) / n, sum(y) / n
    square = sum((a - mean_x) ** 2 for a in x)
    value = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / square
    rest = sum((b - mean_y - value * (a - mean_x)) ** 2 for a, b in zip(x, y, strict=True))
    return value, math.sqrt(rest / (n - 2) / square)


def _values(extra: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.6g}" for name, value in extra.items())


def markdown(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table whose columns but the first are aligned to the right."""
    header = list(header)
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def report(results: Results) -> str:
    """All tables in markdown."""
    both = [d for d in results.structured if d in results.dense]
    cells = markdown(
        ["d", "CPU s", "dense CPU s", "ratio", "MiB", "dense MiB", "ratio", "ICL error", "dense"],
        [
            [
                str(d),
                f"{a.seconds:.3g}",
                f"{b.seconds:.3g}",
                f"**{b.seconds / a.seconds:.0f}**",
                f"{a.memory:.0f}",
                f"{b.memory:.0f}",
                f"**{b.memory / a.memory:.0f}**",
                f"{a.extra['icl']:.2f}",
                f"{b.extra['icl']:.2f}",
            ]
            for d, a, b in ((d, results.structured[d], results.dense[d]) for d in both)
        ],
    )
    growth = markdown(
        ["", "sizes d", "CPU s", "exponent"],
        [
            [
                name,
                ", ".join(map(str, measured)),
                ", ".join(f"{m.seconds:.2g}" for m in measured.values()),
                "**{:.2f}** ± {:.2f}".format(*slope(measured)),
            ]
            for name, measured in (("iclimit", results.structured), ("dense", results.dense))
        ],
    )
    rates = {ridge: THEORY[ridge] / m.seconds for ridge, m in results.theory.items()}
    from benchmarks.work import LOOP_POINTS

    loops = {ridge: LOOP_POINTS / m.seconds for ridge, m in results.loop.items()}
    theory = markdown(
        ["", "points", "points/s", "loop points/s", "ratio", "right in the loop"],
        [
            [
                "with ridge" if ridge else "ridgeless",
                f"{THEORY[ridge]:,}",
                f"{rates[ridge]:,.0f}",
                f"{loops[ridge]:,.0f}",
                f"**{rates[ridge] / loops[ridge]:,.0f}**",
                f"{100 * results.loop[ridge].extra['right']:.0f} %",
            ]
            for ridge in THEORY
        ],
    )
    descent = markdown(
        ["", "CPU s", "the other way", "ratio", "MiB", "the other way", "result", "the other"],
        [
            [
                name,
                f"{a.seconds:.3g}",
                f"{b.seconds:.3g}",
                f"**{b.seconds / a.seconds:,.0f}**",
                *(f"{m.memory:.0f}" for m in (a, b)),
                *(_values(m.extra) for m in (a, b)),
            ]
            for name, a, b in ((n, results.ours[n], results.other[n]) for n in PAIRS)
        ],
    )
    a, b = results.structured[80], results.dense[80]
    exponent = slope(results.structured)[0]
    aims = markdown(
        ["Aim", "measured", "met"],
        [
            [aim, found, "yes" if met else "**no**"]
            for aim, found, met in (
                (
                    "d = 80: at least 20 times less CPU time",
                    f"{b.seconds / a.seconds:.0f}",
                    b.seconds >= 20 * a.seconds,
                ),
                (
                    "d = 80: at least 10 times less memory",
                    f"{b.memory / a.memory:.0f}",
                    b.memory >= 10 * a.memory,
                ),
                ("growth exponent at most 4.5", f"{exponent:.2f}", exponent <= 4.5),
                ("ridgeless theory: 1e6 points/s", f"{rates[False]:.2g}", rates[False] >= 1e6),
                ("theory with ridge: 1e5 points/s", f"{rates[True]:.2g}", rates[True] >= 1e5),
            )
        ],
    )
    noise = (
        f"Medians of {RUNS} processes, one thread each; the CPU times of one measurement "
        f"typically spread by {100 * results.spread:.0f} %"
        + (": noisy, read the ratios accordingly." if results.spread > NOISY else ".")
    )
    return "\n\n".join(
        [
            noise,
            "### One cell",
            cells,
            "### Growth",
            growth,
            "### Theory",
            theory,
            "### Gradient descent in context",
            descent,
            "### Aims",
            aims,
        ]
    )
