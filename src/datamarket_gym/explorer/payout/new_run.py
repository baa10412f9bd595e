"""The page of a new payout run: choose tables, see them checked, choose settings, run it as a dry run, run it.

Files are named by ids, never by paths, and nothing in the settings names a file: what is neither in a named folder nor
uploaded cannot be read. Uploads of a run are copied beside it, as verifying and approving work it out again from them.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from fastapi import APIRouter
from pydantic import Field

from datamarket_gym.data.readers.arrays import ENDINGS as ARRAYS
from datamarket_gym.data.readers.tables import ENDINGS, ending, file_and_member
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.execution.files import sha256
from datamarket_gym.execution.progress import Progress
from datamarket_gym.explorer.files import UPLOADED, NamedPlaces, NotThere
from datamarket_gym.explorer.payout.runs import OpenableRuns, record_of, summary
from datamarket_gym.explorer.payout.tables import Order, OrderedFile, check_tables, preview_file
from datamarket_gym.explorer.routes import Routes, Site
from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.entries import APPROVED
from datamarket_gym.payout.ledger.runs import default_ledger
from datamarket_gym.payout.market_file import market_toml
from datamarket_gym.payout.run import (
    OF_ONE_RUN,
    PaidRequest,
    PayRequest,
    as_command,
    given_settings,
    pay_requested,
    rehearsal,
)
from datamarket_gym.payout.settings import SETTINGS, PayoutSpec, Setting, worth_of
from datamarket_gym.registry import Document, components

PAYMENTS = 50
"""Payments on the page; the page of the run has all."""
TABLES = ("submissions", "validation", "reference")
ROLES = (
    *TABLES, "overrides", "linkage.edges", "files.scores", "files.features", "files.embedding",
    "files.validation_features", "files.reference_features",
)  # fmt: skip
"""What a file can be for; the last are settings whose values are files."""
_UPLOAD = "upload:"
_KINDS = {*ENDINGS, *ARRAYS, ".toml"}
_MODULE = re.compile(r"\.(?!\d)")  # a point that is in no number
_LONGEST = 120  # characters of a name
_OPEN = ("Amount", "What is paid for", "Checks")  # panels
_NO_FIELDS = {"columns.image"}  # with files: they are chosen, not named


def form() -> list[dict[str, Any]]:
    """Describe the fields of the settings in their groups, as the settings themselves describe them."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for name, setting in SETTINGS.items():
        if name not in ROLES and name not in _NO_FIELDS and not name.startswith("files."):
            groups.setdefault(setting.panel or "", []).append(_field(name, setting))
    return [
        {"title": panel, "open": panel in _OPEN, "fields": fields} for panel, fields in groups.items()
    ]


def _field(name: str, setting: Setting) -> dict[str, Any]:
    section, _, key = name.rpartition(".")
    model: Any = PayoutSpec.model_fields[section].annotation if section else PayoutSpec
    field = model.model_fields[key]
    kinds = {bool: "flag", int: "whole", float: "number", list: "list"}
    kind, choices = kinds.get(setting.kind, "text"), _suggestions().get(name)
    if choices:
        kind = "suggested"
    elif get_origin(field.annotation) is Literal:
        kind, choices = "choice", list(get_args(field.annotation))
    label = setting.option.replace("-", " ").capitalize()
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    clauses = re.split(r"(?<=[.;]) ", setting.help)  # without those that speak of the command line
    help_ = " ".join(c for c in clauses if "--" not in c and "see:" not in c.lower())
    about = {"name": name, "label": label, "kind": kind, "default": default}
    about["help"] = f"{help_.rstrip('.;')}."
    return about | ({"choices": choices} if choices else {})


def _suggestions() -> dict[str, list[str]]:
    coverage = ["recommended", "coverage"]
    utilities = [name for name in components("learner") if name not in (*coverage, "sklearn")]
    encoders = sorted(components("encoder"))
    return {"learner": [*coverage, *utilities], "theta": ["auto", "none"], "encoder": encoders}


class RunSettings(Document):
    """Hold what stands on the page: files by role, settings by their names, earlier runs, an intake log."""

    files: dict[str, str] = Field(default_factory=dict)
    settings: dict[str, str | int | float | bool | list[str]] = Field(default_factory=dict)
    acquired: list[str] = Field(default_factory=list, max_length=100)
    intake: str = ""


class FileRequest(Document):
    """Name a file, and what it is for."""

    role: str
    file: str


class NewRunRequest(Document):
    """Ask for a payout run in a folder of a market, and its ledger; beside it, if none is named."""

    settings: RunSettings
    market: str = ""
    name: str = "payout"
    ledger: str = ""


def require_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a page without those that are empty; refuse one that names a file."""
    for name in settings:
        if name.startswith("files.") or name == "linkage.edges":
            raise ParameterError(name, settings[name], "choose a file for it, instead of naming one")
        if name not in _offered():  # a link could hold what the page does not show
            remedy = "it is no setting of this page; use the command line"
            raise ParameterError(name, settings[name], remedy)
    learner = str(settings.get("learner", ""))
    if _MODULE.search(learner):  # a link holds settings, and would import it
        raise ParameterError(
            "learner",
            learner,
            "it names a module, and pages import none; name a classifier of scikit-learn without its module, or use "
            "the command line",
        )
    chosen = {name: value for name, value in settings.items() if value not in ("", [])}
    return chosen | ({"columns.label": ""} if settings.get("columns.label") == "" else {})


@cache
def _offered() -> frozenset[str]:
    return frozenset(field["name"] for group in form() for field in group["fields"])


def endings(role: str) -> tuple[str, ...]:
    """Return the endings of files for a role."""
    if role == "overrides":
        return (".toml",)
    if role.endswith("features") or role == "files.embedding":
        return ARRAYS
    return (*ENDINGS, *ARRAYS) if role == "files.scores" else ENDINGS


def choose_file(places: NamedPlaces, role: str, text: str) -> OrderedFile:
    """Find the file of an id; ``id#Sheet`` is a sheet of a spreadsheet, or an array of an ``.npz``."""
    if role not in ROLES:
        raise DataMarketError(f"no file is for {role!r}; there are: {', '.join(ROLES)}")
    id_, mark, member = text.partition("#")
    uploaded = id_.startswith(_UPLOAD)
    if uploaded:
        upload = places.uploads.get(id_.removeprefix(_UPLOAD))
        path, name = upload.path, upload.name
    else:
        path, name = _named_file(places, id_), id_
    stat = path.stat()
    return OrderedFile(
        role=role,
        path=Path(f"{path}{mark}{member}"),
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


def order_of(places: NamedPlaces, page: RunSettings) -> Order:
    """Find all files, earlier runs and the intake log of what stands on a page."""
    files = (choose_file(places, role, text) for role, text in page.files.items() if text)
    return Order(
        files=tuple(files),
        settings=require_settings(page.settings),
        acquired=tuple(places.run(name) for name in page.acquired),
        intake=places.ledger(page.intake) if page.intake else None,
    )


def pay_request(order: Order, out: Path, ledger: str | None) -> PayRequest:
    """Return the payout run that the command line would be asked for."""
    for role, name in (("submissions", "submissions"), ("validation", "validation rows")):
        if order.path(role) is None:
            raise DataMarketError(f"there is no file of {name}; choose one above")
    submissions, validation, reference = (order.path(role) for role in TABLES)
    return PayRequest(
        submissions=str(submissions),
        validation=str(validation),
        out=out,
        spec=order.spec(),
        overrides=order.path("overrides"),
        reference=None if reference is None else str(reference),
        ledger=ledger,
        acquired=order.acquired,
        intake=order.intake,
    )


def with_copies(order: Order, run: Path) -> Order:
    """Copy uploads to beside the run; refuse to replace files of another run."""
    folder, taken, files = run.with_name(f"{run.name}-inputs"), set[str](), []
    for each in order.files:
        if each.uploaded:
            path, _ = file_and_member(str(each.path))
            stem = Path(each.name.split("#")[0]).stem
            safe = "".join(c if c.isalnum() or c in " ._-" else "_" for c in stem).strip(" .")
            name = f"{safe[:_LONGEST] or 'table'}{path.suffix}"
            name = f"{each.role} {name}" if name in taken else name
            taken.add(name)
            each = each.model_copy(update={"path": _copy(each.path, folder / name)})
        files.append(each)
    return order.model_copy(update={"files": tuple(files)})


def _copy(upload: Path, to: Path) -> Path:
    """Put a file there, whole or not at all; one that is there already must be equal."""
    file, member = file_and_member(str(upload))
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
    return Path(f"{to}#{member}") if member else to


def approved_runs(runs: OpenableRuns, *, progress: Progress) -> dict[str, Any]:
    """List the approved ones of these runs; one whose ledger cannot be read is none."""
    ledgers: dict[str, Accounts] = {}
    approved = []
    progress.stage("looking for approved runs", "runs")
    for done, (name, folder) in enumerate(runs, 1):
        progress.count(done, len(runs))
        with suppress(DataMarketError):
            record = record_of(folder, ledgers)
            if record.state in APPROVED:
                approved.append(summary(record) | {"id": name})
    return {"runs": approved}


def pay_run(
    order: Order, out: Path, ledger: str | None, place: str, rehearse_in: Path | None, progress: Progress
) -> dict[str, Any]:
    """Make the payout run: a draft in the market's ledger; ``place`` is the id of the run.

    A dry run is made in a folder, and with a ledger, of its own.
    """
    order = with_copies(order, out if rehearse_in is None else rehearse_in / "run")
    request = pay_request(order, out, ledger)
    if rehearse_in is not None:
        request = rehearsal(request, rehearse_in)
    try:
        paid: PaidRequest = pay_requested(request, progress)
    except DataMarketError as error:
        raise DataMarketError(order.with_names(str(error))) from error
    columns = ["identity", *paid.columns, "units"]
    return {
        "place": place,
        "dry": rehearse_in is not None,
        "run": paid.manifest["run"],
        "title": paid.title,
        "identities": paid.manifest["identities"],
        "columns": columns,
        "payments": [{name: row[name] for name in columns} for row in paid.payments(PAYMENTS)],
        "warnings": [asdict(w) | {"words": order.with_names(w.words)} for w in paid.warnings],
        "notes": [order.with_names(f"{note.words.rstrip('.')}.") for note in paid.market_warnings],
        "sentences": [order.with_names(text) for text in [*paid.sentences, paid.played]],
        "checks": paid.request.spec.checks,
    }


Target = tuple[Path, str | None]
"""The folder of a run, and the ledger that is named."""


def _target(places: NamedPlaces, request: NewRunRequest) -> Target:
    """Return where a run goes; without a market the folder is a name alone."""
    ledger = places.ledger(request.ledger) if request.ledger else None
    if not request.market:
        return Path(request.name or "payout"), ledger
    return places.new_run(request.market, request.name), ledger


def _written(places: NamedPlaces, request: NewRunRequest) -> dict[str, Any]:
    """Say what is wrong with the settings and the name of a run, and write it as a command line."""
    order = order_of(places, request.settings)
    faults = order.faults()
    try:
        target = _target(places, request)
    except NotThere:
        raise
    except DataMarketError as error:
        faults["name"] = str(error)
    answer = {"faults": faults, "paid_for": "", "command": "", "config": "", "toml": ""}
    if "learner" not in faults:
        answer["paid_for"] = f"Paid for {worth_of(order.lenient_spec().utility_function).divided}."
    if not faults and order.path("submissions") and order.path("validation"):
        pay = pay_request(order.with_upload_names(), *target)
        answer |= {
            "command": as_command(pay),
            "config": as_command(pay, with_file=True),
            "toml": market_toml({n: v for n, v in given_settings(pay).items() if n not in OF_ONE_RUN}),
        }
    return answer


def router(site: Site) -> APIRouter:
    """Build the routes of the page."""
    routes, places = Routes("/api/payout/new", site), site.places

    def file(request: FileRequest) -> tuple[OrderedFile]:
        return (choose_file(places, request.role, request.file),)

    def order(request: RunSettings) -> tuple[Order]:
        return (order_of(places, request),)

    def valid(request: NewRunRequest) -> tuple[Order, Path, str | None]:
        order = order_of(places, request.settings)
        order.spec()  # which refuses what is wrong with the settings
        return order, *_target(places, request)

    def rehearsed(request: NewRunRequest) -> tuple[Any, ...]:
        order, out, ledger = valid(request)
        file = Path(ledger or default_ledger(out))
        stamp = f"{file.stat().st_size} {file.stat().st_mtime_ns}" if file.is_file() else ""
        key = hashlib.sha256(f"{order.model_dump_json()} {out} {ledger} {stamp}".encode()).hexdigest()
        folder = places.new_run(None, f"dry-run-{key[:12]}")
        if not request.market:
            out, ledger = folder / "run", None
        return order, out, ledger, f"{UPLOADED}/{folder.name}/run", folder

    def paid(request: NewRunRequest) -> tuple[Any, ...]:
        if not request.market:
            raise DataMarketError(
                "there is no folder to pay in; start the explorer with one (datamarket explore MARKET/), or copy the "
                "command line"
            )
        order, out, ledger = valid(request)
        return order, out, ledger, f"{request.market}/{out.name}", None

    @routes.get("/form")
    def get_form() -> dict[str, Any]:
        files = [(file.id, file.id, file.folder) for file in places.files(_KINDS)]
        uploads = [(f"{_UPLOAD}{file.id}", file.name, file.path) for file in places.uploads.all()]
        return {
            "groups": form(),
            "roles": {role: list(endings(role)) for role in ROLES},
            "files": [_listed(*file) for file in files],
            "uploads": [_listed(*file) for file in uploads],
            "markets": places.markets(),
            "ledgers": [ledger.id for ledger in places.ledgers()],
        }

    @routes.post("/settings")
    def post_settings(request: NewRunRequest) -> dict[str, Any]:
        return _written(places, request)

    routes.answer("GET", "/earlier", approved_runs)
    routes.answer("POST", "/preview", preview_file, FileRequest, file, cache=True)
    routes.answer("POST", "/check", check_tables, RunSettings, order, cache=True)
    routes.answer("POST", "/dry-run", pay_run, NewRunRequest, rehearsed, long=True)
    routes.answer("POST", "/run", pay_run, NewRunRequest, paid, long=True)
    return routes


def _listed(id_: str, name: str, path: Path) -> dict[str, Any]:
    return {"id": id_, "name": name, "size": path.stat().st_size, "ending": ending(path)}
