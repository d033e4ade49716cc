"""Parameters in files of figures, read by this package and by others' tools; styles' sizes."""

import json
import re

import pytest

import iclimit
from iclimit.cli import main
from iclimit.drawing import STYLES, house_style, new_figure, panels, save_picture

PARAMETERS = {"claim": r"a (strange) \ name", "seed": 3, "tau": [1.5, 2.0]}


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_parameters_come_back(ending, tmp_path):
    path = tmp_path / f"figure.{ending}"
    save_picture(new_figure(1, 1), path, PARAMETERS)
    found = {"iclimit_version": iclimit.__version__, **PARAMETERS}
    assert iclimit.figure_files.figure_parameters(path) == found


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_files_without_parameters(ending, tmp_path):
    path = tmp_path / f"figure.{ending}"
    for write in (lambda: path.write_text("no picture"), lambda: save_picture(new_figure(), path)):
        write()
        with pytest.raises(ValueError, match="path must be a figure with parameters of iclimit"):
            iclimit.figure_files.figure_parameters(path)
    with pytest.raises(ValueError, match=r"path must end in \.png, \.pdf, \.svg, got 'a.jpg'"):
        iclimit.figure_files.figure_parameters("a.jpg")
    with pytest.raises(FileNotFoundError):
        iclimit.figure_files.figure_parameters(tmp_path / f"none.{ending}")


def test_the_command_line_states_what_it_drew(tmp_path, capsys):
    path = tmp_path / "curve.pdf"
    command = "curve bayes_error --alpha 0.1:10:50:log --rho 0.1,0.2 --style paper"
    assert main([*command.split(), "-o", str(path)]) == 0
    assert main(["figure", "--parameters", str(path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["quantity"] == "bayes_error"
    assert (found["alpha"], found["rho"]) == ("0.1:10.0:50:log", [0.1, 0.2])
    assert found["command"] == f"iclimit {command} -o {path}"
    fonts = set(re.findall(rb"/Subtype /(Type\w+)", path.read_bytes()))
    assert b"Type3" not in fonts
    assert b"/MediaBox [ 0 0 244.8 " in path.read_bytes()  # 3.4 inches


def test_figures_need_a_name_or_a_file(capsys):
    assert main(["figure"]) == 2
    assert "give either NAME or --parameters FILE" in capsys.readouterr().err


@pytest.mark.parametrize("style", STYLES)
def test_panels_fit_the_columns_of_a_paper(style):
    with house_style(style):
        figure = new_figure()
        assert len(panels(figure, 3, 2)) == 6
        width, height = figure.get_size_inches()
        rows = figure.axes[0].get_subplotspec().get_gridspec().nrows
    expected = {"screen": (8.6, 2), "paper": (3.4, 6), "paper-wide": (7.0, 2), "talk": (12.0, 2)}
    assert (width, rows) == (pytest.approx(expected[style][0]), expected[style][1])
    assert height / rows >= 1.8
