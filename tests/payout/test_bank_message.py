"""The message for a bank: valid whatever people are called, exact, and the same for the same batch."""

import csv
import sys
from datetime import date
from decimal import Decimal

import pytest
from bank_files import DEBTOR, iban, read_message
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from lxml import etree

from datamarket_gym.errors import DataMarketError, MissingExtraError
from datamarket_gym.payout.bank import export
from datamarket_gym.payout.bank.accounts import BankAccount
from datamarket_gym.payout.bank.export import payment_order, require_valid, write_message, write_plain
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import from_csv

MARKET = BankAccount("", "Märkte & Söhne GmbH", DEBTOR)
AT = "2026-11-16T05:00:00.123+00:00"
HOSTILE = [
    "]]><Amt>1</Amt>", "<!-- Ann", "&amp;&#0;&lt;", '"><x y="', "<?xml ?>",
    "Ann\u202eLeinad", "Ann\u200b", "=cmd|' /C calc'!A0",
    "a" * 500, "é" * 300, "Ann</Nm><Nm>Bob", "//Ann//", "A\u0301\u0301\u0301", "\ufeffAnn", "Ann\u2028B", "ÅÄÖ&<>'\"",
]  # fmt: skip


def ordered(
    lines, accounts, currency="EUR", batch="0123456789abcdef", debtor=MARKET, text="Payout June 2026"
):
    texts = dict.fromkeys(lines, text)
    return payment_order(batch, AT, currency, lines, accounts, debtor, date(2026, 12, 1), texts)


def written(order, path):
    write_message(order, path)
    require_valid(path, order)
    return read_message(path)


def to(name="Ann", **more):
    return BankAccount(name, name, **({"iban": iban(name)} | more))


people = st.builds(
    lambda name, country, town, bic: to(name, country=country if town else "", town=town, bic=bic),
    st.one_of(st.text(min_size=1), st.sampled_from(HOSTILE), st.text("aéßøжλ</&\u202e '", min_size=1)),
    st.sampled_from(["DE", "US"]),
    st.sampled_from(["", "Köln", "<x/>", "Αθήνα"]),
    st.sampled_from(["", "DEUTDEFF"]),
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.tuples(st.text(min_size=1), people, st.integers(1, 10**11 - 1)), min_size=1, max_size=6),
    st.sampled_from(["EUR", "USD", "JPY", "KWD"]),
    st.text(),
)
def test_any_names_and_amounts_are_valid_and_exact(tmp_path_factory, payees, currency, text):
    kept = [(payee, account, amount) for payee, account, amount in payees if not list(account.faults())]
    lines = {payee: amount for payee, _, amount in kept}
    assume(lines)
    accounts = {payee: account for payee, account, _ in kept}
    order = ordered(lines, accounts, currency, text=f"Payout {text}")
    header, transfers = written(order, tmp_path_factory.mktemp("bank") / "payments.xml")
    digits = Currency(currency).digits
    assert header["NbOfTxs"] == str(len(lines))
    assert Decimal(header["CtrlSum"]).scaleb(digits) == sum(lines.values())
    minor = {t["reference"]: Decimal(t["amount"]).scaleb(digits) for t in transfers}
    assert minor == {t.reference: lines[t.payee] for t in order.transfers}
    assert len(minor) == len(lines)
    assert {t["currency"] for t in transfers} == {currency}
    for t in transfers:
        assert 0 < len(t["name"]) <= 140
        assert len(t["reference"]) <= 35
        assert len(t["text"]) <= 140
        assert t["name"].isascii()
        assert t["text"].isascii()
        assert t["sepa"] == (currency == "EUR")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text(name, tmp_path):
    account = to(name)
    assert list(account.faults()) == []
    _, transfers = written(ordered({"x": 100}, {"x": account}), tmp_path / "a.xml")
    assert [(t["amount"], t["account"]) for t in transfers] == [("1.00", account.iban)]


@pytest.mark.parametrize(
    "name", ["Ann\x00", "Ann\x1b[2J", "\ud800", "Ann\nB", "李雷", "...", "🙂", "", "\u200b"]
)
def test_names_that_no_bank_takes_are_faults(name):
    assert list(to(name, iban=DEBTOR).faults())


@pytest.mark.parametrize(
    ("currency", "text"), [("EUR", "12345.67"), ("JPY", "1234567"), ("KWD", "1234.567")]
)
def test_amounts_have_the_digits_of_their_currency(currency, text, tmp_path):
    header, transfers = written(ordered({"x": 1234567}, {"x": to()}, currency), tmp_path / "a.xml")
    assert transfers[0]["amount"] == header["CtrlSum"] == text


def test_the_same_batch_is_the_same_bytes(tmp_path):
    lines, accounts = {"b": 5, "a": 7}, {"a": to("Ann"), "b": to("Bob")}
    for name, some in (("1.xml", lines), ("2.xml", dict(reversed(lines.items())))):
        write_message(ordered(some, accounts), tmp_path / name)
    assert (tmp_path / "1.xml").read_bytes() == (tmp_path / "2.xml").read_bytes()
    other, _ = written(ordered(lines, accounts, batch="fedcba9876543210"), tmp_path / "3.xml")
    header, transfers = read_message(tmp_path / "1.xml")
    assert header["MsgId"] == "0123456789abcdef" != other["MsgId"]
    assert header["CreDtTm"] == "2026-11-16T05:00:00Z"
    again = {t["reference"] for t in transfers} & {
        t["reference"] for t in read_message(tmp_path / "3.xml")[1]
    }
    assert again == set()


def test_euros_go_by_sepa_where_it_reaches_and_others_beside(tmp_path):
    accounts = {
        "ann": to("Ann"),
        "bob": to("Bob", iban="UA213223130000026007233566001"),
        "cem": to(
            "Cem", iban="", account="12 34-5", clearing="USABA 021000021", country="US", town="New York"
        ),
    }
    _, transfers = written(ordered(dict.fromkeys(accounts, 100), accounts), tmp_path / "a.xml")
    assert [(t["name"], t["sepa"], t["charges"], t["on"]) for t in transfers] == [
        ("Ann", True, "SLEV", "2026-12-01"),
        ("Bob", False, None, "2026-12-01"),
        ("Cem", False, None, "2026-12-01"),
    ]
    assert transfers[2]["account"] == "12 34-5"
    abroad = BankAccount("", "Market", account="99", bic="CHASUS33")
    _, transfers = written(ordered({"ann": 1}, accounts, debtor=abroad), tmp_path / "b.xml")
    assert not transfers[0]["sepa"]


def test_one_number_at_two_banks_is_two_accounts():
    accounts = {
        n: to(n, iban="", account="12-34", bic=bic) for n, bic in (("a", "CHASUS33"), ("b", "CITIUS33"))
    }
    order = payment_order(
        "b",
        AT,
        "USD",
        {"a": 1, "b": 2},
        accounts,
        MARKET,
        date(2026, 12, 1),
        {"a": "x", "b": "x"},
        [["a", "b"]],
    )
    assert [transfer.amount for transfer in order.transfers] == [1, 2]


def test_long_names_are_cut_to_what_the_way_takes(tmp_path):
    name = "Ann " * 60
    far = to(name, iban="UA213223130000026007233566001")
    order = ordered({"near": 1, "far": 1}, {"near": to(name), "far": far})
    written(order, tmp_path / "a.xml")
    assert {t.payee: len(t.name) for t in order.transfers} == {"near": 70, "far": 139}
    assert dict(order.respelled())[MARKET.name] == "Maerkte + Soehne GmbH"


@pytest.mark.parametrize("amount", [0, -1, 100_000_000_000])
def test_no_payment_of_nothing_or_too_much(amount):
    with pytest.raises(DataMarketError, match="cannot be sent"):
        ordered({"x": amount}, {"x": to()})


def test_no_empty_order():
    with pytest.raises(DataMarketError, match="nothing to be paid"):
        ordered({}, {})


def test_a_message_that_is_not_valid_is_found(tmp_path):
    order, path = ordered({"x": 100, "y": 200}, {"x": to(), "y": to("Bob")}), tmp_path / "a.xml"
    write_message(order, path)
    good = path.read_text()
    for old, new, what in [
        ("<PmtMtd>TRF</PmtMtd>", "", "schema"),
        ("SLEV", "FREE", "schema"),
        (">1.00<", ">1.000001<", "schema"),
        ('Ccy="EUR">2.00<', 'Ccy="EUR">2.01<', "3.01 where 3.00 is due"),
    ]:
        assert old in good
        path.write_text(good.replace(old, new))
        with pytest.raises(DataMarketError, match=what):
            require_valid(path, order)


def test_the_schema_is_whole_and_says_where_it_is_from():
    folder = export.files("datamarket_gym.payout.bank")
    assert "iso20022.org" in (folder / "LICENSE").read_text("utf-8")
    said = (folder / f"{export.SCHEMA}.xsd").read_text("utf-8")
    assert f'targetNamespace="{export.NAMESPACE}"' in said
    assert not export.schema().validate(etree.fromstring(f'<Document xmlns="{export.NAMESPACE}"/>'))


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "lxml", None)
    export.schema.cache_clear()
    with pytest.raises(MissingExtraError, match=r"pip install 'datamarket-gym\[payout\]'"):
        export.schema()


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1),
    st.sampled_from(["=1+1", "+1", "@a", "-1;=2"]),
)
def test_plain_csv_is_escaped_and_reads_back(tmp_path_factory, payee, name):
    account = BankAccount(payee, name, account="-1", bic="CHASUS33")
    path = tmp_path_factory.mktemp("plain") / "payments.csv"
    write_plain(ordered({payee: 1234}, {payee: account}, "USD"), path)
    with path.open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert (from_csv(row["payee"]), from_csv(row["name"]), from_csv(row["account"])) == (
        payee,
        name,
        "-1",
    )
    assert row["amount"] == "12.34"
    assert row["currency"] == "USD"
    assert row["bank"] == "CHASUS33"
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row.values())
