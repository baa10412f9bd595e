"""A small market of two months for the pages of runs, with names that try to be more than names."""

from pathlib import Path

from datamarket_gym.payout.run import pay
from payout.payout_files import approve, spec, units, write

MARKUP = "<img src=x onerror=alert(1)>"
TURNED = "Bob\u200b \u202ereLLüM"


def month(folder, name, columns, **changes):
    """Pay one month; its inputs lie in the market, too."""
    names = {"seller 0": MARKUP, "seller 1": TURNED}
    columns = columns | {"identity": [names.get(each, each) for each in columns["identity"]]}
    pay(write(folder / "in" / name, columns), spec(**changes), folder / name)
    return folder / name


def market(folder):
    """May is approved; June has one seller more, and asks for checks."""
    may = month(folder, "may", units(), period="May 2026")
    approve(may)
    more = units(n=80, identities=5, seed=3, copies=12)
    june = month(folder, "june", more, period="June 2026", amount="1500.00", checks=3)
    return may, june


def payments_csv(folder: Path):
    """Rows of payments.csv by identity, as text."""
    import csv

    from datamarket_gym.payout.names import from_csv

    with (folder / "payments.csv").open(encoding="utf-8", newline="") as file:
        return {from_csv(row["identity"]): row for row in csv.DictReader(file)}
