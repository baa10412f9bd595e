"""DataMarket-Gym: pay people for training data without paying cheats."""

__version__ = "0.1.0"
