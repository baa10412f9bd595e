"""Threads of numerical libraries: one each, where this package divides the work itself.

Products then have the same bits whatever the machine. Looking through the libraries of a process for those that have
threads takes milliseconds, as long as a small market takes to be paid: they are looked for again only when modules
were loaded since.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


def one_thread(user_api: str | None = None) -> AbstractContextManager[Any]:
    """While it is entered, libraries (of linear algebra alone: ``blas``) use one thread each."""
    found: AbstractContextManager[Any] = _libraries(len(sys.modules)).limit(limits=1, user_api=user_api)
    return found


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """Those that are loaded; ``modules`` says when to look again, since a limit reaches none that is loaded later."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
