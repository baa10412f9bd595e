"""A receipt of what is not there cannot be made to check: every field, every hash, every place."""

import copy
import json

import pytest
from intake_files import story

from datamarket_gym.errors import DataMarketError
from datamarket_gym.payout.intake import (
    IntakeReceipt,
    ReceiptError,
    check_in_ledger,
    check_receipt_against_checkpoints,
    read_receipt,
)
from datamarket_gym.payout.ledger.entries import hash_entry
from datamarket_gym.payout.ledger.store import add_checkpoint


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A ledger, a file with a checkpoint of its end, and the folder of both."""
    folder = tmp_path_factory.mktemp("log")
    ledger = story(folder / "ledger.sqlite")
    add_checkpoint(folder / "checkpoints.txt", ledger.accounts())
    return ledger, folder / "checkpoints.txt"


def holds(said, ledger):
    """Whether all that is shown holds in the ledger."""
    try:
        shown = IntakeReceipt.from_plain(json.loads(json.dumps(said)))
        return all(check.good for check in check_in_ledger(shown, ledger))
    except DataMarketError:
        return False


def test_what_is_there_checks(log, tmp_path):
    ledger, checkpoints = log
    receipts = [IntakeReceipt.from_entry(ledger, entry) for entry in ledger.accounts().received]
    assert all(holds(receipt.plain(), ledger) for receipt in receipts)
    assert check_receipt_against_checkpoints(receipts[-1], checkpoints).good
    receipts[0].write(tmp_path / "receipt.json")
    assert read_receipt(tmp_path / "receipt.json") == receipts[0]


def places(said, at=()):
    """Every place of a JSON document that holds a value, and every list and object."""
    yield at
    if isinstance(said, dict):
        for key, value in said.items():
            yield from places(value, (*at, key))
    elif isinstance(said, list):
        for key, value in enumerate(said):
            yield from places(value, (*at, key))


def put(said, at, value):
    changed = copy.deepcopy(said)
    here = changed
    for key in at[:-1]:
        here = here[key]
    here[at[-1]] = value(here[at[-1]])
    return changed


def others(value):
    """Other values that may stand there: of every kind, and near the one that does."""
    found = [None, True, False, 0, -1, 1, 2, 10**30, "", "x", [], {}, [value], {"x": value}, str(value)]
    if isinstance(value, int):
        found += [value + 1, value - 1, float(value), -value, 2**63 + value]
    if isinstance(value, str):
        found += [
            value + " ",
            value[1:],
            value.upper(),
            value[::-1],
            value.replace("a", "b"),
            value + "\0",
            value + "\ud800",
        ]
        found += [value[:i] + chr(ord(value[i]) ^ 1) + value[i + 1 :] for i in range(len(value))]
    if isinstance(value, list):
        found += [value[1:], value[::-1], value + value[:1], value[:-1], [*value, "0" * 64]]
    if isinstance(value, dict):
        found += [{k: v for k, v in value.items() if k != name} for name in value]
        found += [{**value, "more": 1}]
    return [each for each in found if json.dumps(each) != json.dumps(value)]


def test_no_field_of_a_receipt_can_be_changed(log):
    ledger, _ = log
    for entry in ledger.accounts().received:
        said = IntakeReceipt.from_entry(ledger, entry).plain()
        for at in places(said):
            for other in others(said[at[0]] if at else said):
                changed = put(said, at, lambda _, other=other: other) if at else other
                assert not (isinstance(changed, dict) and holds(changed, ledger)), (at, other)


def chained_anew(said, **changes):
    """A receipt that says otherwise and agrees with itself: anybody can write one."""
    body = json.loads(said["body"])
    body.update({k: v for k, v in changes.items() if k in body})
    body["content"].update({k: v for k, v in changes.items() if k in body["content"]})
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    shown = {"entry": body["number"], "at": body["at"], "identity": body["payee"]}
    content = {k: body["content"][k] for k in ("units", "what", "sha256")}
    return {**said, **shown, **content, "body": text, "hash": hash_entry(said["previous"], text)}


def test_a_receipt_that_somebody_made_up_checks_with_no_ledger_and_no_anchor(log):
    ledger, checkpoints = log
    said = IntakeReceipt.from_entry(ledger, ledger.accounts().received[0]).plain()
    forged = chained_anew(said, at="2020-01-01T00:00:00.000+00:00", payee="mallory")
    shown = IntakeReceipt.from_plain(forged)  # it agrees with itself
    assert shown.entry.payee == "mallory"
    assert not holds(forged, ledger)
    assert not check_receipt_against_checkpoints(shown, checkpoints).good
    numbered = chained_anew(said, number=ledger.accounts().number)
    said = check_receipt_against_checkpoints(IntakeReceipt.from_plain(numbered), checkpoints)
    assert (said.good, said.detail) == (False, "entry 4 is not as it was in the checkpoints")


def test_anchors_that_do_not_reach_the_entry_are_told(log):
    ledger, checkpoints = log
    said = check_receipt_against_checkpoints(
        IntakeReceipt.from_entry(ledger, ledger.accounts().received[0]), checkpoints
    )
    assert not said.good
    assert "none is of entry 2" in said.detail


def test_a_receipt_of_another_ledger_or_of_one_written_anew_is_told(log, tmp_path):
    ledger, _ = log
    receipt = IntakeReceipt.from_entry(ledger, ledger.accounts().received[0])
    other = story(tmp_path / "other.sqlite")
    assert "is another one" in check_in_ledger(receipt, other)[0].detail
    anew = IntakeReceipt(other.accounts().id, receipt.entry)
    assert "written anew, or cut short" in check_in_ledger(anew, other)[0].detail


def test_a_receipt_is_never_written_over_another(log, tmp_path):
    ledger, _ = log
    first, second = (IntakeReceipt.from_entry(ledger, entry) for entry in ledger.accounts().received[:2])
    first.write(tmp_path / "r.json")
    first.write(tmp_path / "r.json")
    with pytest.raises(ReceiptError, match=r"entry 3 of the log; .* holds something else"):
        second.write(tmp_path / "r.json")
    assert read_receipt(tmp_path / "r.json") == first
    (tmp_path / "file").write_text("")
    with pytest.raises(ReceiptError, match="entry 3 of the log; its receipt cannot be written"):
        second.write(tmp_path / "file" / "r.json")
    for text in ("", "[]", "1", "{}", '{"receipt": 1}', '{"receipt": 2}'):
        (tmp_path / "odd.json").write_text(text)
        with pytest.raises(ReceiptError, match=r"odd\.json"):
            read_receipt(tmp_path / "odd.json")


def test_an_entry_that_is_no_batch_makes_no_receipt(log):
    """The ledger holds other entries, to the letter; none of them says that anything arrived."""
    ledger, _ = log
    first = ledger.read()[0]
    with pytest.raises(ReceiptError, match="no entry of a batch"):
        IntakeReceipt.from_plain(IntakeReceipt(ledger.accounts().id, first).plain())
