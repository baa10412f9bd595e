"""Work in steps: each writes its result aside and renames it, so that a killed run can go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from datamarket_gym.core.files import write_text

Progress = Callable[[int, int], None]


def run_steps(
    tasks: list[tuple[Any, ...]], jobs: int, progress: Progress | None, done: int, total: int
) -> None:
    """Do the steps (function, context, arguments, file) whose file is not there yet."""
    from joblib import Parallel, delayed

    todo = [task for task in tasks if not task[-1].exists()]
    done += len(tasks) - len(todo)
    if progress:
        progress(done, total)
    for _ in Parallel(n_jobs=jobs, return_as="generator_unordered")(delayed(_step)(*t) for t in todo):
        done += 1
        if progress:
            progress(done, total)


def _step(function: Callable[..., Any], context: Any, arguments: tuple[Any, ...], file: Path) -> None:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        write_text(file, function(context, *arguments).model_dump_json())
