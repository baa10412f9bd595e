"""Results kept in the repository, and the page that is generated from them."""

from datamarket_gym.lab.results.compact import Compact, collect, read_all
from datamarket_gym.lab.results.page import results_page

__all__ = ["Compact", "collect", "read_all", "results_page"]
