"""All public functions, constructors and methods, with their docstrings."""

import importlib
import inspect
import re

import iclimit
from iclimit import asymptotics, simulate
from iclimit.prediction import Scatter
from iclimit.results import Result
from iclimit.runs.execution import run_cells
from iclimit.validation import check_positions, reduced_gamma, reduced_stack

VERBS = (
    iclimit.curve,
    iclimit.phase_diagram,
    iclimit.check_curve,
    iclimit.check_runs,
    iclimit.plan_runs,
    iclimit.fit_curve,
    iclimit.fit_runs,
    iclimit.probe,
    iclimit.validate,
    run_cells,
    check_positions,
    reduced_gamma,
    reduced_stack,
    Scatter,
)
STRUCTURAL = {"self", "cls", "other", "y"}
"""Names that carry no meaning of the theory: of Python, of what is concatenated, of an axis."""


def parameters_of(function):
    """Parameters that have a name for whoever calls the function."""
    collected = inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL
    return [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name not in STRUCTURAL and parameter.kind not in collected
    ]


def documented_names(text):
    """Names in the Parameters section of a docstring; None if it has none."""
    section = re.search(
        r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-+$|\Z)", text, re.DOTALL | re.MULTILINE
    )
    if section is None:
        return None
    heads = re.findall(r"^(\S.*?)(?: :.*)?$", section[1], re.MULTILINE)
    names = [name.strip() for head in heads for name in head.split(",")]
    return [name for name in names if name[0] != "*" and name not in STRUCTURAL]


def public_functions():
    """Name, function and docstring of all public functions, constructors and methods."""
    for verb in VERBS:
        yield from functions_of(verb.__name__, verb)
    for room in (asymptotics, simulate):
        for shelf in room.SHELVES:
            module = importlib.import_module(f"{room.__name__}.{shelf}")
            for name in module.__all__:
                label = f"{module.__name__}.{name}".removeprefix("iclimit.")
                yield from functions_of(label, getattr(module, name))


def functions_of(name, item):
    """Yield a function itself; of a class, its constructor and its public methods.

    Results are data classes with documented attributes: users do not construct them, and what all
    of them can do is documented once.
    """
    text = inspect.getdoc(item) or ""
    if inspect.isfunction(item):
        yield name, item, text
    if not inspect.isclass(item) or issubclass(item, Exception):
        return
    if inspect.isfunction(item.__init__) and documented_names(text) is not None:
        yield name, item.__init__, text
    for attribute in dir(item):
        method = getattr(item, attribute)
        function = getattr(method, "__func__", method)
        ours = inspect.isfunction(function) and function.__module__.startswith("iclimit.")
        ours = ours and not (issubclass(item, Result) and hasattr(Result, attribute))
        if ours and attribute[0] != "_":
            yield f"{name}.{attribute}", function, inspect.getdoc(method) or ""


FUNCTIONS = {name: (function, text) for name, function, text in public_functions()}
