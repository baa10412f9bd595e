"""What figures and tables print in place of identifiers: components by their titles, metrics and labels by `NAMES`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from datamarket_gym.errors import DataMarketError, UnknownNameError
from datamarket_gym.experiments.cells import Row
from datamarket_gym.registry import create, describe, name_of

COMPONENTS = ("attack", "evidence", "representative", "allocation", "semivalue", "learner", "task")
"""Labels of results that name a component of that kind."""

MECHANISMS = {
    "uniform": "equal shares",
    "per_example": "by number of units",
    "loo": "leave-one-out",
    "shapley": "Shapley",
    "banzhaf": "Banzhaf",
    "beta_shapley": "Beta Shapley",
    "quotient_shapley": "quotient Shapley",
    "quotient_banzhaf": "quotient Banzhaf",
    "quotient_beta_shapley": "quotient Beta Shapley",
    "units": "units play",
    "pydvl": "pyDVL",
    "opendataval": "OpenDataVal",
}
"""Mechanisms and libraries that do not write themselves as their names."""

VALUES = {
    "granularity": {"identity": "names play", "unit": "units play", "batch": "batches play"},
    "empty": {"none": "counted from zero", "chance": "counted from chance"},
    "rule": {
        "raw": "as scored",
        "floor": "no payment below zero",
        "floor_rescaled": "no payment below zero, rescaled",
    },
    "semivalue": MECHANISMS,
}
"""Values of labels that are no components."""

KEYS = {
    "delta": "Delta",
    "mixed_components": "mixed-component fraction",
    "attack": "attack",
    "mechanism": "mechanism",
    "task": "market",
    "learner": "utility",
    "empty": "utility counted from",
    "granularity": "who plays",
    "representative": "what stands for a cluster",
    "theta": "threshold",
    "family": "family of attacks",
    "p_fs": "false-split rate",
    "p_fm": "false-merge rate",
    "errors": "errors of the evidence",
    "k": "names",
    "n": "providers",
    "separation": "class separation",
    "samples": "sampled orders",
    "estimator": "estimator",
    "allocation": "allocation",
    "rule": "rule for negative scores",
    "semivalue": "semivalue",
    "evidence": "evidence",
    "checks": "checks of each payee",
    "power": "power of a check",
    "knowledge": "part of others' units known",
    "noise": "noise of the copies, in spreads",
    "prior": "prior art",
    "layout": "who sells",
    "dimensions": "features",
    "cheats": "providers who may cheat",
    "together": "each for itself or in pairs",
    "order": "who moves when",
    "attacker": "attacker",
    "beside": "compared with",
    "how": "question",
    "part": "part of all units",
    "quantity": "quantity",
    "cost_identity": "cost of a false name",
    "cost_perturbation": "cost of perturbing",
    "metric": "metric",
}
"""Labels of results."""

METRICS = {
    "net_gain": "net gain, attack tuned on this market",
    "net_gain_fresh": "net gain, same attack in a fresh market",
    "caught": "share of copies matched with their original",
    "gain_additive": "additive gain",
    "victim_loss": "victim's loss (largest)",
    "gain_worst_seed": "gain, in the seed in which it is largest",
    "victim_loss_worst_seed": "victim's loss (largest), in the seed in which it is largest",
    "victim_loss_sum": "victims' loss (summed)",
    "theft": "theft (share of the pot)",
    "oracle_l1": "oracle L1",
    "rank_stability": "rank stability (Kendall's tau)",
    "utility": "utility v(all)",
    "share_gain": "gain of a fixed pot",
    "value_added": "value added (over the thief's honest pay)",
    "worth_of_a_copy": "pay of a copy over that of an honest unit",
    "victims_loss": "victims' loss (together)",
    "expected_victim_loss": "victim's expected loss (largest)",
    "bystanders_loss": "bystanders' loss (together)",
    "known_share": "part of what is sold again that is recognised",
    "asked": "coalitions evaluated",
    "seconds": "seconds by the clock",
    "honest_known": "part of honest units taken for old ones",
    "gain_from_cheating": "gain against being the only honest one",
    "cheating_adds": "what cheating adds, in equal shares of v(all)",
    "pot_taken": "share of the pot of those who may cheat",
    "pot_moved": "how much more than when honest",
    "honest_pay": "part of their pay that the honest keep",
    "honest_least": "part of its pay that the honest one keeps who loses most",
    "worth_kept": "worth of the genuine units there are",
    "value_kept": "v(all) as counted",
    "regret": "still gained by the menu",
    "regret_searched": "still gained by a search",
    "unplayable": "moves that could not be played",
}
"""Metrics whose names do not say what they are."""


def metric_titles(metric: str) -> str:
    """Return a metric in words."""
    return METRICS.get(metric, metric.replace("_", " "))


def key_words(key: str) -> str:
    """Return a label's name in words."""
    return KEYS.get(key, key.replace("_", " "))


def component_words(kind: str, text: str) -> str:
    """Return the title of a component, with what is written behind its name; other text as it is."""
    name = re.split(r"[@(,]", text)[0]
    try:
        title = describe(kind, name).title
    except UnknownNameError:
        return text.replace("_", " ")
    rest = text[len(name) :].strip("@(), ").replace("_", " ")
    return f"{title} ({rest})" if rest else title


def attack_words(text: str) -> str:
    """Return the title of an attack, with the parameters that are not as usual; a table's own name as it is."""
    split = re.fullmatch(r"sybil_split_(\d+)", text)
    try:
        attack = create("attack", f"sybil_split_k(k={split[1]})" if split else text)
    except DataMarketError:
        return text.replace("_", " ")
    fields: dict[str, Any] = attack.__dataclass_fields__
    values = {key: getattr(attack, key) for key in fields}
    changed = [
        f"{key.replace('_', ' ')} {value:g}"
        if isinstance(value, float)
        else f"{key.replace('_', ' ')} {value}"
        for key, value in values.items()
        if value != fields[key].default
        or key in ("k", "p")  # how many and how much say what the attack is
    ]
    return ", ".join([describe("attack", name_of(attack)).title, *changed])


def mechanism_words(text: str) -> str:
    """Return a mechanism in words: its rule and, after a slash, its evidence; of a library who computes it."""
    if library := re.fullmatch(r"peer@(\w+)-(\w+)", text):
        return f"{mechanism_words(library[2])} by {MECHANISMS.get(library[1], library[1])}"
    rule, _, evidence = text.partition("/")
    name = MECHANISMS.get(rule) or component_words("evidence", rule)  # some tables name evidence alone
    return f"{name}, {component_words('evidence', evidence)}" if evidence else name


def words(key: str, value: Any) -> str:
    """Return a label's value in words."""
    text = str(value)
    if key == "attack":
        return attack_words(text)
    if key == "mechanism":
        return mechanism_words(text)
    if key == "theta":
        return f"threshold {text}"
    if text in VALUES.get(key, {}):
        return VALUES[key][text]
    return component_words(key, text) if key in COMPONENTS else f"{key} = {text}"


def variant(row: Row, keys: Sequence[str]) -> str:
    """Return labels of a row in words, one after the other; those it does not have are left out."""
    return ", ".join(words(key, row[key]) for key in keys if key in row)
