"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Jobs = Annotated[int, typer.Option(help="Processes to use; 0 uses every core.", min=0)]
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
