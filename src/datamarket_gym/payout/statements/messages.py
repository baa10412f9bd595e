"""What a statement says, in plain words: sentences about a payee's units, money and checks.

A statement goes to the payee, so that it says less than the record: of units that equal validation rows only how many
there are, and of likeness no number, since either would tell a copier how far to go; of validation rows that units
cover how many, and nothing by which one could be told from another; nothing of claims, which changed nobody's pay; and
of others their names and units only where units matched, or pseudonyms in their stead.
"""

from __future__ import annotations

import string
from dataclasses import dataclass, field

from datamarket_gym.display import counted, listed
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.statements.record import Explanation, MatchedPayee, OwnMatch

_NAMES, _BEST, MOST_UNITS = 5, 3, 10  # in a list
_REASONS = {
    "exact_hash": "the same, number for number",
    "lineage": "nearly the same",
    "cosine": "nearly the same",
    "minhash": "nearly the same text",
    "perceptual": "nearly the same picture",
    "trusted source": "one names the other as its source",
    "same metadata": "both carry the same mark of whoever pays",
    "override": "the same, as a person decided after looking",
}


def reason_message(reason: str) -> str:
    """Why two units were taken for one."""
    if reason.startswith("supplied by "):
        return "the same, by a list of whoever pays"
    return _REASONS.get(reason, f"the same by “{visible(reason)}”")


@dataclass(frozen=True)
class Others:
    """How other payees are called: by the names that the run knows, or by letters that hold for one statement alone."""

    pseudonyms: bool
    letters: dict[str, str] = field(default_factory=dict)

    def name(self, name: str) -> str:
        """Another payee."""
        if not self.pseudonyms:
            return visible(name)
        return f"another payee ({self.letters.setdefault(name, _letters(len(self.letters)))})"

    def unit(self, unit: str) -> str:
        """Another payee's unit, whose name may tell whose it is."""
        return "one of theirs" if self.pseudonyms else visible(unit)


def _letters(number: int) -> str:
    """A, B, ..., Z, AA, AB, ..."""
    text = ""
    number += 1
    while number:
        number, place = divmod(number - 1, 26)
        text = string.ascii_uppercase[place] + text
    return text


@dataclass(frozen=True)
class ToldMatch:
    """What one other payee's units had to do with the payee's."""

    name: str
    words: str
    examples: list[tuple[str, str, str]]  # own unit, how, the other's unit
    more: int  # pairs of units beyond the examples


def sent(found: Explanation) -> list[tuple[str, int]]:
    """What became of the units that were sent; what did not occur is left out."""
    unpaid = found.checks.outcome in ("failed", "not checked")
    parts = [
        ("yours, and not paid" if unpaid else "counted for you", found.counted),
        ("repeated: what you send twice counts once", found.repeated),
        ("sent earlier by others, and counted for them", found.for_others),
        ("bought before, in an earlier payout: not paid for again", len(found.bought)),
        ("set aside: the same, or nearly, as examples that work is measured with", len(found.leaked)),
        ("set aside: could not be read, or something was missing", len(found.unusable)),
        ("taken out: not genuine, as a spot check found", len(found.checks.found)),
    ]
    occurred = [part for part in parts if part[1]]
    return parts[:1] + occurred if occurred and not found.counted else occurred


def beyond(found: Explanation) -> str:
    """What is not paid for again, where earlier payouts have bought something."""
    if not found.given:
        return ""
    return f" Only what goes beyond what was bought before counts ({listed(map(visible, found.given), _NAMES)})."


def unusable(found: Explanation) -> list[tuple[str, str]]:
    """The first of the units that were set aside, and what is wrong with each."""
    return [
        (visible(bad["unit"] or f"row {bad['row']} of the table"), visible(bad["wrong"], 200))
        for bad in found.unusable[:MOST_UNITS]
    ]


def bought(found: Explanation, others: Others) -> list[tuple[str, str]]:
    """The first of the units that were bought before, and what each was bought as."""
    told = []
    for each in found.bought[:MOST_UNITS]:
        mine = each["old_owner"] == found.identity
        period = visible(each["period"]) or "an earlier payout"
        whose = "you" if mine else others.name(each["old_owner"])
        unit = visible(each["old_unit"]) if mine else others.unit(each["old_unit"])
        told.append(
            (visible(each["unit"]), f"bought in {period} from {whose} as {unit}; earns nothing now")
        )
    return told


def matches(found: Explanation, others: Others) -> list[ToldMatch]:
    """Whose units matched, those with most of the payee's units first."""
    return [_match(each, others) for each in found.matched[:_NAMES]]


def _match(each: MatchedPayee, others: Others) -> ToldMatch:
    if len(each.reasons) == 1:
        [reason] = each.reasons
        why = reason_message(reason)
    else:
        why = "; ".join(f"{count:,} {reason_message(reason)}" for reason, count in each.reasons.items())
    if not each.for_others:
        whose = f"{_they(each.units)} for you, who sent {_them(each.units)} first."
    elif each.for_them == each.units:
        whose = f"{_they(each.units)} for them, who sent {_them(each.units)} first."
    else:
        parts = [
            ("you", each.units - each.for_others),
            ("them", each.for_them),
            ("whoever came earlier still", each.for_others - each.for_them),
        ]
        whose = f"Of these, {' and '.join(f'{n:,} count for {who}' for who, n in parts if n)}."
    examples = [(visible(tie.unit), _earlier(tie), others.unit(tie.other)) for tie in each.examples]
    examples = list(dict.fromkeys(examples))  # under pseudonyms, one may say what another does
    return ToldMatch(
        others.name(each.name),
        f"{counted(each.units, 'unit')} of yours ({why}). {whose}",
        examples,
        each.pairs - len(examples),
    )


def _they(units: int) -> str:
    return "It counts" if units == 1 else "They count"


def _them(units: int) -> str:
    return "it" if units == 1 else "them"


def _earlier(tie: OwnMatch) -> str:
    if tie.earlier == "neither":
        return "came at the same time, with the same content, as"
    lot = " (by lot: both carry the same time)" if tie.by_lot else ""
    return ("came earlier than" if tie.earlier == "unit" else "came later than") + lot


def merged_besides(found: Explanation, others: Others) -> list[str]:
    """What else there is to say about what was merged."""
    told = []
    shown = {each.name for each in found.matched[:_NAMES]}
    if (names := found.matched_in_all - len(shown)) > 0:
        told.append(f"Units of {counted(names, 'further payee')} matched yours, too.")
    if rest := [each for each in found.counted_for if not shown.issuperset(each.names)]:
        for_them = [
            f"{' and '.join(others.name(name) for name in each.names[:3])} ({counted(each.units, 'unit')})"
            for each in rest[:_NAMES]
        ]
        more = " and others" if len(rest) > _NAMES else ""
        told.append(f"Further units of yours are counted for {', '.join(for_them)}{more}.")
    if found.indirect:
        told.append(
            f"{counted(found.indirect, 'unit')} of these match no unit of another payee directly, but a unit that "
            "in turn matches an earlier one."
        )
    if found.shared:
        told.append(
            f"{counted(found.shared, 'unit')} of yours came at the same time as the same units of others, and are "
            "shared with them."
        )
    if found.by_lot:
        told.append(
            f"{counted(found.by_lot, 'time')} units of several payees carried the same time, and a lot decided who was "
            f"first, drawn under {found.drawn_under}."
        )
    return told


def covered(found: Explanation) -> str:
    """How many of the examples of what is wanted the payee's units cover; which ones stays secret."""
    needs = found.needs
    if needs is None or not needs.rows:
        return ""
    nearest = f"; to {needs.nearest:,} nobody comes closer" if needs.nearest else ""
    return (
        f"Your units cover {needs.rows:,} of the {counted(needs.of, 'example')} of what is wanted, "
        f"{_closely(needs.well)}{nearest}."
    )


def _closely(count: int) -> str:
    return f"{count:,} of them closely" if count else "none closely"


def best_units(found: Explanation) -> list[tuple[str, str]]:
    """The units that bring the payee most, and how many examples each covers."""
    if found.needs is None or found.checks.outcome in ("failed", "not checked"):
        return []
    return [
        (visible(unit.unit), f"covers {counted(unit.rows, 'example')}, {_closely(unit.well)}")
        for unit in found.needs.units[:_BEST]
    ]


def interval(found: Explanation, low: str, high: str) -> str:
    """How sure an amount is."""
    if found.low == found.high:
        return ""
    what = (
        "other examples of the same kind to measure with"
        if found.groups > 1
        else "another draw of the random numbers used"
    )
    of = round(found.level * 100)
    return (
        f"With {what}, your payment would have come out between {low} and {high} in {of} of 100 cases."
    )


def checks(found: Explanation) -> str:
    """What a payee is told of spot checks: its own outcome, and nothing of who looked or of others."""
    said = found.checks
    match said.outcome:
        case "failed":
            units = f" ({_units(said.found)})" if said.found else ""
            return (
                f"A spot check found that not all you sent is genuine{units}. Who fails a check is paid nothing, under "
                "any of their names."
            )
        case "not checked":
            return (
                "Your units would have earned less than it costs to check them, so that they were neither checked nor "
                "paid. They can be handed in again for the next payday."
            )
        case "passed":
            return f"You passed those of the draft before this one. Looked at: {_units(said.drawn)}."
        case _ if said.asked:
            return (
                f"{counted(said.asked, 'unit')} of each payee are drawn by chance, by what they earn, and looked at "
                "before anybody is paid. You may be asked for the original, its source, or a consent."
            )
        case _:
            return ""


def _units(names: list[str]) -> str:
    return listed(map(visible, names), MOST_UNITS)
