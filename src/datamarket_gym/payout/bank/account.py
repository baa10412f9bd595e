"""A bank account: whose it is, its number, and what banks ask for beside it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from datamarket_gym.payout.bank.latin import cut, latin, says_a_name
from datamarket_gym.payout.bank.numbers import in_sepa, wrong_with_bic, wrong_with_iban
from datamarket_gym.payout.names import visible

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
        """The IBAN, or else the account number."""
        return self.iban or self.account

    @property
    def sepa(self) -> bool:
        """Whether SEPA reaches it."""
        return in_sepa(self.iban)

    def spelled(self, most: int) -> str:
        """The name in the letters banks take, within a length."""
        return cut(latin(self.name)[0], most)

    def spelled_town(self) -> str:
        """The town in the letters banks take, within the length a message gives it."""
        return cut(latin(self.town)[0], _LONGEST_TOWN)

    def faults(self, letters: bool = True) -> Iterator[str]:
        """What a bank would refuse, and what to do about it; without ``letters``, texts may hold any."""
        if letters:
            yield from _faults_of_text("name", self.name)
        if bool(self.iban) == bool(self.account):
            yield "give iban, or account where there is no IBAN" + (", not both" if self.iban else "")
        if self.iban and (wrong := wrong_with_iban(self.iban)):
            yield f"iban {visible(self.iban)}: {wrong}"
        if self.account and not _NUMBER.fullmatch(self.account):
            yield f"account {visible(self.account)}: give at most 34 letters, digits, spaces, points and hyphens"
        if self.account and not (self.bic or self.clearing):
            yield "an account without IBAN needs the bank's bic, or its clearing number"
        if self.bic and (wrong := wrong_with_bic(self.bic)):
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
    elif not says_a_name(cut(spelled, _LONGEST_TOWN)):
        yield f"{role} {visible(text)!r} holds no letter or digit; write it as the bank knows it"
