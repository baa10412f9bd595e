"""checks.html: every drawn unit beside what it might be a copy of, what to ask of its payee, and forms to answer in:
one for each look at the unit, which different people make.

One file that opens without a network. Names and texts are escaped, pictures are drawn anew, and no script but the
page's own can run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from datamarket_gym.core.arrays import Codes, Values
from datamarket_gym.core.errors import DataMarketError, SubmissionError
from datamarket_gym.core.files import write_text
from datamarket_gym.evidence.order import seniority_ranks
from datamarket_gym.payout.checks.contents import shown, side_for, unit_contents
from datamarket_gym.payout.checks.draw import ASKED, Draw, DrawnChecks
from datamarket_gym.payout.checks.neighbours import NEAREST, Ranked, nearest_others
from datamarket_gym.payout.kept import places_of
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.report.html import Row, embedded, filled, style_sheet, template_text
from datamarket_gym.payout.results import Results
from datamarket_gym.payout.stages import Places
from datamarket_gym.payout.what_if import finished_results
from datamarket_gym.pipeline.threshold import compared

NAME = "checks.html"
_LONGEST, _LONGEST_NEAR = 1600, 400  # characters of a text
_OPEN = 3  # so many payees are unfolded at once


@dataclass(frozen=True)
class ChecksPage:
    """All that the page shows, as plain values; texts are escaped by the template."""

    title: str
    run: str
    beacon: str
    asked: Sequence[str]
    payees: list[Row]
    unfolded: bool
    labelled: bool  # whether units have labels, which may be wrong


def write_checks_page(run: Path, drawn: DrawnChecks, places: Places | None = None) -> None:
    """Write checks.html into the run's folder; needs the run's inputs, for what units hold."""
    places = places or places_of(run)
    if not places.submissions.exists():
        raise SubmissionError(
            f"the submissions of the run are no longer at {str(places.submissions)!r}, and the page shows what units "
            "hold; put them back, or say where they are now with --submissions"
        )
    _, results = finished_results(run, places)
    page = checks_page(results, places, drawn)
    scripts = [template_text("checks.js")]
    style = style_sheet("checks.css")
    key = embedded({"key": f"datamarket checks {drawn.run} {drawn.beacon}"})
    write_text(run / NAME, filled("checks.html.j2", page, style, scripts, key))


def checks_page(results: Results, places: Places, drawn: DrawnChecks) -> ChecksPage:
    """Gather everything the page shows."""
    beside = Beside(results, places, drawn.draws)
    by_payee: dict[str, list[Draw]] = {}
    for draw in sorted(drawn.draws, key=lambda draw: draw.number):
        by_payee.setdefault(draw.payee, []).append(draw)
    payees = [_payee(results, drawn.run, payee, draws, beside) for payee, draws in by_payee.items()]
    return ChecksPage(
        title=f"{len(drawn.draws):,} checks of {len(by_payee):,} payees",
        run=drawn.run,
        beacon=visible(drawn.beacon, 200),
        asked=ASKED,
        payees=payees,
        unfolded=len(by_payee) <= _OPEN,
        labelled=results.inputs.submission.labelled,
    )


def letter(payee: str, units: Sequence[str], run: str, labelled: bool) -> str:
    """What is written to a payee, ready to be sent."""
    wrong = "wrongly labelled, " if labelled else ""
    listed = "\n".join(f"  - {unit}" for unit in units)
    asked = "\n".join(f"  {i}. {what}" for i, what in enumerate(ASKED, 1))
    return (
        f"Dear {payee},\n\n"
        "you are to be paid for units that you handed in. Before money goes out, a few units of every payee are "
        "drawn by lot and looked at. Of yours, these were drawn:\n\n"
        f"{listed}\n\nOf each, please send us\n\n{asked}\n\n"
        "To be drawn is no suspicion. If we find that a unit is not genuine (a copy, made from somebody else's, "
        f"{wrong}or made up), the payment is forfeit.\n\n"
        f"Payout run {run[:16]}\n"
    )


class Beside:
    """The drawn units, what is nearest to each, and what all of them hold."""

    def __init__(
        self,
        results: Results,
        places: Places,
        draws: Sequence[Draw],
        side: int | None = None,
    ) -> None:
        self.results = results
        self.owner = results.inputs.owner
        place = {name: i for i, name in enumerate(results.inputs.ids)}
        names = list(dict.fromkeys(draw.unit for draw in draws))
        unknown = [name for name in names if name not in place]
        if unknown:
            raise DataMarketError(
                f"the drawn unit {visible(unknown[0])!r} is not a unit of the run; draw again"
            )
        self.row = {name: place[name] for name in names}
        self.near, self.cosine = self._nearest(names)
        rows = {*self.row.values(), *(int(u) for near in self.near.values() for u in near if u >= 0)}
        self.contents = unit_contents(results, places, rows)
        self.side = side or side_for(len(names) * (1 + NEAREST))

    def _nearest(self, names: list[str]) -> tuple[dict[str, Codes], dict[str, Values]]:
        results = self.results
        submission = results.inputs.submission
        vectors = compared(submission, results.utility)[0].vectors
        rank = seniority_ranks(submission, results.payments.clustering.lot)
        payee = results.payees.group[self.owner]
        rows = np.array([self.row[name] for name in names], dtype=np.int64)
        drawn = Ranked(vectors[rows], rank[rows], payee[rows])
        near, cosine = nearest_others(Ranked(vectors, rank, payee), drawn, NEAREST)
        return dict(zip(names, near, strict=True)), dict(zip(names, cosine, strict=True))

    def unit(self, name: str) -> Row:
        """A drawn unit."""
        return shown(self.contents[self.row[name]], _LONGEST, self.side)

    def others(self, name: str) -> list[Row]:
        """What is nearest to a drawn unit."""
        inputs = self.results.inputs
        return [
            {
                "unit": visible(inputs.ids[row]),
                "identity": visible(inputs.identities[self.owner[row]]),
                "cosine": f"{cosine:.3f}",
                **shown(self.contents[row], _LONGEST_NEAR, 2 * self.side // 3),
            }
            for row, cosine in zip(self.near[name].tolist(), self.cosine[name].tolist(), strict=True)
            if row >= 0
        ]


def _payee(results: Results, run: str, payee: str, draws: Sequence[Draw], beside: Beside) -> Row:
    by_unit: dict[str, list[Draw]] = {}
    for draw in draws:
        by_unit.setdefault(draw.unit, []).append(draw)
    checks: list[Row] = [
        {
            "numbers": [each.number for each in looks],
            "unit": visible(draw.unit),
            "identity": visible(draw.identity) if draw.identity != payee else "",
            "amount": earns(results.spec.money, draw.amount),
            "share": f"{draw.share:.1%}",
            "content": beside.unit(draw.unit),
            "others": beside.others(draw.unit),
        }
        for looks in by_unit.values()
        for draw in looks[:1]
    ]
    name = visible(payee)
    return {
        "name": name,
        "checks": checks,
        "count": len(draws),
        "find": " ".join([name, *(check["unit"] for check in checks)]),
        "letter": letter(
            name, [check["unit"] for check in checks], run, results.inputs.submission.labelled
        ),
    }


def earns(money: Currency, amount: float) -> str:
    """What a unit earns."""
    minor = round(amount * 10**money.digits)
    return f"{money.code} {money.text(minor)}" if minor else f"less than {money.code} {money.text(1)}"
