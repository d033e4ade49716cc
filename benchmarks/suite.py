"""The benchmarks: which measurements are made, and the tables made of them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.util import find_spec
from statistics import median

from tqdm import tqdm

from benchmarks.child import measure

CELL_SIZES = (40, 60, 80)
LARGE_SIZE = 100
STRUCTURED_SIZES = (40, 60, 80, 100, 140, 200)
DENSE_SIZES = (30, 40, 60, 80)
# Child processes per measurement, of which the median is taken.
RUNS = 3
# Spread of CPU times above which the report says so.
NOISY = 0.1
# Points without and with a ridge.
THEORY = {False: 1_000_000, True: 100_000}
CONTEXTS = (10, 20)
FLOW = "population flow, D = 4"
PROBING = "probing, 20,000 prompts"
EXPLANATIONS = "check of eight rows, two of them wrong"
# Benchmarks of one kind: ours, the other way if there is one, arguments.
PAIRS: dict[str, tuple[str, str, dict[str, float | str]]] = {
    **{
        f"learning rate, N = {context}": ("learning_rate", "line_search", {"context": context})
        for context in CONTEXTS
    },
    **{
        f"training, N = {context}": ("training", "plain_training", {"context": context})
        for context in CONTEXTS
    },
    **{
        f"training, N = {context}, PyTorch": ("training", "torch_training", {"context": context})
        for context in (CONTEXTS if find_spec("torch") else ())
    },
    **{
        f"transformer, {layers} layers": ("transformer", "plain_transformer", {"layers": layers})
        for layers in (2, 3)
    },
    "Wishart moments": ("moments", "moment_recursion", {}),
    "merged attention, D = 4, P = 5000": (
        "dynamics",
        "plain_dynamics",
        {"model": "merged", "rank": 1, "timed": 10},
    ),
    **{
        f"separate attention, D = 8, P = 80,000, rank {rank}": (
            "dynamics",
            "plain_dynamics",
            {"model": "separate", "rank": rank, "timed": 2},
        )
        for rank in (1, 8)
    },
    FLOW: ("dynamics_flow", "", {}),
    **{
        f"LSTM, {name}": ("lstm", "plain_lstm", {"layers": layers, "bidirectional": both})
        for name, layers, both in (("1 layer", 1, False), ("2 layers, both directions", 2, True))
    },
    **{
        f"attention network, {layers} layers": (
            "attention_network",
            "plain_attention",
            {"layers": layers},
        )
        for layers in (2, 5)
    },
    **{
        f"eight networks, width {width}": ("networks", "networks_one_by_one", {"width": width})
        for width in (8, 64)
    },
    "200 steps at test time": ("test_time_steps", "plain_steps", {}),
    **{
        f"depth curve, 1000 modes, alpha = {alpha:g}": (
            "depth_curve",
            "plain_depth",
            {"alpha": alpha},
        )
        for alpha in (0.5, 4.0)
    },
    **{
        f"simulated steps, {sampler}": ("sampled_steps", "", {"sampler": sampler})
        for sampler in ("covariances", "tokens")
    },
    PROBING: ("probing", "plain_probing", {"positions": False}),
    "probing at every position, 5000 prompts": ("probing", "plain_probing", {"positions": True}),
    **{f"solver at d = {d}": ("solver", "", {"d": d}) for d in (80, 200)},
    "estimated cost": ("cost_estimates", "", {}),
    EXPLANATIONS: ("explanations", "", {}),
    "two BLAS threads on busy cores, d = 100": (
        "limited_threads",
        "all_threads",
        {"d": 100, "threads": 2},
    ),
}
# What a measurement of memory imports; that much is subtracted.
BASELINES = {"structured": ["iclimit.simulate"], "dense": ["benchmarks.dense"]}


@dataclass
class Measured:
    """Medians over processes of one measurement."""

    seconds: float
    memory: float
    spread: float
    extra: dict[str, float]


# Where a result goes and under which key, the function measured and its arguments.
Job = tuple[dict, object, str, dict]


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
        parts = (self.structured, self.dense, self.theory, self.loop, self.ours, self.other)
        return median(m.spread for part in parts for m in part.values())


def run_pairs(part: str) -> Results:
    """Measure those benchmarks of gradient descent whose names contain the text."""
    results = Results()
    _measure(_pair_jobs(results, part), {})
    return results


def run_all(large: bool) -> Results:
    """Make all measurements, interleaved so that both sides of a ratio see the same machine."""
    sizes = sorted({*STRUCTURED_SIZES, *DENSE_SIZES, *CELL_SIZES})
    dense_sizes = sorted({*DENSE_SIZES, *CELL_SIZES, *([LARGE_SIZE] if large else [])})
    results = Results()
    jobs: list[Job] = []
    for d in sizes:
        if d in STRUCTURED_SIZES:
            jobs.append((results.structured, d, "structured", {"d": d}))
        if d in dense_sizes:
            jobs.append((results.dense, d, "dense", {"d": d}))
    for ridge, count in THEORY.items():
        jobs.append((results.theory, ridge, "theory", {"count": count, "with_ridge": ridge}))
        jobs.append((results.loop, ridge, "theory_loop", {"with_ridge": ridge}))
    jobs += _pair_jobs(results)
    baseline = {
        name: median(measure("idle", modules=modules)["memory"] for _ in range(RUNS))
        for name, modules in BASELINES.items()
    }
    _measure(jobs, baseline)
    return results


def _pair_jobs(results: Results, part: str = "") -> list[Job]:
    jobs: list[Job] = []
    for name, (ours, other, arguments) in PAIRS.items():
        if part in name:
            jobs.append((results.ours, name, ours, arguments))
            if other:
                jobs.append((results.other, name, other, arguments))
    return jobs


def _measure(jobs: list[Job], baseline: dict[str, float]) -> None:
    """Fill in the results of the jobs."""
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


def slope(measured: dict[int, Measured]) -> tuple[float, float]:
    """Exponent of CPU time in d, and its standard error from the scatter about the line."""
    x = [math.log(d) for d in measured]
    y = [math.log(m.seconds) for m in measured.values()]
    n = len(x)
    mean_x = sum(x) / n
    mean_y = sum(y) / n
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


def report_pairs(results: Results) -> str:
    """The table of gradient descent, with what was measured of it."""
    rows = []
    for name, a in results.ours.items():
        b = results.other.get(name)
        rows.append(
            [
                name,
                f"{a.seconds:.3g}",
                f"{b.seconds:.3g}" if b else "",
                f"**{b.seconds / a.seconds:,.0f}**" if b else "",
                f"{a.memory:.0f}",
                f"{b.memory:.0f}" if b else "",
                _values(a.extra),
                _values(b.extra) if b else "",
            ]
        )
    return markdown(
        ["", "CPU s", "the other way", "ratio", "MiB", "the other way", "result", "the other"],
        rows,
    )


def report_noise(results: Results) -> str:
    """How far the CPU times of one measurement lie apart."""
    return (
        f"Medians of {RUNS} processes, one thread each unless the name says more; the CPU times "
        f"of one measurement typically spread by {100 * results.spread:.0f} %"
        + (": noisy, read the ratios accordingly." if results.spread > NOISY else ".")
    )


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
    a = results.structured[80]
    b = results.dense[80]
    exponent = slope(results.structured)[0]
    flow = results.ours[FLOW].seconds
    probing = results.ours[PROBING].seconds
    explained = results.ours[EXPLANATIONS].seconds
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
                ("population flow: under 1 s", f"{flow:.2g} s", flow < 1),
                ("probing: under 20 s", f"{probing:.2g} s", probing < 20),
                ("two wrong rows of eight: under 10 s", f"{explained:.2g} s", explained < 10),
            )
        ],
    )
    return "\n\n".join(
        [
            report_noise(results),
            "### One cell",
            cells,
            "### Growth",
            growth,
            "### Theory",
            theory,
            "### Gradient descent in context, solver, cost model",
            report_pairs(results),
            "### Aims",
            aims,
        ]
    )
