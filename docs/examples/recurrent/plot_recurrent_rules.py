"""
Which recurrent layer learns in context best?
=============================================

Linear attention adds up what it reads, RetNet and Mamba-2 forget at a constant rate, DeltaNet
corrects what it would have answered, Gated DeltaNet does both, and the Mesa layer solves a
regression.  How well each learns a task in context is known exactly at every position.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit
from iclimit.recurrent import (
    constant_delta_step,
    delta_rule_error,
    forgetting_error,
    optimal_delta_step,
    optimal_forgetting,
    optimal_memory,
    optimal_tracking,
    recurrent_errors,
    simulate_forgetting,
    simulate_recurrent,
    tracking_error,
)

BLUE, ORANGE, GREEN, PINK = "#0072b2", "#d55e00", "#009e73", "#cc79a7"

# %%
# Left: one task for a whole context, d = 40.  The delta rule with the best step at every token
# needs far fewer pairs than linear attention, and no gate or step could do better.  Regression,
# with a memory of :math:`d^2` numbers, is the Bayes estimator here.  Right: tasks that last for 5d
# tokens.  Now forgetting pays.  Points are means over 40 simulated contexts.

dim, rho, drift = 40, 0.25, 0.2
positions = np.arange(1, 8 * dim + 1)
(_, left), (_, right) = plt.subplots(), plt.subplots()
gate = np.exp(-optimal_forgetting(rho=rho, drift=drift).forgetting / dim)
memory = optimal_memory(alpha=8, rho=rho, drift=drift)
for ax, change in ((left, 0.0), (right, drift)):
    setting = {"dim": dim, "context": 8 * dim, "rho": rho, "drift": change}
    for rule, more, colour, label in (
        ("linear", {}, BLUE, "linear attention"),
        ("decay", {"gates": gate}, PINK, f"gate {gate:.3f}"),
        ("delta", {"step_sizes": 0.6}, GREEN, r"delta rule, $\beta = 0.6$"),
        ("gated-delta", {}, ORANGE, "gated delta rule, best"),
    ):
        errors = recurrent_errors(rule, **setting, **more)
        errors.plot(ax, color=colour, label=label)
        layer = {"gates": np.exp(-change / dim), "step_sizes": errors.step_size[1:]}
        layer = layer if rule == "gated-delta" else {"readout": errors.readout, **more}
        run = simulate_recurrent(**setting, **layer, rng=0, contexts=40)
        ax.plot(positions[39::40], run.errors.mean(axis=0)[40::40], "o", color=colour)
    rate, penalty = (memory.forgetting, memory.penalty) if change else (0.0, rho)
    solved = forgetting_error(
        alpha=positions / dim, rho=rho, penalty=penalty, forgetting=rate, drift=change
    )
    ax.plot(positions, solved, color="black", linestyle=":", label="regression")
    solver = {"rho": rho, "penalty": penalty, "forgetting": rate, "drift": change}
    for context in positions[39::80]:
        run = simulate_forgetting(dim=dim, context=int(context), **solver, rng=0, contexts=40)
        ax.plot(context, run.mean, "o", color="black")
    ax.set(title=f"tasks last {5 * dim} tokens" if change else "one task", ylim=(0.25, 1.25))
left.legend()
best = optimal_tracking(rho=rho, drift=drift)
print(f"endless contexts: best step {best.step_size:.3f}, error {best.error:.4f}")

# %%
# Without drift, in the limit: the loss over that of the Bayes estimator.  The delta rule reaches
# its rate in long contexts, one step of linear attention does not.

alpha = np.geomspace(0.1, 100, 200)
_, ax = plt.subplots()
bayes = iclimit.bayes_error(alpha=alpha, rho=rho) - rho
for quantity, colour, label in (
    ("gated_error", BLUE, "linear attention"),
    ("constant_delta_error", GREEN, r"delta rule, best constant $\beta$"),
    ("optimal_delta_error", ORANGE, "delta rule, best steps"),
):
    curves = iclimit.curve(quantity, alpha=alpha, rho=rho)
    ax.plot(alpha, (curves.values[0] - rho) / bayes, color=colour, label=label)
ax.set(xscale="log", xlabel=r"$\alpha = \ell/d$", ylabel="loss over that of Bayes")
ax.legend()

# %%
# Left: the best steps shrink like :math:`1/\alpha` in long contexts; a constant step is a
# compromise.  Right: the error in endless contexts against the step, where tasks last for 5d
# tokens, with the best gate and without one.

(_, left), (_, right) = plt.subplots(), plt.subplots()
left.plot(alpha, optimal_delta_step(alpha=alpha, rho=rho).step_size, color=ORANGE, label="each")
constant = constant_delta_step(alpha=alpha, rho=rho)
left.plot(alpha, constant.step_size, color=GREEN, label="constant")
left.set(xscale="log", xlabel=r"$\alpha = \ell/d$", ylabel=r"best step $\beta$")
left.legend()
steps = np.linspace(0.05, 1.9, 200)
for forgetting, colour, label in ((drift, ORANGE, "best gate"), (0.0, GREEN, "no gate")):
    errors = tracking_error(drift=drift, rho=rho, step_size=steps, forgetting=forgetting)
    right.plot(steps, errors, color=colour, label=label)
ended = delta_rule_error(alpha=8, rho=rho, drift=drift, step_size=steps)
right.plot(steps, ended, color="0.6", linestyle=":", label="best gate, 8d tokens")
right.plot(best.step_size, best.error, "D", color=ORANGE)
right.set(xlabel=r"step $\beta$", ylabel="error on a noisy query label", ylim=(0.6, 1.5))
right.legend()
