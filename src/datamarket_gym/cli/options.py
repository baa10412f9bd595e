"""Options that several commands share."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any

import typer

from datamarket_gym.core.compute import Compute, computing, device_named
from datamarket_gym.payout.settings import HELP

Jobs = Annotated[int, typer.Option(help="Processes to use; 0 uses every core.", min=0)]
# By what a command computes: none of it is a setting of a run, and none changes a result.
Cluster = Annotated[
    str,
    typer.Option(
        help="Address of a dask scheduler, such as tcp://10.0.0.1:8786, whose workers compute in the stead of this "
        "machine. The results are the same. See docs/cluster.md."
    ),
]
Memory = Annotated[
    float,
    typer.Option(
        help="Memory in GiB for blocks and buffers, beside the units and one copy of them. The results are the same to "
        "the byte. See docs/scale.md."
    ),
]
MEMORY = Compute().memory
BlockDevice = Annotated[
    str,
    typer.Option(
        help="What multiplies large blocks of units: cpu, cuda or auto. Payments are the same to the cent."
    ),
]
Device = Annotated[str, typer.Option(help="Where models are fitted: cpu, cuda or auto.")]
Data = Annotated[
    Path | None,
    typer.Option(
        help="Folder with data sets and weights; also DATAMARKET_DATA. See docs/real-domains.md."
    ),
]
Load = Annotated[
    list[Path] | None,
    typer.Option(
        help="A Python file that registers plug points of yours (again for more). See docs/plug-points.md."
    ),
]
Config = Annotated[
    Path | None, typer.Option(help="TOML file with any settings of `pay`; flags come on top.")
]
# What is done to a run or to a book: to which, by whom, why, and where the inputs are by now.
RunFolder = Annotated[Path, typer.Argument(help="Folder of a payout run.")]
By = Annotated[str | None, typer.Option(help="Who does it; the user's name if left out.")]
Why = Annotated[str, typer.Option(help="The reason, for whoever asks later.")]
MovedSubmissions = Annotated[
    Path | None, typer.Option(help="Where the submissions are now, if they were moved.")
]
MovedValidation = Annotated[Path | None, typer.Option(help="The same for the validation rows.")]
MovedReference = Annotated[Path | None, typer.Option(help="The same for the reference rows.")]
MovedPrior = Annotated[
    list[Path] | None,
    typer.Option(
        help="The folder of an earlier run that this one is priced given, if they were moved; repeat it for each."
    ),
]
MovedIntake = Annotated[
    str | None,
    typer.Option(
        "--intake", help="The same for the intake log, where times are from one: its file or address."
    ),
]
_Text = str | None
PaidFor = Annotated[
    _Text,
    typer.Option(
        "--utility",
        "--learner",
        help=HELP["learner"],
    ),
]
Scores = Annotated[
    _Text,
    typer.Option(help=HELP["files.scores"]),
]
Intake = Annotated[
    _Text,
    typer.Option(help=HELP["intake"]),
]
# Which columns of a table are what, and what lies beside it: the same for all commands that read units.
Id = Annotated[_Text, typer.Option("--id", help=HELP["columns.id"])]
Identity = Annotated[_Text, typer.Option(help=HELP["columns.identity"])]
Label = Annotated[
    _Text,
    typer.Option(help=HELP["columns.label"]),
]
FeatureColumns = Annotated[_Text, typer.Option(help=HELP["columns.features"])]
EmbeddingColumns = Annotated[_Text, typer.Option(help=HELP["columns.embedding"])]
Time = Annotated[
    _Text,
    typer.Option(help=HELP["columns.time"]),
]
TextColumn = Annotated[_Text, typer.Option(help=HELP["columns.text"])]
ImageColumn = Annotated[_Text, typer.Option(help=HELP["columns.image"])]
Images = Annotated[_Text, typer.Option(help=HELP["files.images"])]
EncoderName = Annotated[_Text, typer.Option(help=HELP["encoder"])]
FeaturesFile = Annotated[_Text, typer.Option(help=HELP["files.features"])]
EmbeddingFile = Annotated[_Text, typer.Option(help=HELP["files.embedding"])]
ValidationFeaturesFile = Annotated[_Text, typer.Option(help=HELP["files.validation_features"])]
ReferenceFeaturesFile = Annotated[_Text, typer.Option(help=HELP["files.reference_features"])]


def computes_by(
    *, cluster: str, device: str = "cpu", memory: float = MEMORY
) -> AbstractContextManager[None]:
    """While it is entered, a command computes by what these options name; of ``auto`` it is said what that is."""
    found = device_named(device)
    if device == "auto":
        typer.echo(f"large blocks are multiplied on: {found}", err=True)
    return computing(Compute(found, memory, cluster))


def column_settings(
    *,
    id_: _Text, identity: _Text, label: _Text, features: _Text, embedding: _Text, time: _Text, text: _Text,
    image: _Text, images: _Text, encoder: _Text, features_file: _Text, embedding_file: _Text = None,
    validation_features_file: _Text = None, reference_features_file: _Text = None,
) -> dict[str, Any]:  # fmt: skip
    """The settings of a run (see `payout_spec`) that these options stand for."""
    return {
        "encoder": encoder, "columns.id": id_, "columns.identity": identity, "columns.label": label,
        "columns.features": features, "columns.embedding": embedding, "columns.time": time,
        "columns.text": text, "columns.image": image, "files.images": images,
        "files.features": features_file, "files.embedding": embedding_file,
        "files.validation_features": validation_features_file,
        "files.reference_features": reference_features_file,
    }  # fmt: skip
