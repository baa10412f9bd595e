"""A payout_run goes through the same four functions as `Mechanism.pay`: every record of both is the same."""

import dataclasses
import json

import numpy as np
import pytest
from payout_files import cents, copied, outputs, run, spec, units, validation, write

from datamarket_gym.errors import DataMarketError
from datamarket_gym.evidence.graph import Clusters
from datamarket_gym.execution.runs import read_record
from datamarket_gym.mechanism import CanonicalUnits, Mechanism, pipeline, score_clusters
from datamarket_gym.mechanism.allocation import Amounts
from datamarket_gym.mechanism.quotient_game import Scores
from datamarket_gym.payout import run as run_module
from datamarket_gym.payout.inputs import read_inputs
from datamarket_gym.payout.manifest import RECORDS
from datamarket_gym.payout.money import (
    validation_groups,
)
from datamarket_gym.payout.stored_inputs import places_of
from datamarket_gym.payout.verify import verify
from datamarket_gym.payout.what_if import finished_results

KINDS = {"matches": Clusters, "represented": CanonicalUnits, "scores": Scores, "amounts": Amounts}
WIDE = 64  # dimensions in which strangers are far apart, so that a similarity threshold may be used


def wide(columns, seed):
    """The same columns with unit vectors in many dimensions; the last units are noisy copies of the first."""
    rng = np.random.default_rng(seed)
    n, copies = len(columns["label"]), list(columns.get("identity", ())).count("attacker")
    vectors = rng.normal(size=(n, WIDE)) + 2.0 * np.eye(3, WIDE)[columns["label"]]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    label = np.concatenate([columns["label"][: n - copies], columns["label"][:copies]])
    vectors[n - copies :] = vectors[:copies] + rng.normal(0, 0.01, (copies, WIDE))
    return {**columns, "label": label, "features": vectors}


GROUPED = ("by_group", "group_size")  # a payout run asks for them too, for its intervals


def fields(record, prefix=""):
    """Every field that is kept of a record, by name, those of records within it too."""
    for field in dataclasses.fields(record):
        if not field.metadata.get("recorded", True):
            continue
        value = getattr(record, field.name)
        if dataclasses.is_dataclass(value):
            yield from fields(value, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, value


def differing(one, other, less=()):
    """The fields in which two records of a kind differ, numbers by more than 1e-9."""
    a, b = dict(fields(one)), dict(fields(other))
    assert type(one) is type(other)
    assert a.keys() == b.keys()

    def is_near(x, y):
        if not isinstance(x, np.ndarray):
            return x == y
        if x.dtype.kind == "f":
            return x.shape == y.shape and np.allclose(x, y, rtol=1e-9, atol=1e-9)
        return np.array_equal(x, y)

    return [name for name in a if name not in less and not is_near(a[name], b[name])]


@pytest.mark.parametrize(
    ("changes", "evidence"),
    [
        ({"theta": "none"}, "lineage@none"),
        ({"theta": "auto", "seed": 3}, "lineage@0."),
        ({"theta": "none", "learner": "ridge", "negative": "zero"}, "lineage@none"),
    ],
)
def test_both_ways_give_the_same_records(tmp_path, changes, evidence):
    n, copies = (30, 4) if "learner" in changes else (90, 12)  # ridge is asked for each set of units
    tables = wide(units(n, copies=copies), 0), wide(validation(200), 1)
    folder = run(tmp_path, *tables, **changes)
    m = Mechanism.model_validate(json.loads((folder / "manifest.json").read_text())["mechanism"])
    assert str(m.evidence).startswith(evidence)
    places = write(tmp_path / "in", *tables)
    inputs = read_inputs(places, spec(**changes))
    utility = inputs.utility_oracle(spec(**changes))
    for prefix, mechanism in (("", m), ("without_evidence_", m.model_copy(update={"evidence": "none"}))):
        paid = mechanism.pay(inputs.submission, utility)
        ours = {
            "matches": paid.clustering,
            "represented": paid.canonical,
            "scores": paid.scores,
            "amounts": paid.shares,
        }
        for name in list(KINDS)[bool(prefix) :]:
            kept = read_record(folder / "records" / f"{prefix}{name}.npz", KINDS[name])
            if name == "represented":
                assert kept.features.size == 0
                kept = kept.restored(inputs.submission)
            assert differing(kept, ours[name], GROUPED if not prefix else ()) == []
    kept = read_record(folder / "records" / "scores.npz", Scores)
    paid = m.pay(inputs.submission, utility)
    group = validation_groups(utility.features, utility.label, m.seed)
    assert (
        differing(
            kept, score_clusters(paid.canonical, utility, samples=m.samples, seed=m.seed, groups=group)
        )
        == []
    )
    assert len(kept.by_group) == (20 if utility.learner.has_closed_form else 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return run(tmp_path_factory.mktemp("records"))


def refuse(*_, **__):
    raise AssertionError("a stage was done again")


def results_of(folder):
    return finished_results(folder, places_of(folder))[1]


def test_results_are_read_from_the_records(folder, monkeypatch):
    for name in ("match_units", "represent_clusters", "measure_threshold"):
        monkeypatch.setattr(run_module, name, refuse)
    for name in ("find_acquired_units", "score_clusters", "allocate"):
        monkeypatch.setattr(pipeline, name, refuse)
    found = results_of(folder)
    assert dict(zip(found.names, found.division.paid, strict=True)) == cents(folder)


@pytest.mark.parametrize("name", [*(f"records/{name}.npz" for name in RECORDS), "threshold.json"])
def test_a_record_that_is_gone_or_changed_is_refused(folder, tmp_path, name):
    copy = copied(folder, tmp_path / "copy")
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[:-3] + b"xyz")
    with pytest.raises(DataMarketError, match="not as the run left it"):
        results_of(copy)
    assert name in [check.what for check in verify(copy) if not check.good]
    (copy / name).unlink()
    with pytest.raises(DataMarketError, match="missing"):
        results_of(copy)
    assert not (copy / name).exists()


def test_a_run_that_is_taken_up_again_does_no_stage_twice(tmp_path, monkeypatch):
    places = write(tmp_path / "in")
    monkeypatch.setattr(run_module, "write_tables", refuse)
    with pytest.raises(AssertionError):
        run_module.pay(places, spec(), tmp_path / "run")
    (tmp_path / "run" / "records" / ".scores.npz.1.part").write_bytes(b"half")
    monkeypatch.undo()
    calm = outputs(run(tmp_path / "calm"))
    for name in ("match_units", "represent_clusters", "measure_threshold"):
        monkeypatch.setattr(run_module, name, refuse)
    for name in ("find_acquired_units", "score_clusters", "allocate"):
        monkeypatch.setattr(pipeline, name, refuse)
    run_module.pay(places, spec(), tmp_path / "run")
    assert outputs(tmp_path / "run") == calm
    assert sorted(p.name for p in (tmp_path / "run" / "records").iterdir()) == sorted(
        f"{n}.npz" for n in (*RECORDS, "owned_units", "nearest")
    )
