"""Coalition games: the contract, the memo of coalitions, and games with known semivalues."""

from datamarket_gym.games import closed_form
from datamarket_gym.games.game import CoalitionMemo, Game

__all__ = ["CoalitionMemo", "Game", "closed_form"]
