"""Holds the attribution tools of attribution_tools.py to what they claim, written out by hand, and to one another.

Usage: python examples/attribution_check.py TRAINING VALIDATION

Runs where torch, captum, dattri and traker are. Prints a line for each comparison and stops where a tool does not
compute what it says: gradient products of captum and of dattri, influence with the Hessian, the signs of all.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from torch import nn

from attribution_tools import DECAY, TOOLS, Table, Trained, dattri_task, read, train, trak_scores

ROUNDING = 1e-5
LEFT_OUT = 60  # units that are left out of training, one at a time


def main() -> None:
    """Compare, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("training", type=Path)
    parser.add_argument("validation", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    units, rows = read(asked.training, asked.validation)
    trained = train(units, rows)
    said = {tool: scores(trained, units, rows) for tool, scores in TOOLS.items()}
    held(
        "captum, TracInCP, against products of gradients", said["captum"], products(trained, units, rows)
    )
    held("dattri, TracIn, against captum", dattri_tracin(trained, units, rows), said["captum"])
    held(
        "dattri, influence, against the Hessian, solved", said["dattri"], influence(trained, units, rows)
    )
    again = trak_scores(trained, units, rows, seed=1)
    alike("trak, against itself under other projections", said["trak"].mean(1), again.mean(1), 0.5)
    chosen, rise = left_out(trained, units, rows)
    for tool, scores in said.items():
        alike(f"{tool}, against the loss of a model without the unit", scores.mean(1)[chosen], rise, 0.5)


def held(what: str, one: torch.Tensor, other: torch.Tensor) -> None:
    """Print that two tables of scores are the same but for rounding, or stop."""
    apart = ((one - other).abs().max() / other.abs().max()).item()
    if not apart <= ROUNDING:
        raise SystemExit(f"{what}: {apart:.1e} of the largest score apart, more than rounding")
    sys.stdout.write(f"{what}: the same to {ROUNDING:g} of the largest score\n")


def alike(what: str, one: torch.Tensor, other: torch.Tensor, least: float) -> None:
    """Print how far scores of units go together, and stop where they do not, or have opposite signs."""
    found = torch.corrcoef(torch.stack([one.double(), other.double()]))[0, 1].item()
    sys.stdout.write(f"{what}: correlation {found:.2f}\n")
    if not found >= least:
        raise SystemExit(f"it is to be at least {least:g}")


def products(trained: Trained, units: Table, rows: Table) -> torch.Tensor:
    """Sum over checkpoints of rate * <gradient of the unit, gradient of the row>."""
    return sum(
        (
            trained.rate * gradients(kept, units) @ gradients(kept, rows).T
            for kept in trained.checkpoints
        ),
        torch.zeros(()),
    )


def gradients(kept: dict[str, torch.Tensor], table: Table) -> torch.Tensor:
    """Those of each row's cross-entropy, (p - y) times (features, 1), flat as the parameters are."""
    residual = answers(kept, table) - nn.functional.one_hot(table.label, len(kept["bias"]))
    return torch.cat([(residual[:, :, None] * table.features[:, None, :]).flatten(1), residual], dim=1)


def answers(kept: dict[str, torch.Tensor], table: Table) -> torch.Tensor:
    """Probabilities of the classes."""
    return torch.softmax(table.features @ kept["weight"].T + kept["bias"], dim=1)


def influence(trained: Trained, units: Table, rows: Table) -> torch.Tensor:
    """<gradient of the unit, (H + decay)^-1 gradient of the row>, H the mean of (diag p - p p^T) x (x, 1)(x, 1)^T."""
    last = trained.last
    p, ones = answers(last, units), torch.cat([units.features, torch.ones(len(units.label), 1)], dim=1)
    spread = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    whole = torch.einsum("nab,ni,nj->aibj", spread, ones, ones) / len(p)
    at = torch.arange(p.shape[1] * ones.shape[1]).reshape(p.shape[1], -1)
    order = torch.cat([at[:, :-1].flatten(), at[:, -1]])  # all weights, then all biases
    hessian = whole.reshape(len(order), -1)[order][:, order] + DECAY * torch.eye(len(order))
    return gradients(last, units) @ torch.linalg.solve(hessian, gradients(last, rows).T)


def dattri_tracin(trained: Trained, units: Table, rows: Table) -> torch.Tensor:
    """What captum computes, by the other tool."""
    from dattri.algorithm.tracin import TracInAttributor

    rates = torch.full((len(trained.checkpoints),), trained.rate)
    tool = TracInAttributor(
        dattri_task(trained, trained.checkpoints), weight_list=rates, normalized_grad=False
    )
    tool.projector_kwargs = None  # it would project, even where it is told not to
    return tool.attribute(units.batch(), rows.batch())


def left_out(trained: Trained, units: Table, rows: Table) -> tuple[torch.Tensor, torch.Tensor]:
    """Some units, and how much higher the mean loss of the rows is after training without each."""
    n = len(units.label)
    chosen = torch.linspace(0, n - 1, min(n, LEFT_OUT)).long()

    def loss(kept: torch.Tensor) -> float:
        model = train(Table([], units.features[kept], units.label[kept]), rows).model
        return nn.functional.cross_entropy(model(rows.features), rows.label).item()

    whole = loss(torch.arange(n))
    return chosen, torch.tensor([loss(torch.arange(n) != i) - whole for i in chosen])


if __name__ == "__main__":
    main()
