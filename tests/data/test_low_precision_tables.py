"""Large matrices of float16 and float32 stay so when they are read; whoever reads a block of them gets float64."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from datamarket_gym.data.columns import Faults
from datamarket_gym.data.readers.arrays import ArrayFile
from datamarket_gym.data.readers.tables import Table
from datamarket_gym.errors import SubmissionError
from datamarket_gym.execution import arrays as narrow_module
from datamarket_gym.execution.arrays import LowPrecisionRows
from datamarket_gym.execution.parallel import Compute, computing

N, WIDTH = 20_000, 7


@pytest.fixture
def everything_is_large(monkeypatch):
    monkeypatch.setattr(narrow_module, "WHOLE", 0)


def fixed(matrix):
    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])


def ragged(matrix):
    ends = np.arange(0, matrix.size + 1, matrix.shape[1], dtype=np.int32)
    return pa.ListArray.from_arrays(ends, pa.array(matrix.ravel()))


def tensor(matrix):
    kind = pa.fixed_shape_tensor(pa.from_numpy_dtype(matrix.dtype), [matrix.shape[1]])
    return pa.ExtensionArray.from_storage(kind, fixed(matrix))


def numbered(matrix):
    return {f"features_{j}": pa.array(matrix[:, j]) for j in range(matrix.shape[1])}


def read(path, **options):
    table = Table.open(path)
    return table.read(matrices={"features": table.require_matrix("features", "features")}, **options)[1][
        "features"
    ]


@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize("column", [fixed, ragged, tensor, numbered])
@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.usefixtures("everything_is_large")
def test_columns_of_few_bits_are_kept_as_they_are_stored(tmp_path, kind, column, form):
    matrix = np.random.default_rng(0).normal(size=(N, WIDTH)).astype(kind)
    made = column(matrix)
    table, path = (
        pa.table(made if isinstance(made, dict) else {"features": made}),
        tmp_path / f"units.{form}",
    )
    pq.write_table(table, path) if form == "parquet" else feather.write_feather(table, path)
    found = read(path, low_precision=True)
    assert isinstance(found, LowPrecisionRows)
    assert {block.dtype for _, block in found.blocks()} == {np.dtype(kind)}
    assert found[:].tobytes() == matrix.astype(np.float64).tobytes()
    assert (
        read(path).tobytes() == matrix.astype(np.float64).tobytes()
    )  # nobody gets one who did not ask for it
    loose = read(path, faults=Faults(), low_precision=True)
    assert isinstance(loose, LowPrecisionRows)
    assert loose[:].tobytes() == found[:].tobytes()


@pytest.mark.parametrize("kind", [np.float64, np.int32])
@pytest.mark.usefixtures("everything_is_large")
def test_other_numbers_are_float64(tmp_path, kind):
    matrix = np.random.default_rng(0).normal(size=(9, 3)).astype(kind)
    pq.write_table(pa.table({"features": fixed(matrix)}), tmp_path / "units.parquet")
    np.save(tmp_path / "units.npy", matrix)
    for found in (
        read(tmp_path / "units.parquet", low_precision=True),
        ArrayFile.open(tmp_path / "units.npy").matrix(low_precision=True),
    ):
        assert isinstance(found, np.ndarray)
        assert found.dtype == np.float64
        assert (found == matrix).all()


def test_small_matrices_are_plain_whatever_they_are_stored_as(tmp_path):
    pq.write_table(
        pa.table({"features": fixed(np.ones((9, 3), np.float16))}), tmp_path / "units.parquet"
    )
    assert isinstance(read(tmp_path / "units.parquet", low_precision=True), np.ndarray)


@pytest.mark.parametrize("kind", ["<f2", "<f4", ">f4"])
@pytest.mark.usefixtures("everything_is_large")
def test_arrays_are_kept_likewise(tmp_path, kind):
    matrix = np.random.default_rng(0).normal(size=(9, 3)).astype(kind)
    np.save(tmp_path / "units.npy", matrix)
    np.savez(tmp_path / "units.npz", features=matrix)
    for name in ("units.npy", "units.npz"):
        found = ArrayFile.open(tmp_path / name).matrix(low_precision=True)
        assert isinstance(found, LowPrecisionRows)
        assert (found[:] == matrix.astype(np.float64)).all()
    matrix[4, 1] = np.inf
    np.save(tmp_path / "units.npy", matrix)
    with pytest.raises(SubmissionError, match="row 4, entry 1 is inf"):
        ArrayFile.open(tmp_path / "units.npy").matrix(low_precision=True)


@pytest.mark.usefixtures("everything_is_large")
def test_what_is_no_number_is_refused_by_its_row_in_any_block(tmp_path):
    matrix = np.ones((N, WIDTH), np.float16)
    matrix[N - 3, 2] = np.nan
    pq.write_table(pa.table({"features": fixed(matrix)}), tmp_path / "units.parquet")
    with pytest.raises(SubmissionError, match=rf"row {N - 3}, entry 2 is nan"):
        read(tmp_path / "units.parquet", low_precision=True)


class Told:
    def __init__(self):
        self.counts = []

    def stage(self, what, unit=""):
        pass

    def count(self, done, total):
        self.counts.append((done, total))


@pytest.mark.parametrize(("rows", "is_told"), [(60_000, True), (1_000, False)])
def test_rows_of_a_large_file_are_counted(tmp_path, rows, is_told):
    pq.write_table(
        pa.table({"features": fixed(np.ones((rows, 2), np.float16))}), tmp_path / "units.parquet"
    )
    told = Told()
    with computing(Compute(progress=told)):
        read(tmp_path / "units.parquet")
    assert bool(told.counts) is is_told
    if is_told:
        assert told.counts[-1] == (rows, rows)
        assert len(told.counts) > 3


_CHILD = """
import sys
from pathlib import Path
from datamarket_gym.payout.inputs import read_inputs
from datamarket_gym.payout.settings import checked_spec
from datamarket_gym.payout.stored_inputs import Places
folder = Path(sys.argv[1])
found = read_inputs(Places(folder / "units.parquet", folder / "validation.parquet"), checked_spec({"amount": "1.00"}))
assert found.submission.keys.shape == found.submission.id.shape
print(Path("/proc/self/status").read_text())
"""


def _peak(folder, n):
    """The most memory that a process holds which reads, checks and hashes so many units, in bytes."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name, count in (("units", n), ("validation", 100)):
        matrix = rng.standard_normal((count, 384), np.float32).astype(np.float16)
        columns = {
            "id": [f"unit {i}" for i in range(count)],
            "identity": [f"provider {i % 100}" for i in range(count)],
            "label": np.arange(count) % 4,
            "features": fixed(matrix),
        }
        pq.write_table(pa.table(columns), folder / f"{name}.parquet", use_dictionary=["identity"])
    said = subprocess.run(
        [sys.executable, "-c", _CHILD, str(folder)], capture_output=True, text=True, check=True
    ).stdout
    return int(re.search(r"VmHWM:\s+(\d+) kB", said)[1]) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell the peak")
def test_memory_grows_by_less_than_three_quarters_of_float64_per_unit(tmp_path):
    """Units of 384 float16 are 768 bytes each, and 3,072 as float64; docs/scale.md states 1,500 for reading them."""
    few, many = 20_000, 80_000
    grown = _peak(tmp_path / "many", many) - _peak(tmp_path / "few", few)
    assert grown / (many - few) < 2300  # allocators round; alone it is some 1,500
