"""The terms that a page of the report uses: each is linked to its explanation, which the page lists at its end.

A link works by keyboard and by touch, without any script and on paper (as an entry of the list); a script shows the
text beside the word. Components explain themselves (`core.registry.describe`); all other terms are explained here.

The payout report: one HTML file with everything in it, and a policy that lets nothing else run.

The page carries plotly's own script and one of ours. The content security policy names both by their
hashes and allows no other script and no request: a name that looks like markup stays a name, twice over
(escaped, and not allowed to run).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from datamarket_gym.analysis.redteam.attack_grid import family
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.report.status import section
from datamarket_gym.payout.warnings import UnresolvedWarning
from datamarket_gym.registry import components, describe, parameters_of

if TYPE_CHECKING:
    from jinja2 import Template


REASONS = {
    "trusted source": (
        "named source",
        "The unit itself names the unit that it was made from, in a column that the operator trusts.",
    ),
    "same metadata": (
        "same metadata",
        "The two units agree in a column that the operator fills in, such as a watermark id.",
    ),
    "both confirm": (
        "both confirm",
        "Each of the two identities names the other as the same payee.",
    ),
    "override": (
        "override",
        "A person decided it, with a reason and a signature; see the table of overrides.",
    ),
    "supplied": ("supplied", "The match stands in a table of pairs that the operator gave."),
}
"""Why two units, or two identities, are matched, where it is no evidence layer."""

LEAKS = {
    "identical": "Unit and validation row hold the same numbers.",
    "features": "Unit and validation row are nearly the same by their features.",
    "embedding": "Unit and validation row are nearly the same by their embeddings.",
    "text": "Unit and validation row share half of their word pairs or more.",
}
"""What a unit shares with a validation row."""

CLAIMS = {
    "exact": (
        "proven: no gain",
        "It is proven that this very manipulation gained nothing (Theorem 2).",
    ),
    "certain": (
        "proven limit",
        "It is proven that this very manipulation gained at most the limit named (Theorem 3).",
    ),
    "probable": (
        "limit, very probably",
        "The limit holds with the probability named, because scores were sampled (Theorem 3).",
    ),
    "expected": (
        "limit on average",
        "The limit holds for the average over the sampling of scores (Theorem 3).",
    ),
    "none": (
        "nothing proven",
        "The theorems do not apply to this manipulation, so they say nothing about it.",
    ),
}
"""What a certificate claims."""

CONDITIONS = {
    "quotient_stable": (
        "same groups",
        "The manipulation changed neither which units are merged nor which unit stands for each group.",
    ),
    "neutral": (
        "same shares",
        "Of each group the cheat owned the same share with and without the manipulation.",
    ),
    "exact_scores": ("exact scores", "Scores were computed by a formula, not by sampling."),
    "matching": (
        "groups can be paired",
        "The groups with and without the manipulation can be paired one to one; what is left over escaped.",
    ),
    "bounded_marginals": ("limited effects", "What a single unit can add or take away is limited."),
    "bounded_errors": ("limited errors", "How far a score can be off through sampling is limited."),
}
"""The conditions of the theorems."""

GENERAL = {
    "unit": ("unit", "", "One thing that was handed in: a text, an image, a row of a table."),
    "identity": ("identity", "", "The name under which units were handed in."),
    "payee": ("payee", "", "Who is paid: one identity, or several that are known to be one."),
    "validation": (
        "validation rows",
        "validation rows?",
        "Rows of the operator's own, kept secret, by which what was handed in is valued.",
    ),
    "interval": (
        "interval",
        "",
        "The range in which a payment would lie 95 times in 100 had other validation rows of the same kind been used.",
    ),
    "without": (
        "without evidence",
        "",
        "What the same run would pay had it tied no units together.",
    ),
    "carried": (
        "carried",
        "balances?",
        "What somebody is owed, or owes if below zero, beyond this payment. It goes to the next run.",
    ),
    "score": (
        "score",
        "",
        "What the units of an identity add to what all units together are worth; pay follows it.",
    ),
    "evidence": (
        "evidence",
        "evidence",
        "What says that two units are the same, or that one was made from the other.",
    ),
    "cluster": (
        "group (cluster)",
        "clusters?|trees? of tied units|tree",
        "Units that evidence ties together. They count once; the earliest stands for them and is paid.",
    ),
    "representative": (
        "representative",
        "representatives?",
        "The unit that stands for a group: its earliest.",
    ),
    "override": (
        "override",
        "overrides?",
        "A decision by a person that ties or unties, with a reason and a signature.",
    ),
    "theta": (
        "theta",
        "theta|thresholds?",
        "How alike two units must be to be taken for copies, from 0 to 1.",
    ),
    "jackknife": (
        "jackknife",
        "jackknife",
        "A usual way to tell how much a result depends on chance: leave out one part of the validation rows after "
        "the other, and see how far the result moves.",
    ),
    "closed": (
        "closed form",
        "closed form",
        "Computed by a formula, not by sampling: no error by chance.",
    ),
    "coalition": (
        "coalition",
        "coalitions?",
        "A set of units that is tried together. Where there are too many sets, some are sampled.",
    ),
    "honest": (
        "honest price",
        "honest price",
        "The share of pay that a threshold would move between honest people who happen to hand in similar units. At "
        "most one part in a hundred is allowed.",
    ),
    "crowding": (
        "crowding floor",
        "crowding floor",
        "The more units there are, the more alike the nearest strangers. Below this threshold too many would be taken "
        "for copies.",
    ),
    "needs": (
        "needs of the buyer",
        "buyer's needs",
        "What the buyer holds up as wanted: the validation rows, which are kept secret.",
    ),
    "well": (
        "covered well",
        "covered well",
        "Some unit comes at least half-way from as alike as strangers are to the same.",
    ),
    "strangers": (
        "strangers",
        "strangers",
        "Pairs of validation rows: how alike things are that have nothing to do with one another.",
    ),
    "embedding": (
        "embedding",
        "embeddings?|encoders?",
        "The list of numbers that a program (an encoder) makes of a text or an image.",
    ),
    "kappa": (
        "kappa",
        "kappa",
        "What a payee's units above zero earn, over what all of its units earn. At 1 nothing is below zero; the larger "
        "it is, the less checks deter.",
    ),
    "power": (
        "power of a check",
        "",
        "How often a check finds a unit that is not genuine: 80% means eight of ten.",
    ),
    "remainder": (
        "largest remainder",
        "largest remainder",
        "Cents that are left after rounding down go to those who lost most by it, so that the sum is exact.",
    ),
    "minor": ("minor units", "minor units", "The smallest coins of a currency, such as cents."),
    "digest": (
        "digest",
        "digest|sha256",
        "A long number made from a file: if a single character changes, so does it.",
    ),
    "seed": (
        "seed",
        "seed",
        "The number that fixes every chance draw of the run, so that it can be repeated.",
    ),
    "beacon": (
        "beacon",
        "beacon",
        "A value announced beforehand that nobody could know, such as a public random number.",
    ),
    "linkage": (
        "linkage value",
        "linkage values?",
        "A cell that several identities share, such as a bank account.",
    ),
    "splink": (
        "splink",
        "splink",
        "A program that finds records of one person that are written differently.",
    ),
    "theorem2": (
        "Theorem 2",
        "Theorem 2",
        "If a manipulation leaves groups, representatives and shares as they are, it gains nothing.",
    ),
    "theorem3": (
        "Theorem 3",
        "Theorem 3(?: and the lemma on normalised pay)?",
        "A manipulation gains at most what it gets by larger shares inside groups, by units that escape the evidence, "
        "and by changed scores.",
    ),
    "sources": (
        "trusted sources",
        "trusted sources?",
        "A record of which unit was made from which, that nobody can forge.",
    ),
    "linked": ("linked accounts", "linked accounts", "Knowing which names are one person."),
    "copies": ("exact copies", "exact copies", "Tying identical units alone."),
    "similarity": ("similarity", r"similarity 0\.\d+", "Tying units that are at least so alike."),
    "accuracy": (
        "accuracy over chance",
        "accuracy over chance",
        "How often a model answers right, less what guessing would.",
    ),
    "variance": (
        "variance explained",
        "variance explained",
        "How much nearer predictions come to the numbers of the validation rows than their mean does: at 100% they are "
        "right, at 0% no better than the mean.",
    ),
    "manifest": (
        "manifest",
        "manifest",
        "The file that holds the digests of all inputs and outputs of the run.",
    ),
    "gain": (
        "gain",
        "",
        "Pay when cheating, divided by pay when honest: 1 means that cheating changes nothing.",
    ),
    "moves": (
        "moves honest pay",
        "moves \\d+% of honest pay",
        "What the remedy itself would change for people who do not cheat.",
    ),
    "median": (
        "median vector",
        "median vector",
        "The length of a typical unit, as a list of numbers.",
    ),
    "unchecked": (
        "deterred by checks",
        "deterred by checks",
        "It would gain if nothing were checked, and is expected not to, given the checks.",
    ),
}
"""key: what it is called, how it is spelled in sentences (a pattern; none: it is linked where asked), what it means."""

_KINDS = ("semivalue", "learner", "similarity", "mechanism", "evidence")
_SPELLED = {
    "shapley": "shapley values?", "knn": r"k-NN|5-NN|knn(?:@\d+)?", "cosine": "cosine(?: similarity)?",
    "recommended": r"recommended(?:/v\d+)?", "scores": "scores(?=: scores, summed)",
    **{name: name for name in ("banzhaf", "beta", "loo", "coverage", "logistic", "ridge", "standardised")},
}  # fmt: skip
"""How sentences spell components whose names are plain words."""
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
    """Every term that a page can use, by key."""
    found: dict[str, GlossaryTerm] = {}

    def add(key: str, title: str, gloss: str, spelled: str = "", code: str = "") -> None:
        found.setdefault(key, GlossaryTerm(key, title, gloss, spelled, code if code != title else ""))

    for key, (title, spelled, gloss) in GENERAL.items():
        add(key, title, gloss, spelled)
    for name, (title, gloss) in REASONS.items():
        add(f"reason-{name}", title, gloss, code=name)
    for name, gloss in LEAKS.items():
        add(f"leak-{name}", name, gloss)
    for name, (title, gloss) in CLAIMS.items():
        add(f"claim-{name}", title, gloss, code=name)
    for name, (title, gloss) in CONDITIONS.items():
        add(f"condition-{name}", title, gloss, name if "_" in name else "", name)
    for prefix, kinds in {"attack": ("attack",), "component": _KINDS}.items():
        for kind in kinds:
            for name in components(kind):
                it = describe(kind, name)
                summary = it.summary or "Registered by the operator."
                add(f"{prefix}-{name}", it.title, summary, _SPELLED.get(name, _written(name)), name)
    return found


def attack_title(written: str) -> str:
    """What tables and pictures call an attack."""
    name = family(written)
    return describe("attack", name).title if name in components("attack") else name


def attack_parameters(written: str) -> list[tuple[str, str]]:
    """The parameters that a written attack sets, each with what it means."""
    name = family(written)
    known = parameters_of(components("attack")[name]) if name in components("attack") else ()
    names = _CODE.findall(written.partition("(")[2])
    if "@" in written.partition("(")[0] and known:
        names.append(known[0].name)
    return [(p.name, "; ".join(filter(None, [p.title, p.help]))) for p in known if p.name in names]


def explain_reason(code: str) -> tuple[str, str]:
    """The title of what matches two units, and what it means; a reason in the operator's own words as it is."""
    name = code.partition("@")[0]
    if name in components("evidence"):
        it = describe("evidence", name)
        return it.title, it.summary
    return REASONS.get(code, (code, ""))


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
        """Why two are matched; a reason that the operator's own words give stands as it is."""
        for key in (f"reason-{text}", f"component-{text}"):
            if key in self._known:
                return self.term(key)
        if text.startswith("supplied by "):
            return self.term("reason-supplied", visible(text))
        return Markup(escape(visible(text)))

    def reasons(self, text: str) -> Markup:
        """Several reasons, separated by commas."""
        return Markup(", ").join(self.reason(each) for each in text.split(", "))

    @property
    def entries(self) -> list[tuple[str, GlossaryTerm]]:
        """The checkpoint and the explanation of each term that was used, by title."""
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


Row = dict[str, Any]
_FOOT = '@page {{ @bottom-left {{ content: "Payout run {run}"; }} }}\n'
"""On paper the run stands at the foot of each page; its id is hexadecimal, so nothing has to be escaped."""


@dataclass(frozen=True)
class PayoutPage:
    """All that the report shows, as plain values; texts are escaped by the template."""

    title: str
    run: str
    amount: str
    period: str
    currency: str
    warnings: list[UnresolvedWarning]
    facts: list[tuple[str, str]]
    clock: str  # where times are from
    logged: bool  # they are from the operator's log
    notes: list[str]
    policy: str
    checks: str
    interval: str
    payments: list[Row]
    shown: str
    needs: Row | None
    clusters: list[Row]
    clusters_left_out: int
    chains: list[Row]
    leaks: list[Row]
    leaks_left_out: int
    bought: Row | None
    links: list[Row]
    links_left_out: int
    overrides: list[Row]
    evidence_why: str
    check: Row | None
    red_team: Row | None
    red_team_why: str
    inputs: list[Row]
    mechanism: list[tuple[str, str]]
    charts: dict[str, Any] = field(default_factory=dict)


def render(page: PayoutPage) -> str:
    """The page as HTML."""
    from plotly.offline import get_plotlyjs

    scripts = [get_plotlyjs() if page.charts else "", template_text("payout.js")]
    style = style_sheet("payout.css") + _FOOT.format(run=page.run[:16])
    return filled("payout.html.j2", page, style, scripts, embedded(page.charts), PageGlossary())


def filled(
    template: str,
    page: Any,
    style: str,
    scripts: list[str],
    charts: str = "",
    terms: PageGlossary | None = None,
) -> str:
    """A page by a template that escapes what is put in; only the given scripts can run in it, by their hashes."""
    return _template(template).render(
        page=page,
        style=style,
        scripts=scripts,
        hashes=" ".join(f"'sha256-{_digest(script)}'" for script in scripts),
        charts=charts,
        terms=terms,
        state=section(None),
    )


@lru_cache
def _template(name: str) -> Template:
    """A template, compiled once."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("datamarket_gym.payout.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


@lru_cache
def template_text(name: str) -> str:
    """A style sheet or script that pages carry."""
    return (files("datamarket_gym.payout.report") / "templates" / name).read_text(encoding="utf-8")


@lru_cache
def style_sheet(name: str) -> str:
    """The style of a page: what all pages share, then its own sheet."""
    return template_text("base.css") + template_text(name)


def embedded(data: Any) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
