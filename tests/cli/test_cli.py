"""The command line as a user types it."""

import json
import os
import subprocess
import sys


def datamarket(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, "-c", "from datamarket_gym.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "160"},
    )


def test_help_and_version():
    shown = datamarket("--help")
    assert shown.returncode == 0
    for command in ("demo", "list", "run"):
        assert command in shown.stdout
    assert datamarket("--version").stdout.startswith("datamarket-gym ")


def test_list_names_every_plug_point():
    from datamarket_gym.core.registry import HOMES, components

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


def test_demo_says_what_happened():
    done = datamarket("demo", "--seeds", "1")
    assert done.returncode == 0, done.stderr
    assert "provider_0" in done.stdout
    assert "splits into 3 names" in done.stdout
    said = " ".join(done.stdout.split())
    assert "multiplies the cheat's payment" in said
    # The strongest attack known is shown, pays, and is what the demo ends on.
    assert "noisy theft from all others still multiplies it by" in said


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
