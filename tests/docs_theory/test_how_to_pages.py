"""How-to pages, and glossary: commands that can be typed, programs that run, words that are explained once."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
import typer

from datamarket_gym import registry
from repository import ROOT

DOCS = Path(ROOT, "docs")
PAGES = sorted(path for path in (DOCS / "how-to").glob("*.md") if path.name != "index.md")
FENCE = re.compile(r"```(\w*)\n(.*?)```", re.S)


def typed(page):
    """The lines of a page that call the command line."""
    for language, body in FENCE.findall(page.read_text(encoding="utf-8")):
        if language in ("", "console"):
            yield from re.findall(r"^(?:\$ )?datamarket (.*)$", body, re.M)


@pytest.fixture(scope="module")
def command():
    from datamarket_gym.cli.app import app

    return typer.main.get_command(app)


def parsed(command, words):
    """Have a command line taken apart as when it is typed, and nothing run."""
    while hasattr(command, "get_command"):
        while words[0].startswith("--"):  # options before the command have a value each
            words = words[2:]
        command, words = command.get_command(None, words[0]), words[1:]
        assert command is not None, words
    command.make_context(command.name, list(words))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_its_commands_and_options_are_there(page, command):
    for line in typed(page):
        parsed(command, shlex.split(line, comments=True))


def test_options_that_are_not_there_are_noticed(command):
    with pytest.raises(Exception, match="no-such"):
        parsed(command, ["pay", "june.csv", "--validation", "v.csv", "--out", "june", "--no-such", "1"])
    with pytest.raises(Exception, match="Missing"):
        parsed(command, ["ledger", "correct", "ledger.sqlite", "--payee", "anna"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_its_programs_run(page):
    before = {kind: set(registry.components(kind)) for kind in registry.HOMES}  # loads all there are
    try:
        for language, code in FENCE.findall(page.read_text(encoding="utf-8")):
            if language == "python":
                out = io.StringIO()
                with contextlib.redirect_stdout(out):
                    exec(compile(code, page.name, "exec"), {"__name__": "__main__"})
                assert out.getvalue().strip()
    finally:
        for kind, known in before.items():
            for name in set(registry._components[kind]) - set(known):
                del registry._components[kind][name]


def test_every_page_is_in_the_index():
    index = (DOCS / "how-to" / "index.md").read_text(encoding="utf-8")
    linked = re.findall(r"^\| \[[^]]+\]\(([\w-]+\.md)\) \|", index, re.M)
    assert sorted(linked) == [page.name for page in PAGES]


def test_every_word_of_the_glossary_is_explained_once():
    page = (DOCS / "glossary.md").read_text(encoding="utf-8")
    words = re.findall(r"\*\*([^*]+?)[.:]\*\*", page)
    names = [name.strip().lower() for word in words for name in word.split(",")]
    assert len(names) > 80
    assert len(names) == len(set(names))
