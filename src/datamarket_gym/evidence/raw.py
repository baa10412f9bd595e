"""Raw content of a submission: a metadata column named after its kind."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.errors import SubmissionError
from datamarket_gym.typing import Codes
from datamarket_gym.units.submission import Submission


def raw_content(submission: Submission, kind: str, layer: str) -> tuple[Codes, NDArray[Any]]:
    """Rows that carry content of this kind, and the content.

    Rows with none (blank: generated units of which only the embedding is known) are left out: a
    layer ties them to nothing.
    """
    if kind not in submission.metadata:
        raise SubmissionError(
            f"evidence {layer!r} compares {kind}s, but the submission has no column {kind!r}; "
            "add it, or use cosine evidence on the embeddings"
        )
    column = submission.metadata[kind]
    rows = np.flatnonzero([bool(item) for item in column.tolist()])
    return rows, column[rows]
