r"""Symbols of the notation as plain text: ``\tau`` is τ, ``\sigma^2`` is σ²."""

import re
import unicodedata

from iclimit.notation import PARAMETERS

_WORDS = {"lambda": "λ", "ell": "ℓ", "log": "log", "infty": "∞", "to": "→", "propto": "∝"}
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def notation() -> dict[str, dict[str, str]]:
    """Symbol, meaning and definition of every parameter, for axes and sliders."""
    return {
        name: {
            "symbol": plain_symbol(known.symbol),
            "meaning": known.meaning.partition(";")[0].partition(" (")[0].partition(", of")[0],
            "definition": plain_symbol(known.definition),
        }
        for name, known in PARAMETERS.items()
    }


def quantities() -> dict[str, dict[str, str]]:
    """Name and meaning of every quantity in words."""
    from iclimit.diagrams.quantities import QUANTITIES

    return {
        name: {
            "label": re.sub("icl|idg", lambda m: m[0].upper(), name.replace("_", " ")),
            "meaning": known.meaning,
        }
        for name, known in QUANTITIES.items()
    }


def plain_symbol(latex: str) -> str:
    r"""Plain text of a symbol in LaTeX; empty if it has none.

    Examples
    --------
    >>> from iclimit.explorer.symbols import plain_symbol
    >>> plain_symbol(r"\sigma^2/(N a^2)"), plain_symbol(r"n_{\mathrm{test}}")
    ('σ²/(N a²)', '')
    """
    text = re.sub(r"\\([a-zA-Z]+) ?", lambda match: _letter(match[1]), latex)
    text = re.sub(r"\^(\d)", lambda match: match[1].translate(_RAISED), text)
    return "" if re.search(r"[\\{}_^?]", text) else text


def plain_label(label: str) -> str:
    r"""Plain text of a label; symbols that have none are left out.

    Examples
    --------
    >>> from iclimit.explorer.symbols import plain_label
    >>> plain_label(r"$e_{\mathrm{ICL}} = 1 + \rho$: that of predicting 0")
    'ICL error = 1 + ρ: that of predicting 0'
    >>> plain_label(r"$\eta = \eta^*$: best rate")
    'best rate'
    """
    text = re.sub(r"e_\{\\mathrm\{(ICL|IDG)\}\}", r"\1 error", label)
    text = re.sub(r"\$([^$]*)\$", lambda match: plain_symbol(match[1]), text)
    text = re.sub(r" ?([=→∝]) ?", r" \1 ", text)
    return text.removeprefix(": ").strip()


def _letter(name: str) -> str:
    if name in _WORDS:
        return _WORDS[name]
    try:
        return unicodedata.lookup(f"GREEK SMALL LETTER {name.upper()}")
    except KeyError:
        return "?"
