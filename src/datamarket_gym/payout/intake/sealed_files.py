"""The two files of a sealed batch: what is handed over (sealed), and what stays at home until the reveal (secret)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datamarket_gym.core.errors import RunError
from datamarket_gym.core.files import json_text, read_json, replacing, write_json
from datamarket_gym.payout.intake.batch import UnitBatch
from datamarket_gym.payout.intake.content import LENGTH
from datamarket_gym.payout.intake.receipts import FORMAT, ReceiptError
from datamarket_gym.payout.intake.sealing import SECRET, new_secret, sealed_root

_NAMES = {
    "sealed": {"sealed", "identity", "root", "units"},
    "secret": {"secret", "identity", "root", "units", "key"},
}


@dataclass(frozen=True)
class SealedBatch:
    """A batch of which only hashes are shown; whoever sealed it has the secret, too."""

    identity: str
    root: bytes
    units: int
    secret: bytes | None = None

    def plain(self) -> dict[str, Any]:
        """For a file."""
        said: dict[str, Any] = {"identity": self.identity, "root": self.root.hex(), "units": self.units}
        if self.secret is None:
            return {"sealed": FORMAT, **said}
        return {"secret": FORMAT, **said, "key": self.secret.hex()}


def seal(batch: UnitBatch, identity: str, out: Path, secret: Path) -> SealedBatch:
    """Seal a batch; a secret that is there already is not overwritten, for without it nothing can be revealed."""
    if secret.resolve() == out.resolve():
        raise ReceiptError(
            f"{str(out)!r} cannot hold both what is handed over and the secret that stays; name two files"
        )
    for path in (secret, out):
        if path.exists():
            raise ReceiptError(
                f"there is a file {str(path)!r} already, perhaps of a batch that is not revealed yet; name another"
            )
    key = new_secret()
    root = sealed_root(batch.digests, key, identity)
    kept = SealedBatch(identity, root, len(batch.digests), key)
    secret.parent.mkdir(parents=True, exist_ok=True)
    with replacing(secret) as part:
        part.touch(mode=0o600)  # for nobody else on this machine
        part.write_text(json_text(kept.plain(), sort=False), encoding="utf-8")
    handed = SealedBatch(identity, root, len(batch.digests))
    write_json(out, handed.plain(), sort=False)
    return handed


def read_sealed(path: Path) -> SealedBatch:
    """What a submitter hands over; a secret in its stead is refused."""
    return _read(path, "sealed")


def read_secret(path: Path) -> SealedBatch:
    """What was kept until the reveal."""
    return _read(path, "secret")


def _read(path: Path, kind: str) -> SealedBatch:
    try:
        said = read_json(path)
    except RunError as error:
        raise ReceiptError(str(error)) from error
    if kind == "sealed" and isinstance(said, dict) and "key" in said:
        raise ReceiptError(
            f"{str(path)!r} is the secret of a sealed batch, which stays at home until the reveal; hand over the "
            "sealed one"
        )
    if not isinstance(said, dict) or said.get(kind) != FORMAT or set(said) != _NAMES[kind]:
        raise ReceiptError(
            f"{str(path)!r} is not the {kind} file of a batch; name the one that datamarket intake seal wrote"
        )
    try:
        root, key = bytes.fromhex(said["root"]), bytes.fromhex(said.get("key", ""))
        lengths = (len(root), len(key)) == (LENGTH, SECRET if kind == "secret" else 0)
        if not lengths or type(said["units"]) is not int or type(said["identity"]) is not str:
            raise ValueError("its root, its key, its identity or the number of its units")
    except (TypeError, ValueError) as error:
        raise ReceiptError(f"{str(path)!r} was changed: {error}") from error
    return SealedBatch(said["identity"], root, said["units"], key or None)
