"""Payout runs by scores from elsewhere and by a function of one's own, from the files to the cents."""

import json
import re
import sys

import numpy as np
import pytest
from acquired_files import again, fresh, july, stacked
from payout_files import approve, cents, payments, rows, run, spec, units, validation, warned, write
from typer.testing import CliRunner

from datamarket_gym import (
    ImportedScores,
    ScoreTable,
    Submission,
    Utility,
    UtilityOracle,
    get_mechanism,
    registry,
)
from datamarket_gym.cli.app import app
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.payout.explain import explain
from datamarket_gym.payout.manifest import read_manifest, run_id, spec_of
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.stored_inputs import places_of
from datamarket_gym.payout.verify import verify
from datamarket_gym.payout.warnings import read_warnings


def tables(n=60, copies=6):
    """Units, validation rows with ids, and the scores of all units, equal for equal units."""
    submitted, held = units(n, copies=copies), validation()
    held["id"] = [f"z{i}" for i in range(40)]
    alike = submitted["label"][:, None] == held["label"][None]
    scores = np.where(alike, submitted["features"] @ held["features"].T, -0.02)
    return submitted, held, scores


def pairs(path, submitted, held, scores, only=None):
    """A CSV file of pairs; of ``only`` some units."""
    lines = ["unit,row,score"]
    for i, unit in enumerate(submitted["id"]):
        if only is None or unit in only:
            lines += [f"{unit},{held['id'][j]},{s!r}" for j, s in enumerate(scores[i].tolist()) if s]
    path.write_text("\n".join(lines) + "\n")
    return path


def scored(folder, submitted, held, scores, *, only=None, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    file = pairs(folder / "scores.csv", submitted, held, scores, only)
    return run(folder, submitted, held, learner="scores", files={"scores": str(file)}, **changes)


def typed(*arguments):
    return CliRunner().invoke(app, [str(word) for word in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return scored(tmp_path_factory.mktemp("scored"), *tables())


def amounts(folder):
    return {name: row["payment"] for name, row in payments(folder).items()}


def test_everybody_is_paid_by_the_mean_scores_of_the_units_that_count(folder):
    submitted, _, scores = tables()
    mean, owed = scores.mean(axis=1), {}
    first = {}
    for i, row in enumerate(submitted["features"].tolist()):
        if tuple(row) in first:  # an exact copy, which came later
            continue
        first[tuple(row)] = i
        owner = submitted["identity"][i]
        owed[owner] = owed.get(owner, 0.0) + mean[i]
    whole = sum(owed.values())
    assert min(owed.values()) > 0
    for name, paid in cents(folder).items():
        assert paid == pytest.approx(100_000 * owed[name] / whole, abs=1)
    assert sum(cents(folder).values()) == 100_000
    assert warned(folder) == ["loses_half"]


def test_the_run_says_what_it_is_made_of_and_is_made_again_to_the_byte(folder):
    manifest = read_manifest(folder)
    assert manifest["inputs"]["scores"]["name"] == "scores.csv"
    assert manifest["utility"]["learner"] == "scores"
    assert "another tool" in manifest["paid_for"]["divided"]
    assert all(check.good for check in verify(folder, recompute=True))
    told = explain(folder, "attacker")
    assert told.identity == "attacker"
    report = (folder / "report.html").read_text()
    # What the scores come to is no part of a whole.
    (total,) = re.findall(r"scores, summed</dt>\s*<dd>([^<]*)</dd>", report)
    assert "%" not in total
    assert float(total) == pytest.approx(paid_for(), rel=1e-3)
    assert "accuracy" not in " ".join(manifest["paid_for"].values())


def paid_for():
    """What the scores of all different units come to."""
    submitted, _, scores = tables()
    return scores[np.unique(submitted["features"], axis=0, return_index=True)[1]].mean(axis=1).sum()


def test_changed_scores_are_another_run(folder, tmp_path):
    submitted, held, scores = tables()
    scores[5, 3] += 0.5
    other = scored(tmp_path, submitted, held, scores)
    assert read_manifest(other)["run"] != read_manifest(folder)["run"]
    assert cents(other) != cents(folder)


def test_neither_the_order_of_any_file_nor_names_change_a_cent(folder, tmp_path):
    submitted, held, scores = tables()
    rng = np.random.default_rng(8)
    order, across = rng.permutation(66), rng.permutation(40)
    mixed = scored(tmp_path, rows(submitted, order), rows(held, across), scores[np.ix_(order, across)])
    assert payments(mixed) == payments(folder)


def test_a_matrix_and_a_table_of_the_same_scores_pay_the_same(folder, tmp_path):
    submitted, held, scores = tables()
    np.save(tmp_path / "scores.npy", scores)
    found = run(
        tmp_path, submitted, held, learner="scores", files={"scores": str(tmp_path / "scores.npy")}
    )
    assert amounts(found) == amounts(folder)


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_splits_and_exact_copies_gain_exactly_nothing(tmp_path, copies):
    submitted, held, scores = tables(copies=0)
    before = scored(tmp_path / "before", submitted, held, scores)
    mine = np.flatnonzero(np.array(submitted["identity"]) == "seller 0")
    split = {**submitted, "identity": list(submitted["identity"])}
    for k, i in enumerate(mine):
        split["identity"][i] = f"seller 0 as {k % 3}"
    extra = np.concatenate([np.arange(60), *[mine] * copies])
    split = rows(split, extra)
    split["id"] = [f"u{i}" for i in range(len(extra))]
    split["time"] = np.arange(len(extra), dtype=float)
    for i in range(60, len(extra)):
        split["identity"][i] = f"seller 0 as {i % 4}"
    after = scored(tmp_path / "after", split, held, scores[extra])
    gained = {}
    for name, paid in cents(after).items():
        gained[name.split(" as ")[0]] = gained.get(name.split(" as ")[0], 0) + paid
    assert gained == cents(before)


def test_split_names_and_copies_are_paid_the_same_to_the_last_bit_by_the_mechanism():
    submitted, held, scores = tables(copies=0)
    extra = np.concatenate([np.arange(60), np.arange(0, 60, 4), np.arange(0, 60, 4)])
    scores_of = ScoreTable(submitted["features"], submitted["label"], scores, held["features"])
    value = UtilityOracle(
        held["features"], held["label"], Utility("scores"), learner=ImportedScores(scores_of)
    )

    def paid(take, owner):
        units_of = Submission(
            np.array([f"x{i}" for i in range(len(take))]),
            np.array(owner),
            submitted["features"][take],
            submitted["label"][take],
            time=np.arange(len(take)),
        )
        return get_mechanism("recommended").pay(units_of, value).as_dict()

    before = paid(np.arange(60), [f"s{i % 4}" for i in range(60)])
    names = [f"s{i % 4}" if i % 4 else f"s0 as {i % 3}" for i in range(60)]
    after = paid(extra, names + [f"s0 as {i % 5}" for i in range(30)])
    whole = {}
    for name, amount in sorted(after.items()):
        whole[name.split(" as ")[0]] = whole.get(name.split(" as ")[0], 0.0) + amount
    assert whole == before  # amounts lie on a grid on which sums are exact


def test_units_without_scores_earn_nothing_and_are_named(tmp_path):
    submitted, held, scores = tables(copies=0)
    only = set(submitted["id"][:50])
    found = scored(tmp_path, submitted, held, scores, only=only)
    (warning,) = [each for each in read_warnings(found) if each.name == "unscored_units"]
    assert warning.count == 10
    assert warning.items[0] == "“u50”"
    cut = {**rows(submitted, range(50))}
    assert cents(found) == cents(scored(tmp_path / "cut", cut, held, scores[:50]))


def test_a_copy_that_the_tool_has_not_scored_is_scored_as_what_it_copies(folder, tmp_path):
    submitted, held, scores = tables()
    near = set(submitted["id"]) - {"u60", "u61", "u62"}  # the exact copies
    found = scored(tmp_path, submitted, held, scores, only=near)
    assert cents(found) == cents(folder)
    assert "unscored_units" not in warned(found)


def test_equal_units_with_unequal_scores_are_told(tmp_path):
    submitted, held, scores = tables()
    scores[60] += 0.25
    found = scored(tmp_path, submitted, held, scores)
    (warning,) = [each for each in read_warnings(found) if each.name == "uneven_scores"]
    assert warning.count == 1
    assert "by up to 0.25 on a validation row" in warning.title


def test_scores_below_zero_are_carried_or_count_as_nothing(tmp_path):
    submitted, held, scores = tables(copies=0)
    bad = np.array(submitted["identity"]) == "seller 1"
    scores[bad] = -0.4 * np.abs(scores[bad])
    carried = scored(tmp_path / "carry", submitted, held, scores, negative="carry")
    assert cents(carried)["seller 1"] == 0
    assert cents(carried, "balance")["seller 1"] < 0
    floored = scored(tmp_path / "zero", submitted, held, scores, negative="zero")
    assert cents(floored)["seller 1"] == 0
    assert cents(floored, "balance")["seller 1"] == 0
    nothing = -np.abs(scores)
    with pytest.raises(DataMarketError, match="scores of all units together come to nothing"):
        scored(tmp_path / "none", submitted, held, nothing)


def test_units_below_zero_under_a_name_of_their_own_gain_unless_they_count_as_nothing(tmp_path):
    submitted, held, scores = tables(copies=0)
    mine = np.flatnonzero(np.array(submitted["identity"]) == "seller 1")
    scores[mine[:5]] = -np.abs(scores[mine[:5]])
    split = {**submitted, "identity": list(submitted["identity"])}
    for i in mine[:5]:
        split["identity"][i] = "seller 1 as another"

    def paid(columns, negative):
        whose = f"{negative} {len(set(columns['identity']))}"
        found = cents(scored(tmp_path / whose, columns, held, scores, negative=negative))
        return found["seller 1"] + found.get("seller 1 as another", 0)

    assert paid(split, "carry") > 1.1 * paid(submitted, "carry")  # nobody pays what a name owes
    assert paid(split, "zero") == paid(submitted, "zero")


def test_rows_in_quarantine_may_have_scores(tmp_path):
    submitted, held, scores = tables(copies=0)
    submitted["features"][7, 2] = np.nan
    found = scored(tmp_path, submitted, held, scores, quarantine=True)
    assert {"quarantined"} <= set(warned(found))
    np.save(tmp_path / "s.npy", scores)
    again = run(
        tmp_path / "m", submitted, held, learner="scores", files={"scores": str(tmp_path / "s.npy")},
        quarantine=True,
    )  # fmt: skip
    assert amounts(again) == amounts(found)


def test_without_labels_the_scores_are_those_of_the_features(tmp_path):
    submitted, held, scores = tables(copies=0)
    submitted.pop("label"), held.pop("label")
    found = scored(tmp_path, submitted, held, scores)
    mean = scores.mean(axis=1)
    owner = np.array(submitted["identity"])
    for name, paid in cents(found).items():
        assert paid == pytest.approx(100_000 * mean[owner == name].sum() / mean.sum(), abs=1)


def test_utility_and_file_are_given_together_or_not_at_all(tmp_path):
    places = write(tmp_path)
    with pytest.raises(ParameterError, match="give their file with --scores"):
        pay(places, spec(learner="scores"), tmp_path / "run")
    with pytest.raises(ParameterError, match="add --utility scores"):
        pay(places, spec(files={"scores": "scores.csv"}), tmp_path / "run")
    with pytest.raises(ParameterError, match=r"no\.csv': there is no such file; .* put the file back"):
        pay(
            places,
            spec(learner="scores", files={"scores": str(tmp_path / "no.csv")}),
            tmp_path / "run",
        )


def test_a_run_that_knows_no_scores_is_the_run_that_it_was():
    """The id of a run is a hash of its settings; those that came later leave it as it was."""
    settings = spec().model_dump(mode="json")
    assert settings["files"].pop("scores") is None
    files = {"submissions": {"sha256": "a", "bytes": 1}}
    older = spec_of({"spec": settings, "inputs": {}})
    assert run_id(older, files, [], {}) == run_id(spec(), files, [], {})
    assert run_id(spec(learner="scores", files={"scores": "x"}), files, [], {}) != run_id(
        spec(learner="scores", files={"scores": "y"}), files, [], {}
    )


def test_from_the_shell_with_an_audit_by_the_red_team(tmp_path):
    submitted, held, scores = tables()
    places = write(tmp_path, submitted, held)
    file = pairs(tmp_path / "scores.csv", submitted, held, scores)
    both = (
        places.submissions,
        "--validation",
        places.validation,
        "--utility",
        "scores",
        "--scores",
        file,
    )
    done = typed("pay", *both, "--amount", "1000", "--out", tmp_path / "run", "--checks", 0)
    assert done.exit_code == 0, done.output
    assert "what the scores say" in " ".join(done.output.split())
    report = json.loads((tmp_path / "run" / "audit.json").read_text())
    assert report["trials"]
    assert places_of(tmp_path / "run").scores == file  # wherever later commands are called from
    done = typed(
        "audit", *both, "--providers", 1, "--only", "exact_dup*,near_dup*", "--jobs", 1,
        "--out", tmp_path / "audit", "--checks", 0,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    findings = json.loads((tmp_path / "audit" / "audit.json").read_text())["findings"]
    gains = {each["family"]: each["unchecked"]["gain"] for each in findings}
    assert gains["exact_dup_2x_sybils"] == 1.0
    # A variant that no evidence ties is scored as what it is most like, and paid in full once more.
    assert gains["near_duplicate_2x_sybils"] > 1.5


def test_given_what_was_acquired_new_units_are_paid_the_same_and_known_ones_nothing(tmp_path):
    acquired, held, scores = tables(copies=0)
    new, stolen = fresh(), again(acquired, list(range(0, 60, 4)), "attacker")
    rng = np.random.default_rng(2)
    each = rng.uniform(0, 1, size=(24, 40))
    files = [pairs(tmp_path / "june.csv", acquired, held, scores)]
    files += [pairs(tmp_path / "new.csv", new, held, each)]
    both = stacked(new, stolen)
    files += [pairs(tmp_path / "both.csv", both, held, np.vstack([each, scores[0:60:4]]))]
    old = run(
        tmp_path / "june", acquired, held, ledger=tmp_path / "ledger.sqlite", learner="scores",
        files={"scores": str(files[0])},
    )  # fmt: skip
    approve(old)
    paid = [
        july(tmp_path, new, [], "alone", held=held, learner="scores", files={"scores": str(files[1])}),
        july(
            tmp_path, both, [old], "given", held=held, learner="scores", files={"scores": str(files[2])}
        ),
    ]
    first, given = (cents(each) for each in paid)
    assert given.pop("attacker") == 0
    assert given == first
    assert "acquired_from_others" in warned(paid[1])
    words = " ".join((paid[1] / "report.html").read_text().split())
    assert "All others are paid as new" in words


def test_scores_may_be_asked_of_a_database_and_stay_with_the_run(folder, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    submitted, held, scores = tables()
    places = write(tmp_path, submitted, held)
    file = pairs(tmp_path / "scores.csv", submitted, held, scores)
    with duckdb.connect(str(tmp_path / "market.db")) as base:
        base.sql(f"CREATE TABLE scores AS SELECT * FROM read_csv('{file}')")
    file.unlink()
    asked = f"duckdb:{tmp_path / 'market.db'}#SELECT * FROM scores ORDER BY unit, row"
    done = typed(
        "pay", places.submissions, "--validation", places.validation, "--utility", "scores", "--scores", asked,
        "--amount", "1000", "--out", tmp_path / "run", "--checks", 0, "--theta", "none", "--no-audit",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert cents(tmp_path / "run") == cents(folder)
    (tmp_path / "market.db").unlink()
    assert all(check.good for check in verify(tmp_path / "run", recompute=True))


OWN = '''
import numpy as np
from datamarket_gym import utility

@utility("payout_run_reach", target="none")
def payout_run_reach(train, validation):
    """How near the nearest unit comes to each validation row."""
    far = ((validation.features[:, None] - train.features) ** 2).sum(axis=2)
    return float(np.exp(-far.min(axis=1)).mean())
'''


@pytest.fixture
def own(tmp_path):
    file = tmp_path / "utility_of_a_payout_run.py"
    file.write_text(OWN)
    yield file
    forget(file)


def forget(file):
    registry._components["learner"].pop("payout_run_reach", None)
    sys.modules.pop(file.stem, None)
    if str(file.parent) in sys.path:
        sys.path.remove(str(file.parent))


def test_a_function_of_ones_own_pays_from_the_shell_and_later_commands_ask_for_it(tmp_path, own):
    places = write(tmp_path, units(n=20, copies=2))
    asked = (places.submissions, "--validation", places.validation, "--amount", "100", "--theta", "none")
    out = ("--out", tmp_path / "run", "--no-audit", "--checks", 0)
    done = typed("pay", *asked, *out, "--utility", "payout_run_reach", "--load", own)
    assert done.exit_code == 0, done.output
    assert sum(cents(tmp_path / "run").values()) == 10_000
    manifest = read_manifest(tmp_path / "run")
    assert manifest["inputs"]["utility"]["name"] == own.stem
    assert manifest["scores"] != "closed form"
    forget(own)
    done = typed("verify", tmp_path / "run")
    assert isinstance(done.exception, DataMarketError)
    assert "datamarket --load" in str(done.exception)
    done = typed("verify", tmp_path / "ledger.sqlite")
    assert done.exit_code == 1, done.output
    assert "cannot be checked" in done.output  # and the others of the ledger are
    done = typed("--load", own, "verify", tmp_path / "run", "--recompute")
    assert done.exit_code == 0, done.output
    forget(own)
    own.write_text(OWN.replace("-far", "-2 * far"))
    done = typed("--load", own, "verify", tmp_path / "run", "--recompute")
    assert done.exit_code == 1
    assert "differ" in done.output
