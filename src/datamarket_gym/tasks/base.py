"""What a task is: for each seed a dataset and the rows each provider owns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.tasks.dataset import Dataset


@dataclass(frozen=True, eq=False)
class TaskDraw:
    """One draw of a task: the data, and the row numbers that each provider owns."""

    dataset: Dataset
    provider_partition: list[NDArray[np.int64]]


class Task(ABC):
    """Plug point ``task``: a frozen dataclass with the constants of a data source."""

    @abstractmethod
    def draw(self, seed: int) -> TaskDraw:
        """The data and the partition for one seed; the same seed gives the same draw."""
