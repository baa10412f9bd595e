"""Warnings of a run: what a person should look at before the run is approved.

Each warning has a name. An approval accepts every name that the run has (``--accept NAME``), and the ledger keeps by
whom. `input_warnings` needs the inputs alone, so tables can be looked at before anything is scored; `warnings_of`
needs the results.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.analysis.theorems.deterrence import Earned, deterrence_gap
from datamarket_gym.display import counted, listed
from datamarket_gym.errors import DataMarketError, RunError, SubmissionError, UnknownNameError
from datamarket_gym.evidence.chaining import FEW as FEW_UNITS
from datamarket_gym.evidence.chaining import Chain, chain_messages, cuts
from datamarket_gym.evidence.graph import components, describe_missing_times
from datamarket_gym.evidence.lineage import NONE, Lineage
from datamarket_gym.evidence.text_containment import split_words
from datamarket_gym.execution.arrays import Codes, Features, Values, distinct_pairs, in_blocks
from datamarket_gym.execution.files import read_json, write_json
from datamarket_gym.mechanism.payment_tables import unit_amounts
from datamarket_gym.mechanism.pipeline import REMEDY
from datamarket_gym.payout.names import find_look_alikes, says_nothing, spelled, visible
from datamarket_gym.payout.overrides import DESCENT
from datamarket_gym.utilities.base import among
from datamarket_gym.utilities.count import Count

if TYPE_CHECKING:
    from datamarket_gym.payout.inputs import Inputs
    from datamarket_gym.payout.results import Results
    from datamarket_gym.payout.settings import PayoutSpec


FILE = "warnings.json"
NAMES = (
    "undated", "future_times", "early_times", "equal_times", "leak", "acquired_from_others", "acquired_validation_rows",
    "received_from_others", "lost_labels", "unseen_labels", "unscored_units", "uneven_scores", "labels_ignored",
    "loses_half", "joined_identities", "chained", "collapse", "unmatched_copies", "counted_unchecked", "short_texts",
    "wide_intervals",
    "large_balances", "odd_lengths", "claims", "common_keys",
    "look_alikes", "odd_identities", "quarantined", "skipped_files", "unused_log", "same_submissions",
    "drawn_before", "unnamed_earlier_runs", "left_behind", "disputes",
)  # fmt: skip
"""Every warning there is, in the order in which they are shown."""
MOST_ITEMS = 20  # of a longer list; the count is of all
_LONGEST_ITEM, _LONGEST_WORDS = 400, 2000
_FEW = 5  # items of a warning that is not accepted
MANY = 5  # payees in one tree; in a smaller market of at least three, all of them
COMMON = 20  # a linkage value of more identities than this is common, and no claim
CLEARLY = (
    10  # a payment is clear from a tenth of an equal share on, as in `analysis.metrics.clearly_paid`
)
MANY_EQUAL = (
    0.01  # share of units that may have the time of another identity's unit: seconds do coincide
)
# Lengths of units are odd beyond this factor of those of all validation rows, and are a warning where this share of
# units is, beyond the 2 in rows + 1 that lie outside by chance.
ODD, FEW = 1.25, 0.01


@dataclass(frozen=True)
class UnresolvedWarning:
    """A warning: its name, a title, what it means and what to do, the number of its items, and some of them."""

    name: str
    title: str
    words: str
    count: int
    items: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise UnknownNameError("warning", self.name, NAMES)

    @classmethod
    def of(
        cls, name: str, title: str, words: str, items: Sequence[str] = (), count: int | None = None
    ) -> UnresolvedWarning:
        """Warn of items, the first of which are shown; ``count`` is for items that are not listed one by one."""
        shown = tuple(visible(item, _LONGEST_ITEM) for item in items[:MOST_ITEMS])
        total = len(items) if count is None else count
        return cls(name, title, visible(words, _LONGEST_WORDS), total, shown)

    @classmethod
    def from_plain(cls, data: dict[str, Any]) -> UnresolvedWarning:
        """Read a warning from JSON."""
        return cls(**{**data, "items": tuple(data["items"])})

    @property
    def more(self) -> int:
        """Number of items beyond those shown; none where they are not listed at all."""
        return max(0, self.count - len(self.items)) if self.items else 0


Warnings = Iterator[UnresolvedWarning]


class AcceptedWarningError(DataMarketError):
    """Warnings that are not accepted, or an accepted one that the run does not have."""


def in_order(warnings: Iterable[UnresolvedWarning]) -> list[UnresolvedWarning]:
    """Sort warnings into the order in which they are shown."""
    return sorted(warnings, key=lambda warning: NAMES.index(warning.name))


def write_warnings(warnings: Iterable[UnresolvedWarning], folder: Path) -> None:
    """Write the warnings of a run into its folder."""
    write_json(folder / FILE, [asdict(warning) for warning in in_order(warnings)], sort=False)


def read_warnings(folder: Path) -> list[UnresolvedWarning]:
    """Read the warnings of a finished run."""
    try:
        return [UnresolvedWarning.from_plain(row) for row in read_json(folder / FILE)]
    except (TypeError, KeyError) as error:
        raise RunError(
            f"{str(folder / FILE)!r} is damaged ({error}); run verify, or pay again into another folder"
        ) from error


def require_answered(warnings: Sequence[UnresolvedWarning], accepted: Sequence[str]) -> None:
    """Refuse an approval unless it accepts each warning, and no other."""
    present = [warning.name for warning in warnings]
    for name in accepted:
        if name not in NAMES:
            raise UnknownNameError("warning", name, NAMES)
        if name not in present:
            raise AcceptedWarningError(
                f"the run has no warning {name!r} (it has {', '.join(present) or 'none'}); leave --accept {name} out"
            )
    if missing := [_at_length(warning) for warning in warnings if warning.name not in accepted]:
        raise AcceptedWarningError(
            "not approved: look at each of these first, then approve with its name\n"
            + "\n".join(missing)
        )


def _at_length(warning: UnresolvedWarning) -> str:
    items = [f"\n    - {item}" for item in warning.items[:_FEW]]
    more = f"\n    and {warning.count - _FEW:,} more" if items and warning.count > _FEW else ""
    return f"  --accept {warning.name}\n    {warning.title}. {warning.words}{''.join(items)}{more}"


def input_warnings(
    inputs: Inputs, spec: PayoutSpec, names: Sequence[str] | None = None
) -> list[UnresolvedWarning]:
    """Collect the warnings of the inputs; ``names`` are those of the list of payments, if not the identities."""
    names = inputs.identities if names is None else names
    return in_order([
        *time_warnings(inputs, spec), *_unseen_labels(inputs, spec), *_ignored_labels(inputs),
        *_odd_lengths(inputs, spec), *_look_alikes(names), *_odd_names(names), *_quarantined(inputs),
        *_skipped_files(inputs),
    ])  # fmt: skip


def warnings_of(results: Results) -> list[UnresolvedWarning]:
    """Collect all warnings of a run, in the order in which they are shown."""
    checks = (
        _leak, acquired_from_others, acquired_validation_rows, received_from_others, lost_labels, unscored_units,
        uneven_scores, _joined, chained, _loses_half, _collapse, _balances, _claims, _wide_intervals,
        _counted_unchecked, _short_texts, _unmatched_copies,
    )  # fmt: skip
    warnings = [warning for check in checks for warning in check(results)]
    return in_order([*input_warnings(results.inputs, results.spec, results.names), *warnings])


def named_unit(inputs: Inputs, unit: int) -> str:
    """Name a unit and its identity."""
    return f"“{visible(inputs.ids[unit])}” of “{visible(inputs.identities[inputs.owner[unit]])}”"


def _identities(count: int) -> str:
    return counted(count, "identity", "identities")


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


# Times: the mechanism pays the earliest, so the clock must be the operator's.


def time_warnings(inputs: Inputs, spec: PayoutSpec) -> list[UnresolvedWarning]:
    """Find times that are missing, equal, or outside the period of the market."""
    warnings = list(_equal_times(inputs))
    if inputs.has_time:
        times = inputs.submission.times
        if spec.closing is not None:
            when = f"after the market closed ({spec.closes})"
            warnings += _dated(inputs, "future_times", times > spec.closing, when)
        if spec.opening is not None:
            when = f"before the market began ({spec.opens})"
            warnings += _dated(inputs, "early_times", times < spec.opening, when)
    return warnings


def time_messages(inputs: Inputs, spec: PayoutSpec) -> str:
    """Say where the times of a run are from; nothing where there are none."""
    if inputs.received is not None:
        return (
            "Times are from the operator's intake log: a unit came when the operator received it, by the operator's "
            f"clock ({inputs.received.upto.words}). {inputs.received.words}"
        ).strip()
    if not inputs.has_time:
        return ""
    return (
        f"Times are from the column “{visible(spec.columns.time or 'time')}” of the submissions: its author decides "
        "who was first, and the earliest of several copies is paid for all. Unless that is you alone, write down what "
        "arrives when it arrives (datamarket intake), and pay by that (pay --intake LEDGER)."
    )


def future_warnings(inputs: Inputs, spec: PayoutSpec, now: float) -> list[UnresolvedWarning]:
    """Warn of units dated later than now (seconds since 1970), where the settings do not say when the market closed.

    A run's results do not depend on when it was made, so this is no warning of the run. With ``strict`` anything that
    is wrong with the times is refused.
    """
    future = list[UnresolvedWarning]()
    if spec.closing is None and inputs.has_time:
        future += _dated(inputs, "future_times", inputs.submission.times > now, "in the future")
    if spec.strict and (wrong := [*time_warnings(inputs, spec), *future]):
        reasons = " ".join(f"{each.name}: {each.title}. {each.words}" for each in wrong)
        raise SubmissionError(f"stopped, as --strict asks. {reasons}")
    return future


_FIRST, _LAST = 9e8, 4.1e9  # 1998 to 2099, in seconds since 1970
_SPREADSHEET = 25_569  # 1970-01-01 in the days of a spreadsheet
# What times may be, how many of it are a second, where it begins, and the remedy.
_TIME_UNITS = (
    ("milliseconds since 1970", 1e3, 0, "divide them by 1,000, or write dates"),
    ("microseconds since 1970", 1e6, 0, "divide them by 1,000,000, or write dates"),
    ("nanoseconds since 1970", 1e9, 0, "divide them by 1,000,000,000, or write dates"),
    ("a spreadsheet's days since 1900", 1 / 86_400, _SPREADSHEET, "format the column as a date, and save it again"),
)  # fmt: skip


def describe_time_unit(times: Values) -> str:
    """Say what numbers that cannot be seconds since 1970 look like; empty where they may be that."""
    low, high = float(times.min()), float(times.max())
    for name, per_second, zero, remedy in _TIME_UNITS:
        first, last = (low - zero) / per_second, (high - zero) / per_second
        if first >= _FIRST and last <= _LAST:
            return f"The times look like {name} ({_day(first)} to {_day(last)}): {remedy}."
    month, day = times // 100 % 100, times % 100
    is_date = np.isin(month, range(1, 13)).all() and np.isin(day, range(1, 32)).all()
    if low >= 19_700_101 and high <= 21_001_231 and is_date:
        return "The times look like dates written as one number (20260531): write them as 2026-05-31."
    return ""


def _day(seconds: float) -> str:
    return str(datetime.datetime.fromtimestamp(seconds, datetime.UTC).date())


def _equal_times(inputs: Inputs) -> Warnings:
    submission, n = inputs.submission, len(inputs.ids)
    if describe_missing_times(submission) is not None:
        yield _of_units(
            inputs,
            "equal_times" if inputs.has_time else "undated",
            f"No unit was first: the {n:,} units {'all carry the same time' if inputs.has_time else 'carry no times'}",
            "Copies cannot be told from originals: k copies of a unit take k / (k + 1) of its pay. Name the column of "
            "the times at which you received units (--time; list images in a table), or pay only people you trust.",
            np.arange(n),
        )
        return
    when = np.unique(submission.times, return_inverse=True)[1]
    by_time, _ = distinct_pairs(when, inputs.owner)
    equal = np.flatnonzero(np.bincount(by_time)[when] > 1)
    if len(equal) > MANY_EQUAL * n:
        yield _of_units(
            inputs,
            "equal_times",
            f"{len(equal):,} of {n:,} units carry the same time as a unit of another identity",
            "Between these it is drawn at random who was first, so k copies with the time of their original take "
            "k / (k + 1) of its pay on average. Give the exact time at which you received each unit.",
            equal,
        )


_DATED = {
    "future_times": "Times that cannot be true are not from your clock, and the clock decides who was first. Use the "
    "time at which you received each unit, in seconds (not milliseconds) or as a date.",
    "early_times": "The earliest of several copies is paid for all, so dating a unit back takes the pay of its "
    "original. Use the time at which you received each unit.",
}


def _dated(inputs: Inputs, name: str, which: NDArray[np.bool_], when: str) -> Warnings:
    units = np.flatnonzero(which)
    if len(units):
        title = f"{counted(len(units), 'unit is', 'units are')} dated {when}"
        yield _of_units(inputs, name, title, _DATED[name], units)


def _of_units(inputs: Inputs, name: str, title: str, advice: str, units: Codes) -> UnresolvedWarning:
    """Warn of units, some of which are listed unless it is all of them."""
    shown = units[:MOST_ITEMS].tolist() if len(units) < len(inputs.ids) else []
    if inputs.has_time and (hint := describe_time_unit(inputs.submission.times)):
        advice = f"{hint} {advice}"
    return UnresolvedWarning.of(name, title, advice, [named_unit(inputs, u) for u in shown], len(units))


# What else was submitted.


def _unseen_labels(inputs: Inputs, spec: PayoutSpec) -> Warnings:
    learner = spec.utility_function
    if learner.target != "none" or not learner.counts_labels:
        return
    labels, rows = np.unique(inputs.validation_label, return_counts=True)
    seen = np.isin(labels, inputs.submission.label)
    if inputs.acquired is not None:
        seen |= np.isin(labels, inputs.acquired.art.label)
    missing = np.flatnonzero(~seen)
    if len(missing):
        missing = missing[np.lexsort((missing, -rows[missing]))]
        yield UnresolvedWarning.of(
            "unseen_labels",
            f"{counted(len(missing), 'validation label')} {_were(len(missing))} submitted by no provider "
            f"({counted(int(rows[missing].sum()), 'row')} of {len(inputs.validation_label):,})",
            "No unit can cover these rows, so the whole amount is divided by the others. Correct labels that "
            "submitters write otherwise and pay again, ask for such units, or drop the rows.",
            [f"“{visible(str(labels[i]))}”: {counted(int(rows[i]), 'row')}" for i in missing],
        )


def _ignored_labels(inputs: Inputs) -> Warnings:
    if inputs.ignored_labels:
        yield UnresolvedWarning.of(
            "labels_ignored",
            "Labels do not count in this run",
            "Where units, validation rows or previously acquired units have no labels, those of others do not count. "
            "If labels are wanted, fill them in, or name their column (--label), in both tables, and pay again.",
            inputs.ignored_labels,
        )


def _odd_lengths(inputs: Inputs, spec: PayoutSpec) -> Warnings:
    if not spec.worth.by_distance:
        return
    ours, theirs = (_norms(each) for each in (inputs.submission.features, inputs.validation_features))
    low, high = theirs.min(), theirs.max()
    odd = np.flatnonzero((ours < low / ODD) | (ours > high * ODD))
    if len(odd) <= (FEW + 2 / (len(theirs) + 1)) * len(ours):
        return
    medians = _list_medians(inputs, odd, ours[odd], "unit", "{:.3g} long")
    yield UnresolvedWarning.of(
        "odd_lengths",
        f"{counted(len(odd), 'unit')} of {_identities(len(medians))} are shorter or longer than all validation rows "
        f"({low:.3g} to {high:.3g})",
        "Nearest neighbours go by distance, so a shortened vector comes nearer to every validation row and is paid for "
        "it; evidence goes by direction and sees nothing. Embed what was submitted yourself (--text, --images), or "
        "bring these units to the length of the others, and pay again.",
        medians,
        len(odd),
    )


def _list_medians(inputs: Inputs, units: Codes, sizes: Values, what: str, form: str) -> list[str]:
    """List the identities of some units, those of most first, with the median of the units' sizes."""
    owner = inputs.owner[units]
    owners, count = np.unique(owner, return_counts=True)
    return [
        f"“{visible(inputs.identities[owners[i]])}”: {counted(int(count[i]), what)}, in the median "
        + form.format(np.median(sizes[owner == owners[i]]))
        for i in np.lexsort((owners, -count))
    ]


def _norms(rows: Features) -> Values:
    norms = [np.linalg.norm(block.astype(np.float64), axis=1) for _, block in in_blocks(rows)]
    return np.concatenate(norms)


def _look_alikes(names: Sequence[str]) -> Warnings:
    if groups := sorted(find_look_alikes(names), key=len, reverse=True):
        yield UnresolvedWarning.of(
            "look_alikes",
            f"{counted(len(groups), 'group')} of different identities whose names look alike",
            "They are different accounts and are paid apart. Check each before money goes out; join those that are one "
            "person with --overrides.",
            [listed(map(spelled, group), 3) for group in groups],
        )


def _odd_names(names: Sequence[str]) -> Warnings:
    if odd := [name for name in names if says_nothing(name)]:
        yield UnresolvedWarning.of(
            "odd_identities",
            f"{_identities(len(odd))} called nan, none, null or the like",
            "Such names come from missing cells: units of several people may stand under one. Correct the identities "
            "in the table and pay again.",
            [f"“{visible(name)}”" for name in odd],
        )


def _quarantined(inputs: Inputs) -> Warnings:
    if not inputs.bad:
        return
    yield UnresolvedWarning.of(
        "quarantined",
        f"{counted(len(inputs.bad), 'row')} of the submissions {_were(len(inputs.bad))} set aside "
        f"({_identities(len({row.identity for row in inputs.bad} - {''}))})",
        "They cannot be used, and are not paid for; quarantine.csv lists all, with the line of the file. Have them "
        "mended and pay again, or tell their submitters.",
        [row.words for row in inputs.bad[:MOST_ITEMS]],
        len(inputs.bad),
    )


def _skipped_files(inputs: Inputs) -> Warnings:
    items = [
        f"{role}: {name}: {why}" for role, files in sorted(inputs.skipped.items()) for name, why in files
    ]
    if items:
        yield UnresolvedWarning.of(
            "skipped_files",
            f"{counted(len(items), 'file')} in the folders {_were(len(items))} not read",
            "They are no images, do not lie where images must (identity/label/image, for validation and reference rows "
            "label/image; or all without label), or no row of the table names them. Convert, move or name them and pay "
            "again, or make sure that they are no submissions.",
            items,
        )


# What was there before the run.


def acquired_from_others(results: Results) -> Warnings:
    theirs = [row for row in results.known if row.old_owner != row.identity]
    if not theirs:
        return
    yield UnresolvedWarning.of(
        "acquired_from_others",
        f"{counted(len(theirs), 'unit')} of {_identities(len({row.identity for row in theirs}))} {_were(len(theirs))} "
        "acquired before, from others",
        "They match what an earlier run has acquired, and earn nothing now. They may be copies of what others sold "
        "then, or sold under another name; or honest units were taken for older ones: look at some of them, and split "
        "those with --overrides, naming both (acquired.parquet has the names).",
        [
            f"“{visible(row.unit)}” of “{visible(row.identity)}”: acquired in {row.called} from "
            f"“{visible(row.old_owner)}” as “{visible(row.old_unit)}” ({row.reason}, {row.score:.3f})"
            for row in theirs
        ],
    )


def acquired_validation_rows(results: Results) -> Warnings:
    inputs = results.inputs
    if inputs.acquired is None or results.spec.leak_check == "off":
        return
    art, validation = inputs.acquired.art, inputs.validation_features
    rows = int(among(validation, art.units.features[art.beginning_like(validation)]).sum())
    if rows:
        yield UnresolvedWarning.of(
            "acquired_validation_rows",
            f"{counted(rows, 'validation row')} of {len(validation):,} {_were(rows)} acquired before",
            (
                "What was acquired covers them for good: nobody is paid for what is like them, and the whole amount is "
                "divided by what the others are worth."
                if results.spec.acquired_discount
                else "Whoever sold them knows them, and can make units that are like them."
            )
            + " Take validation rows that no provider has sold.",
            count=rows,
        )


def received_from_others(results: Results) -> Warnings:
    inputs = results.inputs
    before = () if inputs.received is None else inputs.received.before
    rows = [i for i, other in enumerate(before) if other]
    if rows:
        yield UnresolvedWarning.of(
            "received_from_others",
            f"{counted(len(rows), 'unit')} of {_identities(len({int(inputs.owner[i]) for i in rows}))} came earlier "
            "from others, who do not have them in this run",
            "The intake log holds the same content under another name, received before; here they are paid as if they "
            "were new. If the others' units belong here, add them; if an earlier run has acquired them, name it "
            "(--acquired); if these are copies, leave them out and pay again.",
            [f"{named_unit(inputs, i)}: {before[i]}" for i in rows[:MOST_ITEMS]],
            len(rows),
        )


def lost_labels(results: Results) -> Warnings:
    """Warn of labels of earlier runs that occur nowhere in this one: nothing is subtracted for units under them."""
    inputs, learner = results.inputs, results.spec.utility_function
    without = learner.target == "number" or not learner.counts_labels
    if inputs.acquired is None or without or not results.spec.acquired_discount:
        return
    labels, units = np.unique(inputs.acquired.art.label, return_counts=True)
    here = np.isin(labels, inputs.validation_label) | np.isin(labels, inputs.submission.label)
    lost = np.flatnonzero(~here)
    if len(lost):
        yield UnresolvedWarning.of(
            "lost_labels",
            f"{counted(len(lost), 'label')} of the earlier runs {'does' if len(lost) == 1 else 'do'} not occur in this "
            f"one ({int(units[lost].sum()):,} of {counted(int(units.sum()), 'unit')} that stand for what was acquired)",
            "Units count for validation rows of their own label. If it is written otherwise now, what was acquired has "
            "no effect, and is paid for again when it is submitted again: write labels as then, and pay again.",
            [f"“{visible(str(labels[i]))}”: {counted(int(units[i]), 'unit')}" for i in lost],
        )


def unscored_units(results: Results) -> Warnings:
    scored, inputs = results.inputs.scored, results.inputs
    canonical = {
        inputs.ids[i] for i in results.payments.canonical.unit
    }  # the others earn nothing anyway
    unscored = [] if scored is None else [unit for unit in scored.unscored if unit in canonical]
    if unscored:
        yield UnresolvedWarning.of(
            "unscored_units",
            f"{counted(len(unscored), 'unit has', 'units have')} no scores",
            "The file of scores does not name them, nor any unit of equal content: they count as 0 and earn nothing. "
            "If they came in after the scores were computed, compute these again and pay again.",
            [f"“{visible(unit)}”" for unit in unscored],
        )


def uneven_scores(results: Results) -> Warnings:
    scored = results.inputs.scored
    if scored is not None and scored.table.uneven:
        yield UnresolvedWarning.of(
            "uneven_scores",
            f"{counted(scored.table.uneven, 'group')} of units of equal content have different scores (by up to "
            f"{scored.table.largest_difference:.3g} on a validation row)",
            "Equal units are worth the same, so each counts with the mean of its group. If the difference is not small "
            "beside the scores themselves, have the tool average over more models.",
            count=scored.table.uneven,
        )


# What matched what.


def _leak(results: Results) -> Warnings:
    leaks = results.leaks
    if len(leaks):
        yield UnresolvedWarning.of(
            "leak",
            f"{counted(len(leaks), 'unit')} of {_identities(len(set(leaks.identity.tolist())))} equal validation rows, "
            "or nearly",
            f"They are set aside: they earn nothing and change no other pay. {REMEDY}.",
            [
                f"“{visible(unit)}” of “{visible(who)}” is row {row} ({by}, {likeness:.3f})"
                for unit, who, row, by, likeness in leaks.listed()[:MOST_ITEMS]
            ],
            len(leaks),
        )


def chains_of(results: Results) -> list[Chain]:
    """Find large parts of clusters that matches by a list or an override alone hold together, the thinnest first.

    By lineage each unit descends from one earlier unit at most, so that no unit joins two trees (docs/lineage.md).
    """
    clusters = results.payments.clustering
    units = np.arange(len(clusters.label))
    tree = components(units, clusters.edges.where(np.isin(clusters.edges.reason, DESCENT)))
    return cuts(clusters, tree, np.bincount(tree)[tree].astype(np.float64), units)


def chained(results: Results) -> Warnings:
    thin = [chain for chain in chains_of(results) if chain.thin]
    inputs, number = results.inputs, results.payments.scores.number
    if thin:
        groups = counted(len({chain.cluster for chain in thin}), "group is", "groups are")
        yield UnresolvedWarning.of(
            "chained",
            f"{groups} held together by a few matches",
            f"Two large parts of it are matched by {FEW_UNITS} units or fewer, by a list or an override, and the "
            "earliest unit of all owns both: one wrong pair is enough. Take it out of the list or the override, and "
            "pay again.",
            [
                f"group {number[chain.cluster]}: {chain_messages(chain, lambda unit: named_unit(inputs, unit))}"
                for chain in thin
            ],
        )


def _joined(results: Results) -> Warnings:
    inputs, label, group = results.inputs, results.payments.clustering.label, results.payees.group
    limit = min(MANY, max(3, len(np.unique(group))))
    holder = distinct_pairs(label, group[inputs.owner])[0]
    payees = np.bincount(holder, minlength=results.payments.clustering.n_clusters)
    number, sizes = results.payments.scores.number, np.bincount(label)
    many = np.flatnonzero(payees >= limit)
    if not len(many):
        return
    many = many[np.lexsort((number[many], -sizes[many], -payees[many]))]
    yield UnresolvedWarning.of(
        "joined_identities",
        f"{counted(len(many), 'tree of matched units joins', 'trees of matched units join')} {limit} payees or more",
        "Copies are seldom shared by so many. Different units may have been taken for one another, or units were "
        "placed early so as to own what others submit later. Open them in the report (What matched what); split honest "
        f"units with --overrides. The largest joins {counted(int(payees[many[0]]), 'payee')}.",
        [
            f"tree {number[c]}: {sizes[c]:,} units of {payees[c]:,} payees, owned by {_owner(results, int(c))}"
            for c in many[:MOST_ITEMS]
        ],
        len(many),
    )


def _owner(results: Results, cluster: int) -> str:
    shares, names = results.payments.shares, results.inputs.identities
    owners = np.unique(shares.identity[(shares.cluster == cluster) & (shares.share > 0)])
    more = f" and {len(owners) - 1} more" if len(owners) > 1 else ""
    return f"“{visible(names[owners[0]])}”{more}"


def _collapse(results: Results) -> Warnings:
    if (collapse := results.collapse) is not None:
        title = f"One tree holds {collapse.largest:,} of {collapse.units:,} different units"
        yield UnresolvedWarning.of("collapse", title, f"{collapse.message}.", count=collapse.largest)


# Amounts, and who is paid.


def _loses_half(results: Results) -> Warnings:
    names, group = results.inputs.identities, results.payees.group.tolist()
    paid, without = Counter[int](), Counter[int]()
    payee = dict(reversed(list(zip(group, names, strict=True))))
    for i, g in enumerate(group):
        paid[g] += results.division.paid[i]
        without[g] += results.without_evidence[i]
    lost = [
        (paid[g] - without[g], g, name)
        for g, name in payee.items()
        if 2 * paid[g] < without[g] and CLEARLY * len(payee) * without[g] > results.spec.minor
    ]
    if lost:
        text, currency = results.spec.money.text, results.spec.currency
        yield UnresolvedWarning.of(
            "loses_half",
            f"{counted(len(lost), 'payee loses', 'payees lose')} more than half of their pay to evidence",
            "Compared with the same run without any evidence. Attackers whose copies were detected are among them, and "
            "so are honest payees whose own work was taken for a copy. For each: datamarket explain RUN/ --payee NAME "
            "shows what matched what; split honest units with --overrides.",
            [
                f"“{visible(name)}”: {currency} {text(paid[g])} instead of {text(without[g])}"
                for _, g, name in sorted(lost)
            ],
        )


def _balances(results: Results) -> Warnings:
    balance, names = results.division.balance, results.names
    owed = sum(each for each in balance if each > 0)
    if 2 * owed <= results.spec.minor:
        return
    text, currency = results.spec.money.text, results.spec.currency
    advice = (
        "Scores below zero almost cancel those above, so payees are entitled to much more than there is. A run that "
        "takes these balances up pays by them, and next to nothing for what is new in it. Look at the units of those "
        "below zero: they may be mislabelled so as to do this. Pay again without them, or with --negative zero."
    )
    if not results.spec.worth.signed:
        advice = (
            "No score of this run is below zero: they were brought in from the ledger. While they are that large, a "
            "run pays by them, and next to nothing for what is new in it. Raise the amount, or end them (datamarket "
            "ledger fund, datamarket ledger write-off) and pay again."
        )
    below = sorted((each, name) for each, name in zip(balance, names, strict=True) if each < 0)
    yield UnresolvedWarning.of(
        "large_balances",
        f"{currency} {text(owed)} would be carried to the next run",
        advice,
        [f"“{visible(name)}”: {currency} {text(each)}" for each, name in below],
    )


def _wide_intervals(results: Results) -> Warnings:
    """Warn where earlier runs are discounted and more than half of those who are paid have an interval wider than that.

    What new units add to much that is there already is small, and a few validation rows decide it.
    """
    spec, paid = results.spec, results.division.paid
    if not spec.acquired_discount or results.inputs.acquired is None:
        return
    ends = zip(paid, *results.interval, results.names, strict=True)
    rows = [row for row in ends if row[0]]
    wide = [row for row in rows if row[2] - row[1] > row[0]]
    if 2 * len(wide) > len(rows):
        text = spec.money.text
        yield UnresolvedWarning.of(
            "wide_intervals",
            f"{len(wide):,} of {_identities(len(rows))} that are paid have an interval wider than the payment",
            "New units are paid for what they add to what was acquired (--acquired-discount). That is little here, and "
            "other validation rows would divide the amount otherwise. Take more validation rows, divide less, or pay "
            "new units as new: leave --acquired-discount out.",
            [
                f"“{visible(name)}”: {spec.currency} {text(amount)}, between {text(low)} and {text(high)}"
                for amount, low, high, name in sorted(wide, reverse=True)
            ],
        )


def _counted_unchecked(results: Results) -> Warnings:
    spec = results.spec
    if isinstance(spec.utility_function, Count) and not spec.checks:
        yield UnresolvedWarning.of(
            "counted_unchecked",
            "Every distinct unit is paid alike, and nobody looks at any",
            "Junk and generated units are distinct, too: ten times as much junk as one has counts eleven times. Ask "
            "for spot checks (--checks 3), or pay people whom you trust.",
            count=results.payments.clustering.n_clusters,
        )


def _short_texts(results: Results) -> Warnings:
    """Warn of fragments where each counts like a whole text: evidence knows few words of them, and checks pass them."""
    inputs = results.inputs
    texts, theirs = inputs.submission.metadata.get("text"), inputs.validation_text
    if not isinstance(results.spec.utility_function, Count) or texts is None or not theirs:
        return
    words = np.array([len(split_words(text)) for text in texts])
    shortest = min(len(split_words(text)) for text in theirs)
    short = np.flatnonzero(words * ODD < shortest)
    if len(short) <= (FEW + 2 / (len(theirs) + 1)) * len(words):
        return
    medians = _list_medians(inputs, short, words[short], "text", "{:.0f} words")
    yield UnresolvedWarning.of(
        "short_texts",
        f"{counted(len(short), 'text')} of {_identities(len(medians))} are shorter than all validation texts "
        f"({shortest:,} words)",
        "Each counts like a whole one: who cuts a text into ten is paid ten times. Copies of so few words are not "
        "recognised, and spot checks find pieces of one's own text genuine. Leave out what is no unit by your terms, "
        "and pay again.",
        medians,
        len(short),
    )


def _unmatched_copies(results: Results) -> Warnings:
    """Warn where no threshold will do, as with too few validation rows, so that near copies are not looked for."""
    layer = results.mechanism.evidence
    if (
        results.spec.theta == NONE
        or not isinstance(layer, Lineage)
        or (layer.theta, layer.words) != (NONE, NONE)
    ):
        return
    yield UnresolvedWarning.of(
        "unmatched_copies",
        "Near copies are not looked for",
        f"Only identical units count as copies of one another: {results.threshold.why}. Whoever changes copies a "
        "little is paid for them.",
        count=len(results.inputs.validation_label),
    )


def _claims(results: Results) -> Warnings:
    claims, names = results.payees.claims, results.inputs.identities
    join = (
        "where they are one payee, write that into a file for --overrides, and pay again: [[join]] identities = "
        '["anna", "anna.m"], reason = "...", by = "...", date = 2026-05-31, each on a line of its own.'
    )
    if few := [claim for claim in claims if len(claim.identities) <= COMMON]:
        yield UnresolvedWarning.of(
            "claims",
            f"{counted(len(few), 'claim')} that identities are one payee, not confirmed by all",
            "Submitters fill these columns in, so a claim matches no identities and costs nothing. Ask those whom it "
            f"concerns; {join}",
            [claim.words(names) for claim in few],
        )
    if many := [claim for claim in claims if len(claim.identities) > COMMON]:
        yield UnresolvedWarning.of(
            "common_keys",
            f"{counted(len(many), 'linkage value is', 'linkage values are')} shared by more than {COMMON} identities",
            "It matches none of them. It may be a public computer or a broker, or one person under many names: find "
            f"out what the value is; {join}",
            [
                f"{claim.reason} = “{visible(claim.value)}”: {len(claim.identities):,} identities"
                for claim in sorted(many, key=lambda claim: -len(claim.identities))
            ],
        )


def kappas(results: Results) -> Values:
    """Compute kappa = P / T of each payee whose units earn anything, by the amounts that are divided."""
    units = unit_amounts(results.divided)
    sums = Earned(results.payees.group[units.identity], units.amount).sums()
    return sums.kappas(sums.owed)


def required_checks_message(results: Results) -> str:
    """Say what is to be checked and what that deters; nothing for runs by accuracy without checks."""
    spec = results.spec
    if not spec.checks:
        return (
            "" if spec.worth.signed else "No checks of units are asked for before this run is approved."
        )
    kappa = kappas(results)
    gaps = np.array([deterrence_gap(spec.spot_checks, each) for each in kappa.tolist()])
    half, most = f"{np.median(gaps):.1%}", f"{gaps.max():.1%}"
    gain = f"at most {most} of its payment"
    if half != most:
        gain = f"at most {half} of its payment, for half of the payees, and {most} for any"
    return (
        f"Before this run is approved, {counted(spec.checks, 'unit')} of each payee are to be checked, drawn by what "
        "they earn (datamarket check sample, record, settle). Where a check finds a unit that is not genuine "
        f"{spec.power:.0%} of the time and a payee that fails is paid nothing, submitting such units can be expected "
        f"to gain it {gain}, beyond what they raise the pay of its genuine units by (kappa is at most "
        f"{kappa.max():.2f}). A unit that is drawn more than once is checked as often, by different people."
    )
