"""Pages from templates: one file each, without network; everything that is put in is escaped.

A page carries its own style and scripts. Its content security policy names the scripts by their hashes and allows no
other script and no request: a name that reads like markup is escaped, and could not run either.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from datamarket_gym.display import counted, listed
from datamarket_gym.payout.money import thousands
from datamarket_gym.payout.names import visible

if TYPE_CHECKING:
    from jinja2 import Environment

Row = dict[str, Any]


def render_page(template: str, style: str, scripts: Sequence[str] = (), **values: Any) -> str:
    """Fill a template; only the given scripts can run in the page, by their hashes."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()) for script in scripts)
    policy = " ".join(f"'sha256-{digest.decode()}'" for digest in hashes)
    return fill_template(template, style=read_style(style), scripts=scripts, hashes=policy, **values)


def fill_template(template: str, **values: Any) -> str:
    """Fill a template, or a part of a page."""
    return _environment().get_template(template).render(**values)


@lru_cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("datamarket_gym.payout.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "visible": visible,
        "comma": "{:,}".format,
        "thousands": lambda amount: thousands(amount).replace("-", "\N{MINUS SIGN}"),
        "moment": _format_moment,
    }
    environment.globals |= {"counted": counted, "listed": listed}
    return environment


def _format_moment(text: str) -> str:
    """Write an ISO 8601 time as people read it; any other text as it is."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return visible(text, 200)
    if moment.tzinfo is None:
        return f"{moment:%Y-%m-%d %H:%M}"
    return f"{moment.astimezone(datetime.UTC):%Y-%m-%d %H:%M} UTC"


@lru_cache
def read_template(name: str) -> str:
    """Read a style sheet, a script or another text that pages carry."""
    return (files("datamarket_gym.payout.report") / "templates" / name).read_text(encoding="utf-8")


def read_style(name: str) -> str:
    """Read the style of a page: what all pages share, then its own sheet."""
    return read_template("base.css") + read_template(name)


def embed_json(data: Any) -> str:
    """Write JSON that cannot end the element it stands in."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
