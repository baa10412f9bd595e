"""The pages of runs in a real browser: every control once, numbers as in the files, names as text."""

from urllib.parse import parse_qs, quote, urlsplit

import pytest
from run_markets import MARKUP, TURNED, market, payments_csv
from watched_pages import opened

from datamarket_gym.payout.explain import (
    counterfactual_messages,
    explain,
    payment_messages,
    submission_messages,
)
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.what_if import without_its_evidence

SEEN = "Bob⟨U+200B⟩ ⟨U+202E⟩reLLüM"


@pytest.fixture(scope="module")
def months(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shown") / "market"
    market(folder)
    return folder


@pytest.fixture
def at(served, months, page):
    """Opens a page of the explorer and waits until it is there."""
    url = served(months)

    def go(path):
        page.goto(f"{url}{path}")
        page.wait_for_selector("main[data-ready]")
        return page

    return go


def cells(page, table, column):
    """The cells of a column of a table, by its heading."""
    return page.locator(f'[data-table={table}] td[data-h="{column}"]').all_inner_texts()


def left(page, table, rows):
    """Wait until so many rows are left; the page allows no test to evaluate words."""
    page.locator(f"[data-table={table}] tbody tr").nth(rows - 1).wait_for()
    page.locator(f"[data-table={table}] tbody tr").nth(rows).wait_for(state="detached")


def query(page):
    return {key: each[0] for key, each in parse_qs(urlsplit(page.url).query).items()}


def test_the_list_is_ordered_and_searched(at):
    page = at("/payout")
    assert cells(page, "runs", "state") == ["draft", "approved"]
    assert cells(page, "runs", "amount") == ["EUR 1,500.00", "EUR 1,000.00"]
    page.click("[name=sort-runs-minor]")
    page.fill("[name=search-runs]", "may")
    assert cells(page, "runs", "for") == ["May 2026"]
    assert query(page) == {"search": "may", "sort": "-minor"}
    assert page.get_by_role("link", name="New payout run").get_attribute("href") == "/payout/new"


def test_payments_are_searched_ordered_and_lead_to_why(at, months):
    rows = payments_csv(months / "june")
    page = at("/payout/run?run=market/june")
    for key, title in (("payment", "payment"), ("without_evidence", "without evidence")):
        assert cells(page, "payments", title) == [row[key] for row in rows.values()]
    page.click("[name=sort-payments-low]")
    page.wait_for_selector("th[aria-sort=descending]")
    page.fill("[name=search-payments]", "seller")
    left(page, "payments", 3)
    kept = sorted((float(rows[name]["low"]) for name in rows if name.startswith("seller")), reverse=True)
    assert [float(each) for each in cells(page, "payments", "low")] == kept
    assert query(page) == {"run": "market/june", "search": "seller", "sort": "-low"}
    page.reload()
    page.wait_for_selector("main[data-ready]")
    assert [float(each) for each in cells(page, "payments", "low")] == kept
    page.click("[data-table=payments] tbody a >> nth=0")
    page.wait_for_selector("text=What matched what")
    page.go_back()
    page.wait_for_selector("[name=search-payments]")
    assert page.input_value("[name=search-payments]") == "seller"


def test_every_part_of_a_run_opens(at, months):
    page = at("/payout/run?run=market/may")
    page.click("text=1 payee loses more than half")
    page.click("[name=about-units-and-evidence]")
    page.fill("[name=search-units]", "attacker")
    page.wait_for_selector("[data-table=units] tbody >> text=identical content")
    page.click("[name=sort-units-amount]")
    page.wait_for_selector("[data-table=units] th[aria-sort=descending]")
    page.click("[name=about-files-and-history]")
    with page.expect_download() as saved:
        page.click("text=payments.csv")
    assert saved.value.path().read_bytes() == (months / "may" / "payments.csv").read_bytes()
    page.click("[name=about-verify]")
    page.click("[name=verify]")
    page.wait_for_selector("text=checks are good")
    assert set(page.locator(".checks .tag").all_inner_texts()) == {"ok"}
    page.click("[name=recompute]")
    page.wait_for_selector("text=payments.parquet, recomputed")
    assert query(page)["tab"] == "verify"


def test_the_report_opens_without_the_explorer_s_origin(at, months):
    page = at("/payout/run?run=market/may")
    with page.expect_popup() as window:
        page.click("text=Open the report")
    report = window.value
    report.fill("#find", "attacker")
    report.wait_for_selector("text=1 found")  # its own scripts run
    assert report.evaluate("origin") == "null"
    assert report.evaluate("fetch('/api/site').then(() => 'read', () => 'refused')") == "refused"


def test_why_says_what_the_command_line_says(at, months):
    june = months / "june"
    found = explain(june, "attacker", 20)
    page = at("/payout/run?run=market/june&payee=attacker")
    text = page.inner_text("main")
    for words in (payment_messages(found), *submission_messages(found), counterfactual_messages(found)):
        assert words in text
    assert page.locator(".match").count() == len(found.matches)
    page.click("[name=contents]")
    page.wait_for_selector(".match .values")
    assert page.locator(".match .values").count() == 2 * len(found.matches)
    with page.expect_download() as saved:
        page.click("[name=statement]")
    assert "Statement for attacker" in saved.value.path().read_text()
    page.click("[name=what-if]")
    page.wait_for_selector("text=with it, it is paid")
    paid = Currency("EUR").shown(without_its_evidence(june, "attacker"))
    assert f"it would have been paid EUR {paid};" in page.inner_text("main")


def test_names_are_text(at):
    for who, shown in ((MARKUP, MARKUP), (TURNED, SEEN)):
        page = at(f"/payout/run?run=market/june&payee={quote(who)}")
        assert page.inner_text("h1") == shown
        assert page.locator("main img").count() == 0
    page.click("text=market/june")
    page.wait_for_selector("[data-table=payments] tbody a")
    assert {MARKUP, SEEN} <= set(page.locator("[data-table=payments] tbody a").all_inner_texts())


def test_a_run_that_is_not_there_is_told(at):
    page = at("/payout/run")
    assert "No run is named" in page.inner_text("main")
    page.watch.expected.append("404")
    at("/payout/run?run=../market/may")
    assert "there is no payout run" in page.inner_text("main")


def test_nothing_is_wider_than_a_phone(served, months, chromium):
    page = opened(chromium, viewport={"width": 400, "height": 800}, color_scheme="dark")
    paths = ("", "/run?run=market/may", "/run?run=market/june&tab=units", "/run?run=market/may&tab=files",
             "/run?run=market/june&payee=attacker")  # fmt: skip
    for path in paths:
        page.goto(f"{served(months)}/payout{path}")
        page.wait_for_selector("main[data-ready]")
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, path
    assert page.watch.left() == []
    page.context.close()


def test_an_empty_explorer_says_what_to_do(served, page):
    page.goto(f"{served()}/payout")
    page.wait_for_selector("main[data-ready]")
    assert "No payout run is on show yet" in page.inner_text("main")
