"""A profile with what a mechanism paid on it: what guarantees compare, honest and manipulated."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.ground_truth import SubmittedProfile
from datamarket_gym.data.submission import Submission
from datamarket_gym.display import Shown
from datamarket_gym.errors import DataMarketError, OracleRequiredError
from datamarket_gym.execution.arrays import Codes, Values
from datamarket_gym.mechanism.allocation import PaidTotals, Payments, Shares, allocate
from datamarket_gym.mechanism.own_mechanism import OwnMechanism
from datamarket_gym.mechanism.pipeline import (
    Mechanism,
    Pipeline,
    is_open,
    match_units,
    resolve_threshold,
)
from datamarket_gym.utilities.oracle import UtilityOracle


@dataclass(frozen=True, eq=False)
class PaidProfile(Shown):
    """Hold a submitted profile with its ground truth, and what a mechanism, whichever, paid on it."""

    profile: SubmittedProfile
    payments: PaidTotals

    def __post_init__(self) -> None:
        if not isinstance(self.profile, SubmittedProfile):
            raise OracleRequiredError(
                "a guarantee compares a provider with its pseudonyms, so it needs to know who controls "
                "which identity; pass a SubmittedProfile with its ground truth, not the submission alone"
            )
        submission, payments = self.profile.submission, self.payments
        self.profile.truth.aligned(submission)
        inside = payments if isinstance(payments, Payments) else None
        # Who submitted leaked rows alone, or units acquired before, is paid nothing, and has no unit that plays.
        missing = np.setdiff1d(payments.identities, submission.identities)
        gone = np.empty(0, dtype=np.str_) if inside is None else inside.leaks.identity
        same = (
            np.isin(submission.identities, payments.identities).all()
            and (np.isin(missing, gone).all() or (inside is not None and len(inside.acquired) > 0))
            and (inside is None or len(inside.clustering.label) == len(submission))
        )
        if not same:
            raise DataMarketError(
                "these payments were made on another submission than the profile's; pay the profile "
                "itself, for example with Paid.by(mechanism, profile, utility)"
            )

    def total(self, provider: str) -> float:
        return self.payments.total(self.profile.identities_of(provider))


def paid_by(
    mechanism: Mechanism | OwnMechanism, profile: SubmittedProfile, utility: UtilityOracle
) -> PaidProfile:
    """Pay a profile by any mechanism; one of our pipeline gives a `Paid`, which guarantees can look into."""
    if isinstance(mechanism, Mechanism):
        return Paid.by(mechanism, profile, utility)
    return PaidProfile(profile, mechanism.pay(profile.submission, utility, profile.truth))


@dataclass(frozen=True, eq=False)
class Paid(PaidProfile):
    """Hold a submitted profile with its ground truth, and its payments.

    Parameters
    ----------
    profile, payments
        What was submitted, and what was paid on it.
    utility
        Needed where the mechanism leaves its threshold open, which is resolved again.
    whole
        The units with those that were acquired before, where there are some.
    """

    payments: Payments
    utility: UtilityOracle | None = None
    whole: Submission | None = None

    @classmethod
    def by(cls, mechanism: Mechanism, profile: SubmittedProfile, utility: UtilityOracle) -> Paid:
        """Pay a profile; units set aside as leaked or acquired before play no part in what is guaranteed."""
        submission = profile.submission
        payments = mechanism.pay(submission, utility, profile.truth)
        playing = payments.clustering.submission
        if (len(payments.leaks) or len(payments.acquired)) and playing is not None:
            profile = replace(profile, submission=playing)
        whole = (
            submission.take(payments.leaks.others(len(submission))) if len(payments.acquired) else None
        )
        return cls(profile, payments, utility, whole)

    @property
    def seen(self) -> Submission:
        """Return the units that evidence saw: those that play, and those that were acquired before."""
        return self.profile.submission if self.whole is None else self.whole

    def resolved(self, mechanism: Mechanism) -> Mechanism:
        """Return the mechanism with the threshold that its policy gives on this profile."""
        if self.utility is None:
            if is_open(mechanism.evidence):
                raise DataMarketError(
                    f"{str(mechanism.evidence)!r} is resolved by the validation rows, which are not known here; "
                    "pay with Paid.by(mechanism, profile, utility)"
                )
            return mechanism
        return resolve_threshold(mechanism, self.seen, self.utility)[0]

    @property
    def n_clusters(self) -> int:
        return self.payments.clustering.n_clusters

    def shares_of(self, provider: str) -> Values:
        """Return the share of each cluster that the provider's identities have together, in [0, 1]."""
        shares = self.payments.shares
        mine = np.isin(self.payments.identities, self.profile.identities_of(provider))[shares.identity]
        sums = np.bincount(shares.cluster[mine], weights=shares.share[mine], minlength=self.n_clusters)
        return np.minimum(sums, 1.0)

    def containing(self, provider: str) -> NDArray[np.bool_]:
        label = self.payments.clustering.label[self.submitted_by(provider)]
        return np.isin(np.arange(self.n_clusters), label)

    def submitted_by(self, provider: str) -> NDArray[np.bool_]:
        return np.isin(self.profile.submission.identity, self.profile.identities_of(provider))


def common_units(honest: Paid, attacked: Paid) -> tuple[Codes, Codes]:
    """Return the honest and the manipulated clusters of the units that are in both profiles."""
    before, after = honest.profile.submission.id, attacked.profile.submission.id
    _, then, now = np.intersect1d(before, after, return_indices=True)
    return honest.payments.clustering.label[then], attacked.payments.clustering.label[now]


def require_same_market(honest: Paid, attacked: Paid, provider: str) -> None:
    """Refuse profiles that differ in more than the one provider's units."""
    before, after = (_others(paid, provider) for paid in (honest, attacked))
    if provider not in honest.profile.truth.controller.values():
        raise DataMarketError(
            f"the honest profile has no provider {provider!r}, who attacks in the other; "
            "pass the honest profile of the same market"
        )
    if before != after:
        odd = sorted(before ^ after)[0]
        where = "honest" if odd in before else "attacked"
        raise DataMarketError(
            f"the profiles do not belong together: unit {odd[0]!r} of {odd[1]!r}, who does not attack, "
            f"is in the {where} one only; pass the honest profile that this attack was applied to"
        )


def _others(paid: Paid, provider: str) -> set[tuple[str, str, bytes, float]]:
    submission = paid.profile.submission
    mine = paid.submitted_by(provider)
    columns = (submission.id, submission.identity, submission.keys, submission.times)
    return set(zip(*(column[~mine].tolist() for column in columns), strict=True))


def require_from_submission(paid: Paid, mechanism: Mechanism) -> Mechanism:
    """Refuse payments whose clusters or shares do not follow from the submission; the mechanism with nothing left open.

    Evidence and shares are worked out again, with the truth only for those layers and rules that
    declare an oracle: a mechanism that looked at more than it declares is caught here. That is done once for each
    profile, since audits compare one honest profile with many attacked ones.
    """
    checked: dict[str, Mechanism] = paid.__dict__.setdefault("checked", {})
    if mechanism.key not in checked:
        checked[mechanism.key] = _require_from_submission(paid, mechanism)
    return checked[mechanism.key]


def _require_from_submission(paid: Paid, mechanism: Mechanism) -> Mechanism:
    submission, truth, payments = paid.profile.submission, paid.profile.truth, paid.payments
    if paid.utility is None:
        mechanism = paid.resolved(mechanism)
        clusters = match_units(mechanism, submission, truth)
    else:
        # Leaked rows are set aside already.
        unchecked = mechanism.model_copy(update={"leak_check": "off"})
        matching = Pipeline(unchecked, paid.utility, truth).match(paid.seen)
        clusters, mechanism = matching.clusters, matching.mechanism
        if not np.array_equal(matching.clusters.units.id, submission.id):
            raise _uncertifiable(
                f"the units that play are not those that {str(mechanism.evidence)!r} leaves of this submission and "
                "previously acquired data"
            )
    if not _same_partition(clusters.label, payments.clustering.label):
        raise _uncertifiable(
            f"the clusters are not those that {str(mechanism.evidence)!r} finds in this submission"
        )
    divided = replace(payments.clustering, submission=submission)
    ours = allocate(divided, payments.canonical, payments.scores, mechanism.allocation, truth)
    place = np.searchsorted(payments.identities, submission.identities)
    ours = replace(ours, identity=place[ours.identity])
    (theirs, paid_out), (own, due) = (_by_pair(shares, paid) for shares in (payments.shares, ours))
    if not np.array_equal(theirs, own) or (np.abs(paid_out - due) > 1e-12).any():
        raise _uncertifiable(
            f"the shares are not those of the rule {str(mechanism.allocation)!r} on this submission"
        )
    return mechanism


def _uncertifiable(why: str) -> DataMarketError:
    return DataMarketError(
        f"{why}; a mechanism that reads more than the submission, or another mechanism, cannot be certified"
    )


def _same_partition(a: Codes, b: Codes) -> bool:
    pairs = np.unique(np.stack([a, b]), axis=1).shape[1]
    return pairs == len(np.unique(a)) == len(np.unique(b))


def _by_pair(shares: Shares, paid: Paid) -> tuple[Codes, Values]:
    pair = shares.cluster * len(paid.payments.identities) + shares.identity
    pairs, where = np.unique(pair, return_inverse=True)
    return pairs, np.bincount(where, weights=shares.share).astype(np.float64)
