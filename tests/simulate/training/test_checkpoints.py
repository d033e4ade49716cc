"""Checkpoints: what is kept, what is refused, and what an interruption leaves."""

import json
import math
import os
import tempfile
import tracemalloc
import zipfile

import numpy as np
import pytest
from refusals import value_error

from iclimit.simulate.training.checkpoints import (
    check_checkpoint,
    load_checkpoint,
    read_tree,
    save_checkpoint,
    write_tree,
)

SETTINGS = {"rate": 0.1, "steps": 5, "sizes": [1, 2], "set": math.inf, "task": None}
RECORD = {"step": 3, "losses": [math.inf, 1 / 3], "nested": [{"name": "a"}]}
ARRAY = np.random.default_rng(0).standard_normal((2, 3))
STATE = RECORD | {"first": ARRAY, "deep": [{"second": np.empty(0)}]}


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "run"
    save_checkpoint(found, SETTINGS, STATE)
    return found


def test_what_is_kept(path):
    state = load_checkpoint(path, SETTINGS)
    assert list(state) == list(STATE)
    assert {name: state[name] for name in RECORD} == RECORD
    np.testing.assert_array_equal(state["first"], ARRAY)
    assert state["deep"][0]["second"].shape == (0,)
    assert list(path.parent.iterdir()) == [path]


def test_numbers_of_numpy_are_those_of_python(path):
    same = SETTINGS | {"rate": np.float64(0.1), "steps": np.int64(5), "sizes": (1, np.uint8(2))}
    assert load_checkpoint(path, same)["losses"] == RECORD["losses"]
    save_checkpoint(path, SETTINGS | {"rate": np.float32(0.5)}, {"step": np.int64(4)})
    assert load_checkpoint(path, SETTINGS | {"rate": 0.5}) == {"step": 4}
    value_error(r"another rate$", load_checkpoint, path, SETTINGS | {"rate": np.float32(0.25)})


@pytest.mark.parametrize("name", list(SETTINGS))
def test_another_training(path, name):
    with pytest.raises(ValueError, match=f"of the same training, got .*run with another {name}$"):
        load_checkpoint(path, SETTINGS | {name: 7})
    with pytest.raises(ValueError, match=r"of the same training, got .*run with another new$"):
        load_checkpoint(path, SETTINGS | {"new": 0})


def test_broken_files(path):
    whole = path.read_bytes()
    contents = [b"", b"text", whole[:50], whole[:-9], whole[::-1]]
    contents.append(whole[:300] + bytes(50) + whole[350:])
    for content in contents:
        path.write_bytes(content)
        value_error(
            r"checkpoint must be a training's own file, got .*run", load_checkpoint, path, SETTINGS
        )
    others = [{}, [], 3, {"settings": 3, "state": {}}, {"settings": {}, "state": 3}]
    for described in others:
        with path.open("wb") as file:
            np.savez(file, description=np.array(json.dumps(described)))
        value_error("checkpoint must be a training's own file", load_checkpoint, path, SETTINGS)
    value_error("checkpoint must be a training's own file", load_checkpoint, path.parent, SETTINGS)


def zeros(archive, name, count):
    """Write so many zeros of one byte, which compress to a thousandth."""
    with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
        header = {"descr": "|u1", "fortran_order": False, "shape": (count,)}
        np.lib.format.write_array_header_1_0(stream, header)
        for _ in range(count // 2**20):
            stream.write(bytes(2**20))


@pytest.mark.parametrize("arrays", [1, 3])
def test_what_is_larger_than_its_file_is_not_read(path, arrays):
    """One array of 72 MiB, or three of 24: neither may be read to find that out."""
    names = [f"part{number}" for number in range(arrays)]
    parts = [{"array": name} for name in names]
    described = json.dumps({"format": 1, "settings": SETTINGS, "state": {"parts": parts}})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            zeros(archive, name, 72 * 2**20 // arrays)
        with archive.open("description.npy", "w") as stream:
            np.save(stream, np.array(described))
    assert path.stat().st_size < 10**6
    tracemalloc.start()
    value_error("checkpoint must be a training's own file", load_checkpoint, path, SETTINGS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**22


def test_an_array_is_read_once(path):
    """Otherwise a description of some bytes more would fill the memory."""
    described = {"format": 1, "settings": SETTINGS, "state": {"parts": 2 * [{"array": "first"}]}}
    with path.open("wb") as file:
        np.savez(file, description=np.array(json.dumps(described)), first=ARRAY)
    value_error("checkpoint must be a training's own file", load_checkpoint, path, SETTINGS)


def test_headers_that_lie(path):
    described = {"format": 1, "settings": SETTINGS, "state": {"first": {"array": "first"}}}
    for shape in ((10**12,), (-1,), (2, 3), (-2, -3)):
        with zipfile.ZipFile(path, "w") as archive:
            with archive.open("description.npy", "w") as stream:
                np.save(stream, np.array(json.dumps(described)))
            with archive.open("first.npy", "w") as stream:
                header = {"descr": "<f8", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(stream, header)
                stream.write(bytes(40))
        value_error("checkpoint must be a training's own file", load_checkpoint, path, SETTINGS)


@pytest.mark.parametrize(
    "array", [ARRAY, np.asfortranarray(ARRAY), np.float32(ARRAY), np.ones(())]
)
def test_arrays_come_back_in_their_order(path, array):
    """The order in memory decides the last bits of sums."""
    save_checkpoint(path, SETTINGS, {"weights": array})
    found = load_checkpoint(path, SETTINGS)["weights"]
    assert (found.dtype, found.strides) == (array.dtype, array.strides)
    assert found.flags.writeable
    np.testing.assert_array_equal(found, array)


def test_another_format_is_named(path):
    write_tree(path, read_tree(path) | {"format": 2})
    with pytest.raises(ValueError, match="run must have the format 1 of this iclimit, got 2"):
        load_checkpoint(path, SETTINGS)


@pytest.mark.parametrize("place", ["savez", "replace"])
def test_an_interruption_leaves_the_old_one(path, place, monkeypatch):
    before = path.read_bytes()

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(np if place == "savez" else os, place, interrupted)
        with pytest.raises(KeyboardInterrupt):
            save_checkpoint(path, SETTINGS, {"step": 4})
    assert path.read_bytes() == before
    save_checkpoint(path, SETTINGS, {"step": 4})
    assert load_checkpoint(path, SETTINGS) == {"step": 4}
    assert list(path.parent.iterdir()) == [path]


def test_places_for_checkpoints(path, monkeypatch):
    before = path.read_bytes()
    check_checkpoint(path)
    check_checkpoint(path.parent / "new")
    assert list(path.parent.iterdir()) == [path]
    assert path.read_bytes() == before
    message = "checkpoint must be a file that can be written: .*absent"
    with pytest.raises(FileNotFoundError, match=message):
        check_checkpoint(path.parent / "absent" / "run")
    with pytest.raises(NotADirectoryError, match="checkpoint must be a file that can be written"):
        check_checkpoint(path / "run")

    def denied(dir):
        raise PermissionError(13, "Permission denied", str(dir / "run"))

    monkeypatch.setattr(tempfile, "TemporaryFile", denied)
    with pytest.raises(PermissionError, match=r"checkpoint must be .* Permission denied: .*run"):
        check_checkpoint(path)
