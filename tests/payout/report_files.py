"""Runs whose reports are hard to show: names that look like markup or have no end, and a thousand payees."""

from payout_files import run, units, validation
from test_hostile import NAMES, SCRIPT

from datamarket_gym.payout.report.pages import BEGINS, ENDS

LONG = ["W" * 64, "seller-without-any-space-" * 4, BEGINS, ENDS, "&lt;!-- state --&gt;"]


def hostile_run(folder):
    """Names and ids of all evil kinds, with attacks tried and a threshold measured."""
    columns = units(n=90, identities=10)
    swap = {f"seller {i}": name for i, name in enumerate(NAMES, 1)}
    columns["identity"] = [swap.get(name, name) for name in columns["identity"]]
    for i, name in enumerate(LONG):
        columns["identity"][i * 10] = name
    columns["id"] = [f"0x{i:060x}" for i in range(len(columns["id"]))]
    columns["id"][0], columns["id"][-1] = SCRIPT, "https://example.org/" + "a" * 300
    return run(
        folder, columns, validation(150), audit=True, theta="auto", checks=3, period="<b>June</b> 2026"
    )


def thousand_run(folder):
    """1,000 payees, one of whom earns most."""
    columns = units(n=1400, identities=1000, copies=0, seed=3)
    columns["identity"] = [
        f"contributor-{i:04d}" if i < 1000 else "contributor-0000" for i in range(1400)
    ]
    return run(folder, columns, validation(60), amount="250000.00")
