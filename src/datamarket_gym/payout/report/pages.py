"""Self-contained HTML pages from templates, and the one section of a run's report that changes after it is written.

A page needs no network. Everything that is put in is escaped, and its content security policy allows only the page's
own scripts, by their hashes: a name that reads like markup could not run either.

The manifest has the hash of the report as drafted. Who approved the run is known later, and only the ledger decides
it; `restate_report` writes it between two comments, which no escaped text can contain.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datamarket_gym.display import counted, listed
from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.files import replacing
from datamarket_gym.payout.ledger.entries import STATES, LedgerEntry
from datamarket_gym.payout.manifest import Check
from datamarket_gym.payout.money import thousands
from datamarket_gym.payout.names import visible

if TYPE_CHECKING:
    from jinja2 import Environment

Row = dict[str, Any]
NAME = "report.html"
BEGINS, ENDS = "<!-- state -->", "<!-- /state -->"
_SHOWN = (*STATES, "approval")


def render_page(template: str, style: str, scripts: Sequence[str] = (), **values: Any) -> str:
    """Fill a template; only the given scripts can run in the page, by their hashes."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()) for script in scripts)
    policy = " ".join(f"'sha256-{digest.decode()}'" for digest in hashes)
    page = template_environment().get_template(template)
    return page.render(style=read_style(style), scripts=scripts, hashes=policy, **values)


@lru_cache
def template_environment(folder: str = "report/templates") -> Environment:
    """Return the environment that fills the templates of a folder of this package; all that is put in is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("datamarket_gym.payout", folder),
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
    """Read a style sheet, a script or another text of the templates."""
    return (files("datamarket_gym.payout.report") / "templates" / name).read_text(encoding="utf-8")


def read_style(name: str) -> str:
    """Read the style of a page: what all pages share, then its own sheet."""
    return read_template("base.css") + read_template(name)


def embed_json(data: Any) -> str:
    """Write JSON that cannot end the element it stands in."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def restate_report(page: str, history: Sequence[LedgerEntry] = ()) -> str:
    """Return a report with the state that the entries of a run lead to; as it was drafted where they are none."""
    before, begins, rest = page.partition(BEGINS)
    _, ends, after = rest.partition(ENDS)
    if not begins or not ends or any(mark in before + after for mark in (BEGINS, ENDS)):
        raise DataMarketError(
            f"{NAME} is not as this version writes it: the section on the run's state is missing, or there are two; "
            "pay again into another folder, which writes the same report"
        )
    states = [entry for entry in history if entry.kind in STATES]
    approvals = [entry for entry in history if entry.kind == "approval"]
    if [entry.kind for entry in (*states, *approvals)] == ["draft"]:
        states = []
    last, template = {entry.kind: entry for entry in states}, "state.html.j2"
    name = states[-1].kind if states else "draft"
    section = (
        template_environment().get_template(template).render(name=name, last=last, approvals=approvals)
    )
    return f"{before}{section}{after}"


def read_report(folder: Path) -> str:
    """Read the report of a run with its line ends as they are."""
    return (folder / NAME).read_bytes().decode("utf-8")


def update_report(folder: Path, history: Sequence[LedgerEntry]) -> None:
    """Write the state of a run into its report, where there is one that can show it."""
    if not (folder / NAME).is_file():
        return
    with suppress(DataMarketError, UnicodeDecodeError):  # `verify` says what is wrong with such a page
        old = read_report(folder)
        new = restate_report(old, history)
        if new != old:
            with replacing(folder / NAME) as part:
                part.write_bytes(new.encode("utf-8"))


def read_draft(folder: Path) -> bytes:
    """Read a report as it was drafted; all of it where it has no section for the state."""
    try:
        return restate_report(read_report(folder)).encode()
    except (DataMarketError, UnicodeDecodeError):
        return (folder / NAME).read_bytes()


def check_state(folder: Path, history: Sequence[LedgerEntry]) -> Check:
    """Check that the state on a report is the run's, or an earlier one.

    A page is behind the ledger where its folder is a copy, or the process was killed after an entry was made.
    """
    page, what = read_report(folder), f"{NAME}, state"
    ends = [n for n, entry in enumerate(history, 1) if entry.kind in _SHOWN]
    matching = [n for n in ends if restate_report(page, history[:n]) == page]
    if not matching:
        return Check(what, False, "the page says otherwise than the ledger")
    if matching[-1] != ends[-1]:
        now = [entry.kind for entry in history if entry.kind in STATES][-1]
        return Check(
            what, True, f"behind: the run is {now}; datamarket ledger show brings it up to date"
        )
    return Check(what, True, "as the ledger has it")
