"""Quotient semivalues in one file, in NumPy and scikit-learn: `python examples/quotient_semivalues.py`.

A market pays providers of training data by the Shapley value of a game: what accuracy does a model reach that is
trained on the data of a coalition? The players are the identities that submit data. A provider who submits under
more identities plays another game, and is often paid more in it. A quotient semivalue changes the players: units
that evidence takes for the same thing form a cluster, a canonical representative of each cluster plays in its
place, and what a cluster earns is divided among the identities in it.

The file has the order of the paper (Burnat and Davidson, "Quotient Semivalues for False-Name-Resistant Data
Attribution"). It enumerates the 2^K coalitions of K clusters, so it is for small markets. The library computes the
same payments: `tests/test_quotient_semivalues_example.py` compares the two.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.special import beta, comb
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize

# ---- 1. The market: providers own units and submit them under identities


class Profile(NamedTuple):
    """A submitted profile: arrays with one entry per unit, in the order in which the units were submitted."""

    features: np.ndarray  # features and label are the payload pi(u)
    label: np.ndarray
    identity: np.ndarray  # o(u), the identity that submits the unit
    source: np.ndarray  # the id of the unit that this one copies, or its own id
    owner: np.ndarray  # the provider behind the identity, which no mechanism sees but the owner oracle


def draw_market(n_providers, per_provider, seed, n_classes=4, n_validation=200):
    """Draw an honest profile and the validation set; three in four units of provider i are of class i mod 4."""
    rng = np.random.default_rng(seed)
    n_units = n_providers * per_provider
    # Four times the units that are submitted are drawn, so that no class runs out.
    X, y = make_classification(
        4 * n_units + n_validation, n_classes=n_classes, n_features=24, n_informative=7, n_redundant=0,
        n_clusters_per_class=1, class_sep=1.2, random_state=seed,
    )  # fmt: skip
    pool = [list(n_validation + np.flatnonzero(y[n_validation:] == c)) for c in range(n_classes)]
    rows = []
    for provider in range(n_providers):
        mixture = np.where(np.arange(n_classes) == provider % n_classes, 0.75, 0.25 / (n_classes - 1))
        rows += [pool[c].pop() for c in rng.choice(n_classes, per_provider, p=mixture)]
    owner = np.repeat(np.arange(n_providers), per_provider)
    honest = Profile(X[rows], y[rows], identity=owner, source=np.arange(n_units), owner=owner)
    return honest, X[:n_validation], y[:n_validation]


# ---- 2. The attack: provider 0 submits something else than its units, once, under one identity


def split(honest, rng, k=3):
    """Return the profile in which provider 0 deals out its units to ``k`` identities (a pure split)."""
    own = np.flatnonzero(honest.owner == 0)
    identity = honest.identity.copy()
    for part in range(1, k):  # the first part stays with the original identity
        identity[own[part::k]] = honest.identity.max() + part
    return honest._replace(identity=identity)


def duplicate(honest, rng, sigma=0.0):
    """Return the profile in which provider 0 also submits half of its units under each of two more identities."""
    own = np.flatnonzero(honest.owner == 0)
    copied = np.sort(rng.choice(own, round(len(own) / 2), replace=False))
    profiles = [honest]
    for identity in honest.identity.max() + np.array([1, 2]):
        copy = Profile(*(column[copied] for column in honest))
        noise = sigma * rng.normal(size=copy.features.shape)  # near duplicates if sigma > 0
        copy = copy._replace(features=copy.features + noise, identity=np.full(len(copied), identity))
        profiles.append(copy)
    return Profile(*map(np.concatenate, zip(*profiles, strict=True)))


# ---- 3. The evidence graph: e_theta(u, u') as a boolean matrix, so that evidence combines by | and &


def cosine(profile, theta=0.99):
    """Return the edges between units whose features have a cosine similarity of at least ``theta``."""
    direction = normalize(profile.features)
    return direction @ direction.T >= theta


def same(column):
    """Return the edges between units with equal entries: of one source, owner or identity."""
    return column[:, None] == column


def attribution_clusters(profile, edges, level):
    """Return the cluster of each unit: C_1, ..., C_K are the connected components of the evidence graph."""
    if level == "identity":  # all units of an identity are one node; at level "unit" each unit is one
        edges = edges | same(profile.identity)
    return connected_components(edges, directed=False)[1]


# ---- 4. The canonical representative R_theta(C_k): the units of each cluster that train the model


def keep_all(profile, cluster):
    """Keep all units, copies included."""
    return np.arange(len(cluster))


def collapse(profile, cluster):
    """Keep the earliest of identical units of a cluster (exact-duplicate collapse)."""
    content = np.column_stack([cluster, profile.label, profile.features])
    return np.unique(content, axis=0, return_index=True)[1]  # the first row of each content


def earliest(profile, cluster):
    """Keep the earliest unit of each cluster (capped representative, kappa = 1)."""
    return np.unique(cluster, return_index=True)[1]


# ---- 5. The quotient game: v(Q) = U(A(union of R(C_k), k in Q)) - U(A(empty))


class Utility:
    """U(A(T)): validation accuracy of logistic regression trained on the multiset T; U(A(empty)) = 0."""

    def __init__(self, validation_features, validation_label):
        self.validation = validation_features, validation_label
        self.known = {}  # a multiset of rows is fitted once, whichever coalition of whichever profile it is

    def __call__(self, features, label):
        """Return U of the model that is trained on these rows, in whatever order they are."""
        rows = np.column_stack([label, features])
        order = np.lexsort(rows.T)
        key = rows[order].tobytes()
        if key not in self.known:
            self.known[key] = self._accuracy(features[order], label[order])
        return self.known[key]

    def _accuracy(self, features, label):
        if len(label) == 0:
            return 0.0
        if (label == label[0]).all():  # a single class predicts that class
            return np.mean(self.validation[1] == label[0])
        # Standardised on the coalition's own rows, and solved to convergence: under a loose tolerance the
        # accuracy, and so the payment, would depend on the solver.
        regression = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-10, max_iter=1000)
        return make_pipeline(StandardScaler(), regression).fit(features, label).score(*self.validation)


def quotient_game(profile, cluster, kept, utility):
    """Return v of all 2^K coalitions; cluster k is in coalition Q if bit k of Q is set."""
    union = (kept[Q >> cluster[kept] & 1 == 1] for Q in range(2 ** (cluster.max() + 1)))
    value = np.array([utility(profile.features[rows], profile.label[rows]) for rows in union])
    return value - value[0]


# ---- 6. The semivalue: weights omega_{K,s} of the coalitions of s = 0, ..., K - 1 other clusters

WEIGHTS = {  # each up to a factor, which follows from sum_s C(K-1, s) omega_{K,s} = 1
    "shapley": lambda K, s: 1 / comb(K - 1, s),  # omega_{K,s} = 1 / (K C(K-1, s))
    "banzhaf": lambda K, s: np.ones(K),  # omega_{K,s} = 2^-(K-1)
    "beta": lambda K, s: beta(s + 2, K - 1 - s + 2),  # Beta(2, 2)-Shapley
}


def semivalue(value, name):
    """Return phi_k = sum over Q without k of omega_{K,|Q|} (v(Q + k) - v(Q)), for every k, by enumeration."""
    coalitions = np.arange(len(value))
    K = len(value).bit_length() - 1
    omega = WEIGHTS[name](K, np.arange(K))
    omega = omega / (comb(K - 1, np.arange(K)) @ omega)
    phi = np.empty(K)
    for k in range(K):
        Q = coalitions[coalitions >> k & 1 == 0]
        phi[k] = omega[np.bitwise_count(Q)] @ (value[Q | 1 << k] - value[Q])
    return phi


# ---- 7. The allocation: shares a_{j,k} of identities in clusters, sum_j a_{j,k} = 1, and the payments


def equal_shares(identity, cluster, kept):
    """Return a_{j,k} = 1 / |I_k|, where I_k are the identities with a unit in cluster k."""
    present = np.zeros((identity.max() + 1, cluster.max() + 1))
    present[identity, cluster] = 1
    return present / present.sum(axis=0)


def count_shares(identity, cluster, kept):
    """Return a_{j,k} proportional to |R(C_k) and S_j|: whoever submitted a kept unit owns it."""
    count = np.zeros((identity.max() + 1, cluster.max() + 1))
    np.add.at(count, (identity[kept], cluster[kept]), 1)
    return count / count.sum(axis=0)


def pay(profile, utility, evidence=None, level="identity", representative=keep_all,
        weights="shapley", shares=equal_shares):  # fmt: skip
    """Return p_j = sum_k a_{j,k} phi_k per identity; the defaults are Shapley over submitted identities."""
    edges = evidence(profile) if evidence else np.eye(len(profile.label), dtype=bool)
    cluster = attribution_clusters(profile, edges, level)
    kept = representative(profile, cluster)
    phi = semivalue(quotient_game(profile, cluster, kept, utility), weights)
    names, identity = np.unique(profile.identity, return_inverse=True)
    return dict(zip(names.tolist(), shares(identity, cluster, kept) @ phi, strict=True))


# ---- 8. The manipulation gain: attacked over honest payment of the attacker, 1 = no gain


def gain(honest, attacked, utility, **mechanism):
    """Return G_0 = sum of p_j(attacked) over the identities j of provider 0, over p_0(honest)."""
    own = set(attacked.identity[attacked.owner == 0].tolist())
    payments = pay(attacked, utility, **mechanism)
    return sum(payments[j] for j in own) / pay(honest, utility, **mechanism)[0]


ATTACKS = {
    "split into 3 identities": split,
    "exact duplicates in 2 more identities": duplicate,
    "near duplicates in 2 more identities": lambda honest, rng: duplicate(honest, rng, sigma=0.03),
}
MECHANISMS = {  # the first is Shapley over submitted identities; the next two are at level "identity"
    "Shapley": {},
    "quotient, cosine": {"evidence": cosine, "representative": collapse},
    "quotient, owner": {"evidence": lambda profile: same(profile.owner), "representative": collapse},
    "quotient of units": {"evidence": cosine, "level": "unit", "representative": earliest},
}

if __name__ == "__main__":
    # 9 clusters at level "unit", so 2^9 fits. Without that column 8 providers of 60 units, as in the paper, do.
    honest, *validation = draw_market(n_providers=3, per_provider=3, seed=0)
    utility = Utility(*validation)
    print("3 providers of 3 units, accuracy of logistic regression, U(empty) = 0, seed 0")  # noqa: T201
    print("Ratio of attacked to honest payment of provider 0 (1 = no gain):\n")  # noqa: T201
    print(" " * 38, *MECHANISMS, sep="   ")  # noqa: T201
    for name, attack in ATTACKS.items():
        attacked = attack(honest, np.random.default_rng(0))
        cells = (f"{gain(honest, attacked, utility, **m):{len(t)}.2f}" for t, m in MECHANISMS.items())
        print(name.ljust(38), *cells, sep="   ")  # noqa: T201
