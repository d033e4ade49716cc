"""Structured data: against isotropic formulas, matrices, cell means by hand and simulation."""

import csv
import json

import numpy as np
import pytest
import xarray as xr

import iclimit
from iclimit.asymptotics.pretraining import JointSpectrum, structured_errors
from iclimit.asymptotics.pretraining.structure import Structure, parse_structure
from iclimit.asymptotics.spectra import Atoms, Mixture, Uniform, spectrum
from iclimit.cli import main
from iclimit.diagrams.boundaries import BOUNDARIES
from iclimit.diagrams.simulated_points import can_be_extrapolated, cells_at

pytestmark = pytest.mark.usefixtures("few_predictions")

SETTING = {"tau": 1.7, "alpha": 1.5, "kappa": 0.8, "rho": 0.1, "ridge": 0.05}


@pytest.fixture
def covariance(tmp_path):
    """A matrix that is not diagonal, and a file of it."""
    draws = np.random.default_rng(0).standard_normal((12, 6))
    matrix = draws.T @ draws / 12
    path = tmp_path / "covariance.csv"
    np.savetxt(path, matrix, delimiter=",", fmt="%.17g")
    return matrix, str(path)


def test_isotropic_spectra_are_the_isotropic_quantity():
    for name in ("icl_error", "idg_error", "task_gap"):
        ranges = {"tau": [0.5, 1.0, 3.0], "kappa": [0.3, 2.0, np.inf], "alpha": [0.5, 30.0]}
        cases = [{"task_spectrum": "isotropic"}, {"input_spectrum": "isotropic"}]
        cases.append(cases[0] | {"test_spectrum": "atoms:1", "input_spectrum": "atoms:1"})
        for ridge in (0.2, 0.0):
            plain = iclimit.curve(name, **ranges, rho=0.1, ridge=ridge)
            for spectra in cases:
                found = iclimit.curve(name, **ranges, rho=0.1, ridge=ridge, **spectra)
                np.testing.assert_allclose(found.values, plain.values, rtol=1e-12, atol=1e-12)


def test_curves_are_those_of_matrices(covariance):
    """Test tasks and inputs with the same eigenvectors, the former in the opposite order."""
    C, path = covariance
    c, basis = np.linalg.eigh(C)
    inputs = basis @ np.diag([0.5, 0.5, 0.5, 1.5, 1.5, 1.5]) @ basis.T
    setting = SETTING | {"tau": np.array([0.5, 1.5, 4.0]), "test_alpha": 3.0, "test_rho": 0.4}
    joint = JointSpectrum.of_matrices(C, basis @ np.diag(c[::-1]) @ basis.T, inputs)
    direct = structured_errors(**setting, spectrum=joint)
    spectra = {"task_spectrum": path, "test_spectrum": "reversed"}
    spectra["input_spectrum"] = "atoms:0.5,1.5"
    expected = {
        "icl_error": direct.icl,
        "idg_error": direct.idg,
        "task_gap": direct.icl - direct.idg,
        "misalignment_error": direct.misalignment,
        "scalar_error": direct.scalar,
    }
    for name, values in expected.items():
        found = iclimit.curve(name, **setting, **spectra)
        np.testing.assert_allclose(found.values, [values], rtol=1e-11)
        assert found.rows()[0]["task_spectrum"] == path
    written = spectra | {"test_spectrum": f"reversed:{path}"}
    again = iclimit.curve("icl_error", **setting, **written)
    np.testing.assert_allclose(again.values, [direct.icl], rtol=1e-11)


@pytest.mark.parametrize(
    ("structure", "size", "tolerance"),
    [
        (Structure("exponential:3"), 3000, 1e-6),
        (Structure("exponential:3", "reversed"), 3000, 2e-4),
        (Structure("mp:0.5", "reversed:uniform:0.5,1.5"), 3000, 2e-4),
        (Structure("uniform:0.2,2", "mp:0.5", "reversed:exponential:2"), 300, 2e-3),
    ],
)
def test_limits_are_those_of_large_matrices(structure, size, tolerance):
    """Eigenvalues of the matrices are quantiles."""

    def eigenvalues(given):
        if given is None:
            return np.ones(size)
        name = str(given).removeprefix("reversed:")
        own = spectrum("exponential:3" if name == "reversed" else name).quantiles(size)
        return own[::-1] if str(given).startswith("reversed") else own

    joint = JointSpectrum(
        task=eigenvalues(structure.task_spectrum),
        test=eigenvalues(structure.test_spectrum or structure.task_spectrum),
        inputs=eigenvalues(structure.input_spectrum),
        weight=np.full(size, 1 / size),
    )
    large = structured_errors(**SETTING, spectrum=joint)
    found = structured_errors(**SETTING, spectrum=structure.joint)
    for part in ("icl", "idg", "scalar", "misalignment"):
        assert getattr(found, part) == pytest.approx(getattr(large, part), rel=tolerance)


def test_eigenvalues_at_a_size_are_means_over_cells():
    """Of a power law by its integral; the trace is that of the limit."""
    d = 16
    exponent = 0.9
    ends = (np.arange(d + 1) / d) ** (1 - exponent)
    found = Structure("powerlaw:0.9", "reversed").covariances(d)
    np.testing.assert_allclose(found["task_covariance"], d * np.diff(ends)[::-1], rtol=2e-5)
    expected = found["task_covariance"][::-1]
    np.testing.assert_allclose(found["test_covariance"], expected, rtol=1e-12)
    assert found["task_covariance"].mean() == pytest.approx(1, rel=1e-12)


def test_eigenvalues_of_a_file(tmp_path):
    """At their own number they are themselves; elsewhere they are resampled, with their trace."""
    values = np.random.default_rng(1).exponential(size=24)
    np.savetxt(tmp_path / "values.txt", values, fmt="%.17g")
    structure = Structure(str(tmp_path / "values.txt"), input_spectrum_of(tmp_path))
    assert structure.covariances(24)["task_covariance"].tolist() == np.sort(values).tolist()
    assert structure.covariances(24)["test_covariance"].tolist() == np.sort(values)[::-1].tolist()
    twice = np.repeat(np.sort(values), 2)
    assert structure.covariances(48)["task_covariance"].tolist() == twice.tolist()
    pairs = np.sort(values).reshape(12, 2).mean(axis=1)
    np.testing.assert_allclose(structure.covariances(12)["task_covariance"], pairs, rtol=1e-12)
    for d in (5, 7, 100):
        mean = structure.covariances(d)["task_covariance"].mean()
        assert mean == pytest.approx(values.mean(), rel=1e-12)


def input_spectrum_of(folder):
    return f"reversed:{folder / 'values.txt'}"


def test_measures_can_be_given():
    """A spike stays a spike: its cells end where it begins."""
    spiked = Mixture([Uniform(0.5, 1.5), Atoms([5.0])], [0.9, 0.1])
    structure = Structure(spiked, "reversed")
    joint = structure.joint
    assert joint.weight[joint.task > 4.9].sum() == pytest.approx(0.1, abs=1e-9)
    assert joint.weight @ joint.task == pytest.approx(1.4, rel=1e-9)
    assert structure.described["task_spectrum"] == str(spiked)


def test_rows_of_equal_inputs_are_one():
    """The time of a point grows as the number of different inputs."""
    joint = Structure("powerlaw:0.5", "reversed", "atoms:0.5,1,2").joint
    assert np.unique(joint.inputs).tolist() == [0.5, 1.0, 2.0]


def test_a_gap_of_two_infinite_errors_has_the_sign_near_by():
    tau = np.array([0.999, 1.0, 1.001])
    for test, sign in (("atoms:0.01", -1), ("reversed", 1)):
        spectra = {"task_spectrum": "atoms:0.1,1.9", "test_spectrum": test}
        found = iclimit.curve("task_gap", tau=tau, alpha=20, kappa=2, rho=0.1, **spectra)
        assert found.values[0, 1] == sign * np.inf
        assert np.all(np.sign(found.values) == sign)


def test_simulation_agrees():
    """All spectra vary, and tests have a context length and a noise of their own."""
    setting = {"kappa": [0.5, np.inf], "tau": 2, "alpha": 1, "rho": 0.1, "ridge": 0.1}
    setting |= {"test_alpha": 2, "test_rho": 0.3, "task_spectrum": "exponential:3"}
    setting |= {"test_spectrum": "reversed:mp:0.5", "input_spectrum": "uniform:0.5,1.5"}
    simulation = {"dim": (6, 8, 12), "repeats": 8, "points": 2}
    curves = iclimit.curve("icl_error", **setting, simulation=simulation, jobs=1)
    [values] = curves.simulated
    assert len(values) == 2
    for value in values:
        assert value.z is not None
        assert abs(value.z) < 4
        assert value.estimate.standard_error < 0.1 * value.estimate.mean
        assert value.runs[0].parameters["test_alpha"] == 2
    sources = [row for row in curves.rows() if row["source"] == "simulation"]
    assert {row["test_alpha"] for row in sources} == {2.0}
    assert {row["input_spectrum"] for row in curves.rows()} == {"uniform:0.5,1.5"}


def test_cells_have_integers_of_the_tests_and_eigenvalues():
    structure = Structure("atoms:0.5,1.5", "reversed", "atoms:1,2")
    point = SETTING | {"test_alpha": 2.6, "test_rho": 0.3}
    cells = cells_at(point, 4, 2, structure)
    run, predicted = (cell.keywords for cell in cells)
    assert run["test_context"] == predicted["test_context"] == 10
    assert run["test_rho"] == predicted["test_rho"] == 0.3
    for arguments in (run, predicted):
        assert arguments["task_covariance"].tolist() == [0.5, 0.5, 1.5, 1.5]
        assert arguments["test_covariance"].tolist() == [1.5, 1.5, 0.5, 0.5]
        assert arguments["input_covariance"].tolist() == [1.0, 1.0, 2.0, 2.0]
    for cell in cells:
        assert '"task_covariance": {"derived": "atoms:0.5,1.5"}' in cell.arguments
        assert '"test_covariance": {"derived": "reversed"}' in cell.arguments
    assert can_be_extrapolated({**point, "alpha": 1, "test_alpha": 1}, (10, 20, 30))
    assert not can_be_extrapolated({**point, "alpha": 1, "test_alpha": 0.02}, (10, 20, 30))
    with pytest.raises(ValueError, match="test_alpha must be finite to simulate"):
        cells_at(point | {"test_alpha": np.inf}, 4, 2, structure)


@pytest.fixture(scope="module")
def diagram():
    setting = {"tau": np.geomspace(0.3, 4, 30), "kappa": np.geomspace(0.1, 10, 30), "alpha": 3}
    setting |= {"rho": 0.01, "task_spectrum": "atoms:0,0.2,2.8", "test_spectrum": "isotropic"}
    return iclimit.phase_diagram("icl_error", x="tau", y="kappa", **setting)


def test_boundaries_hold_for_the_spectra(diagram):
    """By finite differences of errors of matrices; those of isotropic data are not drawn."""
    joint = JointSpectrum.of_matrices([0.0, 0.2, 2.8], [1.0, 1.0, 1.0])

    def icl(tau, kappa):
        return structured_errors(tau=tau, kappa=kappa, alpha=3.0, rho=0.01, spectrum=joint).icl

    lines = {label: np.concatenate(pieces) for label, pieces in diagram.boundaries.items()}
    isotropic = {b.label for name, b in BOUNDARIES.items() if name != "interpolation"}
    assert not isotropic & set(lines)
    threshold, diversity, null = (
        next(vertices for label, vertices in lines.items() if text in label)
        for text in ("interpolation", r"\partial\kappa", "predicting 0")
    )
    np.testing.assert_allclose(threshold[:, 0], 1, rtol=1e-9)
    np.testing.assert_allclose(icl(*null.T), 1.01, rtol=1e-8)
    step = 1e-4
    tau, kappa = diversity.T
    slope = (icl(tau, kappa * (1 + step)) - icl(tau, kappa * (1 - step))) / (2 * step)
    assert np.max(np.abs(slope / icl(tau, kappa))) < 1e-6
    assert len(diversity) > 5


def test_memorisation_is_sharp_at_the_rank_of_the_tasks():
    """As the context grows, the error without tests elsewhere vanishes beyond it only."""
    joint = Structure("atoms:0,1,2").joint
    below, above = structured_errors(
        tau=np.inf, alpha=1e6, kappa=np.array([0.6, 0.73]), rho=0.0, spectrum=joint
    ).icl
    assert below > 0.01
    assert above < 1e-4
    setting = {"alpha": np.geomspace(1, 1e6, 4), "kappa": np.geomspace(0.3, 2, 8), "tau": np.inf}
    spectra = {"task_spectrum": "atoms:0,1,2"}
    drawn = iclimit.phase_diagram("icl_error", x="alpha", y="kappa", rho=0, **setting, **spectra)
    [[line]] = [each for label, each in drawn.boundaries.items() if "0.667" in label]
    np.testing.assert_allclose(line, [[100, 2 / 3], [1e4, 2 / 3], [1e6, 2 / 3]], rtol=1e-9)


def test_predicting_zero(tmp_path):
    """Its error is the variance of the labels of a run whose spectra have mean 1, or have not."""
    path = tmp_path / "eigenvalues.csv"
    path.write_text(",eigenvalue\n0,3\n1,1\n2,0.5\n")
    spectra = {"task_spectrum": str(path), "input_spectrum": "atoms:0.5,0.5,3.5"}
    tasks = np.array([0.5, 1, 3])
    inputs = np.array([0.5, 0.5, 3.5])
    for normalize, scale in ((False, 1), (True, 1.5 * 1.5)):
        curves = iclimit.curve(
            "null_error", rho=0.1, test_rho=0.3, tau=[1, 2], **spectra, normalize=normalize
        )
        labels = np.mean(tasks * inputs) / scale
        assert curves.values[0] == pytest.approx(np.full(2, labels + 0.3), rel=1e-12)
    assert curves.rows()[0]["task_spectrum"] == f"{path} (mean 1)"
    assert iclimit.curve("null_error", rho=[0, 0.5]).values.tolist() == [[1, 1.5]]


def test_diagrams_carry_their_spectra(diagram, tmp_path):
    path = tmp_path / "diagram.nc"
    diagram.to_xarray().to_netcdf(path, engine="h5netcdf")
    with xr.open_dataset(path, engine="h5netcdf") as data:
        assert data.attrs["task_spectrum"] == "atoms:0,0.2,2.8"
        assert data.attrs["test_spectrum"] == "isotropic"
        np.testing.assert_allclose(data["task_eigenvalue"], [0, 0.2, 2.8], atol=1e-15)
        np.testing.assert_allclose(data["test_eigenvalue"], 1)
        np.testing.assert_allclose(data["weight"], 1 / 3)
    assert diagram.rows()[0]["test_spectrum"] == "isotropic"


def test_both_verbs_take_spectra(tmp_path, capsys, covariance):
    spectra = ["--task-spectrum", covariance[1], "--test-spectrum", "reversed"]
    fixed = ["--tau", "2", "--rho", "0.1", "--no-store"]
    table = tmp_path / "curve.csv"
    curve = ["curve", "scalar_error", "--kappa", "0.5:2:4", "--alpha", "1", "--test-alpha", "1,9"]
    assert main([*curve, *fixed, *spectra, "-o", str(table)]) == 0
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    assert {row["test_spectrum"] for row in rows} == {"reversed"}
    assert {row["test_alpha"] for row in rows} == {"1.0", "9.0"}
    axes = ["--x", "alpha=0.5:5:4", "--y", "kappa=0.5:2:4"]
    for ending in ("png", "json"):
        path = tmp_path / f"phase.{ending}"
        assert main(["phase", "task_gap", *axes, *fixed, *spectra, "-o", str(path)]) == 0
    rows = json.loads((tmp_path / "phase.json").read_text())["rows"]
    assert {row["test_spectrum"] for row in rows} == {"reversed"}
    assert (tmp_path / "phase.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "phase.nc").exists()
    assert main([*curve, *fixed, *spectra, "-o", str(tmp_path / "curve.png")]) == 0
    with pytest.raises(SystemExit):
        main(["phase", "--list"])
    listed = capsys.readouterr().out
    assert listed.count("--task-spectrum, --test-spectrum, --input-spectrum") == 6


def test_runs_show_descriptions_of_spectra_and_their_eigenvalues(tmp_path, capsys):
    store = ["--store", str(tmp_path / "runs.sqlite")]
    simulate = ["--simulate", "dim=8,repeats=2,points=2", "--jobs", "1"]
    setting = ["--tau", "2:3:2", "--alpha", "1", "--kappa", "1", "--rho", "0.1"]
    spectrum_ = ["--task-spectrum", "uniform:0.5,1.5"]
    assert main(["curve", "icl_error", *setting, *spectrum_, *simulate, *store]) == 0
    capsys.readouterr()
    assert main(["runs", "list", "--function", "simulate_errors", *store]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "task_covariance=uniform:0.5,1.5" in lines[1]
    identity = lines[1].split()[0]
    assert main(["runs", "show", identity, *store]) == 0
    shown = capsys.readouterr().out
    assert "  task_covariance = uniform:0.5,1.5\n" in shown
    assert shown.count(", ", shown.index("derived values"), shown.index("repeats")) == 7
    assert main(["runs", "export", "-o", str(tmp_path / "runs.nc"), *store]) == 0


def test_wrong_spectra_are_told():
    for arguments, message in (
        ({"task_spectrum": "power:1"}, "task_spectrum: spec must be one of isotropic, powerlaw"),
        ({"task_spectrum": "reversed"}, "task_spectrum: spec must be one of isotropic"),
        ({"task_spectrum": "powerlaw:1.5"}, r"task_spectrum: exponent must be >= 0 and < 1"),
        ({"task_spectrum": "atoms:-1,1"}, "task_spectrum: spec must have eigenvalues >= 0"),
        ({"task_spectrum": "atoms:0"}, "task must have a positive eigenvalue"),
        ({"test_spectrum": "mp:2"}, "test_spectrum needs task_spectrum, got only 'mp:2'"),
        ({"task_spectrum": "mp:2", "test_spectrum": "turned:mp:2"}, "test_spectrum: spec must be"),
        ({"input_spectrum": "reversed"}, "input_spectrum: spec must be one of"),
        ({"input_spectrum": "atoms:0,1"}, "input_spectrum must have eigenvalues > 0, got 0.0"),
        ({"input_spectrum": "reversed:mp:2"}, "input_spectrum must have eigenvalues > 0"),
        ({"normalize": True}, "normalize needs a spectrum, got none"),
    ):
        with pytest.raises(ValueError, match=message):
            parse_structure(**arguments)


def test_a_list_is_its_eigenvalues():
    for given in ([1, 2.0], (2, 1), np.array([1.0, 2.0])):
        setting = {"tau": [1.5, 2], "alpha": 1, "kappa": 1, "rho": 0.1}
        found, expected = (
            iclimit.curve("icl_error", **setting, task_spectrum=spectrum, test_spectrum="reversed")
            for spectrum in (given, Atoms([1, 2]))
        )
        assert found.values.tolist() == expected.values.tolist()
        assert found.quantity.choices == expected.quantity.choices
        with pytest.raises(ValueError, match="task_spectrum: values must be a non-empty list"):
            iclimit.curve("icl_error", **setting, task_spectrum=[])


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("bayes_error --task-spectrum mp:2", "null_error, tied_loss, tied_flow_loss, untied_loss"),
        ("icl_error --test-alpha 2", "without a spectrum, got 'test_alpha'"),
        ("icl_error --test-spectrum mp:2", "--test-spectrum needs --task-spectrum"),
        (
            "misalignment_error --task-spectrum mp:2 --simulate dim=8",
            "must be icl_error, idg_error",
        ),
        ("icl_error --task-spectrum none.csv", "none.csv"),
    ],
)
def test_wrong_uses_are_told(command, message, capsys):
    setting = "--alpha 1 --rho 0.1 --no-store"
    if "bayes" not in command:
        setting += " --tau 1:2:3 --kappa 1"
    assert main(["curve", *command.split(), *setting.split()]) == (1 if ".csv" in message else 2)
    assert message in capsys.readouterr().err


def test_errors_of_own_spectra_stand_beside_that_of_predicting_zero():
    """Labels have the mean square of the eigenvalues plus the noise."""
    spectrum = {"task_spectrum": "atoms:0.4,1.6", "input_spectrum": "atoms:0.5,2.5"}
    curves = iclimit.curve("icl_error", tau=[2.0, 3.0], alpha=1.0, kappa=1.0, rho=0.1, **spectrum)
    expected = (0.4 * 0.5 + 1.6 * 2.5) / 2 + 0.1
    assert [row["null"] for row in curves.rows()] == pytest.approx([expected] * 2)
    plain = iclimit.curve("icl_error", tau=[2.0, 3.0], alpha=1.0, kappa=1.0, rho=0.1)
    assert "null" not in plain.rows()[0]
