"""Shared by tests: BLAS threads, hypothesis examples, strict arrays, stores, figures, browser."""

import gc
import os
import sys
from uuid import uuid4

# The tests run on all cores already.  BLAS reads this when NumPy is first imported.
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

import array_api_strict
import numpy as np
import pytest
from hypothesis import settings
from started_browser import started_browser
from strict_arrays import StrictBackend

# Modules and collected tests stay to the end: looking through them for garbage again and again
# takes a sixth of the collection, and is left out afterwards.
gc.disable()


def pytest_collection_finish():
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 20)  # of the usual one, tests of symbols take 4 % longer


settings.register_profile("reproducible", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("reproducible")


@pytest.fixture(scope="session")
def stores(tmp_path_factory):
    """Folder of the run stores of all tests."""
    return tmp_path_factory.mktemp("stores")


@pytest.fixture(autouse=True)
def own_store(stores, monkeypatch):
    """The run store of the command line, a new one for each test."""
    path = stores / f"{uuid4()}.sqlite"
    monkeypatch.setenv("ICLIMIT_STORE", str(path))
    return path


@pytest.fixture(autouse=True)
def closed_figures():
    """Figures that a test has opened are closed: pyplot warns of more than twenty."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="module")
def few_predictions():
    """Curves with simulations are predicted at few points, from few task sets: that takes long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("iclimit.diagrams.simulation._POINTS", 4)
        patch.setattr("iclimit.diagrams.simulation._DRAWS", 8)
        patch.setattr("iclimit.diagrams.simulation._STEPS", np.array([0.5]))
        patch.setattr("iclimit.diagrams.simulated_points._PREDICTION_DRAWS", 30)
        yield


@pytest.fixture(scope="module")
def few_families():
    """A probe fits ridge regression only: the other families take most of the time."""
    from iclimit.validation.instruments.models import probe
    from iclimit.validation.instruments.models.baselines import families

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probe, "families", lambda problem: families(problem)[:1])
        yield


@pytest.fixture(scope="module")
def browser():
    """Selenium's driver of a headless browser; the test is skipped where there is none."""
    with started_browser() as driver:
        yield driver


@pytest.fixture
def strict_backend():
    """Backend of array_api_strict with NumPy's random numbers."""
    return StrictBackend("strict", array_api_strict)
