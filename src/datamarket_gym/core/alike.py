"""Whether another process would compute the same bits as this one: who has what.

Python, this package (its version, and its code to the byte), the libraries, the kernels that linear algebra and numpy
chose for the processor, plug points that are installed, and secrets of which results are made. Secrets are compared
by a hash with a number drawn for the occasion, and travel nowhere.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path

from datamarket_gym.core.registry import plugins_elsewhere
from datamarket_gym.core.runs import libraries

_SECRETS = "DATAMARKET_", "_KEY"


@lru_cache(maxsize=1)
def possessions(occasion: str) -> dict[str, str]:
    """What this process has, by name; ``occasion`` is any text, the same for all who are compared."""
    found = {
        **libraries(),
        "datamarket-gym": import_module("datamarket_gym").__version__,
        "its code": _code(Path(__file__).parents[1]),
        "linear algebra": _linear_algebra(),
        "vector instructions": _instructions(),
    }
    for module, source in plugins_elsewhere().items():
        found[f"plug points of {module}"] = source[:8]
    first, last = _SECRETS
    for name in sorted(os.environ):
        if name.startswith(first) and name.endswith(last):
            found[name] = hashlib.sha256(f"{occasion}|{os.environ[name]}".encode()).hexdigest()[:8]
    return found


def different(here: Mapping[str, str], others: Mapping[str, Mapping[str, str]]) -> str:
    """A table of what others have otherwise, a column for those that agree with each other; empty where all do.

    Who has what is here has no column.
    """
    names = sorted({name for each in (here, *others.values()) for name in each})
    names = [n for n in names if any(each.get(n) != here.get(n) for each in others.values())]
    if not names:
        return ""
    columns: dict[tuple[str, ...], list[str]] = {}
    for address, each in others.items():
        columns.setdefault(tuple(each.get(name, "none") for name in names), []).append(address)
    ours = tuple(here.get(name, "none") for name in names)
    columns.pop(ours, None)
    table = [["", *names], ["here", *ours]]
    for values, addresses in columns.items():
        more = f" and {len(addresses) - 1} more" if len(addresses) > 1 else ""
        table.append([addresses[0] + more, *values])
    widths = [max(map(len, column)) for column in table]
    rows = zip(*table, strict=True)
    return "\n".join(
        "  " + "   ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _code(folder: Path) -> str:
    """A hash of all source files."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:8]


def _linear_algebra() -> str:
    """The libraries behind numpy and scipy, with the kernels that they chose for this processor."""
    import scipy.linalg  # noqa: F401  which loads its own
    from threadpoolctl import threadpool_info

    found = {
        f"{pool['internal_api']} {pool['version']} {pool.get('architecture', '')}".strip()
        for pool in threadpool_info()
        if pool["user_api"] == "blas" and "torch" not in pool["filepath"]
    }
    return ", ".join(sorted(found))


def _instructions() -> str:
    """What numpy's own functions were compiled for, as far as their last bits depend on it: exp has such kernels."""
    from numpy.lib import introspect

    found = introspect.opt_func_info(func_name="^exp$", signature="float64")
    return ", ".join(sorted({kernel["current"] for each in found.values() for kernel in each.values()}))
