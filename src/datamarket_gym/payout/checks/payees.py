"""Who is paid by a run, and for which units: read from its files alone, so that anybody who has them can draw.

Identities that are paid as one are one payee, under the first of their names. A unit earns a_u (the column
``amount`` of clusters.parquet, as a part of what the run divides); P is the sum of a payee's positive a_u, T of all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from datamarket_gym.core.arrays import Codes, Values
from datamarket_gym.core.errors import RunError
from datamarket_gym.payout.manifest import settled_by
from datamarket_gym.payout.money import Currency

_MOST_KAPPA = 1e9


@dataclass(frozen=True, eq=False)
class CheckedPayee:
    """A payee and the units it is paid for; those that earn nothing, or less, are left out and cannot be drawn."""

    name: str
    paid: int  # minor units, over all its identities
    units: list[str]
    identities: list[str]  # of each unit
    rows: Codes  # the place of each unit among those that played
    amount: Values  # what each earns, in whole currency, before anything is carried
    total: float  # T: what all its units earn, those below zero included

    @cached_property
    def share(self) -> Values:
        """The probability with which each unit is drawn, a_u+ / P."""
        return np.asarray(self.amount / self.amount.sum())

    @property
    def kappa(self) -> float:
        """P / T, at least 1; very large where its units together earn nothing and an old balance is paid."""
        total = max(self.total, float(self.amount.sum()) / _MOST_KAPPA)
        return max(1.0, float(self.amount.sum()) / total)

    @property
    def largest_unit(self) -> float:
        """The part of P that its largest unit earns."""
        return float(self.share.max())


def payee_names(run: Path) -> dict[str, str]:
    """The payee of each identity of a run, by the first of its names."""
    import pyarrow.parquet as pq

    table = pq.read_table(run / "payments.parquet", columns=["identity", "paid_together_with"])
    return {row["identity"]: row["paid_together_with"] or row["identity"] for row in table.to_pylist()}


def paid_payees(run: Path, manifest: dict[str, Any]) -> list[CheckedPayee]:
    """The payees that a run pays anything for units of theirs, by name."""
    import pyarrow.parquet as pq

    payee = payee_names(run)
    money, settles = Currency(manifest["currency"]), settled_by(manifest)
    paid: dict[str, int] = dict.fromkeys(payee.values(), 0)
    for row in pq.read_table(run / "payments.parquet", columns=["identity", "payment"]).to_pylist():
        paid[payee[row["identity"]]] += money.signed(row["payment"])
    columns = ["unit", "identity", "row", "amount"]
    if not set(columns) <= set(pq.read_schema(run / "clusters.parquet").names):
        raise RunError(
            f"{str(run)!r} was made by a version that knew of no checks; pay again into another folder"
        )
    table = pq.read_table(run / "clusters.parquet", columns=columns)
    unit, identity = table["unit"].to_pylist(), table["identity"].to_pylist()
    earned = table["amount"].to_numpy()
    lost = frozenset() if settles is None else settles.unpaid
    divided = earned[[name not in lost for name in identity]].sum()
    worth = earned * (manifest["amount"] / 10**money.digits / divided)
    number = {name: i for i, name in enumerate(sorted(paid))}
    group = np.array([number[payee[name]] for name in identity], dtype=np.int64)
    row = table["row"].to_numpy()
    order = np.lexsort((row, group))
    bounds = np.searchsorted(group[order], np.arange(len(number) + 1))
    found = []
    for name, at in number.items():
        mine = order[bounds[at] : bounds[at + 1]]
        good = mine[earned[mine] > 0]
        if paid[name] > 0 and len(good):
            found.append(
                CheckedPayee(
                    name,
                    paid[name],
                    [unit[i] for i in good],
                    [identity[i] for i in good],
                    row[good],
                    worth[good],
                    float(worth[mine].sum()),
                )
            )
    return found
