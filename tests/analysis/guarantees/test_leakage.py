"""Theorem 3 over thousands of random games, clusterings, allocations and manipulations."""

from itertools import permutations

import numpy as np
import pytest

from datamarket_gym.analysis.theorems import Comparison, NoMatchingError, decompose
from datamarket_gym.analysis.theorems.bounds import normalized_bound, theorem_bound
from datamarket_gym.games import Banzhaf, Beta, LeaveOneOut, Shapley, semivalues_from_table

SEMIVALUES = (Shapley(), Banzhaf(), Beta(), Beta(4.0, 1.0), LeaveOneOut())


def shares(rng, n):
    """Shares of one provider: some none, some all, some a part."""
    kind = rng.integers(0, 3, size=n)
    return np.where(kind == 0, 0.0, np.where(kind == 1, 1.0, rng.random(n)))


def random_sides(rng):
    """Scores of two random games (not monotone, of any sign), shares, and where the attacker is."""
    old, new = rng.integers(1, 6), rng.integers(1, 8)
    semivalue = SEMIVALUES[rng.integers(len(SEMIVALUES))]
    scores = []
    for n in (old, new):
        table = rng.normal(size=1 << n)
        table[0] = 0.0
        scores.append(semivalues_from_table(table, [semivalue])[0])
    share, honest = shares(rng, new), shares(rng, old)
    containing = (share > 0) | (rng.random(new) < 0.3)
    return Comparison(scores[0], honest, scores[1], share, containing)


def gain(sides, honest=None, new=None):
    honest = sides.honest_scores if honest is None else honest
    new = sides.scores if new is None else new
    return float(sides.share @ new - sides.honest_share @ honest)


@pytest.mark.parametrize("seed", range(4))
def test_the_gain_never_exceeds_the_bound(seed):
    rng = np.random.default_rng(seed)
    applied = 0
    for _ in range(1500):
        sides = random_sides(rng)
        if len(sides.candidates) < len(sides.paying):
            with pytest.raises(NoMatchingError, match="one to one"):
                decompose(sides)
            continue
        found = decompose(sides)
        applied += 1
        assert abs(gain(sides)) <= found.total + 1e-12
        eta = rng.random() * 0.2
        off = [s + eta * rng.uniform(-1, 1, len(s)) for s in (sides.honest_scores, sides.scores)]
        # the theorem itself: true terms, estimated payments
        assert abs(gain(sides, *off)) <= theorem_bound(found.total, len(sides.scores), eta) + 1e-12
        # the certificate: terms read off the estimates bound the true gain
        seen = Comparison(off[0], sides.honest_share, off[1], sides.share, sides.containing)
        guess = decompose(seen)
        assert abs(gain(sides)) <= guess.total + guess.error_of_terms(eta) + 1e-12
        assert found.total <= guess.total + guess.error_of_terms(eta) + 1e-12
    assert applied > 500


def test_any_admissible_matching_bounds_the_gain_and_the_best_is_the_least():
    rng = np.random.default_rng(9)
    tried = 0
    for _ in range(300):
        sides = random_sides(rng)
        paying, candidates = sides.paying, sides.candidates
        if not len(paying) or len(candidates) < len(paying) or len(candidates) > 5:
            continue
        best = decompose(sides).total
        totals = [
            decompose(sides, (np.array(order), paying)).total
            for order in permutations(candidates.tolist(), len(paying))
        ]
        tried += len(totals)
        assert all(abs(gain(sides)) <= total + 1e-12 for total in totals)
        assert min(totals) == pytest.approx(best, abs=1e-12)
    assert tried > 500


def test_a_wrong_matching_is_caught():
    sides = Comparison(
        np.array([0.5, 0.2, 0.1]),
        np.array([1.0, 0.5, 0.0]),
        np.array([0.4, 0.2, 0.3, 0.9]),
        np.array([1.0, 0.5, 1.0, 0.0]),
        np.array([True, True, True, False]),
    )
    decompose(sides, (np.array([0, 1]), np.array([0, 1])))
    for matched, partner, says in (
        ([0, 0], [0, 1], "matched twice"),  # many-to-one: reuses a cluster
        ([0, 1], [0, 0], "each used exactly once"),  # reuses an honest payment term
        ([0], [0], "each used exactly once"),  # leaves one out
        ([0, 1], [0, 2], "each used exactly once"),  # a cluster that never paid
        ([0, 3], [0, 1], "no unit"),  # somebody else's cluster
    ):
        with pytest.raises(NoMatchingError, match=says):
            decompose(sides, (np.array(matched), np.array(partner)))


def test_neutral_allocation_leaves_no_leakage_and_stability_leaves_nothing():
    rng = np.random.default_rng(1)
    for _ in range(500):
        n = rng.integers(1, 8)
        scores, share = rng.normal(size=n), shares(rng, n)
        order = rng.permutation(n)
        stable = Comparison(scores, share, scores[order], share[order], np.ones(n, dtype=bool))
        found = decompose(stable)
        assert (found.allocation, found.escape, found.drift) == (0.0, 0.0, 0.0)
        # neutral but not stable: the same shares, other scores, and the right matching
        other = Comparison(scores, share, rng.normal(size=n), share[order], np.ones(n, dtype=bool))
        back = np.argsort(order)
        assert decompose(other, (back[other.paying], other.paying)).allocation == 0.0


def test_each_channel_shows_what_it_should():
    one = np.array([1.0])
    merged = Comparison(one, one * 0.2, one, one * 0.6, np.array([True]))  # a share grew
    assert decompose(merged).allocation == pytest.approx(0.4)
    assert decompose(merged).total == pytest.approx(gain(merged))
    escaped = Comparison(one, one, np.array([1.0, 0.3]), np.ones(2), np.array([True, True]))
    assert decompose(escaped).escape == pytest.approx(0.3)
    drifted = Comparison(one, one, one * 1.4, one, np.array([True]))
    assert decompose(drifted).drift == pytest.approx(0.4)


def test_units_in_somebody_elses_cluster_carry_no_mass_without_a_share():
    sides = Comparison(
        np.array([0.2, 0.9]), np.array([1.0, 0.0]), np.array([0.2, 0.9]), np.array([1.0, 0.0]),
        np.array([True, True]),
    )  # fmt: skip
    assert decompose(sides).total == 0.0


def test_a_provider_whom_no_cluster_pays_has_everything_escaped():
    sides = Comparison(
        np.array([0.2]), np.zeros(1), np.array([0.2, 0.9]), np.array([0.0, 1.0]), np.array([True, True])
    )
    assert decompose(sides).escape == pytest.approx(0.9)


def test_large_assignments_are_quick():
    rng = np.random.default_rng(0)
    n = 1500
    sides = Comparison(
        rng.random(n), np.ones(n), rng.random(2 * n), np.ones(2 * n), np.ones(2 * n, bool)
    )
    found = decompose(sides)
    assert abs(gain(sides)) <= found.total


def test_the_normalised_lemma_always_holds():
    rng = np.random.default_rng(3)
    for _ in range(5000):
        x, xa = rng.normal(size=2)
        totals, grand = tuple(rng.uniform(0.05, 3.0, 2)), tuple(rng.normal(size=2))
        bound = normalized_bound(abs(xa - x), x, totals, grand)
        real = abs(grand[1] * xa / totals[1] - grand[0] * x / totals[0])
        assert real <= bound * (1 + 1e-9) + 1e-12
    with pytest.raises(Exception, match="both above zero"):
        normalized_bound(0.1, 0.2, (0.5, 0.0), (1.0, 1.0))
