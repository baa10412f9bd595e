"""Evidence that asks the ground truth: the ideal, and the ideal with controlled errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from datamarket_gym.content import keyed_generator
from datamarket_gym.errors import require_in
from datamarket_gym.evidence.base import Edges, EvidenceLayer, View, star
from datamarket_gym.registry import register
from datamarket_gym.typing import Codes


@register("evidence", "oracle_latent")
@dataclass(frozen=True)
class OracleLatent(EvidenceLayer):
    """Ties whatever has the same latent owner: the ideal that also sees through pure splits."""

    needs_oracle: ClassVar[bool] = True

    def edges(self, view: View) -> Edges:
        """A star per latent owner."""
        return star(latent_party(view, self), "oracle_latent")


@register("evidence", "oracle_source")
@dataclass(frozen=True)
class OracleSource(EvidenceLayer):
    """Ties units that derive from the same source unit (trusted provenance)."""

    needs_oracle: ClassVar[bool] = True

    def edges(self, view: View) -> Edges:
        """A star per source unit."""
        source = np.unique(view.truth(self).source, return_inverse=True)[1]
        return star(source, "oracle_source")


@register("evidence", "noisy_oracle_latent")
@dataclass(frozen=True)
class NoisyOracleLatent(EvidenceLayer):
    """The latent oracle with errors: true edges are lost, and false ones appear, independently.

    Each pair of nodes with one latent owner loses its edge with probability ``p_fs`` (false split);
    each pair with different owners gains one with probability ``p_fm`` (false merge).
    """

    p_fs: float = 0.0
    p_fm: float = 0.0
    needs_oracle: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_in("p_fs", self.p_fs, 0.0, 1.0)
        require_in("p_fm", self.p_fm, 0.0, 1.0)

    def edges(self, view: View) -> Edges:
        """Kept true edges and false merges between nodes, each carried by the nodes' first units."""
        _, first = np.unique(view.node, return_index=True)
        party = latent_party(view, self)[first]
        left, right = np.triu_indices(len(first), 1)
        rng = keyed_generator(view.seed, "noisy oracle")
        luck = rng.uniform(size=len(left))
        same = party[left] == party[right]
        kept = np.flatnonzero(same & (luck >= self.p_fs))
        false = np.flatnonzero(~same & (luck < self.p_fm))
        return Edges.concat(
            [
                Edges.of(first[left[kept]], first[right[kept]], "oracle_latent"),
                Edges.of(first[left[false]], first[right[false]], "false_merge"),
            ]
        )


def latent_party(view: View, layer: EvidenceLayer) -> Codes:
    """Per unit, the provider behind it: its owner, or the controller of the identity it is tied to.

    At unit granularity stolen units belong to whom they were stolen from; where all units of an
    identity (or batch) are tied together, the identity as a whole belongs to whoever controls it.
    """
    truth = view.truth(layer)
    if view.granularity == "unit":
        return truth.owner_codes()
    controllers = truth.controllers(view.submission)
    return np.unique(controllers, return_inverse=True)[1][view.submission.identity_codes]
