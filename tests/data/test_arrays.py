"""Arrays beside a table: plain numbers of any precision, by name where there are several, never unpickled."""

import numpy as np
import pytest

from datamarket_gym.data.readers.arrays import ArrayFile
from datamarket_gym.data.readers.tables import file_and_member
from datamarket_gym.errors import SubmissionError

ROWS = np.array([[1.5, -2.0], [3.0, 0.25], [0.0, 7.0]])


@pytest.mark.parametrize("kind", ["<f2", "<f4", "<f8", ">f4", "i1", "u2", "i8"])
@pytest.mark.parametrize("name", ["a.npy", "A.NPY", "a.npz", "A.NPZ"])
def test_any_precision_becomes_float64(tmp_path, kind, name):
    array = np.asfortranarray(
        ROWS.astype(np.dtype(kind)) if np.dtype(kind).kind != "u" else np.abs(ROWS).astype(kind)
    )
    with (tmp_path / name).open("wb") as file:
        np.save(file, array) if name.lower().endswith("npy") else np.savez(file, array)
    found = ArrayFile.open(tmp_path / name).matrix(rows=3)
    assert found.dtype == np.float64
    assert found.tolist() == array.tolist()


def test_the_array_that_is_meant(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, other=ROWS, embeddings=ROWS + 1, labels=np.arange(3))
    file = ArrayFile.open(path)
    assert file.matrix()[0, 0] == 2.5
    assert file.matrix("other")[0, 0] == 1.5
    with pytest.raises(
        SubmissionError, match=r"holds other, embeddings, labels; say which one as a\.npz#NAME"
    ):
        file.matrix("features")
    np.savez(path, p=ROWS, q=ROWS)
    with pytest.raises(SubmissionError, match=r"holds p, q; say which"):
        ArrayFile.open(path).matrix()
    np.save(tmp_path / "a.npy", ROWS)
    with pytest.raises(SubmissionError, match="a single array; leave out #p"):
        ArrayFile.open(tmp_path / "a.npy").matrix("p")


def test_a_file_and_the_name_behind_the_mark(tmp_path):
    assert file_and_member("a.npz#p") == (tmp_path.__class__("a.npz"), "p")
    assert file_and_member("a.npz") == (tmp_path.__class__("a.npz"), "")
    odd = tmp_path / "run #2.npz"
    odd.write_bytes(b"x")
    assert file_and_member(str(odd)) == (odd, "")
    assert file_and_member(f"{odd}#p") == (odd, "p")


@pytest.mark.parametrize(
    ("name", "array", "says"),
    [
        ("a.npy", np.array([[1, None]], dtype=object), "never opened"),
        ("a.npz", np.array([[1, None]], dtype=object), "never opened"),
        ("a.npy", np.arange(3.0), r"holds float64 of shape \(3,\)"),
        ("a.npy", ROWS[:2], "one row for each of the 3 rows of the table"),
        ("a.npy", ROWS.astype(str), "it must be a matrix of numbers"),
        ("a.npy", ROWS > 0, "it must be a matrix of numbers"),
        ("a.npy", ROWS * 1j, "it must be a matrix of numbers"),
        ("a.npy", np.where(ROWS > 6, np.nan, ROWS), r"/a\.npy': row 2, entry 1 is nan"),
        ("a.npz", np.where(ROWS > 6, np.inf, ROWS), r"/a\.npz#arr_0': row 2, entry 1 is inf"),
        ("a.npy", b"no array", "cannot be read as an array"),
        ("a.npz", b"PK no archive", "cannot be read as an array"),
        ("a.npy", b"", "is empty"),
        ("a.txt", b"1 2", "neither .npy nor .npz"),
    ],
)
def test_what_is_refused(tmp_path, name, array, says):
    path = tmp_path / name
    if isinstance(array, bytes):
        path.write_bytes(array)
    elif name == "a.npz":
        np.savez(path, array)
    else:
        np.save(path, array)
    with pytest.raises(SubmissionError, match=says):
        ArrayFile.open(path).matrix(rows=3)


def test_damaged_arrays_are_named(tmp_path):
    for name, save in (("a.npy", np.save), ("a.npz", np.savez_compressed)):
        path = tmp_path / name
        save(path, np.random.default_rng(0).random((3, 50)))
        whole = bytearray(path.read_bytes())
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(SubmissionError, match=f"{name}' cannot be read"):
            ArrayFile.open(path).matrix(rows=3)
    whole[len(whole) // 2] ^= 255
    path.write_bytes(whole)
    with pytest.raises(SubmissionError, match="cannot be read"):
        ArrayFile.open(path).matrix(rows=3)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(SubmissionError, match="there is no file"):
        ArrayFile.open(tmp_path / "a.npy")
    with pytest.raises(SubmissionError, match="is a folder"):
        ArrayFile.open(tmp_path)
