"""Which columns of a table have which role, where settings name them and where they go by the usual names."""

from __future__ import annotations

from collections.abc import Sequence

from datamarket_gym.payout.spec import Columns, PayoutSpec
from datamarket_gym.units.tables import Table


def submitted_roles(table: Table, columns: Columns, *, dated: bool = True) -> dict[str, str]:
    """The columns of the submissions with one value per unit, by role; those that are named may not be there.

    ``dated``: whether a column ``time`` is one, as it is where times are not from elsewhere.
    """
    names = {"identity": columns.identity}
    if labels := table.label_column(columns.label):
        names["label"] = labels
    for role in ("id", "time", "text", "image", "trusted_source", "metadata"):
        given = getattr(columns, role)
        if given is not None:
            names[role] = given
        elif role in ("id", *(("time",) if dated else ())) and role in table.names:
            names[role] = role
    return names


def matrix_roles(table: Table, columns: Columns, roles: Sequence[str]) -> dict[str, list[str]]:
    """The columns that features and embeddings are made of, by role; none of features that content makes."""
    out = {}
    for role in roles:
        given = getattr(columns, role)
        content = role == "features" and (columns.text or columns.image)
        if given is not None:
            out[role] = table.require_matrix(role, given)
        elif not content and (found := table.matrix_columns(role)):
            out[role] = found
    return out


def link_columns(spec: PayoutSpec) -> list[str]:
    """The columns that linkage needs, beside the roles a unit has anyway."""
    parts = [part for key in spec.linkage.keys for part in key.split("+")]
    plain = [part.strip() for part in parts if not part.strip().startswith("time:")]
    confirm = [] if spec.linkage.confirm is None else [spec.linkage.confirm]
    return list(dict.fromkeys([*plain, *spec.linkage.fuzzy, *confirm]))
