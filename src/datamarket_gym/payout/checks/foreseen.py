"""What settling a run's checks would do, in words, before it is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from datamarket_gym.core.screen import counted, listed
from datamarket_gym.payout.checks.draw import read_checks
from datamarket_gym.payout.checks.plan import read_plan
from datamarket_gym.payout.checks.record import answers_of, outcome_of
from datamarket_gym.payout.checks.settle import forfeited_by, found_units
from datamarket_gym.payout.manifest import read_manifest, spec_of
from datamarket_gym.payout.names import visible

_NAMED = 5


@dataclass(frozen=True)
class Foreseen:
    """Who would fail, what would become of the pot, and whether anything stands in the way."""

    waiting: list[int]  # numbers of checks that are not answered, and are waited for
    failed: list[str]
    carried: list[str]
    new_draft: bool
    words: list[str]


def settling(run: Path, unanswered_false: bool, keep_forfeited: bool) -> Foreseen:
    """What `settle` would come to with the answers as they are now; nothing is written."""
    drawn, plan, answers = read_checks(run), read_plan(run), answers_of(run)
    open_ = [d.number for d in drawn.draws if outcome_of(d, answers) == "unanswered"]
    waiting = [] if unanswered_false else open_
    failed = sorted({unit.payee for unit in found_units(drawn, answers, unanswered_false=True)})
    if waiting:
        return Foreseen(waiting, [], [], False, [
            f"{counted(len(waiting), 'check is', 'checks are')} not answered: nothing can be settled before that, "
            "unless who does not answer fails.",
        ])  # fmt: skip
    if not failed and not plan.carried:
        return Foreseen([], [], [], False, [
            "Everybody passed: the run is marked as checked, its amounts stay as they are, and it can be approved.",
        ])  # fmt: skip
    return Foreseen([], failed, plan.carried, True, _words(run, failed, plan.carried, keep_forfeited))


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
