"""Which ledger a run is entered in, by its folder; and the run of a folder, as its ledger has it.

Anchors: tips of the chain noted where whoever keeps the ledger cannot change them.

Whoever holds the ledger and all of its runs can write both anew, hashes and all. They cannot change what they gave
away: an e-mail to the payees, a page of a newspaper, a file on somebody else's disk. One line per checkpoint: number,
hash, time.

Everything that can be looked at in a ledger by itself: its file, its rules, its chain, what the entries come to.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from datamarket_gym.display import counted
from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.files import read_json, write_json, write_text
from datamarket_gym.payout.intake.log import check_batches
from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.entries import APPROVED, LedgerEntry, LedgerError, RunRecord
from datamarket_gym.payout.ledger.statements import AccountStatement
from datamarket_gym.payout.ledger.store import (
    FILE,
    NAME,
    Ledger,
    Receipt,
    Tip,
    Transaction,
    holds_tip,
    is_address,
    open_ledger,
    read_receipt,
)
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import Check, read_manifest
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.report.pages import update_report

_OLD = "ledger.sqlite"  # of runs made before there was a ledger


def default_ledger(out: Path) -> str:
    """The ledger of a run whose folder this is, if nobody says another: beside the folder."""
    return str(out.resolve().parent / NAME)


def write_receipt(folder: Path, ledger: Ledger, accounts: Accounts) -> None:
    """Note in a folder where its ledger is and the tip of the chain now, and on its report the state of the run."""
    here = ledger.where
    if ledger.path is not None:
        try:
            here = os.path.relpath(ledger.path.resolve(), folder.resolve())
        except ValueError:  # another drive
            here = str(ledger.path.resolve())
    data = {"ledger": here, "number": accounts.number, "tip": accounts.tip}
    if not (folder / FILE).is_file() or read_json(folder / FILE) != data:
        write_json(folder / FILE, data)
    record = accounts.runs.get(read_manifest(folder)["run"])
    if record is not None:
        update_report(folder, record.history)


def same_ledger(one: str, other: str) -> bool:
    """Whether two paths or addresses are of the same ledger."""
    if is_address(one) or is_address(other):
        return (
            is_address(one) and is_address(other) and open_ledger(one).where == open_ledger(other).where
        )
    return Path(one).resolve() == Path(other).resolve()


def run_folder(where: str) -> Path | None:
    """The folder of a run, if it is one that was named; None for a ledger, and for a folder of runs that holds one."""
    folder = Path(where)
    if is_address(where) or not folder.is_dir():
        return None
    return folder if (folder / MANIFEST).is_file() or not (folder / NAME).is_file() else None


def ledger_at(where: str) -> Ledger:
    """The ledger of a path or an address, of the folder of a run, or of a folder of runs that holds it."""
    if not where.strip():
        raise DataMarketError(
            "the ledger is named by nothing; give its file, its address, or the folder of a run"
        )
    folder = run_folder(where)
    if folder is not None:
        return ledger_of(folder)
    inside = not is_address(where) and Path(where).is_dir()
    return open_ledger(Path(where) / NAME if inside else where)


def ledger_of(folder: Path) -> Ledger:
    """The ledger of a run's folder."""
    receipt = read_receipt(folder)
    if receipt is None:
        if (folder / _OLD).is_file():
            raise DataMarketError(
                f"{str(folder)!r} was made before there was a ledger; pay again, into another folder"
            )
        raise DataMarketError(
            f"{str(folder)!r} holds no payout run that is in a ledger; check the path, or run pay"
        )
    if not is_address(receipt.ledger) and not Path(receipt.ledger).is_file():
        raise LedgerError(
            f"the ledger {receipt.ledger!r} of the run in {str(folder)!r} is gone; if it was moved: "
            f"datamarket ledger attach {folder} LEDGER"
        )
    return open_ledger(receipt.ledger)


def run_of(folder: Path, accounts: Accounts | None = None) -> RunRecord:
    """The run of a folder as its ledger has it; refused where the ledger no longer holds what the folder has of it."""
    accounts, receipt = accounts or ledger_of(folder).accounts(), read_receipt(folder)
    if receipt is not None and not holds_tip(accounts.entries, receipt.tip):
        # Another process may have entered something, and noted it here, after these accounts were read.
        require_held(folder, ledger_of(folder).read(), receipt)
    return accounts.required(read_manifest(folder)["run"])


def require_held(folder: Path, entries: list[LedgerEntry], receipt: Receipt) -> None:
    """Refuse a ledger that does not hold what a folder has of it."""
    if not holds_tip(entries, receipt.tip):
        raise LedgerError(
            f"the ledger does not hold entry {receipt.tip.number} as it was when the run in {str(folder)!r} was last "
            f"entered: it is another ledger, was written anew, or cut short; run: datamarket verify {folder}"
        )


@contextmanager
def transaction_of(folder: Path) -> Iterator[tuple[Transaction, RunRecord]]:
    """A page of the ledger of a run's folder, and the run; the folder notes the tip when it is entered."""
    ledger = ledger_of(folder)
    with ledger.transaction() as transaction:
        yield transaction, run_of(folder, transaction.accounts)
    write_receipt(folder, ledger, transaction.accounts)


def attach(folder: Path, where: str) -> None:
    """Record in a run's folder where its ledger lies now; the ledger must hold the run as the folder has it."""
    ledger = open_ledger(where)
    accounts, receipt = ledger.accounts(), read_receipt(folder)
    if receipt is not None:
        require_held(folder, accounts.entries, receipt)
    accounts.required(read_manifest(folder)["run"])
    write_receipt(folder, ledger, accounts)


def format_checkpoint(known: Accounts | AccountStatement) -> str:
    """The line that says how far a ledger, or a statement from it, goes."""
    return f"{known.number} {known.tip} {known.at}"


def add_checkpoint(path: Path, accounts: Accounts) -> str:
    """Add the tip of the ledger to a file of checkpoints; the line."""
    line, there = format_checkpoint(accounts), path.exists()
    if not there or Tip(accounts.number, accounts.tip) not in read_checkpoints(path):
        before = path.read_text(encoding="ascii").splitlines() if there else []
        write_text(path, "".join(f"{each}\n" for each in [*before, line]))
    return line


def read_checkpoints(path: Path) -> list[Tip]:
    """The tips of a file of checkpoints."""
    if path.exists() and not path.is_file():
        raise DataMarketError(f"the checkpoints {str(path)!r} are no file; name a text file")
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError) as error:
        raise DataMarketError(f"the checkpoints {str(path)!r} cannot be read: {error}") from error
    tips = []
    for place, line in enumerate(lines, 1):
        parts = line.split()
        if len(parts) < 2 or not parts[0].isdigit() or len(parts[1]) != 64:
            raise DataMarketError(
                f"line {place} of the checkpoints {str(path)!r} is no checkpoint; write number, hash and time"
            )
        tips.append(Tip(int(parts[0]), parts[1]))
    if not tips:
        raise DataMarketError(f"the file {str(path)!r} holds no checkpoint")
    return tips


def check_checkpoints(entries: list[LedgerEntry], path: Path) -> Check:
    """Whether the chain holds every checkpoint of a file."""
    tips = read_checkpoints(path)
    lost = [tip for tip in tips if not holds_tip(entries, tip)]
    said = f"{counted(len(tips), 'checkpoint')}, the last at entry {max(tip.number for tip in tips)}"
    if lost:
        said = f"the ledger does not hold entry {lost[0].number} of the checkpoint: it was written anew, or cut short"
    return Check(f"checkpoints {path.name}", not lost, said)


def check_ledger(ledger: Ledger) -> list[Check]:
    """All of it; what comes after something that cannot be read is left out."""
    found: list[Check] = []
    try:
        with ledger.locked(looking=True) as checksum:
            if checksum is not None:
                pending = checksum.pending
                checksum.require()
            entries = ledger.read()
            if checksum is not None:
                tip = Tip(entries[-1].number, entries[-1].hash)
                checksum.require_tip(tip)
                if pending:
                    checksum.close(tip)
                said = (
                    "checksummed again after a writer was killed" if pending else "as it was checksummed"
                )
                found.append(Check("file of the ledger", True, said))
        changed = ledger.changed_rules()
        said = "; ".join(changed) or "as this version makes them"
        found.append(Check("tables and triggers", not changed, said))
        found.append(Check("chain", True, f"{len(entries):,} entries, tip {entries[-1].hash[:16]}"))
        accounts = Accounts.of(entries)
    except LedgerError as error:
        return [*found, Check("ledger", False, str(error))]
    return [*found, *_sums(accounts), _clock(entries), *_batches(ledger, accounts)]


def _batches(ledger: Ledger, accounts: Accounts) -> list[Check]:
    """The digests of batches that arrived, where any did."""
    if not accounts.arrived.entries and not ledger.numbers_with_digests():
        return []
    return [check_batches(ledger, accounts.arrived)]


def _sums(accounts: Accounts) -> list[Check]:
    """Per currency: what came in is owed, on its way, sent or charged; balances are what was carried and not ended."""
    found = []
    for code in accounts.currencies:
        total = {kind: amount for (kind, c), amount in accounts.totals.items() if c == code}
        owed, going, sent, left = (
            sum(amount for (_, c), amount in place.items() if c == code)
            for place in (accounts.payable, accounts.outgoing, accounts.sent, accounts.balance)
        )
        came = sum(total.get(kind, 0) for kind in ("payment", "correction", "funded"))
        runs = sum(
            r.amount for r in accounts.runs.values() if r.currency == code and r.state in APPROVED
        )
        text = Currency(code).text
        good = (
            came == owed + going + sent + total.get("fee", 0)
            and runs == total.get("payment", 0)
            and left
            == total.get("carried_forward", 0) - total.get("funded", 0) - total.get("written_off", 0)
            and total.get("carried_forward", 0) == 0
        )
        fees = text(total.get("fee", 0))
        said = f"{text(came)} came in: {text(sent)} sent, {text(going)} ordered, {text(owed)} owed, {fees} fees"
        found.append(Check(f"sums in {code}", good, said))
    return found


def _clock(entries: list[LedgerEntry]) -> Check:
    """Times that run backwards: told, and noted when they were entered."""
    back = [e.number for e, before in zip(entries[1:], entries, strict=False) if e.at < before.at]
    unsaid = [n for n in back if "clock" not in entries[n - 1].content]
    if not back:
        return Check("times", True, f"{entries[0].at} to {entries[-1].at}")
    shown = ", ".join(str(n) for n in back[:5]) + (" and more" if len(back) > 5 else "")
    return Check("times", not unsaid, f"the clock ran backwards before entry {shown}")
