"""Formulas of the panels, as LaTeX from the docstrings and as MathML, which browsers draw."""

import inspect
import re
import unicodedata
from typing import Any

from iclimit.diagrams.quantities import QUANTITIES
from iclimit.explorer.functions import formula, functions

# Formulas of no function: title, module whose docstring has it, and the number there.
OTHERS = {
    "effective_ridge": ("Effective ridge ξ", "pretraining.icl", 3),
    "plateau_losses": (
        "Losses L of the plateaus, at which the directions in S are learned",
        "dynamics.plateaus",
        1,
    ),
}


def formulas() -> dict[str, dict[str, Any]]:
    """Title, LaTeX, MathML and source of the formulas of all functions, and of some others."""
    texts = {}
    for function in functions():
        quantity = QUANTITIES.get(function.name)
        first_line = (inspect.getdoc(function.function) or "").partition("\n")[0].rstrip(".")
        title = quantity.meaning if quantity else first_line
        texts[function.name] = _formula(title, function.latex, function.source)
    for name, (title, place, number) in OTHERS.items():
        texts[name] = _formula(title, formula(place, str(number)), f"iclimit.asymptotics.{place}")
    return texts


def _formula(title: str, latex: str, source: str) -> dict[str, str]:
    from latex2mathml.converter import convert

    latex = rf"\begin{{align*}} {latex} \end{{align*}}" if "&" in latex else latex
    # Fences grow by themselves in MathML.
    plain = re.sub(r"\\[Bb]igg?[lr]?(?![a-zA-Z])", "", latex)
    mathml = re.sub(r' xmlns="[^"]*"', "", convert(plain, display="block"))
    # Browsers have dropped the attribute for script letters, but have the letters.
    mathml = re.sub(r'<mi mathvariant="script">([A-Z])</mi>', _script, mathml)
    title = title[:1].upper() + title[1:]
    return {"title": title, "latex": latex, "source": source, "mathml": mathml}


def _script(match: re.Match[str]) -> str:
    name = f"SCRIPT CAPITAL {match[1]}"
    try:
        letter = unicodedata.lookup(name)
    except KeyError:
        letter = unicodedata.lookup(f"MATHEMATICAL {name}")
    return f"<mi>{letter}</mi>"
