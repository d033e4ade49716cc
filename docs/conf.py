"""Sphinx configuration.  Build: python -m sphinx -W --keep-going -b html docs docs/_build/html."""

import gc
import inspect
import re
import sys
import warnings
from functools import partial, reduce
from importlib import import_module
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib as mpl
import matplotlib.pyplot as plt
import matplotlib.style
from docutils import nodes
from jinja2 import FileSystemBytecodeCache
from jinja2.sandbox import SandboxedEnvironment
from numpydoc import docscrape_sphinx
from PIL import Image
from sphinx.addnodes import desc_signature
from sphinx_gallery.directives import imgsgnode
from sphinx_gallery.scrapers import matplotlib_scraper
from sphinx_gallery.sorting import ExplicitOrder
from threadpoolctl import threadpool_limits

import iclimit
from iclimit.drawing import STYLE
from iclimit.explorer.page import explorer_page

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "shared")]
from generated_pages import SHELVES, write_generated
from paper_pages import draw_wall
from theory_heads import add_head

threadpool_limits(1)  # the matrices of the examples are small
# Processes that have grown while they ran examples are replaced.
warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
# Page trees stay to the end: looking through them for garbage again and again took a sixth of the
# time of the pages.
gc.set_threshold(200_000, 20, 20)

project = "iclimit"
author = "The iclimit developers"
project_copyright = "The iclimit developers"
version = iclimit.__version__
release = version

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "sphinx_copybutton",
    "sphinxcontrib.bibtex",
    "sphinx_design",
]
# What is copied has no prompts and no output.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
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
    gc.freeze()  # after each example garbage is collected, which would look through all modules
    mpl.rcdefaults()
    matplotlib.style.use(STYLE)
    mpl.rcParams.update({"savefig.dpi": 110, "figure.constrained_layout.use": True})
    mpl.rcParams["figure.figsize"] = (5.4, 4)  # two stand side by side


def scrape(block, block_vars, gallery_conf):
    """Save the figures of a block, and that of the thumbnail small, too."""
    number = block_vars["file_conf"].get("thumbnail_number", 1)
    number -= len(block_vars["image_path_iterator"])
    figures = [plt.figure(each) for each in plt.get_fignums()]
    text = matplotlib_scraper(block, block_vars, gallery_conf)
    if 1 <= number <= len(figures) and figures[number - 1].axes:  # else it is text alone
        folder = Path(gallery_conf["src_dir"], block_vars["target_file"]).parent / SMALL
        folder.mkdir(parents=True, exist_ok=True)
        draw_small(figures[number - 1], folder / f"{Path(block_vars['src_file']).stem}.png")
    return text


def draw_small(figure, path):
    """Draw the first panel with letters that can be read in a thumbnail: those of the axes."""
    words = [*figure.legends, *figure.texts]
    for ax in figure.axes:
        ax.set(title="")
        words += filter(None, [ax.get_legend(), *ax.texts, *ax.artists])
        for label in (ax.xaxis.label, ax.yaxis.label):
            label.set_visible(len(re.sub(r"\\\w+|[${}]", "", label.get_text())) <= LETTERS)
    for each in words:
        each.remove()
    spec = figure.axes[0].get_subplotspec()
    grid = spec and spec.get_topmost_subplotspec().get_gridspec()
    rows, columns = grid.get_geometry() if grid else (1, 1)
    figure.set_size_inches(columns * PANEL[0], rows * PANEL[1])
    figure.savefig(path, dpi=240)
    with Image.open(path) as image:
        image.crop((0, 0, image.width // columns, image.height // rows)).save(path)


# Where the pictures of thumbnails are drawn; the size of a panel there in inches, and letters of
# the longest label that has room.
SMALL = "images/small"
PANEL = (3.0, 2.25)
LETTERS = 22

# Subjects and examples in the order in which they are best learnt.  What is not listed follows.
GALLERY = {
    "yours": (
        *("ten_cells", "plan_runs", "check_runs", "fit_runs", "which_algorithm"),
        *("trained_weights", "many_seeds", "validate"),
    ),
    "pretraining": (
        *("double_descent", "phase_diagram", "simulated_phases", "memorisation"),
        *("extrapolation", "thousand_dimensions", "fluctuations", "optimal_ridge"),
        *("training_time", "merged_training", "gamma", "structured_tasks"),
        *("low_rank_tasks", "best_covariances", "exact", "derivations"),
    ),
    "spectra": ("marchenko_pastur", "sample_covariance", "measures"),
    "descent": ("learning_rate", "schedules", "dampening", "preconditioner"),
    "gdpp": ("gdpp", "noisy_regression", "ridge_risk", "inside_transformers"),
    "dynamics": ("training_dynamics", "growth", "mixtures"),
    "softmax": ("softmax_head", "two_heads", "sine", "any_kernel", "transformer_transition"),
    "depth": (
        *("depth_scaling", "untied_depth", "compute_optimal", "overthinking"),
        "finite_contexts",
    ),
    "recurrent": ("recurrent_rules", "gates", "correlated_tokens", "flipped_labels"),
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
    "image_scrapers": (scrape,),
    "show_memory": False,
    "min_reported_time": 0,
    "capture_repr": ("_repr_html_",),
    "write_computation_times": False,  # the page that would show them loads scripts
    "download_all_examples": False,
    "remove_config_comments": True,
    "plot_gallery": not PAGES_ONLY,
    "abort_on_example_error": False,
    "parallel": True,  # as many processes as `sphinx -j`
}

html_theme = "pydata_sphinx_theme"
html_title = f"iclimit {version}"
html_show_sourcelink = False
html_static_path = ["_static", str(_MATHJAX / mathjax_path)]
html_css_files = ["site.css"]
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": "iclimit"},
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    # A page lists its own section only: all 330 functions on each would be a fifth of the build.
    "collapse_navigation": True,
    "header_links_before_dropdown": 6,
    "pygments_light_style": "a11y-high-contrast-light",
}
# Where the texts of the modules are.
SOURCES = "_static/source"
# An example draws from the first such line on; fewer lines are not folded.  The first figure of an
# example stands at its top, too, if more lines would be before it.
DRAWS, FOLDED, LATE = re.compile(r"(figure|fig|ax|axes|_), |(figure|fig|ax|axes|plt)\b[ .]"), 8, 25
# Pages without subpages have no section navigation.
html_sidebars = {
    page: []
    for page in (
        *("index", "first-steps", "twelve-functions", "explorer", "papers", "errata"),
        *("notation", "glossary", "references", "gallery/index"),
    )
}


def resolve_public(app, env, node, contnode):
    """Link public names, however they are written, to the page of the namespace that has them."""
    if node.get("refdomain") != "py":
        return None
    name = node["reftarget"].rsplit(".", 1)[-1]
    for home in (*SHELVES, "validation"):
        target = f"iclimit.{home}.{name}"
        if name in getattr(iclimit, home).__all__ and node["reftarget"] != target:
            domain = env.get_domain("py")
            return domain.resolve_xref(
                env, node["refdoc"], app.builder, "obj", target, node, contnode
            )
    return None


def keep_punctuation(app, doctree):  # noqa: ARG001
    """Put the marks after a formula into it, so that no line begins with them."""
    for formula in doctree.findall(nodes.math):
        after = formula.next_node(descend=False, siblings=True)
        if isinstance(after, nodes.Text) and (marks := re.match(r"[).,;]+", after)):
            formula[:] = [nodes.Text(formula.astext() + marks[0])]
            after.parent.replace(after, nodes.Text(after[marks.end() :]))


def link_sources(app, doctree):
    """Link functions and classes to the texts of their modules, which `write_beside` copies."""
    up = "../" * app.env.docname.count("/")
    for signature in doctree.findall(desc_signature):
        if signature.parent["objtype"] in ("function", "class", "method"):
            path = signature["fullname"].split(".")
            found = inspect.unwrap(reduce(getattr, path, import_module(signature["module"])))
            file = Path(inspect.getsourcefile(found)).resolve().relative_to(ROOT)
            line = f"{'class' if inspect.isclass(found) else 'def'}%20{found.__name__}"
            address = f"{up}{SOURCES}/{file}.txt#:~:text={line}"
            link = nodes.reference("", "[source]", refuri=address, internal=True)
            signature += nodes.inline("", "", link, classes=["viewcode-link"])


def arrange_example(app, doctree):
    """Show what examples draw before their code, and fold what only imports or draws."""
    if not app.env.docname.startswith("gallery/"):
        return
    examples = [b for b in doctree.findall(nodes.literal_block) if b.get("language") == "Python"]
    ends = (nodes.paragraph, nodes.section, nodes.raw)
    # lines before the first figure, and that
    before = 0
    shown = None
    for block in examples:
        follows = block.parent.children[block.parent.index(block) + 1 :]
        own = takewhile(lambda n: n not in examples and not isinstance(n, ends), follows)
        figures = [node for node in own if isinstance(node, (imgsgnode, nodes.bullet_list))]
        for figure in figures:
            block.parent.remove(figure)
        shown = shown or next(iter(figures), None)
        lines = block.astext().splitlines()
        before += 0 if shown else len(lines)
        start = imports(lines)
        first = next((n for n, line in enumerate(lines) if DRAWS.match(line)), len(lines))
        if len(lines) - first < FOLDED or any(line.startswith("print") for line in lines[first:]):
            first = len(lines)
        parts = lines[:start], lines[start:first], lines[first:]
        code = [
            node
            for part, head in zip(parts, ("Imports", None, "Code of the figure"), strict=True)
            if any(part)
            for node in listing(block, "\n".join(part).strip("\n"), head)
        ]
        block.replace_self([*figures, *code])
    if shown and before > LATE:
        title = next(doctree.findall(nodes.title))
        title.parent.insert(title.parent.index(title) + 2, shown.deepcopy())  # behind the summary


def imports(lines):
    """Number of the first lines that import."""
    count = 0
    inside = False
    for number, line in enumerate(lines, start=1):
        if inside or re.match(r"import |from ", line):
            count = number
            inside = ("(" in line or inside) and ")" not in line
        elif line:
            break
    return count


def listing(block, text, heading):
    """Lines of a block, folded below a heading if there is one."""
    code = nodes.literal_block(text, text, **block.attributes)
    if heading is None:
        return [code]
    start = f"<details class='drawing'><summary>{heading}</summary>"
    return [nodes.raw("", start, format="html"), code, nodes.raw("", "</details>", format="html")]


def place_thumbnails(app):  # noqa: ARG001
    """Put what `draw_small` has drawn in place of the thumbnails, which are whole figures."""
    for file in (HERE / "gallery").rglob(f"{SMALL}/*.png"):
        thumbnail = file.parents[1] / "thumb" / f"sphx_glr_{file.stem}_thumb.png"
        thumbnail.write_bytes(file.read_bytes())


def write_beside(app, exception):
    """Write the explorer and the sources beside the pages, which embed or link them."""
    if exception is None and app.builder.format == "html":
        path = Path(app.outdir) / "_static" / "explorer.html"
        path.write_text(explorer_page(docs="../"), encoding="utf-8")
        for folder in ("iclimit", "asymptotics", "simulate", "validation"):
            for file in (ROOT / folder).rglob("*.py"):
                copy = Path(app.outdir) / SOURCES / f"{file.relative_to(ROOT)}.txt"
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(file.read_bytes())


def setup(app):
    app.connect("builder-inited", place_thumbnails, priority=900)  # once they are drawn
    app.connect("doctree-read", keep_punctuation)
    app.connect("doctree-read", link_sources)
    app.connect("doctree-read", arrange_example)
    app.connect("source-read", add_head)
    app.connect("build-finished", write_beside)
    app.connect("missing-reference", resolve_public)


write_generated()
if not PAGES_ONLY:
    draw_wall(HERE)
