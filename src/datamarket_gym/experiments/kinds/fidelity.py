"""How well utilities' values predict what models learn: kind ``fidelity`` (``datamarket run lds``).

Everybody is honest. Each model is trained on random halves of the units, once for all utilities. Each utility's Shapley
values of units on single validation rows are compared with it (`datamarket_gym.utilities.fidelity`). For utilities in
``by_identity`` the players are identities, whose value is divided equally among their units.

Two kinds of rows are no utilities: ``scores``, the gradient products of `datamarket_gym.experiments.kinds.utilities`
along the fit of a logistic regression and at its end (its influence, the yardstick), and ``random``, attributions that
are drawn independently of the data (the control, whose LDS is zero in expectation).
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from datamarket_gym.data.content_keys import keyed_generator
from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.arrays import Values
from datamarket_gym.experiments.cells import Cell, Row, kind
from datamarket_gym.experiments.kinds.utilities import RANDOM, ScoresEntry, gradient_products
from datamarket_gym.games.semivalues import SEMIVALUES
from datamarket_gym.registry import Document
from datamarket_gym.utilities.fidelity import HALVES, row_attributions, train_on_halves


class ModelEntry(Document):
    """Set a model, and on how many halves it is trained."""

    model: str
    halves: int = Field(default=HALVES, ge=10)


class FidelityOptions(Document):
    """Set the models, the utilities whose players are identities, and the imported scores."""

    models: list[ModelEntry] = Field(default=[ModelEntry(model="logistic")], min_length=1)
    by_identity: list[str] = Field(default=[])
    scores: list[ScoresEntry] = Field(default=[ScoresEntry()], min_length=1)
    random: bool = True


@kind("fidelity", FidelityOptions)
def fidelity_cell(cell: Cell) -> Iterator[Row]:
    options = FidelityOptions(**cell.spec.options)
    submission, oracle = cell.market.honest.submission, cell.market.utility_oracle()
    trained = {
        entry.model: train_on_halves(submission, oracle, entry.model, entry.halves, cell.seed)
        for entry in options.models
    }
    at = {"task": cell.task.label, "attack": "honest", **cell.task.axes}
    for learner, attributions in _attributions(cell, options):
        for model, outcomes in trained.items():
            measured = outcomes.fidelity(attributions, learner)
            numbers = {
                "lds": measured.lds,
                "lds_total": measured.lds_total,
                "unreached": measured.unreached,
            }
            yield {**at, "learner": learner, "model": model, **numbers}


def _attributions(cell: Cell, options: FidelityOptions) -> Iterator[tuple[str, Values]]:
    """Yield the name and the attributions (units, validation rows) of each utility, of scores and of the control."""
    submission, data = cell.market.honest.submission, cell.market.dataset
    shapley = SEMIVALUES.create("shapley")
    for entry in cell.spec.utilities:
        level = "identity" if entry.learner in options.by_identity else "unit"
        attributions = row_attributions(submission, cell.oracle(entry), shapley, level)
        if attributions is None:
            raise DataMarketError(
                f"{entry.learner} has no values for each validation row at level {level!r}; leave it out, or, if it "
                "is logistic or ridge, name it in options.by_identity"
            )
        yield entry.learner, attributions
    for scored in options.scores:
        products = gradient_products(
            submission.features, submission.label,
            data.validation_features, data.validation_label, scored.along,
        )  # fmt: skip
        yield scored.called, products
    if options.random:
        rng = keyed_generator(cell.seed, "random attributions")
        yield RANDOM, rng.standard_normal((len(submission), len(data.validation_label)))
