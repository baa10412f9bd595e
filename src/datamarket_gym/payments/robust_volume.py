"""Robust volume as a payment rule: v(all), shared by Shapley values of the volume each one adds.

The rule resists copies, which add rows to occupied cubes and hardly any volume; it is blind to
labels. A player whose Shapley value of volume is not positive keeps a vanishing share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from datamarket_gym.core.errors import require_in
from datamarket_gym.core.registry import register
from datamarket_gym.payments.shares import Allocation, Provenance, Shares
from datamarket_gym.payments.volume_game import VolumeGame
from datamarket_gym.semivalues import Valuator

_LEAST = 1e-12  # shares are positive


@register("allocation", "robust_volume")
@dataclass(frozen=True)
class RobustVolume(Allocation):
    """Shares by the Shapley value of robust volume (cubes of width ``omega``) within the cluster."""

    omega: float = 0.1

    def __post_init__(self) -> None:
        require_in("omega", self.omega, 0.0, np.inf, open_low=True)

    def shares(self, provenance: Provenance) -> Shares:
        """One part per identity with a unit in the cluster."""
        submission, label = provenance.submission, provenance.clusters.label
        parts = []
        for cluster in range(provenance.clusters.n_clusters):
            rows = np.flatnonzero(label == cluster)
            present, player = np.unique(submission.identity_codes[rows], return_inverse=True)
            game = VolumeGame(submission.features[rows], submission.keys[rows], player, self.omega)
            value = Valuator().fit(game).values
            value = np.maximum(value, _LEAST * max(1.0, float(np.abs(value).sum())))
            parts.append((np.full(len(present), cluster), present, value / value.sum()))
        cluster_of, identity, share = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Shares(cluster_of, identity, share)


@register("mechanism", "robust_volume")
def _robust_volume() -> dict[str, Any]:
    """v(all) by the Shapley value of robust volume over submitted identities; ignores labels."""
    return {"evidence": "pool", "allocation": "robust_volume"}
