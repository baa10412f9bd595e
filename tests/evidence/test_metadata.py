"""Evidence by metadata: equal values match, empty ones never do, and the past stays immune beside lineage."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym import EvidenceGraph, ProviderMarket, Submission, get_mechanism
from datamarket_gym.data.submission import read_submission, write_submission
from datamarket_gym.errors import ParameterError, SubmissionError
from datamarket_gym.evidence.graph import seniority_ranks
from datamarket_gym.mechanism.pipeline import acquired_from, find_acquired_units


def units(marks, **columns):
    count = len(marks)
    made = {
        "id": [f"u{i}" for i in range(count)],
        "identity": [f"p{i}" for i in range(count)],
        "features": np.eye(count),
        "metadata": {"watermark": np.array(marks, dtype=object)},
    }
    return Submission(**{**made, **columns})


def groups(label):
    return {frozenset(np.flatnonzero(label == code).tolist()) for code in set(label.tolist())}


def test_units_that_agree_are_matched_and_empty_cells_match_nothing():
    submission = units(["17", None, " 17 ", "", "  ", float("nan"), "4", None, "4", "a4"])
    clusters = EvidenceGraph.build(submission, "metadata@watermark")
    assert groups(clusters.label) == {
        frozenset(g) for g in ([0, 2], [6, 8], [1], [3], [4], [5], [7], [9])
    }
    assert set(clusters.edges.reason) == {"same watermark"}
    assert clusters.edges.score.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("column", ["licence", "source", "batch"])
def test_named_columns_count_too(column):
    submission = units(["1", "2", "3"], **{column: ["x", "", "x"]})
    assert groups(EvidenceGraph.build(submission, f"metadata@{column}").label) == {
        frozenset([0, 2]),
        frozenset([1]),
    }


def test_a_column_that_is_not_there_is_refused_by_name_with_those_that_are():
    with pytest.raises(SubmissionError, match=r"no column 'device', only licence, watermark; add it"):
        EvidenceGraph.build(units(["1", "2"], licence=["mit", "mit"]), "metadata@device")
    with pytest.raises(SubmissionError, match="only features and labels"):
        EvidenceGraph.build(units(["1", "2"], metadata={}), "metadata@device")
    with pytest.raises(ParameterError, match="name a column, as in metadata@licence"):
        EvidenceGraph.build(units(["1", "2"]), "metadata(column=' ')")


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow"])
def test_the_column_survives_files_subsets_and_joins(tmp_path, ending):
    submission = units(["17", None, "17", "4"])
    write_submission(submission, tmp_path / f"units.{ending}")
    read = read_submission(tmp_path / f"units.{ending}")
    frame = Submission.from_frame(submission.to_arrow())
    joined = Submission.concat([submission.take([0, 1]), submission.take([2, 3])])
    mask = np.array([True, False, True, True])
    for each in (read, frame, joined):
        label = EvidenceGraph.build(each, "metadata@watermark").label
        assert groups(label) == {frozenset([0, 2]), frozenset([1]), frozenset([3])}
        part = EvidenceGraph.build(each.take(mask), "metadata@watermark").label
        assert groups(part) == {frozenset([0, 1]), frozenset([2])}


def cloud(count, seed, prefix, start):
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(12, 4))
    rows = base[rng.integers(12, size=count)] + rng.choice(
        [0.0, 0.02, 0.3], size=(count, 1)
    ) * rng.normal(size=(count, 4))
    marks = rng.choice(np.array([None, None, "1", "2", "3", "4"], dtype=object), size=count)
    return Submission(
        id=[f"{prefix}{i}" for i in range(count)],
        identity=[f"{prefix}{i % 5}" for i in range(count)],
        features=rows,
        time=start + rng.integers(0, 10, size=count),
        metadata={"mark": marks},
    )


def roots(submission, evidence):
    """The id of the most senior unit in the cluster of each unit, by content where several are."""
    label = EvidenceGraph.build(submission, evidence, tie_breaker="x").label
    rank, first = seniority_ranks(submission, "x"), {}
    for unit in np.argsort(rank, kind="stable").tolist():
        first.setdefault(label[unit], submission.id[unit])
    return {unit: first[code] for unit, code in zip(submission.id.tolist(), label.tolist(), strict=True)}


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    evidence=st.sampled_from(["metadata@mark", "lineage(theta=0.9, metadata=mark)"]),
)
def test_the_past_is_immune(seed, evidence):
    """Later units, whatever marks they bear and whatever they resemble, change nobody's ownership before them."""
    past, later = cloud(50, seed, "past", 0), cloud(70, seed, "later", 20)
    before, after = roots(past, evidence), roots(Submission.concat([past, later]), evidence)
    assert {unit: after[unit] for unit in before} == before
    order = np.random.default_rng(seed).permutation(50)
    shuffled = roots(past.take(order), evidence)
    assert len(set(shuffled.values())) == len(set(before.values()))


def test_in_lineage_a_unit_descends_from_the_first_that_bears_its_mark():
    submission = units(
        ["9", "9", "9", None, "9"],
        features=np.array([[1.0, 0], [0, 1.0], [0, 1.0], [1.0, 0.01], [0.5, 0.5]]),
        time=[1, 2, 3, 4, 5],
        source=["u0", "u1", "u2", "u3", "u3"],
    )
    clusters = EvidenceGraph.build(submission, "lineage(theta=0.95, metadata=watermark)")
    edges = clusters.edges
    found = set(zip(edges.left.tolist(), edges.right.tolist(), edges.reason.tolist(), strict=True))
    assert found == {
        (0, 1, "same metadata"), (0, 2, "same metadata"), (0, 3, "lineage"), (0, 4, "same metadata"),
    }  # fmt: skip
    trusted = EvidenceGraph.build(
        submission, "lineage(theta=0.95, sources=True, metadata=watermark)"
    ).edges
    assert (3, 4, "trusted source") in set(
        zip(trusted.left.tolist(), trusted.right.tolist(), trusted.reason.tolist(), strict=True)
    )


def test_units_of_earlier_periods_are_recognised_by_the_mark():
    market = ProviderMarket.from_task("synthetic(n_providers=3, per_provider=8)", learner="coverage")
    honest = market.honest.submission
    first, second = (
        honest.take(rows, {"id": np.array([f"{name}{i}" for i in range(12)])})
        for name, rows in (("a", np.arange(12)), ("b", np.arange(12, 24)))
    )
    marks = np.array([str(i) for i in range(12)], dtype=object)
    first = Submission(**first._columns(), metadata={"mark": marks})
    second = Submission(**second._columns(), metadata={"mark": np.where(np.arange(12) < 2, marks, None)})
    chosen = get_mechanism("quotient_shapley/metadata@mark", granularity="unit")
    oracle = market.utility_oracle()
    known = find_acquired_units(chosen, second, oracle.given(acquired_from(chosen.pay(first, oracle))))
    assert known.unit.tolist() == [0, 1]
