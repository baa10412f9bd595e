"""Overrides that disputes leave in the ledger; those of a file do not stay."""

import datetime

import numpy as np
import pytest

from datamarket_gym.errors import DataMarketError
from datamarket_gym.evidence.graph import Edges
from datamarket_gym.payout.overrides import Override, overridden, read_overrides

SIGNED = {"reason": "looked at", "by": "R. Okafor", "date": datetime.date(2026, 7, 1)}


def test_an_override_is_written_and_read_again():
    split = Override(action="split", units=["u1"], **SIGNED)
    assert Override.model_validate(split.model_dump(mode="json")) == split
    standing = split.model_copy(update={"dispute": 3})
    assert standing.model_dump(mode="json")["dispute"] == 3
    assert Override.model_validate(standing.model_dump(mode="json")) == standing


def test_a_file_cannot_speak_for_the_ledger(tmp_path):
    file = tmp_path / "o.toml"
    file.write_text(
        '[[split]]\nunits = ["u1"]\nreason = "x"\nby = "x"\ndate = 2026-07-01\ndispute = 3\n'
    )
    with pytest.raises(DataMarketError, match="what disputes decide stands in the ledger"):
        read_overrides(file)


def test_one_that_stands_may_meet_a_run_in_which_there_is_nothing_to_untie():
    edges = Edges.of(np.array([0]), np.array([1]), "lineage")
    rank, ids = np.array([0, 1]), ["first", "copy"]
    split = Override(action="split", units=["first"], **SIGNED)
    with pytest.raises(DataMarketError, match="descends from no other unit"):
        overridden(edges, [split], ids, "units", rank)
    standing = split.model_copy(update={"dispute": 3})
    assert len(overridden(edges, [standing], ids, "units", rank)) == 1  # its copy stays its copy
    copy = standing.model_copy(update={"units": ["copy"]})
    assert len(overridden(edges, [copy], ids, "units", rank)) == 0
