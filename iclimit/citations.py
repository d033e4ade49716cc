"""What to cite: BibTeX entries of quantities, claims and functions.

Entries are those of ``references.bib``.  A quantity names its papers in the registry, a claim in
its source, a function in its docstring or that of its module.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module, resources
from typing import Any

from iclimit.notation import SHELVES, did_you_mean
from iclimit.registry import DERIVED, REGISTRY


def cite(*names: str) -> str:
    r"""BibTeX entries of what quantities, claims or functions come from.

    Parameters
    ----------
    *names : str
        Quantities (``iclimit phase --list``), claims (``iclimit claims``), public functions, with
        their namespace or without, or keys of entries such as ``"lu2025"``.

    Returns
    -------
    str
        For each name a comment with the keys, then the entries, each once.  What is derived in the
        documentation of iclimit has an entry for iclimit, too.

    Raises
    ------
    ValueError
        If no name is given, or one is unknown.

    Examples
    --------
    >>> import iclimit
    >>> print("\n".join(iclimit.cite("wishart_resolvent", "icl_error").splitlines()[:4]))
    % wishart_resolvent: marchenko1967, lu2025
    % icl_error: lu2025, letey2025; in part derived in iclimit
    @article{marchenko1967,
      author = {Marchenko, V. A. and Pastur, L. A.},
    """
    if not names:
        raise ValueError("names must be quantities, claims or functions, got none")
    found = {name: papers_of(name) for name in names}
    comments = [f"% {name}: {_worded(keys)}" for name, keys in found.items()]
    keys = dict.fromkeys(key for each in found.values() for key in each)
    entries = [references()[key] for key in keys if key != DERIVED]
    return "\n".join([*comments, *entries, *([_software()] if DERIVED in keys else [])])


def papers_of(name: str) -> tuple[str, ...]:
    """Keys of the papers of a quantity, claim or function; ``here`` for what is derived here.

    Raises
    ------
    ValueError
        If the name is unknown.
    """
    from iclimit.validation import CLAIMS

    quantities = {row.name: row.papers for row in REGISTRY.values() if row.label}
    if name in quantities:
        return quantities[name]
    if name in CLAIMS:
        return _mentioned(CLAIMS[name].source) or (DERIVED,)
    if name in references():
        return (name,)
    functions = _functions()
    bare = name.rpartition(".")[2]
    if bare in functions and name in _spellings(functions[bare]):
        return _of_function(functions[bare])
    known = [*quantities, *CLAIMS, *functions, *references()]
    raise ValueError(
        "name must be a quantity (iclimit phase --list), a claim (iclimit claims), a public "
        f"function or a key of references.bib, got {name!r}{did_you_mean(name, known)}"
    )


@cache
def references() -> dict[str, str]:
    """Entries of ``references.bib`` by key."""
    text = resources.files("iclimit").joinpath("references.bib").read_text(encoding="utf-8")
    return {m[1]: m[0] for m in re.finditer(r"^@\w+\{(\w+),\n.*?^\}", text, re.DOTALL | re.M)}


@cache
def _functions() -> dict[str, Any]:
    """Public functions and classes of all shelves by name."""
    shelves = [import_module(f"iclimit.{shelf}") for shelf in SHELVES if shelf != "runs"]
    return {name: getattr(shelf, name) for shelf in shelves for name in shelf.__all__}


def _spellings(function: Any) -> Iterator[str]:
    """Names of a function: bare, in its namespace, and in full."""
    name, module = function.__name__, function.__module__
    for shelf in ("", *(f"{each}." for each in SHELVES)):
        if not shelf or f".{shelf}" in f"{module}.":
            yield from (f"{shelf}{name}", f"iclimit.{shelf}{name}")
    yield f"{module}.{name}"


def _of_function(function: Any) -> tuple[str, ...]:
    """Papers that the docstring names, else those of its module, else of modules named there."""
    module = sys.modules[function.__module__].__doc__ or ""
    others = re.findall(r"`(iclimit\.asymptotics[\w.]+)`", module)
    for text in (inspect.getdoc(function) or "", module):
        if keys := _mentioned(text):
            return (*keys, DERIVED)
    for other in others:
        if keys := _mentioned(getattr(sys.modules.get(other), "__doc__", "") or ""):
            return (*keys, DERIVED)
    return (DERIVED,)


def _mentioned(text: str) -> tuple[str, ...]:
    """Keys of the papers that a text names, by arXiv id or, without one, by author and year."""
    found = []
    for key, entry in references().items():
        number = re.search(r"arXiv:([\d.]+\d)", entry)
        author, year = (
            re.findall(rf"{field} = \{{(.*?)\}},?\n", entry)[0] for field in ("author", "year")
        )
        surname = re.sub(r"[{}\\'`]", "", author.split(",")[0])
        named = rf"\b{re.escape(surname)}\b[^.]{{0,160}}\b{year}\b"
        if number[1] in text if number else re.search(named, text):
            found.append(key)
    return tuple(found)


def _worded(keys: tuple[str, ...]) -> str:
    papers = ", ".join(key for key in keys if key != DERIVED)
    if DERIVED not in keys:
        return papers
    return f"{papers}; in part derived in iclimit" if papers else "iclimit itself"


def _software() -> str:
    import iclimit

    return (
        "@software{iclimit,\n"
        "  author = {{The iclimit developers}},\n"
        "  title = {iclimit: the theory of in-context learning, computed and checked},\n"
        f"  version = {{{iclimit.__version__}}}\n"
        "}"
    )
