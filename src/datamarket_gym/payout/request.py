"""A payday as it is asked for: tables, settings and a folder in, the run and what is to be said of it out.

Whoever asks, a command line or a page, asks by this, and shows the same payments and the same sentences.

A payday for a look: the run as it would be, in a folder and a ledger of its own; the market's ledger is not touched.

What a run takes from the market's ledger (balances, decisions of disputes) it takes from a copy, so that the payments
are those that it would come to.

A payout run written down: as a command line, and as a TOML file of its settings. Either gives the same run again.
"""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from datamarket_gym.errors import MarketWarning, ParameterError
from datamarket_gym.evidence.graph import collect_market_warnings
from datamarket_gym.execution.progress import Progress
from datamarket_gym.payout.acquisition_prices import acquired_messages
from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.runs import default_ledger, ledger_of, run_of
from datamarket_gym.payout.ledger.store import (
    LedgerChecksum,
    has_ledger,
    is_address,
    open_ledger,
)
from datamarket_gym.payout.results import has_balances
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.settings import SETTINGS, PayoutSpec, flat_settings
from datamarket_gym.payout.stored_inputs import fetched
from datamarket_gym.payout.warnings import UnresolvedWarning, read_warnings


@dataclass(frozen=True)
class PayRequest:
    """All that a payday is given; tables are files, or queries of databases (`units.readers.databases`)."""

    submissions: str
    validation: str
    out: Path
    spec: PayoutSpec
    overrides: Path | None = None
    reference: str | None = None
    ledger: str | None = None
    prior: tuple[Path, ...] = ()
    intake: str | None = None
    reuse: Path | None = None

    def into(self, out: Path, ledger: str | None) -> PayRequest:
        """The same payday elsewhere."""
        return replace(self, out=out, ledger=ledger)


@dataclass(frozen=True)
class PaidRequest:
    """A payday that was run: its request, its manifest, and what was told on the way."""

    request: PayRequest
    manifest: dict[str, Any]
    told: tuple[MarketWarning, ...]

    @cached_property
    def accounts(self) -> Accounts:
        """Those of the ledger that the run is in; an address with a password is kept nowhere, so it is asked again."""
        ledger = self.request.ledger
        return (ledger_of(self.request.out) if ledger is None else open_ledger(ledger)).accounts()

    @property
    def warnings(self) -> list[UnresolvedWarning]:
        """What has to be looked at before it is approved."""
        return read_warnings(self.request.out)

    @property
    def columns(self) -> list[str]:
        """The columns of amounts that are worth showing."""
        lines = run_of(self.request.out, self.accounts).lines
        carried = (
            ["balance"] if has_balances(self.request.spec, [line.balance for line in lines]) else []
        )
        return ["payment", "low", "high", "without_evidence", *carried]

    def payments(self, most: int) -> list[dict[str, Any]]:
        """The first payments, the largest first."""
        import pyarrow.parquet as pq

        rows: list[dict[str, Any]] = (
            pq.read_table(self.request.out / "payments.parquet").slice(0, most).to_pylist()
        )
        return rows

    @property
    def title(self) -> str:
        """How much among how many."""
        spec = self.request.spec
        return f"{spec.currency} {spec.money.text(spec.minor)} among {self.manifest['identities']:,} identities"

    @property
    def sentences(self) -> list[str]:
        """What the run rests on: the evidence, what was paid for, what was bought before."""
        evidence, reuse = self.manifest["evidence"], self.request.reuse
        said = [
            f"Evidence: {evidence['used']}. {evidence['why']}.",
            f"Paid for {self.manifest['paid_for']['divided']}.",
            acquired_messages(self.manifest, self.accounts),
        ]
        if reuse is not None:
            said.append(
                f"Of units that {reuse} has as well, the nearest earlier ones were taken from there where they stand; "
                "the results are the same without."
            )
        return [each for each in said if each]

    @property
    def played(self) -> str:
        """How many units played, and what they come to."""
        units = self.manifest["units"] - self.manifest["leaked"] - self.manifest.get("known", 0)
        return f"{units:,} units make {self.manifest['clusters']:,} clusters."


def pay_requested(request: PayRequest, progress: Progress) -> PaidRequest:
    """Run a payday, or take up one that was stopped."""
    spec = request.spec
    with (
        collect_market_warnings() as told,
        fetched(
            request.submissions, request.validation, request.reference, request.overrides, spec, request.prior,
            request.intake,
        ) as places,
    ):  # fmt: skip
        manifest = pay(places, spec, request.out, progress, ledger=request.ledger, reuse=request.reuse)
    return PaidRequest(request, manifest, tuple(told))


def rehearsal(request: PayRequest, folder: Path) -> PayRequest:
    """The request as a rehearsal in a folder, ``folder/run`` with ``folder/ledger.sqlite``; one begun before goes on.

    Of a ledger on a server no copy is made: its balances are not in a rehearsal.
    """
    out = folder / "run"
    mine = Path(default_ledger(out))
    market = request.ledger or default_ledger(request.out)
    folder.mkdir(parents=True, exist_ok=True)
    if not mine.exists() and not is_address(market) and has_ledger(market):
        _copy(Path(market).resolve(), mine)
    return request.into(out, str(mine))


def _copy(ledger: Path, to: Path) -> None:
    """Copy a ledger with its checksum, while nobody writes in it; the ledger comes last, and says both are there."""
    with open_ledger(ledger).locked(reading=True) as checksum:
        if checksum is not None:
            checksum.require()
            shutil.copyfile(checksum.path, LedgerChecksum(to).path)
        part = to.with_name(f"{to.name}.part")
        shutil.copyfile(ledger, part)
        part.replace(to)


CONFIG = "payday.toml"


def as_command(request: PayRequest, config: str | None = None) -> str:
    """The command line of a payout run, for a shell; where a ``config`` is named, that file has the settings."""
    given = {
        "validation": request.validation,
        "out": request.out,
        "reference": request.reference,
        "overrides": request.overrides,
        "prior": list(request.prior),
        "reuse": request.reuse,
        "ledger": request.ledger,
        "intake": request.intake,
    }
    settings = flat_settings(request.spec)
    for name in () if config is not None else settings.keys() - SETTINGS.keys():
        raise ParameterError(
            name, settings[name], "no option says it; put it into a TOML file (--config)"
        )
    words = ["datamarket", "pay", request.submissions]
    for name, value in given.items():
        words += _option(f"--{name}", value)
    if config is not None:
        words += ["--config", config]
    for name, value in {} if config is not None else settings.items():
        flag = SETTINGS[name].off if value is False else SETTINGS[name].flag
        words += _option(flag, value)
    return shlex.join(words)


def _option(flag: str, value: Any) -> list[str]:
    """Return an option as words of a command line; none if it has no value."""
    if value is None:
        return []
    if isinstance(value, list):
        return [word for each in value for word in _option(flag, each)]
    if isinstance(value, bool):
        return [flag]
    text = str(value)
    return [f"{flag}={text}"] if text.startswith("-") else [flag, text]
