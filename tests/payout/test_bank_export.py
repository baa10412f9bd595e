"""From the ledger to the bank: ordered once, the same bytes again, and nothing ordered that cannot be paid."""

import os
import subprocess
import sys
from datetime import timedelta
from decimal import Decimal

import pytest
from bank_files import DEBTOR, MARKET, approve, export_payments, iban, read_message, write_accounts
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.errors import DataMarketError, ParameterError, SubmissionError
from datamarket_gym.payout.bank import export as export_module
from datamarket_gym.payout.ledger import disputes
from datamarket_gym.payout.ledger import transactions as batches
from datamarket_gym.payout.ledger import transactions as money
from datamarket_gym.payout.ledger.entries import LedgerError
from datamarket_gym.payout.ledger.store import open_ledger

JUNE, JULY = "a1" * 32, "b2" * 32


@pytest.fixture
def ledger(tmp_path):
    ledger = open_ledger(tmp_path / "ledger.sqlite", new=True)
    approve(ledger, JUNE, {"ann": 1250, "bob": 99})
    return ledger


@pytest.fixture
def accounts(tmp_path):
    rows = [[name, name.title(), iban(name)] for name in ("ann", "bob", "cem")]
    return write_accounts(tmp_path / "accounts.csv", rows)


def test_what_is_owed_is_ordered_and_written(ledger, accounts, tmp_path):
    done = export_payments(ledger, accounts, MARKET, tmp_path / "june.xml")
    header, transfers = read_message(tmp_path / "june.xml")
    assert header["MsgId"] == done.batch.id
    assert (header["NbOfTxs"], header["CtrlSum"]) == ("2", "13.49")
    assert {t["name"]: (t["amount"], t["account"]) for t in transfers} == {
        "Ann": ("12.50", iban("ann")),
        "Bob": ("0.99", iban("bob")),
    }
    assert {t["text"] for t in transfers} == {f"Payout June 2026, run {JUNE[:8]}"}
    after = ledger.accounts()
    assert after.outgoing == {("ann", "EUR"): 1250, ("bob", "EUR"): 99}
    assert not any(after.payable.values())
    assert not done.again


def test_asked_again_it_is_the_same_file_and_the_ledger_is_not_touched(ledger, accounts, tmp_path):
    first, again = tmp_path / "1.xml", tmp_path / "2.xml"
    export_payments(ledger, accounts, MARKET, first)
    number = ledger.accounts().number
    approve(ledger, JULY, {"ann": 5}, period="July 2026")
    assert export_payments(ledger, accounts, MARKET, again).again
    assert export_payments(ledger, accounts, MARKET, first).again
    assert first.read_bytes() == again.read_bytes()
    assert ledger.accounts().number == number + 4  # those of July's run


def test_the_next_batch_has_another_id_and_pays_what_came_since(ledger, accounts, tmp_path):
    june = export_payments(ledger, accounts, MARKET, tmp_path / "june.xml").batch
    batches.confirm(ledger, june.id, "T-1")
    with pytest.raises(LedgerError, match="no payee is owed anything"):
        export_payments(ledger, accounts, MARKET, tmp_path / "none.xml")
    assert not (tmp_path / "none.xml").exists()
    approve(ledger, JULY, {"ann": 5, "cem": 7}, period="July 2026")
    money.bounced(ledger, "bob", "account closed")
    july = export_payments(ledger, accounts, MARKET, tmp_path / "july.xml").batch
    assert july.id != june.id
    _, transfers = read_message(tmp_path / "july.xml")
    assert {t["name"]: (t["amount"], t["text"]) for t in transfers} == {
        "Ann": ("0.05", f"Payout July 2026, run {JULY[:8]}"),
        "Bob": ("0.99", f"Payout June 2026, run {JUNE[:8]}"),
        "Cem": ("0.07", f"Payout July 2026, run {JULY[:8]}"),
    }
    old = {t["reference"] for t in read_message(tmp_path / "june.xml")[1]}
    assert not old & {t["reference"] for t in transfers}


def test_a_cancelled_batch_is_ordered_anew_and_says_the_same(ledger, accounts, tmp_path):
    first = export_payments(ledger, accounts, MARKET, tmp_path / "1.xml").batch
    batches.cancel(ledger, first.id, "the bank's limit")
    approve(ledger, JULY, {"ann": 5}, period="July 2026")
    second = export_payments(ledger, accounts, MARKET, tmp_path / "2.xml").batch
    assert first.id != second.id
    texts = {t["name"]: t["text"] for t in read_message(tmp_path / "2.xml")[1]}
    assert texts["Ann"] == f"Payout June 2026, July 2026, run {JUNE[:8]}, {JULY[:8]}"
    assert texts["Bob"] == f"Payout June 2026, run {JUNE[:8]}"


def test_a_run_alone(ledger, accounts, tmp_path):
    approve(ledger, JULY, {"cem": 7}, period="")
    export_payments(ledger, accounts, MARKET, tmp_path / "a.xml", run=JULY)
    _, transfers = read_message(tmp_path / "a.xml")
    assert [(t["name"], t["text"]) for t in transfers] == [("Cem", f"Payout, run {JULY[:8]}")]
    assert ledger.accounts().payable["ann", "EUR"] == 1250


def test_runs_that_are_sent_apart_say_so_apart(ledger, accounts, tmp_path):
    approve(ledger, JULY, {"ann": 7, "bob": 1}, period="July 2026")
    july = export_payments(ledger, accounts, MARKET, tmp_path / "july.xml", run=JULY).batch
    june = export_payments(ledger, accounts, MARKET, tmp_path / "june.xml", run=JUNE).batch
    for name, run, amount in (("july", JULY, "0.07"), ("june", JUNE, "12.50")):
        texts = {t["name"]: (t["amount"], t["text"]) for t in read_message(tmp_path / f"{name}.xml")[1]}
        assert texts["Ann"] == (amount, f"Payout {name.title()} 2026, run {run[:8]}")
    assert july.id != june.id


def test_a_run_has_one_currency(ledger, accounts, tmp_path):
    with pytest.raises(ParameterError, match="the run is in EUR"):
        export_payments(ledger, accounts, MARKET, tmp_path / "a.xml", run=JUNE, currency="JPY")
    assert not ledger.accounts().batches


def test_csv_can_do_without_accounts_and_takes_any_letters(ledger, tmp_path):
    done = export_payments(ledger, None, None, tmp_path / "a.csv", form="csv")
    rows = (tmp_path / "a.csv").read_text().splitlines()
    assert rows[0] == "payee,name,account,amount,currency,reference,bank,text"
    assert [row.split(",")[:5] for row in rows[1:]] == [
        ["ann", "", "", "12.50", "EUR"],
        ["bob", "", "", "0.99", "EUR"],
    ]
    assert done.doubts == []
    known = write_accounts(
        tmp_path / "b.csv", [["ann", "李雷", iban("ann")], ["bob", "Bob", iban("bob")]]
    )
    export_payments(ledger, known, None, tmp_path / "b2.csv", form="csv")
    assert f"ann,李雷,{iban('ann')},12.50,EUR" in (tmp_path / "b2.csv").read_text(encoding="utf-8")
    with pytest.raises(SubmissionError, match="Latin letters"):
        export_payments(ledger, known, MARKET, tmp_path / "b.xml")
    with pytest.raises(ParameterError, match="--from-account, or --format csv"):
        export_payments(ledger, known, None, tmp_path / "c.xml")


def test_what_no_run_pays_has_a_text_too(ledger, accounts, tmp_path):
    export_payments(ledger, accounts, MARKET, tmp_path / "1.xml")
    paid = next(e for e in ledger.read() if e.kind == "payment" and e.payee == "ann")
    batches.confirm(ledger, next(iter(ledger.accounts().batches)), "T-1")
    money.correct(ledger, "ann", 300, paid.number, "a unit was missed")
    done = export_payments(ledger, accounts, MARKET, tmp_path / "2.xml")
    assert [t["text"] for t in read_message(tmp_path / "2.xml")[1]] == [f"Payout, batch {done.batch.id}"]


@pytest.mark.parametrize("names", [["ann"], []])
def test_nothing_is_ordered_where_an_account_is_missing(ledger, names, tmp_path):
    known = write_accounts(tmp_path / "a.csv", [[n, n, iban(n)] for n in [*names, "somebody"]])
    before = ledger.accounts().tip
    with pytest.raises(SubmissionError, match=r"'bob'.*datamarket ledger hold.*nothing was ordered"):
        export_payments(ledger, known, MARKET, tmp_path / "a.xml")
    assert ledger.accounts().tip == before
    assert os.listdir(tmp_path).count("a.xml") == 0
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".part")]


def test_held_payees_need_no_account(ledger, tmp_path):
    money.hold(ledger, "bob", "no account yet")
    known = write_accounts(tmp_path / "a.csv", [["ann", "Ann", iban("ann")]])
    export_payments(ledger, known, MARKET, tmp_path / "a.xml")
    assert ledger.accounts().payable["bob", "EUR"] == 99


def test_who_is_held_after_the_order_is_not_paid_by_it(ledger, accounts, tmp_path):
    batch = export_payments(ledger, accounts, MARKET, tmp_path / "a.xml").batch
    money.hold(ledger, "bob", "stolen units")
    with pytest.raises(LedgerError, match=f"'bob', who is held since: stolen units.*{batch.id}"):
        export_payments(ledger, accounts, MARKET, tmp_path / "b.xml")
    batches.cancel(ledger, batch.id, "bob is held")
    export_payments(ledger, accounts, MARKET, tmp_path / "c.xml")
    assert [t["name"] for t in read_message(tmp_path / "c.xml")[1]] == ["Ann"]


def test_an_account_that_went_after_the_order_is_told_so(ledger, accounts, tmp_path):
    batch = export_payments(ledger, accounts, MARKET, tmp_path / "a.xml").batch
    known = write_accounts(tmp_path / "b.csv", [["ann", "Ann", iban("ann")]])
    with pytest.raises(SubmissionError, match=f"ledger cancel.*{batch.id}"):
        export_payments(ledger, known, MARKET, tmp_path / "b.xml")


def test_a_message_that_does_not_fit_its_schema_orders_nothing(ledger, accounts, tmp_path, monkeypatch):
    def torn(order, path):
        path.write_text('<Document xmlns="urn:iso:std:iso:20022:tech:xsd:pain.001.001.09"/>')

    monkeypatch.setattr(export_module, "write_message", torn)
    before = ledger.accounts().tip
    with pytest.raises(DataMarketError, match="schema"):
        export_payments(ledger, accounts, MARKET, tmp_path / "a.xml")
    assert ledger.accounts().tip == before
    assert not (tmp_path / "a.xml").exists()


def test_a_file_that_could_not_be_put_in_place_is_written_by_the_next_try(
    ledger, accounts, tmp_path, monkeypatch
):
    """The order stands, and the same command gives its file: nothing is ordered twice."""
    rename = os.replace

    def pulled(old, new):
        if new == tmp_path / "a.xml":
            raise OSError("pulled the plug")
        rename(old, new)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", pulled)
        with pytest.raises(OSError, match="plug"):
            export_payments(ledger, accounts, MARKET, tmp_path / "a.xml")
    assert not (tmp_path / "a.xml").exists()
    ordered = ledger.accounts()
    assert [batch.state for batch in ordered.batches.values()] == ["ordered"]
    assert export_payments(ledger, accounts, MARKET, tmp_path / "a.xml").again
    assert ledger.accounts().tip == ordered.tip
    assert read_message(tmp_path / "a.xml")[0]["MsgId"] == next(iter(ordered.batches))


def test_a_draft_is_not_paid(ledger, accounts, tmp_path):
    content = ledger.accounts().entries[1].content | {"manifest": "n"}
    with ledger.transaction() as transaction:
        transaction.add("draft", run=JULY, currency="EUR", amount=1349, content=content)
    with pytest.raises(LedgerError, match="the run is a draft; approve it"):
        export_payments(ledger, accounts, MARKET, tmp_path / "a.xml", run=JULY)


def test_another_file_is_never_written_over(ledger, accounts, tmp_path):
    out = tmp_path / "payments.xml"
    out.write_text("May's payments")
    with pytest.raises(ParameterError, match="holds something else"):
        export_payments(ledger, accounts, MARKET, out)
    assert out.read_text() == "May's payments"
    assert not ledger.accounts().batches
    with pytest.raises(ParameterError, match="choose another place"):
        export_payments(ledger, accounts, MARKET, out / "a.xml")
    assert not ledger.accounts().batches
    with pytest.raises(ParameterError, match="is a folder"):
        export_payments(ledger, accounts, MARKET, tmp_path)


def test_two_currencies_are_two_files(ledger, accounts, tmp_path):
    approve(ledger, JULY, {"ann": 300}, currency="JPY")
    with pytest.raises(LedgerError, match=r"EUR, JPY.*--currency"):
        export_payments(ledger, accounts, MARKET, tmp_path / "a.xml")
    done = export_payments(ledger, accounts, MARKET, tmp_path / "jpy.xml", currency="JPY")
    header, transfers = read_message(tmp_path / "jpy.xml")
    assert (header["CtrlSum"], transfers[0]["amount"], transfers[0]["currency"]) == ("300", "300", "JPY")
    assert not transfers[0]["sepa"]
    assert "no country and town: 1 of 1 payments that do not go by SEPA" in done.doubts[-1]
    export_payments(ledger, accounts, MARKET, tmp_path / "eur.xml", currency="EUR")
    assert read_message(tmp_path / "eur.xml")[0]["CtrlSum"] == "13.49"
    with pytest.raises(ParameterError, match="three capital letters"):
        export_payments(ledger, accounts, MARKET, tmp_path / "b.xml", currency="euro")


def test_a_payee_with_the_markets_own_account_is_a_doubt(ledger, tmp_path):
    known = write_accounts(tmp_path / "a.csv", [["ann", "Ann", iban("ann")], ["bob", "Bob", DEBTOR]])
    (said,) = export_payments(ledger, known, MARKET, tmp_path / "a.xml").doubts
    assert said.startswith("'bob' is paid to the account that the money comes from")


def test_names_that_are_joined_are_paid_by_one_transfer(tmp_path):
    """Joined by a run or a dispute, with one account: one transfer. Neither alone is enough."""
    ledger = open_ledger(tmp_path / "ledger.sqlite", new=True)
    paid = {"ann": 100, "ann.m": 20, "bob": 5, "cem": 7, "cem2": 8, "dan": 1, "dan2": 2}
    approve(ledger, JUNE, paid, joined=[["ann", "ann.m", "bob"], ["dan", "dan2"]])
    dispute = disputes.open_dispute(ledger, JUNE, "dan", "not one person")
    apart = disputes.Effects(separate_payees=("dan", "dan2"))
    disputes.resolve_dispute(ledger, dispute.number, "upheld", "two passports", apart)
    shared = {"ann": "ann", "ann.m": "ann", "cem": "cem", "cem2": "cem", "dan": "dan", "dan2": "dan"}
    rows = [[name, name.title(), iban(shared.get(name, name))] for name in paid]
    known = write_accounts(tmp_path / "a.csv", rows)
    done = export_payments(ledger, known, MARKET, tmp_path / "a.xml")
    header, transfers = read_message(tmp_path / "a.xml")
    assert (header["NbOfTxs"], header["CtrlSum"]) == ("6", "1.43")
    ours = [t for t in transfers if t["account"] == iban("ann")]
    text = f"Payout June 2026, run {JUNE[:8]}, for ann, ann.m"
    assert [(t["name"], t["amount"], t["text"]) for t in ours] == [("Ann", "1.20", text)]
    (doubt,) = done.doubts
    assert "'cem', 'cem2'" in doubt
    assert "'dan', 'dan2'" in doubt
    assert "'ann'" not in doubt
    assert export_payments(ledger, known, MARKET, tmp_path / "a.xml").again
    batches.confirm(ledger, done.batch.id, "T-1")
    assert ledger.accounts().sent["ann.m", "EUR"] == 20


def test_the_day_of_payment(ledger, accounts, tmp_path):
    ordered = export_payments(ledger, accounts, MARKET, tmp_path / "a.xml").order.on
    later = ordered + timedelta(days=3)
    export_payments(ledger, accounts, MARKET, tmp_path / "b.xml", on=later)
    assert {t["on"] for t in read_message(tmp_path / "b.xml")[1]} == {later.isoformat()}
    assert {t["on"] for t in read_message(tmp_path / "a.xml")[1]} == {ordered.isoformat()}
    export_payments(ledger, accounts, MARKET, tmp_path / "c.xml", on=ordered - timedelta(days=1))
    with pytest.raises(ParameterError, match="choose a day from"):
        export_payments(ledger, accounts, MARKET, tmp_path / "d.xml", on=ordered - timedelta(days=2))


def test_what_is_below_the_least_waits(ledger, accounts, tmp_path):
    with ledger.transaction() as transaction:
        transaction.add("rule", currency="EUR", amount=100, content={"least": True})
    export_payments(ledger, accounts, MARKET, tmp_path / "a.xml")
    assert [t["name"] for t in read_message(tmp_path / "a.xml")[1]] == ["Ann"]
    assert ledger.accounts().payable["bob", "EUR"] == 99


def command(*more):
    return CliRunner().invoke(app, ["export", *map(str, more)])


def test_the_command(ledger, accounts, tmp_path):
    given = ("--accounts", accounts, "--from", "Märkte GmbH", "--from-account", DEBTOR)
    out = tmp_path / "june.xml"
    said = command(ledger.where, *given, "--out", out)
    assert said.exit_code == 0, said.output
    batch = next(iter(ledger.accounts().batches))
    assert f"2 payments, EUR 13.49, batch {batch}." in said.output
    assert "Märkte GmbH -> Maerkte GmbH" in said.output
    assert f"datamarket ledger sent {ledger.where} --batch {batch} --reference" in said.output
    said = command(
        ledger.where, *given, "--format", "csv", "--out", tmp_path / "june.csv", "--run", JUNE[:16]
    )
    assert "ordered before" in said.output
    amounts = [line.split(",")[3] for line in (tmp_path / "june.csv").read_text().splitlines()[1:]]
    assert sum(map(Decimal, amounts)) == Decimal("13.49")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--run", "ffff"), "no runs of the ledger"),
        (("--format", "mt101"), "choose one of pain.001, csv"),
        (("--from-account", DEBTOR[:-1] + "1"), "check digits"),
    ],
)
def test_mistakes_are_told(ledger, accounts, tmp_path, more, said):
    given = (
        "--accounts",
        accounts,
        "--from",
        "M",
        "--from-account",
        DEBTOR,
        "--out",
        tmp_path / "a.xml",
    )
    found = command(ledger.where, *given, *more)
    assert found.exit_code != 0
    assert said in str(found.exception)
    assert not ledger.accounts().batches


def test_two_at_once_order_one_batch(ledger, accounts, tmp_path):
    given = ["--accounts", accounts, "--from", "M", "--from-account", DEBTOR]
    start = [sys.executable, "-c", "from datamarket_gym.cli import main; main()", "export", ledger.where]
    outs = [tmp_path / f"{i}.xml" for i in range(2)]
    started = [
        subprocess.Popen([*start, *given, "--out", out], stdout=subprocess.DEVNULL) for out in outs
    ]
    assert [process.wait(timeout=120) for process in started] == [0, 0]
    assert len({out.read_bytes() for out in outs}) == 1
    after = ledger.accounts()
    assert len(after.batches) == 1
    assert sum(after.outgoing.values()) == 1349
