"""Watermarks in texts: characters of no width after some of the words.

A frame is 16 of four such characters, two bits each: the number (16 bits) and the first 16 bits of
HMAC(secret, number), so that a frame nobody signed says nothing. It stands after every few words, whole each
time: a part of the text, in any case, order or spacing, still bears it. Who strips characters of no width
strips the mark; tie such texts by `minhash` besides.

Marks can be copied. A text that bears several numbers counts for the one it bears most often: if it tied the
bearers of all of them, one text with every frame that somebody has seen would make one unit of all their units.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from datamarket_gym.core.errors import SubmissionError
from datamarket_gym.core.registry import register
from datamarket_gym.evidence.graph import Edges, EvidenceLayer, View
from datamarket_gym.evidence.layers.content import raw_content
from datamarket_gym.evidence.layers.marks import KEY, keyed, require_number, same_mark, secret

TEXT_NUMBERS = 1 << 16
EVERY = 6  # words between frames

_SYMBOLS = "\u200b\u200c\u200d\u2060"  # zero width: space, non-joiner, joiner; word joiner
_LENGTH = 16
_WORD = re.compile(r"\S+")
_RUN = re.compile(f"[{_SYMBOLS}]{{{_LENGTH},}}")


def mark_text(text: str, key: bytes, number: int) -> str:
    """The text, to the eye unchanged, with a number under the operator's secret."""
    require_number(number, TEXT_NUMBERS)
    if not text.strip():
        raise SubmissionError("a text without a word cannot be marked; leave it out")
    frame = _frame(key, number)
    ends = [match.end() for match in _WORD.finditer(text)][::EVERY]
    parts = [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]
    return frame.join(parts)


def marks_in_text(text: str, key: bytes) -> set[int]:
    """The numbers of all marks that were made with the secret."""
    return set(_counted(text, key))


def _counted(text: str, key: bytes) -> Counter[int]:
    """How often the text bears each number."""
    found: Counter[int] = Counter()
    for run in _RUN.findall(text):
        for start in range(len(run) - _LENGTH + 1):
            frame = run[start : start + _LENGTH]
            number = _value(frame) >> 16
            if frame == _frame(key, number):
                found[number] += 1
    return found


def _main_mark(text: str, key: bytes) -> set[int]:
    """The number that the text bears most often, the first of several; none in a text without marks."""
    return {number for number, _ in _counted(text, key).most_common(1)}


def _frame(key: bytes, number: int) -> str:
    signed = number << 16 | int.from_bytes(keyed(key, "text", str(number))[:2], "big")
    return "".join(_SYMBOLS[signed >> shift & 3] for shift in range(2 * _LENGTH - 2, -1, -2))


def _value(frame: str) -> int:
    value = 0
    for symbol in frame:
        value = value << 2 | _SYMBOLS.index(symbol)
    return value


@register("evidence", "watermark_text")
@dataclass(frozen=True)
class WatermarkText(EvidenceLayer):
    """Ties texts that bear the same number of the operator's most often.

    ``key`` names the environment variable of the secret.
    """

    key: str = KEY
    needs_content: ClassVar[str] = "text"

    def edges(self, view: View) -> Edges:
        """A star per number."""
        key = secret(self.key)
        rows, texts = raw_content(view.submission, "text", "watermark_text")
        return same_mark(rows, [_main_mark(text, key) for text in texts.tolist()], "watermark_text")
