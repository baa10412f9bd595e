"""What the page of thresholds asks for."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import Field

from datamarket_gym.web.desk import WhoAsks
from datamarket_gym.web.site import Site
from datamarket_gym.web.threshold.answers import (
    ShownMarket,
    ThetaOptions,
    checked,
    contents,
    policy,
    rows_shown,
)
from datamarket_gym.web.threshold.origin import AskedRows, Origin, origin_of
from datamarket_gym.web.threshold.sources import choices

_MOST = 16  # rows whose content is shown at a time


class AskedShown(AskedRows):
    """Rows to be shown."""

    market: ShownMarket = ShownMarket()


class AskedTheta(AskedRows):
    """Rows to be checked, and how."""

    check: ThetaOptions = ThetaOptions()


class AskedRowContents(AskedRows):
    """Rows to be looked at."""

    rows: Annotated[tuple[int, ...], Field(max_length=_MOST)]


def router(site: Site) -> APIRouter:
    """The routes below ``/api/threshold``."""
    routes, desk = APIRouter(prefix="/api/threshold"), site.desk

    async def origin(asked: AskedRows) -> Origin:
        return await run_in_threadpool(origin_of, asked, site.places)

    @routes.get("/choices")
    async def all_choices() -> Response:
        runs = await run_in_threadpool(site.places.openable)
        uploads = tuple((each.id, each.name) for each in site.places.uploads.all())
        return await desk.ask(choices, runs, uploads, keep=False)

    @routes.post("/rows")
    async def some_rows(asked: AskedShown, who: WhoAsks) -> Response:
        return await desk.ask(rows_shown, await origin(asked), asked.market, who=who)

    @routes.post("/check")
    async def check(asked: AskedTheta, who: WhoAsks) -> Response:
        return await desk.ask(checked, await origin(asked), asked.check, who=who)

    @routes.post("/policy")
    async def taken(asked: AskedRows, who: WhoAsks) -> Response:
        return await desk.ask(policy, await origin(asked), who=who)

    @routes.post("/contents")
    async def looked_at(asked: AskedRowContents, who: WhoAsks) -> Response:
        return await desk.ask(contents, await origin(asked), asked.rows, who=who)

    return routes
