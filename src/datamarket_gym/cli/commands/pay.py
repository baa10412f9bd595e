"""``datamarket pay``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from datamarket_gym.cli import options
from datamarket_gym.core import scripts
from datamarket_gym.payout.settings import HELP

_Text = str | None


def command(
    submissions: Annotated[
        str,
        typer.Argument(
            help="Table of units (.parquet, .csv, .arrow, .jsonl, .xlsx#Sheet, 'duckdb:market.db#SELECT ...', "
            "'postgresql://user@host/db#SELECT ...'), or a folder identity/label/image; without "
            "labels, identity/image. See docs/tables.md."
        ),
    ],
    validation: Annotated[
        str,
        typer.Option(help=HELP["validation"]),
    ],
    out: Annotated[Path, typer.Option(help=HELP["out"])],
    amount: Annotated[_Text, typer.Option(help=HELP["amount"])] = None,
    currency: Annotated[_Text, typer.Option(help=HELP["currency"])] = None,
    config: options.Config = None,
    utility: options.PaidFor = None,
    scores: options.Scores = None,
    load: options.Load = None,
    checks: Annotated[
        int | None,
        typer.Option(help=HELP["checks"]),
    ] = None,
    power: Annotated[
        float | None,
        typer.Option(help=HELP["power"]),
    ] = None,
    negative: Annotated[
        _Text,
        typer.Option(help=HELP["negative"]),
    ] = None,
    theta: Annotated[
        _Text,
        typer.Option(help=HELP["theta"]),
    ] = None,
    reference: Annotated[
        _Text,
        typer.Option(help=HELP["reference"]),
    ] = None,
    id_: options.Id = None,
    identity: options.Identity = None,
    label: options.Label = None,
    features: options.FeatureColumns = None,
    embedding: options.EmbeddingColumns = None,
    time: options.Time = None,
    intake: options.Intake = None,
    opens: Annotated[
        _Text,
        typer.Option(help=HELP["opens"]),
    ] = None,
    closes: Annotated[
        _Text,
        typer.Option(help=HELP["closes"]),
    ] = None,
    beacon: Annotated[
        _Text,
        typer.Option(help=HELP["beacon"]),
    ] = None,
    strict: Annotated[
        bool | None,
        typer.Option(
            "--strict/--not-strict",
            help=HELP["strict"],
        ),
    ] = None,
    quarantine: Annotated[
        bool | None,
        typer.Option(
            "--quarantine/--no-quarantine",
            help=HELP["quarantine"],
        ),
    ] = None,
    trusted_source: Annotated[
        _Text,
        typer.Option(help=HELP["columns.trusted_source"]),
    ] = None,
    metadata: Annotated[_Text, typer.Option(help=HELP["columns.metadata"])] = None,
    text: options.TextColumn = None,
    image: options.ImageColumn = None,
    images: options.Images = None,
    encoder: options.EncoderName = None,
    features_file: options.FeaturesFile = None,
    embedding_file: options.EmbeddingFile = None,
    validation_features_file: options.ValidationFeaturesFile = None,
    reference_features_file: options.ReferenceFeaturesFile = None,
    link: Annotated[
        list[str] | None,
        typer.Option(help=HELP["linkage.keys"]),
    ] = None,
    link_fuzzy: Annotated[
        list[str] | None,
        typer.Option(help=HELP["linkage.fuzzy"]),
    ] = None,
    confirm: Annotated[
        _Text,
        typer.Option(help=HELP["linkage.confirm"]),
    ] = None,
    edges: Annotated[
        _Text,
        typer.Option(help=HELP["linkage.edges"]),
    ] = None,
    edges_between: Annotated[_Text, typer.Option(help=HELP["linkage.between"])] = None,
    overrides: Annotated[Path | None, typer.Option(help=HELP["overrides"])] = None,
    prior: Annotated[
        list[Path] | None,
        typer.Option(help=HELP["prior"]),
    ] = None,
    reuse: Annotated[
        Path | None,
        typer.Option(help=HELP["reuse"]),
    ] = None,
    book: Annotated[
        _Text,
        typer.Option(help=HELP["book"]),
    ] = None,
    period: Annotated[_Text, typer.Option(help=HELP["period"])] = None,
    leak_check: Annotated[
        _Text,
        typer.Option(help=HELP["leak_check"]),
    ] = None,
    audit: Annotated[
        bool | None,
        typer.Option("--audit/--no-audit", help=HELP["audit"]),
    ] = None,
    cluster: options.Cluster = "",
    device: options.BlockDevice = "cpu",
    memory: options.Memory = options.MEMORY,
) -> None:
    """Divide an amount among those who submitted data, with an audit trail.

    Writes payments (CSV, Parquet), clusters, evidence, canonical units, manifest and report, and
    enters the run into the market's book.
    """
    from datamarket_gym.cli.payout import run_and_show
    from datamarket_gym.payout.request import PayRequest
    from datamarket_gym.payout.spec import payout_spec

    scripts.load(load or [])
    flags = {
        "amount": amount, "currency": currency, "period": period, "learner": utility, "checks": checks, "power": power,
        "negative": negative, "theta": theta, "audit": audit, "leak_check": leak_check, "opens": opens,
        "closes": closes, "strict": strict, "quarantine": quarantine, "beacon": beacon,
        "columns.trusted_source": trusted_source, "columns.metadata": metadata,
        "linkage.keys": link, "linkage.fuzzy": link_fuzzy, "linkage.confirm": confirm, "linkage.edges": edges,
        "linkage.between": edges_between, "files.scores": scores,
    }  # fmt: skip
    columns = options.column_settings(
        id_=id_, identity=identity, label=label, features=features, embedding=embedding, time=time, text=text,
        image=image, images=images, encoder=encoder, features_file=features_file, embedding_file=embedding_file,
        validation_features_file=validation_features_file, reference_features_file=reference_features_file,
    )  # fmt: skip
    request = PayRequest(
        submissions, validation, out, payout_spec(config, flags | columns), overrides, reference, book,
        tuple(prior or ()), intake, reuse,
    )  # fmt: skip
    with options.computes_by(cluster=cluster, device=device, memory=memory):
        run_and_show(request)
