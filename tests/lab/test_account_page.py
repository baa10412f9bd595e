"""What changed in our accounts: the page is what 0.1's results, today's and the reasons say."""

import json
import runpy
import shutil
from pathlib import Path

import pytest

from datamarket_gym.lab import builtin_specs

ROOT = Path(__file__).parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "accounts.py"))


def test_the_page_is_not_stale():
    """Fails when results, reasons or bars changed: run `python tools/accounts.py`."""
    assert (ROOT / "docs" / "accounts.md").read_text(encoding="utf-8") == TOOL["page"]()


def test_every_experiment_has_a_reason():
    import tomllib

    said = tomllib.loads((ROOT / "docs" / "accounts" / "why.toml").read_text(encoding="utf-8"))
    assert set(said["experiment"]) == set(builtin_specs())


@pytest.fixture
def docs(tmp_path):
    """Two accounts of S5: 0.1's, and one in which two cells moved and one went."""
    for folder in ("accounts/0.1", "results"):
        (tmp_path / folder).mkdir(parents=True)
        shutil.copy(ROOT / "docs" / "accounts" / "0.1" / "s5.json", tmp_path / folder)
    shutil.copy(ROOT / "docs" / "accounts" / "why.toml", tmp_path / "accounts")
    file = tmp_path / "results" / "s5.json"
    kept = json.loads(file.read_text())
    at = {name: kept["columns"].index(name) for name in ("metric", "value", "se")}
    gains = [row for row in kept["rows"] if row[at["metric"]] == "gain" and row[at["se"]]]
    gains[0][at["value"]] += 3 * gains[0][at["se"]] + 0.01
    gains[1][at["value"]] += 5 * gains[1][at["se"]] + 0.01
    gains[2][at["value"]] += 0.5 * gains[2][at["se"]]  # within its error: not a move
    kept["rows"].remove(gains[3])
    file.write_text(json.dumps(kept))
    return tmp_path


def test_moves_beyond_the_standard_error_are_listed_largest_first(docs):
    published = json.loads((docs / "accounts/0.1/s5.json").read_text())
    count = sum("near_zero_seeds" not in row for row in published["rows"])
    text = TOOL["page"](docs)
    (line,) = [line for line in text.split("\n") if line.startswith("| s5 |")]
    assert f"| 30 | 30 | {count - 1} | 2 | 1 | 0 |" in line
    assert "One noise draw a seed" in line
    detail = text[text.index("### s5: the largest moves") :].split("\n")
    moved = [line for line in detail[4:] if line.startswith("| ")][:2]
    sizes = [
        abs(float(line.split(" | ")[2].rstrip(" |")) - float(line.split(" | ")[1])) for line in moved
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert line.split(" | ")[-2] == " to ".join(moved[0].rstrip(" |").split(" | ")[-2:])


def test_nothing_moved_says_nothing(docs):
    shutil.copy(docs / "accounts/0.1/s5.json", docs / "results/s5.json")
    text = TOOL["page"](docs)
    assert "largest moves" not in text
    (line,) = [line for line in text.split("\n") if line.startswith("| s5 |")]
    assert "| 0 | 0 | 0 |  |  |" in line
