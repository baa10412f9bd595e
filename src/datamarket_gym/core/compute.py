"""By what work is done, as far as that decides its speed and never its results.

Which device multiplies blocks, how much memory they may take, the cluster that shares them out and who is told how
far they are: nothing of this belongs to a mechanism, a spec or the id of a run. It is named once, where a command
begins (`computing`), and asked for where blocks are made (`compute`). What travels to a thread or to another machine
takes along what it needs: there nobody asks again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from datamarket_gym.core.errors import require_choice, require_in
from datamarket_gym.core.progress import SILENT, Progress

DEVICES = ("cpu", "cuda")
GIB = 1 << 30


@dataclass(frozen=True)
class Compute:
    """A device, memory for blocks and buffers (beside the inputs, in GiB), a scheduler's address, and who is told."""

    device: str = "cpu"
    memory: float = 4.0
    cluster: str = ""
    progress: Progress = SILENT

    def __post_init__(self) -> None:
        require_choice("device", self.device, DEVICES)
        require_in("memory", self.memory, 0.0, float("inf"), open_low=True)

    @property
    def bytes(self) -> int:
        """The memory in bytes."""
        return int(self.memory * GIB)


_DEFAULT = Compute()
_here: ContextVar[Compute] = ContextVar("by what work is done", default=_DEFAULT)


def compute() -> Compute:
    """What was named by whoever began this work."""
    return _here.get()


@contextmanager
def computing(by: Compute) -> Iterator[None]:
    """While it is entered, work is done by this."""
    token = _here.set(by)
    try:
        yield
    finally:
        _here.reset(token)
