"""Two periods of one market: units of June, and units of July of which some were acquired in June."""

import numpy as np
from payout_files import DIMENSIONS, approve, run, units, write

from datamarket_gym.payout.run import pay
from datamarket_gym.payout.stored_inputs import Places


def june(folder, **changes):
    """An approved run, its ledger beside it."""
    made = run(
        folder / "june", units(), ledger=folder / "ledger.sqlite", **{"period": "June 2026", **changes}
    )
    approve(made)
    return made


def fresh(n=24, seed=7):
    """New units of two sellers; nobody had them before."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, n)
    return {
        "id": [f"new {i}" for i in range(n)],
        "identity": [f"seller {i % 2}" for i in range(n)],
        "label": label,
        "time": 5000.0 + np.arange(n),
        "features": 2.0 * np.eye(3, DIMENSIONS)[label] + rng.normal(0, 0.9, (n, DIMENSIONS)),
    }


def stacked(*parts):
    return {
        name: np.concatenate([part[name] for part in parts])
        if isinstance(parts[0][name], np.ndarray)
        else [each for part in parts for each in part[name]]
        for name in parts[0]
    }


def again(columns, rows, identity, noise=0.0, seed=3, prefix="again"):
    """Some units once more, under a name, perhaps a little changed; earlier than anything, as their time says."""
    rng = np.random.default_rng(seed)
    features = columns["features"][rows]
    return {
        "id": [f"{prefix} {i}" for i in rows],
        "identity": [identity] * len(rows),
        "label": np.asarray(columns["label"])[rows],
        "time": -100.0 + np.arange(len(rows)),
        "features": features + rng.normal(0, 1, features.shape) * noise,
    }


def july(folder, submitted, acquired, name="july", overrides=None, held=None, **changes):
    """A run priced given earlier ones, in the same ledger."""
    from payout_files import spec

    places = write(folder / name / "in", submitted, held)
    places = Places(places.submissions, places.validation, overrides, acquired=tuple(acquired))
    pay(places, spec(**changes), folder / name / "run", ledger=str(folder / "ledger.sqlite"))
    return folder / name / "run"
