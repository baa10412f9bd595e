"""What the page can choose from: rows, partitions, and attacks that make variants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.progress import Progress
from datamarket_gym.core.registry import components, describe
from datamarket_gym.payout.manifest import read_manifest
from datamarket_gym.web.threshold.answers import SHOWN, ThetaOptions
from datamarket_gym.web.threshold.origin import PARTS, SYNTHETIC
from datamarket_gym.world.data import DOMAINS, find

_WITH_VALUES = {"dominant_class": "dominant_class@0.75", "dirichlet": "dirichlet@0.5"}
_VARIANTS = (
    "near_duplicate_2x_sybils@0.02", "near_duplicate_2x_sybils@0.05", "exact_dup_2x_sybils", "synthetic_laundering",
    "text_variants", "image_variants",
)  # fmt: skip
"""Those that make copies of one's own units; others can be typed."""
_PART_WORDS = {
    "validation": "validation rows", "reference": "reference rows", "submissions": "submitted units",
}  # fmt: skip


def choices(
    runs: tuple[tuple[str, Path], ...], uploads: tuple[tuple[str, str], ...], progress: Progress
) -> dict[str, Any]:
    """Rows that can be looked at, and the options of the check; runs and uploads by their ids."""
    found = [{"value": SYNTHETIC, "label": "the synthetic market", "group": "Tasks"}]
    found += [
        {"value": name, "label": f"{domain.title} ({domain.kind}s)", "group": "Tasks"}
        for name, domain in DOMAINS.items()
        if _is_there(domain.embeddings_file)
    ]
    for name, folder in runs:
        found += [
            {
                "value": f"run:{name}:{part}",
                "label": f"{name}: {_PART_WORDS[part]}",
                "group": "Payout runs",
            }
            for part in _parts(folder)
        ]
    found += [
        {"value": f"upload:{key}", "label": name, "group": "Uploaded tables"} for key, name in uploads
    ]
    attacks = components("attack")
    return {
        "sources": found,
        "missing": [
            domain.title for domain in DOMAINS.values() if not _is_there(domain.embeddings_file)
        ],
        "partitions": [
            {"value": _WITH_VALUES.get(name, name), "label": describe("partition", name).summary}
            for name in components("partition")
        ],
        "variants": [
            {"value": name, "label": describe("attack", name).summary}
            for name in _VARIANTS
            if name.partition("@")[0] in attacks
        ],
        "defaults": ThetaOptions().model_dump(),
        "most": SHOWN,
    }


def _parts(folder: Path) -> list[str]:
    try:
        inputs = read_manifest(folder)["inputs"]
    except DataMarketError:
        return []
    return [part for part in PARTS if part in inputs]


def _is_there(name: str) -> bool:
    try:
        return find(name) is not None
    except DataMarketError:  # the folder that was named is not there; whoever asks for a domain is told
        return False
