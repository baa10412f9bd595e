"""What the page of experiments asks: which there are, and of one of them a heat map, a picture, its rows."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Response

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.web.benchmark.charts import chart
from datamarket_gym.web.benchmark.heat import heat_map
from datamarket_gym.web.benchmark.reading import WantedResults, listed, wanted
from datamarket_gym.web.benchmark.told import all_rows, experiment
from datamarket_gym.web.desk import WhoAsks
from datamarket_gym.web.site import Site


def router(site: Site) -> APIRouter:
    """The routes under ``/api/benchmark``."""
    routes = APIRouter(prefix="/api/benchmark")

    def asked(result: str, name: str) -> WantedResults:
        return wanted(site.places.result(result), name)

    @routes.get("/experiments")
    def experiments(result: str) -> dict[str, Any]:
        return {"experiments": listed(site.places.result(result))}

    @routes.get("/experiment")
    async def one(result: str, name: str, who: WhoAsks) -> Response:
        return await site.desk.ask(experiment, asked(result, name), who=who)

    @routes.get("/heat")
    async def heat(
        result: str,
        name: str,
        metric: str,
        who: WhoAsks,
        down: str = "",
        across: str = "",
        picked: str = "",
    ) -> Response:
        question = (asked(result, name), metric, down, across, _picked(picked))
        return await site.desk.ask(heat_map, *question, who=who)

    @routes.get("/chart")
    async def picture(result: str, name: str, picture: str, who: WhoAsks) -> Response:
        return await site.desk.ask(chart, asked(result, name), picture, who=who)

    @routes.get("/rows")
    async def rows(result: str, name: str, who: WhoAsks, metric: str = "") -> Response:
        return await site.desk.ask(all_rows, asked(result, name), metric, who=who)

    return routes


def _picked(text: str) -> dict[str, str]:
    """The values of labels that the page chose: a JSON object of texts."""
    if not text:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise DataMarketError(f"picked = {text!r}: a JSON object of labels and their values is needed")
    return found
