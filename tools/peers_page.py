"""Writes the generated block of docs/peers.md: whether peers pay as our own mechanisms do, from docs/results.

The block stands between two comments, `<!-- peers -->` and `<!-- /peers -->`; tests/peers/test_peers_page.py fails
where it is stale.
"""

from __future__ import annotations

from pathlib import Path

from datamarket_gym.core.files import write_text
from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.results import Compact, read_all
from datamarket_gym.peers.environments import PEERS

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "peers.md"
SHORT = {
    "sybil_split_2": "2 names",
    "sybil_split_3": "3 names",
    "sybil_split_4": "4 names",
    "exact_dup_2x_sybils": "copies",
    "near_duplicate_2x_sybils": "near copies",
    "label_noise": "wrong labels",
}
"""Attacks, so that the table fits a page; where nobody cheats every gain is 1."""


def block(text: str) -> str:
    """The part of the page between the comments."""
    return text.split("<!-- peers -->\n")[1].split("<!-- /peers -->")[0]


def cells(one: Compact) -> dict[tuple[str, str, str], Row]:
    """Summary rows by metric, mechanism and attack."""
    return {(row["metric"], row["mechanism"], row["attack"]): row for row in one.rows if "attack" in row}


def differences(one: Compact) -> list[tuple[str, str, float, float]]:
    """Of every peer and attack: the peer's gain less ours, and the standard error of ours (0 where there is none)."""
    found, out = cells(one), []
    for (metric, name, attack), row in found.items():
        if metric == "gain" and name.startswith("peer@"):
            ours = found[metric, name.rsplit("-", 1)[1], attack]
            out.append((name, attack, row["value"] - ours["value"], ours["se"] or 0.0))
    return out


def _paid(one: Compact) -> str:
    """What mechanisms are paid by, and what accuracy is counted from."""
    found: dict[str, list[str]] = {}
    for row in one.rows:
        if row["metric"] == "gain":
            empty = (
                ""
                if row["learner"] == "coverage"
                else f", U(empty) = {row['empty'].replace('none', '0')}"
            )
            names = found.setdefault(row["learner"] + empty, [])
            names += [] if row["mechanism"] in names else [row["mechanism"]]
    (most, _), *others = sorted(found.items(), key=lambda pair: -len(pair[1]))
    return "; ".join([most, *(f"`{'`, `'.join(names)}`: {how}" for how, names in others)])


def made(one: Compact) -> str:
    """The block."""
    found = cells(one)
    attacks = list(dict.fromkeys(attack for _, _, attack in found))
    shown = [attack for attack in attacks if attack != "honest"]
    errors = max(row["se"] or 0.0 for (metric, _, _), row in found.items() if metric == "gain")
    names = list(dict.fromkeys(name for _, name, _ in found))
    far = {
        name: max(abs(d) for who, _, d, _ in differences(one) if who == name)
        for name in names if name.startswith("peer@")
    }  # fmt: skip
    there = ", ".join(f"{name} {one.versions.get(name, 'not installed')}" for name in PEERS)
    lines = [
        f"`datamarket run peers`, {one.seeds} seeds; {there}.",
        "",
        f"Gains of the attacker ({_paid(one)}), means over seeds with standard errors of up to {errors:.3f}, and the "
        "largest difference of a mean to our own:",
        "",
        "| mechanism | " + " | ".join(SHORT[attack] for attack in shown) + " | largest difference |",
        "|---" * (len(shown) + 2) + "|",
    ]
    for name in names:
        gains = [_shown(found["gain", name, attack]) for attack in shown]
        apart = f"{far[name]:.4f}" if name in far else ""
        lines.append(f"| `{name}` | " + " | ".join(gains) + f" | {apart} |")
    lines += [
        "",
        "Fairness loss (oracle L1), coalitions evaluated and seconds by the clock, means over attacks:",
        "",
    ]
    lines += ["| mechanism | fairness loss | coalitions | seconds |", "|---|---|---|---|"]
    for name in names:
        told = [_mean(found, metric, name, attacks) for metric in ("oracle_l1", "asked", "seconds")]
        lines.append(f"| `{name}` | {told[0]:.3f} | {told[1]:,.0f} | {told[2]:.2f} |")
    return "\n".join(lines) + "\n"


def _shown(row: Row) -> str:
    if row["value"] is None:
        return "undefined"
    return f"{row['value']:.3f}"


def _mean(found: dict[tuple[str, str, str], Row], metric: str, name: str, attacks: list[str]) -> float:
    values = [found[metric, name, attack]["value"] for attack in attacks]
    return float("nan") if None in values else sum(values) / len(values)


def results() -> Compact | None:
    """The kept results, where there are any."""
    return next((one for one in read_all(DOCS / "results") if one.spec.name == "peers"), None)


def page(text: str) -> str:
    """The page with its block made anew; without results it says so."""
    one = results()
    told = made(one) if one else "No results are kept yet: run the command below.\n"
    return text.replace(block(text), told)


if __name__ == "__main__":
    write_text(PAGE, page(PAGE.read_text(encoding="utf-8")))
