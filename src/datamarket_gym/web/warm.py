"""What a worker loads before anybody asks: the libraries that nearly every question needs."""

import numpy
import scipy.sparse
import sklearn.datasets

import datamarket_gym.learners.coverage.learner
import datamarket_gym.learners.logistic.engine
import datamarket_gym.pipeline.mechanism
import datamarket_gym.world.market

__all__ = ["datamarket_gym", "numpy", "scipy", "sklearn"]
