"""Doing a thing once, however often a button was pressed."""

from __future__ import annotations

import threading
from collections import OrderedDict

from datamarket_gym.core.errors import DataMarketError

_KEPT = 4096


class SentBefore(DataMarketError):
    """The same form was sent before."""


class Once:
    """Forms that were sent, by a number that each page draws anew for every one."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def require_new(self, form: str) -> None:
        """Refuse a form that was sent before."""
        if not 8 <= len(form) <= 64:
            raise DataMarketError("the form has no number of its own; reload the page")
        with self._lock:
            if form in self._seen:
                raise SentBefore("this was sent before, and is entered once; reload the page to see it")
            self._seen[form] = None
            while len(self._seen) > _KEPT:
                self._seen.popitem(last=False)
