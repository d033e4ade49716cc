"""What a machine has for simulations."""

import numpy as np
import pytest
from strict_arrays import StrictBackend

from iclimit.cli import main
from iclimit.simulate import devices
from iclimit.simulate.arrays import get_backend


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(devices, "DIM", 8)
    monkeypatch.setattr(devices, "PROMPTS", 600)


def other_backend(xp, monkeypatch):
    """Make cupy a backend with these arrays."""
    host = get_backend("numpy")
    other = StrictBackend("cupy", xp)
    monkeypatch.setattr(devices, "get_backend", lambda name: host if name == "numpy" else other)
    monkeypatch.setattr(devices, "to_host", np.asarray)  # strict arrays have other devices
    monkeypatch.setattr(devices, "_name", lambda backend: backend.name)


def test_a_machine_without_a_gpu_says_so(capsys):
    assert main(["devices"]) == 0
    out = capsys.readouterr().out
    assert "no GPU: backend 'cupy' needs cupy" in out
    assert "NOT" not in out


def test_strict_arrays_compute_what_numpy_computes(monkeypatch):
    import array_api_strict

    other_backend(array_api_strict, monkeypatch)
    checks = devices.check_devices().checks
    assert [(each.device, each.check) for each in checks] == [
        (device, check) for device in ("numpy", "cupy") for check in ("solve", "train", "sample")
    ]
    assert all(each.agrees for each in checks)
    assert all(each.deviation < 1e-9 for each in checks if each.check != "sample")


@pytest.mark.parametrize("check", ["solve", "sample"])
def test_a_device_that_computes_something_else_is_named(check, monkeypatch, capsys):
    import array_api_strict

    other_backend(array_api_strict, monkeypatch)
    name = {"solve": "_solved", "sample": "_label_squares"}[check]
    right = getattr(devices, name)
    wrong = {"numpy": 1.0, "cupy": 1.1}
    monkeypatch.setattr(devices, name, lambda backend: wrong[backend.name] * right(backend))
    assert main(["devices"]) == 1
    out = capsys.readouterr().out
    [line] = [each for each in out.splitlines() if "NOT what NumPy computes" in each]
    assert line.split()[:2] == ["cupy", check]
