"""What coalitions of identities are worth, by the learner that the market names; without this package.

Each makes of a market's rows a function from the numbers of some players, at least one, to U of their units:

    logistic   accuracy of logistic regression on standardised features, solved to convergence
    coverage   mean over validation rows of the best similarity to a unit of their label, from that of strangers on
    knn        mean over validation rows of the share of the 5 nearest units that have their label
"""

import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

NEIGHBOURS = 5


def logistic(market):
    def worth(chosen):
        mine = np.isin(market.player, chosen)
        label = market.label[mine]
        if len(set(label)) == 1:
            return float((market.held_label == label[0]).mean())
        model = LogisticRegression(tol=1e-9, max_iter=10_000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = make_pipeline(StandardScaler(), model).fit(market.features[mine], label)
        return float((fitted.predict(market.held) == market.held_label).mean())

    return worth


def coverage(market):
    validation, units = _directions(market)
    strangers = max(
        0.0, float(np.quantile((validation @ validation.T)[np.triu_indices(len(validation), 1)], 0.5))
    )
    alike = np.where(market.held_label[:, None] == market.label, validation @ units.T, -1.0)
    covered = np.clip((alike - strangers) / (1.0 - strangers), 0.0, 1.0)
    best = np.array([covered[:, market.player == i].max(axis=1) for i in range(len(market.players))])
    return lambda chosen: float(best[list(chosen)].max(axis=0).mean())


def knn(market):
    apart = ((market.held[:, None, :] - market.features) ** 2).sum(axis=2)
    order = np.array([np.lexsort((market.label, row)) for row in apart])
    place = np.argsort(order, axis=1)
    agrees = np.take_along_axis(market.held_label[:, None] == market.label, order, axis=1)
    nearest = [np.sort(place[:, market.player == i])[:, :NEIGHBOURS] for i in range(len(market.players))]

    def worth(chosen):
        neighbours = np.concatenate([nearest[i] for i in chosen], axis=1)
        first = np.sort(neighbours, axis=1)[:, :NEIGHBOURS]
        return float(np.take_along_axis(agrees, first, axis=1).mean())

    return worth


def _directions(market):
    """Return validation rows and units as directions: of standardised columns where the rows look like a table's."""
    differ = market.held.max(axis=0) > market.held.min(axis=0)
    spread = market.held[:, differ].std(axis=0)
    together, n = _unit(market.held).sum(axis=0), len(market.held)
    table = spread.max() >= 10 * np.median(spread) or together @ together - n >= 0.9 * n * (n - 1)
    if not table:
        return _unit(market.held), _unit(market.features)
    middle = market.held[:, differ].mean(axis=0)
    return tuple(_unit((rows[:, differ] - middle) / spread) for rows in (market.held, market.features))


def _unit(rows):
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)


UTILITIES = {"logistic": logistic, "coverage": coverage, "knn": knn, "knn@5": knn}
