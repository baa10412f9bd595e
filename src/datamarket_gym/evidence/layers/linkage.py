"""Linkage of identities by account, payout address, device, licence and time, not by content.

A key is a column, or several joined by ``+`` that must agree together; ``time:3600`` counts submissions within the same
hour as agreeing. Text is compared without regard to case and surrounding spaces, and a blank says nothing.

Submitters fill these columns in, so a shared value is a *claim*. Two identities confirm it by naming each other in a
column (``confirm``), one name in a cell or several separated by ``;``. Linkage matches *people*, so as evidence it
belongs with granularity ``identity``, or to the grouping of payees: in unit-level games matched units would be taken
for copies of one another. Probabilistic linkage takes splink's model, or a table (id_l, id_r, probability).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np

from datamarket_gym.data.readers.tables import Table
from datamarket_gym.errors import ParameterError, SubmissionError, require_extra
from datamarket_gym.evidence.graph import Edges, EvidenceLayer, View, components, star
from datamarket_gym.execution.arrays import Codes, Values
from datamarket_gym.registry import register

Column = Sequence[str | None]


@register("evidence", "linkage")
@dataclass(frozen=True)
class Linkage(EvidenceLayer):
    """Match units that share a key, such as a licence or an account.

    With ``confirm``, a column, only units of identities that name each other in it. Without it an attacker who writes
    down a victim's key is matched with the victim: use it on columns that the operator fills in.
    """

    title = "shared keys"

    keys: Annotated[str, "keys; columns joined by +, several keys separated by ;"] = "licence"
    confirm: Annotated[
        str, "column of confirmations; only identities that name each other in it are matched"
    ] = ""
    same_content: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.keys.strip():
            raise ParameterError("keys", self.keys, "name a column, such as payout or device+licence")

    def edges(self, view: View) -> Edges:
        """Return a star per key value, and per group of identities that confirm one another."""
        submission = view.submission
        owner = submission.identity_codes
        person = np.zeros_like(owner)
        if self.confirm:
            confirmed = submission.column(self.confirm)
            names = submission.identities.tolist()
            person = components(np.arange(len(names)), confirmations(names, owner, confirmed)[0])[owner]
        edges = []
        for key in self.keys.split(";"):
            values = {name: submission.column(name) for name in key_columns(key)}
            codes = agreeing(key, values, submission.times)[0]
            filled = np.flatnonzero(codes >= 0)
            group = codes[filled] * len(owner) + person[filled]
            edges.append(star(group, f"linkage {key.strip()}").at(filled))
        return Edges.concat(edges)


def confirmations(
    names: Sequence[str], owner: Codes, cells: Column
) -> tuple[Edges, list[tuple[int, int]]]:
    """Match identities that name each other, and return the pairs of which only the first names the second.

    ``cells[i]`` is the cell of a unit of identity ``owner[i]``. Unknown names say nothing. A cell that can be read in
    two ways, as one name that holds the separator and as several, matches none: otherwise an identity named like
    another's list would be confirmed by it.
    """
    place = {name: i for i, name in enumerate(names)}
    pairs: set[tuple[int, int]] = set()
    unclear: set[tuple[int, int]] = set()
    for code, cell in set(zip(owner.tolist(), cells, strict=True)):
        text = "" if cell is None else str(cell)
        parts = {part.strip() for part in text.split(";")}
        whole, several = (
            {place[name] for name in some if place.get(name, code) != code} for some in ({text}, parts)
        )
        named = {(code, other) for other in whole | several}
        (unclear if whole and several - whole else pairs).update(named)
    both = np.array(sorted((a, b) for a, b in pairs if a < b and (b, a) in pairs), dtype=np.int64)
    both = both.reshape(-1, 2)
    alone = sorted({(a, b) for a, b in pairs if (b, a) not in pairs} | (unclear - pairs))
    return Edges.of(both[:, 0], both[:, 1], "both confirm"), alone


def key_columns(key: str) -> list[str]:
    """Return the columns of a key, without its time window."""
    parts = [part.strip() for part in key.split("+")]
    if not all(parts):
        raise ParameterError("linkage key", key, "write a column, or several joined by +")
    return [part for part in parts if not part.startswith("time:")]


def agreeing(key: str, columns: Mapping[str, Column], times: Values) -> tuple[Codes, list[str]]:
    """Return a code per unit (-1: says nothing) equal where the key agrees, and the value of each code."""
    parts = [[_folded(value) for value in columns[name]] for name in key_columns(key)]
    for part in (part.strip() for part in key.split("+")):
        if part.startswith("time:"):
            parts.append([str(int(t // _window(key, part))) for t in times.tolist()])
    joined = [
        None if any(p is None for p in values) else "\x1f".join(p or "" for p in values)
        for values in zip(*parts, strict=True)
    ]
    number: dict[str, int] = {}
    codes = [-1 if v is None else number.setdefault(v, len(number)) for v in joined]
    return np.array(codes, dtype=np.int64), [value.replace("\x1f", " + ") for value in number]


def _window(key: str, part: str) -> float:
    try:
        window = float(part.removeprefix("time:"))
    except ValueError:
        window = 0.0
    if not 0 < window < float("inf"):
        raise ParameterError(
            "linkage key", key, "write the time window in seconds, as in device+time:3600"
        )
    return window


def _folded(value: str | None) -> str | None:
    text = "" if value is None else str(value).strip().casefold()
    return text or None


Pair = tuple[str, str, float]
"""Two ids and the probability that they are the same."""


def read_pairs(path: Path) -> list[Pair]:
    """Read the pairs of a table with columns id_l, id_r and probability (or splink's match_probability)."""
    table = Table.open(path)
    accepted = (("id_l", "unique_id_l"), ("id_r", "unique_id_r"), ("probability", "match_probability"))
    names = [next((n for n in some if n in table.names), "") for some in accepted]
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
    require_extra("splink", "linkage")
    import pyarrow as pa
    import splink.comparison_library as compare
    from splink import DuckDBAPI, Linker, SettingsCreator, block_on

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
        return []  # no value is shared, so there is nothing to learn from
    blocks = [rule for n in names for rule in (block_on(n), block_on(f"substr({n}, 1, 4)"))]
    settings = SettingsCreator(
        link_type="dedupe_only",
        comparisons=[compare.JaroWinklerAtThresholds(n) for n in names],
        blocking_rules_to_generate_predictions=blocks,
    )
    backend = DuckDBAPI()
    backend.duckdb_con.execute("SET threads = 1")
    linker = Linker(backend.register(table), settings, log_level=logging.ERROR)
    linker.training.estimate_probability_two_random_records_match(agreeing, recall=0.8)
    linker.training.estimate_u_using_random_sampling(max_pairs=1e6, seed=0)
    for rule in agreeing:
        linker.training.estimate_parameters_using_expectation_maximisation(rule)
    predicted = linker.inference.predict(threshold_match_probability=least)
    rows = predicted.as_duckdbpyrelation().to_arrow_table().to_pylist()
    pairs = ((r["unique_id_l"], r["unique_id_r"], r["match_probability"]) for r in rows)
    return sorted((ids[min(a, b)], ids[max(a, b)], round(p, 6)) for a, b, p in pairs)


def _repeats(values: Sequence[str | None]) -> bool:
    filled = [value for value in values if value is not None]
    return len(set(filled)) < len(filled)
