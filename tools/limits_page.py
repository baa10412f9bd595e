"""Writes the sizes in docs/limits.md: what attacks that the page names gain in S11, from its kept results."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from readme import block

from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.kinds.checks import ASSUMING
from datamarket_gym.lab.names import attack_words, words
from datamarket_gym.lab.results import read_compact
from datamarket_gym.lab.spec import builtin_specs

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "limits.md"
CHECKS, POWER, BAR = 3, 0.8, 1.02
GROUPS = {
    "disguised copies": ("copies of all turned out of reach", "theft from all", "near duplicates"),
    "generated and made-up units": ("generated units added", "noise added"),
    "a clock that submitters write": (
        r"copies of all, with earlier times\*",
        r"copies of all, that win ties in time\*",
    ),
    "coming first, with foresight": (
        r"squatting before all\*",
        r"worthless squatting before all\*",
    ),
    "validation rows that got out": (
        "squatting by leaked rows",
        "worthless squatting by leaked rows",
        "units in uncovered regions",
    ),
    "whoever searches": ("best response",),
}
"""What the page warns of, and the attacks of S11 that do it."""


def sizes() -> str:
    """The table: of each attack the largest gain over five domains, without checks and with them."""
    kept = read_compact(ROOT / "docs" / "results" / "s11.json", builtin_specs())
    rows = [r for r in kept.rows if r["metric"] == "expected_net_gain" and r["power"] == POWER]
    tried = {one.name: one for one in of_learner(rows, "coverage")}
    tasks = {task for one in tried.values() for task in one.nets}
    lines = [
        f"| what | attack | without checks, at most | with {CHECKS} checks of power {POWER}, at most |",
        "|---|---|---|---|",
    ]
    for group, names in GROUPS.items():
        for name in names:
            lines.append(f"| {group} | {name} | {largest(tried[name], 0)} | {largest(tried[name], 1)} |")
    lines += [
        "",
        f"Attacked / honest payment, mean over {kept.seeds} markets, the largest over {len(tasks)} domains "
        f'(and on which), paid by the recommended mechanism. {BAR} is the bar for "deterred". '
        "\\* assumes what the group says.",
    ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Tried:
    """An attack with all its variants: by domain, the largest net gain without checks and with them."""

    name: str
    nets: dict[str, tuple[float, float]]


def of_learner(rows: Iterable[Row], learner: str) -> list[Tried]:
    """The attacks under a utility, the largest without checks first; nobody cheating is none."""
    nets: dict[str, dict[str, dict[int, list[float]]]] = {}
    for row in rows:
        if row["learner"] == learner and row["attack"] != "honest" and row["checks"] in (0, CHECKS):
            assumes = "\\*" if row["family"] == ASSUMING else ""
            by_task = nets.setdefault(stem(row["attack"]) + assumes, {})
            by_task.setdefault(row["task"], {}).setdefault(row["checks"], []).append(float(row["value"]))
    tried = [
        Tried(name, {task: (max(by[0]), max(by[CHECKS])) for task, by in by_task.items()})
        for name, by_task in nets.items()
    ]
    return sorted(tried, key=lambda one: -max(without for without, _ in one.nets.values()))


def stem(attack: str) -> str:
    """An attack in words without its numbers, which tell its variants apart."""
    said = attack_words(attack)
    return re.sub(r"\b\d+%?", "…", said if attack.endswith("_all") else said.partition(",")[0])


def largest(one: Tried, which: int) -> str:
    """The largest of both numbers over domains, and where."""
    task = max(one.nets, key=lambda name: one.nets[name][which])
    return f"{one.nets[task][which]:.2f} ({words('task', task)})"


if __name__ == "__main__":
    text, opening = PAGE.read_text(encoding="utf-8"), "<!-- sizes -->\n"
    PAGE.write_text(text.replace(opening + block(text, "sizes"), opening + sizes()), encoding="utf-8")
