"""The queue of jobs: questions of pages go to workers, and answers are cached by question.

Equal questions are computed once, whichever page asks. A newer question of one page about one topic supersedes the
older one (a slider that moves): it is not begun if no other page waits for it, and asked to stop if it was begun.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import queue
import secrets
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from fastapi import Depends, Header, Response
from pydantic import BaseModel

from datamarket_gym.errors import DataMarketError
from datamarket_gym.explorer.workers import Function, Setup, Worker, explain_error, run_question

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

    status = 404


class Superseded(DataMarketError):
    """A question arrived after a newer one of its page: its answer is not needed."""

    status = 409


class Busy(DataMarketError):
    """More questions wait than will be answered soon."""

    status = 503


@dataclass(frozen=True)
class Topic:
    """Name the page that asks, by a number of its own, and what it asks about; empty: no question supersedes it.

    ``turn`` counts a page's questions, because they need not arrive in order.
    """

    client: str = ""
    name: str = ""
    turn: int = field(default=0, compare=False)


NO_TOPIC = Topic()


def _topic(
    x_client: Annotated[str, Header(max_length=64)] = "",
    x_turn: Annotated[int, Header(ge=0)] = 0,
    topic: str = "",
) -> Topic:
    return Topic(x_client, topic[:64], x_turn) if x_client and topic else NO_TOPIC


Client = Annotated[Topic, Depends(_topic)]
"""What a route takes to know which page asks."""


@dataclass(eq=False)
class Job:
    """Hold one computation: the pages that wait for it, its progress and its outcome."""

    function: Function
    arguments: tuple[Any, ...]
    key: str | None
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
    slot: list[Job] = field(default_factory=list)
    """The job's place in the queue; a job that supersedes it takes the place."""
    finished: Future[None] = field(default_factory=Future)

    def stage(self, what: str, unit: str = "") -> None:
        """Note that something begins."""
        self.what, self.unit, self.done, self.total = what, unit, 0, 0

    def count(self, done: int, total: int) -> None:
        """Note how much of it is done."""
        self.done, self.total = int(done), int(total)

    def end(self, state: str, outcome: bytes | str) -> None:
        """Note that it is over."""
        self.state, self.over, self.arguments = state, time.monotonic(), ()
        if isinstance(outcome, bytes):
            self.answer = outcome
        else:
            self.error = outcome
        self.finished.set_result(None)

    async def response(self, within: float | None = SOON) -> Response:
        """Respond with its answer if it is there soon, why there is none, or how far it is."""
        await asyncio.wait([asyncio.wrap_future(self.finished)], timeout=within)
        if self.state == "done":
            return _json(self.answer)
        return _json(json.dumps(self.status()).encode(), _STATUS.get(self.state, 202))

    def status(self) -> dict[str, Any]:
        """Describe how far it is, for a page."""
        names = ("state", "what", "unit", "done", "total", "error")
        seconds = round((self.over or time.monotonic()) - self.begun, 1)
        return {"job": self.id, **{name: getattr(self, name) for name in names}, "seconds": seconds}


class JobQueue:
    """Answer questions by ``workers`` processes that stay; with none, in threads of this one (for tests)."""

    def __init__(self, workers: int, setup: Setup | None = None) -> None:
        self._setup = setup or Setup()
        bounded = replace(self._setup, memory=_MEMORY)
        self._workers = [Worker(bounded) for _ in range(workers)]
        self._free: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._threads = ThreadPoolExecutor(workers or 1)
        self._long_threads = ThreadPoolExecutor(_LONG)
        self._answers: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        self._computing: dict[str, Job] = {}  # by key
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._latest: dict[Topic, tuple[int, Job]] = {}  # with the turn of its question
        self._lock = threading.RLock()
        self._long_workers: set[Worker] = set()
        self.ready = threading.Event()
        """Set once a worker can answer, or none can."""

    def begin(self) -> None:
        """Start the workers."""
        for worker in self._workers:
            self._threads.submit(self._prepare, worker)
        if not self._workers:
            self.ready.set()

    def _prepare(self, worker: Worker) -> None:
        worker.prepare()
        self._free.put(worker)
        self.ready.set()

    def end(self) -> None:
        """End all workers."""
        for threads in (self._threads, self._long_threads):
            threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            ending = [*self._workers, *self._long_workers]
        for worker in ending:
            worker.end()

    async def ask(
        self,
        function: Function,
        *arguments: Any,
        client: Topic = NO_TOPIC,
        cache: bool = True,
        within: float | None = SOON,
    ) -> Response:
        """Respond with the answer, if it is there ``within`` these seconds; else with a job to ask after."""
        key = _key(function, arguments) if cache else None
        with self._lock:
            if key is not None and key in self._answers:
                self._answers.move_to_end(key)
                return _json(self._answers[key])
            turn, before = self._latest.get(client, (0, None))
            if client.turn < turn:
                raise Superseded("a newer question of this page came before this one")
            job = self._computing.get(key) if key is not None else None
            if job is None:
                if sum(other.state == "waiting" for other in self._jobs.values()) >= _QUEUE:
                    raise Busy("too many questions wait to be answered; ask again in a moment")
                job = self._new(function, arguments, key)
                if key is not None:
                    self._computing[key] = job
                # A page whose slider moves would else always be last.
                if (
                    before is not None
                    and before.state == "waiting"
                    and before.waiting <= {client.client}
                ):
                    job.slot, before.slot = before.slot, []
                    job.slot[:] = [job]
                else:
                    job.slot = [job]
                    self._threads.submit(self._serve, job.slot)
            self._supersede(client, before, job)
        return await job.response(within)

    async def start(self, function: Function, *arguments: Any) -> Response:
        """Start long work that writes files, in a process of its own, when few others are at work."""
        with self._lock:
            if sum(job.over is None and job.key is None for job in self._jobs.values()) >= _QUEUE:
                raise Busy("too much work waits already; cancel some of it, or wait")
            job = self._new(function, arguments, None)
            self._long_threads.submit(self._run_long, job)
        return _json(json.dumps(job.status()).encode(), 202)

    def job(self, name: str) -> Job:
        """Return a job by its id."""
        with self._lock:
            if name not in self._jobs:
                raise NoSuchJob("this work is not known any more; start it again")
            return self._jobs[name]

    def cancel(self, name: str) -> Job:
        """End a job, whichever pages wait for it."""
        job = self.job(name)
        with self._lock:
            if job.over is None and job.worker is not None and job.worker in self._long_workers:
                job.worker.end()
            else:
                self._end_unwanted(job)
        return job

    def _new(self, function: Function, arguments: tuple[Any, ...], key: str | None) -> Job:
        job = Job(function, arguments, key)
        self._jobs[job.id] = job
        ended = [name for name, other in self._jobs.items() if other.over]
        for name in ended[: max(0, len(self._jobs) - _JOBS)]:
            del self._jobs[name]
        return job

    def _supersede(self, client: Topic, before: Job | None, job: Job) -> None:
        if client is NO_TOPIC:
            job.waiting.add(job.id)  # a page waits, and does not say which
            return
        self._latest[client] = client.turn, job
        job.waiting.add(client.client)
        if before is not None and before is not job:
            before.waiting.discard(client.client)
            if not before.waiting:
                self._end_unwanted(before)
        self._latest = {
            topic: latest
            for topic, latest in self._latest.items()
            if not latest[1].over or latest[1] is job
        }

    def _end_unwanted(self, job: Job) -> None:
        """Do not begin a job that waits; ask one at work to stop, and let a page that asks the same begin anew."""
        if job.state == "waiting":
            self._forget(job)
            job.end("cancelled", "it was not needed any more")
        elif job.over is None and job.worker is not None:
            self._forget(job)
            job.worker.stop()

    def _forget(self, job: Job) -> None:
        """Let equal questions not wait for this job any more."""
        if job.key is not None and self._computing.get(job.key) is job:
            del self._computing[job.key]

    def _serve(self, slot: list[Job]) -> None:
        """Answer the question that has this place in the queue by now."""
        worker = self._free.get() if self._workers else None
        with self._lock:
            jobs = [job for job in slot if job.state == "waiting"]
            for job in jobs:
                job.state, job.worker = "running", worker
        for job in jobs:
            self._run(job, worker)
        if worker is not None:
            self._prepare(worker)  # where it has died, or was worn, the next question waits for no start

    def _run_long(self, job: Job) -> None:
        worker = Worker(replace(self._setup, ahead=())) if self._workers else None
        with self._lock:
            if job.state != "waiting":
                return
            job.state, job.worker, job.what = "running", worker, "starting"
            if worker is not None:
                self._long_workers.add(worker)
        self._run(job, worker)
        if worker is not None:
            worker.end()
            with self._lock:
                self._long_workers.discard(worker)

    def _run(self, job: Job, worker: Worker | None) -> None:
        compute = run_question if worker is None else worker.compute
        try:
            state, outcome = compute(job.function, job.arguments, job)
        except Exception as error:  # such as arguments that a process cannot be sent
            state, outcome = explain_error(error)
        with self._lock:
            self._forget(job)
            if job.key is not None and isinstance(outcome, bytes) and len(outcome) <= _CACHED // 8:
                self._size += len(outcome) - len(self._answers.pop(job.key, b""))
                self._answers[job.key] = outcome
                while self._size > _CACHED:
                    self._size -= len(self._answers.popitem(last=False)[1])
            job.end(state, outcome)


def _json(content: bytes, status: int = 200) -> Response:
    return Response(content, status, media_type="application/json")


def _key(function: Function, arguments: tuple[Any, ...]) -> str:
    parts = [a.model_dump_json() if isinstance(a, BaseModel) else repr(a) for a in arguments]
    text = json.dumps([f"{function.__module__}.{function.__qualname__}", *parts])
    return hashlib.sha256(text.encode()).hexdigest()
