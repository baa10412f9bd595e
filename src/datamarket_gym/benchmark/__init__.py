"""A benchmark that others can enter: a fixed suite, bundles of results, scores recomputed from their rows."""
