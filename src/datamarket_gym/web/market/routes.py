"""``/api/market``: what may be chosen, what comes of it, and the same as code."""

from __future__ import annotations

from fastapi import APIRouter, Response

from datamarket_gym.web.desk import WhoAsks
from datamarket_gym.web.market.answer import answer
from datamarket_gym.web.market.asked import MarketAsked
from datamarket_gym.web.market.code import code_of
from datamarket_gym.web.market.options import options
from datamarket_gym.web.site import Site


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
