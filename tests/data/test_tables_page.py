"""The examples of docs/tables.md print what the page says."""

import doctest
import re
from pathlib import Path

from datamarket_gym.data.readers import arrays, tables

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"


def test_examples_print_what_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert tried == len(re.findall("^>>>", text, flags=re.MULTILINE)) > 8
    assert failed == 0


def test_the_page_names_every_ending():
    table = PAGE.read_text(encoding="utf-8").split("## Columns")[0]
    named = set(re.findall(r"`(\.[a-z.]+)`", table)) - {".gz"}
    zipped = {f"{ending}.gz" for ending in (".csv", ".tsv")}
    assert named == {*tables.ENDINGS, *arrays.ENDINGS, *zipped}
