"""``datamarket theta``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from datamarket_gym.cli import options


def command(
    embeddings: Annotated[
        str,
        typer.Argument(
            help="Embeddings (.npz, .npy, or a table with a column 'embedding' or 'features' as for `pay`), "
            "or a domain: cifar10, stl10, agnews, imdb."
        ),
    ],
    partition: Annotated[
        str,
        typer.Option(
            help="How honest providers come by their units: iid, class_stratified, dirichlet@0.5, ..., "
            "or identities (the table's own). A domain has its own default."
        ),
    ] = "",
    providers: Annotated[int, typer.Option(help="Providers in a simulated market.", min=2)] = 4,
    per_provider: Annotated[int, typer.Option(help="Units of each.", min=1)] = 50,
    trials: Annotated[int, typer.Option(help="Simulated markets.", min=1)] = 30,
    variants: Annotated[
        str,
        typer.Option(help="The attack whose copies must be tied; see: datamarket list attack."),
    ] = "near_duplicate_2x_sybils@0.02",
    sample: Annotated[int, typer.Option(help="Units of which variants are made.", min=1)] = 5000,
    cutoff: Annotated[float, typer.Option(help="Tolerated share of mixed components.")] = 0.10,
    seed: Annotated[int, typer.Option(help="Seed of the simulation.")] = 0,
    json_: Annotated[
        Path | None, typer.Option("--json", help="Write everything that was found to this file.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the curve and the bounds (.png, .svg or .pdf).")
    ] = None,
    data: options.Data = None,
    config: options.Config = None,
    id_: options.Id = None,
    identity: options.Identity = None,
    label: options.Label = None,
    features: options.FeatureColumns = None,
    embedding: options.EmbeddingColumns = None,
    time: options.Time = None,
    text: options.TextColumn = None,
    image: options.ImageColumn = None,
    images: options.Images = None,
    encoder: options.EncoderName = None,
    features_file: options.FeaturesFile = None,
) -> None:
    """Which similarity threshold do these embeddings allow?

    Prints the theta that `recommended` takes where these are the validation rows (or the reference rows), by the
    honest price of lineage: a share of pay by 5-NN accuracy, whatever a payday pays for. Then the check for
    components, by which the paper's mechanisms tie: two floors, a ceiling, the admissible interval and a verdict.
    The options are those of the second. Columns are named as for `pay`.
    """
    from datamarket_gym.cli.theta import Question, show_theta
    from datamarket_gym.payout.theta import ThetaCheck
    from datamarket_gym.world.data.files import looking_in

    columns = options.column_settings(
        id_=id_, identity=identity, label=label, features=features, embedding=embedding, time=time, text=text,
        image=image, images=images, encoder=encoder, features_file=features_file,
    )  # fmt: skip
    check = ThetaCheck(partition, providers, per_provider, trials, variants, sample, cutoff, seed)
    asked = Question(embeddings, check, config, columns)
    with looking_in(data):
        show_theta(asked, json_, plot)
