"""Sealed batches: hashes now, content later.

Of each unit the submitter hands over a salted digest, under a random secret of 32 bytes that stays at home:

    salted = HMAC-SHA256(secret, tag + length of the identity, 8 bytes + identity + place, 8 bytes + digest)

What is entered is the root over these. It says nothing of the content to anybody without the secret, however few
contents there may be to try; and the identity is in it, so that nobody else can reveal it as theirs, even with content
and secret in hand. At the reveal the secret is entered too: from then on anybody can work the root out again.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence

from datamarket_gym.payout.intake.merkle import root

SECRET = 32
"""Bytes of a secret."""
_TAG = b"datamarket sealed unit 1\n"


def new_secret() -> bytes:
    """A secret that nobody can guess."""
    return secrets.token_bytes(SECRET)


def salted(digest: bytes, place: int, secret: bytes, identity: str) -> bytes:
    """The salted digest of a unit at a place of a batch."""
    name = identity.encode()
    said = (_TAG, len(name).to_bytes(8, "little"), name, place.to_bytes(8, "little"), digest)
    return hmac.digest(secret, b"".join(said), "sha256")


def sealed_root(digests: Sequence[bytes], secret: bytes, identity: str) -> bytes:
    """The root over the salted digests of a batch."""
    return root([salted(each, place, secret, identity) for place, each in enumerate(digests)])
