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
    learner: Annotated[
        _Text,
        typer.Option(
            help="What is paid for: coverage of the validation rows (if left out; coverage@0.9: only what is much "
            "more alike than strangers counts; coverage(similarity=standardised): for tables), or the accuracy over "
            "chance of knn, ridge, logistic, ...; see: list learner."
        ),
    ] = None,
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
        Path | None,
        typer.Option(
            help="Other honest units with labels, laid out as the validation rows, on which that cost is measured "
            "in their stead: for fewer than 500 validation rows. Nobody is paid for them, nothing is scored on them."
        ),
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
    time: Annotated[
        _Text,
        typer.Option(
            help="Column with when you received each unit, by your clock and not the submitter's: the earliest of "
            "several copies is paid for all."
        ),
    ] = None,
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
    reference_features_file: Annotated[
        _Text, typer.Option(help="Features of the reference rows, likewise.")
    ] = None,
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
) -> None:
    """Divide an amount among those who submitted data, with an audit trail.

    Writes payments (CSV, Parquet), clusters, evidence, canonical units, manifest and report, and
    enters the run into the market's book.
    """
    from datamarket_gym.cli.payout import run_and_show

    flags = {
        "amount": amount, "currency": currency, "period": period, "learner": learner, "checks": checks, "power": power,
        "negative": negative, "theta": theta, "encoder": encoder,
        "audit": audit, "leak_check": leak_check, "opens": opens, "closes": closes, "strict": strict,
        "quarantine": quarantine,
        "beacon": beacon, "columns.id": id_, "columns.identity": identity, "columns.label": label,
        "columns.features": features, "columns.embedding": embedding, "columns.time": time,
        "columns.trusted_source": trusted_source, "columns.text": text, "columns.image": image,
        "files.images": images, "files.features": features_file, "files.embedding": embedding_file,
        "files.validation_features": validation_features_file,
        "files.reference_features": reference_features_file, "linkage.keys": link,
        "linkage.fuzzy": link_fuzzy, "linkage.confirm": confirm,
        "linkage.edges": edges, "linkage.between": edges_between,
    }  # fmt: skip
    run_and_show(submissions, validation, out, config, flags, overrides, reference, book)
