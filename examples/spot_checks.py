"""Spot checks of a small payout run: eight sellers, one of whom sells noisy copies that no similarity can tell.

Usage: python examples/spot_checks.py [--out runs/spot-checks]

Makes a CSV file of submissions and one of validation rows, pays EUR 1,000.00 and takes the draft through its
checks: the copies are found, their seller is paid nothing, the others are paid again, drawn again, checked and
approved. In the stead of somebody who asks for proof this program looks up which units it copied.
"""

from __future__ import annotations

import argparse
import csv
import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np

DIMENSIONS, CLASSES, UNITS, COPIES = 8, 3, 160, 24
SELLERS = ("anna", "bolt photos", "carla", "dora", "emil", "fay", "gus")
ATTACKER = "quick copy"
PEOPLE = ("R. Okafor", "K. Ito", "L. Sand")  # who look: at a unit that is drawn twice, two of them


def main() -> None:
    """Write the tables, then run the commands an operator needs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/spot-checks"))
    out: Path = parser.parse_args().out
    write_tables(out)
    june, again = out / "june", out / "june-2"
    datamarket(
        "pay", out / "units.csv", "--validation", out / "validation.csv", "--amount", "1000", "--no-audit",
        "--out", june,
    )  # fmt: skip
    block = "the hash of Bitcoin block "
    datamarket("check", "sample", june, "--price", "4.00", "--announce", f"{block}900000")
    datamarket("check", "sample", june, "--beacon", "what that hash turned out to be")
    datamarket("check", "record", june, look(june))
    datamarket("check", "settle", june)
    datamarket("check", "sample", again, "--announce", f"{block}900144")
    datamarket("check", "sample", again, "--beacon", "what the later hash turned out to be")
    if (found := look(again)) is not None:
        datamarket("check", "record", again, found)
    datamarket("check", "settle", again)
    accepted = [w["name"] for w in json.loads((again / "warnings.json").read_text(encoding="utf-8"))]
    datamarket("ledger", "approve", again, *(w for name in accepted for w in ("--accept", name)))
    datamarket("verify", again, "--recompute")


def write_tables(out: Path) -> None:
    """Submissions of seven sellers and of one who comes last with copies of theirs under noise; validation rows."""
    rng = np.random.default_rng(3)
    label = rng.integers(0, CLASSES, UNITS)
    features = 2.0 * np.eye(CLASSES, DIMENSIONS)[label] + rng.normal(0, 0.6, (UNITS, DIMENSIONS))
    stolen = rng.choice(UNITS, COPIES, replace=False)
    features = np.vstack([features, features[stolen] + rng.normal(0, 0.6, (COPIES, DIMENSIONS))])
    label = np.concatenate([label, label[stolen]])
    seller = [SELLERS[i % len(SELLERS)] if i < UNITS else ATTACKER for i in range(UNITS + COPIES)]
    held = rng.integers(0, CLASSES, 120)
    rows = 2.0 * np.eye(CLASSES, DIMENSIONS)[held] + rng.normal(0, 0.6, (120, DIMENSIONS))
    names = [f"features_{i}" for i in range(DIMENSIONS)]
    out.mkdir(parents=True, exist_ok=True)
    _csv(
        out / "units.csv",
        ["id", "identity", "label", "time", *names],
        [[f"unit-{i:03d}", seller[i], f"class {label[i]}", i, *features[i].round(4)] for i in range(len(seller))],
    )  # fmt: skip
    _csv(
        out / "validation.csv",
        ["label", *names],
        [[f"class {held[i]}", *rows[i].round(4)] for i in range(len(held))],
    )


def look(run: Path) -> Path | None:
    """Write the outcomes of the checks of a run, false for copies; None where nothing was drawn."""
    with (run / "checks.csv").open(encoding="utf-8", newline="") as file:
        drawn = list(csv.DictReader(file))
    if not drawn:
        return None
    false = [row["payee"] == ATTACKER for row in drawn]
    answers = [
        [
            row["number"],
            "false" if bad else "genuine",
            "no original" if bad else "original seen",
            PEOPLE[int(row["look"].split()[0]) - 1],  # "2 of 2" is somebody else's
        ]
        for row, bad in zip(drawn, false, strict=True)
    ]
    path = run.parent / f"{run.name}-outcomes.csv"
    _csv(path, ["number", "outcome", "note", "by"], answers)
    return path


def datamarket(*words: object) -> None:
    """Run a command as one would type it."""
    typed = [str(word) for word in words]
    sys.stdout.write(f"\n$ datamarket {shlex.join(typed)}\n")
    sys.stdout.flush()
    code = "from datamarket_gym.cli import main; main()"
    subprocess.run([sys.executable, "-c", code, *typed], check=True)


def _csv(path: Path, names: list[str], rows: list[list[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(names)
        out.writerows(rows)


if __name__ == "__main__":
    main()
