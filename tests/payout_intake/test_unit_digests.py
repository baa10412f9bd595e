"""A unit's digest is of its content alone: the same from every format, another for every other content."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from openpyxl import Workbook
from PIL import Image

from datamarket_gym.data.submission import write_table
from datamarket_gym.errors import SubmissionError, UnknownNameError
from datamarket_gym.payout.intake import read_batch, unit_digests
from datamarket_gym.payout.settings import Columns, Files

ROWS = [("u1", 1, [0.1, -0.0, 3.0]), ("u2", 0, [1e-7, 2.5, -4.0]), ("u3", 1, [1 / 3, 1e20, 0.0])]


def table(features=np.float32, label=np.int64):
    matrix = np.array([row[2] for row in ROWS], dtype=features)
    names = {"id": [row[0] for row in ROWS], "label": np.array([row[1] for row in ROWS], dtype=label)}
    return names, matrix


def lists(names, matrix):
    flat = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])
    return pa.table({**names, "features": flat})


def spread(names, matrix):
    return pa.table({**names, **{f"features_{j}": matrix[:, j] for j in range(matrix.shape[1])}})


def test_every_format_and_width_of_numbers_gives_the_same(tmp_path):
    names, matrix = table()
    places = [tmp_path / f"batch.{kind}" for kind in ("parquet", "arrow", "csv", "xlsx", "jsonl")]
    write_table(lists(names, matrix), places[0])
    write_table(lists(*table(np.float64, np.float64)), places[1])
    write_table(spread(names, matrix), places[2])
    sheet = Workbook()
    sheet.active.append(["id", "label", *(f"features_{j}" for j in range(3))])
    for name, label, row in ROWS:
        sheet.active.append([name, label, *row])
    sheet.save(places[3])
    places[4].write_text(
        "".join(
            f'{{"label": {label}, "id": "{name}", "features": {row}}}\n' for name, label, row in ROWS
        )
    )
    np.save(tmp_path / "apart.npy", matrix)
    write_table(pa.table(names), tmp_path / "names.parquet")
    batches = [read_batch(place, Columns(), Files()) for place in places]
    batches.append(
        read_batch(tmp_path / "names.parquet", Columns(), Files(features=str(tmp_path / "apart.npy")))
    )
    for batch in batches:
        assert batch.what == "features"
        assert batch.ids == ["u1", "u2", "u3"]
        assert batch.digests == batches[0].digests, batch.where
    assert len(set(batches[0].digests)) == 3


def test_minus_zero_is_zero_and_nothing_else_is():
    one = unit_digests("features", np.array(["a", "a"]), np.array([[0.0, 1.0], [-0.0, 1.0]]))
    assert one[0] == one[1]
    other = unit_digests("features", np.array(["a"]), np.array([[1e-30, 1.0]]))
    assert other[0] != one[0]


@given(st.tuples(st.text(), st.text()), st.tuples(st.text(), st.text()))
@example(("ab", "c"), ("a", "bc"))
def test_label_and_text_cannot_be_moved_into_each_other(one, other):
    def of(pair):
        label, text = ("".join(c for c in part if c.isprintable()) for part in pair)
        return (label, text), unit_digests("text", np.array([label]), [text])

    assert (of(one)[0] == of(other)[0]) == (of(one)[1] == of(other)[1])


def test_what_a_payload_is_counts():
    label = np.array(["a"])
    assert unit_digests("text", label, ["x"]) != unit_digests("image", label, [b"x"])
    assert unit_digests("text", label, ["x"]) != unit_digests("text", np.array(["b"]), ["x"])


def test_numbers_that_float32_does_not_hold_are_refused_by_their_row():
    with pytest.raises(SubmissionError, match=r"row 1 has 1e\+60 as entry 0 .* at most 3\.4e\+38"):
        unit_digests("features", np.zeros(2), np.array([[0.0], [1e60]]))
    with pytest.raises(SubmissionError, match="2 units and 1 labels"):
        unit_digests("text", np.zeros(1), ["a", "b"])


def test_texts_are_taken_as_they_are_and_come_before_features(tmp_path):
    names, matrix = table()
    write_table(lists({**names, "said": ["ä\n", "", " b "]}, matrix), tmp_path / "both.parquet")
    batch = read_batch(tmp_path / "both.parquet", Columns(text="said"), Files())
    assert batch.what == "text"
    assert batch.digests == unit_digests("text", np.array([1, 0, 1]), ["ä\n", "", " b "])


def test_an_image_in_a_folder_and_one_in_a_table_are_the_same(tmp_path):
    for name, colour in (("cat/one.png", "red"), ("dog/two.png", "blue")):
        path = tmp_path / "batch" / "alice" / name
        path.parent.mkdir(parents=True)
        Image.new("RGB", (4, 4), colour).save(path)
    (tmp_path / "batch" / "alice" / "cat" / "notes.txt").write_text("no image")
    folder = read_batch(tmp_path / "batch", Columns(), Files())
    write_table(
        pa.table({"file": ["cat/one.png", "dog/two.png"], "label": ["cat", "dog"]}), tmp_path / "t.csv"
    )
    listed = read_batch(
        tmp_path / "t.csv", Columns(image="file"), Files(images=str(tmp_path / "batch" / "alice"))
    )
    assert folder.digests == listed.digests
    assert folder.owner(None) == "alice"
    assert [name for name, _ in folder.skipped] == ["alice/cat/notes.txt"]
    assert listed.ids == ["row 0", "row 1"]
    with pytest.raises(SubmissionError, match="--images"):
        read_batch(tmp_path / "t.csv", Columns(image="file"), Files())


@pytest.mark.parametrize(
    ("inside", "named", "wrong"),
    [
        (["alice", "bob", "alice"], None, "units of 2 identities"),
        (["alice", "bob", "alice"], "alice", "give each a batch"),
        (["bob"] * 3, "alice", "holds units of 'bob', and is to be entered as 'alice'"),
        (None, None, "does not say whose"),
        (None, " ", "empty"),
        (None, "a\0b", "U\\+0000"),
    ],
)
def test_whose_a_batch_is_must_be_clear(tmp_path, inside, named, wrong):
    names, matrix = table()
    write_table(
        lists(names if inside is None else {**names, "identity": inside}, matrix), tmp_path / "b.parquet"
    )
    batch = read_batch(tmp_path / "b.parquet", Columns(), Files())
    with pytest.raises(SubmissionError, match=wrong):
        batch.owner(named)


def test_a_batch_that_names_its_owner_needs_no_more(tmp_path):
    names, matrix = table()
    write_table(lists({**names, "seller": ["bob"] * 3}, matrix), tmp_path / "b.parquet")
    batch = read_batch(tmp_path / "b.parquet", Columns(identity="seller"), Files())
    assert batch.owner(None) == batch.owner("bob") == "bob"
    assert batch.place("u3") == 2
    with pytest.raises(UnknownNameError, match="u9"):
        batch.place("u9")
