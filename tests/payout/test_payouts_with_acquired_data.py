"""pay --acquired: what earlier runs have acquired is not paid again; what is new is paid as new, or discounted."""

import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from acquired_files import again, fresh, july, june, stacked
from payout_files import approve, cents, outputs, units, validation, warned, write
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.errors import DataMarketError, NothingNewError
from datamarket_gym.execution.runs import read_record
from datamarket_gym.mechanism import pipeline
from datamarket_gym.payout import run as payout_run
from datamarket_gym.payout.acquired_data import RunUnits
from datamarket_gym.payout.audit import read_red_team
from datamarket_gym.payout.explain import explain
from datamarket_gym.payout.ledger.runs import run_of
from datamarket_gym.payout.manifest import KNOWN, OUTPUTS, OWNED, read_manifest
from datamarket_gym.payout.verify import verify
from datamarket_gym.payout.warnings import read_warnings
from datamarket_gym.utilities.oracle import Utility, UtilityOracle


@pytest.fixture(scope="module")
def market(tmp_path_factory):
    """A market whose June is acquired."""
    place = tmp_path_factory.mktemp("market")
    june(place)
    return place


@pytest.fixture(scope="module")
def acquired(market):
    return market / "june" / "run"


@pytest.fixture(scope="module")
def alone(market, acquired):
    """July's new units, and nothing else."""
    return july(market, fresh(), [acquired], "alone", period="July 2026")


@pytest.fixture(scope="module")
def plain(market):
    """The same, without a word of June."""
    return july(market, fresh(), [], "plain")


@pytest.fixture(scope="module")
def discounted(market, acquired):
    """The same, paid for what they add."""
    return july(market, fresh(), [acquired], "discounted", acquired_discount=True)


@pytest.fixture(scope="module")
def stolen(market, acquired):
    """The same, with all of June under an attacker's name, dated before June."""
    copies = again(units(), list(range(60)), "attacker")
    return july(market, stacked(fresh(), copies), [acquired], "stolen", period="July 2026")


def known(folder):
    return pq.read_table(folder / KNOWN).to_pylist()


def test_what_is_new_is_paid_as_if_nothing_had_been_acquired(alone, plain, discounted):
    assert cents(alone) == cents(plain)
    assert cents(alone) != cents(discounted)
    assert read_manifest(alone)["given"] == {}
    assert "All others are paid as new" in (alone / "report.html").read_text(encoding="utf-8")


def test_with_the_discount_it_is_paid_for_what_it_adds(discounted, acquired):
    """The scores divide U(P + S) - U(P), P what stands for the trees of June."""
    kept = read_record(acquired / OWNED, RunUnits)
    held, new = validation(), fresh()
    utility = UtilityOracle(held["features"], held["label"], Utility.paying("coverage"))

    def worth(*parts):
        features, label = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        whole = utility.scorer(features, label, None, np.zeros(len(label), dtype=np.int64), 1)
        return whole.utility(np.ones((1, 1), dtype=bool))[0]

    old = kept.features[kept.stands], kept.labels[kept.label][kept.stands]
    added = worth(old, (new["features"], new["label"])) - worth(old)
    scores = pq.read_table(discounted / "payments.parquet")["score"].to_numpy()
    assert scores.sum() == pytest.approx(added, abs=1e-9)
    assert added > 0
    assert known(discounted) == []


def test_what_is_new_is_told_at_the_earlier_price(market, discounted, acquired):
    """June divided 1,000.00 for what it covers; what July adds is worth its part of that."""
    given, amount = read_manifest(discounted)["given"], read_manifest(acquired)["amount"]
    scores = pq.read_table(discounted / "payments.parquet")["score"].to_numpy()
    then = pq.read_table(acquired / "payments.parquet")["score"].to_numpy()
    assert given["there"] == pytest.approx(then.sum(), abs=1e-9)
    assert given["adds"] == pytest.approx(scores.sum(), abs=1e-9)
    assert given["at_earlier_price"] == round(amount * given["adds"] / given["there"])
    said = f"adds {given['adds'] / given['there']:.1%} to the worth of what was acquired"
    page = (discounted / "report.html").read_text(encoding="utf-8")
    assert said in page
    assert "pays for what its units add to what was acquired in June 2026" in page
    other = july(market, fresh(), [acquired], "in dollars", currency="USD", acquired_discount=True)
    assert read_manifest(other)["given"]["at_earlier_price"] is None
    assert "at the price of then" not in (other / "report.html").read_text(encoding="utf-8")


def test_validation_rows_that_were_acquired_are_told(market, acquired):
    held = validation()
    held["features"][:7] = units()["features"][:7]
    made = july(market, fresh(), [acquired], "acquired rows", held=held)
    [warned] = [each for each in read_warnings(made) if each.name == "acquired_validation_rows"]
    assert warned.count == 7
    assert "Whoever sold them knows them" in warned.words
    quiet = july(market, fresh(), [acquired], "unasked", held=held, leak_check="off")
    assert "acquired_validation_rows" not in {each.name for each in read_warnings(quiet)}


def test_a_resubmission_of_ones_own_earns_nothing_more(market, acquired, alone):
    name = "seller 3"  # who sells nothing new
    rows = [i for i, who in enumerate(units()["identity"]) if who == name][:6]
    both = stacked(fresh(), again(units(), rows, name, prefix="own"))
    made = july(market, both, [acquired], f"own {name}", period="July 2026")
    assert {who: paid for who, paid in cents(made).items() if paid} == cents(alone)
    assert {(row["old_owner"], row["old_unit"]) for row in known(made)} == {
        (name, f"u{i}") for i in rows
    }
    assert cents(july(market, both, [], "no acquired"))[name] > 0  # else it would be paid again
    assert "acquired_from_others" not in warned(made)


def test_an_attacker_of_an_earlier_period_earns_nothing(stolen, alone):
    assert cents(stolen) == {**cents(alone), "attacker": 0}
    assert len(known(stolen)) == 60
    assert {row["identity"] for row in known(stolen)} == {"attacker"}
    assert {row["old_owner"] for row in known(stolen)} == {f"seller {i}" for i in range(4)}
    assert {row["period"] for row in known(stolen)} == {"June 2026"}
    assert warned(stolen) == ["acquired_from_others"]


def test_a_copy_of_a_copy_belongs_to_whoever_was_first(market, acquired):
    """Units 60 to 62 of June are exact copies that June's attacker submitted: acquired from their originals."""
    made = july(market, stacked(fresh(), again(units(), [60, 61, 62], "second")), [acquired], "second")
    assert all(row["old_owner"].startswith("seller") for row in known(made))
    first = {row.tobytes(): f"u{i}" for i, row in reversed(list(enumerate(units()["features"])))}
    copied = [first[units()["features"][i].tobytes()] for i in (60, 61, 62)]
    assert [row["old_unit"] for row in known(made)] == copied


def wide_market(n=60, new=30, sellers=None):
    """Units of June, units of July, and validation rows, in so many dimensions that copies can be told."""
    rng, width = np.random.default_rng(5), 40

    def drawn(count, prefix, start, names):
        label = rng.integers(0, 3, count)
        return {
            "id": [f"{prefix}{i}" for i in range(count)],
            "identity": [names[i % len(names)] for i in range(count)],
            "label": label,
            "time": start + np.arange(count, dtype=float),
            "features": 1.5 * np.eye(3, width)[label] + rng.normal(0, 0.5, (count, width)),
        }

    old = drawn(n, "u", 0.0, sellers or ["anna", "bert", "carla"])
    new = drawn(new, "v", 9000.0, sellers or ["anna", "dora"])
    held = drawn(200, "", 0.0, [""])
    return old, new, {"label": held["label"], "features": held["features"]}


def test_near_copies_of_an_earlier_period_earn_nothing(tmp_path):
    old, new, held = wide_market()
    n = len(old["id"])
    first = july(tmp_path, old, [], "june", held=held, theta="auto")
    approve(first)
    honest = july(tmp_path, new, [first], "honest", held=held, theta="auto")
    copies = again(old, list(range(n)), "attacker", noise=0.02)
    robbed = july(tmp_path, stacked(new, copies), [first], "robbed", held=held, theta="auto")
    assert {row["reason"] for row in known(robbed)} == {"lineage"}
    assert len(known(robbed)) == n
    assert cents(robbed) == {**cents(honest), "attacker": 0}


def test_changed_copies_of_units_that_were_set_aside_are_known(tmp_path):
    """They equal validation rows in June; in July they are so changed that no leak check finds them."""
    old, new, held = wide_market()
    leaked = again(held, [0, 1], "attacker", 1e-6, prefix="leak")
    first = july(tmp_path, stacked(old, leaked), [], "june", held=held, theta="auto")
    approve(first)
    kept = read_record(first / OWNED, RunUnits)
    assert list(kept.unit)[-2:] == ["leak 0", "leak 1"]
    assert sorted(kept.stands.tolist()) == list(range(60))
    copies = again(leaked, [0, 1], "attacker", 0.34, prefix="copy")
    later = july(tmp_path, stacked(new, copies), [first], held=held, theta="auto")
    assert not pq.read_table(later / "leaks.parquet").num_rows
    ties = {row["unit"]: row["matched_to"].partition(":")[2] for row in known(later)}
    assert ties == {"copy 0": "leak 0", "copy 1": "leak 1"}
    assert cents(later)["attacker"] == 0


def test_runs_are_taken_in_the_order_of_their_approval(tmp_path):
    may = july(tmp_path, units(n=24, seed=11), [], "may", period="May 2026")
    approve(may)
    first = june(tmp_path)
    one = july(tmp_path, fresh(), [may, first], "one")
    other = july(tmp_path, fresh(), [first, may], "other")
    assert [each["period"] for each in json.loads((one / "manifest.json").read_text())["acquired"]] == [
        "May 2026",
        "June 2026",
    ]
    assert outputs(one) == outputs(other)
    assert run_of(one).acquired == [run_of(may).run, run_of(first).run]


def test_what_was_acquired_in_may_is_not_acquired_again_in_june(tmp_path):
    """May's units, submitted by an attacker in June, are no part of what June has acquired; July must name both."""
    old = units(n=24, seed=11, copies=0)
    may = july(tmp_path, old, [], "may", period="May 2026")
    approve(may)
    second = july(
        tmp_path, stacked(fresh(), again(old, [0, 1], "attacker")), [may], "june", period="June 2026"
    )
    approve(second)
    assert list(read_record(second / OWNED, RunUnits).unit) == fresh()["id"]
    with pytest.raises(DataMarketError, match=r"names run .*Add --acquired .*may"):
        july(tmp_path, fresh(seed=8), [second], "forgotten")
    loot = stacked(again(old, [0, 1], "fence"), again(fresh(), [5], "fence", prefix="recent"))
    made = july(tmp_path, stacked(fresh(seed=8), loot), [second, may], "july")
    assert [(row["old_unit"], row["old_owner"], row["period"]) for row in known(made)] == [
        ("u0", "seller 0", "May 2026"),
        ("u1", "seller 1", "May 2026"),
        ("new 5", "seller 1", "June 2026"),
    ]
    assert cents(made)["fence"] == 0


def test_by_accuracy_too(market, acquired):
    made = july(market, fresh(), [acquired], "knn", learner="knn", negative="zero")
    copies = again(units(), list(range(20)), "attacker")
    robbed = july(
        market, stacked(fresh(), copies), [acquired], "knn robbed", learner="knn", negative="zero"
    )
    assert cents(robbed) == {**cents(made), "attacker": 0}


def test_it_resumes_to_the_same_bytes(market, acquired, stolen, monkeypatch):
    copies = again(units(), list(range(60)), "attacker")
    submitted = stacked(fresh(), copies)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(payout_run, "write_acquired", killed)
        with pytest.raises(KeyboardInterrupt):
            july(market, submitted, [acquired], "resumed", period="July 2026")
    for name in ("match_units", "represent_clusters", "measure_threshold"):
        monkeypatch.setattr(payout_run, name, killed)  # no stage is done twice
    for name in ("find_acquired_units", "score_clusters", "allocate"):
        monkeypatch.setattr(pipeline, name, killed)
    made = july(market, submitted, [acquired], "resumed", period="July 2026")
    assert outputs(made) == outputs(stolen)


def test_nothing_new_is_an_error_that_says_so(market, acquired):
    with pytest.raises(NothingNewError, match="every unit matches one that was acquired before"):
        july(market, again(units(), list(range(10)), "attacker"), [acquired], "nothing")
    far = fresh()
    far["features"] = -far["features"]
    with pytest.raises(DataMarketError, match="adds nothing to what the earlier runs have acquired"):
        july(market, far, [acquired], "worthless", acquired_discount=True)


def test_explanations_say_what_each_was_acquired_as(stolen):
    told = explain(stolen, "attacker").acquired
    assert len(told) == 60
    assert told[0] == {
        "unit": "again 0", "run": told[0]["run"], "period": "June 2026", "old_unit": "u0", "old_owner": "seller 0",
        "reason": "exact_hash", "score": 1.0,
    }  # fmt: skip
    assert explain(stolen, "seller 0").acquired == []


def test_the_report_names_what_was_acquired_from_whom(stolen, alone):
    page = (stolen / "report.html").read_text(encoding="utf-8")
    section = page[page.index('id="acquired">') : page.index('id="red-team">')]
    assert "match what was acquired in June 2026 earn nothing" in section
    assert "<bdi>seller 2</bdi>" in section
    assert "60 units of this run match what was acquired" in section
    assert "No unit of this run matches" in (alone / "report.html").read_text(encoding="utf-8")


def test_attacks_are_played_given_what_was_acquired(market, acquired):
    made = july(market, fresh(), [acquired], "attacked", audit=True)
    report, why = read_red_team(made / "audit.json")
    assert why == ""
    assert "recognising 63 units" in report.utility
    assert any(finding.remedies for finding in report.findings)


def test_a_run_that_names_none_is_as_it_was(plain):
    made = plain
    manifest = json.loads((made / "manifest.json").read_text())
    assert not {"acquired", "known"} & manifest.keys()
    assert sorted(manifest["outputs"]) == sorted(OUTPUTS)
    assert not (made / KNOWN).exists()
    assert "acquired" not in (made / "report.html").read_text(encoding="utf-8").partition("<main>")[2]


def typed(*words):
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})


def told(done):
    return " ".join(done.output.split())


def test_two_periods_as_one_types_them(tmp_path):
    """Paid, approved, paid again given that; approved; moved; verified; explained; stated."""
    first = write(tmp_path / "in1")
    own, loot = again(units(), [0, 4], "seller 0"), again(units(), [1], "attacker", prefix="t")
    second = write(tmp_path / "in2", stacked(fresh(), own, loot))
    common = ("--amount", "1000.00", "--theta", "none", "--no-audit", "--checks", "0")
    done = typed(
        "pay", first.submissions, "--validation", first.validation, "--out", tmp_path / "june", "--period", "June",
        *common,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    asked = (
        "pay", second.submissions, "--validation", second.validation, "--out", tmp_path / "july", *common
    )  # fmt: skip
    early = typed(*asked, "--acquired", tmp_path / "june")
    assert "is a draft, so that nothing of it is acquired" in str(early.exception)
    assert typed("ledger", "approve", tmp_path / "june", "--accept", "loses_half").exit_code == 0
    done = typed(*asked, "--acquired", tmp_path / "june")
    assert done.exit_code == 0, done.output
    assert "Compared with what was acquired before (June): 3 units were acquired then" in told(done)
    discounted = [tmp_path / "discounted" if word == tmp_path / "july" else word for word in asked]
    done = typed(*discounted, "--acquired", tmp_path / "june", "--acquired-discount")
    assert "Priced given what was acquired before (June): 3 units were acquired then" in told(done)
    reminded = typed(*[tmp_path / "without" if word == tmp_path / "july" else word for word in asked])
    assert "Not compared with what the ledger has acquired before (June)" in told(reminded)
    assert typed("verify", tmp_path / "july", "--recompute").exit_code == 0
    (tmp_path / "june").rename(tmp_path / "archive")
    lost = typed("verify", tmp_path / "july", "--recompute")
    assert lost.exit_code == 1
    assert "if it was moved, say where it is now: --acquired FOLDER" in told(lost)
    wrong = typed("verify", tmp_path / "july", "--recompute", "--acquired", tmp_path / "july")
    assert "is not among the folders" in str(wrong.exception)
    moved = ("--acquired", tmp_path / "archive")
    assert typed("verify", tmp_path / "july", "--recompute", *moved).exit_code == 0
    accepted = ("--accept", "acquired_from_others")
    assert "approved" in typed("ledger", "approve", tmp_path / "july", *accepted, *moved).output
    done = typed("explain", tmp_path / "july", "--payee", "seller 0", "--what-if", *moved)
    assert done.exit_code == 0, done.output
    assert "2 of its units were acquired before and earn nothing now" in told(done)
    assert "again 0 was acquired in June from itself as u0" in told(done)
    done = typed("explain", tmp_path / "july", "--payee", "attacker")
    assert (
        "1 of its units was acquired before and earns nothing now: t 1 was acquired in June from seller 1"
        in told(done)
    )
    done = typed("statements", tmp_path / "july", "--payee", "attacker", "--out", tmp_path / "s")
    assert done.exit_code == 0, done.output
    [page] = (path.read_text(encoding="utf-8") for path in (tmp_path / "s").glob("*.html"))
    assert "acquired in June from another payee (A) as one of theirs; earns nothing now" in page
    assert "seller 1" not in page
    done = typed("statements", tmp_path / "july", "--payee", "seller 0", "--out", tmp_path / "o")
    [page] = (path.read_text(encoding="utf-8") for path in (tmp_path / "o").glob("*.html"))
    assert "acquired in June from you as u0; earns nothing now" in page


def test_a_changed_record_of_it_is_found(stolen, tmp_path):
    shutil.copytree(stolen.parents[1], tmp_path / "copy")
    copy = tmp_path / "copy" / "stolen" / "run"
    (copy / KNOWN).write_bytes((copy / KNOWN).read_bytes()[:-1] + b"x")
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["acquired"][0]["owned"] = "0" * 64
    (copy / "manifest.json").write_text(json.dumps(manifest))
    wrong = {check.what for check in verify(copy) if not check.good}
    assert {KNOWN, "manifest.json", "manifest and ledger"} <= wrong


def test_a_discount_that_leaves_wide_intervals_is_a_warning(market, acquired, discounted):
    """Few validation rows decide what little is added to much: most intervals exceed the payments."""
    rows = pq.read_table(discounted / "payments.parquet").to_pylist()
    wide = [row for row in rows if float(row["high"]) - float(row["low"]) > float(row["payment"]) > 0]
    assert ("wide_intervals" in warned(discounted)) == (2 * len(wide) > len(rows))
    held = validation()
    few = {name: values[:6] for name, values in held.items()}
    made = july(market, fresh(), [acquired], "few rows", held=few, acquired_discount=True)
    assert "wide_intervals" in warned(made)


def test_in_a_second_month_every_honest_contributor_with_new_units_is_paid(tmp_path):
    """40 contributors, and a reseller of edited June units, who is paid nothing; with the discount some get nothing."""
    old, new, held = wide_market(400, 160, [f"seller {i}" for i in range(40)])
    first = july(tmp_path, old, [], "june", held=held, theta="auto")
    approve(first)
    both = stacked(new, again(old, list(range(0, 400, 8)), "reseller", noise=0.02))
    paid = cents(july(tmp_path, both, [first], "as new", held=held, theta="auto"))
    assert paid.pop("reseller") == 0
    assert len(paid) == 40
    assert min(paid.values()) > 0
    less = july(tmp_path, both, [first], "less", held=held, theta="auto", acquired_discount=True)
    assert min(cents(less).values()) == 0
    assert sum(amount == 0 for amount in cents(less).values()) > 1
