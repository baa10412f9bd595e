"""The page of a ledger: what it shows is what the ledger holds, deep links, and everything that is entered by hand."""

import pytest

from datamarket_gym.payout.ledger.account_statements import account_statement
from datamarket_gym.payout.ledger.runs import ledger_at, run_of
from datamarket_gym.payout.ledger.store import open_ledger
from datamarket_gym.payout.money import Currency
from explorer.payout_story import market, told
from payout.bank_files import approve

API = "/api/payout/ledger"
PAY = {"alice": 60_00, "bob": 40_00, "<b>eve\u202e": 5_00}


@pytest.fixture
def ledger(tmp_path):
    made = open_ledger(tmp_path / "ledgers" / "ledger.sqlite", new=True)
    approve(made, "a" * 64, PAY)
    return made


def open_at(page, url, more=""):
    page.add_init_script("localStorage.setItem('datamarket who', 'Ann')")
    page.goto(f"{url}/payout/ledger?ledger=ledger.sqlite{more}")
    page.wait_for_selector("main[data-ready='payout/ledger']")


def test_what_is_owed_is_shown_and_names_are_text(ledger, served, page):
    open_at(page, served(ledger.path))
    for payee, amount in PAY.items():
        shown = payee.replace("\u202e", "⟨U+202E⟩")
        row = page.locator("tr", has_text=shown)
        assert Currency("EUR").shown(amount) in row.inner_text()
    assert page.query_selector("td b") is None
    page.fill("[name=search-payees]", "bob")
    page.wait_for_selector(f"text=1 of {len(PAY)} payees")
    assert "find=bob" in page.url
    page.click("text=bob >> nth=-1")
    page.wait_for_selector("text=Account of bob")
    assert "payee=bob" in page.url
    account = account_statement(ledger.accounts(), "bob").accounts[0]
    assert Currency("EUR").shown(account.closing.payable) == "40.00"
    page.wait_for_selector("dt:text-is('owed') + dd:text-is('40.00')")
    page.go_back()
    page.wait_for_selector("[name=search-payees]")


def test_holds_corrections_and_rules_by_the_page(ledger, explorers, page):
    found = explorers(ledger.path)
    open_at(page, found.url.rstrip("/"), "&payee=alice")
    page.fill("[name=act-why]", "the tax number is missing")
    page.click("[name=act-enter]")
    page.wait_for_selector("dialog >> text=hold, alice")
    assert ledger.accounts().holds == {"alice": "the tax number is missing"}
    page.keyboard.press("Escape")
    page.wait_for_selector("text=Payments are held")
    number = next(
        e.number for e in ledger.accounts().entries if e.kind == "payment" and e.payee == "alice"
    )
    page.select_option("[name=act]", "correct")
    page.fill("[name=act-why]", "a unit was counted twice")
    page.fill("[name=act-amount]", "-2.50")
    page.fill("[name=act-of]", str(number))
    assert page.is_disabled("[name=act-enter]")
    page.fill("[name=act-token]", found.site.token.text)
    page.dblclick("[name=act-enter]")
    page.wait_for_selector("dialog >> text=correction EUR -2.50, alice")
    assert ledger.accounts().payable["alice", "EUR"] == 57_50
    page.keyboard.press("Escape")
    page.goto(f"{found.url}payout/ledger?ledger=ledger.sqlite&tab=rules+and+proof")
    page.wait_for_selector("[name=approvals]")
    page.fill("[name=approvals]", "2")
    page.fill("[name=rules-token]", found.site.token.text)
    page.click("[name=rules]")
    page.wait_for_selector("dialog >> text=2 people approve a run")
    page.keyboard.press("Escape")
    page.fill("[name=checkpoints]", page.inner_text("pre"))
    page.click("[name=verify]")
    page.wait_for_selector("text=All is as it was entered.")
    page.fill("[name=checkpoints]", f"3 {'0' * 64} 2026-01-01")
    page.click("[name=verify]")
    page.wait_for_selector("text=Something does not agree.")


def test_entries_and_batches(ledger, explorers, page):
    found = explorers(ledger.path)
    open_at(page, found.url.rstrip("/"), "&tab=entries")
    page.wait_for_selector(f"text={ledger.accounts().number} entries")
    page.select_option("[name=kind]", "payment")
    page.wait_for_selector(f"text=3 of {ledger.accounts().number} entries")
    page.click("[name=ledger-batches]")
    page.select_option("[name=export-form]", "csv")
    page.fill("[name=export-token]", found.site.token.text)
    with page.expect_download() as saved:
        page.click("[name=export]")
    assert "60.00" in saved.value.path().read_text()
    batch = next(iter(ledger.accounts().batches))
    page.reload()
    page.fill(f"[name=batch-token-{batch}]", found.site.token.text)
    page.fill(f"[name=cancel-why-{batch}]", "the bank was closed")
    page.click(f"[name=cancel-{batch}]")
    page.wait_for_selector("dialog >> text=all of it is owed again")
    assert ledger.accounts().payable["alice", "EUR"] == 60_00


def test_money_moves_by_the_token_alone(ledger, client, monkeypatch):
    monkeypatch.setattr("datamarket_gym.explorer.security._WAIT", 0.0)
    asked = client(ledger.path)
    before = ledger.path.read_bytes()
    for action in (
        "release",
        "correct",
        "fee",
        "bounced",
        "fund",
        "write-off",
        "sent",
        "cancel",
        "rules",
    ):
        body = {
            "ledger": "ledger.sqlite",
            "once": f"form {action}",
            "action": {"action": action, "by": "Ann"},
        }
        assert asked.post(f"{API}/act?token={asked.site.token.text}", json=body).status_code == 403
    decision = {"number": 1, "outcome": "rejected", "why": "no"}
    body = {
        "ledger": "ledger.sqlite",
        "once": "form once",
        "by": "Ann",
        "token": "",
        **decision,
    }
    assert asked.post(f"{API}/dispute/resolve", json=body).status_code == 403
    assert ledger.path.read_bytes() == before


def test_a_dispute_from_its_opening_to_its_end(tmp_path, client):
    run = market(tmp_path / "market", checks=0)
    asked = client(run.parent)
    token, where = asked.site.token.text, "market/ledger.sqlite"
    payee = run_of(run).lines[0].identity
    new = {"payee": payee, "about": "unit u1 is mine", "units": ["u1"], "hold": True}
    body = {"run": "market/june", "once": "opened once", "by": "Ann", "dispute": new}
    assert told(asked, asked.post(f"{API}/dispute/open", json=body))["words"][0] == "dispute 1 is open"
    again = asked.post(f"{API}/dispute/open", json=body)
    assert again.status_code == 422
    assert "sent before" in again.json()["error"]
    shown = told(asked, asked.get(f"{API}/overview", params={"ledger": where}))
    assert shown["disputes"][0]["open"]
    assert shown["holds"][0]["payee"] == payee
    decision = {"number": 1, "outcome": "upheld", "why": "it is", "effects": {"separate_units": ["u2"]}}
    body = {"ledger": where, "once": "decided once", "by": "Ann", "token": token, **decision}
    words = told(asked, asked.post(f"{API}/dispute/resolve", json=body))["words"]
    assert words == ["dispute 1 is upheld", "split units u2, in every run to come"]
    body = {
        "ledger": where,
        "once": "revoked once",
        "by": "Ann",
        "token": token,
        "number": 1,
        "why": "an error",
    }
    told(asked, asked.post(f"{API}/dispute/revoke", json=body))
    assert ledger_at(str(run)).accounts().disputes.overrides == []
