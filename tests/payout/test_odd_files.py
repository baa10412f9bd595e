"""Files of a careless operator: whatever is in them, `pay` pays or says in one line what is wrong and where."""

import datetime
import decimal
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from payout_files import payments, spec, table, units, validation, write

from datamarket_gym.errors import DataMarketError, SubmissionError
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.stored_inputs import Places

N = 66


def replaced(name, cells, kind=None):
    """The units with one column changed to something odd."""

    def make(folder, places):
        odd = table(units())
        odd = odd.set_column(odd.column_names.index(name), name, pa.array(cells, kind))
        pq.write_table(odd, places.submissions)

    return make


def as_bytes(change):
    def make(folder, places):
        places.submissions.write_bytes(change(places.submissions.read_bytes()))

    return make


def as_csv(change, encoding="utf-8"):
    columns = units()

    def make(folder, places):
        header = ["id", "identity", "label", "time", *(f"features_{j}" for j in range(6))]
        cells = [[columns[c][i] for c in header[:4]] + columns["features"][i].tolist() for i in range(N)]
        lines = [",".join(map(str, row)) for row in [header, *cells]]
        text = change(lines)
        path = folder / "units.csv"
        path.write_bytes(text if isinstance(text, bytes) else "\n".join(text).encode(encoding))
        return Places(path, places.validation)

    return make


def cell(row, column, value):
    def change(lines):
        cells = lines[row + 1].split(",")
        cells[column] = value
        return [*lines[: row + 1], ",".join(cells), *lines[row + 2 :]]

    return change


def as_lines(row, name, value):
    def make(folder, places):
        columns = units()
        rows = [
            {
                "id": columns["id"][i], "identity": columns["identity"][i], "label": int(columns["label"][i]),
                "time": float(columns["time"][i]), "features": columns["features"][i].tolist(),
            }
            for i in range(N)
        ]  # fmt: skip
        rows[row][name] = value
        (folder / "units.jsonl").write_text("\n".join(map(json.dumps, rows)))
        return Places(folder / "units.jsonl", places.validation)

    return make


DAY = datetime.datetime(2026, 1, 1)
REFUSED = {
    "truncated parquet": (as_bytes(lambda b: b[: len(b) // 2]), r"units\.parquet' cannot be read as \.parquet"),
    "a footer of zeros": (as_bytes(lambda b: b[:-200] + bytes(200)), r"units\.parquet' cannot be read"),
    "no bytes": (as_bytes(lambda b: b""), "is empty; write the table again"),
    "a folder": (lambda folder, places: Places(folder, places.validation), "no images laid out as"),
    "a folder of nothing": (lambda f, p: Places(empty(f), p.validation), "nor any other file"),
    "a struct as identity": (replaced("identity", [{"a": 1}] * N), "holds struct"),
    "nulls as identity": (replaced("identity", [None] * N), "'identity' is empty in row 0"),
    "dates as labels": (replaced("label", [DAY] * N), "holds datetime64.*write both as numbers or both as text"),
    "days as labels": (replaced("label", [DAY.date()] * N), "holds datetime64"),
    "spans as labels": (replaced("label", [datetime.timedelta(1)] * N), "holds timedelta64"),
    "infinity as label": (replaced("label", [np.inf] * N), "'label', row 0 is 'inf'"),
    "bytes as label": (replaced("label", [b"x"] * N), "holds binary"),
    "times of day": (replaced("time", [datetime.time(10)] * N), "holds times of day without a date"),
    "lists of text": (replaced("features", [["a"]] * N), "give a list of numbers per unit"),
    "lists in lists": (replaced("features", [[[1.0]]] * N), "give a list of numbers per unit"),
    "no lists at all": (replaced("features", [[]] * N, pa.list_(pa.float64())), "a list of no numbers"),
    "fewer numbers": (replaced("features", [[1.0, 2.0]] * N), "2 numbers per unit in the submissions and 6 in the val"),
    "a ragged row": (replaced("features", [[1.0] * (6 - (i == 9)) for i in range(N)]), "row 9 has 5 numbers where"),
    "a NUL byte": (as_csv(cell(5, 0, "u\x005")), "a NUL byte"),
    "UTF-16": (as_csv(lambda lines: lines, "utf-16"), "it is UTF-16; save it as UTF-8"),
    "Latin-1": (as_csv(cell(5, 1, "Zoë"), "latin1"), "row 5 is not UTF-8"),
    "two columns of a name": (as_csv(lambda x: [x[0].replace("time", "identity"), *x[1:]]), "2 columns 'identity'"),
    "1e400": (as_csv(cell(5, 4, "1e400")), "'features_0', row 5 is inf; drop the row"),
    "a header alone": (as_csv(lambda lines: lines[:1]), "has no rows"),
    "an open quote": (as_csv(cell(5, 1, '"seller')), "mend the row"),
    "NaN as identity": (as_lines(5, "identity", float("nan")), "'identity' changes from string to number in row 5"),
    "a number of 400 digits": (as_lines(5, "features", [10**400] * 6), "row 5"),
    "a label of 100 bits": (as_lines(5, "label", 2**100), "row 5"),
    "an object as identity": (as_lines(5, "identity", {"a": 1}), "row 5"),
}  # fmt: skip


def empty(folder):
    (folder / "nothing").mkdir()
    return folder / "nothing"


@pytest.mark.parametrize("odd", REFUSED)
def test_what_cannot_be_used_is_refused_in_one_line(odd, tmp_path):
    make, says = REFUSED[odd]
    places = write(tmp_path / "in")
    places = make(tmp_path / "in", places) or places
    with pytest.raises(DataMarketError, match=says) as error:
        pay(places, spec(), tmp_path / "run")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run" / "manifest.json").exists()


HALVES = pa.list_(pa.float16())
TAKEN = {
    "whole floats": (replaced("identity", [float(i % 4) for i in range(N)]), {"0", "1", "2", "3"}),
    "decimals": (replaced("identity", [decimal.Decimal(i % 2) for i in range(N)]), {"0", "1"}),
    "large text": (replaced("identity", [f"s{i % 2}" for i in range(N)], pa.large_string()), {"s0", "s1"}),
    "a dictionary": (replaced("identity", pa.array([f"s{i % 2}" for i in range(N)]).dictionary_encode()), {"s0", "s1"}),
    "times with zones": (replaced("time", [DAY] * N, pa.timestamp("us", "Europe/Berlin")), None),
    "half precision": (replaced("features", [[np.float16(i)] * 6 for i in range(N)], HALVES), None),
    "one row": (lambda f, p: pq.write_table(table(units()).slice(0, 1), p.submissions), {"seller 0"}),
    "a mark of byte order": (as_csv(lambda lines: lines, "utf-8-sig"), None),
    "Windows lines": (as_csv(lambda lines: "\r\n".join(lines).encode()), None),
}  # fmt: skip


@pytest.mark.parametrize("odd", TAKEN)
def test_what_can_be_used_is_paid(odd, tmp_path):
    make, names = TAKEN[odd]
    places = write(tmp_path / "in")
    places = make(tmp_path / "in", places) or places
    pay(places, spec(), tmp_path / "run")
    assert set(payments(tmp_path / "run")) == (names or {*(f"seller {i}" for i in range(4)), "attacker"})


def spoiled(value):
    held = validation()
    held["features"][11, 2] = value
    return held


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
@pytest.mark.parametrize("whose", ["validation", "reference"])
def test_a_bad_number_among_held_rows_is_named_by_its_row_in_its_own_file(value, whose, tmp_path):
    places = write(tmp_path / "in")
    pq.write_table(table(spoiled(value)), tmp_path / f"{whose}.parquet")
    where = {"validation": places.validation, whose: tmp_path / f"{whose}.parquet"}
    with pytest.raises(SubmissionError, match=rf"{whose}\.parquet': .*'features', row 11, entry 2 is"):
        pay(Places(places.submissions, **where), spec(), tmp_path / "run")


@pytest.mark.parametrize("whose", ["validation", "reference"])
def test_so_is_one_in_an_array_beside_them(whose, tmp_path):
    places = write(tmp_path / "in")
    np.save(tmp_path / "held.npy", spoiled(np.nan)["features"])
    where = Places(
        places.submissions,
        places.validation,
        reference=places.validation if whose == "reference" else None,
    )
    with pytest.raises(SubmissionError, match=r"held\.npy': row 11, entry 2 is nan; drop the row"):
        pay(where, spec(files={f"{whose}_features": str(tmp_path / "held.npy")}), tmp_path / "run")


def test_rows_are_counted_from_0_without_the_header_in_csv_too(tmp_path):
    places = write(tmp_path / "in")
    held = validation()
    names = [f"features_{j}" for j in range(6)]
    lines = [",".join(["label", *names])]
    lines += [",".join(map(str, [held["label"][i], *held["features"][i]])) for i in range(40)]
    lines[12] = lines[12].rsplit(",", 1)[0] + ","  # line 13 of the file
    (tmp_path / "validation.csv").write_text("\n".join(lines))
    with pytest.raises(
        SubmissionError, match=r"validation\.csv': column 'features_5' is empty in row 11"
    ):
        pay(Places(places.submissions, tmp_path / "validation.csv"), spec(), tmp_path / "run")
