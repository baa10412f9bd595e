"""``datamarket audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from datamarket_gym.cli import options
from datamarket_gym.core import scripts
from datamarket_gym.core.machine import available_cores


def command(
    submission: Annotated[
        str, typer.Argument(help="Table of units, or a folder identity/label/image, as for `pay`.")
    ],
    validation: Annotated[
        str,
        typer.Option(
            help="Validation rows (features, and labels if there are any), on which value is measured."
        ),
    ],
    reference: Annotated[
        str | None,
        typer.Option(
            help="Other honest units (likewise) on which `recommended` measures its threshold in their stead."
        ),
    ] = None,
    mechanism: Annotated[
        str, typer.Option(help="The mechanism that would pay, such as quotient_shapley/cosine@0.95.")
    ] = "recommended",
    utility: options.PaidFor = None,
    scores: options.Scores = None,
    empty: Annotated[
        str | None,
        typer.Option(
            help="What accuracy is counted from: chance if left out, or none. Coverage is counted from nothing."
        ),
    ] = None,
    checks: Annotated[
        int | None,
        typer.Option(
            help="Units of each payee that the payday looks at, 0 for none: gains are expected ones. "
            "3 if left out, none for a mechanism of your own.",
            min=0,
        ),
    ] = None,
    power: Annotated[
        float | None,
        typer.Option(
            help="The probability that a check of a unit that is not genuine finds that out; 0.8 if left out."
        ),
    ] = None,
    knowledge: Annotated[
        float, typer.Option(help="The share of the others' units that attackers see: 0 none, 1 all.")
    ] = 1.0,
    providers: Annotated[
        int | None,
        typer.Option(help="How many providers to try, drawn at random; all if left out.", min=1),
    ] = None,
    attacks: Annotated[
        str | None,
        typer.Option(help="Only attacks of these names, or written so (comma-separated, * allowed)."),
    ] = None,
    stop_at: Annotated[float, typer.Option(help="A gain up to this counts as stopped.", min=1.0)] = 1.05,
    seed: Annotated[int, typer.Option(help="Seed of the attackers' randomness.", min=0)] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the report; runs/audit if left out.")
    ] = None,
    jobs: options.Jobs = 0,
    cluster: options.Cluster = "",
    device: options.BlockDevice = "cpu",
    memory: options.Memory = options.MEMORY,
    load: options.Load = None,
    config: options.Config = None,
    id_: options.Id = None,
    identity: options.Identity = None,
    label: options.Label = None,
    features: options.FeatureColumns = None,
    embedding: options.EmbeddingColumns = None,
    time: options.Time = None,
    intake: options.Intake = None,
    text: options.TextColumn = None,
    image: options.ImageColumn = None,
    images: options.Images = None,
    encoder: options.EncoderName = None,
    features_file: options.FeaturesFile = None,
    embedding_file: options.EmbeddingFile = None,
    validation_features_file: options.ValidationFeaturesFile = None,
    reference_features_file: options.ReferenceFeaturesFile = None,
) -> None:
    """Let every provider of a submission try the attack library, and print what it would gain.

    Each identity is taken for an honest provider. Printed are the worst gain of each attack were nothing checked, and
    what is expected given the checks: which attacks are stopped, deterred by checks alone, or neither. Writes
    audit.json and audit.md; interrupted, the same command resumes.
    """
    from datamarket_gym.cli.audit import AuditedTables, audit_and_show
    from datamarket_gym.learners.oracle import Utility
    from datamarket_gym.payout.spec import payout_spec

    scripts.load(load or [])
    columns = options.column_settings(
        id_=id_, identity=identity, label=label, features=features, embedding=embedding, time=time, text=text,
        image=image, images=images, encoder=encoder, features_file=features_file, embedding_file=embedding_file,
        validation_features_file=validation_features_file, reference_features_file=reference_features_file,
    )  # fmt: skip
    # Nothing is paid here; but the settings of a payday say an amount.
    asked = {"amount": "1", "learner": utility, "checks": checks, "power": power, "files.scores": scores}
    spec = payout_spec(config, asked | columns)
    with options.computes_by(cluster=cluster, device=device, memory=memory):
        audit_and_show(
            AuditedTables(submission, validation, reference, spec.files.scores),
            intake,
            spec,
            mechanism,
            spec.utility if empty is None else Utility(spec.learner, empty),
            checks if config is None else spec.checks,
            knowledge,
            providers,
            attacks,
            stop_at,
            seed,
            out or Path("runs") / "audit",
            jobs or available_cores(),
        )
