"""The service: answers are remembered, equal questions computed once, and what nobody waits for is dropped."""

import errno
import multiprocessing
import os
import time
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.progress import SILENT
from datamarket_gym.explorer import workers
from datamarket_gym.explorer.jobs import Client, JobQueue, Superseded
from datamarket_gym.explorer.workers import Setup, Worker


def noted(folder, text, seconds, progress):
    """Leaves a trace of having been computed."""
    progress.stage("noting", "steps")
    for step in range(10):
        time.sleep(seconds / 10)
        progress.count(step + 1, 10)
    with (Path(folder) / text).open("a") as file:
        file.write("x")
    return {"text": text, "process": os.getpid()}


def deaf(folder, progress):
    """Says nothing for a while when it is asked first, so that it cannot be stopped; then it answers at once."""
    if not (Path(folder) / "deaf").exists():
        (Path(folder) / "deaf").touch()
        time.sleep(1.2)
    progress.stage("listening")
    return {"heard": True}


def full(progress):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def refused(progress):
    raise DataMarketError("the bad input 'x'; use y")


def broken(progress):
    raise ZeroDivisionError


def unwritable(progress):
    return {"value": float("nan")}


def unfolded(progress):
    return {"bytes": len(bytes(5 * 2**30))}


def ended(progress):
    os._exit(3)


def endless(progress):
    return ["x" * 2**20] * 40


_HELD = []


def hoarding(progress):
    """Keeps 40 MiB for good; says in which process, and what it holds by then."""
    _HELD.append(bytearray(b"x") * (40 * 2**20))
    return os.getpid(), workers.resident_bytes()


@pytest.fixture(scope="module", params=[0, 1], ids=["here", "worker"])
def service(request):
    made = JobQueue(request.param)
    app = FastAPI()

    @app.get("/noted")
    async def route(folder: str, text: str, seconds: float, client: Client, cache: bool = True):
        return await made.ask(noted, folder, text, seconds, client=client, cache=cache)

    @app.get("/long")
    async def long(folder: str, text: str, seconds: float):
        return await made.start(noted, folder, text, seconds)

    @app.get("/deaf")
    async def asked_deaf(folder: str, client: Client):
        return await made.ask(deaf, folder, client=client)

    @app.get("/fails/{which}")
    async def fails(which: str):
        return await made.ask(
            {
                "refused": refused,
                "broken": broken,
                "nothing": unwritable,
                "ended": ended,
                "full": full,
                "unfolded": unfolded,
                "endless": endless,
                "hoarding": hoarding,
            }[which],
            cache=which != "hoarding",
        )

    @app.get("/jobs/{name}")
    async def job(name: str):
        return await made.job(name).response()

    @app.delete("/jobs/{name}")
    async def cancel(name: str):
        return made.cancel(name).status()

    made.begin()
    with TestClient(app) as client:
        client.workers = request.param
        yield client
    made.end()


def after(client, response):
    while response.status_code == 202:
        response = client.get(f"/jobs/{response.json()['job']}")
    return response


def ask(service, folder, text, seconds=0.0, **more):
    headers = {f"x-{name}": str(more.pop(name)) for name in ("client", "turn") if name in more}
    return service.get(
        "/noted",
        params={"folder": str(folder), "text": text, "seconds": seconds, **more},
        headers=headers,
    )


def test_an_answer_is_computed_once_and_remembered(service, tmp_path):
    first = after(service, ask(service, tmp_path, "a"))
    assert first.status_code == 200
    assert (first.json()["process"] == os.getpid()) is (service.workers == 0)
    assert ask(service, tmp_path, "a").json() == first.json()
    assert (tmp_path / "a").read_text() == "x"
    assert after(service, ask(service, tmp_path, "a", cache=False)).status_code == 200
    assert (tmp_path / "a").read_text() == "xx"


def test_long_work_says_how_far_it_is(service, tmp_path):
    told_first = ask(service, tmp_path, "slow", seconds=1.5)
    assert told_first.status_code == 202
    later = service.get(f"/jobs/{told_first.json()['job']}").json()
    assert later["what"] == "noting"
    assert later["unit"] == "steps"
    assert later["total"] == 10
    assert 0 < later["done"] < 10
    assert after(service, told_first).json()["text"] == "slow"


def test_a_newer_question_drops_the_older(service, tmp_path):
    begun = ask(service, tmp_path, "begun", seconds=1.0, client="one", topic="other")
    waiting = ask(service, tmp_path, "waiting", seconds=0.1, client="one", topic="slider")
    assert waiting.status_code == 202
    newer = ask(service, tmp_path, "newer", client="one", topic="slider")
    assert after(service, newer).json()["text"] == "newer"
    dropped = service.get(f"/jobs/{waiting.json()['job']}")
    assert dropped.status_code == 409
    assert dropped.json()["state"] == "cancelled"
    assert not (tmp_path / "waiting").exists()
    assert after(service, begun).status_code == 200


def test_a_question_that_arrives_late_drops_nothing(service, tmp_path):
    ask(service, tmp_path, "before", seconds=1.0)
    newer = ask(service, tmp_path, "newer", client="late", topic="slider", turn=2)
    with pytest.raises(Superseded):
        ask(service, tmp_path, "older", client="late", topic="slider", turn=1)
    assert after(service, newer).json()["text"] == "newer"
    assert not (tmp_path / "older").exists()


def test_what_another_waits_for_is_not_dropped(service, tmp_path):
    ask(service, tmp_path, "before", seconds=1.0)
    mine = ask(service, tmp_path, "shared", client="one", topic="slider")
    ask(service, tmp_path, "shared", client="two", topic="slider")
    ask(service, tmp_path, "mine", client="one", topic="slider")
    assert after(service, mine).json()["text"] == "shared"


def test_who_comes_back_to_a_question_that_is_being_stopped_gets_its_answer(service, tmp_path):
    if service.workers == 0:
        pytest.skip("nothing is stopped here")
    at = {"folder": str(tmp_path), "topic": "slider"}
    first = service.get("/deaf", params=at, headers={"x-client": "back"})
    ask(service, tmp_path, "away", client="back", topic="slider")
    again = service.get("/deaf", params=at, headers={"x-client": "back"})
    assert after(service, again).json() == {"heard": True}
    assert after(service, first).status_code == 409


def test_a_full_disk_is_no_fault(service):
    said = after(service, service.get("/fails/full"))
    assert said.status_code == 422
    assert "no room left on the disk" in said.json()["error"]


def test_failures_are_words(service):
    said = after(service, service.get("/fails/refused"))
    assert said.status_code == 422
    assert said.json()["error"] == "the bad input 'x'; use y"
    for which in ("broken", "nothing"):
        fault = after(service, service.get(f"/fails/{which}"))
        assert fault.status_code == 500
        assert "fault of the explorer" in fault.json()["error"]


def test_a_question_may_not_take_all_memory(service, tmp_path):
    if service.workers == 0:
        pytest.skip("this process has no bound")
    said = after(service, service.get("/fails/unfolded"))
    assert said.status_code == 422
    assert "more memory than a question of a page may" in said.json()["error"]
    assert after(service, ask(service, tmp_path, "then")).json()["text"] == "then"


def test_an_answer_is_bounded(service):
    said = after(service, service.get("/fails/endless"))
    assert said.status_code == 422
    assert "the answer has 40 MiB, and a page takes 32" in said.json()["error"]


def test_a_worker_is_replaced_once_it_holds_much_or_has_answered_many(service, tmp_path, monkeypatch):
    if service.workers == 0:
        pytest.skip("there are no workers")

    def hoard():
        return after(service, service.get("/fails/hoarding")).json()

    first, held = hoard()
    monkeypatch.setattr(workers, "_WORN_BYTES", held + 20 * 2**20)
    assert hoard()[0] == first  # and holds too much then
    second = hoard()[0]
    assert second != first
    assert not os.path.exists(f"/proc/{first}")
    monkeypatch.setattr(workers, "_WORN_QUESTIONS", 2)
    process = [after(service, ask(service, tmp_path, str(i))).json()["process"] for i in range(2)]
    assert process[0] == second != process[1]


def test_a_worker_that_died_is_replaced(service, tmp_path):
    if service.workers == 0:
        pytest.skip("this process would end")
    assert after(service, service.get("/fails/ended")).status_code == 409
    assert after(service, ask(service, tmp_path, "again")).json()["text"] == "again"


def test_work_apart_can_be_cancelled(service, tmp_path):
    if service.workers == 0:
        pytest.skip("what is computed in this process cannot be ended")
    begun = service.get("/long", params={"folder": str(tmp_path), "text": "apart", "seconds": 60})
    assert begun.status_code == 202
    name = begun.json()["job"]
    began = time.monotonic()
    while service.get(f"/jobs/{name}").json().get("what") != "noting":
        assert time.monotonic() - began < 60
    service.delete(f"/jobs/{name}")
    assert after(service, service.get(f"/jobs/{name}")).status_code == 409
    assert not (tmp_path / "apart").exists()
    done = after(
        service, service.get("/long", params={"folder": str(tmp_path), "text": "b", "seconds": 0})
    )
    assert done.json()["text"] == "b"
    assert done.json()["process"] != os.getpid()


def test_a_worker_that_cannot_begin_says_so_and_begins_later(service):
    if service.workers == 0:
        pytest.skip("there are no workers")

    class Refusing:
        refuses = True

        def Pipe(self):
            return spawn.Pipe()

        def Process(self, **options):
            if self.refuses:
                raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            return spawn.Process(**options)

    spawn = multiprocessing.get_context("spawn")
    worker = Worker(Setup(), _context=Refusing())
    state, message = worker.compute(refused, (), SILENT)
    assert state == "fault"
    assert "no process could be started" in message
    worker.end(for_good=False)
    Refusing.refuses = False
    assert worker.compute(refused, (), SILENT) == ("failed", "the bad input 'x'; use y")
    worker.end()


def test_a_question_takes_the_place_of_the_one_it_drops(service, tmp_path):
    busy = ask(service, tmp_path, "busy", seconds=2.0)
    for who, text in (("one", "old"), ("two", "other"), ("one", "new")):
        last = ask(service, tmp_path, text, client=who, topic="slider")
        assert last.status_code == 202
    assert after(service, busy).status_code == after(service, last).status_code == 200
    assert after(service, ask(service, tmp_path, "other")).status_code == 200
    assert not (tmp_path / "old").exists()
    new, other = ((tmp_path / text).stat().st_mtime_ns for text in ("new", "other"))
    assert new < other


def test_work_is_asked_to_stop_once(service, tmp_path):
    seconds = 5.0 if service.workers else 1.0  # what is computed here goes on to its end
    begun = ask(service, tmp_path, "stopped", seconds=seconds).json()["job"]
    for _ in range(3):
        service.delete(f"/jobs/{begun}")
    assert after(service, ask(service, tmp_path, "next")).json()["text"] == "next"
    if service.workers:
        assert service.get(f"/jobs/{begun}").json()["state"] == "cancelled"
        assert not (tmp_path / "stopped").exists()
