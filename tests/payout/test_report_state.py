"""The state of a run on its report: put in, put back byte for byte, and out of reach of names."""

import hashlib
import json
import re
from types import SimpleNamespace

import pytest
from payout_files import run, units
from report_files import LONG

from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.files import sha256
from datamarket_gym.payout.report.pages import (
    BEGINS,
    ENDS,
    read_draft,
    read_report,
    restate_report,
)
from datamarket_gym.payout.report.record import period_message
from datamarket_gym.payout.settings import checked_spec


def entry(kind, at="2026-07-01T10:15:00+00:00", by="", **content):
    return SimpleNamespace(kind=kind, at=at, by=by, content=content)


ENTERED = entry("draft")
APPROVED = [
    ENTERED,
    entry("checked", detail="27 of 27 checks passed"),
    entry("approval", "2026-07-02T08:00:00+02:00", "R. Okafor"),
    entry("approval", "2026-07-02T09:30:00+00:00", "M. Iyer"),
    entry("approved"),
]
PAID = [*APPROVED, entry("paid", "2026-07-03T12:00:00+00:00", "R. Okafor", reference="SEPA 4711")]
REPLACED = [ENTERED, entry("superseded", "2026-07-04T07:00:00+00:00", by_run="ab" * 32)]
STATES = (APPROVED[:2], APPROVED[:3], APPROVED, PAID, REPLACED)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    columns = units(n=30, identities=6)
    columns["identity"] = [*LONG, *columns["identity"][len(LONG) :]]
    return run(tmp_path_factory.mktemp("state"), columns, period=f"June {BEGINS} 2026")


@pytest.fixture(scope="module")
def page(folder):
    return read_report(folder)


def shown_text(page):
    inside = page.partition(BEGINS)[2].partition(ENDS)[0]
    return " ".join(re.sub(r"<[^>]+>", " ", inside).split())


def test_a_draft_says_that_it_is_not_approved(page):
    assert shown_text(page) == "Draft. Not approved."
    assert page.index(BEGINS) < page.index('<dl class="facts">') < page.index('id="payments"')


def test_names_and_periods_cannot_hold_the_comments(page):
    assert page.count(BEGINS) == page.count(ENDS) == 1
    assert page.count("&lt;!-- state --&gt;") >= 2  # as a name and in the period
    assert "&amp;lt;!-- state --&amp;gt;" in page


def test_who_approved_and_when_stands_on_the_first_page(page):
    shown = shown_text(restate_report(page, APPROVED))
    assert shown == (
        "Approved. Not yet paid. Entered 2026-07-01 10:15 UTC Checks 27 of 27 checks passed , 2026-07-01 10:15 UTC "
        "Approved by R. Okafor , "
        "2026-07-02 06:00 UTC Approved by M. Iyer , 2026-07-02 09:30 UTC What came after the approval (corrections, "
        "holds, payments that came back, disputes) is not on this page: datamarket ledger show ."
    )
    assert "Paid by R. Okafor , 2026-07-03 12:00 UTC, reference SEPA 4711" in shown_text(
        restate_report(page, PAID)
    )
    assert "Not to be paid" in shown_text(restate_report(page, REPLACED))
    assert f"Replaced by run {'ab' * 32} , 2026-07-04 07:00 UTC" in shown_text(
        restate_report(page, REPLACED)
    )


def test_every_byte_comes_back(page):
    assert restate_report(page, [ENTERED]) == page
    for state in STATES:
        once = restate_report(page, state)
        assert restate_report(once, state) == once
        assert restate_report(once) == page
        for other in (PAID, ()):
            assert restate_report(once, other) == restate_report(page, other)
    assert len({restate_report(page, state) for state in STATES}) == len(STATES)


def test_approvers_may_be_called_anything(page):
    evil = f"<script>{ENDS}</script>\u202e"
    kinds = ("draft", "checked", "approval", "approved", "paid", "superseded")
    history = [entry(kind, evil, evil, detail=evil, reference=evil, by_run=evil) for kind in kinds]
    found = restate_report(page, history)
    assert found.count(ENDS) == found.count(BEGINS) == 1
    assert "<script>" not in found.partition(BEGINS)[2].partition(ENDS)[0]
    assert "\u202e" not in found
    assert restate_report(found) == page


def test_line_ends_stay_as_they_are(page):
    body = page.replace("\n", "\r\n")
    now = restate_report(body, APPROVED)
    assert now.partition(ENDS)[2] == body.partition(ENDS)[2]
    assert now.partition(BEGINS)[0] == body.partition(BEGINS)[0]


def test_the_manifest_has_the_hash_of_the_draft(folder, page, tmp_path):
    known = json.loads((folder / "manifest.json").read_text())["outputs"]["report.html"]
    (tmp_path / "report.html").write_bytes(restate_report(page, PAID).encode())
    assert sha256(tmp_path / "report.html") != known["sha256"]
    assert hashlib.sha256(read_draft(tmp_path)).hexdigest() == known["sha256"]


@pytest.mark.parametrize(
    "broken",
    [
        lambda page: page.replace(BEGINS, ""),
        lambda page: page.replace(ENDS, ""),
        lambda page: page + BEGINS + ENDS,
        lambda page: page + ENDS,
        lambda page: ENDS + page,
    ],
)
def test_a_page_without_one_such_section_is_no_report(broken, page):
    with pytest.raises(DataMarketError, match="the section on the run's state"):
        restate_report(broken(page))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, ""),
        ({"period": "June 2026", "opens": "2026-06-01"}, "June 2026"),
        ({"opens": "2026-06-01", "closes": "2026-06-30"}, "2026-06-01 to 2026-06-30"),
        ({"opens": "2026-06-01"}, "from 2026-06-01 on"),
        ({"closes": "2026-06-30"}, "until 2026-06-30"),
    ],
)
def test_the_period_of_a_payout_run_is_named(settings, words):
    assert period_message(checked_spec({"amount": "1.00", **settings})) == words
