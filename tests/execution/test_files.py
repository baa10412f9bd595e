"""Files are whole at every moment; a folder belongs to one process at a time."""

import hashlib
import json
import os
import signal
import subprocess
import sys

import pytest

from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution import files
from datamarket_gym.execution.files import (
    claimed,
    read_json,
    remove_leftovers,
    replacing,
    sha256,
    write_json,
    write_text,
)


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with replacing(path) as part:
        part.write_text("new, but not yet whole")
        assert path.read_text() == "old"
        assert part.parent == path.parent  # a rename works within one disk only
    assert path.read_text() == "new, but not yet whole"

    def interrupted():
        with replacing(path) as part:
            part.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "new, but not yet whole"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_two_writers_of_one_file_do_not_meet(tmp_path):
    with replacing(tmp_path / "a") as first, replacing(tmp_path / "a") as second:
        assert first != second
        first.write_text("one")
        second.write_text("two")
    assert (tmp_path / "a").read_text() == "one"  # the block that ends last


def test_content_is_on_disk_before_the_name_and_the_name_before_we_go_on(tmp_path, monkeypatch):
    seen = []
    fsync, replace = os.fsync, os.replace

    def flushed(descriptor):
        seen.append("folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "replace", lambda a, b: (seen.append("rename"), replace(a, b)))
    write_text(tmp_path / "deep" / "a.txt", "x")
    assert seen == ["file", "rename", "folder"]
    seen.clear()
    with replacing(tmp_path / "b.txt", lasting=False) as part:
        part.write_text("x")
    assert seen == ["file", "rename"]


def test_json_has_one_form_and_damage_is_named(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"b": 1, "a": "é"})
    assert path.read_text() == '{\n "a": "\\u00e9",\n "b": 1\n}\n'
    assert read_json(path) == {"a": "é", "b": 1}
    write_json(path, {"b": 1, "a": 2}, indent=2, sort=False)
    assert path.read_text() == '{\n  "b": 1,\n  "a": 2\n}\n'
    path.write_text('{"a": ')
    for bad in (path, tmp_path / "none.json"):
        with pytest.raises(DataMarketError, match=rf"{bad.name}' cannot be read"):
            read_json(bad)


def test_sha256_is_of_all_bytes(tmp_path):
    content = os.urandom(3_000_001)
    (tmp_path / "a").write_bytes(content)
    assert sha256(tmp_path / "a") == hashlib.sha256(content).hexdigest()


HOLDER = """
import sys, time
from pathlib import Path
from datamarket_gym.execution.files import claimed
with claimed(Path(sys.argv[1]), "audit"):
    print("mine", flush=True)
    time.sleep(60)
"""


def test_a_folder_is_claimed_by_one_process_and_free_when_that_is_killed(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "mine\n"
        with pytest.raises(DataMarketError, match=r"another audit is at work in .* wait for it"):
            claimed(tmp_path, "audit").__enter__()
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
    assert (tmp_path / ".lock").exists()  # left by the dead; it keeps nobody out
    with claimed(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_claim_ends_with_its_block_however_that_ends(tmp_path):
    for _ in range(2):
        with pytest.raises(DataMarketError, match="another run is at work"), claimed(tmp_path):
            claimed(tmp_path).__enter__()  # not twice in one process either
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_its_last_owner_just_removed_is_no_claim(tmp_path, monkeypatch):
    lock, opened = files._lock, []

    def removed_meanwhile(descriptor):
        opened.append(os.fstat(descriptor).st_ino)
        lock(descriptor)
        if len(opened) == 1:  # opened before, locked after the last owner removed it
            (tmp_path / ".lock").unlink()

    monkeypatch.setattr(files, "_lock", removed_meanwhile)
    with claimed(tmp_path):
        assert len(opened) == 2
        assert (tmp_path / ".lock").stat().st_ino == opened[1]
        monkeypatch.setattr(files, "_lock", lock)
        with pytest.raises(DataMarketError, match="at work"):
            claimed(tmp_path).__enter__()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(DataMarketError, match="nowhere' cannot be written to"):
        claimed(tmp_path / "nowhere").__enter__()


def test_leftovers_of_the_dead_go_and_nothing_else(tmp_path):
    for name in (".a.json.0123.part", "b.part", ".c", "d.json"):
        (tmp_path / name).write_text(json.dumps(name))
    remove_leftovers(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"b.part", ".c", "d.json"}
