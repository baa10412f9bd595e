"""Submitted units, and the ground truth held apart from them."""

from datamarket_gym.data.acquired import AcquiredData
from datamarket_gym.data.ground_truth import GroundTruth, SubmittedProfile
from datamarket_gym.data.submission import (
    Submission,
    from_table,
    read_submission,
    to_table,
    write_submission,
)

__all__ = [
    "AcquiredData",
    "GroundTruth",
    "Submission",
    "SubmittedProfile",
    "from_table",
    "read_submission",
    "to_table",
    "write_submission",
]
