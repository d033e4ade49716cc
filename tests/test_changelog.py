"""The table "From 1.0 to now": what stands on the right runs, what stands on the left is refused.

The left column was run with 1.0.0 when a line was added.  If a test fails, the library has changed
again: write the line that works now on the right.
"""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from refusals import refused_command

import iclimit
from iclimit.cli import main
from iclimit.notation import read_table

CHANGELOG = Path(__file__).resolve().parents[1] / "CHANGELOG.md"

# What the refusal says of lines with these beginnings; Python itself refuses the others.
MESSAGES = {
    "iclimit.Problem(20, 40, prompts": r"now it is Experiment\(problem, prompts=...\)",
    "iclimit prompts": "must end in .npz",
    "iclimit probe prompts.json": "iclimit prompts with the same flags and -o prompts.npz",
    "iclimit curve": "did you mean --time-limit",
    "iclimit.reduced_gamma": r"now it is layout=iclimit.validation.get_layout\(",
    "iclimit.validation.reduced_s": r"now it is layout=iclimit.validation.get_layout\(",
    "iclimit.validation.stack_parts": r"now it is layout=iclimit.validation.get_layout\(",
    "iclimit dynamics": "now it is merged_attention_drop",
    "iclimit train": "now it is iclimit",
    "iclimit train lstm": "now it is train_network",
}


def lines():
    """Pairs of the table: a line of 1.0, and the line in its place."""
    text = CHANGELOG.read_text("utf-8")
    table = text.partition("### From 1.0 to now\n")[2].partition("\n### ")[0]
    return re.findall(r"^\| `(.+)` \| `(.+)` \|$", table, re.MULTILINE)


LINES = lines()


def run(line):
    """Run a line of Python."""
    exec(compile(line, "CHANGELOG.md", "exec"), {"iclimit": iclimit})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Prompts and answers, which the lines on probes need."""
    place = tmp_path_factory.mktemp("lines")
    prompts = place / "prompts.npz"
    command = "prompts --dim 2 --context 3 --test-prompts 20 -o"
    assert main([*command.split(), str(prompts)]) == 0
    with np.load(prompts) as file:
        count = len(file["query"])
    (place / "predictions.csv").write_text("prediction\n" + "0\n" * count)
    return place


@pytest.mark.usefixtures("few_families")
@pytest.mark.parametrize("now", dict.fromkeys(now for _, now in LINES))
def test_what_replaces_it_runs(now, folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ICLIMIT_STORE", str(folder / "runs.sqlite"))
    if now.startswith("iclimit "):
        assert main(shlex.split(now)[1:]) in (0, 1)  # three steps teach nothing
    else:
        run(now)


@pytest.mark.parametrize("old", [old for old, _ in LINES])
def test_lines_of_1_0_are_refused(old, capsys):
    beginnings = [beginning for beginning in MESSAGES if old.startswith(beginning)]
    message = MESSAGES[max(beginnings, key=len)] if beginnings else "."
    if old.startswith("iclimit "):
        assert message in refused_command(capsys, shlex.split(old)[1:])
        return
    with pytest.raises((AttributeError, ImportError, TypeError), match=message):
        run(old)


def test_every_name_that_messages_know_has_a_line():
    for row in read_table("replaced.csv"):
        name = row["old"].partition("(")[0]
        assert any(name in old for old, _ in LINES), row["old"]
