"""The verb ``iclimit runs``: list, show, export, prune."""

import csv
import sqlite3
from dataclasses import replace

import numpy as np
import pytest
import xarray
from refusals import refused_command

from iclimit.cli import main
from iclimit.notation import PARAMETERS
from iclimit.runs.cell import Cell
from iclimit.runs.store import RunStore, StoredBatch
from iclimit.simulate.descent import simulate_critical_dampening, simulate_learning_rate
from iclimit.simulate.pretraining import simulate_errors
from iclimit.validation.claims.gdpp.trained import train_model

pytestmark = pytest.mark.usefixtures("few_predictions")

SMALL = {"dim": 4, "context": 4, "prompts": 30, "rho": 0.1, "ridge": 0.1}
ERRORS = Cell.of(simulate_errors, tasks=float("inf"), repeats=4, **SMALL)
RATE = Cell.of(simulate_learning_rate, contexts=20, dim=3, context=6, input_law="uniform")


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A store with a run of two batches and a run of one; the default one."""
    path = tmp_path / "some.sqlite"
    with RunStore(path) as store:
        for first in (0, 1):
            count = 1 + 2 * first
            store.add(
                StoredBatch.of(
                    ERRORS,
                    ERRORS.run(5, extra={"first_repeat": first, "repeats": count}),
                    rng=5,
                    backend="numpy",
                    seconds=2.0,
                    first=first,
                    count=count,
                )
            )
        store.add(StoredBatch.of(RATE, RATE.run(5), rng=5, backend="numpy", seconds=1.0))
    monkeypatch.setenv("ICLIMIT_STORE", str(path))
    return path


def identity(cell):
    return cell.identity(5, "numpy")


def add_old(path, **changes):
    with RunStore(path) as store:
        [batch] = store.find(identity(RATE))
        store.add(replace(batch, **changes))


@pytest.mark.parametrize("full", ["PRAGMA application_id =", "DELETE"])
def test_prune_frees_space_on_a_full_disk(path, full, monkeypatch, capsys):
    """Where even the journal of a change finds no room, on opening or only later."""

    class FullDisk(sqlite3.Connection):
        def execute(self, query, *values):
            (journal,) = super().execute("PRAGMA journal_mode").fetchone()
            if query.startswith(full) and journal != "memory":
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorcode = sqlite3.SQLITE_FULL
                raise error
            return super().execute(query, *values)

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, factory=FullDisk, **k))
    assert main(["runs", "prune", identity(RATE)]) == 0
    assert "1 run deleted" in capsys.readouterr().out
    with RunStore(path, readonly=True) as store:
        assert [run.identity for run in store.runs()] == [identity(ERRORS)]


def test_list(path, capsys):
    assert main(["runs", "list"]) == 0
    _, rate, errors, total = capsys.readouterr().out.splitlines()
    assert rate.split()[0] == identity(RATE)[:10]
    assert rate.endswith(
        "simulate_learning_rate(context=6, contexts=20, dim=3, input_law=uniform)"
    )
    assert errors.split()[0] == identity(ERRORS)[:10]
    assert errors.split()[3:6] == ["4", "4", "5"]  # seconds, repeats, seed
    assert "tasks=inf" in errors
    assert total == f"2 runs of 2 functions, computed in 5 s, in the store {path}"


def test_list_is_short(path, capsys, monkeypatch):
    monkeypatch.setattr("iclimit.cli.runs.FEW", 1)
    assert main(["runs", "list", "--store", str(path)]) == 0
    assert "2 runs (the newest 1 shown, see --limit)" in capsys.readouterr().out
    assert main(["runs", "list", "--format", "csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_list_shows_what_a_run_needed(path, capsys):
    first = Cell.of(train_model, layers=1, warm=())
    second = Cell.of(train_model, layers=2, warm=(first,))
    third = Cell.of(train_model, layers=3, warm=(second,))
    with RunStore(path) as store:
        store.add(StoredBatch.of(third, 0.5, rng=0, backend="numpy", seconds=1.0))
    assert main(["runs", "show", third.identity(0, "numpy")]) == 0
    assert "  warm = [train_model(layers=2, warm=[train_model(" in capsys.readouterr().out
    assert main(["runs", "list", "--limit", "1"]) == 0
    told = capsys.readouterr().out.splitlines()[1]
    assert told.endswith("train_model(layers=3, warm=[train_model(...)])")


@pytest.mark.parametrize(
    ("flags", "total"),
    [
        (["--function", "errors"], "1 run of 1 function, computed in 4 s"),
        (["--since", "1h"], "2 runs of 2 functions, computed in 5 s"),
        (["--since", "2000-01-01"], "2 runs of 2 functions, computed in 5 s"),
        (["--since", "2999-01-01T10:00"], "0 runs of 0 functions, computed in 0 s"),
        (
            ["--limit", "1"],
            "2 runs (the newest 1 shown, see --limit) of 2 functions, computed in 5 s",
        ),
    ],
)
def test_list_filters(path, flags, total, capsys):
    assert main(["runs", "list", "--store", str(path), *flags]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(total)


@pytest.mark.usefixtures("path")
def test_show(capsys):
    assert main(["runs", "show", identity(ERRORS)[:12].upper()]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["run", identity(ERRORS)]
    assert "  tasks = inf" in lines
    assert "repeats     0 to 0" in lines
    assert "repeats     1 to 3" in lines
    whole = ERRORS.run(5)
    assert f"  icl = {whole.icl.mean:.10g} +- {whole.icl.standard_error:.3g}" in lines
    assert not any("has changed" in line for line in lines)


def test_show_tells_that_the_code_has_changed(path, capsys):
    add_old(path, identity="f00d", code="0" * 12)
    assert main(["runs", "show", "f00d"]) == 0
    assert f"code        {'0' * 12} (has changed since)" in capsys.readouterr().out


def test_show_needs_the_beginning_of_one_identity(path, capsys):
    for name in ("xy1", "xy2"):
        add_old(path, identity=name)
    for given, message in (("xyz", "must be that of a run"), ("", "must be that of a run")):
        assert main(["runs", "show", given]) == 2
        assert message in capsys.readouterr().err
    assert main(["runs", "show", "xy"]) == 2
    assert "must be that of one run, got 'xy' of 2 runs" in capsys.readouterr().err


@pytest.mark.usefixtures("path")
def test_export_csv(tmp_path):
    assert main(["runs", "export", "-o", str(tmp_path / "runs.csv")]) == 0
    with (tmp_path / "runs.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = [(identity(RATE), "rate"), (identity(ERRORS), "icl"), (identity(ERRORS), "idg")]
    assert [(row["run"], row["number"]) for row in rows] == found
    whole = ERRORS.run(5)
    assert float(rows[1]["value"]) == whole.icl.mean
    assert float(rows[1]["standard_error"]) == whole.icl.standard_error
    assert (rows[1]["tasks"], rows[1]["rho"], rows[1]["input_law"]) == ("inf", "0.1", "")
    assert (rows[1]["repeats"], rows[1]["root_seed"]) == ("4", "5")


@pytest.mark.usefixtures("path")
def test_export_netcdf(tmp_path):
    assert main(["runs", "export", "-o", str(tmp_path / "runs.nc")]) == 0
    data = xarray.load_dataset(tmp_path / "runs.nc", engine="h5netcdf")
    run = data.sel(run=identity(ERRORS))
    whole = ERRORS.run(5)
    found = (whole.icl.mean, whole.icl.standard_error)
    assert (float(run.icl), float(run.icl_standard_error)) == found
    assert float(run.tasks) == np.inf
    assert np.isnan(float(run.rate))
    assert data.input_law.values.tolist() == ["uniform", ""]
    assert data.repeats.dtype == np.int64
    assert data.rho.attrs["symbol"] == r"\rho"
    assert data.rho.attrs["long_name"] == PARAMETERS["rho"].meaning
    assert data.seconds.attrs["units"] == "s"
    assert float(data.sel(run=identity(RATE)).rate) == RATE.run(5).rate.mean


def test_numbers_named_like_a_parameter_are_told_apart(path, tmp_path):
    dampening = Cell.of(simulate_critical_dampening, probability=[0.5], rate=0.25)
    with RunStore(path) as store:
        store.add(StoredBatch.of(dampening, 1.0, rng=5, backend="numpy", seconds=1.0))
    assert main(["runs", "export", "-o", str(tmp_path / "runs.nc")]) == 0
    data = xarray.load_dataset(tmp_path / "runs.nc", engine="h5netcdf")
    assert float(data.sel(run=identity(dampening)).rate) == 0.25
    assert float(data.sel(run=identity(RATE)).rate_result) == RATE.run(5).rate.mean


def test_export_leaves_out_what_cannot_be_joined(path, tmp_path, capsys):
    for first in (0, 1):
        add_old(path, identity="f00d", first=first, result='{"type":"no more"}')
    assert main(["runs", "export", "-o", str(tmp_path / "runs.csv")]) == 0
    told = capsys.readouterr()
    assert told.err == "left out 1 run, whose parts this version cannot read\n"
    assert told.out.startswith("2 runs written")


def test_export_of_nothing_writes_nothing(path, tmp_path, capsys):
    target = tmp_path / "none.csv"
    assert main(["runs", "export", "-o", str(target), "--function", "none"]) == 2
    assert f"got none from '{path}'" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["runs", "export", "-o", str(tmp_path / "none.txt")])
    assert not target.exists()


def test_prune_obsolete(path, capsys):
    add_old(path, identity="f00d", code="0" * 12)
    for flags, word in ((["--dry-run"], "would be deleted"), ([], "deleted")):
        assert main(["runs", "prune", "--obsolete", *flags]) == 0
        first, last = capsys.readouterr().out.splitlines()
        assert first.startswith("f00d")
        assert last == f"1 run {word} from {path}"
    assert main(["runs", "prune", "--obsolete"]) == 0
    assert capsys.readouterr().out == f"0 runs deleted from {path}\n"
    with RunStore(path) as store:
        assert len(store.runs()) == 2


def test_prune_criteria_hold_together(path):
    add_old(path, identity="f00d", finished="2020-01-01T00:00:00.000000Z")
    add_old(path, identity="beef", finished="2020-01-01T00:00:00.000000Z", function="m.other")
    assert main(["runs", "prune", "--older-than", "30d", "--function", "learning_rate"]) == 0
    with RunStore(path) as store:
        assert {run.identity for run in store.runs()} == {"beef", identity(RATE), identity(ERRORS)}


@pytest.mark.parametrize("flags", [[], ["--dry-run"], ["--function", ""]])
def test_prune_does_nothing_without_a_criterion(path, flags, capsys):
    assert main(["runs", "prune", *flags]) == 2
    assert "at least one of ID, --obsolete, --older-than and --function" in capsys.readouterr().err
    with RunStore(path) as store:
        assert len(store.runs()) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "--since", "0001-01-01"], "must be an age like 30d or a date"),
        (["prune", "--older-than", "999999w"], "must be an age like 30d or a date"),
        (["list", "--limit", "0"], "--limit: must be an integer >= 1, got '0'"),
        ([], "ACTION"),
    ],
)
def test_bad_flags(arguments, message, capsys):
    assert message in refused_command(capsys, ["runs", *arguments])


@pytest.mark.parametrize(
    "arguments", [["list"], ["show", "a"], ["export", "-o", "x.csv"], ["prune", "--obsolete"]]
)
def test_a_store_that_does_not_exist_is_an_error_and_is_not_made(tmp_path, arguments, capsys):
    path = tmp_path / "no.sqlite"
    assert main(["runs", *arguments, "--store", str(path)]) == 1
    assert f"{str(path)!r} does not exist" in capsys.readouterr().err
    assert not path.exists()
