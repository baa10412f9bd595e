"""Tables for the tests of the page of a new payout run, in every format that people upload."""

import csv
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "payout"))

import payout_files
import pyarrow.parquet as pq

from datamarket_gym.explorer.payout.tables import Order, OrderedFile


def spread(columns):
    """The columns with features one by one, as CSV has them."""
    out = {name: list(column) for name, column in columns.items() if name != "features"}
    return out | {f"f_{j}": column.tolist() for j, column in enumerate(columns["features"].T)}


def as_csv(columns, separator=",", mark=""):
    """The columns as the text of a CSV file."""
    rows = zip(*columns.values(), strict=True)
    lines = [separator.join(map(str, line)) for line in ([*columns], *rows)]
    return mark + "\n".join(lines) + "\n"


def as_jsonl(columns):
    """The columns as JSON lines."""
    plain = {
        name: column.tolist() if hasattr(column, "tolist") else column
        for name, column in columns.items()
    }
    rows = (dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True))
    return "".join(json.dumps(row) + "\n" for row in rows)


def written(folder, submitted=None, held=None):
    """Both tables as CSV; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / "units.csv", folder / "held.csv"
    paths[0].write_text(as_csv(submitted or spread(payout_files.units())), encoding="utf-8")
    paths[1].write_text(as_csv(held or spread(payout_files.validation())), encoding="utf-8")
    return paths


def as_parquet(path, columns):
    """Write the columns as a Parquet file."""
    pq.write_table(payout_files.table(columns), path)
    return path


def order(submissions, validation, **settings):
    """An order of two tables, with dots in the names of settings written as double underscores."""
    paths = {"submissions": submissions, "validation": validation}
    values = {name.replace("__", "."): value for name, value in settings.items()}
    return Order(
        values=values | {role: str(path) for role, path in paths.items()},
        files={
            role: OrderedFile(path=str(path), name=f"my {path.name}") for role, path in paths.items()
        },
    )


def payments(path):
    """Who is paid what, from a run's payments.csv."""
    with path.open(encoding="utf-8", newline="") as file:
        return {row["identity"]: row["payment"] for row in csv.DictReader(file)}
