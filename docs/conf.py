"""Builds the documentation, without a network.

    pip install '.[docs]'
    sphinx-build -W --keep-going -n -b html docs docs/_build/html

Any warning is an error.
"""

import re
from typing import Any

from sphinx.application import Sphinx

import jax_upsample

project = "jax_upsample"
author = "The jax_upsample authors"
copyright = author  # noqa: A001
version = release = jax_upsample.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"{project} {version}"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_copy_source = False

# The names in docstrings stand in single backticks, as in Markdown.
default_role = "code"
autodoc_typehints = "none"  # each argument says in words what it takes
napoleon_numpy_docstring = False
napoleon_use_ivar = True

myst_heading_anchors = 3  # links to headings, as on GitHub
# Raised errors are Python's own; their documentation is not part of this one.
nitpick_ignore_regex = [("py:exc", ".*")]

# The tables of the benchmarks lie beside the documentation and are part of one page:
# links that lead to a file on GitHub lead to that page here.
RESULTS = re.compile(r"\]\(\.\./benchmarks/results(?:/h200/(\w+)\.md|)\)")


def link_results(app: Sphinx, docname: str, source: list[str]) -> None:
    """Turns links to tables into links to where they are included."""
    source[0] = RESULTS.sub(
        lambda link: f"](performance.md{'#' + link[1] if link[1] else ''})", source[0]
    )


def escape_stars(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Lets docstrings say (n, *spatial, channels), which is no emphasis."""
    lines[:] = [re.sub(r"(?<=[ (])\*(?=\w)", r"\*", line) for line in lines]


def setup(app: Sphinx) -> None:
    """What Sphinx calls."""
    app.connect("source-read", link_results)
    app.connect("autodoc-process-docstring", escape_stars)
