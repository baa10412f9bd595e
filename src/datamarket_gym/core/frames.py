"""Tables for the library at hand: Arrow always, and from there pandas or polars where one is installed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from datamarket_gym.core.errors import DataMarketError

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
