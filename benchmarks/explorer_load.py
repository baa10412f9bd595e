"""Twenty people who move sliders at once: how soon the explorer answers, whether it errs, and whether its memory grows.

Starts ``datamarket explore`` as anybody would and plays its market page: each person has a market of their own (seed,
providers), takes one control after another (theta, a parameter of the attack, knowledge, checks, providers, mechanism,
seed), drags it for a few steps of 0.2 to 0.5 seconds and waits for what it settles on. Questions are sent, given up for
newer ones and followed as the page does it (static/lib/ask.js and pages/market/steady.js). With ``--browsers N`` N of
them are pages in a real browser.

Told are the seconds from a question to its answer, of all that were answered and of those that a drag settled on, the
first page (its document, styles, every script it imports, what it asks first and the first answer), and the memory of
the server and its processes, shared pages counted once: medians of the middle and of the last third of the time.

Usage: python benchmarks/explorer_load.py [--people 20] [--seconds 60] [--browsers 0]
           [--save docs/benchmarks/explorer.json]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np

PATIENCE, POLL = (
    0.4,
    0.1,
)  # of the page: when a question is given up for a newer one, and when a job is asked after
PAUSE = (0.2, 0.5)  # seconds between two moves of a hand
BARS = {"errors": 0, "p95_seconds": 2.0, "first_page_seconds": 1.0, "grown": 1.05}
ATTACKS: dict[str, tuple[str, np.ndarray]] = {
    "near_duplicate_2x_sybils": ("sigma", np.linspace(0.0, 0.1, 21)),
    "copycat": ("sigma", np.linspace(0.0, 1.0, 21)),
    "sybil_split_k": ("k", np.arange(2, 7)),
}
CONTROLS = {
    "theta": 0.35, "parameter": 0.2, "knowledge": 0.1, "checks": 0.1, "providers": 0.1, "attack": 0.05,
    "mechanism": 0.05, "seed": 0.05,
}  # fmt: skip
OPEN = {
    "empty",
    "evidence",
    "granularity",
    "representative",
    "semivalue",
    "estimator",
    "samples",
    "allocation",
    "normalize",
    "leak_check",
}  # what the page leaves to the preset
MECHANISMS = ("recommended", "quotient_shapley", "banzhaf", "shapley")
ASKED, SETTLED = "question to answer", "last move to its answer"
Row = dict[str, Any]


@dataclass
class Told:
    """What came of the questions."""

    answered: list[float] = field(default_factory=list)
    settled: list[float] = field(default_factory=list)
    given_up: int = 0
    errors: list[str] = field(default_factory=list)
    refused: int = 0


@contextlib.contextmanager
def explorer(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The explorer as a process of its own, and the address that it prints."""
    command = "from datamarket_gym.cli import main; main()"
    typed = [sys.executable, "-c", command, "explore", "--no-browser", "--port", "0", *words]
    process = subprocess.Popen(typed, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"http://\S+", line):
                yield process, found.group()
                break
        else:
            raise SystemExit("the explorer did not start")
    finally:
        process.terminate()
        process.wait(20)


async def first_page(url: str, page: str) -> tuple[float, int]:
    """Seconds until the market page, all that it loads and its first answer are there, and their bytes."""
    began, got, size = time.perf_counter(), set[str](), 0
    async with httpx.AsyncClient(base_url=url) as client:
        wanted = {f"/{page}", f"/static/pages/{page}.js", f"/static/pages/{page}.css", "/api/site"}
        while wanted:
            answers = await asyncio.gather(*(client.get(path) for path in wanted))
            got |= wanted
            named: set[str] = set()
            for answer in answers:
                if answer.status_code == 404:  # a page without a style of its own
                    continue
                answer.raise_for_status()
                size += len(answer.content)
                named |= named_in(answer)
            wanted = named - got
        offered = await asked(client, "GET", "/api/market/choices")
        blank = {key: value for key, value in offered.json()["defaults"].items() if key not in OPEN}
        answer = await asked(client, "POST", "/api/market/answer?topic=market", blank)
    return time.perf_counter() - began, size + len(offered.content) + len(answer.content)


async def asked(
    client: httpx.AsyncClient, method: str, path: str, body: Row | None = None
) -> httpx.Response:
    """An answer, after as many looks as it takes."""
    headers = {
        "x-client": "first",
        "x-datamarket": "explorer",
        "origin": str(client.base_url).rstrip("/"),
    }
    answer = await client.request(method, path, json=body, headers=headers)
    while answer.status_code == 202:
        await asyncio.sleep(POLL)
        answer = await client.get(f"/api/jobs/{answer.json()['job']}", headers=headers)
    return answer.raise_for_status()


def named_in(answer: httpx.Response) -> set[str]:
    """The scripts and styles that a document or a module names."""
    kind = answer.headers["content-type"].partition(";")[0]
    if kind == "text/html":
        found = re.findall(r'(?:src|href)="(/static/[^"]+)"', answer.text)
    elif kind == "text/javascript" and len(answer.content) < 500_000:
        found = re.findall(r'(?:from|import)\s*"([^"]+\.js)"', answer.text)
    else:
        found = []
    return {httpx.URL(str(answer.url)).join(each).path for each in found}


class Person:
    """Somebody at the market page: what is on the screen, and the hand that changes it."""

    def __init__(self, number: int, client: httpx.AsyncClient, told: Told) -> None:
        self._rng = np.random.default_rng([number, 15])
        self._client, self._told = client, told
        self._headers = {"x-client": f"person-{number}", "x-datamarket": "explorer"}
        self._headers["origin"] = str(client.base_url).rstrip("/")
        self._turn = 0
        self._theta = 0.95
        self._move_attack()
        self._state: Row = {"seed": number, "providers": int(self._rng.integers(3, 7))}
        self._wanted = asyncio.Event()
        self._seen = asyncio.Event()

    async def sit(self, until: float) -> None:
        """Move one control after another until then."""
        asking = asyncio.create_task(self._ask())
        try:
            while time.perf_counter() < until:
                control = self._controls()
                for _ in range(int(self._rng.integers(3, 9))):
                    control()
                    moved = time.perf_counter()
                    self._seen.clear()
                    self._wanted.set()
                    await asyncio.sleep(self._rng.uniform(*PAUSE))
                await asyncio.wait_for(self._seen.wait(), 60)
                self._told.settled.append(max(self._last - moved, 0.0))
        except TimeoutError:
            self._told.errors.append("no answer within a minute")
        finally:
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asking

    def question(self) -> Row:
        """What is on the screen, as the page asks it."""
        name = ATTACKS[self._attack][0]
        return {
            **self._state, "evidence": f"cosine@{self._theta:.2f}",
            "attack": {"name": self._attack, name: self._parameter},
        }  # fmt: skip

    def _controls(self) -> Callable[[], None]:
        """A control that the hand takes, most often the threshold."""
        names = list(CONTROLS)
        name = str(self._rng.choice(names, p=[CONTROLS[each] for each in names]))
        return getattr(self, f"_move_{name}")

    def _move_theta(self) -> None:
        self._theta = float(
            np.clip(self._theta + self._rng.choice([-0.03, -0.01, 0.01, 0.03]), 0.5, 1.0)
        )

    def _move_parameter(self) -> None:
        self._parameter = self._rng.choice(ATTACKS[self._attack][1]).item()

    def _move_attack(self) -> None:
        self._attack = str(self._rng.choice(list(ATTACKS)))
        self._move_parameter()

    def _move_knowledge(self) -> None:
        self._state["knowledge"] = float(self._rng.choice(np.linspace(0, 1, 11)).round(1))

    def _move_checks(self) -> None:
        self._state["checks"] = int(self._rng.integers(0, 7))

    def _move_providers(self) -> None:
        self._state["providers"] = int(self._rng.integers(2, 9))

    def _move_mechanism(self) -> None:
        self._state["mechanism"] = str(self._rng.choice(MECHANISMS))

    def _move_seed(self) -> None:
        self._state["seed"] = int(self._rng.integers(0, 1000))

    async def _ask(self) -> None:
        """As the page: ask when something has changed; give a question up for a newer one once it is late."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            began = time.perf_counter()
            asked = asyncio.create_task(self._answer(self.question()))
            while not asked.done():
                newer = asyncio.create_task(self._wanted.wait())
                late = (
                    None
                    if not self._wanted.is_set()
                    else max(0.0, began + PATIENCE - time.perf_counter())
                )
                watched = {asked} if late is not None else {asked, newer}
                await asyncio.wait(watched, timeout=late, return_when=asyncio.FIRST_COMPLETED)
                newer.cancel()
                if (
                    not asked.done()
                    and self._wanted.is_set()
                    and time.perf_counter() - began >= PATIENCE
                ):
                    asked.cancel()
                    self._told.given_up += 1
                    break
            with contextlib.suppress(asyncio.CancelledError):
                error = await asked
                self._last = time.perf_counter()
                if error:
                    self._told.errors.append(error)
                else:
                    self._told.answered.append(self._last - began)
                if not self._wanted.is_set():
                    self._seen.set()

    async def _answer(self, body: Row) -> str:
        """Follow a question to its answer; what went wrong, if anything."""
        self._turn += 1
        turn = {"x-turn": str(self._turn)}
        try:
            answer = await self._client.post(
                "/api/market/answer?topic=market", json=body, headers={**self._headers, **turn}
            )
            while answer.status_code == 202:
                await asyncio.sleep(POLL)
                answer = await self._client.get(
                    f"/api/jobs/{answer.json()['job']}", headers=self._headers
                )
        except httpx.HTTPError as error:
            return f"{type(error).__name__}: {error}"
        if answer.status_code == 422 and "nobody to attack" in answer.text:
            self._told.refused += (
                1  # an attack on others by somebody who knows none of them: words are the answer
            )
            return ""
        return (
            ""
            if answer.status_code == 200
            else f"{answer.status_code} {answer.text[:200]} to {json.dumps(body)}"
        )


async def in_a_browser(url: str, count: int, until: float, told: Told) -> AsyncIterator[float]:
    """Pages of a real browser whose theta is dragged; yields the seconds until each showed its first answer."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        pages = []
        for number in range(count):
            page = await browser.new_page()
            page.on(
                "console", lambda said: told.errors.append(said.text) if said.type == "error" else None
            )
            page.on("pageerror", lambda error: told.errors.append(str(error)))
            began = time.perf_counter()
            await page.goto(f"{url}market?seed={number}")
            await page.wait_for_selector("main[data-ready]")
            yield time.perf_counter() - began
            pages.append(page)
        await asyncio.gather(*(drag(page, number, until) for number, page in enumerate(pages)))
        await browser.close()


async def drag(page: Any, number: int, until: float) -> None:
    """Press arrow keys on a slider until then."""
    rng = np.random.default_rng(number)
    slider = page.locator("main input[type=range]").first
    await slider.wait_for(timeout=60_000)
    while time.perf_counter() < until:
        await slider.press(str(rng.choice(["ArrowLeft", "ArrowRight"])))
        await asyncio.sleep(rng.uniform(*PAUSE))


def memory(process: int) -> float:
    """MiB of a process and of all that it began; pages that several share are counted once."""
    total, left = 0, [process]
    while left:
        one = left.pop()
        with contextlib.suppress(OSError):
            told = Path(f"/proc/{one}/smaps_rollup").read_text(encoding="utf-8")
            total += int(re.findall(r"^Pss:\s+(\d+)", told, re.M)[0])
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{one}/task").iterdir():
                left += [
                    int(child) for child in (thread / "children").read_text(encoding="ascii").split()
                ]
    return total / 1024


async def watched(process: int, until: float) -> list[float]:
    """The memory, once a second."""
    found = []
    while time.perf_counter() < until:
        found.append(await asyncio.to_thread(memory, process))
        await asyncio.sleep(1.0)
    return found


async def play(process: int, url: str, people: int, browsers: int, seconds: float) -> list[Row]:
    """Measure it all."""
    cold, _ = await first_page(url, "market")
    warm, size = await first_page(url, "market")
    told = Told()
    until = time.perf_counter() + seconds
    shown: list[float] = []
    limits = httpx.Limits(max_connections=people * 3, max_keepalive_connections=people * 3)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=60) as client:

        async def pages() -> None:
            async for each in in_a_browser(url, browsers, until, told):
                shown.append(each)

        seated = [Person(number, client, told).sit(until) for number in range(people - browsers)]
        used, *_ = await asyncio.gather(
            watched(process, until), *seated, *([pages()] if browsers else [])
        )
    third = len(used) // 3
    middle, last = median(used[third : 2 * third]), median(used[2 * third :])
    for error in told.errors[:5]:
        print("error:", error)
    weight = f"{size / 2**20:.1f} MiB"
    given_up = f"{told.given_up} were given up for newer ones, {told.refused} refused in words"
    rows: list[Row] = [
        {"workload": "first page, just started", "people": 1, "seconds": round(cold, 3), "note": weight},
        {"workload": "first page, again", "people": 1, "seconds": round(warm, 3), "note": weight},
        spread(ASKED, people, told.answered, seconds) | {"errors": len(told.errors), "note": given_up},
        spread(SETTLED, people, told.settled, seconds),
        {"workload": "memory of all processes", "people": people, "middle_mib": round(middle), "last_mib": round(last)},
    ]  # fmt: skip
    if shown:
        rows.append(spread("page in a browser", browsers, shown, seconds))
    return rows


def spread(what: str, people: int, found: list[float], seconds: float) -> Row:
    """Percentiles of some seconds, and how many a second there were."""
    if not found:
        return {"workload": what, "people": people, "note": "none"}
    middle, late, latest = np.percentile(found, [50, 95, 99]).round(3).tolist()
    return {
        "workload": what, "people": people, "count": len(found), "per_second": round(len(found) / seconds, 1),
        "p50": middle, "p95": late, "p99": latest,
    }  # fmt: skip


def missed(rows: list[Row]) -> list[str]:
    """The bars that were not reached."""
    by = {row["workload"]: row for row in rows}
    answers, used = by[ASKED], by["memory of all processes"]
    slow = [name for name in (ASKED, SETTLED) if by[name].get("p95", 99) >= BARS["p95_seconds"]]
    found = [f"{name}: p95 {by[name].get('p95')} s" for name in slow]
    if answers.get("errors", 1) > BARS["errors"]:
        found.append(f"{answers.get('errors')} errors")
    if by["first page, just started"]["seconds"] >= BARS["first_page_seconds"]:
        found.append(f"first page: {by['first page, just started']['seconds']} s")
    if used["last_mib"] > BARS["grown"] * used["middle_mib"]:
        found.append(f"memory grew from {used['middle_mib']} to {used['last_mib']} MiB")
    return found


def main() -> None:
    """Play, print, and save if asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--people", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument(
        "--browsers", type=int, default=0, help="how many of the people use a real browser"
    )
    parser.add_argument("--save", type=Path)
    chosen = parser.parse_args()
    with explorer() as (process, url):
        rows = asyncio.run(play(process.pid, url, chosen.people, chosen.browsers, chosen.seconds))
    for row in rows:
        print(json.dumps(row), flush=True)
    words = missed(rows)
    print("\n".join(f"missed: {each}" for each in words) or "every bar was reached")
    if chosen.save:
        from datamarket_gym.execution.parallel import machine

        people = f"--people {chosen.people} --seconds {chosen.seconds:g}"
        saved = {
            "title": "The explorer under load",
            "command": f"python benchmarks/explorer_load.py {people}",
            "machine": {"machine": machine()},
            "rows": rows,
        }
        chosen.save.write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")
    raise SystemExit(1 if words else 0)


if __name__ == "__main__":
    main()
