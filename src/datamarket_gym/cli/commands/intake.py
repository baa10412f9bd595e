"""``datamarket intake``: what arrives, from whom and when."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from datamarket_gym.cli import options

if TYPE_CHECKING:
    from datamarket_gym.cli.intake import Handed

group = typer.Typer(
    no_args_is_help=True,
    help="The intake log: which units arrived, from whom and when, by your clock. See docs/intake.md.",
)

_Text = str | None
Where = Annotated[
    str,
    typer.Argument(metavar="BOOK", help="The log: a book of its own, or the market's; file or address."),
]
BatchFile = Annotated[
    str,
    typer.Argument(
        metavar="BATCH",
        help="Table of one submitter's units, in any format that pay reads, or a folder identity/label/image.",
    ),
]
Name = Annotated[
    _Text, typer.Option("--identity", help="Whose units they are; the column of the batch if left out.")
]
IdentityColumn = Annotated[
    str, typer.Option(help="Column with the identity, where the batch has one; it must agree.")
]
ReceiptFile = Annotated[
    Path | None,
    typer.Option("--receipt", help="Where the receipt goes; beside the batch if left out."),
]
TextColumn = Annotated[_Text, typer.Option(help="Column with texts, if units are texts.")]
ImageColumn = Annotated[_Text, typer.Option(help="Column with image files, if units are images.")]
Anchors = Annotated[
    Path | None, typer.Option("--anchor", help="File of anchors (see: datamarket book anchor).")
]


@group.command("init")
def init(book: Where) -> None:
    """Begin a log. A book that is there takes batches as it is."""
    from datamarket_gym.cli.intake import begin_log

    begin_log(book)


@group.command("add")
def add(
    book: Where,
    batch: BatchFile,
    identity: Name = None,
    receipt: ReceiptFile = None,
    id_: options.Id = None,
    identity_column: IdentityColumn = "identity",
    label: options.Label = None,
    features: options.FeatureColumns = None,
    text: TextColumn = None,
    image: ImageColumn = None,
    images: options.Images = None,
    features_file: options.FeaturesFile = None,
    by: options.By = None,
) -> None:
    """Enter a batch that arrives now, and write the receipt that its submitter keeps.

    The same batch again is not entered twice: the receipt is that of the first time.
    """
    from datamarket_gym.cli.intake import add_batch

    handed = _handed(batch, id_, identity_column, label, features, text, image, images, features_file)
    add_batch(book, handed, identity, receipt, by)


@group.command("check")
def check(
    receipt: Annotated[Path, typer.Argument(help="File of a receipt.")],
    book: Annotated[_Text, typer.Option(help="The log that must hold it: file or address.")] = None,
    anchor: Anchors = None,
    unit_in: Annotated[
        _Text, typer.Option(help="A batch at hand: is it the one of the receipt?")
    ] = None,
    unit: Annotated[_Text, typer.Option(help="A unit of that batch, by its id.")] = None,
    id_: options.Id = None,
    identity_column: IdentityColumn = "identity",
    label: options.Label = None,
    features: options.FeatureColumns = None,
    text: TextColumn = None,
    image: ImageColumn = None,
    images: options.Images = None,
    features_file: options.FeaturesFile = None,
) -> None:
    """Say what a receipt shows; exit code 1 where something does not hold.

    Anybody can write one that agrees with itself: --book or --anchor shows that the log holds it.
    """
    from datamarket_gym.cli.intake import check_shown

    handed = None
    if unit_in is not None:
        handed = _handed(
            unit_in, id_, identity_column, label, features, text, image, images, features_file
        )
    if not check_shown(receipt, book, anchor, handed, unit):
        raise typer.Exit(1)


@group.command("receipt")
def receipt(
    book: Where,
    entry: Annotated[int, typer.Option(help="Number of the batch's entry (see: intake show).")],
    out: Annotated[Path, typer.Option(help="File of the receipt.")],
) -> None:
    """Write the receipt of a batch again."""
    from datamarket_gym.cli.intake import write_receipt_again

    write_receipt_again(book, entry, out)


@group.command("show")
def show(book: Where) -> None:
    """The batches of the log: when they came, from whom, how many units."""
    from datamarket_gym.cli.intake import show_log

    show_log(book)


def _handed(
    batch: str, id_: _Text, identity_column: str, label: _Text, features: _Text, text: _Text, image: _Text,
    images: _Text, features_file: _Text,
) -> Handed:  # fmt: skip
    """The batch that these options describe."""
    from datamarket_gym.cli.intake import Handed
    from datamarket_gym.payout.spec import Columns, Files

    columns = Columns(
        id=id_,
        identity=identity_column,
        label=label,
        features=features,
        text=text,
        image=image,
    )
    return Handed(batch, columns, Files(features=features_file, images=images))
