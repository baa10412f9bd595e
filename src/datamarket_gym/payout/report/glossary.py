"""The words that a report uses: each is linked to its explanation, and the page lists those that it used at its end.

A link works by keyboard, by touch and on paper (as an entry of the list); a script shows the text beside the word.
Components explain themselves (`registry.describe`); all other words are in ``templates/glossary.toml``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from markupsafe import Markup, escape

from datamarket_gym.analysis.redteam.attack_grid import family
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.report.html import read_template
from datamarket_gym.registry import components, describe, parameters_of

_KINDS = ("semivalue", "learner", "similarity", "mechanism", "evidence")
_PATTERNS = {
    "shapley": "shapley values?", "knn": r"k-NN|5-NN|knn(?:@\d+)?", "cosine": "cosine(?: similarity)?",
    "recommended": r"recommended(?:/v\d+)?", "scores": "scores(?=: scores, summed)",
    **{name: name for name in ("banzhaf", "beta", "loo", "coverage", "logistic", "ridge", "standardised")},
}  # fmt: skip
"""How sentences spell components whose names are plain words."""
_PARAMETER = re.compile(r"(\w+)=")


@dataclass(frozen=True)
class GlossaryTerm:
    """A word and what it means.

    ``pattern`` is how sentences spell it (empty: only the template links it), ``code`` what files and commands call it.
    """

    key: str
    title: str
    text: str
    pattern: str = ""
    code: str = ""

    @property
    def anchor(self) -> str:
        """The place of the explanation on the page."""
        return "g-" + re.sub(r"[^a-z0-9]+", "-", self.key.lower())


def all_terms() -> dict[str, GlossaryTerm]:
    """List every term that a page can use, by key."""
    terms: dict[str, GlossaryTerm] = {}
    for group, words in tomllib.loads(read_template("glossary.toml")).items():
        for name, word in words.items():
            key = name if group == "word" else f"{group}-{name}"
            code = name if group in ("reason", "claim", "condition") and name != word["title"] else ""
            pattern = name if group == "condition" and "_" in name else word.get("pattern", "")
            terms[key] = GlossaryTerm(key, word["title"], word["text"], pattern, code)
    for kind in ("attack", *_KINDS):
        prefix = "attack" if kind == "attack" else "component"
        for name in components(kind):
            it, key = describe(kind, name), f"{prefix}-{name}"
            text = it.summary or "Registered by the operator."
            code = "" if name == it.title else name
            terms.setdefault(key, GlossaryTerm(key, it.title, text, _pattern(name), code))
    return terms


def _pattern(name: str) -> str:
    """Return how sentences spell a component; one plain word is taken for its name only with a parameter."""
    if name in _PATTERNS:
        return _PATTERNS[name]
    parameter = r"(?:@[\w.]+)?" if "_" in name or name == "lineage" else r"@[\w.]+"
    return re.escape(name) + parameter


def attack_title(written: str) -> str:
    """Return what tables and charts call an attack."""
    name = family(written)
    return describe("attack", name).title if name in components("attack") else name


def attack_parameters(written: str) -> list[tuple[str, str]]:
    """Return the parameters that a written attack sets, each with what it means."""
    name = family(written)
    known = parameters_of(components("attack")[name]) if name in components("attack") else ()
    names = _PARAMETER.findall(written.partition("(")[2])
    if "@" in written.partition("(")[0] and known:
        names.append(known[0].name)
    return [(p.name, "; ".join(filter(None, [p.title, p.help]))) for p in known if p.name in names]


def explain_reason(code: str) -> tuple[str, str]:
    """Return the title of a reason why two are matched, and what it means; an operator's own words as they are."""
    terms, name = _cached_terms(), code.partition("@")[0]
    for key in (f"reason-{code}", f"component-{name}"):
        if key in terms:
            return terms[key].title, terms[key].text
    return code, ""


@lru_cache
def _cached_terms() -> dict[str, GlossaryTerm]:
    return all_terms()


class PageGlossary:
    """The terms that one page uses, noted while its template is filled."""

    def __init__(self) -> None:
        self._terms, self._used = all_terms(), dict[str, GlossaryTerm]()
        spelled = [term for term in self._terms.values() if term.pattern]
        spelled.sort(key=lambda term: (-len(term.pattern), term.key))
        self._keys = {f"t{i}": term.key for i, term in enumerate(spelled)}
        patterns = "|".join(f"(?P<t{i}>{term.pattern})" for i, term in enumerate(spelled))
        self._pattern = re.compile(rf"(?<![\w-])(?:{patterns})(?![\w-])", re.IGNORECASE)

    def mark(self, text: str) -> Markup:
        """Escape a text and link the first mention of each term in it."""
        out, end, linked = Markup(""), 0, set[str]()
        for match in self._pattern.finditer(text):
            key = self._keys[str(match.lastgroup)]
            if key not in linked:
                linked.add(key)
                out += escape(text[end : match.start()]) + self.term(key, match.group())
                end = match.end()
        return out + escape(text[end:])

    def term(self, key: str, shown: str | None = None) -> Markup:
        """Link a term, under its title or other words."""
        term = self._used[key] = self._terms[key]
        return Markup('<a class="term" href="#{}">{}</a>').format(term.anchor, shown or term.title)

    def attack(self, written: str) -> Markup:
        """Link an attack by its plain name."""
        key = f"attack-{family(written)}"
        return self.term(key) if key in self._terms else escape(attack_title(written))

    def reason(self, text: str) -> Markup:
        """Link why two are matched; a reason in the operator's own words stands as it is."""
        for key in (f"reason-{text}", f"component-{text}"):
            if key in self._terms:
                return self.term(key)
        if text.startswith("supplied by "):
            return self.term("reason-supplied", visible(text))
        return escape(visible(text))

    def reasons(self, text: str) -> Markup:
        """Link several reasons, separated by commas."""
        return Markup(", ").join(self.reason(each) for each in text.split(", "))

    @property
    def entries(self) -> list[GlossaryTerm]:
        """The terms that were used, by title."""
        used: Iterable[GlossaryTerm] = self._used.values()
        return sorted(used, key=lambda term: (term.title.lower(), term.key))
