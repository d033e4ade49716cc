"""Commands that are interrupted or whose reader goes away."""

import json
import os
import signal
import subprocess
import sys

import pytest
from started_commands import PATIENCE, send, started, wait_until, wait_until_gone

from iclimit.cli import build_parser, main
from iclimit.simulate.networks import load_model

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")

ICLIMIT = (sys.executable, "-m", "iclimit")

FREQUENT_CHECKPOINTS = """
import sys
from iclimit.cli import main
from iclimit.simulate.training import loop

loop.SAVE_SECONDS = 0.05
sys.exit(main(sys.argv[1:]))
"""


def test_a_closed_pipe_is_no_error():
    command = "learning-rate --context 1:20000:20000 --dim 3 --format csv"
    with started(*ICLIMIT, *command.split()) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("context,dim")
        process.stdout.close()
        _, errors = process.communicate(timeout=PATIENCE)
    assert errors == ""
    assert process.returncode == 0


def run_with(preparation, command):
    """What a command says in a process that is prepared by some lines of Python."""
    code = f"import sys\n{preparation}\nfrom iclimit.cli import main\nsys.exit(main(sys.argv[1:]))"
    arguments = [sys.executable, "-c", code, *command.split()]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE)


def test_closed_streams_are_no_traceback(tmp_path):
    """The next file that is opened gets their numbers."""
    path = tmp_path / "rates.csv"
    command = f"schedule --steps 2 --ratio 1 -o {path}"
    done = run_with("import os\nos.close(1)\nsys.stdout = None", command)
    assert (done.returncode, done.stderr) == (0, "")
    assert path.read_text().startswith("rates,loss")
    done = run_with("sys.stderr = None", "schedule --steps 2")
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("ending", [".nc", ".csv"])
def test_a_disk_without_room_is_told_with_the_file(ending, tmp_path):
    """HDF5 ends the process when it cannot write."""
    # Python 3.11 would keep what it compiles cut off at the limit, and other tests would load it.
    preparation = (
        "import resource\nsys.dont_write_bytecode = True\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))"
    )
    path = tmp_path / f"phase{ending}"
    command = "phase bayes_error --x alpha=1:2:30 --y rho=0:1:30"
    done = run_with(preparation, f"{command} -o {path}")
    assert (done.returncode, done.stderr) == (1, f"iclimit phase: File too large: '{path}'\n")
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_within_an_import_is_not_lost(monkeypatch, capsys):
    """Python drops one that comes within a callback, such as those of the locks of modules."""

    class Callback:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("iclimit.cli.build_parser", lambda: Callback() and build_parser())
    # What runs in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert main(["schedule", "--steps", "2", "--ratio", "1"]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.usefixtures("own_store")
def test_ctrl_c_keeps_finished_claims(tmp_path):
    flags = ("--preset", "medium", "--out", str(tmp_path), "--jobs", "2")
    with started(*ICLIMIT, "validate", "solver", "ridgeless", *flags) as process:
        # The figure of a claim is written once it is judged.
        wait_until((tmp_path / "solver.png").exists, process)
        status, out, err = send(process, signal.SIGINT)
        wait_until_gone(process)
    assert status == 130
    assert "interrupted: the report holds the claims that were finished" in err
    assert "Traceback" not in err
    assert "1 of 2 claims hold" in out
    report = json.loads((tmp_path / "results.json").read_text())
    assert report["missing"] == ["ridgeless"]


def test_ctrl_c_ends_a_training(tmp_path):
    path = tmp_path / "network.npz"
    state = tmp_path / "run.npz"
    training = ["train", "network", "--dim", "2", "--context", "4", "--batch", "8"]
    training += ["--patience", "1000000", "--held-out", "50", "--checkpoint", str(state)]
    training += ["-o", str(path), "--format", "json", "--steps"]
    with started(sys.executable, "-c", FREQUENT_CHECKPOINTS, *training, "1000000") as process:
        wait_until(state.exists, process)
        status, out, err = send(process, signal.SIGINT)
    assert status == 130
    assert err == "interrupted: the last run was measured where it was\n"
    last = json.loads(out)["runs"][0]["steps"]
    assert load_model(path).steps == last
