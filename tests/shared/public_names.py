"""What is public, with its parameters and their defaults, as the stubs and the console have it.

``python tests/shared/public_names.py``, a part of ``make release``, writes what a release promises
to ``public_names.csv``.  A test compares the library with it: what has changed or gone since
breaks somebody's script, see "What is public" in the documentation.  New names need no line.
"""

import argparse
import csv
import inspect
import re
from dataclasses import MISSING, fields, is_dataclass
from functools import cached_property
from pathlib import Path

import iclimit
from iclimit.cli import build_parser
from iclimit.results import Result

TABLE = Path(__file__).with_suffix(".csv")
NAMESPACES = (
    *("pretraining", "descent", "gdpp", "dynamics", "networks", "softmax", "depth"),
    *("recurrent", "spectra", "runs", "validation"),
)
# Options of the console that every verb has.
COMMON = {"-h", "--help"}


def public_names():
    """Yield every public name with how it is called, or with its fields."""
    for name in iclimit.__all__:
        item = getattr(iclimit, name)
        if not inspect.ismodule(item):
            yield from _of(f"iclimit.{name}", item)
    for namespace in NAMESPACES:
        module = getattr(iclimit, namespace)
        for name in module.__all__:
            item = getattr(module, name)
            if not inspect.ismodule(item) and getattr(iclimit, name, None) is not item:
                yield from _of(f"iclimit.{namespace}.{name}", item)
    parser = build_parser()
    verbs = next(action.choices for action in parser._actions if action.dest == "verb")
    for verb, each in verbs.items():
        yield from _verb(f"iclimit {verb}", each)


def _verb(name, parser):
    parser.complete()
    inner = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    for action in inner:
        for verb, each in action.choices.items():
            yield from _verb(f"{name} {verb}", each)
    if not inner:
        yield name, " ".join(_options(parser))


def _of(name, item):
    """Yield a name, and those of the public methods that a class defines itself."""
    if is_dataclass(item):
        # Users read results and do not construct them.
        own = _name if issubclass(item, Result) else _field
        yield name, ", ".join(own(each) for each in fields(item) if each.name[0] != "_")
    elif inspect.isclass(item) and issubclass(item, Exception):
        yield name, "an exception"
    elif inspect.isclass(item) or inspect.isfunction(item):
        yield name, _call(item)
    else:
        yield name, type(item).__name__ if isinstance(item, (dict, tuple)) else "a type"
    if inspect.isclass(item):
        for attribute, member in sorted(vars(item).items()):
            if attribute[0] == "_" or hasattr(Result, attribute):
                continue
            if isinstance(member, (property, cached_property)):
                yield f"{name}.{attribute}", "property"
            elif callable(getattr(item, attribute)):
                yield f"{name}.{attribute}", _call(getattr(item, attribute))


def _name(field):
    return field.name


def _field(field):
    default = field.default
    return field.name if default is MISSING else f"{field.name}={_default(default)}"


def _call(function):
    parameters = inspect.signature(function).parameters.values()
    bare = [each.replace(annotation=each.empty, default=each.empty) for each in parameters]
    text = str(inspect.Signature(bare))[1:-1]
    for each in parameters:
        if each.default is not each.empty:
            text = re.sub(
                rf"\b{each.name}\b", f"{each.name}={_default(each.default)}", text, count=1
            )
    return text


def _default(value):
    """A default, without what differs from machine to machine."""
    if callable(value):
        return value.__name__
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _options(parser):
    for action in parser._actions:
        names = [each for each in action.option_strings if each not in COMMON]
        if names:
            yield "|".join(names)
        elif not action.option_strings:
            yield action.dest.upper()


def committed():
    """What the last release promised."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return dict(csv.reader(file))


if __name__ == "__main__":
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(sorted(public_names()))
