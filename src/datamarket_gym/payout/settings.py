"""What each setting of a payday is called on the command line, and what it means, in one place.

The command line's help, and every other page on which a payday can be set up, say these words. Settings of the spec
(`payout.spec`) go by their names there; the others are what a run is given besides.
"""

HELP = {
    "validation": (
        "Table of validation rows, with labels where the units have them, or a folder label/image (without "
        "labels a folder of images)."
    ),
    "out": "Folder of the run; a killed run in it is resumed.",
    "reference": (
        "Other honest units, laid out as the validation rows, on which that cost is measured in their stead: "
        "for fewer than 500 validation rows. Nobody is paid for them, nothing is scored on them."
    ),
    "overrides": "TOML file of signed-off splits and joins.",
    "prior": (
        "Folder of an earlier run that is approved; repeat it for each. What it has bought is there already: "
        "units that evidence ties to it earn nothing, and new ones are paid for what they add."
    ),
    "reuse": (
        "Folder of a run of most of these units, such as the one before late units came in: pairs of units "
        "that it compared are not compared again. The results are the same."
    ),
    "book": (
        "The market's book, in which every run is entered: a file, or postgresql://user@host/name. If left "
        "out: book.sqlite beside the folder --out. Its balances in this currency are taken up."
    ),
    "intake": (
        "Book with your intake log: times are when it received each unit, and nothing that the table says; "
        "units that are not in it are refused. See: intake --help."
    ),
    "amount": "Amount to divide, such as 10000.00.",
    "currency": "Its currency; EUR if left out.",
    "period": 'What the payday is for, such as "June 2026"; stands on pages.',
    "learner": (
        "What is paid for: coverage of the validation rows (if left out; coverage@0.9: only what is much more "
        "alike than strangers counts; coverage(similarity=standardised): for tables), which needs no labels; "
        "or the accuracy over chance of knn, ridge, logistic, ...; scores of another tool (--scores); a "
        "function of your own (--load); see: list learner. --learner is the same option."
    ),
    "files.scores": (
        "What another tool says each unit is worth on each validation row, for --utility scores: a table "
        "unit, row, score, or a matrix (.npy, .npz), units by validation rows. See docs/scores.md."
    ),
    "checks": (
        "How many units of each payee are to be checked before the run can be approved: 3 if left out, 0 for "
        "none. See: check --help."
    ),
    "power": "How often a check finds a unit that is not genuine; 0.8 if left out.",
    "negative": (
        "Scores below zero, which accuracy has and coverage has not: carry (to the next run; if left out) or "
        "zero (count as nothing)."
    ),
    "theta": "Similarity threshold: auto (if left out), none, or a number, which may cost the honest at most 1 %.",
    "leak_check": (
        "Units that are validation rows, or nearly: drop (they earn nothing; if left out), error, or off "
        "(they are paid)."
    ),
    "audit": "Attack a sample of the market for the report.",
    "encoder": "Encoder of texts or images; see: list encoder.",
    "quarantine": (
        "Set bad rows of the submissions aside, list them in quarantine.csv and go on, instead of stopping. "
        "Validation rows are never set aside."
    ),
    "strict": "Stop, instead of warning, where times are missing, equal, too early or in the future.",
    "opens": "When the market began (2026-05-01, or with a time): earlier units are told.",
    "closes": "When it closed, likewise: later units are told. If left out: those later than now.",
    "beacon": (
        "Text under which units of equal time draw lots for who was first: announce beforehand what it will "
        "be, such as tomorrow's public random number. If left out: a digest of the validation rows."
    ),
    "columns.id": "Column with unit ids.",
    "columns.identity": "Column with identities.",
    "columns.label": (
        "Column with labels, in all tables; if left out the column label, and no labels where there is none."
    ),
    "columns.features": "List column, stem of numbered columns, or columns a,b,c; in all tables.",
    "columns.embedding": "The same for what similarity compares; the features if left out.",
    "columns.time": (
        "Column with when you received each unit, by your clock and not the submitter's: the earliest of "
        "several copies is paid for all."
    ),
    "columns.trusted_source": (
        "Column naming the unit each unit derives from. It counts where that unit came earlier; blank, "
        "unknown, its own id or a later one: the clock decides as without."
    ),
    "columns.metadata": (
        "Column that you fill in, such as a watermark id, a licence or a device: a unit that agrees in it with an "
        "earlier unit descends from the first such one. Blank: it says nothing."
    ),
    "columns.text": "Column with texts, embedded by --encoder.",
    "columns.image": "Column with image files, embedded by --encoder.",
    "files.images": "Folder of those image files.",
    "files.features": "Features of the table as .npy or .npz#name, row by row.",
    "files.embedding": "Embeddings of the table, likewise.",
    "files.validation_features": "Features of the validation rows, likewise.",
    "files.reference_features": "Features of the reference rows, likewise.",
    "linkage.keys": (
        "Column(s) whose shared values are listed as claims of who is who: payout, device+licence, "
        "device+time:3600; repeatable. A claim alone ties nobody: see --confirm and --edges."
    ),
    "linkage.fuzzy": "Column that splink compares, for claims likewise (needs the extra linkage); repeatable.",
    "linkage.confirm": (
        "Column in which identities name those that are the same payee (several: a; b). Two that name each "
        "other are paid as one."
    ),
    "linkage.edges": "Your own table id_l, id_r, probability of who is one payee; it stands alone.",
    "linkage.between": "What that table ties: identities or units.",
}

FLAGS = {
    "validation": "--validation",
    "out": "--out",
    "reference": "--reference",
    "overrides": "--overrides",
    "prior": "--prior",
    "reuse": "--reuse",
    "book": "--book",
    "intake": "--intake",
    "amount": "--amount",
    "currency": "--currency",
    "period": "--period",
    "learner": "--utility",
    "files.scores": "--scores",
    "checks": "--checks",
    "power": "--power",
    "negative": "--negative",
    "theta": "--theta",
    "leak_check": "--leak-check",
    "audit": "--audit",
    "encoder": "--encoder",
    "quarantine": "--quarantine",
    "strict": "--strict",
    "opens": "--opens",
    "closes": "--closes",
    "beacon": "--beacon",
    "columns.id": "--id",
    "columns.identity": "--identity",
    "columns.label": "--label",
    "columns.features": "--features",
    "columns.embedding": "--embedding",
    "columns.time": "--time",
    "columns.trusted_source": "--trusted-source",
    "columns.metadata": "--metadata",
    "columns.text": "--text",
    "columns.image": "--image",
    "files.images": "--images",
    "files.features": "--features-file",
    "files.embedding": "--embedding-file",
    "files.validation_features": "--validation-features-file",
    "files.reference_features": "--reference-features-file",
    "linkage.keys": "--link",
    "linkage.fuzzy": "--link-fuzzy",
    "linkage.confirm": "--confirm",
    "linkage.edges": "--edges",
    "linkage.between": "--edges-between",
}
"""The option that says it."""

OFF = {"strict": "--not-strict", "quarantine": "--no-quarantine", "audit": "--no-audit"}
"""How those that are true or false are turned off."""
