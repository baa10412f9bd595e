"""What the page calls the parameters of components, and a line of help for each that its label leaves unclear."""

from __future__ import annotations

from datamarket_gym.web.market.component_words import called

_VICTIM = ("victim", "Whose units: the first, second, ... provider after the attacker, or all.")
_NOISE = ("noise", "Size of the noise on each copy; 0 copies exactly.")

PARAMETERS: dict[str, tuple[str, str]] = {
    "fraction": ("share of the units that is copied", ""),
    "sigma": _NOISE,
    "sybils": ("false names", "Further names under which copies are submitted."),
    "k": ("names", "Among how many names the units are divided."),
    "victim": _VICTIM,
    "tries": ("tries", "Noisy copies of each unit, of which the one that wins is submitted."),
    "scoring": ("scorer", "A scorer of scikit-learn; blank: accuracy, or R squared of numbers."),
    "column": ("column", "Of the submission, such as licence, batch or one of its metadata."),
    "metadata": ("column of metadata", "A unit that agrees in it with an earlier unit descends from that one."),
    "ratio": ("added units", "As a multiple of its own."),
    "identities": ("names", "Names for the added units."),
    "p": ("share of the labels", "How many are changed."),
    "keep": ("share that is submitted", "The best of its own units, by the leaked sample."),
    "rest": ("share of the others", "How many of the other units are submitted as well; 0: none."),
    "strength": ("strength", "1 is hardly noticed, 3 is plain to see."),
    "how": ("how", ""),
    "pick": ("which", ""),
    "knows": ("what it knows", ""),
    "budget": ("how far units may move", ""),
    "most": ("units at most", ""),
    "first": ("before everybody's units", ""),
    "steps": ("steps", "How often each unit is moved a little."),
    "besides": ("as copies, beside its own units", ""),
    "instead": ("instead of its own units", ""),
    "share": ("share of the leaked rows", "How many of them are used."),
    "points": ("units of each class", "How many are placed."),
    "worthless": ("under a label that nobody asks for", ""),
    "split": ("names for its own units", ""),
    "copy": ("share of its own units that is copied", ""),
    "copy_sigma": ("noise on these copies", ""),
    "steal": ("share of others' units that is copied", ""),
    "steal_sigma": ("noise on those copies", ""),
    "victims": ("others it copies from", ""),
    "names": ("further names for the copies", "0 leaves them under its own."),
    "guess": ("guess of what lots are drawn under", "Written SEED|BEACON; empty: no guess."),
    "attack": ("which attack", ""),
    "theta": ("theta", "From which cosine similarity on two units are tied."),
    "cosine": ("similarity", "Cosine of a copy with its original."),
    "sources": ("trust the column of sources", ""),
    "decimals": ("decimals", "Numbers are compared after rounding to so many."),
    "jaccard": ("shared phrases", "Which part of the phrases of two texts must be in both."),
    "words": ("words of a phrase", ""),
    "bits": ("bits that may differ", "Of 128."),
    "keys": ("keys", "Columns joined by +, several keys separated by ;"),
    "confirm": ("column of confirmations", "Only names that name each other in it are tied."),
    "p_fs": ("ties that are missed", "The share of true ties that is lost."),
    "p_fm": ("ties that are wrong", "How likely a false tie is."),
    "score": ("score", "From which score on a mark counts as read."),
    "kappa": ("units of a cluster", "At most so many are kept."),
    "quantile": ("what counts as near", "Similarity counts beyond this quantile of those between validation rows."),
    "labels": ("labels count", ""),
    "similarity": ("similarity", ""),
    "nearest": ("nearest units", "How many count for each validation row; auto: as few as the error allows."),
    "within": ("error of a score, at most", ""),
    "vote": ("vote", ""),
    "C": ("C", "The larger, the closer the model follows its data."),
    "estimator": ("model of scikit-learn", "The name of a classifier."),
    "alpha": ("alpha", ""),
    "beta": ("beta", ""),
    "count": ("which units count", ""),
    "omega": ("width of the cubes", ""),
    "antithetic": ("each order also reversed", ""),
    "truncation": ("cut orders short", "Where what is left to gain is at most this; 0: never."),
    "exact_n_limit": (
        "players whose coalitions are all tried", "Up to so many; -1: where that costs no more than sampling.",
    ),
    "validation": ("validation rows", ""),
    "partition": ("who owns what", "How units are dealt to providers."),
    "content": ("with texts or images", ""),
    "classes": ("classes", ""),
    "features": ("features", ""),
    "informative": ("features that matter", ""),
    "class_sep": ("distance of the classes", ""),
    "flip_y": ("share of wrong labels", "In the data themselves, before anybody cheats."),
    "noise": ("noise", "Spread of the noise on the numbers."),
    "of": ("which market", ""),
    "pairs": ("what errors strike", ""),
    "prone": ("who is prone to errors", ""),
}  # fmt: skip
"""Parameters that mean the same everywhere: a label, and a line of help."""

OF_ONE: dict[tuple[str, str], tuple[str, str]] = {
    ("copycat", "victim"): ("victim", "The number of the provider; -1 is the one after the attacker."),
    ("squat", "sigma"): ("noise", "On its guesses."),
    ("bridge", "theta"): ("theta it reckons with", "Which similarity it takes for enough to be tied."),
    ("text_bridge", "theta"): ("theta it reckons with", "Which similarity it takes for enough to be tied."),
    ("bridge", "first"): ("from a first unit of its own", ""),
    ("lineage", "theta"): (
        "theta", "From which similarity on a unit descends from an earlier one; auto: as the validation rows allow.",
    ),
    ("weight_normalized", "budget"): ("weight of a cluster", ""),
    ("composite", "first"): ("its own copies before everybody's units", ""),
    ("ridge", "alpha"): ("penalty", "The larger, the simpler the model."),
    ("ridge_regression", "alpha"): ("penalty", "The larger, the simpler the model."),
    ("beta", "alpha"): ("alpha", "The larger, the more small coalitions count."),
    ("beta", "beta"): ("beta", "The larger, the more large coalitions count."),
    ("knn", "k"): ("neighbours", ""),
    ("knn_truncated", "k"): ("neighbours", ""),
    ("knn_regression", "k"): ("neighbours", ""),
    ("synthetic_laundering", "ratio"): ("generated units", "As a multiple of its own."),
}  # fmt: skip
"""Parameters that mean something else in one component."""


def parameter_called(kind: str, name: str, parameter: str) -> tuple[str, str] | None:
    """A parameter's label and help; None for components of somebody else's, whose words are their own."""
    return OF_ONE.get((name, parameter), PARAMETERS.get(parameter)) if called(kind, name) else None
