"""``/api/market``: what may be chosen, what comes of it, and the same as code."""

from __future__ import annotations

from fastapi import APIRouter, Response

from datamarket_gym.explorer.jobs import WhoAsks
from datamarket_gym.explorer.market.answer import answer, code_of
from datamarket_gym.explorer.market.options import options
from datamarket_gym.explorer.market.request import MarketAsked
from datamarket_gym.explorer.site import Site


def router(site: Site) -> APIRouter:
    """The routes of the page."""
    routes = APIRouter(prefix="/api/market")

    @routes.get("/options")
    async def offered() -> Response:
        return await site.desk.ask(options)

    @routes.post("/answer")
    async def answered(asked: MarketAsked, who: WhoAsks) -> Response:
        return await site.desk.ask(answer, asked, who=who)

    @routes.post("/code")
    async def written(asked: MarketAsked) -> Response:
        return await site.desk.ask(code_of, asked)

    return routes
