"""Evidence that asks the ground truth: who owns a unit, and which unit it derives from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

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
