"""What the explorer says about its formulas: every symbol, and where each is derived."""

import re
import sys
from pathlib import Path

from iclimit.explorer.formulas import (
    OTHERS,
    explained,
    formulas,
    stated_page,
    stated_symbols,
    symbols,
)
from iclimit.explorer.functions import formula, functions

THEORY = Path(__file__).parents[3] / "docs" / "theory"

FORMULAS = [
    *(
        (each.name, each.latex, each.source.removeprefix("iclimit.asymptotics."), each.arguments)
        for each in functions()
        if not each.name.startswith("margin_")
    ),
    *(
        (name, formula(f"{place}.{label}"), place, ())
        for name, (_, place, label) in OTHERS.items()
    ),
]
"""Name, LaTeX, module and arguments."""


def test_symbols_are_told_from_commands_and_differentials():
    latex = r"\mathcal L_< = \frac{1}{\Bigl(a}\int \sqrt{x_b}\, d\mu + \mathrm{eff} \text{at } u^*"
    assert symbols(latex) == {r"\mathcalL", "<", "a", "x", "b", r"\mu", r"\mathrm{eff}", "u", "*"}


def test_every_symbol_of_a_formula_is_explained():
    for given in FORMULAS:
        _, latex, place, arguments = given
        told = list(explained(latex, place, arguments))
        known = set().union(*(symbols(symbol) for symbol, _ in told))
        assert symbols(latex) <= known
        names = [symbol for symbol, _ in told]
        assert len(names) == len(set(names))
        assert all(meaning for _, meaning in told)


THEORY_MODULES = [
    name.removeprefix("iclimit.asymptotics.")
    for name in sorted(sys.modules)
    if name.startswith("iclimit.asymptotics.")
]


def test_every_comment_explains_a_formula():
    told = {pair for _, *given in FORMULAS for pair in explained(*given)}
    stated = {pair for place in THEORY_MODULES for pair in stated_symbols(place)}
    assert stated - told == set()
    assert all(symbol and meaning for symbol, meaning in stated)


def test_every_formula_is_derived_on_a_page_of_the_documentation():
    for path, title in filter(None, map(stated_page, THEORY_MODULES)):
        assert (THEORY / f"{path}.rst").read_text("utf-8").splitlines()[0] == title
    texts = formulas()
    for name, _, place, _ in FORMULAS:
        assert texts[name]["page"], place


def test_a_formula_ends_with_its_block():
    assert not any(re.search(":math:|which", latex) for _, latex, *_ in FORMULAS)
