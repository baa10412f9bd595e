"""What a run pays for, in words: how much of the validation rows units cover, or accuracy over chance."""

from __future__ import annotations

from dataclasses import dataclass, replace

from datamarket_gym.core.arrays import Features
from datamarket_gym.core.registry import written
from datamarket_gym.learners.base import LEARNERS
from datamarket_gym.learners.coverage import Coverage
from datamarket_gym.learners.function import FunctionUtility
from datamarket_gym.learners.scores import ImportedScores
from datamarket_gym.learners.similarity import SIMILARITIES


@dataclass(frozen=True)
class Worth:
    """The words for what a learner measures, as reports, screens and errors use them."""

    total: str  # the name of what all units together are worth
    divided: str  # by what the amount is divided
    plain: str  # the same, for those who are paid
    score: str  # what a score is a part of, after the number
    nothing: str  # why there may be nothing to divide by
    signed: bool  # whether scores can be below zero
    by_distance: bool  # whether shorter vectors can be nearer to every row
    alone: str = "A model that learns from these alone is right on {} of the validation rows"  # what was bought before
    percent: bool = True  # whether worth is a part of a whole

    def shown(self, worth: float) -> str:
        """So much worth, as people read it."""
        return f"{worth:.1%}" if self.percent else f"{worth:.4g}"


_ACCURACY = Worth(
    total="accuracy over chance",
    divided="what their data teach a model",
    plain="how much better a model becomes by learning from their units, on examples that are kept secret",
    score=" of the accuracy over chance",
    nothing="the data teach no more than chance",
    signed=True,
    by_distance=True,
)
_COVERED = Worth(
    total="validation rows covered",
    divided="how much of the validation rows their units cover: a row counts by how much closer the nearest unit "
    "of its label is to it than strangers are, and is shared by all whose units are near it",
    plain="how well their units match examples of what is wanted, which are kept secret: the closer a unit comes to "
    "one, the more it counts, and an example that units of several payees come close to is shared among them",
    score=": so much of the validation rows is covered by its units; where others' units are near a row, it is shared",
    nothing="no unit is more like a row of its label than strangers are (are both from one encoder?)",
    signed=False,
    by_distance=False,
    alone="These alone cover {} of the validation rows",
)
_COVERED_UNLABELLED = replace(
    _COVERED,
    divided=_COVERED.divided.replace(" of its label", ""),
    nothing=_COVERED.nothing.replace(" of its label", ""),
)


_EXPLAINED = Worth(
    total="variance explained",
    divided="how well a model that learns from their units predicts the numbers of the validation rows: by so much of "
    "their variance it is nearer to them than their mean is",
    plain="how much nearer a model that learns from their units comes to numbers that are kept secret than their mean "
    "does",
    score=" of the variance explained",
    nothing="the data predict the numbers no better than their mean does",
    signed=True,
    by_distance=True,
    alone="A model that learns from these alone explains {} of the variance of the validation rows",
)


_SCORED = Worth(
    total="scores, summed",
    divided="what the scores say that another tool has computed: each unit counts with the mean of its scores over the "
    "validation rows",
    plain="scores that a tool has computed: how much each of their units contributes to a model, on examples that are "
    "kept secret",
    score=": so much do the scores of its units come to, each in the mean over the validation rows",
    nothing="the scores of all units together come to nothing, or to less",
    signed=True,
    by_distance=False,
    alone="The scores of these alone come to {}",
    percent=False,
)
_OWN = Worth(
    total="worth of all units",
    divided="what their units add to a utility of the operator's own",
    plain="how much their units add to what the operator measures data by, on examples that are kept secret",
    score=" of the worth of all units",
    nothing="the operator's utility is worth no more with the units than without",
    signed=True,
    by_distance=False,
    alone="These alone are worth {}",
    percent=False,
)


def worth_of(learner: str, *, labelled: bool = True) -> Worth:
    """The words for a learner, as `PayoutSpec.learner` writes it, in a run where labels count or do not."""
    made = LEARNERS.create(learner)
    if isinstance(made, Coverage):
        return _COVERED if made.labels and labelled else _COVERED_UNLABELLED
    if isinstance(made, ImportedScores):
        return _SCORED
    if made.paid_from != "chance" and isinstance(made, FunctionUtility):
        return _OWN
    return _EXPLAINED if made.target == "number" else _ACCURACY


@dataclass(frozen=True)
class SettledCoverage:
    """What a coverage learner comes to on the validation rows of a run."""

    similarity: str  # the one that ``auto`` stands for, or that was named
    strangers: float  # c: the similarity that counts as none


def settled_coverage(learner: str, validation: Features) -> SettledCoverage | None:
    """The similarity and c that coverage settles on; None for other learners."""
    made = LEARNERS.create(learner)
    if not isinstance(made, Coverage):
        return None
    settled = SIMILARITIES.create(made.similarity).settled(validation)
    return SettledCoverage(written(settled), made.strangers(validation))
