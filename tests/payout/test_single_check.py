"""One look for all pages: what they share, that it can be read, that nothing is cut on a telephone or a terminal."""

import re

import pytest
from headless import Browser
from payout_files import run, units
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.execution.files import sha256
from datamarket_gym.payout.ledger import transactions as money
from datamarket_gym.payout.ledger.account_statements import account_statement, statement_html
from datamarket_gym.payout.ledger.runs import approve, ledger_of, mark_paid, run_of
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.report.pages import read_style, read_template
from datamarket_gym.payout.statements.page import file_name, write_statements

LONG = "W" * 64
RTL = "محمد بن عبد الله للتصوير"
BROKEN = "seller-without-any-space-" * 3
SHEETS = ("payout.css", "checks.css", "account.css", "statement.css")
WIDEST = """[...document.querySelectorAll("main, main *")]
  .filter((e) => e.getClientRects().length && !e.closest("thead"))
  .map((e) => e.getBoundingClientRect().right).reduce((a, b) => Math.max(a, b), document.documentElement.scrollWidth)"""
CUT = """[...document.querySelectorAll("p, li, td, dd, h1, .sum")].filter((e) => e.getClientRects().length
  && getComputedStyle(e).display !== "inline" && e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent)"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run that is approved and paid, then held, sent back and corrected, with rows that cannot be used."""
    columns = units(n=60, identities=4)
    swap = {"seller 0": LONG, "seller 1": RTL, "seller 2": BROKEN}
    columns["identity"] = [swap.get(name, name) for name in columns["identity"]]
    columns["features"][3][1] = float("nan")  # of seller 3
    columns["id"] = [f"photographs/2026/06/{i:08d}.jpeg" for i in range(len(columns["id"]))]
    folder = run(
        tmp_path_factory.mktemp("look"), columns, amount="123456.78", quarantine=True, period="June 2026"
    )
    warned = [warning["name"] for warning in run_of(folder).warnings]
    approve(folder, sha256(folder / "manifest.json"), "R. Okafor", warned)
    mark_paid(folder, "transfer 2026-07-03/17")
    ledger = ledger_of(folder)
    money.bounced(ledger, RTL, "account closed")
    money.hold(ledger, RTL, "the account number belongs to somebody else", "R. Okafor")
    for name, change in ((LONG, -1_000_000), ("seller 3", 1234)):
        paid = next(e for e in ledger.accounts().entries if e.kind == "payment" and e.payee == name)
        money.correct(ledger, name, change, paid.number, "a unit was counted twice")
    return folder


@pytest.fixture(scope="module")
def pages(folder, tmp_path_factory):
    """The statements of the run, and the accounts of its payees, by what they are."""
    place = tmp_path_factory.mktemp("pages")
    out = write_statements(folder, place / "statements")
    found = {
        f"statement of {name[:8]}": out / file_name(name)
        for name in (LONG, RTL, BROKEN, "attacker", "seller 3")
    }
    for name in (LONG, RTL, "attacker"):
        found[f"account of {name[:8]}"] = path = place / f"account-{file_name(name)}"
        path.write_text(
            statement_html(account_statement(ledger_of(folder).accounts(), name)), encoding="utf-8"
        )
    return found  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    with Browser() as found:
        yield found


def text(page):
    body = re.sub(r"<style>.*?</style>", "", page.read_text(encoding="utf-8"), flags=re.S)
    return " ".join(re.sub(r"<[^>]*>", " ", body).split())


def typed(*words):
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.output
    return done.output


def test_pages_fit_a_telephone(browser, pages):
    for what, page in pages.items():
        browser.open(page, 400)
        assert browser.js(WIDEST) <= 400, what
        assert browser.js(CUT) == [], what


def test_a_statement_is_two_sheets_of_paper_at_most(browser, pages):
    for what, page in pages.items():
        if what in ("statement of attacker", "statement of seller 3", f"statement of {RTL[:8]}"):
            browser.open(page, 1280)
            assert len(re.findall(rb"/Type\s*/Page\b", browser.pdf())) <= 2, what


def test_all_pages_begin_with_the_same_sheet(pages, folder):
    shared = read_template("base.css")
    for page in [*pages.values(), folder / "report.html"]:
        assert f"<style>{shared}" in page.read_text(encoding="utf-8")
    for name in SHEETS:
        own = read_template(name)
        assert read_style(name) == shared + own
        assert "prefers-color-scheme" not in own
        assert "font-family" not in own
        rules = {line for line in own.splitlines() if line.endswith(" }") and not line.startswith(" ")}
        assert not rules & set(shared.splitlines())


def colours():
    """The colours of both schemes, by name."""
    light, dark = re.findall(r":root \{(.*?)\}", read_template("base.css"), flags=re.S)[:2]
    for scheme in (light, dark):
        yield dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", scheme))


def contrast(one, other):
    """Contrast of two colours, as the Web Content Accessibility Guidelines (WCAG 2) count it."""

    def light(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        parts = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), parts, strict=True))

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_text_can_be_told_from_what_is_behind_it():
    for scheme in colours():
        for behind in ("paper", "wash", "warn"):
            for ink in ("ink", "soft", "main", "alt", "good"):
                if (ink, behind) not in (("alt", "warn"), ("good", "warn")):
                    assert contrast(scheme[ink], scheme[behind]) >= 4.5, (ink, behind)
        assert contrast(scheme["edge"], scheme["paper"]) >= 3  # of what is typed into


def test_no_text_is_tiny():
    for name in ("base.css", *SHEETS):
        screen = read_template(name).partition("@media print")[0]
        sizes = re.findall(r"font-size: ([\d.]+)rem", screen)
        assert all(float(size) >= 0.75 for size in sizes)


def test_amounts_keep_their_sign():
    euro, yen = Currency("EUR"), Currency("JPY")
    assert [euro.shown(x) for x in (-35, 0, 123456789, -123456)] == [
        "\N{MINUS SIGN}0.35", "0.00", "1,234,567.89", "\N{MINUS SIGN}1,234.56",
    ]  # fmt: skip
    assert yen.shown(-900000) == "\N{MINUS SIGN}900,000"


def test_a_statement_says_what_came_later(pages):
    assert "Corrected since by EUR \N{MINUS SIGN}10,000.00:" in text(pages[f"statement of {LONG[:8]}"])
    assert "Corrected since by EUR +12.34:" in text(pages["statement of seller 3"])
    held = pages[f"statement of {RTL[:8]}"]
    assert "held back for now: ask whoever runs the market why" in text(held)
    assert "belongs to somebody else" not in text(held)
    assert 'class="state waiting"' in held.read_text(encoding="utf-8")
    assert 'class="state paid"' in pages["statement of attacker"].read_text(encoding="utf-8")
    assert re.search(r"as the ledger of the market has it at entry \d+ of 20\d\d-\d\d-\d\d", text(held))


def test_a_statement_says_what_could_not_be_used(pages):
    said = text(pages["statement of seller 3"])
    assert "What could not be used, and why; mend it, and hand it in again:" in said
    assert "photographs/2026/06/00000003.jpeg : features, entry 1 is nan" in said
    assert "could not be used" not in text(pages["statement of attacker"])


def test_an_account_says_that_too_much_was_paid(pages, folder):
    words = "EUR 10,000.00 were paid too much by now; they are set off against what is paid later."
    assert words in text(pages[f"account of {LONG[:8]}"])
    assert words in " ".join(typed("statements", ledger_of(folder).where, "--payee", LONG).split())
    assert "too much by now" not in text(pages["account of attacker"])


def test_terminals_of_80_columns_cut_no_id_and_no_amount(folder):
    ledger = ledger_of(folder)
    shown = typed("ledger", "show", ledger.where, "--entries", "50")
    explained = typed("explain", folder, "--payee", "attacker")
    history = typed("ledger", "show", folder)
    for output in (shown, explained, history):
        assert max(map(len, output.splitlines())) <= 80
    assert run_of(folder).run[:16] in shown
    for amount in re.findall(r"class=\"n key\">([\d,.]+)<", (folder / "report.html").read_text("utf-8")):
        assert amount in shown
    assert f"Held: {RTL}: the account number belongs to somebody else" in shown
    for unit in range(60, 63):
        assert f"photographs/2026/06/{unit:08d}.jpeg" in explained
    moment = run_of(folder).history[0].at[:19].replace("T", " ")
    assert moment in shown
    assert moment in history
