"""Writes the README's generated blocks: what the demo prints, and the worst case that is known.

Each block stands between two comments, `<!-- name -->` and `<!-- /name -->`.
"""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from datamarket_gym.lab.cells import Row, attacks_of
from datamarket_gym.lab.figures.words import attack_words
from datamarket_gym.lab.results import read_all

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
FOUND = "best_response_found"


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


def worst() -> str:
    """The largest gain known against Shapley and against the recommended mechanism, per market."""
    kept = {one.spec.name: one for one in read_all(ROOT / "docs" / "results")}
    search = kept["best-response"]
    free = [r for r in search.rows if not r["cost_identity"] and not r["cost_perturbation"]]
    lines = [
        "| market | attack | Shapley over names | recommended |",
        "|---|---|---|---|",
    ]
    for metric, title in (
        ("net_gain", "searched for in that very market"),
        ("net_gain_fresh", "the same attack in another market"),
    ):
        cells = [_text(free, metric, mechanism=m) for m in ("shapley", "recommended")]
        lines.append(f"| synthetic, {search.seeds} markets | {title} | {cells[0]} | {cells[1]} |")
    timed = {"attack": FOUND, "empty": "chance", "task": "synthetic"}
    s10 = [r for r in kept["s10"].rows if all(r[key] == value for key, value in timed.items())]
    cells = [_text(s10, "gain", mechanism=m) for m in ("shapley", "recommended")]
    lines.append(
        f"| synthetic, {kept['s10'].seeds} markets | the one found against `recommended`, in all of them "
        f"| {cells[0]} | {cells[1]} |"
    )
    assumed = {label for label, attack in attacks_of(kept["s10"].spec) if attack.assumes}
    fair = [
        r for r in kept["s10"].rows
        if (r["task"], r["empty"], r["metric"], r["mechanism"]) == ("synthetic", "chance", "gain", "recommended")
        and r["attack"] not in assumed
    ]  # fmt: skip
    top = max(fair, key=lambda r: float(r["value"]))["attack"]
    s10 = [r for r in kept["s10"].rows if all(r[k] == v for k, v in {**timed, "attack": top}.items())]
    cells = [_text(s10, "gain", mechanism=m) for m in ("shapley", "recommended")]
    lines.append(
        f"| synthetic, {kept['s10'].seeds} markets | worst of {len(fair)} tried: {attack_words(top)} "
        f"| {cells[0]} | {cells[1]} |"
    )
    for name in ("cifar10", "stl10", "agnews", "imdb"):
        rows = [r for r in kept[name].rows if r["mechanism"] == "recommended" and r["task"] != "all"]
        paid = [r for r in rows if r["metric"] == "gain"]
        top = max(paid, key=lambda r: float(r["value"]))["attack"]
        title = kept[name].spec.title.partition(":")[0]
        lines.append(
            f"| {title}, {kept[name].seeds} markets | worst of {len(paid)} tried: {attack_words(top)} "
            f"| - | {_text(rows, 'gain', attack=top)} |"
        )
    return "\n".join(lines) + "\n"


BLOCKS = {"demo": demo, "worst": worst}


def _text(rows: Iterable[Row], metric: str, **wanted: str) -> str:
    """A mean with its standard error, and the ratio of means."""
    found = [r for r in rows if all(r.get(k) == v for k, v in wanted.items())]
    (mean,) = [r for r in found if r["metric"] == metric]
    (ratio,) = [r for r in found if r["metric"] == f"{metric}_ratio_of_means"]
    return f"{mean['value']:.2f} ± {mean['se']:.2f} [{ratio['value']:.2f}]"


def block(readme: str, name: str) -> str:
    """The part of the README between the comments of that name."""
    return readme.split(f"<!-- {name} -->\n")[1].split(f"<!-- /{name} -->")[0]


if __name__ == "__main__":
    text = README.read_text(encoding="utf-8")
    for name, made in BLOCKS.items():
        opening = f"<!-- {name} -->\n"
        text = text.replace(opening + block(text, name), opening + made())
    README.write_text(text, encoding="utf-8")
