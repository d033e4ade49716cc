"""Formulas of the panels: LaTeX from the docstrings, MathML, what their symbols mean.

Comments in the docstring of a module of the theory, or of its shelf, say what its symbols mean and
which page of the documentation derives its formulas::

    .. page: pretraining/icl: ICL and IDG errors of linear attention

    .. symbols:
       w: 1 + M/κ
       A: M(1 + qw²)/r
"""

import inspect
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from iclimit.diagrams.quantities import QUANTITIES
from iclimit.explorer.functions import formula, functions
from iclimit.explorer.symbols import plain_symbol
from iclimit.notation import PARAMETERS

# Formulas of no function: title, module whose docstring has it, and its label there.
OTHERS = {
    "effective_ridge": ("Effective ridge ξ", "pretraining.icl", "effective_ridge"),
    "plateau_losses": (
        "Losses L of the plateaus, at which the directions in S are learned",
        "dynamics.plateaus",
        "losses",
    ),
}

# Parameters that formulas have beside those of their function.
_COMMON = (
    *("tau", "alpha", "kappa", "rho", "ridge"),
    *("dim", "prompts", "noise_variance", "task_variance", "steps"),
)

# Commands that are no symbols.
_COMMANDS = re.compile(
    r"\\([Bb]ig[lr]|arctan|binom|cos|dot|t?frac|in|infty|int|le|leftarrow|lim|ln|log|max|pi|pm|prod|q?quad"
    r"|sqrt|sum|to|top)"
)

# Symbols in LaTeX; a raised star and a lowered sign of comparison are parts of a name.
_SYMBOL = re.compile(
    r"\\mathcal *\w|\\(?:mathrm|operatorname)\{\w+\}|\\hat *\w|e_\{I\w+\}|\\[a-zA-Z]+"
    r"|(?<=\^)\*|(?<=_)[<>]|[a-zA-Z]"
)


def _docstring(place: str) -> str:
    """Docstring of a module or a shelf of the theory that is loaded; empty for anything else."""
    return getattr(sys.modules.get(f"iclimit.asymptotics.{place}"), "__doc__", None) or ""


def stated_page(place: str) -> tuple[str, str] | None:
    """Page of the documentation and its title, from the comment of a module or a shelf."""
    page = re.search(r"(?m)^\.\. page: (\S+): (.+)$", _docstring(place))
    return (page[1], page[2]) if page else None


@cache
def stated_symbols(place: str) -> list[tuple[str, str]]:
    """Symbols in LaTeX with what they mean, from the comment of a module or a shelf."""
    block = re.search(r"(?m)^\.\. symbols:\n((?:   .*\n?)+)", _docstring(place))
    return re.findall(r"(?m)^   (.+?): (.+)$", re.sub(r"\n {6}", " ", block[1])) if block else []


def formulas() -> dict[str, dict[str, Any]]:
    """Formulas of all functions and of `OTHERS`, with their symbols and where they are derived."""
    texts = {}
    for function in functions():
        quantity = QUANTITIES.get(function.name)
        first_line = (inspect.getdoc(function.function) or "").partition("\n")[0].rstrip(".")
        title = quantity.meaning if quantity else first_line
        texts[function.name] = _formula(title, function.latex, function.source, function.arguments)
    for name, (title, module, label) in OTHERS.items():
        latex = formula(f"{module}.{label}")
        texts[name] = _formula(title, latex, f"iclimit.asymptotics.{module}")
    return texts


def _formula(title: str, latex: str, source: str, arguments: Iterable[str] = ()) -> dict[str, Any]:
    place = source.removeprefix("iclimit.asymptotics.")
    pages = (stated_page(home) for home in _homes(place))
    return {
        "title": title[:1].upper() + title[1:],
        "latex": _aligned(latex),
        "source": source,
        "mathml": _mathml(_aligned(latex), "block"),
        "symbols": [
            (_mathml(symbol), meaning) for symbol, meaning in explained(latex, place, arguments)
        ],
        "page": next(filter(None, pages), None),
    }


def explained(latex: str, place: str, arguments: Iterable[str] = ()) -> Iterator[tuple[str, str]]:
    r"""Symbols of a formula of a module, with what they mean.

    Those of the shelf and of the module come first, then the arguments of the function, then
    parameters that the notation has for symbols that are still unexplained.

    Examples
    --------
    >>> from iclimit.explorer.formulas import explained
    >>> for symbol, meaning in explained(r"f(\lambda) = \lambda", "gdpp.condition_number"):
    ...     print(f"{symbol}: {meaning}")
    f: eigenvalue after the layer
    \lambda: eigenvalue of the inputs' second moments
    """
    wanted = symbols(latex)
    own = [pair for home in reversed(_homes(place)) for pair in stated_symbols(home)]
    named = [_of_notation(name) for name in (*arguments, *_COMMON) if name in PARAMETERS]
    known: set[str] = set()
    for pairs, is_own in ((own, True), (named, False)):
        for symbol, meaning in pairs:
            parts = symbols(symbol)
            if parts and parts <= wanted and (is_own or not parts <= known):
                known |= parts
                yield symbol, meaning


def _of_notation(name: str) -> tuple[str, str]:
    known = PARAMETERS[name]
    meaning = known.meaning.partition(";")[0]
    definition = plain_symbol(known.definition)
    return known.symbol, f"{meaning}, {definition}" if definition else meaning


def symbols(latex: str) -> set[str]:
    """Symbols of a formula: letters with what makes them others, and indices by themselves."""
    plain = re.sub(r"\\(?:text|begin|end)\{.*?\}|\bd(?=\\mu|[sx]\b)", " ", latex)
    return {
        symbol.replace(" ", "")
        for symbol in _SYMBOL.findall(plain)
        if not _COMMANDS.fullmatch(symbol)
    }


def _homes(place: str) -> list[str]:
    """A module of the theory, and where it is, from the inside out."""
    parts = place.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]


def _aligned(latex: str) -> str:
    return rf"\begin{{align*}} {latex} \end{{align*}}" if "&" in latex else latex


def _mathml(latex: str, display: str = "inline") -> str:
    from latex2mathml.converter import convert

    # Fences grow by themselves in MathML.
    plain = re.sub(r"\\[Bb]igg?[lr]?(?![a-zA-Z])", "", latex)
    mathml = re.sub(r' xmlns="[^"]*"', "", convert(plain, display=display))
    # Browsers have dropped the attribute for script letters, but have the letters.
    return re.sub(r'<mi mathvariant="script">([A-Z])</mi>', _script, mathml)


def _script(match: re.Match[str]) -> str:
    name = f"SCRIPT CAPITAL {match[1]}"
    try:
        letter = unicodedata.lookup(name)
    except KeyError:
        letter = unicodedata.lookup(f"MATHEMATICAL {name}")
    return f"<mi>{letter}</mi>"
