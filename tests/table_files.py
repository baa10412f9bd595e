"""The same table in every format that can hold it."""

import csv
import gzip
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import feather

LISTS = (
    "parquet",
    "arrow",
    "feather",
    "stream.arrow",
    "jsonl",
    "ndjson",
    "jsonl.gz",
    "JSONL",
    "Parquet",
)
SPREAD = ("csv", "tsv", "csv.gz", "tsv.gz", "CSV", "semicolons.csv", "tabs.csv", "mark.csv", "crlf.csv")


def spread(columns):
    """Matrices as numbered columns."""
    out = {}
    for name, column in columns.items():
        if np.ndim(column) == 2:
            out.update({f"{name}_{j}": part for j, part in enumerate(np.transpose(column).tolist())})
        else:
            out[name] = column
    return out


def delimited(columns, separator=",", line="\n"):
    columns = spread(columns)
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, lineterminator=line)
    writer.writerow(columns)
    writer.writerows(zip(*(np.asarray(c, dtype=object).tolist() for c in columns.values()), strict=True))
    return out.getvalue().encode()


def lines(columns):
    rows = zip(*(np.asarray(c, dtype=object).tolist() for c in columns.values()), strict=True)
    return "".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows).encode()


def arrow(columns):
    return pa.table({n: list(c) if np.ndim(c) == 2 else pa.array(c) for n, c in columns.items()})


def write(folder, ending, columns):
    """A file of that ending (see LISTS and SPREAD) that holds the columns."""
    path = folder / f"units.{ending}"
    match ending.lower().removesuffix(".gz").rpartition(".")[2]:
        case "parquet":
            pq.write_table(arrow(columns), path, row_group_size=7)
        case "feather":
            feather.write_feather(arrow(columns), path)
        case "arrow" if ending == "stream.arrow":
            with (
                pa.OSFile(str(path), "wb") as file,
                pa.ipc.new_stream(file, arrow(columns).schema) as out,
            ):
                out.write_table(arrow(columns), max_chunksize=3)
        case "arrow":
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, arrow(columns).schema) as out:
                out.write_table(arrow(columns), max_chunksize=3)
        case "jsonl" | "ndjson":
            path.write_bytes(zipped(ending, lines(columns)))
        case "tsv":
            path.write_bytes(zipped(ending, delimited(columns, "\t")))
        case _:
            separator = {"semicolons.csv": ";", "tabs.csv": "\t"}.get(ending, ",")
            data = delimited(columns, separator, "\r\n" if ending == "crlf.csv" else "\n")
            path.write_bytes(zipped(ending, b"\xef\xbb\xbf" * (ending == "mark.csv") + data))
    return path


def zipped(ending, data):
    return gzip.compress(data) if ending.endswith(".gz") else data
