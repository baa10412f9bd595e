"""How many rewritten texts, and how many genuine ones, words match: kind ``texts``.

All providers are honest, and the recommended mechanism resolves its thresholds. Then texts of random units are changed
by each rule of ``text_variants`` and submitted last, beside features drawn at random: nothing but words can match them.
A text joined from two counts as matched with either; any other counts as matched only with its original.

A matched genuine unit is a true duplicate if it shares a run of ``[options] run`` words with its match: a passage that
was published twice.

Last, an attacker submits other texts of the corpus before everybody else, as they are or cut into phrases; measured is
the share of honest texts that they own.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

import numpy as np
from pydantic import Field

from datamarket_gym.data.content_keys import keyed_generator
from datamarket_gym.data.submission import Submission
from datamarket_gym.evidence.text_containment import WordPairs, match_earlier_texts, split_words
from datamarket_gym.evidence.threshold import operator_common_pairs
from datamarket_gym.execution.arrays import Codes
from datamarket_gym.experiments.cells import Cell, Row, kind
from datamarket_gym.market.attacks.content import TEXT_RULES
from datamarket_gym.market.datasets import load_corpus
from datamarket_gym.mechanism.pipeline import Pipeline, match_units
from datamarket_gym.registry import Document


class TextOptions(Document):
    """Options of experiments on texts."""

    rewritten: int = Field(default=400, ge=1)
    strengths: tuple[int, ...] = (3,)
    run: int = Field(default=10, ge=1)


@kind("texts", TextOptions)
def texts_cell(cell: Cell) -> Iterator[Row]:
    """Yield the shares of genuine, rewritten and honest texts that are matched."""
    options, market = TextOptions(**cell.spec.options), cell.market
    honest = market.honest.submission
    oracle = cell.oracle(cell.spec.utilities[0])
    labels: Row = {"task": cell.task.label, "granularity": "unit", "representative": "capped"}
    labels |= {"honest_payment": 0.0, "attacked_payment": 0.0}
    for m, _ in cell.pipelines():
        matching = Pipeline(m, oracle).match(honest)
        resolved, threshold = matching.mechanism, matching.threshold
        assert threshold is not None
        at: Row = {**labels, "mechanism": m.name, "attack": "honest"}
        n, playing = len(matching.rows), matching.clusters.units
        edges, text = matching.clusters.edges, playing.metadata["text"]
        runs = [longest_run(text[a], text[b]) for a, b in zip(edges.left, edges.right, strict=True)]
        beyond = float((np.array(runs) < options.run).sum() / n) if runs else 0.0
        cost = threshold.words_cost
        shares = {
            "threshold of words": threshold.words or 0.0,
            "false-match cost": 0.0 if cost is None or cost.theta is None else cost.at(cost.theta),
            "genuine matched": len(edges) / n,
            "genuine matched beyond true duplicates": beyond,
        }
        for name, share in shares.items():
            yield {**at, "quantity": name, "measured": share}
        for strength in options.strengths:
            for rule in TEXT_RULES:
                rng = keyed_generator(cell.seed, rule, str(strength))
                copies, origins = rewrite_texts(playing, rule, strength, options.rewritten, rng)
                everyone = Submission.concat([playing, copies])
                edges = match_units(resolved, everyone, utility=oracle).edges
                parent = np.full(len(everyone), -1)
                parent[edges.right] = edges.left
                matched = (parent[n:, None] == origins).any(axis=1).mean()
                name = f"{rule}, strength {strength}"
                yield {**at, "quantity": name, "measured": float(matched)}
        corpus = set(load_corpus(market.dataset.name).content.tolist())
        others = sorted(corpus - set(text) - set(oracle.text or ()))
        rng = keyed_generator(cell.seed, "public texts")
        public = [others[i] for i in rng.permutation(len(others))[:n]]
        for name, early in early_texts(public):
            pairs = WordPairs.of([*early, *text.tolist()])
            near = match_earlier_texts(pairs, operator_common_pairs(oracle), threshold.words or 1.0)[0][
                len(early) :
            ]
            owned = ((near >= 0) & (near < len(early))).mean()
            yield {**at, "quantity": f"owned by {name} submitted first", "measured": float(owned)}


def early_texts(public: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield lists of early texts that an attacker makes from public ones: whole texts, and phrases."""
    yield "public texts", public
    for length in (6, 10):
        phrases: list[str] = []
        for text in public:
            words = text.split()
            starts = range(0, max(1, len(words) - length), 2 * length)
            phrases += [" ".join(words[at : at + length]) for at in starts]
        yield f"phrases of {length} words", phrases[: 3 * len(public)]


def rewrite_texts(
    units: Submission, rule: str, strength: int, count: int, rng: np.random.Generator
) -> tuple[Submission, Codes]:
    """Change texts of random units by a rule, with random features; return them and the rows of their originals."""
    text, label = units.metadata["text"], units.label
    filled = np.flatnonzero([len(split_words(each)) > 0 for each in text])
    rows = rng.permutation(filled)[:count]
    origins = np.stack([rows, rows], axis=1)
    changed: list[Any] = []
    for i, row in enumerate(rows):
        other = rng.choice(np.flatnonzero((label == label[row]) & (np.arange(len(text)) != row)))
        changed.append(TEXT_RULES[rule](text[row], [text[other]], strength, rng))
        if rule == "concat":
            origins[i, 1] = other
    n = len(rows)
    features = rng.normal(size=(n, units.features.shape[1]))
    metadata = {name: column[rows] for name, column in units.metadata.items()}
    copies = Submission(
        id=np.array([f"rewritten_{i}" for i in range(n)]),
        identity=np.full(n, "attacker"),
        features=features / np.linalg.norm(features, axis=1, keepdims=True),
        label=label[rows],
        time=units.times.max() + 1.0 + np.arange(n),
        metadata=metadata | {"text": np.array(changed, dtype=object)},
    )
    return copies, origins


def longest_run(one: str, other: str) -> int:
    """Return the length, in words, of the longest run that two texts share."""
    first, second = split_words(one), split_words(other)
    return SequenceMatcher(None, first, second, autojunk=False).find_longest_match().size
