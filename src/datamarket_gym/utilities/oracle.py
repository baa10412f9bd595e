"""The game of training rows: v(S) = U(rows of the players in S) - U(empty), asked in batches.

The utility oracle: a learner, the validation rows, what no data is worth, and one shared cache.
"""

from __future__ import annotations

import dataclasses
import hashlib
import secrets
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.acquired import AcquiredData
from datamarket_gym.data.content_keys import combined_key, combined_keys, unit_keys
from datamarket_gym.data.inputs import feature_array, is_labelled, label_array, label_column
from datamarket_gym.data.submission import Submission, Text
from datamarket_gym.display import Described, Shown, counted
from datamarket_gym.errors import ParameterError, SubmissionError, require_choice, require_instance
from datamarket_gym.execution.arrays import CoalitionMatrix, Codes, Features, Keys, Values, in_order
from datamarket_gym.execution.parallel import keep_to_one_thread
from datamarket_gym.games.estimate import OrderedView
from datamarket_gym.games.game import CacheKeys, CoalitionCache, DiskCache, Game
from datamarket_gym.games.semivalues import Semivalue, Truncated
from datamarket_gym.registry import display_name, written
from datamarket_gym.utilities.base import LEARNERS, Scorer, TrainingRows, UtilityFunction, ValidationRows
from datamarket_gym.utilities.custom import as_utility, utility_title
from datamarket_gym.utilities.labels import Coding, require_classes, require_labels, require_same_kind


class UtilityGame(Game):
    """The game of groups of training rows; ``player[g]`` is the player number of group g.

    Players are numbered by content key and rows are kept in content order, so the game is the same to the last bit
    however groups are named or ordered.
    """

    def __init__(
        self,
        oracle: UtilityOracle,
        features: Features,
        label: Codes,
        keys: Keys,
        weight: Values | None,
        group: Codes,
        n_groups: int,
    ) -> None:
        order = np.lexsort((keys, group))
        by_group = combined_keys(keys[order], np.cumsum(np.bincount(group)))
        by_key = np.argsort(by_group, kind="stable")
        self.player = np.empty(n_groups, dtype=np.int64)
        self.player[by_key] = np.arange(n_groups)
        self._oracle = oracle
        self._rows = np.lexsort((keys, self.player[group]))
        self._parts = features, label, weight, group
        super().__init__(
            n_groups,
            keys=by_group[by_key],
            cache_keys=oracle.cache_keys(keys[self._rows], self.player[group[self._rows]], n_groups),
            cache=oracle.cache,
            empty_value=oracle.empty_value,
        )

    @cached_property
    def _scorer(self) -> Scorer:
        # Only now: a game whose coalitions are all in the cache never prepares its rows.
        (features, label, weight, group), rows = self._parts, self._rows
        return self._oracle.scorer(
            in_order(features, rows),
            label[rows],
            None if weight is None else weight[rows],
            self.player[group[rows]],
            self.n_players,
        )

    def _evaluate(self, coalitions: CoalitionMatrix) -> Values:
        keep_to_one_thread()  # a learner may load libraries with threads when it is first used
        return self._scorer.utility(coalitions)

    def closed_form(self, semivalue: Semivalue) -> Values | None:
        if not self._oracle.learner.has_closed_form:
            return None
        return self._scorer.closed_form(semivalue, self.empty_value)

    def truncated(self, semivalue: Semivalue) -> Truncated | None:
        return self._scorer.truncated(semivalue)

    def closed_form_by_group(self, semivalue: Semivalue, group: Codes) -> Values | None:
        if not self._oracle.learner.has_closed_form:
            return None
        return self._scorer.closed_form_by_group(semivalue, self.empty_value, group)


class SubmissionGame(OrderedView):
    """The game of a submission's units, or of its identities, in the order of ``players``.

    Attributes
    ----------
    players : numpy.ndarray
        The id of each unit in the order of rows, or the name of each identity in alphabetical order.
    """

    def __init__(self, oracle: UtilityOracle, submission: Submission, level: str) -> None:
        units = level == "unit"
        self.players: Text = submission.id if units else submission.identities
        self.level = level
        group = np.arange(len(submission)) if units else submission.identity_codes
        game = UtilityGame(
            oracle,
            submission.features,
            submission.label,
            submission.keys,
            None,
            group,
            len(self.players),
        )
        super().__init__(game, game.player)
        self._oracle = oracle

    def __repr__(self) -> str:
        players = counted(
            self.n_players, *(("unit",) if self.level == "unit" else ("identity", "identities"))
        )
        return f"<SubmissionGame of {players}: v(S) = U(S) - {self.empty_value:g}, {self._oracle!r}>"


RECOMMENDED = "coverage"
"""The learner of the mechanism that we recommend."""


_SPEED = ("device", "jobs", "games", "progress")
"""Settings of learners that change the speed alone."""


@dataclass(frozen=True)
class Utility(Described):
    """A learner's utility on the validation split, accuracy or coverage, counted from U(empty).

    ``empty="none"``: no data, no model, no accuracy, U(empty) = 0 (the paper). ``empty="chance"``:
    U(empty) = 1 / classes, so that labelled noise earns nothing; the default wherever money is divided by accuracy.

    Parameters
    ----------
    learner
        A registered learner.
    empty
        What accuracy is counted from: ``none`` (0, as in the paper) or ``chance`` (1 / classes).
    """

    learner: str = "logistic"
    empty: str = "none"

    def __post_init__(self) -> None:
        require_choice("empty", self.empty, ("none", "chance"))
        learner = LEARNERS.create(self.learner)
        if self.empty == "chance" and learner.paid_from != "chance":
            raise ParameterError(
                "empty",
                self.empty,
                f"{self.learner} is no accuracy, no units are worth nothing: leave it out",
            )

    @classmethod
    def paying(cls, learner: str = RECOMMENDED) -> Utility:
        """The utility by which money is divided: accuracy over chance, coverage (the default) as it is."""
        return cls(learner, LEARNERS.create(learner).paid_from)


@dataclass(frozen=True, eq=False)
class ReferenceRows(Shown):
    """Hold honest units that similarity thresholds are measured on in place of the validation rows; nobody is paid for
    them.

    Parameters
    ----------
    features
        What a learner would train on.
    label
        Their labels.
    embedding, text
        As submissions have them.
    """

    features: Features
    label: NDArray[Any] = None  # type: ignore[assignment]  # an array from the start on, whatever was given
    embedding: Features | None = None
    text: Sequence[str | None] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", np.asarray(self.features, dtype=np.float64))
        object.__setattr__(self, "label", label_column(self.label, len(self.features)))
        if self.embedding is not None:
            object.__setattr__(self, "embedding", np.asarray(self.embedding, dtype=np.float64))
        _require_rows("reference", self.features, self.label, self.embedding)


class UtilityOracle(Described):
    """Value training rows for any clustering of one or many profiles, and cache every fit by the multiset of training
    rows.

    Parameters
    ----------
    validation_features
        Features of the validation rows.
    validation_label
        Their labels, where the learner needs them.
    utility
        What is measured: a `Utility`, its name, or an estimator.
    learner
        A learner that is not registered.
    cache
        A file in which values are cached and shared with other processes.
    embedding
        Embeddings of the validation rows, on which similarity thresholds are checked where units bring embeddings.
    reference
        Honest units on which thresholds are checked in place of the validation rows.
    """

    prior: AcquiredData | None = None
    nothing: float | None = None  # U of no units, where it was given as a number

    def __init__(
        self,
        validation_features: Features,
        validation_label: NDArray[Any] | None = None,
        utility: Utility | UtilityFunction | str | Any = None,
        *,
        learner: UtilityFunction | None = None,
        cache: str | Path | None = None,
        embedding: Features | None = None,
        reference: ReferenceRows | None = None,
    ) -> None:
        if utility is not None and not isinstance(utility, Utility):
            if learner is not None:
                raise ParameterError(
                    "learner", type(learner).__name__, "the utility says already what it is; give one"
                )
            utility, learner = None, as_utility(utility)
        if learner is not None and not isinstance(learner, UtilityFunction):
            learner = as_utility(learner)
        self.utility = utility or Utility()
        self.learner: UtilityFunction = learner or LEARNERS.create(self.utility.learner)
        # Copies: the cache holds what these rows said, whatever becomes of the caller's arrays.
        self.features = feature_array("validation_features", validation_features).copy()
        rows = len(self.features)
        self.label = label_array(
            "validation_label", validation_label, rows, "validation_features"
        ).copy()
        self.embedding = None if embedding is None else np.array(embedding, dtype=np.float64)
        self.reference = reference
        _require_rows("validation", self.features, self.label, self.embedding)
        require_labels("the validation rows", self.label, self.learner)
        require_classes(self.label, self.learner)
        self.classes = np.unique(self.label)
        self._file = None if cache is None else Path(cache).absolute()
        self._remember()

    def _remember(self) -> None:
        self.cache, self._secret = CoalitionCache(), secrets.token_bytes(16)
        if self._file is not None:
            kept = DiskCache(self._file, self.digest)
            self.cache, self._secret = kept, kept.salt

    @property
    def digest(self) -> str:
        """Hash of all that decides utilities: the learner, the validation rows and prior art."""
        return self._hash("" if self.prior is None else self.prior.digest)

    @property
    def learns_by(self) -> str:
        """The learner as it is written, without what changes its speed alone."""
        by_default = {
            f.name: f.default
            for f in dataclasses.fields(self.learner)  # type: ignore[arg-type]
            if f.name in _SPEED and f.default is not dataclasses.MISSING
        }
        return written(dataclasses.replace(self.learner, **by_default))  # type: ignore[type-var]

    @property
    def labelled(self) -> bool:
        """Whether the validation rows have labels."""
        return is_labelled(self.label)

    @cached_property
    def held_digest(self) -> str:
        """The same without prior art, which it may be a question about."""
        return self._hash("")

    def _hash(self, more: str) -> str:
        settings = {
            f.name: getattr(self.learner, f.name)
            for f in dataclasses.fields(self.learner)  # type: ignore[arg-type]
            if f.name not in _SPEED
        }
        text = repr((display_name(self.learner), settings, self.label.tolist())) + more
        return hashlib.sha256(text.encode() + self.features.tobytes()).hexdigest()

    @cached_property
    def secret(self) -> str:
        """Hash of the validation rows in any order: what only who holds them can know."""
        return combined_key(unit_keys(self.features, self.label)).decode()

    @property
    def empty_value(self) -> float:
        """U of the empty coalition: U(P), where there is prior art."""
        if self.prior is not None:
            return self._prior_value
        return self.nothing_value

    @property
    def nothing_value(self) -> float:
        """U of no units at all, none that were bought before either."""
        if self.nothing is not None:
            return self.nothing
        return 0.0 if self.utility.empty == "none" else 1.0 / len(self.classes)

    @cached_property
    def _prior_value(self) -> float:
        assert self.prior is not None
        coding = self._coding(self.prior.label)
        first = self.prior.units.features[self.prior.canonical[:1]]
        one, rows = _of_one(first, self.prior.label[:1], coding), self._background(first, coding)
        scorer = self.learner.scorer_given(one, rows, self._validation(coding))
        return float(scorer.utility(np.zeros((1, 1), dtype=bool))[0])

    def value(self, rows: Submission | Features, label: NDArray[Any] | None = None) -> float:
        """Return what some training rows are worth together: v(S) = U(S) - U(empty).

        Parameters
        ----------
        rows : Submission or array-like
            The units, for example ``submission.take([0, 3])``, or their features, shape (n, d).
        label : array-like, optional
            Their labels, where ``rows`` are features.

        Returns
        -------
        float
            U of a model trained on all of these rows, minus `empty_value`.

        Examples
        --------
        >>> oracle = UtilityOracle([[0.0], [1.0]], [0, 1], "knn@1")
        >>> oracle.value([[0.1], [0.9]], [0, 1])
        1.0
        """
        if not isinstance(rows, Submission):
            if label is None and self.learner.target != "none":
                raise ParameterError(
                    "label",
                    None,
                    f"{display_name(self.learner)} learns from labels; pass those of the rows",
                )
            rows = Submission.from_arrays(rows, label)
        elif label is not None:
            raise ParameterError("label", "given", "a Submission has its own labels; leave label out")
        one = UtilityGame(
            self, rows.features, rows.label, rows.keys, None, np.zeros(len(rows), dtype=np.int64), 1
        )
        return float(one.grand_value())

    def game(self, submission: Submission, level: str = "unit") -> SubmissionGame:
        """Return the coalition game of a submission, without evidence: v(S) = U(S) - U(empty).

        Parameters
        ----------
        submission : Submission
            The units that play.
        level : {"unit", "identity"}
            Whether each unit is a player, or all units of an identity together.

        Returns
        -------
        SubmissionGame
            ``game.values(masks)`` takes a boolean array (B, K) and returns B values; column j of a mask is
            ``game.players[j]``.

        Examples
        --------
        >>> oracle = UtilityOracle([[0.0], [1.0]], [0, 1], "knn@1")
        >>> game = oracle.game(Submission.from_arrays([[0.1], [0.9]], [0, 1], owner=["a", "b"]), level="identity")
        >>> game.values(np.array([[True, False], [True, True]]))
        array([0.5, 1. ])
        """
        require_instance(
            "submission", submission, Submission, "a Submission (Submission.from_arrays makes one)"
        )
        require_choice("level", level, ("unit", "identity"))
        return SubmissionGame(self, submission, level)

    def counted_from(self, empty: str | float) -> UtilityOracle:
        """The same learner and rows, and the same cache, counted from another U(empty): a name or a number."""
        other = copy(self)
        if isinstance(empty, str):
            other.utility, other.nothing = Utility(self.utility.learner, empty), None
        else:
            other.nothing = float(empty)
        return other

    def given(self, prior: AcquiredData) -> UtilityOracle:
        """The same utility with the training rows of prior art always there, and a cache of its own."""
        if self.prior is not None:
            raise ParameterError(
                "prior",
                f"{len(prior)} units",
                "there is prior art already: join both by PriorArt.concat",
            )
        self._require_comparable("prior art", prior.units.features, prior.label)
        other = copy(self)
        other.prior = prior
        other._remember()
        return other

    def highest(self, features: Features, label: NDArray[Any]) -> Values | None:
        coding = self._coding(label)
        return self.learner.highest(_of_one(features, label, coding), self._validation(coding))

    @cached_property
    def compared(self) -> Callable[[Features], Features]:
        """The vectors that evidence compares of rows without an embedding: those that the learner compares.

        Row by row, so that whoever has many asks a block at a time.
        """
        return self.learner.comparing(self.features)

    @cached_property
    def judging(self) -> UtilityOracle:
        """The same utility and cache, with `compared` of the validation and reference rows as their embeddings."""
        other, reference = copy(self), self.reference
        other.embedding = self.compared(self.features)
        if reference is not None:
            embedding = self.compared(reference.features)
            other.reference = dataclasses.replace(reference, embedding=embedding)
        return other

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("compared", "judging")}

    def scorer(
        self, features: Features, label: NDArray[Any], weight: Values | None, player: Codes, n: int
    ) -> Scorer:
        self._require_comparable("column 'features'", features, label)
        require_labels("the units", label, self.learner)
        coding = self._coding(label)
        rows = _training_rows(features, label, coding, player, n, weight)
        validation = self._validation(coding)
        if self.prior is None:
            return self.learner.scorer(rows, validation)
        return self.learner.scorer_given(rows, self._background(features, coding), validation)

    def _background(self, players: Features, coding: Coding) -> TrainingRows:
        """The training rows of prior art.

        Where it is known what they are to the validation rows, those alone that begin like a row of the ``players``:
        all that is still asked is which of these are among them.
        """
        assert self.prior is not None
        known = self.prior.highest
        if (self.labelled and is_labelled(self.prior.label)) != coding.counted:
            return _of_one(self.prior.features, self.prior.label, coding)
        if self.held_digest not in known:
            highest = self.highest(self.prior.features, self.prior.label)
            if highest is None:
                return _of_one(self.prior.features, self.prior.label, coding)
            known[self.held_digest] = highest
        units, alike = self.prior.units, self.prior.beginning_like(players)
        rows = _of_one(units.features[alike], units.label[alike], coding)
        return dataclasses.replace(rows, highest=known[self.held_digest])

    def _coding(self, label: NDArray[Any]) -> Coding:
        always = [] if self.prior is None else [self.prior.label]
        return Coding.from_labels(self.learner, [self.classes, label, *always])

    def _validation(self, coding: Coding) -> ValidationRows:
        return ValidationRows(self.features, coding.codes(self.label), coding.classes)

    def _require_comparable(self, whose: str, features: Features, label: NDArray[Any]) -> None:
        """Refuse rows of another length, or with labels of another kind, than the validation rows'."""
        if features.shape[1] != self.features.shape[1]:
            raise SubmissionError(
                f"{whose} has {features.shape[1]} numbers per unit but the validation rows "
                f"have {self.features.shape[1]}; use the same encoder for both"
            )
        if self.learner.target != "number":
            require_same_kind(label, self.label)

    def cache_keys(self, keys: Keys, player: Codes, n: int) -> CacheKeys:
        """Fingerprints of players: sums of their rows' keyed hashes."""
        raw, size = np.ascontiguousarray(keys).view(np.uint8).data, keys.dtype.itemsize
        digest = bytearray()
        for at in range(0, len(raw), size):
            digest += hashlib.sha256(self._secret + raw[at : at + size]).digest()[:16]
        rows = np.frombuffer(digest, dtype=np.uint64).reshape(-1, 2)
        out = np.zeros((n, 2), dtype=np.uint64)
        np.add.at(out, player, rows)
        return out

    def __repr__(self) -> str:
        given = "" if self.prior is None else f", given {len(self.prior.canonical)} units"
        empty = self.utility.empty if self.nothing is None else self.nothing
        return f"UtilityOracle({utility_title(self.learner)}, empty={empty!r}{given})"


def _of_one(features: Features, label: NDArray[Any], coding: Coding) -> TrainingRows:
    return _training_rows(features, label, coding, np.zeros(len(label), np.int64), 1)


def _training_rows(
    features: Features,
    label: NDArray[Any],
    coding: Coding,
    player: Codes,
    n: int,
    weight: Values | None = None,
) -> TrainingRows:
    classes = coding.classes
    return TrainingRows(features, coding.codes(label), player, n, len(classes), weight, classes=classes)


def _require_rows(
    whose: str, features: Features, label: NDArray[Any], embedding: Features | None
) -> None:
    if features.ndim != 2 or label.shape != (len(features),) or not len(label):
        raise SubmissionError(
            f"{whose} features have shape {features.shape} and labels {label.shape}; "
            "give at least one row of features, and one label for each row"
        )
    if embedding is not None and len(embedding) != len(label):
        raise SubmissionError(
            f"there are {len(embedding)} {whose} embeddings for {len(label)} {whose} rows; "
            "give one for each row"
        )
