"""Tasks, which say where data comes from, and partitions, which say who owns it."""

from datamarket_gym.market.tasks import datasets, partitions
from datamarket_gym.market.tasks.base import Dataset, Task, TaskDraw
from datamarket_gym.market.tasks.synthetic import Synthetic

__all__ = [
    "Dataset",
    "Synthetic",
    "Task",
    "TaskDraw",
    "datasets",
    "partitions",
]
