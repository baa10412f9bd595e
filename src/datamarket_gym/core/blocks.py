"""Work on blocks of rows, on all cores, with answers in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from datamarket_gym.core.compute import compute
from datamarket_gym.core.machine import available_cores
from datamarket_gym.core.threads import one_thread

B = TypeVar("B")
T = TypeVar("T")

CELLS = 1 << 22  # pairs held by one thread: 32 MiB
_ROWS = 64
_AHEAD = 4  # blocks for each thread that are begun or done before the first of them is asked for
_TASK = 4 * CELLS  # pairs in a task for another machine: some tenths of a second


def spans(n_validation: int, n_rows: int) -> list[tuple[int, int]]:
    """Starts and stops of the blocks in which so many validation rows are held against so many others."""
    size = max(1, min(_ROWS, CELLS // max(n_rows, 1)))
    return [(start, min(start + size, n_validation)) for start in range(0, n_validation, size)]


def over_blocks(work: Callable[[B], T], blocks: Sequence[B], cells: int) -> Iterator[T]:
    """What ``work`` says of each block, in order; ``cells`` pairs in all say whether threads or a cluster are worth it.

    One BLAS thread each, so that products have the same bits whatever the machine. ``work`` may be called in another
    process on another machine: it takes along what it reads, and says all that it finds in what it returns. Only so
    many answers are held as there are hands, and those that are waited for.
    """
    by = compute()
    with one_thread("blas"):
        if len(blocks) <= 1 or cells < CELLS // 8:
            yield from map(work, blocks)
            return
        if by.cluster and cells >= by.spread:
            found = _on_cluster(work, blocks, cells)
        else:
            found = _in_threads(work, blocks, by.threads or available_cores())
        for done, answer in enumerate(found, 1):
            by.progress.count(done, len(blocks))
            yield answer


def _in_threads(work: Callable[[B], T], blocks: Sequence[B], threads: int) -> Iterator[T]:
    if threads == 1:
        yield from map(work, blocks)
        return
    begun: deque[Future[T]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for block in blocks:
                begun.append(pool.submit(work, block))
                if len(begun) > _AHEAD * threads:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:
            for each in begun:
                each.cancel()


def _on_cluster(work: Callable[[B], T], blocks: Sequence[B], cells: int) -> Iterator[T]:
    from datamarket_gym.core.cluster import connection

    cluster = connection()
    # Large enough to be worth the way, small enough that all workers have something to do to the end.
    most = max(1, len(blocks) // (_AHEAD * cluster.workers()))
    size = min(most, -(-_TASK * len(blocks) // cells))
    tasks = [(blocks[at : at + size],) for at in range(0, len(blocks), size)]
    for answers in cluster.in_order(_each_of, work, tasks):
        yield from answers


def _each_of(work: Callable[[B], T], blocks: Sequence[B]) -> list[T]:
    return [work(block) for block in blocks]
