"""What a hostile operator, a hostile payee and a careless clerk tried, and what came of it."""

import json

import numpy as np
import pytest
from checks_files import answered, drawn
from checks_files import paid as checked_payout_run
from forged_ledger import rewritten, sealed_again, told, without_rules
from payout_files import copied, units, validation
from payout_files import run as paid

from datamarket_gym.cli import check
from datamarket_gym.cli.ledger import paid as ledger_paid
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.payout.checks.draw import draw_checks, draw_key, read_checks
from datamarket_gym.payout.checks.plan import PlanRequest, make_plan
from datamarket_gym.payout.checks.settle import settle
from datamarket_gym.payout.ledger.entries import LedgerError
from datamarket_gym.payout.ledger.runs import mark_paid, run_of
from datamarket_gym.payout.verify import verify


def test_labels_may_be_texts(tmp_path):
    """The red team makes up a label that nobody asks for; numpy cannot tell the last of several texts."""
    names = np.array(["ant", "bee", "cat"])
    submitted, rows = units(n=24, identities=2, copies=2), validation(20)
    submitted["label"], rows["label"] = names[submitted["label"]], names[rows["label"]]
    folder = paid(tmp_path, submitted, rows, audit=True)
    assert (folder / "audit.json").is_file()


def bad(folder):
    return [check.what for check in verify(folder) if not check.good]


@pytest.fixture(scope="module")
def payout_run(tmp_path_factory):
    """A run whose checks were drawn, and the same with all of them passed."""
    base = tmp_path_factory.mktemp("sabotage")
    first = checked_payout_run(base / "first")
    drawn(first)
    passed = copied(first, base / "passed")
    answered(passed)
    settle(passed)
    return {"drawn": first, "checked": passed}


@pytest.fixture
def at(payout_run, tmp_path):
    return lambda stage: copied(payout_run[stage], tmp_path / stage)


def made_up(folder, kind, **content):
    """Write the ledger anew with one entry more about a run, chain, head and checksum included."""
    record = run_of(folder)
    entry = {
        **json.loads(record.history[-1].body),
        "kind": kind,
        "amount": 0,
        "currency": "",
        "content": content,
    }
    rewritten(folder, lambda entries: [*entries, entry])


@pytest.mark.parametrize(
    ("stage", "statement"),
    [
        (
            "drawn",
            """UPDATE ledger_entries SET body = replace(body, '"kind":"drawn"', '"kind":"checked"')""",
        ),
        ("drawn", """UPDATE ledger_entries SET body = replace(body, '"checks":3', '"checks":0')"""),
        ("drawn", "UPDATE ledger_entries SET body = replace(body, '0.8', '0.9') WHERE number = 3"),
        (
            "checked",
            "UPDATE ledger_entries SET body = replace(body, 'block 1', 'block 2') WHERE number = 4",
        ),
        ("checked", "UPDATE ledger_entries SET body = replace(body, 'planner', 'nobody')"),
        ("checked", "UPDATE ledger_entries SET body = replace(body, 'T', ' ') WHERE number = 2"),
        ("checked", "UPDATE ledger_entries SET hash = upper(hash) WHERE number = 5"),
        ("checked", "DELETE FROM ledger_entries WHERE number = 3"),
        ("checked", "DELETE FROM ledger_entries WHERE number = 6"),
        ("drawn", "DELETE FROM ledger_entries WHERE number = 4"),
        (
            "drawn",
            "INSERT INTO ledger_entries SELECT 5, body, hash FROM ledger_entries WHERE number = 4",
        ),
        ("drawn", "DELETE FROM ledger_tip"),
    ],
)
def test_entries_are_held_against_the_chain(at, stage, statement):
    """Rules are taken out, something changed, and the rules put back: the chain no longer fits, for anybody."""
    folder = at(stage)
    assert bad(folder) == []
    without_rules(folder, statement)
    assert "ledger" in bad(folder)
    with pytest.raises(LedgerError):
        run_of(folder)
    with pytest.raises(LedgerError):
        mark_paid(folder, "transfer 1")


def test_a_rule_that_was_taken_out_is_missed(at):
    folder = at("drawn")
    told(folder, "DROP TRIGGER ledger_entries_kept")
    assert bad(folder) == ["ledger"]  # the file is not as it was checksummed
    sealed_again(folder)
    assert bad(folder) == ["tables and triggers"]


@pytest.mark.parametrize(
    ("kind", "content", "match"),
    [
        ("drawn", {"beacon": "a better one"}, "drawn once"),
        ("planned", {"plan": "{}"}, "cannot change after that"),
        ("approval", {"manifest": "x"}, "cannot be approved"),
        ("approved", {}, "needs 1 approvals"),
        ("paid", {"reference": "transfer 1", "batch": "x"}, "none that this version"),
    ],
)
def test_an_entry_that_was_made_up_is_found_though_all_of_the_ledger_fits(at, kind, content, match):
    folder = at("drawn")
    made_up(folder, kind, **content)
    assert "ledger" in bad(folder)
    with pytest.raises(LedgerError, match=match):
        run_of(folder)


def test_a_run_that_was_said_to_be_checked_has_no_certificate_that_bears_it_out(at):
    folder = at("drawn")
    made_up(folder, "checked", detail="all payees passed", outcomes="")
    assert run_of(folder).state == "checked"
    assert bad(folder) == ["certificate.json"]


@pytest.mark.parametrize("name", ["checks.csv", "certificate.json"])
def test_files_that_are_no_text_are_found(at, name):
    folder = at("checked")
    (folder / name).write_bytes(b"\xff\xfe")
    assert name in bad(folder)


def test_no_ledger_is_made_where_there_is_no_run(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(DataMarketError, match="holds no payout run"):
            read_checks(folder)
        with pytest.raises(DataMarketError, match="holds no payout run"):
            mark_paid(folder, "transfer 1")
    assert list(tmp_path.iterdir()) == []


def test_a_beacon_gives_one_draw_however_it_is_written():
    """Who may choose between 0A1B, 0a1b and ' 0a1b' may choose between draws."""
    keys = {draw_key("m", "p", text) for text in ("0A1B c", "0a1b c", " 0a1bc ", "\uff10a1b C")}
    assert len(keys) == 1
    assert draw_key("m", "p", "0a1b d") not in keys


def test_no_beacon_of_any_earlier_draft_is_used_again(tmp_path):
    folder = checked_payout_run(tmp_path)
    for place, payee in enumerate(("seller 1", "seller 2")):
        drawn(folder, f"block {place}", checks=3 + 9 * place)
        answered(folder, false=(payee,))
        settle(folder, new := tmp_path / f"new {place}")
        folder = new
    make_plan(folder, PlanRequest(announce="block 2"))
    for known in ("block 0", "block 1", "Block 0 "):
        with pytest.raises(ParameterError, match="announce another"):
            draw_checks(folder, known)
    draw_checks(folder, "block 2")


def test_the_command_says_what_to_publish_and_what_the_certificate_claims(tmp_path, capsys):
    folder = checked_payout_run(tmp_path)
    check.sample(folder, announce="block 1")
    said = capsys.readouterr().out
    (entered,) = [e.content["detail"] for e in run_of(folder).history if e.kind == "planned"]
    assert f"plan {entered.split()[-1]}" in said
    assert f"manifest {run_of(folder).manifest}" in said
    draw_checks(folder, "0a1b")
    answered(folder)
    check.settle(folder, forfeited="divide")
    claim = json.loads((folder / "certificate.json").read_text())["claim"]
    said = " ".join(capsys.readouterr().out.split())
    assert ("The claim is none" in said) == (claim == "none")
    assert "This speaks of expected money" in said


def test_a_run_that_was_approved_by_hand_is_not_marked_as_paid(at):
    folder = at("drawn")
    made_up(folder, "approved")
    with pytest.raises(LedgerError, match="needs 1 approvals and has 0"):
        ledger_paid(folder, "transfer 1")
