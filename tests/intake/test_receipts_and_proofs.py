"""A receipt or a proof of what is not there cannot be made to check: every field, every hash, every place."""

import copy
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from intake_files import SECRET, digest, digests, story

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.payout.book.anchor import add_anchor, read_anchors
from datamarket_gym.payout.book.entry import link
from datamarket_gym.payout.book.seal import Head
from datamarket_gym.payout.book.store import open_book
from datamarket_gym.payout.intake.checked import anchored_by, in_book
from datamarket_gym.payout.intake.log import committed, received, revealed
from datamarket_gym.payout.intake.merkle import path
from datamarket_gym.payout.intake.proofs import Proof, prove, read_proof
from datamarket_gym.payout.intake.receipts import IntakeReceipt, ReceiptError
from datamarket_gym.payout.intake.sealing import sealed_root


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A book, a file with an anchor of its end, and the folder of both."""
    folder = tmp_path_factory.mktemp("log")
    book = story(folder / "book.sqlite")
    add_anchor(folder / "anchors.txt", book.accounts())
    return book, folder / "anchors.txt"


def read(said):
    return Proof.from_plain(said) if "proof" in said else IntakeReceipt.from_plain(said)


def holds(said, book, anchors=None):
    """Whether all that is shown holds in the book, and before the anchors where there are any."""
    try:
        shown = read(json.loads(json.dumps(said)))
        good = all(check.good for check in in_book(shown, book))
        return good and (anchors is None or anchored_by(shown, anchors).good)
    except DataMarketError:
        return False


def proofs(book, anchors):
    """Of a plain batch and of one that was sealed, with the entries up to the anchor."""
    upto = read_anchors(anchors)
    return [prove(book, "alice", digest(2), upto), prove(book, "bob", digest(6), upto)]


def test_what_is_there_checks(log, tmp_path):
    book, anchors = log
    for entry in book.accounts().arrived.entries:
        assert holds(IntakeReceipt.of(book, entry).plain(), book)
    for proof in proofs(book, anchors):
        assert holds(proof.plain(), book, anchors)
        (tmp_path / "proof.json").write_text(json.dumps(proof.plain()))
        assert read_proof(tmp_path / "proof.json") == proof
    plain, sealed = proofs(book, anchors)
    assert (plain.receipt.entry.number, len(plain.after), plain.secret) == (2, 4, None)
    assert (sealed.receipt.entry.number, len(sealed.after), sealed.secret) == (3, 3, SECRET)


def test_a_proof_shows_no_other_unit(log):
    """Neither the digest of another unit nor its salted one stands in it; a path holds hashes of these at most."""
    for proof, others in zip(proofs(*log), ((0, 1, 3, 4), (5, 7)), strict=True):
        text = json.dumps(proof.plain())
        assert proof.digest.hex() in text
        assert not any(digest(other).hex() in text for other in others)


def places(said, at=()):
    """Every place of a JSON document that holds a value, and every list and object."""
    yield at
    if isinstance(said, dict):
        for key, value in said.items():
            yield from places(value, (*at, key))
    elif isinstance(said, list):
        for key, value in enumerate(said):
            yield from places(value, (*at, key))


def put(said, at, value):
    changed = copy.deepcopy(said)
    here = changed
    for key in at[:-1]:
        here = here[key]
    here[at[-1]] = value(here[at[-1]])
    return changed


def others(value):
    """Other values that may stand there: of every kind, and near the one that does."""
    found = [None, True, False, 0, -1, 1, 2, 10**30, "", "x", [], {}, [value], {"x": value}, str(value)]
    if isinstance(value, int):
        found += [value + 1, value - 1, float(value), -value, 2**63 + value]
    if isinstance(value, str):
        found += [
            value + " ",
            value[1:],
            value.upper(),
            value[::-1],
            value.replace("a", "b"),
            value + "\0",
            value + "\ud800",
        ]
        found += [value[:i] + chr(ord(value[i]) ^ 1) + value[i + 1 :] for i in range(len(value))]
    if isinstance(value, list):
        found += [value[1:], value[::-1], value + value[:1], value[:-1], [*value, "0" * 64]]
    if isinstance(value, dict):
        found += [{k: v for k, v in value.items() if k != name} for name in value]
        found += [{**value, "more": 1}]
    return [each for each in found if json.dumps(each) != json.dumps(value)]


def test_no_field_of_a_receipt_can_be_changed(log):
    book, _ = log
    for entry in book.accounts().arrived.entries:
        said = IntakeReceipt.of(book, entry).plain()
        for at in places(said):
            for other in others(said[at[0]] if at else said):
                changed = put(said, at, lambda _, other=other: other) if at else other
                assert not (isinstance(changed, dict) and holds(changed, book)), (at, other)


def test_no_field_of_a_proof_can_be_changed(log):
    """Nor a hash of its path, nor a letter of an entry that follows."""
    book, anchors = log
    for proof in proofs(book, anchors):
        said = proof.plain()
        for at in places(said):
            value = said
            for key in at:
                value = value[key]
            for other in others(value):
                changed = put(said, at, lambda _, other=other: other) if at else other
                if not isinstance(changed, dict) or "proof" not in changed:
                    continue  # a receipt, perhaps, and no proof of a unit any more
                # What follows may be cut off at its end: less is shown then, and before the anchor it does not hold.
                assert not holds(changed, book, anchors), (at, other)


def test_changed_fields_of_a_proof_are_found_without_book_and_anchor(log):
    """But for the name of the book, and for what follows the entry, which are nothing without either."""
    book, anchors = log
    for proof in proofs(book, anchors):
        said = proof.plain()
        for at in places(said):
            if not at or at[0] == "after" or at == ("receipt", "book"):
                continue
            value = said
            for key in at:
                value = value[key]
            for other in others(value):
                with pytest.raises(ReceiptError):
                    Proof.from_plain(put(said, at, lambda _, other=other: other))


def chained_anew(said, **changes):
    """A receipt that says otherwise and agrees with itself: anybody can write one."""
    body = json.loads(said["body"])
    body.update({k: v for k, v in changes.items() if k in body})
    body["content"].update({k: v for k, v in changes.items() if k in body["content"]})
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    shown = {"entry": body["number"], "at": body["at"], "identity": body["payee"]}
    content = {k: body["content"][k] for k in ("units", "what", "root") if k in body["content"]}
    return {**said, **shown, **content, "body": text, "hash": link(said["previous"], text)}


def test_a_receipt_that_somebody_made_up_checks_with_no_book_and_no_anchor(log):
    book, anchors = log
    said = IntakeReceipt.of(book, book.accounts().arrived.entries[0]).plain()
    forged = chained_anew(said, at="2020-01-01T00:00:00.000+00:00", payee="mallory")
    shown = read(forged)  # it agrees with itself
    assert shown.entry.payee == "mallory"
    assert not holds(forged, book)
    assert not anchored_by(shown, anchors).good
    numbered = chained_anew(said, number=book.accounts().number)
    assert anchored_by(read(numbered), anchors).detail == "entry 6 is not as it was anchored"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_unit_that_is_not_there_has_no_proof(log, data):
    """Whatever digest, place, path and number of units somebody writes down."""
    book, anchors = log
    real = proofs(book, anchors)[data.draw(st.integers(0, 1))].plain()
    fake = copy.deepcopy(real)
    stranger = data.draw(st.binary(min_size=32, max_size=32)).hex()
    fake["digest"] = data.draw(
        st.sampled_from([stranger, *fake["path"], fake["receipt"]["root"], digest(4).hex()])
    )
    fake["place"] = data.draw(st.integers(0, 6))
    pool = [
        *fake["path"],
        stranger,
        fake["receipt"]["root"],
        *(d.hex() for d in digests(0, 1, 2, 3, 4, 5, 6, 7)),
    ]
    fake["path"] = data.draw(st.lists(st.sampled_from(pool), max_size=4))
    if fake["digest"] != real["digest"]:
        assert not holds(fake, book, anchors)
    units = data.draw(st.integers(1, 9))
    fake["receipt"] = chained_anew(real["receipt"], units=units)
    if units != real["receipt"]["units"]:
        assert not holds(fake, book, anchors)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_batches_of_every_shape_are_proven_at_every_place(tmp_path, n):
    book = open_book(tmp_path / "book.sqlite", new=True)
    received(book, "alice", digests(*range(n)), "text")
    committed(book, "bob", sealed_root(digests(*range(n)), SECRET, "bob"), n)
    revealed(book, "bob", digests(*range(n)), "text", SECRET)
    for who, number in (("alice", 2), ("bob", 3)):
        for place in range(n):
            proof = prove(book, who, digest(place))
            assert (proof.place, proof.receipt.entry.number) == (place, number)
            assert holds(proof.plain(), book)
        with pytest.raises(ReceiptError, match="no such unit"):
            prove(book, who, digest(n))


def test_a_seal_cannot_be_shown_as_anothers(log):
    """Even by somebody with the content, the secret and the path."""
    said = proofs(*log)[1].plain()
    said["receipt"] = chained_anew(said["receipt"], payee="mallory")
    with pytest.raises(ReceiptError, match="not in the batch"):
        read(said)
    said = proofs(*log)[1].plain()
    said["secret"] = None
    with pytest.raises(ReceiptError, match="a secret goes with a sealed batch"):
        read(said)
    said["path"] = [step.hex() for step in path(digests(5, 6, 7), 1)]
    with pytest.raises(ReceiptError, match="a secret goes with a sealed batch"):
        read(said)


def test_anchors_that_do_not_reach_the_entry_are_refused_and_told(log, tmp_path):
    book, _ = log
    with pytest.raises(ReceiptError, match=r"no anchor is of entry 3 or of a later one"):
        prove(book, "bob", digest(6), [Head(2, "0" * 64)])
    other = open_book(tmp_path / "other.sqlite", new=True)
    add_anchor(tmp_path / "other.txt", other.accounts())
    said = anchored_by(proofs(*log)[0], tmp_path / "other.txt")
    assert not said.good
    assert "none is of entries 2 to 6" in said.detail


def test_a_proof_shows_no_payments_of_others(tmp_path):
    book = story(tmp_path / "book.sqlite")
    with book.page() as page:
        page.add("rule", content={"approvals": 2})
    with pytest.raises(ReceiptError, match=r"entry 7, rule.*a book of its own"):
        prove(book, "alice", digest(0), [Head(7, book.accounts().head)])


def test_a_receipt_of_another_book_or_of_one_written_anew_is_told(log, tmp_path):
    book, _ = log
    receipt = IntakeReceipt.of(book, book.accounts().arrived.entries[0])
    other = story(tmp_path / "other.sqlite")
    assert "is another one" in in_book(receipt, other)[0].detail
    anew = IntakeReceipt(other.accounts().id, receipt.entry)
    assert "written anew, or cut short" in in_book(anew, other)[0].detail


def test_a_receipt_is_never_written_over_another(log, tmp_path):
    book, _ = log
    first, second = (IntakeReceipt.of(book, entry) for entry in book.accounts().arrived.entries[:2])
    first.write(tmp_path / "r.json")
    first.write(tmp_path / "r.json")
    with pytest.raises(ReceiptError, match=r"entry 3 of the log; .* holds something else"):
        second.write(tmp_path / "r.json")
    assert read_proof(tmp_path / "r.json") == first
    (tmp_path / "file").write_text("")
    with pytest.raises(ReceiptError, match="entry 3 of the log; its receipt cannot be written"):
        second.write(tmp_path / "file" / "r.json")
    for text in ("", "[]", "1", "{}", '{"proof": 1}', '{"receipt": 1}', '{"receipt": 2}'):
        (tmp_path / "odd.json").write_text(text)
        with pytest.raises(ReceiptError, match=r"odd\.json"):
            read_proof(tmp_path / "odd.json")


def test_an_entry_that_is_no_batch_makes_no_receipt(log):
    """The book holds other entries, to the letter; none of them says that anything arrived."""
    book, _ = log
    first = book.read()[0]
    with pytest.raises(ReceiptError, match="no entry of a batch"):
        IntakeReceipt.from_plain(IntakeReceipt(book.accounts().id, first).plain())
