"""Account numbers: IBAN (ISO 13616) by country, length and check digits; BIC (ISO 9362) by its form.

An IBAN holds if its country and length are those of SWIFT's registry (release 101) and, with its first four characters
moved to the end and letters read as 10 to 35, it leaves 1 when divided by 97 (ISO 7064).
"""

from __future__ import annotations

import re

_BY_LENGTH = {
    15: "NO", 16: "BE", 18: "DK FI FK FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK", 21: "CH HR LI LV",
    22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL", 24: "AD CZ ES MD PK RO SA SE SK TN VG",
    25: "LY PT ST", 26: "IS TR", 27: "BI DJ FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
    29: "BR EG PS QA UA", 30: "JO KW MU YE", 31: "MT SC", 32: "LC", 33: "RU",
}  # fmt: skip
LENGTHS = {country: length for length, countries in _BY_LENGTH.items() for country in countries.split()}
_SEPA = (
    "AD AL AT BE BG CH CY CZ DE DK EE ES FI FR GB GI GR HR HU IE IS IT LI LT LU LV MC MD ME MK MT NL NO PL PT RO "
    "RS SE SI SK SM VA"
)
SEPA = frozenset(_SEPA.split())
"""Countries of IBANs that SEPA reaches (European Payments Council, EPC409-09)."""
_IBAN = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]+")
_BIC = re.compile(r"[A-Z0-9]{4}[A-Z]{2}[A-Z0-9]{2}([A-Z0-9]{3})?")
CHECK = 97


def plain(number: str) -> str:
    """A number as banks keep it: without the spaces that people write, in capitals."""
    return "".join(number.split()).upper()


def wrong_with_iban(iban: str) -> str:
    """What is wrong with an IBAN; nothing if it holds."""
    if not _IBAN.fullmatch(iban):
        return "an IBAN is two letters, two digits, then letters and digits"
    length = LENGTHS.get(iban[:2])
    if length is None:
        return f"no country {iban[:2]} has IBANs; give the columns account and bic instead"
    if len(iban) != length:
        return f"an IBAN of {iban[:2]} has {length} characters, not {len(iban)}"
    if not 2 <= int(iban[2:4]) <= CHECK + 1 or _remainder(iban) != 1:
        return "its check digits do not fit: a character is wrong, or two are swapped"
    return ""


def wrong_with_bic(bic: str) -> str:
    """What is wrong with a BIC; nothing if it has the form of one."""
    return "" if _BIC.fullmatch(bic) else "a BIC has 8 or 11 characters, such as DEUTDEFF or DEUTDEFF500"


def in_sepa(iban: str) -> bool:
    """Whether SEPA reaches an account; no IBAN, no SEPA."""
    return iban[:2] in SEPA


def _remainder(iban: str) -> int:
    return int("".join(str(int(c, 36)) for c in iban[4:] + iban[:4])) % CHECK
