"""Versions of the code behind a result.

The version of a function is a hash of the module that defines it and of all modules of this
package that those import.  Editing a docstring, a comment or another part of the package leaves it
as it is, so that results on record stay valid.
"""

import ast
import hashlib
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from types import ModuleType
from typing import Any

_PACKAGE = __name__.partition(".")[0]


def code_version(function: Callable[..., Any]) -> str:
    """Hash of the module of a function and of the modules of this package that it needs.

    Imports are followed from module to module, also those within functions; other packages are
    not looked into.

    Parameters
    ----------
    function : callable
        Defined in a module that has a file.

    Returns
    -------
    str
        Twelve hexadecimal digits.

    Raises
    ------
    ValueError
        If there is no source.

    Examples
    --------
    >>> from iclimit.simulate.pretraining import simulate_errors
    >>> from iclimit.runs.code_version import code_version
    >>> len(code_version(simulate_errors))
    12
    """
    return _version(function.__module__)


@cache
def _version(module: str) -> str:
    sources: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in sources:
            sources[name], needed = _source(name)
            waiting.extend(needed)
    if not sources[module]:
        raise ValueError(f"function must be defined in a module's file, got one of {module!r}")
    return hashlib.sha256(repr(sorted(sources.items())).encode()).hexdigest()[:12]


@cache
def _source(module: str) -> tuple[str, frozenset[str]]:
    """Code of a module without comments and docstrings, and the modules that it imports."""
    path = getattr(importlib.import_module(module), "__file__", None)
    if path is None:
        return "", frozenset()
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    statements = list(_without_docstrings(tree))
    return ast.unparse(tree), frozenset(_imported(statements))


def _without_docstrings(node: ast.AST) -> Iterator[ast.stmt]:
    """Statements within a node, from which those that are only a constant are removed.

    Expressions, which have none, are not gone through: they would take most of the time.
    """
    for inner in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield from _without_docstrings(inner)
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, [])
        block[:] = [
            statement
            for statement in block
            if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        ]
        for statement in block:
            yield statement
            yield from _without_docstrings(statement)


def _imported(statements: Iterable[ast.stmt]) -> Iterator[str]:
    """Modules of this package that define what these statements import."""
    for node in statements:
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        if node.module.partition(".")[0] != _PACKAGE:
            continue
        origin = importlib.import_module(node.module)
        for alias in node.names:
            # A package may export what another module defines.
            exported = getattr(origin, alias.name, None)
            if isinstance(exported, ModuleType):
                yield exported.__name__
                folders = getattr(exported, "__path__", ())  # of a package all modules may be used
                for submodule in pkgutil.walk_packages(folders, f"{exported.__name__}."):
                    yield submodule.name
            elif getattr(exported, "__module__", "").partition(".")[0] == _PACKAGE:
                yield exported.__module__
            else:
                yield node.module
