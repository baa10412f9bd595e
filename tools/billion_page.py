"""Writes docs/billion.md: what a payday costs at 10^6 to 10^9 units, carried on paper from what was measured.

Usage: python tools/billion_page.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SIZES = (10**6, 10**7, 10**8, 10**9)
D, FLOAT16, ANSWER = 384, 2, 16
CORE_HOUR, GPU_HOUR = 0.04, 3.00  # dollars; what clouds ask for, roughly: put in your own
CORES, GPUS = 512, 64
VALIDATION = 1_000
HOUR, TERA = 3600.0, 1e12


def figure(rows: list[dict[str, Any]], what: str, key: str) -> tuple[int, float]:
    """Units and seconds of the largest market that was measured."""
    mine = [r for r in rows if r["workload"] == what and r["who"] == "datamarket-gym" and r["seconds"]]
    mine = [r for r in mine if r["validation"] == VALIDATION]
    largest = max(mine, key=lambda r: r["units"])
    return largest["units"], float(largest[key])


def page(cpu: dict[str, Any], gpu: dict[str, Any]) -> str:
    """The page, from the rows of both machines."""
    n_search, search = figure(cpu["rows"], "search", "cpu_seconds")
    n_scores, scores = figure(cpu["rows"], "coverage", "cpu_seconds")
    n_day, day = figure(cpu["rows"], "payday", "cpu_seconds")
    g_search, gpu_search = figure(gpu["rows"], "search", "seconds")
    g_scores, gpu_scores = figure(gpu["rows"], "coverage", "seconds")
    pair, gpu_pair = search / n_search**2, gpu_search / g_search**2
    unit, gpu_unit = scores / n_scores, gpu_scores / g_scores
    same = [figure(cpu["rows"], what, "cpu_seconds") for what in ("search", "coverage")]
    rest = (
        max(0.0, day - sum(s * (n_day / n) ** (2 if i == 0 else 1) for i, (n, s) in enumerate(same)))
        / n_day
    )
    lines = []
    for n in SIZES:
        cores = (pair * n * n + (2 * unit + rest) * n) / HOUR
        gpus = (gpu_pair * n * n + 2 * gpu_unit * n) / HOUR
        lines.append(
            f"| 10^{len(str(n)) - 1} | {n * D * FLOAT16 / 1e9:,.1f} GB | {amount(pair * n * n / HOUR)} | "
            f"{amount(2 * unit * n / HOUR)} | {amount(rest * n / HOUR)} | {amount(cores / CORES)} | "
            f"${amount(cores * CORE_HOUR)} | {amount(gpus)} | {amount(gpus / GPUS)} | "
            f"${amount(gpus * GPU_HOUR + rest * n / HOUR * CORE_HOUR)} |"
        )
    table = "\n".join(lines)
    travel = "\n".join(
        f"| 10^{len(str(n)) - 1} | {g:,} | {g * (g + 1) // 2:,} | {n * D * FLOAT16 / g / 1e9:,.2f} GB | "
        f"{n * D * FLOAT16 * (g + 1) / TERA:,.2f} TB | {n * ANSWER / 1e9:,.2f} GB |"
        for n, g in ((10**6, 2), (10**7, 4), (10**8, 16), (10**9, 64))
    )
    return Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").format(
        cpu=cpu["machine"]["machine"], gpu=gpu["machine"]["machine"], n_search=n_search, search=search,
        n_scores=n_scores, scores=scores, n_day=n_day, g_search=g_search, gpu_search=gpu_search,
        g_scores=g_scores, gpu_scores=gpu_scores, pair=pair * 1e9, gpu_pair=gpu_pair * 1e12, unit=unit * 1e6,
        rest=rest * 1e6, cores=CORES, gpus=GPUS, core_hour=CORE_HOUR, gpu_hour=GPU_HOUR, table=table, travel=travel,
    )  # fmt: skip


def amount(value: float) -> str:
    """A number that a person reads: two digits, or whole."""
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}" if value >= 1 else f"{value:.2g}"


def main() -> None:
    """Write the page."""
    kept = ROOT / "docs" / "benchmarks"
    cpu, gpu = (
        json.loads((kept / name).read_text(encoding="utf-8"))
        for name in ("scale.json", "scale-h200.json")
    )
    (ROOT / "docs" / "billion.md").write_text(page(cpu, gpu), encoding="utf-8")


if __name__ == "__main__":
    main()
