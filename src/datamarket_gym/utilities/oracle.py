"""The utility oracle (a utility, validation rows, U(empty) and a cache), and the games it makes of training rows.

v(S) = U(rows of the players in S) - U(empty), answered in batches.
"""

from __future__ import annotations

import dataclasses
import hashlib
import secrets
from collections.abc import Callable, Iterable, Sequence
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
from datamarket_gym.utilities.coverage import RECOMMENDED
from datamarket_gym.utilities.custom import as_utility, utility_title
from datamarket_gym.utilities.labels import Coding, require_classes, require_labels, require_same_kind


class UtilityGame(Game):
    """Play groups of training rows; ``player[g]`` is the player number of group g.

    Players are numbered by content key and rows are in content order, so the game is the same to the last bit
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
        keep_to_one_thread()  # a utility may load libraries with threads when it is first used
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
    """Play a submission's units, or its identities, in the order of ``players``.

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
        rows = submission.features, submission.label, submission.keys
        game = UtilityGame(oracle, *rows, None, group, len(self.players))
        super().__init__(game, game.player)
        self._oracle = oracle

    def __repr__(self) -> str:
        names = ("unit",) if self.level == "unit" else ("identity", "identities")
        players = counted(self.n_players, *names)
        return f"<SubmissionGame of {players}: v(S) = U(S) - {self.empty_value:g}, {self._oracle!r}>"


_SPEED = ("device", "jobs", "games")
"""Settings of utilities that change the speed alone."""


@dataclass(frozen=True)
class Utility(Described):
    """Name a utility on the validation split, accuracy or coverage, and U(empty).

    Parameters
    ----------
    learner
        A registered utility.
    empty
        U(empty): ``none`` is 0, as in the paper, ``chance`` is 1 / classes, so that labelled noise earns nothing; the
        default wherever money is divided by accuracy.
    """

    learner: str = "logistic"
    empty: str = "none"

    def __post_init__(self) -> None:
        require_choice("empty", self.empty, ("none", "chance"))
        paid_from = LEARNERS.create(self.learner).paid_from
        if self.empty == "chance" and paid_from != "chance":
            remedy = f"{self.learner} is no accuracy, no units are worth nothing: leave it out"
            raise ParameterError("empty", self.empty, remedy)

    @classmethod
    def paying(cls, learner: str = RECOMMENDED) -> Utility:
        """Return the utility by which money is divided: accuracy over chance, coverage (the default) as it is."""
        return cls(learner, LEARNERS.create(learner).paid_from)


@dataclass(frozen=True, eq=False)
class ReferenceRows(Shown):
    """Hold honest units on which similarity thresholds are measured in place of the validation rows; they are unpaid.

    Parameters
    ----------
    features
        Features, as units have them.
    label
        Their labels.
    embedding, text
        As submissions have them.
    """

    features: Features
    label: NDArray[Any] = None  # type: ignore[assignment]  # an array after construction
    embedding: Features | None = None
    text: Sequence[str | None] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", np.asarray(self.features, dtype=np.float64))
        object.__setattr__(self, "label", label_column(self.label, len(self.features)))
        if self.embedding is not None:
            object.__setattr__(self, "embedding", np.asarray(self.embedding, dtype=np.float64))
        if self.text is not None:
            object.__setattr__(self, "text", tuple(self.text))
        _require_rows("reference", self.features, self.label, self.embedding, self.text)


class UtilityOracle(Described):
    """Value training rows of any clusters, and cache values by the multiset of training rows.

    Parameters
    ----------
    validation_features
        Features of the validation rows.
    validation_label
        Their labels, where the utility needs them.
    utility
        A `Utility`, its name, or an estimator.
    learner
        A utility that is not registered.
    cache
        A file in which values are cached and shared with other processes.
    embedding
        Embeddings of the validation rows, on which similarity thresholds are checked where units bring embeddings.
    text
        Texts of the validation rows, on which the threshold of texts is measured where units bring texts.
    reference
        Honest units on which thresholds are checked in place of the validation rows.
    """

    acquired: AcquiredData | None = None  # by which units are recognised
    discounted: bool = True  # whether it is in every coalition, too
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
        text: Iterable[str | None] | None = None,
        reference: ReferenceRows | None = None,
    ) -> None:
        if utility is not None and not isinstance(utility, Utility):
            if learner is not None:
                remedy = "the utility names one already; leave learner out"
                raise ParameterError("learner", type(learner).__name__, remedy)
            utility, learner = None, as_utility(utility)
        if learner is not None and not isinstance(learner, UtilityFunction):
            learner = as_utility(learner)
        self.utility = utility or Utility()
        self.learner: UtilityFunction = learner or LEARNERS.create(self.utility.learner)
        # Copies: the caller may change its arrays, and the cache holds values of these.
        features = "validation_features"
        self.features = feature_array(features, validation_features).copy()
        rows = len(self.features)
        self.label = label_array("validation_label", validation_label, rows, features).copy()
        self.embedding = None if embedding is None else np.array(embedding, dtype=np.float64)
        self.text = None if text is None else tuple(text)
        self.reference = reference
        _require_rows("validation", self.features, self.label, self.embedding, self.text)
        require_labels("the validation rows", self.label, self.learner)
        require_classes(self.label, self.learner)
        self.classes = np.unique(self.label)
        self._of_validation: dict[Any, Any] = {}
        self._file = None if cache is None else Path(cache).absolute()
        self._open_cache()

    def _open_cache(self) -> None:
        self.cache, self._salt = CoalitionCache(), secrets.token_bytes(16)
        if self._file is not None:
            cache = DiskCache(self._file, self.digest)
            self.cache, self._salt = cache, cache.salt

    @property
    def digest(self) -> str:
        """Hash of all that decides utilities: the utility, the validation rows and previously acquired data."""
        return self._hash("" if self.background is None else self.background.digest)

    @cached_property
    def validation_digest(self) -> str:
        """Hash of the utility and the validation rows, without previously acquired data."""
        return self._hash("")

    def _hash(self, acquired: str) -> str:
        fields = dataclasses.fields(self.learner)  # type: ignore[arg-type]
        settings = {f.name: getattr(self.learner, f.name) for f in fields if f.name not in _SPEED}
        text = repr((display_name(self.learner), settings, self.label.tolist())) + acquired
        return hashlib.sha256(text.encode() + self.features.tobytes()).hexdigest()

    @property
    def learns_by(self) -> str:
        """The written form of the utility, without settings that change its speed alone."""
        fields = dataclasses.fields(self.learner)  # type: ignore[arg-type]
        given = (f for f in fields if f.name in _SPEED and f.default is not dataclasses.MISSING)
        defaults = {f.name: f.default for f in given}
        return written(dataclasses.replace(self.learner, **defaults))  # type: ignore[type-var]

    @cached_property
    def description(self) -> str:
        """The utility in words: its written form, and what its settings come to on the validation rows."""
        words = self.learner.describe(self._validation(self._coding(self.label)))
        return f"{utility_title(self.learner)}{words and ': '}{words}"

    @property
    def labelled(self) -> bool:
        """Whether the validation rows have labels."""
        return is_labelled(self.label)

    @cached_property
    def secret(self) -> str:
        """Hash of the validation rows in any order, which only their owner can compute."""
        return combined_key(unit_keys(self.features, self.label)).decode()

    @property
    def background(self) -> AcquiredData | None:
        """P, the previously acquired data that is in every coalition; None where units are valued by themselves."""
        return self.acquired if self.discounted else None

    @property
    def empty_value(self) -> float:
        """U of the empty coalition: U(P), where previously acquired data is in it."""
        return self.nothing_value if self.background is None else self._acquired_value

    @property
    def nothing_value(self) -> float:
        """U of no units at all, without previously acquired data."""
        if self.nothing is not None:
            return self.nothing
        return 0.0 if self.utility.empty == "none" else 1.0 / len(self.classes)

    @cached_property
    def _acquired_value(self) -> float:
        assert self.acquired is not None
        coding = self._coding(self.acquired.label)
        first = self.acquired.units.features[self.acquired.canonical[:1]]
        rows, background = (
            coding.one_player(first, self.acquired.label[:1]),
            self._background_rows(first, coding),
        )
        scorer = self.learner.scorer_given(rows, background, self._validation(coding))
        return float(scorer.utility(np.zeros((1, 1), dtype=bool))[0])

    def value(self, rows: Submission | Features, label: NDArray[Any] | None = None) -> float:
        """Return the value of some training rows together: v(S) = U(S) - U(empty).

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
                remedy = f"{display_name(self.learner)} learns from labels; pass those of the rows"
                raise ParameterError("label", None, remedy)
            rows = Submission.from_arrays(rows, label)
        elif label is not None:
            raise ParameterError("label", "given", "a Submission has its own labels; leave label out")
        group = np.zeros(len(rows), dtype=np.int64)
        return UtilityGame(self, rows.features, rows.label, rows.keys, None, group, 1).grand_value()

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
        """Return this oracle, and its cache, with another U(empty): a name or a number."""
        other = copy(self)
        if isinstance(empty, str):
            other.utility, other.nothing = Utility(self.utility.learner, empty), None
        else:
            other.nothing = float(empty)
        return other

    def given(self, acquired: AcquiredData, *, discount: bool = True) -> UtilityOracle:
        """Return this oracle with previously acquired data, by which mechanisms recognise units: these earn nothing.

        Parameters
        ----------
        acquired : AcquiredData
            What earlier periods have acquired, P.
        discount : bool
            Whether new units are worth what they add to it, v(S) = U(P + S) - U(P), or as much as if there were
            none, v(S) = U(S) - U(empty).

        Returns
        -------
        UtilityOracle
            Where P is in every coalition, with a cache of its own.
        """
        if self.acquired is not None:
            remedy = "there is previously acquired data already: join both by AcquiredData.concat"
            raise ParameterError("acquired", f"{len(acquired)} units", remedy)
        self._require_comparable("previously acquired data", acquired.units.features, acquired.label)
        other = copy(self)
        other.acquired, other.discounted = acquired, discount
        if discount:
            other._open_cache()
        return other

    def highest(self, features: Features, label: NDArray[Any]) -> Values | None:
        coding = self._coding(label)
        return self.learner.highest(coding.one_player(features, label), self._validation(coding))

    @cached_property
    def compared(self) -> Callable[[Features], Features]:
        """The map, row by row, from rows without embedding to the vectors that evidence compares."""
        return self.learner.comparing(self.features)

    @cached_property
    def embedded(self) -> UtilityOracle:
        """This oracle and its cache, with `compared` of the validation and reference rows as their embeddings."""
        other, reference = copy(self), self.reference
        other.embedding = self.compared(self.features)
        if reference is not None:
            embedding = self.compared(reference.features)
            other.reference = dataclasses.replace(reference, embedding=embedding)
        return other

    def __getstate__(self) -> dict[str, Any]:
        state = {k: v for k, v in self.__dict__.items() if k not in ("compared", "embedded")}
        return state | {"_of_validation": {}}

    def scorer(
        self, features: Features, label: NDArray[Any], weight: Values | None, player: Codes, n: int
    ) -> Scorer:
        self._require_comparable("column 'features'", features, label)
        require_labels("the units", label, self.learner)
        coding = self._coding(label)
        rows = coding.training_rows(features, label, player, n, weight)
        validation = self._validation(coding)
        if self.background is None:
            return self.learner.scorer(rows, validation)
        return self.learner.scorer_given(rows, self._background_rows(features, coding), validation)

    def _background_rows(self, players: Features, coding: Coding) -> TrainingRows:
        """Return the training rows of previously acquired data.

        Where `highest` is known, those alone that begin like a row of the ``players``: they are needed only to tell
        which of the players' rows are among them.
        """
        assert self.acquired is not None
        art, highest = self.acquired, None
        if (self.labelled and is_labelled(art.label)) == coding.counted:
            highest = art.highest.get(self.validation_digest)
            if highest is None and (highest := self.highest(art.features, art.label)) is not None:
                art.highest[self.validation_digest] = highest
        if highest is None:
            return coding.one_player(art.features, art.label)
        similar = art.beginning_like(players)
        rows = coding.one_player(art.units.features[similar], art.units.label[similar])
        return dataclasses.replace(rows, highest=highest)

    def _coding(self, label: NDArray[Any]) -> Coding:
        acquired = [] if self.background is None else [self.background.label]
        return Coding.from_labels(self.learner, [self.classes, label, *acquired])

    def _validation(self, coding: Coding) -> ValidationRows:
        codes = coding.codes(self.label)
        return ValidationRows(self.features, codes, coding.classes, self._of_validation)

    def _require_comparable(self, rows: str, features: Features, label: NDArray[Any]) -> None:
        """Refuse rows of another length, or with labels of another kind, than the validation rows'."""
        if features.shape[1] != self.features.shape[1]:
            raise SubmissionError(
                f"{rows} has {features.shape[1]} numbers per unit but the validation rows "
                f"have {self.features.shape[1]}; use the same encoder for both"
            )
        if self.learner.target != "number":
            require_same_kind(label, self.label)

    def cache_keys(self, keys: Keys, player: Codes, n: int) -> CacheKeys:
        """Return fingerprints of players: sums of their rows' keyed hashes."""
        raw, size = np.ascontiguousarray(keys).view(np.uint8).data, keys.dtype.itemsize
        digest = bytearray()
        for at in range(0, len(raw), size):
            digest += hashlib.sha256(self._salt + raw[at : at + size]).digest()[:16]
        rows = np.frombuffer(digest, dtype=np.uint64).reshape(-1, 2)
        out = np.zeros((n, 2), dtype=np.uint64)
        np.add.at(out, player, rows)
        return out

    def __repr__(self) -> str:
        given, word = "", "given" if self.discounted else "recognising"
        if self.acquired is not None:
            given = f", {word} {len(self.acquired.canonical)} units"
        empty = self.utility.empty if self.nothing is None else self.nothing
        return f"UtilityOracle({utility_title(self.learner)}, empty={empty!r}{given})"


def _require_rows(
    rows: str,
    features: Features,
    label: NDArray[Any],
    embedding: Features | None,
    text: Sequence[Any] | None,
) -> None:
    if features.ndim != 2 or label.shape != (len(features),) or not len(label):
        raise SubmissionError(
            f"{rows} features have shape {features.shape} and labels {label.shape}; "
            "give at least one row of features, and one label for each row"
        )
    for what, column in (("embeddings", embedding), ("texts", text)):
        if column is not None and len(column) != len(label):
            raise SubmissionError(
                f"there are {len(column)} {rows} {what} for {len(label)} {rows} rows; give one for each row"
            )
