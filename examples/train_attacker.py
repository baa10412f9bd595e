"""Train an attacker of four mechanisms by the cross-entropy method, in plain NumPy.

Usage: python examples/train_attacker.py [--iterations 12] [--population 32] [--seed 0] [--figure rewards.png]

An action is an attack family and ten parameters. The attacker samples a population of actions from a distribution over
families and, for each family, a normal distribution over parameters. It keeps the quarter with the largest rewards in
each market and moves the distributions towards it. The environment is a one-step contextual bandit; this attacker
ignores the context and learns one attack that pays in any market of its task.

The reward is the ratio of attacked to honest payment, less one: 0 is honest, 1 doubles the payment.
Markets are synthetic, four providers of 20 units each, paid by coverage; training and evaluation use different ones.
"""

# ruff: noqa: T201
import argparse
from dataclasses import dataclass

import numpy as np

try:
    import gymnasium
except ImportError as missing:
    raise ImportError("gymnasium is not installed; run: pip install 'datamarket-gym[gym]'") from missing

ENVIRONMENT = "datamarket_gym.envs:DataMarket/Attack-v0"
SETTINGS = {
    "Shapley over identities": {"mechanism_name": "shapley", "checks": 0},
    "quotient, cosine 0.99": {"mechanism_name": "quotient_shapley/cosine@0.99", "checks": 0},
    "recommended": {"mechanism_name": "recommended", "checks": 0},
    "recommended, 3 spot checks": {"mechanism_name": "recommended", "checks": 3},
}
MARKETS = 4  # seeds 0 to 3 are for training
FRESH = range(1000, 1020)  # seeds of markets that no training has seen
STEP = 0.7  # how far distributions move towards the elite
LEAST = 0.05  # standard deviation below which no parameter falls


@dataclass
class Trained:
    """The result of a training: mean reward of each iteration's population, and the best attack."""

    rewards: list[float]
    action: np.ndarray
    attack: str


def play(env, seed, action):
    """Play one episode in the market of a seed; the reward and the info."""
    env.reset(seed=seed)
    _, reward, _, _, info = env.step(action.astype(np.float32))
    return reward, info


def train(env, iterations=12, population=32, seed=0):
    """Search for the action with the largest mean reward over the training markets."""
    rng = np.random.default_rng(seed)
    families, size = len(env.unwrapped.families), env.action_space.shape[0] - 1
    chance = np.full(families, 1 / families)
    mean, spread = np.full((families, size), 0.5), np.full((families, size), 0.4)
    market = np.arange(population) % MARKETS  # each action attacks one of them
    rewards = []
    for _ in range(iterations):
        family = rng.choice(families, population, p=chance)
        parameters = rng.normal(mean[family], spread[family]).clip(0, 1)
        actions = np.column_stack([(family + 0.5) / families, parameters])
        reward = np.array([play(env, *each)[0] for each in zip(market.tolist(), actions, strict=True)])
        rewards.append(reward.mean())
        order = np.argsort(-reward, kind="stable")
        # Markets differ in what can be gained, so actions are compared within their market only.
        best = [order[market[order] == each] for each in range(MARKETS)]
        elite = np.concatenate([rows[: max(1, population // MARKETS // 4)] for rows in best])
        counts = np.bincount(family[elite], minlength=families) / len(elite)
        chance = (1 - STEP) * chance + STEP * counts
        for each in np.unique(family[elite]):
            chosen = parameters[elite][family[elite] == each]
            mean[each] += STEP * (chosen.mean(axis=0) - mean[each])
            spread[each] += STEP * (chosen.std(axis=0).clip(LEAST) - spread[each])
    in_all = [
        np.mean([play(env, each, action)[0] for each in range(MARKETS)]) for action in actions[elite]
    ]
    best = actions[elite][int(np.argmax(in_all))]
    return Trained(rewards, best, play(env, 0, best)[1]["attack"])


def evaluate(env, actions):
    """Mean reward in fresh markets, one action in each, and its standard error."""
    rewards = [play(env, seed, action)[0] for seed, action in zip(FRESH, actions, strict=True)]
    return np.mean(rewards), np.std(rewards, ddof=1) / np.sqrt(len(rewards))


def main():
    """Train against each mechanism and print what was learned."""
    options = argparse.ArgumentParser(description="Train an attacker against four mechanisms.")
    options.add_argument("--iterations", type=int, default=12)
    options.add_argument("--population", type=int, default=32)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--figure", help="file for the rewards by iteration; needs matplotlib")
    given = options.parse_args()
    rows, curves = [], {}
    for name, setting in SETTINGS.items():
        env = gymnasium.make(ENVIRONMENT, **setting)
        trained = train(env, given.iterations, given.population, given.seed)
        print(f"{name}\n  mean reward by iteration: {' '.join(f'{r:.2f}' for r in trained.rewards)}")
        print(f"  best attack found: {trained.attack}")
        random = np.random.default_rng(given.seed).random((len(FRESH), *env.action_space.shape))
        rows.append((name, evaluate(env, random), evaluate(env, [trained.action] * len(FRESH))))
        curves[name] = trained.rewards
    print(f"\nReward in {len(FRESH)} fresh markets, mean and standard error (0: honest)")
    print(f"{'mechanism':27}{'random attacks':>16}{'trained attack':>16}")
    for name, *found in rows:
        print(f"{name:27}" + "".join(f"{f'{mean:.2f} ± {error:.2f}':>16}" for mean, error in found))
    if given.figure:
        draw(curves, given.figure)


def draw(curves, file):
    """Draw the rewards by iteration."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for name, rewards in curves.items():
        axes.plot(range(1, len(rewards) + 1), rewards, marker="o", markersize=3, label=name)
    axes.axhline(0, color="grey", linewidth=0.8, linestyle="--", label="honest")
    axes.set(xlabel="iteration", ylabel="mean reward of the population")
    axes.legend(frameon=False)
    figure.savefig(file, dpi=150)


if __name__ == "__main__":
    main()
