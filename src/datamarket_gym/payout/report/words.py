"""The technical words of a report in plain ones, as data: what is shown, what it means.

Names are those of the registries, of the certificates and of the ties; a test holds these lists to them. What
somebody else registers is told by the first line of its own docstring (`report.glossary`).
"""

from __future__ import annotations

REASONS = {
    "exact_hash": (
        "identical",
        "The two units hold the same content, number for number after rounding.",
    ),
    "lineage": (
        "near copy",
        "A unit is taken to descend from its nearest earlier unit if the two are at least as alike as the threshold "
        "theta. lineage@0.75 means a threshold of 0.75, lineage@none that only identical units are tied.",
    ),
    "trusted source": (
        "named source",
        "The unit itself names the unit that it was made from, in a column that the operator trusts.",
    ),
    "same metadata": (
        "same metadata",
        "The two units agree in a column that the operator fills in, such as a watermark id.",
    ),
    "both confirm": (
        "both confirm",
        "Each of the two identities names the other as the same payee.",
    ),
    "override": (
        "override",
        "A person decided it, with a reason and a signature; see the table of overrides.",
    ),
    "supplied": ("supplied", "The tie stands in a table of pairs that the operator gave."),
}
"""Why two units, or two identities, are tied."""

LEAKS = {
    "identical": "Unit and validation row hold the same numbers.",
    "features": "Unit and validation row are nearly the same by their features.",
    "embedding": "Unit and validation row are nearly the same by their embeddings.",
    "text": "Unit and validation row share half of their word pairs or more.",
}
"""What a unit shares with a validation row."""

CLAIMS = {
    "exact": (
        "proven: no gain",
        "It is proven that this very manipulation gained nothing (Theorem 2).",
    ),
    "certain": (
        "proven limit",
        "It is proven that this very manipulation gained at most the limit named (Theorem 3).",
    ),
    "probable": (
        "limit, very probably",
        "The limit holds with the probability named, because scores were sampled (Theorem 3).",
    ),
    "expected": (
        "limit on average",
        "The limit holds for the average over the sampling of scores (Theorem 3).",
    ),
    "none": (
        "nothing proven",
        "The theorems do not apply to this manipulation, so they say nothing about it.",
    ),
}
"""What a certificate claims."""

CONDITIONS = {
    "quotient_stable": (
        "same groups",
        "The manipulation changed neither which units are merged nor which unit stands for each group.",
    ),
    "neutral": (
        "same shares",
        "Of each group the cheat owned the same share with and without the manipulation.",
    ),
    "exact_scores": ("exact scores", "Scores were computed by a formula, not by sampling."),
    "matching": (
        "groups can be paired",
        "The groups with and without the manipulation can be paired one to one; what is left over escaped.",
    ),
    "bounded_marginals": ("limited effects", "What a single unit can add or take away is limited."),
    "bounded_errors": ("limited errors", "How far a score can be off through sampling is limited."),
}
"""The conditions of the theorems."""

COMPONENTS = {
    "shapley": (
        "Shapley value",
        "What a unit adds to the whole on average, over all orders in which units could have come. The scores of all "
        "units add up to what all of them together are worth.",
    ),
    "banzhaf": ("Banzhaf value", "What a unit adds on average, over all groups of other units."),
    "beta": (
        "Beta-Shapley value",
        "As the Shapley value, with more weight on small or on large groups of units.",
    ),
    "loo": ("leave-one-out", "What all units together lose when this one goes."),
    "coverage": (
        "coverage",
        "How much of the validation rows units cover: a row counts as far as some unit that may cover it is more like "
        "it than strangers are.",
    ),
    "knn": (
        "nearest neighbours",
        "A model that answers a row by the labels of the units nearest to it; 5-NN asks five.",
    ),
    "logistic": ("logistic regression", "A usual linear model for labels."),
    "ridge": ("least squares", "A linear model for labels with a penalty on large weights."),
    "knn_regression": (
        "nearest neighbours, for numbers",
        "A model that predicts the number of a row by the mean of those of the units nearest to it.",
    ),
    "ridge_regression": (
        "least squares, for numbers",
        "A linear model for numbers with a penalty on large weights.",
    ),
    "scores": (
        "scores from elsewhere",
        "How much each unit contributes to a model, as another tool has computed it; the scores of units are added up.",
    ),
    "sklearn": (
        "scikit-learn model",
        "A model of the library scikit-learn that the operator chose.",
    ),
    "cosine": (
        "cosine similarity",
        "How alike two units are, by the angle between their lists of numbers: 1 is the same direction, 0 nothing in "
        "common.",
    ),
    "standardised": (
        "standardised similarity",
        "The cosine similarity of columns brought to one scale.",
    ),
    "auto": (
        "automatic similarity",
        "Standardised columns where their scales are very unequal, else the cosine.",
    ),
    "recommended": (
        "recommended mechanism",
        "The rule by which this run pays: units are the players, each is tied to its nearest earlier unit if near "
        "enough, and the earliest unit of a group stands for it and owns it. v1 is the version of the rule.",
    ),
}
"""Scores, what is paid for, similarities, mechanisms."""

GENERAL = {
    "unit": ("unit", "", "One thing that was handed in: a text, an image, a row of a table."),
    "identity": ("identity", "", "The name under which units were handed in."),
    "payee": ("payee", "", "Who is paid: one identity, or several that are known to be one."),
    "validation": (
        "validation rows",
        "validation rows?",
        "Rows of the operator's own, kept secret, by which what was handed in is valued.",
    ),
    "interval": (
        "interval",
        "",
        "The range in which a payment would lie 95 times in 100 had other validation rows of the same kind been used.",
    ),
    "without": (
        "without evidence",
        "",
        "What the same run would pay had it tied no units together.",
    ),
    "carried": (
        "carried",
        "balances?",
        "What somebody is owed, or owes if below zero, beyond this payment. It goes to the next run.",
    ),
    "score": (
        "score",
        "",
        "What the units of an identity add to what all units together are worth; pay follows it.",
    ),
    "evidence": (
        "evidence",
        "evidence",
        "What says that two units are the same, or that one was made from the other.",
    ),
    "cluster": (
        "group (cluster)",
        "clusters?|trees? of tied units|tree",
        "Units that evidence ties together. They count once; the earliest stands for them and is paid.",
    ),
    "representative": (
        "representative",
        "representatives?",
        "The unit that stands for a group: its earliest.",
    ),
    "override": (
        "override",
        "overrides?",
        "A decision by a person that ties or unties, with a reason and a signature.",
    ),
    "theta": (
        "theta",
        "theta|thresholds?",
        "How alike two units must be to be taken for copies, from 0 to 1.",
    ),
    "jackknife": (
        "jackknife",
        "jackknife",
        "A usual way to tell how much a result depends on chance: leave out one part of the validation rows after "
        "the other, and see how far the result moves.",
    ),
    "closed": (
        "closed form",
        "closed form",
        "Computed by a formula, not by sampling: no error by chance.",
    ),
    "coalition": (
        "coalition",
        "coalitions?",
        "A set of units that is tried together. Where there are too many sets, some are sampled.",
    ),
    "honest": (
        "honest price",
        "honest price",
        "The share of pay that a threshold would move between honest people who happen to hand in similar units. At "
        "most one part in a hundred is allowed.",
    ),
    "crowding": (
        "crowding floor",
        "crowding floor",
        "The more units there are, the more alike the nearest strangers. Below this threshold too many would be taken "
        "for copies.",
    ),
    "needs": (
        "needs of the buyer",
        "buyer's needs",
        "What the buyer holds up as wanted: the validation rows, which are kept secret.",
    ),
    "well": (
        "covered well",
        "covered well",
        "Some unit comes at least half-way from as alike as strangers are to the same.",
    ),
    "strangers": (
        "strangers",
        "strangers",
        "Pairs of validation rows: how alike things are that have nothing to do with one another.",
    ),
    "embedding": (
        "embedding",
        "embeddings?|encoders?",
        "The list of numbers that a program (an encoder) makes of a text or an image.",
    ),
    "kappa": (
        "kappa",
        "kappa",
        "What a payee's units above zero earn, over what all of its units earn. At 1 nothing is below zero; the larger "
        "it is, the less checks deter.",
    ),
    "power": (
        "power of a check",
        "",
        "How often a check finds a unit that is not genuine: 80% means eight of ten.",
    ),
    "remainder": (
        "largest remainder",
        "largest remainder",
        "Cents that are left after rounding down go to those who lost most by it, so that the sum is exact.",
    ),
    "minor": ("minor units", "minor units", "The smallest coins of a currency, such as cents."),
    "digest": (
        "digest",
        "digest|sha256",
        "A long number made from a file: if a single character changes, so does it.",
    ),
    "seed": (
        "seed",
        "seed",
        "The number that fixes every chance draw of the run, so that it can be repeated.",
    ),
    "beacon": (
        "beacon",
        "beacon",
        "A value announced beforehand that nobody could know, such as a public random number.",
    ),
    "linkage": (
        "linkage value",
        "linkage values?",
        "A cell that several identities share, such as a bank account.",
    ),
    "splink": (
        "splink",
        "splink",
        "A program that finds records of one person that are written differently.",
    ),
    "theorem2": (
        "Theorem 2",
        "Theorem 2",
        "If a manipulation leaves groups, representatives and shares as they are, it gains nothing.",
    ),
    "theorem3": (
        "Theorem 3",
        "Theorem 3(?: and the lemma on normalised pay)?",
        "A manipulation gains at most what it gets by larger shares inside groups, by units that escape the evidence, "
        "and by changed scores.",
    ),
    "sources": (
        "trusted sources",
        "trusted sources?",
        "A record of which unit was made from which, that nobody can forge.",
    ),
    "linked": ("linked accounts", "linked accounts", "Knowing which names are one person."),
    "copies": ("exact copies", "exact copies", "Tying identical units alone."),
    "similarity": ("similarity", r"similarity 0\.\d+", "Tying units that are at least so alike."),
    "accuracy": (
        "accuracy over chance",
        "accuracy over chance",
        "How often a model answers right, less what guessing would.",
    ),
    "variance": (
        "variance explained",
        "variance explained",
        "How much nearer predictions come to the numbers of the validation rows than their mean does: at 100% they are "
        "right, at 0% no better than the mean.",
    ),
    "manifest": (
        "manifest",
        "manifest",
        "The file that holds the digests of all inputs and outputs of the run.",
    ),
    "gain": (
        "gain",
        "",
        "Pay when cheating, divided by pay when honest: 1 means that cheating changes nothing.",
    ),
    "moves": (
        "moves honest pay",
        "moves \\d+% of honest pay",
        "What the remedy itself would change for people who do not cheat.",
    ),
    "median": (
        "median vector",
        "median vector",
        "The length of a typical unit, as a list of numbers.",
    ),
    "unchecked": (
        "deterred by checks",
        "deterred by checks",
        "It would gain if nothing were checked, and is expected not to, given the checks.",
    ),
}
"""key: what it is called, how it is spelled in sentences (a pattern; none: it is linked where asked), what it means."""
