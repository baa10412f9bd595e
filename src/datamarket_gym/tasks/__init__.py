"""Where data comes from: tasks, partitions and closed-form games."""

from datamarket_gym.tasks import closed_form, domains, partitions, split_game, synthetic
from datamarket_gym.tasks.base import Task, TaskDraw
from datamarket_gym.tasks.dataset import Dataset
from datamarket_gym.tasks.synthetic import Synthetic

__all__ = [
    "Dataset",
    "Synthetic",
    "Task",
    "TaskDraw",
    "closed_form",
    "domains",
    "partitions",
    "split_game",
    "synthetic",
]
