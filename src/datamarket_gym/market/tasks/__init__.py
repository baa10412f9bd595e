"""Tasks, which say where data comes from, and partitions, which say who owns it."""

from datamarket_gym.market.tasks import partitions, real_data
from datamarket_gym.market.tasks.base import Dataset, Task, TaskDraw
from datamarket_gym.market.tasks.synthetic import Synthetic

__all__ = [
    "Dataset",
    "Synthetic",
    "Task",
    "TaskDraw",
    "partitions",
    "real_data",
]
