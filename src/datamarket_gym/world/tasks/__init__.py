"""Where data comes from: tasks and partitions."""

from datamarket_gym.world.tasks import bundled, domains, partitions, regression
from datamarket_gym.world.tasks.base import Dataset, Task, TaskDraw
from datamarket_gym.world.tasks.synthetic import Synthetic
from datamarket_gym.world.tasks.without_labels import WithoutLabels

__all__ = [
    "Dataset",
    "Synthetic",
    "Task",
    "TaskDraw",
    "WithoutLabels",
    "bundled",
    "domains",
    "partitions",
    "regression",
]
