"""Why a unit is not in the log: what a run was told stays true of it, whatever arrives later."""

import numpy as np

from datamarket_gym.payout.book.store import open_book
from datamarket_gym.payout.intake.content import unit_digests
from datamarket_gym.payout.intake.log import committed, received
from datamarket_gym.payout.intake.times import IntakeLog

LABEL, TEXT = np.array(["a", "a"]), ["red fox", "blue bird"]


def test_a_batch_that_is_sealed_after_the_run_changes_no_reason(tmp_path):
    """Reasons stand in quarantine.csv, which is worked out again to the byte."""
    where = str(tmp_path / "log.sqlite")
    book = open_book(where, new=True)
    received(book, "alice", unit_digests("text", LABEL[:1], TEXT[:1]), "text")
    before = IntakeLog.open(where)
    asked = ("text", ["alice", "eve"], LABEL, TEXT)
    reasons = before.received(*asked)[1]
    assert reasons == {1: "not in the intake log under this identity"}
    committed(book, "eve", b"s" * 32, 1)
    assert IntakeLog.open(where, before.upto).received(*asked)[1] == reasons
    assert "entry 3 is sealed" in IntakeLog.open(where).received(*asked)[1][1]
