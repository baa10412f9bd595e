"""The tutorials: their commands work when typed in an empty folder, and print what the pages show."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "tutorials"
FILE = re.compile(r"```(?:python|toml)\n(# (\w+\.\w+)\n.*?)```", re.S)
CONSOLE = re.compile(r"```console\n(.*?)```", re.S)
OTHERS = ("check", "statement", "statements", "export", "verify")
"""Commands that print ids, dates, places or what a draw fell on, which are others each time."""


def files_of(page):
    return {name: text for text, name in FILE.findall(page.read_text(encoding="utf-8"))}


def commands_of(page):
    """(command, what the page says it prints) in order."""
    for block in CONSOLE.findall(page.read_text(encoding="utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            line, _, shown = part.partition("\n")
            yield line, shown


@pytest.mark.parametrize("name", ["researcher", "operator"])
def test_the_commands_of_a_tutorial_work_and_print_what_it_shows(name, tmp_path):
    if name == "operator":
        pytest.importorskip("lxml")  # the extra "payout"
    page, empty = FOLDER / f"{name}.md", tmp_path / "empty"
    empty.mkdir()
    for file, text in files_of(page).items():
        (empty / file).write_text(text, encoding="utf-8")
    commands, answers = list(commands_of(page)), tmp_path / "answers.json"
    assert len(commands) >= 4
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("typed_commands.py"), answers],
        input=json.dumps([line for line, _ in commands]),
        capture_output=True,
        text=True,
        cwd=empty,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert done.returncode == 0, done.stderr
    for (line, shown), (code, printed) in zip(commands, json.loads(answers.read_text()), strict=True):
        assert code == 0, f"{line}: {printed}\n{done.stderr}"
        if line.startswith("cut ") and "june-2" in line:
            # What is paid after the checks depends on which units a draw fell on, and that on the run's hashes.
            ours, page_says = (
                dict(row.split(",") for row in text.splitlines()[1:]) for text in (printed, shown)
            )
            assert ours.keys() == page_says.keys()
            for payee, amount in page_says.items():
                assert float(ours[payee]) == pytest.approx(float(amount), abs=3.0), line
        elif line.split()[:1] != ["datamarket"] or line.split()[1] not in OTHERS:
            assert [row.rstrip() for row in printed.splitlines()] == shown.splitlines(), line


def test_the_attack_of_the_tutorial_is_short():
    said = [
        line for line in files_of(FOLDER / "researcher.md")["averages.py"].splitlines() if line.strip()
    ]
    assert len(said) < 30
    page = (FOLDER / "researcher.md").read_text(encoding="utf-8")
    assert f"It has {len(said) - 1} lines that say something" in page  # without its name
