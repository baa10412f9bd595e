"""Whatever somebody does to a book with an SQL shell is found, on both databases; but see the last tests."""

import contextlib
import hashlib
import json
import random
import shutil
import sqlite3
from pathlib import Path

import pytest
from raw_rows import rows
from story import written

from datamarket_gym.payout.ledger.entries import LedgerError
from datamarket_gym.payout.ledger.integrity import add_checkpoint, anchored
from datamarket_gym.payout.ledger.store import open_ledger
from tampering import found, resealed, shell

START = "0" * 64


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The story as rows, and as files."""
    place = tmp_path_factory.mktemp("told") / "book.sqlite"
    written(place, place.parent / "runs")
    return place


@pytest.fixture(scope="module")
def database(postgres):
    """One database for all of these tests: making one takes longer than they do."""
    return postgres.database()


@pytest.fixture(params=["sqlite", "postgresql"])
def book(request, told, tmp_path):
    """A copy of the book; on PostgreSQL in tables that are made anew, with the rows put in by hand."""
    if request.param == "sqlite":
        for name in ("book.sqlite", "book.sqlite.seal"):
            shutil.copy(told.with_name(name), tmp_path / name)
        where = str(tmp_path / "book.sqlite")
    else:
        where = request.getfixturevalue("database")
        with shell(where) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
        open_ledger(where, new=True)
        replace(where, rows(str(told)))
    assert found(where) == ""
    return where


@contextlib.contextmanager
def unguarded(where):
    """An SQL shell with the triggers out of the way, and back in place afterwards, as if nothing had been."""
    with shell(where) as connection:
        if "://" in where:
            connection.execute("SET session_replication_role = replica")
            yield connection
        else:
            kept = list(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"))
            for name, _ in kept:
                connection.execute(f"DROP TRIGGER {name}")
            yield connection
            for _, sql in kept:
                connection.execute(sql)
    if "://" not in where:
        resealed(where)


def mark(where):
    return "%s" if "://" in where else "?"


def replace(where, changed):
    """Other rows in place of all, with a head that fits."""
    sign = mark(where)
    with unguarded(where) as connection:
        connection.execute("DELETE FROM book_entries")
        for row in changed:
            connection.execute(f"INSERT INTO book_entries VALUES ({sign}, {sign}, {sign})", row)
        connection.execute(f"UPDATE book_head SET number = {sign}, hash = {sign}", changed[-1][::2])
    if "://" not in where:
        seal = Path(f"{where}.seal")
        said = json.loads(seal.read_text())
        said["head"] = {"number": changed[-1][0], "hash": changed[-1][2]}
        seal.write_text(json.dumps(said, indent=1, sort_keys=True) + "\n")


def rechained(bodies):
    """Rows of these bodies with numbers and hashes that fit, as a forger makes them."""
    last, out = START, []
    for number, body in enumerate(bodies, 1):
        text = json.dumps({**body, "number": number}, sort_keys=True, separators=(",", ":"))
        last = hashlib.sha256(f"{last}\n{text}".encode()).hexdigest()
        out.append((number, text, last))
    return out


def bodies(where):
    return [json.loads(body) for _, body, _ in rows(where)]


def test_putting_rows_in_by_hand_as_they_were_changes_nothing(book):
    kept = rows(book)
    replace(book, kept)
    assert rows(book) == kept
    assert found(book) == ""
    assert rechained(bodies(book)) == kept  # so what the tests below forge is well made


@pytest.mark.parametrize("statement", [
    "UPDATE book_entries SET body = replace(body, '60000', '90000')",
    "UPDATE book_entries SET hash = '' WHERE number = 3",
    "UPDATE book_entries SET number = 1000 WHERE number = 3",
    "DELETE FROM book_entries WHERE number = 5",
    "DELETE FROM book_entries",
    "DELETE FROM book_head",
    "UPDATE book_head SET number = number - 1",
    "UPDATE book_head SET hash = ''",
])  # fmt: skip
def test_the_database_itself_refuses_plain_changes(book, statement):
    import psycopg

    kept = rows(book)
    with pytest.raises((sqlite3.Error, psycopg.Error)), shell(book) as connection:
        connection.execute(statement)
    assert rows(book) == kept
    assert found(book) == ""


def test_every_column_of_every_row_is_held(book):
    """With the triggers out of the way and back, and the file sealed again: one cell of one row."""
    kept, sign = rows(book), mark(book)
    draw = random.Random(1)
    for number, body, said in draw.sample(kept, 5) + kept[-1:]:
        at = draw.randrange(len(body))
        other = body[:at] + ("x" if body[at] != "x" else "y") + body[at + 1 :]
        digit = said[:9] + ("1" if said[9] != "1" else "2") + said[10:]
        for column, value in (
            ("body", other),
            ("body", ""),
            ("hash", digit),
            ("number", 10_000 + number),
        ):
            with unguarded(book) as connection:
                connection.execute(
                    f"UPDATE book_entries SET {column} = {sign} WHERE number = {sign}", (value, number)
                )
            assert "entry" in found(book), (number, column)
            replace(book, kept)
    assert found(book) == ""


FORGED = {
    "an amount": ("payment", {"amount": 90_000}),
    "a currency": ("payment", {"currency": "JPY"}),
    "a payee": ("payment", {"payee": "mallory"}),
    "a state": ("approved", {"kind": "paid"}),
    "an approver": ("approval", {"by": "S. Lund"}),
    "a time": ("approval", {"at": "2026-01-01T00:00:00.000+00:00"}),
    "a carried balance": ("carried", {"amount": 2_500}),
    "a reference": ("sent", {"content": {"batch": "0", "reference": "transfer 2"}}),
    "a reason": ("correction", {"content": {"of": 1, "why": "none"}}),
    "who is held": ("hold", {"payee": "ann"}),
    "the least amount": ("rule", {"content": {"approvals": 1}}),
}


@pytest.mark.parametrize("what", FORGED)
def test_what_an_entry_says_is_held_by_name(book, what):
    kind, other = FORGED[what]
    number, body = next((n, b) for n, b, _ in rows(book) if json.loads(b)["kind"] == kind)
    changed = json.dumps({**json.loads(body), **other}, sort_keys=True, separators=(",", ":"))
    assert changed != body
    with unguarded(book) as connection:
        sign = mark(book)
        connection.execute(
            f"UPDATE book_entries SET body = {sign} WHERE number = {sign}", (changed, number)
        )
    assert f"entry {number} of the book was changed" in found(book)


@pytest.mark.parametrize(
    "field", ["overrides", "warnings", "opening", "lines", "manifest", "places", "period"]
)
def test_what_a_draft_was_entered_with_is_held(book, field):
    number, body = next((n, json.loads(b)) for n, b, _ in rows(book) if json.loads(b)["kind"] == "draft")
    body["content"][field] = {"lines": [["ann", 100_000, 100_000, 0]]}.get(field, "other")
    with unguarded(book) as connection:
        sign = mark(book)
        connection.execute(
            f"UPDATE book_entries SET body = {sign} WHERE number = {sign}",
            (json.dumps(body, sort_keys=True, separators=(",", ":")), number),
        )
    assert f"entry {number} of the book was changed" in found(book)


def test_rows_taken_out_put_in_and_swapped_are_found(book):
    kept = rows(book)
    last = len(kept)
    forged = (last + 1, kept[3][1], kept[3][2])
    others = {
        "the first": kept[1:],
        "one in the middle": kept[:9] + kept[10:],
        "the last": kept[:-1],
        "the last, and the numbers fit": [
            (i, b, h) for i, (_, b, h) in enumerate(kept[:8] + kept[9:], 1)
        ],
        "one twice": [*kept, forged],
        "two swapped": [*kept[:4], (5, *kept[5][1:]), (6, *kept[4][1:]), *kept[6:]],
        "one put in": [*kept[:4], (5, *kept[4][1:]), *((n + 1, b, h) for n, b, h in kept[4:])],
    }
    sign = mark(book)
    for name, changed in others.items():
        with unguarded(book) as connection:  # the head stays as it was
            connection.execute("DELETE FROM book_entries")
            for row in changed:
                connection.execute(f"INSERT INTO book_entries VALUES ({sign}, {sign}, {sign})", row)
        assert found(book), name
        replace(book, kept)
        assert found(book) == ""


def test_an_approval_forged_by_plain_sql_is_found(book):
    """As the issue had it: a row that says so, put behind the last one."""
    run = next(json.loads(b)["run"] for _, b, _ in rows(book) if "july" in b)
    number, sign = len(rows(book)) + 1, mark(book)
    body = {**bodies(book)[-1], "number": number, "kind": "approved", "run": run, "by": "M. Ito"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    with shell(book) as connection:  # no trigger stands in the way of adding
        connection.execute(
            f"INSERT INTO book_entries VALUES ({sign}, {sign}, {sign})", (number, text, START)
        )
    assert found(book)
    with pytest.raises(LedgerError):
        open_ledger(book).accounts()


@pytest.mark.parametrize(
    "kind", ["approved", "payment", "paid", "draft", "sent", "bounced", "approval", "book"]
)
def test_a_second_entry_with_hashes_that_fit_is_found_since_it_cannot_follow(book, kind):
    """A second run row, a second approval, money sent twice: the forger's hashes fit, what they say does not."""
    said = bodies(book)
    twice = next(body for body in said if body["kind"] == kind)
    replace(book, rechained([*said, twice]))
    assert kind in found(book)


@pytest.mark.parametrize("book", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("kind", "other"), [
    ("payment", {"amount": 60_001}), ("payment", {"currency": "JPY"}), ("payment", {"payee": "mallory"}),
    ("approved", {"amount": 1}), ("approved", {"currency": "JPY"}), ("approval", {"by": "M. Ito"}),
    ("carried", {"amount": 2_500}), ("sent", {"amount": 1}), ("ordered", {"amount": 60_001}),
    ("fee", {"amount": -35}), ("funded", {"amount": 1_001}), ("written_off", {"amount": 500}),
    ("correction", {"content": {"of": 1, "why": "none"}}), ("bounced", {"content": {"of": 2, "why": "none"}}),
    ("draft", {"content": {}}), ("draft", {"content": {"lines": 5}}), ("rule", {"content": {}}),
    ("hold", {"kind": "unheard of"}), ("book", {"content": {"format": 99, "id": ""}}),
])  # fmt: skip
def test_what_does_not_add_up_is_found_though_hashes_fit(book, kind, other):
    said = bodies(book)
    at = next(i for i, body in enumerate(said) if body["kind"] == kind)
    replace(book, rechained([*said[:at], {**said[at], **other}, *said[at + 1 :]]))
    assert "entry" in found(book)


NONSENSE = [
    None, [], 5, {"opening": []}, {"opening": {"ann": "x"}}, {"lines": [[1, 2]]}, {"lines": {"a": 1}},
    {"lines": [["a", {}, 0, 0]]}, {"warnings": 3}, {"overrides": 3}, {"places": []}, {"checks": "x"},
    {"manifest": None}, {"kept": 1.5}, {"period": None},
]  # fmt: skip


@pytest.mark.parametrize("book", ["sqlite"], indirect=True)
@pytest.mark.parametrize("wrong", NONSENSE)
def test_nonsense_with_hashes_that_fit_is_found_without_a_traceback(book, wrong):
    said = bodies(book)
    at = next(i for i, body in enumerate(said) if body["kind"] == "draft")
    content = {**said[at]["content"], **wrong} if isinstance(wrong, dict) else wrong
    replace(book, rechained([*said[:at], {**said[at], "content": content}, *said[at + 1 :]]))
    assert f"entry {at + 1}" in found(book)


def test_an_emptied_book_with_a_head_that_fits_is_found(book):
    with unguarded(book) as connection:
        connection.execute("DELETE FROM book_entries")
        connection.execute(f"UPDATE book_head SET number = 0, hash = '{START}'")
    assert "empty" in found(book) or "seal" in found(book)


GUARDS = {
    "sqlite": [
        "DROP TRIGGER book_entries_kept",
        "DROP TRIGGER book_head_moves",
        "ALTER TABLE book_entries ADD COLUMN note TEXT",
        "CREATE TABLE other (n INTEGER)",
        "CREATE INDEX quick ON book_entries (hash)",
        "CREATE VIEW seen AS SELECT * FROM book_entries",
        "CREATE TRIGGER mine AFTER INSERT ON book_entries BEGIN SELECT 1; END",
        "DROP TABLE book_head",
        "DROP TABLE book_entries",
        "ALTER TABLE book_head RENAME COLUMN one TO two",
    ],
    "postgresql": [
        "DROP TRIGGER book_entries_stay ON book_entries",
        "DROP TRIGGER book_head_moves ON book_head",
        "ALTER TABLE book_entries DISABLE TRIGGER book_entries_stay",
        "ALTER TABLE book_entries ENABLE REPLICA TRIGGER book_entries_stay",
        "CREATE OR REPLACE FUNCTION book_entries_stay() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN RETURN NEW; END$$",
        "ALTER TABLE book_entries ADD COLUMN note TEXT",
        "ALTER TABLE book_entries ALTER COLUMN hash DROP NOT NULL",
        "ALTER TABLE book_entries ALTER COLUMN number TYPE bigint",
        "ALTER TABLE book_entries ALTER COLUMN hash SET DEFAULT ''",
        "ALTER TABLE book_entries DROP CONSTRAINT book_entries_pkey",
        "ALTER TABLE book_entries SET UNLOGGED",
        "ALTER TABLE book_entries ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY few ON book_entries USING (number < 5)",
        "CREATE INDEX quick ON book_entries (hash)",
        "CREATE TRIGGER mine AFTER INSERT ON book_entries FOR EACH ROW EXECUTE FUNCTION book_entries_stay()",
        "CREATE RULE quiet AS ON INSERT TO book_entries DO INSTEAD NOTHING",
        "CREATE TABLE child () INHERITS (book_entries)",
        "CREATE TABLE child () INHERITS (book_entries); INSERT INTO child SELECT * FROM book_entries LIMIT 1",
        "ALTER TABLE book_entries RENAME TO kept; CREATE VIEW book_entries AS SELECT * FROM kept",
        "DROP TABLE book_head",
        "DROP TABLE book_entries",
    ],
}


@pytest.mark.parametrize(
    ("book", "statement"),
    [(kind, statement) for kind, statements in GUARDS.items() for statement in statements],
    indirect=["book"],
)
def test_changed_tables_and_triggers_are_found(book, statement):
    kept = rows(book)
    with shell(book) as connection:
        connection.execute(statement)
    if "://" not in book:
        assert found(book)  # by the seal
        resealed(book)
    assert found(book)
    if "DROP TABLE" not in statement and "INSERT INTO" not in statement:
        assert rows(book) == kept  # nothing was lost by it yet


def forged(book):
    """June's payments to two people exchanged, the whole chain made anew."""
    said = bodies(book)
    names = {"ann": "ed", "ed": "ann"}

    def other(value):
        if isinstance(value, dict):
            return {names.get(k, k): other(v) for k, v in value.items()}
        return [other(v) for v in value] if isinstance(value, list) else names.get(value, value)

    return rechained([other(body) for body in said])


def test_a_history_that_is_written_anew_is_found_by_an_anchor_and_by_nothing_in_the_book(book, tmp_path):
    """What docs/book.md says that verify cannot find; whoever was given the head finds it."""
    anchors = tmp_path / "anchors.txt"
    add_checkpoint(anchors, open_ledger(book).accounts())
    assert anchored(open_ledger(book).read(), anchors)[1]
    replace(book, forged(book))
    assert found(book) == ""
    _, good, words = anchored(open_ledger(book).read(), anchors)
    assert not good
    assert "as it was anchored" in words


def test_a_book_that_was_cut_short_is_found_by_an_anchor(book, tmp_path):
    anchors = tmp_path / "anchors.txt"
    kept = rows(book)
    add_checkpoint(anchors, open_ledger(book).accounts())
    replace(
        book, kept[:-1]
    )  # the approval that nobody has seen yet: the head and the seal are made to fit
    assert found(book) == ""
    assert not anchored(open_ledger(book).read(), anchors)[1]
