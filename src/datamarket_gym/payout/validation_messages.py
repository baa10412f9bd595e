"""What the validation rows of a run say, for the operator: first words of a text, the name of an image, or an id.

They are read from the operator's own file, as it was when the run was made; no file of a run holds them.
"""

from __future__ import annotations

from pathlib import Path

from datamarket_gym.data.readers.tables import Table
from datamarket_gym.errors import RunError
from datamarket_gym.payout.images import image_bytes, image_tree, images_hash
from datamarket_gym.payout.inputs import file_hash
from datamarket_gym.payout.manifest import read_manifest, spec_of
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.stored_inputs import places_of

_LONGEST = 60


def need_messages(folder: Path, validation: Path | None = None) -> list[str]:
    """What each validation row of a run is, in a few words; blank where it has numbers alone.

    ``validation``: where the rows are now, if they were moved. Refused where they are not those of the run.
    """
    path, manifest = places_of(folder, validation=validation).validation, read_manifest(folder)
    if not path.exists():
        raise RunError(
            f"{str(path)!r}, where the validation rows of the run were, is not there; say where they are: --validation"
        )
    tree = image_tree(path, identities=False) if path.is_dir() else None
    found = (
        file_hash(path)
        if tree is None
        else images_hash(path, tree.names, image_bytes(path, tree.names), tree.skipped)
    )
    if found["sha256"] != manifest["inputs"]["validation"]["sha256"]:
        raise RunError(
            f"{str(path)!r} holds other validation rows than those of the run (the hashes differ); say where these "
            "are: --validation"
        )
    if tree is not None:
        return [visible(name, _LONGEST) for name in tree.names]
    columns, table = spec_of(manifest).columns, Table.open(path)
    for name in (columns.text, columns.image, columns.id, "id"):
        if name is not None and name in table.names:
            return [_few(text or "") for text in table.read([name])[0][name].optional()]
    some = next(iter(table.names))
    return [""] * len(table.read([], [some])[0][some].data)


def _few(text: str) -> str:
    """The first words of a text."""
    words = " ".join(text[: 8 * _LONGEST].split())
    shown = words if len(words) <= _LONGEST else words[:_LONGEST].rpartition(" ")[0] + " …"
    return visible(shown, 2 * _LONGEST)
