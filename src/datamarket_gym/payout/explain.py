"""explain: why does this payee get this? Read from what the run left in its folder, without the inputs.

Sentences for the command line and the explorer. Names in them are visible ones (`names.visible`), and nothing in them
is markup: whoever shows them escapes. Validation rows are named only to the operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from datamarket_gym.display import counted, listed
from datamarket_gym.errors import DataMarketError, RunError, require_known
from datamarket_gym.payout.manifest import read_manifest, spec_of
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import run_called, visible
from datamarket_gym.payout.statements.record import (
    MOST_MATCHES,
    CoveredNeed,
    CoveringUnit,
    Explanation,
    NeedsCovered,
    OwnMatch,
    RunTables,
    TableRow,
    explain_payee,
)
from datamarket_gym.payout.validation_coverage import Needs

SECRET = "They are secret: keep this to yourself."
_LEAST = 10

Lines = Iterator[tuple[int, str]]
"""How far a line is set in, and its words."""


def covered_lines(found: NeedsCovered, words: Sequence[str] | None = None) -> Lines:
    """Say how much of the needs a payee's units cover, and its best units.

    ``words`` is what each validation row says: with it, also which rows these units cover.
    """
    yield 0, _covered(found)
    if found.units:
        yield 0, "Its best units:"
    for unit in found.units:
        yield 2, _unit(unit)
        if words is not None:
            yield from _rows(unit, words)


def _covered(found: NeedsCovered) -> str:
    return (
        f"Of the buyer's {counted(found.of, 'need')} (validation rows) its units cover {found.rows:,}, "
        f"{found.well:,} of them well; to {found.nearest:,} nobody comes nearer."
    )


def _unit(unit: CoveringUnit) -> str:
    nearest = f", to {unit.nearest:,} of them nearer than all" if unit.nearest else ""
    covers = f"covers {counted(unit.rows, 'need')}, {unit.well:,} well"
    return f"{visible(unit.unit)}: score {unit.score:.5f}; {covers}{nearest}"


def _rows(unit: CoveringUnit, words: Sequence[str]) -> Lines:
    """The rows that bring a unit most; with the last line they add up to all that it earns."""
    for need in unit.needs:
        said = f" “{words[need.row]}”" if words[need.row] else ""
        yield 4, f"{need.part / unit.score:6.1%}  row {need.row}{said}"
        yield 12, _how(need)
    if rest := unit.rows - len(unit.needs):
        yield 4, f"{unit.rest / unit.score:6.1%}  {counted(rest, 'other row')}"


def _how(need: CoveredNeed) -> str:
    near = "nearest" if need.place == 1 else f"number {need.place:,}"
    return f"covered {need.degree:.0%}; {near} of {counted(need.units, 'unit')}; gets {need.share:.1%} of what it pays"


def not_known(remedy: str) -> DataMarketError:
    """What is said of a run that has no record of needs."""
    return DataMarketError(
        "the run does not pay for how well units cover the validation rows: what covers "
        f"which row is not known. {remedy}"
    )


@dataclass(frozen=True, eq=False)
class RunNeeds:
    """The needs of a run, with what each validation row says."""

    tables: RunTables
    needs: Needs
    words: Sequence[str]

    @classmethod
    def read(cls, run: Path, validation: Path | None, remedy: str) -> RunNeeds:
        """Those of a finished run; ``remedy`` is what to do where it has none. See `need_words`."""
        tables = RunTables.read(run)
        if tables.needs is None:
            raise not_known(remedy)
        return cls(tables, tables.needs, need_messages(run, validation))

    def rows(self) -> list[dict[str, Any]]:
        """Every validation row: how well it is covered, by how many, and whose unit comes nearest."""
        return [self._row(row) | {"words": self.words[row]} for row in range(len(self.needs))]

    def least_covered_lines(self) -> Lines:
        """The needs that are covered least, and how well all of them are."""
        needs = self.needs
        yield (
            0,
            (
                f"{counted(len(needs), 'need')} of the buyer (validation rows), of which "
                f"{int(needs.covered_well.sum()):,} are covered well; {needs.covered.mean():.1%} of all is covered. "
                "Covered least:"
            ),
        )
        for row in needs.least_covered[:_LEAST]:
            told = self._row(row)
            near = f", nearest: {visible(told['unit'])} of {visible(told['of'])}" if told["unit"] else ""
            said = f" “{self.words[row]}”" if self.words[row] else ""
            yield 2, f"{needs.covered[row]:4.0%}  row {row}{said}{near}"

    def _row(self, row: int) -> TableRow:
        needs, units = self.needs, self.tables.units
        nearest = int(needs.nearest[row])
        at = int(np.searchsorted(units.cluster, nearest)) if nearest >= 0 else -1
        return {
            "row": row,
            "covered": float(needs.covered[row]),
            "before": float(needs.before[row]),
            "units": int(needs.units[row]),
            "well": int(needs.well[row]),
            "unit": units.name(at) if at >= 0 else "",
            "of": self.tables.names[units.owner[at]] if at >= 0 else "",
        }


SHOWN = 20
"""Of a longer list this many are told."""


def payment_messages(found: Explanation) -> str:
    """What is paid, and between what it could have come out; to be read after the payee's name."""
    money = Currency(found.currency)
    low, high = money.shown(found.low), money.shown(found.high)
    return f"is paid {money.code} {money.shown(found.paid)} ({low} to {high} at {found.level:.0%})."


def submission_messages(found: Explanation) -> Iterator[str]:
    """What it sent, and how much of that counts for it."""
    error = f" ± {found.score_error:.4f}" if found.score_error >= 0.00005 else ""  # not ± 0.0000
    yield (
        f"It submitted {found.units:,} units, which are in {found.clusters:,} clusters; it owns {found.owned:,} of "
        f"these. Its score is {found.score:.4f}{error}{found.measured}."
    )
    if found.repeated or found.for_others:
        yield (
            f"{found.counted:,} of its units count for it, {found.repeated:,} repeat its own, and {found.for_others:,} "
            "count for others who came earlier."
        )


def match_summary(found: Explanation) -> Iterator[str]:
    """When units came, which were set aside and why, what checks came to, and what is carried."""
    money = Currency(found.currency)
    if found.received:
        batches = listed(
            (f"{counted(each.units, 'unit')} {each.words}" for each in found.received), SHOWN, "; "
        )
        yield f"When its units came, by the operator's intake log: {batches}."
    yield from _leaks(found)
    yield from _acquired(found)
    yield from _unusable(found)
    yield from _checks(found)
    if found.opening:
        yield f"{money.code} {money.shown(found.opening)} were carried into this run."
    if found.balance:
        yield f"{money.code} {money.shown(found.balance)} are carried to the next run."


def other_messages(found: Explanation) -> Iterator[str]:
    """Say who is paid for its units, what was drawn at random, names that are paid together, and claims."""
    if found.counted_for:
        told = "; ".join(
            f"{each.units:,} for {_listed(each.names)}" for each in found.counted_for[:SHOWN]
        )
        more = found.counted_for_in_all - min(SHOWN, len(found.counted_for))
        yield f"Its units that count for others: {told}" + (f"; {more:,} more." if more else ".")
    if found.drawn:
        yield (
            f"In {found.drawn:,} of its clusters units of several names carry the same time: who was first was "
            f"drawn at random under {found.drawn_under}."
        )
    for link in found.linked[:SHOWN]:
        yield f"Paid together: {visible(link['left'])} and {visible(link['right'])}, {link['reason']}."
    if len(found.linked) > SHOWN:
        yield f"{SHOWN} of {len(found.linked):,} such pairs are shown."
    for claim in found.claims[:SHOWN]:
        yield (
            f"Claimed, and without effect on anybody's pay ({claim['reason']}): {_listed(claim['identities'])}."
        )
    if len(found.claims) > SHOWN:
        yield f"{SHOWN} of {len(found.claims):,} claims are shown."


def counterfactual_messages(found: Explanation) -> str:
    """What it would have been paid without evidence."""
    money = Currency(found.currency)
    acquired = ", what was acquired before left out" if found.acquired else ""
    if found.without_its_evidence is None:
        return (
            "Without any evidence in the market it would have been paid "
            f"{money.code} {money.shown(found.without_any_evidence)}{acquired}."
        )
    return (
        f"Without the evidence in its clusters it would have been paid {money.code} "
        f"{money.shown(found.without_its_evidence)}; without any evidence in the market "
        f"{money.shown(found.without_any_evidence)}{acquired}."
    )


def match_messages(match: OwnMatch) -> tuple[str, str]:
    """What matched what; and why, who was earlier and who is paid for it."""
    paid = [visible(name) for name in match.paid_to]
    more = f" and {match.paid_names - len(paid)} more" if match.paid_names > len(paid) else ""
    when, then = (
        "" if each is None else f" ({each.words})" for each in (match.received, match.other_received)
    )
    return (
        f"{visible(match.unit)}{when} and {visible(match.other)} of {visible(match.of)}{then}",
        f"{', '.join(match.reasons)} {match.score:.4f}; earlier: {_earlier(match)}; paid to {', '.join(paid)}{more}",
    )


def _leaks(found: Explanation) -> Iterator[str]:
    if not found.leaked:
        return
    rows = listed(
        (
            f"{visible(leak['unit'])} is row {leak['row']} ({leak['by']}, {leak['likeness']:.3f})"
            for leak in found.leaked
        ),
        SHOWN,
    )
    number = len(found.leaked)
    yield (
        f"1 of its units is a validation row, or nearly, and earns nothing: {rows}."
        if number == 1
        else f"{number:,} of its units are validation rows, or nearly, and earn nothing: {rows}."
    )


def _acquired(found: Explanation) -> Iterator[str]:
    if not found.acquired:
        return
    number = len(found.acquired)
    told = listed((_acquired_unit(each, found.identity) for each in found.acquired), SHOWN, "; ")
    yield (
        f"{number:,} of its units {'was' if number == 1 else 'were'} acquired before and "
        f"{'earns' if number == 1 else 'earn'} nothing now: {told}."
    )


def _acquired_unit(row: TableRow, identity: str) -> str:
    whose = "itself" if row["old_owner"] == identity else visible(row["old_owner"])
    return (
        f"{visible(row['unit'])} was acquired in {run_called(row['period'], row['run'])} from {whose} as "
        f"{visible(row['old_unit'])} ({row['reason']} {row['score']:.3f})"
    )


def _unusable(found: Explanation) -> Iterator[str]:
    if not found.unusable:
        return
    rows = listed(
        (f"row {bad['row']} ({visible(bad['wrong'], 200)})" for bad in found.unusable), SHOWN, "; "
    )
    yield f"{len(found.unusable):,} of its rows could not be used and were set aside: {rows}."


def _checks(found: Explanation) -> Iterator[str]:
    """What spot checks of an earlier draft came to; before that there is nothing to tell."""
    checks = found.checks
    match checks.outcome:
        case "failed":
            units = (
                f": {_listed(checks.false_units)}"
                if checks.false_units
                else ", under another of its names"
            )
            yield f"It failed a spot check and is paid nothing{units}."
        case "not checked":
            yield "It would have been paid less than its checks cost: it was neither checked nor paid."
        case "passed":
            yield (
                f"It passed the spot checks of the draft before this one; looked at: {_listed(checks.drawn)}."
            )


def _earlier(match: OwnMatch) -> str:
    named = {"unit": "its own", "other": "the other", "neither": "neither"}[match.earlier]
    return f"{named}, drawn at random" if match.drawn else named


def _listed(names: Sequence[str]) -> str:
    return listed(map(visible, names), SHOWN)


def explain(
    folder: Path, identity: str, most_matches: int = MOST_MATCHES, with_rows: bool = False
) -> Explanation:
    """Explain one payee's payment of a finished run; ``with_rows``: and which validation rows its units cover."""
    tables = RunTables.read(folder)
    require_known("payee", [identity], tables.number)
    return explain_payee(tables, identity, most_matches, with_rows)


_LONGEST = 60


def need_messages(folder: Path, validation: Path | None = None) -> list[str]:
    """What each validation row of a run is, in a few words; blank where it has numbers alone.

    ``validation``: where the rows are now, if they were moved. Refused where they are not those of the run.
    """
    # These bring the whole pipeline, which `explain` alone does not need.
    from datamarket_gym.data.readers.tables import Table
    from datamarket_gym.payout.input_files import file_hash, image_bytes, image_tree, images_hash
    from datamarket_gym.payout.stored_inputs import places_of

    path, manifest = places_of(folder, validation=validation).validation, read_manifest(folder)
    if not path.exists():
        raise RunError(
            f"{str(path)!r}, where the validation rows of the run were, is not there; say where they are: --validation"
        )
    tree = image_tree(path, identities=False) if path.is_dir() else None
    found = (
        file_hash(path)
        if tree is None
        else images_hash(path, tree.names, image_bytes(path, tree.names), tree.skipped)
    )
    if found["sha256"] != manifest["inputs"]["validation"]["sha256"]:
        raise RunError(
            f"{str(path)!r} holds other validation rows than those of the run (the hashes differ); say where these "
            "are: --validation"
        )
    if tree is not None:
        return [visible(name, _LONGEST) for name in tree.names]
    columns, table = spec_of(manifest).columns, Table.open(path)
    for name in (columns.text, columns.image, columns.id, "id"):
        if name is not None and name in table.names:
            return [_few(text or "") for text in table.read([name])[0][name].optional()]
    some = next(iter(table.names))
    return [""] * len(table.read([], [some])[0][some].data)


def _few(text: str) -> str:
    """The first words of a text."""
    words = " ".join(text[: 8 * _LONGEST].split())
    shown = words if len(words) <= _LONGEST else words[:_LONGEST].rpartition(" ")[0] + " …"
    return visible(shown, 2 * _LONGEST)
