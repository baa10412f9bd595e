"""What a run read from databases, stored in its folder: ``RUN/inputs/ROLE.arrow``.

A database changes. So the answer to a query is an input file like any other, whose hash decides the run, and it stays
with the run: ``verify``, ``explain`` and settlements read it, and the query is not run again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypedDict, Unpack

from pydantic import TypeAdapter, ValidationError

from datamarket_gym.data.readers.databases import ENDING, is_query
from datamarket_gym.display import Shown
from datamarket_gym.errors import RunError
from datamarket_gym.execution.files import make_folder, read_json, replacing, sha256, write_json
from datamarket_gym.payout.acquired_data import ROLE as ACQUIRED
from datamarket_gym.payout.acquired_data import find_named_runs
from datamarket_gym.payout.intake import LogTip
from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.entries import LedgerError, RunRecord
from datamarket_gym.payout.ledger.runs import INTAKE, intake_of, run_of
from datamarket_gym.payout.ledger.store import (
    Tip,
    absolute_address,
    has_ledger,
    holds_tip,
    is_readable,
    open_ledger,
)
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import Check, read_manifest

FOLDER = "inputs"


@dataclass(frozen=True)
class Places(Shown):
    """Say where the files of a run are.

    Parameters
    ----------
    submissions, validation
        The submitted units, and the validation rows.
    overrides
        Splits and joins that the operator signed off.
    reference
        Reference rows.
    settles
        The run that this one settles.
    edges, scores
        Matches and scores by other tools, where they are not what the spec says.
    acquired
        Folders of earlier runs, the oldest first.
    queries
        Queries whose answers some of the files are, by role.
    intake
        The log that times are from, a file or an address.
    upto
        How far the log counts; all of it, for a run that is new.
    """

    submissions: Path
    validation: Path
    overrides: Path | None = None
    reference: Path | None = None
    settles: Path | None = None
    edges: Path | None = None
    scores: Path | None = None
    acquired: tuple[Path, ...] = ()
    queries: dict[str, str] = field(default_factory=dict)
    intake: str | None = None
    upto: LogTip | None = None

    def as_dict(self) -> dict[str, str]:
        """Return absolute paths by role, or queries, for the ledger."""
        paths = {k: v for k, v in vars(self).items() if isinstance(v, Path)}
        paths |= {f"{ACQUIRED} {i}": folder for i, folder in enumerate(self.acquired, 1)}
        places = {role: self.queries.get(role) or str(path.resolve()) for role, path in paths.items()}
        return places if self.intake is None else places | {INTAKE: absolute_address(self.intake)}


def keep(places: Places, folder: Path, upto: LogTip | None = None) -> None:
    """Store the answers to queries in the folder of a run, and how far its intake log counts."""
    if upto is not None:
        write_json(_log_tip_file(folder), asdict(upto))
    for role in places.queries:
        answer, stored = getattr(places, role), path_of(folder, role)
        if not stored.is_file() or sha256(stored) != sha256(answer):
            make_folder(stored.parent)
            with replacing(stored) as part:
                shutil.copyfile(answer, part)


def stored_log_tip(folder: Path) -> LogTip | None:
    """Return how far the intake log counts for the run of a folder; None if it is not begun.

    A run that was killed is resumed with the log as it was.
    """
    if (folder / MANIFEST).is_file():
        return log_tip(read_manifest(folder))
    path = _log_tip_file(folder)
    return _tip(read_json(path), repr(str(path))) if path.is_file() else None


def log_tip(manifest: dict[str, Any]) -> LogTip | None:
    """Return how far the intake log counts for a finished run; None if it takes no times from one."""
    tip = manifest.get(INTAKE)
    return None if tip is None else _tip(tip, f"manifest.json: {INTAKE}")


def require_grown(where: str, accounts: Accounts, acquired: Sequence[Path]) -> None:
    """Refuse an intake log without an entry from which an earlier run, of the ledger or ``acquired``, took its times.

    It is an older copy to which others were then added: valid by itself, but with another order of arrival.
    """
    if not has_ledger(where):
        return  # opening it is an error
    log = open_ledger(where)
    now = log.accounts()
    entered = [Path(record.places.get("run", "")) for record in accounts.runs.values()]
    for folder in (*acquired, *entered):
        manifest = read_json(folder / MANIFEST) if is_readable(folder / MANIFEST) else None
        tip = log_tip(manifest) if isinstance(manifest, dict) else None
        if tip and tip.log == now.id and not holds_tip(now.entries, Tip(tip.number, tip.tip)):
            raise LedgerError(
                f"the intake log {log.where!r} does not hold entry {tip.number} as the run in {str(folder)!r} took its "
                "times from it: it is an older copy, or was written anew since; bring the right copy back"
            )


def _tip(content: Any, where: str) -> LogTip:
    try:
        return TypeAdapter(LogTip).validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        raise RunError(
            f"{where} does not say how far the intake log counts (log, number, tip); restore it from a copy, or pay "
            "into another folder"
        ) from error


def _log_tip_file(folder: Path) -> Path:
    return folder / FOLDER / f"{INTAKE}.json"


def path_of(folder: Path, role: str) -> Path:
    """Return where a run stores an answer."""
    return folder / FOLDER / f"{role}{ENDING}"


class MovedInputs(TypedDict, total=False):
    """Hold where inputs of a run are that do not lie where they were."""

    submissions: Path | None
    validation: Path | None
    reference: Path | None
    acquired: Sequence[Path]  # folders of earlier runs
    intake: str | None


def places_of(folder: Path, record: RunRecord | None = None, **moved: Unpack[MovedInputs]) -> Places:
    """Return where a run's inputs are: as named, else in its folder if they are answers, else where they were.

    ``record`` is the run in its ledger, if that was read.
    """
    record, manifest = record or run_of(folder), read_manifest(folder)
    queries = {role: place for role, place in record.places.items() if is_query(place)}
    paths = {role: Path(place) for role, place in record.places.items()}
    paths |= {role: path_of(folder, role) for role in queries}
    paths |= {role: path for role, path in moved.items() if isinstance(path, Path)}
    earlier = tuple(paths[f"{ACQUIRED} {i}"] for i in range(1, len(record.acquired) + 1))
    if folders := moved.get("acquired"):
        earlier = find_named_runs(folders, manifest.get(ACQUIRED, []))
    named = ("submissions", "validation", "overrides", "reference", "edges", "scores")
    return Places(
        **{role: paths[role] for role in named if role in paths},
        acquired=earlier,
        queries=queries,
        intake=moved.get("intake") or intake_of(record),
        upto=log_tip(manifest),
    )


def kept_checks(folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
    """Check that the answers in a run's folder are those that it was made of."""
    for role, file in manifest["inputs"].items():
        if is_query(str(file["name"])):
            path = path_of(folder, role)
            good = path.is_file() and sha256(path) == file["sha256"]
            changed = "changed since it was read" if path.is_file() else "missing"
            yield Check(f"{FOLDER}/{path.name}", good, "as read" if good else changed)
