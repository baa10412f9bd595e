"""What a report shows first, how much of it, in which words; where there is a browser, looked at in it."""

import re

import pytest
from headless import Browser
from payout_files import payments
from report_files import hostile_run, thousand_run

from datamarket_gym.payout.overrides import DESCENT
from datamarket_gym.payout.report.pages import embed_json, read_style, read_template, render_page
from datamarket_gym.payout.report.record import attack_title, explain_reason, reason_titles
from datamarket_gym.registry import components

SEEN = (
    'e.getClientRects().length && getComputedStyle(e).display !== "inline" && !e.closest("thead, svg")'
)
WIDER = f"""[...document.querySelectorAll("main, main *")].filter((e) => {SEEN})
  .map((e) => e.getBoundingClientRect().right).reduce((a, b) => Math.max(a, b), document.documentElement.scrollWidth)"""
SCROLLED = f"""[...document.querySelectorAll(".scroll, table, td, dd, summary, p")]
  .filter((e) => {SEEN} && e.scrollWidth > e.clientWidth + 1).map((e) => e.outerHTML.slice(0, 200))"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    return hostile_run(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def thousand(tmp_path_factory):
    return thousand_run(tmp_path_factory.mktemp("thousand"))


@pytest.fixture(scope="module")
def browser():
    with Browser() as found:
        yield found


def body(folder):
    page = (folder / "report.html").read_text(encoding="utf-8")
    return re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.S)


def test_sections_come_in_the_order_of_whoever_approves(hostile):
    page = body(hostile)
    marks = (
        "<h1>", "Period: <bdi>&lt;b&gt;June&lt;/b&gt; 2026</bdi>", "<!-- state -->", 'id="warnings"',
        '<dl class="facts">',
        'id="payments"', 'id="evidence"', 'id="checks"', 'id="red-team"', 'id="how"', 'id="threshold"',
    )  # fmt: skip
    places = [page.index(mark) for mark in marks]
    assert places == sorted(places)


def test_a_page_of_a_thousand_says_what_it_shows(thousand):
    page = body(thousand)
    assert page.count("<tr data-find=") == 1000
    assert (thousand / "report.html").stat().st_size < 1_000_000


def test_the_first_two_screens_are_what_is_decided_on(hostile, browser):
    """Warnings, payments and what was merged are open; what is measured and proven is folded."""
    page = body(hostile)
    folded = re.findall(r'<details class="part" id="([\w-]+)">', page)
    assert folded[-2:] == ["red-team", "how"]
    browser.open(hostile / "report.html", 1280)
    assert browser.js("document.documentElement.scrollHeight") < 6000
    assert browser.js('document.querySelectorAll("details.part[open]").length') == 0
    groups = re.search(r"(\d+) of (\d+) merged groups are shown", page).groups()
    assert groups[0] == groups[1] == str(page.count("<details data-find="))


def test_bars_are_as_long_as_the_payments(thousand):
    rows = list(payments(thousand).values())
    bars = re.findall(r'<rect width="([\d.]+)"', body(thousand))
    most = float(rows[0]["payment"])
    assert [float(bar) for bar in bars] == pytest.approx(
        [100 * float(row["payment"]) / most for row in rows], abs=0.006
    )


def test_nothing_has_a_fixed_width():
    for name in ("base.css", "payout.css", "checks.css", "account.css", "statement.css"):
        style = read_template(name)
        screen = style.partition("@media print")[0]
        assert not re.search(r"(?<![-\w])(?:min-)?width:\s*(?:[3-9]\d\d|\d{4,})px", screen)
        for size in re.findall(r"(?<![-\w])min-width:\s*([\d.]+)rem", screen):
            assert float(size) <= 8
    page = read_template("payout.html.j2")
    assert not re.search(r"\sstyle=", page)
    assert page.count('<table class="stack"') == page.count("<table")


def test_each_cell_of_a_narrow_row_bears_its_heading(hostile):
    for head, rows in re.findall(
        r"<thead>(.*?)</thead>\s*<tbody>(.*?)</tbody>", body(hostile), flags=re.S
    ):
        for row in re.findall(r"<tr.*?</tr>", rows, flags=re.S):
            assert row.count("<td") == head.count("<th")
            headless = [cell for cell in re.findall(r"<td[^>]*>", row) if "data-h=" not in cell]
            assert len(headless) == (2 if "key" in row else 1)  # the name, and the payment beside it


def test_print_rules_are_there():
    style = read_style("payout.css").partition("@media print")[2]
    for rule in (
        "size: A4",
        "break-after: avoid",
        "break-inside: avoid",
        "table-header-group",
        "counter(page)",
    ):
        assert rule in style


@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("name", ["hostile", "thousand"])
def test_nothing_is_cut_or_wider_than_the_screen(name, width, browser, request):
    folder = request.getfixturevalue(name)
    browser.open(folder / "report.html", width)
    browser.js('document.querySelectorAll("details").forEach((each) => { each.open = true; })')
    assert browser.js(WIDER) <= width
    assert browser.js(SCROLLED) == []


def test_rows_are_folded_found_and_unfolded(thousand, browser):
    browser.open(thousand / "report.html", 1280)
    seen = '[...document.querySelectorAll("#paid tbody tr")].filter((e) => e.getClientRects().length).length'
    assert browser.js(seen) == 25
    assert "25 of 1,000 rows are shown." in browser.js('document.querySelector(".rest").textContent')
    typed = 'find.value = "{}"; find.dispatchEvent(new Event("input"))'
    browser.js(f'const find = document.getElementById("find"); {typed.format("contributor-0777")}')
    assert browser.js(seen) == 1
    browser.js(typed.format(""))
    assert browser.js(seen) == 25
    browser.media(media="print")
    assert browser.js(seen) == 1000  # on paper all are listed
    browser.media()
    browser.js('document.querySelector(".rest button").click()')
    assert browser.js(seen) == 1000


def test_paper_is_a4_and_dark_on_light_whatever_the_screen(hostile, browser):
    browser.media(prefers_color_scheme="dark")
    browser.open(hostile / "report.html", 1280)
    ink = "getComputedStyle(document.body).color"
    screen = browser.js(ink)
    browser.js("dispatchEvent(new Event('beforeprint'))")
    browser.media(media="print", prefers_color_scheme="dark")
    assert browser.js(ink) == "rgb(0, 0, 0)" != screen
    browser.media()
    paper = browser.pdf()
    assert set(re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", paper)) == {
        (b"594.95996", b"841.91998")
    }


def test_the_page_of_checks_has_the_same_manners(browser, tmp_path):
    """At 400 px nothing is wider than the screen, and no letter or text is cut, on paper neither."""
    near = {
        "unit": "0x" + "0" * 62,
        "identity": "W" * 64,
        "cosine": "0.987",
        "label": "l" * 64,
        "text": "a\n" * 90,
    }
    check = {
        "numbers": [1, 2], "unit": "u" * 64, "identity": "W" * 64, "amount": "EUR 1.00", "share": "10%",
        "content": {"label": "1", "text": "word " * 900},
        "sides": [{"title": "Nearest earlier units of others", "others": [near, near]}],
    }  # fmt: skip
    payee = {
        "name": "<b>" * 20,
        "checks": [check],
        "count": 2,
        "find": "",
        "letter": "- " + "u" * 64 + "\nline" * 80,
    }
    page = {
        "title": "2 checks", "run": "0" * 64, "beacon": "b" * 200, "announced": "", "asked": ["the original"],
        "payees": [payee], "unfolded": True, "labelled": True,
    }  # fmt: skip
    scripts, key = [read_template("checks.js")], embed_json({"key": "k"})
    text = render_page("checks.html.j2", "checks.css", scripts, page=page, charts=key)
    (tmp_path / "checks.html").write_text(text, encoding="utf-8")
    browser.open(tmp_path / "checks.html", 400)
    browser.js('document.querySelectorAll("details").forEach((each) => { each.open = true; })')
    assert browser.js(WIDER) <= 400
    cut = (
        '[...document.querySelectorAll("{}")].filter((e) => e.scrollHeight > e.clientHeight + 1).length'
    )
    assert browser.js(cut.format("pre")) == 0
    browser.media(media="print")
    assert browser.js(cut.format("pre, .text")) == 0
    browser.media()


def test_charts_hold_no_markup():
    assert "<" not in embed_json({"name": "</script><b>&"})


def test_every_reason_has_a_title():
    for name in (*components("evidence"), *DESCENT, "words", "both confirm"):
        title, text = explain_reason(name)
        assert title
        assert 10 < len(text) < 320
    assert explain_reason("same <iban>\u202e") == ("same <iban>⟨U+202E⟩", "")
    assert reason_titles("exact_hash, override").count(", ") == 1


def test_attacks_have_plain_names():
    assert attack_title("near_duplicate_2x_sybils@0.02") == "near copies under new identities"
    assert attack_title("somebody_elses(x=1)") == "somebody_elses"
