"""Tasks give the same results in the same places, whoever computes them."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from datamarket_gym.errors import DataMarketError, ParameterError, UnknownNameError, UtilityError
from datamarket_gym.execution.parallel import (
    Compute,
    Processes,
    Serial,
    available_cores,
    compute,
    computing,
    executor,
    in_order,
)


def slow_first(shared, i):
    time.sleep(0.3 if i == 0 else 0.0)
    rng = np.random.default_rng([shared, i])
    a = rng.normal(size=(150, 150))
    return i, os.getpid(), float(np.linalg.eigvalsh(a @ a.T).sum())


def test_processes_equal_serial_to_the_bit_and_in_order():
    tasks = [(i,) for i in range(8)]
    serial = list(in_order(Serial(), slow_first, 7, tasks))
    parallel = list(in_order(Processes(2), slow_first, 7, tasks))
    assert [i for i, _, _ in serial] == [i for i, _, _ in parallel] == list(range(8))
    assert [v for _, _, v in serial] == [v for _, _, v in parallel]
    assert {pid for _, pid, _ in serial} == {os.getpid()}
    assert os.getpid() not in {pid for _, pid, _ in parallel}


def test_results_come_with_their_place_as_they_are_done():
    places = [place for place, _ in Processes(2).each(slow_first, 7, [(i,) for i in range(4)])]
    assert sorted(places) == [0, 1, 2, 3]
    assert places[0] != 0  # the slow one does not hold up the others


def threads(shared):
    np.ones((100, 100)) @ np.ones((100, 100))
    return [pool["num_threads"] for pool in threadpool_info()], os.environ.get("OPENBLAS_NUM_THREADS")


def test_linear_algebra_has_one_thread_here_and_in_workers(monkeypatch):
    with threadpool_limits(2):
        assert 2 in threads(None)[0]
        ((_, (found, _)),) = Serial().each(threads, None, [()])
        assert set(found) == {1}
        assert 2 in threads(None)[0]  # as it was
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    for _, (found, variable) in Processes(2).each(threads, None, [(), ()]):
        assert set(found) == {1}
        assert variable == "1"


def fails(shared, name):
    raise {
        "parameter": ParameterError("theta", 2.0, "choose a value in [0, 1]"),
        "unknown": UnknownNameError("attack", "sibyl", ["sybil"]),
        "learner": UtilityError("a tree failed"),
    }[name]


@pytest.mark.parametrize("name", ["parameter", "unknown", "learner"])
def test_errors_come_back_from_workers_as_they_were(name):
    with pytest.raises(DataMarketError) as here:
        list(Serial().each(fails, None, [(name,)]))
    with pytest.raises(type(here.value)) as there:
        list(Processes(2).each(fails, None, [(name,), (name,)]))
    assert str(there.value) == str(here.value)
    shown = {k: v for k, v in vars(there.value).items() if not k.startswith("_")}
    assert shown == vars(here.value)


def test_one_job_is_this_process():
    assert executor(1) == Serial()
    assert executor(3) == Processes(3)
    with pytest.raises(ParameterError, match="jobs"):
        executor(0)


def nested(shared, i):
    return sum(value for _, value in Processes(2).each(doubled, i, [(1,), (2,)]))


def doubled(shared, i):
    return 2 * shared * i


def test_processes_within_processes_and_threads_still_give_results():
    tasks = [(i,) for i in range(3)]
    expected = [6 * i for i in range(3)]
    assert list(in_order(Processes(2), nested, None, tasks)) == expected
    found = []
    thread = threading.Thread(target=lambda: found.extend(in_order(Processes(2), nested, None, tasks)))
    thread.start()
    thread.join()
    assert found == expected


SCRIPT = """
import threading
from dataclasses import dataclass
from datamarket_gym import create, register
from datamarket_gym.execution.parallel import Processes
from datamarket_gym.market.attacks import Attack

@register("attack", "of_my_own")
@dataclass(frozen=True)
class Mine(Attack):
    times: int = 2
    def blocks(self, own):
        return []

HELD = threading.Lock()

@register("attack", "tied_to_this_process")
@dataclass(frozen=True)
class Tied(Attack):
    def blocks(self, own):
        with HELD:
            return []

def seen(shared, i):
    return type(create("attack", f"of_my_own@{i}")).__name__, create("attack", f"of_my_own@{i}").times

if __name__ == "__main__":
    print(sorted(Processes(2).each(seen, None, [(5,), (6,)])))
"""


@pytest.mark.parametrize("how", ["script", "notebook", "module"])
def test_what_a_script_registers_is_known_in_its_workers(tmp_path, how):
    (tmp_path / "mine.py").write_text(SCRIPT)
    code = {
        "script": [str(tmp_path / "mine.py")],
        "notebook": ["-c", SCRIPT],
        "module": [
            "-c",
            "from mine import *\nprint(sorted(Processes(2).each(seen, None, [(5,), (6,)])))",
        ],
    }[how]
    found = subprocess.run(
        [sys.executable, *code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert found.stdout.strip() == "[(0, ('Mine', 5)), (1, ('Mine', 6))]", found.stderr


def dies(shared, i):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_was_killed_is_one_readable_error():
    with pytest.raises(DataMarketError, match="a worker process was killed"):
        list(Processes(2).each(dies, None, [(0,), (1,)]))


LAZY = """
from dataclasses import dataclass
import numpy as np
from threadpoolctl import threadpool_info
from datamarket_gym.execution.parallel import Serial
from datamarket_gym.utilities.base import Scorer, UtilityFunction
from datamarket_gym.utilities.oracle import Utility
from datamarket_gym.mechanism.pipeline import get_mechanism
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks.base import TASKS

SEEN = []

class Counts(Scorer):
    def utility(self, coalitions):
        import sklearn.ensemble  # with OpenMP
        SEEN.append(max(pool["num_threads"] for pool in threadpool_info()))
        return coalitions.mean(axis=1)

@dataclass(frozen=True)
class Lazy(UtilityFunction):
    def scorer(self, rows, validation):
        return Counts(rows, validation)

def cell(shared):
    market = ProviderMarket.from_task(TASKS.create("synthetic(n_providers=3, per_provider=8)"), 0)
    for _ in range(3):
        oracle = market.utility_oracle(Utility("knn", "none"), Lazy())
        get_mechanism("shapley").pay(market.honest.submission, oracle, market.honest.truth)

list(Serial().each(cell, None, [()]))
print(SEEN[1:])
list(Serial().each(cell, None, [()]))
cell(None)
print(SEEN[-1])
"""


def test_a_library_that_a_learner_loads_in_a_call_has_one_thread_too():
    found = subprocess.run(
        [sys.executable, "-c", LAZY], capture_output=True, text=True, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"},
    )  # fmt: skip
    in_calls, outside = found.stdout.splitlines() or [found.stderr, ""]
    assert set(in_calls) <= set("[1, ]")
    assert "1" in in_calls
    assert outside == "2"  # not ours to limit


def own_jobs(shared):
    from joblib import effective_n_jobs

    return effective_n_jobs(2)


def test_jobs_of_an_estimator_are_not_multiplied_by_ours():
    """n_jobs=2 in each of two workers would be four threads on two cores."""
    assert [jobs for _, jobs in Processes(2).each(own_jobs, None, [(), ()])] == [1, 1]
    assert [jobs for _, jobs in Serial().each(own_jobs, None, [()])] == [2]


def named(shared):
    return compute().memory, compute().threads


def test_workers_compute_by_what_the_caller_names_and_share_the_cores():
    with computing(Compute(memory=0.5)):
        ((_, found),) = Processes(2).each(named, None, [()])
    assert found == (0.5, max(1, available_cores() // 2))


def sleeps(shared, seconds):
    time.sleep(seconds)
    return os.getpid()


def gives_up(shared):
    raise TimeoutError("nobody answers")


def test_a_task_that_takes_too_long_is_ended_and_later_ones_are_done():
    ((_, worker),) = Processes(2, timeout=60).each(sleeps, None, [(0,)])
    with pytest.raises(DataMarketError, match="a task was not done after 1 seconds"):
        list(Processes(2, timeout=1).each(sleeps, None, [(60,), (60,)]))
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)
    assert len(list(Processes(2, timeout=60).each(sleeps, None, [(0,), (0,)]))) == 2


@pytest.mark.parametrize("timeout", [None, 60.0])
def test_a_timeout_of_the_task_itself_goes_through(timeout):
    with pytest.raises(TimeoutError, match="nobody answers"):
        list(Processes(2, timeout=timeout).each(gives_up, None, [()]))
