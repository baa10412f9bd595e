"""Paraphrases by rule, at three strengths; deterministic given the generator.

No language model: what anybody can do with a list of words. Every rule gives a text that is not empty.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from datamarket_gym.market.synonyms import SYNONYMS

Rule = Callable[[str, Sequence[str], int, np.random.Generator], str]

_WORD = re.compile(r"[A-Za-z]+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+")


def synonyms(text: str, others: Sequence[str], strength: int, rng: np.random.Generator) -> str:
    """Swap a third, two thirds or all of the words that have a synonym in the list."""

    def swap(match: re.Match[str]) -> str:
        word = match.group()
        other = SYNONYMS.get(word.lower())
        if other is None or rng.uniform() >= strength / 3:
            return word
        return other.capitalize() if word[0].isupper() else other

    return _WORD.sub(swap, text)


def numbers(text: str, others: Sequence[str], strength: int, rng: np.random.Generator) -> str:
    """Change a third, two thirds or all of the numbers by up to a tenth."""

    def shift(match: re.Match[str]) -> str:
        written = match.group()
        if rng.uniform() >= strength / 3:
            return written
        digits = written.replace(",", "").replace(".", "")
        value = int(digits) + int(rng.integers(1, max(2, int(digits) // 10 + 1)))
        return str(value) if digits == written else written[:-1] + str(value % 10)

    return _NUMBER.sub(shift, text)


def reorder(text: str, others: Sequence[str], strength: int, rng: np.random.Generator) -> str:
    """Swap two neighbouring sentences, shuffle all of them, or shuffle clauses too."""
    cut = _SENTENCE if strength < 3 else re.compile(r"(?<=[.!?;,])\s+")
    parts = cut.split(text)
    if len(parts) < 2:
        parts = re.split(r"(?<=,)\s+", text)  # a single sentence: its clauses
    if strength == 1 and len(parts) > 1:
        at = int(rng.integers(len(parts) - 1))
        parts[at], parts[at + 1] = parts[at + 1], parts[at]
    else:
        parts = [parts[i] for i in rng.permutation(len(parts))]
    return " ".join(parts)


def casing(text: str, others: Sequence[str], strength: int, rng: np.random.Generator) -> str:
    """Lower case, every word capitalised, or upper case."""
    return (text.lower(), text.title(), text.upper())[strength - 1]


def typos(text: str, others: Sequence[str], strength: int, rng: np.random.Generator) -> str:
    """Swap two letters, or drop one, in 5, 15 or 30 percent of the longer words."""
    share = (0.05, 0.15, 0.30)[strength - 1]

    def slip(match: re.Match[str]) -> str:
        word = match.group()
        if len(word) < 4 or rng.uniform() >= share:
            return word
        at = int(rng.integers(1, len(word) - 2))
        if rng.uniform() < 0.5:
            return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        return word[:at] + word[at + 1 :]

    return _WORD.sub(slip, text)


def truncate(text: str, others: Sequence[str], strength: int, rng: np.random.Generator) -> str:
    """Keep the first 80, 50 or 25 percent of the words."""
    words = text.split()
    return " ".join(words[: max(1, round((0.8, 0.5, 0.25)[strength - 1] * len(words)))])


def concat(text: str, others: Sequence[str], strength: int, rng: np.random.Generator) -> str:
    """Append a quarter, a half or the whole of another own text of the same label."""
    if not len(others):
        return text
    words = str(others[int(rng.integers(len(others)))]).split()
    return f"{text} {' '.join(words[: max(1, round((0.25, 0.5, 1.0)[strength - 1] * len(words)))])}"


def mixed(text: str, others: Sequence[str], strength: int, rng: np.random.Generator) -> str:
    """Synonyms, numbers, order, typos and truncation at once, each at this strength."""
    for rule in (synonyms, numbers, reorder, typos, truncate):
        text = rule(text, others, strength, rng)
    return text


RULES: dict[str, Rule] = {
    rule.__name__: rule for rule in (synonyms, numbers, reorder, casing, typos, truncate, concat, mixed)
}
"""All rules by name."""
