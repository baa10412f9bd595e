"""Approving a run: its warnings are answered, it is worked out again to the cent, and only then is it entered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from datamarket_gym.core.files import sha256
from datamarket_gym.core.progress import Progress
from datamarket_gym.payout.book.place import book_of, run_of
from datamarket_gym.payout.book.run_record import APPROVED
from datamarket_gym.payout.book.runs import approve, require_answers, standing_approvals
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.verdicts import Check
from datamarket_gym.payout.verify import verify


@dataclass(frozen=True)
class Approval:
    """What asking for an approval came to: words on it, or what does not agree when the run is worked out again."""

    words: str = ""
    wrong: list[Check] = field(default_factory=list)


def approve_recomputed(
    run: Path,
    by: str | None,
    despite: Sequence[str],
    submissions: Path | None = None,
    validation: Path | None = None,
    reference: Path | None = None,
    prior: Sequence[Path] = (),
    intake: str | None = None,
    progress: Progress | None = None,
) -> Approval:
    """Work a run out again and approve it, unless something is wrong; one that was approved stays as it is."""
    state = run_of(run).state
    if state in APPROVED:
        return Approval(f"was {state} before; nothing changed")
    require_answers(run, despite)
    manifest = sha256(run / MANIFEST)  # of what is worked out again: another may lie there afterwards
    checks = verify(run, True, submissions, validation, progress, reference, prior=prior, intake=intake)
    if wrong := [check for check in checks if not check.good]:
        return Approval(wrong=wrong)
    after = approve(run, manifest, by, despite)
    return Approval("approved" if after in APPROVED else _waiting(run))


def _waiting(run: Path) -> str:
    """Who has approved a run, and who must still."""
    accounts = book_of(run).accounts()
    record = run_of(run, accounts)
    standing = standing_approvals(accounts, record.run)
    older = [visible(who) for who, _ in record.approvals if who not in standing]
    return (
        f"approved by {', '.join(map(visible, standing))}; the book asks for {accounts.rules.approvals} people: "
        + (f"{', '.join(older)} approved before a warning that it has now, and must look at it and approve again"
           if older else "somebody else must approve it, too")
    )  # fmt: skip
