"""explain: why does this payee get this? Read from what the run left in its folder, without the inputs.

Sentences for the command line and the explorer. Names in them are visible ones (`names.visible`), and nothing in them
is markup: the caller escapes them. Validation rows are named only to the operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from datamarket_gym.display import counted, listed
from datamarket_gym.errors import DataMarketError, RunError, require_known
from datamarket_gym.payout.manifest import read_manifest, spec_of
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import first_words, run_called, visible
from datamarket_gym.payout.statements.record import (
    MOST_MATCHES,
    Explanation,
    NeedsCovered,
    OwnMatch,
    RunTables,
    TableRow,
    explain_payee,
)

SECRET = "They are secret: keep this to yourself."
SHOWN = 20
"""So many items of a longer list are shown."""
_LEAST, _LONGEST = 10, 60

Lines = Iterator[tuple[int, str]]
"""Indents and lines."""


def covered_lines(covered: NeedsCovered, contents: Sequence[str] = ()) -> Lines:
    """Say how many validation rows a payee's units cover; with ``contents`` also which rows, by its best units."""
    yield (
        0,
        f"Of the {counted(covered.of, 'validation row')} its units cover {covered.rows:,}, {covered.well:,} of them "
        f"half-way or more; to {covered.nearest:,} they are the nearest.",
    )
    for unit in covered.units if contents else ():
        nearest = f", the nearest to {unit.nearest:,}" if unit.nearest else ""
        yield (
            2,
            f"{visible(unit.unit)} covers {counted(unit.rows, 'row')}, {unit.well:,} half-way or more{nearest}:",
        )
        for row in unit.needs:  # with the line of the others their parts add up to the score
            yield 4, f"{row.part / unit.score:6.1%}  {_named_row(row.row, contents[row.row])}"
            near = "nearest" if row.place == 1 else f"number {row.place:,}"
            share = f"gets {row.share:.1%} of what it pays"
            yield 12, f"covered {row.degree:.0%}; {near} of {counted(row.units, 'unit')}; {share}"
        if rest := unit.rows - len(unit.needs):
            yield 4, f"{unit.rest / unit.score:6.1%}  {counted(rest, 'other row')}"


def _named_row(row: int, content: str) -> str:
    return f"row {row} “{content}”" if content else f"row {row}"


def no_coverage_error(remedy: str) -> DataMarketError:
    """Return the error of a run without a record of covered validation rows."""
    return DataMarketError(
        "the run does not pay for how well units cover the validation rows: what covers "
        f"which row is not known. {remedy}"
    )


def coverage_rows(run: Path, validation: Path | None, remedy: str) -> list[TableRow]:
    """List every validation row, those first that are covered least: how well, by how many, which unit comes nearest.

    ``remedy`` is what to do where the run keeps no such record. See `describe_validation_rows`.
    """
    tables = RunTables.read(run)
    needs, units = tables.needs, tables.units
    if needs is None:
        raise no_coverage_error(remedy)
    contents = describe_validation_rows(run, validation)
    rows = []
    for row in needs.least_covered:
        unit = owner = ""
        if (nearest := int(needs.nearest[row])) >= 0:
            at = int(np.searchsorted(units.cluster, nearest))
            unit, owner = units.name(at), tables.names[units.owner[at]]
        names = ("covered", "covered_well", "before", "units", "well")
        counts = {name: getattr(needs, name)[row].item() for name in names}
        rows.append({"row": row, **counts, "unit": unit, "of": owner, "words": contents[row]})
    return rows


def least_covered_lines(rows: Sequence[TableRow]) -> Lines:
    """Name the validation rows that are covered least, of `coverage_rows`."""
    covered = sum(row["covered"] for row in rows) / len(rows)
    yield (
        0,
        f"{counted(len(rows), 'validation row')}, of which {sum(row['covered_well'] for row in rows):,} are covered "
        f"half-way or more; {covered:.1%} of all is covered. Covered least:",
    )
    for row in rows[:_LEAST]:
        near = f", nearest: {visible(row['unit'])} of {visible(row['of'])}" if row["unit"] else ""
        yield 2, f"{row['covered']:4.0%}  {_named_row(row['row'], row['words'])}{near}"


def payment_messages(record: Explanation) -> str:
    """Say what is paid, and between what it could have come out; to be read after the payee's name."""
    money = Currency(record.currency)
    low, high = money.shown(record.low), money.shown(record.high)
    share = f"{record.paid / record.amount:.1%} of {money.code} {money.shown(record.amount)}"
    return f"is paid {money.code} {money.shown(record.paid)} ({low} to {high} at {record.level:.0%}), {share}."


def submission_messages(record: Explanation) -> Iterator[str]:
    """Say what it submitted, and how much of that counts for it."""
    parts = [
        (record.counted, "count for it"),
        (record.repeated, "repeat its own"),
        (record.for_others, "count for others who came earlier"),
    ]
    counts = ", ".join(f"{count:,} {what}" for count, what in parts if count or what == parts[0][1])
    yield f"It submitted {counted(record.units, 'unit')}; {counts}. {record.earning:,} earn something."


def match_summary(record: Explanation) -> Iterator[str]:
    """Say when units came, which were set aside and why, the outcome of checks, and what is carried forward."""
    money = Currency(record.currency)
    if record.received:
        batches = (f"{counted(each.units, 'unit')} {each.words}" for each in record.received)
        yield f"When its units came, by the operator's intake log: {listed(batches, SHOWN, '; ')}."
    if record.leaked:
        rows = (
            f"{visible(leak['unit'])} is row {leak['row']} ({leak['by']}, {leak['likeness']:.3f})"
            for leak in record.leaked
        )
        units = counted(
            len(record.leaked), "of its units is a validation row", "of its units are validation rows"
        )
        yield f"{units}, or nearly, and {_earn(record.leaked)} nothing: {listed(rows, SHOWN)}."
    if record.acquired:
        units = listed((_acquired_unit(row, record.identity) for row in record.acquired), SHOWN, "; ")
        were = counted(len(record.acquired), "of its units was", "of its units were")
        yield f"{were} acquired before and {_earn(record.acquired)} nothing now: {units}."
    if record.unusable:
        rows = (f"row {bad['row']} ({visible(bad['wrong'], 200)})" for bad in record.unusable)
        number = len(record.unusable)
        yield f"{number:,} of its rows could not be used and were set aside: {listed(rows, SHOWN, '; ')}."
    checks = record.checks
    if checks.outcome == "failed":
        units = (
            f": {_listed(checks.false_units)}" if checks.false_units else ", under another of its names"
        )
        yield f"It failed a spot check and is paid nothing{units}."
    elif checks.outcome == "not checked":
        yield "It would have been paid less than its checks cost: it was neither checked nor paid."
    elif checks.outcome == "passed":
        yield f"It passed the spot checks of the draft before this one; checked: {_listed(checks.drawn)}."
    if record.opening:
        yield f"{money.code} {money.shown(record.opening)} were carried into this run."
    if record.balance:
        yield f"{money.code} {money.shown(record.balance)} are carried to the next run."


def _earn(units: Sequence[TableRow]) -> str:
    return "earns" if len(units) == 1 else "earn"


def _acquired_unit(row: TableRow, identity: str) -> str:
    owner = "itself" if row["old_owner"] == identity else visible(row["old_owner"])
    return (
        f"{visible(row['unit'])} was acquired in {run_called(row['period'], row['run'])} from {owner} as "
        f"{visible(row['old_unit'])} ({row['reason']} {row['score']:.3f})"
    )


def other_messages(record: Explanation) -> Iterator[str]:
    """Say who is paid for its units, what was drawn at random, names that are paid together, and claims."""
    if record.counted_for:
        others = "; ".join(
            f"{each.units:,} for {_listed(each.names)}" for each in record.counted_for[:SHOWN]
        )
        more = record.counted_for_in_all - min(SHOWN, len(record.counted_for))
        yield f"Its units that count for others: {others}" + (f"; {more:,} more." if more else ".")
    if record.drawn:
        yield (
            f"In {record.drawn:,} of its clusters units of several names carry the same time: who was first was "
            f"drawn at random under {record.drawn_under}."
        )
    for link in record.linked[:SHOWN]:
        yield f"Paid together: {visible(link['left'])} and {visible(link['right'])}, {link['reason']}."
    if len(record.linked) > SHOWN:
        yield f"{SHOWN} of {len(record.linked):,} such pairs are shown."
    for claim in record.claims[:SHOWN]:
        yield f"Claimed, and without effect on any pay ({claim['reason']}): {_listed(claim['identities'])}."
    if len(record.claims) > SHOWN:
        yield f"{SHOWN} of {len(record.claims):,} claims are shown."


def counterfactual_messages(record: Explanation) -> str:
    """Say what it would have been paid without evidence."""
    money, everywhere = Currency(record.currency), "without any evidence in the market"
    amount = f"{money.code} {money.shown(record.without_any_evidence)}"
    if record.acquired:
        amount += ", what was acquired before left out"
    if record.without_its_evidence is None:
        return f"{everywhere.capitalize()} it would have been paid {amount}."
    own = f"{money.code} {money.shown(record.without_its_evidence)}"
    return f"Without the evidence in its clusters it would have been paid {own}; {everywhere} {amount}."


def match_row(match: OwnMatch) -> tuple[str, str, str, str]:
    """Return the cells of a match: what matched what, why, which was earlier, and who is paid for it."""
    paid = listed([visible(name) for name in match.paid_to], len(match.paid_to))
    more = (
        f" and {match.paid_names - len(match.paid_to)} more"
        if match.paid_names > len(match.paid_to)
        else ""
    )
    unit, other = (
        visible(name) + ("" if batch is None else f" ({batch.words})")
        for name, batch in ((match.unit, match.received), (match.other, match.other_received))
    )
    earlier = {"unit": "its own", "other": "the other's", "neither": "neither"}[match.earlier]
    return (
        f"{unit} and {other} of {visible(match.of)}",
        f"{', '.join(match.reasons)} {match.score:.4f}"
        + (f": “{first_words(match.shared_words.replace(' | ', ' … '))}”" if match.shared_words else ""),
        earlier + (", drawn at random" if match.drawn else ""),
        paid + more,
    )


def _listed(names: Sequence[str]) -> str:
    return listed(map(visible, names), SHOWN)


def explain(
    folder: Path, identity: str, most_matches: int = MOST_MATCHES, with_rows: bool = False
) -> Explanation:
    """Explain one payee's payment of a finished run; ``with_rows``: and which validation rows its units cover."""
    tables = RunTables.read(folder)
    require_known("payee", [identity], tables.number)
    return explain_payee(tables, identity, most_matches, with_rows)


def describe_validation_rows(folder: Path, validation: Path | None = None) -> list[str]:
    """Describe each validation row of a run in a few words; blank where it has numbers alone.

    ``validation``: where the rows are now, if they were moved. Refused where they are not those of the run.
    """
    # These bring the whole pipeline, which `explain` alone does not need.
    from datamarket_gym.data.readers.tables import Table
    from datamarket_gym.payout.input_files import file_hash, image_bytes, image_tree, images_hash
    from datamarket_gym.payout.stored_inputs import places_of

    path, manifest = places_of(folder, validation=validation).validation, read_manifest(folder)
    if not path.exists():
        raise RunError(
            f"{str(path)!r}, where the validation rows of the run were, is not there; name them with --validation"
        )
    if path.is_dir():
        tree = image_tree(path, identities=False)
        file = images_hash(path, tree.names, image_bytes(path, tree.names), tree.skipped)
    else:
        tree, file = None, file_hash(path)
    if file["sha256"] != manifest["inputs"]["validation"]["sha256"]:
        raise RunError(
            f"{str(path)!r} holds other validation rows than those of the run (the hashes differ); name these with "
            "--validation"
        )
    if tree is not None:
        return [visible(name, _LONGEST) for name in tree.names]
    columns, table = spec_of(manifest).columns, Table.open(path)
    for name in (columns.text, columns.image, columns.id, "id"):
        if name is not None and name in table.names:
            return [first_words(text or "") for text in table.read([name])[0][name].optional()]
    some = next(iter(table.names))
    return [""] * len(table.read([], [some])[0][some].data)
