"""checks.html: every drawn unit beside what it might be a copy of, what to ask of its payee, and forms to answer in.

There is one form for each check of a unit, which different people make. Beside a drawn unit stand the nearest units of
other payees, earlier ones (which it may be a copy of) and later ones (which it may be a copy of, too), and the
nearest of its own payee. letters.csv has a letter to each payee, for a mail merge. A unit is shown as a text, a
picture, or numbers. The page is one file that opens without a network: names and texts are escaped, pictures are drawn
anew, and no script but the page's own can run.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from datamarket_gym.analysis.theorems.deterrence import Forfeit
from datamarket_gym.data.readers.tables import Table
from datamarket_gym.errors import DataMarketError, SubmissionError
from datamarket_gym.evidence.graph import seniority_ranks
from datamarket_gym.evidence.threshold import with_compared_vectors
from datamarket_gym.execution.arrays import Codes, Rows, Values, directions, slack_of
from datamarket_gym.execution.files import write_text
from datamarket_gym.market.encoders import ContentError
from datamarket_gym.market.encoders.base import open_image
from datamarket_gym.payout.checks.draw import REQUESTED_PROOF, Draw, DrawnChecks
from datamarket_gym.payout.input_files import image_bytes
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import csv_text, visible
from datamarket_gym.payout.report.pages import Row, embed_json, read_template, render_page
from datamarket_gym.payout.results import Results
from datamarket_gym.payout.settings import PayoutSpec
from datamarket_gym.payout.stored_inputs import Places, places_of
from datamarket_gym.payout.what_if import finished_results

FEW = 12  # numbers that are written out; more are drawn
_POINTS, _WIDTH, _HEIGHT = 64, 256, 40
_SIDES = ((400, 360), (2000, 224))  # up to so many pictures, so many pixels a side
_LEAST_SIDE = 96


@dataclass(frozen=True)
class UnitContent:
    """A unit's label (empty where it has none) and payload; the first of text, picture and numbers is shown."""

    label: str
    numbers: Values
    text: str | None = None
    image: bytes | None = None


def unit_contents(results: Results, places: Places, rows: Iterable[int]) -> dict[int, UnitContent]:
    submission, wanted = results.inputs.submission, sorted(set(rows))
    text, images = submission.metadata.get("text"), dict[int, bytes]()
    columns, files = results.spec.columns, results.spec.files
    if places.submissions.is_dir() or (columns.image is not None and files.images is not None):
        images = unit_images(results.spec, results.inputs.ids, places.submissions, wanted)
    return {
        row: UnitContent(
            str(submission.label[row]),
            submission.features[row],
            None if text is None else str(text[row]),
            images.get(row),
        )
        for row in wanted
    }


def render_content(content: UnitContent, longest: int, side: int) -> dict[str, Any]:
    """Render a unit as plain values: ``text``, ``image`` (a data URI), ``figures`` or ``path`` (a curve)."""
    label = visible(content.label)
    if content.text is not None:
        return {"label": label, "text": visible_text(content.text, longest)}
    if content.image is not None:
        return {"label": label, **_picture(content.image, side)}
    numbers = content.numbers
    if len(numbers) <= FEW:
        return {"label": label, "figures": [f"{v:.4g}" for v in numbers]}
    return {"label": label, "path": curve(numbers), "count": f"{len(numbers):,}"}


def visible_text(text: str, longest: int) -> str:
    """Escape a text for display: keep lines, spell out invisible characters and cut long texts."""
    some = text[:longest].replace("\r\n", "\n").expandtabs(4)
    lines = "\n".join(visible(line, longest + 1) for line in some.split("\n"))
    return lines if len(text) <= longest else f"{lines}… ({len(text):,} characters)"


def curve(numbers: Values) -> str:
    """Draw numbers as the path of a small curve of at most 64 points, each the mean of its neighbours."""
    start = np.arange(min(len(numbers), _POINTS)) * len(numbers) // min(len(numbers), _POINTS)
    heights = np.add.reduceat(numbers, start) / np.diff(np.r_[start, len(numbers)])
    span = heights.max() - heights.min()
    level = np.full(len(heights), 0.5) if not span > 0 else (heights - heights.min()) / span
    y = (2 + (1 - level) * (_HEIGHT - 4)).round().astype(int).tolist()
    x = np.linspace(0, _WIDTH, len(level)).round().astype(int).tolist()
    return "M" + "L".join(map("{} {}".format, x, y))


def _picture(image: bytes, side: int) -> dict[str, str]:
    """Draw a picture anew: comments, positions and profiles of the file stay out of the page."""
    try:
        opened = open_image(image)
    except ContentError as error:
        return {"text": f"The picture cannot be shown: {visible(error.why, 200)}."}
    from PIL import Image

    small = max(opened.size) <= 64
    opened.thumbnail((side, side))
    out = io.BytesIO()
    kind, options = ("png", {}) if small else ("jpeg", {"quality": 72})
    Image.fromarray(np.asarray(opened)).save(out, format=kind, **options)
    return {"image": f"data:image/{kind};base64,{base64.b64encode(out.getvalue()).decode()}"}


def unit_images(
    spec: PayoutSpec, ids: Sequence[str], submissions: Path, rows: Sequence[int]
) -> dict[int, bytes]:
    if submissions.is_dir():
        names, folder = [ids[row] for row in rows], submissions
    else:
        file_of = _image_names(spec, submissions)
        names, folder = [file_of[ids[row]] for row in rows], Path(str(spec.files.images))
    return dict(zip(rows, image_bytes(folder, names), strict=True))


def _image_names(spec: PayoutSpec, submissions: Path) -> dict[str, str]:
    table, columns = Table.open(submissions), spec.columns
    image = table.require("image", str(columns.image))
    identifier = columns.id or ("id" if "id" in table.names else None)
    single, _ = table.read([image, *([identifier] if identifier else [])])
    files = single[image].optional()
    ids = single[identifier].optional() if identifier else [f"row {i}" for i in range(len(files))]
    return {unit: file for unit, file in zip(ids, files, strict=True) if unit and file}


_BLOCK = 512
_DIGITS = 10  # of cosines that are compared


@dataclass(frozen=True, eq=False)
class Ranked:
    vectors: Rows
    rank: Codes
    payee: Codes


Side = Literal["earlier", "later", "own"]
SIDES: dict[Side, tuple[int, str]] = {
    "earlier": (3, "Nearest earlier units of others"),
    "later": (2, "Nearest later units of others"),
    "own": (2, "Nearest units of the same payee"),
}
"""Which units stand beside each unit on the page, how many, and under which words."""


def nearest_units(
    units: Ranked, drawn: Ranked, count: int, side: Side = "earlier"
) -> tuple[Codes, Values]:
    """Find for each drawn unit the ``count`` nearest units on a side, and the cosines.

    Those ``earlier`` and ``later`` are of other payees. Shape (drawn, count); -1 and -inf where there are fewer. Of
    units equally near the earliest come first. A vector of zeros is near nothing.
    """
    order, ours = np.argsort(units.rank, kind="stable"), directions(drawn.vectors[:])
    short, slack = ours.astype(np.float32), slack_of(ours.shape[1])
    near, cosine = np.full((len(ours), count), -1), np.full((len(ours), count), -np.inf)
    for at in range(0, len(order), _BLOCK):
        theirs = order[at : at + _BLOCK]
        vectors = directions(units.vectors[theirs])
        same, rank = units.payee[theirs] == drawn.payee[:, None], units.rank[theirs]
        excluded = ~vectors.any(axis=1) | ~ours.any(axis=1, keepdims=True)
        if side == "own":
            excluded |= ~same | (rank == drawn.rank[:, None])
        else:
            other = rank >= drawn.rank[:, None] if side == "earlier" else rank <= drawn.rank[:, None]
            excluded |= same | other
        similar = short @ vectors.astype(np.float32).T  # for all pairs; in double precision for a few
        np.copyto(similar, -np.inf, where=excluded)
        some = np.flatnonzero(similar.max(axis=1) > cosine[:, -1] - slack)
        exact = np.minimum(ours[some] @ vectors.T, 1.0).round(_DIGITS)
        exact[excluded[some]] = -np.inf
        cosines = np.hstack([cosine[some], exact])
        places = np.hstack([near[some], np.broadcast_to(theirs, exact.shape)])
        best = np.argsort(-cosines, axis=1, kind="stable")[:, :count]  # of equal ones the earliest
        cosine[some] = np.take_along_axis(cosines, best, axis=1)
        near[some] = np.take_along_axis(places, best, axis=1)
    near[np.isinf(cosine)] = -1
    return near, cosine


NAME, LETTERS = "checks.html", "letters.csv"
_LONGEST, _LONGEST_NEAR = 1600, 400  # characters of a text
_FIRST = 60  # characters of a text in a letter
_OPEN = 3  # so many payees are unfolded at once


@dataclass(frozen=True)
class LetterTerms:
    """What letters say besides: where to answer, and until when."""

    contact: str = ""
    answer_by: str = ""


NO_TERMS = LetterTerms()


def write_checks_page(
    run: Path, drawn: DrawnChecks, places: Places | None = None, terms: LetterTerms = NO_TERMS
) -> None:
    """Write checks.html and letters.csv."""
    places = places or places_of(run)
    if not places.submissions.exists():
        raise SubmissionError(
            f"the submissions of the run are no longer at {str(places.submissions)!r}, and the page shows what units "
            "hold; put them back, or say where they are now with --submissions"
        )
    _, results = finished_results(run, places)
    page = checks_page(results, places, drawn, terms)
    scripts = [read_template("checks.js")]
    key = embed_json({"key": f"datamarket checks {drawn.run} {drawn.beacon}"})
    write_text(run / NAME, render_page("checks.html.j2", "checks.css", scripts, page=page, charts=key))
    write_text(run / LETTERS, letters_text(page["payees"], terms))


def letters_text(payees: Iterable[Row], terms: LetterTerms) -> str:
    """Return the letters for a mail merge, a row for each payee."""
    heads = ("payee", "units", "first_words", "asked", "reply_to", "answer_by", "letter")
    rows = [
        (
            payee["payee"], "; ".join(payee["units"]), "; ".join(filter(None, payee["first_words"])),
            "; ".join(REQUESTED_PROOF), terms.contact, terms.answer_by, payee["letter"],
        )
        for payee in payees
    ]  # fmt: skip
    return csv_text(heads, rows)


def checks_page(
    results: Results, places: Places, drawn: DrawnChecks, terms: LetterTerms = NO_TERMS
) -> Row:
    """Build all that the page shows, as plain values; texts are escaped by the template."""
    comparison, numbers = UnitComparison(results, places, drawn.draws), drawn.check_numbers
    by_payee: dict[str, dict[str, Draw]] = {}  # the first draw of each unit
    for draw in sorted(drawn.draws, key=lambda draw: draw.number):
        by_payee.setdefault(draw.payee, {}).setdefault(draw.unit, draw)
    labelled = results.inputs.submission.labelled
    payees: list[Row] = []
    for payee, units in by_payee.items():
        name, words = visible(payee), [comparison.first_words(unit) for unit in units]
        shown = [visible(u) + (f" (“{w}”)" if w else "") for u, w in zip(units, words, strict=True)]
        checks = [
            {
                "numbers": numbers[unit],
                "unit": visible(unit),
                "identity": visible(draw.identity) if draw.identity != payee else "",
                "amount": format_earnings(results.spec.money, draw.amount),
                "share": f"{draw.share:.1%}",
                "content": comparison.unit(unit),
                "sides": comparison.sides(unit),
            }
            for unit, draw in units.items()
        ]
        payees.append(
            {
                "name": name,
                "payee": payee,
                "units": list(units),
                "first_words": words,
                "checks": checks,
                "count": sum(len(numbers[unit]) for unit in units),
                "find": " ".join([name, *map(visible, units)]),
                "letter": letter(name, shown, drawn.run, labelled, results.spec.forfeit, terms),
            }
        )
    return {
        "title": f"{len(drawn.draws):,} checks of {len(by_payee):,} payees",
        "run": drawn.run,
        "beacon": visible(drawn.beacon, 200),
        "announced": visible(drawn.announced, 200),
        "asked": REQUESTED_PROOF,
        "payees": payees,
        "unfolded": len(by_payee) <= _OPEN,
        "labelled": labelled,
    }


def letter(
    payee: str,
    units: Sequence[str],
    run: str,
    labelled: bool,
    forfeit: Forfeit = "payee",
    terms: LetterTerms = NO_TERMS,
) -> str:
    wrong = "wrongly labelled, " if labelled else ""
    listed = "\n".join(f"  * {unit}" for unit in units)
    asked = "\n".join(f"  {i}. {what}" for i, what in enumerate(REQUESTED_PROOF, 1))
    where = f" to {terms.contact}" if terms.contact else ""
    until = f" by {terms.answer_by}" if terms.answer_by else ""
    lost = "the payment is" if forfeit == "payee" else "what that unit earns is"
    return (
        f"Dear {payee},\n\n"
        "you are to be paid for units that you handed in. Before money goes out, a few units of every payee are "
        "drawn by lot and looked at. Of yours, these were drawn:\n\n"
        f"{listed}\n\nOf each, please send us{where}{until}\n\n{asked}\n\n"
        "To be drawn is no suspicion. If we find that a unit is not genuine (a copy, made from somebody else's, "
        f"{wrong}or made up), {lost} forfeit.\n\n"
        f"Payout run {run[:16]}\n"
    )


class UnitComparison:
    """Show drawn units beside the nearest units of other payees, earlier and later, and of their own."""

    def __init__(
        self, results: Results, places: Places, draws: Sequence[Draw], side: int | None = None
    ) -> None:
        self.results, inputs = results, results.inputs
        place = {name: i for i, name in enumerate(inputs.ids)}
        names = list(dict.fromkeys(draw.unit for draw in draws))
        if unknown := [name for name in names if name not in place]:
            raise DataMarketError(
                f"the drawn unit {visible(unknown[0])!r} is not a unit of the run; run check sample again"
            )
        self.row = {name: place[name] for name in names}
        rows = np.array(list(self.row.values()), dtype=np.int64)
        vectors = with_compared_vectors(inputs.submission, results.utility)[0].vectors
        rank = seniority_ranks(inputs.submission, results.payments.clustering.tie_breaker)
        payee = results.payees.group[inputs.owner]
        units, drawn = Ranked(vectors, rank, payee), Ranked(vectors[rows], rank[rows], payee[rows])
        self.near = {kind: nearest_units(units, drawn, most, kind) for kind, (most, _) in SIDES.items()}
        shown = {row for near, _ in self.near.values() for row in near[near >= 0].tolist()}
        self.contents = unit_contents(results, places, {*rows.tolist(), *shown})
        pictures = len(names) * (1 + sum(most for most, _ in SIDES.values()))
        self.side = side or next((side for most, side in _SIDES if pictures <= most), _LEAST_SIDE)
        self.at = {name: i for i, name in enumerate(names)}

    def unit(self, name: str) -> Row:
        return render_content(self.contents[self.row[name]], _LONGEST, self.side)

    def first_words(self, name: str) -> str:
        """Return the beginning of a text on one line; nothing of other units."""
        text = self.contents[self.row[name]].text
        return "" if text is None else visible(" ".join(text.split()), _FIRST)

    def sides(self, name: str) -> list[Row]:
        """Describe what stands beside a unit, side by side; those where there is nothing are left out."""
        inputs, at = self.results.inputs, self.at[name]
        sides: list[Row] = []
        for side, (near, cosines) in self.near.items():
            others = [
                {
                    "unit": visible(inputs.ids[row]),
                    "identity": visible(inputs.identities[inputs.owner[row]]),
                    "cosine": f"{cosine:.3f}",
                    **render_content(self.contents[row], _LONGEST_NEAR, 2 * self.side // 3),
                }
                for row, cosine in zip(near[at].tolist(), cosines[at].tolist(), strict=True)
                if row >= 0
            ]
            if others or side == "earlier":
                sides.append({"title": SIDES[side][1], "others": others})
        return sides


def format_earnings(money: Currency, amount: float) -> str:
    minor = round(amount * 10**money.digits)
    return f"{money.code} {money.text(minor)}" if minor else f"less than {money.code} {money.text(1)}"
