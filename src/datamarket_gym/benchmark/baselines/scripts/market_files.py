"""What the baselines' scripts share: the file protocol, read without this package, and a game of the identities.

A script is called as ``python SCRIPT VALUATOR IN OUT`` by the Python of its own environment. To a library every
player is one row, its number; whatever subset of rows it asks for, `Market.worth` answers with U of the units that
those identities submitted, by the market's own learner, and U(empty) for none. Each coalition is valued once.

Up to `EXACT` players a baseline goes through all subsets, where it can; of more it samples `ORDERS` orders, or about as
many coalitions as these have.
"""

import csv
import json
import sys
import time
from pathlib import Path

import numpy as np

from utilities import UTILITIES

EXACT, ORDERS = 10, 250


class Market:
    """The market of a folder; ``players`` are its identities, in the order of what they submitted."""

    def __init__(self, folder):
        market = json.loads((folder / "market.json").read_text(encoding="utf-8"))
        if market["protocol"] != 1:
            sys.exit(f"this script knows protocol 1, and was given {market['protocol']}")
        names, self.label, self.features = _table(folder / "units.csv", 3)
        _, self.held_label, self.held = _table(folder / "validation.csv", 0)
        self.players, self.player = _players(names[1], self.label, self.features)
        self.empty = 0.0 if market["empty"] == "none" else 1.0 / len(market["classes"])
        self.seed = market["seed"]
        self.rows = np.arange(len(self.players)).reshape(-1, 1)
        self._utility = UTILITIES[market["learner"]](self)
        self._known = {}

    def worth(self, players):
        """Return U of the units of some players, given by their numbers in any shape."""
        chosen = tuple(sorted({int(number) for number in np.ravel(players)}))
        if chosen not in self._known:
            self._known[chosen] = self._utility(chosen) if chosen else self.empty
        return self._known[chosen]

    @property
    def few(self):
        return len(self.players) <= EXACT

    def by_player(self, values):
        return np.bincount(self.player, weights=values)

    @property
    def evaluations(self):
        return len(self._known) - (() in self._known)


def _players(names, label, features):
    """Return the identities and each unit's, by content: what is drawn has nothing to do with names."""
    distinct, codes = np.unique(names, return_inverse=True)
    content = [[] for _ in distinct]
    for code, *unit in zip(codes.tolist(), label.tolist(), features.tolist(), strict=True):
        content[code].append(unit)
    order = np.array(sorted(range(len(distinct)), key=lambda i: sorted(content[i])))
    return distinct[order], np.argsort(order)[codes]


def _table(path, at):
    """Return the columns before the label, the labels and the features of a file; ``at`` is the label's place."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file, strict=True))[1:]
    before = [np.array([row[i] for row in rows]) for i in range(at)]
    features = np.array([[float(x) for x in row[at + 1 :]] for row in rows])
    return before, np.array([row[at] for row in rows]), features


def pay(valuators):
    """Read the market, compute the values of the valuator that is asked for, and write them as payments."""
    valuator, given, taken = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    market = Market(given)
    started = time.perf_counter()
    values = np.asarray(valuators[valuator](market), dtype=float)
    seconds = time.perf_counter() - started
    with (taken / "payments.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["identity", "amount"])
        writer.writerows(zip(market.players.tolist(), values.tolist(), strict=True))
    cost = {"evaluations": market.evaluations, "seconds": seconds}
    (taken / "cost.json").write_text(json.dumps(cost), encoding="utf-8")
