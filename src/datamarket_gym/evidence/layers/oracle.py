"""Evidence that asks the ground truth (who owns a unit, which unit it derives from), and its errors.

In the noisy oracle a true edge (two nodes of one owner) is lost with probability p_fs, a false one (nodes of different
owners) appears with p_fm. ``pairs`` "node" draws a false match for every pair of nodes; "owner" draws one for every
pair of *owners* and then matches all their nodes, so that errors are shared by all names of a provider. ``prone`` makes
a pair's probability p times a proneness that averages one over the pairs of its kind (cut at probability one):

- "even": one for all;
- "size": in proportion to the product of the two sides' unit counts for false matches, to its inverse for missed ones;
- "density": twice the rank (in 0..1) of the largest cosine similarity between the two sides for false matches, of its
  opposite for missed ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from datamarket_gym.data.content_keys import keyed_generator
from datamarket_gym.evidence.graph import Edges, EvidenceLayer, View, star
from datamarket_gym.evidence.layers.content import Cosine, Theta
from datamarket_gym.execution.arrays import Codes, Values
from datamarket_gym.registry import OneOf, Range, register


@register("evidence", "oracle_latent")
@dataclass(frozen=True)
class OracleLatent(EvidenceLayer):
    """Match what truly has one owner: the ideal, which also sees through pure splits."""

    title = "true owner (oracle)"

    needs_oracle: ClassVar[bool] = True

    def edges(self, view: View) -> Edges:
        return star(latent_party(view, self), "oracle_latent")


@register("evidence", "oracle_source")
@dataclass(frozen=True)
class OracleSource(EvidenceLayer):
    """Match units that truly derive from the same source unit."""

    title = "true source (oracle)"

    needs_oracle: ClassVar[bool] = True

    def edges(self, view: View) -> Edges:
        source = np.unique(view.truth(self).source, return_inverse=True)[1]
        return star(source, "oracle_source")


def latent_party(view: View, layer: EvidenceLayer) -> Codes:
    """Return the provider behind each unit.

    At unit granularity stolen units belong to their true owner; where all units of an identity (or batch) are matched,
    the identity as a whole belongs to its controller.
    """
    truth = view.truth(layer)
    if view.granularity == "unit":
        return truth.owner_codes()
    controllers = truth.controllers(view.submission)
    return np.unique(controllers, return_inverse=True)[1][view.submission.identity_codes]


@register("evidence", "noisy_oracle_latent")
@dataclass(frozen=True)
class NoisyOracleLatent(EvidenceLayer):
    """Match what truly has one owner, with matches that are missed and matches that are wrong."""

    title = "true owner with errors (oracle)"

    p_fs: Annotated[float, Range(0, 1), "share of true matches that are missed"] = 0.0
    p_fm: Annotated[float, Range(0, 1), "probability of a false match"] = 0.0
    pairs: Annotated[str, OneOf("node", "owner"), "what errors strike"] = "node"
    prone: Annotated[str, OneOf("even", "size", "density"), "who is prone to errors"] = "even"
    needs_oracle: ClassVar[bool] = True

    def edges(self, view: View) -> Edges:
        """Return true edges that are not lost and false ones, each between the first units of two nodes."""
        _, first = np.unique(view.node, return_index=True)
        unit_party = latent_party(view, self)
        party = unit_party[first]
        left, right = np.triu_indices(len(first), 1)
        rng = keyed_generator(view.seed, "noisy oracle")
        luck = rng.uniform(size=len(left))
        same = party[left] == party[right]
        true, false = np.flatnonzero(same), np.flatnonzero(~same)
        prone = self._proneness(view, view.node, left[true], right[true])[0]
        true = true[luck[true] >= self.p_fs * prone]
        if self.pairs == "node":
            prone = self._proneness(view, view.node, left[false], right[false])[1]
            false = false[luck[false] < self.p_fm * prone]
        else:
            n = int(party.max()) + 1
            a, b = np.triu_indices(n, 1)
            prone = self._proneness(view, unit_party, a, b)[1]
            joined = np.zeros((n, n), dtype=bool)
            joined[a, b] = rng.uniform(size=len(a)) < self.p_fm * prone
            false = false[(joined | joined.T)[party[left[false]], party[right[false]]]]
        edges = [Edges.of(left[true], right[true], "oracle_latent")]
        edges.append(Edges.of(left[false], right[false], "false_merge"))
        return Edges.concat(edges).at(first)

    def _proneness(self, view: View, side: Codes, a: Codes, b: Codes) -> tuple[Values, Values]:
        """Measure how prone each pair of sides (a[i], b[i]) is to a false split and to a false merge."""
        if self.prone == "even" or not len(a):
            return np.ones(len(a)), np.ones(len(a))
        if self.prone == "size":
            size = np.bincount(side).astype(float)
            product = size[a] * size[b]
            return (1 / product) / (1 / product).mean(), product / product.mean()
        rank = (_ranks(_closeness(view, side)[a, b]) + 0.5) / len(a)
        return 2 * (1 - rank), 2 * rank


def _closeness(view: View, side: Codes) -> Values:
    """Compute the largest cosine similarity between the units of any two sides."""
    vectors = view.submission.vectors
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(float).tiny)
    order = np.argsort(side, kind="stable")
    starts = np.searchsorted(side[order], np.arange(int(side.max()) + 1))
    largest = np.maximum.reduceat(unit[order] @ unit[order].T, starts, axis=0)
    closeness: Values = np.maximum.reduceat(largest, starts, axis=1)
    return closeness


def _ranks(values: Values) -> Values:
    """Rank values from 0; equal ones share their mean rank."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(values) - 1.0)


@register("evidence", "hybrid_source_cosine")
@dataclass(frozen=True)
class HybridSourceCosine(EvidenceLayer):
    """Match units with a common source, or whose cosine similarity is at least theta."""

    title = "true source or cosine similarity (oracle)"

    theta: Theta
    needs_oracle: ClassVar[bool] = True
    by_similarity: ClassVar[bool] = True

    def edges(self, view: View) -> Edges:
        view.truth(self)
        return Edges.concat([OracleSource().edges(view), Cosine(self.theta).edges(view)])
