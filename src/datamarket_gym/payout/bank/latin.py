"""Names in the letters that every bank takes: a to z, A to Z, 0 to 9, / - ? : ( ) . , ' + and space.

These are the characters that SEPA asks every bank to support. What else a name holds is spelled with them, in the way
of the European Payments Council's best practices (EPC217-08): accents go, Greek and Cyrillic are transliterated, signs
become the nearest of these or a full stop (``spellings.txt``). Letters of other scripts have no spelling here and
are handed back: people know how their name is written at their bank, and a table does not.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from importlib.resources import files

from datamarket_gym.payout.confusables import cannot_be_seen

_TAKEN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-?:().,'+ ")
_GAP = re.compile(r"\s+")
_SLASHES = re.compile(r"//+")


def latin(text: str) -> tuple[str, str]:
    """A text in the letters banks take, and those of its letters that have no such spelling.

    Slashes that open or end it, or follow each other, go: banks take them for marks of their own.
    """
    spelled = "".join(map(_spelled, unicodedata.normalize("NFC", text)))
    spelled = _SLASHES.sub("/", _GAP.sub(" ", spelled)).strip("/ ")
    return spelled, "".join(dict.fromkeys(c for c in unicodedata.normalize("NFC", text) if _unknown(c)))


def cut(text: str, most: int) -> str:
    """The text within a length, not ending in a space or a slash."""
    return text[:most].rstrip("/ ")


def says_a_name(spelled: str) -> bool:
    """Whether a spelling holds a letter or a digit."""
    return any(c.isalnum() for c in spelled)


@cache
def _table() -> dict[str, str]:
    text = (files("datamarket_gym.payout.bank") / "spellings.txt").read_text(encoding="utf-8")
    rows = (line.split() for line in text.splitlines() if not line.startswith("# "))
    return {c: spelling for spelling, *characters in rows for c in characters}


@cache
def _spelled(c: str) -> str:
    if c in _TAKEN:
        return c
    if c.isspace():
        return " "
    if unicodedata.category(c) in ("Cf", "Mn", "Me", "Mc") or cannot_be_seen(c):
        return ""
    if (number := unicodedata.decimal(c, None)) is not None:
        return str(number)
    if (small := _table().get(c.lower())) is not None:
        return small if c == c.lower() else small.capitalize()
    parts = unicodedata.normalize("NFKD", c)
    if parts != c:
        return "".join(_spelled(part) for part in parts)
    return "."


@cache
def _unknown(c: str) -> bool:
    """Whether a letter, or a part of one, has no spelling."""
    if c in _TAKEN or c.lower() in _table() or unicodedata.category(c)[0] != "L" or cannot_be_seen(c):
        return False
    parts = unicodedata.normalize("NFKD", c)
    return parts == c or any(_unknown(part) for part in parts)
