"""Why a payee is paid what it is paid: the record and the words of ``datamarket explain``, and what the units hold."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from datamarket_gym.core.progress import Progress
from datamarket_gym.payout.checks.contents import shown, unit_contents
from datamarket_gym.payout.covered_words import (
    SECRET,
    RunNeeds,
    covered_lines,
    covered_row_lines,
    not_known,
)
from datamarket_gym.payout.explain import require_payee
from datamarket_gym.payout.explained_words import (
    SHOWN,
    fate_words,
    other_words,
    paid_words,
    sent_words,
    without_words,
)
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.need_words import need_words
from datamarket_gym.payout.report.glossary import explain_reason
from datamarket_gym.payout.statements.files import Manner
from datamarket_gym.payout.statements.record import Explanation, explained
from datamarket_gym.payout.what_if import finished_results, without_its_evidence
from datamarket_gym.web.payday.run_inputs import MovedInputs, inputs_on_show
from datamarket_gym.web.payday.run_statements import one_page
from datamarket_gym.web.payday.run_tables import tables_of
from datamarket_gym.web.places import NamedPlaces

_LONGEST, _SIDE = 1500, 280


def why(folder: Path, payee: str, progress: Progress) -> dict[str, Any]:
    """The explanation of one payment, in sentences and as the record."""
    progress.stage("reading what the run left")
    found = _explained(folder, payee)
    return {
        "identity": found.identity,
        "paid": paid_words(found),
        "sent": list(sent_words(found)),
        "needs": [] if found.needs is None else list(covered_lines(found.needs)),
        "fate": list(fate_words(found)),
        "others": list(other_words(found)),
        "without": without_words(found),
        "record": asdict(found),
        "reasons": {code: explain_reason(code) for tie in found.ties for code in tie.reasons},
    }


def _explained(folder: Path, payee: str, with_rows: bool = False) -> Explanation:
    tables = tables_of(folder)
    require_payee(tables, payee)
    return explained(tables, payee, SHOWN, with_rows)


def contents(
    on_show: NamedPlaces, folder: Path, payee: str, moved: MovedInputs, progress: Progress
) -> dict[str, Any]:
    """What the units hold that matched: those of the payee and those of others, by their names."""
    progress.stage("reading the run")
    ties = _explained(folder, payee).ties
    places = inputs_on_show(on_show, folder, moved)
    progress.stage("reading the inputs of the run")
    results = finished_results(folder, places)[1]
    wanted = {name for tie in ties for name in (tie.unit, tie.other)}
    rows = {row: name for row, name in enumerate(results.inputs.ids) if name in wanted}
    held = unit_contents(results, places, rows)
    return {"units": {rows[row]: shown(each, _LONGEST, _SIDE) for row, each in held.items()}}


def what_if(
    on_show: NamedPlaces, folder: Path, payee: str, moved: MovedInputs, progress: Progress
) -> dict[str, Any]:
    """What the payee would have been paid without the evidence in its clusters: the market is scored again."""
    found = _explained(folder, payee)
    inputs_on_show(on_show, folder, moved)
    paid = without_its_evidence(
        folder,
        payee,
        moved.path("submissions"),
        moved.path("validation"),
        progress,
        moved.path("reference"),
    )
    money = Currency(found.currency)
    return {
        "minor": paid,
        "words": f"Without the evidence in its clusters it would have been paid {money.code} {money.shown(paid)}; with "
        f"it, it is paid {money.shown(found.paid)}.",
    }


def payee_needs(
    on_show: NamedPlaces, folder: Path, payee: str, moved: MovedInputs, progress: Progress
) -> dict[str, Any]:
    """Which validation rows the payee's units cover, in their own words; for the operator alone."""
    progress.stage("reading the validation rows")
    found = _explained(folder, payee, with_rows=True)
    if found.needs is None:
        raise not_known("There is nothing to show here")
    inputs_on_show(on_show, folder, moved)
    words = need_words(folder, moved.path("validation"))
    return {"lines": list(covered_row_lines(found.needs, words)), "secret": SECRET}


def least_covered(
    on_show: NamedPlaces, folder: Path, moved: MovedInputs, progress: Progress
) -> dict[str, Any]:
    """Which validation rows are covered least; for the operator alone."""
    progress.stage("reading the validation rows")
    inputs_on_show(on_show, folder, moved)
    needs = RunNeeds.read(folder, moved.path("validation"), "There is nothing to show here")
    return {"lines": list(needs.least_covered_lines()), "secret": SECRET}


def statement(folder: Path, payee: str, pseudonyms: bool, progress: Progress) -> dict[str, Any]:
    """The statement of one payee, as a page to be saved and sent."""
    progress.stage("writing the statement")
    name, page = one_page(folder, payee, Manner(pseudonyms), tables_of(folder))
    return {"file": name, "page": page}
