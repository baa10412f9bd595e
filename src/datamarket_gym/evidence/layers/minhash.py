"""MinHash evidence: texts that share most of their word n-grams.

Candidates come from locality-sensitive hashing of MinHash signatures (rensa); each is then decided by
the exact Jaccard similarity of the two sets of n-grams, so a hash collision matches nothing. The hash
functions are drawn from the mechanism's seed: without it a text cannot be steered past them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from datamarket_gym.errors import require_extra
from datamarket_gym.evidence.graph import Edges, EvidenceLayer, View
from datamarket_gym.evidence.layers.content import raw_content
from datamarket_gym.execution.arrays import Codes, Values
from datamarket_gym.registry import Range, register

PERMUTATIONS = 256
MISSED = 1e-4
"""Highest chance that the hashing overlooks a pair right at the threshold."""

_WORD = re.compile(r"\w+")

Jaccard = Annotated[
    float,
    Range(0, 1, open_low=True),
    "shared phrases; the part of the phrases of two texts that is in both",
]
PhraseWords = Annotated[int, Range(1), "words of a phrase"]


@register("evidence", "minhash")
@dataclass(frozen=True)
class MinHash(EvidenceLayer):
    """Match texts that share enough of their phrases: the Jaccard similarity of their sets of word n-grams."""

    title = "shared phrases"

    jaccard: Jaccard = 0.3
    words: PhraseWords = 2
    needs_content: ClassVar[str] = "text"
    by_similarity: ClassVar[bool] = True

    def edges(self, view: View) -> Edges:
        rows, texts = raw_content(view.submission, "text", "minhash")
        sets = [ngrams(text, self.words) for text in texts.tolist()]
        left, right, score = similar_sets(sets, self.jaccard, view.seed)
        return Edges.of(rows[left], rows[right], "minhash", score).apart(view.node)


def ngrams(text: str, words: int) -> frozenset[str]:
    """Return the set of n-grams of lower-case words; a shorter text is a single n-gram."""
    tokens = _WORD.findall(text.lower()) or [text.strip()]
    return frozenset(" ".join(tokens[i : i + words]) for i in range(max(1, len(tokens) - words + 1)))


def similar_sets(
    sets: Sequence[frozenset[str]], jaccard: float, seed: int
) -> tuple[Codes, Codes, Values]:
    """Find all pairs i < j with Jaccard similarity of at least ``jaccard``, and the similarity."""
    verified = []
    for i, j in _candidates(sets, jaccard, seed):
        shared = len(sets[i] & sets[j])
        similarity = shared / (len(sets[i]) + len(sets[j]) - shared)
        if similarity >= jaccard:
            verified.append((i, j, similarity))
    pairs = np.array(sorted(verified), dtype=np.float64).reshape(-1, 3)
    return pairs[:, 0].astype(np.int64), pairs[:, 1].astype(np.int64), pairs[:, 2]


def _candidates(sets: Sequence[frozenset[str]], jaccard: float, seed: int) -> Iterator[tuple[int, int]]:
    require_extra("rensa", "text")
    from rensa import RMinHash, RMinHashLSH

    bands = enough_bands(jaccard)
    index = RMinHashLSH(threshold=jaccard, num_perm=PERMUTATIONS, num_bands=bands)
    signatures = RMinHash.from_token_sets([sorted(s) for s in sets], PERMUTATIONS, seed)
    for row, signature in enumerate(signatures):
        for other in sorted(set(index.query(signature))):
            yield other, row
        index.insert(row, signature)


def enough_bands(jaccard: float) -> int:
    """Return the fewest bands b (of r rows each) with (1 - s^r)^b <= MISSED at similarity s: few candidates."""
    for rows in (32, 16, 8, 4, 2):
        bands = PERMUTATIONS // rows
        if (1 - jaccard**rows) ** bands <= MISSED:
            return bands
    return PERMUTATIONS
