"""Which folders are refused as previously acquired data; overrides of matches with acquired units."""

import json
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from acquired_files import again, fresh, july, june, stacked
from payout_files import approve, cents, units, validation

from datamarket_gym.errors import DataMarketError
from datamarket_gym.payout import acquired_data as acquired_runs
from datamarket_gym.payout.acquired_data import AcquiredDataError
from datamarket_gym.payout.ledger import disputes
from datamarket_gym.payout.ledger.disputes import Effects, open_dispute, resolve_dispute
from datamarket_gym.payout.ledger.runs import ledger_of, ledger_warnings, run_of
from datamarket_gym.payout.manifest import KNOWN, OWNED
from datamarket_gym.payout.verify import verify


@pytest.fixture(scope="module")
def market(tmp_path_factory):
    place = tmp_path_factory.mktemp("refused")
    june(place)
    return place


@pytest.fixture(scope="module")
def acquired(market):
    return market / "june" / "run"


def known(folder):
    return pq.read_table(folder / KNOWN).to_pylist()


def test_a_draft_has_acquired_nothing(market):
    draft = july(market, units(n=20, seed=4), [], "draft")
    with pytest.raises(AcquiredDataError, match="is a draft, so that nothing of it is acquired"):
        july(market, fresh(), [draft], "x")


def test_a_folder_that_is_none(market, acquired, tmp_path):
    with pytest.raises(AcquiredDataError, match="is no folder of a payout run"):
        july(market, fresh(), [tmp_path / "nowhere"], "x")
    with pytest.raises(DataMarketError, match="holds no finished payout run"):
        july(market, fresh(), [tmp_path], "x")
    assert not (market / "x" / "run").exists()


def test_the_same_run_twice(market, acquired):
    with pytest.raises(AcquiredDataError, match=r"are the same run, .*; name it once"):
        july(market, fresh(), [acquired, market / "june" / "." / "run"], "x")


@pytest.mark.parametrize(("ledgers", "order"), [(("one", "one"), "ab"), (("one", "other"), "ba")])
def test_runs_are_taken_in_the_order_of_their_ledger(monkeypatch, tmp_path, ledgers, order):
    """Of one ledger entries have numbers, whatever its clock did between them; of two there are only clocks."""
    entries = {"a": (ledgers[0], 5, "2026-06-02"), "b": (ledgers[1], 9, "2026-06-01")}
    monkeypatch.setattr(
        acquired_runs.AcquiredRun,
        "read",
        lambda folder, whole: acquired_runs.AcquiredRun(folder, folder.name, "", "", (), 0, "EUR"),
    )

    def approval(folder):
        ledger, number, at = entries[folder.name]
        return None, ledger, SimpleNamespace(number=number, at=at)

    monkeypatch.setattr(acquired_runs, "_approval", approval)
    for named in ("ab", "ba"):
        found = acquired_runs.accepted([tmp_path / name for name in named], tmp_path / "out")
        assert [folder.name for folder in found] == list(order)


def test_its_own_folder(market, acquired):
    made = july(market, fresh(), [acquired], "itself")
    approve(made)
    with pytest.raises(AcquiredDataError, match="is the folder of this run itself"):
        july(market, fresh(), [acquired, made], "itself")


@pytest.mark.parametrize("file", [OWNED, "manifest.json"])
def test_a_changed_file(tmp_path, file):
    june(tmp_path)
    path = tmp_path / "june" / "run" / file
    text = path.read_bytes()
    path.write_bytes(text.replace(b'"seed": 0', b'"seed": 1') if file != OWNED else text[:-9] + b"x" * 9)
    said = "not as the run left it" if file == OWNED else "is not the one that was approved"
    with pytest.raises(DataMarketError, match=said):
        july(tmp_path, fresh(), [tmp_path / "june" / "run"], "x")


def other(**changes):
    return {**fresh(), **changes}


@pytest.mark.parametrize(
    ("submitted", "held", "said"),
    [
        (
            other(features=np.ones((24, 5)) + np.eye(24, 5)),
            {"label": validation()["label"], "features": validation()["features"][:, :5]},
            "features of 6 numbers, those of this run features of 5 numbers; embed both by one encoder",
        ),
        (
            other(embedding=fresh()["features"]),
            {**validation(), "embedding": validation()["features"]},
            "have no embedding, those of this run embedding of 6 numbers",
        ),
        (
            other(label=[f"c{i}" for i in fresh()["label"]]),
            {**validation(), "label": [f"c{i}" for i in validation()["label"]]},
            "are numbers, those of this run text; write them in one way",
        ),
    ],
)
def test_units_that_cannot_be_compared(market, acquired, submitted, held, said):
    with pytest.raises(AcquiredDataError, match=said) as caught:
        july(market, submitted, [acquired], "x", held=held)
    assert "June 2026" in str(caught.value)


def test_other_columns(tmp_path):
    def spread(columns, names):
        matrix = columns.pop("features")
        return columns | {name: matrix[:, i] for i, name in enumerate(names)}

    old, new = [f"a{i}" for i in range(6)], ["a0", "b1", *(f"a{i}" for i in range(2, 6))]
    first = july(
        tmp_path, spread(units(), old), [], "june", held=spread(validation(), old), columns={"features": ",".join(old)}
    )  # fmt: skip
    approve(first)
    with pytest.raises(AcquiredDataError, match="have the column 'a1', those of this run 'b1'"):
        july(
            tmp_path, spread(fresh(), new), [first], "july", held=spread(validation(), new),
            columns={"features": ",".join(new)},
        )  # fmt: skip


def test_another_encoder(tmp_path):
    words = ["one two", "two three", "three four", "four five five", "six one", "six two two", "seven"]

    def texts(n, start, name):
        rng = np.random.default_rng(start)
        return {
            "id": [f"{name}{i}" for i in range(n)], "identity": [f"s{i % 2}" for i in range(n)],
            "label": np.arange(n) % 2, "time": start + np.arange(n, dtype=float),
            "text": [" ".join(rng.choice(words, 4)) + f" {name}{i}" for i in range(n)],
        }  # fmt: skip

    held = {name: column for name, column in texts(12, 50, "h").items() if name in ("label", "text")}
    asked = {"columns": {"text": "text"}}
    first = july(tmp_path, texts(16, 0, "a"), [], "june", held=held, encoder="ngrams@64", **asked)
    approve(first)
    with pytest.raises(
        AcquiredDataError, match=r"features made by .*64.*, those of this run features made by .*32"
    ):
        july(tmp_path, texts(16, 90, "b"), [first], "july", held=held, encoder="ngrams@32", **asked)


def test_runs_that_are_not_named_are_told_before_approval(tmp_path):
    first = june(tmp_path)
    may = july(tmp_path, units(n=24, seed=11), [], "may", period="May 2026")
    approve(may)
    made = july(tmp_path, fresh(), [first], "july")
    accounts = ledger_of(made).accounts()
    [warning] = [w for w in ledger_warnings(accounts, run_of(made)) if w.name == "unnamed_earlier_runs"]
    assert "May 2026" in warning.items[0]
    both = july(tmp_path, fresh(), [first, may], "both")
    assert not ledger_warnings(ledger_of(both).accounts(), run_of(both))
    none = july(tmp_path, fresh(), [], "none")
    assert not ledger_warnings(ledger_of(none).accounts(), run_of(none))


SIGNED = '\nreason = "looked at both"\nby = "R. Okafor"\ndate = 2026-07-31\n'


def signed(path, action, names):
    path.write_text(f"[[{action}]]\nunits = {json.dumps(names)}{SIGNED}")
    return path


@pytest.fixture(scope="module")
def submitted():
    return stacked(fresh(), again(units(), [0, 1], "seller 3"))


def test_a_tie_to_what_was_acquired_can_be_overruled(market, acquired, submitted, tmp_path):
    tied = {row["unit"]: row["matched_to"] for row in known(july(market, submitted, [acquired], "tied"))}
    assert set(tied) == {"again 0", "again 1"}
    path = signed(tmp_path / "o.toml", "split", ["again 0", tied["again 0"]])
    made = july(market, submitted, [acquired], "untied", overrides=path)
    assert [row["unit"] for row in known(made)] == ["again 1"]
    units_played = pq.read_table(made / "clusters.parquet")["unit"].to_pylist()
    assert "again 0" in units_played
    assert all(check.good for check in verify(made, recompute=True))
    path = signed(tmp_path / "o.toml", "split", ["again 0"])
    with pytest.raises(AcquiredDataError, match=r"name both: units = \['again 0', '[0-9a-f]{16}:u0'\]"):
        july(market, submitted, [acquired], "wrong 1", overrides=path)
    path = signed(tmp_path / "o.toml", "split", ["again 1", tied["again 1"], "again 0", "new 3"])
    with pytest.raises(AcquiredDataError, match="splits 'again 0', which was taken"):
        july(market, submitted, [acquired], "wrong 2", overrides=path)
    path = signed(tmp_path / "o.toml", "split", ["new 3", tied["again 1"]])
    with pytest.raises(
        AcquiredDataError, match="none of the units that it names was taken for that one"
    ):
        july(market, submitted, [acquired], "wrong 3", overrides=path)
    path = signed(tmp_path / "o.toml", "split", ["new 3", f"{'0' * 16}:u1"])
    with pytest.raises(DataMarketError, match="which is not among the units"):
        july(market, submitted, [acquired], "wrong 4", overrides=path)


def test_a_unit_can_be_said_to_be_an_earlier_one(market, acquired, tmp_path):
    short = run_of(acquired).run[:16]
    path = signed(tmp_path / "o.toml", "join", ["new 3", f"{short}:u5"])
    [row] = known(july(market, fresh(), [acquired], "joined", overrides=path))
    assert (row["unit"], row["old_unit"], row["old_owner"], row["reason"]) == (
        "new 3",
        "u5",
        "seller 1",
        "override",
    )


def test_a_decision_about_june_does_not_let_a_unit_be_sold_again(tmp_path):
    """A dispute unties u60 in June and in all later runs; sold again under the same name, it is still June's."""
    first = june(tmp_path)
    ledger = ledger_of(first)
    open_dispute(ledger, run_of(first).run, "attacker", "it is mine", units=["u60"], by="attacker")
    resolve_dispute(
        ledger, 1, "upheld", "it is", Effects(separate_units=("u60",)), units=["u60"], by="R. Okafor"
    )
    sold = {name: column[60:61] for name, column in units().items()}
    made = july(tmp_path, stacked(fresh(), sold), [first], "july")
    assert [override["dispute"] for override in run_of(made).standing] == [1]
    assert [row["unit"] for row in known(made)] == ["u60"]
    assert cents(made)["attacker"] == 0


def test_a_dispute_about_a_tie_to_june_is_resolved_by_naming_both(market, acquired, submitted):
    draft = july(market, submitted, [acquired], "disputed", period="July 2026")
    [row] = [row for row in known(draft) if row["unit"] == "again 0"]
    ledger = ledger_of(draft)
    named = ("again 0", row["matched_to"])
    dispute = open_dispute(
        ledger, run_of(draft).run, "seller 3", "another photograph", units=list(named), by="clerk"
    )
    resolve_dispute(
        ledger,
        dispute.number,
        "upheld",
        "it is",
        Effects(separate_units=named),
        units=named,
        by="R. Okafor",
    )
    assert {"again 0", row["matched_to"]} <= disputes._units_of(draft)  # by which commands look names up
    made = july(market, submitted, [acquired], "heeded", period="July 2026")
    assert [each["unit"] for each in known(made)] == ["again 1"]
    assert all(check.good for check in verify(made, recompute=True))
