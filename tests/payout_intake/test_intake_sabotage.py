"""What careless or hostile hands do with the files of the intake: nothing is lost, and whatever is wrong is told."""

import json

import pytest
from test_intake_cli import ALICE, intake

from datamarket_gym.payout.ledger.entries import hash_entry

TEXT = ("--text", "text")


@pytest.fixture
def here(tmp_path):
    """A log with a batch of alice, and its receipt."""
    (tmp_path / "alice.csv").write_text(ALICE)
    intake(tmp_path, "intake", "init", "log.sqlite")
    intake(
        tmp_path, "intake", "add", "log.sqlite", "alice.csv", "--payee", "alice", *TEXT, "--receipt", "a.json"
    )  # fmt: skip
    return tmp_path


@pytest.mark.parametrize("there", ["alice.csv", "log.sqlite", "log.sqlite.checksum", "a.json"])
def test_who_cannot_have_the_receipt_there_is_told_that_the_batch_is_entered(here, there):
    before = (here / there).read_bytes()
    said = intake(
        here, "intake", "add", "log.sqlite", "alice.csv", "--payee", "dee", *TEXT, "--receipt", there, code=2
    )  # fmt: skip
    assert "the batch is entry 3 of the log" in said
    assert "name another file with --receipt (nothing is entered twice)" in said
    assert there.startswith("log.sqlite") or (here / there).read_bytes() == before
    intake(here, "verify", "log.sqlite")


def forged(here, units=None, at=None):
    """The receipt with another number of units or time, its hash worked out anew."""
    receipt = json.loads((here / "a.json").read_text())
    body = json.loads(receipt["body"])
    if units is not None:
        body["content"]["units"] = receipt["units"] = units
    if at is not None:
        body["at"] = receipt["at"] = at
    receipt["body"] = json.dumps(body, sort_keys=True, separators=(",", ":"))
    receipt["hash"] = hash_entry(receipt["previous"], receipt["body"])
    (here / "forged.json").write_text(json.dumps(receipt))
    return intake(here, "intake", "check", "forged.json", code=1)


def test_a_number_of_units_beyond_all_batches_is_none(here):
    assert "fewer than 2**63" in forged(here, 10**4000)


@pytest.mark.parametrize(
    "at",
    ["2026-13-40T00:00:00.000+00:00", "2026-01-01T25:00:00.000+00:00", "٢٠٢٦-01-01T00:00:00.000+00:00"],
)
def test_a_time_that_never_was_is_none(here, at):
    assert "no entry of a batch that this version has written" in forged(here, at=at)


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '{"receipt":' * 100_000, '{"receipt":' + "9" * 6000 + "}"]
)
def test_json_of_any_depth_is_told(here, text):
    (here / "deep.json").write_text(text)
    assert "'deep.json' cannot be read" in intake(here, "intake", "check", "deep.json", code=1)
