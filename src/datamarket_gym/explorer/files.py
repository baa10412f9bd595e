"""What pages upload: kept under ids in a folder of their own, bounded each and together, written aside first.

What the explorer may show: the folders and books that were named on the command line, and what was uploaded.

Each thing in them has an id that can be read, and that a link can hold: the name of the folder that was named, and
the way from there. No file outside is opened, by whatever path or link it is asked for.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from datamarket_gym.errors import DataMarketError
from datamarket_gym.payout.ledger.runs import default_ledger
from datamarket_gym.payout.ledger.store import NAME as BOOK
from datamarket_gym.payout.ledger.store import is_address, read_receipt

MIB = 2**20
_TIMES = 8  # what all uploads together may have, as a multiple of one
_MANY = 500  # files
_KINDS = re.compile(r"\.(parquet|csv|tsv|jsonl|ndjson|json|arrow|feather|xlsx|npy|npz|toml|txt)$", re.I)


class TooLarge(DataMarketError):
    """More than may be uploaded."""


@dataclass(frozen=True)
class Upload:
    """A file that was uploaded: its id, what it was called, where it is, and its bytes."""

    id: str
    name: str
    path: Path
    size: int


@dataclass
class Uploads:
    """The uploads of one start of the explorer; ``most`` bytes each."""

    folder: Path
    most: int = 256 * MIB
    _known: dict[str, Upload] = field(default_factory=dict)
    _underway: int = 0

    def __post_init__(self) -> None:
        self.folder = self.folder.resolve()
        self.runs.mkdir(parents=True, exist_ok=True)

    @property
    def runs(self) -> Path:
        """Where dry runs are kept, with a book of their own."""
        return self.folder / "runs"

    async def keep(self, name: str, stream: AsyncIterator[bytes]) -> Upload:
        """Write a file as it comes in; refused as soon as it is too large, and then nothing of it is left."""
        plain = Path(name.replace("\\", "/")).name
        ending = _KINDS.search(plain)
        if ending is None:
            raise DataMarketError(
                f"{plain[:80]!r} is no table that can be read; upload .parquet, .csv, .jsonl, .arrow, .xlsx, .npy, "
                ".npz or .toml"
            )
        if len(self._known) >= _MANY:
            raise TooLarge(
                f"{_MANY} files were uploaded, and no more are taken; start the explorer again"
            )
        key = secrets.token_hex(8)
        place = self.folder / key
        path = place / f"table{ending.group().lower()}"
        place.mkdir()
        part, size = path.with_suffix(".part"), 0
        try:
            with part.open("wb") as file:
                async for block in stream:
                    size += len(block)
                    self._underway += len(block)
                    self._require_room(size)
                    file.write(block)
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            place.rmdir()
            raise
        finally:
            self._underway -= size
        self._known[key] = Upload(key, plain, path, size)
        return self._known[key]

    def path(self, key: str) -> Path:
        """Where an upload is."""
        if key not in self._known:
            raise DataMarketError(
                "that upload is not there any more, as the explorer was started again; upload it once more"
            )
        return self._known[key].path

    def all(self) -> list[Upload]:
        """All of them, in the order in which they came."""
        return list(self._known.values())

    def _require_room(self, size: int) -> None:
        if size > self.most:
            raise TooLarge(
                f"a file may have {self.most // MIB:,} MiB here; start the explorer with a larger --upload-limit, or "
                "name the file's folder on the command line"
            )
        kept = sum(each.size for each in self._known.values())
        if kept + self._underway > self.most * _TIMES:
            raise TooLarge(
                f"all uploads together may have {self.most * _TIMES // MIB:,} MiB; start the explorer again"
            )


_DEEP = 2  # how far below a folder that was named things are looked for
_MOST = 2000  # of them
_LOOKED = 20  # files that are looked into, to know whether a folder is of compact results
UPLOADED = "uploads"
_STATEMENTS = "statements"


class NotThere(DataMarketError):
    """Nothing of this id is shown."""


class Outside(DataMarketError):
    """A file that lies in none of the folders that were named."""


@dataclass(frozen=True)
class Place:
    """A run, a result folder or a book: its id, and where it is; a book on a server has an address alone."""

    id: str
    path: Path | None
    address: str

    @property
    def folder(self) -> Path:
        """Where it is."""
        if self.path is None:
            raise NotThere(f"{self.id!r} is on a server, and no folder")
        return self.path


class NamedPlaces:
    """Finds what is there, each time it is asked: runs come and go."""

    def __init__(self, named: Sequence[str], uploads: Uploads) -> None:
        self.uploads = uploads
        self._roots: dict[str, Path] = {}
        self._books: dict[str, str] = {}
        for text in named:
            if is_address(text):
                self._books[_free(_without_secret(text), self._books)] = text
                continue
            path = Path(text)
            if not path.exists():
                raise DataMarketError(f"there is no {text!r}; name a run, a result folder or a book")
            if path.is_file():
                self._books[_free(path.name, self._books)] = str(path.resolve())
            else:
                self._roots[_free(path.resolve().name or "root", self._roots)] = path.resolve()

    def runs(self) -> list[Place]:
        """Payout runs."""
        return [place for place in self._found() if _is_payout(place.folder)]

    def results(self) -> list[Place]:
        """Folders of experiments, folders of those, and folders of compact results."""
        found = self._found()
        runs = {place.folder for place in found if _is_experiment(place.folder)}
        above = {folder.parent for folder in runs}
        return [each for each in found if each.folder in above or _is_results(each.folder)]

    def books(self) -> list[Place]:
        """Books that were named, those in folders that were, and those of runs."""
        found = {
            name: Place(name, None if is_address(at) else Path(at), at)
            for name, at in self._books.items()
        }
        known = {place.address for place in found.values()}
        for place in self._found():
            for folder in (place.folder, place.folder.parent):
                if _has(folder, BOOK) and (folder is place.folder or _is_payout(place.folder)):
                    path = folder / BOOK
                    where = os.path.realpath(path)
                    if where not in known and self._holds(path):
                        known.add(where)
                        name = _free(
                            f"{place.id}/{BOOK}" if path.parent == place.folder else BOOK, found
                        )
                        found[name] = Place(name, path, where)
        return list(found.values())

    def files(self, endings: Collection[str]) -> list[Place]:
        """Files of these endings that lie in folders that were named; what runs have written is not among them."""
        found = []
        for place in self._found():
            if place.id.split("/")[0] == UPLOADED or _is_payout(place.folder):
                continue
            for path in sorted(place.folder.iterdir()):
                if path.suffix.lower() in endings and path.is_file() and self._holds(path):
                    found.append(Place(f"{place.id}/{path.name}", path, str(path)))
        return found[:_MOST]

    def run(self, name: str) -> Path:
        """The folder of a payout run; its files and its book must be such as may be opened."""
        folder = _named("payout run", name, self.runs()).folder
        self.require_run(folder)
        return folder

    def openable(self) -> tuple[tuple[str, Path], ...]:
        """The ids and folders of the runs that `run` gives."""
        found = []
        for place in self.runs():
            with suppress(DataMarketError, OSError):
                self.require_run(place.folder)
                found.append((place.id, place.folder))
        return tuple(found)

    def require_run(self, folder: Path) -> None:
        """Refuse a run whose files are links that lead out, or whose book may not be opened."""
        for link in _links(folder):
            self.inside(link)
        receipt = read_receipt(folder)
        if receipt is not None:
            self.require_book(receipt.ledger)

    def require_book(self, where: str) -> None:
        """Refuse a book, or an intake log, that was not named: a server that a folder names would be sent passwords."""
        if not is_address(where):
            self.inside(Path(where))
        elif where not in self._addresses:
            raise Outside(f"the book {where} was not named; name it on the command line")

    def result(self, name: str) -> Path:
        """A result folder."""
        return _named("result folder", name, self.results()).folder

    def book(self, name: str) -> str:
        """The path or address of a book."""
        return _named("book", name, self.books()).address

    def markets(self) -> list[str]:
        """The ids of folders in which a payday can be run: those that were named and are no runs themselves."""
        return [
            name
            for name, root in self._roots.items()
            if not _is_payout(root) and not _is_results(root) and os.access(root, os.W_OK)
        ]

    def new_run(self, market: str | None, name: str) -> Path:
        """The folder of a payday that is not there yet, or not finished: in a market, or among what was uploaded."""
        if not name or name != Path(name).name or name.startswith(".") or not name.isprintable():
            raise DataMarketError(f"{name!r} is no name of a folder; use letters, digits, - and _")
        if market is None:
            root = self.uploads.runs
        elif market in self.markets():
            root = self._roots[market]
        else:
            raise NotThere(
                f"there is no folder {market!r} to pay in; there are: {_listed(self.markets())}"
            )
        return self.inside(root / name)

    def inside(self, path: Path) -> Path:
        """The path with all links followed, if it lies in a folder that was named, beside a run, or was uploaded."""
        try:
            real = Path(os.path.realpath(path))
        except ValueError:  # a zero byte, which no path has
            raise NotThere(f"{path.name!r} is no name of a file") from None
        if not self._holds(real):
            raise Outside(
                f"{path.name!r} lies outside of what the explorer was told to show; name its folder on the command "
                "line as well"
            )
        return real

    def _holds(self, path: Path) -> bool:
        real = Path(os.path.realpath(path))
        beside = {Path(default_ledger(root)) for root in self._roots.values() if _is_payout(root)}
        if real in beside or str(real) in self._books.values():
            return True
        return any(real.is_relative_to(root) for root in (*self._roots.values(), self.uploads.folder))

    @cached_property
    def _addresses(self) -> set[str]:
        """Of books on servers, as runs write them down: without passwords."""
        from datamarket_gym.payout.ledger.store import open_ledger as open_book

        return {open_book(at).where for at in self._books.values() if is_address(at)}

    def _found(self) -> list[Place]:
        """Every folder that was named and those in them, and the runs among what was uploaded."""
        found = []
        for name, root in (*self._roots.items(), (UPLOADED, self.uploads.runs)):
            for path in _below(root, _DEEP):
                way = str(path)[len(str(root)) :].replace(os.sep, "/").lstrip("/")
                found.append(Place(f"{name}/{way}" if way else name, path, str(path)))
                if len(found) >= _MOST:
                    return found
        return found


def _below(folder: Path, deep: int) -> Iterator[Path]:
    """The folder and those in it; links are not followed."""
    yield folder
    if deep == 0 or _is_payout(folder):
        return
    try:
        inner = sorted(entry.path for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
    except PermissionError:
        return
    for path in inner:
        name = Path(path).name
        if not name.startswith(".") and _is_text(name):
            yield from _below(Path(path), deep - 1)


def _links(folder: Path) -> Iterator[Path]:
    """The links among the files of a run; statements, of which there is one a payee, are looked at one by one."""
    for where, folders, files in os.walk(folder):
        yield from (path for name in (*folders, *files) if (path := Path(where, name)).is_symlink())
        folders[:] = [name for name in folders if name != _STATEMENTS]


def _is_text(name: str) -> bool:
    """Whether it can stand in a link: the system lets a name be any bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_payout(folder: Path) -> bool:
    return _has(folder, "manifest.json") and _has(folder, "payments.parquet")


def _has(folder: Path, name: str) -> bool:
    """Whether there is such a file; thousands of folders are looked at for each list, and paths are slow to make."""
    return os.path.isfile(f"{folder}{os.sep}{name}")


def _is_results(folder: Path) -> bool:
    """Whether it holds an experiment's tables, or compact results."""
    if _is_experiment(folder):
        return True
    # One that is broken, or something else, does not hide the others.
    if _is_payout(folder):
        return False
    return any(map(_is_compact, sorted(folder.glob("*.json"))[:_LOOKED]))


def _is_experiment(folder: Path) -> bool:
    return _has(folder, "results.parquet")


def _is_compact(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(400)
    except OSError:
        return False
    return b'"seeds"' in head and b'"name"' in head


def _named(what: str, name: str, places: Sequence[Place]) -> Place:
    for place in places:
        if place.id == name:
            return place
    raise NotThere(f"there is no {what} {name!r}; there are: {_listed([place.id for place in places])}")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "") if names else "none"


def _free(
    name: str, taken: dict[str, object] | dict[str, Path] | dict[str, str] | dict[str, Place]
) -> str:
    """The name, with a number if another has it."""
    number, free = 1, name
    while free in taken or free == UPLOADED:
        number += 1
        free = f"{name} {number}"
    return free


def _without_secret(address: str) -> str:
    from sqlalchemy.engine import make_url

    return make_url(address).render_as_string(hide_password=True)
