"""The comparison of two runs: payments before and after, and the settings and inputs that differ.

Read from the folders of the runs, whose files are held against their manifests; the inputs are not needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.statements.record import RunTables


@dataclass(frozen=True)
class Difference:
    """A setting or an input that differs; None where a run does not have it."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True)
class PaymentChange:
    """What an identity is paid in both runs, in minor units; None in a run that it is not part of."""

    identity: str
    before: int | None
    after: int | None
    change: int | None  # None where the currencies differ


@dataclass(frozen=True)
class RunComparison:
    """Two runs side by side; ``payments`` has the largest changes first."""

    currencies: tuple[str, str]
    settings: list[Difference]
    inputs: list[Difference]
    payments: list[PaymentChange]


def compare_runs(before: Path, after: Path) -> RunComparison:
    """Compare two finished runs by their folders; a file that is missing or was changed is refused."""
    tables = RunTables.read(before), RunTables.read(after)
    first, second = (each.manifest for each in tables)
    currencies = first["currency"], second["currency"]
    old, new = (
        {row["identity"]: Currency(currency).signed(row["payment"]) for row in run.payments}
        for run, currency in zip(tables, currencies, strict=True)
    )
    payments = []
    for name in old | new:
        change = new.get(name, 0) - old.get(name, 0) if len(set(currencies)) == 1 else None
        payments.append(PaymentChange(name, old.get(name), new.get(name), change))
    payments.sort(key=lambda each: (-abs(each.change or 0), each.identity))
    settings = _differences(_settings(first), _settings(second))
    hashes = ({role: file["sha256"] for role, file in m["inputs"].items()} for m in (first, second))
    inputs = _differences(*hashes)
    return RunComparison(currencies, settings, inputs, payments)


def _differences(before: dict[str, Any], after: dict[str, Any]) -> list[Difference]:
    names = sorted(before.keys() | after.keys())
    pairs = [Difference(name, before.get(name), after.get(name)) for name in names]
    return [pair for pair in pairs if pair.before != pair.after]


def _settings(manifest: dict[str, Any]) -> dict[str, Any]:
    parts = {name: manifest.get(name) for name in ("spec", "mechanism", "utility", "versions")}
    acquired = [each["run"] for each in manifest.get("acquired", ())]
    more = {
        "evidence": manifest["evidence"]["used"],
        "overrides": manifest["overrides"],
        "acquired": acquired,
    }
    return dict(_flattened(parts)) | more


def _flattened(settings: Mapping[str, Any], stem: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flattened(value, f"{stem}{key}.")
        else:
            yield stem + key, value
