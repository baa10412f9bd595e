"""Targets of the Makefile that need embeddings make those that are missing, and no others."""

import csv
import gzip
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from datamarket_gym.cli import embeddings as embedding
from datamarket_gym.cli.app import app
from datamarket_gym.errors import DataMarketError
from datamarket_gym.market.datasets import DOMAINS, find

ROOT = Path(__file__).parents[2]
SUITES = ("real-data", "holdout", "predict-theta", "content", "checks")


def run(*words):
    found = CliRunner().invoke(app, [str(word) for word in words])
    return found.exit_code, " ".join(found.output.split())


def needed(suite):
    """The domains that the experiments of a suite name."""
    specs = Path(ROOT / "src/datamarket_gym/experiments/specs").glob("*.toml")
    texts = [spec.read_text() for spec in specs if tomllib.loads(spec.read_text()).get("suite") == suite]
    assert texts
    return {name for name in DOMAINS if any(re.search(rf'"{name}\b', text) for text in texts)}


@pytest.mark.parametrize("suite", SUITES)
def test_a_target_makes_the_embeddings_of_its_domains_first(suite):
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    said = subprocess.run(
        ["make", "-n", suite], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    line = next(line for line in said.splitlines() if "embed" in line)
    assert "--if-missing" in line
    assert set(re.search(r"for domain in ([a-z0-9 ]+);", line).group(1).split()) == needed(suite)
    assert said.index("embed") < said.index(f"suite {suite}")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Raw texts of a domain, and no embeddings."""
    with gzip.open(tmp_path / "agnews.csv.gz", "wt", encoding="utf-8", newline="") as out:
        rows = [(f"news number {i} of the day", i % 2, "train" if i < 6 else "test") for i in range(8)]
        csv.writer(out).writerows([("text", "label", "split"), *rows])
    monkeypatch.setenv("DATAMARKET_DATA", str(tmp_path))
    monkeypatch.setenv("DATAMARKET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(embedding, "DEFAULTS", {"text": "ngrams", "image": "thumbnail"})  # no model here
    return tmp_path


def test_what_is_missing_is_made_once(folder):
    assert find("agnews_minilm.npz") is None
    code, said = run("embed", "agnews", "--if-missing")
    assert (code, "8 x 256 embeddings" in said) == (0, True)
    made = find("agnews_minilm.npz")
    before = made.stat().st_mtime_ns
    code, said = run("embed", "agnews", "--if-missing")
    assert (code, "are in" in said) == (0, True)
    assert made.stat().st_mtime_ns == before


def test_without_raw_data_it_says_where_they_should_be(folder, monkeypatch):
    monkeypatch.setenv("DATAMARKET_HUB", "http://127.0.0.1:9")
    found = CliRunner().invoke(app, ["embed", "imdb", "--if-missing"])
    assert isinstance(found.exception, DataMarketError)
    assert "name the folder that holds it by DATAMARKET_DATA" in str(found.exception)
