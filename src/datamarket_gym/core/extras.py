"""Optional dependencies: what a function needs beyond the core, and how it is installed."""

from __future__ import annotations

from importlib.util import find_spec

from datamarket_gym.core.errors import MissingExtraError


def require_extra(module: str, extra: str) -> None:
    """Raise `MissingExtraError` where a module of an extra is not installed; nothing is imported."""
    if find_spec(module) is None:
        raise MissingExtraError(module, extra)
