"""Runs: the list of them, one of them with its tables and files, why a payee is paid."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from datamarket_gym.errors import DataMarketError
from datamarket_gym.explorer.payout.runs import (
    Around,
    Leafing,
    MovedInputs,
    Named,
    clusters_leaf,
    contents,
    least_covered,
    listed_runs,
    payee_needs,
    payments_leaf,
    recomputed,
    run_file,
    run_page,
    statement,
    verified,
    what_if,
    why,
)
from datamarket_gym.explorer.site import Site
from datamarket_gym.registry import Document


class AskedRun(Document):
    """A run, and where its inputs are by now."""

    run: str
    moved: MovedInputs = MovedInputs()


class AskedPayee(AskedRun):
    """A payee of a run."""

    payee: str


class RunLeaf(Leafing):
    """Part of a table of a run."""

    run: str


def router(site: Site) -> APIRouter:
    """What the pages of runs ask."""
    routes = APIRouter(prefix="/api/payday")
    _reading(routes, site)
    _asking(routes, site)
    return routes


def _reading(routes: APIRouter, site: Site) -> None:
    """What is read from the folders of runs and from their books."""
    places, desk = site.places, site.desk

    @routes.get("/runs")
    async def runs() -> Response:
        books = tuple((place.id, place.path, place.address) for place in places.books())
        return await desk.ask(listed_runs, _named_runs(site), books, keep=False)

    @routes.get("/run")
    async def run(run: str) -> Response:
        around = Around(
            runs=tuple((place.id, place.address) for place in places.runs()),
            books=tuple((place.id, place.address) for place in places.books()),
        )
        return await desk.ask(run_page, places.run(run), around, keep=False)

    @routes.get("/payments")
    async def payments(asked: Annotated[RunLeaf, Query()]) -> Response:
        return await desk.ask(payments_leaf, places.run(asked.run), _leaf(asked), keep=False)

    @routes.get("/clusters")
    async def clusters(asked: Annotated[RunLeaf, Query()]) -> Response:
        return await desk.ask(clusters_leaf, places.run(asked.run), _leaf(asked), keep=False)

    @routes.get("/file")
    def file(run: str, name: str) -> Response:
        return run_file(places.run(run), name)

    @routes.get("/why")
    async def explain(run: str, payee: str) -> Response:
        return await desk.ask(why, places.run(run), payee, keep=False)

    @routes.get("/statement")
    async def page(run: str, payee: str, pseudonyms: bool = False) -> Response:
        return await desk.ask(statement, places.run(run), payee, pseudonyms, keep=False)


def _asking(routes: APIRouter, site: Site) -> None:
    """What takes long or needs the inputs of a run."""
    places, desk = site.places, site.desk

    @routes.post("/verify")
    async def check(asked: AskedRun) -> Response:
        return await desk.ask(verified, places, places.run(asked.run), keep=False)

    @routes.post("/recompute")
    async def recompute(asked: AskedRun) -> Response:
        return await desk.start(recomputed, places, places.run(asked.run), asked.moved)

    @routes.post("/contents")
    async def held(asked: AskedPayee) -> Response:
        return await desk.ask(
            contents, places, places.run(asked.run), asked.payee, asked.moved, keep=False
        )

    @routes.post("/what-if")
    async def without(asked: AskedPayee) -> Response:
        return await desk.start(what_if, places, places.run(asked.run), asked.payee, asked.moved)

    @routes.post("/needs")
    async def needs(asked: AskedPayee) -> Response:
        return await desk.ask(
            payee_needs, places, places.run(asked.run), asked.payee, asked.moved, keep=False
        )

    @routes.post("/least-covered")
    async def least(asked: AskedRun) -> Response:
        return await desk.ask(least_covered, places, places.run(asked.run), asked.moved, keep=False)


def _leaf(asked: Leafing) -> Leafing:
    known: dict[str, Any] = {name: getattr(asked, name) for name in Leafing.model_fields}
    return Leafing(**known)


def _named_runs(site: Site) -> tuple[Named, ...]:
    """Every run with its folder; one whose book may not be opened has none, and why."""
    found: list[Named] = []
    for place in site.places.runs():
        try:
            found.append((place.id, site.places.run(place.id), ""))
        except (DataMarketError, OSError) as error:
            found.append((place.id, None, str(error)))
    return tuple(found)
