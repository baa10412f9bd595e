"""The command line as a user types it."""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace
from unittest import mock

import pytest

from datamarket_gym.cli.app import COMMANDS, main


def datamarket(*arguments, cwd=".", columns=160):
    """What the command prints, and its exit code; in this process, which has all libraries already."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.chdir(cwd),
        mock.patch.dict(os.environ, COLUMNS=str(columns)), mock.patch.object(sys, "argv", ["datamarket", *arguments]),
    ):  # fmt: skip
        try:
            main()
        except SystemExit as left:
            code = left.code or 0
    return SimpleNamespace(returncode=code, stdout=out.getvalue(), stderr=err.getvalue())


def test_a_process_of_its_own():
    start = [sys.executable, "-c", "from datamarket_gym.cli import main; main()", "--version"]
    done = subprocess.run(start, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("datamarket-gym ")


def test_help_has_every_command():
    shown = datamarket("--help")
    assert shown.returncode == 0
    for heading, names in COMMANDS.items():
        part = shown.stdout.split(heading)[1].split("╰")[0]  # the heading's own panel
        assert set(names) == {line.split()[1] for line in part.splitlines()[1:] if line[2:3] != " "}


def test_a_command_that_is_none_is_told_which_may_be_meant():
    done = datamarket("verfy")
    assert done.returncode == 2
    assert "Did you mean 'verify'?" in done.stderr


def test_list_names_every_plug_point():
    from datamarket_gym.registry import HOMES, components

    shown = datamarket("list").stdout
    for kind in HOMES:
        for name in components(kind):
            assert name in shown
    assert "copycat" in datamarket("list", "attack").stdout


def test_run_writes_tables_and_prints_them(tmp_path):
    done = datamarket("run", "s1", "--seeds", "2", "--out", str(tmp_path / "s1"))
    assert done.returncode == 0, done.stderr
    assert {p.name for p in (tmp_path / "s1").iterdir()} == {
        "results.parquet", "table.json", "table.md", "manifest.json", "timings.json", "cells"
    }  # fmt: skip
    assert "1.563" in done.stdout
    rows = json.loads((tmp_path / "s1" / "table.json").read_text())
    assert any(row["paper"] == 1.563 and row["within"] for row in rows)


@pytest.fixture(scope="module")
def demo():
    """What it prints on 100 columns, on which the names of attacks are whole."""
    done = datamarket("demo", "--seeds", "1", columns=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_demo_says_what_happened(demo):
    assert "provider_0" in demo
    assert "split over several identities" in demo
    assert max(map(len, demo.splitlines())) <= 100
    output = " ".join(demo.split())
    assert "multiplies the attacker's payment" in output
    # What pays until somebody looks is named with its gain, and so is what is left with checks.
    gains = shown_gains(demo)
    (name, unchecked) = max(((name, row[1]) for name, row in gains.items()), key=lambda item: item[1])
    assert unchecked > 1.1
    assert f"the best ({name}) multiplies it by {unchecked:.3f} while no units are checked" in output
    checked = max(row[2] for row in gains.values())
    assert checked <= 1 + 0.2**3 * unchecked + 0.0005  # what three checks of power .8 leave
    best = f"can be expected to multiply it by {checked:.3f}" if checked > 1 else "none of them pays"
    assert best in output


def test_under_coverage_splits_copies_and_units_held_back_gain_nothing(demo):
    gains = shown_gains(demo)
    for name in (
        "split over several identities",
        "exact copies under new identities",
        "near copies under new identities",
    ):
        assert gains[name][0] > 1.05
        assert gains[name][1:] == (1.0, 1.0)
    assert gains["best units only"][1:] < (1.0, 1.0)


def shown_gains(screen):
    """The table of gains, by attack: Shapley over names, recommended, and with checks."""
    rows = re.findall(r"│ (\w[^│]*?) +│ +(\d\.\d+) \[[^│]*│ +(\d\.\d+) \[[^│]*│ +(\d\.\d+) \[", screen)
    return {name: tuple(map(float, values)) for name, *values in rows if name != "no attack"}


def test_mistakes_are_one_line_and_exit_2(tmp_path):
    for arguments, says in (
        (("run", "s99"), "unknown experiment 's99'"),
        (("run", "missing.toml"), "there is no file"),
        (("run", "s1", "--device", "abacus"), "choose one of cpu, cuda, auto"),
        (("list", "atack"), "unknown plug point 'atack'"),
        (("demo", "--attack", "sybil_split_k@0"), "whole number"),
    ):
        done = datamarket(*arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert says in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
        assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
