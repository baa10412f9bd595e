"""Compiled kernels kept on disk, and thrown away when any source compiled into them changes.

numba keeps the machine code of a function together with a stamp of the one file that holds it. Code
and constants of other files are compiled into it too, and a change there would go unnoticed. Here the
stamp is a hash of the bytes of all of them. Where the code is kept is numba's choice (next to the
source, or in the user's cache where that is read-only), and a new stamp overwrites the old code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile


class _ContentCache(FunctionCache):  # type: ignore[misc]
    """numba's cache of one function, stamped by the content of several files."""

    def __init__(self, function: Callable[..., Any], stamp: str) -> None:
        super().__init__(function)
        self._cache_file = IndexDataCacheFile(self.cache_path, self._impl.filename_base, stamp)

    def filled(self) -> bool:
        """Whether there is machine code for this stamp."""
        return bool(self._cache_file._load_index())


def kept(*sources: str, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function as `numba.njit` does and keep it while ``sources`` are the same bytes.

    ``sources`` are the files whose code or constants are compiled into it, its own included.
    """

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(**options)(function)
        dispatcher._cache = _ContentCache(function, stamp(*sources))
        return dispatcher

    return compiled


def stamp(*sources: str) -> str:
    """A hash of the files' bytes, in the order given."""
    whole = hashlib.sha256()
    for source in sources:
        whole.update(hashlib.sha256(Path(source).read_bytes()).digest())
    return whole.hexdigest()


def is_compiled(dispatcher: Any) -> bool:
    """Whether its machine code is kept, so that calling it costs no compilation."""
    return bool(dispatcher._cache.filled())
