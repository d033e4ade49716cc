"""``--dry-run``: what would be simulated and where, and nothing simulated."""

from iclimit.cli import build_parser, main
from iclimit.cli.execution import print_placement
from iclimit.simulate import arrays


def test_claims(tmp_path, capsys):
    folder = tmp_path / "report"
    assert main(["validate", "ridgeless", "ridge", "--dry-run", "-o", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "simulate_errors" in out
    assert "finite_size_errors" in out
    assert "GPU" not in out
    assert not folder.exists()


def test_curves_and_maps(capsys):
    point = ["icl_error", "--alpha", "1", "--rho", "0.1", "--kappa", "1"]
    simulate = ["--simulate", "dim=10,repeats=2", "--dry-run"]
    assert main(["curve", *point, "--tau", "2", *simulate]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "2 simulations, 0 of them in the store" in captured.err
    assert main(["curve", *point, "--tau", "2", "--dry-run"]) == 2
    assert "--dry-run needs --simulate" in capsys.readouterr().err


def test_places_with_a_gpu(capsys, monkeypatch):
    """No GPU is needed to ask."""

    def missing(name):
        raise RuntimeError(f"backend {name!r} finds no usable GPU")

    monkeypatch.setattr(arrays, "get_backend", missing)
    arguments = ["validate", "gdpp-error", "--backend", "cupy"]
    options = build_parser().parse_args([*arguments, "--jobs", "4"])
    assert main([*arguments, "--dry-run"]) == 0
    captured = capsys.readouterr()
    assert "not on this machine: backend 'cupy' finds no usable GPU" in captured.err
    lines = captured.out.splitlines()
    places = {line.split()[-1]: line.split()[1] for line in lines[1:]}
    assert places == {"simulated_loss": "GPU", "limiting_minima": "cores"}
    print_placement(options)
    assert "cores: 4 processes" in capsys.readouterr().err
    options.backend = "numpy"
    print_placement(options)
    assert capsys.readouterr().err == ""
