"""What all tasks need, on its way to other machines: packed once, opened once in each worker.

A parcel is a function and what it is given, pickled by cloudpickle, with the large arrays beside it: those are known
by their content, so that a matrix which two parcels hold travels once. What scripts and notebooks have registered goes
along by value, since their files may not be there; what is installed goes by name, and `alike` sees that it is equal.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.alike import different, possessions
from datamarket_gym.core.compute import Compute
from datamarket_gym.core.errors import ClusterError
from datamarket_gym.core.executors import adopt_registered, call_in_worker, in_worker, registered
from datamarket_gym.core.registry import scripts_elsewhere

Bytes = NDArray[np.uint8]
THREADS = (
    "threads"  # of a worker: two tasks in one process would undo each other's limits on linear algebra
)
_LARGE = 1 << 20  # bytes from which on an array travels beside the rest


class Parcel:
    """A function and what it is given, without the large arrays; what its packer has, and by what to compute it."""

    def __init__(self, content: bytes, known: tuple[bytes, ...], by: Compute, occasion: str) -> None:
        self._content, self._known, self._by = content, known, by
        self._occasion, self._packer = occasion, possessions(occasion)
        self._opened: tuple[Callable[..., Any], Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def __sizeof__(self) -> int:
        return len(self._content) + sum(map(len, self._known))

    def call(self, large: Sequence[Bytes], task: bytes) -> Any:
        """What the function says of a task, in a worker."""
        if self._opened is None:
            self._require_alike()
            self._opened = self._open(large)
        function, shared = self._opened
        return call_in_worker(function, shared, pickle.loads(task), self._by)

    def _require_alike(self) -> None:
        """Refuse a worker that came after all others had been asked, if it is not like who packed this."""
        from distributed import get_worker

        worker = get_worker()
        has = {**possessions(self._occasion), THREADS: str(worker.state.nthreads)}
        if table := different({**self._packer, THREADS: "1"}, {worker.address: has}):
            raise ClusterError(unlike("a worker that came later", table))

    def _open(self, large: Sequence[Bytes]) -> Any:
        try:
            adopt_registered((), self._known)
            return pickle.loads(self._content, buffers=large)
        except ImportError as error:
            raise ClusterError(
                f"a worker cannot import what the work is made of: {error}; install it there, too"
            ) from error


def called(parcel: Parcel, large: Sequence[Bytes], task: bytes) -> Any:
    """`Parcel.call`, as a function."""
    return parcel.call(large, task)


def unlike(who: str, table: str) -> str:
    """That somebody has not what this process has, and what to do."""
    return (
        f"{who} would compute other bits than this process:\n\n{table}\n\n"
        "Install the same everywhere, set the same secrets, and start each with --nthreads 1 (several: --nworkers). "
        "Where processors differ, OPENBLAS_CORETYPE and NPY_DISABLE_CPU_FEATURES choose what all of them have, here "
        "too. See docs/cluster.md"
    )


@dataclass(frozen=True)
class Packed:
    """A parcel, and which large arrays it asks for, by digest; scripts are modules whose code travels."""

    parcel: Parcel
    asks: list[str]
    large: dict[str, Bytes]
    scripts: list[ModuleType]

    def task(self, task: Any) -> bytes:
        """The small part that is a call's own."""
        with _by_value(self.scripts):
            return _dumps(task)


def pack(function: Callable[..., Any], shared: Any, occasion: str) -> Packed:
    """A function and what all of its calls need."""
    asks: list[str] = []
    large: dict[str, Bytes] = {}

    def keep_inside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _LARGE:
            return True
        asks.append(hashlib.sha256(raw).hexdigest())
        large[asks[-1]] = np.frombuffer(raw, dtype=np.uint8)
        return False

    scripts = [sys.modules[name] for name in scripts_elsewhere() if name != "__main__"]
    with _by_value(scripts):
        content = _dumps((function, shared), keep_inside)
        known = registered(_dumps)
    return Packed(Parcel(content, known, in_worker(threads=1), occasion), asks, large, scripts)


def _dumps(found: Any, keep_inside: Callable[[pickle.PickleBuffer], bool] | None = None) -> bytes:
    import cloudpickle

    packed: bytes = cloudpickle.dumps(found, protocol=5, buffer_callback=keep_inside)
    return packed


@contextmanager
def _by_value(modules: Sequence[ModuleType]) -> Iterator[None]:
    """While it is entered, what is defined in these modules is pickled with its code."""
    import cloudpickle

    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
