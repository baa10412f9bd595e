"""Any program as a mechanism: it is called with the two folders of the file protocol.

The program runs with the rights of its caller, in the present folder and without the environment's variables,
but for those that programs need to be found and to speak the user's language: it is kept from nothing else. Run what
you do not trust in a container.

Baselines as mechanisms: what pyDVL, shapiq, datascope and OpenDataVal pay the submitted identities, each by itself.

``baseline@NAME-VALUATOR``, such as ``baseline@pydvl-shapley``: a script of ours, run by the Python of the library's
environment, speaks the file protocol and hands the library a game whose players are the identities, valued by the
market's own learner, if that is among `LEARNS`. ``knn5`` is 5-NN Shapley of single units, added up by identity.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import IO

import numpy as np

from datamarket_gym.benchmark.baselines.environments import BASELINES, installed, python_of
from datamarket_gym.benchmark.baselines.protocol import read_cost, read_payments, write_market
from datamarket_gym.data.submission import Submission
from datamarket_gym.errors import ParameterError, ProgramError, require_in, require_known
from datamarket_gym.mechanism.own_mechanism import OwnPayments
from datamarket_gym.registry import Component, register
from datamarket_gym.utilities.oracle import UtilityOracle

DAY = 86_400.0
_TAIL = 4_000  # bytes of what a program wrote last
_PASSED = (
    "PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR",
    "SYSTEMROOT", "SYSTEMDRIVE", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA",
)  # fmt: skip
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


_refused: ContextVar[bool] = ContextVar("_refused", default=False)


@contextmanager
def programs_allowed(allowed: bool) -> Iterator[None]:
    """Start programs inside the block, or refuse to: what is computed may come from a stranger's file."""
    before = _refused.set(not allowed)
    try:
        yield
    finally:
        _refused.reset(before)


@dataclass(frozen=True, eq=False, repr=False)
class ProgramPayments(OwnPayments):
    """What a program paid; ``computing`` are the seconds that it says it took, without starting and reading."""

    computing: float = float("nan")


@register("mechanism", "program")
@dataclass(frozen=True)
class Program(Component):
    """Pay by a program that is called with two folders, as docs/protocol.md says.

    Parameters
    ----------
    command
        The command.
    timeout
        Seconds that it may take.
    """

    title = "external program"

    command: str
    timeout: float = 600.0

    def __post_init__(self) -> None:
        if _refused.get():
            raise ProgramError(
                f"the file starts the program {self.command!r}, which would run with your rights; if you trust it, "
                "add --allow-programs"
            )
        _words(self.command)
        require_in("timeout of the program", self.timeout, 0.0, DAY, open_low=True)

    def pay(self, submission: Submission, utility: UtilityOracle) -> ProgramPayments:
        return run_program(_words(self.command), submission, utility, self.timeout)


def run_program(
    words: list[str], submission: Submission, utility: UtilityOracle, timeout: float
) -> ProgramPayments:
    """Return the payments of a command, given as words; seconds are the program's by the clock, its start included."""
    called = shlex.join(words)
    with tempfile.TemporaryDirectory(prefix="datamarket-", ignore_cleanup_errors=True) as folder:
        given, taken = (Path(folder).resolve() / name for name in ("in", "out"))
        given.mkdir()
        taken.mkdir()
        write_market(given, submission, utility)
        started = time.perf_counter()
        call([*words, str(given), str(taken)], called, timeout)
        seconds = time.perf_counter() - started
        try:
            paid, cost = read_payments(taken, submission), read_cost(taken)
        except ProgramError as error:
            raise ProgramError(f"the program {called!r}: {error}") from error
    amounts = np.array([paid[name] for name in submission.identities.tolist()])
    return ProgramPayments(
        submission, amounts, utility, seconds, cost["evaluations"], computing=cost["seconds"]
    )


def call(words: list[str], called: str, timeout: float, more: Mapping[str, str] | None = None) -> None:
    """Run a command to its end; whatever it has started ends with it."""
    environment = {name: os.environ[name] for name in _PASSED if name in os.environ}
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**environment, **_ONE_THREAD, **(more or {})},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise ProgramError(
            f"the program {called!r} cannot be started: {error}; check its name and that it may be run"
        ) from error
    output = bytearray()
    assert process.stderr is not None
    reader = threading.Thread(target=_keep_last, args=(process.stderr, output), daemon=True)
    reader.start()
    try:
        code = process.wait(timeout)
    except subprocess.TimeoutExpired as error:
        raise ProgramError(
            f"the program {called!r} was not done after {timeout:g} seconds and was ended; give it a longer "
            f"timeout{_last_words(output)}"
        ) from error
    finally:
        _end(process)
        reader.join(5.0)
    if code:
        how = f"ended with exit code {code}" if code > 0 else f"was ended by {_signal_name(-code)}"
        raise ProgramError(
            f"the program {called!r} {how}{_last_words(output) or '; it wrote nothing to stderr'}"
        )


def _words(command: str) -> list[str]:
    remedy = 'write the program and its arguments, as in program(command="python3 mine.py")'
    if not isinstance(command, str) or "\0" in command:
        raise ParameterError("command of the program", command, remedy)
    try:
        words = shlex.split(command, posix=sys.platform != "win32")
    except ValueError as error:
        raise ParameterError("command of the program", command, f"close its quotes ({error})") from error
    if not words:
        raise ParameterError("command of the program", command, remedy)
    return words


def _keep_last(stream: IO[bytes], output: bytearray) -> None:
    while chunk := os.read(stream.fileno(), 65_536):
        output += chunk
        del output[:-_TAIL]
    stream.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the program and all that it started, and wait for it."""
    if sys.platform == "win32":
        process.kill()
    else:
        with suppress(ProcessLookupError, PermissionError):  # it has ended
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last_words(output: bytearray) -> str:
    text = bytes(output).decode("utf-8", "replace").strip()
    shown = "".join(sign if sign.isprintable() or sign in "\n\t" else "?" for sign in text)
    return f". Its last output:\n{shown}" if shown else ""


def _signal_name(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return f"{name} (is there enough memory?)" if name == "SIGKILL" else name


VALUATORS = {
    f"{baseline.name}-{way}": (baseline.name, way)
    for baseline in BASELINES.values()
    for way in baseline.valuators
}
"""What may stand behind ``baseline@``: a baseline and what it values by."""
_KNN = ("knn", "knn@5")
_GAMES = ("logistic", "coverage", *_KNN)
LEARNS = {"shapley": _GAMES, "banzhaf": _GAMES, "knn5": _KNN}
"""The learners under which each can pay, as they are written."""


@register("mechanism", "baseline")
@dataclass(frozen=True)
class Baseline(Component):
    """A valuator of another library (``baseline@pydvl-shapley``), from an environment of its own.

    Parameters
    ----------
    valuator
        The library's name for it.
    timeout
        Seconds that it may take.
    """

    title = "valuator of another library"

    valuator: str
    timeout: float = 3600.0

    def __post_init__(self) -> None:
        require_known("valuator of a baseline", [self.valuator], VALUATORS)
        require_in("timeout of the baseline", self.timeout, 0.0, DAY, open_low=True)

    @property
    def package(self) -> str:
        return VALUATORS[self.valuator][0]

    @property
    def version(self) -> str:
        """Return the version that is installed; an error with the line that installs it where there is none."""
        python_of(self.package)
        record = installed(self.package)
        assert record is not None
        return str(record["version"])

    def pay(self, submission: Submission, utility: UtilityOracle) -> ProgramPayments:
        python, (name, way) = python_of(self.package), VALUATORS[self.valuator]
        if utility.learns_by not in LEARNS[way]:
            raise ParameterError(
                "learner",
                utility.learns_by,
                f"baseline@{self.valuator} pays by {', '.join(LEARNS[way])}: choose one of these",
            )
        folder = resources.files("datamarket_gym.benchmark.baselines") / "scripts"
        with resources.as_file(folder) as scripts:
            words = [str(python), "-B", "-s", str(scripts / f"{name}_baseline.py"), way]
            return run_program(words, submission, utility, self.timeout)
