"""Whether times say who was first. Where they do not, no rule can tell a copy from its original.

Copies of a unit and the unit itself are then alike in everything that a mechanism may see: names decide
nothing, and content favours neither. Identical ones share, similar ones draw lots, so k copies take
k / (k + 1) of the unit's pay, certainly or on average, whatever the rule.
"""

from __future__ import annotations

from datamarket_gym.units.submission import Submission


def nobody_first(submission: Submission) -> str | None:
    """What to say where the times put nobody first: there are none, or all are equal; else None.

    An identity alone has nobody to be earlier than.
    """
    if len(submission.identities) < 2 or (submission.time is not None and len(set(submission.time)) > 1):
        return None
    have = "carry no times" if submission.time is None else "all carry the same time"
    return (
        f"the units {have}, so nobody was first and copies cannot be told from originals: k copies of a unit take "
        "k / (k + 1) of its pay, whatever the rule; give a column time with when you received each unit"
    )
