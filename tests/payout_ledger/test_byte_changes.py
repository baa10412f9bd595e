"""Every single byte of a ledger's file, and of its checksum, is held: change any, and verify says so, in words."""

import random
import sqlite3
import struct
import subprocess
import sys
from contextlib import closing

import pytest
from story import written

from datamarket_gym.payout.ledger.entries import LedgerError
from datamarket_gym.payout.ledger.store import open_ledger
from tampering import found, rewrite_checksum

PAGE = 4096


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a ledger and of its checksum."""
    place = tmp_path_factory.mktemp("whole") / "ledger.sqlite"
    written(place, place.parent / "runs")
    assert found(place) == ""
    content = place.read_bytes()
    assert len(content) % PAGE == 0
    assert len(content) >= 4 * PAGE
    return content, place.with_name("ledger.sqlite.checksum").read_bytes()


@pytest.fixture
def place(tmp_path):
    return tmp_path / "ledger.sqlite"


def put(place, content, checksum):
    for left in place.parent.glob("ledger.sqlite*"):
        left.unlink()
    place.write_bytes(content)
    place.with_name("ledger.sqlite.checksum").write_bytes(checksum)


def changes(content, offsets, random):
    """At each offset one bit, and the whole byte."""
    for offset in offsets:
        for other in (content[offset] ^ (1 << random.randrange(8)), random.randrange(256)):
            if other != content[offset]:
                yield offset, content[:offset] + bytes([other]) + content[offset + 1 :]


def test_the_ledger_itself_is_good(whole, place):
    put(place, *whole)
    assert found(place) == ""


def test_every_changed_byte_of_the_header_and_of_every_page_is_found(whole, place):
    content, checksum = whole
    draw = random.Random(1)
    starts = [page + i for page in range(0, len(content), PAGE) for i in (0, 3, 5, 8, PAGE - 1)]
    for offset, changed in changes(content, [*range(100), *starts], draw):
        put(place, changed, checksum)
        assert found(place), offset


def test_changed_bytes_at_random_places_are_found(whole, place):
    content, checksum = whole
    draw = random.Random(2)
    free = [i for i in range(len(content)) if content[i : i + 16] == bytes(16)]
    assert len(free) > 500  # free space: no entry says what stands there
    offsets = [*draw.sample(range(len(content)), 120), *draw.sample(free, 40)]
    for offset, changed in changes(content, offsets, draw):
        put(place, changed, checksum)
        assert found(place), offset


def test_bytes_of_the_tables_own_text_that_are_no_text_are_found(whole, place):
    """SQLite quotes them in its errors, which can then not be read either."""
    content, checksum = whole
    start = content.index(b"CREATE TABLE")
    assert start < PAGE
    for offset in range(start - 40, PAGE, 6):
        put(place, content[:offset] + bytes([content[offset] ^ 128]) + content[offset + 1 :], checksum)
        assert found(place), offset


@pytest.mark.slow
def test_every_byte_there_is(whole, place):
    content, checksum = whole
    for offset, changed in changes(content, range(len(content)), random.Random(3)):
        put(place, changed, checksum)
        assert found(place), offset


def test_every_changed_byte_of_the_seal_is_found(whole, place):
    content, checksum = whole
    for offset, changed in changes(checksum, range(len(checksum)), random.Random(4)):
        put(place, content, changed)
        assert found(place), offset


def test_bytes_that_say_something_are_found_by_the_chain_too(whole, place):
    """A forger who knows of the checksum makes it anew: then the chain finds what was said otherwise."""
    content, checksum = whole
    put(place, *whole)
    bodies = [row[0] for row in open_rows(place)]
    draw = random.Random(5)
    for body in bodies:
        start = content.find(body.encode())
        if start < 0:  # a long one lies on several pages
            start, body = content.find(body.encode()[:300]), body[:300]
        assert start >= 0
        offset = start + draw.randrange(len(body.encode()))
        for _, changed in changes(content, [offset], draw):
            put(place, changed, checksum)
            rewrite_checksum(place)
            assert "ledger" in found(place), offset


def open_rows(place):
    with closing(sqlite3.connect(place)) as connection:
        return connection.execute("SELECT body FROM ledger_entries").fetchall()


def test_cut_extended_emptied_and_reordered_files_are_found(whole, place):
    content, checksum = whole
    pages = [content[i : i + PAGE] for i in range(0, len(content), PAGE)]
    swapped = [*pages[:1], *pages[2:3], *pages[1:2], *pages[3:]]
    others = {
        "emptied": b"",
        "one byte": content[:1],
        "cut by a byte": content[:-1],
        "cut by a page": content[:-PAGE],
        "the first page alone": content[:PAGE],
        "extended by a byte": content + b"\0",
        "extended by a page": content + bytes(PAGE),
        "pages swapped": b"".join(swapped),
        "a page twice": b"".join([*pages[:-1], pages[-2]]),
        "only zeros": bytes(len(content)),
        "a text": b"no ledger at all\n" * 1000,
    }
    for name, other in others.items():
        put(place, other, checksum)
        assert found(place), name
        for left in (b"", b"\n", b"{}\n", checksum[:-1], checksum[:40], checksum + b"\n", b"\xff" * 90):
            put(place, content, left)
            assert found(place), left
    put(place, *whole)
    place.with_name("ledger.sqlite.checksum").unlink()
    assert "checksum" in found(place)


def test_an_old_journal_beside_it_does_not_take_the_ledger_back_unseen(whole, place):
    """SQLite undoes what a killed process was writing from a journal: a forged one would undo entries."""
    content = whole[0]
    put(place, *whole)
    count = len(open_rows(place))
    before = bytearray(content)
    before[PAGE * 2 : PAGE * 3] = content[PAGE * 3 : PAGE * 4]
    nonce = 7
    journal = struct.pack(
        ">8sIIIII", b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7", 1, nonce, len(content) // PAGE, 512, PAGE
    ).ljust(512, b"\0")
    page = bytes(before[PAGE * 2 : PAGE * 3])
    checksum = (nonce + sum(page[i] for i in range(PAGE - 200, 0, -200))) & 0xFFFFFFFF
    journal += struct.pack(">I", 3) + page + struct.pack(">I", checksum)
    place.with_name("ledger.sqlite-journal").write_bytes(journal)
    assert found(place)
    put(place, *whole)
    assert len(open_rows(place)) == count


def test_an_older_copy_with_the_newer_seal_is_found(tmp_path):
    place = tmp_path / "ledger.sqlite"
    clerk = written(place, tmp_path / "runs")
    older = place.read_bytes()
    clerk.fee("ann", "EUR", 1)
    checksum = place.with_name("ledger.sqlite.checksum").read_bytes()
    put(place, older, checksum)
    assert "not as it was left" in found(place)
    rewrite_checksum(place)
    assert "its checksum says otherwise" in found(place)


def test_the_command_line_ends_with_1_and_without_a_traceback(whole, place):
    content, checksum = whole
    program = [sys.executable, "-c", "from datamarket_gym.cli import main; main()", "verify", str(place)]
    last = len(content) - 1  # of an entry; 17 is what SQLite itself does not take
    for changed, code in ((content, 0), (flipped(content, 17), 1), (flipped(content, last), 1)):
        put(place, changed, checksum)
        done = subprocess.run(program, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stdout + done.stderr
        assert not code or str(place) in "".join((done.stdout + done.stderr).split())


def flipped(content, offset):
    return content[:offset] + bytes([content[offset] ^ 64]) + content[offset + 1 :]


def test_what_was_found_is_not_written_to(whole, place):
    """No command adds to a ledger that is not as it was left."""
    content, checksum = whole
    changed = flipped(content, len(content) - 1)
    put(place, changed, checksum)
    with pytest.raises(LedgerError, match="not as it was left"), open_ledger(place).transaction():
        pytest.fail("it can be written to")
    assert place.read_bytes() == changed
