"""The form of a payout run: fields, files and the roles of columns, all of them from the models of the settings.

A setting that is added to a model stands on the page, in its panel and by its kind, with its option's name and help.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Literal, get_args, get_origin

from datamarket_gym.data.readers.arrays import ENDINGS as ARRAYS
from datamarket_gym.data.readers.tables import ENDINGS
from datamarket_gym.payout.settings import (
    SETTINGS,
    PayOptions,
    Setting,
    settings_of,
)
from datamarket_gym.registry import components

SUBMISSIONS = "submissions"
OPTIONS: dict[str, Setting] = dict(settings_of(PayOptions)) | SETTINGS
"""All that a payout run is given beside its submissions, by the names of the fields."""
PLACES = {"ledger": "ledger", "intake": "ledger", "acquired": "runs", "reuse": "run"}
"""Settings that name what the explorer shows, and not a file: a ledger, or runs."""
IN_VALIDATION = ("label", "features", "embedding", "text", "image")
"""Roles that columns of validation and reference rows can have, too."""
LINKED = ("linkage.keys", "linkage.confirm")
"""Roles of columns that say who is one payee."""
# Where a run goes is asked for apart, and folders of images cannot be uploaded.
_NOT_HERE = {"out", "columns.image", "files.images", "files.validation_images", "files.reference_images"}
_EARLIER = "Earlier runs and the ledger"
_OPEN = ("Amount", "What is paid for", "Checks")  # panels
_ADVICE = re.compile(r"--|see:|docs/", re.IGNORECASE)  # for the command line
_FLAG = re.compile(r"(?:\bpay )?--([a-z][a-z-]*[a-z])\b(?: (?:LEDGER|FOLDER|NAME|FILE)\b)?")
_SEE = re.compile(r" See: [^.]*\.(?= |$)")
_COMMANDS = {
    "datamarket explain RUN/ --payee NAME": "the page of the payee",
    "datamarket dispute resolve RUN/ --number N --outcome upheld, rejected or withdrawn --why TEXT": "decide it on the "
    "page of the ledger",
}


@cache
def fields() -> dict[str, dict[str, Any]]:
    """Describe every field of the form, by the name of its setting."""
    about = {
        SUBMISSIONS: _file("Submissions", "One row for each unit: who submitted it, and what it is.")
    }
    return about | {
        name: _field(name, setting) for name, setting in OPTIONS.items() if name not in _NOT_HERE
    }


def form() -> dict[str, Any]:
    """Describe the form: files by role, fields in the panels of the settings, and the roles that columns can have."""
    panels: dict[str, list[dict[str, Any]]] = {}
    for name in dict.fromkeys((*SETTINGS, *OPTIONS)):
        field = fields().get(name, {"kind": "file"})
        if field["kind"] != "file":
            panel = OPTIONS[name].panel or (_EARLIER if name in PLACES else "More")
            panels.setdefault(panel, []).append({"name": name, **field})
    return {
        "inputs": {name: field for name, field in fields().items() if field["kind"] == "file"},
        "groups": [
            {"title": panel, "open": panel in _OPEN, "fields": inside} for panel, inside in panels.items()
        ],
        "roles": [
            {
                "name": name, "label": label(setting), "help": fields()[name]["help"],
                "validation": name.partition(".")[2] in IN_VALIDATION, "list": setting.kind is list,
                "several": name in ("columns.features", "columns.embedding"),
            }
            for name, setting in OPTIONS.items()
            if name in LINKED or (name.startswith("columns.") and name not in _NOT_HERE)
        ],
    }  # fmt: skip


def label(setting: Setting) -> str:
    """Return what the page calls a setting: its option without dashes."""
    return setting.option.replace("-", " ").capitalize()


def _file(title: str, help_: str, endings: tuple[str, ...] = ENDINGS) -> dict[str, Any]:
    return {"kind": "file", "label": title, "help": help_, "endings": list(endings)}


def _field(name: str, setting: Setting) -> dict[str, Any]:
    clauses = re.split(r"(?<=[.;]) ", re.sub(r" \(see:[^)]*\)", "", setting.help))
    help_ = " ".join(clause for clause in clauses if not _ADVICE.search(clause)).rstrip(".;")
    help_ = f"{help_}." if help_ else ""
    if name in PLACES:
        return {"kind": PLACES[name], "label": label(setting), "help": help_, "default": None}
    if setting.is_file:
        return _file(label(setting), help_, _endings(name))
    kinds = {bool: "flag", int: "whole", float: "number", list: "list"}
    kind, choices = kinds.get(setting.kind, "text"), _suggestions().get(name)
    if choices:
        kind = "suggested"
    elif get_origin(setting.annotation) is Literal:
        kind, choices = "choice", list(get_args(setting.annotation))
    default = setting.default if setting.kind is not list else []
    about = {"kind": kind, "label": label(setting), "help": help_, "default": default}
    return about | ({"choices": choices} if choices else {})


def _endings(name: str) -> tuple[str, ...]:
    if name == "overrides":
        return (".toml",)
    if name == "files.scores":
        return (*ENDINGS, *ARRAYS)
    return ARRAYS if name.startswith("files.") else ENDINGS


@cache
def _suggestions() -> dict[str, list[str]]:
    coverage = ["recommended", "coverage"]
    utilities = [name for name in components("learner") if name not in (*coverage, "sklearn")]
    encoders = sorted(components("encoder"))
    return {"learner": [*coverage, *utilities], "theta": ["auto", "none"], "encoder": encoders}


def for_page(message: str) -> str:
    """Say for a page what a message says for the command line: options are the fields of the form."""
    labels = {setting.option: label(setting) for setting in OPTIONS.values()}
    message = _SEE.sub("", message)
    for command, words in _COMMANDS.items():
        message = message.replace(command, words)

    def called(match: re.Match[str]) -> str:
        known = labels.get(match[1]) or labels.get(match[1].removeprefix("no-"))
        return f"“{known}”" if known else match[0]

    return _FLAG.sub(called, message)
