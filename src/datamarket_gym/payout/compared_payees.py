"""Where each payee of a run stands, and why it stands elsewhere in another run, as far as the records tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from datamarket_gym.core.arrays import Codes
from datamarket_gym.core.screen import counted, listed
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.statements.tables import RunTables

_FEW = 3  # names in a reason
_SAME_SHARE = 0.005  # of the payment: less than this is not worth a reason of its own


@dataclass(frozen=True)
class PayeeStanding:
    """One identity in one run; amounts in minor units, the others are counts of its units."""

    paid: int
    share: float  # of all that is paid
    rank: int  # 1 is paid most; who is paid the same has the same
    score: float
    units: int
    counts: int  # that it is paid for
    for_others: int  # that count for others, who came earlier
    leaked: int  # that are validation rows
    bought: int  # that earlier runs have bought
    unusable: int
    checks: str  # failed, not checked, or nothing
    opening: int  # carried into the run
    together: tuple[str, ...]  # other names of the same payee


@dataclass(frozen=True)
class PayeeChange:
    """One identity in two runs; None where it is in one alone. ``change`` is None where currencies differ."""

    identity: str
    before: PayeeStanding | None
    after: PayeeStanding | None
    change: int | None
    reasons: tuple[str, ...] = ()

    @property
    def share_change(self) -> float:
        """By how much its part of all that is paid has changed."""
        return (self.after.share if self.after else 0.0) - (self.before.share if self.before else 0.0)


def standings(tables: RunTables) -> dict[str, PayeeStanding]:
    """All identities of a run, in the order of its payments."""
    manifest, money = tables.manifest, Currency(tables.manifest["currency"])
    paid = np.array([money.signed(row["payment"]) for row in tables.payments], dtype=np.int64)
    counts, for_others = _counts(tables)
    ordered = np.sort(paid)
    rank = len(paid) - np.searchsorted(ordered, paid, side="right") + 1
    leaked = Counter(row["identity"] for row in tables.leaks)
    bought = Counter(row["identity"] for row in tables.known)
    unusable = Counter(row.identity for row in tables.bad)
    whole, opening = int(paid.sum()) or 1, manifest["opening_balances"]
    checks = dict.fromkeys(tables.not_checked, "not checked") | dict.fromkeys(tables.forfeited, "failed")
    found: dict[str, PayeeStanding] = {}
    for i, row in enumerate(tables.payments):
        name = row["identity"]
        others = tables.together[row["paid_together_with"] or name]
        found[name] = PayeeStanding(
            paid=int(paid[i]), share=float(paid[i] / whole), rank=int(rank[i]), score=row["score"],
            units=row["units"], counts=int(counts[i]), for_others=int(for_others[i]),
            leaked=leaked[name], bought=bought[name], unusable=unusable[name], checks=checks.get(name, ""),
            opening=opening.get(name, 0),
            together=() if len(others) == 1 else tuple(other for other in others if other != name),
        )  # fmt: skip
    return found


def _counts(tables: RunTables) -> tuple[Codes, Codes]:
    """Of each identity: units that it is paid for, and units in clusters of which it owns nothing."""
    units, n = tables.units, len(tables.names)
    mine = units.share > 0
    cluster = units.owner * (len(units.owner) + 1) + units.start
    elsewhere = ~mine & ~np.isin(cluster, cluster[mine])
    return (
        np.bincount(units.owner[mine], minlength=n),
        np.bincount(units.owner[elsewhere], minlength=n),
    )


def reasons(before: PayeeStanding | None, after: PayeeStanding | None, money: Currency) -> Iterator[str]:
    """Why somebody is paid otherwise in the second run than in the first; nothing where the records tell nothing."""
    if before is None and after is not None:
        new = counted(after.units, "unit")
        yield f"new in the second run, with {new}" if after.units else "brings an old balance alone"
        yield from _its_own(_NOBODY, after, money)
        return
    if before is not None and after is None:
        yield "not in the second run"
        return
    assert before is not None
    assert after is not None
    if after.units != before.units:
        word = "more" if after.units > before.units else "fewer"
        yield (
            f"sent {counted(abs(after.units - before.units), 'unit')} {word} "
            f"({after.units:,}, before {before.units:,})"
        )
    yield from _its_own(before, after, money)


def _its_own(before: PayeeStanding, after: PayeeStanding, money: Currency) -> Iterator[str]:
    """What became of its units and of its names."""
    if after.checks != before.checks:
        yield {
            "failed": "failed a spot check",
            "not checked": "too small to be checked, and not paid",
            "": "failed a spot check before, and not now"
            if before.checks == "failed"
            else "was too small to be checked before",
        }[after.checks]
    for what, then, now in (
        ("tied to units of others, who came earlier and are paid for them", before.for_others, after.for_others),
        ("bought in earlier periods", before.bought, after.bought),
        ("validation rows, or nearly, and set aside", before.leaked, after.leaked),
        ("not usable", before.unusable, after.unusable),
    ):  # fmt: skip
        if then != now:
            yield f"{counted(now, 'unit')} {'is' if now == 1 else 'are'} {what} (before {then:,})"
    if after.opening != before.opening:
        text = f"{money.code} {money.shown(after.opening)}"
        yield f"{text} were carried into the run (before {money.shown(before.opening)})"
    if after.together != before.together:
        names = listed(map(visible, after.together), _FEW)
        yield f"paid together with {names}" if after.together else "no longer paid together with others"


_NOBODY = PayeeStanding(0, 0.0, 0, 0.0, 0, 0, 0, 0, 0, 0, "", 0, ())


def general_reason(before: PayeeStanding, after: PayeeStanding, pot: str, given: str) -> str:
    """Why somebody of whose own nothing has changed is paid otherwise.

    ``pot`` says how the amounts differ, ``given`` which of what all are measured by differs; each may be empty.
    """
    if pot and abs(after.share - before.share) <= _SAME_SHARE * max(before.share, after.share):
        return f"the same part of another amount: {pot}"
    if after.score == before.score:
        return "its score is the same; what the others' scores add up to is not"
    why = given or "what others sent differs"
    return (
        f"the same number of units, another score ({after.score:.4f}, before {before.score:.4f}): {why}"
    )
