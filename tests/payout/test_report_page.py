"""What a report shows first, how much of it, in which words; where there is a browser, looked at in it."""

import re
from html.parser import HTMLParser

import pytest
from headless import Browser
from payout_files import run, run_by_accuracy, units
from report_files import hostile_run, thousand_run

from datamarket_gym.payout.report.charts import MOST_SHOWN
from datamarket_gym.payout.report.pages import embed_json, read_style, read_template, render_page
from datamarket_gym.payout.report.record import all_terms

JARGON = (
    "jackknife", "theta", "Shapley", "kappa", "cosine", "lineage", "closed form", "largest remainder", "sha256",
    "density correction", "false-match cost", "digest", "strangers",
)  # fmt: skip
SEEN = (
    'e.getClientRects().length && getComputedStyle(e).display !== "inline" && !e.closest("thead, svg")'
)
WIDER = f"""[...document.querySelectorAll("main, main *")].filter((e) => {SEEN})
  .map((e) => e.getBoundingClientRect().right).reduce((a, b) => Math.max(a, b), document.documentElement.scrollWidth)"""
OUTSIDE = """[...document.querySelectorAll(".chart text")].filter((e) => {
  const text = e.getBoundingClientRect(), chart = e.closest(".chart").getBoundingClientRect();
  return text.right > chart.right + 1 || text.left < chart.left - 1;
}).map((e) => e.textContent)"""
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


@pytest.fixture(scope="module")
def pages(hostile, thousand, tmp_path_factory):
    place = tmp_path_factory.mktemp("pages")
    others = [run_by_accuracy(place / "knn", checks=2), run(place / "calm", units(copies=0))]
    return [
        (folder / "report.html").read_text(encoding="utf-8") for folder in (hostile, thousand, *others)
    ]


class Visible(HTMLParser):
    """The words of a page outside names, code, scripts and the glossary; and where terms lead."""

    def __init__(self, page):
        super().__init__()
        self.words, self.links, self.checkpoints, self._inside = [], [], set(), []
        self.feed(page)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.checkpoints.add(found.get("id"))
        if tag in ("bdi", "code", "script", "style") or (tag, found.get("class")) == ("dl", "glossary"):
            self._inside.append(tag)
        if found.get("class") == "term":
            self.links.append(found["href"])

    def handle_endtag(self, tag):
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()

    def handle_data(self, data):
        if not self._inside:
            self.words.append(data)


def body(folder):
    page = (folder / "report.html").read_text(encoding="utf-8")
    return re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.S)


def test_sections_come_in_the_order_of_whoever_approves(hostile):
    page = body(hostile)
    marks = (
        "<h1>", "Period: <bdi>&lt;b&gt;June&lt;/b&gt; 2026</bdi>", "<!-- state -->", 'id="warnings"',
        '<dl class="facts">',
        'id="payments"', 'id="evidence"', 'id="red-team"', 'id="checks"', 'id="how"', 'id="threshold"', 'id="glossary"',
    )  # fmt: skip
    places = [page.index(mark) for mark in marks]
    assert places == sorted(places)


def test_a_page_of_a_thousand_says_what_it_shows(thousand):
    page = body(thousand)
    assert (
        f"The chart shows the {MOST_SHOWN} highest of 1,000 payments; the table lists all 1,000." in page
    )
    assert page.count("<tr data-find=") == 1000
    assert (thousand / "report.html").stat().st_size < 8_000_000
    assert "all 16 payments" not in page


def test_a_page_of_a_few_says_that_it_shows_all(hostile):
    page = body(hostile)
    shown = page.count("<tr data-find=")
    assert f"The chart and the table show all {shown} payments." in page
    groups = re.search(r"(\d+) of (\d+) merged groups are shown", page).groups()
    assert groups[0] == groups[1] == str(page.count("<details data-find="))


def test_nothing_has_a_fixed_width():
    for name in ("base.css", "payout.css", "checks.css", "account.css", "statement.css"):
        style = read_template(name)
        screen = style.partition("@media print")[0]
        assert not re.search(r"(?<![-\w])(?:min-)?width:\s*(?:[3-9]\d\d|\d{4,})px", screen)
        for size in re.findall(r"(?<![-\w])min-width:\s*([\d.]+)rem", screen):
            assert float(size) <= 8
    page = read_template("payout.html.j2")
    assert not re.search(r"\s(?:width|style)=", page)
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


def test_every_link_leads_to_an_entry(pages):
    for page in pages:
        found = Visible(page)
        assert found.links
        assert {link.removeprefix("#") for link in found.links} <= found.checkpoints
        listed = re.findall(r'<div id="(g-[^"]+)"><dt>', page)
        assert sorted(listed) == sorted(set(listed))
        assert set(listed) == {
            link.removeprefix("#") for link in found.links
        }  # what is used, and no more


def test_every_technical_word_on_a_page_is_in_its_glossary(pages):
    for page in pages:
        found = Visible(page)
        for term in all_terms().values():
            said = term.pattern and re.search(
                rf"(?<![\w-])(?:{term.pattern})(?![\w-])", found.text, re.I
            )
            assert not said or f'id="{term.anchor}"' in page, (term.key, said)
        explained = " ".join(
            re.findall(r"<dt>(.*?)</dt>", page.partition('<dl class="glossary">')[2], re.S)
        )
        for word in set(re.findall(r"[A-Za-z0-9]+_\w+", found.text)):
            assert word in explained, word
    assert all(any(re.search(word, Visible(page).text, re.I) for page in pages) for word in JARGON)


@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("name", ["hostile", "thousand"])
def test_nothing_is_cut_or_wider_than_the_screen(name, width, browser, request):
    folder = request.getfixturevalue(name)
    browser.open(folder / "report.html", width)
    browser.js('document.querySelectorAll("details").forEach((each) => { each.open = true; })')
    assert browser.js(WIDER) <= width
    assert browser.js(SCROLLED) == []
    assert browser.js('document.querySelectorAll("#chart-payments svg").length') > 0
    assert browser.js(OUTSIDE) == []


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


def test_intervals_can_be_seen(thousand, browser):
    """Every band in the picture is at least a few pixels wide, that of the highest payment too."""
    browser.open(thousand / "report.html", 1280)
    wide = browser.js(
        '[...document.querySelectorAll("#chart-payments .x2y .scatterlayer path.js-line")]'
        ".flatMap((e) => e.getAttribute('d').split('M').filter(Boolean))"
        ".map((d) => d.split(/[L,H]/).map(Number)).map((p) => Math.abs(p[2] - p[0]))"
    )
    assert len(wide) == MOST_SHOWN
    assert min(wide) >= 3


def test_words_are_explained_by_keyboard_and_touch(hostile, browser):
    browser.open(hostile / "report.html", 400)
    told = 'tip.hidden ? "" : tip.textContent'
    browser.js(
        'const tip = document.getElementById("tip"); const link = document.querySelector("figcaption a.term");'
    )
    assert browser.js(told) == ""
    browser.js("link.focus()")
    said = browser.js("document.getElementById(link.hash.slice(1)).querySelector('dd').textContent")
    assert browser.js(told) == said != ""
    assert browser.js("link.getAttribute('aria-describedby')") == "tip"
    box = browser.js("JSON.parse(JSON.stringify(tip.getBoundingClientRect()))")
    assert box["left"] >= 0
    assert box["right"] <= 400
    browser.js("dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }))")
    assert browser.js(told) == ""
    tap = (
        "link.blur(); link.dispatchEvent(new PointerEvent('pointerdown', { bubbles: true, pointerType: 'touch' })); "
        "link.focus(); link.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true }))"
    )
    assert browser.js(tap) is False  # the first tap explains, and leads nowhere
    assert browser.js(told) == said
    again = tap.partition("link.blur(); ")[2]
    assert browser.js(again) is True  # the second follows the link


def test_paper_is_a4_and_dark_on_light_whatever_the_screen(hostile, browser):
    browser.media(prefers_color_scheme="dark")
    browser.open(hostile / "report.html", 1280)
    ink = 'getComputedStyle(document.body).color + getComputedStyle(document.querySelector(".chart text")).fill'
    screen = browser.js(ink)
    browser.js("dispatchEvent(new Event('beforeprint'))")
    browser.media(media="print", prefers_color_scheme="dark")
    assert browser.js(ink) == "rgb(0, 0, 0)rgb(0, 0, 0)" != screen
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
        "content": {"label": "1", "text": "word " * 900}, "others": [near, near],
    }  # fmt: skip
    payee = {
        "name": "<b>" * 20,
        "checks": [check],
        "count": 2,
        "find": "",
        "letter": "- " + "u" * 64 + "\nline" * 80,
    }
    page = {
        "title": "2 checks", "run": "0" * 64, "beacon": "b" * 200, "asked": ["the original"], "payees": [payee],
        "unfolded": True, "labelled": True,
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
