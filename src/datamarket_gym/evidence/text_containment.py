"""Text containment: the share of the shorter text's word pairs that the other text has as well.

A text is its set of pairs of neighbouring words, in either order. Words are compared without regard to case, accents,
invisible characters and markup; characters that look alike count as one, whatever their script. Pairs that occur in
more than 0.5 % of the operator's texts, in one of the orders, are common and do not count; with fewer than 100 such
texts no pair is common. With K(a) the pairs of text a that count,

    containment(a, b) = |K(a) & K(b)| / min(|K(a)|, |K(b)|).

Each text descends from the earlier text with the largest containment (ties: the first), if that reaches the threshold
and both texts have at least `LEAST_PAIRS` pairs that count. Two rules keep an early text from owning what comes after
it:

- an earlier text with more than `MAX_RATIO` times as many pairs is no parent: one huge text would contain all others;
- an earlier text that is the shorter one must share at least `LEAST_SHARED` pairs: a phrase owns no article.

A later text may be longer by any factor, so padding a stolen text does not help. Texts with equal sets of pairs
match whatever their length. Nothing here depends on later texts, so the past is immune (`evidence.lineage`); which
pairs are common depends on the operator's texts alone, so nobody can make another's word pairs common by submitting.

The search multiplies sparse matrices a block of texts at a time: memory is bounded by a block of pairs of texts.
"""

from __future__ import annotations

import hashlib
import html
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.content_keys import first_duplicates
from datamarket_gym.data.submission import Submission
from datamarket_gym.execution.arrays import Codes, Keys, Values
from datamarket_gym.execution.parallel import over_blocks

Pairs = NDArray[np.uint64]
"""Word pairs, each a number."""
LEAST_PAIRS = 4
"""A text with fewer pairs that count matches only texts with the same pairs."""
LEAST_SHARED = 8
"""Pairs that a later text must share with an earlier, shorter one."""
MAX_RATIO = 8
"""The largest ratio of an earlier text's pairs to a later one's."""
COMMON_SHARE, FEWEST_TEXTS = 0.005, 100
"""A pair in a larger share of the operator's texts is common, if there are at least so many texts."""
MOST_MARKUP = 1.5
"""The largest ratio of words with markup to words without at which the words in the markup are ignored."""
_BLOCK = 1024
_REMEMBERED = 50_000
_pairs_of: dict[str, Pairs] = {}  # of texts that were read before
_ORDER = np.uint64(1)

_MARKUP = re.compile(r"<[/!a-zA-Z][^<>]{0,1000}>")
_NAME = re.compile(r"</?[a-zA-Z][a-zA-Z0-9]*\s*/?>")
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"  # scripts without spaces: each character is a word
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
# Each class is written by its first character. Capitals were folded before: a class holds what either case resembles.
_LOOKALIKES = (
    "aаαɑ", "bвβьƅ", "cсϲ", "dԁ", "eеεєҽ", "fғϝ", "gɡց", "hнһηnνvѵ", "l1i|іιɩӏ", "jјϳ", "kкκ", "mмϻ", "o0оοσօ", "pрρ",  # noqa: RUF001
    "qԛ", "rг", "sѕ", "tтτ", "uyуυγүս", "wԝωшѡ", "xхχ", "zζᴢ",  # noqa: RUF001
)  # fmt: skip
_FOLDED = str.maketrans({other: group[0] for group in _LOOKALIKES for other in group[1:]})
_CONTROL = re.compile("[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f]")
_UNSEEN = "\ufffd\u115f\u1160"  # the replacement character and fillers of Hangul


def split_words(text: object) -> list[str]:
    """Return the words of a text as they are compared, without markup; what is no text has none."""
    return _readings(text)[0]


def _readings(text: object) -> list[list[str]]:
    """Return the words of a text without markup; where much stands in the markup, which encoders read, with it, too."""
    if not isinstance(text, str):
        return [[]]
    if "&" in text:
        text = html.unescape(text)
    if "<" not in text:
        return [_words(text)]
    seen, whole = _words(_MARKUP.sub(" ", text)), _words(_NAME.sub(" ", text))
    return [seen, whole] if len(whole) > MOST_MARKUP * len(seen) else [seen]


def _words(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_WORD.findall(_CONTROL.sub("", text).lower().translate(_FOLDED))
    text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    seen = "".join(each for each in text if not _is_hidden(each))
    return _WORD.findall(seen.translate(_FOLDED))


def _is_hidden(character: str) -> bool:
    """Tell if a character is a mark on a letter, or not seen: control, format, private or unassigned.

    Encoders leave these out: inside words they would change all pairs and no embedding.
    """
    category = unicodedata.category(character)
    if category[0] == "C":
        return character not in "\t\n\r"
    return category in ("Mn", "Me") or character in _UNSEEN


@dataclass(frozen=True, eq=False)
class WordPairs:
    """The different word pairs of texts: those of text i are ``pair[start[i]:start[i + 1]]``, in ascending order."""

    pair: Pairs
    start: Codes

    def __len__(self) -> int:
        return len(self.start) - 1

    @property
    def size(self) -> Codes:
        """How many pairs each text has."""
        return np.diff(self.start)

    @property
    def text(self) -> Codes:
        """The text that each pair is in."""
        return np.repeat(np.arange(len(self)), self.size)

    @staticmethod
    def of(texts: Iterable[object]) -> WordPairs:
        """Find the pairs of texts; a text of one word has one pair.

        Those of some texts are remembered: audits pay hundreds of times for nearly the same texts.
        """
        plain = [text if isinstance(text, str) else "" for text in texts]
        if len(plain) > _REMEMBERED:
            return WordPairs.read(plain)
        found = {text: pairs for text in plain if (pairs := _pairs_of.get(text)) is not None}
        new = [text for text in dict.fromkeys(plain) if text not in found]
        read = WordPairs.read(new)
        found |= {text: read.pair[read.start[i] : read.start[i + 1]] for i, text in enumerate(new)}
        if len(_pairs_of) + len(new) > _REMEMBERED:
            _pairs_of.clear()
        _pairs_of.update((text, found[text]) for text in new)
        parts = [no_pairs(), *(found[text] for text in plain)]
        return WordPairs(np.concatenate(parts), np.cumsum([len(part) for part in parts]))

    @staticmethod
    def read(texts: Iterable[object], ordered: bool = False) -> WordPairs:
        """Read the pairs of texts; the last bit is 0, or the order of the words if it counts."""
        number: dict[str, int] = {}
        flat: list[int] = []
        length: list[int] = []
        reading_of: list[int] = []  # the text of each reading
        n = 0
        for text in texts:
            for found in _readings(text):
                flat += [number.setdefault(word, len(number)) for word in found]
                length.append(len(found))
                reading_of.append(n)
            n += 1
        code = np.array([_hash(word) for word in number], dtype=np.uint64)[
            np.array(flat, dtype=np.int64)
        ]
        row = np.repeat(np.arange(len(length)), np.array(length, dtype=np.int64))
        second = np.r_[code[1:], code[:1]]
        follows = np.r_[row[1:] == row[:-1], False][: len(row)]  # a word by another of its text
        alone = np.array(length, dtype=np.int64)[row] == 1
        second = np.where(follows, second, np.uint64(0))
        pair = _mixed(np.minimum(code, second), np.maximum(code, second)) & ~_ORDER
        if ordered:
            pair |= (code > second).astype(np.uint64)
        counts = follows | alone
        return WordPairs._distinct(np.array(reading_of, dtype=np.int64)[row[counts]], pair[counts], n)

    @staticmethod
    def of_submission(submission: Submission) -> WordPairs | None:
        """Find and cache the pairs of units' texts; None where no unit has any."""
        cached: dict[str, WordPairs] = submission.__dict__.setdefault("word_pairs", {})
        if "text" not in cached:
            if "text" not in submission.metadata:
                return None
            cached["text"] = WordPairs.of(submission.metadata["text"].tolist())
        return cached["text"] if len(cached["text"].pair) else None

    def keep_with(self, submission: Submission) -> None:
        """Let units whose texts are not there have these pairs."""
        submission.__dict__["word_pairs"] = {"text": self}

    @staticmethod
    def _distinct(text: Codes, pair: Pairs, n: int) -> WordPairs:
        order = np.lexsort((pair, text))
        text, pair = text[order], pair[order]
        new = np.r_[True, (text[1:] != text[:-1]) | (pair[1:] != pair[:-1])][: len(text)]
        return WordPairs(pair[new], np.r_[0, np.cumsum(np.bincount(text[new], minlength=n))])

    @staticmethod
    def concat(parts: Sequence[WordPairs]) -> WordPairs:
        """Stack the pairs of several lists of texts."""
        size = np.concatenate([part.size for part in parts])
        return WordPairs(np.concatenate([part.pair for part in parts]), np.r_[0, np.cumsum(size)])

    def take(self, rows: Codes) -> WordPairs:
        """Take some texts, in this order."""
        size, ends = self.size[rows], np.cumsum(self.size[rows])
        place = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - size, size)
        return WordPairs(self.pair[np.repeat(self.start[rows], size) + place], np.r_[0, ends])

    def without(self, common: Pairs) -> WordPairs:
        """Leave these pairs out."""
        if not len(common):
            return self
        place = np.searchsorted(common, self.pair)  # which are in ascending order
        rest = common[np.minimum(place, len(common) - 1)] != self.pair
        return WordPairs(self.pair[rest], np.r_[0, np.cumsum(rest)][self.start])

    def keys(self) -> Keys:
        """Hash the pairs of each text."""
        raw = self.pair.tobytes()
        ends = (8 * self.start).tolist()
        digests = [hashlib.sha256(raw[a:b]).hexdigest() for a, b in pairwise(ends)]
        return np.array(digests, dtype="S64")


def no_pairs() -> Pairs:
    """Return no pairs."""
    return np.empty(0, dtype=np.uint64)


def _hash(word: str) -> int:
    return int.from_bytes(
        hashlib.blake2b(word.encode(errors="replace"), digest_size=8).digest(), "little"
    )


def _mixed(first: Pairs, second: Pairs) -> Pairs:
    """Mix the hashes of two words into one."""
    mixed = first * np.uint64(0x9E3779B97F4A7C15) ^ (second + np.uint64(0x7F4A7C15)) * np.uint64(
        0xC2B2AE3D27D4EB4F
    )
    return (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)


@lru_cache(maxsize=8)  # audits and experiments pay thousands of times on the same validation texts
def common_pairs(texts: tuple[Any, ...]) -> Pairs:
    """Find the pairs in more than 0.5 % of the operator's texts, and in at least two; none where texts are few.

    What counts is the more frequent of the two orders of a pair.
    """
    pairs = WordPairs.read(texts, ordered=True)
    texts_with_words = int((pairs.size > 0).sum())
    if texts_with_words < FEWEST_TEXTS:
        return no_pairs()
    pair, count = np.unique(pairs.pair, return_counts=True)
    return np.unique(pair[count > max(1.0, COMMON_SHARE * texts_with_words)] & ~_ORDER)


def match_earlier_texts(
    texts: WordPairs, common: Pairs, least: float, old: int | None = None
) -> tuple[Codes, Values]:
    """Find the earlier text of the largest containment of each text, the first of several, and the containment.

    A text without a match, by ``least`` and the rules of this module, has -1 and containment 0. If ``old`` is not 0,
    the first ``old`` texts are of earlier periods, and each other text is compared with these alone.
    """
    n = len(texts)
    first = first_duplicates(texts.keys())
    counted = texts.without(common)
    whole = np.flatnonzero((first == np.arange(n)) & (counted.size >= LEAST_PAIRS))
    parent, score = np.full(n, -1), np.zeros(n)
    if len(whole) > 1:
        before = None if old is None else int(np.searchsorted(whole, old))
        near, containment = _search(counted.take(whole), least, before)
        some = near >= 0
        parent[whole[some]], score[whole[some]] = whole[near[some]], containment[some]
    copies = np.flatnonzero((first < np.arange(n)) & (texts.size > 0))
    own = np.ones(len(copies), dtype=bool) if old is None else first[copies] < old
    parent[copies] = np.where(own, first[copies], parent[first[copies]])
    score[copies] = np.where(own, 1.0, score[first[copies]])
    return parent, score


def may_match(earlier: Codes, later: Codes) -> NDArray[np.bool_]:
    """Tell which texts of so many pairs may match by these rules, whatever their pairs."""
    long_enough = (later <= earlier) | (earlier >= LEAST_SHARED)
    return (np.minimum(earlier, later) >= LEAST_PAIRS) & (earlier <= MAX_RATIO * later) & long_enough


def _search(texts: WordPairs, least: float, old: int | None) -> tuple[Codes, Values]:
    """Compare different texts in blocks, each with the texts before it, or with the first ``old`` alone."""
    from scipy.sparse import csr_array

    n, size = len(texts), texts.size
    _, column, count = np.unique(texts.pair, return_inverse=True, return_counts=True)
    several = count[column] > 1  # a pair of one text alone is shared with none
    column, start = (
        (np.cumsum(count > 1) - 1)[column[several]],
        np.r_[0, np.cumsum(several)][texts.start],
    )
    width = int((count > 1).sum())

    def block(at: int) -> csr_array:
        ends = start[at : min(at + _BLOCK, n) + 1]
        ones = np.ones(ends[-1] - ends[0], dtype=np.int32)
        inside = column[ends[0] : ends[-1]].astype(np.int32)
        return csr_array((ones, inside, (ends - ends[0]).astype(np.int32)), shape=(len(ends) - 1, width))

    earlier = n if old is None else old
    turned = [block(at).T.tocsr() for at in range(0, earlier, _BLOCK)]

    def best(at: int) -> tuple[Codes, Values]:
        mine = block(at)
        near, score = np.full(mine.shape[0], -1), np.zeros(mine.shape[0])
        for other, theirs in enumerate(turned if old is not None else turned[: at // _BLOCK + 1]):
            shared = mine @ theirs
            some = np.flatnonzero(shared.data >= least * LEAST_PAIRS)  # most share a single pair
            row = np.searchsorted(shared.indptr, some, side="right") - 1
            place, both = shared.indices[some].astype(np.int64) + other * _BLOCK, shared.data[some]
            own, other_size = size[at + row], size[place]
            smaller = np.minimum(own, other_size)
            enough = (both >= least * smaller) & (place < (at + row if old is None else old))
            enough &= (other_size <= MAX_RATIO * own) & ((other_size >= own) | (both >= LEAST_SHARED))
            row, place, contained = row[enough], place[enough], both[enough] / smaller[enough]
            order = np.lexsort((place, -contained, row))
            order = order[np.unique(row[order], return_index=True)[1]]
            row, place, contained = row[order], place[order], contained[order]
            better = contained > score[row]
            near[row[better]], score[row[better]] = place[better], contained[better]
        return near, score

    starts = range(old or 0, n, _BLOCK)
    parts = list(over_blocks(best, starts, n * n))
    near, score = np.full(n, -1), np.zeros(n)
    for at, (where, contained) in zip(starts, parts, strict=True):
        near[at : at + len(where)], score[at : at + len(where)] = where, contained
    return near, score
