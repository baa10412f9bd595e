"""Submitted units, and the ground truth held apart from them."""

from datamarket_gym.units.io import from_table, read_submission, to_table, write_submission
from datamarket_gym.units.prior import PriorArt
from datamarket_gym.units.submission import Submission
from datamarket_gym.units.truth import GroundTruth, SubmittedProfile

__all__ = [
    "GroundTruth",
    "PriorArt",
    "Submission",
    "SubmittedProfile",
    "from_table",
    "read_submission",
    "to_table",
    "write_submission",
]
