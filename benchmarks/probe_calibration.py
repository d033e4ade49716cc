"""Are verdicts on models right, and their z honest?  ``python -m benchmarks.probe_calibration``.

Predictors whose algorithm is known answer prompts of many seeds.  Noise that depends on nothing is
added to their answers, as a trained model deviates from any algorithm: half of the tolerance, in
mean square.  Everything that the verdicts rest on has a known value then:

* the factor of the algorithm is 1, so its z is standard normal;
* the share left unexplained is that of the noise: its one-sided limit holds with 95 %;
* the error of the model is that of the algorithm plus that of the noise;
* weights of a mixture are those that it was made with;
* errors of the algorithms are those of the theory.

The power is how often a rate that is 2 % larger, and an admixture of 10 %, are noticed with a
given number of prompts.  ``--write`` keeps the output in ``benchmarks/probe_calibration.txt``.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from scipy import stats

from iclimit.problem import Problem
from iclimit.simulate.prompts import Prompts, prompt_blocks, sample_prompts
from iclimit.statistics import z_threshold
from iclimit.validation.instruments.models.baselines import baselines
from iclimit.validation.instruments.models.identification import TOLERANCE, identify
from iclimit.validation.instruments.models.ladder import ladder
from iclimit.validation.instruments.models.model import Answers
from iclimit.validation.instruments.ratios import quantile, z_of

OUTPUT = Path(__file__).with_suffix(".txt")

PROBLEM = Problem(
    dim=8,
    context=20,
    noise_variance=0.25,
    tasks=np.random.default_rng(11).standard_normal((6, 8)),
    scale=1,
)

# Prompts have fresh tasks, for which the theory has the errors; "dmmse" knows the given ones.
FRESH = PROBLEM.with_fresh_tasks()

PROMPTS = 4000
# Numbers of prompts whose power is stated.
SIZES = (125, 250, 500, 1000, 2000, 4000)

# Prompts that mean squares of the algorithms come from: a hundred times those of a seed.
REFERENCE = 400_000

# Mean square of the added noise over that of the algorithm.
SHARE = TOLERANCE / 2

MIXTURES = {
    "half ridge, half one_step": {"ridge": 0.5, "one_step": 0.5},
    "0.7 steps_2, 0.3 dmmse": {"steps_2": 0.7, "dmmse": 0.3},
}


def smoother(drawn: Prompts) -> np.ndarray:
    """Nadaraya-Watson: a softmax head without training."""
    scores = np.vecdot(drawn.inputs, drawn.query[:, None, :]) / np.sqrt(PROBLEM.dim)
    weights = np.exp(scores - np.max(scores, axis=1, keepdims=True))
    return np.sum(weights * drawn.labels, axis=1) / np.sum(weights, axis=1)


class Tally:
    """What is found over seeds.

    Attributes
    ----------
    verdicts : dict of str to Counter
        Verdicts on each predictor.
    z : dict of str to list of float
        Deviations from known values, by what they are of.
    covered : dict of str to list of bool
        Whether limits of shares held.
    noticed : dict of (str, int) to list of bool
        Whether a change was noticed with so many prompts.
    """

    def __init__(self) -> None:
        self.verdicts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.z: defaultdict[str, list[float]] = defaultdict(list)
        self.covered: defaultdict[str, list[bool]] = defaultdict(list)
        self.noticed: defaultdict[tuple[str, int], list[bool]] = defaultdict(list)

    def judge_single(self, name: str, answers: Answers, size: float) -> None:
        """An algorithm with noise; its mean square."""
        found = identify(answers)
        right = found.kind == "algorithm" and found.names == (name,)
        self.verdicts[name]["right" if right else f"{found.kind} {found.names}"] += 1
        like = found[name]
        self.z["factor"].append(like.factor_z)
        share = SHARE / (1 + SHARE)
        self.z["unexplained share"].append(like.unexplained.z(share))
        upper = like.unexplained.mean + quantile(1) * like.unexplained.standard_error
        self.covered["upper limit of the share"].append(upper > share)
        rung = ladder(answers, [each for each in BASELINES if each.name == name])[name]
        self.z["difference of errors"].append(rung.difference.z(SHARE * size))

    def judge_mixture(self, title: str, weights: Mapping[str, float], answers: Answers) -> None:
        """A mixture with noise."""
        found = identify(answers)
        right = found.kind == "mixture" and set(found.names) == set(weights)
        self.verdicts[title]["right" if right else f"{found.kind} {found.names}"] += 1
        if right:
            for term in found.mixture.terms:
                self.z["weights of mixtures"].append(z_of(term.weight, weights[term.name]))


BASELINES = baselines(PROBLEM)


def mean_squares() -> dict[str, float]:
    """Mean squares of the algorithms' answers, from many prompts of another seed."""
    totals = dict.fromkeys((each.name for each in BASELINES), 0.0)
    for block in prompt_blocks(FRESH, REFERENCE, rng=10**6):
        for each in BASELINES:
            totals[each.name] += float(np.sum(each.predict(block) ** 2)) / REFERENCE
    return totals


def one_seed(seed: int, tally: Tally, sizes: Mapping[str, float]) -> None:
    """Judge all predictors on the prompts of one seed; sizes are their mean squares."""
    drawn = sample_prompts(FRESH, PROMPTS, rng=seed)
    known = {each.name: each.predict(drawn) for each in BASELINES}
    rng = np.random.default_rng([seed, 1])

    def noisy(answers: np.ndarray, size: float | None = None) -> np.ndarray:
        variance = SHARE * (float(np.mean(answers**2)) if size is None else size)
        return answers + np.sqrt(variance) * rng.standard_normal(PROMPTS)

    def asked(model: np.ndarray, count: int = PROMPTS) -> Answers:
        some = {name: each[:count] for name, each in known.items()}
        cut = drawn.target[:count], drawn.noise_variance[:count]
        return Answers("fresh", model[:count], some, *cut)

    for name in known:
        if name != "null":
            noise = noisy(known[name], sizes[name])
            tally.judge_single(name, asked(noise), sizes[name])
    for title, weights in MIXTURES.items():
        mixed = sum(weight * known[name] for name, weight in weights.items())
        tally.judge_mixture(title, weights, asked(noisy(np.asarray(mixed))))
    others = {"softmax smoother": smoother(drawn), "random": rng.standard_normal(PROMPTS)}
    for title, answers in others.items():
        found = identify(asked(answers))
        right = found.kind in ("none", "like")
        tally.verdicts[title]["right" if right else f"{found.kind} {found.names}"] += 1
    for rung in ladder(asked(known["ridge"]), BASELINES).rungs:
        if np.isfinite(rung.theory_z):
            tally.z["errors of algorithms"].append(rung.theory_z)
    changed = noisy(1.02 * known["one_step"])
    admixed = noisy(0.9 * known["ridge"] + 0.1 * known["one_step"])
    limit = z_threshold(1, 0.05)
    for count in SIZES:
        factor = identify(asked(changed, count))["one_step"].factor_z
        tally.noticed["rate larger by 2 %", count].append(abs(factor) > limit)
        names = identify(asked(admixed, count)).mixture.names
        tally.noticed["0.9 ridge, 0.1 one_step", count].append(set(names) == {"ridge", "one_step"})


def lines_of(tally: Tally, seeds: int) -> list[str]:
    """The tables."""
    lines = [
        f"{seeds} seeds, {PROMPTS} prompts, d = {PROBLEM.dim}, N = {PROBLEM.context}, noise in "
        f"the answers {SHARE:.1%} of their mean square, tolerance {TOLERANCE:.0%}",
        "",
        f"{'predictor':26}  right verdicts",
    ]
    for name, counts in tally.verdicts.items():
        wrong = "; ".join(f"{key}: {count}" for key, count in counts.items() if key != "right")
        lines.append(f"{name:26}  {counts['right'] / seeds:7.1%}  {wrong}".rstrip())
    lines += ["", f"{'z of':26}  {'number':>6}  {'mean':>6}  width  |z|>2   |z|>3"]
    normal = "  ".join(f"{2 * stats.norm.sf(tail):6.4f}" for tail in (2, 3))
    lines.append(f"{'standard normal':26}  {'':6}  {0:+6.3f}  {1:5.3f}  {normal}")
    for name, z in tally.z.items():
        found = np.array(z)
        tails = "  ".join(f"{np.mean(abs(found) > tail):6.4f}" for tail in (2, 3))
        numbers = f"{len(z):6}  {found.mean():+6.3f}  {found.std():5.3f}"
        lines.append(f"{name:26}  {numbers}  {tails}")
    lines += ["", "limits that should hold in 95 %"]
    lines += [f"{name:26}  {np.mean(each):7.1%}" for name, each in tally.covered.items()]
    lines += ["", f"noticed with prompts          {'  '.join(f'{size:6}' for size in SIZES)}"]
    for name in dict.fromkeys(name for name, _ in tally.noticed):
        shares = "  ".join(f"{np.mean(tally.noticed[name, size]):6.1%}" for size in SIZES)
        lines.append(f"{name:28}  {shares}")
    return lines


def main() -> None:
    """Ask all predictors with all seeds and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.probe_calibration")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--write", action="store_true", help=f"keep it in {OUTPUT.name}")
    arguments = parser.parse_args()
    tally = Tally()
    sizes = mean_squares()
    for seed in range(arguments.seeds):
        one_seed(seed, tally, sizes)
    lines = lines_of(tally, arguments.seeds)
    print("\n".join(lines))
    if arguments.write:
        OUTPUT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
