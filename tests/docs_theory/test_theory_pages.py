"""The theory pages: what they name is there, and their programs print what they show."""

import contextlib
import importlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "theory"
RESULTS = sorted(path for path in FOLDER.glob("*.md") if path.name != "index.md")
PROGRAM = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", re.S)


def named_objects(text):
    return re.findall(r"`(datamarket_gym(?:\.\w+)+)`", text)


def named_tests(text):
    return re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)


def found(dotted):
    """The object of a dotted name: a module, or what is in one."""
    parts = dotted.split(".")
    thing = importlib.import_module(parts[0])
    for end, name in enumerate(parts[1:], start=2):
        if not hasattr(thing, name) and hasattr(thing, "__path__"):
            with contextlib.suppress(ModuleNotFoundError):  # then the attribute is missed, below
                importlib.import_module(".".join(parts[:end]))
        thing = getattr(thing, name)
    return thing


@pytest.mark.parametrize("page", RESULTS, ids=lambda page: page.stem)
def test_a_page_names_code_and_tests_that_are_there(page):
    text = page.read_text(encoding="utf-8")
    objects, tests = named_objects(text), named_tests(text)
    assert objects
    assert tests
    for dotted in objects:
        assert found(dotted).__doc__, f"{page.name} names {dotted}, which says nothing of itself"
    for file, name in tests:
        source = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"^def {name}\(", source, re.M), f"{page.name}: no {name} in {file}"


@pytest.mark.parametrize("page", RESULTS, ids=lambda page: page.stem)
def test_its_program_prints_what_the_page_shows(page):
    programs = PROGRAM.findall(page.read_text(encoding="utf-8"))
    assert programs
    for code, shown in programs:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, page.name, "exec"), {"__name__": "__main__"})
        assert shown.strip()
        assert out.getvalue() == shown


def test_every_page_is_in_the_index():
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    linked = re.findall(r"^\| \[[^]]+\]\(([\w-]+\.md)\) \|", index, re.M)
    assert sorted(linked) == [page.name for page in RESULTS]


def test_names_that_are_not_there_are_noticed():
    with pytest.raises(AttributeError):
        found("datamarket_gym.analysis.theorems.no_such_bound")
    with pytest.raises(AttributeError):
        found("datamarket_gym.no_such_room.bound")
