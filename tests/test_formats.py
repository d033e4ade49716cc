"""Files that older versions have written are read, or refused by name."""

import shutil

import format_files
import numpy as np
import pytest

from iclimit.networks import load_model
from iclimit.runs.store import FORMAT as STORE
from iclimit.runs.store import RunStore, StoreError
from iclimit.simulate.training.checkpoints import FORMAT as TREES
from iclimit.simulate.training.checkpoints import load_checkpoint
from iclimit.validation.instruments.models.files import FORMAT as PROMPTS
from iclimit.validation.instruments.models.files import read_prompts


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(format_files.FOLDER, tmp_path / "formats")


def test_every_format_has_its_files():
    names = {path.name for path in format_files.FOLDER.iterdir()}
    trees = {f"{kind}-{TREES}.npz" for kind in ("network", "transformer", "checkpoint")}
    assert {f"runs-{STORE}.sqlite", f"prompts-{PROMPTS}.npz", *trees} <= names


def test_run_stores(folder):
    with RunStore(folder / "runs-3.sqlite") as store:
        [run] = store.runs()
        [batch] = store.find(run.identity)
    assert batch.function.endswith(".simulate_errors")
    # As they were drawn when the file was written, from the seed that is in it.
    drawn = format_files.CELL.run(0)
    np.testing.assert_allclose(batch.value.icl.samples, drawn.icl.samples, rtol=1e-9)
    assert batch.value.repeats == 5


def test_run_stores_whose_seeds_were_others(folder):
    """Format 2, of iclimit 1.0: names and seeds hung on last digits of floats."""
    message = r"written by an older iclimit \(format 2, .*name another file with --store, or move"
    with pytest.raises(StoreError, match=message):
        RunStore(folder / "runs-2.sqlite")


def test_prompts(folder):
    prompts = read_prompts(folder / "prompts-1.npz")
    assert prompts.problem.describe() == format_files.PROBLEM.describe()
    assert (prompts.test_prompts, prompts.seed, prompts.float32) == (10, 0, True)


def test_models(folder):
    network = load_model(folder / "network-1.npz")
    again = format_files.trained()
    assert network.network == again.network
    for name, weights in again.weights.items():
        np.testing.assert_allclose(network.weights[name], weights, rtol=1e-9)
    layer = load_model(folder / "transformer-1.npz")
    np.testing.assert_allclose(layer.lookup, format_files.transformer().lookup, rtol=1e-12)


def test_checkpoints(folder):
    path = folder / "checkpoint-1.npz"
    assert load_checkpoint(path, format_files.SETTINGS) == format_files.STATE
