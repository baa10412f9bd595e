"""Who is paid by a run, and for which units: read from its files alone, so that anybody who has them can draw.

Identities that are paid as one are one payee, under the first of their names. A unit earns a_u (the column
``amount`` of clusters.parquet, as a part of what the run divides); P is the sum of a payee's positive a_u, T of all.

carried.csv: units of payees who were too small to be checked, and so were not paid, to be handed in again.

A balance would be paid later without a look at the units that it came from, so that many small names could earn up to
the limit each, in each run, and never be drawn. Units that are handed in again are drawn from with all others of
their payee in the run that pays for them.

What the ledger keeps of a run's checks: the plan, which may change until there is a beacon; the beacon, once; what
was answered; and whether everybody passed, or another draft took the place of the run.

check plan: how many units of each payee are looked at, what that costs, and what it leaves to be gained.

A plan decides the draw, with the run and the beacon, and may change until there is one. Payees who are paid less than
``least`` are not checked, and not paid: what is paid is what is drawn from. Their units can be handed in again.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, field_validator

from datamarket_gym.analysis.theorems.deterrence import (
    Checks,
    deterrence_gap,
    expected_false_alarm_cost,
    false_alarm_probability,
)
from datamarket_gym.errors import DataMarketError, ParameterError, RunError, require_in
from datamarket_gym.execution.arrays import Codes, Values
from datamarket_gym.execution.files import claimed, json_text, remove_leftovers, write_text
from datamarket_gym.payout.ledger.entries import APPROVED, DrawRecord, require_draft
from datamarket_gym.payout.ledger.runs import run_of, transaction_of
from datamarket_gym.payout.manifest import read_manifest, settled_by, spec_of
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import csv_text
from datamarket_gym.payout.settings import MOST_CHECKS
from datamarket_gym.registry import Document

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


CARRIED_FILE = "carried.csv"


def carried_text(run: Path) -> str:
    """The units that earned something for payees who were neither checked nor paid; empty where there are none."""
    import pyarrow.parquet as pq

    settles = settled_by(read_manifest(run))
    waiting = frozenset() if settles is None else frozenset(settles.carried)
    if not waiting:
        return ""
    table = pq.read_table(run / "clusters.parquet", columns=["unit", "identity", "row", "amount"])
    rows = sorted(table.to_pylist(), key=lambda row: row["row"])
    waits = [
        (row["unit"], row["identity"])
        for row in rows
        if row["identity"] in waiting and row["amount"] > 0
    ]
    return csv_text(["unit", "identity"], waits)


def write_carried(run: Path) -> None:
    """Write the list into the run's folder, if anybody is on it."""
    if text := carried_text(run):
        write_text(run / CARRIED_FILE, text)


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Keep other processes out of a run's folder, and take away what one that was killed was still writing."""
    with claimed(folder, "check"):
        remove_leftovers(folder)
        yield


def enter_plan(folder: Path, plan: str, announced: str, by: str | None = None) -> None:
    """Enter how checks will be drawn; it takes the place of an earlier plan, unless that was drawn by."""
    with transaction_of(folder) as (page, record):
        if record.draw is not None:
            raise DataMarketError(
                f"checks of this run were drawn already (beacon {record.draw.beacon!r}); a plan cannot change after "
                "that"
            )
        require_draft(record, "planned")
        if record.plan == plan:
            return
        digest = hashlib.sha256(plan.encode()).hexdigest()
        said = f"the beacon will be: {announced}" if announced else "no beacon was announced"
        content = {"plan": plan, "detail": f"{said}; plan {digest}"}
        page.add("planned", run=record.run, content=content, by=by)


def enter_beacon(folder: Path, beacon: str, by: str | None = None) -> DrawRecord:
    """Enter the beacon under which checks are drawn, once; another is refused. Returns what they are drawn by."""
    with transaction_of(folder) as (page, record):
        if record.draw is not None:
            if record.draw.beacon != beacon:
                raise DataMarketError(
                    f"checks of this run were drawn under the beacon {record.draw.beacon!r}; nobody may draw again "
                    "until the result pleases"
                )
            return record.draw
        require_draft(record, "drawn")
        if record.plan is None:
            raise DataMarketError(
                f"there is no plan to draw by; run datamarket check plan {folder}, with --announce and what the "
                "beacon will be"
            )
        page.add("drawn", run=record.run, content={"beacon": beacon}, by=by)
        return DrawRecord(record.plan, beacon)


def require_open(folder: Path) -> None:
    """Refuse answers to the checks of a run that was settled."""
    require_draft(run_of(folder), "answered")


def enter_answers(folder: Path, digest: str, new: int, by: str | None = None) -> None:
    """Enter that answers were recorded: how many, and the hash of the file that holds all of them."""
    with transaction_of(folder) as (page, record):
        require_draft(record, "answered")
        told = [e.content["outcomes"] for e in record.history if e.kind == "answers"]
        if new or told[-1:] != [digest]:
            page.add("answers", run=record.run, content={"new": new, "outcomes": digest}, by=by)


def mark_checked(folder: Path, detail: str, answers: str, by: str | None = None) -> bool:
    """A draft whose checks everybody passed is checked; False where it was so before."""
    with transaction_of(folder) as (page, record):
        if record.state in ("checked", *APPROVED):
            return False
        require_draft(record, "checked")
        page.add("checked", run=record.run, content={"detail": detail, "outcomes": answers}, by=by)
    return True


def supersede(
    folder: Path,
    by_run: str,
    place: Path,
    why: str,
    answers: str,
    by: str | None = None,
    *,
    forfeited: Sequence[str] = (),
    unchecked: Sequence[str] = (),
) -> bool:
    """Another draft, in the folder ``place``, takes the place of this one; False where it did so before.

    ``forfeited`` are the identities that failed, ``unchecked`` those that would earn less than their checks cost.
    """
    with transaction_of(folder) as (page, record):
        if record.state == "superseded":
            return False
        require_draft(record, "superseded")
        content = {
            "by_run": by_run, "place": str(place.resolve()), "detail": why, "outcomes": answers,
            "forfeited": list(forfeited), "unchecked": list(unchecked),
        }  # fmt: skip
        page.add("superseded", run=record.run, content=content, by=by)
    return True


def read_plan(folder: Path) -> str | None:
    """The plan of a run's checks, as it was entered; None where there is none."""
    return run_of(folder).plan


def read_draw(folder: Path) -> DrawRecord | None:
    """The plan and the beacon of a run's checks; None where none were drawn."""
    return run_of(folder).draw


def read_superseded(folder: Path) -> tuple[str, Path] | None:
    """The run that took a run's place, and its folder then; None where none did."""
    later = run_of(folder).superseded
    return None if later is None else (later[0], Path(later[1]))


FOLDER = "checks"
PLAN_FILE = f"{FOLDER}/plan.json"


class CheckPlan(Document):
    """What was planned; amounts are in minor units."""

    checks: int = Field(ge=1, le=MOST_CHECKS)
    power: float = Field(gt=0, le=1)
    announced: str = ""  # what the beacon will be
    least: int = Field(default=0, ge=0)
    carried: list[str] = Field(default_factory=list)  # payees who are paid less than that
    price: int = Field(default=0, ge=0)  # of one check
    false_alarms: float = Field(
        default=0.0, ge=0, le=1
    )  # how often a check takes a genuine unit for false

    @property
    def spot_checks(self) -> Checks:
        """m and q."""
        return Checks(self.checks, self.power)

    @property
    def text(self) -> str:
        """The plan as it is entered into the ledger, hashed and kept."""
        return json_text(self.model_dump(mode="json"))


class PlanRequest(Document):
    """The settings of a plan; None where the run's own settings decide."""

    checks: int | None = Field(
        None, description="Checks of each payee; as many as the run requires if left out."
    )
    gain: float | None = Field(
        None,
        description="Instead of --checks: as many checks as leave at most this to gain by false units, as a share of a "
        "payment, such as 0.01.",
    )
    power: float | None = Field(
        None,
        description="Probability that a check of a false unit finds out; that of the run if left out.",
    )
    price: str | None = Field(
        None, description="Cost of one check, such as 2.50, to see what all of them cost."
    )
    least: str | None = Field(
        None,
        description="Payees who are paid less than this are neither checked nor paid; they can submit again.",
    )
    false_alarms: float = Field(
        0.0, description="Probability that a check takes a genuine unit for a false one; 0 if left out."
    )
    announce: str = Field(
        "",
        description="What the public random number that draws the units (the beacon) will be, such as "
        '"the hash of Bitcoin block 900000".',
    )

    @field_validator("price", "least")
    @classmethod
    def _read_blank(cls, value: str | None) -> str | None:
        return None if value is None else value.strip() or None


@dataclass(frozen=True)
class PlanSummary:
    """A plan in numbers; amounts are in minor units."""

    plan: CheckPlan
    payees: int  # to be checked
    paid: int  # to them
    carried: int  # what those who are not checked would be paid
    kappa: float  # the largest of those checked
    gap: float  # what may still be gained, in expectation, as a part of what is paid to them
    once: float  # the same, were a unit that is drawn twice looked at once
    most: float  # the same of one payee, as a part of its payment, at the most
    units: float  # different units that are expected to be drawn
    below_price: int  # payees who are to be checked and are paid less than their checks cost

    @property
    def in_all(self) -> int:
        """Checks at most; fewer in a run that settles another, of which looks stand."""
        return self.plan.checks * self.payees

    @property
    def again(self) -> float:
        """Looks at units that somebody else looks at too, as many as are expected."""
        return max(0.0, self.in_all - self.units)

    @property
    def cost(self) -> int:
        """What the checks cost."""
        return self.in_all * self.plan.price

    @property
    def alarmed(self) -> float:
        """The probability that an honest payee fails, by checks that take genuine units for false."""
        return false_alarm_probability(self.plan.spot_checks, self.plan.false_alarms)

    @property
    def alarm_cost(self) -> int:
        """What honest payees lose by that in expectation, all together."""
        return round(
            expected_false_alarm_cost(self.plan.spot_checks, self.plan.false_alarms, [self.paid])
        )


def make_plan(run: Path, wishes: PlanRequest, by: str | None = None) -> PlanSummary:
    """Plan a run's checks; a plan that was made before is replaced, unless it was drawn by."""
    found = preview_plan(run, wishes)
    with working_in(run):
        enter_plan(run, found.plan.text, found.plan.announced, by)
        write_text(run / PLAN_FILE, found.plan.text)
    return found


def preview_plan(run: Path, wishes: PlanRequest) -> PlanSummary:
    """What a plan would come to; nothing is written."""
    manifest = read_manifest(run)
    payees = paid_payees(run, manifest)
    return summarize_plan(_plan(manifest, payees, wishes), payees)


def read_check_plan(run: Path) -> CheckPlan:
    """The plan as the ledger has it."""
    text = read_plan(run)
    if text is None:
        raise DataMarketError(f"no checks are planned; run: datamarket check plan {run}")
    return CheckPlan.model_validate_json(text)


def summarize_plan(plan: CheckPlan, payees: list[CheckedPayee]) -> PlanSummary:
    """What a plan comes to for the payees of its run."""
    waiting = frozenset(plan.carried)
    checked = [p for p in payees if p.name not in waiting]
    each = plan.checks * plan.price
    gaps = _gaps(plan.spot_checks, checked)
    once = [deterrence_gap(plan.spot_checks, p.kappa, largest_unit=p.largest_unit) for p in checked]
    return PlanSummary(
        plan,
        len(checked),
        sum(p.paid for p in checked),
        sum(p.paid for p in payees if p.name in waiting),
        max(p.kappa for p in checked),
        _together(gaps, checked),
        _together(np.array(once), checked),
        float(gaps.max()),
        float(sum((1.0 - (1.0 - p.share) ** plan.checks).sum() for p in checked)),
        sum(p.paid < each for p in checked),
    )


def _plan(manifest: dict[str, Any], payees: list[CheckedPayee], wishes: PlanRequest) -> CheckPlan:
    money = Currency(manifest["currency"])
    power = spec_of(manifest).power if wishes.power is None else wishes.power
    require_in("power", power, 0.0, 1.0, open_low=True)
    require_in("false alarms", wishes.false_alarms, 0.0, 1.0)
    if not wishes.announce.isprintable():
        raise ParameterError("announce", ascii(wishes.announce), "announce plain text that can be read")
    least = 0 if wishes.least is None else money.minor(wishes.least)
    carried = [p.name for p in payees if p.paid < least]
    checked = [p for p in payees if p.paid >= least]
    if not checked:
        raise DataMarketError(
            f"nobody is paid {wishes.least} or more, so nobody would be checked or paid; lower --least"
        )
    return CheckPlan(
        checks=_checks(_promised(manifest), checked, wishes, power),
        power=power,
        announced=wishes.announce.strip(),
        least=least,
        carried=carried,
        price=0 if wishes.price is None else money.minor(wishes.price),
        false_alarms=wishes.false_alarms,
    )


def _promised(manifest: dict[str, Any]) -> int:
    """Checks that the run was paid with the promise of, or that were made of the draft that it settles."""
    settles = settled_by(manifest)
    asked = spec_of(manifest).checks
    return asked if settles is None else max(asked, settles.checks)


def _checks(asked: int, checked: list[CheckedPayee], wishes: PlanRequest, power: float) -> int:
    """Checks of each payee: as many as were named, or as leave no more than a gain; not fewer than the run promised."""
    if wishes.checks is not None and wishes.gain is not None:
        raise ParameterError(
            "gain", wishes.gain, "give either the checks or the gain that they may leave"
        )
    if wishes.gain is not None:
        return max(asked, _enough(wishes.gain, power, checked))
    count = max(asked, 1) if wishes.checks is None else wishes.checks
    require_in("checks", count, 1, MOST_CHECKS)
    if count < asked:
        raise ParameterError(
            "checks",
            count,
            f"{asked} for each payee were promised when the run was paid; plan as many or more",
        )
    return count


def _gaps(checks: Checks, payees: Sequence[CheckedPayee]) -> Values:
    """What each payee can still gain, as a part of its payment; every draw is a look of its own."""
    return np.array([deterrence_gap(checks, p.kappa) for p in payees])


def _together(gaps: Values, payees: Sequence[CheckedPayee]) -> float:
    """What all of them can gain, as a part of what they are paid: gains of payees add up."""
    return float(np.average(gaps, weights=[p.paid for p in payees]))


def _enough(gain: float, power: float, payees: Sequence[CheckedPayee]) -> int:
    """The least number of checks that leave no more than this part of what is paid."""
    require_in("gain", gain, 0.0, 1.0)

    def left(count: int) -> float:
        return _together(_gaps(Checks(count, power), payees), payees)

    if left(MOST_CHECKS) > gain or (gain == 0.0 and left(1) > 0.0):  # more leave less, and never nothing
        raise ParameterError(
            "gain",
            gain,
            f"checks of power {power:g} leave something, however many: 3 leave {left(3):.2g} of what is paid, 10 "
            f"{left(10):.2g}, {MOST_CHECKS} {left(MOST_CHECKS):.2g}; allow such a gain",
        )
    return bisect_left(range(1, MOST_CHECKS), -gain, key=lambda count: -left(count)) + 1
