"""The verb probe: prompts and predictions in files, a table, a page, exit status."""

import json

import numpy as np
import pytest
from PIL import Image
from refusals import refused_command

from iclimit.cli import main
from iclimit.figure_files import figure_parameters

PROMPTS = ["--dim", "3", "--context", "6", "--noise-variance", "0.4", "--test-prompts", "100"]
FEW = ["--baselines", "null,one_step,ridge"]

pytestmark = pytest.mark.usefixtures("few_families")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Prompts, and the answers of ridge regression to them."""
    place = tmp_path_factory.mktemp("probe")
    assert main(["prompts", *PROMPTS, "-o", str(place / "prompts.npz")]) == 0
    with np.load(place / "prompts.npz") as asked:
        inputs, labels, query = (asked[name] for name in ("inputs", "labels", "query"))
    gram = inputs.mT @ inputs + 0.4 * np.eye(3)
    weights = np.linalg.solve(gram, inputs.mT @ labels[:, :, None])[:, :, 0]
    np.savez(place / "predictions.npz", predictions=np.vecdot(query, weights))
    return place


def test_ridge_is_found_from_its_answers(folder, capsys):
    files = [str(folder / "prompts.npz"), str(folder / "predictions.npz")]
    assert main(["probe", *files, *FEW, "-o", str(folder / "report")]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("It is ridge regression with the best penalty: it leaves 0 % ")
    assert str(folder / "report" / "report.html") in printed.err
    entry = json.loads((folder / "report" / "report.json").read_text(encoding="utf-8"))
    assert entry["verdict"]["names"] == ["ridge"]
    assert main(["probe", *files, *FEW, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == entry


def test_figures_have_the_style_and_the_parameters(folder):
    files = [str(folder / "prompts.npz"), str(folder / "predictions.npz")]
    out = folder / "paper"
    command = ["probe", *files, "-o", str(out), "--style", "paper", *FEW]
    assert main(command) == 0
    pictures = sorted(out.glob("*.png"))
    assert {"ladder.png", "likeness.png"} <= {each.name for each in pictures}
    for picture in pictures:
        found = figure_parameters(picture)
        assert (found["figure"], found["dim"], found["style"]) == (picture.stem, 3, "paper")
        assert found["command"].startswith("iclimit probe ")
        with Image.open(picture) as image:
            assert abs(image.width / image.info["dpi"][0] - 3.4) < 0.01


def test_linear_attention_is_trained_where_it_is_asked_for(folder, capsys):
    files = [str(folder / "prompts.npz"), str(folder / "predictions.npz")]
    few = ["--baselines", "null,linear_attention", "--format", "csv"]
    assert main(["probe", *files, *few, "--trained-on", "200", "--ridge", "0.1"]) == 0
    assert "linear attention trained on 200 prompts with ridge 0.1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prompts.npz", "nothing.npz"], "nothing.npz"),
        (["nothing.npz", "predictions.npz"], "nothing.npz"),
        (["predictions.npz", "predictions.npz"], "prompts must be"),
        (["prompts.npz", "prompts.npz"], "the prompts come first"),
        (["prompts.npz", "predictions.npz", "--baselines", "rigde"], "did you mean ridge?"),
        (["prompts.npz", "predictions.npz", "--tolerance", "2"], "tolerance must be > 0 and < 1"),
    ],
)
def test_what_cannot_be_used_is_one_line_with_status_2(
    folder, capsys, monkeypatch, arguments, message
):
    monkeypatch.chdir(folder)
    assert message in refused_command(capsys, ["probe", *arguments])
