"""By what work is done, as far as that decides its speed and never its results.

Which device multiplies blocks, how much memory they may take, the cluster that shares them out and who is told how
far they are: nothing of this belongs to a mechanism, a spec or the id of a run. It is named once, where a command
begins (`computing`), and asked for where blocks are made (`compute`). What travels to a thread or to another machine
takes along what it needs: there nobody asks again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.util import find_spec

from datamarket_gym.core.errors import ParameterError, require_choice, require_count, require_in
from datamarket_gym.core.extras import require_extra
from datamarket_gym.core.progress import SILENT, Progress
from datamarket_gym.core.screen import Described

DEVICES = ("cpu", "cuda")
GIB = 1 << 30
_MOST = 1e6  # GiB, more than any machine has; bytes stay whole numbers of 64 bits


@dataclass(frozen=True)
class Compute(Described):
    """A device, memory for blocks and buffers (beside the inputs, in GiB), a scheduler's address, and who is told.

    ``threads`` share out blocks in this process; 0: one for each core. Blocks of fewer than ``spread`` pairs in all
    stay in this process where there is a cluster: they are done before they would have travelled.
    """

    device: str = "cpu"
    memory: float = 4.0
    cluster: str = ""
    progress: Progress = SILENT
    threads: int = 0
    spread: int = 1 << 28

    def __post_init__(self) -> None:
        require_choice("device", self.device, DEVICES)
        require_in("memory", self.memory, 0.0, _MOST, open_low=True)
        require_count("threads", self.threads, at_least=0)
        require_count("spread", self.spread)
        if self.cluster and self.device != "cpu":
            raise ParameterError(
                "device",
                self.device,
                "the workers of a cluster compute on their CPUs: choose one of the two",
            )

    @property
    def bytes(self) -> int:
        """The memory in bytes."""
        return int(self.memory * GIB)


def device_named(name: str) -> str:
    """``cpu``, ``cuda``, or by ``auto`` the one that there is; what cannot be used is refused."""
    require_choice("device", name, (*DEVICES, "auto"))
    if name == "cpu" or (name == "auto" and find_spec("torch") is None):
        return "cpu"
    require_extra("torch", "torch")
    import torch

    if torch.cuda.is_available():
        return "cuda"
    if name == "cuda":
        raise ParameterError("device", name, "torch finds no GPU here; choose cpu or auto")
    return "cpu"


_DEFAULT = Compute()
_here: ContextVar[Compute] = ContextVar("by what work is done", default=_DEFAULT)


def compute() -> Compute:
    """What was named by whoever began this work."""
    return _here.get()


@contextmanager
def computing(by: Compute) -> Iterator[None]:
    """While it is entered, work is done by this; a cluster is connected to, and left at the end."""
    with ExitStack() as stack:
        if by.cluster and by.cluster != compute().cluster:
            from datamarket_gym.core.cluster import connected

            stack.enter_context(connected(by.cluster))
        token = _here.set(by)
        stack.callback(_here.reset, token)
        yield
