"""Coverage in blocks: the plain formula in float64, whatever is compiled, kept, streamed, renamed or on a device."""

import dataclasses
import pickle
import subprocess
import sys

import numpy as np
import pytest

from datamarket_gym.execution.arrays import LowPrecisionRows
from datamarket_gym.execution.parallel import Compute, computing
from datamarket_gym.games import Banzhaf, Shapley
from datamarket_gym.utilities import TrainingRows, ValidationRows, accelerators, coverage
from datamarket_gym.utilities.accelerators import CudaArrays, HostArrays
from datamarket_gym.utilities.coverage import (
    Coverage,
    RowValues,
    covered_rows,
    decisive_probabilities,
)

N, ROWS, GROUPS = 700, 45, 4
ALWAYS, NEVER = 0, 1 << 62


def market(seed=0, classes=3, several=True):
    """Some units are equal, some nearly, and some players have several."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(N, 6)).astype(np.float16).astype(np.float64)
    features[20:60] = features[3]
    features[60:90] = features[4] * (1 + 1e-14 * rng.normal(size=(30, 6)))  # nearly the same direction
    label = rng.integers(classes, size=N)
    player = np.arange(N)
    if several:
        player = np.unique(
            np.where(rng.random(N) < 0.2, rng.integers(N, size=N), player), return_inverse=True
        )[1]
    held = ValidationRows(rng.normal(size=(ROWS, 6)), rng.integers(classes, size=ROWS))
    return TrainingRows(features, label, player, int(player.max()) + 1, classes), held


def plainly(learner, rows, validation, group):
    """phi by groups: the formula, a validation row and a player after the other."""
    c = learner.baseline_similarity(validation.features)
    unit, towards = (
        x / np.linalg.norm(x, axis=1, keepdims=True) for x in (rows.features, validation.features)
    )
    out = np.zeros((group.max() + 1, rows.n_players))
    for z in range(len(towards)):
        g = np.zeros(rows.n_players)
        near = np.clip((unit @ towards[z] - c) / (1 - c), 0, 1)
        if learner.labels:
            near[rows.label != validation.label[z]] = 0
        np.maximum.at(g, rows.player, near)
        order = np.argsort(-g, kind="stable")
        ranked = np.append(g[order], 0)
        steps = (ranked[:-1] - ranked[1:]) / np.arange(1, len(g) + 1)
        out[group[z], order] += np.cumsum(steps[::-1])[::-1]
    return out / np.bincount(group)[:, None]


@pytest.mark.parametrize("several", [True, False])
@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("compiled_from", [ALWAYS, NEVER])
def test_blocks_give_what_the_formula_gives(monkeypatch, compiled_from, labels, several):
    monkeypatch.setattr(coverage, "_COMPILED_FROM", compiled_from)
    rows, validation = market(several=several)
    learner, group = Coverage(0.3, labels, "cosine"), np.arange(ROWS) % GROUPS
    found = learner.scorer(rows, validation).closed_form_by_group(Shapley(), 0.0, group)
    np.testing.assert_allclose(found, plainly(learner, rows, validation, group), rtol=1e-11, atol=1e-16)


LEARNERS = [
    Coverage(0.3),
    Coverage(0.3, labels=False),
    Coverage(0.3, cap=0.5),
    Coverage(0.3, similarity="combined@cosine+standardised", cap=0.2, saturation=4),
]


@pytest.mark.parametrize("learner", LEARNERS)
def test_compiled_loops_and_numpy_agree(monkeypatch, learner):
    pytest.importorskip("numba")
    rows, validation = market(several=learner.saturation == 1)
    told = []
    for compiled_from in (ALWAYS, NEVER):
        monkeypatch.setattr(coverage, "_COMPILED_FROM", compiled_from)
        scorer = learner.scorer(rows, validation)
        assert scorer.row_values(np.empty(0)).compiled == (compiled_from == ALWAYS)
        everybody = np.arange(rows.n_players)
        covered = covered_rows(scorer, Shapley(), 3, everybody, everybody % 7, 7)
        coalitions = np.random.default_rng(1).random((5, rows.n_players)) < 0.5
        told.append(
            [
                scorer.closed_form_by_group(Shapley(), 0.0, np.arange(ROWS) % GROUPS),
                scorer.closed_form(Banzhaf(), 0.0),
                scorer.utility(coalitions),
                *(
                    getattr(covered, name)
                    for name in ("value", "nearest", "row", "degree", "part", "place", "well")
                ),
                covered.counts,
                covered.groups,
            ]
        )
    for one, other in zip(*told, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15)


NUMBERS = {
    "spread": np.random.default_rng(0).random(5000),
    "equal": np.repeat(np.random.default_rng(1).random(40), 50),
    "closer together than the bins": 0.5 + 1e-13 * np.random.default_rng(2).random(5000),
    "nearly all of them": np.append(0.5 + 1e-13 * np.random.default_rng(3).random(5000), 1.0),
    "below what can be divided": 1e-300 * np.random.default_rng(4).random(600),
    "falling": np.linspace(1, 0, 3000),
    "one number": np.full(900, 0.25),
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("baseline", [0.0, 0.3])
def test_players_come_in_their_order(name, baseline):
    numbers = NUMBERS[name]
    wanted = np.sort(numbers[numbers > baseline])
    for pairs in (0, NEVER) if coverage.find_spec("numba") else (0,):
        who, g = RowValues(0.0, np.empty(0), pairs).rank(numbers, baseline)
        assert (g == wanted).all()
        assert (numbers[who] == g).all()
        assert len(np.unique(who)) == len(who)


@pytest.mark.parametrize("compiled_from", [ALWAYS, NEVER])
def test_order_names_storage_and_memory_do_not_matter(monkeypatch, compiled_from):
    monkeypatch.setattr(coverage, "_COMPILED_FROM", compiled_from)
    rows, validation = market(several=False)
    group, learner = np.arange(ROWS) % GROUPS, Coverage(0.3)
    features = rows.features.astype(np.float16)
    rows = dataclasses.replace(rows, features=features.astype(np.float64))
    plain = learner.scorer(rows, validation).closed_form_by_group(Shapley(), 0.0, group)
    shuffled = np.random.default_rng(5).permutation(N)
    other = TrainingRows(
        LowPrecisionRows([features[shuffled][:300], features[shuffled][300:]]),
        rows.label[shuffled],
        rows.player,
        N,
        3,
    )
    with computing(Compute(memory=1e-6)):  # nothing is kept
        moved = learner.scorer(other, validation).closed_form_by_group(Shapley(), 0.0, group)
    np.testing.assert_allclose(moved, plain[:, shuffled], rtol=1e-12, atol=1e-16)
    equal = plain[:, 20:60][:, rows.label[20:60] == rows.label[3]]
    assert (equal == plain[:, [3]]).all()


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_device_gives_the_same_values(monkeypatch, kind, given, learner):
    if kind == "torch":
        pytest.importorskip("torch")
    arrays = HostArrays() if kind == "numpy" else CudaArrays("cpu")
    monkeypatch.setattr(accelerators, "CudaArrays", lambda device: arrays)
    if given and learner.saturation > 1:
        pytest.skip("refused with previously acquired data")
    rows, validation = market(several=learner.saturation == 1)
    group = np.arange(ROWS) % GROUPS

    def values(device):
        scorer = learner.scorer(rows, validation)
        if given:
            some = TrainingRows(rows.features[90:99], rows.label[90:99], np.zeros(9, int), 1, 3)
            scorer = learner.scorer_given(rows, some, validation)
        with computing(Compute(device=device)):
            by_group = scorer.closed_form_by_group(Shapley(), 0.0, group)
        return by_group, scorer.utility(np.ones((1, rows.n_players), dtype=bool))

    for here, there in zip(values("cpu"), values("cuda"), strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-12, atol=1e-16)


def test_work_travels_and_answers_do_not_grow_with_validation_rows():
    cloudpickle = pytest.importorskip("cloudpickle")
    rows, validation = market()
    scorer = Coverage(0.3, False).scorer(rows, validation)
    work = scorer.block_sums(
        decisive_probabilities(Shapley().size_weights(rows.n_players)), np.zeros(ROWS, dtype=np.int64)
    )
    part = scorer.label_groups[0]
    there = pickle.loads(cloudpickle.dumps(work))
    here, far = work(part, 0, ROWS), there(pickle.loads(cloudpickle.dumps(part)), 0, ROWS)
    assert (here[1] == far[1]).all()
    few = work(part, 0, 5)
    assert len(pickle.dumps(here)) - len(pickle.dumps(few)) < 16 * ROWS


PEAK = """
import resource, sys
import numpy as np
from datamarket_gym.execution.parallel import Compute, computing
from datamarket_gym.execution.arrays import LowPrecisionRows
from datamarket_gym.utilities import TrainingRows, ValidationRows
from datamarket_gym.utilities.coverage import Coverage
from datamarket_gym.games import Shapley

def market(n):
    rng = np.random.default_rng(0)
    features = np.concatenate([rng.normal(size=(500, 384)).astype(np.float16) for _ in range(n // 500)])
    rows = TrainingRows(LowPrecisionRows([features]), np.zeros(n, int), np.arange(n), n, 1)
    return rows, ValidationRows(rng.normal(size=(8, 384)), np.zeros(8, int))

def values(n):
    with computing(Compute(memory=0.001)):
        return Coverage().scorer(*given).closed_form(Shapley(), 0.0)

given = market(1000)
values(1000)
given = market(int(sys.argv[1]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
values(int(sys.argv[1]))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def test_peak_memory_grows_by_less_than_a_copy_of_the_units():
    """One float64 copy of 384 numbers is 3,072 bytes a unit; streamed, a unit takes less than half a kilobyte."""
    few, many = 30_000, 90_000
    peaks = [
        int(
            subprocess.run(
                [sys.executable, "-c", PEAK, str(n)], capture_output=True, text=True, check=True
            ).stdout
        )
        for n in (few, many)
    ]
    assert peaks[1] < peaks[0] + 512 * (many - few)
    assert peaks[1] < 40e6 + 512 * many
