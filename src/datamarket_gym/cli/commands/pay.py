"""``datamarket pay``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_Text = str | None


def command(
    submissions: Annotated[
        Path,
        typer.Argument(
            help="Table of units (.parquet, .csv, .arrow, .jsonl), or a folder identity/label/image."
        ),
    ],
    validation: Annotated[
        Path, typer.Option(help="Table of validation rows with labels, or a folder label/image.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the run; a killed run in it is resumed.")],
    amount: Annotated[_Text, typer.Option(help="Amount to divide, such as 10000.00.")] = None,
    currency: Annotated[_Text, typer.Option(help="Its currency; EUR if left out.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with any of these settings; flags come on top.")
    ] = None,
    negative: Annotated[
        _Text,
        typer.Option(help="Scores below zero: carry (to the next run) or zero (count as nothing)."),
    ] = None,
    theta: Annotated[
        _Text,
        typer.Option(help="Similarity threshold: auto, none, or a number; used only where admissible."),
    ] = None,
    id_: Annotated[_Text, typer.Option("--id", help="Column with unit ids.")] = None,
    identity: Annotated[_Text, typer.Option(help="Column with identities.")] = None,
    label: Annotated[_Text, typer.Option(help="Column with labels, in both tables.")] = None,
    features: Annotated[
        _Text,
        typer.Option(help="List column, stem of numbered columns, or columns a,b,c; in both tables."),
    ] = None,
    embedding: Annotated[
        _Text, typer.Option(help="The same for what similarity compares; the features if left out.")
    ] = None,
    time: Annotated[_Text, typer.Option(help="Column with submission times: the earliest owns.")] = None,
    trusted_source: Annotated[
        _Text,
        typer.Option(help="Column naming the unit each unit derives from (its own id: an original)."),
    ] = None,
    text: Annotated[_Text, typer.Option(help="Column with texts, embedded by --encoder.")] = None,
    image: Annotated[_Text, typer.Option(help="Column with image files, embedded by --encoder.")] = None,
    images: Annotated[_Text, typer.Option(help="Folder of those image files.")] = None,
    encoder: Annotated[
        _Text, typer.Option(help="Encoder of texts or images; see: list encoder.")
    ] = None,
    features_file: Annotated[
        _Text, typer.Option(help="Features of the submissions as .npy or .npz#name, row by row.")
    ] = None,
    embedding_file: Annotated[
        _Text, typer.Option(help="Embeddings of the submissions, likewise.")
    ] = None,
    validation_features_file: Annotated[
        _Text, typer.Option(help="Features of the validation rows, likewise.")
    ] = None,
    link: Annotated[
        list[str] | None,
        typer.Option(
            help="Column(s) that show who is who: payout, device+licence, device+time:3600; repeatable."
        ),
    ] = None,
    link_fuzzy: Annotated[
        list[str] | None,
        typer.Option(help="Column that splink compares (needs the extra linkage); repeatable."),
    ] = None,
    edges: Annotated[
        _Text, typer.Option(help="Table id_l, id_r, probability of ties found elsewhere.")
    ] = None,
    edges_between: Annotated[
        _Text, typer.Option(help="What that table ties: identities or units.")
    ] = None,
    overrides: Annotated[
        Path | None, typer.Option(help="TOML file of signed-off splits and joins.")
    ] = None,
    carry_from: Annotated[
        Path | None, typer.Option(help="Folder of an approved run whose balances are taken up.")
    ] = None,
    leak_check: Annotated[
        _Text,
        typer.Option(
            help="Units that are validation rows, or nearly: drop (they earn nothing), error, or off."
        ),
    ] = None,
    audit: Annotated[
        bool | None,
        typer.Option("--audit/--no-audit", help="Attack a sample of the market for the report."),
    ] = None,
) -> None:
    """Divide an amount among those who submitted data, with an audit trail.

    Writes payments (CSV, Parquet), clusters, evidence, canonical units, manifest, ledger and report.
    """
    from datamarket_gym.cli.payout import run_and_show

    flags = {
        "amount": amount, "currency": currency, "negative": negative, "theta": theta, "encoder": encoder,
        "audit": audit, "leak_check": leak_check,
        "columns.id": id_, "columns.identity": identity, "columns.label": label,
        "columns.features": features, "columns.embedding": embedding, "columns.time": time,
        "columns.trusted_source": trusted_source, "columns.text": text, "columns.image": image,
        "files.images": images, "files.features": features_file, "files.embedding": embedding_file,
        "files.validation_features": validation_features_file, "linkage.keys": link,
        "linkage.fuzzy": link_fuzzy, "linkage.edges": edges, "linkage.between": edges_between,
    }  # fmt: skip
    run_and_show(submissions, validation, out, config, flags, overrides, carry_from)
