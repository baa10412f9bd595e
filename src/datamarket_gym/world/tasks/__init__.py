"""Where data comes from: tasks and partitions."""

from datamarket_gym.world.tasks import domains, partitions, regression
from datamarket_gym.world.tasks.base import Dataset, Task, TaskDraw
from datamarket_gym.world.tasks.synthetic import Synthetic

__all__ = ["Dataset", "Synthetic", "Task", "TaskDraw", "domains", "partitions", "regression"]
