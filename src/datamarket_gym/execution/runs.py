"""Long work in a folder: claimed by one process, cut into steps that are kept, resumed after a kill.

::

    with open_run(folder, key, "audit", version) as run:
        if not run.finished:
            trials = run.steps(play, market, tasks, TRIAL)
            ...
            write_json(folder / MANIFEST, {"digest": key, ...})

While a run is unfinished its steps lie in ``folder/.state``, each in a file named by a hash of all that decides it: the
run's key, the version, the libraries, the plug points of others, its own name and key. A killed run loses the steps in
flight. The manifest is written last: where it is, the run is finished. A run that can grow (``lasting``) keeps its
steps, and is refused where it was made under another version, other libraries or other code of plug points.

Records are frozen dataclasses of arrays, texts and numbers, kept as one ``.npz`` file; a field that is a record is
written as ``name.field``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import platform
import shutil
import typing
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, TypeVar
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.errors import DataMarketError, RunError
from datamarket_gym.execution.files import (
    LOCK,
    claimed,
    make_folder,
    read_json,
    remove_leftovers,
    replacing,
    room_for,
    sha256,
    write_json,
    write_text,
)
from datamarket_gym.execution.parallel import Executor, Serial, Task
from datamarket_gym.execution.progress import SILENT, Progress
from datamarket_gym.registry import sources_elsewhere

MANIFEST = "manifest.json"
STATE = ".state"
_MARK = "run.json"
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "pyarrow")

T = TypeVar("T")


@dataclass(frozen=True)
class Format(Generic[T]):
    ending: str
    write: Callable[[Path, T], None]
    read: Callable[[Path], T]


def libraries() -> dict[str, str]:
    """Return versions of Python and of the libraries on which the last bits of results depend."""
    return {"python": platform.python_version(), **{name: version(name) for name in _LIBRARIES}}


def made_with(made_by: str) -> dict[str, dict[str, str]]:
    """Return for a manifest the version of this package and of the libraries, and the code of others' plug points."""
    return {
        "versions": {"datamarket-gym": made_by, **libraries()},
        "plug_points": dict(sorted(sources_elsewhere().items())),
    }


@dataclass(frozen=True)
class Run:
    folder: Path
    key: str
    finished: bool
    made_by: str
    executor: Executor = field(default_factory=Serial)
    progress: Progress = SILENT
    lasting: str = ""

    @property
    def state(self) -> Path:
        """Return where the steps of an unfinished run are, and those of one that can grow."""
        return self.folder / (self.lasting or STATE)

    def kept(self, name: str, ending: str, key: str = "") -> Path:
        digest = hashlib.sha256(repr((self.key, self.made_by, name, key)).encode()).hexdigest()
        return self.state / f"{name}-{digest[:16]}{ending}"

    def output(self, name: str, form: Format[T], compute: Callable[[], T], key: str = "") -> T:
        """Return the result of a step that is an output, ``folder/name``; compute it again where it was changed."""
        path = self.folder / name
        done = self.kept(name.replace("/", "-"), ".done", key)
        if not (done.is_file() and path.is_file() and done.read_bytes() == sha256(path).encode()):
            result = compute()
            make_folder(path.parent)
            with replacing(path) as part:
                form.write(part, result)
            write_text(done, sha256(path))
        return _taken_up(path, form)

    def steps(
        self,
        function: Callable[..., T],
        shared: Any,
        tasks: Mapping[str, Task],
        form: Format[T],
        *,
        before: int = 0,
        after: int = 0,
    ) -> list[T]:
        """Return ``function(shared, *task)`` of each task; ``before`` count as done already, ``after`` as to come."""
        todo = self.missing(tasks, form)
        names, begun = list(todo), before + len(tasks) - len(todo)
        results = _counted(
            self, function, shared, list(todo.values()), begun, before + len(tasks) + after
        )
        for place, result in results:
            self.keep(names[place], form, result)
        return [_taken_up(self.kept(name, form.ending), form) for name in tasks]

    def missing(self, tasks: Mapping[str, Task], form: Format[T]) -> dict[str, Task]:
        return {name: task for name, task in tasks.items() if not self.kept(name, form.ending).exists()}

    def keep(self, name: str, form: Format[T], result: T) -> None:
        with replacing(self.kept(name, form.ending), lasting=False) as part:
            form.write(part, result)

    def drop_others(self, tasks: Iterable[str], ending: str) -> None:
        """Remove the kept steps of an ending that are not those of these tasks: what other code has left."""
        wanted = {self.kept(name, ending) for name in tasks}
        for path in self.state.glob(f"*{ending}"):
            if path not in wanted:
                path.unlink()


@dataclass(frozen=True)
class Unkept:
    """Steps without a folder: computed by the executor, and nowhere kept."""

    executor: Executor
    progress: Progress

    def steps(
        self,
        function: Callable[..., T],
        shared: Any,
        tasks: Mapping[str, Task],
        form: Format[T],
        *,
        before: int = 0,
        after: int = 0,
    ) -> list[T]:
        total = before + len(tasks) + after
        results = dict(_counted(self, function, shared, list(tasks.values()), before, total))
        return [results[place] for place in range(len(tasks))]


def _counted(
    run: Run | Unkept,
    function: Callable[..., T],
    shared: Any,
    tasks: Sequence[Task],
    done: int,
    total: int,
) -> Iterator[tuple[int, T]]:
    """Yield the places and results of tasks as they end, and report progress."""
    run.progress.count(done, total)
    for at, (place, result) in enumerate(run.executor.each(function, shared, tasks), done + 1):
        yield place, result
        run.progress.count(at, total)


@contextmanager
def open_run(
    folder: Path,
    key: str,
    what: str,
    made_by: str,
    *,
    manifest_key: str = "digest",
    outputs: Sequence[str] = (),
    lasting: str = "",
    executor: Executor | None = None,
    progress: Progress | None = None,
    private: bool = False,
) -> Iterator[Run]:
    """Claim a folder for the run (``what``: an experiment, an audit, a run) with this key.

    ``made_by`` is the version of what computes the steps. The manifest of a finished run holds its key under
    ``manifest_key``. When the block ends well the kept steps go, unless a folder ``lasting`` is named for them. A new
    ``private`` folder can be read by its owner alone.
    """
    state = lasting or STATE
    _make(folder, what, state, private)
    with claimed(folder, what):
        finished = all((folder / name).exists() for name in (MANIFEST, *outputs))
        key_of_folder = _held(folder, manifest_key, state)
        if key_of_folder not in (None, key):
            raise RunError(
                f"{str(folder)!r} holds another {what} (other inputs, settings or version); "
                "choose another --out"
            )
        if finished and lasting:
            _refuse_mixing(folder, what, made_by)
        remove_leftovers(folder)
        if lasting or not finished:
            _make_state(folder / state, key)
        computed = repr((made_by, sorted(libraries().items()), sorted(sources_elsewhere().items())))
        yield Run(folder, key, finished, computed, executor or Serial(), progress or SILENT, lasting)
        if not lasting:
            shutil.rmtree(folder / state, ignore_errors=True)


def _refuse_mixing(folder: Path, what: str, made_by: str) -> None:
    """Refuse a finished run that something else than what is here has made."""
    manifest = read_json(folder / MANIFEST)
    differs = []
    for kind, here in made_with(made_by).items():
        there = manifest.get(kind, {})
        for name in sorted({*here, *there}):
            if here.get(name) != there.get(name):
                if kind == "versions":
                    was = f"{name} {there.get(name, 'unknown')} there, {here.get(name, 'unknown')} here"
                elif name not in here:
                    was = f"plug points of {name}, which is not loaded here"
                elif name not in there:
                    was = f"no plug points of {name}, which is loaded here"
                else:
                    was = f"other code of the plug points in {name}"
                differs.append(was)
    if differs:
        raise RunError(
            f"{str(folder)!r} holds this {what}, made with something else ({'; '.join(differs)}): old and "
            "new numbers are not mixed; choose another --out, or delete the folder"
        )


def _make_state(state: Path, key: str) -> None:
    try:
        with room_for(state):
            make_folder(state)
    except FileExistsError as error:
        raise RunError(
            f"{str(state)!r} is a file where the folder of the steps must be; delete it"
        ) from error
    write_json(state / _MARK, {"run": key})


def _make(folder: Path, what: str, state: str, private: bool) -> None:
    try:
        make_folder(folder, private=private)
        there = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise RunError(f"{str(folder)!r} cannot be made a folder: {error}") from error
    if there and not there & {MANIFEST, state, LOCK}:
        raise RunError(f"{str(folder)!r} is not empty and holds no {what}; choose another --out")


def _held(folder: Path, manifest_key: str, state: str) -> str | None:
    """Return the key of the run a folder holds; None for an empty one."""
    for path, name in ((folder / MANIFEST, manifest_key), (folder / state / _MARK, "run")):
        if path.exists():
            try:
                content = read_json(path)
            except RunError as error:
                if path.name == MANIFEST:
                    raise RunError(
                        f"{error}; restore it from a copy, or delete it: the same command then writes it again"
                    ) from error
                raise RunError(
                    f"{error}; delete the folder {str(path.parent)!r}: the steps in it are computed again"
                ) from error
            return str(content.get(name)) if isinstance(content, dict) else ""
    return None


def _taken_up(path: Path, form: Format[T]) -> T:
    try:
        return form.read(path)
    except (DataMarketError, OSError, ValueError, LookupError, TypeError, EOFError, BadZipFile) as error:
        raise RunError(
            f"{str(path)!r} is damaged ({error}); delete it, it will be computed again"
        ) from error


R = TypeVar("R")


def write_record(path: Path, record: Any) -> None:
    make_folder(path.parent)
    with replacing(path) as part:
        _write(part, record)


def record_format(kind: type[R]) -> Format[R]:
    return Format(".npz", _write, lambda path: read_record(path, kind))


def _write(path: Path, record: Any) -> None:
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **dict(_flat(record, "")))


def read_record(path: Path, kind: type[R]) -> R:
    try:
        with np.load(path, allow_pickle=False) as file:
            return _built(kind, {name: file[name] for name in file.files}, "")
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise DataMarketError(
            f"{str(path)!r} cannot be read as a record of {kind.__name__} ({error}); it was damaged, or "
            "written by another version: make it anew"
        ) from error


def _flat(record: Any, prefix: str) -> Iterator[tuple[str, NDArray[Any]]]:
    for item in _recorded(record):
        value = getattr(record, item.name)
        if dataclasses.is_dataclass(value):
            yield from _flat(value, f"{prefix}{item.name}.")
        elif value is not None:
            yield prefix + item.name, np.asarray(value)


def _recorded(kind: Any) -> list[dataclasses.Field[Any]]:
    """Return the fields that go to disk; others are marked, and have a default."""
    return [item for item in dataclasses.fields(kind) if item.metadata.get("recorded", True)]


def _built(kind: type[R], arrays: Mapping[str, NDArray[Any]], prefix: str) -> R:
    hints = typing.get_type_hints(kind)
    values: dict[str, Any] = {}
    for item in _recorded(kind):
        name, hint = prefix + item.name, hints[item.name]
        if dataclasses.is_dataclass(hint):
            values[item.name] = _built(typing.cast(Any, hint), arrays, f"{name}.")
        elif name in arrays:
            values[item.name] = arrays[name] if arrays[name].ndim else arrays[name].item()
        elif type(None) in typing.get_args(hint):
            values[item.name] = None
        elif item.default is not dataclasses.MISSING:
            values[item.name] = item.default  # a field that the version which wrote it did not have
        else:
            raise KeyError(f"it has no {name}")
    return kind(**values)
