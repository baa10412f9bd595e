"""units.csv: what every submitted unit earns, to the cent, what it was matched with, and why it earns nothing.

The units of a payee earn its part of this run: what it is entitled to, less the balance that an earlier run carried
forward. Unit u earns x_u = A w_u / (sum of all w) of the amount A, w_u being what the mechanism allocates to it. Each
x_u is rounded down to a whole cent, and the cents that its payee's part has left go to the payee's units with the
largest remainders, equal ones by content. Below zero only accuracy comes, and only where scores below zero are carried
forward. What is carried, from earlier runs or to the next one, stands in rows of its own without a unit, so that the
rows of a payee sum to its payment, always.

Reading the file is light, as `explain` answers within a second; only writing it needs the pipeline.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from datamarket_gym.errors import RunError
from datamarket_gym.execution.arrays import Codes, Values
from datamarket_gym.execution.files import write_text
from datamarket_gym.payout.manifest import UNITS
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import csv_safe, csv_text, first_words, from_csv

if TYPE_CHECKING:
    from datamarket_gym.payout.checks.plan import SettledDraft
    from datamarket_gym.payout.results import Results

MATCHED, REPEATED = "matched", "repeats an own unit"
LEAKED, ACQUIRED = "equals a validation row", "acquired before"
FALSE, FAILED = "failed a spot check", "its payee failed a spot check"
UNCHECKED = "its payee was not checked"
NO_SCORE, BELOW_ZERO, BELOW_CENT = "adds no value", "counts below zero", "below a cent"
CARRIED_IN, CARRIED_ON = "carried from earlier runs", "carried to the next run"
_COLUMNS = (
    "unit", "content", "payee", "amount", "currency", "cluster", "matched_to", "matched_by", "shared_words", "reason",
)  # fmt: skip
_PAYEE, _WORDS = _COLUMNS.index("payee"), _COLUMNS.index("shared_words")
_LONGEST = 160  # characters of shared words


@dataclass(frozen=True, slots=True)
class UnitPayment:
    """A row of units.csv; one without a unit is a balance that is carried."""

    unit: str
    payee: str
    amount: int  # minor units
    reason: str = ""  # where it earns nothing
    content: str = ""  # the first words of its text, or the file of its image
    cluster: str = ""
    matched_to: str = ""  # the earlier unit
    matched_by: str = ""
    shared_words: str = ""  # where words matched them


def unit_payments(
    results: Results, settles: SettledDraft | None, opening: dict[str, int]
) -> list[UnitPayment]:
    """List all submitted units: payee by payee in the order of payments, the best paid first.

    ``opening`` are the balances that earlier runs carried.
    """
    division, names = results.division, results.names
    rows = [*_playing(results, settles, opening), *_set_aside(results, settles)]
    for name, balance in zip(names, division.balance, strict=True):
        carried = (opening.get(name, 0), CARRIED_IN), (-balance, CARRIED_ON)
        rows += [UnitPayment("", name, amount, reason) for amount, reason in carried if amount]
    order = sorted(range(len(names)), key=lambda i: (-division.paid[i], names[i]))
    place = {names[i]: at for at, i in enumerate(order)}
    return sorted(rows, key=lambda row: (place.get(row.payee, len(names)), not row.unit, -row.amount))


def _playing(
    results: Results, settles: SettledDraft | None, opening: dict[str, int]
) -> Iterator[UnitPayment]:
    """Yield the units that are in the game."""
    from datamarket_gym.evidence.lineage import WORDS

    inputs, payments, owner = results.inputs, results.payments, results.inputs.owner
    amounts, weight, share = _amounts(results, settles, opening)
    label, edges = payments.clustering.label, payments.clustering.edges
    earlier, match = _earlier_matches(results)
    pair = label * (len(results.names) + 1) + owner  # of a cluster and a payee
    own = np.isin(pair, pair[share > 0])
    texts = inputs.submission.metadata.get("text")
    for i, (name, amount) in enumerate(zip(inputs.ids, amounts, strict=True)):
        payee, other = inputs.identities[owner[i]], int(earlier[i])
        reason = ""
        if settles is not None and payee in settles.unpaid:
            reason = FAILED if payee in settles.forfeited else UNCHECKED
        elif not amount and not share[i]:
            reason = REPEATED if own[i] else MATCHED
        elif not amount:
            reason = BELOW_CENT if weight[i] > 0 else BELOW_ZERO if weight[i] < 0 else NO_SCORE
        by = "" if other < 0 else str(edges.reason[match[i]])
        yield UnitPayment(
            unit=name,
            payee=payee,
            amount=amount,
            reason=reason,
            cluster=str(payments.scores.number[label[i]]),
            matched_to="" if other < 0 else inputs.ids[other],
            matched_by=by,
            shared_words=shared_words(texts[i], texts[other])
            if by == WORDS and texts is not None
            else "",
        )


def _amounts(
    results: Results, settles: SettledDraft | None, opening: dict[str, int]
) -> tuple[list[int], list[int], Values]:
    """Return of each unit in the game what it earns, its weight, and its share of its cluster."""
    from datamarket_gym.mechanism.allocation import grid_of
    from datamarket_gym.mechanism.payment_tables import unit_amounts

    inputs, division, names = results.inputs, results.division, results.names
    used, n = results.divided, len(inputs.ids)
    units = unit_amounts(used)
    unpaid = frozenset() if settles is None else settles.unpaid
    step = grid_of(used.scores.values)  # whole numbers of steps: the same on every machine
    amount = np.bincount(units.row, weights=units.amount, minlength=n)
    raw = unit_amounts(results.payments)
    signed = np.bincount(raw.row, weights=raw.amount, minlength=n)
    weight: list[int] = np.round(amount / step).astype(np.int64).tolist()
    earning = [
        w if inputs.identities[o] not in unpaid else 0 for w, o in zip(weight, inputs.owner, strict=True)
    ]
    total, minor = sum(earning), results.spec.minor
    parts, rests = [minor * w // total for w in earning], [minor * w % total for w in earning]
    keys, mine = inputs.submission.keys, [list[int]() for _ in names]
    for i in np.argsort(keys, kind="stable").tolist():
        if earning[i]:
            mine[inputs.owner[i]].append(i)
    for code, own in enumerate(mine):
        own.sort(key=lambda i: -rests[i])
        left = division.entitled[code] - opening.get(names[code], 0) - sum(parts[i] for i in own)
        for at, i in enumerate(own):
            parts[i] += left // len(own) + (at < left % len(own))
    share = np.bincount(units.row, minlength=n).astype(np.float64)
    return parts, np.sign(signed).astype(np.int64).tolist(), share


def _earlier_matches(results: Results) -> tuple[Codes, Codes]:
    """Return the earlier unit that each unit matches most, and that edge; -1 where there is none."""
    from datamarket_gym.evidence.graph import seniority_ranks

    clusters, submission = results.payments.clustering, results.inputs.submission
    edges, rank = clusters.edges, seniority_ranks(submission, clusters.tie_breaker)
    first = np.where(
        (rank[edges.left] < rank[edges.right])
        | ((rank[edges.left] == rank[edges.right]) & (edges.left < edges.right)),
        edges.left,
        edges.right,
    )
    later = edges.left + edges.right - first
    order = np.lexsort((rank[first], -edges.score, later))
    units, at = np.unique(later[order], return_index=True)
    earlier, match = (np.full(len(rank), -1, dtype=np.int64) for _ in range(2))
    earlier[units], match[units] = first[order[at]], order[at]
    return earlier, match


def _set_aside(results: Results, settles: SettledDraft | None) -> Iterator[UnitPayment]:
    """Yield the units that are not in the game."""
    leaks = results.leaks
    for unit, payee in zip(leaks.id.tolist(), leaks.identity.tolist(), strict=True):
        yield UnitPayment(unit, payee, 0, LEAKED)
    for row in results.known:
        yield UnitPayment(
            row.unit, row.identity, 0, f"{ACQUIRED}, in {row.called}",
            matched_to=row.old_unit, matched_by=row.reason,
        )  # fmt: skip
    for false in () if settles is None else settles.found:
        yield UnitPayment(false.unit, false.identity, 0, FALSE)
    for bad in results.inputs.bad:
        yield UnitPayment(bad.unit or f"row {bad.row}", bad.identity, 0, f"set aside: {bad.wrong}")


def shared_words(text: str, other: str, longest: int = _LONGEST) -> str:
    """Return the passages of a text whose neighbouring words stand side by side in another text, too, longest first."""
    from datamarket_gym.evidence.text_containment import split_words

    tokens = text.split()
    words = [(word, at) for at, token in enumerate(tokens) for word in split_words(token)]
    theirs = {frozenset(pair) for pair in pairwise(split_words(other))}
    passages: list[tuple[int, int]] = []
    for (one, start), (two, end) in pairwise(words):
        if frozenset((one, two)) in theirs:
            begun = passages and start <= passages[-1][1]
            passages[-1:] = [(passages[-1][0], end)] if begun else [*passages[-1:], (start, end)]
    shown, room = [], longest
    for start, end in sorted(passages, key=lambda passage: passage[0] - passage[1]):
        passage = first_words(" ".join(tokens[start : end + 1]), room)
        shown.append(passage)
        if (room := room - len(passage)) < longest // 4:
            break
    return " | ".join(shown)


def write_units(
    results: Results, settles: SettledDraft | None, opening: dict[str, int], folder: Path
) -> None:
    """Write units.csv."""
    money, excerpts = results.spec.money, results.inputs.excerpts
    cells = (
        (
            row.unit, excerpts.get(row.unit, ""), row.payee, money.text(row.amount), money.code, row.cluster,
            row.matched_to, row.matched_by, row.shared_words, row.reason,
        )
        for row in unit_payments(results, settles, opening)
    )  # fmt: skip
    write_text(folder / UNITS, csv_text(_COLUMNS, cells, ("amount", "cluster")))


class UnitRows:
    """The rows of units.csv by payee. A row is taken apart when it is asked for: a run may have a million."""

    def __init__(self, path: Path) -> None:
        self._rows: dict[str, list[list[str]]] = {}
        with path.open(encoding="utf-8", newline="") as file:
            csv.field_size_limit(1 << 24)
            rows = csv.reader(file)
            columns = next(rows, [])
            if tuple(columns) != _COLUMNS:
                raise RunError(f"{str(path)!r} has other columns than a run writes; run verify")
            for row in rows:
                self._rows.setdefault(row[_PAYEE], []).append(row)

    def __iter__(self) -> Iterator[UnitPayment]:
        return (_unit_payment(row) for rows in self._rows.values() for row in rows)

    def of(self, payee: str) -> list[UnitPayment]:
        """Return the rows of a payee, the best paid unit first."""
        return [_unit_payment(row) for row in self._rows.get(csv_safe(payee), ())]

    @cached_property
    def shared_words(self) -> dict[tuple[str, str], str]:
        """Words that a unit shares with the earlier one that it matches."""
        found = (_unit_payment(row) for rows in self._rows.values() for row in rows if row[_WORDS])
        return {(row.unit, row.matched_to): row.shared_words for row in found}


def _unit_payment(row: Sequence[str]) -> UnitPayment:
    cells = {name: from_csv(cell) for name, cell in zip(_COLUMNS, row, strict=True)}
    currency = Currency(cells.pop("currency"))
    return UnitPayment(amount=currency.signed(cells.pop("amount")), **cells)


def read_units(path: Path) -> list[UnitPayment]:
    """Read units.csv."""
    return list(UnitRows(path))
