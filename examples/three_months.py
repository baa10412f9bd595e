"""Three payout runs of a small news archive: an attacker, a back-dater, a file that came first, a correction.

Usage: python examples/three_months.py [--out runs/three-months] [--articles 100]

Plays June, July and August with the commands that an operator types, in one sitting, and tries each attack twice:
without what stops it, in drafts that nobody approves (folder what-if), and with it. The
articles are AG News (see news_archive.py).
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from news_archive import AGENCY, CLERK, LEDGER, Articles, Market, cut, reworded, scene, show

ATTACKER, BACK_DATER = "quick-copy", "early-bird"


@dataclass(frozen=True)
class Tried:
    """Units of an attack, and two runs that they are in: without what stops it and with it, each in words."""

    what: str
    units: list[str]
    without: tuple[str, str]
    stopped: tuple[str, str]

    def line(self, market: Market) -> str:
        """A line of a table: what the units earn in each."""
        cells = [self.what, f"{len(self.units):,}"]
        for words, run in (self.without, self.stopped):
            cells += [words, f"{market.earned(run, self.units):,.2f}"]
        return f"| {' | '.join(cells)} |"


def june(market: Market) -> Articles:
    """Four sellers; the clerk forgets a file, and its receipt brings it back. What was acquired."""
    n, agency = market.n, market.take(AGENCY)
    scene("june")
    market.type("intake", "init", LEDGER)
    anna = market.enter(market.arrives("june-anna", market.take(n), "2026-06-03"))
    scene("june-files")
    bruno, dora, second, chen = (
        market.enter(market.arrives(f"june-{name}", articles, f"2026-06-{day}"))
        for name, articles, day in (
            ("bruno", market.take(n), "05"),
            ("dora", market.take(n), "09"),
            ("dora-2", agency, "11"),
            ("chen", market.take(n) + agency, "17"),
        )
    )
    scene("june-pay")
    market.pay(market.table("june", (anna, bruno, dora, chen)), "June 2026", "june", "--intake", LEDGER)
    market.approve("june")
    market.type("ledger", "paid", "june", "--reference", "transfer 2026-07-03/1")
    scene("dispute")
    market.type(
        "dispute", "open", "june", "--payee", "dora", "--against", "chen", "--unit", f"june-chen-{n:03d}",
        "--about", "my second file is missing, and chen is paid for the same agency reports", "--by", CLERK,
    )  # fmt: skip
    market.type(
        "intake", "check", "receipts/june-dora-2.json", "--ledger", LEDGER,
        "--unit-in", "inbox/june-dora-2.parquet", "--text", "text",
    )  # fmt: skip
    market.type("intake", "check", "receipts/june-chen.json", "--ledger", LEDGER)
    whole = market.table("june-whole", (anna, bruno, dora, second, chen))
    market.pay(whole, "June 2026", "what-if/june", "--intake", LEDGER)
    more = market.paid("what-if/june", "dora") - market.paid("june", "dora")
    market.type(
        "dispute", "resolve", "june", "--number", "1", "--outcome", "upheld",
        "--why", f"her second file is entry {market.entry(second)}, that of chen entry {market.entry(chen)}",
        "--correction", f"{more / 100:.2f}", "--from", "chen", "--by", CLERK,
    )  # fmt: skip
    return (
        bruno.articles + anna.articles + chen.articles
    )  # bruno's come first, he sends some of them again


def july(market: Market, acquired: Articles) -> list[Tried]:
    """An attacker sells June again, and a seller his own: each month by itself, and given June."""
    n, some, own = market.n, market.n // 2, market.n // 5
    rng = np.random.default_rng(7)
    loot = acquired.of(rng.permutation(len(acquired))[: 3 * some])
    exact, light, heavy = (loot.of(range(i * some, (i + 1) * some)) for i in range(3))
    scene("july-files")
    files = [
        market.enter(market.arrives(f"july-{seller}", articles, f"2026-07-{day}"))
        for seller, articles, day in (
            ("anna", market.take(n), "02"),
            ("bruno", market.take(n - own) + acquired.of(range(own)), "06"),
            ("chen", market.take(n), "08"),
            ("dora", market.take(n), "13"),
            ("emeka", market.take(n), "20"),
            (ATTACKER, exact + reworded(light, rng) + cut(heavy, rng), "27"),
        )
    ]
    table = market.table("july", files)
    scene("july-alone")
    market.pay(table, "July 2026", "what-if/july", "--intake", LEDGER)
    scene("july-acquired")
    market.pay(table, "July 2026", "july", "--intake", LEDGER, "--acquired", "june")
    market.approve("july")
    stolen = [f"july-{ATTACKER}-{i:03d}" for i in range(3 * some)]
    runs = (("July by itself", "what-if/july"), ("`--acquired june`", "july"))
    return [
        Tried(f"{ATTACKER} sells articles of June, word for word", stolen[:some], *runs),
        Tried("the same, reworded", stolen[some : 2 * some], *runs),
        Tried("the same, cut in half", stolen[2 * some :], *runs),
        Tried("bruno sells his own of June again", [f"july-bruno-{i:03d}" for i in range(n - own, n)], *runs),
    ]  # fmt: skip


def august(market: Market) -> list[Tried]:
    """A seller hands her file in before she shows it; a back-dater copies everybody's, hers included."""
    n, some, rng = market.n, market.n // 2, np.random.default_rng(8)
    scene("first")
    anna = market.enter(market.arrives("august-anna", market.take(n), "2026-08-24"))
    scene("august-files")
    files = [
        market.enter(market.arrives(f"august-{seller}", market.take(n), f"2026-08-{day}"))
        for seller, day in (("bruno", "04"), ("chen", "06"), ("dora", "12"), ("emeka", "19"))
    ]
    loot = [file.articles.of(range(some)) for file in (anna, *files)]
    first, *rest = (
        part.of(range(some // 2)) + reworded(part.of(range(some // 2, some)), rng) for part in loot
    )
    for part in rest:
        first += part
    files.append(market.enter(market.arrives(f"august-{BACK_DATER}", first, "2026-08-01")))
    scene("arrived")
    market.type("intake", "show", LEDGER)
    files.append(anna)
    table, acquired = market.table("august", files), ("--acquired", "june", "--acquired", "july")
    scene("back-dated")
    market.pay(table, "August 2026", "what-if/august", "--time", "dated", *acquired)
    scene("logged")
    market.pay(table, "August 2026", "august", "--intake", LEDGER, *acquired)
    market.approve("august")
    scene("late-files")
    log = "what-if/log.sqlite"
    market.type("intake", "init", log)
    for file in files:  # hers last
        market.enter(file, log, "what-if")
    scene("late")
    market.pay(table, "August 2026", "what-if/late", "--intake", log, *acquired)
    copies = [f"august-{BACK_DATER}-{i:03d}" for i in range(5 * some)]
    dated, logged = ("`--time dated`", "what-if/august"), (f"`--intake {LEDGER}`", "august")
    late, first = ("she hands in late", "what-if/late"), ("she hands in first", "august")
    return [
        Tried(f"{BACK_DATER} copies four sellers, and writes 1 August on it", copies[some:], dated, logged),
        Tried(f"{BACK_DATER} copies anna, who showed him her articles", copies[:some], late, first),
    ]  # fmt: skip


def claim(market: Market) -> None:
    """The back-dater complains; the receipts are the answer."""
    scene("claim")
    market.type(
        "dispute", "open", "august", "--payee", BACK_DATER, "--against", "anna", "--unit", "august-anna-000",
        "--about", "I had this article on 1 August, see my dates", "--by", CLERK,
    )  # fmt: skip
    market.type(
        "intake", "check", "receipts/august-anna.json", "--ledger", LEDGER, "--unit-in", "inbox/august-anna.parquet",
        "--text", "text", "--unit", "august-anna-000",
    )  # fmt: skip
    market.type("intake", "check", f"receipts/august-{BACK_DATER}.json", "--ledger", LEDGER)
    market.type(
        "dispute", "resolve", "august", "--number", "2", "--outcome", "rejected",
        "--why", "anna handed it in before your file arrived", "--by", CLERK,
    )  # fmt: skip


def friday(market: Market) -> None:
    """What is owed goes to the bank; a payee asks for her account; everything is verified."""
    scene("friday")
    market.type(
        "export", LEDGER, "--accounts", "accounts.csv", "--from", "News Pool e.V.",
        "--from-account", "DE89 3704 0044 0532 0130 00", "--out", "friday.csv",
    )  # fmt: skip
    market.type("statements", LEDGER, "--payee", "dora")
    market.type("statements", LEDGER, "--payee", "dora", "--out", "dora.html")
    scene("verify")
    market.type("verify", LEDGER)


def main() -> None:
    """Play the story."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/three-months"))
    parser.add_argument("--articles", type=int, default=100, help="that a seller hands in a month")
    chosen = parser.parse_args()
    if chosen.out.exists():
        parser.error(
            f"{str(chosen.out)!r} is there already: a ledger is never begun anew; name another folder"
        )
    os.environ |= {"COLUMNS": "106", "NO_COLOR": "1", "TERM": "dumb"}  # as the page shows it
    market = Market(chosen.out.resolve(), chosen.articles)
    tried = july(market, june(market))
    tried += august(market)
    claim(market)
    friday(market)
    scene("taken")
    show(
        "| EUR 10,000.00 a month | units | without | they earn | with | they earn |",
        "|---|---|---|---|---|---|",
    )
    show(*(each.line(market) for each in tried), "")


if __name__ == "__main__":
    main()
