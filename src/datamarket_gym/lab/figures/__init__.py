"""Figures, drawn from summary rows alone. Importing this does not import matplotlib."""

from datamarket_gym.lab.figures.draw import draw
from datamarket_gym.lab.figures.registry import drawers

__all__ = ["draw", "drawers"]
