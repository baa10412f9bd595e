"""IBANs, BICs, and names in the letters banks take."""

import pytest
from bank_files import DEBTOR, iban
from hypothesis import given
from hypothesis import strategies as st

from datamarket_gym.payout.bank.accounts import (
    SEPA,
    BankAccount,
    bic_fault,
    cut,
    iban_fault,
    latin,
    plain,
)

# Examples of SWIFT's registry.
GOOD = [
    "AD1200012030200359100100", "BE68539007547034", "CH9300762011623852957", "DE89370400440532013000",
    "FR1420041010050500013M02606", "GB29NWBK60161331926819", "GR1601101250000000012300695",
    "IS140159260076545510730339", "MT84MALT011000012345MTLCAST001S", "NL91ABNA0417164300", "NO9386011117947",
    "SC18SSCB11010000000000001497USD",
    "BR1800360305000010009795493C1", "SA0380000000608010167519", "UA213223130000026007233566001",
]  # fmt: skip
LATIN = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-?:().,'+ ")


@pytest.mark.parametrize("number", GOOD)
def test_ibans_of_the_registry_hold(number):
    assert iban_fault(number) == ""
    assert iban_fault(plain(f" {number[:4].lower()} {number[4:]}\u00a0")) == ""


@given(st.sampled_from(GOOD), st.data())
def test_a_changed_character_is_found(number, data):
    """A digit for a digit, a letter for a letter; ISO 7064 promises no more."""
    place = data.draw(st.integers(0, len(number) - 1))
    kind = "0123456789" if number[place].isdigit() else "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    other = data.draw(st.sampled_from(kind.replace(number[place], "")))
    assert iban_fault(number[:place] + other + number[place + 1 :])


@given(st.sampled_from(GOOD), st.data())
def test_two_swapped_digits_are_found(number, data):
    places = [i for i in range(4, len(number) - 1) if number[i : i + 2].isdigit()]
    i = data.draw(st.sampled_from(places))
    swapped = number[:i] + number[i + 1] + number[i] + number[i + 2 :]
    assert (iban_fault(swapped) == "") == (swapped == number)


def test_what_is_wrong_is_said():
    assert "22 characters, not 21" in iban_fault("DE8937040044053201300")
    assert "no country US" in iban_fault("US64SVBKUS6S3300958879")
    assert "two letters" in iban_fault("")
    assert "check digits" in iban_fault(DEBTOR[:-1] + "1")


def test_check_digits_that_no_bank_gives_are_refused():
    # 00, 01 and 99 leave the same remainder as 97, 98 and 02.
    twin = next(n for n in (iban(i) for i in range(10_000)) if n[2:4] in ("97", "98"))
    assert iban_fault(twin) == ""
    assert iban_fault(f"{twin[:2]}{int(twin[2:4]) - 97:02d}{twin[4:]}")


def test_sepa_reaches_countries_with_ibans():
    assert len(SEPA) == 42
    assert {"DE", "GB", "CH", "RS"} <= SEPA
    assert not {"US", "TR", "UA", "FO"} & SEPA


@pytest.mark.parametrize("bic", ["DEUTDEFF", "DEUTDEFF500", "DNBANOKKXXX", "1234DE0A"])
def test_bics_hold(bic):
    assert bic_fault(bic) == ""


@pytest.mark.parametrize("bic", ["", "DEUTDEF", "DEUTDEFF5", "DEUT1EFF", "DEUTDEFF5000"])
def test_other_bics_do_not(bic):
    assert "8 or 11" in bic_fault(bic)


def test_a_bic_names_a_country():
    assert "no country is called XX" in bic_fault("DEUTXXFF")
    assert bic_fault("NLPRXKPR") == ""  # Kosovo


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("Müller & Söhne GmbH", "Muller + Sohne GmbH"),
        ("Łukasz Żółć", "Lukasz Zolc"),
        ("Straße", "Strasse"),
        ("Ελένη", "Eleni"),
        ("Юлия Щърба", "Yuliya Shtarba"),
        ("O\u2019Neil\u2013Smith", "O'Neil-Smith"),
        ("Nguyễn Thị Ơ", "Nguyen Thi O"),
        ("ann\u202emary\u200b", "annmary"),
        ("  a \u00a0 b\t", "a b"),
        ("//A//B/ /", "A/B"),
        ("J\u00f6rg", "Jorg"),
        ("Jo\u0308rg", "Jorg"),
        ("<b>Ann</b>", "(b)Ann(/b)"),
        ("Ann 🙂", "Ann ."),
        ("٣", "3"),
    ],
)
def test_names_are_spelled(name, spelled):
    assert latin(name) == (spelled, "")


@pytest.mark.parametrize(
    ("country", "name", "spelled"),
    [
        ("DE", "Jörg Müller", "Joerg Mueller"),
        ("DE", "JO\u0308RG GRÜẞ", "JOERG GRUESS"),
        ("DE", "Ägidius Straßer", "Aegidius Strasser"),
        ("DE", "Zoë Łę", "Zoe Le"),
        ("FR", "Björk Müller", "Bjork Muller"),
    ],
)
def test_umlauts_are_spelled_as_the_bank_of_the_country_does(country, name, spelled):
    assert BankAccount("x", name, iban(name, country)).spelled(70) == spelled
    assert BankAccount("x", name, account="1", bic=f"ABCD{country}FF").spelled(70) == spelled


def test_letters_of_other_scripts_are_handed_back():
    assert latin("李雷 Li")[1] == "李雷"
    assert latin("محمد")[1] == "محد"
    assert latin("דוד")[1] == "דו"


@given(st.text())
def test_nothing_but_the_letters_comes_out(name):
    spelled, _ = latin(name)
    assert set(spelled) <= LATIN
    assert "//" not in spelled
    assert not spelled.startswith(("/", " "))
    assert not spelled.endswith(("/", " "))
    assert latin(spelled) == (spelled, "")


@given(st.text(alphabet=sorted(LATIN)), st.integers(1, 50))
def test_a_cut_stays_within(text, most):
    short = cut(latin(text)[0], most)
    assert len(short) <= most
    assert not short.endswith(("/", " "))
