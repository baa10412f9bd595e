"""The payout run pages: from a table to approval."""
