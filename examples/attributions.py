"""Scores that public attribution tools gave, paid: honest and attacked, before and after copies are merged.

Usage: python examples/attributions.py [--out runs/attributions] [--market drawn] [--tools PYTHON]

A month of a small market is paid by `datamarket pay --utility scores --scores FILE`. The scores are those of captum
(TracIn), dattri (influence functions) and trak (TRAK) on a model trained on its units, by attribution_tools.py, which
runs in an environment of its own: --tools names its Python. Scores that examples/attribution_scores has already are
taken from there, so that the drawn market needs no tool; --market news is AG News (see news_archive.py) and does.
One seller then attacks, in several ways; the tool is run again on what is then submitted. See docs/attributions.md.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datamarket_gym.market.datasets import data_file
from news_archive import answer, scene, show, type_in, typed

HERE = Path(__file__).parent
KEPT = HERE / "attribution_scores"
TOOLS = ("captum", "dattri", "trak")
AMOUNT = 10_000
NAMES = 3  # under which an attacker submits besides the own one
SELLERS = (
    "anna", "bruno", "chen", "dora", "emeka", "fatima", "goran", "hana", "imran", "julia", "kofi", "lena"
)  # fmt: skip
ATTACKER, VICTIM = "dora", "chen"
SETTINGS = f"""\
amount = "{AMOUNT}.00"
checks = 0                # nobody is here to look at units: see examples/spot_checks.py
audit = false             # the attacks are in the story
id = "id"
time = "time"
"""


@dataclass(frozen=True, eq=False)
class Units:
    """Units of sellers, in the order in which they came."""

    seller: list[str]
    features: np.ndarray
    label: list[str]

    def __len__(self) -> int:
        return len(self.seller)

    def of(self, rows: Iterable[int]) -> Units:
        """Some of them."""
        at = list(rows)
        return Units([self.seller[i] for i in at], self.features[at], [self.label[i] for i in at])

    def by(self, seller: str) -> list[int]:
        """The rows of a seller."""
        return [i for i, name in enumerate(self.seller) if name == seller]

    def __add__(self, other: Units) -> Units:
        both = np.vstack([self.features, other.features])
        return Units(self.seller + other.seller, both, self.label + other.label)

    def table(self) -> pa.Table:
        """As it is handed in."""
        n, flat = len(self), pa.array(np.ascontiguousarray(self.features).ravel())
        return pa.table(
            {
                "id": [f"unit-{i:03d}" for i in range(n)],
                "identity": self.seller,
                "time": np.arange(n) * np.timedelta64(60, "s") + np.datetime64("2026-06-01T09:00:00"),
                "label": self.label,
                "features": pa.FixedSizeListArray.from_arrays(flat, self.features.shape[1]),
            }
        )


def news(rng: np.random.Generator) -> tuple[Units, Units]:
    """480 articles of twelve sellers and 200 validation rows: AG News, embedded by MiniLM."""
    with np.load(data_file("agnews_minilm.npz"), allow_pickle=False) as file:
        vectors, label, split = file["embeddings"].astype(np.float32), file["labels"], file["split"]
    sections = ("World", "Sports", "Business", "Sci/Tech")
    ours, held = (
        rng.permutation(np.flatnonzero((split == "train") == train))[:number]
        for train, number in ((True, 480), (False, 200))
    )
    made = [
        Units([SELLERS[i % 12] for i in range(len(at))], vectors[at], [sections[c] for c in label[at]])
        for at in (ours, held)
    ]
    return made[0], made[1]


def drawn(rng: np.random.Generator) -> tuple[Units, Units]:
    """60 units of six sellers and 24 validation rows, three classes in 24 dimensions, lengths of about one."""
    centre = rng.normal(size=(3, 24))

    def some(number: int) -> Units:
        label = rng.integers(3, size=number)
        features = _written((centre[label] + rng.normal(size=(number, 24))) / 7)
        return Units([SELLERS[i % 6] for i in range(number)], features, [f"class {c}" for c in label])

    return some(60), some(24)


MARKETS = {"news": news, "drawn": drawn}


def again(units: Units, whose: str) -> Units:
    """A seller's units once more, under new names of the attacker."""
    copies = units.of(units.by(whose) * NAMES)
    return replace(
        copies, seller=[f"{ATTACKER}-{1 + i * NAMES // len(copies)}" for i in range(len(copies))]
    )


def moved(copies: Units, rng: np.random.Generator) -> Units:
    """The same under noise of a fifth of their length."""
    return replace(copies, features=_written(copies.features + 0.2 * _noise(copies, rng)))


def junk(copies: Units, rng: np.random.Generator) -> Units:
    """As many units that mean nothing, under any label."""
    nothing = _written(_noise(copies, rng))
    return replace(copies, features=nothing, label=rng.permutation(copies.label).tolist())


def _noise(units: Units, rng: np.random.Generator) -> np.ndarray:
    """Vectors of any direction, about as long as those of the units."""
    length = np.linalg.norm(units.features.astype(np.float64), axis=1, keepdims=True)
    return length * rng.normal(size=units.features.shape) / np.sqrt(units.features.shape[1])


def _written(features: np.ndarray) -> np.ndarray:
    """Rounded, so that every machine draws the same units and finds the scores that are kept of them."""
    return np.round(features, 4).astype(np.float32)


ATTACKS: dict[str, tuple[str, Callable[[Units, np.random.Generator], Units]]] = {
    "copies": (f"{ATTACKER} submits her units under {NAMES} more names", lambda u, rng: again(u, ATTACKER)),
    "near": ("the same, each moved a little", lambda u, rng: moved(again(u, ATTACKER), rng)),
    "theft": (f"{ATTACKER} submits units of {VICTIM} under {NAMES} names", lambda u, rng: again(u, VICTIM)),
    "junk": (f"{ATTACKER} submits noise under {NAMES} more names", lambda u, rng: junk(again(u, ATTACKER), rng)),
}  # fmt: skip


class Month:
    """The folder of a market, in which one month is paid in many ways."""

    def __init__(self, folder: Path, market: str, tools: str | None, keep: bool = False) -> None:
        self.folder, self.tools, self.keep = folder, tools, keep
        self.honest, self.held = MARKETS[market](np.random.default_rng(2026))
        for name in ("scores", "what-if"):
            (folder / name).mkdir(parents=True)
        pq.write_table(self.held.table().select(["label", "features"]), folder / "validation.parquet")
        (folder / "market.toml").write_text(SETTINGS, encoding="utf-8")

    def submitted(self, name: str, units: Units) -> None:
        """Write the table of a month."""
        pq.write_table(units.table(), self.folder / f"{name}.parquet")

    def draft(self, name: str) -> tuple[str, ...]:
        """The command that merges copies; canonical.parquet of its folder is what is to be trained on."""
        return self._pay(name, "--out", f"what-if/{name}")

    def pay_arguments(self, name: str, scores: str, out: str, *how: str) -> tuple[str, ...]:
        """The command that pays by scores."""
        return self._pay(name, "--utility", "scores", "--scores", scores, *how, "--out", out)

    def _pay(self, name: str, *how: str) -> tuple[str, ...]:
        rows = ("--validation", "validation.parquet", "--period", "June 2026")
        return ("pay", f"{name}.parquet", *rows, *how)

    def attribution(self, training: str, tool: str, out: str) -> list[str]:
        """The command that has a tool score what a model is trained on."""
        asked = ["--tool", tool, "--out", out]
        return ["python", "attribution_tools.py", training, "validation.parquet", *asked]

    def attribute(self, training: str, tool: str, out: str) -> None:
        """Have it done; what was scored before is taken from there."""
        kept, made = KEPT / f"{tool}-{digest(self.folder / training)}.parquet", self.folder / out
        if kept.exists():
            shutil.copyfile(kept, made)
            return
        if self.tools is None:
            raise SystemExit(
                f"{tool} has not scored {training} yet: name the Python that has it (--tools), see docs/attributions.md"
            )
        _, script, *rest = self.attribution(training, tool, out)
        words = [self.tools, "-W", "ignore", str(HERE / script), *rest]
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{tool} failed:\n{done.stderr[-2000:]}")
        if self.keep:
            shutil.copyfile(made, kept)

    def ways(self, name: str, tool: str) -> Ways:
        """What the month pays by one tool's scores, in several ways; copies were merged by `draft` before."""
        table, merged = f"{name}.parquet", f"what-if/{name}/canonical.parquet"
        unmerged, scores = f"scores/{name}-{tool}-unmerged.parquet", f"scores/{name}-{tool}.parquet"
        self.attribute(table, tool, unmerged)
        after, by_name = self._paid(self.pay_arguments(name, unmerged, f"what-if/{name}-{tool}"))
        self.attribute(merged, tool, scores)
        first, _ = self._paid(self.pay_arguments(name, scores, f"{name}-{tool}"))
        floored, _ = self._paid(
            self.pay_arguments(name, scores, f"{name}-{tool}-zero", "--negative", "zero")
        )
        return Ways(by_name, after, first, floored)

    def _paid(self, command: tuple[str, ...]) -> tuple[dict[str, int], dict[str, int]]:
        """What a run pays each name, in cents: by evidence, and without any."""
        answer(self.folder, *command)
        rows = pq.read_table(self.folder / command[-1] / "payments.parquet").to_pylist()
        found = [
            {row["identity"]: int(row[column].replace(".", "")) for row in rows}
            for column in ("payment", "without_evidence")
        ]
        return found[0], found[1]


@dataclass(frozen=True)
class Ways:
    """Payments in cents by name.

    Scores added up by name; copies merged after units were scored; before; and so with units below zero as nothing.
    """

    by_name: dict[str, int]
    after: dict[str, int]
    first: dict[str, int]
    floored: dict[str, int]

    def of(self, seller: str) -> list[int]:
        """What a seller gets under all of their names."""
        every = (self.by_name, self.after, self.first, self.floored)
        return [sum(c for name, c in way.items() if name.split("-")[0] == seller) for way in every]


def digest(training: Path) -> str:
    """What a tool is given to score, whatever the order of its rows."""
    table = pq.read_table(training)
    names = table["unit" if "unit" in table.column_names else "id"].to_pylist()
    features = np.array(table["features"].to_pylist(), dtype=np.float32)
    rows = zip(names, table["label"].to_pylist(), features, strict=True)
    lines = sorted(f"{name}|{label}|{row.tobytes().hex()}" for name, label, row in rows)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def without_harmful(month: Month, tool: str) -> Units:
    """The month without those units of the attacker that score below zero in the honest one."""
    table = pq.read_table(month.folder / f"scores/june-{tool}-unmerged.parquet")
    total: dict[str, float] = {}
    for name, score in zip(table["unit"].to_pylist(), table["score"].to_pylist(), strict=True):
        total[name] = total.get(name, 0.0) + score
    ids = month.honest.table()["id"].to_pylist()
    bad = {i for i in month.honest.by(ATTACKER) if total[ids[i]] < 0}
    return month.honest.of(i for i in range(len(ids)) if i not in bad)


def play(month: Month) -> None:
    """Pay June as it should be paid, typed out; then every attack by every tool, in all ways."""
    scene("draft")
    month.submitted("june", month.honest)
    type_in(month.folder, *month.draft("june"))
    scene("tool")
    words = ("what-if/june/canonical.parquet", TOOLS[0], "scores/june.parquet")
    show(f"$ {typed(month.attribution(*words))}", "")
    month.attribute(*words)
    scene("pay")
    type_in(month.folder, *month.pay_arguments("june", "scores/june.parquet", "june"))
    honest = {tool: month.ways("june", tool) for tool in TOOLS}
    scene("shares")
    show(f"| | {' | '.join(TOOLS)} |", f"|---|{'---|' * len(TOOLS)}")
    for seller in dict.fromkeys(month.honest.seller):
        parts = [f"{honest[tool].of(seller)[2] / AMOUNT:.1f} %" for tool in TOOLS]
        show(f"| {seller} | {' | '.join(parts)} |")
    show("")
    scene("gains")
    show(
        "| attack | tool | by name | merged after | merged first | and none below zero |",
        f"|---|---|{'---|' * 4}",
    )
    for number, (name, (words, attack)) in enumerate(ATTACKS.items()):
        more = attack(month.honest, np.random.default_rng([2026, number]))
        month.submitted(f"june-{name}", month.honest + more)
        answer(month.folder, *month.draft(f"june-{name}"))
        found = {tool: month.ways(f"june-{name}", tool) for tool in TOOLS}
        lines(words, ATTACKER, honest, found)
        if name == "theft":
            lines(f"what {VICTIM} is left by that", VICTIM, honest, found)
    kept = dict(honest)
    for tool in TOOLS:
        units = without_harmful(month, tool)
        if len(units) < len(month.honest):
            month.submitted(f"june-kept-{tool}", units)
            answer(month.folder, *month.draft(f"june-kept-{tool}"))
            kept[tool] = month.ways(f"june-kept-{tool}", tool)
    lines(f"{ATTACKER} leaves out units that score below zero", ATTACKER, honest, kept)
    show("")


def lines(words: str, seller: str, honest: dict[str, Ways], attacked: dict[str, Ways]) -> None:
    """Lines of the table of gains: attacked / honest payment of a seller; ``none`` where nothing was changed."""
    for tool in TOOLS:
        pairs = list(zip(attacked[tool].of(seller), honest[tool].of(seller), strict=True))
        same = attacked[tool] is honest[tool]
        cells = ["none" if same else f"{after / before:.3f}" for after, before in pairs]
        show(f"| {words} | {tool} | {' | '.join(cells)} |")


def main() -> None:
    """Play the month."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/attributions"))
    parser.add_argument("--market", choices=sorted(MARKETS), default="drawn")
    parser.add_argument(
        "--tools", help="the Python of the environment that has torch, captum, dattri and traker"
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep new scores in examples/attribution_scores"
    )
    chosen = parser.parse_args()
    if chosen.out.exists():
        parser.error(f"{str(chosen.out)!r} is there already; name another folder")
    os.environ |= {"COLUMNS": "106", "NO_COLOR": "1", "TERM": "dumb"}  # as the page shows it
    play(Month(chosen.out.resolve(), chosen.market, chosen.tools, chosen.keep))


if __name__ == "__main__":
    main()
