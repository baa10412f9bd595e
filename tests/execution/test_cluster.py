"""Tasks on a cluster: results as here, whoever dies meanwhile; and errors that say what to do."""

import os
import re
import subprocess
import sys
import time
from importlib import metadata

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from comparing import assert_near, require_same_rows
from dask_cluster import Counted
from datamarket_gym.analysis.redteam import audit
from datamarket_gym.errors import ClusterError, MissingExtraError, ParameterError
from datamarket_gym.execution import dask_cluster as core_cluster
from datamarket_gym.execution.dask_cluster import connection
from datamarket_gym.execution.parallel import (
    CELLS,
    Compute,
    compute,
    computing,
    device_named,
    executor,
    executor_of_steps,
    in_order,
    over_blocks,
)
from datamarket_gym.experiments import parse_spec, run_experiment
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks import Synthetic
from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.utilities.oracle import Utility
from repository import ROOT

SPANS = [(at, at + 20) for at in range(0, 600, 20)]


def products(seconds=0.0):
    """Work on blocks of rows that says who did it: a matrix of 2.4 MB goes along."""
    rows = np.random.default_rng(5).normal(size=(10_000, 30))

    def work(span):
        import os
        import time

        time.sleep(seconds)
        similar = rows[slice(*span)] @ rows.T
        return similar.argsort(axis=1)[:, :5], similar.sum(), os.getpid()

    return work


def equal(found, expected):
    return len(found) == len(expected) and all(
        np.array_equal(a, b) and x == pytest.approx(y, rel=1e-9)
        for (a, x, _), (b, y, _) in zip(found, expected, strict=True)
    )


@pytest.fixture(scope="module")
def here():
    return list(over_blocks(products(), SPANS, CELLS))


def test_blocks_are_as_here_in_order_and_counted(cluster, here):
    told = Counted()
    with computing(Compute(cluster=cluster.address, progress=told, least_pairs=CELLS)):
        near = list(over_blocks(products(), SPANS, CELLS - 1))
        assert {pid for *_, pid in near} == {os.getpid()}  # fewer pairs than are worth the way
        told.counts.clear()
        found = list(over_blocks(products(0.02), SPANS, CELLS))
    assert equal(found, here)
    assert equal(near, here)
    assert {pid for *_, pid in found} == set(cluster.whole())
    assert told.counts == [(i + 1, len(SPANS)) for i in range(len(SPANS))]


def test_a_matrix_that_two_pieces_of_work_hold_travels_once(cluster, here, monkeypatch):
    sent = []
    with computing(Compute(cluster=cluster.address, least_pairs=1)):
        scatter = connection()._client.scatter
        monkeypatch.setattr(
            connection()._client, "scatter",
            lambda found, **how: (sent.append(getattr(found, "nbytes", 0)), scatter(found, **how))[1],
        )  # fmt: skip
        for _ in range(2):
            assert equal(list(over_blocks(products(), SPANS, CELLS)), here)
    assert [size for size in sent if size] == [10_000 * 30 * 8]


def test_answers_are_not_all_made_before_they_are_wanted(cluster):
    with computing(Compute(cluster=cluster.address)):
        tasks = [(i,) for i in range(200)]
        made = (done for _, done in connection().each(lambda shared, i: i, None, tasks, ordered=True))
        assert next(made) == 0
        time.sleep(1.0)
        began = sum(map(len, connection()._client.has_what().values()))
        assert began < 40
        assert list(made) == list(range(1, 200))


def test_one_that_is_killed_costs_only_time(cluster, here):
    told = Counted(at=6, then=lambda: cluster.kill("one"))
    with computing(Compute(cluster=cluster.address, progress=told, least_pairs=1)):
        found = list(over_blocks(products(0.1), SPANS, CELLS))
    assert equal(found, here)
    assert len({pid for *_, pid in found}) == 2
    assert {pid for *_, pid in found[-6:]} == {cluster.workers["two"].pid}


def test_where_all_are_killed_what_they_held_is_sent_to_new_ones(cluster, here):
    old = set(cluster.whole())

    def all_die():
        cluster.kill(*(name for name in ("one", "two") if cluster.alive(name)))
        cluster.worker("one")

    told = Counted(at=6, then=all_die)
    with computing(Compute(cluster=cluster.address, progress=told, least_pairs=1)):
        found = list(over_blocks(products(0.05), SPANS, CELLS))
        all_die()  # between two pieces of work, the second of which takes the matrix for sent
        again = list(over_blocks(products(0.01), SPANS, CELLS))
    assert equal(found, here)
    assert equal(again, here)
    assert {pid for *_, pid in again} == {cluster.workers["one"].pid}
    assert not {pid for *_, pid in again} & old


def test_where_nobody_comes_back_it_says_so(cluster, monkeypatch):
    monkeypatch.setattr(core_cluster, "_PATIENCE", 2.0)
    with computing(Compute(cluster=cluster.address)):
        results = connection().each(lambda shared, i: i, None, [(i,) for i in range(400)])
        next(results)
        cluster.kill("one", "two")
        with pytest.raises(ClusterError, match="goes on where it stopped"):
            list(results)


def test_a_task_that_kills_its_workers_is_given_up(cluster, monkeypatch):
    monkeypatch.setattr(core_cluster, "_PATIENCE", 2.0)

    def dies(shared):
        import os

        os._exit(1)

    cluster.worker("three")
    cluster.worker("four")
    cluster.joined("three")
    cluster.joined("four")
    with (
        computing(Compute(cluster=cluster.address)),
        # Where what the task needs is lost with a worker before the fourth dies, there is nobody to send it to.
        pytest.raises(
            ClusterError,
            match=r"task 1 of 1 was tried several times.*--memory-limit|all of its workers are",
        ),
    ):
        list(connection().each(dies, None, [()]))


SMALL = """
name = "small"
title = "A small experiment of many cells"
seeds = 10
tasks = [{ task = "synthetic(n_providers=4, per_provider=20, validation=60)" }]
utilities = [{ learner = "knn(k=3, vote=majority)", empty = "none" }]
attacks = ["honest", "sybil_split_k@2", "near_duplicate_2x_sybils"]

[[mechanisms]]
name = "shapley"
"""


def test_an_experiment_whose_worker_is_killed_ends_with_the_same_numbers(cluster, tmp_path):
    spec = parse_spec(SMALL, "small.toml")
    run_experiment(spec, tmp_path / "here")
    told = Counted(at=4, then=lambda: cluster.kill("two"))
    with computing(Compute(cluster=cluster.address)):
        run_experiment(spec, tmp_path / "there", progress=told)
    (page,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "cluster.md").read_text(), re.S)
    shown = {}
    exec(page, shown)
    shown["run_there"](spec.model_copy(update={"seeds": 2}), tmp_path / "shown", cluster.address)
    assert cluster.address in (tmp_path / "shown" / "timings.json").read_text()
    require_same_rows(tmp_path / "there" / "results.parquet", tmp_path / "here" / "results.parquet")
    assert [done for done, _ in told.counts] == list(range(11))  # each cell once
    assert len(list((tmp_path / "there" / "cells").glob("cell-*"))) == 10
    assert cluster.address in (tmp_path / "there" / "timings.json").read_text()


def test_an_audit_whose_worker_is_killed_ends_with_the_same_gains(cluster, tmp_path):
    market = ProviderMarket.from_task(Synthetic(n_providers=3, per_provider=12, validation=50), 1)
    asked = market, get_mechanism("recommended"), market.utility_oracle(Utility("knn@3", "chance"))
    some = "sybil_split_k,exact_dup_2x_sybils,copycat"
    here = audit(*asked, only=some, out=tmp_path / "here")
    told = Counted(at=4, then=lambda: cluster.kill("one"))
    with computing(Compute(cluster=cluster.address)):
        there = audit(*asked, only=some, out=tmp_path / "there", progress=told)
        unkept = audit(*asked, only=some)
    for found in (there, unkept):
        assert_near(found.model_dump(mode="json"), here.model_dump(mode="json"))


def test_tasks_have_one_thread_and_know_what_the_caller_names(cluster):
    def seen(shared):
        import numpy as np
        from threadpoolctl import threadpool_info

        from datamarket_gym.execution.parallel import compute

        np.ones((100, 100)) @ np.ones((100, 100))
        by = compute()
        return {p["num_threads"] for p in threadpool_info()}, by.threads, by.memory, by.cluster

    with computing(Compute(cluster=cluster.address, memory=0.5)):
        ((_, found),) = executor_of_steps(4).each(seen, None, [()])
    assert found == ({1}, 1, 0.5, "")
    assert threadpool_info()
    assert executor_of_steps(4) == executor(4)


def test_errors_come_back_as_they_were_and_what_is_left_is_not_begun(cluster, tmp_path):
    def fails(shared, i):
        import time

        from datamarket_gym.errors import ParameterError

        time.sleep(0.2)
        (shared / str(i)).touch()
        if i == 2:
            raise ParameterError("theta", 2.0, "choose a value in [0, 1]")

    with computing(Compute(cluster=cluster.address)):
        with pytest.raises(ParameterError, match=r"theta = 2.0: choose a value in \[0, 1\]"):
            list(in_order(connection(), fails, tmp_path, [(i,) for i in range(100)]))
        time.sleep(0.6)  # what runs cannot be stopped
        left = len(list(tmp_path.iterdir()))
        time.sleep(1.0)
        assert len(list(tmp_path.iterdir())) == left < 12


PLUG = """
from dataclasses import dataclass
from datamarket_gym import register
from datamarket_gym.market.attacks import Attack
from my_helper import TIMES

@register("attack", "of_my_own")
@dataclass(frozen=True)
class Mine(Attack):
    times: int = TIMES
    def blocks(self, own):
        return []
"""
USES = """
import sys
from pathlib import Path
from datamarket_gym.execution.parallel import Compute, computing
from datamarket_gym.execution.parallel import executor_of_steps
from datamarket_gym.registry import load
load([Path(sys.argv[2])])

def seen(shared, i):
    from datamarket_gym import create
    return create("attack", f"of_my_own@{i}").times, create("attack", "of_my_own").times, type(shared).__name__

from my_plug import Mine
with computing(Compute(cluster=sys.argv[1])):
    print(sorted(executor_of_steps(1).each(seen, Mine(4), [(5,), (6,)])))
"""


def test_what_a_file_registers_travels_with_its_code(cluster, tmp_path):
    (tmp_path / "my_plug.py").write_text(PLUG)
    (tmp_path / "my_helper.py").write_text("TIMES = 3\n")
    found = subprocess.run(
        [sys.executable, "-c", USES, cluster.address, str(tmp_path / "my_plug.py")],
        capture_output=True, text=True, check=False, cwd=cluster.folder,
    )  # fmt: skip
    assert found.stdout.strip() == "[(0, (5, 3, 'Mine')), (1, (6, 3, 'Mine'))]", found.stderr


def test_workers_of_another_version_are_refused(cluster, monkeypatch):
    monkeypatch.setattr(metadata, "version", lambda name: "0.0.1")
    with (
        pytest.raises(
            ClusterError, match=r"worker tcp://.* and datamarket-gym \d.*, this process .* and 0\.0\.1"
        ),
        computing(Compute(cluster=cluster.address)),
    ):
        pass


def test_a_scheduler_that_is_not_there(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(core_cluster, "_CONNECT", 0.5)
    nowhere = "tcp://127.0.0.1:9"
    with (
        pytest.raises(ClusterError, match=rf"no scheduler at {nowhere}.*start one with: dask scheduler"),
        computing(Compute(cluster=nowhere)),
    ):
        pass
    assert compute() == Compute()


def test_without_the_extra_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(MissingExtraError, match=r"pip install 'datamarket-gym\[dask\]'"),
        computing(Compute(cluster="tcp://a:1")),
    ):
        pass


def test_what_does_not_go_together_is_refused_by_name(tmp_path):
    with pytest.raises(ParameterError, match="tcp://host:port"), computing(Compute(cluster="10.0.0.1")):
        pass
    with pytest.raises(ParameterError, match=r"device = 'cuda'.*cluster"):
        Compute(device="cuda", cluster="tcp://a:1")
    with pytest.raises(ParameterError, match="device = 'tpu'"):
        device_named("tpu")
    assert device_named("cpu") == "cpu"
    assert device_named("auto") in ("cpu", "cuda")
    with pytest.raises(ClusterError, match="no cluster is connected"):
        connection()


def test_what_is_of_this_machine_does_not_go_to_a_cluster(cluster, tmp_path):
    spec = parse_spec(SMALL, "small.toml")
    with computing(Compute(cluster=cluster.address)):
        with pytest.raises(ParameterError, match="cache"):
            run_experiment(spec, tmp_path / "run", cache=tmp_path / "fits")
        with pytest.raises(ParameterError, match="device"):
            run_experiment(spec, tmp_path / "run", device="cuda")
    assert not (tmp_path / "run").exists()
