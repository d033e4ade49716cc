"""
Correlated tokens: how many examples are they worth?
====================================================

Neighbouring tokens that resemble each other teach less.  For linear attention they are worth a
shorter context of independent ones, unless the query resembles them, too.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit
from iclimit.recurrent import correlated_query_errors, effective_context
from iclimit.validation.reference import read_reference

BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#009e73"

# %%
# The effective context against the correlation of neighbours, for several noise levels.  Label
# noise is independent from token to token, so that correlated tokens still average it.  Without
# noise a correlation of 0.6 costs half of the context.

correlation = np.linspace(0, 0.95, 100)
_, ax = plt.subplots()
for rho, colour in ((0.01, BLUE), (0.5, GREEN), (2.0, ORANGE)):
    worth = effective_context(alpha=4, rho=rho, correlation=correlation)
    ax.plot(correlation, worth / 4, color=colour, label=rf"$\rho = {rho:g}$")
ax.set(xlabel="correlation $r$ of neighbours", ylabel=r"$\alpha_{\mathrm{eff}}/\alpha$")
ax.legend()

# %%
# ICL errors after pretraining, against the length over which tokens are correlated: limits (lines)
# and published runs at d = 32 (points), which finite size makes 6 to 8 % larger.  A query that
# continues the sequence resembles the last tokens, whose labels answer part of the question.

length = np.linspace(0.2, 10, 80)
setting = {"tau": 4, "kappa": 10, "rho": 0.01}
correlation = np.exp(-1 / length)
alpha = effective_context(alpha=4, rho=0.01, correlation=correlation)
curves = {
    "p128": ("independent query", BLUE, iclimit.icl_error(**setting, alpha=alpha)),
    "corr_query": (
        *("correlated query", ORANGE),
        correlated_query_errors(**setting, alpha=4, correlation=correlation).icl,
    ),
}
_, ax = plt.subplots()
published = read_reference("lu_correlated_contexts_d32.csv")
for name, (label, colour, errors) in curves.items():
    rows = [row for row in published if row["curve_name"] == name]
    values, spreads = (
        [float(row[f"best_fresh_test_loss{end}"]) for row in rows] for end in ("", "_std")
    )
    lengths = [float(row["corr_len"]) for row in rows]
    bars = np.array(spreads) / np.sqrt(20)
    ax.plot(length, errors, color=colour, label=label)
    ax.errorbar(lengths, values, bars, fmt="o", color=colour)
ax.set(xlabel="correlation length in tokens", ylabel=r"$e_{\mathrm{ICL}}$")
ax.legend()
