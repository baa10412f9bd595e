"""check settle: no payee failed, and the run is checked; or one did, and the pot is paid again.

A payee who fails is paid nothing. Units found to be false are taken out; all others of that payee stay in the game in
their place and time: they match and dilute as before, unpaid. If they left, the attacker's other names would earn what
they earned, and failing would cost nothing; or a name could be sacrificed that kept another's false units from earning,
and from being drawn. What they would be paid is divided among the others, or kept, in a new draft that names the old
one. Amounts are others there, so that it is drawn again, on its own amounts.

Payees who were not checked because they would be paid too little are not paid. What their units earn is divided among
the others, or kept, too, and ``carried.csv`` lists the units, to be handed in again. Where no payee failed, the
units of each payee then earn in the same proportions, so that draws of the old draft stand.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from datamarket_gym.display import counted, listed
from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.files import sha256, write_text
from datamarket_gym.execution.progress import Progress
from datamarket_gym.payout.checks.draw import DrawnChecks, read_checks
from datamarket_gym.payout.checks.outcomes import (
    CERTIFICATE,
    CheckAnswer,
    answers_of,
    certificate_text,
    examination_of,
    outcome_of,
    outcomes_digest,
)
from datamarket_gym.payout.checks.plan import (
    CheckPlan,
    EarlierDraw,
    EarlierReview,
    FalseUnit,
    PlanSummary,
    SettledDraft,
    paid_payees,
    payee_names,
    read_check_plan,
    shares_to_bytes,
    working_in,
    write_earlier_files,
)
from datamarket_gym.payout.ledger.entries import APPROVED
from datamarket_gym.payout.ledger.runs import ledger_of, run_of, transaction_of
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import read_manifest, settled_by, spec_of
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.stored_inputs import places_of
from datamarket_gym.payout.verify import verify

_NAMED, _SHOWN = 5, 20


@dataclass(frozen=True)
class SettledChecks:
    failed: list[str]
    found: list[FalseUnit]
    carried: list[str]
    run: Path  # the run itself, or the new draft
    checked: bool  # whether it can be approved


def settle(
    run: Path,
    out: Path | None = None,
    by: str | None = None,
    *,
    unanswered_false: bool = False,
    keep_forfeited: bool = True,
    progress: Progress | None = None,
) -> SettledChecks:
    """Settle the checks of a run; killed, it is finished by the same call.

    With ``keep_forfeited`` the operator keeps what payees who failed, or were not checked, were to be paid for units,
    and the new draft divides the rest.
    """
    bad = [check for check in verify(run) if not check.good]
    if bad:
        raise DataMarketError(f"{bad[0].what}: {bad[0].detail}; run: datamarket verify {run}")
    drawn, plan = read_checks(run), read_check_plan(run)
    found = found_units(drawn, answers_of(run), unanswered_false)
    failed = sorted({unit.payee for unit in found})
    with working_in(run):
        if not failed and not plan.carried:
            _mark_checked(run, "all payees passed", outcomes_digest(run), by)
            return SettledChecks([], [], [], run, True)
        reasons = [f"{_listed(failed)} failed"] if failed else []
        if plan.carried:
            verb = "is" if len(plan.carried) == 1 else "are"
            reasons.append(f"{_listed(plan.carried)} {verb} neither checked nor paid")
        why = " and ".join(reasons)
        if out is None:
            raise DataMarketError(
                f"{why}, so that the pot is paid again: name a folder for the new draft, --out"
            )
        later = run_of(run).superseded
        if out.resolve() == run.resolve():
            raise DataMarketError("the new draft needs a folder of its own; name another --out")
        if later is not None and Path(later[1]) != out.resolve():
            raise DataMarketError(
                f"the run was settled into {later[1]!r} before; go on there, or two drafts could be paid"
            )
        manifest = read_manifest(run)
        spec = spec_of(manifest)
        kept = forfeited_by(run, manifest, [*failed, *plan.carried]) if keep_forfeited else 0
        if kept:
            spec = spec.model_copy(update={"amount": spec.money.text(spec.minor - kept)})
        settles, shares = _settled_draft(run, manifest, drawn, plan, found, kept)
        places = replace(places_of(run), settles=run)
        new = pay(places, spec, out, progress, settles, ledger_of(run).where)
        write_earlier_files(out, shares)
        with transaction_of(run) as (transaction, record):
            if record.state != "superseded":
                content = {
                    "by_run": new["run"], "place": str(out.resolve()), "detail": why, "outcomes": settles.outcomes,
                    "forfeited": settles.forfeited, "unchecked": settles.carried,
                }  # fmt: skip
                transaction.add("superseded", run=record.run, content=content, by=by)
        # Units of a payee earn in the same proportions, so every draw stands, unless a dispute was decided meanwhile.
        stand = not failed and new["standing_overrides"] == manifest["standing_overrides"]
        if stand:
            _mark_checked(out, f"all payees passed the checks of run {settles.run}", "", by)
        return SettledChecks(failed, found, plan.carried, out, stand)


def _mark_checked(run: Path, detail: str, outcomes: str, by: str | None) -> None:
    write_text(run / CERTIFICATE, certificate_text(run))
    with transaction_of(run) as (transaction, record):
        if record.state not in ("checked", *APPROVED):
            content = {"detail": detail, "outcomes": outcomes}
            transaction.add("checked", run=record.run, content=content, by=by)


def found_units(
    drawn: DrawnChecks, answers: Mapping[int, CheckAnswer], unanswered_false: bool
) -> list[FalseUnit]:
    missing = [d for d in drawn.draws if outcome_of(d, answers) == "unanswered"]
    if missing and not unanswered_false:
        shown = listed((str(d.number) for d in missing), _NAMED)
        raise DataMarketError(
            f"{len(missing)} of {len(drawn.draws)} checks are not answered (number {shown}); record the outcomes, or "
            "let payees who did not answer in time fail: --unanswered false"
        )
    units: dict[str, FalseUnit] = {}
    for draw in drawn.draws:
        outcome = outcome_of(draw, answers)
        if outcome in ("false", "unanswered"):
            note = answers[draw.number].note if draw.number in answers else ""
            note = note if outcome == "false" else f"not answered. {note}".strip()
            unit = FalseUnit(unit=draw.unit, identity=draw.identity, payee=draw.payee, note=note)
            units.setdefault(draw.unit, unit)
    return list(units.values())


def _settled_draft(
    run: Path,
    manifest: dict[str, Any],
    drawn: DrawnChecks,
    plan: CheckPlan,
    found: list[FalseUnit],
    kept: int,
) -> tuple[SettledDraft, bytes]:
    """Return what the new draft settles, added to what the old one did; and each unit's chance to be drawn then."""
    payee, earlier = payee_names(run), settled_by(manifest)
    gone, carried = frozenset(unit.payee for unit in found), frozenset(plan.carried)
    passed = [p for p in paid_payees(run, manifest) if p.name not in gone | carried]
    if not passed:
        raise DataMarketError(
            "every payee failed its checks, so that none is left to be paid and the run stays a draft; if an answer "
            "was wrong, record it with --correct, else pay for other units"
        )
    shares, answers = shares_to_bytes(passed), answers_of(run)
    draws = [d for d in (*drawn.kept, *drawn.draws) if d.payee not in gone]
    genuine = [d for d in draws if d.number and outcome_of(d, answers) == "genuine"]
    settles = SettledDraft(
        run=manifest["run"],
        manifest=sha256(run / MANIFEST),
        beacon=drawn.beacon,
        checks=drawn.checks,
        power=drawn.power,
        outcomes=outcomes_digest(run),
        found=found,
        forfeited=sorted(name for name, group in payee.items() if group in gone),
        carried=sorted(name for name, group in payee.items() if group in carried),
        draws=[EarlierDraw(payee=d.payee, unit=d.unit) for d in draws],
        looks=[EarlierReview(unit=d.unit, by=answers[d.number].by) for d in genuine],
        examined=examination_of(drawn, answers),
        before=hashlib.sha256(shares).hexdigest(),
        kept=kept,
    )
    if earlier is not None:
        added = {
            "beacons": [*earlier.beacons, earlier.beacon],
            "found": [*earlier.found, *settles.found],
            "forfeited": sorted({*settles.forfeited, *earlier.forfeited}),
            "carried": sorted({*settles.carried, *earlier.carried}),
            "looks": [*earlier.looks, *settles.looks],
            "kept": kept + earlier.kept,
        }
        settles = settles.model_copy(update=added)
    return settles, shares


def forfeited_by(run: Path, manifest: dict[str, Any], failed: Sequence[str]) -> int:
    """Return what a run would pay some payees for their units, in minor units: old balances are not forfeited."""
    payee, opening = payee_names(run), manifest["opening_balances"]
    old = dict.fromkeys(failed, 0)
    for name, balance in opening.items():
        if payee.get(name) in old:
            old[payee[name]] += balance
    return sum(max(0, p.paid - max(0, old[p.name])) for p in paid_payees(run, manifest) if p.name in old)


def _listed(names: Sequence[str]) -> str:
    return listed((repr(visible(name)) for name in names), _NAMED)


def plan_rows(summary: PlanSummary, currency: str) -> list[tuple[str, str]]:
    plan, money = summary.plan, Currency(currency)
    paid, cost, alarm_cost, carried, least = (
        f"{currency} {money.text(minor)}"
        for minor in (summary.paid, summary.cost, summary.alarm_cost, summary.carried, plan.least)
    )
    rows = [
        ("checks of each payee", f"{plan.checks:,}"),
        ("power of a check", f"{plan.power:g}"),
        ("checks in all, at most", f"{summary.in_all:,}"),
        ("of them second ones, expected", f"{summary.again:,.1f}"),
        ("paid to those who are checked", paid),
        ("kappa, the largest", f"{summary.kappa:.3f}"),
        ("left to gain, in expectation", f"{summary.gap:.2%} of what is paid"),
        ("left without any second checks", f"{summary.once:.2%} of what is paid"),
        ("of one payee, at most", f"{summary.most:.2%} of its payment"),
    ]
    if plan.price:
        share = summary.cost / summary.paid if summary.paid else 0.0
        rows.append(("cost, at most", f"{cost}, {share:.1%} of what is paid"))
    if plan.least:
        payees = counted(len(plan.carried), "payee")
        rows.append((f"neither checked nor paid, below {least}", f"{payees}, {carried}"))
    if plan.false_alarms:
        cost = f"{summary.alarmed:.2%} of honest payees fail, {alarm_cost} expected"
        rows.append((f"false alarms, {plan.false_alarms:g} a check", cost))
    return rows


def to_publish(run: Path, plan: CheckPlan) -> list[tuple[str, str]]:
    digest = hashlib.sha256(plan.text.encode()).hexdigest()
    return [("manifest", sha256(run / MANIFEST)), ("plan", digest)]


def draw_messages(drawn: DrawnChecks) -> list[str]:
    messages = []
    if drawn.kept:
        draws = counted(len(drawn.kept), "draw")
        messages.append(f"{draws} fell on units that were checked in an earlier draft, as often.")
    if several := sum(len(numbers) > 1 for numbers in drawn.check_numbers.values()):
        units = counted(several, "unit")
        messages.append(
            f"{units} of the list were drawn more than once, and are checked by as many people."
        )
    if people := sorted({name for names in drawn.before.values() for name in names}):
        messages.append(
            f"{counted(len(drawn.before), 'unit')} of the list were checked in an earlier draft, by "
            f"{'; '.join(map(visible, people[:_SHOWN]))}: other people have to check them now."
        )
    return messages


def failure_messages(settled: SettledChecks) -> list[str]:
    messages = []
    for name in settled.failed:
        units = [unit for unit in settled.found if unit.payee == name]
        shown = ", ".join(f"{visible(u.unit)}{f' ({visible(u.note)})' if u.note else ''}" for u in units)
        messages.append(f"{visible(name)} failed and is paid nothing: {shown}")
    return messages


@dataclass(frozen=True)
class SettlementPreview:
    words: list[str]
    waiting: list[int] = field(default_factory=list)  # numbers of checks that need an answer first
    failed: list[str] = field(default_factory=list)
    carried: list[str] = field(default_factory=list)
    new_draft: bool = False


def preview_settlement(run: Path, unanswered_false: bool, keep_forfeited: bool) -> SettlementPreview:
    """Return what `settle` would come to with the answers as they are now; nothing is written."""
    drawn, carried, answers = read_checks(run), read_check_plan(run).carried, answers_of(run)
    missing = [d.number for d in drawn.draws if outcome_of(d, answers) == "unanswered"]
    if missing and not unanswered_false:
        checks = counted(len(missing), "check is", "checks are")
        message = f"{checks} not answered: wait for the answers, or let payees who do not answer fail."
        return SettlementPreview([message], missing)
    failed = sorted({unit.payee for unit in found_units(drawn, answers, unanswered_false=True)})
    if not failed and not carried:
        return SettlementPreview(
            ["All payees passed: the run is marked as checked, and can be approved as it is."]
        )
    manifest = read_manifest(run)
    spec = spec_of(manifest)
    lost = forfeited_by(run, manifest, [*failed, *carried])
    pot, forfeited, rest = (
        f"{spec.currency} {spec.money.text(minor)}" for minor in (spec.minor, lost, spec.minor - lost)
    )
    messages = []
    if failed:
        messages.append(
            f"{listed(map(visible, failed), _NAMED)} failed: paid nothing. Their false units are taken out; the others "
            "stay in the game, unpaid, so that a name that was made to fail is no gain for another."
        )
    if carried:
        messages.append(
            f"{listed(map(visible, carried), _NAMED)}: paid too little to be checked, so neither checked nor paid; "
            "the units can be handed in again (carried.csv)."
        )
    messages.append(
        f"{forfeited} are kept, and a new draft divides the other {rest}."
        if keep_forfeited
        else f"A new draft divides all of {pot} among the others, with the {forfeited} forfeited here."
    )
    end = "the checks that were made stand in the new draft."
    if failed:
        end = "the new draft has other amounts, and is planned and drawn under another beacon."
    messages.append(f"This run can no longer be approved after that; {end}")
    return SettlementPreview(messages, [], failed, carried, True)
