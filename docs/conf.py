"""Sphinx configuration.  Build: python -m sphinx -W --keep-going -b html docs docs/_build/html."""

import os
import re
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib as mpl
import matplotlib.style
from jinja2 import FileSystemBytecodeCache
from jinja2.sandbox import SandboxedEnvironment
from numpydoc import docscrape_sphinx
from sphinx_gallery.sorting import ExplicitOrder
from threadpoolctl import threadpool_limits

import iclimit
from iclimit import notation
from iclimit.citations import DERIVED
from iclimit.cli import build_parser
from iclimit.diagrams.boundaries import BOUNDARIES
from iclimit.diagrams.quantities import QUANTITIES
from iclimit.validation import CLAIMS
from iclimit.validation.conventions import CONVENTIONS
from iclimit.validation.drawing import STYLE

HERE = Path(__file__).parent
threadpool_limits(1)  # the matrices of the examples are small

project = "iclimit"
author = "The iclimit developers"
project_copyright = "The iclimit developers"
version = release = iclimit.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.bibtex",
    "sphinx_design",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "examples", "tables", "gallery/**/*.ipynb"]
suppress_warnings = ["config.cache"]  # the reset function below cannot be cached
# ``sphinx -t pages`` builds the pages without executing the gallery, so without its pictures.
PAGES_ONLY = tags.has("pages")  # noqa: F821
if PAGES_ONLY:
    suppress_warnings.append("image.not_readable")
# Docstrings name objects in single backticks.
default_role = "py:obj"
# numpydoc reads its template anew for every docstring: compiling it took a sixth of the build.
_COMPILED = TemporaryDirectory()
docscrape_sphinx.SandboxedEnvironment = partial(
    SandboxedEnvironment, bytecode_cache=FileSystemBytecodeCache(_COMPILED.name)
)
add_module_names = False

autosummary_generate = True
autodoc_typehints = "none"  # the Parameters sections say it
numpydoc_class_members_toctree = False
numpydoc_show_inherited_class_members = False
numpydoc_validation_checks = {
    "GL06",  # unknown section
    "GL07",  # sections out of order
    "GL08",  # no docstring
    "SS01",  # no summary
    "PR02",  # unknown parameter
    "PR10",  # missing space before the colon
    "YD01",  # generator without Yields
}
# Overriding methods have the docstrings of the base class.
_MEASURES = (
    "Atoms|Uniform|PowerLaw|Exponential|DensityMeasure|Mixture|MarchenkoPastur|SampleCovariance|"
    "FreeSum|Pushforward"
)
numpydoc_validation_exclude = {rf"\.({_MEASURES})\.\w+$"}

bibtex_bibfiles = ["../iclimit/references.bib"]
bibtex_default_style = "unsrt"

# MathJax comes from a package and goes with the pages: formulas need no network.  This bundle has
# all of TeX and draws with SVG, so that it loads neither extensions nor fonts.
_MATHJAX = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax"
mathjax_path = "tex-svg-full.js"
mathjax3_config = {
    "tex": {
        "macros": {
            "tr": r"\operatorname{tr}",
            "E": r"\mathbb{E}",
            "Var": r"\operatorname{Var}",
            "eICL": r"e_{\mathrm{ICL}}",
            "eIDG": r"e_{\mathrm{IDG}}",
            "df": r"\mathrm{df}",
            "d": r"\mathrm{d}",
        }
    }
}


def reset_style(gallery_conf, name):  # noqa: ARG001
    """Give every example the style of the library's own figures."""
    mpl.rcdefaults()
    matplotlib.style.use(STYLE)
    mpl.rcParams.update({"savefig.dpi": 110, "figure.constrained_layout.use": True})
    mpl.rcParams["figure.figsize"] = (5.4, 4)  # two stand side by side


# Subjects and examples in the order in which they are best learnt.  What is not listed follows.
GALLERY = {
    "pretraining": (
        *("double_descent", "phase_diagram", "simulated_phases", "memorisation"),
        *("extrapolation", "optimal_ridge", "structured_tasks", "exact"),
    ),
    "spectra": ("marchenko_pastur", "sample_covariance"),
    "descent": ("learning_rate", "schedules", "dampening"),
    "gdpp": ("gdpp", "noisy_regression"),
    "dynamics": ("training_dynamics",),
    "softmax": ("softmax_head", "two_heads", "sine"),
    "depth": ("depth_scaling", "untied_depth", "compute_optimal", "overthinking"),
    "yours": ("check_runs", "which_algorithm", "trained_weights"),
}
_SUBJECTS = [f"examples/{subject}" for subject in GALLERY]
_EXAMPLES = [f"plot_{name}.py" for names in GALLERY.values() for name in names]

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("iclimit",),
    "filename_pattern": r"plot_",
    "subsection_order": ExplicitOrder([*_SUBJECTS, "*"]),
    "within_subsection_order": ExplicitOrder([*_EXAMPLES, "*"]),
    "reset_modules": (reset_style,),
    "show_memory": False,
    "min_reported_time": 0,
    "capture_repr": ("_repr_html_",),
    "write_computation_times": False,  # the page that would show them loads scripts
    "download_all_examples": False,
    "remove_config_comments": True,
    "plot_gallery": not PAGES_ONLY,
    "abort_on_example_error": False,
}

html_theme = "pydata_sphinx_theme"
html_title = f"iclimit {version}"
html_show_sourcelink = False
html_static_path = ["_static", str(_MATHJAX / mathjax_path)]
html_css_files = ["site.css"]
html_context = {"default_mode": "auto"}
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "header_links_before_dropdown": 6,
    "pygments_light_style": "default",
}
# Pages without subpages have no section navigation.
html_sidebars = {page: [] for page in ("index", "first-steps", "notation", "references")}


SHELVES = (
    *("spectra", "pretraining", "descent", "gdpp"),
    *("dynamics", "networks", "softmax", "depth"),
)


def resolve_public(app, env, node, contnode):
    """Link public names, however they are written, to the page of the namespace that has them."""
    if node.get("refdomain") != "py":
        return None
    name = node["reftarget"].rsplit(".", 1)[-1]
    for shelf in SHELVES:
        target = f"iclimit.{shelf}.{name}"
        if name in getattr(iclimit, shelf).__all__ and node["reftarget"] != target:
            domain = env.get_domain("py")
            return domain.resolve_xref(
                env, node["refdoc"], app.builder, "obj", target, node, contnode
            )
    return None


def write_generated():
    """Write what the documentation takes from the library: API pages, help texts, tables."""
    folder = HERE / "api" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    for shelf in SHELVES:
        _write(folder / f"{shelf}.rst", "\n".join(_api_page(shelf)) + "\n")
    os.environ["COLUMNS"] = "78"
    parser = build_parser()
    verbs = next(a.choices for a in parser._actions if a.dest == "verb")
    for name, one in {"main": parser, **verbs}.items():
        _write(folder / f"cli-{name}.txt", one.format_help())
    lines = []
    for name, claim in CLAIMS.items():
        statement = claim.statement.replace("|", r"\|")
        lines += [f"``{name}``", f"   *{claim.title}.*", "", f"   {statement}", ""]
        lines += [f"   Source: {claim.source}.", ""]
    _write(folder / "claims.inc", "\n".join(lines))
    for shelf in notation.SHELVES:
        _write(folder / f"notation-{shelf}.inc", _table("12 20 48 20", _parameters(shelf)))
    _write(folder / "quantities.inc", _table("22 30 24 24", _quantities()))
    _write(folder / "boundaries.inc", _table("20 46 34", _boundaries()))
    _write(folder / "conventions.inc", _table("16 24 18 22 20", _conventions()))


def _api_page(shelf):
    """Yield the lines of a page with the public names of a shelf, module by module."""
    namespace = getattr(iclimit, shelf)
    title = f"iclimit.{shelf}"
    yield from (title, "=" * len(title), "", f".. currentmodule:: {title}", "")
    yield from (namespace.__doc__.split("\n")[0], "")
    modules = {}
    for name in namespace.__all__:
        modules.setdefault(getattr(namespace, name).__module__, []).append(name)
    for module, names in modules.items():
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


def _quantities():
    yield "Name", "Meaning", "Parameters (optional ones in brackets)", "Cite"
    for name, quantity in QUANTITIES.items():
        given = ", ".join(quantity.parameters)
        optional = f" [{', '.join(quantity.optional)}]" if quantity.optional else ""
        keys = [key for key in quantity.papers if key != DERIVED]
        cite = [f":cite:t:`{','.join(keys)}`"] if keys else []
        cite += ["in part derived here" if keys else "derived here"] * (DERIVED in quantity.papers)
        yield f"``{name}``", quantity.meaning, given + optional, "; ".join(cite)


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
        minimised = f"mean loss + {_times(each.ridge_factor)}λ \\|Γ\\|²"
        head = f"``{name}``: :cite:t:`{each.paper}`.  {each.remark}"
        yield head, f"{inputs}; {tasks}", products, error, minimised


def _times(factor):
    return "" if factor == "1" else f"({factor}) "


def _table(widths, rows):
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", ""]
    for first, *others in rows:
        lines += [f"   * - {first}", *(f"     - {cell}" for cell in others)]
    return "\n".join(lines) + "\n"


def _write(path, text):
    """Write only what changed, so that an incremental build stays incremental."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def setup(app):
    app.connect("missing-reference", resolve_public)


write_generated()
