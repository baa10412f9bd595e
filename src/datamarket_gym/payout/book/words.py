"""Entries of the book in words, for screens and pages."""

from __future__ import annotations

from datamarket_gym.core.screen import counted
from datamarket_gym.payout.book.arrived import KINDS
from datamarket_gym.payout.book.entry import BookEntry

_SAID = ("detail", "title", "why", "reference", "beacon", "seal", "manifest", "outcomes")


def moment_of(entry: BookEntry) -> str:
    """When an entry was made, to the second; the book keeps UTC."""
    return entry.at[:19].replace("T", " ")


def detail_of(entry: BookEntry) -> str:
    """What an entry says beyond its kind, in a line."""
    said = entry.content
    if entry.kind == "answers":
        return f"{said['new']} new; outcomes {said['outcomes']}"
    if entry.kind == "despite":
        return f"{said['warning']}: {said['title']}"
    if entry.kind == "dispute":
        return f"dispute {said['number']}: {said['about']}"
    if entry.kind in ("resolved", "revoked"):
        return f"dispute {said['number']} {said.get('outcome', entry.kind)}: {said['why']}"
    if entry.kind in KINDS:
        opens = f"; opens entry {said['of']}" if "of" in said else ""
        return f"{counted(said['units'], 'unit')}, root {said['root'][:16]}{opens}"
    if entry.kind == "asked":
        return f"for {said['for']}: {said['why']}"
    if entry.kind == "superseded":
        return f"{said['detail']}; by run {said['by_run']}"
    found = [
        f"{name} {str(said[name])[:16]}" if name in _SAID[5:] else str(said[name])
        for name in _SAID
        if name in said
    ]
    if "of" in said:
        found.append(f"of entry {said['of']}")
    if "clock" in said:
        found.append(str(said["clock"]))
    return "; ".join(found)
