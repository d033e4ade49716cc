"""What to cite: BibTeX entries of quantities, claims and functions.

Entries are those of ``references.bib``.  A quantity names its papers in the registry, a claim in
its source, a function in its docstring or that of its module.
"""

import inspect
import re
import sys
from collections.abc import Callable
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
    papers = {name: papers_of(name) for name in names}
    comments = [f"% {name}: {_worded(keys)}" for name, keys in papers.items()]
    keys = dict.fromkeys(key for cited in papers.values() for key in cited)
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
    if name in functions:
        return _of_function(functions[name])
    bare = (name for name in functions if "." not in name)
    known = [*quantities, *CLAIMS, *bare, *references()]
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
    """Public functions and classes of all shelves by name, in their namespace and without it."""
    functions: dict[str, Any] = {}
    for shelf in (shelf for shelf in SHELVES if shelf != "runs"):
        for name, member in vars(import_module(f"iclimit.{shelf}")).items():
            if name[0] != "_":
                short = {name, f"{shelf}.{name}"}
                spellings = {*short, *(f"iclimit.{spelling}" for spelling in short)}
                functions |= dict.fromkeys({*spellings, f"{member.__module__}.{name}"}, member)
    return functions


def _of_function(function: Callable[..., Any]) -> tuple[str, ...]:
    """Papers that the docstring names, else those of its module, else of modules named there."""
    module = sys.modules[function.__module__].__doc__ or ""
    others = re.findall(r"`(iclimit\.asymptotics[\w.]+)`", module)
    texts = [getattr(sys.modules.get(other), "__doc__", None) for other in others]
    papers = (_mentioned(text or "") for text in (inspect.getdoc(function), module, *texts))
    return (*next(filter(None, papers), ()), DERIVED)


def _mentioned(text: str) -> tuple[str, ...]:
    """Keys of the papers that a text names, by arXiv id or, without one, by author and year."""
    keys = []
    for key, entry in references().items():
        number = re.search(r"arXiv:([\d.]+\d)", entry)
        author = _field(entry, "author")
        year = _field(entry, "year")
        surname = re.sub(r"[{}\\'`]", "", author.split(",")[0])
        named = rf"\b{re.escape(surname)}\b[^.]{{0,160}}\b{year}\b"
        if number[1] in text if number else re.search(named, text):
            keys.append(key)
    return tuple(keys)


def _field(entry: str, name: str) -> str:
    """Value of a field of an entry of BibTeX."""
    return re.findall(rf"{name} = \{{(.*?)\}},?\n", entry)[0]


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
