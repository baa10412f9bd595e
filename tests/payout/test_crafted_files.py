"""Crafted files of a run: every command answers in one line, and nothing in a file is ever unpickled."""

import copy
import hashlib
import io
import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from payout_files import copied, run
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.payout.ledger.transactions import charge, correct
from datamarket_gym.payout.money import Currency

COMMANDS = {
    "verify": ["verify", "RUN"],
    "explain": ["explain", "RUN", "--payee", "seller 1"],
    "against": ["explain", "RUN", "--against", "OTHER"],
    "statements": ["statements", "RUN"],
    "show": ["ledger", "show", "RUN"],
    "approve": ["ledger", "approve", "RUN"],
    "export": ["export", "RUN", "--format", "csv", "--out", "OUT"],
    "sample": ["check", "sample", "RUN"],
    "dispute": ["dispute", "open", "RUN", "--payee", "seller 1", "--about", "wrong"],
}
GONE = object()
CHANGES = {
    "manifest.json": [
        (("run",), None), (("run",), GONE), (("run",), 10**400), (("spec",), []), (("spec",), GONE),
        (("spec", "checks"), "\ud800"), (("spec", "checks"), -1), (("spec", "beacon"), 1.5),
        (("spec", "columns"), None), (("spec", "period"), ["x"]), (("spec", "amount"), math.nan),
        (("spec", "amount"), True), (("spec", "learner"), "sklearn@os.system"), (("spec", "seed"), 10**400),
        (("interval",), -1), (("interval",), GONE), (("interval", "level"), None), (("interval", "level"), math.inf),
        (("inputs",), []), (("inputs", "submissions"), "x"), (("inputs", "submissions", "name"), GONE),
        (("outputs",), {}), (("outputs", "payments.csv"), [1]), (("versions",), {}), (("contents", "least"), {}),
        (("overrides",), {"a": 1}), (("overrides",), [{}]), (("opening_balances",), {"seller 1": "x"}),
        (("settles",), {"run": 1}), (("units",), "x" * 100_000), (("amount",), True), (("currency",), "EURO"),
        (("acquired",), [{"run": None}]), (("mechanism",), None), (("paid_for",), None), (("format",), 2),
    ],
    "ledger.json": [
        (("ledger",), None), (("ledger",), "x" * 100_000), (("ledger",), "\x00"), (("ledger",), ""),
        (("number",), True), (("number",), 10**400), (("number",), -1), (("tip",), []), (("tip",), GONE),
    ],
    "warnings.json": [((0,), None), ((0, "name"), 1), ((0, "items"), "x"), ((0,), GONE)],
}  # fmt: skip
CONTENTS = {
    "empty": b"", "Latin-1": b"\xff\xfe{", "deep": b"[" * 100_000, "deep objects": b'{"a":' * 100_000,
    "number": b"1", "null": b"null", "list": b"[]", "text": b'"x"', "zeros": b"\0" * 10, "digits": b"1" * 5000,
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return run(tmp_path_factory.mktemp("crafted"))


def answers(run, other, names=COMMANDS):
    """Give each command, and check that it ends well or with an error of ours in one line."""
    for name in names:
        known = {"RUN": run, "OUT": run.parent / "out.csv", "OTHER": other}
        result = CliRunner().invoke(app, [str(known.get(word, word)) for word in COMMANDS[name]])
        said = result.exception
        assert said is None or isinstance(said, DataMarketError | SystemExit), (name, said)
        assert "\n" not in str(said) or "--accept" in str(said)  # which lists the warnings


def changed(content, way, value):
    content = copy.deepcopy(content)
    inner = content
    for key in way[:-1]:
        inner = inner[key]
    if value is GONE:
        del inner[way[-1]]
    else:
        inner[way[-1]] = value
    return content


CASES = [(name, *change) for name, changes in CHANGES.items() for change in changes]


@pytest.mark.parametrize("part", range(7))
def test_a_changed_document_is_an_error_in_one_line(folder, tmp_path, part):
    for number, (name, way, value) in enumerate(CASES[part::7]):
        crafted = copied(folder, tmp_path / str(number))
        content = json.loads((crafted / name).read_text())
        if isinstance(content, list) and not content:
            continue
        (crafted / name).write_text(json.dumps(changed(content, way, value)))
        # Two commands that read all, and one more by turns.
        answers(crafted, folder, ["verify", "statements", list(COMMANDS)[number % len(COMMANDS)]])


@pytest.mark.parametrize("name", CHANGES)
def test_a_document_that_is_none_is_an_error_in_one_line(folder, tmp_path, name):
    for number, content in enumerate(CONTENTS.values()):
        crafted = copied(folder, tmp_path / str(number))
        (crafted / name).write_bytes(content)
        answers(crafted, folder, ["verify", "show", list(COMMANDS)[number % len(COMMANDS)]])


def fitted(folder, name, content):
    """Write an output, and a manifest that says it is as it was written."""
    (folder / name).write_bytes(content)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["outputs"][name] = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of numbers that are none
@pytest.mark.parametrize("column", ["identity", "payment", "score", "units"])
def test_a_crafted_table_is_an_error_in_one_line(folder, tmp_path, column):
    table = pq.read_table(folder / "payments.parquet")
    at, rows = table.column_names.index(column), len(table)
    columns = [["\u202ex"] * rows, [None] * rows, [2**62] * rows, [math.nan] * rows]
    tables = [table.drop_columns([column]), table.slice(0, 0), pa.concat_tables([table, table])]
    for number, crafted in enumerate([*tables, *(table.set_column(at, column, [c]) for c in columns)]):
        run, file = copied(folder, tmp_path / str(number)), io.BytesIO()
        pq.write_table(crafted, file)
        fitted(run, "payments.parquet", file.getvalue())
        answers(run, folder, ["explain", "sample", "statements"])


class Pickled:
    def __reduce__(self):
        import pathlib

        return pathlib.Path.touch, (Pickled.mark,)


def test_no_record_is_unpickled(folder, tmp_path):
    Pickled.mark = tmp_path / "unpickled"
    for name in ("needs.npz", "records/scores.npz", "records/owned_units.npz", "records/nearest.npz"):
        run, file = copied(folder, tmp_path / name.replace("/", "-")), io.BytesIO()
        with np.load(folder / name) as record:
            arrays = dict(record)
        np.savez(
            file,
            allow_pickle=True,
            **dict.fromkeys(arrays or ["x"], np.array([Pickled()], dtype=object)),
        )
        fitted(run, name, file.getvalue())
        answers(run, folder, ["verify", "explain", "statements", "sample"])
    assert not Pickled.mark.exists()


@pytest.mark.parametrize(
    "amount", [True, False, 1.0, math.nan, math.inf, b"100", None, [1], "1e3", "NaN", "\u0661\u0660"]
)
def test_what_is_no_amount_is_refused_by_name(folder, amount):
    from payout_files import spec

    from datamarket_gym.payout.ledger.runs import ledger_of

    with pytest.raises(ParameterError, match="amount"):
        Currency("EUR").minor(amount)
    with pytest.raises(ParameterError, match="amount"):
        spec(amount=amount)
    ledger = ledger_of(folder)
    number = ledger.accounts().number
    with pytest.raises(ParameterError, match="amount"):
        charge(ledger, "seller 1", amount, "EUR", "a fee")
    with pytest.raises(ParameterError, match="amount"):
        correct(ledger, "seller 1", amount, 2, "a mistake")
    assert ledger.accounts().number == number
