"""Probabilistic linkage of identities: splink's model, or anybody's table (id_l, id_r, probability)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from datamarket_gym.core.errors import DataMarketError, ParameterError, SubmissionError
from datamarket_gym.units.tables import Table

Pair = tuple[str, str, float]
"""Two ids and the probability that they are the same."""


def read_pairs(path: Path) -> list[Pair]:
    """Pairs of a table with columns id_l, id_r and probability (or splink's match_probability)."""
    table = Table.open(path)
    known = (("id_l", "unique_id_l"), ("id_r", "unique_id_r"), ("probability", "match_probability"))
    names = [next((n for n in some if n in table.names), "") for some in known]
    if not all(names):
        raise SubmissionError(
            f"{table.where} has columns {', '.join(sorted(table.names))}; "
            "an edge table needs id_l, id_r, probability"
        )
    left, right, chance = names
    columns, matrices = table.read([left, right], matrices={"probability": [chance]})
    chances = matrices["probability"][:, 0]
    wrong = np.flatnonzero((chances < 0) | (chances > 1))
    if len(wrong):
        raise SubmissionError(
            f"{table.where}: column {chance!r}, row {wrong[0]} is {chances[wrong[0]]:g}; "
            "give a probability between 0 and 1"
        )
    return list(zip(columns[left].named(), columns[right].named(), chances.tolist(), strict=True))


def splink_pairs(
    ids: Sequence[str], columns: Mapping[str, Sequence[str | None]], least: float
) -> list[Pair]:
    """Pairs of records that splink's Fellegi-Sunter model, trained on them, finds at least ``least`` likely.

    Text columns are compared by Jaro-Winkler similarity; candidates share a value or the first four
    characters of one. Probabilities are rounded, so that they do not depend on the order of sums.
    """
    try:
        import pyarrow as pa
        import splink.comparison_library as compare
        from splink import DuckDBAPI, Linker, SettingsCreator, block_on
    except ImportError as error:
        raise DataMarketError("splink is not installed; install datamarket-gym[linkage]") from error

    if len(columns) < 2:
        raise ParameterError(
            "fuzzy columns", list(columns), "splink learns from columns that back each other; give two"
        )
    names = {f"column_{i}": list(values) for i, values in enumerate(columns.values())}
    table = pa.table(
        {"unique_id": list(range(len(ids))), **{n: pa.array(v, pa.string()) for n, v in names.items()}}
    )
    agreeing = [block_on(n) for n, values in names.items() if _repeats(values)]
    if not agreeing:
        return []  # nobody shares anything with anybody, so there is nothing to learn from
    blocks = [rule for n in names for rule in (block_on(n), block_on(f"substr({n}, 1, 4)"))]
    settings = SettingsCreator(
        link_type="dedupe_only",
        comparisons=[compare.JaroWinklerAtThresholds(n) for n in names],
        blocking_rules_to_generate_predictions=blocks,
    )
    found = _predicted(Linker, DuckDBAPI, settings, table, agreeing, least)
    pairs = zip(
        *(found[n].to_pylist() for n in ("unique_id_l", "unique_id_r", "match_probability")), strict=True
    )
    return sorted((ids[min(a, b)], ids[max(a, b)], round(p, 6)) for a, b, p in pairs)


def _repeats(values: Sequence[str | None]) -> bool:
    known = [value for value in values if value is not None]
    return len(set(known)) < len(known)


def _predicted(
    linker_class: Any, api: Any, settings: Any, table: Any, agreeing: Any, least: float
) -> Any:
    import logging

    backend = api()
    backend.duckdb_con.execute("SET threads = 1")
    linker = linker_class(backend.register(table), settings, log_level=logging.ERROR)
    linker.training.estimate_probability_two_random_records_match(agreeing, recall=0.8)
    linker.training.estimate_u_using_random_sampling(max_pairs=1e6, seed=0)
    for rule in agreeing:
        linker.training.estimate_parameters_using_expectation_maximisation(rule)
    found = linker.inference.predict(threshold_match_probability=least)
    return found.as_duckdbpyrelation().to_arrow_table()
