"""The ledger from Python: the session of docs/ledger.md, and what `datamarket_gym.payout` exports."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ledger_files import file_ledger

import datamarket_gym.payout

PAGE = Path(__file__).parents[2] / "docs" / "ledger.md"


def test_the_session_prints_what_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file_ledger(tmp_path)
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert tried == len(re.findall("^>>>", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)) > 5
    assert failed == 0


def test_what_is_exported_is_there_and_no_module():
    """Also once every module was imported: one that is called as what it exports would take its place."""
    code = (
        "import pkgutil, datamarket_gym.payout as p\n"
        "[__import__(m.name) for m in pkgutil.walk_packages(p.__path__, p.__name__ + '.')]\n"
        "print([n for n in p.__all__ if type(getattr(p, n)).__name__ == 'module'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "[]\n"
    with pytest.raises(AttributeError, match="no attribute 'paid'"):
        _ = datamarket_gym.payout.paid
