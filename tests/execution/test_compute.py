"""By what work is done."""

from __future__ import annotations

import threading
import time

import pytest

from datamarket_gym.errors import ParameterError
from datamarket_gym.execution.parallel import CELLS, Compute, compute, computing, over_blocks


class _Told:
    def __init__(self) -> None:
        self.counted: list[tuple[int, int]] = []

    def stage(self, what: str, unit: str = "") -> None:
        pass

    def count(self, done: int, total: int) -> None:
        self.counted.append((done, total))


def test_what_was_named_holds_inside_alone():
    with computing(Compute(memory=0.5)):
        assert compute().bytes == 1 << 29
        with pytest.raises(RuntimeError), computing(Compute(memory=2)):
            raise RuntimeError
        assert compute().memory == 0.5
    assert compute() == Compute()


@pytest.mark.parametrize("wrong", [{"device": "tpu"}, {"memory": 0.0}, {"memory": float("nan")}])
def test_what_cannot_be_is_refused_by_name(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        Compute(**wrong)


def test_large_work_says_how_far_it_is():
    told = _Told()
    with computing(Compute(progress=told)):
        assert list(over_blocks(lambda b: b * b, [1, 2, 3], CELLS)) == [1, 4, 9]
    assert told.counted == [(1, 3), (2, 3), (3, 3)]


def test_answers_are_not_all_made_before_they_are_wanted():
    begun = []
    with computing(Compute(threads=2)):
        answers = over_blocks(lambda b: begun.append(b) or b, range(100), CELLS)
        assert next(answers) == 0
        time.sleep(0.2)
        assert len(begun) < 20
        assert list(answers) == list(range(1, 100))


def test_one_thread_is_this_one():
    with computing(Compute(threads=1)):
        names = set(over_blocks(lambda b: threading.current_thread().name, [1, 2, 3], CELLS))
    assert names == {threading.current_thread().name}
