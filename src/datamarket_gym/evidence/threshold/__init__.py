"""May a cosine threshold be used on this data, and which?"""

from datamarket_gym.evidence.threshold.admissibility import Admissibility, predict_theta

__all__ = ["Admissibility", "predict_theta"]
