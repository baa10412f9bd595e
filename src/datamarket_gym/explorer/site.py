"""What all pages of the explorer share."""

from __future__ import annotations

from dataclasses import dataclass, field

from datamarket_gym.explorer.files import NamedPlaces
from datamarket_gym.explorer.jobs import Desk
from datamarket_gym.explorer.security import Token


@dataclass(frozen=True)
class Site:
    """The folders and books it shows, who computes for it, and the token; ``closed``: every page asks for the token."""

    places: NamedPlaces
    desk: Desk
    token: Token = field(default_factory=Token)
    closed: bool = False
