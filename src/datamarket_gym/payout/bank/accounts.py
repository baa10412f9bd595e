"""Bank accounts: IBAN and BIC (by schwifty), names in the letters that every bank takes, and accounts.csv.

SEPA asks every bank to support a to z, A to Z, 0 to 9, / - ? : ( ) . , ' + and space. What else a name holds is spelled
with them (EPC217-08): accents go, Greek and Cyrillic are transliterated, signs become the nearest of these or a full
stop (``spellings.txt``); ä, ö and ü of German-speaking countries are ae, oe and ue. Letters of other scripts are
refused: people know how their name is written at their bank.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from datamarket_gym.data.readers.tables import Table
from datamarket_gym.display import listed
from datamarket_gym.errors import SubmissionError, require_extra
from datamarket_gym.payout.names import (
    cannot_be_seen,
    csv_safe,
    find_look_alikes,
    from_csv,
    spelled,
    visible,
)

_SEPA = (
    "AD AL AT BE BG CH CY CZ DE DK EE ES FI FR GB GI GR HR HU IE IS IT LI LT LU LV MC MD ME MK MT NL NO PL PT RO "
    "RS SE SI SK SM VA"
)
SEPA = frozenset(_SEPA.split())
"""Countries of IBANs that SEPA reaches (European Payments Council, EPC409-09); schwifty lacks those of 2025 on."""
_GERMAN = ("DE", "AT", "CH", "LI", "LU")
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ẞ": "SS"})


def plain(number: str) -> str:
    """Return a number as banks keep it: without the spaces that people write, in capitals."""
    return "".join(number.split()).upper()


def iban_fault(iban: str) -> str:
    require_extra("schwifty", "payout")
    from schwifty import IBAN
    from schwifty.exceptions import (
        InvalidChecksumDigits,
        InvalidCountryCode,
        InvalidLength,
        SchwiftyException,
    )

    try:
        IBAN(iban)
    except InvalidCountryCode:
        return f"no country {iban[:2]} has IBANs; give the columns account and bic instead"
    except InvalidLength:
        length = IBAN(iban, allow_invalid=True).spec.iban_length
        return f"an IBAN of {iban[:2]} has {length} characters, not {len(iban)}"
    except InvalidChecksumDigits:
        return "its check digits do not fit: a character is wrong, or two are swapped"
    except SchwiftyException:
        return "an IBAN is two letters, two digits, then letters and digits as its country orders them"
    return ""


def bic_fault(bic: str) -> str:
    require_extra("schwifty", "payout")
    from schwifty import BIC
    from schwifty.exceptions import InvalidCountryCode, SchwiftyException

    try:
        BIC(bic)
    except InvalidCountryCode:
        return (
            "" if bic[4:6] == "XK" else f"no country is called {bic[4:6]}"
        )  # Kosovo is not in ISO 3166
    except SchwiftyException:
        return "a BIC has 8 or 11 characters, such as DEUTDEFF or DEUTDEFF500"
    return ""


_TAKEN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-?:().,'+ ")
_UNKNOWN = "\0"  # stands for a letter that has no spelling
_GAP = re.compile(r"\s+")
_SLASHES = re.compile(r"//+")


def latin(text: str, german: bool = False) -> tuple[str, str]:
    """Return a text in the letters banks take, and those of its letters that have no such spelling.

    Slashes that open or end it, or follow each other, go: banks take them for marks of their own. ``german`` umlauts
    are written with an e.
    """
    text = unicodedata.normalize("NFC", text)
    if german:
        umlauts = text.translate(_UMLAUTS)
        text = umlauts.upper() if text.isupper() else umlauts
    spelled = "".join(map(_spelled, text)).replace(_UNKNOWN, ".")
    unknown = dict.fromkeys(c for c in text if _UNKNOWN in _spelled(c))
    return _SLASHES.sub("/", _GAP.sub(" ", spelled)).strip("/ "), "".join(unknown)


def cut(text: str, most: int) -> str:
    return text[:most].rstrip("/ ")


@cache
def _table() -> dict[str, str]:
    text = (files("datamarket_gym.payout.bank") / "spellings.txt").read_text(encoding="utf-8")
    rows = (line.split() for line in text.splitlines() if not line.startswith("# "))
    return {c: spelling for spelling, *characters in rows for c in characters}


@cache
def _spelled(c: str) -> str:
    if c in _TAKEN:
        return c
    if c.isspace():
        return " "
    if unicodedata.category(c) in ("Cf", "Mn", "Me", "Mc") or cannot_be_seen(c):
        return ""
    if (number := unicodedata.decimal(c, None)) is not None:
        return str(number)
    if (small := _table().get(c.lower())) is not None:
        return small if c == c.lower() else small.capitalize()
    parts = unicodedata.normalize("NFKD", c)
    if parts != c:
        return "".join(_spelled(part) for part in parts)
    return _UNKNOWN if unicodedata.category(c)[0] == "L" else "."


LONGEST_NAME = 140
LONGEST_SEPA_NAME = 70
_LONGEST_TOWN = 35
_NUMBER = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 .-]{0,32}[A-Za-z0-9])?")
_CLEARING = re.compile(r"[A-Z]{5} [A-Za-z0-9-]{1,28}")
_COUNTRY = re.compile(r"[A-Z]{2}")


@dataclass(frozen=True)
class BankAccount:
    """Where a payee is paid, or where the money comes from; nothing is empty text."""

    payee: str
    name: str
    iban: str = ""
    account: str = ""  # where there is no IBAN
    bic: str = ""
    clearing: str = ""  # the bank's number in its country's clearing, such as "USABA 021000021"
    country: str = ""
    town: str = ""

    @property
    def number(self) -> str:
        return self.iban or self.account

    @property
    def sepa(self) -> bool:
        return self.iban[:2] in SEPA

    def spelled(self, most: int) -> str:
        german = (self.iban[:2] or self.country or self.bic[4:6]) in _GERMAN
        return cut(latin(self.name, german)[0], most)

    def spelled_town(self) -> str:
        return cut(latin(self.town, self.country in _GERMAN)[0], _LONGEST_TOWN)

    def faults(self, letters: bool = True) -> Iterator[str]:
        """Yield what a bank would refuse, and the remedy; without ``letters``, texts may hold any."""
        if letters:
            yield from _faults_of_text("name", self.name)
        if bool(self.iban) == bool(self.account):
            yield "give iban, or account where there is no IBAN" + (", not both" if self.iban else "")
        if self.iban and (wrong := iban_fault(self.iban)):
            yield f"iban {visible(self.iban)}: {wrong}"
        if self.account and not _NUMBER.fullmatch(self.account):
            yield f"account {visible(self.account)}: give at most 34 letters, digits, spaces, points and hyphens"
        if self.account and not (self.bic or self.clearing):
            yield "an account without IBAN needs the bank's bic, or its clearing number"
        if self.bic and (wrong := bic_fault(self.bic)):
            yield f"bic {visible(self.bic)}: {wrong}"
        if self.clearing and not _CLEARING.fullmatch(self.clearing):
            yield f"clearing {visible(self.clearing)}: give the system's code and the number, such as USABA 021000021"
        if bool(self.country) != bool(self.town):
            yield "an address is country and town together; give both, or neither"
        if self.country and not _COUNTRY.fullmatch(self.country):
            yield f"country {visible(self.country)}: give the two letters of ISO 3166, such as DE"
        if self.town and letters:
            yield from _faults_of_text("town", self.town)


def _faults_of_text(role: str, text: str) -> Iterator[str]:
    hidden = next((c for c in text if unicodedata.category(c) in ("Cc", "Cs")), None)
    if hidden is not None:
        yield f"{role} holds the control character U+{ord(hidden):04X}; remove it"
        return
    spelled, unknown = latin(text)
    if unknown:
        yield (
            f"{role} {visible(text)!r} holds letters that not every bank takes ({visible(unknown)}); write it in Latin "
            "letters, as the bank knows it"
        )
    elif not any(c.isalnum() for c in cut(spelled, _LONGEST_TOWN)):
        yield f"{role} {visible(text)!r} holds no letter or digit; write it as the bank knows it"


_NEEDED = ("payee", "name")
_OPTIONAL = ("iban", "account", "bic", "clearing", "country", "town")
_PLAIN = ("iban", "bic", "country")  # written without spaces, in capitals
_NAMED = 10  # in an error or a warning


def read_accounts(path: Path) -> dict[str, BankAccount]:
    """Read the accounts of a table, by payee, each once; what their cells hold is not checked yet.

    Cells that were escaped against formulas, as payments.csv has them, are read as they were before.
    """
    table = Table.open(path)
    optional = [name for name in _OPTIONAL if name in table.names]
    if not {"iban", "account"} & set(optional):
        table.require("account number", "iban")
    single, _ = table.read([table.require(role, role) for role in _NEEDED] + optional)
    columns = {name: single[name].optional() for name in (*_NEEDED, *optional)}
    accounts: dict[str, BankAccount] = {}
    rows: dict[str, int] = {}
    for row, cells in enumerate(zip(*columns.values(), strict=True)):
        cell = {name: _read(value, name) for name, value in zip(columns, cells, strict=True)}
        if not any(cell.values()):
            continue
        payee = cell["payee"]
        if not payee:
            raise SubmissionError(f"{table.where}: row {row} names no payee; fill it in or drop the row")
        if payee in accounts:
            raise SubmissionError(
                f"{table.where}: payee {visible(payee)!r} is there twice, in rows {rows[payee]} and {row}; keep the "
                "row with the right account"
            )
        accounts[payee], rows[payee] = BankAccount(**cell), row
    return accounts


def _read(cell: str | None, column: str) -> str:
    if cell is None:
        return ""
    text = from_csv(cell)
    if csv_safe(text) != cell:  # not what an escape looks like: 't Hooft
        text = cell
    if column == "payee":
        return text  # spaces may be part of a payee's name
    return plain(text) if column in _PLAIN else text.strip()


def require_payable(
    lines: Iterable[str],
    accounts: Mapping[str, BankAccount],
    where: Path,
    remedy: str,
    letters: bool = True,
) -> None:
    """Refuse a batch if a payee in it has no account, or one that banks refuse; ``remedy`` is the way out."""
    lines = list(lines)
    missing = [payee for payee in lines if payee not in accounts]
    if missing:
        like: dict[str, str] = {}
        for group in find_look_alikes(sorted({*missing, *accounts})):
            if known := [name for name in group if name in accounts]:
                like |= dict.fromkeys(group, known[0])
        names = (
            f"{spelled(payee)}, which looks like {spelled(like[payee])}"
            if payee in like
            else repr(visible(payee))
            for payee in missing
        )
        raise SubmissionError(
            f"{len(missing):,} of {len(lines):,} payees to be paid have no row in {str(where)!r}: {_listed(names)}. "
            f"Add their rows, or {remedy}"
        )
    faults = [
        f"payee {visible(payee)!r}: {fault}"
        for payee in lines
        for fault in accounts[payee].faults(letters)
    ]
    if faults:
        raise SubmissionError(
            f"{str(where)!r} holds accounts that a bank would refuse: {_listed(faults)}. Correct them, or {remedy}"
        )


def account_warnings(
    lines: Iterable[str], accounts: Mapping[str, BankAccount], joined: Iterable[Collection[str]] = ()
) -> Iterator[str]:
    """Yield what people should look at; ``joined`` names are one payee to the ledger, and may share an account."""
    paid = set(lines)
    owners: dict[str, list[str]] = {}
    for payee, account in accounts.items():
        if account.number:
            owners.setdefault(plain(account.number), []).append(payee)
    known = [set(group) for group in joined]
    shared = [
        group for group in owners.values()
        if len(group) > 1 and paid & set(group) and not any(paid & set(group) <= names for names in known)
    ]  # fmt: skip
    if shared:
        names = (listed((repr(visible(name)) for name in group), _NAMED) for group in shared)
        yield (
            f"several payees are paid to one account, which may be one person under several names: {_listed(names)}. "
            "If they are, join them with --overrides in the next run"
        )
    similar = [group for group in find_look_alikes(sorted(accounts)) if paid & set(group)]
    if similar:
        names = (" and ".join(map(spelled, group[:_NAMED])) for group in similar)
        yield f"payees whose names look alike; see that each has the account of its own: {_listed(names)}"


def _listed(items: Iterable[str]) -> str:
    return listed(items, _NAMED, "; ")
