"""Every change of a log is found: of any byte of its file, of any row of its table, of its guards."""

import random

import pytest
from intake_files import digest, digests, story

from datamarket_gym.payout.intake import enter_batch, read_arrivals
from datamarket_gym.payout.ledger.store import open_ledger
from tampering import found, rewrite_checksum, shell

PAGE = 4096


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a log and of its checksum."""
    place = tmp_path_factory.mktemp("whole") / "log.sqlite"
    story(place)
    assert found(place) == ""
    return place.read_bytes(), place.with_name("log.sqlite.checksum").read_bytes()


@pytest.fixture
def place(tmp_path):
    return tmp_path / "log.sqlite"


def put(place, content, checksum):
    for left in place.parent.glob("log.sqlite*"):
        left.unlink()
    place.write_bytes(content)
    place.with_name("log.sqlite.checksum").write_bytes(checksum)


def changed(content, offset, draw):
    for other in (content[offset] ^ (1 << draw.randrange(8)), draw.randrange(256)):
        if other != content[offset]:
            yield content[:offset] + bytes([other]) + content[offset + 1 :]


def require_found(whole, place, offsets, seed):
    content, checksum = whole
    draw = random.Random(seed)
    for offset in offsets:
        for other in changed(content, offset, draw):
            put(place, other, checksum)
            assert found(place), offset


def test_changed_bytes_of_every_page_are_found(whole, place):
    content = whole[0]
    pages = [page + i for page in range(0, len(content), PAGE) for i in (0, 3, 5, 8, PAGE - 1)]
    draw = random.Random(1)
    require_found(whole, place, [*range(0, 100, 3), *pages, *draw.sample(range(len(content)), 100)], 2)


@pytest.mark.slow
def test_every_byte_there_is(whole, place):
    require_found(whole, place, range(len(whole[0])), 3)


def test_bytes_of_every_digest_are_found_by_the_hashes_too(whole, place):
    """A forger who knows of the checksum makes it anew: then the hashes in the chain find it."""
    content, checksum = whole
    draw = random.Random(4)
    for batch in (digests(0, 1, 2, 3, 4), digests(7, 5), digests(5, 6, 7)):
        raw = b"".join(batch)
        start = content.index(raw)
        for offset in range(start, start + len(raw), 5):
            put(place, next(changed(content, offset, draw)), checksum)
            rewrite_checksum(place)
            assert "their hash is not the one in it" in found(place), offset


def unguarded(where, statement, values=()):
    """Do what the triggers refuse, as somebody who may drop them and puts them back does."""
    with shell(where) as connection:
        if "://" in where:
            connection.execute("ALTER TABLE ledger_digests DISABLE TRIGGER USER")
            connection.execute(statement.replace("?", "%s"), values)
            connection.execute("ALTER TABLE ledger_digests ENABLE TRIGGER USER")
        else:
            of_digests = "type = 'trigger' AND tbl_name = 'ledger_digests'"
            guards = list(connection.execute(f"SELECT name, sql FROM sqlite_master WHERE {of_digests}"))
            for name, _ in guards:
                connection.execute(f"DROP TRIGGER {name}")
            connection.execute(statement, values)
            for _, sql in guards:
                connection.execute(sql)
    if "://" not in where:
        assert "not as it was left" in found(where)
        rewrite_checksum(where)


FORGED = [
    ("UPDATE ledger_digests SET digests = ? WHERE number = 2", [digest(9) * 5], "entry 2 were changed"),
    ("UPDATE ledger_digests SET digests = ? WHERE number = 4", [digest(7)], "entry 4 were changed"),
    ("UPDATE ledger_digests SET digests = ? WHERE number = 4", [digest(5) + digest(7)], "entry 4 were changed"),
    (
        "UPDATE ledger_digests SET digests = ? WHERE number = 4",
        [b"".join(digests(7, 5)) + b"\0"],
        "entry 4 were changed",
    ),
    ("UPDATE ledger_digests SET digests = ? WHERE number = 4", [b""], "entry 4 were changed"),
    ("DELETE FROM ledger_digests WHERE number = 3", [], "entry 3 are gone"),
    ("DELETE FROM ledger_digests", [], "entry 2 are gone"),
    ("INSERT INTO ledger_digests VALUES (1, ?)", [digest(8)], "digests for entry 1"),
    ("INSERT INTO ledger_digests VALUES (99, ?)", [digest(8)], "digests for entry 99"),
    ("UPDATE ledger_digests SET number = 5 WHERE number = 2", [], "digests for entry 5"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "values", "words"), FORGED)
def test_changed_rows_are_found(where, statement, values, words):
    story(where)
    unguarded(where, statement, values)
    assert words in found(where)


@pytest.mark.parametrize("value", ["text", 160, 1.5])
def test_what_is_no_bytes_is_found(tmp_path, value):
    """SQLite holds anything in any column."""
    where = str(tmp_path / "log.sqlite")
    story(where)
    unguarded(where, "UPDATE ledger_digests SET digests = ? WHERE number = 2", [value])
    assert "entry 2 are no bytes" in found(where)


def test_what_was_changed_is_not_paid_by(where):
    """Whoever asks when units arrived is told, and not given another answer."""
    ledger = story(where)
    unguarded(where, "UPDATE ledger_digests SET digests = ? WHERE number = 4", [b"".join(digests(0, 1))])
    with pytest.raises(Exception, match="entry 4 were changed"):
        read_arrivals(ledger).time_of(["cem"], digests(0))


def test_the_guards_let_nobody_change_take_out_or_slip_in(where):
    story(where)
    for statement in (
        "UPDATE ledger_digests SET digests = digests",
        "DELETE FROM ledger_digests",
        "INSERT INTO ledger_digests VALUES (3, 'x')",
        "INSERT INTO ledger_digests VALUES (99, 'x')",
        "TRUNCATE ledger_digests"
        if "://" in where
        else "INSERT OR REPLACE INTO ledger_digests VALUES (4, 'x')",
    ):
        with pytest.raises(Exception, match="only added"), shell(where) as connection:
            connection.execute(statement)
    assert found(where) == ""


GUARDS = {
    "sqlite": [
        "DROP TRIGGER ledger_digests_kept",
        "DROP TRIGGER ledger_digests_stay",
        "DROP TRIGGER ledger_digests_follow",
        "DROP TABLE ledger_digests",
        "ALTER TABLE ledger_digests RENAME TO kept",
        "ALTER TABLE ledger_digests ADD COLUMN more",
        "CREATE INDEX quick ON ledger_digests (digests)",
    ],
    "postgresql": [
        "DROP TRIGGER ledger_digests_stay ON ledger_digests",
        "DROP TRIGGER ledger_digests_emptied ON ledger_digests",
        "ALTER TABLE ledger_digests DISABLE TRIGGER ALL",
        "DROP TABLE ledger_digests",
        "DROP TABLE ledger_digests; DROP FUNCTION ledger_digests_stay",
        "ALTER TABLE ledger_digests RENAME TO kept",
        "ALTER TABLE ledger_digests ADD COLUMN more int",
        "ALTER TABLE ledger_digests SET UNLOGGED",
        "CREATE OR REPLACE FUNCTION ledger_digests_stay() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN "
        "RETURN NEW; END$$",
        "CREATE RULE quiet AS ON INSERT TO ledger_digests DO INSTEAD NOTHING",
        "CREATE TABLE child () INHERITS (ledger_digests)",
    ],
}


@pytest.mark.parametrize(("kind", "statement"), [(k, s) for k, some in GUARDS.items() for s in some])
def test_changed_guards_are_found(kind, statement, tmp_path, request):
    where = (
        str(tmp_path / "log.sqlite") if kind == "sqlite" else request.getfixturevalue("postgres_ledger")
    )
    story(where)
    with shell(where) as connection:
        connection.execute(statement)
    if kind == "sqlite":
        rewrite_checksum(where)
    assert found(where)


def test_nothing_is_added_to_a_log_that_was_changed(whole, place):
    content, checksum = whole
    put(place, content[:-1] + bytes([content[-1] ^ 64]), checksum)
    with pytest.raises(Exception, match="not as it was left"):
        enter_batch(open_ledger(place), "eve", digests(1), "text")
