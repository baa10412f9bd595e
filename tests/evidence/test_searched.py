"""The search for the nearest earlier row: equal to looking at every pair in float64, by less work."""

import threading
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym.data.content_keys import DistinctRows
from datamarket_gym.evidence import similarity_search as nearest
from datamarket_gym.evidence import similarity_search as searched
from datamarket_gym.evidence.similarity_bounds import Axes, Partitions, Plan, prefix_of
from datamarket_gym.evidence.similarity_search import (
    Device,
    Nearest,
    Search,
    nearest_acquired,
    nearest_by,
    off_in_half,
)
from datamarket_gym.execution import arrays
from datamarket_gym.execution.arrays import LowPrecisionRows, Mapped
from datamarket_gym.execution.parallel import Compute, computing

PLANS = [
    Plan(height=64, width=2048, partitions=1, groups=5, levels=()),
    Plan(height=50, width=40, partitions=7, groups=3, levels=(1, 2, 3)),
    Plan(height=33, width=64, partitions=4, groups=1, levels=(2,)),
    Plan(height=1000, width=1000, partitions=20, groups=2, levels=(1, 4, 8)),
]


def in_full(rows, least):
    """Every pair of different directions by the one product that decides, one row after the other."""
    distinct = DistinctRows(rows)
    unit = distinct[np.arange(len(distinct))]
    near, score = np.full(len(unit), -1), np.full(len(unit), -np.inf)
    for i in range(1, len(unit)):
        cosine = np.minimum(np.einsum("ij,ij->i", np.repeat(unit[i : i + 1], i, axis=0), unit[:i]), 1.0)
        if cosine.max() >= least:
            near[i], score[i] = cosine.argmax(), cosine.max()
    return near, score


def found_by(rows, least, plan):
    distinct = DistinctRows(rows)
    everyone = np.arange(len(distinct))
    return nearest._nearest(distinct, everyone, everyone, least, plan)


def market(kind, rng, n, width):
    """Rows that are hard in different ways."""
    rows = rng.normal(size=(n, width))
    if kind == "clusters":
        rows = rng.normal(size=(6, width))[rng.integers(6, size=n)] + 0.1 * rows
    if kind == "spectrum":
        rows *= np.arange(1, width + 1) ** -1.5
    if kind == "near copies":
        rows = rng.normal(size=width) + 10.0 ** rng.integers(-9, -3, size=(n, 1)) * rows
    if kind == "copies":
        rows = rows[rng.integers(max(1, n // 3), size=n)] * rng.choice([0.5, 1, 3], size=(n, 1))
    if kind == "grid":
        rows = rng.integers(-1, 2, size=(n, width)).astype(float)  # many zeros, many equal cosines
    if kind == "tiny":
        rows *= 10.0 ** -rng.integers(0, 300, size=(n, 1)).astype(float)
    if kind == "axis":
        rows = np.eye(width)[rng.integers(width, size=n)] + 1e-5 * rows
    return rows


KINDS = ["plain", "clusters", "spectrum", "near copies", "copies", "grid", "tiny", "axis"]


@settings(max_examples=200, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 10**6),
    n=st.integers(1, 150),
    width=st.sampled_from([8, 9, 24]),
    least=st.sampled_from([-1.0, -0.2, 0.0, 0.5, 0.95, 0.999999, 1.0]),
    plan=st.sampled_from([None, *PLANS]),
)
def test_the_answer_is_that_of_looking_at_every_pair(kind, seed, n, width, least, plan):
    rows = market(kind, np.random.default_rng(seed), n, width)
    for one, other in zip(in_full(rows, least), found_by(rows, least, plan), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_one_to_three_numbers(kind, width):
    rows = market(kind, np.random.default_rng(width), 200, width)
    for least in (-1.0, 0.0, 0.7, 1.0):
        for plan in (None, PLANS[0], Plan(30, 40, 5, 2, tuple(range(1, width)))):
            for one, other in zip(in_full(rows, least), found_by(rows, least, plan), strict=True):
                assert np.array_equal(one, other)


def test_pairs_exactly_at_the_threshold_and_just_below():
    """Half of the pairs have a cosine of .6 to the last bit: kept at .6, gone just above it, the first wins."""
    rng = np.random.default_rng(0)
    early = np.array([[1.0, 0, 0, 0]])
    angles = rng.normal(size=(300, 3))
    late = np.concatenate([np.full((300, 1), 3.0), np.eye(3)[rng.integers(3, size=300)] * 4.0], axis=1)
    late[::2, 1:] = 4 * arrays.directions(angles)[::2]
    rows = np.concatenate([early, late])
    for least in (0.6, np.nextafter(0.6, 1), np.nextafter(0.6, 0)):
        for plan in (None, *PLANS[:1], Plan(50, 40, 7, 3, (1, 2)), Plan(40, 64, 3, 1, (1,))):
            for one, other in zip(in_full(rows, least), found_by(rows, least, plan), strict=True):
                assert np.array_equal(one, other)


@pytest.mark.parametrize("noise", [1e-4, 1e-7, 1e-8, 1e-10])
def test_two_thousand_rows_that_are_all_but_one(noise):
    """What float32 cannot tell apart float64 does; what that cannot is decided pair by pair."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=24) + noise * rng.normal(size=(700 if noise < 1e-8 else 2000, 24))
    plan = Plan(256, 512, 3, 2, (4, 8))
    for one, other in zip(in_full(rows, 0.9), found_by(rows, 0.9, plan), strict=True):
        assert np.array_equal(one, other)


def test_pairs_in_question_are_decided_as_they_come_where_they_are_many(monkeypatch):
    """Memory holds so many pairs and no more; the answer is the same."""
    monkeypatch.setattr("datamarket_gym.evidence.similarity_search._PENDING", 50)
    monkeypatch.setattr("datamarket_gym.evidence.similarity_search._PAIRS", 20)
    rows = market("near copies", np.random.default_rng(5), 300, 9)
    held, offer = [], Nearest.offer

    def watched(self, row, *others):
        offer(self, row, *others)
        held.append(sum(len(part[0]) for part in self._pending))

    monkeypatch.setattr(Nearest, "offer", watched)
    for one, other in zip(in_full(rows, 0.5), found_by(rows, 0.5, PLANS[1]), strict=True):
        assert np.array_equal(one, other)
    assert 0 < max(held) <= 50


@pytest.mark.parametrize("level", range(5))
def test_whatever_level_is_chosen_the_bits_are_the_same(level, monkeypatch):
    """The few pairs that say what is cheapest decide nothing else."""
    rows = market("spectrum", np.random.default_rng(2), 400, 24)
    costs = np.where(np.arange(5) == level, 0.0, 1.0)
    monkeypatch.setattr(searched._Batch, "_costs", lambda *_: costs)
    plan = Plan(64, 100, 5, 3, (2, 4, 8, 12))
    for one, other in zip(in_full(rows, 0.3), found_by(rows, 0.3, plan), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("kind", ["plain", "spectrum", "near copies", "axis"])
def test_the_first_numbers_and_the_length_of_the_rest_never_say_too_little(kind):
    """The bound of every pair at every level, in float32, is no further below the cosine than its slack."""
    unit = arrays.directions(market(kind, np.random.default_rng(3), 200, 48))
    rotated = Axes.of(unit[:50], (2, 8, 24)).rotate(unit)
    cosine, off = unit @ unit.T, float(searched.slack_of(48)) / 2
    for level, m in enumerate((2, 8, 24)):
        prefix = rotated.prefix(level, m, slice(None))
        assert (prefix @ prefix.T >= cosine - off).all()
    assert np.abs(rotated.rows @ rotated.rows.T - cosine).max() <= off


def test_of_rows_that_lie_apart_few_pairs_are_looked_at_in_full():
    """The work is counted: were the bounds to stop working, answers would stay right and nobody would see it."""
    rng = np.random.default_rng(0)
    n, width = 8000, 128
    rows = rng.normal(size=(n, width)) * np.arange(1, width + 1) ** -0.5
    rows[-800:] = rows[rng.integers(n - 800, size=800)] + 0.01 * rng.normal(size=(800, width))
    distinct = DistinctRows(rows)
    plan = Plan.of(n, n, width, 2)
    assert plan.levels
    everyone = np.arange(n)
    for least, numbers, aside in ((0.95, 0.25, 0.002), (0.8, 0.5, 0.01)):
        search = Search(distinct, Partitions.of(distinct, everyone, plan), plan, least)
        batches = nearest.batches_of(distinct, everyone, search.partitions, plan)
        work = sum(search.counted(batch)[2] for batch in batches)
        assert work[0] < numbers * width * n * n / 2
        assert work[1] < aside * n * n / 2


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 10**6),
    n=st.integers(1, 150),
    least=st.sampled_from([-1.0, 0.0, 0.5, 0.95, 1.0]),
    held=st.sampled_from([10, 10**6]),
)
def test_a_device_that_multiplies_all_pairs_answers_the_same(kind, seed, n, least, held):
    """The lines that run on a graphics card, run by NumPy."""
    rows = market(kind, np.random.default_rng(seed), n, 9)
    distinct = DistinctRows(rows)
    everyone = np.arange(len(distinct))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("datamarket_gym.evidence.similarity_search._PENDING_ON_DEVICE", held)
        found = nearest_by(Device(np, "cpu", height=40, width=70), distinct, everyone, everyone, least)
    for one, other in zip(in_full(rows, least), found, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("kind", ["plain", "spectrum", "near copies", "axis", "tiny"])
def test_products_of_half_precision_are_off_by_less_than_stated(kind):
    unit = arrays.directions(market(kind, np.random.default_rng(4), 200, 48))
    half = unit.astype(np.float16)
    assert np.abs((half @ half.T).astype(float) - unit @ unit.T).max() < off_in_half(48) - 2.0**-11


def test_on_a_graphics_card_large_searches_are_the_devices(monkeypatch):
    asked = []
    monkeypatch.setattr(Device, "cuda", staticmethod(lambda: asked.append(1) or Device(np, "cpu")))
    rows = np.random.default_rng(0).normal(size=(4100, 10))
    plain = nearest.nearest_earlier(rows, 0.9)
    with computing(Compute(device="cuda")):
        nearest.nearest_earlier(rows[:100], 0.9)
        assert not asked
        there = nearest.nearest_earlier(rows, 0.9)
        assert asked
    for one, other in zip(plain, there, strict=True):
        assert np.array_equal(one, other)


def test_rows_are_hashed_while_a_graphics_card_multiplies(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(50, 10))
    plain, begun = nearest.nearest_rows(rows, 0.5), threading.Event()
    digests, found = DistinctRows._digests, nearest._search_new
    monkeypatch.setattr(DistinctRows, "_digests", lambda *given: begun.set() or digests(*given))
    monkeypatch.setattr(
        nearest, "_search_new", lambda *given: waited.append(begun.wait(20)) or found(*given)
    )
    waited = []
    with computing(Compute(device="cuda")):
        there = nearest.nearest_rows(rows, 0.5)
    assert waited == [True]
    for name in ("digest", "parent", "cosine"):
        assert np.array_equal(getattr(plain, name), getattr(there, name))


def test_new_rows_are_never_whole_in_float64():
    """They may be as many as the old; each thread made all of them directions."""
    rows, read = market("plain", np.random.default_rng(7), 31_000, 4), []
    new = Mapped(rows[:30_000], lambda some: read.append(len(some)) or some)
    found = nearest_acquired(rows[30_000:], new, 0.99)
    assert max(read) <= 1 << 14
    for one, other in zip(found, nearest_acquired(rows[30_000:], rows[:30_000], 0.99), strict=True):
        assert np.array_equal(one, other)


def test_memory_is_one_copy_in_single_precision_and_little_else():
    """At two sizes, of rows in half precision: 4 bytes a number and a few numbers a row, never 8 bytes a number."""
    width, sizes, peaks = 256, (10_000, 18_000), []
    for n in sizes:
        rng = np.random.default_rng(n)
        vectors = LowPrecisionRows([rng.normal(size=(n, width)).astype(np.float16)])
        with computing(Compute(threads=1)):
            tracemalloc.start()
            found = nearest.nearest_rows(vectors, 0.9)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert len(found.parent) == n
    grown = (peaks[1] - peaks[0]) / (sizes[1] - sizes[0])
    assert 4 * width < grown < 6 * width


def test_no_one_seller_is_the_sample_that_axes_are_made_from(monkeypatch):
    """One unit in a hundred, each at a place that an even sample would take, all in directions nobody else has."""
    monkeypatch.setattr("datamarket_gym.evidence.similarity_bounds._SAMPLE_PARTITIONS", 50)
    monkeypatch.setattr("datamarket_gym.evidence.similarity_bounds._SAMPLE", 50)
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(5000, 130)) * np.r_[np.ones(12), np.full(118, 0.01)]
    rows[np.linspace(0, 4999, 50).astype(int)] = rng.normal(size=(50, 130)) * (np.arange(130) >= 12)
    distinct = DistinctRows(rows)
    partitions = Partitions.of(distinct, np.arange(5000), Plan(256, 512, 3, 2, (12,)))
    assert np.median(partitions.rotated.rest) < 0.8
    short = prefix_of(distinct, 0.95, 1 << 30)
    assert short.rest
    assert np.median(short.short[:, -1]) < 0.8
