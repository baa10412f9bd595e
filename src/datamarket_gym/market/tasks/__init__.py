"""Where data comes from: tasks and partitions."""

from datamarket_gym.market.tasks import datasets as bundled
from datamarket_gym.market.tasks import datasets as domains
from datamarket_gym.market.tasks import partitions
from datamarket_gym.market.tasks import synthetic as regression
from datamarket_gym.market.tasks.base import Dataset, Task, TaskDraw
from datamarket_gym.market.tasks.synthetic import Synthetic

__all__ = [
    "Dataset",
    "Synthetic",
    "Task",
    "TaskDraw",
    "bundled",
    "domains",
    "partitions",
    "regression",
]
