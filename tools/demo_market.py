"""A small market to look at: two paydays of short field notes, spot checks under way, and an experiment of two seeds.

Usage: python tools/demo_market.py OUT

Everything is made from fixed seeds by the command line, as an operator would: notes of six writers and of one who
hands in the others' notes with small changes, a month later. `tools/screenshots.py` takes its pictures of it.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

WRITERS = ("anna", "bolt and sons", "carla", "dora", "emil", "fay")
COPIER = "quick copy"
NOTES = {
    "garden": (
        "bean leek pear quince hedge rose tomato kale plum currant squash thyme beet hazel mint fern lettuce apple",
        "watered pruned grafted mulched weeded moved staked sown thinned picked limed dug covered split trained netted",
        "slugs frost drought wind mildew crows shade clay roots moles aphids hail",
    ),
    "kitchen": (
        "dough stock jam mustard lentil bread soup butter vinegar noodle custard pickle risotto sauce broth cheese",
        "kneaded strained salted boiled chilled roasted folded reduced whisked proved skimmed smoked dried glazed",
        "heat salt yeast steam sugar starch smoke acid fat time flour grease",
    ),
    "workshop": (
        "wheel drawer saw lamp hinge plane chisel lathe clamp bench spindle bracket vice handle motor pulley shelf",
        "trued oiled honed glued sanded turned drilled filed planed welded tightened balanced painted riveted shimmed",
        "rust wear noise heat play dust cracks sparks damp bends slack knots",
    ),
}  # fmt: skip
OTHERS = (
    "morning", "evening", "Monday", "Tuesday", "Thursday", "Saturday", "week", "north", "south", "corner", "left",
    "right", "upper", "lower", "small", "large", "old", "new", "first", "third", "wet", "dry", "cold", "warm",
)  # fmt: skip
EXPERIMENT = """\
name = "copies"
title = "What copying pays, by evidence"
seeds = 2
attacks = ["honest", "sybil_split_k@3", "exact_dup_2x_sybils", "near_duplicate_2x_sybils", "copycat(sigma=0.5)"]

[[tasks]]
task = "synthetic(n_providers=4, per_provider=15, validation=60)"

[[utilities]]
learner = "coverage"

[[mechanisms]]
name = "shapley"

[[mechanisms]]
name = "quotient_shapley/cosine@0.99"

[[mechanisms]]
name = "recommended"

[[tables]]
metric = "gain"
down = ["attack"]
across = "mechanism"
"""
EACH, HELD, REFERENCE = 24, 90, 240
SMALL = (("The ", "the "), (" was ", " got "), (" minutes", " min"), ("Then ", "then "))
FIELDS = ("id", "writer", "topic", "received", "note")


def note(rng: np.random.Generator, topic: str) -> str:
    """A note of two sentences: what was done with what, and against what; hardly any two are alike."""
    things, deeds, foes = (words.split() for words in NOTES[topic])

    def some(words: Sequence[str]) -> str:
        return str(rng.choice(words))

    return (
        f"The {some(OTHERS)} {some(things)} was {some(deeds)} against {some(foes)}, {rng.integers(2, 90)} minutes, "
        f"{some(OTHERS)} and {some(OTHERS)}. Then {some(things)} and {some(things)}, {some(deeds)} and {some(deeds)} "
        f"for {some(foes)}, {some(OTHERS)} side."
    )


def notes(
    rng: np.random.Generator, count: int, liking: np.ndarray | None = None
) -> list[tuple[str, str]]:
    """Topics and notes; a writer likes some topics more than others."""
    topics = rng.choice(list(NOTES), count, p=liking)
    return [(str(topic), note(rng, str(topic))) for topic in topics]


def write_tables(folder: Path) -> None:
    """What came in in May and in June, what it is measured on, and a sample for the threshold."""
    rng = np.random.default_rng(15)
    likings = {writer: rng.dirichlet([2.0] * len(NOTES)) for writer in WRITERS}
    seen: list[tuple[str, str]] = []
    for month, name in ((5, "may"), (6, "june")):
        rows = []
        for writer, liking in likings.items():
            rows += [(writer, topic, text) for topic, text in notes(rng, EACH, liking)]
        order = rng.permutation(len(rows))
        handed = [rows[i] for i in order]
        if month == 6:
            stolen = [seen[i] for i in rng.choice(len(seen), EACH // 2, replace=False)]
            handed += [(COPIER, topic, changed(text)) for topic, text in stolen]
            handed += [(COPIER, topic, text) for topic, text in notes(rng, EACH // 3)]
        seen += [(topic, text) for _, topic, text in handed]
        _csv(
            folder / f"{name}.csv", FIELDS,
            [
                (f"{name}-{i:03d}", who, topic, f"2026-{month:02d}-{1 + i // 8:02d}T{8 + i % 8:02d}:00:00", text)
                for i, (who, topic, text) in enumerate(handed)
            ],
        )  # fmt: skip
    for name, count in (("wanted", HELD), ("reference", REFERENCE)):
        _csv(folder / f"{name}.csv", ("topic", "note"), notes(rng, count))


def changed(text: str) -> str:
    """The same note in slightly other words."""
    for old, new in SMALL:
        text = text.replace(old, new)
    return text


def make(folder: Path) -> None:
    """The tables, then what an operator and a researcher would type."""
    tables = Path("market") / "tables"
    (folder / tables).mkdir(parents=True)
    write_tables(folder / tables)
    settings = (
        "--validation", tables / "wanted.csv", "--reference", tables / "reference.csv",
        "--payee", "writer", "--label", "topic",
        "--time", "received", "--text", "note", "--encoder", "ngrams", "--currency", "EUR",
    )  # fmt: skip
    run = Path("market") / "may"
    typed(
        folder, "pay", tables / "may.csv", *settings, "--amount", "1200.00", "--period", "May 2026",
        "--checks", "0", "--out", run,
    )  # fmt: skip
    typed(folder, "ledger", "approve", run, "--by", "R. Okafor", *despite(folder / run))
    typed(folder, "ledger", "paid", run, "--reference", "transfer 2026-06-03/17")
    june = Path("market") / "june"
    typed(
        folder, "pay", tables / "june.csv", *settings, "--amount", "1500.00", "--period", "June 2026",
        "--acquired", run, "--out", june,
    )  # fmt: skip
    typed(
        folder, "check", "plan", june, "--price", "4.00", "--announce", "the hash of Bitcoin block 900000",
    )  # fmt: skip
    typed(folder, "check", "draw", june, "--beacon", "what that hash turned out to be")
    (folder / "copies.toml").write_text(EXPERIMENT, encoding="utf-8")
    typed(folder, "run", "copies.toml", "--out", Path("results") / "copies")


def despite(run: Path) -> list[str]:
    """The warnings of a run, each of them accepted."""
    found = json.loads((run / "warnings.json").read_text(encoding="utf-8"))
    return [word for warning in found for word in ("--accept", warning["name"])]


def typed(folder: Path, *words: str | Path) -> None:
    """A command of the command line, in that folder; stops where it fails."""
    command = "from datamarket_gym.cli import main; main()"
    environment = os.environ | {"NO_COLOR": "1", "TERM": "dumb", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", command, *map(str, words)],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"datamarket {' '.join(map(str, words))}\n{done.stdout}{done.stderr}")


def _csv(path: Path, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
