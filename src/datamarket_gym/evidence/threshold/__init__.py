"""Which similarity threshold: for lineage by its honest price, for components by the admissible interval."""

from datamarket_gym.evidence.threshold.admissibility import Admissibility, predict_theta
from datamarket_gym.evidence.threshold.choice import Threshold

__all__ = ["Admissibility", "Threshold", "predict_theta"]
