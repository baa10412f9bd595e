"""Sampling the units of a draft to check, and settling what the checks found: the run is checked, or paid again.

Under ``forfeit = "payee"`` a payee who fails is paid nothing. Units found to be false are taken out; all others of that
payee stay in the game in their place and time: they match and dilute as before, unpaid. If they left, the attacker's
other names would earn what they earned, and failing would cost nothing; or a name could be sacrificed that kept
another's false units from earning, and from being drawn. Under ``forfeit = "unit"`` units found to be false are taken
out, with those of the same payee that they were matched with, which would only take their place.

What is forfeited is kept, or divided among the others, in a new draft that names the old one. Amounts are others there,
so that it is drawn again, on its own amounts: at once by a local seed, or under the next beacon. Payees who were not
checked because they would be paid too little are not paid. What their units earn is kept or divided, too, and
``carried.csv`` lists the units, to be handed in again. Where no payee failed, the units of each payee then earn in the
same proportions, so that draws of the old draft stand.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from datamarket_gym.display import counted, listed
from datamarket_gym.errors import DataMarketError
from datamarket_gym.evidence.graph import collect_market_warnings
from datamarket_gym.execution.files import sha256, write_text
from datamarket_gym.execution.progress import SILENT, Progress
from datamarket_gym.payout.checks.draw import LOCAL_SEED, DrawnChecks, draw_checks, read_checks
from datamarket_gym.payout.checks.outcomes import (
    answers_of,
    examination_of,
    mark_checked,
    outcome_of,
    outcomes_digest,
    was_announced,
)
from datamarket_gym.payout.checks.plan import (
    DRAND,
    FOLDER,
    EarlierDraw,
    EarlierReview,
    FalseUnit,
    PlanRequest,
    PlanSummary,
    SettledDraft,
    is_drand,
    make_plan,
    paid_payees,
    payee_names,
    read_check_plan,
    shares_to_bytes,
    summarize_plan,
    working_in,
    write_earlier_files,
)
from datamarket_gym.payout.checks.review_page import NO_TERMS, LetterTerms, write_checks_page
from datamarket_gym.payout.ledger.entries import APPROVED
from datamarket_gym.payout.ledger.runs import ledger_of, run_of, transaction_of
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import read_manifest, settled_by, spec_of
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.settings import PayoutSpec
from datamarket_gym.payout.stored_inputs import Places, places_of
from datamarket_gym.payout.verify import verify
from datamarket_gym.registry import Document

_NAMED, _SHOWN = 5, 20
_NEXT = f"{FOLDER}/next.txt"  # the name of the new draft's folder, for a settlement that was killed


@dataclass(frozen=True)
class Sample:
    """What sampling came to: the plan, the draw if there is one by now, and whether nothing is left to look at."""

    plan: PlanSummary
    drawn: DrawnChecks | None
    checked: bool = False


def sample_checks(
    run: Path,
    request: PlanRequest | None = None,
    beacon: str = "",
    by: str | None = None,
    *,
    terms: LetterTerms = NO_TERMS,
    places: Places | None = None,
) -> Sample:
    """Plan the checks of a draft, and draw its units, once; only plan where a beacon is announced and not there yet.

    Without a ``request`` the plan that stands decides, or else the settings of the run; without an announced ``beacon``
    a local seed draws. Drawn before, the files for whoever checks are written again. A new draft of which every unit
    that was drawn has been checked before is checked.
    """
    record = run_of(run)
    if record.draw is None and record.state in ("checked", *APPROVED):
        raise DataMarketError(f"the run is {record.state}; then: datamarket ledger approve {run}")
    request = request or PlanRequest()
    asked = request != PlanRequest()
    if record.draw is not None and asked:
        raise DataMarketError(
            "checks of this run were drawn already, and their plan cannot change after that; leave its options out"
        )
    if beacon and asked:
        raise DataMarketError(
            "with a beacon that is known the plan cannot change any more, or it could be chosen to draw what pleases; "
            "leave its options out"
        )
    if record.draw is None and (record.plan is None or asked):
        make_plan(run, request, by)
    manifest, plan = read_manifest(run), read_check_plan(run)
    summary = summarize_plan(plan, paid_payees(run, manifest), spec_of(manifest).forfeit)
    if record.draw is None and plan.announced and not beacon:
        return Sample(summary, None)
    drawn = draw_checks(run, beacon, by)
    with working_in(run):
        write_checks_page(run, drawn, places, terms)
        nothing_new = not drawn.draws and not plan.carried
        if nothing_new and record.state == "draft":
            mark_checked(run, "all payees passed in an earlier draft", by)
    return Sample(summary, drawn, nothing_new)


@dataclass(frozen=True)
class SettledChecks:
    failed: list[str]  # payees of whom a unit was found false
    found: list[FalseUnit]
    carried: list[str]
    run: Path  # the run itself, or the new draft
    checked: bool  # whether it can be approved
    sample: Sample | None = None  # of the new draft, where units had to be drawn
    warnings: tuple[str, ...] = ()  # on the way to the new draft


def draft_folder(run: Path) -> Path:
    """Return the folder of the next draft: june-2 beside june, june-3 beside june-2."""
    if (run / _NEXT).is_file():
        return run.parent / Path((run / _NEXT).read_text(encoding="utf-8")).name
    base, _, last = run.name.rpartition("-")
    later = settled_by(read_manifest(run)) is not None and base and last.isdecimal()
    stem, number = (base, int(last) + 1) if later else (run.name, 2)
    while (run.parent / f"{stem}-{number}").exists():
        number += 1
    return run.parent / f"{stem}-{number}"


class SettleRequest(Document):
    """How checks are settled."""

    unanswered: Literal["wait", "false"] = Field(
        default="wait", description="Checks without an answer: wait for it, or treat the units as false."
    )
    forfeited: Literal["divide", "keep"] = Field(
        default="keep",
        description="Payments of payees who failed or were not checked: keep them, so that no payee gains from a name "
        "that is made to fail, or divide them among the others.",
    )


SETTLE = SettleRequest()


@dataclass(frozen=True)
class Settlement:
    """What the answers to the checks of a run come to, as they are now."""

    spec: PayoutSpec
    waiting: list[int]  # numbers of checks that need an answer first
    failed: list[str]  # payees of whom a unit was found false
    found: list[FalseUnit]  # what is taken out of the game
    carried: list[str]  # payees who are paid too little to be checked
    lost: int  # minor units that are not paid to whom they were to be

    @property
    def new_draft(self) -> bool:
        return bool(self.failed or self.carried)


def work_out_settlement(run: Path, request: SettleRequest = SETTLE) -> Settlement:
    """Return what `settle` would come to with the answers as they are now; nothing is written."""
    drawn, answers, carried = read_checks(run), answers_of(run), read_check_plan(run).carried
    manifest, units = read_manifest(run), dict[str, FalseUnit]()
    spec, waiting = spec_of(manifest), list[int]()
    for draw in drawn.draws:
        outcome = outcome_of(draw, answers)
        if outcome == "unanswered" and request.unanswered == "wait":
            waiting.append(draw.number)
        elif outcome in ("false", "unanswered"):
            note = answers[draw.number].note if draw.number in answers else ""
            note = note if outcome == "false" else f"not answered. {note}".strip()
            unit = FalseUnit(unit=draw.unit, identity=draw.identity, payee=draw.payee, note=note)
            units.setdefault(draw.unit, unit)
    found, failed = list(units.values()), sorted({unit.payee for unit in units.values()})
    if failed and spec.forfeit == "unit":
        found = _with_matched(run, found)
    lost = _forfeited(run, manifest, found, carried) if failed or carried else 0
    return Settlement(spec, waiting, failed, found, carried, lost)


def settle(
    run: Path,
    out: Path | None = None,
    by: str | None = None,
    request: SettleRequest = SETTLE,
    progress: Progress = SILENT,
) -> SettledChecks:
    """Settle the checks of a run; killed, it is finished by the same call.

    Unless forfeits are divided, the operator keeps what was to be paid for what failed, or was not checked, and the new
    draft (in ``out``, or the next folder beside the run's) divides the rest. Its checks are sampled by the rule of the
    run's: by a local seed at once, or the next beacon is announced.
    """
    record = run_of(run)
    if record.state in ("checked", *APPROVED):
        with working_in(run):
            mark_checked(run, "", by)  # what a killed call has left
        return SettledChecks([], [], [], run, True)
    bad = [check for check in verify(run) if not check.good]
    if bad:
        raise DataMarketError(f"{bad[0].what}: {bad[0].detail}; run: datamarket verify {run}")
    came = work_out_settlement(run, request)
    if came.waiting:
        shown, in_all = listed(map(str, came.waiting), _NAMED), len(read_checks(run).draws)
        raise DataMarketError(
            f"{len(came.waiting)} of {in_all} checks are not answered (number {shown}); record the outcomes, or let "
            "payees who did not answer in time fail: --unanswered false"
        )
    if not came.new_draft:
        with working_in(run):
            mark_checked(run, "all payees passed", by)
        return SettledChecks([], [], [], run, True)
    later = record.superseded
    if out is None:
        out = draft_folder(run) if later is None else Path(later[1])
        (run / FOLDER).mkdir(exist_ok=True)
        write_text(run / _NEXT, out.name)
    if out.resolve() == run.resolve():
        raise DataMarketError("the new draft needs a folder of its own; name another --out")
    if later is not None and Path(later[1]) != out.resolve():
        raise DataMarketError(
            f"the run was settled into {later[1]!r} before; go on there, or two drafts could be paid"
        )
    with working_in(run):
        spec, kept = came.spec, came.lost if request.forfeited == "keep" else 0
        if kept:
            spec = spec.model_copy(update={"amount": spec.money.text(spec.minor - kept)})
        settles, shares = _settled_draft(run, came.found, kept)
        places = replace(places_of(run), settles=run)
        with collect_market_warnings() as warned:
            new = pay(places, spec, out, progress, settles, ledger_of(run).where)
        write_earlier_files(out, shares)
        with transaction_of(run) as (transaction, record):
            if record.state != "superseded":
                content = {
                    "by_run": new["run"], "place": str(out.resolve()), "detail": _reason(came),
                    "outcomes": settles.outcomes, "forfeited": settles.forfeited, "unchecked": settles.carried,
                }  # fmt: skip
                transaction.add("superseded", run=record.run, content=content, by=by)
    # Units of a payee earn in the same proportions, so every draw stands, unless a dispute was decided meanwhile.
    stand = not came.failed and new["standing_overrides"] == read_manifest(run)["standing_overrides"]
    sample, announced = None, read_check_plan(run).announced
    if stand:
        with working_in(out):
            mark_checked(out, f"all payees passed the checks of run {settles.run}", by)
    elif run_of(out).state == "draft" and (not announced or is_drand(announced)):
        again = announced and run_of(out).plan is None
        sample = sample_checks(out, PlanRequest(announce=DRAND) if again else None, by=by)
    checked, warnings = run_of(out).state != "draft", tuple(each.words for each in warned)
    return SettledChecks(came.failed, came.found, came.carried, out, checked, sample, warnings)


def _reason(came: Settlement) -> str:
    reasons = [f"{_listed(came.failed)} failed"] if came.failed else []
    if came.carried:
        verb = "is" if len(came.carried) == 1 else "are"
        reasons.append(f"{_listed(came.carried)} {verb} neither checked nor paid")
    return " and ".join(reasons)


def _with_matched(run: Path, found: Sequence[FalseUnit]) -> list[FalseUnit]:
    """Add the units of the same payee that false units were matched with."""
    import pyarrow.parquet as pq

    columns, payee = ["unit", "identity", "cluster"], payee_names(run)
    rows = pq.read_table(run / "clusters.parquet", columns=columns).to_pylist()
    false = {unit.unit: unit for unit in found}
    first = {
        (row["cluster"], false[row["unit"]].payee): row["unit"] for row in rows if row["unit"] in false
    }
    matched = [
        FalseUnit(
            unit=row["unit"], identity=row["identity"], payee=payee[row["identity"]],
            note=f"matched with {first[row['cluster'], payee[row['identity']]]}",
        )
        for row in rows
        if row["unit"] not in false and (row["cluster"], payee[row["identity"]]) in first
    ]  # fmt: skip
    return [*found, *matched]


def _settled_draft(run: Path, found: list[FalseUnit], kept: int) -> tuple[SettledDraft, bytes]:
    """Return what the new draft settles, added to what the old one did; and each unit's chance to be drawn then."""
    manifest, drawn, plan = read_manifest(run), read_checks(run), read_check_plan(run)
    payee, earlier, spec = payee_names(run), settled_by(manifest), spec_of(manifest)
    payees, carried, false = paid_payees(run, manifest), frozenset(plan.carried), {u.unit for u in found}
    gone = frozenset(unit.payee for unit in found) if spec.forfeit == "payee" else frozenset[str]()
    passed = [p for p in payees if p.name not in gone | carried]
    if all(unit in false for p in passed for unit in p.units):
        raise DataMarketError(
            "every payee failed its checks, so that none is left to be paid and the run stays a draft; if an answer "
            "was wrong, record it with --correct, else pay for other units"
        )
    shares, answers = shares_to_bytes(passed), answers_of(run)
    draws = [d for d in (*drawn.kept, *drawn.draws) if d.payee not in gone]
    genuine = [d for d in draws if d.number and outcome_of(d, answers) == "genuine"]
    examined = examination_of(drawn, answers)
    gap = 0.0
    if spec.forfeit == "unit":
        gap = max(p.gap(plan.spot_checks, "unit", examined) for p in passed)
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
        examined=examined,
        before=hashlib.sha256(shares).hexdigest(),
        kept=kept,
        announced=was_announced(earlier, drawn),
        gap=gap,
    )
    if earlier is not None:
        added = {
            "beacons": [*earlier.beacons, earlier.beacon],
            "found": [*earlier.found, *settles.found],
            "forfeited": sorted({*settles.forfeited, *earlier.forfeited}),
            "carried": sorted({*settles.carried, *earlier.carried}),
            "looks": [*earlier.looks, *settles.looks],
            "kept": kept + earlier.kept,
            "gap": max(gap, earlier.gap),
        }
        settles = settles.model_copy(update=added)
    return settles, shares


def _forfeited(
    run: Path, manifest: dict[str, Any], found: Sequence[FalseUnit], carried: Sequence[str]
) -> int:
    """Return what a run would pay for what is not paid now, in minor units: old balances are not forfeited."""
    payee, spec = payee_names(run), spec_of(manifest)
    whole, false = set(carried), {unit.unit for unit in found}
    if spec.forfeit == "payee":
        whole |= {unit.payee for unit in found}
    old: dict[str, int] = {}
    for name, balance in manifest["opening_balances"].items():
        group = payee.get(name, name)
        old[group] = old.get(group, 0) + balance
    lost = 0
    for p in paid_payees(run, manifest):
        paid = max(0, p.paid - max(0, old.get(p.name, 0)))
        part = sum(a for unit, a in zip(p.units, p.amount.tolist(), strict=True) if unit in false)
        lost += paid if p.name in whole else min(paid, round(part * 10**spec.money.digits))
    return lost


def _listed(names: Sequence[str]) -> str:
    return listed((repr(visible(name)) for name in names), _NAMED)


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
    return messages if drawn.announced else [*messages, LOCAL_SEED]


def failure_messages(settled: SettledChecks) -> list[str]:
    if not settled.failed:
        return []
    settles, messages = settled_by(read_manifest(settled.run)), []
    whole = frozenset(settles.forfeited if settles else ())
    for name in settled.failed:
        units = [unit for unit in settled.found if unit.payee == name]
        shown = ", ".join(f"{visible(u.unit)}{f' ({visible(u.note)})' if u.note else ''}" for u in units)
        forfeits = "is paid nothing" if any(u.identity in whole for u in units) else "is not paid for"
        messages.append(f"{visible(name)} failed and {forfeits}: {shown}")
    return messages


def settlement_messages(came: Settlement, request: SettleRequest = SETTLE) -> list[str]:
    """Say what settling would do."""
    if came.waiting:
        checks = counted(len(came.waiting), "check is", "checks are")
        return [f"{checks} not answered: wait for the answers, or let payees who do not answer fail."]
    if not came.new_draft:
        return ["All payees passed: the run is marked as checked, and can be approved as it is."]
    spec, messages = came.spec, []
    pot, forfeited, rest = (
        f"{spec.currency} {spec.money.text(minor)}"
        for minor in (spec.minor, came.lost, spec.minor - came.lost)
    )
    names = listed(map(visible, came.failed), _NAMED)
    if came.failed:
        messages.append(
            f"{names} failed: paid nothing. Their false units are taken out; the others stay in the game, unpaid, so "
            "that a name that was made to fail is no gain for another."
            if spec.forfeit == "payee"
            else f"{names} failed: {counted(len(came.found), 'unit')} are taken out, the false ones and those of the "
            "same payee that they were matched with. Their other units are paid."
        )
    if came.carried:
        messages.append(
            f"{listed(map(visible, came.carried), _NAMED)}: paid too little to be checked, so neither checked nor "
            "paid; the units can be handed in again (carried.csv)."
        )
    messages.append(
        f"{forfeited} are kept, and a new draft divides the other {rest}."
        if request.forfeited == "keep"
        else f"A new draft divides all of {pot} among the others, with the {forfeited} forfeited here."
    )
    drawn = (
        "units may be drawn of it that were not"
        if came.failed
        else "the checks that were made stand in it"
    )
    messages.append(f"This run can no longer be approved after that, but the new draft can; {drawn}.")
    return messages
