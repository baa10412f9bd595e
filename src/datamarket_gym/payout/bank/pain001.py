"""ISO 20022 pain.001.001.09, the message by which a customer orders credit transfers, and its check before it is used.

The schema is the Registration Authority's and lies beside this module. Every text in a message went through `latin`, or
is an id, a number or a code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.sax.saxutils import XMLGenerator
from xml.sax.xmlreader import AttributesImpl

from datamarket_gym.errors import DataMarketError, require_extra
from datamarket_gym.payout.bank.accounts import LONGEST_SEPA_NAME, BankAccount
from datamarket_gym.payout.bank.order import BankTransfer, PaymentOrder

MESSAGE = "pain.001.001.09"
NAMESPACE = f"urn:iso:std:iso:20022:tech:xsd:{MESSAGE}"
Node = tuple[str, "str | Iterable[Node]"] | tuple[str, str, dict[str, str]]
"""An element: its name, its text or its children, and attributes."""


def write_message(order: PaymentOrder, path: Path) -> None:
    """Write the message; see `require_valid`."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        out = XMLGenerator(file, "UTF-8")
        out.startDocument()
        out.startElement("Document", AttributesImpl({"xmlns": NAMESPACE}))
        _write(out, ("CstmrCdtTrfInitn", _initiation(order)), 1)
        out.characters("\n")
        out.endElement("Document")
        out.characters("\n")
        out.endDocument()


@cache
def schema() -> Any:
    """The schema, ready to check messages by; an error where what reads it is not installed."""
    require_extra("lxml", "payout")
    from lxml import etree

    said = (files("datamarket_gym.payout.bank") / f"{MESSAGE}.xsd").read_bytes()
    return etree.XMLSchema(etree.fromstring(said))


def require_valid(path: Path, order: PaymentOrder) -> None:
    """Read a message back: it must fit its schema, and its amounts must add up to the order."""
    from lxml import etree

    fits, tree = schema(), etree.parse(path, etree.XMLParser(resolve_entities=False, huge_tree=True))
    if not fits.validate(tree):
        wrong = fits.error_log[0]
        raise DataMarketError(f"the message does not fit its schema at {wrong.path}: {wrong.message}")
    amounts = [Decimal(found.text or "") for found in tree.iter(f"{{{NAMESPACE}}}InstdAmt")]
    due = Decimal(order.total).scaleb(-order.currency.digits)
    if len(amounts) != len(order.transfers) or sum(amounts) != due:
        raise DataMarketError(f"the message orders {sum(amounts)} where {due} is due")


def _initiation(order: PaymentOrder) -> Iterator[Node]:
    transfers = order.transfers
    yield (
        "GrpHdr",
        [
            ("MsgId", order.id),
            ("CreDtTm", datetime.fromisoformat(order.at).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")),
            *_totals(order, transfers),
            ("InitgPty", [("Nm", order.debtor.spelled(LONGEST_SEPA_NAME))]),
        ],
    )
    for number, (sepa, some) in enumerate(order.blocks(), 1):
        yield "PmtInf", _block(order, f"{order.id}-{number}", sepa, some)


def _block(order: PaymentOrder, name: str, sepa: bool, transfers: list[BankTransfer]) -> Iterator[Node]:
    yield "PmtInfId", name
    yield "PmtMtd", "TRF"
    yield "BtchBookg", "true"
    yield from _totals(order, transfers)
    if sepa:
        yield "PmtTpInf", [("SvcLvl", [("Cd", "SEPA")])]
    yield "ReqdExctnDt", [("Dt", order.on.isoformat())]
    yield "Dbtr", _party(order.debtor, order.debtor.spelled(LONGEST_SEPA_NAME))
    yield "DbtrAcct", [_account(order.debtor)]
    yield "DbtrAgt", [_bank(order.debtor)]
    if sepa:
        yield "ChrgBr", "SLEV"
    for transfer in transfers:
        yield "CdtTrfTxInf", _transfer(order, transfer)


def _transfer(order: PaymentOrder, transfer: BankTransfer) -> Iterator[Node]:
    yield "PmtId", [("EndToEndId", transfer.reference)]
    yield "Amt", [("InstdAmt", order.currency.text(transfer.amount), {"Ccy": order.currency.code})]
    if transfer.to.bic or transfer.to.clearing:
        yield "CdtrAgt", [_bank(transfer.to)]
    yield "Cdtr", _party(transfer.to, transfer.name)
    yield "CdtrAcct", [_account(transfer.to)]
    yield "RmtInf", [("Ustrd", transfer.text)]


def _totals(order: PaymentOrder, transfers: list[BankTransfer]) -> list[Node]:
    total = sum(transfer.amount for transfer in transfers)
    return [("NbOfTxs", str(len(transfers))), ("CtrlSum", order.currency.text(total))]


def _party(account: BankAccount, name: str) -> Iterator[Node]:
    yield "Nm", name
    if account.country:
        yield "PstlAdr", [("TwnNm", account.spelled_town()), ("Ctry", account.country)]


def _account(account: BankAccount) -> Node:
    number: Node = ("IBAN", account.iban) if account.iban else ("Othr", [("Id", account.account)])
    return "Id", [number]


def _bank(account: BankAccount) -> Node:
    known: list[Node] = []
    if account.bic:
        known.append(("BICFI", account.bic))
    if account.clearing:
        system, _, number = account.clearing.partition(" ")
        kind: Node = ("ClrSysId", [("Cd", system)])
        known.append(("ClrSysMmbId", [kind, ("MmbId", number)]))
    return "FinInstnId", known or [
        ("Othr", [("Id", "NOTPROVIDED")])
    ]  # as SEPA has it where the IBAN suffices


def _write(out: XMLGenerator, node: Node, depth: int) -> None:
    name, content = node[0], node[1]
    out.characters("\n" + " " * depth)
    out.startElement(name, AttributesImpl(node[2] if len(node) == 3 else {}))
    if isinstance(content, str):
        out.characters(content)
    else:
        for child in content:
            _write(out, child, depth + 1)
        out.characters("\n" + " " * depth)
    out.endElement(name)
