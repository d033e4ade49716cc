"""Versions of the code behind a result: of ours, and of the libraries it calls.

The version of a function is a hash of all definitions that it uses.
Editing a docstring, a comment or a function that is not used leaves the version as it is, so that
results on record stay valid; editing anything that can change a result does not.
"""

import ast
import hashlib
import importlib
import platform
from collections.abc import Callable, Iterator
from functools import cache
from importlib import metadata
from types import ModuleType
from typing import Any

VERSIONED = ("iclimit", "numpy", "scipy", "mpmath", "sympy", "matplotlib", "joblib")

_PACKAGE = __name__.partition(".")[0]


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that results come from."""
    found = {"python": platform.python_version()}
    for name in VERSIONED:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def code_version(function: Callable[..., Any]) -> str:
    """Hash of the source of a function and of the definitions of this package that it uses.

    Definitions are followed by their names, through imports, from function to function and
    constant to constant; other packages are not looked into.

    Parameters
    ----------
    function : callable
        Defined at the top level of a module that has a file.

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
    return _version(function.__module__, function.__qualname__.partition(".")[0])


@cache
def _version(module: str, name: str) -> str:
    seen: dict[tuple[str, str], str] = {}
    waiting = [(module, name)]
    while waiting:
        place = waiting.pop()
        if place not in seen and place[1] in _definitions(place[0]):
            seen[place], used = _source(*place)
            waiting.extend(used)
    if not seen:
        raise ValueError(f"function must be defined in a module's file, got {(module, name)}")
    text = "\n".join(f"{place}: {source}" for place, source in sorted(seen.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@cache
def _source(module: str, name: str) -> tuple[str, set[tuple[str, str]]]:
    """Text of what defines a name, and the places (module, name) that it uses."""
    texts: list[str] = []
    used: set[tuple[str, str]] = set()
    for node in _definitions(module)[name]:
        if isinstance(node, ast.ImportFrom):
            used.update(_imported(node, name, set()))
        else:
            texts.append(ast.unparse(node))
            used.update(_used(module, node))
    return "\n".join(texts), used


@cache
def _definitions(module: str) -> dict[str, list[ast.stmt]]:
    """Statements at the top level of a module by the names they define, without docstrings."""
    path = getattr(importlib.import_module(module), "__file__", None)
    if path is None:
        return {}
    with open(path, encoding="utf-8") as file:
        tree = _WithoutDocstrings().visit(ast.parse(file.read()))
    found: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        for name in _defined(statement):
            found.setdefault(name, []).append(statement)
    return found


class _WithoutDocstrings(ast.NodeTransformer):
    """Removes statements that are only a constant."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) else node


def _defined(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                yield alias.asname or alias.name.partition(".")[0]
        elif node is statement and isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
            return


def _used(module: str, statement: ast.stmt) -> Iterator[tuple[str, str]]:
    """Places (module, name) of the definitions that a statement names."""
    nodes = list(ast.walk(statement))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    for name in names:
        yield module, name
        for node in [*nodes, *_definitions(module).get(name, ())]:
            if isinstance(node, ast.ImportFrom):
                yield from _imported(node, name, attributes)


def _imported(
    source: ast.ImportFrom, name: str, attributes: set[str]
) -> Iterator[tuple[str, str]]:
    """Places behind a name, if it is imported there; of a module those of the attributes."""
    origin = source.module or ""
    originals = [alias.name for alias in source.names if (alias.asname or alias.name) == name]
    if origin.partition(".")[0] != _PACKAGE or not originals:
        return
    if originals[0] in _definitions(origin):
        yield origin, originals[0]
        return
    found: Any = getattr(importlib.import_module(origin), originals[0], None)
    if isinstance(found, ModuleType):
        yield from ((found.__name__, attribute) for attribute in attributes)
    elif hasattr(found, "__qualname__"):  # a package that loads its names when they are used
        yield found.__module__, found.__qualname__
