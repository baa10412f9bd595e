"""What `pay` would say of tables, found by the functions by which it says it: what it refuses, what it would set aside,
what it would warn of. Nothing is scored and nothing is written."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from datamarket_gym.core.compute import compute, computing
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.progress import Progress
from datamarket_gym.learners.targets import require_learnable
from datamarket_gym.payout.clock import later_than, require_sound, time_warnings
from datamarket_gym.payout.inputs import Inputs, content_encoder, utility_oracle
from datamarket_gym.payout.prior.runs import accepted
from datamarket_gym.payout.quarantine import BadRow
from datamarket_gym.payout.spec import PayoutSpec
from datamarket_gym.payout.stages import Payday, Places
from datamarket_gym.payout.warned_inputs import input_warnings
from datamarket_gym.payout.warnings import StandingWarning
from datamarket_gym.web.payday.intake_order import PaydayOrder
from datamarket_gym.web.payday.table_roles import held_roles, submission_roles

QUICK = {"text": "ngrams", "image": "thumbnail"}
"""Encoders that need no model: what is wrong with rows is found without waiting for the one that will be used."""
_KINDS, _ROWS, _LISTED = 40, 30, 200  # faults of bad rows, rows of each, rows that are listed


def check(order: PaydayOrder, progress: Progress) -> dict[str, Any]:
    """What stands in the way of a payday, and what would be told of it."""
    spec = order.lenient_spec()
    tables = roles(order, spec)
    answer: dict[str, Any] = {
        "tables": tables,
        "facts": None,
        "refused": None,
        "bad": None,
        "warnings": [],
    }
    if order.path("submissions") is None or order.path("validation") is None:
        return answer
    progress.stage("reading and checking the tables", "rows")
    with computing(replace(compute(), progress=progress)):
        inputs, refused = _read(order, spec)
        read = inputs
        if inputs is None and not spec.quarantine:
            read, _ = _read(order, spec.model_copy(update={"quarantine": True}))
    answer["refused"] = None if refused is None else order.named(refused)
    if read is not None:
        warned = _warnings(read, spec)
        answer |= {
            "facts": _facts(read),
            "bad": _bad(read.bad),
            "warnings": [_told(each, order) for each in warned if each.name != "quarantined"],
        }
    return answer


def roles(order: PaydayOrder, spec: PayoutSpec) -> dict[str, Any]:
    """Which columns are what, for each table that is there; a table that cannot be read says why."""
    found: dict[str, Any] = {}
    for role in ("submissions", "validation", "reference"):
        path = order.path(role)
        if path is None:
            continue
        try:
            looked = (
                submission_roles(path, spec) if role == "submissions" else held_roles(path, spec, role)
            )
        except DataMarketError as error:
            looked = {"roles": {}, "missing": [str(error)]}
        found[role] = {**looked, "missing": [order.named(words) for words in looked["missing"]]}
    return found


def _read(order: PaydayOrder, spec: PayoutSpec) -> tuple[Inputs | None, str | None]:
    """The inputs of the run, or why there are none."""
    places = Places(
        order.path("submissions") or order.files[0].path,
        order.path("validation") or order.files[0].path,
        order.path("overrides"),
        order.path("reference"),
        intake=order.intake,
    )
    try:
        places = replace(places, prior=accepted(order.prior, places.submissions))
        inputs = Payday.read(
            places, spec if order.prior else _quick(spec)
        ).inputs  # compared with earlier ones
        require_learnable(inputs.submission.label, utility_oracle(inputs, spec))
        if spec.strict:
            future = later_than(inputs, spec, time.time())
            require_sound([*time_warnings(inputs, spec), *([future] if future else [])])
    except DataMarketError as error:
        return None, str(error)
    return inputs, None


def _quick(spec: PayoutSpec) -> PayoutSpec:
    """The settings with an encoder that takes no time; the one that is meant must be there all the same."""
    columns = spec.columns
    kind = "text" if columns.text else "image" if columns.image else None
    if kind is None or columns.features is not None or spec.files.features is not None:
        return spec
    content_encoder(spec, kind)
    return spec.model_copy(update={"encoder": QUICK[kind]})


def _warnings(inputs: Inputs, spec: PayoutSpec) -> list[StandingWarning]:
    future = later_than(inputs, spec, time.time())
    return [*input_warnings(inputs, spec), *([future] if future else [])]


def _facts(inputs: Inputs) -> dict[str, Any]:
    units = inputs.submission
    return {
        "units": len(inputs.ids),
        "identities": len(inputs.identities),
        "validation": len(inputs.validation_features),
        "labels": len(np.unique(units.label)) if inputs.labelled else None,
        "features": int(units.features.shape[1]),
        "embedding": None if units.embedding is None else int(units.embedding.shape[1]),
        "encoded": bool(inputs.encoder),
        "times": inputs.has_time,
        "reference": None if inputs.reference is None else len(inputs.reference.features),
        "prior": None if inputs.prior is None else len(inputs.prior.art.units.features),
    }


def _bad(rows: Sequence[BadRow]) -> dict[str, Any]:
    """Rows that cannot be used: how many, what is wrong with them by kind, and the first of them."""
    kinds: dict[str, list[int]] = {}
    for row in rows:
        kinds.setdefault(row.wrong, []).append(row.row)
    most = sorted(kinds.items(), key=lambda each: (-len(each[1]), each[1][0]))
    return {
        "count": len(rows),
        "kinds": [
            {"wrong": wrong, "count": len(where), "rows": where[:_ROWS]}
            for wrong, where in most[:_KINDS]
        ],
        "more_kinds": max(0, len(most) - _KINDS),
        "rows": [
            {"row": row.row, "unit": row.unit, "identity": row.identity, "wrong": row.wrong}
            for row in rows[:_LISTED]
        ],
    }


def _told(warning: StandingWarning, order: PaydayOrder) -> dict[str, Any]:
    return {
        "name": warning.name,
        "title": warning.title,
        "words": order.named(warning.words),
        "items": list(warning.items),
        "count": warning.count,
    }
