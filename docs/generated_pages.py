"""What the documentation takes from the library: API pages, help texts, tables, papers."""

import os
import re
import sys
from pathlib import Path

from array_libraries import LIBRARIES
from evidence_page import write_evidence
from house import house
from markup import folded, table
from paper_pages import errata, papers, wall
from public_names import public_names
from schematics import write_schematics

import iclimit
from iclimit import notation
from iclimit.cli import build_parser
from iclimit.diagrams.boundaries import BOUNDARIES
from iclimit.diagrams.quantities import QUANTITIES
from iclimit.registry import DERIVED, REGISTRY
from iclimit.units import CONVENTIONS
from iclimit.validation import CLAIMS
from iclimit.validation.reference import read_reference

HERE = Path(__file__).parent

SHELVES = {
    "spectra": "marchenko_pastur",
    "pretraining": "icl",
    "descent": "learning_rate",
    "gdpp": "condition_number",
    "dynamics": "merged",
    "networks": "network",
    "softmax": "heads",
    "depth": "depth_loss",
    "recurrent": "errors",
}
"""Subjects, and the module whose functions come first on the page of each."""


GUIDES = {
    **dict.fromkeys(("curve", "figure", "cite"), "figures"),
    **dict.fromkeys(("phase", "solve", "sensitivity"), "phase-diagrams"),
    **dict.fromkeys(("prompts", "probe", "check-positions"), "your-model"),
    **dict.fromkeys(("check-curve", "fit-curve"), "your-curves"),
    **dict.fromkeys(("validate", "claims"), "validation"),
    "plan": "plan-runs",
    "check": "your-runs",
    "fit": "fit-parameters",
    "runs": "runs",
    "train": "train-a-network",
    "explorer": "explorer",
}
"""Verbs, and the guide that shows what each prints."""


def write_generated():
    """Write what the documentation takes from the library: API pages, help texts, tables."""
    folder = HERE / "api" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    for shelf in SHELVES:
        _write(folder / f"{shelf}.rst", "\n".join(_api_page(shelf)) + "\n")
    os.environ["COLUMNS"] = "78"
    parser = build_parser()
    choice = next(a for a in parser._actions if a.dest == "verb")
    verbs = choice.choices
    for name, one in {"main": parser, **verbs}.items():
        _write(folder / f"cli-{name}.txt", one.format_help())
    (folder / "command").mkdir(exist_ok=True)
    for verb in choice._choices_actions:
        page = _verb_page(verb.dest, _sentence(verb.help), verbs[verb.dest].epilog or "")
        _write(folder / "command" / f"{verb.dest}.rst", page)
    _write(folder / "commands.inc", _commands(choice._choices_actions))
    _write(folder / "claims.inc", _claims())
    for shelf in notation.SHELVES:
        _write(folder / f"notation-{shelf}.inc", table("12 20 48 20", _parameters(shelf)))
    _write(folder / "quantities.inc", _quantities())
    _write(folder / "unscripted.inc", table("45 55", _unscripted()))
    _write(folder / "boundaries.inc", table("20 46 34", _boundaries()))
    _write(folder / "conventions.inc", table("16 24 18 22 20", _conventions(), style="wide"))
    _write(folder / "top-level.inc", table("35 65", _top_level()))
    _write(folder / "public-names.inc", _public_names())
    _write(folder / "backends.inc", table("24 76", _backends()))
    _write(folder / "array-libraries.inc", _array_libraries())
    _write(folder / "gpu.inc", table("10 10 14 10 12 12 16 16", _gpu_runs(), style="numbers"))
    _write(folder / "papers.inc", "\n".join(wall()) + "\n")
    (folder / "papers").mkdir(exist_ok=True)
    for name, text in papers():
        _write(folder / "papers" / f"{name}.rst", text)
    _write(folder / "house.inc", table("16 12 12 12 12 12 12 12", house()))
    _write(folder / "errata.inc", "\n".join(errata()) + "\n")
    for name, text in write_evidence(folder).items():
        _write(folder / name, text)
    write_schematics(folder / "schematics")


def _commands(verbs):
    """Table of the verbs with the sentence of each, and their pages."""
    rows = [("Command", "What it does")]
    rows += [
        (f":doc:`iclimit {verb.dest} <generated/command/{verb.dest}>`", _sentence(verb.help))
        for verb in verbs
    ]
    pages = [f"   generated/command/{verb.dest}" for verb in verbs]
    return "\n".join([table("30 70", rows), ".. toctree::", "   :hidden:", "", *pages, ""])


def _sentence(summary):
    """Summary of a verb as a sentence."""
    end = "" if summary.endswith("?") else "."
    return f"{summary[0].upper()}{summary[1:]}{end}"


def _verb_page(name, sentence, epilog):
    """Page of a verb: a sentence, its examples, its help, and the guide with what it prints."""
    title = f"iclimit {name}"
    lines = [title, "=" * len(title), "", sentence, ""]
    examples = epilog.removeprefix("examples:\n")
    if examples:
        lines += [".. rubric:: Examples", "", ".. code-block:: text", "   :class: help", ""]
        lines += [*(f"   {line.removeprefix('  ')}" for line in examples.splitlines()), ""]
    if name in GUIDES:
        lines += [f"Examples with their output: :doc:`/{GUIDES[name]}`.", ""]
    lines += [".. rubric:: All options", "", f".. literalinclude:: ../cli-{name}.txt"]
    lines += ["   :language: text", "   :class: help", ""]
    return "\n".join(lines)


def _api_page(shelf):
    """Yield the lines of a page with the public names of a shelf, module by module."""
    namespace = getattr(iclimit, shelf)
    title = f"iclimit.{shelf}"
    yield from (title, "=" * len(title), "", f".. currentmodule:: {title}", "")
    yield from (namespace.__doc__.split("\n")[0], "")
    modules = {}
    for name in namespace.__all__:
        modules.setdefault(getattr(namespace, name).__module__, []).append(name)
    for module in sorted(modules, key=lambda name: not name.endswith(f".{SHELVES[shelf]}")):
        names = modules[module]
        heading = (sys.modules[module].__doc__ or module).split("\n")[0].rstrip(".")
        yield from (heading, "-" * len(heading), "", f"Module ``{module}``.", "")
        yield from (".. autosummary::", f"   :toctree: {shelf}", "")
        yield from (f"   {name}" for name in names)
        yield ""


def _parameters(shelf):
    """Yield the rows of the notation that belong to a shelf."""
    yield "Symbol", "Name", "Meaning", "Range"
    for name, row in notation.PARAMETERS.items():
        if row.shelf == shelf:
            symbol = f":math:`{row.symbol}`" if row.symbol else ""
            definition = f":math:`{row.definition}`: " if row.definition else ""
            yield symbol, f"``{name}``", definition + row.meaning, row.allowed


def _claims():
    """What each claim says, folded by subject."""
    subjects = {}
    for name, claim in CLAIMS.items():
        statement = claim.statement.replace("|", r"\|")
        lines = [f".. _claim-{name}:", "", f"``{name}``"]
        lines += [f"   *{claim.title}.*", "", f"   {statement}", ""]
        lines += [f"   Source: {claim.source}.", ""]
        subjects.setdefault(claim.subject, []).append("\n".join(lines))
    return "".join(
        folded(f"{subject}: {len(claims)} claims", "\n".join(claims))
        for subject, claims in subjects.items()
    )


def _quantities():
    """What can be drawn, folded by subject."""
    heads = ("Name", "Meaning", "Parameters (optional ones in brackets)", "Cite")
    subjects = {}
    for name, quantity in QUANTITIES.items():
        given = ", ".join(quantity.parameters)
        optional = f" [{', '.join(quantity.optional)}]" if quantity.optional else ""
        papers = REGISTRY[name].papers
        keys = [key for key in papers if key != DERIVED]
        cite = [f":cite:t:`{','.join(keys)}`"] if keys else []
        cite += ["in part derived here" if keys else "derived here"] * (DERIVED in papers)
        row = (f"``{name}``", quantity.meaning, given + optional, "; ".join(cite))
        shelf, dot, _ = REGISTRY[name].function.partition(".")
        subjects.setdefault(shelf if dot else "combinations", [heads]).append(row)
    last = {"combinations": subjects.pop("combinations")}  # of functions of several subjects
    return "".join(
        folded(f"{subject}: {len(rows) - 1} quantities", table("22 30 24 24", rows))
        for subject, rows in (subjects | last).items()
    )


def _unscripted():
    """Quantities that the explorer does not have, by the reason."""
    yield "Quantity", "Reason"
    for reason in dict.fromkeys(row.unscripted for row in REGISTRY.values() if row.unscripted):
        names = [f"``{row.name}``" for row in REGISTRY.values() if row.unscripted == reason]
        yield ", ".join(names), reason


def _boundaries():
    yield "Name", "Where", "Quantities"
    for name, boundary in BOUNDARIES.items():
        label = re.sub(r"\$(.*?)\$", r":math:`\1`", boundary.label)
        yield f"``{name}``", label, ", ".join(f"``{each}``" for each in boundary.quantities)


def _conventions():
    yield "Name", "Inputs; tasks", "Context summary", "Loss reported", "Minimised with a ridge"
    for name, each in CONVENTIONS.items():
        inputs = f"{each.input_law}, variance {each.input_variance}"
        tasks = f"{each.task_law}, variance {each.task_variance} of a coordinate"
        products = f"{_times(each.product_factor)}Σ y x, {_times(each.square_factor)}Σ y²"
        error = "" if each.loss_factor == "1" else f"{each.loss_factor} of the "
        error += "squared error" + ("" if each.query_noise else " of a noiseless query")
        error += ", less that of the oracle" if each.minus_oracle else ""
        minimised = rf"mean loss + {_times(each.ridge_factor)}:math:`\lambda|\Gamma|^2`"
        head = f"``{name}``: :cite:t:`{each.paper}`.  {each.remark}"
        yield head, f"{inputs}; {tasks}", products, error, minimised


def _top_level():
    """Yield what ``import iclimit`` offers beside the namespaces."""
    yield "Name", "What it is"
    for name in sorted(set(iclimit.__all__) - {*SHELVES, "notation", "validation"}):
        one = getattr(iclimit, name)
        if not callable(one):
            continue
        summary = re.split(r"\.\s|\.$", " ".join((one.__doc__ or "").split("\n\n")[0].split()))[0]
        yield f"`iclimit.{name}`", f"{summary}."


def _backends():
    """Where a backend can be chosen."""
    named = [
        name
        for name, call in sorted(public_names())
        if re.search("--backend|backend='numpy'", call)
    ]
    yield "Where", "What"
    verbs = [f"``{name}``" for name in named if " " in name]
    yield "Console, ``--backend``", ", ".join(verbs)
    functions = [f"`{name}`" for name in named if " " not in name]
    yield "Python, ``backend=``", ", ".join(functions)


def _gpu_runs():
    """Recorded simulations on a GPU, beside their limits."""
    yield "d", "tau", "ridge", "runs", "seconds", "GiB", "ICL error (limit)", "IDG error (limit)"
    for row in read_reference("gpu_h200.csv"):
        sizes = (row[name] for name in ("dim", "tau", "ridge", "runs", "seconds", "gib"))
        yield (*sizes, *(f"{row[name]} ({row[f'limit_{name}']})" for name in ("icl", "idg")))


def _array_libraries():
    """Functions of the theory that take arrays of other libraries."""
    return ", ".join(f"`iclimit.{name}`" for name in sorted(LIBRARIES)) + ".\n"


def _public_names():
    """What is public, folded by namespace."""
    groups = {}
    for name, call in sorted(public_names()):
        parts = name.split(".")
        console = " " in name
        namespace = "console" if console else ".".join(parts[:-1]) if len(parts) > 1 else name
        if not console and namespace.rpartition(".")[2][:1].isupper():
            namespace = namespace.rpartition(".")[0]  # of a method: where its class is
        groups.setdefault(namespace, []).append((name.removeprefix(f"{namespace}."), call))
    heads = ("Name", "Parameters or fields")
    return "".join(
        folded(f"{namespace}: {len(names)} names", table("40 60", [heads, *map(_literals, names)]))
        for namespace, names in groups.items()
    )


def _literals(cells):
    return [f"``{cell}``" if cell else "none" for cell in cells]


def _times(factor):
    return "" if factor == "1" else f"({factor}) "


def _write(path, text):
    """Write only what changed, so that an incremental build stays incremental."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
