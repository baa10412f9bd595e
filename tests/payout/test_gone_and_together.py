"""A paid run whose folder is gone; an older copy of a ledger; eight approvals at once."""

import multiprocessing
import shutil

import pytest
from payout_files import approve, copied, run, warned

from datamarket_gym.payout.ledger.runs import attach, ledger_of, mark_paid, run_of
from datamarket_gym.payout.ledger.store import add_checkpoint, open_ledger
from datamarket_gym.payout.manifest import Note
from datamarket_gym.payout.verify import approve_recomputed, verify_ledger


@pytest.fixture(scope="module")
def paid(tmp_path_factory):
    folder = run(tmp_path_factory.mktemp("gone"))
    approve(folder)
    mark_paid(folder, "transfer 1", "tester")
    return folder


def of_run(ledger, **options):
    return next(check for check in verify_ledger(ledger, **options) if check.what.startswith("run "))


@pytest.mark.parametrize("state", ["draft", "approved", "paid"])
def test_a_folder_that_is_gone_fails_from_the_approval_on(tmp_path, state):
    folder = run(tmp_path / "market")
    if state != "draft":
        approve(folder)
    if state == "paid":
        mark_paid(folder, "transfer 1", "tester")
    ledger = ledger_of(folder)
    folder.rename(tmp_path / "moved")
    check = of_run(ledger)
    assert check.good == (state == "draft")
    assert f"datamarket ledger attach FOLDER {ledger.where}" in check.detail
    attach(tmp_path / "moved", ledger.where, "tester")
    assert of_run(ledger).good
    assert of_run(ledger).detail.endswith(str(tmp_path / "moved"))
    number = ledger.accounts().number
    attach(tmp_path / "moved", ledger.where, "tester")  # a second time enters nothing
    assert ledger.accounts().number == number


def test_a_moved_folder_still_refuses_an_older_copy(paid, tmp_path):
    """The receipt goes where the folder goes, once the ledger knows where that is."""
    copy = copied(paid, tmp_path / "market")
    older = tmp_path / "older"
    older.mkdir()
    ledger = open_ledger(copy.parent / "ledger.sqlite")
    attach(copy, ledger.where, "tester")
    for name in ("ledger.sqlite", "ledger.sqlite.checksum"):
        shutil.copy(copy.parent / name, older / name)
    with ledger.transaction("tester") as transaction:
        transaction.add("hold", payee="seller 1", content={"why": "a question"})
    assert not of_run(open_ledger(older / "ledger.sqlite")).good


def test_verify_says_when_nothing_rules_out_an_older_copy(paid, tmp_path):
    copy = copied(paid, tmp_path / "market")
    ledger = open_ledger(copy.parent / "ledger.sqlite")
    shutil.rmtree(copy)
    (tmp_path / "empty").mkdir()
    alone = open_ledger(tmp_path / "empty" / "ledger.sqlite", new=True)
    (note,) = [check for check in verify_ledger(alone) if isinstance(check, Note)]
    assert f"datamarket ledger checkpoint {alone.where} --checkpoints FILE" in note.detail
    file = tmp_path / "checkpoints.txt"
    add_checkpoint(file, alone.accounts())
    assert not any(isinstance(check, Note) for check in verify_ledger(alone, file))
    # the run that it was copied from has a receipt
    assert not any(isinstance(check, Note) for check in verify_ledger(ledger))


def approve_when(start, folder, person, accepted, answers):
    start.wait()
    approval = approve_recomputed(folder, person, accepted)
    answers.put(approval.words or [check.detail for check in approval.wrong])


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_of_eight_approvals_at_once_one_is_told_that_it_approved(tmp_path, kind, request):
    where = None if kind == "sqlite" else request.getfixturevalue("postgres_ledger")
    folder = run(tmp_path / "market", ledger=where)
    fork = multiprocessing.get_context("fork")  # eight processes without eight imports
    start, answers = fork.Event(), fork.Queue()
    children = [
        fork.Process(target=approve_when, args=(start, folder, f"person {i}", warned(folder), answers))
        for i in range(8)
    ]
    for child in children:
        child.start()
    start.set()
    said = [answers.get(timeout=120) for _ in children]
    for child in children:
        child.join()
    ((by, _),) = run_of(folder).approvals
    assert sorted(said) == ["approved", *[f"was approved before, by {by}; nothing changed"] * 7]
