"""Check the documentation: ``python tools/check_docs.py`` prints a line for each fault, with page and line.

Links and anchors resolve, every page is linked, imports that are shown are public, commands that are shown parse, names
of objects, files and tests exist, and generated blocks are fresh. ``--run`` also runs the code of the pages; tests run
every page by itself.

A block runs unless a comment before it says why not, such as ``<!-- not run: minutes -->``. A page may say it once, of
all its blocks (``<!-- no block is run: printed by examples/three_months.py -->``) or of its commands (``<!-- no command
is run: needs a run of yours -->``). A reason begins with one of ``REASONS``. Where a block of Python is followed by one
of text, that is what it prints.
"""

import argparse
import ast
import contextlib
import csv
import doctest
import importlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

import packages
import readme
import typer
from docs_links import DOCS, ROOT, anchors, lines_of, links, pages
from typer.testing import CliRunner

REASONS = (
    "minutes", "hours", "needs ", "starts a server", "printed by ", "run by ", "a fragment", "installs "
)  # fmt: skip
SHELLS = ("", "console", "sh", "bash", "shell")
PROGRAMS = (
    "datamarket", "python", "python3", "make", "pip", "dask", "docker", "git", "uv", "pytest", "."
)  # fmt: skip
VARYING = ("check", "statement", "statements", "export", "verify", "cut", "approve", "show", "grep")
"""Commands of tutorials that print ids, dates or what a draw fell on."""
_OPENS = re.compile(r"^(?:`{3,}|~{3,})\s*([^\s`]*)")
_MARK = re.compile(r"<!-- not run: (.+?) -->")
_PAGE_MARK = re.compile(r"<!-- no (block|command) is run: (.+?) -->")
_OBJECT = re.compile(r"`(datamarket_gym(?!\.plugins)(?:\.\w+)+)`")
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@dataclass(frozen=True)
class CodeBlock:
    """A fenced block: its page, its first line, its language, its text, and why it is not run ("": it is)."""

    page: Path
    line: int
    language: str
    code: str
    not_run: str

    def commands(self) -> list[str]:
        """Return the commands of a block for a shell; none where it shows what was printed."""
        if self.language not in SHELLS:
            return []
        lines = self.code.replace("\\\n", " ").splitlines()
        typed = [line[2:] for line in lines if line.startswith("$ ")]
        if typed:
            return typed
        lines = [line for line in lines if line.strip() and not line.startswith("#")]
        return lines if all(program(line) in PROGRAMS for line in lines) else []

    def transcript(self) -> Iterator[tuple[str, str]]:
        """Return the commands of a console block with what the page says they print."""
        for part in re.split(r"^\$ ", self.code.replace("\\\n", " "), flags=re.M)[1:]:
            line, _, printed = part.partition("\n")
            yield line, printed

    def __str__(self) -> str:
        return (
            f"{self.page.relative_to(ROOT) if self.page.is_relative_to(ROOT) else self.page}:{self.line}"
        )


def program(command: str) -> str:
    """Return what a command calls, without its folder."""
    return command.split()[0].removeprefix(".venv/bin/") if command.split() else ""


def words_of(command: str) -> list[str]:
    """Return the words of a command, up to a pipe, without its comment."""
    words = shlex.split(command, comments=True)
    return words[: words.index("|")] if "|" in words else words


def blocks(page: Path) -> Iterator[CodeBlock]:
    """Return the fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    of_page = dict(_PAGE_MARK.findall(text))
    language, began, code, before = "", 0, [], ""
    for number, (line, is_prose) in enumerate(lines_of(text), start=1):
        if is_prose:
            if code:
                raise ValueError(f"{page}:{began}: a block that does not end")
            before = line if line.strip() else before
        elif not began:
            language, began = _OPENS.match(line.lstrip(" >"))[1], number
        elif re.fullmatch(r"[ >]*(`{3,}|~{3,})\s*", line):
            marked = _MARK.search(before)
            reason = marked[1] if marked else of_page.get("block", "")
            if not reason and language in SHELLS:
                reason = of_page.get("command", "")
            yield CodeBlock(page, began, language, "".join(code), reason)
            began, code, before = 0, [], ""
        else:
            code.append(line)


def python_of(code: str) -> str:
    """Return the Python of a block; of a session, what is typed."""
    if code.startswith(">>> "):
        return "".join(part.source for part in doctest.DocTestParser().get_examples(code))
    return code


# What is checked without running anything: each function yields (place, fault).

Faults = Iterator[tuple[str, str]]


def link_faults(everything: list[Path]) -> Faults:
    """Check that links name files and headings, and that every page is linked."""
    linked = set()
    for page in everything:
        for file, heading in links(page):
            linked |= {file} - {page}
            if not file.exists():
                yield _line_of(page, file.name), f"links to {file}, which does not exist"
            elif heading and heading not in anchors(file.read_text(encoding="utf-8")):
                yield _line_of(page, f"#{heading}"), f"no heading of {file.name} is #{heading}"
    for page in everything:
        if page not in linked and page.parent != ROOT and page.name != "ten-numbers.md":
            yield _line_of(page, ""), "no page links to it"


def code_faults(block: CodeBlock) -> Faults:
    """Check that Python and settings parse, and that imports of the package are public."""
    if block.language == "toml":
        try:
            tomllib.loads(block.code)
        except tomllib.TOMLDecodeError as error:
            yield str(block), f"is not TOML: {error}"
    elif block.language == "python":
        try:
            tree = ast.parse(python_of(block.code))
        except SyntaxError as error:
            yield str(block), f"is not Python: {error}"
        else:
            yield from ((str(block), fault) for fault in import_faults(tree))


def import_faults(tree: ast.AST) -> Iterator[str]:
    """Return what is imported of the package and is in no ``__all__``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("datamarket_gym."):
                    yield f"imports {alias.name} whole"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("datamarket_gym"):
            try:
                public = getattr(importlib.import_module(node.module), "__all__", ())
            except ImportError as error:
                yield f"cannot import {node.module}: {error}"
                continue
            for alias in node.names:
                if alias.name not in public:
                    yield f"{node.module}.{alias.name} is not public"


def command_faults(block: CodeBlock) -> Faults:
    """Check the commands of a block, and that those of other programs are marked as not run."""
    for line in block.commands():
        if program(line) == "datamarket":
            if fault := command_fault(line):
                yield str(block), f"{line}: {fault}"
        elif not block.not_run and "tutorials" not in block.page.parts:
            yield str(block), f"needs <!-- not run: ... -->: {line}"
    if block.not_run and not block.not_run.startswith(REASONS):
        yield str(block), f"is not run for an unknown reason: {block.not_run}"
    for file in re.findall(r"\b(?:tests|tools|examples|benchmarks)/[\w/]+\.py", block.not_run):
        if not (ROOT / file).exists():
            yield str(block), f"names {file}, which does not exist"


def command_fault(line: str) -> str:
    """Return why the command line knows no such command, or an empty text; ``...`` stands for more options."""
    from datamarket_gym.cli.app import app

    words = words_of(line)[1:]
    try:
        _parse(
            typer.main.get_command(app), [w for w in words if w != "..."], "..." in words, "datamarket"
        )
    except Exception as error:  # whatever the parser raises is the fault
        return getattr(error, "message", "") or str(error) or repr(error)
    return ""


def _parse(command: typer.core.TyperCommand, words: list[str], is_part: bool, name: str) -> None:
    context = command.context_class(command, info_name=name)
    try:
        values, rest, _ = command.make_parser(context).parse_args(list(words))
    except Exception as error:
        if is_part and type(error).__name__ == "BadOptionUsage":  # an option without its value
            return
        raise
    if hasattr(command, "resolve_command") and rest:
        name, inner, rest = command.resolve_command(context, rest)
        _parse(inner, rest, is_part, name)
        return
    if rest:
        raise ValueError(f"{name} takes no {rest}")
    for param in command.get_params(context):
        value = values.get(param.name)
        if (value is None or "UNSET" in repr(value)) and param.required and not is_part:
            raise ValueError(f"{name} needs {param.name}")


def prose_faults(page: Path) -> Faults:
    """Check commands, objects and tests that sentences name."""
    for number, (line, is_prose) in enumerate(lines_of(page.read_text(encoding="utf-8")), start=1):
        place = f"{page.relative_to(ROOT)}:{number}"
        if not is_prose:
            continue
        for command in re.findall(r"(?<!`)`(datamarket [a-z][^`\n]*)`(?!`)", line):
            if fault := command_fault(f"{command.split('|')[0]} ..."):
                yield place, f"{command}: {fault}"
        for dotted in _OBJECT.findall(line):
            if not exists(dotted):
                yield place, f"names {dotted}, which does not exist"
        for file, name in _TEST.findall(line):
            path = ROOT / file
            if not path.exists() or f"def {name}(" not in path.read_text(encoding="utf-8"):
                yield place, f"names the test {file}::{name}, which does not exist"


def exists(dotted: str) -> bool:
    """Return whether a dotted name is a module or in one."""
    name, _, attribute = dotted.rpartition(".")
    try:
        importlib.import_module(dotted)
    except ImportError:
        try:
            value = importlib.import_module(name)
        except ImportError:
            outer, _, inner = name.rpartition(".")  # an attribute of a class
            value = getattr(importlib.import_module(outer), inner, None) if exists(name) else None
        return hasattr(value, attribute)
    return True


def generated_faults() -> Faults:
    """Check that generated blocks are fresh, terms are explained once, and notebooks hold no outputs."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    if readme.block(page, "table") != readme.table():
        yield _line_of(ROOT / "README.md", "<!-- table -->"), "is stale; run python tools/readme.py"
    if packages.picture() not in packages.PAGE.read_text(encoding="utf-8"):
        yield _line_of(packages.PAGE, "<!-- packages -->"), "is stale; run python tools/packages.py"
    terms: set[str] = set()
    glossary = DOCS / "glossary.md"
    for entry in re.findall(r"\*\*([^*]+?)[.:]\*\*", glossary.read_text(encoding="utf-8")):
        for term in (term.strip().lower() for term in entry.split(",")):
            if term in terms:
                yield _line_of(glossary, entry), f"explains {term} twice"
            terms.add(term)
    for file in sorted((DOCS / "notebooks").glob("*.ipynb")):
        for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
            if cell.get("outputs") or cell.get("execution_count"):
                yield _line_of(file, ""), "holds outputs; clear them"


def _line_of(page: Path, text: str) -> str:
    lines = page.read_text(encoding="utf-8").splitlines()
    number = next((i for i, line in enumerate(lines, start=1) if text in line), 1)
    return f"{page.relative_to(ROOT)}:{number}"


def static_faults() -> list[str]:
    """Return every fault that shows without running code, as ``page:line: fault``."""
    everything = pages()
    faults = [*link_faults(everything), *generated_faults()]
    for page in everything:
        if page.name == "CHANGELOG.md":
            continue
        faults += prose_faults(page)
        for block in blocks(page):
            faults += [*code_faults(block), *command_faults(block)]
    for file in sorted((ROOT / "examples").glob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        faults += [(f"examples/{file.name}:1", fault) for fault in import_faults(tree)]
    return [f"{place}: {fault}" for place, fault in dict.fromkeys(faults)]


# Running pages: top to bottom, in one folder and with one set of names.


def is_run(page: Path) -> bool:
    """Return whether a page has code or commands that run."""
    return any(
        not block.not_run and (block.language == "python" or block.commands()) for block in blocks(page)
    )


def run_page(
    page: Path, folder: Path, setup: Callable[[], object] | None = None, update: bool = False
) -> dict[str, object]:
    """Run the code of a page in a folder; raise `AssertionError` with page and line where it fails."""
    names: dict[str, object] = {"__name__": "__main__"}
    is_tutorial = "tutorials" in page.parts
    with chdir(folder):
        if setup:
            setup()
        printed: str | None = None
        for block in blocks(page):
            if block.language == "text" and printed is not None:
                assert printed == block.code, f"{block}: the code above prints\n{printed}"
            printed = None
            if block.not_run:
                continue
            file = re.match(r"# (\w+\.(?:py|toml))\n", block.code) if is_tutorial else None
            if file:
                Path(file[1]).write_text(block.code, encoding="utf-8")
            elif is_tutorial and block.language == "console":
                run_transcript(block, update)
            else:
                printed = run_block(block, names)
    return names


def run_block(block: CodeBlock, names: dict[str, object]) -> str | None:
    """Run Python, a session of Python, or commands; return what Python printed."""
    if block.language == "python" and block.code.startswith(">>> "):
        test = doctest.DocTestParser().get_doctest(block.code, names, str(block), None, 0)
        result = doctest.DocTestRunner().run(test, clear_globs=False)
        names |= test.globs
        assert result.failed == 0 < result.attempted, str(block)
    elif block.language == "python":
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(block.code, str(block), "exec"), names)
        return out.getvalue()
    for line in block.commands():
        type_command(line, str(block))
    return None


def type_command(line: str, where: str = "setup") -> str:
    """Run one line of the command line in this process, and return what it prints."""
    from datamarket_gym.cli.app import app

    words = words_of(line)
    assert words[0].removeprefix(".venv/bin/") == "datamarket", f"{where}: {line}"
    if words[1:3] == ["check", "record"]:
        answer_checks(Path(words[3]), Path(words[4]))
    result = CliRunner(env={"COLUMNS": "100"}).invoke(app, words[1:])
    assert result.exit_code == 0, f"{where}: {line}\n{result.output}\n{result.exception!r}"
    return result.stdout


def answer_checks(run: Path, file: Path) -> None:
    """Answer a spot check, as people do between two commands: every unit is genuine."""
    if file.exists():
        return
    with (run / "checks.csv").open(encoding="utf-8", newline="") as drawn:
        answers = [f"{row['number']},genuine,{row['look']}\n" for row in csv.DictReader(drawn)]
    file.write_text("number,outcome,by\n" + "".join(answers))  # each second look by another person


def run_transcript(block: CodeBlock, update: bool = False) -> None:
    """Run the commands of a console block; compare what they print with the page, or write it there."""
    python = shlex.quote(sys.executable)
    main = f"{python} -c 'from datamarket_gym.cli import main; main()'"
    functions = f'datamarket() {{ {main} "$@"; }}; python() {{ {python} "$@"; }}'
    for line, shown in block.transcript():
        words = shlex.split(line)
        if words[0] == "datamarket" and not {"--load", "|"} & set(words):
            printed = type_command(line, str(block))
        else:
            done = subprocess.run(
                ["bash", "-c", f"{functions}; {line}"],
                capture_output=True,
                text=True,
                env={**os.environ, "COLUMNS": "100"},
            )
            assert done.returncode == 0, f"{block}: {line}\n{done.stdout}{done.stderr}"
            printed = done.stdout
        lines = "".join(row.rstrip() + "\n" for row in printed.splitlines())
        if not set(VARYING) & set(words) and lines != shown:
            if not update:
                raise AssertionError(f"{block}: {line} prints\n{printed}")
            text = block.page.read_text(encoding="utf-8")
            block.page.write_text(
                text.replace(f"$ {line}\n{shown}", f"$ {line}\n{lines}"), encoding="utf-8"
            )


def main() -> int:
    """Run the checker."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--update", action="store_true", help="write what tutorials print into them")
    parser.add_argument("--run", nargs="*", metavar="PAGE", help="run the code of these pages")
    options, faults = parser.parse_args(), static_faults()
    for name in options.run or ():
        with tempfile.TemporaryDirectory() as folder:
            try:
                run_page(Path(name).resolve(), Path(folder), update=options.update)
            except Exception as error:
                faults.append(f"{name}: {error!r}")
    print("\n".join(faults))
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
