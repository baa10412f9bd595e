"""explain: a payee's own matches, from the tables that a run left and from nothing else."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from checks_files import answered, drawn, looker, paid
from payout_files import cents, payments, rows, run, spec, units, validation, write
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.errors import RunError, UnknownNameError
from datamarket_gym.execution.files import sha256
from datamarket_gym.payout.checks.draw import read_checks
from datamarket_gym.payout.checks.settle import settle
from datamarket_gym.payout.explain import explain
from datamarket_gym.payout.ledger.runs import approve, run_of
from datamarket_gym.payout.names import drawn_under
from datamarket_gym.payout.results import describe, drawn_clusters, leaked_units
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.stored_inputs import places_of
from datamarket_gym.payout.what_if import finished_results, without_its_evidence

HELD = validation()
LINKS = {"keys": ["iban"], "confirm": "same_as"}


def everything():
    """Copies, own copies, copies at the same time, leaks, names that confirm one another, and a claim."""
    columns = units()
    n = len(columns["id"])
    own = [2, 3]  # sent again by whoever sent them
    twins = [5, 9, 13]  # sent by others at the same moment, a little changed: a lot decides
    leaks = HELD["features"][:2]
    features = columns["features"]
    return {
        "id": [*columns["id"], *(f"again {i}" for i in own), *(f"twin {i}" for i in twins), "leak 0", "leak 1"],
        "identity": [
            *columns["identity"], *(columns["identity"][i] for i in own), *["twin"] * 3, "leaker", "seller 1",
        ],
        "label": np.concatenate([columns["label"], columns["label"][own + twins], HELD["label"][:2]]),
        "time": np.concatenate([columns["time"], [2000.0, 2001.0], columns["time"][twins], [1.0, 1.0]]),
        "features": np.vstack([features, features[own], features[twins] + 1e-3, leaks]),
        "iban": [*["one"] * 8, *[None] * (n - 1)],
        "same_as": ["seller 1", "seller 0", *[None] * (n + 5)],
    }  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("everything")
    pairs = {
        "id_l": ["u5", "u9", "u13"],
        "id_r": ["twin 5", "twin 9", "twin 13"],
        "probability": [1.0] * 3,
    }
    pq.write_table(pa.table(pairs), place / "pairs.parquet")
    linkage = {**LINKS, "edges": str(place / "pairs.parquet"), "between": "units"}
    return run(place, everything(), HELD, linkage=linkage, learner="knn")


@pytest.fixture(scope="module")
def results(folder):
    return finished_results(folder, places_of(folder))[1]


@pytest.fixture(scope="module")
def names(folder):
    return list(payments(folder))


def test_it_says_what_the_results_say(folder, results, names):
    """What was worked out from records and inputs before is read from tables now."""
    assert len(names) == 7
    seen = Counter()
    clusters, inputs = results.payments.clustering, results.inputs
    for name in names:
        code, found = inputs.identities.index(name), explain(folder, name)
        mine = np.unique(clusters.label[inputs.owner == code])
        division = results.division
        leaked = [row for row in leaked_units(results) if row["identity"] == name]
        assert (found.paid, found.entitled, found.balance) == (
            division.paid[code], division.entitled[code], division.balance[code],
        )  # fmt: skip
        assert (found.low, found.high) == tuple(ends[code] for ends in results.interval)
        assert found.units == int((inputs.owner == code).sum()) + len(leaked)
        shown = [(r["unit"], r["row"], r["by"], f"{r['likeness']:.3f}") for r in found.leaked]
        assert shown == [(r["unit"], r["row"], r["by"], r["likeness"]) for r in leaked]
        assert found.drawn == int(np.isin(mine, drawn_clusters(results)).sum())
        assert found.drawn_under == drawn_under(results.spec.beacon)
        assert found.without_any_evidence == results.without_evidence[code]
        assert found.without_its_evidence is None
        edges, group = results.payees.edges, results.payees.group
        assert found.linked == [
            {
                "left": inputs.identities[edges.left[i]], "right": inputs.identities[edges.right[i]],
                "reason": str(edges.reason[i]), "score": float(edges.score[i]),
            }
            for i in np.flatnonzero(group[edges.left] == group[code])
        ]  # fmt: skip
        assert found.claims == [
            {"reason": c.reason, "value": c.value, "identities": [inputs.identities[i] for i in c.identities]}
            for c in results.payees.claims if code in c.identities
        ]  # fmt: skip
        former = {
            frozenset((match["left"], match["right"]))
            for cluster in describe(results, mine)
            for match in cluster["matches"]
            if name
            in [u["identity"] for u in cluster["units"] if u["unit"] in (match["left"], match["right"])]
        }
        assert {frozenset((match.unit, match.other)) for match in found.matches} == former
        assert len(found.matches) == found.matches_in_all == len(former)
        seen += Counter(
            leaked=len(found.leaked), linked=len(found.linked), claims=len(found.claims),
            drawn=found.drawn, repeated=found.repeated, for_others=found.for_others, balance=abs(found.balance),
        )  # fmt: skip
    assert all(
        seen[name] for name in ("leaked", "linked", "claims", "drawn", "repeated", "for_others")
    ), seen


def test_units_are_counted_once(folder, names):
    for name in names:
        found = explain(folder, name)
        assert found.counted + found.repeated + found.for_others + len(found.leaked) == found.units
        assert sum(each.units for each in found.counted_for) == found.for_others
        for each in found.matched_payees:
            assert each.for_them <= each.for_others <= each.units <= each.pairs


def test_who_was_earlier_and_who_is_paid(folder):
    matches = {match.unit: match for match in explain(folder, "attacker").matches}
    assert len(matches) == 3
    for match in matches.values():
        assert match.earlier == "other"
        assert match.paid_to == [match.of]
        assert not match.drawn
    draws = explain(folder, "twin")
    assert [match.drawn for match in draws.matches] == [True] * 3
    for match in draws.matches:
        assert match.paid_to == (["twin"] if match.earlier == "unit" else [match.of])


def test_payees_to_whom_units_were_lost_come_first(folder, names):
    for name in names:
        away = [each.for_others for each in explain(folder, name).matched_payees]
        assert away == sorted(away, reverse=True)
    mixed = explain(folder, "twin").matched_payees
    assert {each.name for each in mixed} == {"seller 1"}
    assert (mixed[0].units, mixed[0].pairs) == (3, 3)


def test_own_copies_come_after_ties_with_others(folder):
    matches = explain(folder, "seller 2").matches  # u2 was sent again by seller 2
    own = [match.of == "seller 2" for match in matches]
    assert own == sorted(own)
    assert any(own)


def test_it_needs_no_inputs(tmp_path):
    folder = run(tmp_path)
    before = explain(folder, "attacker")
    shutil.rmtree(tmp_path / "in")
    shutil.rmtree(folder / "records")
    assert explain(folder, "attacker") == before


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """2,000 copies of one unit of the victim's, by a hundred names."""
    columns = units(copies=0)
    copies = 2000
    more = {
        "id": [f"copy {i}" for i in range(copies)],
        "identity": [f"attacker {i % 100}" for i in range(copies)],
        "label": np.repeat(columns["label"][:1], copies),
        "time": 1000.0 + np.arange(copies),
        "features": np.repeat(columns["features"][:1], copies, axis=0),
    }
    columns["identity"][0] = "victim"
    both = {
        name: np.concatenate([c, more[name]]) if isinstance(c, np.ndarray) else c + more[name]
        for name, c in columns.items()
    }
    return run(tmp_path_factory.mktemp("crowd"), both)


def test_a_victim_inside_a_large_cluster_sees_its_own_ties(crowd):
    found = explain(crowd, "victim")
    assert (found.units, found.matches_in_all, len(found.matches)) == (1, 2000, 1000)
    assert {match.unit for match in found.matches} == {"u0"}
    assert {tuple(match.paid_to) for match in found.matches} == {("victim",)}
    assert (found.matched_payees_in_all, len(found.matched_payees)) == (100, 20)
    last = explain(crowd, "attacker 99")
    assert [match.other for match in last.matches] == ["u0"] * 20
    assert (last.for_others, last.counted_for[0].names) == (20, ["victim"])
    # what was shown before: the 40 most senior units, and as many matches, among which the last attacker has none
    results = finished_results(crowd, places_of(crowd))[1]
    label = results.payments.clustering.label
    [cluster] = describe(results, label[:1])
    assert "attacker 99" not in [unit["identity"] for unit in cluster["units"]]


def typed(*words):
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "160"})


def test_it_says_how_many_it_shows(crowd):
    done = typed("explain", crowd, "--payee", "victim")
    assert done.exit_code == 0, done.output
    output = " ".join(done.output.split())
    assert "20 of 2,000 matches of its units are shown; --json lists 1,000" in output
    assert done.output.count("exact_hash") == 20
    assert "are shown" not in typed("explain", crowd, "--payee", "attacker 99").output


def test_the_json_is_the_record(folder, names):
    for name in names:
        done = typed("explain", folder, "--payee", name, "--json")
        assert json.loads(done.output) == asdict(explain(folder, name))


def test_twins_share(tmp_path):
    columns = units(copies=0)
    columns["identity"][1] = "other"
    for name in ("label", "time", "features"):
        columns[name][1] = columns[name][0]
    folder = run(tmp_path, columns)
    found = explain(folder, "other")
    assert (found.counted, found.shared, found.for_others) == (1, 1, 0)
    [match] = found.matches
    assert (match.earlier, sorted(match.paid_to)) == ("neither", ["other", "seller 0"])


def test_a_chain_through_own_units_is_told(tmp_path):
    """u1 of seller 1 is matched with a copy of its own, which alone is matched with an earlier unit of seller 0."""
    columns = units(copies=0)
    pairs = {"id_l": ["u0", "u1"], "id_r": ["u1", "u5"], "probability": [1.0, 1.0]}
    pq.write_table(pa.table(pairs), tmp_path / "pairs.parquet")
    linkage = {"edges": str(tmp_path / "pairs.parquet"), "between": "units"}
    found = explain(run(tmp_path, columns, linkage=linkage), "seller 1")
    assert (found.for_others, found.indirect) == (2, 1)
    assert [(t.unit, t.other, t.paid_to) for t in found.matches] == [
        ("u1", "u0", ["seller 0"]),
        ("u1", "u5", ["seller 0"]),
    ]


def test_unknown_names_are_refused(folder):
    with pytest.raises(UnknownNameError, match="did you mean attacker"):
        explain(folder, "atacker")


@pytest.mark.parametrize("name", ["payments", "clusters", "evidence", "leaks"])
def test_a_changed_or_missing_table_is_refused(folder, tmp_path, name):
    copy = shutil.copytree(folder, tmp_path / "copy")
    path = copy / f"{name}.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(RunError, match=rf"{name}\.parquet.*not as the run left it; run verify"):
        explain(copy, "attacker")
    path.unlink()
    with pytest.raises(RunError, match="missing"):
        explain(copy, "attacker")


def test_a_run_of_an_older_version_is_told_to_be_paid_again(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    path = copy / "clusters.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["came"]), path)
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["outputs"]["clusters.parquet"]["sha256"] = sha256(path)
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RunError, match=r"no column 'came'.*pay again"):
        explain(copy, "attacker")


def test_nothing_heavy_is_imported(folder):
    """Libraries of other commands would take most of the time that the question takes."""
    heavy = ("sklearn", "torch", "plotly", "sqlalchemy", "jinja2", "pandas", "datamarket_gym.cli.pay")
    code = (
        "import sys\nfrom datamarket_gym.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        f"sys.stderr.write(' '.join(m for m in sys.modules for h in {heavy} if m == h or m.startswith(h + '.')))"
    )
    words = ["explain", str(folder), "--payee", "attacker"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "attacker is paid" in done.stdout


@pytest.fixture(scope="module")
def settled(tmp_path_factory):
    """Seller 1 failed, and the attacker is too small to be checked."""
    folder = paid(tmp_path_factory.mktemp("settled"))
    drawn(folder, least="40.00")
    answered(folder, false=("seller 1",))
    settle(folder, folder.parent / "new")
    return folder


def test_what_checks_came_to(settled):
    new = settled.parent / "new"
    draws = read_checks(settled)
    failed = explain(new, "seller 1")
    assert (failed.paid, failed.checks.outcome, failed.checks.drawn) == (0, "failed", [])
    assert set(failed.checks.false_units) == {d.unit for d in draws.draws if d.payee == "seller 1"}
    assert failed.counted + len(failed.checks.false_units) + failed.for_others == failed.units
    small = explain(new, "attacker")
    assert (small.paid, small.checks.outcome) == (0, "not checked")
    passed = explain(new, "seller 2").checks
    assert passed.outcome == "passed"
    assert set(passed.drawn) == {d.unit for d in draws.draws if d.payee == "seller 2"}
    assert explain(settled, "seller 2").checks.outcome == "open"


def test_who_looked_is_not_told(settled):
    new = settled.parent / "new"
    draws = read_checks(settled)
    for name in payments(new):
        output = json.dumps(asdict(explain(new, name)))
        assert not any(looker(settled, draws, d) in output for d in draws.draws)
        others = {d.unit for d in draws.draws if d.payee != name}
        assert not others & set(explain(new, name).checks.drawn)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("seller 1", "It failed a spot check"),
        ("attacker", "neither checked nor paid"),
        ("seller 2", "It passed the spot checks"),
    ],
)
def test_the_outcome_is_printed(settled, name, words):
    assert words in " ".join(typed("explain", settled.parent / "new", "--payee", name).output.split())


def test_who_only_brings_a_balance_is_explained(tmp_path):
    """Somebody of the first payout run is not in the second, and is owed something still."""
    columns = units()
    columns["label"][60:] = (columns["label"][60:] + 1) % 3
    first = run(tmp_path, columns, learner="knn")
    names = [warning["name"] for warning in run_of(first).warnings]
    approve(first, sha256(first / "manifest.json"), "R. Okafor", names)
    owed = {name: found for name, found in cents(first, "balance").items() if found > 0}
    gone = min(owed)
    stay = np.array([name != gone for name in columns["identity"]])
    second = tmp_path / "second"
    places = write(tmp_path / "in 2", rows(columns, np.flatnonzero(stay)))
    pay(places, spec(learner="knn"), second)
    found = explain(second, gone)
    assert (found.units, found.opening) == (0, owed[gone])
    assert found.paid + found.balance == found.entitled == owed[gone]
    assert without_its_evidence(second, gone) == found.paid
    assert explain(second, "attacker").opening == cents(first, "balance")["attacker"]
