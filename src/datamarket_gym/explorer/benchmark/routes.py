"""What is told of an experiment beside its pictures: what it is, the paper beside it, and all its rows.

What the page of experiments asks: which there are, and of one of them a heat map, a picture, its rows.
"""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Response

from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.progress import Progress
from datamarket_gym.experiments.reproduction import compare_with_paper, count_verdicts
from datamarket_gym.experiments.summary import LABELS
from datamarket_gym.experiments.tables import (
    axes_of,
    key_words,
    metric_titles,
    ratio_beside,
    ratios_of,
    words,
)
from datamarket_gym.explorer.benchmark.charts import (
    WantedResults,
    chart,
    charts_of,
    listed,
    number,
    wanted,
)
from datamarket_gym.explorer.benchmark.heat_map import heat_map
from datamarket_gym.explorer.jobs import WhoAsks
from datamarket_gym.explorer.site import Site

_FIRST = ("gain", "expected_net_gain", "net_gain", "measured")
_NUMBERS = ("value", "se", "seeds", "ratio", "paper", "difference", "tolerance")
_SAID = {
    "value": "mean", "se": "standard error", "seeds": "seeds", "ratio": "ratio of means", "paper": "paper",
    "difference": "difference", "tolerance": "tolerance", "within": "within the tolerance",
    "left_out": "seeds left out", "best_attack": "best attack",
}  # fmt: skip


def experiment(asked: WantedResults, progress: Progress) -> dict[str, Any]:
    """An experiment by name: what it asks, its metrics and pictures, and how near it is to the paper."""
    progress.stage("reading the results")
    found = asked.read()
    spec = found.spec
    present = list(dict.fromkeys(row["metric"] for row in found.rows))
    metrics = [*(m for m in _FIRST if m in present), *(m for m in present if m not in _FIRST)]
    against = compare_with_paper(spec.name, found.rows)
    within, outside, not_claimed = count_verdicts(against)
    return {
        "name": asked.name,
        "experiment": spec.name,
        "title": spec.title,
        "about": " ".join(spec.about.split()),
        "seeds": [found.first_seed, found.last_seed],
        "rows": len(found.rows),
        "made": _made(found.timings, found.versions),
        "metrics": [{"value": metric, "label": metric_titles(metric)} for metric in metrics],
        "charts": [{"value": one.name, "label": one.title} for one in charts_of(asked)],
        "paper": {
            "within": within, "outside": outside, "not_claimed": not_claimed,
            "accounts": [
                {"cell": one.cell, "metric": metric_titles(one.metric), "paper": one.paper, "ours": one.ours,
                 "difference": one.difference, "tolerance": one.tolerance, "verdict": one.verdict, "why": one.why}
                for one in against
            ],
        },
    }  # fmt: skip


def _made(timings: dict[str, Any], versions: dict[str, str]) -> str:
    parts = [f"datamarket-gym {versions['datamarket-gym']}" if "datamarket-gym" in versions else ""]
    seconds = number(timings.get("cell_seconds"))
    if seconds is not None:
        parts.append(f"{timings.get('cells', 'all')} cells, {seconds:,.0f} seconds added up")
    if timings.get("machine"):
        parts.append(str(timings["machine"]))
    return "; ".join(filter(None, parts))


def all_rows(asked: WantedResults, metric: str, progress: Progress) -> dict[str, Any]:
    """The rows of a metric (of all, with none named) as a table: columns, and the values line by line."""
    progress.stage("reading the results")
    everything = asked.read().rows
    rows = asked.rows_of(metric) if metric else everything
    ratios = ratios_of(everything)
    keys = list(dict.fromkeys(key for row in rows for key in (*LABELS, *axes_of(row)) if key in row))
    varying = [key for key in keys if len({str(row.get(key)) for row in rows}) > 1]
    same = {key: str(rows[0].get(key)) for key in keys if key not in varying}
    shown = ["metric", *varying] if not metric else varying
    ends = [key for key in ("within", "left_out", "best_attack") if any(row.get(key) for row in rows)]
    columns = [*shown, *_NUMBERS, *ends]
    lines = []
    for row in rows:
        value, paper = number(row["value"]), number(row.get("paper"))
        more = {
            "value": value,
            "ratio": number(ratio_beside(row, ratios)),
            "paper": paper,
            "difference": None if value is None or paper is None else value - paper,
            "left_out": ", ".join(map(str, row.get("left_out") or [])) or None,
            "within": None if row.get("within") is None else "yes" if row["within"] else "no",
        }
        lines.append([_plain(more[c] if c in more else row.get(c)) for c in columns])
    return {
        "columns": [
            {
                "key": key,
                "title": _SAID.get(key) or key_words(key),
                "number": key in _NUMBERS
                or all(isinstance(row.get(key, 0), int | float) for row in rows),
                "label": key in shown,
            }
            for key in columns
        ],
        "rows": lines,
        "same": [{"label": key_words(key), "value": words(key, value)} for key, value in same.items()],
    }


def _plain(value: Any) -> Any:
    return number(value) if isinstance(value, float) else value


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
