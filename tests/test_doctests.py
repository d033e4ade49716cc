"""Every example in every docstring runs and prints what it says."""

import doctest
import importlib
import pkgutil

import pytest

import iclimit

MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(iclimit.__path__, "iclimit.", onerror=lambda _: None)
    if not name.endswith("__main__")
]


@pytest.mark.parametrize("name", ["iclimit", *MODULES])
def test_docstring_examples(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("iclimit"):
            raise
        pytest.skip(f"needs the optional package {error.name}")
    assert doctest.testmod(module).failed == 0


def test_the_walk_finds_the_modules() -> None:
    assert {"iclimit.asymptotics.pretraining.icl", "iclimit.asymptotics.spectra.resolvent"} <= set(
        MODULES
    )
