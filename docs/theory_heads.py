"""First screen of a theory page: the main formula, what has been compared, and the code."""

import math
import re

from evidence_page import ROWS, size_of_z
from markup import folded

from iclimit.explorer.formulas import explained
from iclimit.explorer.functions import functions
from iclimit.validation.report.coverage import TOGETHER
from iclimit.words import percent

# Functions whose formula stands first on a page.
FORMULAS = {
    "pretraining/icl": "icl_error",
    "pretraining/fluctuations": "icl_spread",
    "pretraining/budgets": "budget_icl_error",
    "pretraining/finite-size": "errors_at_size",
    "pretraining/one-pass": "one_pass_error",
    "descent/gradient-descent": "optimal_learning_rate",
    "descent/schedules": "optimal_rates",
    "gdpp/gdpp": "condition_number_excess",
    "gdpp/noisy-regression": "ridge_risk",
    "dynamics/dynamics": "merged_attention_loss",
    "softmax/softmax": "softmax_limit_loss",
    "depth/test-time": "overthinking_threshold",
    "depth/tied": "tied_depth_loss",
    "depth/untied": "untied_power_law_loss",
    "recurrent/layers": "delta_rule_error",
    "recurrent/contexts": "effective_context",
    "spectra/resolvent": "wishart_resolvent",
}

# Claims that are named; the others are counted.
NAMED = 3

_FIGURE = re.compile(
    r"\.\. figure:: (/api/generated/schematics/.*?)\.svg\n(.*?\n)(?=\S)", re.DOTALL
)
_CODE = re.compile(r"^Code:.*?\n\n", re.DOTALL | re.MULTILINE)
# Names of errors, which the documentation sets upright.
_ERROR = re.compile(r"\be_\{(ICL|IDG)\}")
_NAME = re.compile(r"`iclimit\.[\w.]*?(\w+)`")


def add_head(app, name, source):  # noqa: ARG001
    """Put the head of a theory page behind its schematic figure, which has a narrow form, too."""
    figure = _FIGURE.search(source[0])
    if not name.startswith("theory/") or figure is None:
        return
    narrow = f".. image:: {figure[1]}-narrow.svg\n   :class: schematic-narrow\n   :alt:\n\n"
    before = source[0][: figure.start()]
    after = source[0][figure.end() :]
    found = _CODE.search(after)
    code = found[0] if found else ""
    main = FORMULAS.get(name.removeprefix("theory/"))
    parts = [narrow + figure[0]]
    if main:
        latex, symbols = _formula(main)
        parts += [
            latex,
            symbols,
            _compared(code or after, main),
            folded("Code", code) if code else "",
        ]
    else:
        parts += [_compared(code or after, main), folded("Code", code) if code else ""]
    source[0] = "\n".join([before, *parts, after.replace(code, "", 1)])


def _formula(main):
    """The formula of a function, and its symbols."""
    function = next(each for each in functions() if each.name == main)
    place = function.source.removeprefix("iclimit.asymptotics.")
    symbols = [
        f"* :math:`{symbol}`: {meaning}"
        for symbol, meaning in explained(function.latex, place, function.arguments)
    ]
    latex = function.latex.strip().rstrip(",").replace("\n", "\n   ")
    parts = (f".. math::\n\n   {latex}\n", "\n".join([".. rst-class:: symbols", "", *symbols, ""]))
    return (_ERROR.sub(r"\\e\1", part) for part in parts)


def _compared(text, main):
    """How many comparisons on record check the functions that a text names."""
    names = {*_NAME.findall(text), main}
    rows = [row for row in ROWS if _function(row) in names and row.claim != TOGETHER]
    if not rows:
        return ""
    number = sum(not row.comparison.pooled for row in rows)
    # Equal counts by name: a set has no order.
    claims = sorted(
        {row.claim for row in rows}, key=lambda name: (-sum(r.claim == name for r in rows), name)
    )
    shown = ", ".join(f"``{name}``" for name in claims[:NAMED])
    others = f" and {len(claims) - NAMED} more" * (len(claims) > NAMED)
    random = [row for row in rows if row.comparison.standard_error > 0]
    own = [row for row in random if _function(row) == main] or random
    best = min(own, key=lambda row: row.would_notice, default=None)
    notices = ""
    if best is not None and math.isfinite(best.would_notice):
        notices = f"  An error of ``{_function(best)}`` of {percent(best.would_notice)}"
        notices += " would have been noticed with a probability of 95 %."
    failing = sum(size_of_z(row) > row.threshold for row in rows if not row.comparison.pooled)
    outcome = f"all but {failing} of which hold" if failing else "all of which hold"
    return (
        f"**Checked** in {number} comparisons with simulations, published runs or exact values, "
        f"{outcome}: {shown}{others} (:doc:`the evidence </evidence>`).{notices}\n"
    )


def _function(row):
    return row.comparison.of.partition(".")[0]
