"""A run as the book has it: what it was entered with, and how it came to its state."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from datamarket_gym.core.screen import Shown
from datamarket_gym.payout.book.entry import BookEntry, BookError
from datamarket_gym.payout.confusables import cannot_be_seen
from datamarket_gym.payout.contents import Contents
from datamarket_gym.payout.names import look_alikes, unwritable

APPROVED = ("approved", "paid")
"""The states of a run whose payments stand."""
STATES = ("draft", "checked", "superseded", *APPROVED)


_DRAFT = {
    "manifest": str, "places": dict, "checks": int, "lines": list, "opening": dict, "overrides": list,
    "standing": list, "warnings": list, "period": str, "submissions": str, "kept": int,
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """One identity's line in a run: paid now, entitled to, and the balance carried; minor units."""

    identity: str
    paid: int
    entitled: int
    balance: int


@dataclass(frozen=True)
class DrawRecord:
    """By what plan, and under which beacon, a run's checks were drawn."""

    plan: str
    beacon: str


@dataclass(frozen=True)
class RunRecord(Shown):
    """A run; ``places`` are the paths its inputs had, ``checks`` are those it asks for of each payee."""

    run: str
    amount: int
    currency: str
    manifest: str
    places: dict[str, str]
    checks: int
    lines: list[Line]
    opening: dict[str, int]  # balances of the book that it takes up
    overrides: list[dict[str, Any]]
    standing: list[dict[str, Any]]  # those of the overrides that the book brought: resolved disputes
    warnings: list[dict[str, Any]]
    period: str = ""
    submissions: str = ""  # sha256 of what was submitted
    kept: int = 0  # of the pot, by checks that were failed
    contents: Contents = field(default_factory=Contents)  # of what was submitted
    prior: list[str] = field(
        default_factory=list
    )  # earlier runs that it is priced given, the oldest first
    state: str = "draft"
    plan: str | None = None
    beacon: str | None = None
    superseded: tuple[str, str] | None = None  # the run that took its place, and its folder
    approvals: list[tuple[str, str]] = field(default_factory=list)  # by, at
    reference: str | None = None  # what the payment is known by
    history: list[BookEntry] = field(default_factory=list)

    @property
    def draw(self) -> DrawRecord | None:
        """The draw of the run's checks; None where there was none."""
        return None if self.plan is None or self.beacon is None else DrawRecord(self.plan, self.beacon)

    def after(self, entry: BookEntry) -> RunRecord:
        """The run after an entry about it; an error where that cannot follow."""
        step = _STEPS.get(entry.kind)
        after = self if step is None else step(self, entry)
        self.history.append(
            entry
        )  # one list for all states of a run: runs have as many entries as payees
        return after


def entered(entry: BookEntry) -> RunRecord:
    """A run as its draft was entered."""
    said = entry.content
    try:
        if wrong := [name for name, kind in _DRAFT.items() if type(said[name]) is not kind]:
            raise TypeError(wrong[0])
        lines = [Line(str(who), int(p), int(e), int(b)) for who, p, e, b in said["lines"]]
        record = RunRecord(
            entry.run, entry.amount, entry.currency, said["manifest"], said["places"], said["checks"], lines,
            said["opening"], said["overrides"], said["standing"], said["warnings"], said["period"],
            said["submissions"], said["kept"], Contents.from_plain(said.get("contents", {})),
            [str(run) for run in said.get("prior", [])], history=[entry],
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise BookError(
            f"entry {entry.number} is no draft that this version has written: {error!r}"
        ) from error
    _require_sums(record, entry)
    return record


def require_draft(record: RunRecord, what: str) -> None:
    """Refuse what can be done with drafts alone."""
    if record.state != "draft":
        raise BookError(f"the run is {named(record.state)}; only drafts can be {what}")


def same_person(one: str, other: str) -> bool:
    """Whether two names are one person's, however they are typed: names that look alike are one."""
    return one == other or bool(look_alikes([one, other]))


def require_somebody(by: str) -> None:
    """Refuse a name that nobody can see, or that no file can hold."""
    if not any(not c.isspace() and not cannot_be_seen(c) for c in by) or unwritable(by):
        raise BookError("nobody is named; say who does it with --by, in letters that can be seen")


def named(state: str) -> str:
    """A state as sentences say it."""
    return {"draft": "a draft"}.get(state, state)


def _require_sums(record: RunRecord, entry: BookEntry) -> None:
    """The lines pay the amount, and balances are those that were brought in."""
    names = [line.identity for line in record.lines]
    paid, left = sum(x.paid for x in record.lines), sum(x.balance for x in record.lines)
    good = (
        len(set(names)) == len(names)
        and record.opening.keys() <= set(names)
        and paid == record.amount
        and left == sum(record.opening.values())
        and all(x.paid >= 0 and x.entitled == x.paid + x.balance for x in record.lines)
    )
    if not good:
        raise BookError(f"the payments of the run in entry {entry.number} do not add up to its amount")


def _planned(run: RunRecord, entry: BookEntry) -> RunRecord:
    require_draft(run, "planned")
    if run.beacon is not None:
        raise BookError(
            f"checks of this run were drawn already (beacon {run.beacon!r}); a plan cannot change after that"
        )
    return replace(run, plan=str(entry.content["plan"]))


def _drawn(run: RunRecord, entry: BookEntry) -> RunRecord:
    require_draft(run, "drawn")
    if run.plan is None or run.beacon is not None:
        raise BookError("checks are drawn once, by a plan that was entered before")
    return replace(run, beacon=str(entry.content["beacon"]))


def _answered(run: RunRecord, entry: BookEntry) -> RunRecord:
    require_draft(run, "answered")
    return run


def _checked(run: RunRecord, entry: BookEntry) -> RunRecord:
    require_draft(run, "checked")
    return replace(run, state="checked")


def _superseded(run: RunRecord, entry: BookEntry) -> RunRecord:
    require_draft(run, "superseded")
    said = entry.content
    return replace(run, state="superseded", superseded=(str(said["by_run"]), str(said["place"])))


def _approval(run: RunRecord, entry: BookEntry) -> RunRecord:
    _require_approvable(run)
    if any(same_person(entry.by, by) for by, _ in run.approvals):
        raise BookError(f"{entry.by!r} has approved the run before; somebody else must, too")
    if entry.content.get("manifest") != run.manifest:
        raise BookError("the approval is of another manifest than the run was entered with")
    return replace(run, approvals=[*run.approvals, (entry.by, entry.at)])


def _approved(run: RunRecord, entry: BookEntry) -> RunRecord:
    _require_approvable(run)
    if entry.amount != run.amount or entry.currency != run.currency:
        raise BookError(f"entry {entry.number} approves another amount than the run's")
    return replace(run, state="approved")


def _require_approvable(run: RunRecord) -> None:
    """A draft that asks for no checks and has none begun, or a run that is checked."""
    if not (run.state == "checked" or (run.state == "draft" and not run.checks and run.beacon is None)):
        raise BookError(f"the run is {named(run.state)} and cannot be approved")


def _paid(run: RunRecord, entry: BookEntry) -> RunRecord:
    if run.state != "approved":
        raise BookError(f"the run is {named(run.state)}; approve it before it is paid")
    return replace(run, state="paid", reference=str(entry.content["reference"]))


_STEPS = {
    "planned": _planned,
    "drawn": _drawn,
    "answers": _answered,
    "checked": _checked,
    "superseded": _superseded,
    "approval": _approval,
    "approved": _approved,
    "paid": _paid,
}
