"""What the explorer says about its formulas: every symbol, and where each is derived."""

import re
from pathlib import Path

from iclimit.explorer.formulas import DERIVATIONS, OTHERS, explained, formulas, symbols
from iclimit.explorer.functions import formula, functions
from iclimit.notation import read_table

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


def test_every_row_explains_a_formula():
    told = {pair for _, *given in FORMULAS for pair in explained(*given)}
    rows = read_table("explorer/formula_symbols.csv")
    assert [row for row in rows if (row["symbol"], row["meaning"]) not in told] == []


def test_every_formula_is_derived_on_a_page_of_the_documentation():
    for path, title in DERIVATIONS.values():
        assert (THEORY / f"{path}.rst").read_text("utf-8").splitlines()[0] == title
    texts = formulas()
    for name, _, place, _ in FORMULAS:
        assert texts[name]["page"], place


def test_a_formula_ends_with_its_block():
    assert not any(re.search(":math:|which", latex) for _, latex, *_ in FORMULAS)
