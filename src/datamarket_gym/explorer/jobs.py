"""The queue of jobs: questions of pages go to workers, and answers are cached by what was asked.

Equal questions are computed once, whoever asks. A newer question of one client about one topic supersedes the older one
(a slider that moves): one that nobody waits for any more is not begun, and one that was begun is asked to stop.
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
from datamarket_gym.explorer.files import NamedPlaces
from datamarket_gym.explorer.security import Token
from datamarket_gym.explorer.workers import (
    ExplorerFault,
    Function,
    Setup,
    StoppedWork,
    Worker,
    report_fault,
    run_question,
    unwrap,
)

SOON = 0.4
"""Seconds within which an answer is waited for before a job is named instead."""
_CACHED = 64 * 2**20  # bytes of answers
_JOBS = 128  # that are known at a time, those at work aside
_MEMORY = 4 * 2**30  # bytes that a question may take; long work may take what there is
_LONG = 2  # long works at a time
_QUEUE = 200  # questions that wait
_STATUS = {"done": 200, "cancelled": 409, "failed": 422, "fault": 500}


class NoSuchJob(DataMarketError):
    """A job is not known, or not any more."""


class Superseded(DataMarketError):
    """A question arrived after a newer one of its page: nobody waits for it."""


class Busy(DataMarketError):
    """More questions wait than will be answered soon."""


@dataclass(frozen=True)
class Topic:
    """Name the page that asks, by a number of its own, and what it asks about.

    ``turn`` counts a page's questions, because they need not arrive in order.
    """

    client: str = ""
    name: str = ""
    turn: int = field(default=0, compare=False)


ANYBODY = Topic()


def _topic(
    x_client: Annotated[str, Header(max_length=64)] = "",
    x_turn: Annotated[int, Header(ge=0)] = 0,
    topic: str = "",
) -> Topic:
    return Topic(x_client, topic[:64], x_turn)


Client = Annotated[Topic, Depends(_topic)]
"""What a route takes to know who asks."""


@dataclass(eq=False)
class Job:
    """Hold one computation: who waits for it, how far it is, what came of it."""

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
    begun: float = field(default_factory=time.monotonic)
    over: float | None = None
    answer: bytes = b""
    error: str = ""
    waiting: set[str] = field(default_factory=set)
    worker: Worker | None = None
    finished: asyncio.Event = field(default_factory=asyncio.Event)

    def stage(self, what: str, unit: str = "") -> None:
        """Note that something begins."""
        self.what, self.unit, self.done, self.total = what, unit, 0, 0

    def count(self, done: int, total: int) -> None:
        """Note how much of it is done."""
        self.done, self.total = int(done), int(total)

    def end(self, state: str, answer: bytes = b"", error: str = "") -> None:
        """Note that it is over."""
        self.state, self.answer, self.error = state, answer, error
        self.over = time.monotonic()
        with suppress(RuntimeError):  # the server has ended meanwhile
            self.loop.call_soon_threadsafe(self.finished.set)

    async def soon(self) -> None:
        """Wait until it is over, or a moment has gone by."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.finished.wait(), SOON)

    def status(self) -> dict[str, Any]:
        """Describe how far it is, for a page."""
        names = ("state", "what", "unit", "done", "total", "error")
        seconds = round((self.over or time.monotonic()) - self.begun, 1)
        return {"job": self.id, **{name: getattr(self, name) for name in names}, "seconds": seconds}

    def response(self) -> Response:
        """Respond with its answer, why there is none, or how far it is."""
        if self.state == "done":
            return _json(self.answer)
        return _json(json.dumps(self.status()).encode(), _STATUS.get(self.state, 202))


class JobQueue:
    """Answer questions by ``workers`` processes that stay; with none, in threads of this one (for tests)."""

    def __init__(self, workers: int, setup: Setup | None = None) -> None:
        self._setup = setup or Setup()
        bounded = replace(self._setup, memory=_MEMORY)
        self._workers = [Worker(bounded) for _ in range(workers)]
        self._waiting: deque[Job] = deque()
        self._ended = False
        self._threads: list[threading.Thread] = []
        self._answers: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        self._computing: dict[str, Job] = {}  # by key
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._latest: dict[Topic, tuple[int, Job]] = {}  # with the turn of its question
        self._lock = threading.RLock()
        self._more = threading.Condition(self._lock)
        self._long = threading.Semaphore(_LONG)
        self._long_workers: set[Worker] = set()
        self.ready = threading.Event()
        """Set once there is somebody to answer, or nobody who can."""

    def begin(self) -> None:
        """Start the workers, and the threads that hand questions to them."""
        workers: list[Worker | None] = [*self._workers]
        for worker in workers or [None]:
            thread = threading.Thread(target=self._serve, args=(worker,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def end(self) -> None:
        """End all workers."""
        with self._lock:
            self._ended = True
            self._more.notify_all()
            ending = [*self._workers, *self._long_workers]
        for worker in ending:
            worker.end()
        for thread in self._threads:
            thread.join(timeout=5)

    async def ask(
        self, function: Function, *arguments: Any, client: Topic = ANYBODY, cache: bool = True
    ) -> Response:
        """Respond with the answer, if it is there soon; else with a job to ask after."""
        key = _key(function, arguments) if cache else None
        with self._lock:
            if key is not None and key in self._answers:
                self._answers.move_to_end(key)
                return _json(self._answers[key])
            if client in self._latest and client.turn < self._latest[client][0]:
                raise Superseded("a newer question of this page came before this one")
            job = self._computing.get(key) if key is not None else None
            if job is None:
                if len(self._waiting) >= _QUEUE:
                    raise Busy("too many questions wait to be answered; ask again in a moment")
                job = self._new(function, arguments, key)
                if key is not None:
                    self._computing[key] = job
                self._enqueue(client, job)
                self._more.notify()
            self._supersede(client, job)
        await job.soon()
        return job.response()

    async def start(self, function: Function, *arguments: Any) -> Response:
        """Start long work that writes files, in a process of its own, when few others are at work."""
        with self._lock:
            if sum(job.over is None and job.key is None for job in self._jobs.values()) >= _QUEUE:
                raise Busy("too much work waits already; cancel some of it, or wait")
            job = self._new(function, arguments, None)
        threading.Thread(target=self._run_long, args=(job,), daemon=True).start()
        return job.response()

    def job(self, name: str) -> Job:
        """Return a job by its id."""
        with self._lock:
            if name not in self._jobs:
                raise NoSuchJob("this work is not known any more; start it again")
            return self._jobs[name]

    def cancel(self, name: str) -> Job:
        """End a job, whoever waits for it."""
        job = self.job(name)
        with self._lock:
            if job.over is None and job.worker is not None and job.worker in self._long_workers:
                job.worker.end()
            else:
                self._end_unwanted(job)
        return job

    def _new(self, function: Function, arguments: tuple[Any, ...], key: str | None) -> Job:
        job = Job(function, arguments, key, asyncio.get_running_loop())
        self._jobs[job.id] = job
        while len(self._jobs) > _JOBS:
            oldest = next((name for name, each in self._jobs.items() if each.over is not None), None)
            if oldest is None:
                break
            del self._jobs[oldest]
        return job

    def _enqueue(self, client: Topic, job: Job) -> None:
        """To the end, or to the place of the one that it supersedes: else who moves a slider would always be last."""
        _, before = self._latest.get(client, (0, None))
        if before is not None and before in self._waiting and before.waiting <= {client.client}:
            self._waiting.insert(self._waiting.index(before), job)
        else:
            self._waiting.append(job)

    def _supersede(self, client: Topic, job: Job) -> None:
        if not client.client:
            job.waiting.add(job.id)  # somebody waits, and does not say who
            return
        _, before = self._latest.get(client, (0, None))
        self._latest[client] = client.turn, job
        job.waiting.add(client.client)
        if before is not None and before is not job:
            before.waiting.discard(client.client)
            if not before.waiting:
                self._end_unwanted(before)
        for other in [topic for topic, (_, each) in self._latest.items() if each.over is not None]:
            if self._latest[other][1] is not job:
                del self._latest[other]

    def _end_unwanted(self, job: Job) -> None:
        """Do not begin a job that waits; ask one at work to stop, and let whoever asks the same begin anew."""
        if job.state == "waiting":
            if job in self._waiting:  # long work waits elsewhere
                self._waiting.remove(job)
            self._forget(job)
            job.end("cancelled", error="it was not needed any more")
        elif job.over is None and job.worker is not None:
            self._forget(job)
            job.worker.stop()

    def _forget(self, job: Job) -> None:
        """Equal questions do not wait for this job any more."""
        if job.key is not None and self._computing.get(job.key) is job:
            del self._computing[job.key]

    def _serve(self, worker: Worker | None) -> None:
        if worker is not None:
            with suppress(ExplorerFault, StoppedWork):
                worker.await_ready()
        self.ready.set()
        while (job := self._next(worker)) is not None:
            self._run(job, worker)

    def _next(self, worker: Worker | None) -> Job | None:
        """The question that waits longest, when there is one; None at the end."""
        with self._lock:
            self._more.wait_for(lambda: self._waiting or self._ended)
            if self._ended:
                return None
            job = self._waiting.popleft()
            job.state, job.worker = "running", worker
            return job

    def _run_long(self, job: Job) -> None:
        with self._long:
            worker = Worker(replace(self._setup, ahead=())) if self._workers else None
            with self._lock:
                if job.state != "waiting":
                    return
                job.state, job.worker, job.what = "running", worker, "starting"
                if worker is not None:
                    self._long_workers.add(worker)
            try:
                self._run(job, worker)
            finally:
                if worker is not None:
                    worker.end()
                    with self._lock:
                        self._long_workers.discard(worker)

    def _run(self, job: Job, worker: Worker | None) -> None:
        try:
            if worker is None:
                answer = unwrap(run_question(job.function, job.arguments, job))
            else:
                answer = worker.compute(job.function, job.arguments, job)
        except StoppedWork as stopped:
            self._over(job, "cancelled", error=str(stopped))
        except DataMarketError as error:
            self._over(job, "failed", error=str(error))
        except ExplorerFault as fault:
            self._over(job, "fault", error=str(fault))
        except Exception as error:  # whoever waits is to hear of it
            self._over(job, "fault", error=report_fault(error))
        else:
            self._over(job, "done", answer)

    def _over(self, job: Job, state: str, answer: bytes = b"", error: str = "") -> None:
        with self._lock:
            self._forget(job)
            if job.key is not None and state == "done" and len(answer) <= _CACHED // 8:
                self._size += len(answer) - len(self._answers.pop(job.key, b""))
                self._answers[job.key] = answer
                while self._size > _CACHED:
                    self._size -= len(self._answers.popitem(last=False)[1])
            job.end(state, answer, error)
            job.arguments = ()


def _json(content: bytes, status: int = 200) -> Response:
    return Response(content, status, media_type="application/json")


def _key(function: Function, arguments: Iterable[Any]) -> str:
    parts = [each.model_dump_json() if isinstance(each, BaseModel) else repr(each) for each in arguments]
    text = json.dumps([f"{function.__module__}.{function.__qualname__}", *parts])
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Site:
    """Hold what all pages share: the folders and ledgers on show, the queue, and the token.

    ``closed``: every page asks for the token.
    """

    places: NamedPlaces
    queue: JobQueue
    token: Token = field(default_factory=Token)
    closed: bool = False
