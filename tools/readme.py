"""Writes the README's generated blocks: the ten numbers that matter, what the demo prints, and what is stopped,
deterred and neither.

Each block stands between two comments, `<!-- name -->` and `<!-- /name -->`.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.figures.words import attack_words, words
from datamarket_gym.lab.kinds.checks import ASSUMING
from datamarket_gym.lab.results import read_all

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
CHECKS, POWER, BAR = 3, 0.8, 1.02
VERDICTS = {
    "Stopped": "no more than honesty on any domain, without any check",
    "Deterred": f"more somewhere, and at most {BAR} of honest pay on every domain once units are checked",
    "Neither": f"more than {BAR} of honest pay somewhere, checks or not",
}
OTHERS = {"knn": "5-NN accuracy over chance", "logistic": "Shapley over names by logistic regression"}
"""Utilities that are not recommended, in words."""


def demo() -> str:
    """What the demo prints on an 80-column terminal without colours."""
    shown = subprocess.run(
        [sys.executable, "-c", "from datamarket_gym.cli import main; main()", "demo"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"},
    )
    text = "\n".join(line.rstrip() for line in shown.stdout.splitlines())
    return f"```\n{text}\n```\n"


def checks() -> str:
    """What is stopped, what is deterred by checks and what is neither, under the recommended mechanism."""
    (kept,) = [one for one in read_all(ROOT / "docs" / "results") if one.spec.name == "s11"]
    rows = [r for r in kept.rows if r["metric"] == "expected_net_gain" and r["power"] == POWER]
    ours = of_learner(rows, "coverage")
    found = {verdict: [one for one in ours if one.verdict == verdict] for verdict in VERDICTS}
    listed = {
        "Deterred": f"{len(found['Deterred'])} attacks, in the table",
        **{verdict: _names(found[verdict]) for verdict in ("Stopped", "Neither")},
    }
    lines = [f"- **{verdict}**, {means}: {listed[verdict]}." for verdict, means in VERDICTS.items()]
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    shown = [*found["Neither"], *found["Deterred"]]
    lines += [
        "",
        f"| attack | {' | '.join(words('task', task) for task in tasks)} |",
        "|---" * (1 + len(tasks)) + "|",
        *(f"| {one.name} | {' | '.join(one.cell(task) for task in tasks)} |" for one in shown),
        "",
        f"Attacked / honest payment without checks → with {CHECKS} of power {POWER}, mean over {kept.seeds} markets "
        f"(standard errors up to {_error(rows, 0):.2f} → {_error(rows, CHECKS):.2f}), the largest over an attack's "
        "variants and over what the attacker knows. The best response was searched for in that very market. "
        "\\* needs a forged clock, or to have seen others' units before they came.",
    ]
    for learner, name in OTHERS.items():
        left = [one for one in of_learner(rows, learner) if one.verdict == "Neither"]
        lines.append(f"The same checks leave above {BAR} under {name}: {_names(left)}.")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Tried:
    """An attack with all its variants: by domain, the largest net gain without checks and with them."""

    name: str
    nets: dict[str, tuple[float, float]]

    @property
    def verdict(self) -> str:
        """Stopped without checks on all domains, deterred by checks on all, or neither."""
        if all(round(without, 2) <= 1.0 for without, _ in self.nets.values()):
            return "Stopped"
        return "Deterred" if all(after <= BAR for _, after in self.nets.values()) else "Neither"

    def cell(self, task: str) -> str:
        """Both numbers on a domain; a dash where it was not played."""
        return "{:.2f} → {:.2f}".format(*self.nets[task]) if task in self.nets else "-"


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


def _names(tried: Iterable[Tried]) -> str:
    return "; ".join(one.name for one in tried) or "nothing that was tried"


def _error(rows: Iterable[Row], checks: int) -> float:
    """The largest standard error."""
    return max(r["se"] or 0.0 for r in rows if r["learner"] == "coverage" and r["checks"] == checks)


def ten() -> str:
    """The ten numbers that matter."""
    text = (ROOT / "docs" / "ten-numbers.md").read_text(encoding="utf-8")
    return text.replace("](", "](docs/")


BLOCKS = {"demo": demo, "checks": checks, "ten": ten}


def block(page: str, name: str) -> str:
    """The part of a page between the comments of that name."""
    return page.split(f"<!-- {name} -->\n")[1].split(f"<!-- /{name} -->")[0]


if __name__ == "__main__":
    text = README.read_text(encoding="utf-8")
    for name, made in BLOCKS.items():
        opening = f"<!-- {name} -->\n"
        text = text.replace(opening + block(text, name), opening + made())
    README.write_text(text, encoding="utf-8")
