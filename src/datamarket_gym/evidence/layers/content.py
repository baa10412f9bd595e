"""Evidence from content or a column: nothing, everything, exact hashes, cosine similarity, equal metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.content_keys import DECIMALS, DistinctRows, unit_keys
from datamarket_gym.data.submission import Submission
from datamarket_gym.errors import ParameterError, SubmissionError
from datamarket_gym.evidence.graph import Edges, EvidenceLayer, View, star
from datamarket_gym.evidence.similarity_search import nearest_acquired
from datamarket_gym.evidence.spanning_forest import SPANNING, similar_pairs
from datamarket_gym.execution.arrays import Codes, taken
from datamarket_gym.registry import Range, register


def raw_content(submission: Submission, kind: str, layer: str) -> tuple[Codes, NDArray[Any]]:
    """Return the rows that carry content of this kind, and the content; blank cells match nothing."""
    if kind not in submission.metadata:
        raise SubmissionError(
            f"evidence {layer!r} compares {kind}s, but the submission has no column {kind!r}; "
            "add it, or use cosine evidence on the embeddings"
        )
    column = submission.metadata[kind]
    rows = np.flatnonzero([bool(item) for item in column.tolist()])
    return rows, column[rows]


COSINE = "cosine"

Theta = Annotated[
    float, Range(-1, 1, open_low=True), "theta; the cosine similarity from which on two units match"
]


@register("evidence", "none")
@dataclass(frozen=True)
class NoEvidence(EvidenceLayer):
    """Match nothing: every node (identity, batch or unit) is a player of its own."""

    title = "no evidence"

    def edges(self, view: View) -> Edges:
        return Edges.none()


@register("evidence", "pool")
@dataclass(frozen=True)
class Pool(EvidenceLayer):
    """Match everything into one cluster, for rules that share the value of all data by head or by count."""

    title = "everything in one cluster"

    same_content: ClassVar[bool] = False

    def edges(self, view: View) -> Edges:
        return star(np.zeros(len(view.submission), dtype=np.int64), "pool")


@register("evidence", "exact_hash")
@dataclass(frozen=True)
class ExactHash(EvidenceLayer):
    """Match units whose content is the same after rounding."""

    title = "identical content"

    decimals: Annotated[int, "decimals; numbers are compared after rounding to so many"] = DECIMALS

    def edges(self, view: View) -> Edges:
        keys = unit_keys(view.submission.features, view.submission.label, self.decimals)
        return star(np.unique(keys, return_inverse=True)[1], "exact_hash")


@register("evidence", "cosine")
@dataclass(frozen=True)
class Cosine(EvidenceLayer):
    """Match units whose cosine similarity is at least theta."""

    title = "cosine similarity"

    theta: Theta
    by_similarity: ClassVar[bool] = True

    def edges(self, view: View) -> Edges:
        """Return pairs of different nodes at or above theta; identical vectors as a star.

        All pairs up to `MOST_PAIRS`; where there are more, their maximum spanning forest, which makes the same
        clusters, under a reason of its own (`SPANNING`). Where the first units are acquired ones, each new one is
        matched with the nearest of these: a star of two copies would match one alone.
        """
        vectors = view.submission.vectors
        if view.n_acquired:
            require_directions(DistinctRows(vectors))
            acquired = taken(vectors, slice(view.n_acquired))
            units = taken(vectors, slice(view.n_acquired, None))
            old, cosine = nearest_acquired(acquired, units, self.theta)
            new = np.flatnonzero(old >= 0)
            return Edges.of(old[new], view.n_acquired + new, COSINE, cosine[new])
        rows = DistinctRows(vectors)
        require_directions(rows)
        place = rows.distinct
        pairs = similar_pairs(rows, self.theta, view.node[place])
        reason = COSINE if pairs.whole else SPANNING
        edges = Edges.of(place[pairs.left], place[pairs.right], reason, pairs.cosine)
        return Edges.concat([star(rows.first, COSINE), edges])


def require_directions(rows: DistinctRows) -> None:
    """Refuse rows of zeros, which have no direction."""
    zero = np.flatnonzero(~np.isin(rows.first, rows.distinct))
    if len(zero):
        raise SubmissionError(
            f"the embedding of row {zero[0]} has zero norm, so its cosine is undefined; "
            "remove the unit or embed it again"
        )


@register("evidence", "hybrid_hash_cosine")
@dataclass(frozen=True)
class HybridHashCosine(EvidenceLayer):
    """Match units that are identical, or whose cosine similarity is at least theta."""

    title = "identical content or cosine similarity"

    theta: Theta
    by_similarity: ClassVar[bool] = True

    def edges(self, view: View) -> Edges:
        return Edges.concat([ExactHash().edges(view), Cosine(self.theta).edges(view)])


@register("evidence", "metadata")
@dataclass(frozen=True)
class Metadata(EvidenceLayer):
    """Match units that agree in a ``column`` of the submission; an empty cell agrees with nothing.

    The column is believed: use one that the operator fills in, such as a watermark id, a licence or a device. Where
    submitters fill it in, a copied value matches a unit of another, and a changed one unmatches a copy.
    """

    title = "same metadata"

    column: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.column.strip():
            raise ParameterError("column", self.column, "name a column, as in metadata@licence")

    def edges(self, view: View) -> Edges:
        """Match all units of a value with the first of them."""
        codes = value_codes(view.submission, self.column)
        filled = np.flatnonzero(codes >= 0)
        return star(codes[filled], f"same {self.column}").at(filled)


def value_codes(submission: Submission, column: str) -> Codes:
    """Number the values of a column in their own order: one code per unit, -1 where the cell is empty."""
    values = submission.column(column)
    number = {value: code for code, value in enumerate(sorted({v for v in values if v is not None}))}
    return np.array([-1 if value is None else number[value] for value in values], dtype=np.int64)
