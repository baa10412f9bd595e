"""Tasks on the machines of a dask cluster: the same bits as here, and a worker that dies costs only time.

A connection is an executor (`datamarket_gym.core.executors`). What all tasks need is packed (`parcels`) and scattered
to every worker once; workers that come later fetch it from the others. A few tasks for each worker are under way at
any time, so that answers are not all held. The scheduler gives the tasks of a dead worker to others; where all
holders of what was scattered died, it is sent again from here. Results are taken, and written, by this process alone,
each once.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from heapq import heappop, heappush
from queue import Empty, SimpleQueue
from typing import Any
from uuid import uuid4

from datamarket_gym.core.alike import different, possessions
from datamarket_gym.core.errors import ClusterError, ParameterError
from datamarket_gym.core.executors import Task
from datamarket_gym.core.extras import require_extra
from datamarket_gym.core.parcels import THREADS, Packed, called, pack, unlike

_CONNECT = 5.0  # seconds in which a scheduler answers
_PATIENCE = 60.0  # seconds in which somebody restarts a worker, where none is left
_AHEAD = 4  # tasks for each worker that are under way
_SENDINGS = 5  # how often what all tasks need is sent, if those that hold it die
_START = (
    "start one with: dask scheduler, and workers with: dask worker {0} --nthreads 1; see docs/cluster.md"
)
_MEMORY = (
    "perhaps because memory ran out: start fewer workers on a machine, or with a larger --memory-limit"
)

_open: ContextVar[Connection | None] = ContextVar("the cluster that is connected", default=None)


def connection() -> Connection:
    """The one that `computing` has opened."""
    found = _open.get()
    if found is None:
        raise ClusterError("no cluster is connected; name one by computing(Compute(cluster=...))")
    return found


@contextmanager
def connected(address: str) -> Iterator[None]:
    """While it is entered, `connection` is one to the scheduler at this address; its workers are like this process."""
    if re.fullmatch(r"(tcp|tls)://[^\s/]+:\d+", address) is None:
        raise ParameterError("cluster", address, "write tcp://host:port, such as tcp://10.0.0.1:8786")
    with _client(address) as client:
        found = Connection(client, address)
        found.require_alike()
        token = _open.set(found)
        try:
            yield
        finally:
            _open.reset(token)


@contextmanager
def _client(address: str) -> Iterator[Any]:
    require_extra("distributed", "dask")
    from distributed import Client

    try:
        client = Client(address, timeout=_CONNECT, set_as_default=False, name="datamarket")
    except (OSError, TimeoutError) as error:
        raise ClusterError(
            f"there is no scheduler at {address} ({type(error).__name__}); check the address, or "
            + _START.format(address)
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=2 * _CONNECT)
        except TimeoutError as error:
            raise ClusterError(
                f"the scheduler at {address} has no workers; start some with: "
                f"dask worker {address} --nthreads 1; see docs/cluster.md"
            ) from error
        yield client


class Connection:
    """An executor: the workers of a scheduler, all of them like this process."""

    def __init__(self, client: Any, address: str) -> None:
        self._client, self._address = client, address
        self._occasion = uuid4().hex
        self._workers, self._counted = 0, float("-inf")
        self._held: dict[str, Any] = {}  # futures of large arrays by digest: of the last parcel alone

    def workers(self) -> int:
        """How many there are by now, at least one; asked every second."""
        if time.monotonic() - self._counted > 1.0:
            self._workers, self._counted = len(self._threads()), time.monotonic()
        return max(1, self._workers)

    def is_staffed(self) -> bool:
        """Whether there is a worker."""
        return bool(self._threads())

    def _threads(self) -> dict[str, int]:
        """Threads by worker; of nobody where the scheduler does not answer."""
        try:
            found: dict[str, int] = self._client.nthreads()
        except Exception:  # a timeout, a closed connection: whatever dask calls it
            return {}
        return found

    def require_alike(self) -> None:
        """Refuse workers that would compute other bits than this process, with a table of who has what."""
        occasion = self._occasion

        def asked() -> dict[str, str]:
            # Pickled by value: a worker without this package says so.
            from importlib import import_module
            from importlib.metadata import PackageNotFoundError, version

            try:
                found: dict[str, str] = import_module("datamarket_gym.core.alike").possessions(occasion)
            except ImportError:
                try:
                    return {"datamarket-gym": version("datamarket-gym")}
                except PackageNotFoundError:
                    return {"datamarket-gym": "none"}
            return found

        threads = self._threads()
        found = {
            address: {**has, THREADS: str(threads.get(address, 1))}
            for address, has in self._client.run(asked).items()
        }
        if table := different({**possessions(occasion), THREADS: "1"}, found):
            raise ClusterError(unlike(f"workers of {self._address}", table))

    def each(
        self, function: Callable[..., Any], shared: Any, tasks: Sequence[Task]
    ) -> Iterator[tuple[int, Any]]:
        """(place, result) of every task, as they are done."""
        return _Errand(self, self._client, pack(function, shared, self._occasion), tasks).results()

    def in_order(
        self, function: Callable[..., Any], shared: Any, tasks: Sequence[Task]
    ) -> Iterator[Any]:
        """The results in order; none is begun long before it is wanted."""
        errand = _Errand(self, self._client, pack(function, shared, self._occasion), tasks, ordered=True)
        early: dict[int, Any] = {}
        for place, result in errand.results():
            early[place] = result
            while errand.wanted in early:
                yield early.pop(errand.wanted)
                errand.wanted += 1

    def send(self, packed: Packed, again: bool) -> list[Any]:
        """Futures of a parcel and of the large arrays that it asks for; those that workers hold are not sent again.

        Unless what was sent before was lost: then nothing is taken to be held.
        """
        held = {} if again else {d: f for d, f in self._held.items() if d in packed.large}
        for digest, array in packed.large.items():
            if digest not in held:
                held[digest] = self._scattered(array)
        self._held = held  # what the parcel before asked for, and this does not, is let go
        return [self._scattered(packed.parcel), *(held[digest] for digest in packed.asks)]

    def _scattered(self, found: Any) -> Any:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return self._client.scatter(found, broadcast=True, hash=False, timeout=_PATIENCE)
            except (
                Exception
            ) as error:  # a worker that dies meanwhile, none, no scheduler: whatever dask calls it
                if time.monotonic() > deadline or self._client.status in ("closing", "closed"):
                    raise self.lost() from error
                time.sleep(0.5)

    def lost(self) -> ClusterError:
        """That nobody is there any more."""
        return ClusterError(
            f"the cluster at {self._address} is gone, or all of its workers are: start it again (docs/cluster.md) and "
            "repeat the command, which goes on where it stopped"
        )


class _Errand:
    """The tasks of one call: which are to be done, which are under way."""

    def __init__(
        self, home: Connection, client: Any, packed: Packed, tasks: Sequence[Task], ordered: bool = False
    ) -> None:
        self._home, self._client, self._packed, self._tasks = home, client, packed, tasks
        self._ordered = ordered
        self.wanted = (
            0  # the first place whose result is still to be taken, where they are wanted in order
        )
        self._todo = list(range(len(tasks)))  # a heap
        self._away: dict[
            str, tuple[int, Any, int]
        ] = {}  # place, future and number of the sending, by key
        self._back: SimpleQueue[str] = SimpleQueue()
        self._sent: list[Any] = []
        self._sendings = 0

    def results(self) -> Iterator[tuple[int, Any]]:
        """(place, result) of every task, each once, as they come."""
        from distributed.scheduler import KilledWorker

        try:
            while self._todo or self._away:
                self._submit()
                place, future, sending = self._away.pop(self._next())
                try:
                    result = future.result()
                except KilledWorker as error:
                    raise ClusterError(
                        f"task {place + 1} of {len(self._tasks)} was tried several times, and its worker died each "
                        f"time, {_MEMORY}"
                    ) from error
                except CancelledError:  # what it needs is gone with the workers that held it
                    heappush(self._todo, place)
                    if sending == self._sendings:
                        self._sent = []
                    continue
                yield place, result
        finally:
            with suppress(Exception):  # the scheduler may be gone, and with it the tasks
                self._client.cancel([future for _, future, _ in self._away.values()])

    def _submit(self) -> None:
        """Send tasks until every worker has a few, the first ones first."""
        room = _AHEAD * self._home.workers()
        while self._todo and len(self._away) < room:
            if self._ordered and self._todo[0] >= self.wanted + room:
                return
            if not self._sent:
                self._send()
            place = heappop(self._todo)
            parcel, *large = self._sent
            task = self._packed.task(self._tasks[place])
            future = self._client.submit(called, parcel, large, task, pure=False)
            self._away[future.key] = place, future, self._sendings
            future.add_done_callback(lambda done: self._back.put(done.key))

    def _send(self) -> None:
        if self._sendings == _SENDINGS:
            raise ClusterError(
                f"what all tasks need was sent {_SENDINGS} times, and its holders died each time, {_MEMORY}"
            )
        self._sent = self._home.send(self._packed, again=self._sendings > 0)
        self._sendings += 1

    def _next(self) -> str:
        """The key of a task that came back, or was lost."""
        alone = None
        while True:
            try:
                return self._back.get(timeout=1.0)
            except Empty:
                if self._home.is_staffed():
                    alone = None
                elif alone is None:
                    alone = time.monotonic()
                elif time.monotonic() - alone > _PATIENCE:
                    raise self._home.lost() from None
