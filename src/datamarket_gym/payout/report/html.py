"""The payout report: one HTML file with everything in it, and a policy that lets nothing else run.

The page carries plotly's own script and one of ours. The content security policy names both by their
hashes and allows no other script and no request: a name that looks like markup stays a name, twice over
(escaped, and not allowed to run).
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from datamarket_gym.payout.report.glossary import PageGlossary
from datamarket_gym.payout.report.state import section
from datamarket_gym.payout.warnings import StandingWarning

if TYPE_CHECKING:
    from jinja2 import Template

Row = dict[str, Any]
_FOOT = '@page {{ @bottom-left {{ content: "Payout run {run}"; }} }}\n'
"""On paper the run stands at the foot of each page; its id is hexadecimal, so nothing has to be escaped."""


@dataclass(frozen=True)
class PayoutPage:
    """All that the report shows, as plain values; texts are escaped by the template."""

    title: str
    run: str
    amount: str
    period: str
    currency: str
    warnings: list[StandingWarning]
    facts: list[tuple[str, str]]
    clock: str  # where times are from
    logged: bool  # they are from the operator's log
    notes: list[str]
    policy: str
    checks: str
    interval: str
    payments: list[Row]
    shown: str
    needs: Row | None
    clusters: list[Row]
    clusters_left_out: int
    chains: list[Row]
    leaks: list[Row]
    leaks_left_out: int
    bought: Row | None
    links: list[Row]
    links_left_out: int
    overrides: list[Row]
    evidence_why: str
    check: Row | None
    red_team: Row | None
    red_team_why: str
    inputs: list[Row]
    mechanism: list[tuple[str, str]]
    charts: dict[str, Any] = field(default_factory=dict)


def render(page: PayoutPage) -> str:
    """The page as HTML."""
    from plotly.offline import get_plotlyjs

    scripts = [get_plotlyjs() if page.charts else "", template_text("payout.js")]
    style = style_sheet("payout.css") + _FOOT.format(run=page.run[:16])
    return filled("payout.html.j2", page, style, scripts, embedded(page.charts), PageGlossary())


def filled(
    template: str,
    page: Any,
    style: str,
    scripts: list[str],
    charts: str = "",
    terms: PageGlossary | None = None,
) -> str:
    """A page by a template that escapes what is put in; only the given scripts can run in it, by their hashes."""
    return _template(template).render(
        page=page,
        style=style,
        scripts=scripts,
        hashes=" ".join(f"'sha256-{_digest(script)}'" for script in scripts),
        charts=charts,
        terms=terms,
        state=section(None),
    )


@lru_cache
def _template(name: str) -> Template:
    """A template, compiled once."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("datamarket_gym.payout.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


@lru_cache
def template_text(name: str) -> str:
    """A style sheet or script that pages carry."""
    return (files("datamarket_gym.payout.report") / "templates" / name).read_text(encoding="utf-8")


@lru_cache
def style_sheet(name: str) -> str:
    """The style of a page: what all pages share, then its own sheet."""
    return template_text("base.css") + template_text(name)


def embedded(data: Any) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
