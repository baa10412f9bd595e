"""What a run read from databases, kept in its folder: ``RUN/inputs/ROLE.arrow``.

A database says something else tomorrow. So the answer to a query is an input file like any other, whose hash decides
the run, and it stays with the run: ``verify``, ``explain`` and settlements read it, and nobody asks the database again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from datamarket_gym.data.readers.databases import ENDING, as_files, is_query, queries_of
from datamarket_gym.display import Shown
from datamarket_gym.errors import RunError
from datamarket_gym.execution.files import read_json, replacing, sha256, write_json
from datamarket_gym.payout.acquired_data import ROLE as PRIOR
from datamarket_gym.payout.acquired_data import find_named_runs
from datamarket_gym.payout.intake import LogTip, absolute_address
from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.entries import LedgerError, RunRecord
from datamarket_gym.payout.ledger.runs import INTAKE, run_of
from datamarket_gym.payout.ledger.store import Tip, has_ledger, holds_tip, is_readable, open_ledger
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import Check, read_manifest
from datamarket_gym.payout.settings import PayoutSpec

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
    prior
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
    edges: Path | None = None  # where it is not what the spec says
    scores: Path | None = None  # likewise
    prior: tuple[Path, ...] = ()
    queries: dict[str, str] = field(default_factory=dict)
    intake: str | None = None
    upto: LogTip | None = None

    def as_dict(self) -> dict[str, str]:
        """Absolute paths by role, or queries, for the ledger."""
        named = {k: v for k, v in vars(self).items() if isinstance(v, Path)}
        named |= {f"{PRIOR} {i}": folder for i, folder in enumerate(self.prior, 1)}
        found = {role: self.queries.get(role) or str(path.resolve()) for role, path in named.items()}
        return found if self.intake is None else found | {INTAKE: absolute_address(self.intake)}


@contextmanager
def fetched(
    submissions: str,
    validation: str,
    reference: str | None,
    overrides: Path | None,
    spec: PayoutSpec,
    prior: Sequence[Path] = (),
    intake: str | None = None,
) -> Iterator[Places]:
    """The places of a new run, for as long as the block lasts; queries are run."""
    tables = {
        "submissions": submissions, "validation": validation, "reference": reference,
        "edges": spec.linkage.edges, "scores": spec.files.scores,
    }  # fmt: skip
    asked = {role: str(query) for role, query in queries_of(tables).items()}
    with as_files(tables) as found:
        yield Places(
            found["submissions"], found["validation"], overrides, found.get("reference"),
            edges=found.get("edges"), scores=found.get("scores"), prior=tuple(prior), queries=asked, intake=intake,
        )  # fmt: skip


def keep(places: Places, folder: Path, upto: LogTip | None = None) -> None:
    """Put the answers that a run was made of into its folder, and how far its intake log counts."""
    if upto is not None:
        write_json(_log_tip(folder), asdict(upto))
    for role in places.queries:
        read, kept = getattr(places, role), path_of(folder, role)
        if kept.is_file() and sha256(kept) == sha256(read):
            continue
        kept.parent.mkdir(parents=True, exist_ok=True)
        with replacing(kept) as part:
            shutil.copyfile(read, part)


def stored_log_tip(folder: Path) -> LogTip | None:
    """How far the intake log counts for the run of a folder, finished or not; None where it is not begun.

    A run that was killed goes on with the log as it was, whatever arrived since.
    """
    if (folder / MANIFEST).is_file():
        return log_tip(read_manifest(folder))
    path = _log_tip(folder)
    return _tip(read_json(path), repr(str(path))) if path.is_file() else None


def log_tip(manifest: dict[str, Any]) -> LogTip | None:
    """How far the intake log counts for a finished run; None where it takes no times from one."""
    said = manifest.get(INTAKE)
    return None if said is None else _tip(said, f"manifest.json: {INTAKE}")


def require_grown(where: str, accounts: Accounts, prior: Sequence[Path]) -> None:
    """Refuse an intake log that does not hold what earlier runs took their times from.

    An older copy to which others were then added says otherwise who was first, and is whole by itself. Earlier runs
    are those of the ledger and those that are named, as far as they lie where they were.
    """
    if not has_ledger(where):
        return  # whoever opens it says so
    log = open_ledger(where)
    now = log.accounts()
    entered = [Path(record.places.get("run", "")) for record in accounts.runs.values()]
    for folder in (*prior, *entered):
        said = read_json(folder / MANIFEST) if is_readable(folder / MANIFEST) else None
        tip = log_tip(said) if isinstance(said, dict) else None
        if tip is None or tip.log != now.id or holds_tip(now.entries, Tip(tip.number, tip.tip)):
            continue
        raise LedgerError(
            f"the intake log {log.where!r} does not hold entry {tip.number} as the run in {str(folder)!r} took its "
            "times from it: it is an older copy, or one that was written anew since, and says otherwise who was first. "
            "Bring the right copy back"
        )


def _tip(content: Any, where: str) -> LogTip:
    try:
        return TypeAdapter(LogTip).validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        raise RunError(
            f"{where} does not say how far the intake log counts (log, number, tip); restore it from a copy, or pay "
            "into another folder"
        ) from error


def _log_tip(folder: Path) -> Path:
    return folder / FOLDER / f"{INTAKE}.json"


def path_of(folder: Path, role: str) -> Path:
    """Where a run keeps an answer."""
    return folder / FOLDER / f"{role}{ENDING}"


def places_of(
    folder: Path,
    submissions: Path | None = None,
    validation: Path | None = None,
    reference: Path | None = None,
    record: RunRecord | None = None,
    prior: Sequence[Path] = (),
    intake: str | None = None,
) -> Places:
    """Where a run's inputs are: as named, else in its folder if they are answers, else where they were.

    ``record`` is the run as its ledger has it, where that is at hand. ``prior`` are the folders of earlier runs, if
    they were moved.
    """
    record = record or run_of(folder)
    asked = {role: said for role, said in record.places.items() if is_query(said)}
    known = {role: Path(said) for role, said in record.places.items()}
    known |= {role: path_of(folder, role) for role in asked}
    earlier = tuple(known[f"{PRIOR} {i}"] for i in range(1, len(record.prior) + 1))
    if prior:
        earlier = find_named_runs(prior, read_manifest(folder).get(PRIOR, []))
    return Places(
        submissions or known["submissions"], validation or known["validation"], known.get("overrides"),
        reference or known.get("reference"), edges=known.get("edges"), scores=known.get("scores"), prior=earlier,
        queries=asked, intake=intake or record.places.get(INTAKE), upto=log_tip(read_manifest(folder)),
    )  # fmt: skip


def kept_checks(folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
    """Whether the answers in a run's folder are those that it was made of."""
    for role, said in manifest["inputs"].items():
        if is_query(str(said["name"])):
            path = path_of(folder, role)
            good = path.is_file() and sha256(path) == said["sha256"]
            changed = "changed since it was read" if path.is_file() else "missing"
            yield Check(f"{FOLDER}/{path.name}", good, "as read" if good else changed)
