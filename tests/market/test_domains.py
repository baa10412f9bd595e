"""The real domains as tasks: on the real files where they are, and on small stand-ins everywhere."""

import csv
import gzip
import json

import numpy as np
import pytest

from datamarket_gym.errors import DataMarketError, UnknownNameError
from datamarket_gym.experiments import builtin_specs, parse_spec, run_experiment
from datamarket_gym.market.datasets import DOMAINS, Embeddings, find, write_embeddings
from datamarket_gym.market.encoders.base import content_keys
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.registry import create


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A data folder with four classes of well-separated embeddings as AG News and CIFAR-10."""
    rng = np.random.default_rng(0)
    label = np.tile(np.arange(4), 100)
    centres = rng.normal(size=(4, 12))
    vectors = centres[label] + rng.normal(scale=0.7, size=(400, 12))
    train = np.arange(400) < 280
    for name in ("agnews", "cifar10"):
        file = tmp_path / DOMAINS[name].embeddings_file
        write_embeddings(file, Embeddings(vectors, label, train), content_keys("x", ["y"] * 400))
    with gzip.open(tmp_path / "agnews.csv.gz", "wt", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["text", "label", "split"])
        for i in range(400):
            writer.writerow([f"text number {i}", label[i], "train" if train[i] else "test"])
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")  # from here there is no other data
    monkeypatch.setenv("DATAMARKET_DATA", str(tmp_path))
    monkeypatch.setenv("DATAMARKET_CACHE", str(tmp_path / "cache"))
    return tmp_path


def rows_of(features, pool):
    where = {row.tobytes(): i for i, row in enumerate(pool)}
    return [where[row.tobytes()] for row in features]


def test_draws_respect_the_split_and_hand_no_row_out_twice(stand_in):
    task = create("task", "agnews(per_provider=20, validation=100)")
    pool = task.pool().vectors
    for seed in (0, 1):
        dataset = task.draw(seed).dataset
        assert len(set(rows_of(dataset.features, pool))) == 80  # training rows, each once
        assert len(dataset.validation_label) == 100
        held_out = {row.tobytes() for row in dataset.validation_features}
        assert not held_out & {row.tobytes() for row in dataset.features}
    first, again, other = (task.draw(seed).dataset.features for seed in (3, 3, 4))
    assert (first == again).all()
    assert (first != other).any()


def test_unused_training_rows_fill_the_validation_split_up(stand_in):
    dataset = create("task", "agnews(per_provider=20, validation=150)").draw(0).dataset
    assert len(dataset.validation_label) == 150  # the test split has 120
    held_out = {row.tobytes() for row in dataset.validation_features}
    assert len(held_out) == 150
    assert not held_out & {row.tobytes() for row in dataset.features}
    with pytest.raises(DataMarketError, match="rows left for validation, but 900 are asked"):
        create("task", "agnews(validation=900)").draw(0)


def test_content_travels_with_the_units(stand_in):
    market = ProviderMarket.from_task(create("task", "agnews(content=True, validation=50)"), 0)
    submission = market.honest.submission
    numbers = [int(text.split()[-1]) for text in submission.metadata["text"]]
    from datamarket_gym.market.datasets import load_embeddings

    everything = load_embeddings(stand_in / "agnews_minilm.npz").vectors
    assert (submission.features == everything[numbers]).all()
    assert market.state.encoder == "minilm"
    plain = ProviderMarket.from_task(create("task", "agnews(validation=50)"), 0).honest.submission
    assert (plain.features == submission.features).all()
    assert set(plain.metadata) == {"account"}


def test_embeddings_that_are_not_there(stand_in):
    with pytest.raises(DataMarketError, match="datamarket embed imdb"):
        create("task", "imdb").draw(0)
    with pytest.raises(UnknownNameError, match="partition"):
        create("task", "agnews(partition=alphabetical)")


SPEC = """
name = "tiny"
title = "A tiny domain"
kind = "domain"
seeds = 2
tasks = [{ task = "agnews(per_provider=10, validation=40)" }]
utilities = [{ learner = "knn@3" }]
attacks = ["honest", "sybil_split_k@2", "exact_dup_2x_sybils"]

[[mechanisms]]
name = "quotient_shapley/cosine@{theta}"
label = "cosine"
sweep = { theta = ["predicted", 0.5] }

[[mechanisms]]
name = "recommended/hybrid_hash_cosine@{theta}"
label = "recommended"
granularity = ["unit"]
representative = ["capped"]
sweep = { theta = ["predicted"] }

[options.units]
learner = "knn@5"
empty = "chance"
attacks = ["copycat"]

[ranges]
over = ["attack"]
where = { granularity = "unit" }
"""


def test_the_interval_is_on_record_before_the_sweep(stand_in, monkeypatch):
    out = stand_in / "run"
    spec = parse_spec(SPEC, "tiny.toml")
    from datamarket_gym.experiments import runner

    def nothing_yet(*_):
        written = json.loads((out / "admissibility.json").read_text())
        assert written["agnews(per_provider=10, validation=40)"]["sha256"]
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(runner, "compute", nothing_yet)
        with pytest.raises(KeyboardInterrupt):
            run_experiment(spec, out)
    before = (out / "admissibility.json").read_bytes()
    rows = run_experiment(spec, out)
    assert (out / "admissibility.json").read_bytes() == before
    theta = next(iter(json.loads(before).values()))["theta"]
    gain = {(r["mechanism"], r["attack"]): r for r in rows if r["metric"] == "gain"}
    assert gain["recommended", "sybil_split_2"]["value"] == 1.0
    assert gain["recommended", "copycat"]["value"] == pytest.approx(1.0)
    assert gain["recommended", "honest"]["theta"] == theta
    assert ("cosine", "copycat") not in gain  # only units face the further attacks
    worst = {r["family"]: r for r in rows if r["metric"] == "gain_highest"}
    assert set(worst) == {"all are honest", "splits, copies, junk"}
    false_names = [
        gain["recommended", a]["value"] for a in ("sybil_split_2", "exact_dup_2x_sybils", "copycat")
    ]
    assert worst["splits, copies, junk"]["value"] == max(false_names)
    cost = [r["value"] for r in rows if r["metric"] == "honest_cost"]
    assert len(cost) == 1
    assert 0 <= cost[0] < 0.2


def test_content_experiments_say_what_was_caught(stand_in, monkeypatch):
    pytest.importorskip("rensa")
    spec = builtin_specs()["content-agnews"]
    # No model in this test: the stand-in's features are made by n-grams of its texts.
    texts = [f"text number {i}" for i in range(400)]
    vectors = create("encoder", "ngrams").encode(texts)
    train = np.arange(400) < 280
    embeddings = Embeddings(vectors, np.tile(np.arange(4), 100), train)
    file = stand_in / DOMAINS["agnews"].embeddings_file
    write_embeddings(file, embeddings, content_keys("x", texts))
    from datamarket_gym.market.tasks import real_data as domains

    domains._embeddings.cache_clear()
    monkeypatch.setattr("datamarket_gym.market.attacks.content.stored", lambda _: _stored())
    small = spec.model_copy(
        update={
            "seeds": 1,
            "tasks": [spec.tasks[0].model_copy(update={"task": "agnews(validation=50, content=True)"})],
            "attacks": ["honest", "text_variants(how=casing, strength=3)"],
            "mechanisms": [m for m in spec.mechanisms if "{theta}" not in m.name],
        }
    )
    rows = run_experiment(small, stand_in / "content")
    caught = {r["mechanism"]: r["value"] for r in rows if r["metric"] == "caught"}
    assert caught == {"none": 0.0, "exact_hash": 1.0, "minhash": 1.0, "containment": 1.0}


def _stored():
    from datamarket_gym.market.encoders import stored

    return stored("ngrams")


REAL = [name for name in sorted(DOMAINS) if find(DOMAINS[name].embeddings_file)]


@pytest.mark.skipif(not REAL, reason="the embeddings of the real domains are not on this machine")
@pytest.mark.parametrize("name", REAL)
def test_real_markets_have_the_stated_shape(name):
    draw = create("task", name).draw(0)
    dataset, parts = draw.dataset, draw.provider_partition
    assert [len(part) for part in parts] == [50] * 4
    assert len(dataset.validation_label) == 500
    classes = [set(dataset.label[part].tolist()) for part in parts]
    if DOMAINS[name].kind == "image":
        assert [len(held) for held in classes] == [1] * 4
        assert len(set.union(*classes)) == 4
    else:
        assert set.union(*classes) == set(range(len(DOMAINS[name].classes)))


@pytest.mark.parametrize("name", ["cifar10", "stl10", "agnews", "imdb", "agnews-s9", "cifar10-s9"])
def test_the_experiments_are_there(name):
    spec = builtin_specs()[name]
    assert spec.kind == "domain"
    for task in spec.tasks:
        create("task", task.task)
    for attack in [*spec.attacks, *spec.options["units"].get("attacks", [])]:
        create("attack", attack)
