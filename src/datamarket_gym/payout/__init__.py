"""The payout run: a table of submitted units and an amount in, payments that can be defended out."""
