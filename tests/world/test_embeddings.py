import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datamarket_gym.core.errors import DataMarketError, SubmissionError
from datamarket_gym.world.data import Embeddings, load_embeddings, write_embeddings
from datamarket_gym.world.encoders.store import content_keys


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
        ("two.parquet", "'embedding' has 2 numbers in the rows before and 1 in row 1"),
        ("none.parquet", "no column 'embedding'"), ("nan.npy", "row 0, entry 1 is nan"),
    ):  # fmt: skip
        with pytest.raises(SubmissionError, match=says):
            load_embeddings(tmp_path / name)
    with pytest.raises(DataMarketError, match="3 embeddings but 2 entries of 'label'"):
        Embeddings(np.ones((3, 2)), np.arange(2))
    with pytest.raises(DataMarketError, match=r"use \.npz or \.parquet"):
        write_embeddings(tmp_path / "e.txt", Embeddings(np.ones((1, 2))), content_keys("a", ["x"]))
