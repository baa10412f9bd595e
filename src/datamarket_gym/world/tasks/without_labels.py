"""A market without labels: another task's draw, of which the labels are taken away once all is dealt."""

from __future__ import annotations

from dataclasses import dataclass, replace

from datamarket_gym.core.registry import register
from datamarket_gym.world.tasks.base import TASKS, Task, TaskDraw


@register("task", "without_labels")
@dataclass(frozen=True)
class WithoutLabels(Task):
    """The named task's market with neither labels of units nor of validation rows; who owns what stays as it is."""

    title = "market without labels"

    of: str = "synthetic"

    def __post_init__(self) -> None:
        TASKS.create(self.of)

    def draw(self, seed: int) -> TaskDraw:
        """The named task's draw, less its labels."""
        draw = TASKS.create(self.of).draw(seed)
        bare = draw.dataset.without_labels()
        return TaskDraw(replace(bare, name=f"{bare.name} without labels"), draw.provider_partition)
