"""What all verbs share: files and formats of results, help, and errors in one line."""

import argparse
import csv
import inspect
import io
import json
import math
import shlex

import pytest
from refusals import refused_command

import iclimit
from iclimit.cli import build_parser, main
from iclimit.cli.flags import WRITTEN, add_flags, described
from iclimit.cli.verbs import VERBS, OneLineParser
from iclimit.simulate.dynamics import simulate_gradient_descent
from iclimit.tables import PICTURES, TABLES

SETTING = "--alpha 1 --kappa 0.5 --rho 0.01"
CURVE = "--eigenvalues 0.6,0.4 --context 10 --heads 3 --init-scale 1e-4 --learning-rate 0.05"
TINY = "--dim 2 --context 6 --steps 3 --batch 8 --held-out 50"
LABELLED = (*TABLES, ".nc", *PICTURES)
CURVES = f"curve icl_error --tau 1.5:3:5 {SETTING}"
# Commands of the verbs that write files in seconds, and the endings of these.
RESULTS = {
    CURVES: LABELLED,
    "phase icl_error --x tau=1.5:3:4 --y rho=0:1:3 --alpha 1 --kappa 0.5": LABELLED,
    "learning-rate --context 5,7 --dim 3": TABLES,
    "schedule --steps 3 --ratio 0.5": TABLES,
    "gdpp --condition-number 1e4 --tol 1e-10": TABLES + PICTURES,
    "check runs.csv": TABLES + PICTURES,
    "fit runs.csv": TABLES + PICTURES,
    f"check-curve curve.csv --columns run=repeat {CURVE}": TABLES + PICTURES,
    f"fit-curve curve.csv --columns run=repeat {CURVE}": TABLES + PICTURES,
    "check-positions errors.csv --dim 2 --context 3": TABLES + PICTURES,
    f"train network {TINY}": (".npz",),
    "prompts --dim 2 --context 3 --test-prompts 5": (".npz",),
}

# How files of these endings begin.
STARTS = {
    **{".csv": b"", ".json": (b"[", b"{"), ".png": b"\x89PNG", ".pdf": b"%PDF-"},
    **{".svg": b"<?xml", ".nc": b"\x89HDF", ".npz": b"PK", ".html": b"<!"},
}


PLAN = "plan precision --tau 2 --alpha 1 --kappa 0.5 --rho 0.1 --effect 0.1 --dim 12"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1 / 0", "--cost: must be a file that runs, got ZeroDivisionError: division by zero"),
        ("def f(:", "--cost: must be a file that runs, got SyntaxError: "),
        ("raise SystemExit(3)", "--cost: must be a file that runs, got SystemExit: 3"),
        ("def f(*sizes): return 1 / 0", "got ZeroDivisionError: division by zero at dim=12, "),
        ("def f(*sizes): return 'x'", "cost must return a number > 0 and finite, got ValueError"),
        ("def f(*sizes): return None", "cost must return a number > 0 and finite, got TypeError"),
        ("def f(*sizes): return -1", "cost must return a number > 0 and finite, got -1"),
        ("def f(*sizes): raise SystemExit", "got SystemExit"),
        ("def f(dim): return 1", "got TypeError: f() takes 1 positional argument"),
    ],
)
def test_costs_that_fail(content, message, tmp_path, capsys):
    (tmp_path / "cost.py").write_text(content)
    words = [*PLAN.split(), "--cost", f"{tmp_path / 'cost.py'}:f"]
    assert message in refused_command(capsys, words)


@pytest.mark.parametrize(
    "command",
    [
        f"{PLAN} --runs x.csv -o ./x.csv",
        f"{PLAN} --runs x.csv -o link.csv",
        "check own.csv -o own.csv",
        "check own.csv -o ./own.csv",
        "fit own.csv -o own.csv",
        f"check-curve own.csv -o own.csv {CURVE}",
        "train network --dim 2 --context 6 --repeats 3 --checkpoint ck.npz -o ck-2.npz",
        "explorer --store x.html -o x.html",
        f"curve icl_error --tau 1.5:3:5 {SETTING} --simulate dim=6 --store x.csv -o x.csv",
    ],
)
def test_no_file_is_written_twice_or_over_one_that_is_read(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "own.csv"
    own.write_text("dim,tau\n")
    (tmp_path / "link.csv").symlink_to("x.csv")
    assert " must be " in refused_command(capsys, command.split())
    assert own.read_text() == "dim,tau\n"
    assert {each.name for each in tmp_path.iterdir()} == {"own.csv", "link.csv"}


@pytest.mark.parametrize("flag", ["title", "ylabel", "label"])
def test_labels_that_no_font_has_are_escaped(flag, tmp_path):
    """A lone surrogate is what a byte of no text becomes on a command line."""
    path = tmp_path / "x.svg"
    words = f"{CURVES} -o {path}".split()
    assert main([*words, f"--{flag}", "a\udc80b\0"]) == 0
    assert path.read_bytes().startswith(STARTS[".svg"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of runs that agree with the theory, and a curve of a training."""
    place = tmp_path_factory.mktemp("verbs")
    size = {"dim": 10, "context": 20, "tasks": 20, "prompts": 400}
    icl = iclimit.finite_size_errors(**size, rho=0.01, rng=0, draws=20).icl.mean
    row = size | {"rho": 0.01, "icl": icl, "icl_se": 0.05}
    (place / "runs.csv").write_text(f"{','.join(row)}\n{','.join(map(str, row.values()))}\n")
    problem = iclimit.Problem(2, 10, input_covariance=[0.6, 0.4], scale=1)
    training = {"heads": 3, "init_scale": 1e-4, "learning_rate": 0.05, "steps": 600, "record": 3}
    errors = "examples,error,error_se,model\n0,2,0.1,ols\n1,1,0.1,ols\n2,0,0.1,ols\n3,0,0.1,ols\n"
    (place / "errors.csv").write_text(errors)
    simulate_gradient_descent(problem, **training, rng=1).write(place / "curve.csv")
    return place


def result(command, capsys):
    """What a command prints; its exit status may be a verdict."""
    assert main(shlex.split(command)) in (0, 1)
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return captured.out


@pytest.mark.parametrize("command", RESULTS)
def test_results_are_written_in_every_ending(command, folder, tmp_path, capsys, monkeypatch):
    """The file says what --format prints, and another ending is refused.

    The formats of a picture differ in the ending only: one verb writes them all.
    """
    monkeypatch.chdir(folder)
    skipped = () if command == CURVES else PICTURES[1:]
    endings = [each for each in RESULTS[command] if each not in skipped]
    for ending in endings:
        path = tmp_path / f"out{ending}"
        printed = result(f"{command} -o {path}", capsys)
        assert path.read_bytes().startswith(STARTS[ending])
        if ending in TABLES and not printed and not command.startswith(("check", "fit")):
            assert path.read_text() == result(f"{command} --format {ending[1:]}", capsys)
    beside = {".nc"} if "phase" in command else set()
    assert {path.suffix for path in tmp_path.iterdir()} == {*endings, *beside}
    for name in ("out.doc", "none/out.csv", "none/out.npz"):
        error = refused_command(capsys, shlex.split(f"{command} -o {name}"))
        assert "argument -o/--output: must " in error
        assert "folder" in error or f"must end in {', '.join(RESULTS[command])}, got" in error


@pytest.mark.parametrize("command", [each for each in RESULTS if not each.startswith("prompts")])
def test_formats_agree(command, folder, capsys, monkeypatch):
    """CSV and columns of text have the same numbers; JSON is strict."""
    monkeypatch.chdir(folder)
    rows = list(csv.reader(io.StringIO(result(f"{command} --format csv", capsys))))
    assert len({len(row) for row in rows}) == 1
    numbers = json.loads(result(f"{command} --format json", capsys), parse_constant=pytest.fail)
    assert numbers
    text = result(f"{command} --format text", capsys)
    head, *lines = text.split("\n\n")[0].splitlines()
    if head.split() != rows[0]:  # a verdict in words
        assert command.startswith(("check", "fit"))
        return
    for line, row in zip(lines, rows[1:], strict=True):
        for word, entry in zip(line.split(), filter(None, row), strict=True):
            assert word == entry or float(word) == pytest.approx(float(entry), rel=1e-9)


def complete_parsers():
    """Parsers of all verbs, with their flags."""
    parsers = {"": build_parser()}
    while True:
        below = {}
        for name, parser in parsers.items():
            parser.complete()
            for action in parser._actions:
                if isinstance(action, argparse._SubParsersAction):
                    below |= {f"{name} {key}".strip(): one for key, one in action.choices.items()}
        if not below.keys() - parsers.keys():
            return parsers
        parsers |= {name: one for name, one in below.items() if name not in parsers}


PARSERS = complete_parsers()


@pytest.mark.parametrize("verb", PARSERS)
def test_help(verb, capsys):
    """Every verb and flag says what it is; the list of verbs has all of them."""
    with pytest.raises(SystemExit, match="0"):
        main([*verb.split(), "--help"])
    text = capsys.readouterr().out
    assert text.startswith(f"usage: iclimit {verb}".strip())
    assert max(map(len, text.splitlines())) < 140
    for action in PARSERS[verb]._actions:
        if not isinstance(action, argparse._SubParsersAction):
            assert action.help, action.dest
            assert "`" not in action.help
            assert ":math:" not in action.help
    if verb in VERBS and not verb.startswith(("runs", "claims")):
        assert "examples:" in text


@pytest.mark.parametrize("verb", PARSERS)
def test_wrong_flags_are_one_line_and_status_2(verb, capsys):
    """An unknown flag, values that are no numbers, and choices that there are not."""
    wrong = [["--nonsense", "1"]]
    for action in PARSERS[verb]._actions:
        if not action.option_strings or action.nargs == 0 or action.dest == "help":
            continue
        flag = action.option_strings[-1]
        if action.choices or action.metavar in ("N", "X", "VALUES", "DURATION", "TIME"):
            wrong.append([flag, "nonsense"])
    for flags in wrong:
        with pytest.raises(SystemExit, match="2"):
            PARSERS[verb].parse_args(flags)
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith(f"iclimit {verb}".strip())
        assert captured.err.count("\n") == 1


def test_flags_are_the_arguments_of_a_function():
    """Names, defaults, choices, ranges and meanings, of a function that is made for it."""

    def function(
        tau,
        *,
        heads=2,
        training_set=math.inf,
        kind="first",
        include_query=False,
        shared=True,
        progress=False,
        **more,
    ):
        r"""Do nothing.

        Parameters
        ----------
        tau
            As in `icl_error`.
        heads : int >= 1
            Number of :math:`h`.
        kind : {"first", "second"}
            Which ``kind``, 10 % of them.  Not this sentence.

        Returns
        -------
        kind : {"none"}
            Nothing.
        """

    assert described(function)["kind"] == ('{"first", "second"}', "which kind, 10 % of them")
    parser = OneLineParser(prog="test")
    add_flags(parser, function, {"heads": {"default": 3}})
    options = vars(parser.parse_args(["--tau", "2"]))
    assert options == {
        **{"tau": 2.0, "heads": 3, "training_set": math.inf, "kind": "first"},
        **{"include_query": False, "shared": True},
    }
    given = "--tau inf --heads 4 --training-set 7 --kind second --include-query --no-shared"
    found = [*(math.inf, 4, 7, "second", True, False)]
    assert [*vars(parser.parse_args(given.split())).values()] == found
    text = " ".join(parser.format_help().split())
    for part in (
        "--tau X pretraining prompts over squared dimension (> 0, or inf)",
        "--heads N number of heads (an integer >= 1; default 3)",
        "--kind {first,second} which kind, 10 % of them (default first)",
    ):
        assert part in text
    with pytest.raises(SystemExit, match="2"):
        parser.parse_args([])


def test_what_is_written_by_hand_is_an_argument_of_something():
    functions = [iclimit.curve, iclimit.phase_diagram, *vars(iclimit.validation).values()]
    names = {
        name
        for function in functions
        if inspect.isfunction(function)
        for name in inspect.signature(function).parameters
    }
    flags = {action.dest for parser in PARSERS.values() for action in parser._actions}
    assert set(WRITTEN) <= names | flags


def test_a_folder_without_permission_is_no_traceback(monkeypatch, capsys):
    """Asked of the system, which lets an administrator write anywhere."""
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(SystemExit, match="2"):
        main(["schedule", "--steps", "2", "--ratio", "1", "-o", "x.csv"])
    message = "output: must be a file that can be written, got 'x.csv'\n"
    assert capsys.readouterr().err.endswith(message)


def test_examples_without_a_description_stand_at_the_end_of_the_help(capsys):
    with pytest.raises(SystemExit):
        main(["claims", "--help"])
    text = capsys.readouterr().out
    assert "examples:\n  iclimit claims\n" in text
    assert "----" not in text
