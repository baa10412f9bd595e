"""How theta is chosen: the lowest threshold of lineage whose false-match cost is small, corrected for density.

False-match cost: the share of pay that lineage moves between honest providers (`evidence.false_match_cost`). The
threshold is the lowest of the grid such that there *and at every higher one* the cost, plus three standard errors over
the deals, is at most 1 %.

Density correction: the more units there are, the closer the nearest stranger comes. The validation rows are honest
units that were never submitted: the 95th percentile of their highest cosine with any submitted unit is a lower bound
for thresholds in *this* submission. Matches between the honest largely cancel, so one in twenty may match while less
than one per cent of pay moves. Of at least 100 rows, three that an attacker knows and submits move the bound by three
places among the rows and no further.

Measured on the submissions, copies would look like similar honest units, and submitting copies could switch the
evidence off; therefore the cost is measured on the operator's own rows. Fewer than 100 are too few: then near copies
alone are matched, which are closer than all but one honest unit in a hundred come to their nearest stranger
(`evidence.leak_check`). Where the rows have no embeddings, or are fewer than 20, identical units alone are matched.

Where units and the operator's rows have texts, these are compared by words first (`evidence.text_containment`). The
threshold is then a share of word pairs, the highest of three: `LEAST_SHARE`, below which genuine texts on one subject
match; the lowest share whose false-match cost, measured in the same way, is at most 1 %; and the density correction,
the share that one in twenty of the operator's texts has in common with a submitted one. Texts that share
`DUPLICATE_SHARE` with one are left out of it, as the same passage published twice: so no submission raises the
threshold above that. With fewer than 100 texts no cost is measured, and the threshold is `FEW_TEXTS_SHARE`. Two units
that both have texts also match by similarity, but only as near copies (`evidence.leak_check`).

This resolves ``lineage@auto`` in `Mechanism.pay`, experiments, audits, payout runs and ``datamarket theta``. Neither
names nor the order of rows nor a seed decide it. Evidence compares the embeddings of a submission, else what the
utility compares of features (`UtilityFunction.compared`): coverage of a table goes by standardised features, and so
must evidence, as in columns of unequal scale the cosine of raw numbers tells hardly any two units apart.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np

from datamarket_gym.data.acquired import AcquiredData, require_same_columns
from datamarket_gym.data.content_keys import keyed_generator, unit_keys
from datamarket_gym.data.inputs import are_numbers
from datamarket_gym.data.submission import Submission
from datamarket_gym.display import Screen, counted
from datamarket_gym.errors import DataMarketError, SubmissionError
from datamarket_gym.evidence.false_match_cost import (
    LIMIT,
    PROVIDERS,
    FalseMatchCost,
    false_match_cost,
)
from datamarket_gym.evidence.leak_check import (
    HIT,
    LabelledVectors,
    ValidationContent,
    copy_level,
    find_leaks,
)
from datamarket_gym.evidence.lineage import AUTO, NONE, Lineage
from datamarket_gym.evidence.text_containment import (
    Pairs,
    WordPairs,
    common_pairs,
    match_earlier_texts,
    no_pairs,
)
from datamarket_gym.execution.arrays import (
    WHOLE,
    Codes,
    Features,
    LowPrecisionRows,
    Mapped,
    Rows,
    Values,
    directions,
    highest_cosines,
    in_order,
)
from datamarket_gym.plots import plot_thresholds
from datamarket_gym.registry import Document, written
from datamarket_gym.utilities.oracle import UtilityOracle

LEAST_SHARE, FEW_TEXTS_SHARE, DUPLICATE_SHARE = 0.38, 0.5, 0.6
"""Shares of word pairs: the lowest threshold, the threshold of few texts, and that of a text published twice."""

WORDS_GRID: Values = np.round(np.arange(100, 37, -1) / 100, 2)

ALLOWED = 0.05
_DENSITY_ROWS, _COPY_ROWS = 1000, 2000


def density_sample(honest: Features) -> Features:
    """Draw directions of some of the honest units, which come in order of content."""
    # The key decides payments: it stays as it is.
    rows = np.sort(keyed_generator("crowding").permutation(len(honest))[:_DENSITY_ROWS])
    return directions(honest[rows])


def density_floor(highest: Values) -> float:
    """Return the smallest threshold that at most one honest unit in twenty exceeds, by the highest cosine of each."""
    nearest = np.minimum(highest, 1.0)  # rounding exceeds it
    return float(np.quantile(nearest, 1 - ALLOWED, method="higher"))


LEAST = 100
"""Rows below which no cost is measured: one row in twenty must be more than three."""
FEWEST = 20
"""Rows below which nothing is measured."""
_NEAR_STRANGERS = 0.01  # share of honest units with a stranger as close, where no cost is measured

Sample = Literal["validation", "reference"]
"""Whose rows a threshold is measured on."""

_ROUNDING = 1e-9  # of a hundredth
_ELSEWHERE = {"validation": " (or a reference sample of other honest units)", "reference": ""}


class Threshold(Document):
    """The evidence that is used, why, and the measurements it rests on."""

    evidence: str = "lineage@none"
    theta: float | None = None
    why: str
    cost: FalseMatchCost | None = None
    density: float | None = None
    near_copies: float | None = None
    measured_on: Sample = "validation"
    words: float | None = None
    text_copies: float | None = None
    words_cost: FalseMatchCost | None = None
    words_density: float | None = None

    @property
    def measured(self) -> bool:
        """True if anything was measured that says which thresholds may be used."""
        return self.cost is not None or self.near_copies is not None

    @property
    def floor(self) -> float | None:
        """Lowest threshold that may be used here; None where none may."""
        if self.cost is not None and self.cost.theta is None:
            return None
        bounds = [self.near_copies, self.density, None if self.cost is None else self.cost.theta]
        return max((bound for bound in bounds if bound is not None), default=None)

    @property
    def lowest(self) -> float | None:
        """Floor rounded up to hundredths, which ``auto`` takes."""
        return None if self.floor is None else math.ceil(100 * self.floor - _ROUNDING) / 100

    def screen(self) -> Screen:
        """Show the evidence and why it is used, and what was measured."""
        names = ("cost", "density", "near_copies", "words_cost", "words_density")
        measured = {name: getattr(self, name) for name in names}
        measured = {name: value for name, value in measured.items() if value is not None}
        return Screen.of_fields(f"Threshold: {self.evidence}; {self.why}", measured)

    def plot(self) -> Any:
        """Plot the false-match cost by threshold, the share of honest pay that it moves, by matplotlib or plotly."""
        if self.cost is None:
            raise DataMarketError(
                f"no false-match cost was measured, so there is nothing to plot: {self.why}"
            )
        cost, name = self.cost, "false-match cost"
        return plot_thresholds(
            cost.thetas,
            {name: cost.costs},
            title=f"False-match cost of lineage among {cost.rows:,} {self.measured_on} rows",
            ylabel="share of honest pay moved (%)",
            errors={name: cost.errors},
            chosen=self.theta,
            bounds={} if self.density is None else {"density correction": self.density},
            limit=LIMIT,
        )

    def admits(self, theta: float) -> bool:
        """Tell whether a threshold may be used. A high one does no harm, so there is no ceiling.

        A floor that is a hundredth, up to rounding, admits that hundredth: otherwise units placed at a cosine of 0.9
        with some validation rows would switch the evidence off.
        """
        return self.floor is not None and 100 * theta >= 100 * self.floor - 2 * _ROUNDING


def choose_threshold(
    honest: LabelledVectors | None,
    submitted: Rows | None,
    wanted: str = AUTO,
    measured_on: Sample = "validation",
    highest: Callable[[Features], Values] | None = None,
) -> Threshold:
    """Choose lineage at the lowest threshold that the false-match cost and the density correction admit.

    ``honest`` are the operator's own units (``measured_on`` what they are called), None where they have no embeddings;
    ``submitted`` the vectors of a submission, None where there is none yet. ``wanted`` is ``auto``, ``none``, or a
    number, which the same rule must admit. ``highest`` computes the highest cosine of each direction with any submitted
    unit, where that is cheaper than from the vectors.
    """
    if wanted == NONE:
        return Threshold(why="similarity was switched off")
    if honest is None:
        why = (
            f"the {measured_on} rows have no embeddings to measure a threshold on; "
            "give them those that the units have"
        )
        return Threshold(why=why, measured_on=measured_on)
    cost, why, sample = _measure(honest, measured_on)
    if len(sample) < FEWEST:
        return Threshold(why=why, measured_on=measured_on)
    density = near_copies = None
    if cost is None:
        units = len(sample)
        if submitted is not None:  # copies make no market denser
            units = len(np.unique(unit_keys(submitted, np.zeros(len(submitted), dtype=np.int64))))
        near_copies = copy_level(sample, _NEAR_STRANGERS, units / len(sample))
    elif submitted is not None:
        density = density_floor((highest or partial(highest_cosines, others=submitted))(sample))
    threshold = Threshold(
        why=why, cost=cost, density=density, near_copies=near_copies, measured_on=measured_on
    )
    if threshold.floor is None or threshold.lowest is None or threshold.lowest > 1:
        return threshold
    theta = threshold.lowest if wanted == AUTO else float(wanted)
    reason = _describe_floor(threshold)
    if not threshold.admits(theta):
        why = (
            f"theta {theta:g} is below {threshold.floor:.3f}, the lowest that may be used here: {reason}"
        )
        return threshold.model_copy(update={"why": why})
    why = f"units descend from their nearest earlier one at similarities of at least {theta:g}: {reason}"
    return threshold.model_copy(update={"theta": theta, "why": why, "evidence": written(Lineage(theta))})


def _describe_floor(threshold: Threshold) -> str:
    cost = threshold.cost
    if cost is None:
        return (
            f"{threshold.why}, so that near copies alone are matched, closer than {1 - _NEAR_STRANGERS:.0%} of honest "
            "units come to their nearest stranger"
        )
    assert cost.theta is not None
    message = (
        f"among {cost.rows:,} {threshold.measured_on} rows, dealt to {PROVIDERS} pretend providers, lineage at "
        f"{cost.theta:g} moves {cost.at(cost.theta):.1%} of honest pay, at most {LIMIT:.0%} being allowed"
    )
    if threshold.density is not None and threshold.density > cost.theta:
        near = f"have a submitted unit at {threshold.density:.2f} or closer"
        message += f", and {ALLOWED:.0%} of the {threshold.measured_on} rows {near}"
    return message


@lru_cache(maxsize=8)  # audits and experiments pay thousands of times on the same rows
def _measure(
    honest: LabelledVectors, measured_on: Sample
) -> tuple[FalseMatchCost | None, str, Features]:
    """Measure the false-match cost, None for few rows; say why no theta may be used; sample rows for density."""
    pool = honest.pool()
    if len(pool.vectors) < LEAST:
        why = (
            f"{len(pool.vectors)} different {measured_on} rows are too few to measure a false-match cost on; "
            f"{LEAST} are needed{_ELSEWHERE[measured_on]}"
        )
        return None, why, pool.vectors
    why = (
        f"at every threshold lineage would move more than {LIMIT:.0%} of honest pay, measured on "
        f"{len(pool.vectors):,} {measured_on} rows; embed units by an encoder that tells them apart"
    )
    return false_match_cost(pool.vectors, pool.classes), why, density_sample(pool.vectors)


def with_compared_vectors(
    submission: Submission, utility: UtilityOracle
) -> tuple[Submission, UtilityOracle]:
    """Give the submission and the utility what evidence compares as embeddings, where that is not the features.

    For evidence alone: what is paid for are the units as they were submitted. Of many the vectors are computed where
    they are read.
    """
    if submission.embedding is not None:
        return submission, utility
    vectors = compared_vectors(submission, utility)
    if vectors is submission.features:
        return submission, utility
    few = submission.features.size <= WHOLE
    vectors = vectors[:] if few else LowPrecisionRows([vectors], finite=True)
    return submission.compared_by(vectors), utility.embedded


def compared_vectors(units: Submission, utility: UtilityOracle) -> Rows:
    """Return what evidence compares of units, computed where it is read: acquired units are many."""
    if units.embedding is not None:
        return units.embedding
    compare, row = utility.compared, units.features[:1]
    return units.features if compare(row) is row else Mapped(units.features, compare)


def honest_vectors(submission: Submission, utility: UtilityOracle) -> LabelledVectors | None:
    """Return the vectors that thresholds are measured on, of reference rows or else of validation rows."""
    submission, utility = with_compared_vectors(submission, utility)
    name, rows = (
        ("validation", utility) if utility.reference is None else ("reference", utility.reference)
    )
    vectors = rows.features if submission.embedding is None else rows.embedding
    if vectors is None:
        return None
    units = submission.vectors.shape[1]
    if units != vectors.shape[1]:
        what = "features" if submission.embedding is None else "embedding"
        raise SubmissionError(
            f"column {what!r} has {units} numbers per unit but the {name} rows have {vectors.shape[1]}; "
            "use the same encoder for both"
        )
    # What is a class, and what is not, is for the learner to say if it needs one.
    target, label = utility.learner.target, rows.label
    if target == "class" and are_numbers(label):
        label = label.astype(str)
    return LabelledVectors(vectors, None if target == "number" else label)


def measure_threshold(
    submission: Submission,
    utility: UtilityOracle,
    wanted: str = AUTO,
    cache: dict[str, Values] | None = None,
) -> Threshold:
    """Measure which threshold a submission admits, together with previously acquired data; with ``auto`` texts', too.

    ``cache`` is filled with the highest cosines of the submission alone, for `highest_for_later`.
    """
    threshold = _measure_similarity(submission, utility, wanted, cache)
    return _with_words(threshold, submission, utility) if wanted == AUTO else threshold


def operator_texts(utility: UtilityOracle) -> tuple[Any, ...] | None:
    """Return the texts of the operator's rows, on which thresholds are measured; None where they have none."""
    return utility.text if utility.reference is None else utility.reference.text  # type: ignore[return-value]


def operator_common_pairs(utility: UtilityOracle | None) -> Pairs:
    """Find the word pairs that are common among the operator's texts, and do not count."""
    texts = None if utility is None else operator_texts(utility)
    return no_pairs() if texts is None else common_pairs(texts)


def _with_words(threshold: Threshold, submission: Submission, utility: UtilityOracle) -> Threshold:
    """Add the threshold of texts where units and the operator's rows have some."""
    pairs, texts, name = (
        WordPairs.of_submission(submission),
        operator_texts(utility),
        threshold.measured_on,
    )
    if pairs is None:
        return threshold
    if texts is None or len(sample := _sampled_texts(texts)) < FEWEST:
        count = "no" if texts is None else f"only {len(sample)}"
        why = f"the {name} rows have {count} texts, so texts are not compared by words; {threshold.why}"
        return threshold.model_copy(update={"why": why})
    common, honest = common_pairs(texts), honest_vectors(submission, utility)
    cost = None if honest is None else _measure_words(honest, texts)
    density = None
    if cost is None:
        words = FEW_TEXTS_SHARE
        reason = f"with fewer than {LEAST} {name} texts no false-match cost is measured"
    else:
        words = 1.0 if cost.theta is None else cost.theta
        reason = (
            f"among {cost.rows:,} {name} texts, dealt to {PROVIDERS} pretend providers, such matches move "
            f"{cost.at(words):.1%} of honest pay, at most {LIMIT:.0%} being allowed"
        )
        both = WordPairs.concat([pairs, sample])
        nearest = match_earlier_texts(both, common, LEAST_SHARE, old=len(pairs))[1][len(pairs) :]
        density = density_floor(rest) if len(rest := nearest[nearest < DUPLICATE_SHARE]) else 0.0
        if density > words:
            words = math.ceil(100 * density - _ROUNDING) / 100
            reason += f", and {ALLOWED:.0%} of the {name} texts share {density:.2f} or more with a submitted one"
    level = None if honest is None else _text_copy_level(honest, len(np.unique(submission.keys)))
    theta = NONE if threshold.theta is None else threshold.theta
    layer = Lineage(theta, words=words, copies=NONE if level is None else level)
    why = (
        f"a text descends from the earlier one that shares most word pairs with it, if they share at least {words:.0%} "
        f"of the pairs of the shorter one: {reason}"
    )
    if not pairs.size.all():
        why += f"; units without text are compared by their vectors: {threshold.why}"
    update = {"words": words, "text_copies": level, "words_cost": cost, "words_density": density}
    return threshold.model_copy(update=update | {"why": why, "evidence": written(layer)})


def _text_copy_level(honest: LabelledVectors, units: int) -> float | None:
    """Measure the cosine of near copies, rounded up; None where directions do not tell copies."""
    rows = honest.pool().vectors[:_COPY_ROWS]
    level = None if len(rows) < FEWEST else copy_level(rows, HIT, max(1.0, units / len(rows)))
    return None if level is None else min(1.0, math.ceil(1e4 * level) / 1e4)


@lru_cache(maxsize=8)  # audits and experiments pay thousands of times on the same texts
def _sampled_texts(texts: tuple[Any, ...]) -> WordPairs:
    """Find the pairs of a sample of the operator's texts that have words."""
    pairs = WordPairs.of(texts)
    filled = np.flatnonzero(pairs.size)
    chosen = keyed_generator("texts").permutation(len(filled))[:_DENSITY_ROWS]
    return pairs.take(filled[np.sort(chosen)])


@lru_cache(maxsize=8)
def _measure_words(honest: LabelledVectors, texts: tuple[Any, ...]) -> FalseMatchCost | None:
    """Measure the false-match cost of matching texts by words; None for fewer than `LEAST` rows."""
    rows, pairs = honest.different(), WordPairs.of(texts)
    rows = rows[pairs.size[rows] > 0]
    if len(rows) < LEAST:
        return None
    pairs, common, pool = pairs.take(rows), common_pairs(texts), honest.classes[rows]
    return false_match_cost(
        honest.vectors[rows],
        pool,
        WORDS_GRID,
        lambda units: match_earlier_texts(pairs.take(units), common, LEAST_SHARE)[1],
    )


def _measure_similarity(
    submission: Submission, utility: UtilityOracle, wanted: str, cache: dict[str, Values] | None
) -> Threshold:
    acquired = utility.acquired
    periods = [submission]
    if acquired is not None:
        require_same_columns([acquired.units, submission])
        if wanted != NONE and (highest := _highest_known(acquired, submission, utility)):
            ours = with_compared_vectors(submission, utility)[0].vectors
            return choose_threshold(honest_vectors(submission, utility), ours, wanted, highest=highest)
        # Acquired validation rows, once leaked and sold, would lift the threshold for good.
        clean = _rows_not_leaked(acquired.units, acquired.canonical, utility)
        periods.insert(0, acquired.units if clean is None else acquired.units.take(clean))
    compared = [with_compared_vectors(units, utility)[0] for units in periods]
    utility = with_compared_vectors(submission, utility)[1]
    honest = honest_vectors(compared[-1], utility)
    if utility.reference is None:
        vectors = _stack([units.vectors for units in compared])

        def measure_highest(sample: Features) -> Values:
            cosines = highest_cosines(sample, vectors)
            if cache is not None and acquired is None:
                cache[density_key(sample, utility)] = cosines
            return cosines

        return choose_threshold(honest, vectors, wanted, highest=measure_highest)
    # Reference rows need not be secret: submitted again they may be paid, but must not make a market dense.
    reference = utility.reference
    rows = ValidationContent(reference.features, reference.embedding, reference.text, "reference")
    leaks = [find_leaks(units, rows) for units in compared]
    strangers = [
        in_order(units.vectors, leak.others(len(units)))
        for units, leak in zip(compared, leaks, strict=True)
    ]
    threshold = choose_threshold(honest, _stack(strangers), wanted, "reference")
    equal = sum(map(len, leaks))
    if not equal or threshold.floor is None:
        return threshold
    excluded = f"{counted(equal, 'unit')} that equal reference rows, or nearly, have no say in it"
    return threshold.model_copy(update={"why": f"{threshold.why}; {excluded}"})


def _stack(periods: list[Features]) -> Rows:
    return periods[0] if len(periods) == 1 else LowPrecisionRows(periods)


def _rows_not_leaked(
    units: Submission, canonical: Codes, utility: UtilityOracle, cleared: int = 0
) -> Codes | None:
    """Find the rows of units that are no validation rows, None for all; the first ``cleared`` are none."""
    others = np.setdiff1d(np.arange(cleared, len(units)), canonical)
    if not len(others):
        return None
    compared, embedded = with_compared_vectors(units.take(others), utility)
    content = ValidationContent(embedded.features, embedded.embedding, embedded.text)
    leaks = find_leaks(compared, content)
    return np.delete(np.arange(len(units)), others[leaks.unit]) if len(leaks) else None


def _density_sample_of(units: Submission, utility: UtilityOracle) -> Features | None:
    """Return directions of validation rows that measure density; None for few, or where reference rows are used."""
    honest = honest_vectors(units, utility) if utility.reference is None else None
    cost, _, sample = (None, "", None) if honest is None else _measure(honest, "validation")
    return None if cost is None else sample


def _highest_known(
    acquired: AcquiredData, submission: Submission, utility: UtilityOracle
) -> Callable[[Features], Values] | None:
    """Make the highest cosines with any unit from those cached with acquired units; None where there are none."""
    sample = _density_sample_of(submission, utility)
    cached = None if sample is None else acquired.highest.get(density_key(sample, utility))
    if cached is None:
        return None
    new = with_compared_vectors(submission, utility)[0].vectors
    return lambda sample: np.maximum(cached, highest_cosines(sample, new))


def highest_for_later(
    units: Submission,
    canonical: Codes,
    utility: UtilityOracle,
    cleared: int = 0,
    cache: Mapping[str, Values] | None = None,
) -> dict[str, Values]:
    """Compute what later periods need of these units as acquired data (`AcquiredData.highest`), by digest.

    That is how near the sampled validation rows come to any unit, and the utility's highest value of the units
    ``canonical`` for each validation row. The first ``cleared`` units are no validation rows; `measure_threshold`
    filled the ``cache`` for them.
    """
    highest = {}
    rows = in_order(units.features, canonical)
    if len(canonical) and (values := utility.highest(rows, units.label[canonical])) is not None:
        highest[utility.validation_digest] = values
    sample = _density_sample_of(units, utility)
    if sample is not None:
        clean = _rows_not_leaked(units, canonical, utility, cleared)
        key, cache = density_key(sample, utility), cache or {}
        if key in cache:
            clean = np.arange(len(units)) if clean is None else clean
            clean = clean[clean >= cleared]
        cosines = highest_cosines(sample, compared_vectors(units, utility), rows=clean)
        highest[key] = np.maximum(cache.get(key, -1.0), cosines)
    return highest


def density_key(sample: Features, utility: UtilityOracle) -> str:
    """Digest the sampled directions of honest units, and how units are compared with them."""
    text = f"crowd|{utility.validation_digest}|{sample.shape}|"
    return hashlib.sha256(text.encode() + np.ascontiguousarray(sample).tobytes()).hexdigest()
