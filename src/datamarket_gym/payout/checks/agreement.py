"""Whether what lies in a run's folder about its checks is what its book, its files and the beacon come to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.files import sha256
from datamarket_gym.payout.book.place import run_of
from datamarket_gym.payout.book.receipts import within_reach
from datamarket_gym.payout.checks import entries
from datamarket_gym.payout.checks.carried import FILE as CARRIED
from datamarket_gym.payout.checks.carried import carried_text
from datamarket_gym.payout.checks.certificate import FILE as CERTIFICATE
from datamarket_gym.payout.checks.certificate import settled_certificate
from datamarket_gym.payout.checks.draw import FILE as CHECKS
from datamarket_gym.payout.checks.draw import DrawnChecks, checks_text, drawn_again
from datamarket_gym.payout.checks.plan import FILE as PLAN
from datamarket_gym.payout.checks.record import FILE as OUTCOMES
from datamarket_gym.payout.checks.record import FOLDER, answers_of
from datamarket_gym.payout.checks.standing import FILE as BEFORE
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import read_manifest, settled_by
from datamarket_gym.payout.verdicts import Check


def agreements(run: Path) -> Iterator[Check]:
    """Everything that can be held against something else, from the plan to the settlement."""
    settles = settled_by(read_manifest(run))
    if settles is not None:
        same = (run / BEFORE).is_file() and sha256(run / BEFORE) == settles.before
        said = f"{len(settles.found)} units found, {len(settles.forfeited)} identities forfeit"
        wrong = "missing, or not what the manifest says: settle the earlier run again"
        yield Check(BEFORE, same, said if same else wrong)
        if text := carried_text(run):
            path = run / CARRIED
            same = path.is_file() and path.read_text(encoding="utf-8") == text
            said = f"{len(text.splitlines()) - 1} units to be handed in again"
            wrong = "missing or changed: settle the earlier run again"
            yield Check(CARRIED, same, said if same else wrong)
    yield from _certificate(run)
    plan = entries.read_plan(run)
    if plan is None:
        return
    path = run / PLAN
    same = _holds(path, plan)
    wrong = "missing, or not the plan in the book: plan or draw again"
    yield Check(PLAN, same, "as entered" if same else wrong)
    known = entries.read_draw(run)
    if known is None:
        return
    try:
        drawn = drawn_again(run)
    except DataMarketError as error:
        yield Check(CHECKS, False, str(error))
        return
    found = _drawn_as_said(run, drawn)
    yield found
    if found.good:
        yield from _answers(run, drawn)


def _holds(path: Path, text: str) -> bool:
    """Whether a file holds a text, to the byte; damaged files hold whatever."""
    return path.is_file() and path.read_bytes() == text.encode()


def _certificate(run: Path) -> Iterator[Check]:
    """The certificate of a run that is checked, worked out again."""
    if not any(entry.kind == "checked" for entry in run_of(run).history):
        return
    try:
        same = _holds(run / CERTIFICATE, settled_certificate(run))
        wrong = "missing, or not what the checks come to: settle again"
        yield Check(CERTIFICATE, same, "as the checks come to" if same else wrong)
    except DataMarketError as error:
        yield Check(CERTIFICATE, False, str(error))


def _drawn_as_said(run: Path, drawn: DrawnChecks) -> Check:
    same = _holds(run / CHECKS, checks_text(drawn))
    wrong = "missing, or not what the manifest, the plan and the beacon come to: draw again with the same beacon"
    said = f"{len(drawn.draws)} checks, drawn again under the beacon"
    return Check(CHECKS, same, said if same else wrong)


def _answers(run: Path, drawn: DrawnChecks) -> Iterator[Check]:
    """The answers against the history, and what was made of them against the answers."""
    record = run_of(run)
    told = [entry.content["outcomes"] for entry in record.history if entry.kind == "answers"]
    path = run / FOLDER / OUTCOMES
    digest = sha256(path) if path.exists() else ""
    if told or digest:
        same = bool(digest) and told[-1:] == [digest]
        wrong = "missing, or not what was recorded last: record the outcomes again"
        yield Check(f"{FOLDER}/{OUTCOMES}", same, f"recorded {len(told)} times" if same else wrong)
        if not same:
            return
    ended = [entry for entry in record.history if entry.kind in ("checked", "superseded")]
    if not ended:
        return
    answers = answers_of(run)
    false = any(d.number in answers and answers[d.number].outcome == "false" for d in drawn.draws)
    passed, said = record.state != "superseded", ended[-1].content
    good = said["outcomes"] == digest and not (passed and false)
    told_so = said["detail"] if good else "answers were changed after they were settled"
    yield Check("settlement", good, told_so)
    later = entries.read_superseded(run)
    if later is not None and within_reach(later[1] / MANIFEST):
        ours, theirs = read_manifest(run), read_manifest(later[1])
        before, settles = settled_by(ours), settled_by(theirs)
        pot = ours["amount"] + (before.kept if before else 0)
        same = settles is not None and (
            settles.manifest,
            settles.outcomes,
            theirs["amount"] + settles.kept,
        ) == (sha256(run / MANIFEST), digest, pot)
        where = str(later[1]) if same else "it does not settle this run"
        yield Check("the run that took its place", same, where)
