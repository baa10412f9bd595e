"""Names as words: what figures print in place of identifiers. A name that is not here is shown as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.registry import create, name_of
from datamarket_gym.lab.cells import Row

ATTACKS = {
    "honest": "nobody cheats",
    "sybil_split_k": "split into {k} names",
    "exact_dup_2x_sybils": "exact duplicates, {sybils} false names",
    "near_duplicate_2x_sybils": "near duplicates, {sybils} false names",
    "copycat": "copies of another's units",
    "junk_padding": "noise added",
    "label_noise": "wrong labels, {p:.0%}",
    "label_poisoning": "systematically wrong labels, {p:.0%}",
    "strategic_curation": "best {keep:.0%} of units kept",
    "synthetic_laundering": "generated units added",
    "bridge": "bridges to one victim",
    "text_bridge": "blended articles",
    "backdate": "copies with earlier times",
    "grind_ties": "copies that win ties in time",
    "own_source": "copies that are their own source",
    "leak_stuffing": "leaked validation rows",
    "squat": "squatting before one victim",
    "squat_by_leak": "squatting by leaked rows",
    "link_claim": "junk in another's name",
    "shadow": "units moved by a proxy",
    "turn": "copies of all turned out of reach",
    "outlier": "units in uncovered regions",
    "composite": "combined",
    "best_response": "best response",
    "best_responses": "best responses to one another",
}
"""An attack's words; ``{...}`` is one of its parameters."""

PARAMETERS = {
    "sigma": "noise {:.3g}",
    "fraction": "{:.0%} of units",
    "ratio": "{:g} times as many",
    "identities": "{} names",
    "how": "{}",
    "split": "{} own names",
    "keep": "best {:.0%} of own units",
    "copy": "copies {:.0%} of them",
    "copy_sigma": "with noise {:.2g}",
    "steal": "takes {:.0%}",
    "victims": "of up to {} others' units",
    "steal_sigma": "with noise {:.2g}",
    "names": "{} further names",
    "cosine": "cosine {:.2g}",
    "first": "submitted first",
}
"""A parameter that is not as usual, or that is always said, in words."""

ALWAYS = {
    "composite": ("split", "keep", "copy", "copy_sigma", "steal", "victims", "steal_sigma", "names"),
    "turn": ("cosine",),
}
"""Parameters that are always said, unless they are 0."""

HOW = {
    "mix": "mixtures of own units",
    "block": "in blocks",
    "synonyms": "synonyms put in",
    "numbers": "numbers changed",
    "reorder": "sentences moved",
    "casing": "upper and lower case",
    "typos": "typing errors",
    "truncate": "cut short",
    "concat": "joined with another",
    "flip": "mirrored",
    "crop": "cropped",
    "colour": "colours changed",
    "jpeg": "compressed",
    "blur": "blurred",
    "noise": "noise added",
    "rotate": "rotated",
    "mixed": "all of these",
}
"""Ways in which an attack is carried out."""

LABELS = [
    (re.compile(r"sybil_split_(\d+)"), "split into {} names"),
    (re.compile(r"(?:text|image)_([a-z]+)_(\d)"), "{}, strength {}"),
    (re.compile(r"noisy_theft_from_(\d+)"), "theft from {} others, with noise"),
    (re.compile(r"noisy_theft_([\d.]+)_spreads?"), "theft from all, noise of {} spreads"),
    (re.compile(r"theft_of_the_best_([\d.]+)_spreads?"), "theft of the best 5%, noise of {} spreads"),
    (re.compile(r"near_copies_([\d.]+)_spreads?"), "near duplicates, noise of {} spreads"),
    (re.compile(r"own_copies_([\d.]+)_spreads?"), "copies of all own units, noise of {} spreads"),
    (
        re.compile(r"own_copies_first_([\d.]+)_spreads?"),
        "copies of own units, submitted first, noise of {} spreads",
    ),
    (re.compile(r"copycat_([\d.]+)_spreads?"), "copies of another's units, noise of {} spreads"),
    (re.compile(r"shadow_besides"), "copies of own units moved by a proxy"),
    (re.compile(r"best_response_found"), "the best response found"),
    (re.compile(r"bridge_all"), "bridges to all, from the first unit"),
    (re.compile(r"backdate_all"), "copies of all, with earlier times"),
    (re.compile(r"grind_ties_all"), "copies of all, that win ties in time"),
    (re.compile(r"squat_all"), "squatting before all"),
    (re.compile(r"worthless_squat_by_leak"), "worthless squatting by leaked rows"),
    (re.compile(r"worthless_squat_all"), "worthless squatting before all"),
    (re.compile(r"noisy_theft_in_another_name"), "noisy theft in another name, noise of 1 spread"),
    (re.compile(r"copies"), "copies of all that others sold before"),
    (re.compile(r"copies_alone"), "such copies and nothing else"),
    (re.compile(r"copies_under_another_name"), "such copies under another name"),
    (re.compile(r"just_under"), "copies turned just below the threshold"),
    (re.compile(r"just_under_towards_others"), "the same, towards another old unit"),
    (re.compile(r"midpoints"), "midpoints of two old units of a class"),
    (re.compile(r"blends"), "blends of old units with new ones"),
    (re.compile(r"relabelled_copies"), "copies under the next class"),
    (re.compile(r"own_units_again"), "one's own old units again"),
    (re.compile(r"copycat_exact"), "exact copies of another's units"),
    (
        re.compile(r"theft_and_own_copies_([\d.]+)_spreads?"),
        "theft from all and own copies, noise of {} spreads",
    ),
    (re.compile(r"own_new_units_noised"), "as many noisy copies of one's own new units"),
]
"""What attacks call themselves in tables, where it is not their registered name."""

MECHANISMS = {
    "uniform": "equal shares",
    "per_example": "by number of units",
    "loo": "leave-one-out",
    "shapley": "Shapley",
    "banzhaf": "Banzhaf",
    "beta_shapley": "Beta Shapley",
    "robust_volume": "robust volume",
    "quotient_shapley": "quotient Shapley",
    "quotient_banzhaf": "quotient Banzhaf",
    "quotient_beta_shapley": "quotient Beta Shapley",
    "recommended": "recommended",
    "components": "components",
    "units": "units play",
    "equal_units_alone": "equal units alone",
    "recommended_sampled": "recommended, sampled",
    "lineage@0.9": "recommended, threshold 0.9",
}

PEERS = {"pydvl": "pyDVL", "opendataval": "OpenDataVal"}
"""Peers that do not write themselves as their packages."""

EVIDENCE = {
    "none": "no evidence",
    "oracle_latent": "true owners known",
    "oracle_source": "true sources known",
    "exact_hash": "equal content",
    "cosine": "cosine",
    "hybrid_hash_cosine": "equal content or cosine",
    "hybrid_source_cosine": "true sources or cosine",
    "hybrid_minhash_cosine": "shared phrases or cosine",
    "hybrid_perceptual_cosine": "look-alikes or cosine",
    "minhash": "shared phrases",
    "perceptual": "look-alikes",
    "noisy": "true owners with errors",
    "noisy_oracle_latent": "true owners with errors",
    "units": "units play",
    "predicted": "predicted threshold",
}

OTHERS = {
    "granularity": {"identity": "names play", "unit": "units play", "batch": "batches play"},
    "representative": {
        "identity": "all units kept",
        "collapse": "identical units merged",
        "capped": "one unit a cluster",
        "provenance": "source kept",
        "weight_normalized": "equal weight a cluster",
    },
    "allocation": {
        "equal_submitted": "equal shares per name",
        "count_canonical": "by owned representatives",
        "count_raw": "by submitted units",
        "latent_share": "by true owner",
    },
    "empty": {"none": "counted from zero", "chance": "counted from chance"},
    "rule": {
        "raw": "as scored",
        "floor": "no payment below zero",
        "floor_rescaled": "no payment below zero, rescaled",
    },
    "semivalue": MECHANISMS,
    "learner": {"knn_regression": "k-NN regression", "ridge_regression": "ridge regression"},
    "task": {
        "synthetic": "synthetic market",
        "synthetic, times equal": "synthetic market, all times equal",
        "agnews": "AG News",
        "imdb": "IMDB",
        "cifar10": "CIFAR-10",
        "stl10": "STL-10",
        "synthetic_regression": "Friedman's function",
        "diabetes": "diabetes",
        "unanimity": "unanimity games",
        "random_monotone": "random monotone games",
    },
}

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
"""Labels of results in words."""

METRICS = {
    "gain": "gain",
    "net_gain": "net gain, attack tuned on this market",
    "net_gain_fresh": "net gain, same attack in a fresh market",
    "caught": "share of copies tied to their original",
    "measured": "measured",
}


def attack_words(text: str) -> str:
    """An attack in words, from the name that tables print or its written form."""
    for pattern, words in LABELS:
        found = pattern.fullmatch(text)
        if found:
            return words.format(*(HOW.get(part, part) for part in found.groups()))
    try:
        attack = create("attack", text)
    except DataMarketError:
        return ATTACKS.get(text, text)
    name = name_of(attack)
    if name not in ATTACKS:
        return text
    fields: Mapping[str, Any] = attack.__dataclass_fields__
    values = {key: getattr(attack, key) for key in fields}
    first = ATTACKS[name].format(**values)
    said = [k for k in fields if values[k] != fields[k].default]
    if name in ALWAYS:
        said = [k for k in ALWAYS[name] if values[k.removesuffix("_sigma")]]
    more = [
        PARAMETERS[k].format(HOW.get(values[k], values[k]))
        for k in said
        if k in PARAMETERS and f"{{{k}" not in ATTACKS[name]
    ]
    return re.sub(r"\b1 (own |further |)names", r"1 \1name", ", ".join([first, *more]))


def mechanism_words(text: str) -> str:
    """A mechanism in words: its rule and, after a slash, its evidence with the threshold; of a peer who computes."""
    if (peer := re.fullmatch(r"peer@(\w+)-(\w+)", text)) and peer[2] in MECHANISMS:
        return f"{MECHANISMS[peer[2]]} by {PEERS.get(peer[1], peer[1])}"
    rule, slash, evidence = text.partition("/")
    if rule not in MECHANISMS:
        return EVIDENCE.get(rule, text) if not slash else text
    return f"{MECHANISMS[rule]}, {evidence_words(evidence)}" if slash else MECHANISMS[rule]


def evidence_words(text: str) -> str:
    """Evidence in words; ``name@value`` is a threshold."""
    name = re.split(r"[@(]", text)[0]
    if name not in EVIDENCE:
        return text
    threshold = re.fullmatch(r"\w+@([\d.]+)", text)
    return EVIDENCE[name] + (f" ≥ {threshold[1]}" if threshold else "")


def words(key: str, value: Any) -> str:
    """A label's value in words."""
    text = str(value)
    if key == "attack":
        return attack_words(text)
    if key == "mechanism":
        return mechanism_words(text)
    if key == "evidence":
        return evidence_words(text)
    if key == "representative" and (capped := re.fullmatch(r"capped@(\d+)", text)):
        return f"at most {capped[1]} units a cluster"
    if key == "theta":
        return f"threshold {text}"
    if key in OTHERS:
        known = re.split(r"[@(]", text)[0]
        found = OTHERS[key].get(text) or OTHERS[key].get(known)
        if key in ("representative", "task") and found and text != known:
            return f"{found} ({text[len(known) :].strip('@()').replace('_', ' ')})"
        return found or text
    return f"{key} = {text}"


def key_words(key: str) -> str:
    """A label's name in words."""
    return KEYS.get(key, key.replace("_", " "))


def variant(row: Row, keys: list[str]) -> str:
    """The labels ``keys`` of a row in words, one after the other; those it does not have are left out."""
    return ", ".join(words(key, row[key]) for key in keys if key in row)
