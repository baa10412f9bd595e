"""check settle: nobody failed, and the run is checked; or somebody did, and the pot is paid again.

Who fails is paid nothing. The units that were found are taken out, all others of that payee stay in the game in
their place and time: they tie and dilute as before, unpaid. If they left, the other names of a cheat would earn what
they earned, and failing would cost nothing; or a name could be sacrificed that kept another's fakes from earning, and
from being drawn. What they would be paid is divided among the others, or kept, in a new draft that names the old one.
Amounts are others there, so that it is drawn again, on its own amounts.

Payees who were not checked because they would be paid too little are not paid. What their units earn is divided among
the others, or kept, too, and ``carried.csv`` lists the units, to be handed in again. Where nobody failed, each payee's
units then earn in the same proportions, so that draws of the old draft stand.

What was planned, drawn and found, as rows and sentences for screens and pages.

What settling a run's checks would do, in words, before it is done.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from datamarket_gym.display import counted, listed
from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.files import sha256, write_text
from datamarket_gym.execution.progress import Progress
from datamarket_gym.payout.checks import plan as entries
from datamarket_gym.payout.checks.agreement import FILE as CERTIFICATE
from datamarket_gym.payout.checks.agreement import settled_certificate
from datamarket_gym.payout.checks.draw import DrawnChecks, read_checks
from datamarket_gym.payout.checks.earlier_draft import (
    EarlierDraw,
    FoundUnit,
    PriorReview,
    SettledDraft,
    before_bytes,
    digest_of,
    write_before,
)
from datamarket_gym.payout.checks.outcomes import FILE as OUTCOMES
from datamarket_gym.payout.checks.outcomes import (
    FOLDER,
    CheckAnswer,
    answers_of,
    examination_of,
    outcome_of,
)
from datamarket_gym.payout.checks.plan import (
    CheckPlan,
    PlanSummary,
    paid_payees,
    payee_names,
    read_check_plan,
    write_carried,
)
from datamarket_gym.payout.ledger.runs import ledger_of
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import read_manifest, settled_by, spec_of
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.stored_inputs import places_of
from datamarket_gym.payout.verify import verify

_NAMED = 5


@dataclass(frozen=True)
class SettledChecks:
    """What checks came to: who failed and by which units, who is carried, and the run that is left."""

    failed: list[str]
    found: list[FoundUnit]
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

    ``keep_forfeited``: what those who failed, or were not checked, were to be paid for units stays with whoever pays,
    and the new draft divides the rest.
    """
    bad = [check for check in verify(run) if not check.good]
    if bad:
        raise DataMarketError(f"{bad[0].what}: {bad[0].detail}; run: datamarket verify {run}")
    drawn, plan = read_checks(run), read_check_plan(run)
    found = found_units(drawn, answers_of(run), unanswered_false)
    failed = sorted({unit.payee for unit in found})
    with entries.working_in(run):
        if not failed and not plan.carried:
            write_text(run / CERTIFICATE, settled_certificate(run))
            entries.mark_checked(run, "all payees passed", _digest(run), by)
            return SettledChecks([], [], [], run, True)
        if out is None:
            raise DataMarketError(
                f"{_who(failed, plan.carried)}, so that the pot is paid again: name a folder for the new draft, --out"
            )
        _require_place(run, out)
        manifest = read_manifest(run)
        spec = spec_of(manifest)
        kept = forfeited_by(run, manifest, [*failed, *plan.carried]) if keep_forfeited else 0
        if kept:
            spec = spec.model_copy(update={"amount": spec.money.text(spec.minor - kept)})
        settles, before = _settles(run, drawn, plan, found, failed, kept)
        new = pay(
            replace(places_of(run), settles=run), spec, out, progress, settles, ledger_of(run).where
        )
        write_before(out, before)
        write_carried(out)
        entries.supersede(
            run, new["run"], out, _who(failed, plan.carried), settles.outcomes, by,
            forfeited=settles.forfeited, unchecked=settles.carried,
        )  # fmt: skip
        # Units of a payee earn in the same proportions, so every draw stands, unless a dispute was decided meanwhile.
        stand = not failed and new["standing_overrides"] == manifest["standing_overrides"]
        if stand:
            write_text(out / CERTIFICATE, settled_certificate(out))
            said = f"all payees passed the checks of run {settles.run}"
            entries.mark_checked(out, said, "", by)
        return SettledChecks(failed, found, plan.carried, out, stand)


def found_units(
    drawn: DrawnChecks, answers: Mapping[int, CheckAnswer], unanswered_false: bool
) -> list[FoundUnit]:
    """The units that were found to be false; an error where answers are missing."""
    open_ = [d for d in drawn.draws if outcome_of(d, answers) == "unanswered"]
    if open_ and not unanswered_false:
        shown = listed((str(d.number) for d in open_), _NAMED)
        raise DataMarketError(
            f"{len(open_)} of {len(drawn.draws)} checks are not answered (number {shown}); record what was "
            "found, or say --unanswered false, if the payees had their time: who does not answer then fails"
        )
    found: dict[str, FoundUnit] = {}
    for draw in drawn.draws:
        outcome = outcome_of(draw, answers)
        if outcome in ("false", "unanswered"):
            note = answers[draw.number].note if draw.number in answers else ""
            said = note if outcome == "false" else f"not answered. {note}".strip()
            found.setdefault(
                draw.unit, FoundUnit(unit=draw.unit, identity=draw.identity, payee=draw.payee, note=said)
            )
    return list(found.values())


def _settles(
    run: Path,
    drawn: DrawnChecks,
    plan: CheckPlan,
    found: Sequence[FoundUnit],
    failed: Sequence[str],
    kept: int,
) -> tuple[SettledDraft, bytes]:
    """What the new draft settles, added to what the old one did; and each unit's chance to be drawn then."""
    manifest, payee = read_manifest(run), payee_names(run)
    earlier = settled_by(manifest)
    gone, waiting = frozenset(failed), frozenset(plan.carried)
    passed = [p for p in paid_payees(run, manifest) if p.name not in gone | waiting]
    if not passed:
        raise DataMarketError(
            "every payee failed its checks, so that nobody is left to be paid and the run stays a draft; if an answer "
            "was wrong, record it with --correct, else pay for other units"
        )
    before = before_bytes(passed)
    draws = [d for d in (*drawn.kept, *drawn.draws) if d.payee not in gone]
    answers = answers_of(run)
    lost = {name for name, group in payee.items() if group in gone}
    held = {name for name, group in payee.items() if group in waiting}
    settles = SettledDraft(
        run=manifest["run"],
        manifest=sha256(run / MANIFEST),
        beacon=drawn.beacon,
        beacons=[*earlier.beacons, earlier.beacon] if earlier else [],
        checks=drawn.checks,
        power=drawn.power,
        outcomes=_digest(run),
        found=[*(earlier.found if earlier else []), *found],
        forfeited=sorted(lost.union(earlier.forfeited if earlier else ())),
        carried=sorted(held.union(earlier.carried if earlier else ())),
        draws=[EarlierDraw(payee=d.payee, unit=d.unit) for d in draws],
        looks=[
            *(earlier.looks if earlier else []),
            *(
                PriorReview(unit=d.unit, by=answers[d.number].by)
                for d in draws
                if d.number and outcome_of(d, answers) == "genuine"
            ),
        ],
        examined=examination_of(drawn, answers),
        before=digest_of(before),
        kept=kept + (earlier.kept if earlier else 0),
    )
    return settles, before


def forfeited_by(run: Path, manifest: dict[str, Any], failed: Sequence[str]) -> int:
    """What a run would pay some payees for their units, in minor units: old balances are not forfeited."""
    payee, opening = payee_names(run), manifest["opening_balances"]
    old = dict.fromkeys(failed, 0)
    for name, balance in opening.items():
        if payee.get(name) in old:
            old[payee[name]] += balance
    return sum(max(0, p.paid - max(0, old[p.name])) for p in paid_payees(run, manifest) if p.name in old)


def _require_place(run: Path, out: Path) -> None:
    """Refuse a second new draft: both could be paid."""
    if out.resolve() == run.resolve():
        raise DataMarketError("the new draft needs a folder of its own; name another --out")
    later = entries.read_superseded(run)
    if later is not None and later[1] != out.resolve():
        raise DataMarketError(
            f"the run was settled into {str(later[1])!r} before; go on there, or two drafts could be paid"
        )


def _digest(run: Path) -> str:
    path = run / FOLDER / OUTCOMES
    return sha256(path) if path.exists() else ""


def _who(failed: Sequence[str], carried: Sequence[str]) -> str:
    words = []
    if failed:
        words.append(f"{_listed(failed)} failed")
    if carried:
        words.append(
            f"{_listed(carried)} {'is' if len(carried) == 1 else 'are'} neither checked nor paid"
        )
    return " and ".join(words)


def _listed(names: Sequence[str]) -> str:
    return listed((repr(visible(name)) for name in names), _NAMED)


_SHOWN = 20


def plan_rows(found: PlanSummary, currency: str) -> list[tuple[str, str]]:
    """A plan in numbers: what, and how much."""
    plan, money = found.plan, Currency(currency)

    def text(minor: int) -> str:
        return f"{currency} {money.text(minor)}"

    rows = [
        ("checks of each payee", f"{plan.checks:,}"),
        ("power of a check", f"{plan.power:g}"),
        ("checks in all, at most", f"{found.in_all:,}"),
        ("of them second looks, expected", f"{found.again:,.1f}"),
        ("paid to those who are checked", text(found.paid)),
        ("kappa, the largest", f"{found.kappa:.3f}"),
        ("left to gain, in expectation", f"{found.gap:.2%} of what is paid"),
        ("the same, without second looks", f"{found.once:.2%} of what is paid"),
        ("of one payee, at most", f"{found.most:.2%} of its payment"),
    ]
    if plan.price:
        share = found.cost / found.paid if found.paid else 0.0
        rows.append(("cost, at most", f"{text(found.cost)}, {share:.1%} of what is paid"))
    if plan.least:
        rows.append(
            (
                f"neither checked nor paid, below {money.text(plan.least)}",
                f"{counted(len(plan.carried), 'payee')}, {text(found.carried)}",
            )
        )
    if plan.false_alarms:
        rows.append(
            (
                f"false alarms, {plan.false_alarms:g} a check",
                f"{found.alarmed:.2%} of honest payees fail, {text(found.alarm_cost)} expected",
            )
        )
    return rows


def to_publish(run: Path, plan: CheckPlan) -> list[tuple[str, str]]:
    """What is given to the payees with the announcement: hashes of the run and of the plan."""
    digest = hashlib.sha256(plan.text.encode()).hexdigest()
    return [("manifest", sha256(run / MANIFEST)), ("plan", digest)]


def draw_messages(drawn: DrawnChecks) -> list[str]:
    """What stands of earlier looks, how many units two people have to look at, and who looked at some before."""
    said = []
    if drawn.kept:
        said.append(
            f"{counted(len(drawn.kept), 'draw')} fell on units that were looked at in an earlier draft, as often."
        )
    several = sum(len(numbers) > 1 for numbers in drawn.looks.values())
    if several:
        said.append(
            f"{counted(several, 'unit')} of the list were drawn more than once: each look is somebody else's."
        )
    who = sorted({name for names in drawn.before.values() for name in names})
    if who:
        some = "; ".join(visible(name) for name in who[:_SHOWN])
        said.append(
            f"{counted(len(drawn.before), 'unit')} of the list were looked at in an earlier draft, by {some}: "
            "somebody else has to look at them now."
        )
    return said


def failure_messages(found: SettledChecks) -> list[str]:
    """Who failed, and by which units."""
    said = []
    for name in found.failed:
        units = [unit for unit in found.found if unit.payee == name]
        listed = ", ".join(
            f"{visible(u.unit)}{f' ({visible(u.note)})' if u.note else ''}" for u in units
        )
        said.append(f"{visible(name)} failed and is paid nothing: {listed}")
    return said


@dataclass(frozen=True)
class SettlementPreview:
    """Who would fail, what would become of the pot, and whether anything stands in the way."""

    waiting: list[int]  # numbers of checks that are not answered, and are waited for
    failed: list[str]
    carried: list[str]
    new_draft: bool
    words: list[str]


def preview_settlement(run: Path, unanswered_false: bool, keep_forfeited: bool) -> SettlementPreview:
    """What `settle` would come to with the answers as they are now; nothing is written."""
    drawn, plan, answers = read_checks(run), read_check_plan(run), answers_of(run)
    open_ = [d.number for d in drawn.draws if outcome_of(d, answers) == "unanswered"]
    waiting = [] if unanswered_false else open_
    failed = sorted({unit.payee for unit in found_units(drawn, answers, unanswered_false=True)})
    if waiting:
        return SettlementPreview(waiting, [], [], False, [
            f"{counted(len(waiting), 'check is', 'checks are')} not answered: nothing can be settled before that, "
            "unless who does not answer fails.",
        ])  # fmt: skip
    if not failed and not plan.carried:
        return SettlementPreview([], [], [], False, [
            "Everybody passed: the run is marked as checked, its amounts stay as they are, and it can be approved.",
        ])  # fmt: skip
    return SettlementPreview(
        [], failed, plan.carried, True, _words(run, failed, plan.carried, keep_forfeited)
    )


def _words(run: Path, failed: Sequence[str], carried: Sequence[str], keep: bool) -> list[str]:
    manifest = read_manifest(run)
    spec = spec_of(manifest)
    lost = forfeited_by(run, manifest, [*failed, *carried])
    words = []
    if failed:
        words.append(
            f"{_named(failed)} failed: paid nothing. Units that were found are taken out; the others stay in the "
            "game, unpaid, so that nobody gains by a name that was made to fail."
        )
    if carried:
        words.append(
            f"{_named(carried)}: paid too little to be checked, so neither checked nor paid; the units can be handed "
            "in again (carried.csv)."
        )
    text, code = spec.money.text, spec.currency
    words.append(
        f"{code} {text(lost)} are kept, and a new draft divides the other {code} {text(spec.minor - lost)}."
        if keep
        else f"A new draft divides the whole pot of {code} {text(spec.minor)} among the others, with the {code} "
        f"{text(lost)} that these would have been paid."
    )
    words.append(
        "This run can no longer be approved after that. Amounts change, so units may have to be drawn that were not: "
        "the new draft is planned and drawn under another beacon."
        if failed
        else "This run can no longer be approved after that; the looks that were made stand in the new draft."
    )
    return words


def _named(names: Sequence[str]) -> str:
    return listed((visible(name) for name in names), _NAMED)
