"""The state on a report follows the ledger, and a page that says otherwise is found."""

import shutil

import pytest
from payout_files import approve, copied, run

from datamarket_gym.errors import DataMarketError
from datamarket_gym.payout.ledger.runs import mark_paid, run_of
from datamarket_gym.payout.report.pages import read_draft, read_report
from datamarket_gym.payout.verify import verify


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return run(tmp_path_factory.mktemp("stated"))


@pytest.fixture
def folder(made, tmp_path):
    return copied(made, tmp_path / "copy")


def bad(folder):
    return [check.what for check in verify(folder, recompute=True) if not check.good]


def said(folder):
    return {check.what: check.detail for check in verify(folder)}["report.html, state"]


def test_the_page_says_who_approved_and_what_it_was_paid_by(folder):
    page = read_report(folder)
    assert read_draft(folder) == page.encode()
    approve(folder, by="K. Ito")
    assert "K. Ito" in read_report(folder)
    mark_paid(folder, "transfer 7")
    now = read_report(folder)
    assert "transfer 7" in now
    assert read_draft(folder) == page.encode()
    assert bad(folder) == []


def test_a_state_that_never_was_is_found(folder):
    page = read_report(folder)
    approve(folder, by="K. Ito")
    lied = read_report(folder).replace("K. Ito", "R. Okafor")
    (folder / "report.html").write_bytes(lied.encode())
    assert bad(folder) == ["report.html, state"]
    (folder / "report.html").write_bytes(page.replace("Not approved.", "All is well.").encode())
    assert "report.html, state" in bad(folder)


def test_a_page_that_is_behind_is_no_lie(folder, tmp_path):
    other = shutil.copytree(folder, folder.parent / "other")
    approve(folder)
    assert bad(other) == []
    assert "behind: the run is approved" in said(other)


def test_a_folder_holds_on_to_the_ledger_it_was_entered_in(folder, made):
    approve(folder)
    for name in ("ledger.sqlite", "ledger.sqlite.checksum"):  # the ledger of before
        shutil.copy(made.parent / name, folder.parent / name)
    receipt = (folder / "ledger.json").read_bytes()
    assert "ledger.json" in bad(folder)
    for touch in (lambda: run_of(folder), lambda: approve(folder), lambda: mark_paid(folder, "1")):
        with pytest.raises(DataMarketError, match="written anew, or cut short"):
            touch()
    assert (folder / "ledger.json").read_bytes() == receipt
