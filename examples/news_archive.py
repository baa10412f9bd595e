"""The news archive of three_months.py: its articles, its folder, and how commands are typed in it (or elsewhere).

The articles are AG News, embedded by MiniLM; agnews.csv.gz and agnews_minilm.npz are looked for in the folder that
DATAMARKET_DATA names. Nothing of them is kept in the project. No encoder runs: texts that were changed get the
embedding of their source under noise, as much as MiniLM makes of such a change.
"""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datamarket_gym.cli import main as datamarket
from datamarket_gym.market.datasets import data_file, load_corpus

LEDGER = "ledger.sqlite"  # the intake log and the accounts, in one file
CLERK = "R. Okafor"
AMOUNT = 10_000
AGENCY = 12  # reports that two sellers have from one agency
SECTIONS = ("World", "Sports", "Business", "Sci/Tech")
SETTINGS = f"""\
amount = "{AMOUNT}.00"
currency = "EUR"
checks = 0                # nobody is here to look at units: see examples/spot_checks.py
audit = false             # the attacks are in the story
text = "text"             # what sellers hand in
features = "features"     # what the operator made of it
"""
ACCOUNTS = """\
payee,name,iban,account,bic,clearing,country,town
anna,Anna Moreau,DE02 1203 0000 0000 2020 51,,,,,
bruno,Bruno Lang,DE02 5001 0517 0137 0750 30,,,,,
chen,Chen Wei,DE02 1005 0000 0054 5404 02,,,,,
dora,Dora Novak,DE02 3002 0900 0106 5310 65,,,,,
emeka,Emeka Obi,DE02 2005 0550 1015 8713 93,,,,,
quick-copy,Quick Copy Ltd,DE02 1001 0010 0006 8201 01,,,,,
early-bird,Early Bird Ltd,DE02 3006 0601 0002 4746 89,,,,,
"""


@dataclass(frozen=True, eq=False)
class Articles:
    """Articles with their embeddings and sections."""

    text: list[str]
    vector: np.ndarray
    section: list[str]

    def __len__(self) -> int:
        return len(self.text)

    def of(self, rows: Iterable[int]) -> Articles:
        """Some of them."""
        at = list(rows)
        return Articles([self.text[i] for i in at], self.vector[at], [self.section[i] for i in at])

    def __add__(self, other: Articles) -> Articles:
        both = np.vstack([self.vector, other.vector])
        return Articles(self.text + other.text, both, self.section + other.section)


def agnews(fresh: int, held: int) -> tuple[Articles, Articles]:
    """Articles for sellers from the training split, validation rows from the test split."""
    corpus = load_corpus("agnews")
    with np.load(data_file("agnews_minilm.npz"), allow_pickle=False) as file:
        vector = file["embeddings"].astype(np.float32)
    rng = np.random.default_rng(2026)
    parts = ((corpus.train, fresh), (~corpus.train, held))
    chosen = [rng.permutation(np.flatnonzero(part))[:number] for part, number in parts]
    ours, rest = (
        Articles(corpus.content[at].tolist(), vector[at], [SECTIONS[i] for i in corpus.label[at]])
        for at in chosen
    )
    return ours, rest


def reworded(source: Articles, rng: np.random.Generator) -> Articles:
    """Every sixth word dropped, the halves swapped: by MiniLM a cosine of 0.91 with the source (median of 60)."""

    def rewritten(words: list[str]) -> list[str]:
        kept = [word for i, word in enumerate(words) if i % 6 != 5]
        return kept[len(kept) // 2 :] + kept[: len(kept) // 2]

    return _changed(source, rewritten, 0.91, rng)


def cut(source: Articles, rng: np.random.Generator) -> Articles:
    """The second half alone: by MiniLM a cosine of 0.67 with the source (median of 60)."""
    return _changed(source, lambda words: words[len(words) // 2 :], 0.67, rng)


def _changed(
    source: Articles, how: Callable[[list[str]], list[str]], cosine: float, rng: np.random.Generator
) -> Articles:
    noise = rng.normal(size=source.vector.shape).astype(np.float32)
    noise *= np.sqrt(1 / cosine**2 - 1) / np.linalg.norm(noise, axis=1, keepdims=True)
    vector = source.vector + noise
    vector /= np.linalg.norm(vector, axis=1, keepdims=True)
    return replace(source, text=[" ".join(how(text.split())) for text in source.text], vector=vector)


@dataclass(frozen=True, eq=False)
class File:
    """What a seller hands in at one time, and the date that the seller writes on it."""

    name: str
    articles: Articles
    dated: str

    def table(self) -> pa.Table:
        """The file with the operator's embeddings; ``june-anna`` and ``june-dora-2`` are of anna and dora."""
        vector, number = np.ascontiguousarray(self.articles.vector), len(self.articles)
        seller = self.name.partition("-")[2].removesuffix("-2")
        return pa.table(
            {
                "id": [f"{self.name}-{i:03d}" for i in range(number)],
                "identity": [seller] * number,
                "label": self.articles.section,
                "text": self.articles.text,
                "dated": [self.dated] * number,
                "features": pa.FixedSizeListArray.from_arrays(pa.array(vector.ravel()), vector.shape[1]),
            }
        )


class Market:
    """The folder of a market, and whoever types commands in it."""

    def __init__(self, folder: Path, n: int) -> None:
        self.folder, self.n, self.used = folder, n, 0
        self.fresh, held = agnews(15 * n + AGENCY, 5 * n)
        for name in ("inbox", "receipts", "what-if"):
            (folder / name).mkdir(parents=True)
        rows = File("validation", held, "").table().select(["label", "text", "features"])
        pq.write_table(rows, folder / "validation.parquet")
        (folder / "market.toml").write_text(SETTINGS, encoding="utf-8")
        (folder / "accounts.csv").write_text(ACCOUNTS, encoding="utf-8")

    def take(self, number: int) -> Articles:
        """Articles that nobody has had yet."""
        self.used += number
        return self.fresh.of(range(self.used - number, self.used))

    def arrives(self, name: str, articles: Articles, dated: str) -> File:
        """A file lies in the inbox."""
        file = File(name, articles, dated)
        pq.write_table(file.table(), self.folder / "inbox" / f"{name}.parquet")
        return file

    def enter(self, file: File, ledger: str = LEDGER, receipts: str = "receipts") -> File:
        """A file is entered into the log; its seller keeps the receipt."""
        self.type(
            "intake", "add", ledger, f"inbox/{file.name}.parquet", "--text", "text",
            "--receipt", f"{receipts}/{file.name}.json",
        )  # fmt: skip
        return file

    def entry(self, file: File) -> int:
        """The entry of a file in the log, as its receipt says."""
        receipt = self.folder / "receipts" / f"{file.name}.json"
        return int(json.loads(receipt.read_text(encoding="utf-8"))["entry"])

    def table(self, month: str, files: Iterable[File]) -> str:
        """All files of a month, one below the other."""
        path = self.folder / f"{month}.parquet"
        pq.write_table(pa.concat_tables([file.table() for file in files]), path)
        return path.name

    def pay(self, table: str, period: str, out: str, *how: str) -> None:
        """Pay a month, as a draft."""
        self.type(
            "pay", table, "--validation", "validation.parquet", "--period", period,
            *how, "--out", out,
        )  # fmt: skip

    def approve(self, run: str) -> None:
        """Approve a run; every warning was looked at."""
        told = json.loads((self.folder / run / "warnings.json").read_text(encoding="utf-8"))
        despite = [word for warning in told for word in ("--accept", warning["name"])]
        self.type("ledger", "approve", run, "--by", CLERK, *despite)

    def paid(self, run: str, identity: str) -> int:
        """What a run pays somebody, in cents."""
        rows = pq.read_table(self.folder / run / "payments.parquet").to_pylist()
        return sum(round(100 * float(row["payment"])) for row in rows if row["identity"] == identity)

    def earned(self, run: str, units: Sequence[str]) -> float:
        """What some units earn in a run, in euros: their part of what all earn."""
        rows = pq.read_table(self.folder / run / "clusters.parquet").to_pylist()
        amounts = {row["unit"]: row["amount"] for row in rows}
        return AMOUNT * sum(amounts.get(unit, 0.0) for unit in units) / sum(amounts.values())

    def type(self, *words: str) -> None:
        """Run a command as one types it, in the folder of the market."""
        type_in(self.folder, *words)


def type_in(folder: Path, *words: str) -> None:
    """Run a command as one types it in a folder, and print both."""
    show(f"$ {typed(['datamarket', *words])}", *answer(folder, *words), "")


def answer(folder: Path, *words: str) -> list[str]:
    """What a command prints, run in a folder.

    In this process: to start a new one for each would take longer than most of them.
    """
    shown, before, sys.argv = io.StringIO(), sys.argv, ["datamarket", *words]
    try:
        with contextlib.chdir(folder), contextlib.redirect_stdout(shown):
            datamarket()
    except SystemExit as ended:
        if ended.code:
            raise
    finally:
        sys.argv = before
    return [line.rstrip() for line in shown.getvalue().strip("\n").splitlines()]


def scene(name: str) -> None:
    """Begin a scene."""
    show(f"== {name} ==")


def show(*lines: str) -> None:
    """Print lines."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def typed(words: Sequence[str]) -> str:
    """A command as one types it, folded before an option where it is long."""
    lines = [""]
    for part in shlex.join(words).replace(" --", "\n--").split("\n"):
        if len(lines[-1]) + len(part) > 94:
            lines.append("   ")
        lines[-1] += f" {part}"
    return " \\\n".join(lines).strip()
