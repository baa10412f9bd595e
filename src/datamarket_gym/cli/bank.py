"""``datamarket export``: the batch, the file, and what to look at before it goes to the bank."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from datamarket_gym.payout.bank.asked import AskedPayer, export_from
from datamarket_gym.payout.bank.export import BankExport
from datamarket_gym.payout.names import visible

_SHOWN = 20


def export_and_show(
    where: str,
    accounts: Path | None,
    payer: tuple[str | None, str | None, str | None, str | None, str | None],
    out: Path,
    run: str | None,
    currency: str | None,
    on: date | None,
    form: str,
    by: str | None,
) -> None:
    """Order, write, and print what was done."""
    found = export_from(where, accounts, AskedPayer(*payer), out, run, currency, on, form, by)
    confirm = f"datamarket book sent {found.place} --batch {found.done.batch.id}"
    if found.paid_as is not None:
        confirm = f"datamarket ledger paid {found.paid_as}"
    _show(found.done, found.place, confirm, out)


def _show(done: BankExport, place: str, confirm: str, out: Path) -> None:
    console, order, batch = Console(), done.order, done.batch
    for doubt in done.doubts:
        console.print(f"Warning: {doubt}.", style="bold red", highlight=False, markup=False)
    if done.respelled:
        _say(console, "Names are written in the letters that every bank takes, within its length:")
        for given, written in done.respelled[:_SHOWN]:
            console.print(Padding(Text(f"{visible(given)} -> {written}"), (0, 0, 0, 2)))
        if len(done.respelled) > _SHOWN:
            _say(console, f"  and {len(done.respelled) - _SHOWN:,} more")
    before = ", ordered before and not confirmed" if done.again else ""
    _say(
        console,
        f"{out}: {len(order.transfers):,} payments, {order.currency.code} {order.currency.text(order.total)}, "
        f"batch {batch.id}{before}.",
    )
    _say(
        console,
        f"When the bank has sent it: {confirm} --reference ...; if it will not: datamarket book cancel {place} "
        f"--batch {batch.id} --why ...",
    )


def _say(console: Console, words: str) -> None:
    console.print(words, highlight=False, markup=False, soft_wrap=True)
