"""Tables for the library at hand: Arrow always, and from there pandas or polars where one is installed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.display import ROWS, Screen, Shown
from datamarket_gym.errors import DataMarketError, require_instance, require_known

if TYPE_CHECKING:
    import pyarrow as pa


class Tabular(ABC):
    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """Return the table."""

    def to_frame(self) -> Any:
        """Return the table as a pandas DataFrame, or else as a polars one."""
        if find_spec("pandas"):
            return self.to_arrow().to_pandas()
        if find_spec("polars"):
            return import_module("polars").from_arrow(self.to_arrow())
        raise DataMarketError(
            "to_frame() needs pandas or polars, and neither is installed; install one of them, "
            "or use to_arrow()"
        )


class ResultTable(Shown, Tabular):
    """A small table of results: ``table["value"]`` is a column as a NumPy array.

    Parameters
    ----------
    title, columns
        What the table shows, in a line, and its columns of equal length by name.
    money
        The columns that hold amounts, which are shown with two decimals.
    """

    def __init__(self, title: str, columns: Mapping[str, Any], *, money: Collection[str] = ()) -> None:
        self.title, self.money = title, tuple(money)
        self.columns: dict[str, NDArray[Any]] = {k: np.asarray(v) for k, v in columns.items()}

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __getitem__(self, column: str) -> NDArray[Any]:
        require_instance("column", column, str, f"the name of a column: {', '.join(self.columns)}")
        require_known("column", [column], self.columns)
        return self.columns[column]

    def to_arrow(self) -> pa.Table:
        import pyarrow as pa

        return pa.table({name: pa.array(column.tolist()) for name, column in self.columns.items()})

    def take(self, rows: NDArray[Any]) -> ResultTable:
        return ResultTable(self.title, {k: v[rows] for k, v in self.columns.items()}, money=self.money)

    def screen(self) -> Screen:
        kinds = [column.dtype.kind in "UO" for column in self.columns.values()]
        texts = max(1, kinds.index(False) if False in kinds else len(kinds))
        cells = [self._shown(name, column[:ROWS]) for name, column in self.columns.items()]
        return Screen.of(self.title, list(self.columns), zip(*cells, strict=True), len(self), texts, 48)

    def _shown(self, name: str, column: NDArray[Any]) -> list[Any]:
        """Return the cells of a column as people read them: shares in per cent, money with two decimals."""
        if column.dtype.kind != "f":
            return column.tolist()
        if name == "share":
            return [f"{x:.1%}" for x in column]
        most = np.abs(column[np.isfinite(column)]).max(initial=0.0)
        column = np.where(np.abs(column) < 1e-12 * max(most, 1.0), 0.0, column)  # rounding
        return [f"{x:,.2f}" if name in self.money or most >= 100 else f"{x:.4g}" for x in column]
