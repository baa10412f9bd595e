"""shapiq: exact Shapley of a game that fits one model per coalition."""

from importlib.metadata import version

import numpy as np
from common import accuracy, answer, task, timed
from shapiq import ExactComputer

arrays = task()
players = int(arrays["player"].max()) + 1


def game(coalitions):
    return np.array([accuracy(arrays, coalition[arrays["player"]]) for coalition in coalitions])


def exact():
    found = ExactComputer(game, n_players=players)("SV")
    return [found[(i,)] for i in range(players)]


answer(version("shapiq"), [timed("exact", exact)])
