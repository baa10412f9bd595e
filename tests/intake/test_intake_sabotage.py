"""What careless or hostile hands do with the files of the intake: nothing is lost, and whatever is wrong is told."""

import json

import pytest
from test_intake_cli import ALICE, intake

from datamarket_gym.payout.book.entry import link

TEXT = ("--text", "text")


@pytest.fixture
def here(tmp_path):
    """A log with a batch of alice and one that bob sealed and revealed; their receipts, and a proof of bob's."""
    (tmp_path / "alice.csv").write_text(ALICE)
    intake(tmp_path, "intake", "init", "log.sqlite")
    intake(
        tmp_path, "intake", "add", "log.sqlite", "alice.csv", "--payee", "alice", *TEXT, "--receipt", "a.json"
    )  # fmt: skip
    intake(
        tmp_path, "intake", "seal", "alice.csv", "--payee", "bob", *TEXT, "--out", "sealed.json", "--secret",
        "secret.json",
    )  # fmt: skip
    intake(tmp_path, "intake", "commit", "log.sqlite", "sealed.json", "--payee", "bob")
    intake(tmp_path, "intake", "reveal", "log.sqlite", "alice.csv", "--secret", "secret.json", *TEXT)
    prove(tmp_path, "proof.json")
    return tmp_path


def prove(here, out, code=0):
    return intake(
        here, "intake", "prove", "log.sqlite", "alice.csv", "--payee", "bob", *TEXT, "--unit", "u2", "--out", out,
        code=code,
    )  # fmt: skip


@pytest.mark.parametrize("out", ["log.sqlite", "log.sqlite.seal", "alice.csv", "a.json", "secret.json"])
def test_a_proof_is_written_over_nothing_else(here, out):
    before = (here / out).read_bytes()
    assert f"'{out}' holds something else, which stays: name another file" in prove(here, out, code=2)
    assert (here / out).read_bytes() == before
    prove(here, "proof.json")  # the same again is no harm
    intake(here, "verify", "log.sqlite")


def test_a_secret_and_what_is_handed_over_are_two_files(here):
    (here / "link.json").symlink_to("one.json")
    for other in ("one.json", "./one.json", "link.json"):
        said = intake(
            here, "intake", "seal", "alice.csv", "--payee", "bob", *TEXT, "--out", "one.json", "--secret", other,
            code=2,
        )  # fmt: skip
        assert "cannot hold both" in said
        assert not (here / "one.json").exists()


@pytest.mark.parametrize("there", ["alice.csv", "log.sqlite", "secret.json"])
def test_who_cannot_have_the_receipt_there_is_told_that_the_batch_is_entered(here, there):
    before = (here / there).read_bytes()
    said = intake(
        here, "intake", "add", "log.sqlite", "alice.csv", "--payee", "dee", *TEXT, "--receipt", there, code=2
    )  # fmt: skip
    assert "the batch is entry 5 of the log" in said
    assert "name another file with --receipt (nothing is entered twice)" in said
    assert there == "log.sqlite" or (here / there).read_bytes() == before
    intake(here, "verify", "log.sqlite")


def forged(here, name, units=None, place=None, at=None):
    """The proof or the receipt with another number of units, place or time, its hash worked out anew."""
    said = json.loads((here / name).read_text())
    receipt = said.get("receipt") if isinstance(said.get("receipt"), dict) else said
    body = json.loads(receipt["body"])
    if units is not None:
        body["content"]["units"] = receipt["units"] = units
    if at is not None:
        body["at"] = receipt["at"] = at
    if place is not None:
        said["place"] = place
    receipt["body"] = json.dumps(body, sort_keys=True, separators=(",", ":"))
    receipt["hash"] = link(receipt["previous"], receipt["body"])
    (here / "forged.json").write_text(json.dumps(said))
    return intake(here, "intake", "check", "forged.json", code=1)


def test_a_place_beyond_all_numbers_is_no_place(here):
    assert "no batch has 2**63 units or more" in forged(here, "proof.json", 2**70, 2**65)
    assert "no batch has 2**63 units or more" in forged(here, "a.json", 10**4000)


@pytest.mark.parametrize(
    "at",
    ["2026-13-40T00:00:00.000+00:00", "2026-01-01T25:00:00.000+00:00", "٢٠٢٦-01-01T00:00:00.000+00:00"],
)
def test_a_time_that_never_was_is_none(here, at):
    assert "no entry of a batch that this version has written" in forged(here, "a.json", at=at)


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '{"proof":' * 100_000, '{"receipt":' + "9" * 6000 + "}"]
)
def test_json_of_any_depth_is_told(here, text):
    (here / "deep.json").write_text(text)
    assert "'deep.json' cannot be read" in intake(here, "intake", "check", "deep.json", code=1)
    intake(here, "intake", "commit", "log.sqlite", "deep.json", "--payee", "bob", code=2)
