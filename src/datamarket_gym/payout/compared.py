"""Two runs held against each other: what was asked differently, who is paid otherwise, and why as far as records tell.

Two months of a market, or two drafts of one payday. Everything is read from the folders of the runs, whose files are
held against their manifests; the inputs are not needed. Amounts are in minor units.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from datamarket_gym.payout.compared_payees import (
    PayeeChange,
    PayeeStanding,
    general_reason,
    reasons,
    standings,
)
from datamarket_gym.payout.contents import Contents
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import run_called, visible
from datamarket_gym.payout.statements.tables import RunTables
from datamarket_gym.payout.warnings import StandingWarning, read_warnings

_UNSAID = "not said"
_MEASURES = {
    "validation": "validation rows",
    "reference": "reference rows",
    "scores": "table of scores",
    "utility": "function that is paid for",
}  # inputs that everybody is measured by
_NAMES = {
    "spec.amount": "amount",
    "spec.currency": "currency",
    "spec.period": "period",
    "spec.learner": "paid for",
    "spec.theta": "threshold asked for",
    "evidence.used": "evidence used",
    "spec.negative": "scores below zero",
    "spec.checks": "checks of each payee",
    "spec.seed": "seed",
    "mechanism": "mechanism",
    "versions.datamarket-gym": "version of datamarket-gym",
}


@dataclass(frozen=True)
class Differs:
    """One thing that two runs say differently, in words."""

    what: str
    before: str
    after: str


@dataclass(frozen=True)
class ComparedRun:
    """One of the two runs."""

    run: str
    name: str  # as people know it
    currency: str
    amount: int


@dataclass(frozen=True)
class WarningChange:
    """A warning that one of two runs has, or both with other counts; None: has it not."""

    name: str
    title: str
    before: int | None
    after: int | None


@dataclass(frozen=True)
class Compared:
    """What two runs have different. ``payees`` are all identities of both, the largest changes first."""

    before: ComparedRun
    after: ComparedRun
    settings: list[Differs]
    inputs: list[Differs]
    units_in_both: float | None  # about; None where the runs do not tell
    totals: list[Differs]
    payees: list[PayeeChange]
    warnings: list[WarningChange]

    @property
    def only_before(self) -> list[PayeeChange]:
        """Identities that are in the first run alone."""
        return [each for each in self.payees if each.after is None]

    @property
    def only_after(self) -> list[PayeeChange]:
        """Identities that are in the second run alone."""
        return [each for each in self.payees if each.before is None]

    @property
    def plain(self) -> dict[str, Any]:
        """All of it as plain values."""
        return asdict(self)


def compared(a: Path, b: Path) -> Compared:
    """Hold a finished run against another: ``a`` is the one before."""
    tables = RunTables.read(a), RunTables.read(b)
    first, second = (each.manifest for each in tables)
    inputs = list(_inputs(first["inputs"], second["inputs"]))
    settings = list(_settings(first, second))
    shared = [Contents.from_plain(each.get("contents", {})) for each in (first, second)]
    return Compared(
        _run(first),
        _run(second),
        settings,
        inputs,
        shared[0].shared(shared[1]) if all(each.distinct for each in shared) else None,
        list(_totals(*tables)),
        _changes(standings(tables[0]), standings(tables[1]), first, second, _given(settings, inputs)),
        list(_warnings(read_warnings(a), read_warnings(b))),
    )


def _run(manifest: dict[str, Any]) -> ComparedRun:
    period = manifest["spec"].get("period") or ""
    name = run_called(period, manifest["run"])
    return ComparedRun(manifest["run"], name, manifest["currency"], manifest["amount"])


def _changes(
    before: dict[str, PayeeStanding],
    after: dict[str, PayeeStanding],
    first: dict[str, Any],
    second: dict[str, Any],
    given: str,
) -> list[PayeeChange]:
    """Every identity of both, those first whose payment changed most; by shares where currencies differ."""
    same = first["currency"] == second["currency"]
    money = Currency(second["currency"])
    pot = ""
    if (first["amount"], first["currency"]) != (second["amount"], second["currency"]):
        pot = f"{_amount(second)} are divided, before {_amount(first)}"
    found = []
    for name in before | after:
        old, new = before.get(name), after.get(name)
        change = (new.paid if new else 0) - (old.paid if old else 0)
        said = tuple(reasons(old, new, money))
        if old is not None and new is not None and (change or not same):
            said = (*said, pot) if said and pot else said or (general_reason(old, new, pot, given),)
        found.append(PayeeChange(name, old, new, change if same else None, said))
    return sorted(
        found,
        key=lambda x: (-abs(x.share_change if x.change is None else x.change), x.identity),
    )


def _amount(manifest: dict[str, Any]) -> str:
    return f"{manifest['currency']} {Currency(manifest['currency']).shown(manifest['amount'])}"


def _given(settings: Sequence[Differs], inputs: Sequence[Differs]) -> str:
    """What all are measured by and is another now, in a clause."""
    other = [_MEASURES[each.what] for each in inputs if each.what in _MEASURES]
    names = (_NAMES["spec.learner"], _NAMES["evidence.used"])
    other += [each.what for each in settings if each.what in names]
    return f"other {', '.join(other)}" if other else ""


def _settings(first: dict[str, Any], second: dict[str, Any]) -> Iterator[Differs]:
    """What was asked for, and how it was worked out; what is not said is left at what it is by itself."""
    old, new = (
        dict(_flat({name: manifest.get(name) for name in ("spec", "mechanism", "utility", "versions")}))
        | {
            "evidence.used": manifest["evidence"]["used"],
            "overrides": f"{len(manifest['overrides'])} in all",
        }
        | {"earlier runs": _prior(manifest)}
        for manifest in (first, second)
    )
    repeated = {
        "mechanism.evidence",
        "mechanism.beacon",
        "utility.learner",
    }  # as the spec and the evidence say
    for key in [*_NAMES, *sorted((old.keys() | new.keys()) - _NAMES.keys() - repeated)]:
        if old.get(key) != new.get(key):
            yield Differs(
                _NAMES.get(key, key.removeprefix("spec.")), _words(old.get(key)), _words(new.get(key))
            )


def _prior(manifest: dict[str, Any]) -> str:
    runs = manifest.get("prior", ())
    return ", ".join(run_called(each["period"], each["run"]) for each in runs) or "none"


def _flat(said: Mapping[str, Any], stem: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in said.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{stem}{key}.")
        else:
            yield f"{stem}{key}", value


def _words(value: Any) -> str:
    if value is None or value == "":
        return _UNSAID
    if isinstance(value, list):
        return visible(", ".join(map(str, value)), 200) or "none"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else visible(str(value), 200)


def _inputs(first: dict[str, Any], second: dict[str, Any]) -> Iterator[Differs]:
    """Files that are others now, by what they hold; the names stay or change without a difference."""
    for role in first | second:
        old, new = first.get(role), second.get(role)
        if old is None or new is None or old["sha256"] != new["sha256"]:
            yield Differs(role, _file(old), _file(new))


def _file(said: dict[str, Any] | None) -> str:
    if said is None:
        return "none"
    return f"{visible(str(said['name']), 80) or 'no file'} (sha256 {said['sha256'][:12]}…)"


def _totals(a: RunTables, b: RunTables) -> Iterator[Differs]:
    """Sums of both runs, also where they are equal."""
    for what, key in (
        ("identities", "identities"), ("units", "units"), ("distinct units", "clusters"), ("ties", "ties"),
        ("units that are validation rows", "leaked"), ("units bought before", "known"),
        ("rows that could not be used", "quarantined"),
    ):  # fmt: skip
        old, new = a.manifest.get(key, 0), b.manifest.get(key, 0)
        if old or new:
            yield Differs(what, f"{old:,}", f"{new:,}")
    yield Differs("amount", _amount(a.manifest), _amount(b.manifest))
    yield Differs("identities paid", *(f"{_paid(each):,}" for each in (a, b)))
    yield Differs("evidence", *(f"{each.manifest['evidence']['used']}" for each in (a, b)))


def _paid(tables: RunTables) -> int:
    money = Currency(tables.manifest["currency"])
    return sum(money.signed(row["payment"]) > 0 for row in tables.payments)


def _warnings(
    first: Sequence[StandingWarning], second: Sequence[StandingWarning]
) -> Iterator[WarningChange]:
    """Warnings that came, went, or are about more or fewer."""
    old, new = ({warning.name: warning for warning in each} for each in (first, second))
    for name, latest in (old | new).items():
        was, now = (None if name not in each else each[name].count for each in (old, new))
        if was != now:
            yield WarningChange(name, latest.title, was, now)
