"""Every example in docstrings and documentation runs and prints what it says."""

import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest
from result_contract import check_contract

import iclimit
from iclimit.results import Result

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    page
    for page in [
        ROOT / "README.md",
        *(ROOT / "docs").glob("*.rst"),
        *(ROOT / "docs").glob("theory/*/*.rst"),
    ]
    if ">>>" in page.read_text(encoding="utf-8")
]
MODULES = [
    each.name
    for each in pkgutil.walk_packages(iclimit.__path__, "iclimit.", onerror=lambda _: None)
    if b">>>" in Path(each.module_finder.find_spec(each.name).origin).read_bytes()
]


class Finder(doctest.DocTestFinder):
    """Finder that sees what is behind a decorator."""

    def _from_module(self, module, object):
        return super()._from_module(module, inspect.unwrap(object))


@pytest.mark.parametrize("name", ["iclimit", *MODULES])
def test_docstring_examples(name, tmp_path):
    """Examples print what they say, and what they make keeps the contract of results."""
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("iclimit"):
            raise
        pytest.skip(f"needs the optional package {error.name}")
    runner = doctest.DocTestRunner()
    results = {}
    for test in Finder().find(module):
        runner.run(test, clear_globs=False)
        results |= {type(each): each for each in test.globs.values() if isinstance(each, Result)}
        test.globs.clear()
    for result in results.values():
        check_contract(result, tmp_path)
    assert runner.summarize(verbose=False).failed == 0


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_of_the_documentation(page):
    assert doctest.testfile(str(page), module_relative=False).failed == 0


def test_the_walk_finds_the_modules():
    found = {"iclimit.asymptotics.pretraining.icl", "iclimit.asymptotics.spectra.resolvent"}
    assert found <= set(MODULES)


def test_the_finder_sees_public_functions():
    module = importlib.import_module("iclimit.asymptotics.pretraining.icl")
    found = {test.name.rpartition(".")[2] for test in Finder().find(module) if test.examples}
    assert {"icl_error", "idg_error", "task_gap"} <= found
