"""A benchmark that others can enter: a fixed suite, bundles of results, a leaderboard that recomputes scores from rows."""
