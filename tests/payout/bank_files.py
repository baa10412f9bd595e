"""Account numbers and accounts.csv for the tests of exports."""

from __future__ import annotations

import csv
import hashlib
from xml.etree import ElementTree

from datamarket_gym.payout.bank import export

NS = "{urn:iso:std:iso:20022:tech:xsd:pain.001.001.09}"
DEBTOR = "DE89370400440532013000"
MARKET = {"name": "Market GmbH", "account": DEBTOR}


def export_payments(ledger, accounts, payer, out, run=None, **asked):
    request = export.ExportRequest(out=out, accounts=accounts, **(payer or {}), **asked)
    return export.export_payments(ledger, request, run)


def iban(owner, country="DE"):
    """A German IBAN that holds, of anybody's name."""
    number = f"{int(hashlib.sha256(repr(owner).encode()).hexdigest(), 16) % 10**18:018d}"
    letters = "".join(str(int(c, 36)) for c in country)
    return f"{country}{98 - int(number + letters + '00') % 97:02d}{number}"


def write_accounts(path, rows, columns=("payee", "name", "iban")):
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(columns)
        out.writerows(rows)
    return path


def read_message(path):
    """What a file orders, read by a parser of its own: header, and one dict per transfer."""
    root = ElementTree.parse(path).getroot()
    header = {e.tag.removeprefix(NS): e.text for e in root.find(f"{NS}CstmrCdtTrfInitn/{NS}GrpHdr")}
    transfers = []
    for block in root.iter(f"{NS}PmtInf"):
        for found in block.iter(f"{NS}CdtTrfTxInf"):
            number = found.find(f"{NS}CdtrAcct/{NS}Id")[0]
            transfers.append(
                {
                    "name": found.findtext(f"{NS}Cdtr/{NS}Nm"),
                    "account": number.text if number.tag == f"{NS}IBAN" else number.findtext(f"{NS}Id"),
                    "amount": found.findtext(f"{NS}Amt/{NS}InstdAmt"),
                    "currency": found.find(f"{NS}Amt/{NS}InstdAmt").get("Ccy"),
                    "reference": found.findtext(f"{NS}PmtId/{NS}EndToEndId"),
                    "text": found.findtext(f"{NS}RmtInf/{NS}Ustrd"),
                    "sepa": block.findtext(f"{NS}PmtTpInf/{NS}SvcLvl/{NS}Cd") == "SEPA",
                    "charges": block.findtext(f"{NS}ChrgBr"),
                    "on": block.findtext(f"{NS}ReqdExctnDt/{NS}Dt"),
                }
            )
    return header, transfers


def approve(ledger, run, payments, currency="EUR", period="June 2026", joined=(), kept=0):
    """Enter a run that pays these amounts, in minor units, and approve it."""
    lines = [[payee, amount, amount, 0] for payee, amount in payments.items()]
    content = {
        "manifest": "m", "places": {}, "checks": 0, "period": period, "lines": lines, "opening": {},
        "submissions": run, "kept": kept, "overrides": [], "standing": [], "warnings": [], "joined": list(joined),
    }  # fmt: skip
    amount = sum(payments.values())
    with ledger.transaction() as transaction:
        transaction.add("draft", run=run, currency=currency, amount=amount, content=content)
        transaction.add("approval", run=run, content={"manifest": "m"}, by="R. Okafor")
        transaction.add("approved", run=run, currency=currency, amount=amount, content={"manifest": "m"})
        for payee, amount in payments.items():
            transaction.add("payment", run=run, payee=payee, currency=currency, amount=amount)
        if kept:
            transaction.add("forfeited", run=run, currency=currency, amount=kept)
