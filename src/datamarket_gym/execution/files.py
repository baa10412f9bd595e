"""Files that are whole at every moment, and folders that belong to one process at a time.

A file is written under another name, flushed to disk and renamed into place: a reader, or a machine
that loses power, finds the old file or the new one and nothing between.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from datamarket_gym.errors import RunError, SubmissionError

LOCK = ".lock"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""A disk, a share of one, or a file that can take no more."""


class TakenError(RunError):
    """Another process is at work in the folder."""


def make_folder(folder: Path, *, private: bool = False) -> None:
    """Make a folder and those above it, each as closed as the one it is in; a new ``private`` one is for its owner.

    One that is there and empty becomes private, too; one with files keeps the mode that somebody gave it.
    """
    with room_for(folder):
        if folder.parent != folder and not folder.parent.exists():
            make_folder(folder.parent)
        folder.mkdir(0o700 if private else _mode(folder.parent), exist_ok=True)
    if private and not any(folder.iterdir()):
        with suppress(PermissionError):  # of somebody else, who has said who may read it
            folder.chmod(0o700)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode) & 0o777


@contextmanager
def replacing(path: Path, *, lasting: bool = True, private: bool = False) -> Iterator[Path]:
    """Yield a path to write to; what is there replaces ``path`` when the block ends well, else it is removed.

    Not ``lasting``, a loss of power may undo the rename (never tear the file): quicker, for what can be
    computed again. A new file is as closed as its folder, a ``private`` one for its owner alone; one that is there
    keeps its mode.
    """
    if path.is_dir():
        raise RunError(f"{str(path)!r} is a folder where a file must be; move it away")
    if _is_device(path):
        raise RunError(
            f"{str(path)!r} is a device, which a file must not take the place of; name a file"
        )
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with room_for(path):
            mode = 0o600 if private else _mode(path.parent) & 0o666
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
            if path.is_file():
                part.chmod(_mode(path) & 0o666 | stat.S_IWUSR)
            yield part
            with part.open("r+b") as file:
                os.fsync(file.fileno())
            os.replace(part, path)
            if lasting:
                _flush_folder(path.parent)
    except OSError as error:
        if error.filename == str(part):  # the name that was asked for, not the one beside it
            error.filename = str(path)
        raise
    finally:
        part.unlink(missing_ok=True)


def _is_device(path: Path) -> bool:
    """Tell if there is something else than a file: a device, a pipe, or a link to what a process has open."""
    if path.is_symlink() and os.readlink(path).startswith("/proc/"):  # /dev/stdout, whatever it leads to
        return True
    return path.exists() and not path.is_file()


@contextmanager
def room_for(path: Path) -> Iterator[None]:
    """Turn a disk that is full into an error that names the file, and what to do."""
    try:
        yield
    except OSError as error:
        # NumPy's own words, which come without a number: "1000 requested and 12 written"
        if error.errno not in FULL and "requested and" not in str(error):
            raise
        raise RunError(
            f"{str(path)!r} cannot be written: there is no room left ({error.strerror or error}). What was there "
            "before is as it was; make room and run the same command again, it goes on where it stopped"
        ) from error


def remove_leftovers(folder: Path) -> None:
    """Remove what a killed process was still writing; only for a folder that is claimed."""
    for left in folder.rglob(".*.part"):
        left.unlink(missing_ok=True)


_ON_THEMSELVES = {
    "validation": "units that are valued on themselves are worth what they are not",
    "reference": "submitters of copies would decide what counts as one",
}


def require_two_files(submissions: Path, reference: Path, whose: str = "validation") -> None:
    """Refuse one file, or two copies of it, as submissions and as validation (or reference) rows."""
    same = submissions.exists() and reference.exists() and submissions.samefile(reference)
    if not same and submissions.is_file() and reference.is_file():
        same = submissions.stat().st_size == reference.stat().st_size and sha256(submissions) == sha256(
            reference
        )
    if same:
        raise SubmissionError(
            f"{str(submissions)!r} and {str(reference)!r} are the same data, as submissions and as {whose} rows; "
            f"{_ON_THEMSELVES[whose]}: give rows that were not submitted"
        )


def write_text(path: Path, text: str, *, private: bool = False) -> None:
    make_folder(path.parent)
    with replacing(path, private=private) as part:
        part.write_text(text, encoding="utf-8")


def json_text(data: Any, *, indent: int = 1, sort: bool = True) -> str:
    """Write plain values as JSON, the same text for the same values; unsorted, keys stay in their order."""
    return json.dumps(data, indent=indent, sort_keys=sort, ensure_ascii=True) + "\n"


def write_json(
    path: Path, data: Any, *, indent: int = 1, sort: bool = True, private: bool = False
) -> None:
    write_text(path, json_text(data, indent=indent, sort=sort), private=private)


def read_json(path: Path) -> Any:
    """Read plain values from JSON; a damaged file is named."""
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text)
        if "\\ud" in text.lower():  # half a character, which no file or page can hold
            json.dumps(content, ensure_ascii=False).encode()
        return content
    except (
        OSError,
        ValueError,
        RecursionError,
    ) as error:  # the last: brackets in brackets, by the thousand
        raise RunError(f"{str(path)!r} cannot be read: {error}") from error


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def claimed(folder: Path, what: str = "run") -> AbstractContextManager[None]:
    """Keep other processes (and other claims of this one) out of a folder.

    The claim is a lock of the operating system on a file in the folder, so it ends with the process,
    however that ends: a file left by a process that was killed keeps no process out.
    """
    return _holding(folder / LOCK, what)


@contextmanager
def waiting_for(path: Path, seconds: float, what: str) -> Iterator[None]:
    """Hold the lock of a file, as `claimed` does, but wait for its holder."""
    until = time.monotonic() + seconds
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(_holding(path, what))
                break
            except TakenError as error:
                if time.monotonic() > until:
                    raise TakenError(
                        f"another process has been writing to the {what} in {str(path.parent)!r} for {seconds:g} "
                        "seconds; nothing was done: wait for it to end, and run the same command again"
                    ) from error
                time.sleep(0.01)
        yield


@contextmanager
def _holding(path: Path, what: str) -> Iterator[None]:
    file = _locked(path, what)
    try:
        yield
    finally:
        if sys.platform == "win32":  # an open file cannot be removed there
            os.close(file)
            path.unlink(missing_ok=True)
        else:  # removed while it is locked: a process that waits for it sees that it is gone
            path.unlink(missing_ok=True)
            os.close(file)


def _locked(path: Path, what: str) -> int:
    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise RunError(f"{str(path.parent)!r} cannot be written to: {error}") from error
        try:
            _lock(file)
        except (BlockingIOError, PermissionError) as error:
            os.close(file)
            raise TakenError(
                f"another {what} is at work in {str(path.parent)!r}; wait for it to end, or choose another "
                "folder"
            ) from error
        except OSError as error:
            os.close(file)
            raise RunError(
                f"{str(path.parent)!r} cannot be claimed: {error}; choose a folder on another disk"
            ) from error
        # The last owner may have removed the file after we opened it; then others lock another one.
        if _same_file(file, path):
            return file
        os.close(file)


def _same_file(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _lock(file: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _flush_folder(folder: Path) -> None:
    """Make a rename last; systems without open folders do so by themselves."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
