"""Whatever somebody does to a ledger with an SQL shell is found, on both databases; but see the last tests."""

import contextlib
import hashlib
import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from raw_rows import rows
from story import written

from datamarket_gym.payout.ledger.entries import LedgerError
from datamarket_gym.payout.ledger.store import add_checkpoint, check_checkpoints, open_ledger
from tampering import found, rewrite_checksum, shell

START = "0" * 64


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The story as rows, and as files."""
    place = tmp_path_factory.mktemp("told") / "ledger.sqlite"
    written(place, place.parent / "runs")
    return place


@pytest.fixture(scope="module")
def database(postgres):
    """One database for all of these tests: making one takes longer than they do."""
    return postgres.database()


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request, told, tmp_path):
    """A copy of the ledger; on PostgreSQL in tables that are made anew, with the rows put in by hand."""
    if request.param == "sqlite":
        for name in ("ledger.sqlite", "ledger.sqlite.checksum"):
            shutil.copy(told.with_name(name), tmp_path / name)
        where = str(tmp_path / "ledger.sqlite")
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
        rewrite_checksum(where)


def mark(where):
    return "%s" if "://" in where else "?"


def replace(where, changed):
    """Other rows in place of all, with a tip that fits."""
    sign = mark(where)
    with unguarded(where) as connection:
        connection.execute("DELETE FROM ledger_entries")
        for row in changed:
            connection.execute(f"INSERT INTO ledger_entries VALUES ({sign}, {sign}, {sign})", row)
        connection.execute(f"UPDATE ledger_tip SET number = {sign}, hash = {sign}", changed[-1][::2])
    if "://" not in where:
        checksum = Path(f"{where}.checksum")
        said = json.loads(checksum.read_text())
        said["tip"] = {"number": changed[-1][0], "hash": changed[-1][2]}
        checksum.write_text(json.dumps(said, indent=1, sort_keys=True) + "\n")


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


def test_putting_rows_in_by_hand_as_they_were_changes_nothing(ledger):
    kept = rows(ledger)
    replace(ledger, kept)
    assert rows(ledger) == kept
    assert found(ledger) == ""
    assert rechained(bodies(ledger)) == kept  # so what the tests below forge is well made


@pytest.mark.parametrize("statement", [
    "UPDATE ledger_entries SET body = replace(body, '60000', '90000')",
    "UPDATE ledger_entries SET hash = '' WHERE number = 3",
    "UPDATE ledger_entries SET number = 1000 WHERE number = 3",
    "DELETE FROM ledger_entries WHERE number = 5",
    "DELETE FROM ledger_entries",
    "DELETE FROM ledger_tip",
    "UPDATE ledger_tip SET number = number - 1",
    "UPDATE ledger_tip SET hash = ''",
])  # fmt: skip
def test_the_database_itself_refuses_plain_changes(ledger, statement):
    import psycopg

    kept = rows(ledger)
    with pytest.raises((sqlite3.Error, psycopg.Error)), shell(ledger) as connection:
        connection.execute(statement)
    assert rows(ledger) == kept
    assert found(ledger) == ""


def leaves(value, path=()):
    """The paths to all plain values in a body."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[key], (*path, key))
    else:
        yield path


def with_leaf(value, path, leaf):
    """A body with another value at a path."""
    if not path:
        return leaf
    changed = value.copy()
    changed[path[0]] = with_leaf(value[path[0]], path[1:], leaf)
    return changed


PLAIN = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text('abc 019"é', max_size=6)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_change_of_any_field_of_any_entry_is_found(ledger, data):
    """With the triggers out of the way and back, and the file checksummed again."""
    kept, sign = rows(ledger), mark(ledger)
    number, body, hash_ = data.draw(st.sampled_from(kept))
    column = data.draw(st.sampled_from(["body"] * 6 + ["hash", "number"]))
    if column == "body":
        fields = json.loads(body)
        path = data.draw(st.sampled_from(list(leaves(fields))))
        changed = with_leaf(fields, path, data.draw(PLAIN))
        value = json.dumps(changed, sort_keys=True, separators=(",", ":"))
    elif column == "hash":
        value = data.draw(st.text("0123456789abcdef", min_size=64, max_size=64) | st.just(""))
    else:
        value = data.draw(st.integers(len(kept) + 1, 10**6))
    assume(value != {"body": body, "hash": hash_, "number": number}[column])
    with unguarded(ledger) as connection:
        connection.execute(
            f"UPDATE ledger_entries SET {column} = {sign} WHERE number = {sign}", (value, number)
        )
    words = found(ledger)
    replace(ledger, kept)
    assert "entry" in words


def test_rows_taken_out_put_in_and_swapped_are_found(ledger):
    kept = rows(ledger)
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
    sign = mark(ledger)
    for name, changed in others.items():
        with unguarded(ledger) as connection:  # the tip stays as it was
            connection.execute("DELETE FROM ledger_entries")
            for row in changed:
                connection.execute(f"INSERT INTO ledger_entries VALUES ({sign}, {sign}, {sign})", row)
        assert found(ledger), name
        replace(ledger, kept)
        assert found(ledger) == ""


def test_an_approval_forged_by_plain_sql_is_found(ledger):
    """As the issue had it: a row that says so, put behind the last one."""
    run = next(json.loads(b)["run"] for _, b, _ in rows(ledger) if "july" in b)
    number, sign = len(rows(ledger)) + 1, mark(ledger)
    body = {**bodies(ledger)[-1], "number": number, "kind": "approved", "run": run, "by": "M. Ito"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    with shell(ledger) as connection:  # no trigger stands in the way of adding
        connection.execute(
            f"INSERT INTO ledger_entries VALUES ({sign}, {sign}, {sign})", (number, text, START)
        )
    assert found(ledger)
    with pytest.raises(LedgerError):
        open_ledger(ledger).accounts()


@pytest.mark.parametrize(
    "kind", ["approved", "payment", "paid", "draft", "sent", "bounced", "approval", "opened"]
)
def test_a_second_entry_with_hashes_that_fit_is_found_since_it_cannot_follow(ledger, kind):
    """A second run row, a second approval, money sent twice: the forger's hashes fit, what they say does not."""
    said = bodies(ledger)
    twice = next(body for body in said if body["kind"] == kind)
    replace(ledger, rechained([*said, twice]))
    assert kind in found(ledger)


@pytest.mark.parametrize("ledger", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("kind", "other"), [
    ("payment", {"amount": 60_001}), ("payment", {"currency": "JPY"}), ("payment", {"payee": "mallory"}),
    ("approved", {"amount": 1}), ("approved", {"currency": "JPY"}), ("approval", {"by": "M. Ito"}),
    ("carried_forward", {"amount": 2_500}), ("sent", {"amount": 1}), ("ordered", {"amount": 60_001}),
    ("fee", {"amount": -35}), ("funded", {"amount": 1_001}), ("written_off", {"amount": 500}),
    ("correction", {"content": {"of": 1, "why": "none"}}), ("bounced", {"content": {"of": 2, "why": "none"}}),
    ("draft", {"content": {}}), ("draft", {"content": {"lines": 5}}), ("rule", {"content": {}}),
    ("hold", {"kind": "unheard of"}), ("opened", {"content": {"format": 99, "id": ""}}),
])  # fmt: skip
def test_what_does_not_add_up_is_found_though_hashes_fit(ledger, kind, other):
    said = bodies(ledger)
    at = next(i for i, body in enumerate(said) if body["kind"] == kind)
    replace(ledger, rechained([*said[:at], {**said[at], **other}, *said[at + 1 :]]))
    assert "entry" in found(ledger)


NONSENSE = [
    None, [], 5, {"opening": []}, {"opening": {"ann": "x"}}, {"lines": [[1, 2]]}, {"lines": {"a": 1}},
    {"lines": [["a", {}, 0, 0]]}, {"warnings": 3}, {"overrides": 3}, {"places": []}, {"checks": "x"},
    {"manifest": None}, {"kept": 1.5}, {"period": None},
]  # fmt: skip


@pytest.mark.parametrize("ledger", ["sqlite"], indirect=True)
@pytest.mark.parametrize("wrong", NONSENSE)
def test_nonsense_with_hashes_that_fit_is_found_without_a_traceback(ledger, wrong):
    said = bodies(ledger)
    at = next(i for i, body in enumerate(said) if body["kind"] == "draft")
    content = {**said[at]["content"], **wrong} if isinstance(wrong, dict) else wrong
    replace(ledger, rechained([*said[:at], {**said[at], "content": content}, *said[at + 1 :]]))
    assert f"entry {at + 1}" in found(ledger)


def test_an_emptied_ledger_with_a_head_that_fits_is_found(ledger):
    with unguarded(ledger) as connection:
        connection.execute("DELETE FROM ledger_entries")
        connection.execute(f"UPDATE ledger_tip SET number = 0, hash = '{START}'")
    assert "empty" in found(ledger) or "checksum" in found(ledger)


GUARDS = {
    "sqlite": [
        "DROP TRIGGER ledger_entries_kept",
        "DROP TRIGGER ledger_tip_moves",
        "ALTER TABLE ledger_entries ADD COLUMN note TEXT",
        "CREATE TABLE other (n INTEGER)",
        "CREATE INDEX quick ON ledger_entries (hash)",
        "CREATE VIEW seen AS SELECT * FROM ledger_entries",
        "CREATE TRIGGER mine AFTER INSERT ON ledger_entries BEGIN SELECT 1; END",
        "DROP TABLE ledger_tip",
        "DROP TABLE ledger_entries",
        "ALTER TABLE ledger_tip RENAME COLUMN one TO two",
    ],
    "postgresql": [
        "DROP TRIGGER ledger_entries_stay ON ledger_entries",
        "DROP TRIGGER ledger_tip_moves ON ledger_tip",
        "ALTER TABLE ledger_entries DISABLE TRIGGER ledger_entries_stay",
        "ALTER TABLE ledger_entries ENABLE REPLICA TRIGGER ledger_entries_stay",
        "CREATE OR REPLACE FUNCTION ledger_entries_stay() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN RETURN NEW; END$$",
        "ALTER TABLE ledger_entries ADD COLUMN note TEXT",
        "ALTER TABLE ledger_entries ALTER COLUMN hash DROP NOT NULL",
        "ALTER TABLE ledger_entries ALTER COLUMN number TYPE bigint",
        "ALTER TABLE ledger_entries ALTER COLUMN hash SET DEFAULT ''",
        "ALTER TABLE ledger_entries DROP CONSTRAINT ledger_entries_pkey",
        "ALTER TABLE ledger_entries SET UNLOGGED",
        "ALTER TABLE ledger_entries ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY few ON ledger_entries USING (number < 5)",
        "CREATE INDEX quick ON ledger_entries (hash)",
        "CREATE TRIGGER mine AFTER INSERT ON ledger_entries FOR EACH ROW EXECUTE FUNCTION ledger_entries_stay()",
        "CREATE RULE quiet AS ON INSERT TO ledger_entries DO INSTEAD NOTHING",
        "CREATE TABLE child () INHERITS (ledger_entries)",
        "CREATE TABLE child () INHERITS (ledger_entries); INSERT INTO child SELECT * FROM ledger_entries LIMIT 1",
        "ALTER TABLE ledger_entries RENAME TO kept; CREATE VIEW ledger_entries AS SELECT * FROM kept",
        "DROP TABLE ledger_tip",
        "DROP TABLE ledger_entries",
    ],
}


@pytest.mark.parametrize(
    ("ledger", "statement"),
    [(kind, statement) for kind, statements in GUARDS.items() for statement in statements],
    indirect=["ledger"],
)
def test_changed_tables_and_triggers_are_found(ledger, statement):
    kept = rows(ledger)
    with shell(ledger) as connection:
        connection.execute(statement)
    if "://" not in ledger:
        assert found(ledger)  # by the checksum
        rewrite_checksum(ledger)
    assert found(ledger)
    if "DROP TABLE" not in statement and "INSERT INTO" not in statement:
        assert rows(ledger) == kept  # nothing was lost by it yet


def forged(ledger):
    """June's payments to two people exchanged, the whole chain made anew."""
    said = bodies(ledger)
    names = {"ann": "ed", "ed": "ann"}

    def other(value):
        if isinstance(value, dict):
            return {names.get(k, k): other(v) for k, v in value.items()}
        return [other(v) for v in value] if isinstance(value, list) else names.get(value, value)

    return rechained([other(body) for body in said])


def test_a_history_that_is_written_anew_is_found_by_an_anchor_and_by_nothing_in_the_ledger(
    ledger, tmp_path
):
    """What docs/ledger.md says that verify cannot find; whoever was given the tip finds it."""
    checkpoints = tmp_path / "checkpoints.txt"
    add_checkpoint(checkpoints, open_ledger(ledger).accounts())
    assert check_checkpoints(open_ledger(ledger).read(), checkpoints)[1]
    replace(ledger, forged(ledger))
    assert found(ledger) == ""
    _, good, words = check_checkpoints(open_ledger(ledger).read(), checkpoints)
    assert not good
    assert "of the checkpoint" in words


def test_a_ledger_that_was_cut_short_is_found_by_an_anchor(ledger, tmp_path):
    checkpoints = tmp_path / "checkpoints.txt"
    kept = rows(ledger)
    add_checkpoint(checkpoints, open_ledger(ledger).accounts())
    replace(
        ledger, kept[:-1]
    )  # the approval that nobody has seen yet: the tip and the checksum are made to fit
    assert found(ledger) == ""
    assert not check_checkpoints(open_ledger(ledger).read(), checkpoints)[1]
