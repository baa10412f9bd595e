"""certificate.json: what the checks of a run leave to be gained, by the power that the operator states.

Whether what lies in a run's folder about its checks is what its ledger, its files and the beacon come to.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from datamarket_gym.analysis.theorems.deterrence import Checks, Deterrence, Examined, certified_checks
from datamarket_gym.analysis.theorems.leakage import Externality
from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.files import json_text, sha256
from datamarket_gym.mechanism.pipeline import Mechanism
from datamarket_gym.payout.checks import plan as entries
from datamarket_gym.payout.checks.draw import FILE as CHECKS
from datamarket_gym.payout.checks.draw import DrawnChecks, checks_text, read_checks, recompute_draw
from datamarket_gym.payout.checks.earlier_draft import EARLIER_FILE as BEFORE
from datamarket_gym.payout.checks.outcomes import FILE as OUTCOMES
from datamarket_gym.payout.checks.outcomes import FOLDER, answers_of, examination_of
from datamarket_gym.payout.checks.plan import CARRIED_FILE as CARRIED
from datamarket_gym.payout.checks.plan import PLAN_FILE as PLAN
from datamarket_gym.payout.checks.plan import CheckPlan, carried_text, paid_payees
from datamarket_gym.payout.ledger.runs import run_of
from datamarket_gym.payout.ledger.store import is_readable
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import Check, read_manifest, settled_by, spec_of
from datamarket_gym.payout.money import Currency

FILE = "certificate.json"


def settled_certificate(run: Path) -> str:
    """The text of the certificate of a run that everybody passed, from what is kept of its checks and those before."""
    plan, settles = entries.read_plan(run), settled_by(read_manifest(run))
    if plan is not None:
        checks = CheckPlan.model_validate_json(plan).spot_checks
    elif settles is not None:  # nobody failed there, so that nothing was drawn here
        checks = Checks(settles.checks, settles.power)
    else:
        raise DataMarketError(f"no checks are planned; run: datamarket check plan {run}")
    found = certificate_of(run, checks)
    return json_text({**found.model_dump(mode="json"), "words": found.words})


def _examined(run: Path) -> Examined:
    """Whether each draw was a look of its own: by the answers here, or by those that all stand."""
    settles = settled_by(read_manifest(run))
    if settles is not None and entries.read_draw(run) is None:
        return settles.examined
    return examination_of(read_checks(run), answers_of(run))


def certificate_of(run: Path, checks: Checks) -> Deterrence:
    """What so many checks of every payee leave, for a run whose payees passed them."""
    manifest = read_manifest(run)
    spec, money, settles = (spec_of(manifest), Currency(manifest["currency"]), settled_by(manifest))
    payees = paid_payees(run, manifest)
    return certified_checks(
        checks,
        payments=[p.paid / 10**money.digits for p in payees],
        kappa=max(p.kappa for p in payees),
        largest_unit=max(p.largest_unit for p in payees),
        externality=Externality.by(Mechanism.model_validate(manifest["mechanism"]), spec.utility),
        carried=len(settles.carried) if settles else 0,
        examined=_examined(run),
        money=money.code,
    )


def verify_checks(run: Path) -> Iterator[Check]:
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
    wrong = "missing, or not the plan in the ledger: plan or draw again"
    yield Check(PLAN, same, "as entered" if same else wrong)
    known = entries.read_draw(run)
    if known is None:
        return
    try:
        drawn = recompute_draw(run)
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
        same = _holds(run / FILE, settled_certificate(run))
        wrong = "missing, or not what the checks come to: settle again"
        yield Check(FILE, same, "as the checks come to" if same else wrong)
    except DataMarketError as error:
        yield Check(FILE, False, str(error))


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
    if later is not None and is_readable(later[1] / MANIFEST):
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
