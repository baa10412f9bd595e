"""How long a file for a bank takes: ``python benchmarks/bank_export.py PAYMENTS``.

Reads as many rows of accounts, spells the names, writes the message and checks it against its schema, without a book.
Seconds are of one core, so that other work on the machine does not count.
"""

import argparse
import resource
import tempfile
import time
from datetime import date
from pathlib import Path

from datamarket_gym.payout.bank.account import BankAccount
from datamarket_gym.payout.bank.accounts_file import doubts, read_accounts, require_payable
from datamarket_gym.payout.bank.order import payment_order
from datamarket_gym.payout.bank.pain001 import require_valid, write_message


def iban(number: int) -> str:
    """A German IBAN that holds."""
    return f"DE{98 - int(f'{number:018d}131400') % 97:02d}{number:018d}"


def main() -> None:
    """Time each step and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("payments", type=int)
    count = parser.parse_args().payments
    with tempfile.TemporaryDirectory() as folder:
        table, out = Path(folder) / "accounts.csv", Path(folder) / "payments.xml"
        rows = (f"seller-{i},Jörg Müller {i},{iban(i)},DE,Köln" for i in range(count))
        table.write_text("\n".join(["payee,name,iban,country,town", *rows]), encoding="utf-8")
        started = time.process_time()

        def step(what: str) -> None:
            nonlocal started
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            print(f"{what:<28}{time.process_time() - started:8.1f} s{peak:8.2f} GiB")
            started = time.process_time()

        accounts = read_accounts(table)
        step(f"read {count:,} accounts")
        lines = dict.fromkeys(accounts, 100)
        require_payable(lines, accounts, table, "")
        step("check their numbers")
        assert not list(doubts(lines, accounts))
        step("look for look-alikes")
        market, texts = BankAccount("", "Market", iban(7)), dict.fromkeys(accounts, "Payout June 2026")
        at = "2026-07-01T00:00:00+00:00"
        order = payment_order("0" * 16, at, "EUR", lines, accounts, market, date(2026, 7, 1), texts)
        step("make the order")
        write_message(order, out)
        step(f"write {out.stat().st_size / 2**20:.0f} MiB")
        require_valid(out, order)
        step("check it by its schema")


if __name__ == "__main__":
    main()
