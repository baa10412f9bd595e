"""Writes the generated block of docs/several-cheats.md: what S14 found, from docs/results.

The block stands between two comments, `<!-- s14 -->` and `<!-- /s14 -->`; tests/several/test_several_page.py fails
where it is stale.
"""

from collections.abc import Sequence
from pathlib import Path

from datamarket_gym.core.files import write_text
from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.figures.presets import LEARNERS
from datamarket_gym.lab.names import mechanism_words
from datamarket_gym.lab.promises import counted, kept
from datamarket_gym.lab.results import Compact, read_all
from datamarket_gym.lab.summary import matches

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "several-cheats.md"
START, END = "<!-- s14 -->\n", "<!-- /s14 -->"
APART = {"together": "apart", "order": "round_robin"}
ENDS = {"equilibrium": "in an equilibrium", "cycle": "in a cycle", "unsettled": "unsettled"}
PLAYED = {
    "plays_honest": "honest", "plays_theft": "copies of others' units", "plays_own_again": "own units again",
    "plays_made": "generated units", "plays_left_out": "units left out", "plays_other": "other",
}  # fmt: skip
Kind = tuple[str, int]
"""A mechanism, and how many units of each payee are looked at."""
GAINS = ("gain", "gain_from_cheating")


def block(text: str) -> str:
    """The part of the page between the comments."""
    return text.split(START)[1].split(END)[0]


def made(one: Compact) -> str:
    """The block."""
    rows, most = one.rows, max(row["cheats"] for row in one.rows)
    kinds = list(dict.fromkeys((row["mechanism"], row["checks"]) for row in rows))
    learners = list(dict.fromkeys(row["learner"] for row in rows))
    parts = [
        f"Means over {one.seeds} markets of {most} providers; standard errors of gains up to "
        f"{max(row['se'] or 0.0 for row in rows if row['metric'] in GAINS):.2f}. Under every number of providers who "
        "may cheat stand their **gain against all honest / against being the only honest one / what the honest rest "
        "keeps** of its pay (nobody is left where all may cheat). A dash: undefined. " + _fewer(one),
        "",
    ]
    for learner in learners:
        counts = sorted({row["cheats"] for row in rows})
        head = ["mechanism", *(str(count) for count in counts)]
        body = [
            [_named(kind), *(_three(rows, learner, kind, count) for count in counts)] for kind in kinds
        ]
        parts += [f"**Paid by {LEARNERS.get(learner, learner)}.**", "", *_table(head, body), ""]
    parts += [
        "**Two who share data**: gain against all honest of two providers, and of all in pairs.",
        "",
    ]
    parts += [*_pairs(rows, learners, kinds, most), ""]
    parts += [_cycles(rows), ""]
    parts += [
        f"**How it ends where all {most} may cheat**, each for itself. Still gained, in equal shares of v(all): "
        "by the menu, which epsilon bounds, and by a search what the first cheat gains by attacks on no menu.",
        "",
        *_ends(rows, learners, kinds, most),
        "",
        f"**What they play at the end**, of all {most}, one after another.",
        "",
        *_plays(rows, learners, kinds, most),
        "",
        "**What must hold.**",
        "",
    ]
    for promise in one.spec.promises:
        found = kept(promise, rows)
        word = "Holds" if found.holds else "**Does not hold**"
        parts.append(f"- {word}: {promise.says} {counted(found).rstrip(':')}")
    return "\n".join(parts) + "\n"


def _fewer(one: Compact) -> str:
    """How many seeds gains rest on at least, where honest pay is not clearly above zero in all."""
    least = min(row["seeds"] for row in one.rows if row["metric"] in ("gain", "gain_from_cheating"))
    return f"Some rest on {least} of {one.seeds} seeds, where pay is clearly above zero." * (
        least < one.seeds
    )


def _cycles(rows: Sequence[Row]) -> str:
    """How many of all kinds of paths end otherwise than in an equilibrium, in any seed."""
    found = {metric: [row for row in rows if row["metric"] == metric] for metric in ENDS}
    otherwise = {
        metric: sum(row["value"] > 0 for row in found[metric]) for metric in ("cycle", "unsettled")
    }
    return (
        f"Of {len(found['equilibrium'])} kinds of paths (mechanism, checks, utility, who may cheat, order) "
        f"{otherwise['cycle']} end in a cycle in some market, and {otherwise['unsettled']} unsettled; all others in an "
        "equilibrium of the menu."
    )


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return lines + ["| " + " | ".join(line) + " |" for line in body]


def _named(kind: Kind) -> str:
    return mechanism_words(kind[0]) + (f", {kind[1]} checks" if kind[1] else "")


def _value(rows: Sequence[Row], metric: str, **where: object) -> float | None:
    found = [row for row in rows if row["metric"] == metric and matches(row, where)]  # type: ignore[arg-type]
    if len(found) > 1:
        raise ValueError(f"{len(found)} rows of {metric} with {where}")
    return found[0]["value"] if found else None


def _number(value: float | None, form: str = ".2f") -> str:
    return "-" if value is None else f"{value + 0.0:{form}}"


def _three(rows: Sequence[Row], learner: str, kind: Kind, count: int) -> str:
    at = {"learner": learner, "mechanism": kind[0], "checks": kind[1], "cheats": count, **APART}
    gain, over, keeps = (_value(rows, m, **at) for m in ("gain", "gain_from_cheating", "honest_pay"))
    return f"{_number(gain)} / {_number(over)} / {_number(keeps, '.0%')}"


def _pairs(rows: Sequence[Row], learners: Sequence[str], kinds: Sequence[Kind], most: int) -> list[str]:
    body = []
    for learner in learners:
        for kind in kinds:
            at = {"learner": learner, "mechanism": kind[0], "checks": kind[1], "order": "round_robin"}
            cells = [
                _number(_value(rows, "gain", together=together, cheats=count, **at))
                for count in (2, most)
                for together in ("apart", "pairs")
            ]
            body.append([LEARNERS.get(learner, learner), _named(kind), *cells])
    head = [
        "paid by",
        "mechanism",
        "two, apart",
        "a pair",
        f"all {most}, apart",
        f"all {most}, in pairs",
    ]
    return _table(head, body)


def _ends(rows: Sequence[Row], learners: Sequence[str], kinds: Sequence[Kind], most: int) -> list[str]:
    body = []
    for learner in learners:
        for kind in kinds:
            for order, words in (("round_robin", "in turn"), ("simultaneous", "at once")):
                at = {
                    "learner": learner, "mechanism": kind[0], "checks": kind[1], "cheats": most, "together": "apart",
                    "order": order,
                }  # fmt: skip
                how = [
                    f"{part:.0%} {said}" for m, said in ENDS.items() if (part := _value(rows, m, **at))
                ]
                numbers = [_number(_value(rows, m, **at), ".3f") for m in ("regret", "regret_searched")]
                kept_ = [_number(_value(rows, m, **at), ".2f") for m in ("worth_kept", "value_kept")]
                body.append(
                    [
                        LEARNERS.get(learner, learner),
                        _named(kind),
                        words,
                        ", ".join(how),
                        *numbers,
                        *kept_,
                    ]
                )
    head = [
        "paid by", "mechanism", "they move", "markets that end", "still gained by the menu", "by a search",
        "worth of the genuine units", "v(all) as counted",
    ]  # fmt: skip
    return _table(head, body)


def _plays(rows: Sequence[Row], learners: Sequence[str], kinds: Sequence[Kind], most: int) -> list[str]:
    body = []
    for learner in learners:
        for kind in kinds:
            at = {"learner": learner, "mechanism": kind[0], "checks": kind[1], "cheats": most, **APART}
            parts = [_number(_value(rows, metric, **at), ".0%") for metric in PLAYED]
            body.append([LEARNERS.get(learner, learner), _named(kind), *parts])
    return _table(["paid by", "mechanism", *PLAYED.values()], body)


def page(docs: Path = DOCS) -> str:
    """The page with its block written anew."""
    (one,) = [one for one in read_all(docs / "results") if one.spec.name == "s14"]
    text = PAGE.read_text(encoding="utf-8")
    return text.replace(START + block(text) + END, START + made(one) + END)


if __name__ == "__main__":
    write_text(PAGE, page())
    print(PAGE)
