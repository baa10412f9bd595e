"""``datamarket pay``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from datamarket_gym.cli import options
from datamarket_gym.core import scripts

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
        typer.Option(
            help="Table of validation rows, with labels where the units have them, or a folder label/image (without "
            "labels a folder of images)."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the run; a killed run in it is resumed.")],
    amount: Annotated[_Text, typer.Option(help="Amount to divide, such as 10000.00.")] = None,
    currency: Annotated[_Text, typer.Option(help="Its currency; EUR if left out.")] = None,
    config: options.Config = None,
    utility: options.PaidFor = None,
    scores: options.Scores = None,
    load: options.Load = None,
    checks: Annotated[
        int | None,
        typer.Option(
            help="How many units of each payee are to be checked before the run can be approved: 3 if left out, "
            "0 for none. See: check --help."
        ),
    ] = None,
    power: Annotated[
        float | None,
        typer.Option(help="How often a check finds a unit that is not genuine; 0.8 if left out."),
    ] = None,
    negative: Annotated[
        _Text,
        typer.Option(
            help="Scores below zero, which accuracy has and coverage has not: carry (to the next run; if left out) or "
            "zero (count as nothing)."
        ),
    ] = None,
    theta: Annotated[
        _Text,
        typer.Option(
            help="Similarity threshold: auto (if left out), none, or a number, which may cost the honest at most 1 %."
        ),
    ] = None,
    reference: Annotated[
        _Text,
        typer.Option(
            help="Other honest units, laid out as the validation rows, on which that cost is measured "
            "in their stead: for fewer than 500 validation rows. Nobody is paid for them, nothing is scored on them."
        ),
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
        typer.Option(help="When the market began (2026-05-01, or with a time): earlier units are told."),
    ] = None,
    closes: Annotated[
        _Text,
        typer.Option(
            help="When it closed, likewise: later units are told. If left out: those later than now."
        ),
    ] = None,
    beacon: Annotated[
        _Text,
        typer.Option(
            help="Text under which units of equal time draw lots for who was first: announce beforehand what it will "
            "be, such as tomorrow's public random number. If left out: a digest of the validation rows."
        ),
    ] = None,
    strict: Annotated[
        bool | None,
        typer.Option(
            "--strict/--not-strict",
            help="Stop, instead of warning, where times are missing, equal, too early or in the future.",
        ),
    ] = None,
    quarantine: Annotated[
        bool | None,
        typer.Option(
            "--quarantine/--no-quarantine",
            help="Set bad rows of the submissions aside, list them in quarantine.csv and go on, instead of stopping. "
            "Validation rows are never set aside.",
        ),
    ] = None,
    trusted_source: Annotated[
        _Text,
        typer.Option(
            help="Column naming the unit each unit derives from. It counts where that unit came earlier; blank, "
            "unknown, its own id or a later one: the clock decides as without."
        ),
    ] = None,
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
        typer.Option(
            help="Column(s) whose shared values are listed as claims of who is who: payout, device+licence, "
            "device+time:3600; repeatable. A claim alone ties nobody: see --confirm and --edges."
        ),
    ] = None,
    link_fuzzy: Annotated[
        list[str] | None,
        typer.Option(
            help="Column that splink compares, for claims likewise (needs the extra linkage); repeatable."
        ),
    ] = None,
    confirm: Annotated[
        _Text,
        typer.Option(
            help="Column in which identities name those that are the same payee (several: a; b). "
            "Two that name each other are paid as one."
        ),
    ] = None,
    edges: Annotated[
        _Text,
        typer.Option(
            help="Your own table id_l, id_r, probability of who is one payee; it stands alone."
        ),
    ] = None,
    edges_between: Annotated[
        _Text, typer.Option(help="What that table ties: identities or units.")
    ] = None,
    overrides: Annotated[
        Path | None, typer.Option(help="TOML file of signed-off splits and joins.")
    ] = None,
    prior: Annotated[
        list[Path] | None,
        typer.Option(
            help="Folder of an earlier run that is approved; repeat it for each. What it has bought is there already: "
            "units that evidence ties to it earn nothing, and new ones are paid for what they add."
        ),
    ] = None,
    reuse: Annotated[
        Path | None,
        typer.Option(
            help="Folder of a run of most of these units, such as the one before late units came in: pairs of units "
            "that it compared are not compared again. The results are the same to the byte."
        ),
    ] = None,
    book: Annotated[
        _Text,
        typer.Option(
            help="The market's book, in which every run is entered: a file, or postgresql://user@host/name. "
            "If left out: book.sqlite beside the folder --out. Its balances in this currency are taken up."
        ),
    ] = None,
    period: Annotated[
        _Text, typer.Option(help='What the payday is for, such as "June 2026"; stands on pages.')
    ] = None,
    leak_check: Annotated[
        _Text,
        typer.Option(
            help="Units that are validation rows, or nearly: drop (they earn nothing; if left out), error, or off "
            "(they are paid)."
        ),
    ] = None,
    audit: Annotated[
        bool | None,
        typer.Option("--audit/--no-audit", help="Attack a sample of the market for the report."),
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

    scripts.load(load or [])
    flags = {
        "amount": amount, "currency": currency, "period": period, "learner": utility, "checks": checks, "power": power,
        "negative": negative, "theta": theta, "audit": audit, "leak_check": leak_check, "opens": opens,
        "closes": closes, "strict": strict, "quarantine": quarantine, "beacon": beacon,
        "columns.trusted_source": trusted_source,
        "linkage.keys": link, "linkage.fuzzy": link_fuzzy, "linkage.confirm": confirm, "linkage.edges": edges,
        "linkage.between": edges_between, "files.scores": scores,
    }  # fmt: skip
    columns = options.column_settings(
        id_=id_, identity=identity, label=label, features=features, embedding=embedding, time=time, text=text,
        image=image, images=images, encoder=encoder, features_file=features_file, embedding_file=embedding_file,
        validation_features_file=validation_features_file, reference_features_file=reference_features_file,
    )  # fmt: skip
    with options.computes_by(cluster=cluster, device=device, memory=memory):
        run_and_show(
            submissions,
            validation,
            out,
            config,
            flags | columns,
            overrides,
            reference,
            book,
            prior or [],
            intake,
            reuse,
        )
