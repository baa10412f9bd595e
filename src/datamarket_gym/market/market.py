"""ProviderMarket: latent providers, what they own, and the submission when all are honest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.content_keys import keyed_generator
from datamarket_gym.data.ground_truth import GroundTruth, SubmittedProfile
from datamarket_gym.data.inputs import (
    feature_array,
    is_labelled,
    label_array,
    name_array,
    require_same_columns,
)
from datamarket_gym.data.submission import Submission
from datamarket_gym.display import Screen, Shown, counted
from datamarket_gym.errors import (
    DataMarketError,
    UnknownNameError,
    require_choice,
    require_instance,
    require_whole,
)
from datamarket_gym.execution.arrays import Features, Values
from datamarket_gym.market.tasks.base import TASKS, Dataset, Task
from datamarket_gym.utilities.base import UtilityFunction
from datamarket_gym.utilities.coverage import RECOMMENDED
from datamarket_gym.utilities.custom import as_utility, utility_title
from datamarket_gym.utilities.oracle import Utility, UtilityOracle

ACCOUNT = "account"
"""The metadata column of the payout account that units name: in honest markets the provider's own."""

TIMES = ("given", "equal", "none")
_LEAK = 0.25  # share of the validation split that a curating attacker has seen


@dataclass(frozen=True, eq=False)
class MarketState(Shown):
    """Hold what an attacker can act on: all honest units, a leaked validation sample, a seed.

    ``encoder`` embeds changed content, in markets whose units carry any. The times of a ``logged`` market are those at
    which the operator received the units, by its own log.
    """

    honest: SubmittedProfile
    leaked_features: Features
    leaked_label: NDArray[Any]
    seed: int
    encoder: str = ""
    logged: bool = False

    @classmethod
    def with_leak(
        cls, honest: SubmittedProfile, features: Features, label: NDArray[Any], seed: int, **rest: Any
    ) -> MarketState:
        """Make the state of a market with a random sample of these validation rows leaked."""
        n = len(label)
        leaked = keyed_generator(seed, "leak").permutation(n)[: max(1, round(_LEAK * n))]
        return cls(honest, features[leaked], label[leaked], seed, **rest)

    def keep_validation_secret(self, provider_id: str | int) -> MarketState:
        """Return the state in which no validation row leaked: other providers' units stand in for leaked rows.

        That is the best sample of the market that is left to a provider. No validation row is read.
        """
        honest, truth = self.honest.submission, self.honest.truth.aligned(self.honest.submission)
        others = truth.owner != self.provider(provider_id)
        return replace(self, leaked_features=honest.features[others], leaked_label=honest.label[others])

    @property
    def providers(self) -> list[str]:
        return list(dict.fromkeys(self.honest.truth.owner.tolist()))

    def provider(self, provider_id: str | int) -> str:
        """Return a provider's name from its name or number; an error names those there are."""
        names = self.providers
        require_instance("provider", provider_id, (str, int, np.integer), "a provider's name or number")
        if isinstance(provider_id, int | np.integer):
            if not 0 <= provider_id < len(names):
                raise DataMarketError(
                    f"there is no provider {provider_id}; this market has 0 to {len(names) - 1}"
                )
            return names[provider_id]
        if provider_id not in names:
            raise UnknownNameError("provider", provider_id, names)
        return provider_id

    def rng(self, purpose: str, provider: str) -> np.random.Generator:
        """Return a generator for one purpose, so that attacks do not disturb one another."""
        return keyed_generator(self.seed, purpose, provider)


class ProviderMarket(Shown):
    """Hold providers who own rows of a dataset, a learner, and a utility.

    Parameters
    ----------
    dataset, provider_partition, names
        The rows, those that each provider owns, and the names of the providers.
    learner, utility
        A registered learner, and what accuracy is counted from, ``none`` or ``chance`` (see `Utility`).
    seed
        Seed of what is drawn.
    times
        What the clock tells: which units came first (``given``), one time for all (``equal``), or nothing (``none``).
    own_utility
        A utility that is not registered, in place of the learner.
    """

    def __init__(
        self,
        dataset: Dataset,
        provider_partition: Sequence[NDArray[np.int64]],
        learner: str = "logistic",
        utility: str = "none",
        *,
        seed: int = 0,
        times: str = "given",
        names: Sequence[str] | None = None,
        own_utility: UtilityFunction | None = None,
    ) -> None:
        require_choice("times", times, TIMES)
        require_instance(
            "dataset", dataset, Dataset, "a Dataset (ProviderMarket.from_arrays takes arrays)"
        )
        for provider, rows in enumerate(provider_partition):
            if not len(rows):
                raise DataMarketError(f"provider {provider} owns no units; give it at least one row")
        rows, counts = np.unique(np.concatenate(provider_partition), return_counts=True)
        if (counts > 1).any():
            row = rows[counts > 1][0]
            raise DataMarketError(f"row {row} of the dataset is dealt twice; deal each row once")
        self.dataset = dataset
        self.provider_partition = list(provider_partition)
        self.seed, self.times = seed, times
        self.names = list(names) if names else [f"provider_{i}" for i in range(len(provider_partition))]
        self.utility, self.own_utility = Utility(learner, utility), own_utility

    @classmethod
    def from_task(
        cls,
        task: Task | str | Mapping[str, Any],
        seed: int = 0,
        learner: str = "logistic",
        utility: str = "none",
        times: str = "given",
    ) -> ProviderMarket:
        """Make the market of one draw of a task, or of its written form, such as ``synthetic``."""
        seed = require_whole("seed", seed, at_least=0)
        draw = TASKS.create(task).draw(seed)
        return cls(draw.dataset, draw.provider_partition, learner, utility, seed=seed, times=times)

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: Any,
        X_val: Any,
        y_val: Any,
        owner: Any,
        *,
        utility: Any = RECOMMENDED,
        empty: str | None = None,
        seed: int = 0,
        times: str = "given",
    ) -> ProviderMarket:
        """Make a market of your own data, each owner of rows a provider.

        Parameters
        ----------
        X, X_val : array-like or frame of shape (n, d)
            Features of the rows that providers own, and of the validation rows.
        y, y_val : array-like of shape (n,) or None
            Their labels.
        owner : array-like of shape (n,)
            Who owns each row. Providers are numbered in the order of the owners' names.
        utility : str, estimator, class of estimators, or callable
            What data are worth: ``"recommended"`` (coverage), ``"logistic"``, ``"knn"`` and others, or as in `value`.
        empty : {"none", "chance"}, optional
            What no data are worth; accuracy is counted over chance if left out.
        seed : int
            Seed of attacks, and of the times at which units are submitted.
        times : {"given", "equal", "none"}
            Whether it is known who submitted first.

        Returns
        -------
        ProviderMarket

        Examples
        --------
        >>> market = ProviderMarket.from_arrays([[0.0], [1.0]], [0, 1], [[0.2]], [0], owner=["a", "b"])
        >>> market.honest.submission.identities.tolist()
        ['a', 'b']
        """
        features = feature_array("X", X)
        validation = feature_array("X_val", X_val)
        require_same_columns("X_val", X_val, "X", X)
        label = label_array("y", y, len(features), "X")
        validation_label = label_array("y_val", y_val, len(validation), "X_val")
        names, code = np.unique(name_array("owner", owner, len(features), "X"), return_inverse=True)
        dataset = Dataset("arrays", features, label, validation, validation_label)
        parts = [np.flatnonzero(code == number) for number in range(len(names))]
        seed = require_whole("seed", seed, at_least=0)
        learner = as_utility(utility)
        counted_from = learner.paid_from if empty is None else empty
        named = utility if isinstance(utility, str) else "logistic"
        own = None if isinstance(utility, str) else learner
        return cls(
            dataset, parts, named, counted_from,
            seed=seed, times=times, names=names.tolist(), own_utility=own,
        )  # fmt: skip

    def without_labels(self) -> ProviderMarket:
        """Return the market without labels; data are worth what they cover, which needs none."""
        bare = self.dataset.without_labels()
        return ProviderMarket(
            bare, self.provider_partition, "coverage", seed=self.seed, times=self.times, names=self.names
        )

    def screen(self) -> Screen:
        parts, data = self.provider_partition, self.dataset
        labelled = is_labelled(data.label)
        labels = counted(len(np.unique(data.label)), "label") if labelled else "no labels"
        title = (
            f"ProviderMarket of {data.name!r}, seed {self.seed}: {counted(len(parts), 'provider')} with "
            f"{counted(sum(map(len, parts)), 'unit')}, {counted(data.features.shape[1], 'feature')}, "
            f"{labels}; worth by {utility_title(self.own_utility) if self.own_utility else self.utility.learner} on "
            f"{counted(len(data.validation_label), 'validation row')}, U(empty) = {self.utility.empty}"
        )
        shown = 3 if labelled else 2
        rows = (
            (name, len(part), len(np.unique(data.label[part])))[:shown]
            for name, part in zip(self.names, parts, strict=True)
        )
        return Screen.of(title, ("provider", "units", "labels")[:shown], rows, len(parts))

    @cached_property
    def honest(self) -> SubmittedProfile:
        """Return the profile in which providers submit what they own, once, under one identity."""
        rows = np.concatenate(self.provider_partition)
        names = self.names
        owner = np.repeat(names, [len(part) for part in self.provider_partition])
        ids = np.array([f"unit_{row}" for row in rows])
        submission = Submission(
            id=ids,
            identity=owner,
            features=self.dataset.features[rows],
            label=self.dataset.label[rows],
            source=ids,
            batch=np.array([f"{name}/0" for name in owner]),
            time=self._clock(len(rows)),
            metadata={kind: column[rows] for kind, column in self.dataset.content.items()}
            | {ACCOUNT: owner},
        )
        return SubmittedProfile(submission, GroundTruth(ids, owner, ids, {n: n for n in names}))

    def _clock(self, units: int) -> Values | None:
        if self.times == "none":
            return None
        drawn = keyed_generator(self.seed, "submission times").uniform(size=units)
        return np.zeros(units) if self.times == "equal" else drawn

    @cached_property
    def state(self) -> MarketState:
        data, rows = self.dataset, self.dataset.validation_features
        return MarketState.with_leak(
            self.honest, rows, data.validation_label, self.seed, encoder=data.encoder
        )

    def utility_oracle(
        self,
        utility: Utility | None = None,
        learner: UtilityFunction | None = None,
        cache: str | Path | None = None,
    ) -> UtilityOracle:
        """Make an oracle (with a cache of its own) on this market's validation rows."""
        return UtilityOracle(
            self.dataset.validation_features,
            self.dataset.validation_label,
            utility or self.utility,
            learner=learner or (self.own_utility if utility is None else None),
            cache=cache,
            text=self.dataset.validation_content.get("text"),
        )
