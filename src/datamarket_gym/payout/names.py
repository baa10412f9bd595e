"""Names as submitters choose them, shown so that they can neither mislead nor run.

Names go to Parquet and to the ledger as they are. On screens and pages, characters that cannot be seen or that reorder
text are written out; in CSV files, what a spreadsheet would take for a formula gets an apostrophe in front, and the
rule can be undone (`csv_safe`, `from_csv`). How a name looks is its skeleton by Unicode's table of confusable
characters (UTS 39, section 4), skeleton(x) = NFD(map(NFD(x), less what cannot be seen)). The table lies in
``payout/unicode`` with its version and licence; ``tools/confusables.py`` makes it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from importlib.resources import files
from unicodedata import normalize

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from datamarket_gym.errors import SubmissionError


@cache
def prototypes() -> dict[int, str]:
    """What each confusable character looks like; nothing where it cannot be seen. Read at first use."""
    text = (files("datamarket_gym.payout") / "unicode" / "confusables.txt").read_text(encoding="ascii")
    found: dict[int, str] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        target, _, sources = line.partition("=")
        looks = "".join(chr(int(point, 16)) for point in target.split())
        for source in sources.split():
            first, _, last = source.partition("..")
            for point in range(int(first, 16), int(last or first, 16) + 1):
                found.setdefault(point, looks)  # what cannot be seen comes first, and stays so
    return found


def skeleton(text: str) -> str:
    """What the text looks like."""
    return normalize("NFD", normalize("NFD", text).translate(prototypes()))


def cannot_be_seen(character: str) -> bool:
    """Whether a character leaves no mark by itself (Default_Ignorable_Code_Point)."""
    return prototypes().get(ord(character)) == ""


# = + - @, and the characters that Unicode takes for them: of East Asian keyboards, small, super- and subscript.
_SIGNS = "=+\\-@\u207a\u207b\u207c\u208a\u208b\u208c\u2212\ufb29\ufe62\ufe63\ufe66\ufe6b\uff0b\uff0d\uff1d\uff20"
# What importers drop or hide in front of a sign: blanks, quotes, characters that cannot be seen.
_BEFORE = "(?:[^\\S\t\r\n]|['\"\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff])*"
_FORMULA = f"{_BEFORE}[{_SIGNS}]"
# Where a cell can begin: at the start, and after whatever separates cells in somebody's settings.
_CELL = re.compile(f"(?<=[;,\t\r\n])(?={_FORMULA})")
_CELL_SAFE = re.compile(f"(?<=[;,\t\r\n])'(?={_FORMULA})")
_START = re.compile(f"['\t\r\n]|{_FORMULA}")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # all that Unicode calls Cc or Cs
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
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
    """The character of a name that no file can hold faithfully, in words; empty where there is none."""
    bad = _CONTROL.search(name)
    return "" if bad is None else f"the control character U+{ord(bad[0]):04X}"


def visible(name: str, longest: int = LONGEST_SHOWN) -> str:
    """A name as people may see it: invisible and reordering characters spelled out, long ones cut."""
    shown = "".join(c if c.isascii() and c.isprintable() else _as_seen(c) for c in name[: longest + 1])
    return shown if len(name) <= longest else f"{shown[:longest]}… ({len(name):,} characters)"


def run_called(period: str, run: str) -> str:
    """A run as people know it: what it was for, else its id."""
    return visible(period) or f"run {run[:16]}"


def drawn_under(beacon: str | None) -> str:
    """Return what random tie-breaking is drawn under, in words."""
    return f"the beacon “{visible(beacon)}”" if beacon else "a digest of the validation rows"


def _as_seen(c: str) -> str:
    hidden = unicodedata.category(c) in ("Cf", "Cc", "Cs", "Co", "Cn", "Zl", "Zp") or cannot_be_seen(c)
    return f"⟨U+{ord(c):04X}⟩" if hidden else c


def csv_safe(text: str) -> str:
    """Text as it stands in CSV files: an apostrophe goes before what a spreadsheet would take for a formula.

    A cell begins at the start, and after ; , tab or a line break, since readers separate by any of these. There an
    apostrophe is put where a sign follows, with blanks, quotes or nothing between; at the start also before an
    apostrophe, a tab or a line break. Cells stay what they were otherwise, so the rule is undone cell by cell.
    """
    safe = _CELL.sub("'", text)
    return f"'{safe}" if _START.match(safe) else safe


def from_csv(text: str) -> str:
    """Undo `csv_safe`."""
    return _CELL_SAFE.sub("", text.removeprefix("'"))


def csv_text(
    columns: Sequence[str], rows: Iterable[Sequence[object]], numbers: Collection[str] = ()
) -> str:
    """The one way to write a CSV file: every cell goes through `csv_safe`.

    Left as they are: what is no text, and numbers that are written out (amounts) in the columns ``numbers``.
    """
    plain = [name in numbers for name in columns]
    lines = [",".join(_quoted(csv_safe(name)) for name in columns)]
    for row in rows:
        cells = (
            csv_safe(cell)
            if isinstance(cell, str) and not (n and _NUMBER.fullmatch(cell))
            else str(cell)
            for n, cell in zip(plain, row, strict=True)
        )
        lines.append(",".join(map(_quoted, cells)))
    return "\n".join([*lines, ""])


def _quoted(cell: str) -> str:
    """A cell in quotes where it needs them; Python's writer lets a carriage return stand, which ends a row."""
    return '"' + cell.replace('"', '""') + '"' if re.search('[",;\t\r\n]', cell) else cell


def find_look_alikes(names: Sequence[str]) -> list[list[str]]:
    """Groups of different names that look alike: letter case, compatibility forms, confusable characters.

    Two names are of one group if they have a key in common, or if others between them do. The keys are the
    skeleton (UTS 39), of which letter case is forgotten, and the skeleton of the name without letter case: the
    one takes AIice with a capital i for Alice, the other takes ALICE for alice. Skeletons are taken twice, and of
    composed characters too, because a few entries of the table lead to others or are never reached by one pass.
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
    """What a function makes of each character, worked out when it is first met; for `str.translate`."""

    def __init__(self, work: Callable[[str], str]) -> None:
        self._work = work

    def __missing__(self, point: int) -> str:
        self[point] = made = self._work(chr(point))
        return made


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
    """A name with its characters beyond ASCII named, so that it can be told from one that looks the same."""
    shown = [c for c in dict.fromkeys(name) if ord(c) > 127]
    named = [f"{unicodedata.name(c, 'no name').lower()}, U+{ord(c):04X}" for c in shown[:_NAMED]]
    more = [f"{len(shown) - _NAMED} more"] if len(shown) > _NAMED else []
    return f"“{visible(name)}”" + (f" ({'; '.join(named + more)})" if named else "")


def says_nothing(name: str) -> bool:
    """Whether a name is what software writes for a missing one, or has no letter, digit or sign in it."""
    plain = unicodedata.normalize("NFKC", name).casefold().strip()
    return plain in _NOBODY or not any(
        unicodedata.category(c)[0] in "LNS" and c != _BLANK and not cannot_be_seen(c) for c in plain
    )
