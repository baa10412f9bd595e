"""Spot checks between the draft of a run and its approval: plan, draw, ask, record, settle."""
