"""accounts.csv: read as it was meant, refused where a bank would refuse it, and doubtful where people should look."""

import re
from pathlib import Path

import pytest
from bank_files import DEBTOR, iban, write_accounts

from datamarket_gym.errors import ParameterError, SubmissionError
from datamarket_gym.payout.bank.accounts import (
    BankAccount,
    account_warnings,
    read_accounts,
    require_payable,
)
from datamarket_gym.payout.bank.export import debtor_account
from datamarket_gym.payout.names import csv_safe

ALL = ("payee", "name", "iban", "account", "bic", "clearing", "country", "town")


def test_cells_are_read_as_they_were_meant(tmp_path):
    rows = [
        [
            csv_safe("=seller"),
            csv_safe("+Ann"),
            " de89 3704 0044 0532 0130 00",
            "",
            "deutdeff",
            "",
            "de",
            " Köln ",
        ],
        ["'t Hooft", "'t Hooft", DEBTOR, "", "", "", "", ""],
        [csv_safe("'quoted"), "Bob", "", " 12-34 ", "", "USABA 021000021", "", ""],
        [" spaced ", "Cem", DEBTOR, "", "", "", "", ""],
        ["", "", "", "", "", "", "", ""],
    ]
    assert read_accounts(write_accounts(tmp_path / "a.csv", rows, ALL)) == {
        "=seller": BankAccount("=seller", "+Ann", DEBTOR, bic="DEUTDEFF", country="DE", town="Köln"),
        "'t Hooft": BankAccount("'t Hooft", "'t Hooft", DEBTOR),
        "'quoted": BankAccount("'quoted", "Bob", account="12-34", clearing="USABA 021000021"),
        " spaced ": BankAccount(" spaced ", "Cem", DEBTOR),
    }


def test_semicolons_and_columns_of_ones_own_are_fine(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"\ufeffmail;iban;payee;name\nx@y;{DEBTOR};ann;Ann\n", encoding="utf-8")
    assert read_accounts(path) == {"ann": BankAccount("ann", "Ann", DEBTOR)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("payee,name\nann,Ann\n", "no column 'iban'"),
        ("payee,iban\nann,DE\n", "no column 'name'"),
        (
            f"payee,name,iban\nann,Ann,{DEBTOR}\nann,Ann,{DEBTOR}\n",
            "'ann' is there twice, in rows 0 and 1",
        ),
        (f"payee,name,iban\n,Ann,{DEBTOR}\n", "row 0 names no payee"),
        ("", "is empty"),
    ],
)
def test_tables_that_cannot_be_used(text, said, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(SubmissionError, match=said):
        read_accounts(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"iban": DEBTOR[:-1] + "1"}, "check digits"),
        ({"iban": ""}, "give iban, or account"),
        ({"account": "1"}, "not both"),
        ({"iban": "", "account": "1"}, "needs the bank's bic"),
        ({"iban": "", "account": "/1", "bic": "CHASUS33"}, "at most 34"),
        ({"iban": "", "account": "1" * 35, "bic": "CHASUS33"}, "at most 34"),
        ({"bic": "CHASE"}, "8 or 11"),
        ({"clearing": "021000021"}, "USABA 021000021"),
        ({"country": "DE"}, "country and town together"),
        ({"town": "Köln"}, "country and town together"),
        ({"country": "Germany", "town": "Köln"}, "ISO 3166"),
        ({"country": "CN", "town": "北京"}, "Latin letters"),
        ({"name": "李雷"}, "Latin letters"),
        ({"name": "A\x07"}, r"U\+0007"),
        ({"name": ""}, "no letter or digit"),
    ],
)
def test_every_fault_is_named(change, said):
    account = BankAccount(**({"payee": "ann", "name": "Ann", "iban": DEBTOR} | change))
    with pytest.raises(SubmissionError, match=said):
        require_payable(["ann"], {"ann": account}, "a.csv", "hold them")


def test_rows_that_are_not_paid_now_stop_nobody():
    accounts = {"ann": BankAccount("ann", "Ann", DEBTOR), "bob": BankAccount("bob", "", "x")}
    require_payable(["ann"], accounts, "a.csv", "hold them")


def test_who_is_missing_is_listed_with_whom_it_may_be():
    accounts = {"alice": BankAccount("alice", "Ann", DEBTOR)}
    missing = ["\u0430lice", *(f"seller-{i}" for i in range(20))]
    with pytest.raises(SubmissionError) as error:
        require_payable(missing, accounts, "a.csv", "hold them")
    said = str(error.value)
    assert "21 of 21 payees" in said
    assert "looks like “alice”" in said
    assert "cyrillic small letter a" in said
    assert "'seller-3'" in said
    assert "and 11 more" in said
    assert "hold them" in said


def test_one_account_of_two_payees_and_look_alikes_are_doubts():
    accounts = {
        "ann": BankAccount("ann", "Ann", DEBTOR),
        "sybil": BankAccount("sybil", "Ann B", DEBTOR),
        "alice": BankAccount("alice", "Al", iban(1)),
        "\u0430lice": BankAccount("\u0430lice", "Al", iban(2)),
        "bob": BankAccount("bob", "Bob", iban(3)),
    }
    shared, alike = account_warnings(["ann", "alice"], accounts)
    assert "one person under several names: 'ann', 'sybil'" in shared
    assert "bob" not in shared
    assert "cyrillic" in alike
    assert list(account_warnings(["bob"], accounts)) == []


def test_payees_without_a_number_share_none():
    accounts = {name: BankAccount(name, name) for name in ("ann", "bob")}
    assert list(account_warnings(["ann"], accounts)) == []


def test_the_table_of_the_page_holds(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "bank.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"```csv\n(.*?)```", page, re.S)
    path = tmp_path / "accounts.csv"
    path.write_text(table, encoding="utf-8")
    accounts = read_accounts(path)
    assert len(accounts) == 3
    require_payable(accounts, accounts, path, "")


def test_the_account_that_pays():
    assert debtor_account("Market", "de89 3704 0044 0532 0130 00").iban == DEBTOR
    abroad = debtor_account("Market", " 12-34 ", "chasus33", "us", "New York")
    assert (abroad.iban, abroad.account, abroad.bic, abroad.country) == ("", "12-34", "CHASUS33", "US")
    with pytest.raises(ParameterError, match="check digits"):
        debtor_account("Market", DEBTOR[:-1] + "1")
    with pytest.raises(ParameterError, match="bic"):
        debtor_account("Market", "12-34")
