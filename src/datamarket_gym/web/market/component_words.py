"""What the page calls components. One that is not here is called by its name, and says what its docstring says: so do
components of plugins."""

from __future__ import annotations

CALLED: dict[str, dict[str, tuple[str, str]]] = {
    "attack": {
        "honest": ("nobody cheats", "Every provider submits its own units under one name."),
        "sybil_split_k": ("split over several names", "Divides its own units among several names."),
        "exact_dup_2x_sybils": (
            "exact copies under false names",
            "Keeps all of its units, and submits copies of some of them under each of some further names.",
        ),
        "near_duplicate_2x_sybils": (
            "near copies under false names",
            "Keeps all of its units, and submits noisy copies of some of them under each of some further names.",
        ),
        "copycat": (
            "copies of another's units",
            "Submits another provider's units, exact or with noise, as its own beside its own.",
        ),
        "backdate": (
            "copies with earlier times",
            "Copies others' units, and writes times on the copies that are before all originals: a forged clock.",
        ),
        "grind_ties": (
            "copies that win ties in time",
            "Copies others' units at the originals' times, and tries noise until the copy wins the tie.",
        ),
        "own_source": (
            "copies that are their own source",
            "Copies others' units later, and names each copy as its own source.",
        ),
        "turn": (
            "copies turned out of reach",
            "Copies others' units, each turned to a given similarity with its original, and as long as that is.",
        ),
        "text_variants": (
            "paraphrased texts under false names",
            "Submits texts of its own again, paraphrased by rule, under each of some further names.",
        ),
        "image_variants": (
            "altered images under false names",
            "Submits images of its own again, altered by rule, under each of some further names.",
        ),
        "synthetic_laundering": (
            "generated units added",
            "Adds units generated from its own, class by class, under a further name.",
        ),
        "junk_padding": (
            "noise added",
            "Adds random units with random labels, to collect what guessing earns.",
        ),
        "label_noise": ("wrong labels", "Changes some of its labels to others, at random."),
        "label_poisoning": (
            "systematically wrong labels",
            "Labels some of its units as the class after their own.",
        ),
        "strategic_curation": (
            "its best units only",
            "Submits only, or mostly, those of its units that a leaked sample of the validation rows rewards.",
        ),
        "leak_stuffing": (
            "leaked validation rows",
            "Submits validation rows that have leaked, exact or with noise.",
        ),
        "outlier": (
            "units in uncovered regions",
            "Adds units where nobody else has any, each made of one of its own.",
        ),
        "shadow": (
            "units moved by a proxy",
            "Trains a model on what it knows, and moves its units to where that model scores them higher.",
        ),
        "squat": (
            "squatting before others",
            "Comes first, with units where the others' will be, so that theirs seem to descend from its own.",
        ),
        "bridge": (
            "bridges between owners",
            "Comes last, with units between the victim's and an earlier owner's, so that evidence ties the two.",
        ),
        "text_bridge": (
            "blended texts",
            "The bridge by texts: blended word by word from the victim's and an earlier owner's.",
        ),
        "link_claim": (
            "junk in another's name",
            "Submits mislabelled units under a further name that claims the victim's payout account as its own.",
        ),
        "composite": (
            "several of these at once",
            "Splits and curates its own units, adds noisy copies of them, and noisy copies of others'.",
        ),
        "provider_zero_attack": (
            "an attack by the first provider",
            "The attack that is named, by provider 0, whichever provider is asked for: the paper's setting.",
        ),
    },
    "evidence": {
        "lineage": (
            "descent from an earlier unit",
            "Ties each unit to one earlier unit: an identical one, or the most similar if it is similar enough.",
        ),
        "cosine": ("similarity", "Ties all units whose cosine similarity is at least theta."),
        "exact_hash": ("identical units", "Ties units that are the same after rounding."),
        "hybrid_hash_cosine": (
            "identical or similar units",
            "Ties units that are identical, or whose cosine similarity is at least theta.",
        ),
        "hybrid_source_cosine": (
            "one source or similar",
            "Ties units with a common source, or whose cosine similarity is at least theta.",
        ),
        "hybrid_minhash_cosine": (
            "shared phrases or similar",
            "Ties texts that share enough of their phrases, or whose cosine similarity is at least theta.",
        ),
        "hybrid_perceptual_cosine": (
            "alike to the eye or similar",
            "Ties images whose fingerprints nearly agree, or whose cosine similarity is at least theta.",
        ),
        "minhash": ("shared phrases", "Ties texts that share enough of their phrases."),
        "perceptual": (
            "alike to the eye",
            "Ties images whose fingerprints (dHash and pHash) nearly agree, mirrored or not.",
        ),
        "linkage": ("shared keys", "Ties units that share a key, such as a licence or an account."),
        "metadata": (
            "the same metadata",
            "Ties units that agree in a column, such as a licence or a device.",
        ),
        "none": ("none", "Ties nothing: everybody plays for themselves."),
        "pool": ("everything in one", "Ties everything into one cluster."),
        "oracle_latent": (
            "the true owner (oracle)",
            "Ties whatever truly has one owner: the ideal, which no operator has.",
        ),
        "noisy_oracle_latent": (
            "the true owner, with errors (oracle)",
            "Ties whatever truly has one owner, with ties that are missed and ties that are wrong.",
        ),
        "oracle_source": (
            "the true source (oracle)",
            "Ties units that truly derive from the same unit.",
        ),
    },
    "representative": {
        "identity": (
            "all units kept",
            "All submitted units train the model, copies as often as they were submitted.",
        ),
        "collapse": (
            "identical units once",
            "Of identical units in a cluster one is kept, owned by whoever submitted it first.",
        ),
        "capped": (
            "at most so many a cluster",
            "Of each cluster at most so many units train the model.",
        ),
        "provenance": (
            "the source",
            "Of units with one declared source that source is kept, or else the earliest.",
        ),
        "weight_normalized": (
            "all units, equal weight a cluster",
            "All units are kept, and weighed so that every cluster weighs the same.",
        ),
    },
    "semivalue": {
        "shapley": (
            "Shapley",
            "Every coalition size is equally likely; scores add up to the value of all data.",
        ),
        "banzhaf": ("Banzhaf", "Every coalition is equally likely; scores need not add up to anything."),
        "beta": ("Beta Shapley", "Small or large coalitions count more, as its two numbers say."),
        "loo": ("leave-one-out", "What all others lose when this player goes."),
    },
    "allocation": {
        "count_canonical": (
            "by units first submitted",
            "Within a cluster by units that were submitted first: copies earn nothing.",
        ),
        "count_raw": ("by units submitted", "Within a cluster by units submitted, copies included."),
        "equal_submitted": ("equal parts", "Equal parts for all names with a unit in the cluster."),
        "latent_share": (
            "by true owners (oracle)",
            "Within a cluster by the units that each provider truly owns.",
        ),
        "robust_volume": ("by volume", "Within a cluster by the volume that units fill, labels aside."),
    },
    "task": {
        "synthetic": (
            "synthetic",
            "Units of several classes around centres; each provider has mostly one class.",
        ),
        "synthetic_regression": (
            "synthetic numbers",
            "Numbers to be predicted (Friedman 1991): five features matter, the rest are idle.",
        ),
        "diabetes": (
            "diabetes",
            "Ten measurements of 442 patients, and how the illness went on (Efron et al. 2004).",
        ),
        "digits": ("digits", "Handwritten digits of 8 by 8 points; each provider has much of one."),
        "breast_cancer": (
            "tumours",
            "Thirty measurements of the cells of 569 tumours, benign or malignant; dealt at random.",
        ),
        "agnews": ("AG News", "News by topic, embedded by MiniLM; dealt at random."),
        "imdb": ("IMDB", "Film reviews, embedded by MiniLM; dealt at random."),
        "cifar10": ("CIFAR-10", "Small photographs, embedded by ResNet-18; one class each provider."),
        "stl10": ("STL-10", "Photographs, embedded by ResNet-18; one class each provider."),
        "without_labels": (
            "without labels",
            "Another market, with neither labels of units nor of validation rows.",
        ),
    },
    "learner": {
        "coverage": (
            "coverage",
            "How well units cover the validation rows of their label; nothing is trained.",
        ),
        "coverage_truncated": (
            "coverage, nearest alone",
            "Coverage by the units nearest to each validation row alone; the error is bounded.",
        ),
        "knn": ("nearest neighbours", "Accuracy of a vote among the nearest units; nothing is trained."),
        "knn_truncated": (
            "nearest neighbours, cut short",
            "The same by the nearest rows of each validation row alone; the error is bounded.",
        ),
        "knn_regression": (
            "nearest neighbours, of numbers",
            "Numbers predicted by the mean of the nearest units.",
        ),
        "logistic": (
            "logistic regression",
            "Accuracy of logistic regression, trained on every coalition until it converges.",
        ),
        "ridge": ("ridge classifier", "Accuracy of least squares with a penalty."),
        "ridge_regression": ("ridge regression", "Numbers predicted by least squares with a penalty."),
        "sklearn": (
            "scikit-learn",
            "Accuracy of a classifier of scikit-learn, trained on every coalition.",
        ),
        "sklearn_regressor": (
            "scikit-learn, of numbers",
            "Score of a regressor of scikit-learn, trained on every coalition.",
        ),
        "scores": (
            "scores of another tool",
            "Scores of units on validation rows that another tool has computed, added up.",
        ),
    },
    "estimator": {
        "auto": (
            "what suits",
            "In closed form, else exactly where that costs no more than sampling, else as suits the semivalue.",
        ),
        "exact": ("exact", "All coalitions are tried; up to 24 players."),
        "permutation": (
            "orders of joining",
            "Players join in random orders, and each is credited with what it adds.",
        ),
        "stratified": (
            "by size",
            "All coalitions of the sizes that have few, and random ones of the others.",
        ),
        "subset": ("random coalitions", "Random coalitions are drawn for each player apart."),
        "msr": ("shared coalitions", "Each random coalition serves all players; for Banzhaf."),
    },
    "mechanism": {
        "recommended": (
            "recommended",
            "Each unit descends from the most similar earlier one, if that is similar enough; the first of a line "
            "stands for it, and its owner is paid.",
        ),
        "shapley": ("Shapley", "Names play, as they were reported; nothing is tied."),
        "banzhaf": ("Banzhaf", "Names play, as they were reported; nothing is tied."),
        "beta_shapley": ("Beta Shapley", "Names play, as they were reported; nothing is tied."),
        "loo": ("leave-one-out", "Names play, as they were reported; nothing is tied."),
        "quotient_shapley": (
            "quotient Shapley",
            "Clusters that evidence ties together play, by Shapley.",
        ),
        "quotient_banzhaf": (
            "quotient Banzhaf",
            "Clusters that evidence ties together play, by Banzhaf.",
        ),
        "quotient_beta_shapley": (
            "quotient Beta Shapley",
            "Clusters that evidence ties together play, by Beta Shapley.",
        ),
        "uniform": ("equal shares", "The value of all data in equal parts, one for each name."),
        "per_example": ("by number of units", "The value of all data by how many units were submitted."),
        "robust_volume": (
            "robust volume",
            "The value of all data by the volume that units fill, labels aside.",
        ),
    },
}
"""Of each kind of component: what one is called, and what it does in a sentence."""


def called(kind: str, name: str) -> tuple[str, str] | None:
    """What a component is called, and what it does; None: what it says itself."""
    return CALLED.get(kind, {}).get(name)
