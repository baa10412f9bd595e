"""A batch as it is handed in: a table in any format that ``pay`` reads, or a folder identity/label/image.

Labels may be missing, as for ``pay``; columns are named as there. No encoder is asked: texts, files of images and
features are taken as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from datamarket_gym.core.arrays import Features
from datamarket_gym.core.errors import SubmissionError, UnknownNameError
from datamarket_gym.payout.book.arrived import What
from datamarket_gym.payout.images import Skipped, image_bytes, image_tree
from datamarket_gym.payout.intake.content import unit_digests, what_of
from datamarket_gym.payout.names import require_writable, visible
from datamarket_gym.payout.spec import Columns, Files
from datamarket_gym.units.labels import unlabelled
from datamarket_gym.units.readers.arrays import ArrayFile
from datamarket_gym.units.readers.files import file_and_member
from datamarket_gym.units.readers.tables import Table, rows_read


@dataclass(frozen=True)
class UnitBatch:
    """The digests of units, row by row; whose they are, where the batch says so."""

    where: str
    what: What
    ids: list[str]
    identity: list[str] | None
    digests: list[bytes]
    skipped: Skipped  # files of a folder that were not read

    def owner(self, named: str | None) -> str:
        """Whose batch it is: of one who hands it in, whom the batch may name and must not contradict."""
        inside = sorted(set(self.identity or ()))
        if len(inside) > 1:
            raise SubmissionError(
                f"{self.where} holds units of {len(inside):,} identities ({visible(inside[0])!r}, "
                f"{visible(inside[1])!r}, ...), and what arrives in one file is in no order: give each a batch"
            )
        if named is None and not inside:
            raise SubmissionError(
                f"{self.where} does not say whose units it holds; name who hands it in with --payee"
            )
        if named is not None and inside and inside != [named]:
            raise SubmissionError(
                f"{self.where} holds units of {visible(inside[0])!r}, and is to be entered as {visible(named)!r}'s; "
                "correct --payee, or the batch"
            )
        owner = inside[0] if named is None else named
        require_writable("identity", [owner])
        return owner

    def place(self, unit: str) -> int:
        """The row of a unit, by its id."""
        if self.ids.count(unit) > 1:
            raise SubmissionError(f"{self.where} has several units {unit!r}; give each an id of its own")
        if unit not in self.ids:
            raise UnknownNameError("unit", unit, self.ids)
        return self.ids.index(unit)


def read_batch(path: Path, columns: Columns, files: Files) -> UnitBatch:
    """Read a batch; what cannot be read is refused by its row."""
    if path.is_dir():
        tree = image_tree(path, identities=True)
        found = unit_digests("image", tree.label, image_bytes(path, tree.names))
        return UnitBatch(repr(str(path)), "image", tree.names, tree.identity, found, tree.skipped)
    what, table = what_of(columns), Table.open(path)
    label_column = table.label_column(columns.label)
    labels = [] if label_column is None else [label_column]
    held_in = {"text": columns.text, "image": columns.image}.get(what)
    content = [] if held_in is None else [table.require(what, held_in)]
    id_ = columns.id or ("id" if "id" in table.names else None)
    ids = [] if id_ is None else [table.require("id", id_)]
    owners = [columns.identity] if columns.identity in table.names else []
    matrices = {}
    if what == "features" and files.features is None:
        matrices["features"] = table.require_matrix("features", columns.features or "features")
    text = [*ids, *owners, *content]
    other = [*labels, *table.counting(text, labels, matrices)]
    single, dense = table.read(text, other, matrices, narrow=True)
    count = rows_read(single, dense)
    if labels and single[labels[0]].is_blank(columns.label):
        labels = []
    label = single[labels[0]].values() if labels else unlabelled(count)
    payload: Features | list[str] | list[bytes]
    if what == "text":
        payload = single[content[0]].strings()
    elif what == "image":
        if files.images is None:
            raise SubmissionError(f"{table.where}: name the folder of the images, too (--images)")
        payload = image_bytes(Path(files.images), single[content[0]].named())
    else:
        payload = dense["features"] if matrices else _array(str(files.features), count)
    return UnitBatch(
        table.where,
        what,
        single[ids[0]].named() if ids else [f"row {i}" for i in range(count)],
        single[owners[0]].named() if owners else None,
        unit_digests(what, label, payload),
        [],
    )


def _array(written: str, rows: int) -> Features:
    path, member = file_and_member(written)
    return ArrayFile.open(path).matrix(member, rows, narrow=True)
