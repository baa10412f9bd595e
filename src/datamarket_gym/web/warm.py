"""What a worker does before anybody asks: it loads what nearly every question needs, and answers the first of them."""

import numpy
import scipy.sparse
import scipy.stats
import sklearn.datasets

import datamarket_gym.learners.coverage.learner
import datamarket_gym.learners.logistic.engine
import datamarket_gym.pipeline.mechanism
import datamarket_gym.web.payday.run_page
import datamarket_gym.web.payday.run_why
import datamarket_gym.world.market
from datamarket_gym.core.threads import one_thread
from datamarket_gym.web.market.answer import answer
from datamarket_gym.web.market.asked import MarketAsked
from datamarket_gym.web.market.options import options

__all__ = ["datamarket_gym", "first_market", "numpy", "scipy", "sklearn"]


def first_market() -> None:
    """The market that the first page shows; from then on one thread, since there are as many workers as cores."""
    one_thread().__enter__()
    options()
    answer(MarketAsked())
