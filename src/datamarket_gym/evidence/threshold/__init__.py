"""May a cosine threshold be used on this data, and which?"""

from datamarket_gym.evidence.threshold.admissibility import Admissibility, predict_theta
from datamarket_gym.evidence.threshold.choice import Threshold

__all__ = ["Admissibility", "Threshold", "predict_theta"]
