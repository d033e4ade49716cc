"""Are families and their parameters found?  ``python -m benchmarks.probe_families``.

Members of nineteen families, with three parameters each and in two sizes, answer prompts of many
seeds.  Noise that depends on nothing is added to their answers, half of the tolerance in mean
square, as a trained model deviates from any algorithm.  A verdict is right if it names the family,
alone or as what the prompts do not tell from the one that it names, and all its parameters are in
their intervals, which hold together with 99 %.  Networks that are none of them, and random
answers, must be called none, or next to nothing.  ``--only`` judges members of the named families;
``--write`` keeps the output in ``benchmarks/probe_families.txt``.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from iclimit.networks import AttentionNetwork, LstmNetwork, train_network
from iclimit.problem import Problem
from iclimit.simulate.prompts import Prompts
from iclimit.simulate.prompts.sampling import concatenate_fields
from iclimit.validation.instruments.models.algorithm import Examples
from iclimit.validation.instruments.models.baselines import baselines, families
from iclimit.validation.instruments.models.fitting import fit_families, fit_size
from iclimit.validation.instruments.models.identification import (
    TOLERANCE,
    Identification,
    identify,
)
from iclimit.validation.instruments.models.model import Answers
from iclimit.validation.instruments.models.sections import plan_sections

OUTPUT = Path(__file__).with_suffix(".txt")

# Dimension and context; inputs have variance 1 and labels noise of variance 1/4.
SIZES = ((4, 10), (8, 20))

PROMPTS = 1000

# Mean square of the added noise over that of the answers.
SHARE = TOLERANCE / 2

# Parameters of the members, in units that do not depend on the size: penalties and label noise of
# the given tasks as they are, steps of `PER_DIM` over 1/d.
PER_DIM = ("delta_rule", "gated_delta_rule")
MEMBERS: dict[str, list[dict[str, float]]] = {
    "ridge": [{"penalty": value} for value in (1.0, 5.0, 20.0)],
    "flow": [{"time": value} for value in (0.7, 1.5, 3.0)],
    "descent": [{"steps": 2, "rate": 0.5}, {"steps": 3, "rate": 0.6}, {"steps": 6, "rate": 0.5}],
    "gdpp": [
        {"layers": 2, "rate": 0.3, "gamma": 0.25},
        {"layers": 2, "rate": 0.7, "gamma": 0.15},
        {"layers": 3, "rate": 0.4, "gamma": 0.2},
    ],
    "recency_ridge": [
        {"penalty": 0.25, "decay": 0.7},
        {"penalty": 1.0, "decay": 0.8},
        {"penalty": 0.25, "decay": 0.85},
    ],
    "recency_step": [{"rate": 0.7, "decay": value} for value in (0.6, 0.8, 0.9)],
    "last_ridge": [{"penalty": 0.5, "pairs": value} for value in (4, 6, 8)],
    "intercept_ridge": [{"penalty": value} for value in (1.0, 5.0, 20.0)],
    "mean_ridge": [{"penalty": value} for value in (1.0, 5.0, 20.0)],
    "elu_attention": [
        {"feature_scale": scale, "value": value, "normalised": normalised}
        for scale, value, normalised in ((0.5, 3.0, 1), (1.0, 2.0, 1), (1.0, 0.3, 0))
    ],
    "relu_attention": [
        {"value": value, "normalised": normalised}
        for value, normalised in ((1.0, 1), (2.0, 1), (0.5, 0))
    ],
    "delta_rule": [{"step": value} for value in (0.3, 0.6, 0.9)],
    "gated_delta_rule": [
        {"step": step, "decay": decay, "readout": readout}
        for step, decay, readout in ((0.6, 0.8, 1.0), (0.8, 0.9, 0.9), (0.5, 0.7, 0.7))
    ],
    "unit_delta_rule": [
        {"step": step, "readout": readout, "unit_queries": unit}
        for step, readout, unit in ((0.3, 1.5, 1), (0.6, 1.0, 0), (0.9, 2.0, 1))
    ],
    "gated_unit_delta_rule": [
        {"step": 0.6, "decay": 0.8, "readout": 2.0, "unit_queries": 1},
        {"step": 0.8, "decay": 0.9, "readout": 1.0, "unit_queries": 0},
        {"step": 0.5, "decay": 0.7, "readout": 1.0, "unit_queries": 1},
    ],
    "softmax": [
        {"inverse_temperature": 0.3, "value": 2.0},
        {"inverse_temperature": -0.5, "value": -1.0},
        {"inverse_temperature": 1.0, "value": 1.0},
    ],
    "gaussian_smoother": [{"bandwidth": value} for value in (0.5, 0.8, 1.2)],
    "neighbours": [{"neighbours": value} for value in (2, 4, 6)],
    "dmmse": [{"noise_variance": value} for value in (0.1, 1.0, 4.0)],
}

Predictor = Callable[[Prompts], np.ndarray]


class Setting:
    """A problem, with what does not depend on the seed."""

    def __init__(self, dim: int, context: int) -> None:
        tasks = np.random.default_rng(dim).standard_normal((6, dim))
        self.problem = Problem(dim, context, tasks=tasks, noise_variance=0.25, scale=1)
        # The fit of the lasso takes as long as that of all others.
        rows = [each for each in families(self.problem) if each.name != "lasso"]
        self.families = {each.name: each for each in rows}
        self.baselines = baselines(self.problem)

    def member(self, name: str, parameters: dict[str, float]) -> Predictor:
        """A member of a family."""
        values = dict(parameters)
        family = self.families[name]
        if name in PER_DIM:
            values["step"] /= self.problem.dim
        factor = values.pop(family.factor, 1.0)
        return lambda prompts: factor * family.answer(Examples(prompts, self.problem), **values)

    def networks(self) -> dict[str, Predictor]:
        """Networks that are none of the algorithms, after a short training."""
        dim = self.problem.dim
        gpt = AttentionNetwork(dim, layers=2, heads=2, width=16, mlp=32, layer_norm=True)
        known = {"LSTM": LstmNetwork(dim, hidden=24), "GPT-like": gpt}
        law = self.problem.with_fresh_tasks()
        runs = {
            name: train_network(each, law, steps=400, batch=128, held_out=500, rng=0)
            for name, each in known.items()
        }
        return {
            name: lambda p, run=run: run(p.inputs, p.labels, p.query) for name, run in runs.items()
        }

    def verdict(self, predictor: Predictor, seed: int) -> Identification:
        """Verdict on a predictor with noise in its answers."""
        section = plan_sections(self.problem, test_prompts=PROMPTS, rng=seed)[0]
        drawn = concatenate_fields(section.blocks())
        exact = predictor(drawn)
        noise = np.random.default_rng([seed, 1]).standard_normal(PROMPTS)
        model = exact + np.sqrt(SHARE * np.mean(exact**2)) * noise
        fits, near = fit_families(self.families.values(), section, model, TOLERANCE)
        chosen = [*self.baselines, *near]
        judged = drawn[fit_size(self.problem, PROMPTS) :]
        known = {each.name: each.predict(judged) for each in chosen}
        target = judged.target
        levels = judged.noise_variance
        answers = Answers("fresh", model[-len(judged) :], known, target, levels)
        return identify(answers, chosen, fits=fits)


def outcome(found: Identification, name: str, parameters: dict[str, float], dim: int) -> str:
    """Whether a verdict is right, or in what it is wrong."""
    named = [each.partition("(")[0] for each in (*found.names, *found.tied)]
    if found.kind not in ("algorithm", "ambiguous") or name not in named:
        return f"{found.kind} {named[0] if named else ''}".strip()
    truth = dict(parameters)
    if name in PER_DIM:
        truth["step"] /= dim
    ends = found.fit(name).intervals
    inside = all(ends[key][0] <= value <= ends[key][1] for key, value in truth.items())
    return "right" if inside else "outside"


def main() -> None:
    """Judge all members with all seeds and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.probe_families")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--only", nargs="+", choices=MEMBERS, metavar="FAMILY")
    parser.add_argument("--write", action="store_true", help=f"keep it in {OUTPUT.name}")
    arguments = parser.parse_args()
    counts: dict[str, Counter[str]] = {}
    cancelling = 0
    for dim, context in SIZES:
        setting = Setting(dim, context)
        cases = [(name, each) for name in arguments.only or MEMBERS for each in MEMBERS[name]]
        for name, parameters in cases:
            tally = counts.setdefault(name, Counter())
            for seed in range(arguments.seeds):
                found = setting.verdict(setting.member(name, parameters), seed)
                result = outcome(found, name, parameters, dim)
                tally[result] += 1
                cancelling += any(term.weight.mean < 0 for term in found.mixture.terms[1:])
            print(dim, name, parameters, dict(tally), flush=True)
        noise = np.random.default_rng(dim)
        others = {} if arguments.only else setting.networks()
        if not arguments.only:
            others["random"] = lambda prompts, noise=noise: noise.standard_normal(len(prompts))
        for name, predictor in others.items():
            tally = counts.setdefault(name, Counter())
            for seed in range(arguments.seeds):
                found = setting.verdict(predictor, seed)
                right = found.kind in ("none", "null")
                tally["right" if right else f"{found.kind} {found.names}"] += 1
                cancelling += any(term.weight.mean < 0 for term in found.mixture.terms[1:])
    lines = [
        f"{arguments.seeds} seeds, 3 members and {len(SIZES)} sizes of each family, {PROMPTS} "
        f"prompts, noise in the answers {SHARE:.1%}, tolerance {TOLERANCE:.0%}",
        "",
        f"{'predictor':21}  right",
    ]
    for name, tally in counts.items():
        wrong = "; ".join(f"{key}: {count}" for key, count in tally.items() if key != "right")
        lines.append(f"{name:21}  {tally['right'] / tally.total():6.1%}  {wrong}".rstrip())
    total = sum((counts[name] for name in arguments.only or MEMBERS), Counter())
    lines += [
        f"{'all families':21}  {total['right'] / total.total():6.1%}",
        "",
        f"mixtures with weights that cancel: {cancelling}",
    ]
    print("\n".join(lines))
    if arguments.write:
        OUTPUT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
