"""What "equal" means between machines: amounts to the cent, scores and other numbers to 1e-9."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def assert_near(found, expected, place=""):
    """Compare plain data: numbers to 1e-9, all else exactly."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), place
        for key, value in expected.items():
            assert_near(found[key], value, f"{place}.{key}")
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), place
        for i, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_near(one, other, f"{place}[{i}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9, nan_ok=True), place
    else:
        assert found == expected, place


def rows(path):
    """The rows of a Parquet file, or a table."""
    return (path if isinstance(path, pa.Table) else pq.read_table(path)).to_pylist()


def require_same_rows(found, expected):
    """Compare two tables, or Parquet files, row by row."""
    assert_near(rows(found), rows(expected))


def require_same_payments(found, expected):
    """Compare two payout runs: amounts and who owns what exactly, scores to 1e-9."""
    for name in ("payments", "clusters", "evidence", "canonical"):
        require_same_rows(found / f"{name}.parquet", expected / f"{name}.parquet")
    assert (found / "payments.csv").read_text() == (expected / "payments.csv").read_text()
