"""Warnings that stand before money: what a person should look at before a run is approved.

Each has a name. Whoever approves a run says every name that it has (``--accept NAME``), and the ledger keeps
who did. What they are found by is in `datamarket_gym.payout.warnings`; this is the rule of approval.

What the times of a payday are worth: whether they say who was first, and whether they can be true.

The mechanism pays the earliest, so the clock must be the operator's. Times that are missing, equal, later than
the market's end or earlier than its beginning are told with their number; ``strict`` makes each an error.

What a run is warned of by its inputs alone: before anything is scored, and again when it is.

Whoever looks at tables before paying by them (`input_warnings`) is told the same as whoever pays.

What a run is warned of that was there before it: bought by earlier runs, or received from others.

What a run by scores from elsewhere is warned of: units without scores, and equal units with unequal ones.

Groups of a payday that a few ties hold together: by a list of the operator's or an override, never by lineage.

Each unit descends from one earlier unit at most, so that no unit joins two trees (docs/lineage.md). Ties from elsewhere
can, and one wrong pair in a list makes one group of two large ones, which one of them owns.

What a run is warned of: one function that collects all warnings of its results.

The checks that a run asks for before it is approved, in a sentence: how many, of what power, what they deter.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.analysis.theorems.deterrence import Earned, deterrence_gap
from datamarket_gym.display import counted, listed
from datamarket_gym.errors import DataMarketError, RunError, SubmissionError, UnknownNameError
from datamarket_gym.evidence.chaining import FEW as FEW_chaining
from datamarket_gym.evidence.chaining import Chain, chain_messages, cuts
from datamarket_gym.evidence.graph import components, describe_missing_times
from datamarket_gym.execution.arrays import Codes, Features, Values, distinct_pairs, in_blocks
from datamarket_gym.execution.files import read_json, write_json
from datamarket_gym.mechanism.allocation import floored
from datamarket_gym.mechanism.payment_tables import unit_amounts
from datamarket_gym.mechanism.pipeline import REMEDY
from datamarket_gym.payout.input_files import BadRow
from datamarket_gym.payout.names import find_look_alikes, says_nothing, spelled, visible
from datamarket_gym.payout.operator_evidence import DESCENT
from datamarket_gym.utilities.base import LEARNERS, among
from datamarket_gym.utilities.coverage import Coverage

if TYPE_CHECKING:
    from datamarket_gym.payout.inputs import Inputs
    from datamarket_gym.payout.results import Results
    from datamarket_gym.payout.settings import PayoutSpec


FILE = "warnings.json"
NAMES = (
    "undated",
    "future_times",
    "early_times",
    "equal_times",
    "leak",
    "bought_from_others",
    "bought_rows",
    "received_from_others",
    "lost_labels",
    "unseen_labels",
    "unscored_units",
    "uneven_scores",
    "labels_ignored",
    "loses_half",
    "joined_identities",
    "chained",
    "collapse",
    "large_balances",
    "odd_lengths",
    "claims",
    "common_keys",
    "look_alikes",
    "odd_identities",
    "quarantined",
    "skipped_files",
    "unused_log",
    "same_submissions",
    "unnamed_prior",
    "left_behind",
    "disputes",
)
"""Every warning there is, in the order in which they are shown."""
MOST_ITEMS = 20
"""Of a longer list this many items are shown; the count is of all."""
_LONGEST_ITEM, _LONGEST_WORDS = 400, 2000
_FEW = 5  # items of a warning that is not answered


@dataclass(frozen=True)
class UnresolvedWarning:
    """One warning: what it is called, one line, what it means and what to do, how many, and some of them."""

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
        """A warning about items, the first of which are shown; names in them are made visible.

        ``count`` is for items that are not listed one by one.
        """
        shown = tuple(visible(item, _LONGEST_ITEM) for item in items[:MOST_ITEMS])
        total = len(items) if count is None else count
        return cls(name, title, visible(words, _LONGEST_WORDS), total, shown)

    @classmethod
    def from_plain(cls, data: dict[str, Any]) -> UnresolvedWarning:
        """A warning read back from JSON."""
        return cls(**{**data, "items": tuple(data["items"])})

    @property
    def more(self) -> int:
        """How many items there are beyond those shown; none where they are not listed at all."""
        return max(0, self.count - len(self.items)) if self.items else 0


class AcceptedWarningError(DataMarketError):
    """Warnings that nobody answered for, or an answer to one that the run does not have."""


def in_order(found: Sequence[UnresolvedWarning]) -> list[UnresolvedWarning]:
    """Warnings in the order in which they are shown."""
    return sorted(found, key=lambda warning: NAMES.index(warning.name))


def write_warnings(found: Sequence[UnresolvedWarning], folder: Path) -> None:
    """The warnings of a run as a file in its folder."""
    write_json(folder / FILE, [asdict(warning) for warning in in_order(found)], sort=False)


def read_warnings(folder: Path) -> list[UnresolvedWarning]:
    """The warnings of a finished run."""
    try:
        return [UnresolvedWarning.from_plain(row) for row in read_json(folder / FILE)]
    except (TypeError, KeyError) as error:
        raise RunError(
            f"{str(folder / FILE)!r} is damaged ({error}); run verify, or pay again into another folder"
        ) from error


def require_answered(found: Sequence[UnresolvedWarning], despite: Sequence[str]) -> None:
    """Refuse an approval unless it names each warning, and no other."""
    for name in despite:
        if name not in NAMES:
            raise UnknownNameError("warning", name, NAMES)
    present = [warning.name for warning in found]
    needless = [name for name in despite if name not in present]
    if needless:
        has = f"it has {', '.join(present)}" if present else "it has none"
        raise AcceptedWarningError(
            f"the run has no warning {needless[0]!r} ({has}); leave --accept {needless[0]} out"
        )
    missing = [warning for warning in found if warning.name not in despite]
    if missing:
        lines = [_at_length(warning) for warning in missing]
        raise AcceptedWarningError(
            "not approved: look at each of these first, then approve with its name\n" + "\n".join(lines)
        )


def _at_length(warning: UnresolvedWarning) -> str:
    """A warning as whoever approves reads it, with the first of what it is about."""
    items = [f"\n    - {item}" for item in warning.items[:_FEW]]
    more = f"\n    and {warning.count - _FEW:,} more" if items and warning.count > _FEW else ""
    return f"  --accept {warning.name}\n    {warning.title}. {warning.words}{''.join(items)}{more}"


MANY_EQUAL = 0.01
"""So large a share of units that carry the time of somebody else's unit is told: seconds do coincide."""


def time_warnings(inputs: Inputs, spec: PayoutSpec) -> list[UnresolvedWarning]:
    """What is wrong with the times of a run; a function of its inputs, not of when it is asked."""
    found = [_order(inputs)]
    if inputs.has_time:
        times = inputs.submission.times
        if spec.closing is not None:
            found.append(_late(inputs, times > spec.closing, f"after the market closed ({spec.closes})"))
        if spec.opening is not None:
            found.append(_early(inputs, times < spec.opening, f"before the market began ({spec.opens})"))
    return [each for each in found if each is not None]


def time_messages(inputs: Inputs, spec: PayoutSpec) -> str:
    """Where the times of a run are from, and who thereby decides who was first; nothing where there are none."""
    if inputs.received is not None:
        return (
            "Times are from the operator's intake log: a unit came when the operator received it, by the operator's "
            f"clock, whatever anybody wrote ({inputs.received.upto.words})."
        )
    if not inputs.has_time:
        return ""
    return (
        f"Times are from the column “{visible(spec.columns.time or 'time')}” of the submissions: whoever writes it "
        "decides who was first, and the earliest of several copies is paid for all. Unless that is you alone, write "
        "down what arrives when it arrives (datamarket intake), and pay by that (pay --intake LEDGER)."
    )


def later_than(inputs: Inputs, spec: PayoutSpec, now: float) -> UnresolvedWarning | None:
    """Units dated later than now (seconds since 1970), where the run was not told when the market closed.

    Only for whoever runs it now: a run's results do not depend on when it was made.
    """
    if spec.closing is not None or not inputs.has_time:
        return None
    return _late(inputs, inputs.submission.times > now, "in the future")


def require_sound(found: list[UnresolvedWarning]) -> None:
    """Refuse to pay where anything is wrong with the times."""
    if found:
        said = " ".join(f"{each.name}: {each.title}. {each.words}" for each in found)
        raise SubmissionError(f"stopped, as --strict asks. {said}")


_PARTS = ((1e3, "milliseconds"), (1e6, "microseconds"), (1e9, "nanoseconds"))
_FIRST, _LAST = 9e8, 4.1e9  # 1998 to 2099, in seconds since 1970
_DAYS = 86_400
_SPREADSHEET = 25_569
"""1970-01-01 in the days of a spreadsheet."""


def seems(times: Values) -> str:
    """What numbers that cannot be seconds since 1970 look like, and how to write them; empty where they may be that.

    They are taken as they are, for who was first is the same: what must be seconds is what is compared with dates.
    """
    low, high = float(times.min()), float(times.max())
    for parts, called in _PARTS:
        if _FIRST * parts <= low and high <= _LAST * parts:
            return (
                f"The times look like {called} since 1970 ({_day(low / parts)} to {_day(high / parts)}): divide them "
                f"by {parts:,.0f}, or write dates."
            )
    if low >= 19_700_101 and high <= 21_001_231 and _all_days(times):
        return (
            "The times look like dates written as one number (20260531): write them with hyphens, as 2026-05-31, with "
            "the time of day where you have it."
        )
    if low >= 36_526 and high <= 73_050:  # 2000 to 2099
        days = [(each - _SPREADSHEET) * _DAYS for each in (low, high)]
        return (
            f"The times look like a spreadsheet's days since 1900 ({_day(days[0])} to {_day(days[1])}): format the "
            "column as a date, 2026-05-31 12:00:00, and save it again."
        )
    return ""


def _day(seconds: float) -> str:
    return str(datetime.datetime.fromtimestamp(seconds, datetime.UTC).date())


def _all_days(times: Values) -> bool:
    whole = times.astype(np.int64)
    month, day = whole // 100 % 100, whole % 100
    return bool(
        (whole == times).all() and ((month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)).all()
    )


def _order(inputs: Inputs) -> UnresolvedWarning | None:
    """Nobody was first, or many units carry the time of somebody else's unit."""
    submission, n = inputs.submission, len(inputs.ids)
    if describe_missing_times(submission) is not None:
        name, have = (
            ("equal_times", "all carry the same time")
            if inputs.has_time
            else ("undated", "carry no times")
        )
        return _warning(
            inputs,
            name,
            f"Nobody was first: the {n:,} units {have}",
            "Copies cannot be told from originals: k copies of a unit take k / (k + 1) of its pay, whatever the rule. "
            "Name the column that says when you received each unit (--time; a folder has none: list its images in a "
            "table), or pay only people you trust.",
            np.arange(n),
        )
    when = np.unique(submission.times, return_inverse=True)[1]
    held = np.unique(np.stack([when, inputs.owner]), axis=1)
    equal = np.flatnonzero(np.bincount(held[0])[when] > 1)
    if len(equal) <= MANY_EQUAL * n:
        return None
    return _warning(
        inputs,
        "equal_times",
        f"{len(equal):,} of {n:,} units carry the same time as a unit of somebody else",
        "Between these a lot decides who was first, so k copies that carry the time of their original take k / (k + 1) "
        "of its pay on average. Give the time at which you received each unit as exactly as you have it.",
        equal,
    )


def _late(inputs: Inputs, late: NDArray[np.bool_], when: str) -> UnresolvedWarning | None:
    return _outside(
        inputs,
        "future_times",
        late,
        when,
        "Times that cannot be true are not from your clock, and the clock decides who was first. Use the time at which "
        "you received each unit, in seconds (not milliseconds) or as a date.",
    )


def _early(inputs: Inputs, early: NDArray[np.bool_], when: str) -> UnresolvedWarning | None:
    return _outside(
        inputs,
        "early_times",
        early,
        when,
        "The earliest of several copies is paid for all, so whoever can date units back takes the pay of those "
        "they copied. Use the time at which you received each unit.",
    )


def _outside(
    inputs: Inputs, name: str, which: NDArray[np.bool_], when: str, words: str
) -> UnresolvedWarning | None:
    units = np.flatnonzero(which)
    if not len(units):
        return None
    noun = "1 unit is" if len(units) == 1 else f"{len(units):,} units are"
    return _warning(inputs, name, f"{noun} dated {when}", words, units)


def _warning(inputs: Inputs, name: str, title: str, words: str, units: Codes) -> UnresolvedWarning:
    """A warning that lists some of the units, unless it is about all of them."""
    listed = units[:MOST_ITEMS].tolist() if len(units) < len(inputs.ids) else []
    if inputs.has_time and (hint := seems(inputs.submission.times)):
        words = f"{hint} {words}"
    items = [
        f"“{visible(inputs.ids[u])}” of “{visible(inputs.identities[inputs.owner[u]])}”" for u in listed
    ]
    return UnresolvedWarning.of(name, title, words, items, len(units))


ODD, FEW = 1.25, 0.01
"""Lengths of units are odd beyond this factor of those of all validation rows, and told where this share of units is,
beyond the 2 in rows + 1 that lie outside by chance."""


@dataclass(frozen=True, eq=False)
class _Looked:
    """What is looked at: the inputs, the settings, and who stands in the list of payments."""

    inputs: Inputs
    spec: PayoutSpec
    names: Sequence[str]


def input_warnings(
    inputs: Inputs, spec: PayoutSpec, names: Sequence[str] | None = None
) -> list[UnresolvedWarning]:
    """The warnings of what was read, in the order in which they are shown; ``names`` if not the identities alone."""
    looked = _Looked(inputs, spec, inputs.identities if names is None else names)
    ways = (_unseen, _ignored, _lengths, _look_alikes, _odd, _quarantined, _skipped)
    found = [warning for look in ways if (warning := look(looked)) is not None]
    return in_order([*time_warnings(inputs, spec), *found])


def _unseen(looked: _Looked) -> UnresolvedWarning | None:
    """Validation labels that nobody submitted, where that is no error (`require_learnable`)."""
    inputs = looked.inputs
    learner = LEARNERS.create(looked.spec.learner)
    if not (isinstance(learner, Coverage) and learner.labels):
        return None
    labels, rows = np.unique(inputs.validation_label, return_counts=True)
    bought = inputs.submission.label[:0] if inputs.prior is None else inputs.prior.art.label
    missing = np.flatnonzero(~(np.isin(labels, inputs.submission.label) | np.isin(labels, bought)))
    if not len(missing):
        return None
    missing = missing[np.lexsort((missing, -rows[missing]))]
    return UnresolvedWarning.of(
        "unseen_labels",
        f"{counted(len(missing), 'validation label was', 'validation labels were')} submitted by nobody "
        f"({counted(int(rows[missing].sum()), 'row')} of {len(inputs.validation_label):,})",
        "Nobody can cover these rows, so nobody is paid for them, and the whole amount is divided by the others. Where "
        "submitters write the labels otherwise, correct them and pay again; where such units are wanted, ask for "
        "them; else drop the rows.",
        [f"“{visible(str(labels[i]))}”: {counted(int(rows[i]), 'row')}" for i in missing],
    )


def _ignored(looked: _Looked) -> UnresolvedWarning | None:
    """Labels that are there and do not count, since others have none."""
    ignored = looked.inputs.ignored_labels
    if not ignored:
        return None
    return UnresolvedWarning.of(
        "labels_ignored",
        "Labels do not count in this run",
        "A label can be compared with nothing but a label. Where units, validation rows or what was bought before have "
        "none, those of the others are left out, and every unit may cover every row. If labels are wanted, fill them "
        "in, or name the column that holds them (--label), in both tables, and pay again; if not, nothing is wrong.",
        ignored,
    )


def _lengths(looked: _Looked) -> UnresolvedWarning | None:
    """Units shorter or longer than any validation row is, where distance counts: no encoder made both."""
    inputs = looked.inputs
    if not looked.spec.worth.by_distance:
        return None
    ours, held = (_long(each) for each in (inputs.submission.features, inputs.validation_features))
    low, high = held.min(), held.max()
    odd = np.flatnonzero((ours < low / ODD) | (ours > high * ODD))
    if len(odd) <= (FEW + 2 / (len(held) + 1)) * len(ours):
        return None
    whose, count = np.unique(inputs.owner[odd], return_counts=True)
    order = np.lexsort((whose, -count))
    return UnresolvedWarning.of(
        "odd_lengths",
        f"{counted(len(odd), 'unit')} of {counted(len(whose), 'identity', 'identities')} are shorter or longer than "
        f"all validation rows ({low:.3g} to {high:.3g})",
        "Nearest neighbours go by distance, so whoever shortens their vectors comes nearer to every validation row "
        "and is paid for it; evidence goes by direction and sees nothing. Embed what was submitted yourself (--text, "
        "--images), or bring these units to the length of the others, and pay again.",
        [
            f"“{visible(inputs.identities[whose[i]])}”: {counted(int(count[i]), 'unit')}, in the median "
            f"{np.median(ours[odd][inputs.owner[odd] == whose[i]]):.3g} long"
            for i in order
        ],
        len(odd),
    )


def _long(rows: Features) -> Values:
    """The length of each row."""
    found = [np.linalg.norm(block.astype(np.float64), axis=1) for _, block in in_blocks(rows)]
    return np.concatenate(found)


def _look_alikes(looked: _Looked) -> UnresolvedWarning | None:
    groups = sorted(find_look_alikes(looked.names), key=len, reverse=True)
    if not groups:
        return None
    return UnresolvedWarning.of(
        "look_alikes",
        f"{counted(len(groups), 'group')} of different identities whose names look alike",
        "They are different accounts and are paid apart. Check that each is who they seem to be before money goes out; "
        "join those that are one person with --overrides.",
        [_alike(group) for group in groups],
    )


def _alike(group: list[str]) -> str:
    return listed(map(spelled, group), 3)


def _odd(looked: _Looked) -> UnresolvedWarning | None:
    odd = [name for name in looked.names if says_nothing(name)]
    if not odd:
        return None
    return UnresolvedWarning.of(
        "odd_identities",
        f"{counted(len(odd), 'identity', 'identities')} called nan, none, null or the like",
        "Such names come from missing cells: units of several people may stand under one, and nobody can be paid "
        "as nobody. Correct the identities in the table and pay again.",
        [f"“{visible(name)}”" for name in odd],
    )


def _quarantined(looked: _Looked) -> UnresolvedWarning | None:
    bad = looked.inputs.bad
    if not bad:
        return None
    names = len({row.identity for row in bad} - {""})
    return UnresolvedWarning.of(
        "quarantined",
        f"{counted(len(bad), 'row')} of the submissions {'was' if len(bad) == 1 else 'were'} set aside "
        f"({counted(names, 'identity', 'identities')})",
        "They cannot be used, and nobody is paid for them; quarantine.csv lists all, with the row of the file (counted "
        "from 0, without the header). Have them mended and pay again, or tell whoever submitted them.",
        [f"row {row.row}, {_whose(row)}: {visible(row.wrong, 200)}" for row in bad[:MOST_ITEMS]],
        len(bad),
    )


def _whose(row: BadRow) -> str:
    named = row.unit not in ("", f"row {row.row}")
    unit = f"“{visible(row.unit)}” " if named else ""
    return f"{unit}of “{visible(row.identity)}”" if row.identity else f"{unit}of nobody"


def _skipped(looked: _Looked) -> UnresolvedWarning | None:
    items = [
        f"{role}: {name}: {why}"
        for role, files in sorted(looked.inputs.skipped.items())
        for name, why in files
    ]
    if not items:
        return None
    return UnresolvedWarning.of(
        "skipped_files",
        f"{counted(len(items), 'file')} in the folders {'was' if len(items) == 1 else 'were'} not read",
        "Their endings are none of an image that is read, they do not lie where images must (identity/label/image, for "
        "validation and reference rows label/image; without the folder of the label where no image lies in one), or no "
        "row of the table names them. Whoever submitted them is not paid for them: convert, move or name them and pay "
        "again, or make sure that they are no submissions.",
        items,
    )


def bought_from_others(results: Results) -> UnresolvedWarning | None:
    """Units that an earlier run bought from somebody else than whoever submits them now."""
    known, prior = results.known, results.inputs.prior
    if prior is None:
        return None
    theirs = [i for i, old in enumerate(known.old) if old.owner != known.identity[i]]
    if not theirs:
        return None
    names = counted(len({known.identity[i] for i in theirs}), "identity", "identities")
    return UnresolvedWarning.of(
        "bought_from_others",
        f"{counted(len(theirs), 'unit')} of {names} {'was' if len(theirs) == 1 else 'were'} bought before, from others",
        "They are tied to what an earlier run has bought, and earn nothing now. Somebody may have copied what others "
        "sold then, or sells under another name; or honest units were taken for older ones: look at some of them, and "
        "untie those with --overrides, naming both (prior.parquet has the names).",
        [
            f"“{visible(known.unit[i])}” of “{visible(known.identity[i])}”: bought in "
            f"{prior.runs[known.old[i].run].called} from “{visible(known.old[i].owner)}” as "
            f"“{visible(known.old[i].unit)}” ({known.reason[i]}, {known.score[i]:.3f})"
            for i in theirs[:MOST_ITEMS]
        ],
        len(theirs),
    )


def bought_rows(results: Results) -> UnresolvedWarning | None:
    """Validation rows that earlier runs have bought, number for number."""
    inputs = results.inputs
    if inputs.prior is None or results.spec.leak_check == "off":
        return None
    art, held = inputs.prior.art, inputs.validation_features
    bought = int(among(held, art.units.features[art.beginning_like(held)]).sum())
    if not bought:
        return None
    return UnresolvedWarning.of(
        "bought_rows",
        f"{counted(bought, 'validation row')} of {len(inputs.validation_label):,} {'was' if bought == 1 else 'were'} "
        "bought before",
        "What was bought covers them for good: nobody is paid for what is like them, and who covers the others divides "
        "the whole amount. Take validation rows that nobody has sold.",
        [],
        bought,
    )


def received_from_others(results: Results) -> UnresolvedWarning | None:
    """Units that the intake log has from somebody else before, who does not have them in this run."""
    inputs = results.inputs
    if inputs.received is None:
        return None
    rows = [i for i, before in enumerate(inputs.received.before) if before]
    if not rows:
        return None
    names = counted(len({int(inputs.owner[i]) for i in rows}), "identity", "identities")
    return UnresolvedWarning.of(
        "received_from_others",
        f"{counted(len(rows), 'unit')} of {names} came earlier from somebody else, who does not have them in this run",
        "The intake log holds the same content under another name, received before. Whoever was first is paid only for "
        "what is in the table, and these are paid as if they were new. If the others' units belong here, add them; if "
        "an earlier run has bought them, name it (--prior); if these are copies, leave them out and pay again.",
        [
            f"“{visible(inputs.ids[i])}” of “{visible(inputs.identities[inputs.owner[i]])}”: "
            f"{inputs.received.before[i]}"
            for i in rows[:MOST_ITEMS]
        ],
        len(rows),
    )


def lost_labels(results: Results) -> UnresolvedWarning | None:
    """Labels of earlier runs that occur nowhere in this one: what was bought under them has no say."""
    inputs, learner = results.inputs, LEARNERS.create(results.spec.learner)
    if inputs.prior is None or (isinstance(learner, Coverage) and not learner.labels):
        return None
    if learner.target == "number":  # what was measured before has its say, whatever is measured now
        return None
    labels, units = np.unique(inputs.prior.art.label, return_counts=True)
    here = np.isin(labels, inputs.validation_label) | np.isin(labels, inputs.submission.label)
    lost = np.flatnonzero(~here)
    if not len(lost):
        return None
    return UnresolvedWarning.of(
        "lost_labels",
        f"{counted(len(lost), 'label')} of the earlier runs {'does' if len(lost) == 1 else 'do'} not occur in this one "
        f"({int(units[lost].sum()):,} of {counted(int(units.sum()), 'unit')} that stand for what was bought)",
        "Units count for validation rows of their own label. If the label is written otherwise now, what was bought is "
        "as good as not there, and whoever submits it again is paid again: write labels as then, and pay again. If "
        "nobody asks for that label any more, nothing is wrong.",
        [f"“{visible(str(labels[i]))}”: {counted(int(units[i]), 'unit')}" for i in lost],
    )


def unscored_units(results: Results) -> UnresolvedWarning | None:
    """Units that stand for themselves or others, of which the file of scores has none of equal content."""
    scored, inputs = results.inputs.scored, results.inputs
    if scored is None:
        return None
    standing = {inputs.ids[i] for i in results.payments.canonical.unit}  # the others earn nothing anyway
    unscored = [unit for unit in scored.unscored if unit in standing]
    if not unscored:
        return None
    return UnresolvedWarning.of(
        "unscored_units",
        f"{counted(len(unscored), 'unit has', 'units have')} no scores",
        "The file of scores does not name them, nor any unit of equal content: they count as 0 and earn nothing. Where "
        "they came in after the scores were computed, compute these again and pay again.",
        [f"“{visible(unit)}”" for unit in unscored[:MOST_ITEMS]],
        len(unscored),
    )


def uneven_scores(results: Results) -> UnresolvedWarning | None:
    """Units of equal content to which the tool gave different scores."""
    scored = results.inputs.scored
    if scored is None or not scored.table.uneven:
        return None
    table = scored.table
    return UnresolvedWarning.of(
        "uneven_scores",
        f"{counted(table.uneven, 'group')} of units of equal content have different scores (by up to "
        f"{table.spread:.3g} on a validation row)",
        "What is the same is worth the same, so each counts with the mean of its group. A tool that draws random "
        "numbers, or trains on one copy and not on the other, tells equal units apart; if the difference is not small "
        "beside the scores themselves, have it average over more models.",
        count=table.uneven,
    )


def chains_of(results: Results) -> list[Chain]:
    """Large parts of groups that ties from elsewhere hold together, the thinnest first."""
    clusters = results.payments.clustering
    everyone = np.arange(len(clusters.label))
    tree = components(everyone, clusters.edges.where(np.isin(clusters.edges.reason, DESCENT)))
    return cuts(clusters, tree, np.bincount(tree)[tree].astype(np.float64), everyone)


def named_unit(results: Results, unit: int) -> str:
    """A unit and whose it is."""
    inputs = results.inputs
    return f"“{visible(inputs.ids[unit])}” of “{visible(inputs.identities[inputs.owner[unit]])}”"


def chained(results: Results) -> UnresolvedWarning | None:
    """Groups of which two large parts are held together by a few units."""
    thin = [chain for chain in chains_of(results) if chain.thin]
    if not thin:
        return None
    number = results.payments.scores.number
    return UnresolvedWarning.of(
        "chained",
        f"{counted(len({chain.cluster for chain in thin}), 'group is', 'groups are')} held together by a few ties",
        f"Two large parts of it are matched by {FEW_chaining} units or fewer, by a list or an override, "
        "and the earliest unit of all owns both. Look at these ties: one wrong pair is enough. Take it out of the list "
        "or the override, and pay again.",
        [
            f"group {number[chain.cluster]}: {chain_messages(chain, lambda unit: named_unit(results, unit))}"
            for chain in thin
        ],
    )


MANY = 5
"""So many payees in one tree of tied units are many; in a smaller market of at least three, all of them."""
COMMON = 20
"""A linkage value of more identities than this is told as common, not as a claim."""
CLEARLY = 10
"""Pay counts as clear from a tenth of an equal share on, as in `judge.metrics.clearly_paid`."""


def warnings_of(results: Results) -> list[UnresolvedWarning]:
    """All warnings of a run, in the order in which they are shown."""
    looked = (
        _leak,
        bought_from_others,
        bought_rows,
        received_from_others,
        lost_labels,
        unscored_units,
        uneven_scores,
        _joined,
        chained,
        _loses_half,
        _collapse,
        _balances,
        _claims,
        _common_keys,
    )
    found = [warning for look in looked if (warning := look(results)) is not None]
    read = input_warnings(results.inputs, results.spec, results.names)
    return in_order([*read, *found])


def _leak(results: Results) -> UnresolvedWarning | None:
    leaks = results.leaks
    if not len(leaks):
        return None
    names = counted(len(set(leaks.identity.tolist())), "identity", "identities")
    return UnresolvedWarning.of(
        "leak",
        f"{counted(len(leaks), 'unit')} of {names} equal validation rows, or nearly",
        f"They are set aside: they earn nothing and change nobody else's pay. {REMEDY}.",
        [
            f"“{visible(unit)}” of “{visible(who)}” is row {row} ({by}, {likeness:.3f})"
            for unit, who, row, by, likeness in leaks.listed()[:MOST_ITEMS]
        ],
        len(leaks),
    )


def _joined(results: Results) -> UnresolvedWarning | None:
    """Trees of tied units that hold units of many payees."""
    inputs, label, group = results.inputs, results.payments.clustering.label, results.payees.group
    limit = min(MANY, max(3, len(np.unique(group))))
    holder = distinct_pairs(label, group[inputs.owner])[0]
    payees = np.bincount(holder, minlength=results.payments.clustering.n_clusters)
    number, sizes = results.payments.scores.number, np.bincount(label)
    many = np.flatnonzero(payees >= limit)
    if not len(many):
        return None
    many = many[np.lexsort((number[many], -sizes[many], -payees[many]))]
    items = [
        f"tree {number[c]}: {sizes[c]:,} units of {payees[c]:,} payees, owned by {_owner(results, int(c))}"
        for c in many[:MOST_ITEMS]
    ]
    return UnresolvedWarning.of(
        "joined_identities",
        f"{counted(len(many), 'tree of tied units joins', 'trees of tied units join')} {limit} payees or more",
        f"Copies are seldom shared by so many. Units that differ may have been taken for one another, or somebody "
        f"placed units early so as to own what others submit later: of each tree its earliest unit alone is paid. "
        f"Open them in the report (What matched what); untie honest units with --overrides. The largest joins "
        f"{counted(int(payees[many[0]]), 'payee')}.",
        items,
        len(many),
    )


def _owner(results: Results, cluster: int) -> str:
    shares, names = results.payments.shares, results.inputs.identities
    owners = np.unique(shares.identity[(shares.cluster == cluster) & (shares.share > 0)])
    more = f" and {len(owners) - 1} more" if len(owners) > 1 else ""
    return f"“{visible(names[owners[0]])}”{more}"


def _loses_half(results: Results) -> UnresolvedWarning | None:
    """Payees who would be paid more than twice as much had no evidence been used."""
    n, group = len(results.inputs.identities), results.payees.group
    paid, without = np.zeros(n, dtype=object), np.zeros(n, dtype=object)
    np.add.at(paid, group, np.array(results.division.paid[:n], dtype=object))
    np.add.at(without, group, np.array(results.without_evidence[:n], dtype=object))
    everybody = np.unique(group)
    lost = [
        int(g)
        for g in everybody
        if 2 * paid[g] < without[g] and CLEARLY * len(everybody) * without[g] > results.spec.minor
    ]
    if not lost:
        return None
    lost.sort(key=lambda g: (paid[g] - without[g], g))
    first = {int(g): i for i, g in reversed(list(enumerate(group)))}
    text, currency = results.spec.money.text, results.spec.currency
    items = [
        f"“{visible(results.inputs.identities[first[g]])}”: {currency} {text(paid[g])} instead of {text(without[g])}"
        for g in lost
    ]
    return UnresolvedWarning.of(
        "loses_half",
        f"{counted(len(lost), 'payee loses', 'payees lose')} more than half of their pay to evidence",
        "Compared with the same run without any evidence. A cheat whose copies were caught is among them, and so is "
        "somebody whose own work was taken for a copy. For each: datamarket explain RUN/ --payee NAME shows what "
        "matched what; untie honest units with --overrides.",
        items,
    )


def _collapse(results: Results) -> UnresolvedWarning | None:
    found = results.collapse
    if found is None:
        return None
    return UnresolvedWarning.of(
        "collapse",
        f"One tree holds {found.largest:,} of {found.units:,} different units",
        f"{found.message}.",
        count=found.largest,
    )


def _balances(results: Results) -> UnresolvedWarning | None:
    """Balances of a size that would decide the runs to come: scores below zero almost cancel those above."""
    balance, names = results.division.balance, results.names
    owed = sum(each for each in balance if each > 0)
    if 2 * owed <= results.spec.minor:
        return None
    text, currency = results.spec.money.text, results.spec.currency
    below = sorted((each, name) for each, name in zip(balance, names, strict=True) if each < 0)
    title, items = (
        f"{currency} {text(owed)} would be carried to the next run",
        [f"“{visible(name)}”: {currency} {text(each)}" for each, name in below],
    )
    if not results.spec.worth.signed:
        return UnresolvedWarning.of(
            "large_balances",
            title,
            "No score of this run is below zero: they were brought in from the ledger. While they are that large, a "
            "run pays by them, and next to nothing for what is new in it. Raise the amount, or end them (datamarket "
            "ledger fund, datamarket ledger write-off) and pay again.",
            items,
        )
    return UnresolvedWarning.of(
        "large_balances",
        title,
        "Scores below zero almost cancel those above, so everybody is entitled to much more than there is. A run "
        "that takes these balances up pays by them, and next to nothing for what is new in it. Look at "
        "the units of those below zero: they may be mislabelled so as to do this. Pay again without them, or with "
        "--negative zero.",
        items,
    )


def _claims(results: Results) -> UnresolvedWarning | None:
    few = [claim for claim in results.payees.claims if len(claim.identities) <= COMMON]
    if not few:
        return None
    return UnresolvedWarning.of(
        "claims",
        f"{counted(len(few), 'claim')} that identities are one payee, not confirmed by all",
        "Submitters fill these columns in, so a claim ties nobody and costs nobody anything. Ask those whom it "
        "concerns; where they are one payee, say so with --edges or --overrides and pay again.",
        [claim.words(results.inputs.identities) for claim in few],
    )


def _common_keys(results: Results) -> UnresolvedWarning | None:
    many = [claim for claim in results.payees.claims if len(claim.identities) > COMMON]
    if not many:
        return None
    return UnresolvedWarning.of(
        "common_keys",
        f"{counted(len(many), 'linkage value is', 'linkage values are')} shared by more than {COMMON} identities",
        "It ties none of them. It may be a public computer or a broker, or one person under many names: find out "
        "what the value is; where they are one payee, say so with --edges or --overrides and pay again.",
        [
            f"{claim.reason} = “{visible(claim.value)}”: {len(claim.identities):,} identities"
            for claim in sorted(many, key=lambda claim: -len(claim.identities))
        ],
    )


def kappas(results: Results) -> Values:
    """kappa = P / T of each payee whose units earn anything, by the amounts that are divided.

    Under ``zero`` nothing below zero is.
    """
    used = floored(results.payments) if results.spec.negative == "zero" else results.payments
    units = unit_amounts(used)
    sums = Earned(results.payees.group[units.identity], units.amount).sums()
    return sums.kappas(sums.owed)


def required_checks_message(results: Results) -> str:
    """What is to be checked and what that deters; runs by accuracy without checks say nothing, as they always did."""
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
        "they earn (datamarket check plan, draw, record, settle). Where a check finds a unit that is not genuine "
        f"{spec.power:.0%} of the time and who fails is paid nothing, submitting such units can be expected to gain a "
        f"payee {gain}, beyond what they raise the pay of its genuine units by (kappa is at most {kappa.max():.2f}). A "
        "unit that is drawn more than once is to be looked at as often, by different people."
    )
