"""Playing some markets of a bundle again: the only thing that tells made-up rows from computed ones.

Nothing of a bundle is ever loaded or run. A bundle names a mechanism, and what that name means is what this process has
registered: parts of this package, and files that whoever recomputes has loaded themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from secrets import SystemRandom
from typing import Any

from datamarket_gym.arena.bundle import AttackRow, Bundle, BundleError, MechanismRow
from datamarket_gym.arena.cells import AskedCells, cell
from datamarket_gym.arena.entry import ArenaEntry
from datamarket_gym.arena.suite import Draws, Suite
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.executors import Processes
from datamarket_gym.core.runs import libraries
from datamarket_gym.core.sources import is_ours
from datamarket_gym.peers.environments import installed
from datamarket_gym.peers.peer import Peer
from datamarket_gym.pipeline.mechanism import MECHANISMS, Mechanism
from datamarket_gym.world.attacks.attack import ATTACKS

_COMPARED = ("honest_pay", "pay", "pot", "paid", "providers", "worth", "fairness_loss")
TOLERANCE = 1e-6  # of the larger number: libraries of other versions round otherwise
_MOST_SAMPLES = 10_000
SECONDS = 900.0
"""What playing one market again may take."""
_BYTES = 12 * 2**30


def why_not(entry: ArenaEntry) -> str:
    """Why a submission cannot be played again here; nothing where it can."""
    if entry.command:
        return "a program: run it with datamarket benchmark submit --command"
    try:
        if entry.track == "attack":
            ATTACKS.create(entry.spec.replace("{", "").replace("}", ""))
            return ""
        found = MECHANISMS.create(entry.spec)
    except DataMarketError:
        return "it names what is not known here, or not so; give its code with --load"
    if isinstance(found, Mechanism):
        return "" if found.samples <= _MOST_SAMPLES else f"more than {_MOST_SAMPLES:,} samples"
    if isinstance(found, Peer):  # it starts a script of ours, with a valuator's name from a list of ours
        missing = installed(found.package) is None
        return f"not installed here; datamarket baselines install {found.package}" if missing else ""
    # A registered object of ours may start programs, with words from a stranger's bundle.
    return "it is no mechanism of this pipeline" if is_ours(type(found).__module__) else ""


def recompute(bundle: Bundle, part: Suite, draws: Draws, markets: int) -> int:
    """Play so many markets, drawn by chance, again; how many, or an error where a row differs.

    A stranger's spec may ask for more time or memory than anybody has, so that each is played in a process that is
    bounded in both.
    """
    chosen = sorted(SystemRandom().sample(part.cells, min(markets, len(part.cells))))
    for task, draw in chosen:
        try:
            asked = AskedCells(part, draws, bundle.entry)
            [(_, again)] = Processes(2, timeout=SECONDS).each(_bounded, asked, [(task, draw)])
        except Exception as error:
            raise BundleError(
                f"{task}, draw {draw}, cannot be played again: {type(error).__name__}: {str(error)[:120]}"
            ) from error
        _compare(bundle, again["rows"])
    return len(chosen)


def _bounded(asked: AskedCells, task: str, draw: int) -> dict[str, Any]:
    """A market, played in a worker with bounded memory."""
    try:
        import resource
    except ImportError:  # not on Windows
        return cell(asked, task, draw)
    allowed = resource.getrlimit(resource.RLIMIT_AS)
    bounds = [_BYTES, *(each for each in allowed if each != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_AS, (min(bounds), allowed[1]))
    try:
        return cell(asked, task, draw)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, allowed)


def _compare(bundle: Bundle, again: Sequence[dict[str, object]]) -> None:
    theirs: dict[tuple[str, int, str], MechanismRow | AttackRow] = {
        (row.task, row.draw, row.against): row for row in bundle.rows
    }
    for row in again:
        against = str(row.get("attack") or row.get("opponent"))
        told = theirs[str(row["task"]), int(str(row["draw"])), against]
        for name in _COMPARED:
            here, there = float(str(row[name])), float(getattr(told, name))
            if abs(here - there) > TOLERANCE * max(abs(here), abs(there), 1e-9):
                raise BundleError(
                    f"recomputed, {row['task']}, draw {row['draw']}, {against}: {name} is {here:.6g} and not "
                    f"{there:.6g}{_versions(bundle)}"
                )


def _versions(bundle: Bundle) -> str:
    """Which libraries are others here, in case that is why."""
    there = bundle.manifest.versions
    other = [
        f"{n} {there.get(n, 'unknown')} there, {v} here"
        for n, v in libraries().items()
        if there.get(n) != v
    ]
    return f" ({'; '.join(other)})" if other else ""
