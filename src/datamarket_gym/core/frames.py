"""Tables for the library at hand: Arrow always, and from there pandas or polars where one is installed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.errors import DataMarketError, require_known
from datamarket_gym.core.screen import ROWS, Screen, Shown

if TYPE_CHECKING:
    import pyarrow as pa


class Tabular(ABC):
    """Something that is a table, too."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """The table."""

    def to_frame(self) -> Any:
        """The table as a pandas DataFrame, or else as a polars one."""
        if find_spec("pandas"):
            return self.to_arrow().to_pandas()
        if find_spec("polars"):
            return import_module("polars").from_arrow(self.to_arrow())
        raise DataMarketError(
            "to_frame() needs pandas or polars, and neither is installed; install one of them, "
            "or use to_arrow()"
        )


class ResultTable(Shown, Tabular):
    """A small table of results: named columns of equal length.

    ``table["value"]`` is a column as a NumPy array; `to_frame` gives pandas or polars, `to_arrow` Arrow.
    """

    def __init__(self, title: str, columns: Mapping[str, Any]) -> None:
        self.title = title
        self.columns: dict[str, NDArray[Any]] = {k: np.asarray(v) for k, v in columns.items()}

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, column: str) -> NDArray[Any]:
        require_known("column", [column], self.columns)
        return self.columns[column]

    def to_arrow(self) -> pa.Table:
        """The columns as an Arrow table."""
        import pyarrow as pa

        return pa.table({name: pa.array(column.tolist()) for name, column in self.columns.items()})

    def screen(self) -> Screen:
        """The first rows."""
        rows = zip(*(_shown(name, column[:ROWS]) for name, column in self.columns.items()), strict=True)
        heads = [name.replace("_", " ") for name in self.columns]
        return Screen.of(self.title, heads, rows, len(self))


def _shown(name: str, column: NDArray[Any]) -> list[Any]:
    """The cells of a column as people read them: shares in per cent, large numbers with two decimals."""
    if column.dtype.kind != "f":
        return column.tolist()
    if name == "share":
        return [f"{x:.1%}" for x in column]
    large = np.abs(column[np.isfinite(column)]).max(initial=0.0) >= 100
    return [f"{x:,.2f}" if large else f"{x:.4g}" for x in column]
