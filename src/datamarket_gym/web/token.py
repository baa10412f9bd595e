"""The token: a word that the terminal shows and a person types, where a page alone must not be enough."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from dataclasses import dataclass, field

from datamarket_gym.core.errors import DataMarketError

_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that is easily taken for another
_GROUPS, _GROUP = 3, 4
_WAIT = 1.0
_WAITING = 5  # guesses; more are not looked at


class WrongToken(DataMarketError):
    """The token that was typed is not the one that the terminal shows."""


def _drawn() -> str:
    groups = ("".join(secrets.choice(_LETTERS) for _ in range(_GROUP)) for _ in range(_GROUPS))
    return "-".join(groups)


@dataclass(frozen=True)
class Token:
    """Drawn anew each time the explorer starts: 59 bits, and one guess a second, however many guess at once."""

    text: str = field(default_factory=_drawn, repr=False)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False, compare=False)
    _queue: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(_WAITING), repr=False, compare=False
    )

    def fits(self, typed: str) -> bool:
        """Whether this is the token; case, spaces and dashes are no difference."""
        return hmac.compare_digest(_plain(typed), _plain(self.text))

    async def require(self, typed: str) -> None:
        """Refuse another; whoever guesses waits, one guess after another."""
        if self._queue.locked():
            raise WrongToken(
                "too many tokens are typed at once; wait a few seconds, then type yours again"
            )
        async with self._queue, self._turn:
            if self.fits(typed):
                return
            await asyncio.sleep(_WAIT)
        raise WrongToken(
            "that is not the token; type the one that the terminal shows in which the explorer was started"
        )


def _plain(text: str) -> bytes:
    return "".join(text.lower().replace("-", "").split())[:64].encode("utf-8", "backslashreplace")
