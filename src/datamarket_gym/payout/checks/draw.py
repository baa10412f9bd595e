"""Which units are checked: a function of the run's manifest, the plan and a beacon, and of nothing else.

Of each payee m units are drawn, with replacement, with probability a_u+ / P. The random number of a draw is an HMAC
(SHA-256) of the payee and the draw's number under a key that is a hash of the manifest, the plan and the beacon.
``verify`` recomputes it. The beacon is a public value that was announced before anybody could know it, or else a local
seed: made, and entered into the ledger, in the moment of the draw, so that no submitter can foresee it and no second
one can be tried here, though the operator could have tried some elsewhere.

A run that settles an earlier one pays other amounts: with p the chances of a payee's units then and p' now, a draw u of
then stands with probability min(1, p'_u / p_u), else there is a new one, by (p' - p)+. What is drawn in
all is then distributed by p', as if everything were drawn anew, with the fewest new checks (a maximal coupling).

Every draw is a check of its own: a unit that is drawn twice is checked by two people. Checks of it that were made in
an earlier draft count, as many as there were.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from datamarket_gym.errors import DataMarketError, ParameterError, RunError
from datamarket_gym.execution.arrays import Values
from datamarket_gym.execution.files import sha256, write_text
from datamarket_gym.payout.checks.plan import (
    CheckedPayee,
    CheckPlan,
    EarlierChecks,
    is_drand,
    paid_payees,
    read_earlier_checks,
    working_in,
)
from datamarket_gym.payout.ledger.runs import run_of, transaction_of
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import read_manifest, settled_by
from datamarket_gym.payout.names import csv_text

CHECKS_FILE = "checks.csv"
COLUMNS = ("number", "payee", "identity", "unit", "look", "amount", "share", "asked")
REQUESTED_PROOF = (
    "the original file, as it was made or received",
    "its source: where it comes from, since when, and from whom",
    "the consent or the licence under which it is handed in",
)
"""What a payee is asked for, of each drawn unit."""
LOCAL_SEED = (
    "The units are drawn by a seed of the operator's own machine, not by a public number announced beforehand: payees "
    "have only the operator's word that the sample was not chosen."
)
"""What a local seed weakens."""


@dataclass(frozen=True)
class Draw:
    """One check of a unit: whose it is, what it earns (in whole currency) and its part of the payee's pay."""

    number: int
    payee: str
    identity: str
    unit: str
    row: int  # place among the units in the game
    amount: float
    share: float


@dataclass
class DrawnChecks:
    """The draw of a run: checks to make, and (``kept``) those that were made in an earlier draft.

    ``before`` names the people who checked units of the list before: others have to check them now.
    """

    run: str
    beacon: str
    checks: int
    power: float
    draws: list[Draw]
    announced: str = ""  # what the beacon was announced as; empty for a local seed
    kept: list[Draw] = field(default_factory=list)
    before: dict[str, list[str]] = field(default_factory=dict)

    @property
    def check_numbers(self) -> dict[str, list[int]]:
        """The numbers of the checks of each unit."""
        numbers: dict[str, list[int]] = {}
        for draw in self.draws:
            numbers.setdefault(draw.unit, []).append(draw.number)
        return numbers


def draw_checks(run: Path, beacon: str = "", by: str | None = None) -> DrawnChecks:
    """Draw units once, by a local seed if no beacon is given: later calls change nothing, another beacon is refused."""
    with working_in(run):
        with transaction_of(run) as (transaction, record):
            if record.draw is None:
                if record.plan is None:
                    raise DataMarketError(
                        f"there is no plan to draw by; run datamarket check sample {run}"
                    )
                announced = CheckPlan.model_validate_json(record.plan).announced
                if beacon or announced:
                    _require_beacon(run, beacon, announced)
                value = beacon or f"local seed {secrets.token_hex(16)}"
                transaction.add("drawn", run=record.run, content={"beacon": value}, by=by)
            elif beacon and record.draw.beacon != beacon:
                raise DataMarketError(
                    f"checks of this run were drawn under the beacon {record.draw.beacon!r}, and are not drawn again"
                )
        drawn = recompute_draw(run)  # drawn for good, whatever becomes of this process
        write_text(run / CHECKS_FILE, checks_text(drawn))
    return drawn


def read_checks(run: Path) -> DrawnChecks:
    """Read what was drawn; refused where checks.csv is not what the draw in the ledger comes to."""
    drawn = recompute_draw(run)
    path = run / CHECKS_FILE
    if not path.is_file():
        raise RunError(f"{str(path)!r} is missing; to write it again: datamarket check sample {run}")
    if path.read_bytes() != checks_text(drawn).encode():
        raise RunError(
            f"{str(path)!r} was changed after the draw; to write it again: datamarket check sample {run}"
        )
    return drawn


def recompute_draw(run: Path) -> DrawnChecks:
    """Work out the draw from the files of the run, and the plan and the beacon in its ledger."""
    record = run_of(run).draw
    if record is None:
        raise DataMarketError(f"no checks are drawn yet; run: datamarket check sample {run}")
    manifest = read_manifest(run)
    plan = CheckPlan.model_validate_json(record.plan)
    key = draw_key(sha256(run / MANIFEST), record.plan, record.beacon)
    earlier = read_earlier_checks(run, settled_by(manifest))
    draws, kept = draw_units(key, plan, paid_payees(run, manifest), earlier)
    made = {unit: [name for name in names if name] for unit, names in earlier.reviewers.items()}
    before = {d.unit: made[d.unit] for d in draws if made.get(d.unit)}
    return DrawnChecks(
        manifest["run"], record.beacon, plan.checks, plan.power, draws, plan.announced, kept, before
    )


def draw_key(manifest: str, plan: str, beacon: str) -> bytes:
    return hashlib.sha256(json.dumps([manifest, plan, same_beacon(beacon)]).encode()).digest()


def same_beacon(beacon: str) -> str:
    """Normalize a beacon (capitals, spaces, width), so that no draw is chosen by the way it is written."""
    return "".join(unicodedata.normalize("NFKC", beacon).casefold().split())


def draw_units(
    key: bytes, plan: CheckPlan, payees: list[CheckedPayee], earlier: EarlierChecks | None = None
) -> tuple[list[Draw], list[Draw]]:
    """Return the draws of a key that need an answer, numbered from 1, and those that have one; units in a row."""
    earlier, carried = earlier or EarlierChecks({}, {}), frozenset(plan.carried)
    draws: list[Draw] = []
    kept: list[Draw] = []
    for payee in (p for p in payees if p.name not in carried):
        for place, times in Counter(_places(key, plan.checks, payee, earlier)).items():
            made = earlier.counted(payee.units[place], times)
            draw = Draw(
                0, payee.name, payee.identities[place], payee.units[place], int(payee.rows[place]),
                float(payee.amount[place]), float(payee.share[place]),
            )  # fmt: skip
            kept += [draw] * made
            draws += [replace(draw, number=len(draws) + i) for i in range(1, times - made + 1)]
    return draws, kept


def _places(key: bytes, checks: int, payee: CheckedPayee, earlier: EarlierChecks) -> Iterator[int]:
    draws, shares = earlier.draws.get(payee.name, []), earlier.share.get(payee.name, {})
    before = np.array([shares.get(unit, 0.0) for unit in payee.units])
    place = {unit: i for i, unit in enumerate(payee.units)} if draws else {}
    excess = np.maximum(payee.share - before, 0.0)
    for number in range(checks):
        weight: Values = payee.share
        if number < len(draws):
            at = place.get(draws[number], -1)
            chance = _chance(key, payee.name, number, "stands")
            if at >= 0 and chance * before[at] < payee.share[at]:
                yield at
                continue
            weight = excess if excess.any() else payee.share
        yield _picked(weight, _chance(key, payee.name, number, "drawn"))


def _picked(weight: Values, chance: float) -> int:
    """Return the place at which the sum of the weights passes this part of all of them."""
    sums = np.cumsum(weight)
    place = int(np.searchsorted(sums, chance * sums[-1], side="right"))
    return min(place, int(np.flatnonzero(weight)[-1]))


def _chance(key: bytes, payee: str, number: int, what: str) -> float:
    """Return a random number in [0, 1) of 53 bits, by HMAC."""
    digest = hmac.digest(key, json.dumps([what, number, payee]).encode(), "sha256")
    return (int.from_bytes(digest[:8], "big") >> 11) * 2.0**-53


def checks_text(drawn: DrawnChecks) -> str:
    numbers = drawn.check_numbers
    rows = [
        (
            draw.number, draw.payee, draw.identity, draw.unit,
            f"{numbers[draw.unit].index(draw.number) + 1} of {len(numbers[draw.unit])}", f"{draw.amount:.6f}",
            f"{draw.share:.6f}", "; ".join(REQUESTED_PROOF),
        )
        for draw in drawn.draws
    ]  # fmt: skip
    return csv_text(COLUMNS, rows, ("amount", "share"))


def _require_beacon(run: Path, beacon: str, announced: str) -> None:
    """Refuse a beacon that was not announced, that a payee knew, or that is not what was announced."""
    if announced and not beacon.strip():
        raise ParameterError("beacon", beacon, f"give the value that was announced: {announced}")
    if not beacon.isprintable():
        raise ParameterError("beacon", ascii(beacon), "it holds characters that cannot be read")
    if not announced:
        raise ParameterError(
            "beacon", beacon,
            "no beacon was announced, and one that is chosen now proves nothing; announce one that nobody knows yet "
            f"(datamarket check sample {run} --announce drand), or leave it out",
        )  # fmt: skip
    if is_drand(announced) and not re.fullmatch("[0-9a-f]{64}", same_beacon(beacon)):
        raise ParameterError("beacon", beacon, f"the value of {announced}, is 64 digits from 0 to f")
    settles = settled_by(read_manifest(run))
    earlier = [] if settles is None else [*settles.beacons, settles.beacon]
    if same_beacon(beacon) in map(same_beacon, earlier):
        raise ParameterError(
            "beacon",
            beacon,
            "a run that this one settles was drawn under it, so that payees knew it; announce another",
        )
