"""The page of a new payout run: choose tables, see them checked, choose settings, run it as a dry run, run it.

Files are named by ids, never by paths: what is neither in a named folder nor uploaded cannot be read. Uploads of a run
are copied beside it, as verifying and approving work it out again from them. The settings are first those of the
market's `market.toml`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from pydantic import Field

from datamarket_gym.data.readers.arrays import ENDINGS as ARRAYS
from datamarket_gym.data.readers.tables import ENDINGS, ending, file_and_member
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.execution.files import sha256
from datamarket_gym.execution.progress import Progress
from datamarket_gym.explorer.files import UPLOADED, NamedPlaces, NotThere, Place
from datamarket_gym.explorer.payout.form import OPTIONS, fields, for_page, form
from datamarket_gym.explorer.payout.runs import warning_rows
from datamarket_gym.explorer.payout.tables import Order, OrderedFile, check_tables, preview_file
from datamarket_gym.explorer.routes import Routes, Site
from datamarket_gym.payout.ledger.runs import default_ledger
from datamarket_gym.payout.market_file import FILE, market_toml, read_market
from datamarket_gym.payout.run import (
    OF_ONE_RUN,
    PayRequest,
    as_command,
    given_settings,
    pay_requested,
    rehearsal,
)
from datamarket_gym.payout.settings import PayOptions, worth_of
from datamarket_gym.registry import Document

PAYMENTS = 50
"""Payments on the page; the page of the run has all."""
MOST_LISTED = 12
"""Tables that are listed of a folder inside a named one; of more, such as the batches of a month, none is."""
_UPLOAD = "upload:"
_KINDS = {*ENDINGS, *ARRAYS, ".toml"}
_MODULE = re.compile(r"\.(?!\d)")  # a point that is in no number
_LONGEST = 120  # characters of a name


class RunValues(Document):
    """Hold what stands on the page: settings by their names; files, ledgers and runs by their ids."""

    values: dict[str, str | int | float | bool | list[str]] = Field(default_factory=dict)


class FileRequest(Document):
    """Name a file."""

    file: str


class NewRunRequest(RunValues):
    """Ask for a payout run in a folder of a market."""

    market: str = ""
    name: str = "payout"


def choose_file(places: NamedPlaces, text: str) -> OrderedFile:
    """Find the file of an id; ``id#Sheet`` is a sheet of a spreadsheet, or an array of an ``.npz``."""
    id_, mark, member = text.partition("#")
    uploaded = id_.startswith(_UPLOAD)
    if uploaded:
        upload = places.uploads.get(id_.removeprefix(_UPLOAD))
        path, name = upload.path, upload.name
    else:
        path, name = _named_file(places, id_), id_
    stat = path.stat()
    return OrderedFile(
        path=f"{path}{mark}{member}",
        name=f"{name}{mark}{member}",
        stamp=f"{stat.st_size} {stat.st_mtime_ns}",
        uploaded=uploaded,
    )


def _named_file(places: NamedPlaces, id_: str) -> Path:
    for each in places.files(_KINDS):
        if each.id == id_:
            return places.inside(each.folder)
    raise NotThere(
        f"there is no file {id_!r} in the folders that were named; choose another, or upload it"
    )


def order_of(places: NamedPlaces, page: RunValues) -> Order:
    """Find all files, earlier runs and ledgers of what stands on a page; refuse settings that it does not have."""
    files, values = dict[str, OrderedFile](), dict[str, Any]()
    for name, value in page.values.items():
        if name not in fields():  # a link could hold what the page does not show
            raise ParameterError(name, value, "it is no setting of this page; use the command line")
        if value in ("", []) and not (name == "columns.label" and value == ""):
            continue
        kind = fields()[name]["kind"]
        if kind == "file":
            files[name] = choose_file(places, str(value))
            value = files[name].path
        elif kind == "ledger":
            value = places.ledger(str(value))
        elif kind == "run":
            value = str(places.run(str(value)))
        elif kind == "runs":
            value = [
                str(places.run(run)) for run in (value if isinstance(value, list) else [str(value)])
            ]
        values[name] = value
    learner = str(values.get("learner", ""))
    if _MODULE.search(learner):  # a link holds settings, and would import it
        remedy = (
            "it names a module, and pages import none; name a classifier of scikit-learn without its module, or use "
            "the command line"
        )
        raise ParameterError("learner", learner, remedy)
    return Order(values=values, files=files)


def pay_request(order: Order, out: Path) -> PayRequest:
    """Return the payout run that the command line would be asked for."""
    for role, name in (("submissions", "submissions"), ("validation", "validation rows")):
        if role not in order.files:
            raise DataMarketError(f"there is no file of {name}; choose one above")
    given = {name: order.values[name] for name in PayOptions.model_fields if name in order.values}
    return PayRequest(**given, out=out, spec=order.spec(), submissions=order.values["submissions"])


def with_copies(order: Order, run: Path) -> Order:
    """Copy uploads to beside the run; refuse to replace files of another run."""
    folder, taken = run.with_name(f"{run.name}-inputs"), set[str]()
    for role, each in order.files.items():
        if each.uploaded:
            path, _ = file_and_member(each.path)
            stem = Path(each.name.split("#")[0]).stem
            safe = "".join(c if c.isalnum() or c in " ._-" else "_" for c in stem).strip(" .")
            name = f"{safe[:_LONGEST] or 'table'}{path.suffix}"
            name = f"{role} {name}" if name in taken else name
            taken.add(name)
            copy = each.model_copy(update={"path": _copy(each.path, folder / name)})
            order = order.with_file(role, copy)
    return order


def _copy(upload: str, to: Path) -> str:
    """Put a file there, whole or not at all; one that is there already must be equal."""
    file, member = file_and_member(upload)
    if not to.exists():
        to.parent.mkdir(parents=True, exist_ok=True)
        part = to.with_name(f".{to.name}.part")
        shutil.copyfile(file, part)
        os.replace(part, to)
    elif sha256(to) != sha256(file):
        raise DataMarketError(
            f"{to.parent.name!r} holds another {to.name!r} already, of which a run was made; choose another name "
            "for this run"
        )
    return f"{to}#{member}" if member else str(to)


def pay_run(
    order: Order, out: Path, place: str, rehearse_in: Path | None, progress: Progress
) -> dict[str, Any]:
    """Make the payout run: a draft in the market's ledger; ``place`` is the id of the run.

    A dry run is made in a folder, and with a ledger, of its own.
    """
    order = with_copies(order, out if rehearse_in is None else rehearse_in / "run")
    request = pay_request(order, out)
    if rehearse_in is not None:
        request = rehearsal(request, rehearse_in)
    try:
        paid = pay_requested(request, progress)
    except DataMarketError as error:
        raise DataMarketError(order.in_words(str(error))) from error
    columns = ["identity", *paid.columns, "units"]
    return {
        "place": place,
        "dry": rehearse_in is not None,
        "run": paid.manifest["run"],
        "title": paid.title,
        "identities": paid.manifest["identities"],
        "columns": columns,
        "payments": [{name: row[name] for name in columns} for row in paid.payments(PAYMENTS)],
        "warnings": warning_rows(paid.warnings),
        "notes": [order.in_words(f"{note.words.rstrip('.')}.") for note in paid.market_warnings],
        "sentences": [order.in_words(text) for text in [*paid.sentences, paid.played]],
        "checks": paid.request.spec.checks,
    }


def _target(places: NamedPlaces, request: NewRunRequest) -> Path:
    """Return where a run goes; without a market the folder is a name alone."""
    if not request.market:
        return Path(request.name or "payout")
    return places.new_run(request.market, request.name)


def _written(places: NamedPlaces, request: NewRunRequest) -> dict[str, Any]:
    """Say what is wrong with the settings and the name of a run, and write it as a command line."""
    order = order_of(places, request)
    faults = order.faults()
    out = Path(request.name)
    try:
        out = _target(places, request)
    except NotThere:
        raise
    except DataMarketError as error:
        faults["name"] = str(error)
    answer = {"faults": faults, "paid_for": "", "command": "", "config": "", "toml": ""}
    if "learner" not in faults:
        answer["paid_for"] = f"Paid for {worth_of(order.lenient_spec().utility_function).divided}."
    if not faults and {"submissions", "validation"} <= order.files.keys():
        for (
            role,
            file,
        ) in order.files.items():  # uploads have the names that they have where they came from
            if file.uploaded:
                order = order.with_file(role, file.model_copy(update={"path": file.name}))
        pay = pay_request(order, out)
        answer |= {
            "command": as_command(pay),
            "config": as_command(pay, with_file=True),
            "toml": market_toml({n: v for n, v in given_settings(pay).items() if n not in OF_ONE_RUN}),
        }
    return answer


def first_values(places: NamedPlaces, market: str) -> dict[str, Any]:
    """Return what the form of a market begins with: its `market.toml`, files by their ids; and what is not shown."""
    path, values, notes = places.new_run(market, FILE), dict[str, Any](), list[str]()
    if not path.is_file():
        return {"values": values, "notes": notes}
    try:
        said = read_market(path)
    except DataMarketError as error:
        return {"values": values, "notes": [for_page(str(error))]}
    ids = {os.path.realpath(each.address): each.id for each in _named(places)}
    ids |= {each.address: each.id for each in places.ledgers()}

    def shown(text: str) -> str:
        file, _, member = text.partition("#")
        found = ids.get(file) or ids.get(os.path.realpath(file), "")
        return f"{found}#{member}" if found and member else found

    for name in said.keys() & fields().keys():
        value, kind = said[name], fields()[name]["kind"]
        if kind in ("file", "ledger", "run", "runs"):
            several = [shown(str(each)) for each in (value if isinstance(value, list) else [value])]
            if (
                "" in several
                and kind == "ledger"
                and value == str(path.parent / Path(default_ledger(path)).name)
            ):
                continue  # that beside the run, which the first run begins
            if "" in several:
                notes.append(
                    f"{FILE} names {value!r} ({OPTIONS[name].option}), which is not there, or in no folder that the "
                    "explorer was told to show; name its folder on the command line as well."
                )
                continue
            value = several if kind == "runs" else several[0]
        values[name] = value
    return {"values": values, "notes": notes}


def _named(places: NamedPlaces) -> list[Place]:
    return [*places.files(_KINDS), *places.runs()]


def list_files(places: NamedPlaces) -> dict[str, Any]:
    """List the tables of named folders, the newest first, and say of which folders inside them there are too many."""
    files = places.files(_KINDS)
    inside = Counter(folder for file in files if "/" in (folder := file.id.rpartition("/")[0]))
    many = {folder: count for folder, count in inside.items() if count > MOST_LISTED}
    files = [file for file in files if file.id.rpartition("/")[0] not in many]
    files.sort(key=lambda file: -file.folder.stat().st_mtime)
    return {
        "files": [_listed(file.id, file.id, file.folder) for file in files],
        "left_out": [f"{count:,} tables in {folder}" for folder, count in sorted(many.items())],
    }


def _listed(id_: str, name: str, path: Path) -> dict[str, Any]:
    return {"id": id_, "name": name, "size": path.stat().st_size, "ending": ending(path)}


def router(site: Site) -> APIRouter:
    """Build the routes of the page."""
    routes, places = Routes("/api/payout/new", site), site.places

    def file(request: FileRequest) -> tuple[OrderedFile]:
        return (choose_file(places, request.file),)

    def order(request: RunValues) -> tuple[Order]:
        return (order_of(places, request),)

    def rehearsed(request: NewRunRequest) -> tuple[Any, ...]:
        order, out = order_of(places, request), _target(places, request)
        order.spec()  # which refuses what is wrong with the settings
        ledger = Path(order.values.get("ledger") or default_ledger(out))
        stamp = f"{ledger.stat().st_size} {ledger.stat().st_mtime_ns}" if ledger.is_file() else ""
        key = hashlib.sha256(f"{order.model_dump_json()} {out} {stamp}".encode()).hexdigest()
        folder = places.new_run(None, f"dry-run-{key[:12]}")
        if not request.market:
            out = folder / "run"
        return order, out, f"{UPLOADED}/{folder.name}/run", folder

    def paid(request: NewRunRequest) -> tuple[Any, ...]:
        if not request.market:
            raise DataMarketError(
                "there is no folder to pay in; start the explorer with one (datamarket explore MARKET/), or copy the "
                "command line"
            )
        order, out = order_of(places, request), _target(places, request)
        order.spec()
        return order, out, f"{request.market}/{out.name}", None

    @routes.get("/form")
    def get_form() -> dict[str, Any]:
        uploads = [(f"{_UPLOAD}{file.id}", file.name, file.path) for file in places.uploads.all()]
        return form() | list_files(places) | {
            "uploads": [_listed(*file) for file in uploads],
            "markets": {market: first_values(places, market) for market in places.markets()},
            "ledgers": [ledger.id for ledger in places.ledgers()],
        }  # fmt: skip

    @routes.post("/settings")
    def post_settings(request: NewRunRequest) -> dict[str, Any]:
        return _written(places, request)

    routes.answer("POST", "/preview", preview_file, FileRequest, file, cache=True)
    routes.answer("POST", "/check", check_tables, RunValues, order, cache=True)
    routes.answer("POST", "/dry-run", pay_run, NewRunRequest, rehearsed, long=True)
    routes.answer("POST", "/run", pay_run, NewRunRequest, paid, long=True)
    return routes
