"""The settings of a payday as a form: in which order, in which groups, what can be chosen; the words are those of the
command line's help, where that does not speak of its options."""

from __future__ import annotations

from typing import Any

from datamarket_gym.core.registry import components
from datamarket_gym.payout.inputs import DEFAULTS
from datamarket_gym.payout.spec import MOST_CHECKS, SETTINGS, PayoutSpec
from datamarket_gym.payout.worth import worth_of

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
    setting = SETTINGS[name]
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
