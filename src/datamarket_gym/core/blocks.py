"""Work on blocks of rows, on all cores, with answers in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from datamarket_gym.core.compute import compute
from datamarket_gym.core.machine import available_cores
from datamarket_gym.core.threads import one_thread

B = TypeVar("B")
T = TypeVar("T")

CELLS = 1 << 22  # pairs held by one thread: 32 MiB
_ROWS = 64


def spans(n_validation: int, n_rows: int) -> list[tuple[int, int]]:
    """Starts and stops of the blocks in which so many validation rows are held against so many others."""
    size = max(1, min(_ROWS, CELLS // max(n_rows, 1)))
    return [(start, min(start + size, n_validation)) for start in range(0, n_validation, size)]


def over_blocks(work: Callable[[B], T], blocks: Sequence[B], cells: int) -> Iterator[T]:
    """What ``work`` says of each block, in order; ``cells`` pairs in all say whether threads are worth it.

    One BLAS thread each, so that products have the same bits whatever the machine. ``work`` may be called in another
    process on another machine: it takes along what it reads, and says all that it finds in what it returns.
    """
    told = compute().progress
    with one_thread("blas"):
        if len(blocks) == 1 or cells < CELLS // 8:
            yield from map(work, blocks)
            return
        with ThreadPoolExecutor(available_cores()) as pool:
            for done, found in enumerate(pool.map(work, blocks), 1):
                told.count(done, len(blocks))
                yield found
