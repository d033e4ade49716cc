"""Code of the README, the pages and the help texts runs: commands and blocks of Python.

Examples with ``>>>`` are run by `test_doctests.py`.
"""

import contextlib
import csv
import json
import operator
import os
import re
import runpy
import shlex
import textwrap
from pathlib import Path

import numpy as np
import pytest

import iclimit
from iclimit.cli import build_parser, main
from iclimit.runs import RunStore
from iclimit.simulate.dynamics import simulate_gradient_descent
from iclimit.validation.instruments.models.algorithms import ALGORITHMS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
REFERENCE = ROOT / "iclimit" / "validation" / "reference"
# Help texts, which take longest, come first: workers then end together.
PAGES = [
    *sorted((ROOT / "iclimit" / "cli").glob("*.py"), reverse=True),
    ROOT / "README.md",
    *sorted(DOCS.glob("*.rst")),
    *sorted(DOCS.glob("*/*.rst")),
    *sorted(DOCS.glob("theory/*/*.rst")),
]

# Commands that are read but not run, with the reason.
LEFT_OUT = {
    "validate": "`make validate` runs all claims, in minutes",
    "validate ridgeless ridge --preset quick": "a minute; `make validate` runs it, too",
    "validate ridgeless ridge --preset full": "hours",
    "figure double-descent --preset full -o double-descent.pdf": "hours; the quick one is run",
    "explorer": "a command with more flags is run",
    "validate --backend cupy --dry-run": "needs a GPU",
    "curve icl_error --tau 0.5:4:20 --alpha 1 --kappa 0.5 --rho 0.01 --simulate dim=100 "
    "--backend cupy -o gpu.png": "needs a GPU",
    "train network --dim 10 --context 20 --backend cupy -o network.npz": "needs a GPU",
    "check lu_letey_linear_simulations.csv --ddof 0 --balanced --ignore tau,kappa --columns "
    "dim=d,tau=tau_eff,kappa=kappa_eff,ridge=lam --columns icl=icl_mean,icl_sd=icl_std,"
    "idg=idg_mean,idg_sd=idg_std": "seven seconds; `test_check_runs.py` runs it",
    "phase icl_error --x alpha=0.1:100:200:log --y kappa=0.25:4:200:log --tau 4 --rho 0.1 "
    "--simulate dim=32:48:64 --scheduler tcp://10.0.0.1:8786 -o phase.png": "needs a Dask cluster",
}

# What follows the commands with these beginnings, which then learn, simulate or judge less, or
# compare fewer sizes.
SHORTENED = {
    "validate --compare": "solver task-alignment",  # all claims: `test_resolution.py`
    "curve icl_error --tau 0.25:4:200:log": "--simulate dim=8,points=2,repeats=2",
    "curve icl_error --tau 0.5:4:30": "--target-relative-error 20%",
    "curve icl_error --tau 0.2:20:60:log": "--simulate dim=8,points=2,repeats=2",
    "curve icl_error_at_time --time": "--simulate dim=8,points=2,repeats=2",
    "curve icl_error_at_time --tau": "--simulate dim=8,points=2,repeats=2",
    "curve pretrained_accuracy": "--simulate dim=8,points=2,repeats=2",
    "curve icl_error --kappa": "--simulate dim=8,points=2,repeats=2",
    "curve task_gap": "--simulate dim=8,points=2,repeats=2",
    "phase task_gap": "--simulate dim=12:16:20,points=2x2,repeats=2 --refine 0",
    "plan precision --sequence-ratio": "--dim 12,16",
    "plan theories": "--dim 12,16",
    "plan difference": "--dim 12,16",
    "train network": "--steps 20 --repeats 1 --held-out 2000",
    "prompts": "--test-prompts 500",
}

# Beginnings of lines for the shell that are no commands of iclimit, and why they are not run.
OTHER_LINES = {
    "make": "the tests themselves, or what they run",
    "git": "fetches the project",
    "pip": "installs the project",
    "dask": "needs a cluster",
    "python answer.py": "the script of the page, which is run before the verb that needs it",
}

# Blocks of Python in which this is found need a model of PyTorch or JAX, on which the project
# does not depend: they compile.
OTHER_LIBRARIES = re.compile(r"\b(torch|jax|dask_jobqueue|dask_kubernetes|attention\.query)\b")


def commands(page):
    """Commands of a page in their order, without comments and redirections."""
    text = page.read_text("utf-8")
    if page.suffix == ".md":
        text = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
        text = re.sub("^", "  ", text, flags=re.MULTILINE)
    joined = re.sub(r"\\\n *", "", text)
    found = re.findall(r"^ {2,}(?:\$ )?iclimit (?!\w+:)(.+)$", joined, re.MULTILINE)
    return [shlex.join(shlex.split(each.partition(" > ")[0], comments=True)) for each in found]


def blocks(page):
    """Blocks of Python without output."""
    found = re.findall(
        r"code-block:: python\n\n((?:(?: {3}.*)?\n)+)", page.read_text("utf-8") + "\n"
    )
    return [textwrap.dedent(block) for block in found if page.suffix == ".rst"]


WITH_CODE = [page for page in PAGES if commands(page) or blocks(page)]


def of_beginning(table, command):
    """Value of the longest key with which the command begins; None if there is none."""
    keys = [key for key in table if f"{command} ".startswith(f"{key} ")]
    return table[max(keys, key=len)] if keys else None


def run(command):
    """Exit status of a command."""
    try:
        return main(shlex.split(command))
    except SystemExit as left:
        return left.code


def test_commands_are_accepted():
    """Their flags exist and their values are read; the parser leaves with 2 otherwise."""
    for page in PAGES:
        for command in commands(page):
            with contextlib.suppress(SystemExit):
                build_parser().parse_args(shlex.split(command))
                continue
            assert "--help" in command or "--list" in command, f"{page.name}: iclimit {command}"


def write_runs(left_out="seed", **names):
    """A table of runs that agree with the prediction, without one column and with these names."""
    size = {"dim": 10, "context": 20, "tasks": 20, "rho": 0.01}
    rows = []
    for prompts in (200, 400):
        found = iclimit.finite_size_errors(**size, prompts=prompts, rng=0, draws=20).icl
        rows.append({**size, "prompts": prompts, "icl": found.mean, "icl_se": 0.05, "seed": 1})
    rows = [{names.get(k, k): v for k, v in row.items() if k != left_out} for row in rows]
    with open("runs.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    Path("runs.json").write_text(json.dumps(rows))


def write_curve(eigenvalues, *, column="run", **training):
    """A loss curve of training as curve.csv and runs.csv, the run in a column of this name."""
    law = iclimit.Problem(len(eigenvalues), 20, input_covariance=eigenvalues, scale=1)
    simulate_gradient_descent(law, **training, record=50, rng=0).write("curve.csv")
    text = Path("curve.csv").read_text().replace("repeat", column, 1)
    for name in ("curve.csv", "runs.csv"):
        Path(name).write_text(text)


def write_published(name, path):
    """A published curve, as a table."""
    steps = np.loadtxt(REFERENCE / f"linattn_{name}.txt")
    rows = [{"step": int(step), "loss": loss} for step, loss in steps]
    if path.endswith(".json"):
        Path(path).write_text(json.dumps(rows))
    else:
        lines = ["step,loss", *(f"{row['step']},{row['loss']}" for row in rows)]
        Path(path).write_text("\n".join(lines))


def answer_prompts():
    """The script of the page "Your model", which answers prompts.npz."""
    if not Path("prompts.npz").exists():
        assert run("prompts --dim 5 --context 10 --test-prompts 500 -o prompts.npz") == 0
    runpy.run_path(str(DOCS / "tables" / "model_elsewhere.py"), run_name="__main__")


def answer_table():
    """Zeros as answers to a table of prompts."""
    assert run(SMALL_PROMPTS) == 0
    asked = len(np.load("prompts.npz")["query"])
    Path("predictions.csv").write_text("prediction\n" + "0\n" * asked)


def train_head():
    """Prompts and a network of their size."""
    assert run(SMALL_PROMPTS) == 0
    assert run(SMALL_HEAD) in {0, 1}


def simulate():
    """Runs in the store that the environment names, and in runs.sqlite."""
    if Path("runs.sqlite").exists():
        return
    for store in ("", "--store runs.sqlite"):
        assert run(f"{SMALL_SIMULATION} {store}") == 0


SMALL_PROMPTS = (
    "prompts --dim 5 --context 10 --noise-variance 0.25 --test-prompts 500 -o prompts.npz"
)
SMALL_HEAD = "train network --dim 5 --context 10 --steps 20 -o head.npz"
SMALL_SIMULATION = (
    "curve icl_error --tau 2 --alpha 1 --kappa 0.5 --rho 0.1 --simulate dim=8,repeats=2 "
    "-o simulated.csv"
)
MERGED = {"heads": 8, "init_scale": 1e-3, "learning_rate": 0.01, "steps": 12_000}


def write_metrics():
    """Least squares without noise at d = 20, as the code of Garg et al. writes it."""
    errors = np.maximum(20 - np.arange(41.0), 0)
    numbers = {"mean": errors, "std": errors, "bootstrap_low": 0.97 * errors}
    numbers["bootstrap_high"] = 1.03 * errors
    rows = {name: values.tolist() for name, values in numbers.items()}
    Path("metrics.json").write_text(json.dumps({"standard": {"OLS_driver=None": rows}}))


def write_errors():
    """Averaging of a user at d = 5, whose columns have other names."""
    lines = [f"{i},{5.25 if i == 0 else 5.25 + 5.25 * 5 / i},0.2,mine" for i in range(11)]
    Path("table.csv").write_text("\n".join(["examples,mse,sem,model", *lines]))


SEPARATE = {"heads": 5, "init_scale": 1e-2, "learning_rate": 0.02, "steps": 9_000}
# What a reader has before a command with this beginning.
BEFORE = {
    "check runs.csv": write_runs,
    "check runs.csv --columns icl=test_loss": lambda: write_runs(icl="test_loss"),
    "check runs.csv --columns icl=test_loss,dim=d": lambda: write_runs(
        "rho", icl="test_loss", dim="d"
    ),
    "check runs.json": write_runs,
    "fit runs.csv": write_runs,
    "fit runs.csv --free rho,tau --columns icl=test_loss": lambda: write_runs(icl="test_loss"),
    "fit runs.csv --free factor,offset": lambda: write_runs("rho"),
    "check-positions metrics.json": write_metrics,
    "check-positions table.csv": write_errors,
    "check-curve curve.csv": lambda: write_curve([0.2] * 5, **MERGED),
    "check-curve runs.csv": lambda: write_curve(
        [0.5, 0.3, 0.2], column="seed", model="separate", **SEPARATE
    ),
    "check-curve curve.json": lambda: write_published("attnM_H8_init1e-6", "curve.json"),
    "check-curve rank-1.csv": lambda: write_published("attnS_D4_H5_R1_P80000", "rank-1.csv"),
    "fit-curve curve.csv": lambda: write_curve([0.2] * 5, **MERGED),
    "curve": lambda: np.savetxt("eigenvalues.csv", [3, 1.5, 0.9, 0.4, 0.2]),
    "explorer --store": simulate,
    "probe prompts.npz predictions.npz": answer_prompts,
    "probe prompts.npz --model head.npz": train_head,
    "probe prompts.npz predictions.csv": answer_table,
    "prompts --dim 8": lambda: np.save("tasks.npy", np.eye(8)),
    "runs": simulate,
}


# Verbs whose exit status 1 is a verdict.
JUDGES = {"check", "check-curve", "check-positions", "fit", "fit-curve", "train"}


@pytest.fixture(autouse=True)
def own_store(tmp_path_factory, monkeypatch):
    """One run store for all pages and workers: what several pages show is simulated once."""
    folder = tmp_path_factory.getbasetemp()
    shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    path = shared / "documentation.sqlite"
    monkeypatch.setenv("ICLIMIT_STORE", str(path))
    # Processes of each test worker would import everything again, on cores that are busy.
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    return path


@pytest.mark.slow
@pytest.mark.usefixtures("few_predictions", "few_families")
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_runs(page, tmp_path, monkeypatch, own_store):
    """Commands in their order in one folder, then the blocks, which read their files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(ALGORITHMS, "gdpp_3")  # a search that takes seconds
    for command in dict.fromkeys(commands(page)):
        if command in LEFT_OUT:
            continue
        if before := of_beginning(BEFORE, command):
            before()
        coarse = re.sub(r":(?:[6-9]\d|\d{3,})(:log)?(?= |$)", r":40\1", command)
        words = shlex.split(f"{coarse} {of_beginning(SHORTENED, command) or ''}")
        if words[:2] in (["runs", "show"], ["runs", "prune"]) and words[2][0] != "-":
            with RunStore("runs.sqlite" if "--store" in words else own_store) as store:
                words[2] = store.runs()[0].identity
        allowed = {0, 1} if words[0] in JUDGES else {0}
        assert run(shlex.join(words)) in allowed, f"iclimit {shlex.join(words)}"
    prompts = {"inputs": np.ones((3, 4, 2)), "labels": np.ones((3, 4)), "query": np.ones((3, 2))}
    names = {"np": np, **prompts}
    for block in blocks(page):
        code = compile(block, str(page), "exec")
        if not OTHER_LIBRARIES.search(block):
            exec(code, names)


def test_blocks_are_python_and_their_names_exist():
    """Those for other libraries, too, which are not run."""
    for page in WITH_CODE:
        for block in blocks(page):
            compile(block, str(page), "exec")
            for name in re.findall(r"(?<!\")\biclimit((?:\.\w+)+)", block):
                operator.attrgetter(name[1:])(iclimit)


def test_other_lines_for_the_shell_are_known():
    """What is not run is a command that is listed above."""
    for page in PAGES:
        text = re.sub(r"\\\n *", "", page.read_text("utf-8"))
        lines = re.findall(r"^ +\$ (.+)$", text, re.MULTILINE)
        for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
            lines += block.splitlines()
        for line in lines:
            assert line.startswith(("iclimit ", *OTHER_LINES)), f"{page.name}: {line}"


def test_what_is_left_out_is_there():
    found = {command for page in PAGES for command in commands(page)}
    assert set(LEFT_OUT) <= found
    for table in (SHORTENED, BEFORE):
        value = [k for k in table if not any(f"{each} ".startswith(f"{k} ") for each in found)]
        assert value == []
