"""The payday pages: from a table to approval."""
