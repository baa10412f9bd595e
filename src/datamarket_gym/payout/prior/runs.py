"""Which earlier runs a run is priced given: ``pay --prior JUNE/ --prior MAY/``.

Each must be approved, as its book has it, and as it was left. They are taken from the oldest to the newest, in whatever
order they are named. A run that was itself priced given others is named with these: else what was stolen from them
would be paid for now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.files import sha256
from datamarket_gym.payout.book.place import book_of, run_of
from datamarket_gym.payout.book.run_record import APPROVED, RunRecord, named
from datamarket_gym.payout.manifest import BOUGHT, NAME, read_manifest, require_as_written
from datamarket_gym.payout.names import run_called

ROLE = "prior"
_SHORT = 16  # characters of a run's id


class PriorError(DataMarketError):
    """A folder that cannot be taken as prior art."""


@dataclass(frozen=True)
class PriorRun:
    """An earlier run: its id, the hash of what it has bought, what it was for, which runs it was priced given, and the
    amount that it divided, in minor units."""

    folder: Path
    run: str
    sha256: str
    period: str
    given: tuple[str, ...]
    amount: int
    currency: str

    @property
    def short(self) -> str:
        """The run as overrides name it."""
        return self.run[:_SHORT]

    @property
    def called(self) -> str:
        """The run as people know it."""
        return run_called(self.period, self.run)

    @property
    def plain(self) -> dict[str, str]:
        """What the manifest of a later run says of it."""
        return {"run": self.run, "bought": self.sha256, "period": self.period}

    @property
    def bought(self) -> Path:
        """The file of what it has bought."""
        return self.folder / BOUGHT

    @classmethod
    def read(cls, folder: Path) -> PriorRun:
        """The run of a folder, whose bought units are as it left them."""
        found = cls.said(folder)
        require_as_written(folder, read_manifest(folder)["outputs"], BOUGHT)
        return found

    @classmethod
    def said(cls, folder: Path) -> PriorRun:
        """The run of a folder, as its manifest has it."""
        if not folder.is_dir():
            raise PriorError(
                f"the earlier run in {str(folder)!r} is not there; if it was moved, say where it is now: --prior FOLDER"
            )
        manifest = read_manifest(folder)
        said = manifest["outputs"].get(BOUGHT)
        if said is None:
            raise PriorError(
                f"the run in {str(folder)!r} was made by an older version, which did not keep what it has bought; pay "
                "it again, into another folder and a book of its own (--ledger), approve it there, and name that folder"
            )
        given = tuple(each["run"] for each in manifest.get(ROLE, ()))
        period, amount = manifest["spec"].get("period") or "", manifest["amount"]
        return cls(folder, manifest["run"], said["sha256"], period, given, amount, manifest["currency"])


def accepted(folders: Sequence[Path], out: Path) -> tuple[Path, ...]:
    """The folders of earlier runs, the oldest first; refused where one cannot be taken as bought.

    Whether what they have bought is as they left it is looked at where it is read (`PriorRun.read`).
    """
    found = [_Approved.of(folder) for folder in folders]
    by_run: dict[str, _Approved] = {}
    for each in found:
        if each.prior.folder.resolve() == out.resolve():
            raise PriorError(f"{str(out)!r} is the folder of this run itself; leave that --prior out")
        twin = by_run.setdefault(each.prior.run, each)
        if twin is not each:
            raise PriorError(
                f"{str(twin.prior.folder)!r} and {str(each.prior.folder)!r} are the same run, {each.prior.short}; "
                "name it once"
            )
    for each in found:
        each.require_given(by_run)
    one_book = len({each.book for each in found}) == 1
    order = sorted(found, key=lambda each: (each.number,) if one_book else (each.at, each.prior.run))
    return tuple(each.prior.folder for each in order)


def as_said(folders: Sequence[Path], said: Sequence[dict[str, Any]]) -> tuple[Path, ...]:
    """The folders of the runs that a manifest names as prior, in its order; they may have been moved."""
    by_run = {read_manifest(folder)["run"]: folder for folder in folders}
    missing = [each for each in said if each["run"] not in by_run]
    if missing or len(by_run) > len(said):
        strange = set(by_run) - {each["run"] for each in said}
        wrong = (
            f"{missing[0]['period'] or 'a run'} ({missing[0]['run'][:_SHORT]}) is not among the folders"
            if missing
            else f"{str(by_run[min(strange)])!r} is none of them"
        )
        raise PriorError(
            f"the run was priced given {len(said)} earlier runs, and {wrong}; name each with --prior"
        )
    return tuple(by_run[each["run"]] for each in said)


@dataclass(frozen=True)
class _Approved:
    """An earlier run, and when its book says that it was approved."""

    prior: PriorRun
    record: RunRecord
    book: str
    number: int
    at: str

    @classmethod
    def of(cls, folder: Path) -> _Approved:
        if not folder.is_dir():
            raise PriorError(f"--prior {str(folder)!r} is no folder of a payout run; check the path")
        book = book_of(folder)
        record = run_of(folder, book.accounts())
        if record.state not in APPROVED:
            later = f"; {record.superseded[1]!r} has taken its place" if record.superseded else ""
            raise PriorError(
                f"the run in {str(folder)!r} is {named(record.state)}, so that nothing of it is bought{later}: name "
                "approved runs alone"
            )
        if sha256(folder / NAME) != record.manifest:
            raise PriorError(
                f"{str(folder / NAME)!r} is not the one that was approved; run: datamarket verify {folder}"
            )
        entry = next(entry for entry in record.history if entry.kind == "approved")
        return cls(PriorRun.said(folder), record, book.where, entry.number, entry.at)

    def require_given(self, named_runs: dict[str, _Approved]) -> None:
        """Refuse to leave out what the run was itself priced given."""
        for place, run in enumerate(self.prior.given, 1):
            if run not in named_runs:
                where = self.record.places.get(f"{ROLE} {place}", "its folder")
                raise PriorError(
                    f"{self.prior.called}, in {str(self.prior.folder)!r}, was priced given run {run[:_SHORT]}, which "
                    f"is not named: what was stolen from that one would be paid for now. Add --prior {where}"
                )
