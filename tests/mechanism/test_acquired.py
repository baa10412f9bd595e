"""A later period: what was acquired before earns nothing, and the rest is worth what it adds."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym import AcquiredData, Submission, UtilityOracle, acquired_from, get_mechanism
from datamarket_gym.data.acquired import joined
from datamarket_gym.errors import LeakError, ParameterError, SubmissionError
from datamarket_gym.evidence.threshold import measure_threshold
from datamarket_gym.mechanism.pipeline import find_acquired_units
from datamarket_gym.utilities.oracle import Utility

WIDTH = 24


def units(rng, owners, each, prefix, start=0.0):
    n = len(owners) * each
    return Submission(
        id=np.array([f"{prefix}{i}" for i in range(n)]),
        identity=np.repeat(owners, each),
        features=rng.normal(size=(n, WIDTH)),
        label=rng.integers(0, 2, n),
        time=start + rng.permutation(n).astype(float),
    )


def market(seed=0):
    """A period, a later one by others, and what both are valued by."""
    rng = np.random.default_rng(seed)
    june = units(rng, ["ann", "ben"], 12, "j")
    july = units(rng, ["cy", "dee"], 10, "k", 100.0)
    rows, label = rng.normal(size=(60, WIDTH)), np.arange(60) % 2
    return june, july, UtilityOracle(rows, label, Utility("coverage"))


def recommended(**changes):
    return get_mechanism("recommended", **{"evidence": "lineage@0.9", **changes})


def again(source, rows, identity, prefix, sigma=0.0, time=0.0):
    """Some units once more, under another name, at whatever time."""
    rng = np.random.default_rng(7)
    noise = rng.normal(scale=sigma, size=(len(rows), WIDTH)) if sigma else 0.0
    return source.take(
        np.asarray(rows),
        {
            "id": np.array([f"{prefix}{r}" for r in rows]),
            "identity": np.full(len(rows), identity),
            "features": source.features[rows] + noise,
            "time": np.full(len(rows), time),
        },
    )


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    sigma=st.sampled_from([0.0, 1e-9, 0.05]),
    time=st.sampled_from([-1e9, 0.0, 1e9]),
    who=st.sampled_from(["ann", "cy", "eve"]),
)
def test_what_was_acquired_earns_nothing_and_changes_no_bit_of_other_pay(seed, sigma, time, who):
    june, july, utility = market(seed)
    m = recommended()
    given_june = utility.given(acquired_from(m.pay(june, utility)))
    honest = m.pay(july, given_june)
    copies = again(june, np.arange(0, 24, 2), who, "again", sigma, time)
    stolen = m.pay(Submission.concat([copies, july]), given_june)
    assert stolen.acquired.unit.tolist() == list(range(12))
    for name, amount in honest.as_dict().items():
        assert stolen.as_dict()[name] == amount
    assert stolen.as_dict()[who] == honest.as_dict().get(who, 0.0)


def test_a_period_is_worth_what_it_adds():
    june, july, utility = market()
    paid = recommended().pay(june, utility)
    later = recommended().pay(july, utility.given(acquired_from(paid)))
    both = recommended().pay(Submission.concat([june, july]), utility)
    assert later.grand_value == pytest.approx(both.grand_value - paid.grand_value, abs=1e-12)
    assert later.totals.sum() == pytest.approx(later.grand_value, abs=1e-9)


def test_copies_of_the_first_period_belong_to_whom_they_belonged_then():
    june, july, utility = market()
    copied = again(june, [0, 1, 2], "attacker", "copy", 0.01, 50.0)
    paid = recommended().pay(Submission.concat([june, copied]), utility)
    acquired = acquired_from(paid)
    owner = dict(zip(acquired.units.id.tolist(), acquired.units.identity.tolist(), strict=True))
    assert {owner[f"copy{r}"] for r in (0, 1, 2)} == {"ann"}
    assert len(acquired.canonical) == len(june)
    later = recommended().pay(
        Submission.concat([july, again(copied, [1], "cy", "third")]), utility.given(acquired)
    )
    assert later.acquired.unit.tolist() == [20]
    assert acquired.units.id[later.acquired.old[0]] == "copy1"


def test_copies_of_old_units_take_nobody_else_with_them():
    """An attacker's early noisy copy of an old unit reaches farther than that; honest units there are not matched."""
    june, july, utility = market()
    acquired = acquired_from(recommended().pay(june, utility))
    base = june.features[3] / np.linalg.norm(june.features[3])
    away = np.linalg.svd(base[None])[2][1]

    def turned(angle):
        return np.cos(angle) * base + np.sin(angle) * away

    some = july.take(
        np.array([0, 1]),
        {
            "id": np.array(["near", "far"]),
            "identity": np.array(["attacker", "cy"]),
            "features": np.stack([turned(0.4), turned(0.8)]),  # cosine .92 a step, .70 for both
            "time": np.array([1.0, 2.0]),
        },
    )
    given_june = utility.given(acquired)
    paid = recommended().pay(Submission.concat([july, some]), given_june)
    assert paid.acquired.unit.tolist() == [20]
    assert acquired.units.id[paid.acquired.old].tolist() == ["j3"]
    assert paid.acquired.score == pytest.approx(np.cos([0.4]))
    assert paid.acquired.reason.tolist() == ["lineage"]
    alone = recommended().pay(Submission.concat([july, some.take(np.array([1]))]), given_june)
    assert not len(alone.acquired)
    assert {name: paid.as_dict()[name] for name in ("cy", "dee")} == alone.as_dict()


def test_ties_among_new_units_stay_as_they_were():
    june, july, utility = market()
    twice = Submission.concat([july, again(july, [4, 5], "eve", "twice", 0.01, 500.0)])
    given_june = utility.given(acquired_from(recommended().pay(june, utility)))
    with_old = Submission.concat([again(june, [1, 2], "eve", "old", 0.01, -5.0), twice])
    paid = recommended().pay(with_old, given_june)
    assert paid.acquired.unit.tolist() == [0, 1]
    edges = paid.clustering.edges
    pairs = {tuple(sorted(pair)) for pair in zip(edges.left, edges.right, strict=True)}
    assert pairs == {(4, 20), (5, 21)}
    assert paid.clustering.n_clusters == 20


@pytest.mark.parametrize("evidence", ["exact_hash", "cosine@0.9", "lineage@0.9", "lineage@none"])
def test_every_layer_finds_what_was_acquired(evidence):
    june, july, utility = market()
    acquired = acquired_from(recommended().pay(june, utility))
    mixed = Submission.concat([july, again(june, [5, 7], "eve", "old")])
    known = find_acquired_units(recommended(evidence=evidence), mixed, utility.given(acquired))
    assert known.unit.tolist() == [20, 21]
    assert acquired.units.id[known.old].tolist() == ["j5", "j7"]
    assert not len(find_acquired_units(recommended(evidence=evidence), mixed, utility))


@pytest.mark.parametrize(
    "evidence", ["cosine@0.9", "hybrid_hash_cosine@0.9", "exact_hash", "lineage@0.9", "lineage@none"]
)
@pytest.mark.parametrize("sigma", [0.0, 0.02])
def test_copies_submitted_twice_are_known_twice(evidence, sigma):
    june, july, utility = market()
    given_june = utility.given(acquired_from(recommended().pay(june, utility)))
    once = again(june, [5, 7, 9], "eve", "once", sigma)
    twice = replace(once, id=np.array(["a", "b", "c"]), identity=np.full(3, "mallory"))
    everything = Submission.concat([once, july, twice])
    known = find_acquired_units(recommended(evidence=evidence), everything, given_june)
    alone = [
        row
        for row in range(len(everything))
        if len(
            find_acquired_units(
                recommended(evidence=evidence), everything.take(np.array([row])), given_june
            )
        )
    ]
    assert known.unit.tolist() == alone
    if not sigma or "0.9" in evidence:
        assert alone == [0, 1, 2, 23, 24, 25]


def test_evidence_that_ties_people_does_not_say_that_their_new_units_were_acquired():
    june, july, utility = market()
    june = replace(june, metadata={"account": june.identity})
    july = replace(july, identity=np.repeat(["ann", "dee"], 10))
    july = replace(july, metadata={"account": july.identity})
    m = get_mechanism("quotient_shapley/linkage(keys=account)", samples=8)
    given_june = utility.given(acquired_from(m.pay(june, utility)))
    paid = m.pay(july, given_june)
    assert not len(paid.acquired)
    assert paid.as_dict() == get_mechanism("shapley").pay(july, given_june).as_dict()
    for name in ("uniform", "per_example"):
        paid = get_mechanism(name).pay(july, given_june)
        assert paid.totals.sum() == pytest.approx(paid.grand_value)


def test_where_identities_play_one_acquired_unit_is_set_aside_alone():
    june, july, utility = market()
    m = get_mechanism("quotient_shapley/exact_hash", samples=8)
    acquired = acquired_from(recommended().pay(june, utility))
    mixed = Submission.concat([july, again(june, [0], "cy", "old"), again(june, [0], "dee", "old too")])
    paid, honest = m.pay(mixed, utility.given(acquired)), m.pay(july, utility.given(acquired))
    assert paid.acquired.unit.tolist() == [20, 21]
    assert paid.as_dict() == honest.as_dict()


def test_rows_of_known_units_are_those_of_the_whole_submission():
    june, july, utility = market()
    leaked = again(july, [0], "eve", "leak")
    leaked = replace(leaked, features=utility.features[:1].copy(), label=utility.label[:1])
    given_june = utility.given(acquired_from(recommended().pay(june, utility)))
    everything = Submission.concat([leaked, july, again(june, [3], "eve", "old")])
    with pytest.warns(UserWarning, match="excluded"):
        paid = recommended().pay(everything, given_june)
    assert (paid.leaks.unit.tolist(), paid.acquired.unit.tolist()) == ([0], [21])
    assert len(paid.clustering.label) == 20
    assert "1 unit acquired before" in paid.title


def test_validation_rows_that_were_acquired_are_told():
    june, july, utility = market()
    acquired = acquired_from(recommended().pay(june, utility))
    rows = np.concatenate([utility.features[:40], june.features[:20]])
    again_june = UtilityOracle(rows, np.arange(60) % 2, Utility("coverage")).given(acquired)
    with pytest.warns(
        UserWarning, match="20 of the 60 validation rows were acquired .* row 40, so nobody"
    ):
        recommended().pay(july, again_june)
    with pytest.raises(LeakError, match="take rows that nobody has sold"):
        recommended(leak_check="error").pay(july, again_june)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recommended(leak_check="off").pay(july, again_june)


def test_a_label_that_only_a_acquired_unit_has_is_nobodys():
    june, july, utility = market()
    acquired = acquired_from(recommended().pay(june, utility))
    label = np.concatenate([utility.label[:59], [2]])
    votes = UtilityOracle(utility.features, label, Utility("knn")).given(acquired)
    relabelled = replace(again(june, [0], "eve", "old"), label=np.array([2]))
    for submission in (july, Submission.concat([july, relabelled])):
        with pytest.raises(SubmissionError, match="unseen"):
            recommended().pay(submission, votes)


def leaky(count=3, n=120):
    """June with units that are validation rows, nearly; July; what both are valued by; and those units."""
    june, july, _ = market()
    rng = np.random.default_rng(3)
    rows, label = rng.normal(size=(n, WIDTH)), np.arange(n) % 2
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    leaks = again(june, np.arange(count), "ann", "leak", time=500.0)
    leaks = replace(leaks, features=rows[:count] + 1e-4, label=label[:count])
    return Submission.concat([june, leaks]), july, UtilityOracle(rows, label, Utility("coverage")), leaks


@pytest.mark.filterwarnings("ignore::datamarket_gym.errors.LeakedRowsWarning")
def test_changed_copies_of_units_that_were_set_aside_are_known():
    """What lies near a validation row is worth most; it was set aside in June, and is no leak any more in July."""
    june, july, utility, leaks = leaky()
    m = recommended(evidence="lineage@0.7")
    paid = m.pay(june, utility)
    assert paid.leaks.id.tolist() == leaks.id.tolist()
    acquired = acquired_from(paid)
    assert len(acquired.canonical) == len(june) - 3 == len(acquired) - 3
    copies = again(leaks, np.arange(3), "eve", "copy", 0.16, 50.0)
    later = m.pay(Submission.concat([july, copies]), utility.given(acquired))
    assert not len(later.leaks)
    assert acquired.units.id[later.acquired.old].tolist() == leaks.id.tolist()
    assert later.as_dict()["eve"] == 0.0
    blind = AcquiredData(acquired.units.take(acquired.canonical), np.arange(len(acquired.canonical)))
    unknown = m.pay(Submission.concat([july, copies]), utility.given(blind)).as_dict()
    assert (
        unknown["eve"] / 3 > 3 * (unknown["cy"] + unknown["dee"]) / 20
    )  # a unit of hers and one of theirs


@pytest.mark.filterwarnings("ignore::datamarket_gym.errors.LeakedRowsWarning")
def test_units_that_were_set_aside_lift_no_threshold():
    june, july, utility, _ = leaky(count=12)
    m = get_mechanism("recommended")
    acquired = acquired_from(m.pay(june, utility))
    blind = AcquiredData(acquired.units.take(acquired.canonical), np.arange(len(acquired.canonical)))
    assert len(acquired) > len(blind)
    found = measure_threshold(july, utility.given(acquired))
    assert found == measure_threshold(july, utility.given(blind))
    paid_for = UtilityOracle(utility.features, utility.label, utility.utility)
    everything = Submission.concat([june, july])
    assert measure_threshold(everything, paid_for).density > found.density


def test_nothing_new_is_an_error_that_says_so():
    june, _, utility = market()
    given_june = utility.given(acquired_from(recommended().pay(june, utility)))
    with pytest.raises(SubmissionError, match="acquired before, so nothing is left"):
        recommended().pay(again(june, np.arange(24), "eve", "x"), given_june)


def test_names_of_old_units_and_owners_decide_nothing():
    june, july, utility = market()
    acquired = acquired_from(recommended().pay(june, utility))
    same = replace(july, id=june.id[:20], identity=june.identity[:20])
    paid = recommended().pay(same, utility.given(acquired))
    plain = recommended().pay(july, utility.given(acquired))
    assert sorted(paid.scores.values.tolist()) == sorted(plain.scores.values.tolist())
    both = joined(acquired, same)
    assert len(np.unique(both.id)) == 44
    assert not set(both.identity[:24]) & set(both.identity[24:])


def test_the_threshold_looks_at_old_units_too():
    june, july, utility = market()
    given_june = utility.given(acquired_from(recommended().pay(june, utility)))
    wanted = measure_threshold(Submission.concat([june, july]), utility)
    found = measure_threshold(july, given_june)
    assert found.floor == wanted.floor != measure_threshold(july, utility).floor


def test_periods_are_put_together_under_their_names():
    june, july, utility = market()
    first = acquired_from(recommended().pay(june, utility))
    second = acquired_from(recommended().pay(july, utility.given(first)))
    both = AcquiredData.concat({"june": first, "july": second})
    assert len(both) == 44
    assert both.units.id[[0, 24]].tolist() == ["june:j0", "july:k0"]
    assert np.array_equal(both.features[-1], second.features[-1])
    august = again(july, [2, 3], "eve", "a")
    with pytest.raises(SubmissionError, match="nothing is left"):
        recommended().pay(august, utility.given(both))


def test_what_cannot_be_acquired_art_is_refused():
    june, july, utility = market()
    paid = recommended().pay(june, utility)
    acquired = acquired_from(paid)
    with pytest.raises(SubmissionError, match="without a unit"):
        AcquiredData(june, np.array([], dtype=np.int64))
    with pytest.raises(SubmissionError, match="each once"):
        AcquiredData(june, np.array([0, 0]))
    with pytest.raises(SubmissionError, match="no periods"):
        AcquiredData.concat({})
    made = recommended(representative="capped(kappa=1, pick=centroid)").pay(june, utility)
    with pytest.raises(SubmissionError, match="centroids"):
        acquired_from(made)
    narrow = replace(july, features=july.features[:, :5])
    with pytest.raises(SubmissionError, match="number"):
        recommended().pay(narrow, utility.given(acquired))
    other = replace(july, embedding=july.features)
    with pytest.raises(SubmissionError, match="embed"):
        recommended().pay(other, utility.given(acquired))
    words = AcquiredData(replace(june, label=june.label.astype(str)), acquired.canonical)
    with pytest.raises(SubmissionError, match="text"):
        recommended().pay(july, utility.given(words))
    with pytest.raises(ParameterError, match="oracle"):
        get_mechanism("quotient_shapley/oracle_latent").pay(july, utility.given(acquired))


def test_of_several_old_units_that_a_copy_is_tied_to_it_is_the_nearest():
    june, july, utility = market()
    near = again(june, [5], "ben", "near", 0.02)
    acquired = acquired_from(
        recommended(evidence="exact_hash").pay(Submission.concat([june, near]), utility)
    )
    for source, name in ((june.take(np.array([5])), "j5"), (near, "near5")):
        mixed = Submission.concat([july, again(source, [0], "eve", "copy", 1e-4)])
        known = find_acquired_units(recommended(evidence="cosine@0.9"), mixed, utility.given(acquired))
        assert known.unit.tolist() == [20]
        assert acquired.units.id[known.old].tolist() == [name]


def test_each_unit_that_is_trained_on_belongs_to_whoever_is_paid_for_it():
    """Where several units of a cluster are trained on, the second may be somebody else's than the first."""
    june, _, utility = market()
    also = again(june, [0], "eve", "also", 0.01, 50.0)
    both = get_mechanism(
        "quotient_shapley/cosine@0.9", granularity="unit", representative="capped(kappa=2)"
    )
    paid = both.pay(Submission.concat([june, also]), utility)
    acquired = acquired_from(paid)
    assert len(acquired.canonical) == len(june) + 1
    owner = dict(zip(acquired.units.id.tolist(), acquired.units.identity.tolist(), strict=True))
    assert (owner["j0"], owner["also0"]) == ("ann", "eve")


def test_no_name_of_a_new_unit_is_that_of_an_old_one():
    june, july, utility = market()
    acquired = acquired_from(recommended().pay(june, utility))
    odd = replace(july, id=np.array([f"*{i}" for i in range(20)]), identity=np.full(20, "*0"))
    both = joined(acquired, odd)
    assert len(np.unique(both.id)) == len(both)
    assert "*0" not in both.identity[: len(acquired)]
    assert not len(recommended().pay(odd, utility.given(acquired)).acquired)
