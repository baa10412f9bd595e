"""The ledger: every run, payment and balance of a market, as one chain of entries that only grows."""

from datamarket_gym.errors import require_extra

require_extra("sqlalchemy", "payout")
