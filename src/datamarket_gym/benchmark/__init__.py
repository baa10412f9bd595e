"""A benchmark that others can enter: a fixed suite, bundles of results, and a leaderboard that believes rows alone."""
