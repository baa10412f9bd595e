"""The strategic world: providers, what they own, and what an attacker submits instead."""

from datamarket_gym.market import (
    composite,
    content_images,
    content_text,
    poisoning,
    replication,
    variants,
)
from datamarket_gym.market.attack import Attack, Block, Own
from datamarket_gym.market.market import MarketState, ProviderMarket

__all__ = [
    "Attack",
    "Block",
    "MarketState",
    "Own",
    "ProviderMarket",
    "composite",
    "content_images",
    "content_text",
    "poisoning",
    "replication",
    "variants",
]
