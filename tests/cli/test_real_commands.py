"""datamarket embed and datamarket theta, on small files and without a model."""

import json
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.errors import DataMarketError
from datamarket_gym.market.datasets import load_embeddings
from datamarket_gym.testing.base import samples

FEATURES = np.random.default_rng(0).normal(size=(40, 24))
TEXTS = samples("text", FEATURES).tolist()


def run(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if isinstance(result.exception, DataMarketError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def table(tmp_path):
    columns = {"text": TEXTS, "label": ["ab"[i % 2] for i in range(len(TEXTS))]}
    pq.write_table(pa.table(columns), tmp_path / "texts.parquet")
    return tmp_path / "texts.parquet"


def test_embed_a_table_then_ask_for_a_threshold(table, tmp_path):
    out = tmp_path / "e.npz"
    output = run("embed", table, "--encoder", "ngrams", "--out", out)
    assert "40 x 256 embeddings by ngrams-3-256" in output
    assert not (tmp_path / "e.npz.parts").exists()
    assert load_embeddings(out).label.tolist() == [0, 1] * 20
    output = run("theta", out, "--per-provider", 5, "--trials", 3, "--json", tmp_path / "t.json")
    measured = json.loads((tmp_path / "t.json").read_text())
    assert measured["units"] == 40
    assert ("do not use cosine evidence" in output) != measured["usable"]


def test_what_cannot_be_embedded_is_an_error_or_counted(tmp_path):
    pq.write_table(pa.table({"text": [*TEXTS[:5], "", " ", TEXTS[5]]}), tmp_path / "bad.parquet")
    common = ("embed", tmp_path / "bad.parquet", "--encoder", "ngrams", "--out", tmp_path / "e.npz")
    with pytest.raises(DataMarketError, match=r"item 5: the text is empty.*--skip-bad"):
        run(*common)
    assert not (tmp_path / "e.npz").exists()
    output = run(*common, "--skip-bad")
    assert "left out 2 that cannot be embedded, first: item 5" in " ".join(output.split())
    assert len(load_embeddings(tmp_path / "e.npz").vectors) == 6


def test_a_folder_of_images_with_a_corrupt_one(tmp_path):
    images = samples("image", FEATURES).tolist() if pytest.importorskip("PIL") else []
    for i, image in enumerate(images[:6]):
        folder = tmp_path / "pictures" / "xy"[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{i}.png").write_bytes(image if i else image[:50])
    common = ("embed", tmp_path / "pictures", "--encoder", "thumbnail", "--out", tmp_path / "e.npz")
    with pytest.raises(DataMarketError, match=r"item 0: .*(corrupt|no image)"):
        run(*common)
    run(*common, "--skip-bad")
    assert load_embeddings(tmp_path / "e.npz").label.tolist() == [0, 0, 1, 1, 1]


def test_mistakes_are_one_line(table, tmp_path):
    for arguments, says in (
        (("embed", table, "--encoder", "thumbnail", "--out", "x.npz"), "it reads images"),
        (("embed", table, "--encoder", "ngrams"), "name the file to write"),
        (("embed", table, "--encoder", "ngrams", "--out", tmp_path / "x.txt"), "use .npz or .parquet"),
        (("embed", tmp_path / "none.csv", "--out", "x.npz"), "there is no file"),
        (("embed", tmp_path, "--out", "x.npz"), "there are no images"),
        (("embed", table, "--encoder", "minilmm", "--out", "x.npz"), "did you mean minilm"),
        (("theta", tmp_path / "none.npz"), "there is no file"),
        (("theta", "agnews", "--data", tmp_path / "nowhere"), "is not a folder"),
    ):
        with pytest.raises(DataMarketError, match=says):
            run(*arguments)


@pytest.fixture(autouse=True)
def _own_data_folder(monkeypatch):
    monkeypatch.setenv("DATAMARKET_DATA", "")  # --data sets it; undone after each test


def test_theta_says_which_threshold_is_for_payments_and_which_for_components(tmp_path):
    """The length of vectors is nothing to the first; noise of .02 is nothing to long ones."""
    rng = np.random.default_rng(0)
    label = np.arange(200) % 4
    rows = rng.normal(size=(200, 16)) + 2 * np.eye(4, 16)[label]
    small, taken = ("--per-provider", 5, "--trials", 3), set()
    for norm in (1.0, 30.0):
        np.savez(tmp_path / "e.npz", vectors=norm * rows, labels=label)
        words = " ".join(run("theta", tmp_path / "e.npz", *small).split())
        taken.add(re.search(r"`recommended` takes theta (0\.\d+)", words)[1])
        assert "For components:" in words
        assert "Components: use cosine evidence" in words
    assert len(taken) == 1
    few = np.arange(80) % 19
    np.savez(tmp_path / "e.npz", vectors=rows[few], labels=label[few])
    words = " ".join(run("theta", tmp_path / "e.npz", *small).split())
    assert "`recommended` matches identical units alone" in words
    assert "19 different validation rows are too few" in words
    np.savez(tmp_path / "e.npz", vectors=rows)
    words = " ".join(run("theta", tmp_path / "e.npz", *small).split())
    assert "`recommended` takes theta 0." in words  # without labels, too


def test_an_interrupted_command_says_how_to_go_on(tmp_path):
    texts = tmp_path / "texts.csv"
    texts.write_text("text\n" + "".join(f"{'some words ' * 60}{i}\n" for i in range(20_000)))
    asked = ["embed", str(texts), "--encoder", "ngrams", "--out", str(tmp_path / "e.npz")]
    handled = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # if we ignore it
    )
    program = f"{handled}; from datamarket_gym.cli.app import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", program, *asked], stderr=subprocess.PIPE, text=True
    ) as stopped:
        parts = tmp_path / "e.npz.parts"
        while not (parts.is_dir() and any(parts.glob("*.npz"))) and stopped.poll() is None:
            time.sleep(0.05)
        stopped.send_signal(signal.SIGINT)
        said = stopped.communicate(timeout=60)[1]
    assert stopped.returncode == 130
    last = "datamarket: interrupted; run the same command again: it goes on where it stopped"
    assert said.splitlines()[-1] == last
    assert 0 < len(list(parts.glob("*.npz"))) < 20_000 // 512
