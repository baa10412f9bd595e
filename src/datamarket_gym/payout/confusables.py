"""How a text looks: its skeleton by Unicode's own table of confusable characters (UTS 39, section 4).

skeleton(x) = NFD(map(NFD(x), less what cannot be seen)); two texts with one skeleton look alike. The table
lies in ``payout/unicode`` with its version and licence; ``tools/confusables.py`` makes it.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from unicodedata import normalize


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
