"""Writes the generated block of docs/utilities.md: what S13 found, utility by utility, from docs/results.

The block stands between two comments, `<!-- s13 -->` and `<!-- /s13 -->`; tests/lab/test_utilities_page.py fails where
it is stale.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from datamarket_gym.core.files import write_text
from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.figures.presets import SYNTHETIC, UTILITIES, pairs
from datamarket_gym.lab.names import words
from datamarket_gym.lab.promises import kept
from datamarket_gym.lab.results import Compact, read_all
from datamarket_gym.lab.summary import matches

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "utilities.md"
START, END = "<!-- s13 -->\n", "<!-- /s13 -->"
ATTACKS = {
    "splits, exact copies": ["sybil_split_2", "sybil_split_3", "sybil_split_4", "exact_dup_2x_sybils"],
    "near copies": [
        "near_copies_0.1_spreads", "near_copies_0.6_spreads", "near_copies_1_spread", "near_copies_3_spreads",
    ],
    "junk": ["junk_padding", "junk_padding@3.0"],
    "laundering": [
        "synthetic_laundering", "synthetic_laundering@3.0", "synthetic_laundering(how=mix)",
        "synthetic_laundering(ratio=3.0, how=mix)",
    ],
    "others' units": ["copycat", "copycat_0.1_spreads", "copycat_0.6_spreads", "copycat_1_spread"],
    "best units alone": ["strategic_curation", "strategic_curation@0.75"],
    "wrong labels": ["label_noise", "label_noise@0.1", "label_poisoning"],
}  # fmt: skip
WITHOUT = {
    "coverage(quantile=0, labels=False)": "c = 0",
    "coverage(quantile=0.9, labels=False)": "c at 0.9",
    "coverage(quantile=0.99, labels=False)": "c at 0.99",
}
"""Coverage without labels by what it is counted from."""
ASKED = {
    "remove_best": "the best are removed",
    "keep_best": "the best alone are kept",
    "remove_worst": "the worst are removed",
}
SCORES = {
    "scores": "summed over training, model trained after the quotient",
    "scores_as_reported": "summed over training, model trained on all that was submitted",
    "scores_at_the_end": "at the end of the fit alone, after the quotient",
}


def block(text: str) -> str:
    """The part of the page between the comments."""
    return text.split(START)[1].split(END)[0]


def made(gains: Compact, values: Compact) -> str:
    """The block."""
    rows, valued = _defined(gains.rows), _defined(values.rows)
    parts = ["## Which to use when", "", *_when(rows, valued), ""]
    parts += ["## In one table", "", *_summary(rows, valued), ""]
    parts += ["## Gains", "", _bars(gains)]
    for mechanism, title in (
        ("recommended", "Units play, tied by lineage (`recommended`)"),
        ("shapley", "Names play, as reported (`shapley`)"),
    ):
        parts += [
            f"**{title}.** The largest gain of each kind of attack, real data / the synthetic market.",
            "",
            *_gains(rows, mechanism),
            "",
        ]
    parts += [
        "**What c is for.** Coverage without labels, a fixed threshold of lineage of 0.9: gains on each domain.",
        "",
        *_without(rows),
        "",
        "**Imported scores.** Paid by `recommended`: gains, the largest mean over the domains, and in how many of the "
        "domains honest pay is clearly above zero in at least one market.",
        "",
        *_imported(rows),
        "",
    ]
    parts += [
        "## Agreement",
        "",
        "Spearman's rank correlation of units' values when all are honest, means over the domains:",
        "",
    ]
    parts += [*_pairs(valued), "", *_close(valued), ""]
    parts += ["## What a model misses", ""]
    for how, title in ASKED.items():
        parts += [
            f"**{title.capitalize()}**, 10 to 50 %: lead over a random order, in points of accuracy.",
            "",
        ]
        parts += [*_leads(valued, how), ""]
    parts.append(_seeds(gains, values))
    return "\n".join(parts) + "\n"


def _defined(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.get("value") is not None]


def _pick(rows: Sequence[Row], metric: str, **where: object) -> list[Row]:
    return [row for row in rows if row["metric"] == metric and matches(row, where)]  # type: ignore[arg-type]


def _worst(rows: Sequence[Row]) -> str:
    return f"{max(row['value'] for row in rows):.2f}" if rows else "-"


def _paid_by(learner: str) -> str:
    """The mechanism whose gains count: names play where there is no closed form."""
    return "shapley" if learner in ("ridge", "logistic") else "recommended"


def _of_attacks(rows: Sequence[Row], learner: str, mechanism: str, kinds: list[str]) -> str:
    cells = _pick(rows, "gain", learner=learner, mechanism=mechanism, attack=kinds, attacker="")
    real = [row for row in cells if row["task"] != SYNTHETIC]
    made_up = [row for row in cells if row["task"] == SYNTHETIC]
    return f"{_worst(real)} / {_worst(made_up)}" if cells else "-"


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(heads)} |",
        "|---" * len(heads) + "|",
        *(f"| {' | '.join(line)} |" for line in lines),
    ]


def _summary(rows: Sequence[Row], valued: Sequence[Row]) -> list[str]:
    """A line for each utility: what it needs, what attacks gain, and whether a model misses what it values."""
    others = [
        name for kind, names in ATTACKS.items() if kind != "splits, exact copies" for name in names
    ]
    heads = [
        "utility", "needs labels", "units play exactly", "most that a split or exact copy gains",
        "most that another attack gains (real / synthetic)", "lead, best removed", "lead, best kept alone",
        "agreement with logistic regression",
    ]  # fmt: skip
    lines = []
    for learner, said in UTILITIES.items():
        m = _paid_by(learner)
        lines.append(
            [
                said,
                "no" if "labels=False" in learner else "its model's" if learner == "scores" else "yes",
                "yes" if m == "recommended" else "no: names play",
                _worst(_pick(rows, "gain", learner=learner, mechanism=m, attack=ATTACKS["splits, exact copies"])),
                _of_attacks(rows, learner, m, others),
                *(_points(_mean(_pick(valued, "lead", learner=learner, how=h))) for h in ("remove_best", "keep_best")),
                "1" if learner == "logistic" else f"{_with(valued, learner, 'logistic'):.2f}",
            ]
        )  # fmt: skip
    return _table(heads, lines)


def _when(rows: Sequence[Row], valued: Sequence[Row]) -> list[str]:
    """What we would use, by hand; the numbers are the results'."""

    def worst(learner: str, *kinds: str, real: bool = True) -> str:
        names = [name for kind in kinds for name in ATTACKS[kind]]
        cells = _pick(rows, "gain", learner=learner, mechanism=_paid_by(learner), attack=names)
        return _worst([row for row in cells if (row["task"] != SYNTHETIC) == real])

    def lead(learner: str, how: str) -> str:
        return _points(_mean(_pick(valued, "lead", learner=learner, how=how)))

    bare, far = "coverage(quantile=0.9, labels=False)", "coverage(quantile=0.99, labels=False)"
    junk = _pick(rows, "gain", attack="junk_padding@3.0", learner="coverage(quantile=0, labels=False)")
    without_c = [row["value"] for row in junk if row["task"] != SYNTHETIC]
    return [
        "- **No labels** (texts and images for pretraining or retrieval): `coverage@0.9`. On real data three times as "
        f"much junk gains {worst(bare, 'junk')} at most, generated units {worst(bare, 'laundering')}; where that is "
        f"too much, {worst(far, 'laundering')} under `coverage@0.99`, which values fewer units. Not c = 0: there the "
        f"same junk gains {min(without_c):.2f} to {max(without_c):.2f}. In few dimensions, as in the synthetic market, "
        f"junk looks like data and gains {worst(bare, 'junk', real=False)}: there, have units looked at "
        "([checks](checks.md)), or use labels.",
        "- **Labels, and providers who are strangers**: `coverage@0.9`, for the same reason: junk gains "
        f"{worst('coverage@0.9', 'junk')} and laundering {worst('coverage@0.9', 'laundering')}, where the default "
        f"`coverage` (0.5) leaves {worst('coverage@0.5', 'junk')} and {worst('coverage@0.5', 'laundering')}.",
        "- **A classifier's accuracy is what you sell**: 5-NN over chance punishes wrong labels (gain "
        f"{worst('knn', 'wrong labels')}) and values what a model misses ({lead('knn', 'remove_best')} points), but "
        f"generated units gain {worst('knn', 'laundering')}, which [checks](checks.md) deter, and leaving units out "
        f"{worst('knn', 'best units alone')}, which they do not.",
        "- **A model of your own, and few providers whom you know**: ridge or logistic regression by name, which say "
        f"what that model loses without each ({lead('ridge', 'remove_best')} and {lead('logistic', 'remove_best')} "
        "points where the best units are removed). Not for strangers: names play, and splits and exact copies gain "
        f"{worst('ridge', 'splits, exact copies')} and {worst('logistic', 'splits, exact copies')}.",
        "- **Choosing what to train on**: with `coverage` (0.5) the best units alone train a better model than random "
        f"ones do ({lead('coverage@0.5', 'keep_best')} points; {lead('coverage@0.9', 'keep_best')} with 0.9). No other "
        f"utility does here on average: ridge {lead('ridge', 'keep_best')}, logistic {lead('logistic', 'keep_best')}, "
        f"5-NN {lead('knn', 'keep_best')}; without labels {lead(bare, 'keep_best')}. What a model misses most and what "
        "suffices to train one are two questions.",
        f"- **Scores from elsewhere**: to find what a model leans on ({lead('scores', 'remove_best')} points where the "
        f"best are removed), not what to keep ({lead('scores', 'keep_best')} where the best alone are). Compute them "
        "after the quotient and over training, not at its end; splits and exact copies then gain nothing, generated "
        f"units {worst('scores', 'laundering')}, noisy copies {worst('scores', 'near copies')}: with "
        "[checks](checks.md).",
    ]


def _mean(rows: Sequence[Row]) -> float:
    return float(np.mean([row["value"] for row in rows]))


def _points(number: float) -> str:
    return f"{round(100 * number, 1) + 0.0:+.1f}"


def _with(valued: Sequence[Row], one: str, other: str) -> float:
    return float(pairs(_pick(valued, "unit_agreement"), [one, other])[0, 1])


def _gains(rows: Sequence[Row], mechanism: str) -> list[str]:
    lines = [
        [said, *(_of_attacks(rows, learner, mechanism, names) for names in ATTACKS.values())]
        for learner, said in UTILITIES.items()
        if _pick(rows, "gain", learner=learner, mechanism=mechanism)
    ]
    return _table(["utility", *ATTACKS], lines)


def _without(rows: Sequence[Row]) -> list[str]:
    """Junk and laundering by what coverage is counted from."""
    found = _pick(rows, "gain", mechanism="lineage@0.9")
    domains = list(dict.fromkeys(row["task"] for row in found))
    asked = (
        ("junk_padding@3.0", "", "junk, 3 times as many units"),
        ("synthetic_laundering@3.0", "", "Gaussian laundering, 3 times as many"),
        (
            "synthetic_laundering@3.0",
            "sees_classes",
            "the same, class by class, by an owner who knows them",
        ),
    )
    lines = []
    for attack, sees, called in asked:
        for learner, said in WITHOUT.items():
            cells = _pick(found, "gain", attack=attack, attacker=sees, learner=learner)
            if cells:
                by = {row["task"]: row for row in cells}
                shown = [f"{by[d]['value']:.2f}" if d in by else "-" for d in domains]
                lines.append([called, said, *shown])
    return _table(["attack", "counted from", *(words("task", d) for d in domains)], lines)


def _imported(rows: Sequence[Row]) -> list[str]:
    columns = ("near copies", "junk", "laundering", "best units alone")
    lines = []
    for learner, said in SCORES.items():
        cells = _pick(rows, "gain", learner=learner, mechanism="recommended", attack="honest")
        copies = _pick(
            rows, "gain", learner=learner, mechanism="recommended", attack="exact_dup_2x_sybils"
        )
        values = [row["value"] for row in copies]
        each = [_of_attacks(rows, learner, "recommended", ATTACKS[name]) for name in columns]
        span = f"{min(values):.2f} to {max(values):.2f}" if values else "-"
        lines.append([said, str(len({row["task"] for row in cells})), span, *each])
    return _table(["scores", "domains", "exact copies, least to most", *columns], lines)


def _pairs(valued: Sequence[Row]) -> list[str]:
    table = pairs(_pick(valued, "unit_agreement"), list(UTILITIES))
    names = list(UTILITIES.values())
    lines = [
        [
            name,
            *(
                "" if across >= down else f"{table[down, across]:.2f}"
                for across in range(len(names) - 1)
            ),
        ]
        for down, name in enumerate(names)
        if down
    ]
    return _table(["", *names[:-1]], lines)


def _close(valued: Sequence[Row]) -> list[str]:
    """Shares: which pairs of utilities are nearest and furthest, and how sure the sampled values are."""
    found = _pick(valued, "share_l1", mechanism="shapley")
    table = pairs(found, list(UTILITIES))
    names = list(UTILITIES.values())
    at = sorted((table[i, j], names[i], names[j]) for i in range(len(names)) for j in range(i))
    said = [f"{one} and {other} ({value:.2f})" for value, one, other in (at[0], at[-1])]
    sure = {
        UTILITIES[name]: _pick(valued, "reliability", learner=name) for name in ("ridge", "logistic")
    }
    told = "; ".join(
        f"{name} {min(r['value'] for r in rows):.2f} to {max(r['value'] for r in rows):.2f}"
        for name, rows in sure.items()
    )
    return [
        f"L1 distance of providers' shares where names play (0 to 2): the nearest are {said[0]}, the furthest "
        f"{said[1]}. Reliability of the sampled values of units (the part of their variance that is no sampling "
        f"error), by domain: {told}."
    ]


def _leads(valued: Sequence[Row], how: str) -> list[str]:
    found = _pick(valued, "lead", how=how)
    domains = list(dict.fromkeys(row["task"] for row in found))

    def cell(learner: str) -> Callable[[str], str]:
        def shown(domain: str) -> str:
            (row,) = _pick(found, "lead", learner=learner, task=domain)
            return f"{_points(row['value'])} ± {100 * (row['se'] or 0.0):.1f}"

        return shown

    lines = [
        [said, *map(cell(learner), domains), _points(_mean(_pick(found, "lead", learner=learner)))]
        for learner, said in UTILITIES.items()
    ]
    return _table(["utility", *(words("task", d) for d in domains), "mean"], lines)


def _bars(one: Compact) -> str:
    """Which of the promises hold, and where they do not."""
    lines = []
    for promise in one.spec.promises:
        found = kept(promise, one.rows)
        undefined = sum(row["value"] is None for _, row in found.numbers)
        above = [row for n, row in found.broken if row["value"] is not None]
        where = sorted({f"{row['learner']} on {words('task', row['task'])}" for row in above})
        verdict = f"**does not hold** of {', '.join(where)}" if above else "holds"
        known = [n for n, row in found.numbers if row["value"] is not None]
        more = (
            f"; in {undefined} of {len(found.numbers)} cells honest pay is nowhere clearly above zero"
            if undefined
            else ""
        )
        lines.append(
            f"- {promise.says} It {verdict}; the largest of {len(known)} is {max(known):.3f}{more}."
        )
    return "\n".join(lines) + "\n"


def _seeds(gains: Compact, values: Compact) -> str:
    shown = [r for r in _defined(gains.rows) if r["metric"] == "gain" and r["learner"] in UTILITIES]
    errors = {
        m: max(r["se"] or 0.0 for r in shown if r["mechanism"] == m) for m in ("recommended", "shapley")
    }
    fewest = min(shown, key=lambda row: row["seeds"])
    return (
        f"Means over {gains.seeds} markets on each domain (gains) and {values.seeds} (agreement and the test). "
        f"Standard errors of gains: up to {errors['recommended']:.2f} where units play and {errors['shapley']:.2f} "
        "where names do. Gains are of the markets in which the provider's honest pay is clearly above zero, "
        f"at least {fewest['seeds']} ({UTILITIES[fewest['learner']]}, {words('task', fewest['task'])})."
    )


def page(docs: Path = DOCS) -> str:
    """The page with its block written anew."""
    results = {one.spec.name: one for one in read_all(docs / "results")}
    text = PAGE.read_text(encoding="utf-8")
    return text.replace(
        START + block(text) + END, START + made(results["s13"], results["s13-values"]) + END
    )


if __name__ == "__main__":
    write_text(PAGE, page())
    print(PAGE)
