"""Names look alike by Unicode's own table, all of it; and quickly."""

import importlib.util
import time
import unicodedata
from importlib.resources import files
from pathlib import Path

import pytest

from datamarket_gym.payout.names import (
    cannot_be_seen,
    find_look_alikes,
    prototypes,
    says_nothing,
    skeleton,
    spelled,
    visible,
)

ROOT = Path(__file__).parents[2]
TEXT = (files("datamarket_gym.payout") / "unicode" / "confusables.txt").read_text(encoding="ascii")
SEEN = {point: looks for point, looks in prototypes().items() if looks}
MIMICS = [
    ("alice", "\u0430lice"), ("paypal", "\u0440\u0430\u0443\u0440\u0430l"), ("AIice", "Alice"), ("b0b", "bob"),
    ("Carl", "\u0421arl"), ("modern", "modem"), ("ALICE", "alice"), ("a1ice", "alice"),
    ("scope", "\u0455\u0441\u043e\u0440\u0435"), ("hello", "h\u0435ll\u03bf"), ("Omega", "\u039fmega"),
    ("anna", "\u0251nna"), ("oleg", "\u1d0fleg"), ("IBM", "\u0406\u0412\u041c"), ("ios", "\u0269os"),
    ("sun", "\u017fun"), ("fun", "\u017fun"), ("fix", "\ufb01x"), ("a b", "a\u00a0b"), ("a-b", "a\u2010b"),
    ("\u05d5", "\u05c0"), ("alice", "al\u3164ice"), ("alice", "alic\ufe0fe"), ("alice", "al\u00adice"),
    ("m.e", "m\u2024e"), ("B\u0150hm", "B\u00d6hm"), ("T\u1e43", "T\uab51"), ("d\u0227g", "d\u00e5g"),
    ("VIII", "\u2167"), ("\u00e9va", "e\u0301va"), ("x\u0301", "\u0445\u0301"), ("O'Neil", "O\u2019Neil"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "mimic"), MIMICS)
def test_names_that_look_alike_are_one_group(name, mimic):
    assert find_look_alikes(["somebody else", name, mimic]) == [[name, mimic]]


def test_every_character_of_the_table_is_found_out():
    assert (
        sum(len(line.partition("=")[2].split()) for line in TEXT.splitlines() if line[:1] not in "#=")
        == 6355
    )
    assert len(SEEN) == 6354  # one of them cannot be seen either
    blank = {c for c, looks in SEEN.items() if not looks.strip()}
    assert len(blank) == 17  # spaces, which names are compared without at their ends
    missed = [
        hex(point)
        for point, looks in SEEN.items()
        if point not in blank and find_look_alikes([f"an{chr(point)}a", f"an{looks}a"]) == []
    ]
    assert missed == []


@pytest.mark.parametrize(
    "text",
    ["", "alice", "\u0430lice", "\u0440\u0430\u0443p\u0430l", "e\u0301", "\u200b", "0O1lI|m\ufb03"],
)
def test_a_skeleton_is_its_own(text):
    assert skeleton(skeleton(text)) == skeleton(text)


def test_prototypes_lead_no_further_than_once_more():
    again = {looks for looks in SEEN.values() if skeleton(looks) != unicodedata.normalize("NFD", looks)}
    assert len(again) == 17  # such as I with a breve, whose I looks like an l
    assert all(skeleton(skeleton(looks)) == skeleton(looks) for looks in again)


@pytest.mark.parametrize(
    "names",
    [
        ["anna m", "annam", "anna n", "ánna m"],
        [f"seller {i}" for i in range(2000)],
        ["王", "玉", "Łukasz", "Lukasz", "Öz", "Oz"],
        [
            "\u0410\u043d\u043d\u0430",
            "\u0412\u0435\u0440\u0430",
            "\u03a3\u03bf\u03c6\u03af\u03b1",
            "Sophia",
        ],  # Anna, Vera, Sophia
    ],
)
def test_names_that_differ_are_no_group_whatever_their_script(names):
    assert find_look_alikes(names) == []


def test_groups_join_over_names_between_them():
    assert find_look_alikes(["ALICE", "x", "alice", "a1ice", "\u0430lice"]) == [
        ["ALICE", "alice", "a1ice", "\u0430lice"]
    ]


def test_a_hundred_thousand_names_are_compared_in_seconds():
    names = [f"продавец №{i} <{i * 7919 % 1000003}@example.org>" for i in range(100_000)]
    names[77] = "seller"
    names[99_999] = "s\u0435ller"
    began = time.process_time()
    assert find_look_alikes(names) == [["seller", "s\u0435ller"]]
    assert time.process_time() - began < 20


def test_what_is_beyond_ascii_is_spelled():
    assert spelled("alice") == "“alice”"
    assert spelled("\u0430lice") == "“\u0430lice” (cyrillic small letter a, U+0430)"
    assert spelled("абвгд").endswith("U+0432; 2 more)")
    assert spelled("a\u202eb") == "“a⟨U+202E⟩b” (right-to-left override, U+202E)"


@pytest.mark.parametrize("hidden", ["\u3164", "\ufe0f", "\u115f", "\U000e0061", "\u180b", "\udc80"])
def test_what_leaves_no_mark_is_written_out(hidden):
    assert visible(f"a{hidden}") == f"a⟨U+{ord(hidden):04X}⟩"
    assert not cannot_be_seen("a")


@pytest.mark.parametrize(
    "name", ["nan", "NaN", "None", " null ", "N/A", "<NA>", "-", "?", "...", "\u3164", "\u2800",
             "\uff4e\uff41\uff4e", "\u200b\u200b."]
)  # fmt: skip
def test_a_name_that_says_nothing(name):
    assert says_nothing(name)


@pytest.mark.parametrize("name", ["nancy", "anna", "0", "7", "王", "😀", "nan nan", "A-", "№"])
def test_a_name_that_says_something(name):
    assert not says_nothing(name)


def test_the_table_carries_its_version_and_licence_and_the_tool_makes_it():
    assert "Unicode 16.0.0" in TEXT
    assert "Unicode-3.0" in TEXT
    licence = (files("datamarket_gym.payout") / "unicode" / "LICENSE").read_text(encoding="utf-8")
    assert licence.startswith("UNICODE LICENSE V3")
    where = importlib.util.spec_from_file_location("make_confusables", ROOT / "tools" / "confusables.py")
    tool = importlib.util.module_from_spec(where)
    where.loader.exec_module(tool)
    lines = [line.partition("=") for line in TEXT.splitlines() if not line.startswith("#")]
    unseen, *rest = lines
    source = "# Date: 2024-08-14, 23:39:57 GMT\n# Version: 16.0.0\n" + "".join(
        f"{c} ;\t{target.strip()} ;\tMA\t# x\n"
        for target, _, chars in reversed(rest)
        for c in chars.split()
    )
    properties = "# DerivedCoreProperties-16.0.0.txt\n" + "".join(
        f"{points}    ; Default_Ignorable_Code_Point # x\n" for points in unseen[2].split()
    )
    assert tool.table(source, properties) == TEXT
    with pytest.raises(SystemExit, match="different versions"):
        tool.table(source, properties.replace("16.0.0", "15.0.0"))
