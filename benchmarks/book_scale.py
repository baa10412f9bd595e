"""What a book costs that has run for years: every command reads it from the first entry to the last.

A payday per month with as many payees as are asked for, each of them paid: drafted, approved, ordered at the bank and
confirmed; one payee's statement, verified, read. Each step is a process of its own, as commands are. Printed: the
seconds that it had of a processor (the book's part of a command: what a run is worked out from, and the start of the
process, are not in it), the entries and the size of the file after the month.

Usage: python benchmarks/book_scale.py 1000 12
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from datamarket_gym.core.files import sha256, write_json
from datamarket_gym.payout.book.batches import confirm, order
from datamarket_gym.payout.book.run_record import Line
from datamarket_gym.payout.book.runs import Draft, Taken, approve, enter
from datamarket_gym.payout.book.statement import account_statement
from datamarket_gym.payout.book.store import open_book
from datamarket_gym.payout.manifest import FORMAT
from datamarket_gym.payout.manifest import NAME as MANIFEST

STEPS = ("draft", "approve", "order", "confirm", "statement", "verify", "read")


def run_folder(base: Path, month: int, payees: int) -> tuple[Path, Draft]:
    """A folder with no more of a run than the book asks for, and its draft."""
    folder, run = base / f"month {month}", f"{month:064x}"
    folder.mkdir()
    paid = {f"payee {i}": 1000 + (i * month) % 997 for i in range(payees)}
    amount, nothing = sum(paid.values()), dict[str, Any]()
    manifest = {
        "format": FORMAT, "run": run, "amount": amount, "currency": "EUR", "spec": nothing, "inputs": nothing,
        "mechanism": nothing, "evidence": nothing, "opening_balances": nothing, "versions": nothing,
        "outputs": nothing, "overrides": [], "standing_overrides": [], "settles": None, "seed": 0,
        "identities": payees, "units": payees, "leaked": 0, "clusters": payees,
    }  # fmt: skip
    write_json(folder / MANIFEST, manifest)
    return folder, Draft(
        run, amount, "EUR", sha256(folder / MANIFEST), {"run": str(folder)}, 0,
        [Line(who, each, each, 0) for who, each in paid.items()], Taken(), [], [], f"month {month}", run, 0,
    )  # fmt: skip


def alone(do: Callable[[], str]) -> tuple[str, float]:
    """What is said in a process of its own, which knows nothing of earlier steps, and its seconds of a processor."""
    theirs, ours = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(ours, do().encode())
        os._exit(0)
    _, status, used = os.wait4(child, 0)
    os.close(ours)
    with os.fdopen(theirs) as file:
        said = file.read()
    if status:
        raise SystemExit("a step has failed")
    return said, used.ru_utime + used.ru_stime


def keep(base: Path, month: int, payees: int) -> str:
    """One month of a book; its line of the table."""
    where = base / "book.sqlite"
    folder, draft = run_folder(base, month, payees)
    batch, spent = "", []
    steps: list[Callable[[], str]] = [
        lambda: enter(open_book(where), folder, draft),
        lambda: approve(folder, draft.manifest, "R. Okafor"),
        lambda: order(open_book(where), run=draft.run).id,
        lambda: confirm(open_book(where), batch, f"transfer {month}").id,
        lambda: account_statement(open_book(where).accounts(), "payee 0").head,
        lambda: "; ".join(what for what, good, _ in open_book(where).examined() if not good),
        lambda: f"{open_book(where).accounts().number:,}",
    ]
    for step, do in zip(STEPS, steps, strict=True):
        said, seconds = alone(do)
        spent.append(f"{seconds:10.2f}")
        if step == "order":
            batch = said
        if step == "verify" and said:
            raise SystemExit(f"the book is not good: {said}")
    return f"{month:5}  {''.join(spent)}{said:>10}{where.stat().st_size / 1e6:7.1f}\n"


def main() -> None:
    """Keep a book for some months."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("payees", type=int)
    parser.add_argument("months", type=int)
    chosen = parser.parse_args()
    sys.stdout.write("month  " + "".join(f"{step:>10}" for step in STEPS) + "   entries     MB\n")
    with tempfile.TemporaryDirectory() as base:
        open_book(Path(base) / "book.sqlite", new=True)
        for month in range(1, chosen.months + 1):
            sys.stdout.write(keep(Path(base), month, chosen.payees))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
