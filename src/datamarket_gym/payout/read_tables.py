"""The tables of a run, read in one way for whoever pays, verifies or audits by them."""

from __future__ import annotations

from pathlib import Path

from datamarket_gym.payout.file_hashes import FileHashes
from datamarket_gym.payout.intake.times import IntakeLog
from datamarket_gym.payout.labels import LabelledTables, counted_labels, require_label_columns
from datamarket_gym.payout.spec import PayoutSpec
from datamarket_gym.payout.submitted import read_held, read_submitted
from datamarket_gym.units.io import require_two_tables


def read_tables(
    submissions: Path,
    validation: Path,
    reference: Path | None,
    spec: PayoutSpec,
    files: FileHashes,
    log: IntakeLog | None = None,
) -> LabelledTables:
    """The units, the validation rows and, if there are any, the reference rows, with the labels that count.

    The hash of each file is added to ``files``. With a ``log`` times are from it alone.
    """
    require_two_tables(submissions, validation)
    if reference is not None:
        require_two_tables(submissions, reference, "reference")
    require_label_columns({"submissions": submissions, "validation rows": validation}, spec)
    # Tables are read as they come; but how a folder of images is read is up to the validation rows.
    hashes: FileHashes = {}
    held = read_held(validation, spec, hashes) if submissions.is_dir() else None
    rows = read_submitted(submissions, spec, files, held, log)
    held = held or read_held(validation, spec, hashes)
    files |= hashes
    sample = None if reference is None else read_held(reference, spec, files, "reference")
    return counted_labels(rows, held, sample)
