"""Names as submitters choose them, shown so that they can neither mislead nor run.

Names go to Parquet and to the ledger as they are. On screens and pages, invisible characters and those that reorder
text are written out; in CSV files, what a spreadsheet would take for a formula gets an apostrophe in front, and the
rule can be undone (`csv_safe`, `from_csv`). How a name looks is its skeleton by Unicode's table of confusable
characters (UTS 39, section 4), skeleton(x) = NFD(map(NFD(x), less invisible characters)). The table is in
``payout/unicode`` with its version and licence; ``tools/confusables.py`` makes it.
"""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from unicodedata import normalize

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from datamarket_gym.errors import SubmissionError


@cache
def prototypes() -> dict[int, str]:
    """Map each confusable character to what it looks like; invisible ones to nothing."""
    text = (files("datamarket_gym.payout") / "unicode" / "confusables.txt").read_text(encoding="ascii")
    prototype: dict[int, str] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            target, _, sources = line.partition("=")
            looks = "".join(chr(int(point, 16)) for point in target.split())
            for source in sources.split():
                first, _, last = source.partition("..")
                for point in range(int(first, 16), int(last or first, 16) + 1):
                    prototype.setdefault(point, looks)  # invisible ones come first, and stay so
    return prototype


def skeleton(text: str) -> str:
    """Return what the text looks like."""
    return normalize("NFD", normalize("NFD", text).translate(prototypes()))


def cannot_be_seen(character: str) -> bool:
    """Tell if a character leaves no mark by itself (Default_Ignorable_Code_Point)."""
    return prototypes().get(ord(character)) == ""


# = + - @, and the characters that Unicode takes for them: of East Asian keyboards, small, super- and subscript.
_SIGNS = "=+\\-@\u207a\u207b\u207c\u208a\u208b\u208c\u2212\ufb29\ufe62\ufe63\ufe66\ufe6b\uff0b\uff0d\uff1d\uff20"
# What importers drop or hide in front of a sign: blanks, quotes, characters that cannot be seen.
_BEFORE = "(?:[^\\S\t\r\n]|['\"\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff])*"
_FORMULA = f"{_BEFORE}[{_SIGNS}]"
# Where a cell can begin: at the start, and after whatever separates cells in some settings.
_CELL = re.compile(f"(?<=[;,\t\r\n])(?={_FORMULA})")
_CELL_SAFE = re.compile(f"(?<=[;,\t\r\n])'(?={_FORMULA})")
_START = re.compile(f"['\t\r\n]|{_FORMULA}")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # all that Unicode calls Cc or Cs
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_HIDDEN = ("Cf", "Cc", "Cs", "Co", "Cn", "Zl", "Zp")  # categories of characters
LONGEST_SHOWN = 64
_NOBODY = frozenset(
    {
        "nan", "<na>", "na", "n/a", "#n/a", "nat", "none", "null", "(null)", "nil", "void", "undefined", "unknown",
        "missing", "blank", "(blank)", "empty", "(empty)", "anonymous", "true", "false",
    }
)  # fmt: skip
_BLANK = "\u2800"  # a Braille cell without dots
_NAMED = 3


def require_writable(role: str, names: Sequence[str]) -> None:
    """Refuse names that no file can hold faithfully: control characters, lone surrogates, blanks."""
    if all(map(str.strip, names)) and not unwritable("".join(names)):
        return
    for row, name in enumerate(names):
        if not name.strip():
            raise SubmissionError(f"column {role!r} is empty in row {row}; name every unit's {role}")
        if bad := unwritable(name):
            raise SubmissionError(f"column {role!r}, row {row} holds {bad}; remove it")


def unwritable(name: str) -> str:
    """Write the first character of a name that no file can hold faithfully; empty if there is none."""
    bad = _CONTROL.search(name)
    return "" if bad is None else f"the control character U+{ord(bad[0]):04X}"


def visible(name: str, longest: int = LONGEST_SHOWN) -> str:
    """Return a name with invisible and reordering characters spelled out; long ones are cut."""

    def spell_out(c: str) -> str:
        hidden = unicodedata.category(c) in _HIDDEN or cannot_be_seen(c)
        return f"⟨U+{ord(c):04X}⟩" if hidden else c

    shown = "".join(c if c.isascii() and c.isprintable() else spell_out(c) for c in name[: longest + 1])
    return shown if len(name) <= longest else f"{shown[:longest]}… ({len(name):,} characters)"


def first_words(text: str, longest: int = 60) -> str:
    """Return the first words of a text on one line, made visible."""
    words = " ".join(text[: 8 * longest].split())
    shown = words if len(words) <= longest else words[:longest].rpartition(" ")[0] + " …"
    return visible(shown, 2 * longest)


def run_called(period: str, run: str) -> str:
    """Name a run by its period, else by its id."""
    return visible(period) or f"run {run[:16]}"


def drawn_under(beacon: str | None) -> str:
    """Return what random tie-breaking is drawn under, in words."""
    return f"the beacon “{visible(beacon)}”" if beacon else "a digest of the validation rows"


def csv_safe(text: str) -> str:
    """Return text for CSV files: an apostrophe goes before what a spreadsheet would take for a formula.

    A cell begins at the start, and after ; , tab or a line break, since readers separate by any of these. There an
    apostrophe is put where a sign follows, with blanks, quotes or nothing between; at the start also before an
    apostrophe, a tab or a line break. The rule is undone cell by cell.
    """
    safe = _CELL.sub("'", text)
    return f"'{safe}" if _START.match(safe) else safe


def from_csv(text: str) -> str:
    """Undo `csv_safe`."""
    return _CELL_SAFE.sub("", text.removeprefix("'"))


def csv_text(
    columns: Sequence[str], rows: Iterable[Sequence[object]], numbers: Collection[str] = ()
) -> str:
    """Write a CSV file; all text goes through `csv_safe` but amounts in the columns ``numbers``."""

    def cell(name: str, value: object) -> str:
        if isinstance(value, str) and (not value or (value.isascii() and value.isalnum())):
            return value  # most cells: nothing in them is a sign or separates cells
        is_number = name in numbers and _NUMBER.fullmatch(str(value))
        text = csv_safe(value) if isinstance(value, str) and not is_number else str(value)
        # Python's writer does not quote a carriage return, which ends a row.
        return '"' + text.replace('"', '""') + '"' if re.search('[",;\t\r\n]', text) else text

    lines = [columns, *rows]
    return "".join(",".join(map(cell, columns, line)) + "\n" for line in lines)


def read_csv(path: Path) -> list[dict[str, str]]:
    """Read the rows of a CSV file that `csv_text` wrote, by column."""
    csv.field_size_limit(1 << 24)
    with path.open(encoding="utf-8", newline="") as file:
        names, *rows = csv.reader(file)
    return [dict(zip(names, map(from_csv, row), strict=True)) for row in rows]


def find_look_alikes(names: Sequence[str]) -> list[list[str]]:
    """Group different names that look the same: letter case, compatibility forms, confusable characters.

    Names that share a key are in one group. Keys are the skeleton (UTS 39) without letter case, and the skeleton of
    the name without letter case: the one takes AIice with a capital i for Alice, the other takes ALICE for alice.
    Skeletons are taken twice, and of composed characters too, because a few entries of the table lead to others.
    """
    place: dict[str, int] = {}
    pairs = [(i, place.setdefault(key, i)) for i, name in enumerate(names) for key in _keys(name)]
    left, right = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    graph = coo_array((np.ones(len(left)), (left, right)), shape=(len(names), len(names)))
    label = connected_components(graph, directed=False)[1] if names else []
    groups: dict[int, list[str]] = {}
    for name, group in zip(names, label, strict=True):
        groups.setdefault(int(group), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


class _CharacterMap(dict[int, str]):
    """Cache what a function makes of each character, for `str.translate`."""

    def __init__(self, work: Callable[[str], str]) -> None:
        self._work = work

    def __missing__(self, point: int) -> str:
        return self.setdefault(point, self._work(chr(point)))


def _folded(text: str) -> str:
    return skeleton(skeleton(text.casefold())).casefold()


_CASED = _CharacterMap(lambda c: _folded(skeleton(skeleton(c))))
_FOLDED = _CharacterMap(lambda c: _folded(unicodedata.normalize("NFKC", c)))


def _keys(name: str) -> set[str]:
    forms = {name}
    if not name.isascii():  # entries that NFD takes apart before they are looked up: ȧ, ơ, ...
        forms |= {form.translate(prototypes()) for form in (name, unicodedata.normalize("NFC", name))}
    return {
        *(f"cased {_key(unicodedata.normalize('NFD', form), _CASED)}" for form in forms),
        f"folded {_key(unicodedata.normalize('NFKD', name), _FOLDED)}",
    }


def _key(text: str, look: _CharacterMap) -> str:
    return " ".join(unicodedata.normalize("NFD", text.translate(look)).split())


def spelled(name: str) -> str:
    """Write a name and its characters beyond ASCII, to tell it from one that looks the same."""
    shown = [c for c in dict.fromkeys(name) if ord(c) > 127]
    named = [f"{unicodedata.name(c, 'no name').lower()}, U+{ord(c):04X}" for c in shown[:_NAMED]]
    more = [f"{len(shown) - _NAMED} more"] if len(shown) > _NAMED else []
    return f"“{visible(name)}”" + (f" ({'; '.join(named + more)})" if named else "")


def says_nothing(name: str) -> bool:
    """Tell if a name is what software writes for a missing one, or has no letter, digit or sign in it."""
    plain = unicodedata.normalize("NFKC", name).casefold().strip()
    return plain in _NOBODY or not any(
        unicodedata.category(c)[0] in "LNS" and c != _BLANK and not cannot_be_seen(c) for c in plain
    )
