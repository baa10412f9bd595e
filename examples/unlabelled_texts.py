"""Pay the authors of texts that have no labels, by how well they cover what a buyer needs.

Usage: python examples/unlabelled_texts.py [--out runs/unlabelled] [--articles 60]

Eighteen authors hand in articles of all kinds, one copies theirs with small changes, one pads with what nobody asked
for. What the buyer needs is 200 articles of one section, which the authors do not see. No text bears a label: the
sections are known to this script alone, which adds up in the end where the money went. The articles are AG News,
embedded by MiniLM (see news_archive.py); agnews.csv.gz and agnews_minilm.npz are looked for in the folder that
DATAMARKET_DATA names, and nothing of them is kept in the project.
"""

from __future__ import annotations

import argparse
import html
import os
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datamarket_gym.market.datasets import data_file, load_corpus
from news_archive import SECTIONS, Articles, reworded, scene, show, type_in

AMOUNT = 6_000
AUTHORS = 18
NEEDS, REFERENCE = 200, 600
WANTED = "Sci/Tech"
COPIER, PADDER = "copier", "padder"
SETTINGS = f"""\
amount = "{AMOUNT}.00"
currency = "EUR"
checks = 3                # of each author, before anybody is paid
text = "text"             # what authors hand in
features = "embedding"    # what the operator made of it
time = "received"
"""


@dataclass(frozen=True, eq=False)
class Handed:
    """What one author hands in; ``copied`` says which of it was somebody else's."""

    author: str
    articles: Articles
    copied: np.ndarray


def main() -> None:
    """Write the tables, then type what an operator types."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/unlabelled"))
    parser.add_argument("--articles", type=int, default=60, help="articles of each author")
    chosen = parser.parse_args()
    os.environ |= {"COLUMNS": "106", "NO_COLOR": "1", "TERM": "dumb"}  # as the page shows it
    folder, each = chosen.out, chosen.articles
    folder.mkdir(parents=True)
    handed = write_tables(folder, each)

    def typed(*words: str) -> None:
        type_in(folder, *words)

    def pay(needs: str, out: str) -> None:
        typed(
            "pay", "texts.parquet", "--validation", needs, "--reference", "reference.parquet",
            "--utility", "coverage@0.9", "--out", out,
        )  # fmt: skip

    scene("draft")
    pay("all-needs.parquet", "draft")
    scene("pay")
    keep_others(
        folder / "all-needs.parquet", folder / "draft" / "leaks.parquet", folder / "needs.parquet"
    )
    pay("needs.parquet", "june")
    scene("copier")
    typed("explain", "june", "--payee", COPIER)
    scene("needs-of-one")
    typed("explain", "june", "--payee", best_paid(folder / "june"), "--needs")
    scene("needs")
    typed("explain", "june", "--needs")
    scene("checks")
    typed("check", "sample", "june", "--price", "2.00", "--announce", "drand round 5120440")
    scene("audit")
    typed(
        "audit", "texts.parquet", "--validation", "needs.parquet", "--reference", "reference.parquet",
        "--text", "text", "--features", "embedding", "--time", "received", "--utility", "coverage@0.9",
        "--checks", "3", "--only", "junk_padding,copycat,sybil_split_k", "--providers", "3",
    )  # fmt: skip
    scene("statement")
    typed("statements", "june", "--contact", "Write to payouts@example.org by 15 July.")
    show(*what_you_get(folder / "june" / "statements", COPIER))
    scene("money")
    show(*money(folder / "june", handed))


def write_tables(folder: Path, each: int) -> list[Handed]:
    """The tables of an operator: what authors hand in, what the buyer needs, and a reference sample."""
    corpus = load_corpus("agnews")
    with np.load(data_file("agnews_minilm.npz"), allow_pickle=False) as file:
        vector = file["embeddings"].astype(np.float32)
    rng = np.random.default_rng(2026)
    wanted = SECTIONS.index(WANTED)

    def articles(rows: np.ndarray) -> Articles:
        return Articles(
            corpus.content[rows].tolist(), vector[rows], [SECTIONS[i] for i in corpus.label[rows]]
        )

    test = rng.permutation(np.flatnonzero(~corpus.train))
    held = test[corpus.label[test] == wanted][:NEEDS]
    others = test[~np.isin(test, held)][:REFERENCE]
    left = [rng.permutation(np.flatnonzero(corpus.train & (corpus.label == s))) for s in range(4)]

    def of_sections(counts: np.ndarray) -> Articles:
        rows = np.concatenate([left[s][:n] for s, n in enumerate(counts)])
        for s, n in enumerate(counts):
            left[s] = left[s][n:]
        return articles(rng.permutation(rows))

    handed = [
        Handed(
            f"author-{i + 1:02d}",
            of_sections(rng.multinomial(each, rng.dirichlet([2.0] * 4))),
            _no(each),
        )
        for i in range(AUTHORS)
    ]
    third = each // 3
    known = [
        (a, i) for a, h in enumerate(handed) for i, s in enumerate(h.articles.section) if s == WANTED
    ]
    picked = rng.permutation(len(known))[: each - third]
    stolen = [handed[known[k][0]].articles.of([known[k][1]]) for k in picked]
    copies = reworded(sum(stolen[1:], stolen[0]), rng)
    own = of_sections(np.array([third if s == wanted else 0 for s in range(4)]))
    handed.append(Handed(COPIER, own + copies, np.arange(each) >= third))
    fourth = each // 4
    few = np.array([fourth if s == wanted else (each - fourth) // 3 for s in range(4)])
    handed.append(Handed(PADDER, of_sections(few), _no(int(few.sum()))))
    _write(folder / "texts.parquet", handed)
    for name, rows in (("all-needs", held), ("reference", others)):
        sample = articles(rows)
        columns = {"text": pa.array(sample.text), "embedding": _lists(sample.vector)}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    (folder / "market.toml").write_text(SETTINGS, encoding="utf-8")
    return handed


def _no(n: int) -> np.ndarray:
    return np.zeros(n, dtype=bool)


def _write(path: Path, handed: list[Handed]) -> None:
    """One table, author after author: whoever copies has to have seen it, and comes later."""
    start, day = np.datetime64("2026-06-01T09:00:00"), 0
    parts = []
    for each in handed:
        n = len(each.articles)
        parts.append(
            pa.table(
                {
                    "id": [f"{each.author}-{i:02d}" for i in range(n)],
                    "identity": [each.author] * n,
                    "received": pa.array(start + np.arange(day, day + n) * np.timedelta64(60, "s")),
                    "text": each.articles.text,
                    "embedding": _lists(each.articles.vector),
                }
            )
        )
        day += n
    pq.write_table(pa.concat_tables(parts), path)


def _lists(matrix: np.ndarray) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(
        pa.array(np.ascontiguousarray(matrix).ravel()), matrix.shape[1]
    )


def keep_others(needs: Path, leaks: Path, out: Path) -> None:
    """The buyer's needs without those that somebody's article equals, or nearly: they measure nothing."""
    table, told = pq.read_table(needs), pq.read_table(leaks)["validation_row"].to_pylist()
    pq.write_table(table.filter(pa.array([row not in told for row in range(len(table))])), out)


def what_you_get(statements: Path, author: str) -> list[str]:
    """What a statement says of the money, as text: its first lines, and the units that earn most."""
    [page] = statements.glob(f"{author}-*.html")
    said = page.read_text(encoding="utf-8").partition("<main>")[2].partition("<h2>What you sent")[0]
    lines = re.findall(r"<(?:p|tr)\b[^>]*>(.*?)</(?:p|tr)>", said, flags=re.S)
    texts = [" ".join(html.unescape(re.sub(r"<[^>]+>", " ", line)).split()) for line in lines]
    return [part for text in texts[1:9] for part in textwrap.wrap(text, 104)]


def best_paid(run: Path) -> str:
    """Who gets most."""
    return str(pq.read_table(run / "payments.parquet", columns=["identity"])["identity"][0])


def money(run: Path, handed: list[Handed]) -> list[str]:
    """Where the money went, and where it would have gone by the number of articles, as a table."""
    rows = pq.read_table(run / "clusters.parquet").to_pylist()
    amount = {row["unit"]: row["amount"] for row in rows}
    whole = sum(amount.values())
    units = [
        (each.author, each.articles.section[i] == WANTED, bool(each.copied[i]),
         AMOUNT * amount.get(f"{each.author}-{i:02d}", 0.0) / whole)
        for each in handed for i in range(len(each.articles))
    ]  # fmt: skip
    groups = {
        "everybody: articles of the wanted section, copies aside": [
            u for u in units if u[1] and not u[2]
        ],
        "everybody: articles of other sections": [u for u in units if not u[1]],
        "copier: own articles, of the wanted section": [u for u in units if u[0] == COPIER and not u[2]],
        "copier: reworded copies of such articles of others": [u for u in units if u[2]],
        "padder: articles of the wanted section": [u for u in units if u[0] == PADDER and u[1]],
        "padder: articles of other sections": [u for u in units if u[0] == PADDER and not u[1]],
    }
    lines = [
        "| | articles | EUR, paid by article | EUR, paid by coverage | an article |",
        "|---|---|---|---|---|",
    ]
    for name, some in groups.items():
        got = sum(u[3] for u in some)
        lines.append(
            f"| {name} | {len(some):,} | {AMOUNT * len(some) / len(units):,.2f} | {got:,.2f} "
            f"| {got / len(some):,.2f} |"
        )
    return lines


if __name__ == "__main__":
    main()
