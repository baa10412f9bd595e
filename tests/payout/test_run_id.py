"""The run's id: all that decides the results is in it, and nothing else."""

import pytest
from payout_files import spec

from datamarket_gym import __version__
from datamarket_gym.payout import manifest
from datamarket_gym.payout.manifest import run_id
from datamarket_gym.payout.overrides import Override

FILES = {
    "submissions": {"name": "units.parquet", "bytes": 10, "sha256": "a" * 64},
    "validation": {"name": "validation.parquet", "bytes": 20, "sha256": "b" * 64},
}
JOIN = Override.model_validate(
    {
        "action": "join",
        "units": ["u0", "u1"],
        "reason": "checked",
        "by": "R. Okafor",
        "date": "2026-05-31",
    }
)


def identified(files=FILES, overrides=(), opening=None, **changes):
    return run_id(spec(**changes), files, list(overrides), opening or {})


def changed(**fields):
    return {**FILES, "submissions": {**FILES["submissions"], **fields}}


@pytest.mark.parametrize(
    "other",
    [
        {"amount": "1000.01"},
        {"seed": 1},
        {"negative": "zero"},
        {"files": changed(sha256="c" * 64)},
        {"files": changed(bytes=11)},
        {"files": {role: FILES[other] for role, other in zip(FILES, reversed(FILES), strict=True)}},
        {"overrides": [JOIN]},
        {"opening": {"seller 1": 5}},
    ],
    ids=str,
)
def test_whatever_decides_the_results_changes_the_id(other):
    assert identified(**other) != identified()


def test_signing_or_undoing_an_override_is_another_run():
    ids = {identified(overrides=some) for some in ([], [JOIN], [JOIN, JOIN])}
    ids.add(identified(overrides=[JOIN.model_copy(update={"by": "K. Ito"})]))
    ids.add(identified(overrides=[JOIN.model_copy(update={"units": ["u0", "u2"]})]))
    assert len(ids) == 5


def test_every_balance_that_was_brought_in_is_in_the_id():
    openings = [{}, {"a": 5}, {"a": -5}, {"a": 6}, {"b": 5}, {"a": 5, "b": -5}]
    assert len({identified(opening=opening) for opening in openings}) == len(openings)


def test_another_version_is_another_run(monkeypatch):
    before = identified()
    assert run_id(spec(), FILES, [], {}, made_by=__version__) == before
    assert run_id(spec(), FILES, [], {}, made_by="999") != before
    monkeypatch.setattr(manifest, "FORMAT", "999")
    assert identified() != before


def test_neither_names_of_files_nor_the_order_of_balances_are_in_the_id():
    assert identified(changed(name="elsewhere.parquet")) == identified()
    assert identified(dict(reversed(FILES.items()))) == identified()
    assert identified(opening={"a": 1, "b": 2}) == identified(opening={"b": 2, "a": 1})
