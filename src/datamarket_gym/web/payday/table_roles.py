"""Which columns the reader takes for what, said before it reads: by the same functions, and without stopping at the
first that is missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from datamarket_gym.core.errors import SubmissionError
from datamarket_gym.payout.inputs import link_columns, matrix_roles, submitted_roles
from datamarket_gym.payout.spec import PayoutSpec
from datamarket_gym.units.readers.tables import Table
from datamarket_gym.web.payday.table_preview import called, grouped

T = TypeVar("T")


def submission_roles(path: Path, spec: PayoutSpec) -> dict[str, Any]:
    """The roles of the columns of submissions by what `table_preview` calls them, and what is missing, in words."""
    table, missing = Table.open(path), list[str]()
    single = _tried(missing, submitted_roles, table, spec.columns) or {"identity": spec.columns.identity}
    roles = {role: [name] for role, name in single.items()}
    for role, file in (("features", spec.files.features), ("embedding", spec.files.embedding)):
        if file is None:
            roles |= _tried(missing, matrix_roles, table, spec.columns, [role]) or {}
    confirm = spec.linkage.confirm
    linked = [name for name in link_columns(spec) if name != confirm]
    roles |= {"link": linked} if linked else {}
    roles |= {"confirm": [confirm]} if confirm else {}
    for role, names in roles.items():
        for name in names:
            _tried(missing, table.require, role, name)
    return {"roles": _by_column(table, roles), "missing": missing}


def held_roles(path: Path, spec: PayoutSpec, whose: str = "validation") -> dict[str, Any]:
    """The same for validation and reference rows, which have no ids and no identities."""
    table, missing = Table.open(path), list[str]()
    label = _tried(missing, table.label_column, spec.columns.label)
    roles = {"label": [label]} if label else {}
    for role in ("text", "image"):
        if (name := getattr(spec.columns, role)) is not None:
            roles[role] = [name]
            _tried(missing, table.require, role, name)
    if getattr(spec.files, f"{whose}_features") is None:
        roles |= _tried(missing, matrix_roles, table, spec.columns, ["features"]) or {}
    if embedded := table.matrix_columns(spec.columns.embedding or "embedding"):
        roles["embedding"] = embedded
    return {"roles": _by_column(table, roles), "missing": missing}


def _by_column(table: Table, roles: dict[str, list[str]]) -> dict[str, list[str]]:
    """The roles of each column, or group of numbered ones, that has any."""
    found: dict[str, list[str]] = {}
    for names in grouped(table.names):
        mine = [role for role, taken in roles.items() if not set(names).isdisjoint(taken)]
        if mine:
            found[called(names)] = mine
    return found


def _tried(missing: list[str], look: Callable[..., T], *arguments: Any) -> T | None:
    """What a look gives; where it refuses, what it says is added to what is missing."""
    try:
        return look(*arguments)
    except SubmissionError as error:
        missing.append(str(error))
        return None
