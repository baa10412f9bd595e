"""Paraphrases by rule, at three strengths; deterministic given the generator.

No language model: what anybody can do with a list of words. Every rule gives a text that is not empty.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

_PAIRS = """
said stated, says states, big large, small little, good fine, great excellent, bad poor,
terrible awful, movie film, movies films, actor performer, actors performers, story tale,
plot storyline, scene sequence, scenes sequences, character figure, characters figures,
director filmmaker, funny amusing, boring dull, interesting engaging, beautiful lovely,
ugly hideous, scary frightening, sad gloomy, happy glad, show program, shows programs,
watch view, watched viewed, watching viewing, see observe, seen observed, think believe,
thought believed, know understand, make create, made created, making creating, get obtain,
got obtained, give offer, gave offered, take grab, took grabbed, start begin, started began,
end finish, ended finished, help assist, helped assisted, use employ, used employed,
using employing, want desire, wanted desired, need require, needed required, buy purchase,
bought purchased, sell vend, company firm, companies firms, profit gain, profits gains,
sales revenues, shares stocks, price cost, prices costs, rise increase, rose increased,
rising increasing, fall drop, fell dropped, falling dropping, report account, reported announced,
announce declare, announced declared, plan scheme, plans schemes, deal agreement,
deals agreements, talks negotiations, government administration, president leader,
minister secretary, official authority, officials authorities, police officers, killed slain,
attack assault, attacks assaults, war conflict, soldiers troops, troops soldiers, country nation,
countries nations, city town, world globe, people persons, man guy, woman lady, child kid,
children kids, game match, games matches, win victory, won triumphed, beat defeated,
lost dropped, team squad, teams squads, player athlete, players athletes, season campaign,
coach trainer, league division, goal target, computer machine, computers machines,
software program, internet web, online web, users customers, user customer, security safety,
search hunt, phone handset, phones handsets, research study, scientists researchers,
space cosmos, new fresh, old aged, first initial, last final, early initial, late tardy,
next following, many numerous, several various, few scant, more additional, most nearly,
very quite, really truly, also too, however though, because since, almost nearly, about around,
after following, before prior, between among, during throughout, against versus, may might,
could might, should must, quickly rapidly, slowly gradually, major significant, top leading,
strong sturdy, weak feeble, high elevated, low reduced, fast quick, hard tough, easy simple,
whole entire, part portion, kind sort, way manner, thing item, things items, place spot,
home house, job work, money cash, problem issue, problems issues, chance opportunity,
idea notion, reason cause, result outcome, results outcomes, number figure, group bunch,
member participant, members participants, friend pal, friends pals, wife spouse, husband spouse,
father dad, mother mom, boy lad, girl lass, life existence, death demise, love adore,
loved adored, hate despise, hated despised, enjoy like, enjoyed liked
"""

SYNONYMS: dict[str, str] = {
    pair.split()[0]: pair.split()[1] for pair in " ".join(_PAIRS.split()).split(",")
}
"""A word in lower case and what it is swapped for."""


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
