"""The book: every run, payment and balance of a market, as one chain of entries that only grows."""
