"""Settings of the documentation site; ``make docs`` gathers its pages and builds it (tools/docs_site.py)."""

import sys
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

import datamarket_gym

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "DataMarket-Gym"
author = "The DataMarket-Gym authors"
copyright = f"{author}, Apache-2.0"
version = release = datamarket_gym.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "docstrings", "mathml"]

# Pages are Markdown that a code host shows as well: headings have the anchors that it gives them.
myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_digits = myst_dmath_allow_space = False  # "$0.04 an hour" is no formula
myst_fence_as_directive = ["math"]
myst_heading_anchors = 6
nb_execution_mode = "auto"
nb_execution_timeout = 60
nb_execution_raise_on_error = True

highlight_language = "none"  # a block that names no language is plain text
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries = False
html_math_renderer = "mathml"

html_theme = "furo"
html_title = f"DataMarket-Gym {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"top_of_page_buttons": []}
pygments_dark_style = "github-dark"


def setup(app: Sphinx) -> None:
    """Sphinx asks for this: what its highlighter does not know is plain text."""
    app.add_lexer("csv", TextLexer)
