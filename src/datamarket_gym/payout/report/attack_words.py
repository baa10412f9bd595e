"""The red team's attacks and their parameters in plain words, as data; a test holds them to the registry."""

from __future__ import annotations

ATTACKS = {
    "backdate": ("forged dates", "Copies others' units and dates the copies before the originals."),
    "bridge": (
        "units in between",
        "Hands in units that lie between somebody else's unit and an earlier one, so that the two seem to be copies "
        "of one another.",
    ),
    "composite": (
        "several tricks at once",
        "Splits into names, leaves weak units out, and adds noisy copies of its own and of others' units.",
    ),
    "copycat": (
        "copying somebody else",
        "Hands in another's units beside its own, as they are or with noise.",
    ),
    "exact_dup_2x_sybils": (
        "own copies, more names",
        "Hands its own units in again, unchanged, under further names.",
    ),
    "grind_ties": (
        "copies at equal times",
        "Copies others' units at the times of the originals, and tries small changes until a lot falls its way.",
    ),
    "honest": ("no cheating", "Hands in its own units and nothing else."),
    "image_variants": (
        "altered own images, more names",
        "Hands its own images in again, altered, under further names.",
    ),
    "junk_padding": (
        "added noise",
        "Adds noise that is made to look like units, in the hope of pay by chance.",
    ),
    "label_noise": ("wrong labels by chance", "Gives some of its units a wrong label, by chance."),
    "label_poisoning": (
        "wrong labels by rule",
        "Gives some of its units a wrong label, always the same way.",
    ),
    "leak_stuffing": (
        "leaked validation rows",
        "Hands in validation rows that got out, as they are or with noise.",
    ),
    "link_claim": (
        "another's bank account",
        "Hands in bad units under a name that gives somebody else's account as its own, so that the other is charged.",
    ),
    "near_duplicate_2x_sybils": (
        "noisy own copies, more names",
        "Hands its own units in again, with a little noise, under further names.",
    ),
    "outlier": (
        "units far from all others",
        "Adds units where nobody else has any, made from its own.",
    ),
    "own_source": (
        "copies that name themselves",
        "Hands in later copies of others' units that name themselves as their own source.",
    ),
    "provider_zero_attack": (
        "another attack by the first name",
        "One of the other attacks, always by the first name.",
    ),
    "shadow": (
        "units tuned on a guess",
        "Guesses the data, trains a model on the guess, and moves its units to where that model pays more.",
    ),
    "squat": (
        "placed first to own the rest",
        "Comes first with units placed where others' will be, so that theirs seem to be copies of its own.",
    ),
    "strategic_curation": (
        "leaving weak units out",
        "Hands in only what a leaked sample of validation rows rewards.",
    ),
    "sybil_split_k": (
        "splitting into more names",
        "Deals its units out to several names and adds nothing.",
    ),
    "synthetic_laundering": (
        "generated variants",
        "Adds units that a program made from its own, under a further name.",
    ),
    "text_bridge": (
        "texts in between",
        "Hands in texts blended from somebody else's and an earlier one, so that the two seem to be copies.",
    ),
    "text_variants": (
        "reworded own texts, more names",
        "Hands its own texts in again, reworded, under further names.",
    ),
    "turn": (
        "copies turned away",
        "Copies others' units and changes them until they are only so much alike.",
    ),
}
"""Each attack: how tables and pictures call it, and what the cheat does."""

PARAMETERS = {
    "victim": "whose units it is aimed at (all: everybody's; a number: that many places further on)",
    "sigma": "size of the noise that is added, in the units of the features",
    "fraction": "share of the units that are copied",
    "theta": "how alike the made units are to what they lie next to",
    "most": "at most so many made units",
    "first": "the made units come before all others",
    "split": "into so many names",
    "keep": "share of its own units that it hands in",
    "copy": "share of its own units that it copies",
    "copy_sigma": "size of the noise on copies of its own units",
    "steal": "share of others' units that it copies",
    "steal_sigma": "size of the noise on copies of others' units",
    "victims": "how many others it copies from",
    "pick": "which units it takes",
    "names": "how many further names it uses",
    "sybils": "so many further names",
    "tries": "how many changes it tries for each unit",
    "guess": "what it guesses that lots are drawn under",
    "how": "the way in which units are made",
    "strength": "how strongly units are changed",
    "ratio": "made units for each of its own",
    "identities": "under so many names",
    "p": "share of the labels that are wrong",
    "share": "share of the validation rows that got out",
    "instead": "in place of its own units",
    "budget": "how far a unit may be moved",
    "knows": "what the cheat knows beforehand (leak: some validation rows; units: what others will hand in)",
    "attack": "which attack",
    "steps": "how many steps of tuning",
    "besides": "besides its own units, not in their place",
    "points": "how many units it places",
    "worthless": "the placed units bear a label that earns nothing",
    "rest": "share of its other units that it hands in all the same",
    "k": "into so many names",
    "cosine": "how alike copies stay to their originals",
}
"""The parameters of attacks; the one behind an @ is the first of its attack."""
