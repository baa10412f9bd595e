"""The intake: what arrived, from whom and when, by the operator's clock; receipts, and proofs without the book."""
