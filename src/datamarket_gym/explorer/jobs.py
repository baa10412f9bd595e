"""The desk: questions of pages go to workers, answers are remembered by what was asked.

Equal questions are computed once, whoever asks. A newer question of the same client about the same topic drops the
older one, for a slider that moves: one that nobody waits for any more is not begun, and one that was begun is asked to
stop.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from fastapi import Depends, Header, Response
from pydantic import BaseModel

from datamarket_gym.errors import DataMarketError
from datamarket_gym.explorer.workers import (
    FaultOfOurs,
    Function,
    Setup,
    StoppedWork,
    Worker,
    answered,
    fault_words,
    given,
)

SOON = 0.4
"""Seconds within which an answer is waited for before a job is told of."""
_REMEMBERED = 64 * 2**20  # bytes of answers
_JOBS = 128  # that are known at a time, those at work aside
_MEMORY = 4 * 2**30  # bytes that a question may take; work apart may take what there is
_LONG = 2  # long works at a time
_QUEUE = 200  # questions that wait


class NoSuchJob(DataMarketError):
    """A job that is not known, or not any more."""


class Overtaken(DataMarketError):
    """A question that arrived after a newer one of the same page: nobody waits for it."""


class Busy(DataMarketError):
    """More questions wait than will be answered soon."""


@dataclass(frozen=True)
class Asker:
    """Which page asks, by a number of its own, and about what: its newer questions about that drop its older ones.

    ``turn`` counts a page's questions, because they need not arrive in order.
    """

    client: str = ""
    topic: str = ""
    turn: int = field(default=0, compare=False)


NOBODY = Asker()


def _asker(
    x_client: Annotated[str, Header(max_length=64)] = "",
    x_turn: Annotated[int, Header(ge=0)] = 0,
    topic: str = "",
) -> Asker:
    return Asker(x_client, topic[:64], x_turn)


WhoAsks = Annotated[Asker, Depends(_asker)]
"""What a route takes to know who asks."""


@dataclass(eq=False)
class DeskJob:
    """One computation: who waits for it, how far it is, what came of it."""

    function: Function
    arguments: tuple[Any, ...]
    key: str | None
    loop: asyncio.AbstractEventLoop
    id: str = field(default_factory=lambda: secrets.token_urlsafe(18))
    state: str = "waiting"
    what: str = ""
    unit: str = ""
    done: int = 0
    total: int = 0
    asked: float = field(default_factory=time.monotonic)
    over: float | None = None
    answer: bytes = b""
    error: str = ""
    waiting: set[str] = field(default_factory=set)
    worker: Worker | None = None
    finished: asyncio.Event = field(default_factory=asyncio.Event)

    def stage(self, what: str, unit: str = "") -> None:
        """Progress: something begins."""
        self.what, self.unit, self.done, self.total = what, unit, 0, 0

    def count(self, done: int, total: int) -> None:
        """Progress: how much of it is done."""
        self.done, self.total = int(done), int(total)

    def end(self, state: str, answer: bytes = b"", error: str = "") -> None:
        """It is over."""
        self.state, self.answer, self.error = state, answer, error
        self.over = time.monotonic()
        with suppress(RuntimeError):  # the server has ended meanwhile
            self.loop.call_soon_threadsafe(self.finished.set)

    async def soon(self) -> None:
        """Until it is over, or a moment has gone by."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.finished.wait(), SOON)

    def told(self) -> dict[str, Any]:
        """How far it is, for a page."""
        seconds = (self.over or time.monotonic()) - self.asked
        known = {
            name: getattr(self, name) for name in ("state", "what", "unit", "done", "total", "error")
        }
        return {"job": self.id, **known, "seconds": round(seconds, 1)}


class Desk:
    """Answers questions by ``workers`` processes that stay; with none, in threads of this one (for tests)."""

    def __init__(self, workers: int, setup: Setup | None = None) -> None:
        self._setup = setup or Setup()
        bounded = replace(self._setup, memory=_MEMORY)
        self._workers = [Worker(bounded) for _ in range(workers)]
        self._waiting: deque[DeskJob] = deque()
        self._ended = False
        self._threads: list[threading.Thread] = []
        self._answers: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        self._asked: dict[str, DeskJob] = {}  # by key, while it is computed
        self._jobs: OrderedDict[str, DeskJob] = OrderedDict()
        self._latest: dict[Asker, tuple[int, DeskJob]] = {}  # with the turn of its question
        self._lock = threading.RLock()
        self._more = threading.Condition(self._lock)
        self._long = threading.Semaphore(_LONG)
        self._apart: set[Worker] = set()
        self.ready = threading.Event()
        """Set once there is somebody to answer, or nobody who can."""

    def begin(self) -> None:
        """Start the workers, and the threads that hand questions to them."""
        serving: list[Worker | None] = [*self._workers] if self._workers else [None]
        for worker in serving:
            thread = threading.Thread(target=self._serve, args=(worker,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def end(self) -> None:
        """End all workers."""
        with self._lock:
            self._ended = True
            self._more.notify_all()
            ending = [*self._workers, *self._apart]
        for worker in ending:
            worker.end()
        for thread in self._threads:
            thread.join(timeout=5)

    async def ask(
        self, function: Function, *arguments: Any, who: Asker = NOBODY, keep: bool = True
    ) -> Response:
        """The answer, if it is there soon; else a job to ask after."""
        key = _key(function, arguments) if keep else None
        with self._lock:
            if key is not None and key in self._answers:
                self._answers.move_to_end(key)
                return _json(self._answers[key])
            if who in self._latest and who.turn < self._latest[who][0]:
                raise Overtaken("a newer question of this page came before this one")
            job = self._asked.get(key) if key is not None else None
            if job is None:
                if len(self._waiting) >= _QUEUE:
                    raise Busy("too many questions wait to be answered; ask again in a moment")
                job = self._new(function, arguments, key)
                if key is not None:
                    self._asked[key] = job
                self._enqueue(who, job)
                self._more.notify()
            self._supersede(who, job)
        await job.soon()
        return told(job)

    async def start(self, function: Function, *arguments: Any) -> Response:
        """Long work that writes files, in a process of its own, at once or when one of those before it is over."""
        with self._lock:
            if sum(job.over is None and job.key is None for job in self._jobs.values()) >= _QUEUE:
                raise Busy("too much work waits already; cancel some of it, or wait")
            job = self._new(function, arguments, None)
        threading.Thread(target=self._apart_from_all, args=(job,), daemon=True).start()
        return told(job)

    def job(self, name: str) -> DeskJob:
        """A job by its id."""
        with self._lock:
            if name not in self._jobs:
                raise NoSuchJob("this work is not known any more; start it again")
            return self._jobs[name]

    def cancel(self, name: str) -> DeskJob:
        """End a job, whoever waits for it."""
        job = self.job(name)
        with self._lock:
            if job.state == "waiting":
                self._drop(job)
            elif job.worker is not None and job.over is None:
                if job.worker in self._apart:
                    job.worker.end()
                else:
                    self._stop(job)
        return job

    def _new(self, function: Function, arguments: tuple[Any, ...], key: str | None) -> DeskJob:
        job = DeskJob(function, arguments, key, asyncio.get_running_loop())
        self._jobs[job.id] = job
        while len(self._jobs) > _JOBS:
            oldest = next((name for name, each in self._jobs.items() if each.over is not None), None)
            if oldest is None:
                break
            del self._jobs[oldest]
        return job

    def _enqueue(self, who: Asker, job: DeskJob) -> None:
        """To the end, or to the place of the one that it supersedes: else who moves a slider would always be last."""
        _, before = self._latest.get(who, (0, None))
        if before is not None and before in self._waiting and before.waiting <= {who.client}:
            self._waiting.insert(self._waiting.index(before), job)
        else:
            self._waiting.append(job)

    def _supersede(self, who: Asker, job: DeskJob) -> None:
        if not who.client:
            job.waiting.add(job.id)  # somebody waits, and does not say who
            return
        _, before = self._latest.get(who, (0, None))
        self._latest[who] = who.turn, job
        job.waiting.add(who.client)
        if before is not None and before is not job:
            before.waiting.discard(who.client)
            if not before.waiting and before.over is None:
                if before.state == "waiting":
                    self._drop(before)
                else:
                    self._stop(before)
        for other in [asker for asker, (_, each) in self._latest.items() if each.over is not None]:
            if self._latest[other][1] is not job:
                del self._latest[other]

    def _drop(self, job: DeskJob) -> None:
        """Of a job that waits: it is not begun."""
        if job in self._waiting:  # work apart waits elsewhere
            self._waiting.remove(job)
        self._forget(job)
        job.end("cancelled", error="it was not needed any more")

    def _stop(self, job: DeskJob) -> None:
        """Of a job that was begun: it is asked to stop, and whoever asks the same from now on begins anew."""
        if job.worker is not None:
            self._forget(job)
            job.worker.stop()

    def _forget(self, job: DeskJob) -> None:
        """Equal questions do not wait for this job any more."""
        if job.key is not None and self._asked.get(job.key) is job:
            del self._asked[job.key]

    def _serve(self, worker: Worker | None) -> None:
        if worker is not None:
            with suppress(FaultOfOurs, StoppedWork):
                worker.await_ready()
        self.ready.set()
        while (job := self._next(worker)) is not None:
            self._run(job, worker)

    def _next(self, worker: Worker | None) -> DeskJob | None:
        """The question that waits longest, when there is one; None at the end."""
        with self._lock:
            self._more.wait_for(lambda: self._waiting or self._ended)
            if self._ended:
                return None
            job = self._waiting.popleft()
            job.state, job.worker = "running", worker
            return job

    def _apart_from_all(self, job: DeskJob) -> None:
        with self._long:
            worker = Worker(replace(self._setup, ahead=())) if self._workers else None
            with self._lock:
                if job.state != "waiting":
                    return
                job.state, job.worker, job.what = "running", worker, "starting"
                if worker is not None:
                    self._apart.add(worker)
            try:
                self._run(job, worker)
            finally:
                if worker is not None:
                    worker.end()
                    with self._lock:
                        self._apart.discard(worker)

    def _run(self, job: DeskJob, worker: Worker | None) -> None:
        try:
            if worker is None:
                answer = given(answered(job.function, job.arguments, job))
            else:
                answer = worker.compute(job.function, job.arguments, job)
        except StoppedWork as stopped:
            self._over(job, "cancelled", error=str(stopped))
        except DataMarketError as error:
            self._over(job, "failed", error=str(error))
        except FaultOfOurs as fault:
            self._over(job, "fault", error=str(fault))
        except Exception as error:  # whoever waits is to hear of it
            self._over(job, "fault", error=fault_words(error))
        else:
            self._over(job, "done", answer)

    def _over(self, job: DeskJob, state: str, answer: bytes = b"", error: str = "") -> None:
        with self._lock:
            self._forget(job)
            if job.key is not None and state == "done" and len(answer) <= _REMEMBERED // 8:
                self._size += len(answer) - len(self._answers.pop(job.key, b""))
                self._answers[job.key] = answer
                while self._size > _REMEMBERED:
                    self._size -= len(self._answers.popitem(last=False)[1])
            job.end(state, answer, error)
            job.arguments = ()


_STATUS = {"done": 200, "cancelled": 409, "failed": 422, "fault": 500}


def told(job: DeskJob) -> Response:
    """A job as a response: its answer, why there is none, or how far it is."""
    if job.state == "done":
        return _json(job.answer)
    status = _STATUS.get(job.state, 202)
    return _json(json.dumps(job.told()).encode(), status)


def _json(content: bytes, status: int = 200) -> Response:
    return Response(content, status, media_type="application/json")


def _key(function: Function, arguments: Iterable[Any]) -> str:
    written = [
        each.model_dump_json() if isinstance(each, BaseModel) else repr(each) for each in arguments
    ]
    text = json.dumps([f"{function.__module__}.{function.__qualname__}", *written])
    return hashlib.sha256(text.encode()).hexdigest()
