"""Docstrings are prose: a bar in them, as in |x|, is a bar, and not the mark of a substitution."""

import re
from typing import Any

from sphinx.application import Sphinx


def _bars(app: Sphinx, what: str, name: str, thing: object, options: Any, lines: list[str]) -> None:
    for i, line in enumerate(lines):
        parts = re.split(r"(``.*?``)", line)
        lines[i] = "".join(part if part.startswith("``") else part.replace("|", r"\|") for part in parts)


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx asks for this."""
    app.connect("autodoc-process-docstring", _bars)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
