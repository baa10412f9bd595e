"""Robust volume: v(all), shared by Shapley values of the space that each one's features span.

Xu, Wu, Foo and Low (2021), "Validation Free and Replication Robust Volume-based Data Valuation".
Features are put into cubes of width omega; X~ has one row per occupied cube, the mean of its rows:

    RV(X) = sqrt(det(X~' X~)) * prod over cubes i of rho_i,    rho_i = 1 + a + ... + a^(phi_i)

with phi_i rows in cube i and a = 1 / (10 r), r the number of rows of all players. Fewer distinct
rows than features span no volume. Labels and validation rows do not count. Values are relative to
the volume of all players, so v(all) = 1. As a payment rule it resists copies, which add rows to occupied
cubes and hardly any volume; it is blind to labels. A player whose value is not positive keeps a
vanishing share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from datamarket_gym.data.content_keys import combined_key
from datamarket_gym.execution.arrays import CoalitionMatrix, Codes, Features, Keys, Values
from datamarket_gym.games import estimate
from datamarket_gym.games.game import Game
from datamarket_gym.mechanism.allocation import Allocation, Provenance, Shares
from datamarket_gym.registry import Range, register

_CHUNK = 256  # coalitions whose cubes are computed at a time
_LEAST = 1e-12  # shares are positive


class VolumeGame(Game):
    """RV of the rows of a coalition; row i has content key ``keys[i]`` and belongs to ``player[i]``."""

    def __init__(self, features: Features, keys: Keys, player: Codes, omega: float) -> None:
        n_players = int(player.max()) + 1
        order = np.lexsort((keys, player))  # by content, so that sums have the same bits in any order
        features, keys, player = features[order], keys[order], player[order]
        own_key = [combined_key(keys[player == p].tolist()) for p in range(n_players)]
        super().__init__(n_players, keys=np.array(own_key, dtype="S64"))
        cube = np.unique(np.floor(features / omega), axis=0, return_inverse=True)[1].ravel()
        self._decay = 1.0 / (10 * len(features))
        self._count = np.zeros((n_players, int(cube.max()) + 1))
        self._sum = np.zeros((*self._count.shape, features.shape[1]))
        np.add.at(self._count, (player, cube), 1.0)
        np.add.at(self._sum, (player, cube), features)
        self._all = float(self._log_volumes(np.ones((1, n_players), dtype=bool))[0])

    def _evaluate(self, coalitions: CoalitionMatrix) -> Values:
        if not np.isfinite(self._all):  # all rows together span no volume
            return np.zeros(len(coalitions))
        blocks = (coalitions[at : at + _CHUNK] for at in range(0, len(coalitions), _CHUNK))
        return np.exp(np.concatenate([self._log_volumes(block) for block in blocks]) - self._all)

    def _log_volumes(self, coalitions: CoalitionMatrix) -> Values:
        """Compute log RV of each coalition; -inf where its rows do not span the space."""
        shared = (self._count > 0).sum(axis=0) > 1
        chosen = coalitions.astype(float)
        # Cubes of one player only add up: their part of X~' X~ is the same in every coalition.
        alone = np.where(self._count > 0, self._count, 1.0)[:, ~shared, None]
        means = self._sum[:, ~shared] / alone
        gram = np.einsum("bp,pde->bde", chosen, np.einsum("pcd,pce->pde", means, means))
        count = np.einsum("bp,pc->bc", chosen, self._count[:, shared])
        mean = np.einsum("bp,pcd->bcd", chosen, self._sum[:, shared])
        mean /= np.where(count > 0, count, 1.0)[:, :, None]
        gram += np.einsum("bcd,bce->bde", mean, mean)
        own = np.log1p(self._bonus(self._count[:, ~shared])).sum(axis=1)
        bonus = np.einsum("bp,p->b", chosen, own) + np.log1p(self._bonus(count)).sum(axis=1)
        cubes = chosen @ (self._count[:, ~shared] > 0).sum(axis=1) + (count > 0).sum(axis=1)
        with np.errstate(divide="ignore"):  # log of a zero determinant
            log_det = np.linalg.slogdet(gram)[1]
        return np.where(cubes >= gram.shape[1], log_det / 2 + bonus, -np.inf)

    def _bonus(self, count: Values) -> Values:
        """Compute rho - 1 = a + a^2 + ... + a^count."""
        return self._decay * (1 - self._decay**count) / (1 - self._decay)


@register("allocation", "robust_volume")
@dataclass(frozen=True)
class RobustVolume(Allocation):
    """Share a cluster by the Shapley value of the volume that units fill, labels aside."""

    title = "by robust volume"

    omega: Annotated[float, Range(0, open_low=True), "width of the cubes"] = 0.1

    def shares(self, provenance: Provenance) -> Shares:
        submission, label = provenance.submission, provenance.clusters.label
        parts = []
        for cluster in range(provenance.clusters.n_clusters):
            rows = np.flatnonzero(label == cluster)
            present, player = np.unique(submission.identity_codes[rows], return_inverse=True)
            if len(present) == 1:  # whatever it spans
                parts.append((np.full(1, cluster), present, np.ones(1)))
                continue
            game = VolumeGame(submission.features[rows], submission.keys[rows], player, self.omega)
            value = estimate(game).values
            value = np.maximum(value, _LEAST * max(1.0, float(np.abs(value).sum())))
            parts.append((np.full(len(present), cluster), present, value / value.sum()))
        cluster_of, identity, share = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Shares(cluster_of, identity, share)
