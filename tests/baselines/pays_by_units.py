"""A program of the file protocol: every identity is paid its part of the units."""

import csv
import sys
from collections import Counter
from pathlib import Path

given, taken = map(Path, sys.argv[1:])
with (given / "units.csv").open(newline="", encoding="utf-8") as file:
    units = Counter(row["identity"] for row in csv.DictReader(file))
with (taken / "payments.csv").open("w", newline="", encoding="utf-8") as file:
    writer = csv.writer(file)
    writer.writerow(["identity", "amount"])
    writer.writerows((name, count / units.total()) for name, count in units.items())
(taken / "cost.json").write_text('{"evaluations": 0}', encoding="utf-8")
