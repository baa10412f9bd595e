"""A payday as it is asked for: tables, settings and a folder in, the run and what is to be said of it out.

Whoever asks, a command line or a page, asks by this, and shows the same payments and the same sentences.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from datamarket_gym.core.errors import MarketWarning
from datamarket_gym.core.progress import Progress
from datamarket_gym.evidence.collapse import told_at_the_end
from datamarket_gym.payout.book.accounts import Accounts
from datamarket_gym.payout.book.place import book_of, run_of
from datamarket_gym.payout.book.store import open_book
from datamarket_gym.payout.kept import fetched
from datamarket_gym.payout.prior.words import prior_words
from datamarket_gym.payout.results import has_balances
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.spec import PayoutSpec
from datamarket_gym.payout.warnings import StandingWarning, read_warnings


@dataclass(frozen=True)
class PayRequest:
    """All that a payday is given; tables are files, or queries of databases (`units.readers.databases`)."""

    submissions: str
    validation: str
    out: Path
    spec: PayoutSpec
    overrides: Path | None = None
    reference: str | None = None
    book: str | None = None
    prior: tuple[Path, ...] = ()
    intake: str | None = None
    reuse: Path | None = None

    def into(self, out: Path, book: str | None) -> PayRequest:
        """The same payday elsewhere."""
        return replace(self, out=out, book=book)


@dataclass(frozen=True)
class PaidRequest:
    """A payday that was run: its request, its manifest, and what was told on the way."""

    request: PayRequest
    manifest: dict[str, Any]
    told: tuple[MarketWarning, ...]

    @cached_property
    def accounts(self) -> Accounts:
        """Those of the book that the run is in; an address with a password is kept nowhere, so it is asked again."""
        book = self.request.book
        return (book_of(self.request.out) if book is None else open_book(book)).accounts()

    @property
    def warnings(self) -> list[StandingWarning]:
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
            prior_words(self.manifest, self.accounts),
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
        told_at_the_end() as told,
        fetched(
            request.submissions, request.validation, request.reference, request.overrides, spec, request.prior,
            request.intake,
        ) as places,
    ):  # fmt: skip
        manifest = pay(places, spec, request.out, progress, book=request.book, reuse=request.reuse)
    return PaidRequest(request, manifest, tuple(told))
