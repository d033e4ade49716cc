r"""Symbols of the notation as plain text: ``\tau`` is τ, ``\sigma^2`` is σ²."""

import re
import unicodedata

from iclimit.notation import PARAMETERS

_WORDS = {
    **{"lambda": "λ", "ell": "ℓ", "log": "log", "infty": "∞", "vartheta": "ϑ"},
    **{"partial": "∂", "to": "→", "propto": "∝ ", "leq": "≤ ", "max": "max"},
}
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
            "label": re.sub(r"\b(icl|idg)\b", lambda m: m[0].upper(), name.replace("_", " ")),
            "meaning": known.meaning,
        }
        for name, known in QUANTITIES.items()
    }


def plain_symbol(latex: str) -> str:
    """Plain text of a symbol in LaTeX; empty if it needs more than that."""
    text = plain_text(latex)
    return "" if re.search(r"[_^?]", text) else text


def plain_text(latex: str) -> str:
    r"""Plain text of a formula in LaTeX, as near as letters come.

    Examples
    --------
    >>> from iclimit.explorer.symbols import plain_text
    >>> plain_text(r"\sigma^2/(N a^2)"), plain_text(r"e_{\mathrm{ICL}} = 2 + \rho")
    ('σ²/(N a²)', 'e_ICL = 2 + ρ')
    """
    text = re.sub(r"\\sqrt\b", "√", latex)
    text = re.sub(r"\\(?:mathrm|mathcal|hat)\b", "", text)
    text = re.sub(r"\\([a-zA-Z]+)(?: (?=[a-zA-Z]))?", lambda match: _letter(match[1]), text)
    text = re.sub(r"\^(\d)", lambda match: match[1].translate(_RAISED), text)
    return re.sub(r"[{}]|\\,", "", text).replace("^*", "*").replace("$", "")


def plain_label(label: str) -> str:
    r"""Plain text of a label; symbols that have none are left out.

    Examples
    --------
    >>> from iclimit.explorer.symbols import plain_label
    >>> plain_label(r"$e_{\mathrm{ICL}} = 1 + \rho$: error of predicting 0")
    'ICL error = 1 + ρ: error of predicting 0'
    >>> plain_label(r"$\eta = \eta^*$: best rate")
    'η = η*: best rate'
    """
    text = re.sub(r"e_\{\\mathrm\{(ICL|IDG)\}\}", r"\1 error", label)
    text = re.sub(r"\$([^$]*)\$", lambda match: plain_symbol(match[1]), text)
    return text.removeprefix(": ").strip()


def _letter(name: str) -> str:
    if name in _WORDS:
        return _WORDS[name]
    try:
        size = "CAPITAL" if name[0].isupper() else "SMALL"
        return unicodedata.lookup(f"GREEK {size} LETTER {name.upper()}")
    except KeyError:
        return "?"
