"""A new attack, held to what an attack must be, and what it gains: `python examples/attack_in_thirty_lines.py`."""

from dataclasses import dataclass

from datamarket_gym import Attack, Metrics, ProviderMarket, create, get_mechanism, register
from datamarket_gym.market.attacks import Block, Own
from datamarket_gym.testing import validate_attack


@register("attack", "echo")
@dataclass(frozen=True)
class Echo(Attack):
    """Its own units, and the same again, a little moved, under so many further ``names``."""

    names: int = 2

    def blocks(self, own: Own) -> list[Block]:
        """The units themselves, and their echoes."""
        moved = own.honest.features[own.rows] * 1.01
        echoes = [Block(1 + i, own.rows, moved, copy=True) for i in range(self.names)]
        return [Block(0, own.rows), *echoes]


validate_attack(Echo())  # raises ConformanceError with the first promise that it breaks
market = ProviderMarket.from_task("synthetic(n_providers=4, per_provider=20)", learner="knn")
attacked, oracle = create("attack", "echo@3").apply(0, market.state), market.utility_oracle()
for name in ("shapley", "recommended"):
    honest, paid = (get_mechanism(name).pay(p.submission, oracle) for p in (market.honest, attacked))
    print(f"{name}: {Metrics.evaluate(paid, attacked, honest).gain:.2f} times honest pay")  # noqa: T201
