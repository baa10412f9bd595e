"""GroundTruth: what only markets, oracles and metrics may know, and the profile that carries it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.inputs import Text
from datamarket_gym.data.submission import Submission
from datamarket_gym.display import Shown
from datamarket_gym.errors import SubmissionError
from datamarket_gym.execution.arrays import Codes


@dataclass(frozen=True, eq=False)
class GroundTruth(Shown):
    """Record who really owns each unit, which unit it derives from, and who controls each identity.

    Parameters
    ----------
    id, owner, source
        The units, the owner of each (not the controller where someone submits another's units), and what each derives
        from.
    controller
        The provider who controls each identity.
    """

    id: Text
    owner: Text
    source: Text
    controller: Mapping[str, str]

    def aligned(self, submission: Submission) -> GroundTruth:
        """Return the truth of this submission's units, row by row; raise where one is unknown."""
        if len(self.id) == len(submission) and (self.id == submission.id).all():
            return self
        order = np.argsort(self.id)
        at = np.minimum(np.searchsorted(self.id, submission.id, sorter=order), len(order) - 1)
        rows = order[at]
        wrong = np.flatnonzero(self.id[rows] != submission.id)
        if len(wrong):
            raise SubmissionError(
                f"unit {str(submission.id[wrong[0]])!r} is not in the ground truth; "
                "use the truth that came with this profile"
            )
        return GroundTruth(self.id[rows], self.owner[rows], self.source[rows], self.controller)

    def controllers(self, submission: Submission) -> Text:
        return np.array([self.controller[str(name)] for name in submission.identities])

    def owner_codes(self) -> Codes:
        return np.unique(self.owner, return_inverse=True)[1]


@dataclass(frozen=True, eq=False)
class SubmittedProfile(Shown):
    """Hold what was submitted, and apart from it the ground truth, which mechanisms are not handed.

    Parameters
    ----------
    submission, truth
        The units, and their owners and sources.
    attacker, attack
        The provider who attacks, if any, and the attack.
    """

    submission: Submission
    truth: GroundTruth
    attacker: str | None = None
    attack: str = "honest"

    def identities_of(self, provider: str) -> list[str]:
        names = self.submission.identities
        return [str(name) for name in names if self.truth.controller[str(name)] == provider]


def genuine(profile: SubmittedProfile, honest: SubmittedProfile) -> NDArray[np.bool_]:
    """Mark the submitted units that are honest ones of their submitter: id, features, label and embedding unchanged."""
    theirs, ours = honest.submission, profile.submission
    owner = honest.truth.aligned(theirs).owner
    originals = {
        (str(unit), key): (str(who), row)
        for row, (unit, key, who) in enumerate(zip(theirs.id, theirs.keys.tolist(), owner, strict=True))
    }
    controller = profile.truth.controller
    pairs = zip(ours.id, ours.keys.tolist(), ours.identity, strict=True)
    matches = [(*originals.get((str(u), key), ("", -1)), controller[str(n)]) for u, key, n in pairs]
    true = np.array([row >= 0 and who == mine for who, row, mine in matches], dtype=bool)
    if theirs.embedding is not None and ours.embedding is not None:
        row = np.array([row for _, row, _ in matches], dtype=np.int64)
        true &= (ours.embedding == theirs.embedding[row]).all(axis=1)
    return true
