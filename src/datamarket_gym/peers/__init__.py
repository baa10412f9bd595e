"""Other people's mechanisms: any program that pays over a file protocol, and peers in environments of their own."""

from datamarket_gym.peers.peer import Peer
from datamarket_gym.peers.program import Program
from datamarket_gym.peers.protocol import read_payments, write_market
from datamarket_gym.pipeline import mechanism as _mechanism  # noqa: F401  (declares the kind of plug point)

__all__ = ["Peer", "Program", "read_payments", "write_market"]
