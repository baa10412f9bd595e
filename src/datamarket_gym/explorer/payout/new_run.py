"""The settings of a payday as a form: in which order, in which groups, what can be chosen; the words are those of the
command line's help, where that does not speak of its options.

What a page asks to be paid: files by what each is for, settings, earlier runs; and the request that it comes to.

Files are named by ids (`intake_files`), never by paths, and nothing in the settings names a file: what is not in a
folder that was named on the command line, or was not uploaded, cannot be read.

Uploads that a run is made of, kept beside it under their own names: uploads go when the explorer ends, and whoever
verifies or approves the run works it out again from its files.

Which earlier runs a payday can be priced given: those that are approved, as their books have it.

Files that a payday can be made of: uploads, and those that lie in folders named on the command line, by ids.

Runs a payday for a page: for a look, or for real; what it came to, in the words of the command line.
"""

from __future__ import annotations

import os
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field as Field_pydantic

from datamarket_gym.data.readers.arrays import ENDINGS as ARRAYS
from datamarket_gym.data.readers.tables import ENDINGS, ending, file_and_member
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.execution.files import sha256
from datamarket_gym.execution.progress import Progress
from datamarket_gym.explorer.files import NamedPlaces, NotThere
from datamarket_gym.payout.inputs import DEFAULTS
from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.entries import APPROVED
from datamarket_gym.payout.ledger.runs import ledger_of, run_of
from datamarket_gym.payout.ledger.store import read_receipt
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.run import PaidRequest, PayRequest, pay_requested, rehearsal
from datamarket_gym.payout.settings import (
    MOST_CHECKS,
    PayoutSpec,
    checked_spec,
    faults_of,
    nested,
    worth_of,
)
from datamarket_gym.payout.settings import SETTINGS as SETTINGS_settings
from datamarket_gym.registry import Document, components

Field = dict[str, Any]


_ON_A_PAGE = {
    "learner": "What is paid for: coverage of the validation rows, which needs no labels (coverage@0.9: only what is "
    "much more alike than strangers counts; coverage(similarity=standardised): for tables); or the accuracy over "
    "chance of knn, ridge, logistic, ...; or scores, of another tool: its table is one of the files above.",
    "checks": "How many units of each payee are to be checked before the run can be approved; 0 for none.",
    "linkage.keys": "Columns whose shared values are listed as claims of who is who: payout, device+licence, "
    "device+time:3600. A claim alone matches nobody: columns of confirmations and tables of edges do.",
    "linkage.between": "What a table of edges, one of the files above, matches: identities or units.",
    "encoder": "What embeds texts.",
}
"""The help of settings of which the command line speaks by its options."""


def _field(name: str, label: str, kind: str = "text", **more: Any) -> Field:
    setting = SETTINGS_settings[name]
    words = _ON_A_PAGE.get(name, setting.help)
    return {"name": name, "label": label, "kind": kind, "help": words, "flag": setting.flag, **more}


def form() -> list[dict[str, Any]]:
    """The groups of fields; of each field its name, label, kind, help and, where it has one, its default."""
    spec = {name: field.default for name, field in PayoutSpec.model_fields.items()}
    choices = _utilities()
    return [
        _group("The amount", True, [
            _field("amount", "Amount", place="10000.00"),
            _field("currency", "Currency", default=spec["currency"]),
            _field("period", "Period", place="June 2026"),
        ]),
        _group("What is paid for", True, [
            _field("learner", "Utility", "suggested", default=spec["learner"], choices=choices),
            _field("theta", "Similarity threshold", "suggested", default=spec["theta"], choices=["auto", "none"]),
            _field("negative", "Scores below zero", "choice", default=spec["negative"], choices=["carry", "zero"]),
        ]),
        _group("Checks before approval", True, [
            _field("checks", "Units to check of each payee", "whole", default=spec["checks"], most=MOST_CHECKS),
            _field("power", "How often a check finds what is not genuine", "number", default=spec["power"]),
            _field("leak_check", "Units that are validation rows", "choice", default=spec["leak_check"],
                   choices=["drop", "error", "off"]),
            _field("quarantine", "Set bad rows aside", "flag", default=spec["quarantine"]),
            _field("strict", "Stop where times are wrong", "flag", default=spec["strict"]),
            _field("audit", "Attack a sample for the report", "flag", default=spec["audit"]),
        ]),
        _group("Times", False, [
            _field("opens", "The market began", place="2026-06-01"),
            _field("closes", "The market closed", place="2026-06-30"),
            _field("beacon", "Beacon of ties", place="announced beforehand"),
        ]),
        _group("Who is who", False, [
            _field("linkage.keys", "Link columns", "list", place="payout, device+licence"),
            _field("linkage.fuzzy", "Link columns that splink compares", "list"),
            _field("linkage.confirm", "Confirm column"),
            _field("linkage.between", "What the table of edges matches", "choice", default="identities",
                   choices=["identities", "units"]),
        ]),
        _group("Columns by name", False, [
            _field("columns.id", "Ids"),
            _field("columns.identity", "Identities", default="identity"),
            _field("columns.label", "Labels"),
            _field("columns.features", "Features"),
            _field("columns.embedding", "Embedding"),
            _field("columns.time", "Times"),
            _field("columns.text", "Texts"),
            _field("columns.trusted_source", "Trusted source"),
            _field("columns.metadata", "Metadata that matches"),
            _field("encoder", "Encoder of texts", "suggested", choices=_encoders(), place=DEFAULTS["text"]),
        ]),
    ]  # fmt: skip


def paid_for(learner: str) -> str:
    """What a utility pays for, in a sentence."""
    return f"Paid for {worth_of(learner).divided}."


def _group(title: str, opened: bool, fields: list[Field]) -> dict[str, Any]:
    return {"title": title, "open": opened, "fields": fields}


def _utilities() -> list[str]:
    plain = [name for name in components("learner") if name not in ("coverage", "sklearn")]
    return ["coverage", "coverage@0.9", "coverage(similarity=standardised)", *plain]


def _encoders() -> list[str]:
    return sorted(components("encoder"))


TABLES = ("submissions", "validation", "reference")
ASIDE = ("overrides",)
SETTINGS = (
    "linkage.edges", "files.scores", "files.features", "files.embedding", "files.validation_features",
    "files.reference_features",
)  # fmt: skip
_DOTTED = re.compile(r"\.(?!\d)")  # a point that is in no number
_CALLED = {"submissions": "submissions", "validation": "validation rows"}
ROLES = (*TABLES, *ASIDE, *SETTINGS)
"""What a file can be for; the last are settings whose values are files."""


class AskedPayday(Document):
    """What stands on the page, as it is sent; settings by their names with points, as the command line has them."""

    files: dict[str, str] = Field_pydantic(default_factory=dict)
    settings: dict[str, str | int | float | bool | list[str]] = Field_pydantic(default_factory=dict)
    prior: list[str] = Field_pydantic(default_factory=list, max_length=100)
    intake: str = ""


class ChosenFile(Document):
    """A file: what it is for, where it is, what people call it, and what tells whether it changed."""

    role: str
    path: Path
    name: str
    stamp: str
    uploaded: bool = False

    def named(self, words: str) -> str:
        """What an error says, with the file called as people know it, and not where it is kept."""
        return words.replace(str(self.path), self.name)


class PaydayOrder(Document):
    """The same with all files found."""

    files: tuple[ChosenFile, ...] = ()
    settings: dict[str, Any] = Field_pydantic(default_factory=dict)
    prior: tuple[Path, ...] = ()
    intake: str | None = None

    def file(self, role: str) -> ChosenFile | None:
        """The file of a role, if one was chosen."""
        return next((each for each in self.files if each.role == role), None)

    def path(self, role: str) -> Path | None:
        """Where it is."""
        found = self.file(role)
        return None if found is None else found.path

    @property
    def flags(self) -> dict[str, Any]:
        """The settings of the run; those that are files are paths."""
        given = {role: self.path(role) for role in SETTINGS}
        return self.settings | {role: str(path) for role, path in given.items() if path is not None}

    def faults(self) -> dict[str, str]:
        """What is wrong with settings, by their names."""
        return {name: _plain(name, words) for name, words in faults_of(self.flags).items()}

    def spec(self) -> PayoutSpec:
        """The settings, checked."""
        return checked_spec(nested(self.flags))

    def lenient_spec(self) -> PayoutSpec:
        """The settings that are good, for a look at the tables: an amount is not needed for that."""
        good = {name: value for name, value in self.flags.items() if name not in self.faults()}
        return checked_spec(nested({"amount": "1", **good}))

    def request(self, out: Path, book: str | None) -> PayRequest:
        """The payday that is asked for."""
        submissions, validation = (self._needed(role) for role in TABLES[:2])
        return PayRequest(
            str(submissions), str(validation), out, self.spec(), self.path("overrides"), _text(self.path("reference")),
            book, self.prior, self.intake,
        )  # fmt: skip

    def named(self, words: str) -> str:
        """The same for all files."""
        for each in sorted(self.files, key=lambda each: -len(str(each.path))):
            words = each.named(words)
        return words

    def _needed(self, role: str) -> Path:
        found = self.path(role)
        if found is None:
            raise DataMarketError(f"there is no file of {_CALLED[role]}; choose one above")
        return found


def require_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a page without those that are empty; refused where one names a file."""
    offered = _offered()
    for name in settings:
        if name.startswith("files.") or name == "linkage.edges":
            raise ParameterError(name, settings[name], "choose a file for it, instead of naming one")
        if name not in offered:  # a link could hold what nobody sees on the page
            raise ParameterError(
                name, settings[name], "it is no setting of this page; use the command line"
            )
    _require_no_module(str(settings.get("learner", "")))
    kept = {name: value for name, value in settings.items() if value not in ("", [])}
    return kept | ({"columns.label": ""} if settings.get("columns.label") == "" else {})


@cache
def _offered() -> frozenset[str]:
    """The settings that the page shows."""
    return frozenset(field["name"] for group in form() for field in group["fields"])


def _require_no_module(learner: str) -> None:
    """Refuse a utility that names a class of some module: a link holds settings, and would import it."""
    if _DOTTED.search(learner):
        raise ParameterError(
            "learner",
            learner,
            "it names a module, and pages import none; name a classifier of scikit-learn without its module, or use "
            "the command line",
        )


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _plain(name: str, words: str) -> str:
    """What is wrong, without the name and the value, which stand beside it."""
    if words.startswith("there is no amount"):
        return "say how much is to be divided"
    head, mark, rest = words.partition(": ")
    return rest if mark and " = " in head else words


_LONGEST = 120  # characters of a name


def inputs_folder(run: Path) -> Path:
    """Where the uploads of a run are kept: beside its folder."""
    return run.with_name(f"{run.name}-inputs")


def kept(order: PaydayOrder, run: Path) -> PaydayOrder:
    """The order with its uploads beside the run; refused where files of another run are there under these names."""
    taken: set[str] = set()
    files = []
    for each in order.files:
        if each.uploaded:
            name = _free(_plain_intake_kept(each), each.role, taken)
            taken.add(name)
            each = each.model_copy(update={"path": _put(each.path, inputs_folder(run) / name)})
        files.append(each)
    return order.model_copy(update={"files": tuple(files)})


def _put(upload: Path, to: Path) -> Path:
    """Put a file there, whole or not at all; one that is there already must be the same."""
    file, member = file_and_member(str(upload))
    if to.exists():
        if sha256(to) != sha256(file):
            raise DataMarketError(
                f"{to.parent.name!r} holds another {to.name!r} already, of which a run was made; choose another name "
                "for this run"
            )
    else:
        to.parent.mkdir(parents=True, exist_ok=True)
        part = to.with_name(f".{to.name}.part")
        shutil.copyfile(file, part)
        os.replace(part, to)
    return Path(f"{to}#{member}") if member else to


def _plain_intake_kept(file: ChosenFile) -> str:
    """The name that a file was uploaded under, as far as every file system has such names; the ending is kept."""
    path, _ = file_and_member(str(file.path))
    stem = Path(file.name.split("#")[0]).stem
    safe = "".join(each if each.isalnum() or each in " ._-" else "_" for each in stem).strip(" .")
    return f"{safe[:_LONGEST] or 'table'}{path.suffix}"


def _free(name: str, role: str, taken: set[str]) -> str:
    return f"{role} {name}" if name in taken else name


def approved_runs(runs: tuple[tuple[str, Path], ...], progress: Progress) -> dict[str, Any]:
    """The approved ones of these runs, by id; one whose book cannot be read is none."""
    books: dict[str, Accounts] = {}
    found = []
    progress.stage("looking for approved runs", "runs")
    for done, (name, folder) in enumerate(runs, 1):
        progress.count(done, len(runs))
        receipt = read_receipt(folder)
        if receipt is None:
            continue
        try:
            if receipt.ledger not in books:
                books[receipt.ledger] = ledger_of(folder).accounts()
            record = run_of(folder, books[receipt.ledger])
        except DataMarketError:
            continue
        if record.state in APPROVED:
            amount = f"{record.currency} {Currency(record.currency).shown(record.amount)}"
            found.append({"id": name, "period": record.period, "amount": amount, "state": record.state})
    return {"runs": found}


UPLOAD = "upload:"
_OVERRIDES = (".toml",)


def endings(role: str) -> tuple[str, ...]:
    """What a file of a role may be."""
    if role == "overrides":
        return _OVERRIDES
    if role.endswith("features") or role == "files.embedding":
        return ARRAYS
    return (*ENDINGS, *ARRAYS) if role == "files.scores" else ENDINGS


def lying_about(places: NamedPlaces) -> list[dict[str, Any]]:
    """The files in folders that were named, by ids."""
    kinds = {*ENDINGS, *ARRAYS, *_OVERRIDES}
    return [
        {"id": each.id, "size": each.folder.stat().st_size, "ending": ending(each.folder)}
        for each in places.files(kinds)
    ]


def uploaded(places: NamedPlaces) -> list[dict[str, Any]]:
    """What was uploaded since the explorer began."""
    return [
        {"id": f"{UPLOAD}{each.id}", "name": each.name, "size": each.size, "ending": ending(each.path)}
        for each in places.uploads.all()
    ]


def chosen(places: NamedPlaces, role: str, written: str) -> ChosenFile:
    """The file of an id, for a role; ``id#Sheet`` is a sheet of a spreadsheet, or an array of an ``.npz``."""
    if role not in ROLES:
        raise DataMarketError(f"no file is for {role!r}; there are: {', '.join(ROLES)}")
    named, mark, member = written.partition("#")
    if named.startswith(UPLOAD):
        path = places.uploads.path(named.removeprefix(UPLOAD))
        name = next(each.name for each in places.uploads.all() if each.path == path)
    else:
        path, name = _lying(places, named), named
    about = path.stat()
    return ChosenFile(
        role=role,
        path=Path(f"{path}{mark}{member}"),
        name=f"{name}{mark}{member}",
        stamp=f"{about.st_size} {about.st_mtime_ns}",
        uploaded=named.startswith(UPLOAD),
    )


def ordered(places: NamedPlaces, asked: AskedPayday) -> PaydayOrder:
    """What a page asks for, with all of its files, earlier runs and its intake log found."""
    return PaydayOrder(
        files=tuple(chosen(places, role, written) for role, written in asked.files.items() if written),
        settings=require_settings(asked.settings),
        prior=tuple(places.run(name) for name in asked.prior),
        intake=places.book(asked.intake) if asked.intake else None,
    )


def _lying(places: NamedPlaces, name: str) -> Path:
    for each in places.files({*ENDINGS, *ARRAYS, *_OVERRIDES}):
        if each.id == name:
            return places.inside(each.folder)
    raise NotThere(
        f"there is no file {name!r} in the folders that were named; choose another, or upload it"
    )


SHOWN = 50
"""Payments on the page; the page of the run has all."""


def dry_run(
    order: PaydayOrder, out: Path, book: str | None, folder: Path, place: str, progress: Progress
) -> dict[str, Any]:
    """The payday that would go to ``out`` and its book, in a folder and with a book of its own.

    ``place`` is the id by which pages know the run.
    """
    order = kept(order, folder / "run")
    request = rehearsal(order.request(out, book), folder)
    return {"place": place, "dry": True, **_shown(order, _paid(order, request, progress))}


def real_run(
    order: PaydayOrder, out: Path, book: str | None, place: str, progress: Progress
) -> dict[str, Any]:
    """The payday itself: a draft in the market's book, until somebody approves it."""
    order = kept(order, out)
    paid = _paid(order, order.request(out, book), progress)
    return {"place": place, "dry": False, **_shown(order, paid)}


def _paid(order: PaydayOrder, request: PayRequest, progress: Progress) -> PaidRequest:
    try:
        return pay_requested(request, progress)
    except DataMarketError as error:
        raise DataMarketError(order.named(str(error))) from error


def _shown(order: PaydayOrder, paid: PaidRequest) -> dict[str, Any]:
    columns = ["identity", *paid.columns, "units"]
    return {
        "run": paid.manifest["run"],
        "title": paid.title,
        "identities": paid.manifest["identities"],
        "columns": columns,
        "payments": [{name: row[name] for name in columns} for row in paid.payments(SHOWN)],
        "warnings": [
            {"name": each.name, "title": each.title, "words": order.named(each.words), "items": list(each.items),
             "count": each.count}
            for each in paid.warnings
        ],
        "told": [order.named(f"{each.words.rstrip('.')}.") for each in paid.told],
        "sentences": [order.named(each) for each in [*paid.sentences, paid.played]],
        "checks": paid.request.spec.checks,
    }  # fmt: skip
