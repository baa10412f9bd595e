"""The plan of spot checks: which payees and units are checked how often, what that costs and leaves to gain.

A plan decides the draw, with the run and the beacon, and may change until there is one. Identities that are paid as one
are one payee, under the first of their names. A unit earns a_u (the column ``amount`` of clusters.parquet, as a part of
what the run divides); P is the sum of a payee's positive a_u, T of all.

Payees who are paid less than ``least`` are neither checked nor paid, and carried.csv lists their units, to be handed in
again: a balance paid later without a check of its units would let many small names earn up to the limit each, in each
run, and never be drawn.

A run that settles an earlier draft holds the outcome of its checks (`SettledDraft`), which decides who is paid and is
part of the run's id; checks/before.parquet has each unit's part of its payee's pay in that draft.
"""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, field_validator

from datamarket_gym.analysis.theorems.deterrence import (
    Checks,
    Forfeit,
    deterrence_gap,
    unit_forfeit_gap,
)
from datamarket_gym.display import counted
from datamarket_gym.errors import DataMarketError, ParameterError, RunError, require_in
from datamarket_gym.execution.arrays import Codes, Values
from datamarket_gym.execution.files import (
    claimed,
    json_text,
    make_folder,
    remove_leftovers,
    replacing,
    sha256,
    write_text,
)
from datamarket_gym.payout.ledger.runs import run_of, transaction_of
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import read_manifest, settled_by, spec_of
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import csv_text
from datamarket_gym.payout.settings import MOST_CHECKS
from datamarket_gym.registry import Document

FOLDER = "checks"
EARLIER_FILE = f"{FOLDER}/before.parquet"
CARRIED_FILE = "carried.csv"
_MOST_KAPPA = 1e9
DRAND = "drand"
"""The announcement for which a round of drand is proposed."""
# Of drand's default chain: its first round, in Unix time, and seconds between rounds.
_GENESIS, _PERIOD = 1595431050, 30


def next_drand_round(now: datetime) -> tuple[int, datetime]:
    """Return the round of drand's default chain at noon (UTC) of the next day, and when it is published."""
    noon = datetime.combine(now.astimezone(UTC).date() + timedelta(days=1), time(12), UTC)
    rounds = math.ceil((noon.timestamp() - _GENESIS) / _PERIOD)
    return rounds + 1, datetime.fromtimestamp(_GENESIS + rounds * _PERIOD, UTC)


def describe_drand_round(now: datetime) -> str:
    """Write an announcement that leaves no choice: the chain, the round, its value and when that is there."""
    number, published = next_drand_round(now)
    when = f"{published:%Y-%m-%d %H:%M:%S} UTC"
    return f"drand round {number} (default chain, {when}): randomness in https://api.drand.sh/public/{number}"


def is_drand(announced: str) -> bool:
    """Return whether a round of drand was announced, whose value is 64 hexadecimal digits."""
    return announced.startswith("drand round ")


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Hold the lock of a run's folder; remove what a killed process was still writing."""
    with claimed(folder, "check"):
        remove_leftovers(folder)
        yield


@dataclass(frozen=True, eq=False)
class CheckedPayee:
    """A payee and the units that earn it something: the others cannot be drawn."""

    name: str
    paid: int  # minor units, over all its identities
    units: list[str]
    identities: list[str]  # of each unit
    rows: Codes  # the place of each unit among those in the game
    amount: Values  # what each earns, in whole currency, before anything is carried forward
    total: float  # T: what all its units earn, those below zero included

    @cached_property
    def share(self) -> Values:
        """The probability with which each unit is drawn, a_u+ / P."""
        return np.asarray(self.amount / self.amount.sum())

    @property
    def kappa(self) -> float:
        """P / T, at least 1; very large where its units together earn nothing and an old balance is paid."""
        positive = float(self.amount.sum())
        return max(1.0, positive / max(self.total, positive / _MOST_KAPPA))

    @property
    def largest_unit(self) -> float:
        return float(self.share.max())

    def gap(self, checks: Checks, forfeit: Forfeit, examined: Literal["anew", "once"] = "anew") -> float:
        """Return what is left to gain for this payee, as a part of its payment."""
        if forfeit == "unit":
            return unit_forfeit_gap(checks, self.share * self.kappa, examined)
        once = self.largest_unit if examined == "once" else 0.0
        return deterrence_gap(checks, self.kappa, largest_unit=once)


def payee_names(run: Path) -> dict[str, str]:
    """Read the payee of each identity."""
    import pyarrow.parquet as pq

    table = pq.read_table(run / "payments.parquet", columns=["identity", "paid_together_with"])
    return {row["identity"]: row["paid_together_with"] or row["identity"] for row in table.to_pylist()}


def paid_payees(run: Path, manifest: dict[str, Any]) -> list[CheckedPayee]:
    """Read the payees that a run pays anything for units of theirs, by name, from its files alone."""
    import pyarrow.parquet as pq

    payee, money, settles = payee_names(run), Currency(manifest["currency"]), settled_by(manifest)
    paid = dict.fromkeys(sorted(payee.values()), 0)
    for line in pq.read_table(run / "payments.parquet", columns=["identity", "payment"]).to_pylist():
        paid[payee[line["identity"]]] += money.signed(line["payment"])
    table = pq.read_table(run / "clusters.parquet", columns=["unit", "identity", "row", "amount"])
    unit, identity = table["unit"].to_pylist(), table["identity"].to_pylist()
    earned, row = table["amount"].to_numpy(), table["row"].to_numpy()
    unpaid = frozenset() if settles is None else settles.unpaid
    divided = earned[[name not in unpaid for name in identity]].sum()
    amount = earned * (manifest["amount"] / 10**money.digits / divided)
    rows: dict[str, list[int]] = {name: [] for name in paid}
    for i in np.argsort(row, kind="stable").tolist():
        rows[payee[identity[i]]].append(i)
    payees = []
    for name, own in rows.items():
        positive = [i for i in own if earned[i] > 0]
        if paid[name] > 0 and positive:
            units, names = [unit[i] for i in positive], [identity[i] for i in positive]
            total = float(amount[own].sum())
            payees.append(
                CheckedPayee(name, paid[name], units, names, row[positive], amount[positive], total)
            )
    return payees


def carried_text(run: Path) -> str:
    """Return carried.csv: units that earned something for payees neither checked nor paid; empty without any."""
    import pyarrow.parquet as pq

    settles = settled_by(read_manifest(run))
    if settles is None or not settles.carried:
        return ""
    columns = ["unit", "identity", "row", "amount"]
    filters = [("identity", "in", settles.carried), ("amount", ">", 0)]
    table = pq.read_table(run / "clusters.parquet", columns=columns, filters=filters).sort_by("row")
    units = zip(table["unit"].to_pylist(), table["identity"].to_pylist(), strict=True)
    return csv_text(["unit", "identity"], units)


class CheckPlan(Document):
    checks: int = Field(ge=1, le=MOST_CHECKS)
    power: float = Field(gt=0, le=1)
    announced: str = ""  # what the beacon will be; empty where the draw is by a local seed
    least: int = Field(default=0, ge=0)
    carried: list[str] = Field(default_factory=list)  # payees who are paid less than that
    price: int = Field(default=0, ge=0)  # of one check

    @property
    def spot_checks(self) -> Checks:
        return Checks(self.checks, self.power)

    @property
    def text(self) -> str:
        return json_text(self.model_dump(mode="json"))


class PlanRequest(Document):
    """The settings of a plan; None where the run's own settings decide."""

    checks: int | None = Field(
        default=None, description="Checks of each payee; as many as the run requires if left out."
    )
    price: str | None = Field(
        default=None, description="Cost of one check, such as 2.50, to see what all of them cost."
    )
    least: str | None = Field(
        default=None,
        description="Payees who are paid less than this are neither checked nor paid; they can submit again.",
    )
    announce: str = Field(
        default="",
        description="What the public random number that draws the units (the beacon) will be, before anybody can know "
        "it; drand for tomorrow's noon round of drand. Units are drawn later, with --beacon.",
    )

    @field_validator("price", "least")
    @classmethod
    def _read_blank(cls, value: str | None) -> str | None:
        return None if value is None else value.strip() or None


@dataclass(frozen=True)
class PlanSummary:
    plan: CheckPlan
    payees: int  # to be checked
    paid: int  # to them
    carried: int  # what payees who are not checked would be paid
    kappa: float  # the largest of those checked
    gap: float  # expected gain that is left, as a part of what is paid to them
    once: float  # that, were a unit that is drawn twice checked once
    most: float  # the largest of one payee, as a part of its payment
    units: float  # expected number of different units drawn
    below_price: int  # payees who are to be checked and are paid less than their checks cost
    in_all: int  # checks

    @property
    def again(self) -> float:
        """The expected number of checks of units after their first one."""
        return max(0.0, self.in_all - self.units)

    @property
    def cost(self) -> int:
        return self.in_all * self.plan.price

    @property
    def notes(self) -> list[str]:
        """What to think of before units are drawn."""
        if not self.below_price:
            return []
        payees = counted(self.below_price, "payee is", "payees are")
        return [
            f"{payees} paid less than their checks cost; with a least payment (--least) they are neither checked nor "
            "paid, and can hand their units in again."
        ]

    def rows(self, currency: str) -> list[tuple[str, str]]:
        """Write what the plan comes to: a name and a value each."""
        plan, money = self.plan, Currency(currency)
        paid, cost, carried, least = (
            f"{currency} {money.shown(minor)}"
            for minor in (self.paid, self.cost, self.carried, plan.least)
        )
        rows = [
            ("checks of each payee", f"{plan.checks:,}"),
            ("power of a check", f"{plan.power:g}"),
            ("checks in all, at most", f"{self.in_all:,}"),
            ("repeats of a unit, expected", f"{self.again:,.1f}"),
            ("paid to those who are checked", paid),
            ("kappa, the largest", f"{self.kappa:.3f}"),
            ("left to gain, in expectation", f"{self.gap:.2%} of what is paid"),
            ("left without repeats", f"{self.once:.2%} of what is paid"),
            ("left to one payee, at most", f"{self.most:.2%} of its payment"),
        ]
        if plan.price:
            share = self.cost / self.paid if self.paid else 0.0
            rows.append(("cost, at most", f"{cost}, {share:.1%} of what is paid"))
        if plan.least:
            payees = counted(len(plan.carried), "payee")
            rows.append((f"neither checked nor paid, below {least}", f"{payees}, {carried}"))
        return rows


def published(run: Path, plan: CheckPlan) -> list[tuple[str, str]]:
    """Return what is given away with an announcement, so that the draw can be worked out by others."""
    digest = hashlib.sha256(plan.text.encode()).hexdigest()
    return [("manifest", sha256(run / MANIFEST)), ("plan", digest)]


def make_plan(run: Path, request: PlanRequest, by: str | None = None) -> PlanSummary:
    """Enter a plan. What was announced stays announced, unless something else is."""
    summary = preview_plan(run, request)
    text, announced = summary.plan.text, summary.plan.announced
    with working_in(run), transaction_of(run) as (transaction, record):
        if record.plan != text or record.draw is not None:
            note = f"the beacon will be: {announced}" if announced else "no beacon was announced"
            digest = hashlib.sha256(text.encode()).hexdigest()
            content = {"plan": text, "detail": f"{note}; plan {digest}"}
            transaction.add("planned", run=record.run, content=content, by=by)
    return summary


def read_check_plan(run: Path) -> CheckPlan:
    text = run_of(run).plan
    if text is None:
        raise DataMarketError(f"no checks are drawn yet; run: datamarket check sample {run}")
    return CheckPlan.model_validate_json(text)


def summarize_plan(
    plan: CheckPlan, payees: Sequence[CheckedPayee], forfeit: Forfeit = "payee"
) -> PlanSummary:
    carried = frozenset(plan.carried)
    checked = [p for p in payees if p.name not in carried]
    checks, paid = plan.spot_checks, [p.paid for p in checked]
    gaps = [p.gap(checks, forfeit) for p in checked]
    once = [p.gap(checks, forfeit, "once") for p in checked]
    return PlanSummary(
        plan,
        payees=len(checked),
        paid=sum(paid),
        carried=sum(p.paid for p in payees if p.name in carried),
        kappa=max(p.kappa for p in checked),
        gap=float(np.average(gaps, weights=paid)),
        once=float(np.average(once, weights=paid)),
        most=max(gaps),
        units=float(sum((1.0 - (1.0 - p.share) ** plan.checks).sum() for p in checked)),
        below_price=sum(p.paid < plan.checks * plan.price for p in checked),
        in_all=plan.checks * len(checked),
    )


def preview_plan(run: Path, request: PlanRequest) -> PlanSummary:
    manifest, now = read_manifest(run), datetime.now(UTC)
    payees, settles = paid_payees(run, manifest), settled_by(manifest)
    money, spec, standing = Currency(manifest["currency"]), spec_of(manifest), run_of(run).plan
    if not request.announce.isprintable():
        raise ParameterError("announce", ascii(request.announce), "announce plain text that can be read")
    announced = request.announce.strip()
    before = "" if standing is None else CheckPlan.model_validate_json(standing).announced
    if not announced or (announced == DRAND and is_drand(before)):
        announced = before
    elif announced == DRAND:
        announced = describe_drand_round(now)
    least = 0 if request.least is None else money.minor(request.least)
    if not any(p.paid >= least for p in payees):
        raise DataMarketError(
            f"no payee is paid {request.least} or more, so none would be checked or paid; lower --least"
        )
    required = spec.checks if settles is None else max(spec.checks, settles.checks)
    checks = max(required, 1) if request.checks is None else request.checks
    require_in("checks", checks, 1, MOST_CHECKS)
    if checks < required:
        remedy = f"{required} for each payee were promised when the run was paid; plan as many or more"
        raise ParameterError("checks", checks, remedy)
    plan = CheckPlan(
        checks=checks,
        power=spec.power,
        announced=announced,
        least=least,
        carried=[p.name for p in payees if p.paid < least],
        price=0 if request.price is None else money.minor(request.price),
    )
    return summarize_plan(plan, payees, spec.forfeit)


class FalseUnit(Document):
    unit: str
    identity: str
    payee: str
    note: str = ""


class EarlierDraw(Document):
    payee: str
    unit: str


class EarlierReview(Document):
    """A check of a unit in the earlier run, or in one before it, whose answer was: genuine."""

    unit: str
    by: str  # the person who checked; empty where that was not said


class SettledDraft(Document):
    """The outcome of the checks of an earlier run."""

    run: str
    manifest: str  # sha256 of the earlier run's manifest
    beacon: str  # that its checks were drawn under
    beacons: list[str] = Field(default_factory=list)  # that those of the drafts before it were
    checks: int  # of each payee
    power: float
    outcomes: str  # sha256 of its answers
    found: list[FalseUnit]  # taken out of the game
    forfeited: list[str]  # identities whose payees failed: unpaid; their other units stay in the game
    carried: list[str]  # identities that would be paid less than checks cost: neither checked nor paid
    draws: list[EarlierDraw]
    looks: list[EarlierReview]
    examined: Literal["anew", "once"]  # whether each draw of the earlier run was a check of its own
    before: str  # sha256 of checks/before.parquet
    kept: int = 0  # minor units that were not divided again, in this and earlier drafts
    announced: bool = False  # whether the beacons of all drafts before were
    gap: float = 0.0  # where only false units forfeit: the largest part of a payee's pay that a draft left to gain

    @property
    def unpaid(self) -> frozenset[str]:
        """The identities that are paid nothing in this run; their old balances stay as they are."""
        return frozenset((*self.forfeited, *self.carried))


@dataclass(frozen=True)
class EarlierChecks:
    """The units that were drawn of each payee, each unit's chance to be drawn, and the reviewers of each unit."""

    draws: dict[str, list[str]]
    share: dict[str, dict[str, float]]
    reviewers: dict[str, list[str]] = field(default_factory=dict)

    def counted(self, unit: str, times: int) -> int:
        """Return how many of so many checks of a unit were made before.

        One without a name counts only where one check is asked for: the next could be by the same person.
        """
        made = self.reviewers.get(unit, [])
        return min(times, len(made) if times == 1 else sum(map(bool, made)))


def shares_to_bytes(payees: Sequence[CheckedPayee]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "payee": pa.array([p.name for p in payees for _ in p.units], pa.string()),
            "unit": pa.array([unit for p in payees for unit in p.units], pa.string()),
            "share": pa.array(np.concatenate([np.zeros(0), *(p.share for p in payees)])),
        }
    )
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def write_earlier_files(run: Path, shares: bytes) -> None:
    make_folder(run / FOLDER)
    with replacing(run / EARLIER_FILE) as part:
        part.write_bytes(shares)
    if text := carried_text(run):
        write_text(run / CARRIED_FILE, text)


def read_earlier_checks(run: Path, settles: SettledDraft | None) -> EarlierChecks:
    """Read what stands of the draft that a run settles; nothing where it settles none."""
    import pyarrow.parquet as pq

    checks = EarlierChecks({}, {})
    if settles is None:
        return checks
    path = run / EARLIER_FILE
    if not path.is_file() or sha256(path) != settles.before:
        raise RunError(
            f"{str(path)!r} is missing or changed; settle the earlier run again into this folder, which writes it"
        )
    for row in pq.read_table(path).to_pylist():
        checks.share.setdefault(row["payee"], {})[row["unit"]] = row["share"]
    for draw in settles.draws:
        checks.draws.setdefault(draw.payee, []).append(draw.unit)
    for review in settles.looks:
        checks.reviewers.setdefault(review.unit, []).append(review.by)
    return checks
