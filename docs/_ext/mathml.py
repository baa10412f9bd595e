"""Formulas as MathML, made while the site is built: pages need no script and no network to show them."""

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging

log = logging.getLogger(__name__)


def _math(self: Any, node: nodes.Element, display: str) -> None:
    latex = node.astext()
    try:
        found = convert(latex, display=display)
    except Exception as why:
        log.warning("a formula that cannot be shown: %s (%r)", latex, why, location=node)
        found = f"<code>{self.encode(latex)}</code>"
    if "\\" in nodes.unescape(found):  # what the converter does not know it leaves as it stands
        log.warning("a formula with a command that is not known: %s", latex, location=node)
    self.body.append(found)


def inline(self: Any, node: nodes.math) -> None:
    """A formula in a line."""
    _math(self, node, "inline")
    raise nodes.SkipNode


def block(self: Any, node: nodes.math_block) -> None:
    """A formula on lines of its own."""
    self.body.append(self.starttag(node, "div", CLASS="math notranslate nohighlight"))
    _math(self, node, "block")
    self.body.append("</div>")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx asks for this."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
