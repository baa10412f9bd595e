"""What the peers' scripts share: the file protocol, read without this package, and a game of the identities.

A script is called as ``python SCRIPT VALUATOR IN OUT`` by the Python of the peer's own environment. To a peer every
player is one row, its number; whatever subset of rows it asks for, `Market.worth` answers with U of the units that
those identities submitted: the accuracy of the paper's learner on the validation rows, solved to convergence, and
U(empty) for nobody. Each coalition is fitted once.
"""

import csv
import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


class Market:
    """The market of a folder; ``players`` are its identities, in the order of their names."""

    def __init__(self, folder):
        told = json.loads((folder / "market.json").read_text(encoding="utf-8"))
        if told["protocol"] != 1:
            sys.exit(f"this script knows protocol 1, and was given {told['protocol']}")
        names, self.label, self.features = _table(folder / "units.csv", 3)
        _, self.held_label, self.held = _table(folder / "validation.csv", 0)
        self.players, self.player = np.unique(names[1], return_inverse=True)
        self.empty = 0.0 if told["empty"] == "none" else 1.0 / len(told["classes"])
        self.seed = told["seed"]
        self.rows = np.arange(len(self.players)).reshape(-1, 1)
        self._known = {}

    def worth(self, players):
        """U of the units of some players, given by their numbers in any shape."""
        chosen = tuple(sorted({int(number) for number in np.ravel(players)}))
        if chosen not in self._known:
            self._known[chosen] = self._accuracy(chosen)
        return self._known[chosen]

    def by_player(self, values):
        """The sums of units' values, by player."""
        return np.bincount(self.player, weights=values)

    @property
    def evaluations(self):
        """Coalitions that were fitted."""
        return len(self._known) - (() in self._known)

    def _accuracy(self, chosen):
        if not chosen:
            return self.empty
        mine = np.isin(self.player, chosen)
        label = self.label[mine]
        if len(set(label)) == 1:
            return float((self.held_label == label[0]).mean())
        model = LogisticRegression(tol=1e-9, max_iter=10_000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = make_pipeline(StandardScaler(), model).fit(self.features[mine], label)
        return float((fitted.predict(self.held) == self.held_label).mean())


def _table(path, at):
    """The columns before the label, the labels and the features of a file; ``at`` is the label's place."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file, strict=True))[1:]
    before = [np.array([row[i] for row in rows]) for i in range(at)]
    features = np.array([[float(x) for x in row[at + 1 :]] for row in rows])
    return before, np.array([row[at] for row in rows]), features


def pay(valuators):
    """Read the market, compute the values of the valuator that was asked for, and write them as payments."""
    asked, given, taken = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    market = Market(given)
    started = time.perf_counter()
    values = np.asarray(valuators[asked](market), dtype=float)
    seconds = time.perf_counter() - started
    with (taken / "payments.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["identity", "amount"])
        writer.writerows(zip(market.players.tolist(), values.tolist(), strict=True))
    cost = {"evaluations": market.evaluations, "seconds": seconds}
    (taken / "cost.json").write_text(json.dumps(cost), encoding="utf-8")
