"""Two months of 40 contributors with copied and resold articles, recomputed from the formulas of docs/coverage.md."""

import csv
import datetime
import gzip
from decimal import Decimal

import numpy as np
import pytest
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.market.datasets import data_file
from datamarket_gym.market.encoders.base import Ngrams
from repository import require_data

pytestmark = pytest.mark.slow
HEAD = ["article_id", "contributor", "received", "section", "text"]
NAMES = [f"person{i:02d}@example.org" for i in range(40)]
PLAYS = ("", "adds no value", "below a cent")  # reasons of units that count for their payee


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([HEAD[-len(rows[0]) :], *rows])


def edited(text, rng):
    """Leave out, exchange and add a tenth of the words."""
    words = text.split()
    for at in rng.integers(0, len(words) - 6, len(words) // 10 + 1):
        kind = rng.random()
        if kind < 0.4:
            del words[at]
        elif kind < 0.7:
            words[at], words[at + 1] = words[at + 1], words[at]
        else:
            words[at] = f"reported {words[at]}"
    return " ".join(words)


def month(letter, number, texts, again):
    """Date the own articles of every contributor, and after them what is handed in again."""
    start = datetime.datetime(2026, number, 1)
    own = [(NAMES[i % 40], *article) for i, article in enumerate(texts)]
    return [
        [f"{letter}{i:04d}", who, (start + datetime.timedelta(minutes=i)).isoformat(), section, text]
        for i, (who, section, text) in enumerate([*own, *again])
    ]


@pytest.fixture(scope="module")
def market(tmp_path_factory):
    """Pay both months; return the folder, and the articles that are copies."""
    require_data("agnews.csv.gz")
    folder, rng = tmp_path_factory.mktemp("two months"), np.random.default_rng(20)
    with gzip.open(data_file("agnews.csv.gz"), "rt", encoding="utf-8", newline="") as file:
        every = list({row["text"]: (row["label"], row["text"]) for row in csv.DictReader(file)}.values())
    order = iter([every[i] for i in rng.permutation(len(every)) if len(every[i][1].split()) > 15])
    take = lambda n: [next(order) for _ in range(n)]  # noqa: E731
    october, november = take(1200), take(520)
    copies = [("copy.cat", s, edited(t, rng)) for s, t in october[:80]]
    resold = [("fast.words", s, edited(t, rng)) for s, t in october[100:160]]
    mine = [(NAMES[i % 40], *october[i]) for i in range(200, 210)]
    write(folder / "october.csv", month("A", 10, october, copies))
    write(folder / "november.csv", month("B", 11, november, [*resold, *mine]))
    write(folder / "wanted.csv", take(500))
    write(folder / "wanted-november.csv", take(500))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        typed("init", "october.csv", "wanted.csv", "--checks", "0", "--yes")
        pay = ("--amount", "25000", "--no-audit", "--encoder", "ngrams")
        typed("pay", "october.csv", *pay)
        warned = [w for name in ("leak", "loses_half") for w in ("--accept", name)]
        typed("ledger", "approve", "october", *warned)
        typed(
            "pay", "november.csv", *pay, "--validation", "wanted-november.csv", "--acquired", "october"
        )
    return folder


def typed(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output + str(done.exception)


def recomputed(units, wanted, counts):
    """Compute the amounts of EUR 25,000.00 for the units that count: combined similarity, closed form."""
    x, z = (
        np.asarray(Ngrams().encode([row["text"] for row in rows]), float) for rows in (units, wanted)
    )
    length_one = lambda a: a / np.maximum(np.linalg.norm(a, axis=1, keepdims=True), 1e-300)  # noqa: E731
    variance, axes = np.linalg.eigh(np.cov((z - z.mean(0)).T, bias=True))
    variance = np.maximum(variance, 0)
    white = lambda a: length_one((a - z.mean(0)) @ axes / np.sqrt(variance + variance.mean()))  # noqa: E731
    similar = lambda a, b: (length_one(a) @ length_one(b).T + white(a) @ white(b).T) / 2  # noqa: E731
    label, wanted_label = (np.array([row["section"] for row in rows]) for rows in (units, wanted))
    pairs, same = similar(z, z), wanted_label[:, None] == wanted_label
    np.fill_diagonal(same, False)
    c = max(0, np.quantile(pairs[np.triu_indices(len(z), 1)], 0.9))
    cap = np.median(np.where(same, pairs, -1).max(axis=1))
    g = np.clip((similar(z, x) - c) / (cap - c), 0, 1) * (wanted_label[:, None] == label) * counts
    phi = np.zeros(len(units))
    for row in g:
        near = np.argsort(-row)[: np.count_nonzero(row)]
        falls = -np.diff(row[near], append=0) / np.arange(1, len(near) + 1)
        phi[near] += np.cumsum(falls[::-1])[::-1]
    return 25000 * phi / phi.sum()


@pytest.mark.parametrize(("run", "wanted"), [("october", "wanted"), ("november", "wanted-november")])
def test_every_payment_is_the_formulas_to_the_cent(market, run, wanted):
    units, rows = read(market / f"{run}.csv"), {r["unit"]: r for r in read(market / run / "units.csv")}
    amounts = recomputed(
        units,
        read(market / f"{wanted}.csv"),
        [rows[unit["article_id"]]["reason"] in PLAYS for unit in units],
    )
    paid = {row["identity"]: Decimal(row["payment"]) for row in read(market / run / "payments.csv")}
    assert sum(paid.values()) == 25000
    for name, payment in paid.items():
        own = [i for i, unit in enumerate(units) if unit["contributor"] == name]
        assert float(payment) == pytest.approx(amounts[own].sum(), abs=0.01)
        assert sum(Decimal(rows[units[i]["article_id"]]["amount"]) for i in own) == payment


def test_copies_earn_nothing_and_every_honest_contributor_something(market):
    october, november = (read(market / run / "units.csv") for run in ("october", "november"))
    copied = [row for row in october if row["payee"] == "copy.cat"]
    assert sum(row["reason"] == "matched" for row in copied) >= 78  # of 80
    resold = [row for row in november if row["payee"] == "fast.words" or row["unit"] >= "B0580"]
    assert sum(row["reason"].startswith("acquired before") for row in resold) >= 68  # of 70
    for run in ("october", "november"):
        paid = {row["identity"]: Decimal(row["payment"]) for row in read(market / run / "payments.csv")}
        assert min(paid[name] for name in NAMES) > 0
