"""Numbers that the documentation states."""

import csv
import inspect
import re
import runpy
import tomllib
from pathlib import Path

import jinja2
import yaml

import iclimit
from iclimit.cli import main
from iclimit.diagrams.quantities import QUANTITIES
from iclimit.validation import CLAIMS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
TABLES = DOCS / "tables"
SHELVES = (
    *("spectra", "pretraining", "descent", "gdpp"),
    *("dynamics", "networks", "softmax", "depth", "recurrent"),
)
FUNCTIONS = {
    name: value
    for home in (iclimit, *(getattr(iclimit, shelf) for shelf in SHELVES))
    for name in home.__all__
    if callable(value := getattr(home, name)) and not inspect.isclass(value)
}
"""Public functions by name.  Classes are shown by the functions that return them."""


def test_how_far_runs_are_from_the_limit():
    """One task at d = 16, tau = 10 and alpha = 5: between the median and the largest stated."""
    with (TABLES / "limit.csv").open(encoding="utf-8") as file:
        stated = next(
            row for row in csv.DictReader(file) if (row["Error"], row["d"]) == ("ICL", "16")
        )
    median, largest = map(int, re.findall(r"\d+", stated["κ = 1/16"]))
    run = iclimit.simulate_errors(
        dim=16, context=80, tasks=1, prompts=2560, rho=0.1, rng=1, repeats=20
    )
    limit = iclimit.icl_error(tau=10, alpha=5, kappa=1 / 16, rho=0.1)
    assert median < 100 * (run.icl.mean / limit - 1) < largest


def test_the_model_elsewhere_is_judged(tmp_path, monkeypatch, capsys):
    """The script of the page "Your model", between the two verbs."""
    monkeypatch.chdir(tmp_path)
    size = ["--dim", "5", "--context", "15", "--test-prompts", "2000", "--float32"]
    assert main(["prompts", *size, "-o", "prompts.npz"]) == 0
    runpy.run_path(str(TABLES / "model_elsewhere.py"), run_name="__main__")
    capsys.readouterr()
    chosen = ["--baselines", "null,one_step,steps_2,least_squares"]
    assert main(["probe", "prompts.npz", "predictions.npz", *chosen]) == 0
    assert re.match(r"It is one gradient step of rate 0\.6: ", capsys.readouterr().out)


def test_every_public_function_has_an_example():
    assert [name for name, each in FUNCTIONS.items() if ">>>" not in (each.__doc__ or "")] == []


def test_every_public_function_with_arguments_says_what_it_raises():
    silent = [
        name
        for name, each in FUNCTIONS.items()
        if inspect.signature(each).parameters and "\nRaises\n" not in (inspect.getdoc(each) or "")
    ]
    assert silent == []


def test_every_public_function_is_used_in_the_gallery_or_on_a_page_of_the_theory():
    """In the gallery its page links to the examples that use it."""
    examples = [page.read_text("utf-8") for page in (DOCS / "examples").rglob("*.py")]
    for page in (DOCS / "theory").rglob("*.rst"):
        examples += re.findall(r"^(?:>>>|\.\.\.) .*", page.read_text("utf-8"), re.M)
    assert sorted(set(FUNCTIONS) - set(re.findall(r"\w+", "".join(examples)))) == []


def test_version_and_date_are_the_same_everywhere():
    stated = {
        "CHANGELOG.md": r"^## (\S+) \((\S+)\)",
        "CITATION.cff": r"^version: (\S+)\ndate-released: (\S+)",
        "codemeta.json": r'"version": "(\S+)",\n  "datePublished": "(\S+)"',
        "conda/meta.yaml": r'set version = "(\S+)"',
    }
    dates = set()
    for name, pattern in stated.items():
        found = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"), re.M)
        assert found is not None, name
        assert found[1] == iclimit.__version__, name
        dates |= set(found.groups()[1:])
    assert len(dates) == 1, dates


def test_the_conda_recipe_needs_what_pip_needs():
    text = (ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8")
    assert not re.search(r"\]$", text, re.M), "brackets at the end of a line are a condition"

    def load(name):
        return tomllib.loads((ROOT / name).read_text(encoding="utf-8"))

    recipe = yaml.safe_load(jinja2.Template(text).render(load_file_data=load, PYTHON="python"))
    needed = load("pyproject.toml")["project"]["dependencies"]
    python, *run = recipe["requirements"]["run"]
    assert python == "python >=3.11"
    assert [each.replace("-base", "") for each in run] == needed
    assert "matplotlib-base>=3.9" in run
    assert all((ROOT / each).is_file() for each in recipe["about"]["license_file"])


def test_the_paper_counts_and_cites_what_there_is():
    text = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")
    assert len(text.split()) < 1500
    for count, noun in ((len(QUANTITIES), "quantities"), (len(CLAIMS), "claims")):
        stated = int(re.search(rf"(\d+) {noun}", text)[1])
        assert 0.9 * count < stated <= count, noun
    known = re.findall(r"^@\w+\{(\w+),", (ROOT / "paper" / "paper.bib").read_text("utf-8"), re.M)
    assert set(re.findall(r"@(\w+)", text)) <= set(known)
    figures = re.findall(r"\]\((\S+)\)", text)
    assert figures
    assert all((ROOT / "paper" / figure).is_file() for figure in figures)


def test_pages_behind_the_links_of_the_readme_can_be_read_where_the_code_is_hosted():
    """They are there, and lack nothing that is generated when the documentation is built."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\((\S+?)\)", text) if "://" not in link]
    assert len(links) > 10
    for link in links:
        target = ROOT / link
        assert target.exists(), link
        if target.suffix == ".rst":
            assert "include:: api/generated" not in target.read_text(encoding="utf-8"), link


def test_the_address_of_the_repository_is_the_same_everywhere():
    """That of pyproject.toml; as long as it is blank, all other places are blank, too."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    address = project["urls"]["Repository"]
    assert address.startswith("https://")
    places = {
        "README.md": f"git clone {address} iclimit",
        "CITATION.cff": f'repository-code: "{address}"',
        "codemeta.json": f'"codeRepository": "{address}"',
        "docs/index.rst": f"git clone {address} iclimit",
        "docs/first-steps.rst": f"git+{address}",
    }
    for name, line in places.items():
        assert line in (ROOT / name).read_text(encoding="utf-8"), name
    explained = "still a blank" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert explained == ("REPOSITORY-URL" in address)
