"""The picture of an admissibility check: the chaining curve, the two floors and the ceiling."""

from __future__ import annotations

from pathlib import Path

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.extras import require_extra
from datamarket_gym.evidence.threshold.admissibility import Admissibility

FORMATS = (".png", ".svg", ".pdf")


def draw(found: Admissibility, path: Path) -> None:
    """Draw the check into an image file."""
    if path.suffix not in FORMATS:
        raise DataMarketError(f"cannot draw {path.suffix!r}; use {', '.join(FORMATS)}")
    require_extra("matplotlib", "figures")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 3.6), layout="constrained")
    axes = figure.add_subplot()
    low, high = found.interval
    if high > low:
        axes.axvspan(low, high, color="tab:green", alpha=0.15, label="admissible")
    axes.plot(found.curve_theta, found.curve, color="tab:blue", label="mixed components (simulated)")
    axes.axhline(found.cutoff, color="tab:blue", linestyle=":", linewidth=1, label="cutoff")
    axes.axvline(found.pairwise_floor, color="tab:orange", linestyle="--", label="pairwise floor (p90)")
    axes.axvline(found.chaining_floor, color="tab:red", linestyle="--", label="chaining floor")
    axes.axvline(found.near_duplicate_p10, color="black", linestyle="-.", label="variants (p10)")
    axes.set(xlim=(0, 1.01), ylim=(-0.02, 1.02), xlabel="cosine threshold", ylabel="share of components")
    axes.set_title(
        f"{found.units} units, {found.partition} partition, variants {found.variants}", fontsize=9
    )
    axes.legend(fontsize=8, loc="center left")
    figure.savefig(path, dpi=150)
