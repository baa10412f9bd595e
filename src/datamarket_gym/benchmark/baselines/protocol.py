"""The file protocol, version 1: a market in one folder, payments in another; any language can speak it.

The program is called as ``COMMAND... IN OUT`` with the absolute paths of two folders. IN holds

- ``market.json``: the version, the learner, what accuracy is counted from, the classes, sizes and a seed;
- ``units.csv``: ``unit,identity,time,label,f0,f1,...``, one row a unit; the time is empty where none is known;
- ``validation.csv``: ``label,f0,f1,...``.

It writes OUT/``payments.csv`` (``identity,amount``: every identity of the units once, a finite number each, in units
of the utility) and may write OUT/``cost.json`` (``{"evaluations": n, "seconds": s}``, both or one of them). Files are
RFC 4180 and UTF-8; numbers read back to the same bits. What a mechanism may see is in them and nothing else: no ground
truth, and not the seed of the market, from which one could draw it again.
"""

from __future__ import annotations

import csv
import io
import json
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.content_keys import combined_key
from datamarket_gym.data.submission import Submission
from datamarket_gym.errors import DataMarketError, ProgramError, SubmissionError
from datamarket_gym.utilities.oracle import UtilityOracle

VERSION = 1
MARKET, UNITS, VALIDATION = "market.json", "units.csv", "validation.csv"
PAYMENTS, COST = "payments.csv", "cost.json"

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_COST_BYTES = 65_536
_AMOUNT_BYTES = 512  # of a line, beside the name


def write_market(folder: Path, submission: Submission, utility: UtilityOracle) -> dict[str, Any]:
    """Write what a program may see of a market into a folder.

    The seed in it is made of what was submitted and of nothing else, whatever the names and the order.

    Parameters
    ----------
    folder, submission, utility
        The folder, the units, and what they are worth.

    Returns
    -------
    dict[str, Any]
        What ``market.json`` says.
    """
    if utility.acquired is not None:
        raise DataMarketError("the file protocol has no place for previously acquired data; pay without")
    content: dict[str, Any] = {
        "protocol": VERSION,
        "learner": utility.learns_by,
        "empty": utility.utility.empty,
        "classes": _texts(utility.classes, utility.classes),
        "features": int(submission.features.shape[1]),
        "units": len(submission),
        "validation": len(utility.label),
        "seed": int(combined_key(submission.keys.tolist())[:8], 16) >> 1,
    }
    features = np.asarray(submission.features, dtype=np.float64)
    columns = [f"f{i}" for i in range(content["features"])]
    _write_csv(
        folder / UNITS,
        ["unit", "identity", "time", "label", *columns],
        _unit_rows(submission, features, _texts(submission.label, utility.classes)),
    )
    validation = zip(_texts(utility.label, utility.classes), utility.features, strict=True)
    _write_csv(
        folder / VALIDATION, ["label", *columns], ([label, *row.tolist()] for label, row in validation)
    )
    (folder / MARKET).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return content


def read_payments(folder: Path, submission: Submission) -> dict[str, float]:
    """Read the amounts in a folder's ``payments.csv``.

    Parameters
    ----------
    folder, submission
        The folder, and the units that were paid.

    Returns
    -------
    dict[str, float]
        The amount of each identity.
    """
    names = submission.identities.tolist()
    limit = 1024 + sum(2 * len(name.encode("utf-8", "replace")) + _AMOUNT_BYTES for name in names)
    rows = csv.reader(io.StringIO(_text(folder / PAYMENTS, limit), newline=""), strict=True)
    identities, amounts = set(names), dict[str, float]()
    try:
        head = next(rows, [])
        if head != ["identity", "amount"]:
            raise _wrong(1, f"the header is {','.join(head)[:80]!r}; write identity,amount")
        for row in rows:
            at = rows.line_num
            if len(row) != 2:
                raise _wrong(at, f"there are {len(row)} fields; write one identity and one amount")
            name, amount = row
            if name not in identities:
                raise _wrong(at, f"{name!r} submitted nothing; pay the identities of {UNITS} only")
            if name in amounts:
                raise _wrong(at, f"{name!r} is paid twice; add up what it gets")
            amounts[name] = _amount(amount, name, at)
    except csv.Error as error:
        raise _wrong(rows.line_num, f"{error}; write it as RFC 4180 says") from error
    if missing := [name for name in names if name not in amounts]:
        raise ProgramError(
            f"{PAYMENTS} has no amount for {missing[0]!r}"
            + (f" and {len(missing) - 1} more" if missing[1:] else "")
            + "; pay 0 to an identity that gets nothing"
        )
    return amounts


def read_cost(folder: Path) -> dict[str, float]:
    """Read what a program says that it took: ``evaluations`` of coalitions and ``seconds``; NaN where it does not."""
    unknown = {"evaluations": float("nan"), "seconds": float("nan")}
    if not (folder / COST).exists():
        return unknown
    try:
        content = json.loads(_text(folder / COST, _COST_BYTES))
    except (ValueError, RecursionError) as error:
        raise ProgramError(f"{COST} is no JSON ({error}); leave it out or mend it") from error
    cost = (
        {name: content[name] for name in unknown if name in content} if isinstance(content, dict) else {}
    )
    if not cost or any(
        isinstance(x, bool) or not isinstance(x, int | float) or not 0 <= x < 2**53
        for x in cost.values()
    ):
        raise ProgramError(
            f'{COST} says {str(content)[:80]}; write {{"evaluations": n, "seconds": s}}, numbers, or leave it out'
        )
    return unknown | {name: float(x) for name, x in cost.items()}


def _unit_rows(
    submission: Submission, features: NDArray[np.float64], labels: list[str]
) -> Iterator[list[Any]]:
    times = [""] * len(submission) if submission.time is None else submission.time.tolist()
    names = (submission.id.tolist(), submission.identity.tolist(), times, labels)
    for *cells, row in zip(*names, features, strict=True):
        yield [*cells, *row.tolist()]


def _texts(labels: NDArray[Any], classes: NDArray[Any]) -> list[str]:
    """Return labels as texts: equal ones, as 0 and 0.0 are, have one text, that of the class."""
    named = {value: str(value) for value in classes.tolist()}
    return [named.get(label, str(label)) for label in labels.tolist()]


def _write_csv(path: Path, head: list[str], rows: Iterable[list[Any]]) -> None:
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(head)
            writer.writerows(rows)  # floats by repr: the shortest text that reads back to the same bits
    except UnicodeEncodeError as error:
        raise SubmissionError(
            f"{error.object[error.start - 5 : error.end + 5]!r} in {path.name} is no text in UTF-8; rename it"
        ) from error


def _text(path: Path, limit: int) -> str:
    """Read a regular file of a size that can be expected; refuse a link, a pipe or a flood unread."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise ProgramError(f"{path.name} is no plain file; write one")
        if status.st_size > limit:
            raise ProgramError(
                f"{path.name} has {status.st_size:,} bytes, where {limit:,} are plenty; write what is asked for alone"
            )
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        raise ProgramError(f"{path.name} is missing; write it into the second folder") from error
    except UnicodeDecodeError as error:
        raise ProgramError(f"{path.name} is not UTF-8 ({error}); write it so") from error
    except OSError as error:
        raise ProgramError(f"{path.name} cannot be read: {error}") from error


def _amount(text: str, name: str, at: int) -> float:
    value = float(text) if _NUMBER.fullmatch(text) else float("nan")
    if not np.isfinite(value):
        raise _wrong(at, f"{name!r} is paid {text[:40]!r}; write a finite number such as -0.25 or 1e-3")
    return value


def _wrong(line: int, what: str) -> ProgramError:
    return ProgramError(f"{PAYMENTS}, line {line}: {what}")
