"""The rows of a payout run: its validation rows, its reference rows or its units, as its evidence compares them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes
from datamarket_gym.core.content import keyed_generator
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.narrow import in_order
from datamarket_gym.evidence.threshold.admissibility import IDENTITIES
from datamarket_gym.evidence.threshold.choice import Sample, choose_threshold
from datamarket_gym.payout.checks.contents import unit_images
from datamarket_gym.payout.images import image_bytes, image_tree
from datamarket_gym.payout.inputs import Inputs, read_inputs, utility_oracle, validation_order
from datamarket_gym.payout.kept import places_of
from datamarket_gym.payout.manifest import read_manifest, spec_of
from datamarket_gym.payout.scored import scores_file
from datamarket_gym.payout.spec import PayoutSpec
from datamarket_gym.payout.stages import Places
from datamarket_gym.pipeline.threshold import compared, honest_rows, judged_threshold
from datamarket_gym.units.labels import is_labelled
from datamarket_gym.units.readers.tables import Table
from datamarket_gym.web.threshold.origin import Origin
from datamarket_gym.web.threshold.pool import Contents, RowPool
from datamarket_gym.world.data import Embeddings

_MOST = 20_000  # units of a run that are looked at


def pool_of_run(origin: Origin) -> RowPool:
    """The rows of one part of a run."""
    folder = origin.file
    manifest = read_manifest(folder)
    spec, places = spec_of(manifest), places_of(folder)
    inputs = read_inputs(
        places.submissions,
        places.validation,
        spec,
        reference=places.reference,
        scores=scores_file(spec, places.scores),
    )
    taken = str(manifest["evidence"]["used"])
    if origin.part == "submissions":
        return _units(inputs, spec, places, taken)
    if origin.part == "reference" and inputs.reference is None:
        raise DataMarketError("this run has no reference rows; look at its validation rows")
    return _held(inputs, spec, places, origin.part, taken)


def _units(inputs: Inputs, spec: PayoutSpec, places: Places, taken: str) -> RowPool:
    utility, submission = utility_oracle(inputs, spec), inputs.submission
    some = np.sort(keyed_generator("rows of a run").permutation(len(submission))[:_MOST])
    names = [inputs.ids[i] for i in some.tolist()]
    texts = submission.metadata.get("text")

    def images(rows: Codes) -> list[bytes]:
        found = unit_images(spec, names, places.submissions, rows.tolist())
        return [found[row] for row in rows.tolist()]

    is_image = places.submissions.is_dir() or bool(spec.columns.image and spec.files.images)
    return RowPool(
        "The units of the run",
        Embeddings(
            in_order(compared(submission, utility)[0].vectors, some)[:],
            submission.label[some] if inputs.labelled else None,
            identity=np.array([inputs.identities[code] for code in inputs.owner[some].tolist()]),
        ),
        IDENTITIES,
        lambda: judged_threshold(submission, utility),
        *_shown_by(None if texts is None else texts[some], images if is_image else None),
        names,
        taken=taken,
    )


def _held(inputs: Inputs, spec: PayoutSpec, places: Places, part: Sample, taken: str) -> RowPool:
    """The operator's own rows; validation rows stand in the order of the utility, reference rows in their file's."""
    if part == "validation":
        inputs = replace(inputs, reference=None)
    honest = honest_rows(inputs.submission, utility_oracle(inputs, spec))
    if honest is None:
        raise DataMarketError(
            f"the units of this run have embeddings, and its {part} rows have none; give them those that units have"
        )
    order = validation_order(inputs, spec)
    texts: Sequence[str | None] | None = inputs.validation_text
    if inputs.reference is not None:
        order, texts = np.arange(len(honest.vectors)), inputs.reference.text
    path: Path = getattr(places, part)
    folder = getattr(spec.files, f"{part}_images") or spec.files.images

    def images(rows: Codes) -> list[bytes]:
        return _held_images(path, spec, folder, order[rows])

    is_image = path.is_dir() or bool(spec.columns.image and folder)
    in_order_of_rows = None if texts is None else np.array(texts, dtype=object)[order]
    return RowPool(
        f"The {part} rows of the run",
        Embeddings(honest.vectors, honest.classes if is_labelled(honest.classes) else None),
        "iid",
        partial(choose_threshold, honest, None, measured_on=part),
        *_shown_by(in_order_of_rows, images if is_image else None),
        [f"{part} row {i}" for i in order.tolist()],
        taken=taken,
    )


def _shown_by(texts: NDArray[Any] | None, images: Contents | None) -> tuple[str, Contents | None]:
    """What a row is to look at, and how to get it."""
    if texts is not None:
        return "text", texts.__getitem__
    return ("numbers", None) if images is None else ("image", images)


def _held_images(path: Path, spec: PayoutSpec, folder: str | None, rows: Codes) -> list[bytes]:
    """The image files of some of the operator's rows, by their places in the table or folder."""
    if path.is_dir():
        names = image_tree(path, identities=False).names
        return image_bytes(path, [names[i] for i in rows.tolist()])
    column = Table.open(path).read([str(spec.columns.image)])[0][str(spec.columns.image)].named()
    return image_bytes(Path(str(folder)), [column[i] for i in rows.tolist()])
