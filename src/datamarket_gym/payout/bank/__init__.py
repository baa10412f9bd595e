"""Payments for a bank: account numbers, names in the letters banks take, ISO 20022 messages and plain CSV."""
