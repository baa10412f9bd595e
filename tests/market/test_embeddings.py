import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datamarket_gym.errors import DataMarketError, SubmissionError
from datamarket_gym.market.datasets import Embeddings, load_embeddings, write_embeddings
from datamarket_gym.market.encoders.base import content_keys
from table_files import write


@pytest.mark.parametrize("name", ["e.npz", "e.parquet"])
def test_embeddings_survive_being_written(tmp_path, name):
    vectors = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float16).astype(np.float64)
    train = np.array([True, True, False, True, False])
    keys = content_keys("a", list("abcde"))
    write_embeddings(tmp_path / name, Embeddings(vectors, np.arange(5), train), keys)
    back = load_embeddings(tmp_path / name)
    assert np.allclose(back.vectors, vectors)
    assert back.label.tolist() == [0, 1, 2, 3, 4]
    assert back.training().label.tolist() == [0, 1, 3]
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_files_that_hold_no_embeddings(tmp_path):
    np.savez(tmp_path / "x.npz", one=np.ones((2, 2)), two=np.ones((2, 2)))
    (tmp_path / "y.npz").write_bytes(b"PK broken")
    pq.write_table(pa.table({"embedding": [[1.0, 2.0], [1.0]]}), tmp_path / "two.parquet")
    pq.write_table(pa.table({"vector": [[1.0]]}), tmp_path / "none.parquet")
    np.save(tmp_path / "nan.npy", np.array([[1.0, np.nan]]))
    for name, says in (
        ("x.npz", "holds one, two; say which one as x.npz#NAME, or save it as .*'embeddings'"),
        ("y.npz", "cannot be read"), ("absent.npz", "there is no file"),
        ("two.parquet", "'embedding', row 1 has 1 numbers where the first row has 2"),
        ("none.parquet", "no column 'embedding'"), ("nan.npy", "row 0, entry 1 is nan"),
    ):  # fmt: skip
        with pytest.raises(SubmissionError, match=says):
            load_embeddings(tmp_path / name)
    with pytest.raises(DataMarketError, match="3 embeddings but 2 entries of 'label'"):
        Embeddings(np.ones((3, 2)), np.arange(2))
    with pytest.raises(DataMarketError, match=r"use \.npz or \.parquet"):
        write_embeddings(tmp_path / "e.txt", Embeddings(np.ones((1, 2))), content_keys("a", ["x"]))


@pytest.mark.parametrize("ending", ["csv", "CSV", "csv.gz", "jsonl", "parquet", "feather"])
def test_tables_of_embeddings(tmp_path, ending):
    columns = {
        "embedding": np.array([[1.0, 2.0], [3.0, 4.0]]), "label": ["a", "b"],
        "identity": ["007", "8"], "split": ["train", "test"],
    }  # fmt: skip
    found = load_embeddings(write(tmp_path, ending, columns))
    assert found.vectors.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert found.label.tolist() == ["a", "b"]
    assert found.identity.tolist() == ["007", "8"]
    assert found.train.tolist() == [True, False]


def test_one_array_of_several(tmp_path):
    np.savez(
        tmp_path / "e.npz",
        features=np.ones((2, 2)),
        embeddings=np.zeros((2, 2)),
        labels=np.array([7, 8], "u1"),
    )
    assert load_embeddings(tmp_path / "e.npz").vectors.sum() == 0
    assert load_embeddings(tmp_path / "e.npz#features").vectors.sum() == 4
    assert load_embeddings(tmp_path / "e.npz").label.dtype == np.int64


def test_labels_may_be_called_as_in_tables(tmp_path):
    np.savez(tmp_path / "validation.npz", features=np.eye(2), label=np.array([7, 8]))
    assert load_embeddings(tmp_path / "validation.npz").label.tolist() == [7, 8]


def test_a_missing_label_is_named(tmp_path):
    pq.write_table(pa.table({"embedding": [[1.0], [2.0]], "label": [1, None]}), tmp_path / "e.parquet")
    with pytest.raises(SubmissionError, match="'label' is empty in row 1"):
        load_embeddings(tmp_path / "e.parquet")
