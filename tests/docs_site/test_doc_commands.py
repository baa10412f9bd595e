"""Every command that a page shows is one that there is; what is not run says why, and what says so is not run."""

import re
import tomllib

import pytest
from command_lines import check_command

from repository import ROOT, tool_named

links, tool = tool_named("docs_links"), tool_named("docs_blocks")
PAGES = [page for page in links.pages() if page.name != "CHANGELOG.md"]
BLOCKS = [block for page in PAGES for block in tool.blocks(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_of_blocks_exist(page):
    for block in tool.blocks(page):
        for line in block.commands():
            if tool.program(line) == "datamarket":
                try:
                    check_command(line)
                except Exception as error:
                    raise AssertionError(f"{block}: {line}\n{error!r}") from error


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_sentences_exist(page):
    text = "".join(line for line, says in links.lines_of(page.read_text(encoding="utf-8")) if says)
    for said in re.findall(r"(?<!`)`(datamarket [a-z][^`\n]*)`(?!`)", text):
        try:
            check_command(f"{said.split('|')[0]} ...")
        except Exception as error:
            raise AssertionError(f"{page.name}: {said}\n{error!r}") from error


@pytest.mark.parametrize("line", ["datamarket no-such", "datamarket pay --no-such x", "datamarket run",
                                  "datamarket run s2 s3 s4"])  # fmt: skip
def test_commands_that_do_not_exist_are_found(line):
    with pytest.raises(Exception, match=r"(?i)no-such|needs|takes no"):
        check_command(line)


def test_what_is_not_run_says_why():
    for block in BLOCKS:
        if block.not_run:
            assert block.not_run.startswith(tool.REASONS), f"{block}: {block.not_run}"
        for file in re.findall(r"\b(?:tests|tools|examples|benchmarks)/[\w/]+\.py", block.not_run):
            assert (ROOT / file).exists(), f"{block}: {file}"


def test_other_programs_are_not_run_and_say_so():
    for block in BLOCKS:
        if "tutorials" in block.page.parts:  # a test of their own types all of it
            continue
        others = [line for line in block.commands() if tool.program(line) != "datamarket"]
        assert block.not_run or not others, f"{block} needs <!-- not run: ... -->: {others[0]}"


def test_settings_are_read():
    for block in BLOCKS:
        if block.language == "toml":
            assert tomllib.loads(block.code), block


def test_most_blocks_run():
    code = [block for block in BLOCKS if block.language == "python" or block.commands()]
    left = [
        str(block)
        for block in code
        if block.not_run and not block.not_run.startswith(("printed by", "run by"))
    ]
    assert len(left) < len(code) / 3, left


def test_blocks_and_their_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "a\n```python\nx\n```\n<!-- not run: minutes -->\n\n```\n$ datamarket run \\\n    s2\nsaid\n```\n"
        "<!-- not run: hours -->\nwords\n```console\nmake test  # all\n```\n```\n  said\n```\n"
    )
    found = list(tool.blocks(page))
    assert [block.not_run for block in found] == ["", "minutes", "", ""]
    assert [block.commands() for block in found] == [
        [],
        ["datamarket run      s2"],
        ["make test  # all"],
        [],
    ]
    assert [block.line for block in found] == [2, 7, 14, 17]
