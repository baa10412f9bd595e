"""A user's own texts and pictures."""

import numpy as np
import pytest

from datamarket_gym.errors import DataMarketError, SubmissionError
from datamarket_gym.market.datasets import read_source


def test_texts_of_any_table_with_or_without_labels(tmp_path):
    path = tmp_path / "texts.CSV"
    path.write_text('label;text\ndog;"woof; woof"\ncat;0042\ndog;\n')
    found = read_source(path)
    assert found.content.tolist() == ["woof; woof", "0042", ""]
    assert found.label.tolist() == [1, 0, 1]
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "a"}\n{"text": null}\n')
    found = read_source(path)
    assert found.content.tolist() == ["a", ""]
    assert found.label.tolist() == [0, 0]


def test_what_is_no_table_of_texts(tmp_path):
    path = tmp_path / "texts.csv"
    for data, says in (
        ("body,label\na,1\n", "no column 'text' for 'text'; it has body, label"),
        ("text,label\na,1\nb,\n", "'label' is empty in row 1"),
        ("text\n", "no rows"),
    ):
        path.write_text(data)
        with pytest.raises(SubmissionError, match=says):
            read_source(path)


def test_a_folder_of_pictures(tmp_path):
    with pytest.raises(DataMarketError, match="no images"):
        read_source(tmp_path)
    for name in ("b/1.PNG", "a/2.jpg", "a/notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    found = read_source(tmp_path)
    assert found.content.tolist() == [b"a/2.jpg", b"b/1.PNG"]
    assert np.array_equal(found.label, [0, 1])
