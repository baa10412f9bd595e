"""What evidence compares of many units is worked out where it is read: the same to the bit, and no second matrix."""

import pickle
import tracemalloc

import numpy as np

from datamarket_gym.data.submission import Submission
from datamarket_gym.evidence.graph import Edges, clusters_by
from datamarket_gym.evidence.threshold import with_compared_vectors
from datamarket_gym.execution.arrays import WHOLE, LowPrecisionRows
from datamarket_gym.mechanism.pipeline import get_mechanism
from datamarket_gym.mechanism.quotient_game import QuotientGame
from datamarket_gym.mechanism.representatives import represent_clusters
from datamarket_gym.utilities.oracle import ReferenceRows, Utility, UtilityOracle

WIDTH = 64
N = 5 * (WHOLE // WIDTH) // 4
PEAK = 450  # bytes a unit; its row is 512, widened
SCALE = np.geomspace(1, 1000, WIDTH)


def table_oracle(**changes):
    rng = np.random.default_rng(1)
    return UtilityOracle(
        rng.normal(size=(50, WIDTH)) * SCALE, np.arange(50) % 2, Utility("coverage"), **changes
    )


def many_units():
    rng = np.random.default_rng(0)
    short = (rng.normal(size=(N, WIDTH)) * SCALE).astype(np.float32)
    number = np.arange(N).astype(str)
    units = Submission(
        number, np.full(N, "a"), LowPrecisionRows([short]), np.arange(N) % 2, time=np.arange(N) * 1.0
    )
    return units, short.astype(np.float64)


def test_many_units_are_compared_without_a_second_matrix():
    units, wide = many_units()
    utility = table_oracle()
    utility.embedded  # noqa: B018  worked out once for all
    keys = units.keys
    tracemalloc.start()
    seen, embedded = with_compared_vectors(units, utility)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
    assert seen.keys is keys
    assert embedded is utility.embedded
    wanted = utility.compared(wide)
    for rows in (slice(0, 700), slice(N - 1, N), np.array([N - 1, 5, 5])):
        np.testing.assert_array_equal(seen.vectors[rows], wanted[rows])
    few, _ = with_compared_vectors(units.take(np.arange(9)), utility)
    assert type(few.vectors) is np.ndarray
    np.testing.assert_array_equal(few.vectors, wanted[:9])


def test_many_units_are_represented_and_put_in_order_without_a_copy():
    units, wide = many_units()
    pairs = np.arange(0, N - 1, 10)
    clusters = clusters_by(units, Edges.of(pairs, pairs + 1, "same"), "unit")
    units.keys  # noqa: B018
    way = get_mechanism("recommended", evidence="none")
    tracemalloc.start()
    canonical = represent_clusters(clusters, way.representative)
    game = QuotientGame(canonical, table_oracle())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < PEAK * N  # keys and codes
    assert isinstance(canonical.features, LowPrecisionRows)
    some = np.arange(0, len(canonical.unit), 997)
    np.testing.assert_array_equal(canonical.features[some], wide[canonical.unit[some]])
    assert game.n_players == clusters.n_clusters


def test_an_oracle_that_has_compared_travels():
    reference = ReferenceRows(np.random.default_rng(2).normal(size=(30, WIDTH)) * SCALE)
    utility = table_oracle(reference=reference)
    embedded = utility.embedded
    again = pickle.loads(pickle.dumps(utility)).embedded
    np.testing.assert_array_equal(again.embedding, embedded.embedding)
    np.testing.assert_array_equal(again.reference.embedding, utility.compared(reference.features))
