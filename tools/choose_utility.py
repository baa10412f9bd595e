"""Print the utility that the rule of experiment ``frontier`` chooses, and all points that it did not choose.

    python tools/choose_utility.py [RESULTS] [--page docs/fidelity.md]

RESULTS holds the results of ``frontier`` and ``lds``: a folder of runs, or compact results (``docs/results``). With a
page its tables, each between two comments, ``<!-- name -->`` and ``<!-- /name -->``, are written anew.
"""

import argparse
import re
from pathlib import Path
from typing import Any

from datamarket_gym.errors import DataMarketError
from datamarket_gym.experiments.results import list_results, read_results
from datamarket_gym.experiments.tables import markdown_table
from datamarket_gym.experiments.utility_choice import (
    DOMAINS,
    choice_table,
    choose_utility,
    utility_points,
)

TITLES = {
    "agnews": "AG News",
    "imdb": "IMDB",
    "stl10": "STL-10",
    "cifar10": "CIFAR-10",
    "synthetic": "synthetic",
    "digits": "digits",
    "breast_cancer": "breast cancer",
}

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="?", type=Path, default=Path("docs/results"))
    parser.add_argument("--page", type=Path, help="a page whose tables are written anew")
    chosen = parser.parse_args()
    rows = {
        place.name: read_results(place).rows
        for place in list_results(chosen.results)
        if place.name in ("frontier", "lds")
    }
    points = utility_points(rows.get("frontier", []), rows.get("lds", []))
    print("\n".join(choice_table(points)))
    try:
        best = choose_utility(points)
    except DataMarketError as error:
        print(f"\nnothing is chosen: {error}")
        return
    print(f"\nchosen: {best.learner}")
    if chosen.page is not None:
        text = chosen.page.read_text(encoding="utf-8")
        parts = {
            "frontier": frontier(points, best.learner, rows["frontier"]),
            "checked": checked(rows["frontier"]),
        }
        for name, lines in parts.items():
            text = re.sub(
                rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)",
                lambda match, lines=lines: match[1] + "\n".join(lines) + "\n" + match[2],
                text,
                flags=re.S,
            )
        chosen.page.write_text(text, encoding="utf-8")


def worst(
    rows: list[Row], learner: str, validation: str, checks: int, metric: str = "gain"
) -> dict[str, Row]:
    """The worst gain of each domain."""
    at = {
        "learner": learner,
        "validation": validation,
        "checks": checks,
        "attack": "worst",
        "metric": metric,
    }
    return {
        str(row["task"]).partition("(")[0]: row
        for row in rows
        if all(row.get(key) == value for key, value in at.items())
    }


def shown(row: Row, digits: int = 2) -> str:
    error = "" if not row.get("se") else f" ± {row['se']:.{digits}f}"
    return f"{row['value']:.{digits}f}{error}"


def frontier(points: list[Any], best: str, rows: list[Row]) -> list[str]:
    """Every utility: its LDS and what attackers gain at worst on the four domains."""
    heads = ["utility", "LDS"]
    heads += [
        f"{validation}: {TITLES[domain]}" for validation in ("secret", "leaked") for domain in DOMAINS
    ]
    lines = []
    for point in sorted(points, key=lambda point: point.worst_gain):
        name = f"`{point.learner}`"
        line = [f"**{name}**" if point.learner == best else name, f"{point.lds:.3f}"]
        for validation in ("secret", "leaked"):
            gains = worst(rows, point.learner, validation, 0)
            line += [shown(gains[domain]) for domain in DOMAINS]
        lines.append(line)
    return markdown_table(heads, lines, ", ".join(heads[1:]))


def checked(rows: list[Row]) -> list[str]:
    """What three spot checks leave, on tables of few features too, under the utilities that were played with them."""
    learners = list(dict.fromkeys(row["learner"] for row in rows if row.get("checks") == 3))
    heads = ["utility", "validation set", "spot checks", *TITLES.values()]
    lines = []
    for learner in learners:
        for validation in ("secret", "leaked"):
            for checks in (0, 3):
                gains = worst(rows, learner, validation, checks)
                cells = [shown(gains[domain], 3 if checks else 2) for domain in TITLES]
                lines.append([f"`{learner}`", validation, str(checks), *cells])
    return markdown_table(heads, lines, ", ".join(heads[2:]))


if __name__ == "__main__":
    main()
