"""What needs a library of an extra names both when it is missing."""

import sys

import pytest

import iclimit
from iclimit.cli import main


@pytest.mark.parametrize(
    ("method", "library"),
    [("to_pandas", "pandas"), ("to_xarray", "xarray"), ("to_xarray", "h5netcdf")],
)
def test_a_result_names_the_extra(monkeypatch, method, library):
    monkeypatch.setitem(sys.modules, library, None)
    curve = iclimit.curve("bayes_error", alpha=[1.0, 2.0], rho=0.1)
    message = rf"needs {library}, which is not installed: pip install 'iclimit\[labelled\]'"
    with pytest.raises(RuntimeError, match=message):
        getattr(curve, method)()


def test_a_file_that_cannot_be_written_is_refused_before_the_work(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "h5netcdf", None)
    words = ["phase", "icl_error", "--x", "tau=1:5:9", "--y", "rho=0:1:9", "-o"]
    with pytest.raises(SystemExit) as stop:
        main([*words, str(tmp_path / "phase.nc")])
    assert stop.value.code == 2
    assert "NetCDF needs h5netcdf, which is not installed" in capsys.readouterr().err
