"""Files are whole or not there, and text from elsewhere is harmless."""

import os
from pathlib import Path

import numpy as np
import pytest

from iclimit.cli import main
from iclimit.drawing import new_figure, save_picture
from iclimit.files import harmless, printable, replacing
from iclimit.simulate.training.checkpoints import check_checkpoint, save_checkpoint


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("old")
    return path


def test_a_failure_leaves_the_old_file(path):
    with pytest.raises(TypeError), replacing(path) as partial, partial.open("w") as file:
        file.write(1)
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_links_and_permissions_stay(path):
    path.chmod(0o640)
    link = path.with_name("link.csv")
    link.symlink_to(path.name)
    with replacing(link) as partial:
        assert partial.suffix == ".csv"
        partial.write_text("new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_a_device_is_written_to():
    with replacing("/dev/null") as partial:
        assert partial == Path("/dev/null")


def test_a_curve_that_fails_leaves_the_old_table(path, monkeypatch):
    def fail(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr("os.replace", fail)
    command = ["curve", "icl_error", "--tau", "1:2:3", "--alpha", "1", "--kappa", "1"]
    assert main([*command, "--rho", "0.1", "-o", str(path)]) == 1
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_a_picture_that_fails_leaves_the_old_one(path):
    with pytest.raises(ValueError, match="Format"):
        save_picture(new_figure(), path)
    assert path.read_text() == "old"


def test_checkpoints_touch_nothing_else(path):
    state = path.with_name("c.npz")
    others = [path.with_name("c.npz.partial"), path.with_name("c.npz.tmp")]
    for other in others:
        other.symlink_to(path)
    check_checkpoint(state)
    save_checkpoint(state, {}, {"weights": np.zeros(3)})
    assert path.read_text() == "old"
    assert set(path.parent.iterdir()) == {path, state, *others}


def test_nothing_steers_a_terminal():
    assert printable("\x1b[31mrot\u202e\r\nzwei  ü") == "\\x1b[31mrot\\u202e\\r\nzwei  ü"


def test_nothing_is_a_formula():
    for text in ("=1+1", "+1", "-1", "@SUM(A1)"):
        assert harmless(f"\t{text}\x1b") == f"\\t{text}\\x1b"
        assert harmless(text) == f"'{text}"
        assert harmless(-1.5) == -1.5
        assert harmless("inf") == "inf"
