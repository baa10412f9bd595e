"""Scores of units by a public attribution tool: a table (unit, row, score) that `datamarket pay --scores` reads.

Usage: python examples/attribution_tools.py TRAINING VALIDATION --tool captum|dattri|trak --out scores.parquet

It runs where the tool is (`pip install torch pyarrow` and one of captum, dattri, traker) and needs nothing of this
package. TRAINING is the canonical.parquet of a run, or a table of units; VALIDATION the table of validation rows; both
have `features` (lists of numbers) and `label`. A linear softmax model with weight decay is trained on all units by
plain gradient descent from zero, so that nothing is drawn at random, and rows are put in the order of their content, so
that nothing depends on names: the same units get the same scores, to the bit, whoever submits them. What each tool
computes, always so that a positive score means that the unit helps the row:

- captum: TracInCP, sum over checkpoints of rate * <gradient of the unit's loss, gradient of the row's loss>;
- dattri: influence function, <gradient of the row's loss, (Hessian + decay)^-1 gradient of the unit's loss>;
- trak: TRAK itself (the package traker), gradients projected to a few dimensions, over several projections.

attribution_check.py holds each of them to the same thing written out by hand.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

if TYPE_CHECKING:
    from dattri.task import AttributionTask

STEPS = 800  # to the end: no gradient is left but rounding, where features have a length of about one
CHECKPOINTS = (5, 10, 20, 40)  # while the loss still falls, as TracIn wants them
DECAY = 0.01
PROJECTED = 128  # dimensions of the projections of TRAK, and at most a quarter of the units
PROJECTIONS = 32
PACKAGES = {"captum": "captum", "dattri": "dattri", "trak": "traker"}


@dataclass(frozen=True, eq=False)
class Table:
    """Rows with features and class codes; ``names`` are ids, or numbers where there are none."""

    names: list[str | int]
    features: torch.Tensor
    label: torch.Tensor

    def batch(self) -> DataLoader:
        """All rows at once, in order."""
        return DataLoader(TensorDataset(self.features, self.label), batch_size=len(self.label))


def read(training: Path, validation: Path) -> tuple[Table, Table]:
    """The units in the order of their content, and the validation rows in that of their file."""
    units, rows = pq.read_table(training), pq.read_table(validation)
    known = sorted(set(units["label"].to_pylist()) | set(rows["label"].to_pylist()), key=str)
    if "weight" in units.column_names and set(units["weight"].to_pylist()) != {1.0}:
        raise SystemExit(f"{training}: every unit is trained on once here, and some have other weights")
    names = units["unit" if "unit" in units.column_names else "id"].to_pylist()
    made = _table(units, names, known)
    order = np.lexsort((*made.features.numpy().T[::-1], made.label.numpy()))
    units = Table([names[i] for i in order], made.features[order.copy()], made.label[order.copy()])
    return units, _table(rows, list(range(len(rows))), known)


def _table(table: pa.Table, names: list[str | int], classes: list[str | int]) -> Table:
    features = np.array(table["features"].to_pylist(), dtype=np.float32)
    label = [classes.index(each) for each in table["label"].to_pylist()]
    return Table(names, torch.from_numpy(features), torch.tensor(label))


@dataclass(frozen=True, eq=False)
class Trained:
    """A model, its parameters on the way and at the end, and the rate of learning."""

    model: nn.Linear
    checkpoints: list[dict[str, torch.Tensor]]
    last: dict[str, torch.Tensor]
    rate: float


def train(units: Table, rows: Table) -> Trained:
    """Gradient descent from zero on mean cross-entropy + DECAY / 2 |parameters|^2, at a rate that cannot overshoot."""
    classes = int(torch.cat([units.label, rows.label]).max()) + 1
    model = nn.Linear(units.features.shape[1], classes)
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    ones = torch.cat([units.features, torch.ones(len(units.label), 1)], dim=1)
    steepest = torch.linalg.matrix_norm(ones, 2).item() ** 2 / len(ones) / 2 + DECAY
    optimiser = torch.optim.SGD(model.parameters(), lr=1 / steepest, weight_decay=DECAY)
    kept = []
    for step in range(1, STEPS + 1):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(units.features), units.label).backward()
        optimiser.step()
        if step in CHECKPOINTS or step == STEPS:
            kept.append({name: value.detach().clone() for name, value in model.state_dict().items()})
    return Trained(model, kept[:-1], kept[-1], 1 / steepest)


def captum_scores(trained: Trained, units: Table, rows: Table) -> torch.Tensor:
    """TracInCP over the checkpoints; positive: a step along the unit's gradient lowers the row's loss."""
    from captum.influence import TracInCP

    def load(model: nn.Module, checkpoint: dict[str, torch.Tensor]) -> float:
        model.load_state_dict(checkpoint)
        return trained.rate  # captum weighs the checkpoint by it

    tool = TracInCP(
        trained.model,
        units.batch(),
        checkpoints=trained.checkpoints,
        checkpoints_load_func=load,
        loss_fn=nn.CrossEntropyLoss(reduction="sum"),
        sample_wise_grads_per_batch=True,
    )
    return tool.influence((rows.features, rows.label)).T


def dattri_scores(trained: Trained, units: Table, rows: Table) -> torch.Tensor:
    """Influence at the end of training, with the exact Hessian; positive: without the unit the row's loss is higher."""
    from dattri.algorithm.influence_function import IFAttributorExplicit

    tool = IFAttributorExplicit(dattri_task(trained, trained.last), regularization=DECAY)
    tool.cache(units.batch())
    return tool.attribute(units.batch(), rows.batch()).detach()


def dattri_task(trained: Trained, checkpoints: dict | list[dict]) -> AttributionTask:
    """What dattri is to explain: the cross-entropy, at one checkpoint or at several."""
    from dattri.task import AttributionTask

    def loss(parameters: dict, data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        features, label = data
        answer = torch.func.functional_call(trained.model, parameters, (features,))
        return nn.functional.cross_entropy(answer, label)

    return AttributionTask(loss_func=loss, model=trained.model, checkpoints=checkpoints)


def trak_scores(trained: Trained, units: Table, rows: Table, seed: int = 0) -> torch.Tensor:
    """TRAK of the trained model, the mean over several projections; positive: the unit raises the row's margin."""
    from trak import TRAKer

    with tempfile.TemporaryDirectory() as folder:
        tool = TRAKer(
            model=trained.model,
            task="image_classification",  # cross-entropy over classes, whatever the features show
            train_set_size=len(units.label),
            save_dir=folder,
            device="cpu",
            proj_dim=min(PROJECTED, len(units.label) // 4),
            projector_seed=seed,
            use_half_precision=False,
            logging_level=30,
        )
        for number in range(PROJECTIONS):  # each id has its own projection
            tool.load_checkpoint(trained.last, model_id=number)
            tool.featurize(batch=(units.features, units.label), num_samples=len(units.label))
        tool.finalize_features()
        for number in range(PROJECTIONS):
            tool.start_scoring_checkpoint(
                "rows", trained.last, model_id=number, num_targets=len(rows.label)
            )
            tool.score(batch=(rows.features, rows.label), num_samples=len(rows.label))
        return torch.from_numpy(np.array(tool.finalize_scores("rows")))


TOOLS = {"captum": captum_scores, "dattri": dattri_scores, "trak": trak_scores}


def write(scores: torch.Tensor, units: Table, rows: Table, out: Path, tool: str) -> None:
    """The table, one line for each unit and row, with what made it in its metadata; in whole or not at all."""
    n, m = scores.shape
    table = pa.table(
        {
            "unit": pa.array(np.repeat(np.array(units.names, dtype=object), m)).dictionary_encode(),
            "row": pa.array(np.tile(np.array(rows.names, dtype=np.int32), n)),
            "score": pa.array(scores.numpy().astype(np.float32).ravel()),
        }
    )
    made = {"tool": tool} | {name: version(name) for name in (PACKAGES[tool], "torch")}
    part = out.with_name(f"{out.name}.part")
    table = table.replace_schema_metadata({"made_by": json.dumps(made)})
    small = {
        "compression": "zstd",
        "use_dictionary": ["unit", "row"],
        "use_byte_stream_split": ["score"],
    }
    pq.write_table(table, part, **small)
    os.replace(part, out)


def main() -> None:
    """Train, attribute, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("training", type=Path)
    parser.add_argument("validation", type=Path)
    parser.add_argument("--tool", choices=sorted(TOOLS), required=True)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    torch.set_num_threads(1)  # sums are then added in one order
    units, rows = read(asked.training, asked.validation)
    write(TOOLS[asked.tool](train(units, rows), units, rows), units, rows, asked.out, asked.tool)


if __name__ == "__main__":
    main()
