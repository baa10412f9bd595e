"""Writes the generated block of docs/prior-measured.md: what S12 found, domain by domain, from docs/results.

The block stands between two comments, `<!-- s12 -->` and `<!-- /s12 -->`; tests/lab/test_prior_page.py fails where it
is stale.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from datamarket_gym.core.files import write_text
from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.names import attack_words, words
from datamarket_gym.lab.promises import kept
from datamarket_gym.lab.results import Compact, read_all
from datamarket_gym.lab.summary import WORST, matches

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "prior-measured.md"
LAYOUTS = {
    "newcomers": "Newcomers: those who are copied are gone",
    "continuing": "Continuing: everybody sells in both periods",
}
LEARNERS = {"coverage": "coverage", "knn": "5-NN over chance"}
MIXES = (
    "just_under", "just_under_towards_others", "midpoints", "blends", "relabelled_copies"
)  # fmt: skip
OURS = {"mechanism": "recommended", "prior": "with"}
COPIES = ["copies", "copies_alone", "copies_under_another_name"]
BARS_AT = {"learner": "coverage", "attack": COPIES, **OURS}
GAIN, LOSS = 1.05, 0.02  # at most
Cells = dict[str, Callable[[str], str]]
"""The columns of a table, by their heads; each says what stands there of a domain."""


def block(text: str) -> str:
    """The part of the page between the comments."""
    return text.split("<!-- s12 -->\n")[1].split("<!-- /s12 -->")[0]


def made(one: Compact, dimensions: Compact) -> str:
    """The block."""
    found = Found(one.rows)
    parts = [found.where_bars_hold(), "", *found.bars_by_domain(), "", _bars(one)]
    for learner, said in LEARNERS.items():
        for layout, title in LAYOUTS.items():
            parts += [f"**{title}, {said}.** Copies at the noise that is worst for each column.", ""]
            parts += [*found.copies(learner, layout), ""]
    parts += [
        "**Copies just below the threshold, mixes, copies under another class**, prior art and lineage, coverage: "
        "gain → in expectation with checks; largest loss of a victim → in expectation.",
        "",
    ]
    parts += [*found.mixes(), ""]
    parts += [
        "**By the number of features** (synthetic, newcomers, coverage): the largest gain over all noise.",
        "",
    ]
    parts += [*_by_dimension(dimensions.rows), ""]
    parts += [
        "**The honest**, prior art and lineage, coverage, nobody cheats: units taken for old ones, and the cost.",
        "",
    ]
    parts += [*found.honest(), ""]
    ours = {"metric": "gain", "learner": "coverage", **OURS}
    errors = max(row["se"] or 0.0 for row in one.rows if matches(row, ours))
    parts.append(
        f"Means over {one.seeds} markets; standard errors of gains under coverage, with prior art and lineage, up to "
        f"{errors:.2f}. {_fewer(one)}"
    )
    return "\n".join(parts) + "\n"


def _fewer(one: Compact) -> str:
    """How many seeds gains under k-NN rest on, where the thief's honest pay is not clearly above zero in all."""
    gains = [row for row in one.rows if row["metric"] == "gain" and matches(row, OURS)]
    least = {learner: min(r["seeds"] for r in gains if r["learner"] == learner) for learner in LEARNERS}
    return " ".join(
        f"Gains under {said} rest on {least[learner]} to {one.seeds} of these."
        if least[learner] < one.seeds
        else f"Gains under {said} rest on all of these."
        for learner, said in LEARNERS.items()
    )


def _bars(one: Compact) -> str:
    """Which of the promises hold, and where they do not."""
    lines = []
    for promise in one.spec.promises:
        found = kept(promise, one.rows)
        where = sorted({words("task", row["task"]) for _, row in found.broken})
        verdict = (
            "holds"
            if found.holds
            else f"**does not hold** on {', '.join(where)} ({len(found.broken)} of {len(found.numbers)} rows)"
        )
        largest = f"the largest is {_exactly(found.numbers[0][0])}" if found.numbers else "no rows"
        lines.append(f"- {promise.says} It {verdict}; {largest}.")
    return "\n".join(lines) + "\n"


def _exactly(number: float) -> str:
    """A number; nothing is said to be nothing only where it is."""
    return "exactly 0" if number == 0 else f"{number:.3f}"


class Found:
    """The rows of S12, asked domain by domain."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = [row for row in rows if row["value"] is not None]
        self.domains = list(dict.fromkeys(_domain(row) for row in self.rows))

    def worst(self, domain: str, metric: str, **where: object) -> Row | None:
        """The row with the largest value of a metric."""
        found = [
            row
            for row in self.rows
            if row["metric"] == metric and matches(row, where) and _domain(row) == domain  # type: ignore[arg-type]
        ]
        return max(found, key=lambda row: float(row["value"]), default=None)

    def shown(self, domain: str, metric: str, style: str = ".2f", **where: object) -> str:
        """The largest value, or a dash."""
        row = self.worst(domain, metric, **where)
        return "-" if row is None else re.sub(r"^-(?=[0.]+%?$)", "", f"{row['value']:{style}}")

    def missed(self, domain: str, metric: str, most: float) -> bool:
        """Whether copies exceed a bar anywhere."""
        row = self.worst(domain, metric, **BARS_AT)
        return row is not None and float(row["value"]) > most

    def where_bars_hold(self) -> str:
        """In one sentence the domains on which both bars on copies hold, and those on which one does not."""
        everywhere, in_mean, nowhere = list[str](), list[str](), list[str]()
        for domain in self.domains:
            mean = self.missed(domain, "gain", GAIN) or self.missed(domain, "victim_loss", LOSS)
            seed = self.missed(domain, f"gain{WORST}", GAIN)
            seed = seed or self.missed(domain, f"victim_loss{WORST}", LOSS)
            (nowhere if mean else in_mean if seed else everywhere).append(words("task", domain))
        said = {
            "Both bars hold in the mean and in every seed": everywhere,
            "Both hold in the mean, and not in every seed": in_mean,
            "Not both hold in the mean": nowhere,
        }
        return " ".join(f"**{how}: {', '.join(which) or 'nowhere'}.**" for how, which in said.items())

    def bars_by_domain(self) -> list[str]:
        """How large copies' gains and victims' losses are, in the mean over seeds and in the worst of them."""

        def shown(metric: str, style: str, most: float) -> Callable[[str], str]:
            def cell(domain: str) -> str:
                said = self.shown(domain, metric, style, **BARS_AT)
                return f"**{said}**" if self.missed(domain, metric, most) else said

            return cell

        return self.table(
            {
                f"gain, at most {GAIN:g}: mean": shown("gain", ".3f", GAIN),
                "worst seed": shown(f"gain{WORST}", ".3f", GAIN),
                f"a victim's loss, at most {LOSS:.0%}: mean": shown("victim_loss", ".1%", LOSS),
                "its worst seed": shown(f"victim_loss{WORST}", ".1%", LOSS),
            }
        )

    def copies(self, learner: str, layout: str) -> list[str]:
        """What copies gain, and what their victims lose."""
        at = {"attack": "copies", "learner": learner, "layout": layout}

        def ours(domain: str) -> str:
            row = self.worst(domain, "gain", **at, **OURS)
            return "-" if row is None else f"{row['value']:.2f} at {row['noise']:g}"

        def new_value(domain: str) -> str:
            row = self.worst(domain, "gain", **at, **OURS)
            return (
                "-"
                if row is None
                else self.shown(domain, "value_added", **at, **OURS, noise=row["noise"])
            )

        columns: Cells = {
            "gain without prior art": lambda d: self.shown(
                d, "gain", **at, mechanism="recommended", prior="without"
            ),
            "prior art, no lineage": lambda d: self.shown(
                d, "gain", **at, mechanism="equal_units_alone", prior="with"
            ),
            "prior art and lineage, at noise": ours,
            "of it new value": new_value,
            "as many noisy copies of own new units": lambda d: self.shown(
                d, "gain", **{**at, "attack": "own_new_units_noised"}, **OURS
            ),
            "expected with 3 checks, under another name": lambda d: self.shown(
                d, "expected_net_gain", **{**at, "attack": "copies_under_another_name"}, **OURS
            ),
        }
        lost = {"continuing": "victim_loss", "newcomers": "bystanders_loss"}[layout]
        if self.worst(self.domains[0], lost, **at, **OURS) is not None:
            who = "largest victim's loss" if layout == "continuing" else "bystanders' loss"
            columns[f"{who} without prior art"] = lambda d: self.shown(
                d, lost, ".1%", **at, mechanism="recommended", prior="without"
            )
            columns["with prior art and lineage"] = lambda d: self.shown(d, lost, ".1%", **at, **OURS)
        if layout == "continuing":
            columns["expected with checks"] = lambda d: self.shown(
                d, "expected_victim_loss", ".1%", **at, **OURS
            )
        return self.table(columns)

    def mixes(self) -> list[str]:
        """What is made of old units and not simply a noisy copy of one."""
        lines = [f"| layout, theft | {' | '.join(words('task', d) for d in self.domains)} |"]
        lines.append("|---" * (1 + len(self.domains)) + "|")
        for layout in LAYOUTS:
            for attack in MIXES:
                at = {"learner": "coverage", "layout": layout, "attack": attack, **OURS}
                cells = [self._gain_and_loss(domain, at) for domain in self.domains]
                lines.append(f"| {layout}: {attack_words(attack)} | {' | '.join(cells)} |")
        return lines

    def _gain_and_loss(self, domain: str, at: Mapping[str, str]) -> str:
        gain = f"{self.shown(domain, 'gain', **at)} → {self.shown(domain, 'expected_net_gain', **at)}"
        if at["layout"] != "continuing":
            return gain
        lost, still = (
            self.shown(domain, metric, ".1%", **at) for metric in ("victim_loss", "expected_victim_loss")
        )
        return f"{gain}; {lost} → {still}"

    def honest(self) -> list[str]:
        """What evidence does to the honest."""

        def cell(layout: str) -> Callable[[str], str]:
            at = {"learner": "coverage", "layout": layout, "attack": "honest", **OURS}
            return lambda d: (
                f"{self.shown(d, 'honest_known', '.1%', **at)}, {self.shown(d, 'honest_cost', '.1%', **at)}"
            )

        return self.table({layout: cell(layout) for layout in LAYOUTS})

    def table(self, columns: Cells) -> list[str]:
        """A row for each domain."""
        lines = [f"| domain | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
        for domain in self.domains:
            cells = [cell(domain) for cell in columns.values()]
            lines.append(f"| {words('task', domain)} | {' | '.join(cells)} |")
        return lines


def _by_dimension(rows: Sequence[Row]) -> list[str]:
    """The largest gains given prior art, by the number of features."""
    kinds = {
        "copies, no lineage": ("copies", "equal_units_alone"),
        "copies, lineage": ("copies", "recommended"),
        "as many noisy copies of own new units, lineage": ("own_new_units_noised", "recommended"),
        "midpoints, lineage": ("midpoints", "recommended"),
    }
    gains = [row for row in rows if row["metric"] == "gain" and row.get("prior") == "with"]
    lines = [f"| features | {' | '.join(kinds)} |", "|---" * (1 + len(kinds)) + "|"]
    for features in sorted({row["dimensions"] for row in gains}):
        cells = [
            max(
                r["value"]
                for r in gains
                if (r["dimensions"], r["attack"], r["mechanism"]) == (features, *kind)
            )
            for kind in kinds.values()
        ]
        lines.append(f"| {features} | {' | '.join(f'{cell:.2f}' for cell in cells)} |")
    return lines


def _domain(row: Row) -> str:
    return str(row["task"]).partition("(")[0]


def page(docs: Path = DOCS) -> str:
    """The page with its block written anew."""
    results = {one.spec.name: one for one in read_all(docs / "results")}
    text = PAGE.read_text(encoding="utf-8")
    start, end = "<!-- s12 -->\n", "<!-- /s12 -->"
    return text.replace(
        start + block(text) + end, start + made(results["s12"], results["s12-dimensions"]) + end
    )


if __name__ == "__main__":
    write_text(PAGE, page())
    print(PAGE)
