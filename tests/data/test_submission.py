import numpy as np
import pyarrow as pa
import pytest

from datamarket_gym.data import Submission, from_table, read_submission, to_table, write_submission
from datamarket_gym.errors import SubmissionError

GOOD = {
    "id": ["a", "b", "c"],
    "identity": ["x", "x", "y"],
    "features": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
    "label": [0, 1, 0],
}


def changed(**columns):
    return {**GOOD, **columns}


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (changed(features=[[1.0, 2.0], [np.nan, 4.0], [5.0, 6.0]]), r"'features', row 1, entry 0"),
        (changed(features=[[1.0, 2.0], [3.0, np.inf], [5.0, 6.0]]), r"row 1, entry 1 is inf"),
        (changed(features=[[1.0], [3.0, 4.0], [5.0, 6.0]]), "not a numeric matrix"),
        (changed(features=[["p"], ["q"], ["r"]]), "not a numeric matrix"),
        (changed(id=["a", "b", "a"]), r"'a' appears in rows 0 and 2"),
        (changed(identity=["x", " ", "y"]), r"'identity' is empty in row 1"),
        (changed(identity=["x", None, "y"]), r"'identity' is empty in row 1"),
        (changed(label=[0, 1, None]), r"'label' is empty in row 2"),
        (changed(label=[0, 1]), r"'label' has 2 rows but 'id' has 3"),
        (changed(time=[0.0, np.nan, 1.0]), r"'time' is empty in row 1"),
        (changed(embedding=[[0.0], [1.0], [np.nan]]), r"'embedding', row 2"),
        ({"id": [], "identity": [], "features": np.empty((0, 2)), "label": []}, "no units"),
    ],
)
def test_bad_columns_are_named(columns, says):
    with pytest.raises(SubmissionError, match=says):
        Submission(**columns)


def test_missing_and_misspelt_columns_are_named():
    table = pa.table({**{k: v for k, v in GOOD.items() if k != "label"}, "labell": [0, 1, 0]})
    with pytest.raises(SubmissionError, match=r"no column 'label'.*did you mean 'labell'"):
        from_table(table)
    assert from_table(table, {"label": "labell"}).label.tolist() == [0, 1, 0]
    assert not from_table(table, {"label": ""}).labelled
    with pytest.raises(SubmissionError, match="no column 'kind' for 'label'"):
        from_table(table, {"label": "kind"})
    with pytest.raises(SubmissionError, match="no column 'seller' for 'identity'"):
        from_table(pa.table(GOOD), {"identity": "seller"})
    with pytest.raises(SubmissionError, match="unknown column role 'identty'"):
        from_table(pa.table(GOOD), {"identty": "identity"})


def test_feature_columns_are_lists_of_as_many_numbers_or_single_numbers():
    with pytest.raises(
        SubmissionError, match=r"'features', row 1 has 2 numbers where the first row has 1"
    ):
        from_table(pa.table(changed(features=[[1.0], [2.0, 3.0], [4.0, 5.0, 6.0]])))
    with pytest.raises(SubmissionError, match="'features', row 0 is 'p', which is no number"):
        from_table(pa.table(changed(features=["p", "q", "r"])))
    assert from_table(pa.table(changed(features=[1.0, 2.0, 3.0]))).features.tolist() == [[1], [2], [3]]


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".arrow"])
def test_files_round_trip(tmp_path, ending):
    before = Submission(**changed(time=[1.0, 2.0, 3.0], source=["a", "a", "c"]))
    path = tmp_path / f"units{ending}"
    write_submission(before, path)
    after = read_submission(path)
    assert list(tmp_path.iterdir()) == [path]
    for name in ("id", "identity", "features", "label", "time", "source"):
        assert (getattr(before, name) == getattr(after, name)).all()
    assert (before.keys == after.keys).all()


def test_unreadable_files_are_typed_errors(tmp_path):
    broken = tmp_path / "half.parquet"
    broken.write_bytes(b"PAR1 and then nothing")
    for path in (broken, tmp_path / "none.csv", tmp_path):
        with pytest.raises(SubmissionError):
            read_submission(path)


def test_other_columns_become_metadata_and_dates_become_seconds():
    days = np.array(["2026-01-01", "2026-01-02", "2026-01-03"], dtype="datetime64[s]")
    found = from_table(pa.table({**GOOD, "time": days, "country": ["NL", "DE", "FR"]}))
    assert found.metadata["country"].tolist() == ["NL", "DE", "FR"]
    assert np.diff(found.time).tolist() == [86400.0, 86400.0]
    assert "country" in to_table(found).column_names


def test_content_keys_ignore_names_and_signed_zeros():
    one = Submission(**changed(features=[[0.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    two = Submission(**changed(features=[[-0.0, 2.0], [3.0, 4.0], [5.0, 6.0]], id=["p", "q", "r"]))
    assert (one.keys == two.keys).all()
    assert one.keys[0] != Submission(**changed(label=[1, 1, 0], features=one.features)).keys[0]
