"""The public face: what the README, the docs and the examples import is exported, so it may be relied on."""

import ast
import re
from doctest import DocTestParser
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def used():
    """(where, module, name) of every import of the package in pages and examples."""
    sources = [
        (path.name, block)
        for path in PAGES
        for block in re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.S)
    ]
    sources += [
        (path.name, path.read_text(encoding="utf-8")) for path in (ROOT / "examples").glob("*.py")
    ]
    for where, source in sources:
        if source.startswith(">>> "):  # a session: what is typed, without the answers
            source = "".join(code.source for code in DocTestParser().get_examples(source))
        for node in ast.walk(ast.parse(source)):
            if (
                isinstance(node, ast.ImportFrom)
                and node.module
                and node.module.startswith("datamarket_gym")
            ):
                yield from ((where, node.module, alias.name) for alias in node.names)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    assert not alias.name.startswith("datamarket_gym."), (
                        f"{where} imports {alias.name} whole"
                    )


@pytest.mark.parametrize(("where", "module", "name"), sorted(set(used())))
def test_what_people_are_shown_is_public(where, module, name):
    found = import_module(module)
    assert hasattr(found, "__path__"), f"{module} is a module inside a room; import from the room"
    assert name in found.__all__
