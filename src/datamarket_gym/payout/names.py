"""Names are data: what submitters call themselves is shown so that it cannot mislead or run.

Names go to Parquet and to the ledger as they are. On screens and pages, characters that cannot be seen
or that reorder text are written out; in CSV files, names a spreadsheet would take for a formula get an
apostrophe in front (as does a name that begins with one, so the rule can be undone).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from datamarket_gym.core.errors import SubmissionError

_FORMULA = ("=", "+", "-", "@", "\t", "'")
LONGEST_SHOWN = 64
_NOBODY = frozenset(
    {
        "nan", "<na>", "na", "n/a", "#n/a", "nat", "none", "null", "(null)", "nil", "void", "undefined", "unknown",
        "missing", "blank", "(blank)", "empty", "(empty)", "anonymous", "true", "false",
    }
)  # fmt: skip
_BLANK = "\u2800"  # a Braille cell without dots


def require_writable(role: str, names: Iterable[str]) -> None:
    """Refuse names that no file can hold faithfully: control characters, lone surrogates, blanks."""
    for row, name in enumerate(names):
        if not name.strip():
            raise SubmissionError(f"column {role!r} is empty in row {row}; name every unit's {role}")
        bad = next((c for c in name if unicodedata.category(c) in ("Cc", "Cs")), None)
        if bad is not None:
            raise SubmissionError(
                f"column {role!r}, row {row} holds the control character U+{ord(bad):04X}; remove it"
            )


def visible(name: str, longest: int = LONGEST_SHOWN) -> str:
    """A name as people may see it: invisible and reordering characters spelled out, long ones cut."""
    shown = "".join(
        f"⟨U+{ord(c):04X}⟩" if unicodedata.category(c) in ("Cf", "Cc", "Co", "Cn", "Zl", "Zp") else c
        for c in name[: longest + 1]
    )
    return shown if len(name) <= longest else f"{shown[:longest]}… ({len(name):,} characters)"


def csv_safe(name: str) -> str:
    """A name as it stands in CSV files."""
    return f"'{name}" if name.startswith(_FORMULA) else name


def from_csv(name: str) -> str:
    """Undo `csv_safe`."""
    return name[1:] if name.startswith("'") else name


def look_alikes(names: Sequence[str]) -> list[list[str]]:
    """Groups of different names that read the same: letter case, compatibility forms, hidden characters."""
    groups: dict[str, list[str]] = {}
    for name in names:
        folded = unicodedata.normalize("NFKC", name).casefold()
        seen = "".join(c for c in folded if unicodedata.category(c) != "Cf")
        groups.setdefault(" ".join(seen.split()), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def says_nothing(name: str) -> bool:
    """Whether a name is what software writes for a missing one, or has no letter, digit or sign in it."""
    plain = unicodedata.normalize("NFKC", name).casefold().strip()
    return plain in _NOBODY or not any(
        unicodedata.category(c)[0] in "LNS" and c != _BLANK for c in plain
    )
