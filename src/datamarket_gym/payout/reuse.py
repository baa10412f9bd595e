"""What a run takes over from another: the nearest earlier units of units that both have.

Late units come in and a market is paid again: most pairs of units were compared before. What is taken over is decided
by content, unit by unit (`evidence.nearest`), and changes no byte of the run, so that neither the run's id nor its
manifest tells of it; `verify --recompute` works everything out.
"""

from __future__ import annotations

from pathlib import Path

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.evidence.nearest import NearestRows
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import NEAREST, read_manifest, require_as_written
from datamarket_gym.pipeline.records import read_record


def reusable(folder: Path) -> NearestRows:
    """What a finished run has kept; refused where it is not as the run left it."""
    if not (folder / MANIFEST).is_file():
        raise DataMarketError(
            f"{str(folder)!r} is no finished run to re-use anything of; name the folder of one, or leave --reuse out"
        )
    outputs = read_manifest(folder)["outputs"]
    if NEAREST not in outputs:
        raise DataMarketError(
            f"the run in {str(folder)!r} has kept nothing that can be re-used: an older version made it, or it was "
            "priced given earlier runs; leave --reuse out"
        )
    return read_record(require_as_written(folder, outputs, NEAREST), NearestRows)
