"""The ledger as a journal: every entry with its amount, and double entry that sums to zero and to the accounts."""

import csv
import io
import random
import re
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
from histories import History
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.payout.ledger.balances import EFFECTS
from datamarket_gym.payout.ledger.entries import LedgerError
from datamarket_gym.payout.ledger.journal import account_name, journal_beancount, journal_csv
from datamarket_gym.payout.ledger.store import open_ledger
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import from_csv

sys.path.insert(0, str(Path(__file__).parents[1] / "payout"))
from bank_files import approve

POSTING = re.compile(r"^  ([A-Z][\w:-]+)  (-?[\d.]+) ([A-Z]{3})$")
PLACES = {"owed": "payable", "ordered": "outgoing", "sent": "sent", "carried": "balance"}


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    folder = tmp_path_factory.mktemp("journal")
    history = History(str(folder / "ledger.sqlite"), folder, random.Random(1))
    history.steps(120)
    return history


def money(market, place):
    places = getattr(market, PLACES[place])
    return {(who, code): amount for (who, code), amount in places.items() if amount}


def test_double_entry_comes_to_what_a_plain_model_says(history):
    accounts, sums = open_ledger(history.clerk.where).accounts(), Counter()
    text = journal_beancount(accounts)
    blocks = [block for block in text.split("\n\n") if re.match(r"\d{4}-\d\d-\d\d \*", block)]
    assert len(blocks) == sum(entry.kind in (*EFFECTS, "forfeited") for entry in accounts.entries)
    for block in blocks:
        postings = [match.groups() for line in block.splitlines() if (match := POSTING.match(line))]
        assert len(postings) == 2
        assert sum(Decimal(amount) for _, amount, _ in postings) == 0
        for account, amount, code in postings:
            sums[account, code] += int(Decimal(amount).scaleb(Currency(code).digits))
    for place, name in (("owed", "Owed"), ("ordered", "Ordered"), ("carried", "Carried")):
        expected = {
            (f"Liabilities:{name}:{account_name(who)}", code): -amount
            for (who, code), amount in money(history.market, place).items()
        }
        prefix = f"Liabilities:{name}:"
        assert expected == {key: n for key, n in sums.items() if key[0].startswith(prefix) and n}
    asserted = re.findall(r"^\S+ balance (\S+)  (\S+) (\S+)$", text, re.M)
    assert {(a, c): Decimal(n).scaleb(Currency(c).digits) for a, n, c in asserted} == dict(sums)
    opened = re.findall(r"^\S+ open (\S+)$", text, re.M)
    assert sorted(opened) == sorted({account for account, _ in sums})


def test_the_rows_come_to_what_a_plain_model_says(history):
    accounts, sums = open_ledger(history.clerk.where).accounts(), Counter()
    rows = list(csv.DictReader(io.StringIO(journal_csv(accounts))))
    assert [int(row["entry"]) for row in rows] == list(range(1, accounts.number + 1))
    for row in rows:
        for place in PLACES:
            if row[place]:
                digits = Currency(row["currency"]).digits
                sums[place, from_csv(row["payee"]), row["currency"]] += int(
                    Decimal(row[place]).scaleb(digits)
                )
    for place in PLACES:
        found = {key[1:]: amount for key, amount in sums.items() if key[0] == place and amount}
        assert found == money(history.market, place)
    drafts = [row for row in rows if row["kind"] in ("draft", "superseded")]
    assert {"draft", "superseded"} == {row["kind"] for row in drafts}
    assert all(Decimal(row["amount"]) >= 0 for row in drafts)


def test_totals_name_what_is_kept_and_every_entry_has_its_amount(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = open_ledger("ledger.sqlite", new=True)
    names = {'=cmd "x"\\': 1250, "Ann": 98, "ann": 1, account_name("ann"): 1}
    approve(ledger, "a1" * 32, names, kept=441)
    shown = CliRunner().invoke(app, ["ledger", "show", "--entries", "9"])
    assert shown.exit_code == 0
    for words in (r"kept from forfeits +4\.41", r"owed +13\.50", r"forfeited +EUR 4\.41"):
        assert re.search(words, shown.output)
    done = CliRunner().invoke(app, ["ledger", "export", "--csv", "j.csv", "--beancount", "j.bean"])
    assert done.exit_code == 0
    text = Path("j.bean").read_text(encoding="utf-8")
    assert "Equity:Kept-From-Forfeits  4.41 EUR" in text
    assert '"=cmd \\"x\\"\\\\"' in text
    assert len({account_name(name) for name in names}) == 4
    assert ",forfeited," in Path("j.csv").read_text(encoding="utf-8")
    assert CliRunner().invoke(app, ["ledger", "export"]).exit_code != 0


def test_a_journal_that_does_not_come_to_the_accounts_is_refused(tmp_path):
    ledger = open_ledger(tmp_path / "ledger.sqlite", new=True)
    approve(ledger, "a1" * 32, {"ann": 100})
    accounts = ledger.accounts()
    accounts.payable["ann", "EUR"] += 1
    with pytest.raises(LedgerError, match="does not come to"):
        journal_beancount(accounts)
