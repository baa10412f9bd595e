"""Which technical words a page uses: each is linked to its explanation, which the page lists at its end.

A link works by keyboard and by touch, without any script and on paper (as an entry of the list); a script shows the
same text beside the word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass

from markupsafe import Markup, escape

from datamarket_gym.core.registry import components
from datamarket_gym.judge.redteam.grid import family
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.report import words
from datamarket_gym.payout.report.attack_words import ATTACKS, PARAMETERS

_KINDS = ("semivalue", "learner", "similarity", "mechanism", "evidence", "attack")
_CODE = re.compile(r"(\w+)=")


@dataclass(frozen=True)
class GlossaryTerm:
    """A word, what it means, and the pattern of its spellings in sentences (none: it is linked where asked)."""

    key: str
    title: str
    gloss: str
    spelled: str = ""
    code: str = ""  # how files and commands call it, where that is another word


def all_terms() -> dict[str, GlossaryTerm]:
    """Every term that a page can use, by key: the lists of `report.words`, then what is registered besides."""
    found: dict[str, GlossaryTerm] = {}

    def add(key: str, title: str, gloss: str, spelled: str = "", code: str = "") -> None:
        found.setdefault(key, GlossaryTerm(key, title, gloss, spelled, code if code != title else ""))

    for key, (title, spelled, gloss) in words.GENERAL.items():
        add(key, title, gloss, spelled)
    for name, (title, gloss) in ATTACKS.items():
        add(f"attack-{name}", title, gloss, _written(name), name)
    for name, (title, gloss) in words.REASONS.items():
        add(
            f"tie-{name}",
            title,
            gloss,
            _written(name) if name in ("exact_hash", "lineage") else "",
            name,
        )
    for name, gloss in words.LEAKS.items():
        add(f"leak-{name}", name, gloss)
    for name, (title, gloss) in words.CLAIMS.items():
        add(f"claim-{name}", title, gloss, code=name)
    for name, (title, gloss) in words.CONDITIONS.items():
        add(f"condition-{name}", title, gloss, name if "_" in name else "", name)
    spoken = {"shapley": "shapley values?", "knn": r"k-NN|5-NN|knn(?:@\d+)?", "cosine": "cosine(?: similarity)?",
              "recommended": r"recommended(?:/v\d+)?", "scores": "scores(?=: scores, summed)"}  # fmt: skip
    for name, (title, gloss) in words.COMPONENTS.items():
        add(f"component-{name}", title, gloss, spoken.get(name, name if name != "auto" else ""), name)
    for kind in _KINDS:
        for name, component in components(kind).items():
            if kind == "attack":
                add(f"attack-{name}", name, _docstring(component), _written(name))
            elif name not in words.COMPONENTS and name not in words.REASONS and name != "none":
                add(f"{kind}-{name}", name, _docstring(component), _written(name))
    return found


def plain_attack(written: str) -> str:
    """An attack as tables and pictures call it."""
    name = family(written)
    return ATTACKS[name][0] if name in ATTACKS else name


def attack_parameters(written: str) -> list[tuple[str, str]]:
    """The parameters that a written attack sets, each with what it means."""
    names = _CODE.findall(written.partition("(")[2])
    component = components("attack").get(family(written))
    if "@" in written.partition("(")[0] and component is not None and is_dataclass(component):
        names = [fields(component)[0].name, *names]
    return [(name, PARAMETERS[name]) for name in names if name in PARAMETERS]


class PageGlossary:
    """The terms that one page uses, noted as it is filled."""

    def __init__(self) -> None:
        self._known, self._used = all_terms(), dict[str, GlossaryTerm]()
        self._pattern, self._keys = _spellings(self._known.values())

    def mark(self, text: str) -> Markup:
        """A text, escaped, in which the first mention of each term is linked."""
        out, at = Markup(""), 0
        told: set[str] = set()
        for match in self._pattern.finditer(text):
            key = self._keys[str(match.lastgroup)]
            if key in told:
                continue
            told.add(key)
            out += escape(text[at : match.start()]) + self.term(key, match.group())
            at = match.end()
        return out + escape(text[at:])

    def term(self, key: str, shown: str | None = None) -> Markup:
        """A link to a term, under its title or other words."""
        term = self._known[key]
        self._used[key] = term
        return Markup('<a class="term" href="#{}">{}</a>').format(_anchor(key), shown or term.title)

    def named(self, title: str) -> Markup:
        """A heading, linked where it is the title of a term."""
        for key, term in self._known.items():
            if term.title == title:
                return self.term(key)
        return self.mark(title)

    def attack(self, written: str) -> Markup:
        """An attack by its plain name, linked."""
        return self.term(f"attack-{family(written)}")

    def claim(self, name: str) -> Markup:
        """What a certificate claims."""
        return self.term(f"claim-{name}")

    def condition(self, name: str) -> Markup:
        """A condition of a theorem."""
        return self.term(f"condition-{name}")

    def leak(self, by: str) -> Markup:
        """What a unit shares with a validation row."""
        return self.term(f"leak-{by}")

    def reason(self, text: str) -> Markup:
        """Why two are tied; a reason that the operator's own words give stands as it is."""
        for key in (f"tie-{text}", f"evidence-{text}", f"component-{text}"):
            if key in self._known:
                return self.term(key)
        if text.startswith("supplied by "):
            return self.term("tie-supplied", visible(text))
        return Markup(escape(visible(text)))

    def reasons(self, text: str) -> Markup:
        """Several reasons, separated by commas."""
        return Markup(", ").join(self.reason(each) for each in text.split(", "))

    @property
    def entries(self) -> list[tuple[str, GlossaryTerm]]:
        """The anchor and the explanation of each term that was used, by title."""
        used: Iterable[GlossaryTerm] = self._used.values()
        return [(_anchor(t.key), t) for t in sorted(used, key=lambda t: (t.title.lower(), t.key))]


def _spellings(terms: Iterable[GlossaryTerm]) -> tuple[re.Pattern[str], dict[str, str]]:
    spelled = sorted((t for t in terms if t.spelled), key=lambda t: (-len(t.spelled), t.key))
    keys = {f"t{i}": term.key for i, term in enumerate(spelled)}
    parts = "|".join(f"(?P<t{i}>{term.spelled})" for i, term in enumerate(spelled))
    return re.compile(rf"(?<![\w-])(?:{parts})(?![\w-])", re.IGNORECASE), keys


def _written(name: str) -> str:
    """A component's name in sentences, with what follows an @; one plain word is not taken for a name."""
    return (
        rf"{re.escape(name)}(?:@[\w.]+)?"
        if "_" in name or name == "lineage"
        else rf"{re.escape(name)}@[\w.]+"
    )


def _anchor(key: str) -> str:
    return "g-" + re.sub(r"[^a-z0-9]+", "-", key.lower())


def _docstring(component: object) -> str:
    """The first line of what a component says of itself."""
    return (
        (getattr(component, "__doc__", None) or "Registered by the operator.")
        .strip()
        .splitlines()[0]
        .replace("``", "")
    )
