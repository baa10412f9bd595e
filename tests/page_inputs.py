"""What pages of the documentation take for granted: tables, accounts, a month that was paid."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from repository import ROOT, tool_named

type_in = tool_named("check_docs").type_command
PAYEES = ("alice", "bob", "carla", "seller-7")
ACCOUNTS = """\
payee,name,iban,account,bic,clearing,country,town
alice,Alice Adams,DE02 1203 0000 0000 2020 51,,,,DE,Berlin
bob,Bob Brun,FR14 2004 1010 0505 0001 3M02 606,,,,FR,Paris
carla,Carla Conti,DE89 3704 0044 0532 0130 00,,,,DE,Bonn
seller-7,Sven Sand,DE02 1203 0000 0000 2020 51,,,,DE,Kiel
"""


def table(name, month=6, each=12, seed=0, payees=PAYEES):
    """A month's units: four payees, three classes."""
    rng = np.random.default_rng(seed)
    centre = rng.normal(size=(3, 6)) * 3
    n = each * len(payees)
    label = np.tile(np.arange(3), n)[:n]
    features = centre[label] + rng.normal(size=(n, 6))
    columns = {
        "id": [f"u{i}" if month == 6 else f"m{month}-{i}" for i in range(n)],
        "identity": np.repeat(payees, each).tolist(),
        "features": features.tolist(),
        "label": [("a", "b", "c")[k] for k in label],
        "time": [f"2026-{month:02}-{1 + i % 28:02}T10:{i:02}:00+00:00" for i in range(n)],
    }
    pq.write_table(pa.table(columns), name)


def rows(*names, count=60):
    """Validation rows of the same classes."""
    rng = np.random.default_rng(0)
    centre = rng.normal(size=(3, 6)) * 3
    label = np.tile(np.arange(3), count)[:count]
    features = centre[label] + np.random.default_rng(9).normal(size=(count, 6))
    for name in names:
        kinds = [("a", "b", "c")[k] for k in label]
        if name.endswith(".npz"):
            np.savez(name, features=features, label=kinds)
        else:
            pq.write_table(pa.table({"features": features.tolist(), "label": kinds}), name)


def inputs():
    """What an operator has: tables of units and of validation rows, and accounts."""
    for name in ("june.parquet", "submissions.parquet", "submission.parquet", "units.parquet"):
        table(name)
    table("batch.parquet", month=5, each=3, seed=5, payees=("alice",))
    rows("validation.parquet", "needs.parquet")
    rows("validation.npz", count=240)
    with open("accounts.csv", "w", encoding="utf-8") as file:
        file.write(ACCOUNTS)


def paid(checks=0):
    """Write the inputs and pay June: a draft."""
    inputs()
    type_in(
        "datamarket pay june.parquet --validation validation.parquet --amount 10000.00 "
        f'--period "June 2026" --out june/ --checks {checks}'
    )


def approved():
    """Write the inputs, pay June and approve it."""
    paid()
    type_in('datamarket ledger approve june/ --by "R. Okafor"')


def numbers():
    """Tables whose labels are numbers."""
    rng = np.random.default_rng(0)
    for name, count in (("patients.csv", 48), ("held.csv", 40)):
        features = rng.normal(size=(count, 3))
        value = features @ [1.0, -2.0, 0.5]
        lines = ["id,identity,time,label,features_0,features_1,features_2"]
        lines += [
            f"p{i},{PAYEES[i % 4]},2026-06-01T10:{i:02}:00+00:00,{value[i]:.4f},"
            + ",".join(f"{x:.4f}" for x in features[i])
            for i in range(count)
        ]
        Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def examples():
    """The folder of examples, as in a checkout."""
    Path("examples").symlink_to(ROOT / "examples", target_is_directory=True)
