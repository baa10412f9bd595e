"""What the explorer may read and write: folders and ledgers named on the command line, and uploads.

Each thing has an id that a link can hold: the name of the folder that was named, and the way from there. No file
outside is opened, by whatever path or link it is asked for.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from datamarket_gym.display import listed
from datamarket_gym.errors import DataMarketError
from datamarket_gym.payout.ledger.runs import default_ledger
from datamarket_gym.payout.ledger.store import NAME as LEDGER
from datamarket_gym.payout.ledger.store import absolute_address, read_receipt
from datamarket_gym.payout.ledger.trust import is_address

MIB = 2**20
UPLOADED = "uploads"
SETTINGS = "market.toml"
_TIMES = 8  # what all uploads together may have, as a multiple of one
_UPLOADS = 500  # files
_KINDS = re.compile(r"\.(parquet|csv|tsv|jsonl|ndjson|json|arrow|feather|xlsx|npy|npz|toml|txt)$", re.I)
_DEPTH = 2  # how far below a named folder things are looked for
_MOST = 2000  # of them
_OPENED = 20  # files that are opened to know whether a folder is of compact results


class TooLarge(DataMarketError):
    """More was sent than may be uploaded."""

    status = 413


class NotThere(DataMarketError):
    """Nothing of this id is shown."""

    status = 404


class OutsideFolders(DataMarketError):
    """A file lies in none of the folders that were named."""

    status = 403


@dataclass(frozen=True)
class Upload:
    """Hold a file that was uploaded: its id, what it was called, where it is, and its bytes."""

    id: str
    name: str
    path: Path
    size: int


@dataclass
class Uploads:
    """Hold the uploads of one start of the explorer; ``most`` bytes each."""

    folder: Path
    most: int = 256 * MIB
    _known: dict[str, Upload] = field(default_factory=dict)
    _underway: int = 0

    def __post_init__(self) -> None:
        self.folder = self.folder.resolve()
        self.runs.mkdir(parents=True, exist_ok=True)

    @property
    def runs(self) -> Path:
        """Return the folder of dry runs, each with a ledger of its own."""
        return self.folder / "runs"

    async def write(
        self, name: str, stream: AsyncIterator[bytes], check: Callable[[Path], Awaitable[None]]
    ) -> Upload:
        """Write a file as it comes in; refuse one that is too large, or fails the check, and leave nothing of it."""
        plain = Path(name.replace("\\", "/")).name
        kind = _KINDS.search(plain)
        if kind is None:
            raise DataMarketError(
                f"{plain[:80]!r} is no table that can be read; upload .parquet, .csv, .jsonl, .arrow, .xlsx, .npy, "
                ".npz or .toml"
            )
        if len(self._known) >= _UPLOADS:
            raise TooLarge(f"{_UPLOADS} files were uploaded already; start the explorer again")
        key = secrets.token_hex(8)
        folder = self.folder / key
        path = folder / f"table{kind.group().lower()}"
        folder.mkdir()
        part, size = path.with_suffix(".part"), 0
        try:
            with part.open("wb") as file:
                async for block in stream:
                    size += len(block)
                    self._underway += len(block)
                    self._require_room(size)
                    file.write(block)
            part.replace(path)
            await check(path)
        except BaseException:
            shutil.rmtree(folder)
            raise
        finally:
            self._underway -= size
        self._known[key] = Upload(key, plain, path, size)
        return self._known[key]

    def get(self, key: str) -> Upload:
        """Return an upload by its id."""
        if key not in self._known:
            raise DataMarketError(
                "that upload is gone since the explorer was started again; upload it again"
            )
        return self._known[key]

    def all(self) -> list[Upload]:
        """List all of them, in the order in which they came."""
        return list(self._known.values())

    def _require_room(self, size: int) -> None:
        if size > self.most:
            raise TooLarge(
                f"a file may have {self.most // MIB:,} MiB here; start the explorer with a larger --upload-limit, or "
                "name the file's folder on the command line"
            )
        whole = sum(upload.size for upload in self._known.values()) + self._underway
        if whole > self.most * _TIMES:
            raise TooLarge(
                f"all uploads together may have {self.most * _TIMES // MIB:,} MiB; start the explorer again"
            )


@dataclass(frozen=True)
class Place:
    """Hold the id of a run, a result folder, a file or a ledger, and its path, or its address on a server."""

    id: str
    address: str

    @cached_property
    def folder(self) -> Path:
        """Return the path of what is no address."""
        return Path(self.address)


class NamedPlaces:
    """Find what is there, each time anew: runs come and go."""

    def __init__(self, named: Sequence[str], uploads: Uploads) -> None:
        self.uploads = uploads
        self._roots: dict[str, Path] = {}
        self._ledgers: dict[str, str] = {}
        for text in named:
            path = Path(text)
            if is_address(text):
                self._ledgers[_free(_without_secret(text), self._ledgers)] = text
            elif not path.exists():
                raise DataMarketError(f"there is no {text!r}; name a run, a result folder or a ledger")
            elif path.is_file():
                self._ledgers[_free(path.name, self._ledgers)] = str(path.resolve())
            else:
                self._roots[_free(path.resolve().name or "root", self._roots)] = path.resolve()

    def runs(self) -> list[Place]:
        """List payout runs."""
        return [place for place in self._folders() if _is_payout(place.folder)]

    def results(self) -> list[Place]:
        """List folders of experiments, folders of those, and folders of compact results."""
        places = self._folders()
        above = {place.folder.parent for place in places if _is_experiment(place.folder)}
        return [place for place in places if place.folder in above or _is_results(place.folder)]

    def ledgers(self) -> list[Place]:
        """List ledgers that were named, those in folders that were, and those of runs."""
        ledgers = {name: Place(name, at) for name, at in self._ledgers.items()}
        addresses = {place.address for place in ledgers.values()}
        for place in self._folders():
            for folder in (place.folder, place.folder.parent):
                if _has(folder, LEDGER) and (folder is place.folder or _is_payout(place.folder)):
                    path = folder / LEDGER
                    real = os.path.realpath(path)
                    if real not in addresses and self._holds(path):
                        addresses.add(real)
                        id_ = f"{place.id}/{LEDGER}" if folder is place.folder else LEDGER
                        name = _free(id_, ledgers)
                        ledgers[name] = Place(name, real)
        return list(ledgers.values())

    def files(self, endings: Collection[str]) -> list[Place]:
        """List files of these endings in named folders; what runs have written is not among them."""
        places = []
        for place in self._folders():
            if place.id.split("/")[0] == UPLOADED or _is_payout(place.folder):
                continue
            for path in sorted(place.folder.iterdir()):
                if path.suffix.lower() in endings and path.is_file() and self._holds(path):
                    places.append(Place(f"{place.id}/{path.name}", str(path)))
        return places[:_MOST]

    def run(self, name: str) -> Path:
        """Return the folder of a payout run; its files and its ledger must be such as may be opened."""
        folder = _by_id("payout run", name, self.runs()).folder
        self.require_run(folder)
        return folder

    def openable(self) -> tuple[tuple[str, Path], ...]:
        """List the ids and folders of the runs that `run` returns."""
        openable = []
        for place in self.runs():
            with suppress(DataMarketError, OSError):
                self.require_run(place.folder)
                openable.append((place.id, place.folder))
        return tuple(openable)

    def require_run(self, folder: Path) -> None:
        """Refuse a run whose files are links that lead out, or whose ledger may not be opened."""
        for link in _links(folder):
            self.inside(link)
        receipt = read_receipt(folder)
        if receipt is not None:
            self.require_ledger(receipt.ledger)

    def require_ledger(self, where: str) -> None:
        """Refuse a ledger, or an intake log, that was not named: another server would be sent passwords."""
        if not is_address(where):
            self.inside(Path(where))
        elif where not in self._addresses:
            raise OutsideFolders(f"the ledger {where} was not named; name it on the command line")

    def result(self, name: str) -> Path:
        """Return a result folder."""
        return _by_id("result folder", name, self.results()).folder

    def ledger(self, name: str) -> str:
        """Return the path or address of a ledger."""
        return _by_id("ledger", name, self.ledgers()).address

    def markets(self) -> list[str]:
        """List the ids of folders for payout runs: those that were named and are no runs themselves."""
        return [
            name
            for name, root in self._roots.items()
            if not _is_payout(root) and not _is_results(root) and os.access(root, os.W_OK)
        ]

    def home(self) -> str:
        """Return the page that the explorer opens on: the one about what was named."""
        settings = any(_has(root, SETTINGS) for root in self._roots.values())
        if settings or self._ledgers or self.runs() or self.ledgers():
            return "payout"
        return "benchmark" if self.results() else "payout" if self.markets() else "market"

    def new_run(self, market: str | None, name: str) -> Path:
        """Return the folder of a new or unfinished payout run: in a market, or among the uploads."""
        if not name or name != Path(name).name or name.startswith(".") or not name.isprintable():
            raise DataMarketError(f"{name!r} is no name of a folder; use letters, digits, - and _")
        if market is None:
            root = self.uploads.runs
        elif market in self.markets():
            root = self._roots[market]
        else:
            raise NotThere(
                f"there is no folder {market!r} to pay in; there are: {listed(self.markets(), 10) or 'none'}"
            )
        return self.inside(root / name)

    def inside(self, path: Path) -> Path:
        """Follow all links of a path; refuse one outside of named folders, ledgers beside runs, and uploads."""
        try:
            real = Path(os.path.realpath(path))
        except ValueError:  # a zero byte, which no path has
            raise NotThere(f"{path.name!r} is no name of a file") from None
        if not self._holds(real):
            raise OutsideFolders(
                f"{path.name!r} lies outside of what the explorer was told to show; name its folder on the command "
                "line as well"
            )
        return real

    def _holds(self, path: Path) -> bool:
        real = Path(os.path.realpath(path))
        beside = {Path(default_ledger(root)) for root in self._roots.values() if _is_payout(root)}
        if real in beside or str(real) in self._ledgers.values():
            return True
        return any(real.is_relative_to(root) for root in (*self._roots.values(), self.uploads.folder))

    @cached_property
    def _addresses(self) -> set[str]:
        """Return the addresses of ledgers on servers as runs write them: without passwords."""
        return {absolute_address(at) for at in self._ledgers.values() if is_address(at)}

    def _folders(self) -> list[Place]:
        """List every folder that was named and those in them, and the runs among the uploads."""
        places = []
        for name, root in (*self._roots.items(), (UPLOADED, self.uploads.runs)):
            for path in _below(root, _DEPTH):
                way = str(path)[len(str(root)) :].replace(os.sep, "/").lstrip("/")
                places.append(Place(f"{name}/{way}" if way else name, str(path)))
                if len(places) >= _MOST:
                    return places
        return places


def _below(folder: Path, depth: int) -> Iterator[Path]:
    """Yield the folder and those in it; links are not followed, and names must be text that a link can hold."""
    yield folder
    if depth == 0 or _is_payout(folder):
        return
    try:
        inner = sorted(entry.path for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
    except PermissionError:
        return
    for path in inner:
        name = os.path.basename(path)
        if not name.startswith(".") and name == name.encode(errors="replace").decode():
            yield from _below(Path(path), depth - 1)


def _links(folder: Path) -> Iterator[Path]:
    """Yield the links among the files of a run; statements, one a payee, are checked when they are read."""
    for where, folders, files in os.walk(folder):
        yield from (path for name in (*folders, *files) if (path := Path(where, name)).is_symlink())
        folders[:] = [name for name in folders if name != "statements"]


def _has(folder: Path, name: str) -> bool:
    """Return whether there is such a file; a text, as thousands are tested for each list and paths are slow to make."""
    return os.path.isfile(f"{folder}{os.sep}{name}")


def _is_payout(folder: Path) -> bool:
    return _has(folder, "manifest.json") and _has(folder, "payments.parquet")


def _is_experiment(folder: Path) -> bool:
    return _has(folder, "results.parquet")


def _is_results(folder: Path) -> bool:
    """Return whether it holds an experiment's tables, or compact results; a broken file does not hide the others."""
    if _is_experiment(folder) or _is_payout(folder):
        return _is_experiment(folder)
    return any(map(_is_compact, sorted(folder.glob("*.json"))[:_OPENED]))


def _is_compact(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(400)
    except OSError:
        return False
    return b'"seeds"' in head and b'"name"' in head


def _by_id(what: str, name: str, places: Sequence[Place]) -> Place:
    for place in places:
        if place.id == name:
            return place
    raise NotThere(
        f"there is no {what} {name!r}; there are: {listed([place.id for place in places], 10) or 'none'}"
    )


def _free(name: str, taken: Collection[str]) -> str:
    """Return the name, with a number if another has it."""
    number, free = 1, name
    while free in taken or free == UPLOADED:
        number += 1
        free = f"{name} {number}"
    return free


def _without_secret(address: str) -> str:
    from sqlalchemy.engine import make_url

    return make_url(address).render_as_string(hide_password=True)
