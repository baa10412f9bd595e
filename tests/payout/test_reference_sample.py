"""A reference sample: other honest units that thresholds are measured on, where validation rows are few."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from payout_files import cents, rows, run, spec, table, write
from typer.testing import CliRunner

from datamarket_gym import ReferenceRows, Submission, Utility, UtilityOracle, get_mechanism
from datamarket_gym.analysis.redteam import audit, market_state
from datamarket_gym.cli.app import app
from datamarket_gym.errors import SubmissionError
from datamarket_gym.evidence.leak_check import near_copy_level
from datamarket_gym.evidence.threshold import measure_threshold
from datamarket_gym.execution.files import read_json
from datamarket_gym.mechanism import resolve_threshold
from datamarket_gym.payout.explain import explain
from datamarket_gym.payout.inputs import read_inputs
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.stored_inputs import Places
from datamarket_gym.payout.verify import verify

DIMENSIONS, SELLERS, FEW, MANY = 40, 6, 60, 500
KNN = Utility("knn@5", "chance")


def sample(n, seed):
    rng = np.random.default_rng(seed)
    label = np.arange(n) % 3
    return {
        "label": label,
        "features": 2.5 * np.eye(3, DIMENSIONS)[label] + rng.normal(0, 0.6, (n, DIMENSIONS)),
    }


REFERENCE = sample(MANY, 2)
COPIED = 60  # units that the attacker submits again under noise


def submitted(more=None):
    """Sellers, an attacker of noisy copies behind them, and whatever somebody adds."""
    honest = sample(240, 0)
    rng = np.random.default_rng(3)
    noisy = honest["features"][:COPIED] + rng.normal(0, 0.4, (COPIED, DIMENSIONS))
    more = np.empty((0, DIMENSIONS)) if more is None else more
    n = 240 + COPIED + len(more)
    return {
        "id": [f"u{i}" for i in range(n)],
        "identity": [
            *(f"seller {i % SELLERS}" for i in range(240)), *["attacker"] * COPIED, *["other"] * len(more)
        ],
        "label": np.r_[honest["label"], honest["label"][:COPIED], np.arange(len(more)) % 3],
        "time": np.arange(n, dtype=np.float64),
        "features": np.vstack([honest["features"], noisy, more]),
    }  # fmt: skip


def with_reference(folder, more=None, reference=REFERENCE):
    places = write(folder, submitted(more), sample(FEW, 1))
    pq.write_table(table(reference), folder / "reference.parquet")
    return Places(places.submissions, places.validation, reference=folder / "reference.parquet")


def chosen(places, reference=True, theta="auto"):
    inputs = read_inputs(places if reference else replace(places, reference=None), spec())
    return measure_threshold(inputs.submission, inputs.utility_oracle(spec(theta=theta)), theta)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    return with_reference(tmp_path_factory.mktemp("reference"))


@pytest.fixture(scope="module")
def paid(places, tmp_path_factory):
    out = tmp_path_factory.mktemp("paid") / "run"
    pay(places, spec(theta="auto"), out)
    return out


def test_few_validation_rows_tie_near_copies_alone_and_a_reference_sample_ties_noisier_ones(
    paid, tmp_path
):
    alone = run(tmp_path, submitted(), sample(FEW, 1), theta="auto")
    few = read_json(alone / "threshold.json")
    assert few["cost"] is None
    assert "(or a reference sample of other honest units)" in few["why"]
    assert cents(alone)["attacker"] > 1_000  # of 100,000
    said = read_json(paid / "threshold.json")
    assert said["measured_on"] == "reference"
    assert f"among {MANY} reference rows" in said["why"]
    assert said["cost"]["rows"] == MANY
    assert said["theta"] < few["theta"] - 0.1
    assert cents(paid)["attacker"] == 0


def test_scores_and_leaks_stay_with_the_validation_rows(places, tmp_path):
    """At the same threshold the reference rows decide nothing, and units equal to them are paid."""
    for name, there in (
        ("one", places),
        ("two", with_reference(tmp_path / "in", None, sample(MANY, 9))),
    ):
        pay(there, spec(theta="0.9"), tmp_path / name)
        assert read_json(tmp_path / name / "threshold.json")["theta"] == 0.9
    assert cents(tmp_path / "one") == cents(tmp_path / "two")
    mine = with_reference(tmp_path / "mine", REFERENCE["features"][:30])
    pay(mine, spec(theta="auto"), tmp_path / "again")
    assert read_json(tmp_path / "again" / "manifest.json")["leaked"] == 0
    assert cents(tmp_path / "again")["other"] > 0


@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_who_submits_the_reference_rows_again_makes_no_crowd(places, tmp_path, noise):
    """Two rows in five, submitted as they are or nearly, would lift the floor to 1."""
    rng = np.random.default_rng(4)
    copies = REFERENCE["features"][:200] + noise * rng.normal(size=(200, DIMENSIONS))
    before = chosen(places)
    found = chosen(with_reference(tmp_path, copies))
    assert found.theta == before.theta
    assert found.density == before.density
    assert "200 units that equal reference rows, or nearly, have no say" in found.why


def test_units_that_are_merely_close_still_make_a_crowd(places, tmp_path):
    level = near_copy_level(REFERENCE["features"])
    before = chosen(places)
    cosine = (max(before.theta, before.density) + level) / 2
    rng = np.random.default_rng(5)
    some = REFERENCE["features"][:100]
    some = some / np.linalg.norm(some, axis=1, keepdims=True)
    away = rng.normal(size=some.shape)
    away -= (away * some).sum(axis=1, keepdims=True) * some
    away /= np.linalg.norm(away, axis=1, keepdims=True)
    found = chosen(with_reference(tmp_path, cosine * some + np.sqrt(1 - cosine**2) * away))
    assert found.density == pytest.approx(cosine, abs=1e-6)
    assert "5% of the reference rows" in found.why


def test_theta_prints_what_pay_takes_before_the_crowd(places, tmp_path):
    told = CliRunner().invoke(app, ["theta", str(places.reference), "--json", str(tmp_path / "t.json")])
    assert told.exit_code == 0, told.output
    said, found = read_json(tmp_path / "t.json")["recommended"], chosen(places)
    assert said["cost"] == found.cost.model_dump(mode="json")
    assert found.density < found.cost.theta
    assert said["theta"] == found.theta


def test_theta_reads_all_rows_as_pay_does_whatever_split_they_name(tmp_path):
    split = ["train" if i % 2 else "test" for i in range(MANY)]
    there = with_reference(tmp_path, reference={**REFERENCE, "split": split})
    told = CliRunner().invoke(app, ["theta", str(there.reference), "--json", str(tmp_path / "t.json")])
    assert told.exit_code == 0, told.output
    price = read_json(tmp_path / "t.json")["recommended"]["cost"]
    assert price == chosen(there).cost.model_dump(mode="json")


def test_python_takes_what_a_payout_run_takes(places):
    columns = {name: np.array(column) for name, column in submitted().items()}
    held = sample(FEW, 1)
    oracle = UtilityOracle(
        held["features"], held["label"], KNN,
        reference=ReferenceRows(REFERENCE["features"], REFERENCE["label"]),
    )  # fmt: skip
    found = resolve_threshold(get_mechanism("recommended"), Submission(**columns), oracle)[1]
    said = chosen(places)
    assert (found.theta, found.why) == (said.theta, said.why)
    assert (
        resolve_threshold(
            get_mechanism("recommended"), Submission(**columns), oracle.counted_from("none")
        )[1]
        == found
    )


def test_a_submission_with_embeddings_is_held_against_those_of_the_reference(places):
    columns = {name: np.array(column) for name, column in submitted().items()}
    units = Submission(
        **columns | {"features": columns["features"][:, :3]}, embedding=columns["features"]
    )
    held = sample(FEW, 1)

    def asked(**more):
        reference = ReferenceRows(REFERENCE["features"][:, :3], REFERENCE["label"], **more)
        oracle = UtilityOracle(held["features"][:, :3], held["label"], KNN, reference=reference)
        return resolve_threshold(get_mechanism("recommended"), units, oracle)[1]

    assert asked(embedding=REFERENCE["features"]).cost == chosen(places).cost
    assert "the reference rows have no embeddings" in asked().why
    with pytest.raises(SubmissionError, match=r"'embedding' has 40 .* the reference rows have 39"):
        asked(embedding=REFERENCE["features"][:, 1:])


def test_the_reference_is_in_the_manifest_and_in_the_id(places, paid, tmp_path):
    manifest = json.loads((paid / "manifest.json").read_text())
    assert manifest["inputs"]["reference"]["name"] == "reference.parquet"
    turned = with_reference(tmp_path, reference=rows(REFERENCE, np.arange(MANY)[::-1]))
    other = pay(turned, spec(theta="auto"), tmp_path / "run")
    assert other["run"] != manifest["run"]
    assert cents(tmp_path / "run") == cents(paid)  # the order of rows decides nothing
    assert "reference.parquet" in (paid / "report.html").read_text()
    assert f"{MANY} reference rows" in (paid / "report.html").read_text()


def test_verify_and_explain_find_it_again_or_are_told_where_it_went(paid, tmp_path):
    assert all(check.good for check in verify(paid, recompute=True))
    assert explain(paid, "attacker").paid == 0
    place = with_reference(tmp_path)
    out = tmp_path / "run"
    pay(place, spec(theta="auto"), out)
    (tmp_path / "elsewhere").mkdir()
    moved = shutil.move(place.reference, tmp_path / "elsewhere" / "reference.parquet")
    for question in (
        ["verify", str(out), "--recompute"],
        ["explain", str(out), "--payee", "attacker", "--what-if"],
    ):
        lost = CliRunner().invoke(app, question)
        assert lost.exit_code != 0
        said = "".join(f"{lost.exception}{lost.output}".split())  # lines are folded, and not cut
        assert "reference.parquet" in said
        found = CliRunner().invoke(app, [*question, "--reference", str(moved)])
        assert found.exit_code == 0, found.output


def test_pay_and_audit_take_the_flag(places, tmp_path):
    files = [str(places.submissions), "--validation", str(places.validation)]
    files += ["--reference", str(places.reference)]
    settings = ["--amount", "1000.00", "--no-audit", "--out", str(tmp_path / "run")]
    told = CliRunner().invoke(app, ["pay", *files, *settings])
    assert told.exit_code == 0, told.output
    theta = read_json(tmp_path / "run" / "threshold.json")["theta"]
    few = ["--only", "copycat", "--providers", "1", "--jobs", "1", "--out", str(tmp_path / "audit")]
    told = CliRunner().invoke(app, ["audit", *files, *few])
    assert told.exit_code == 0, told.output
    assert read_json(tmp_path / "audit" / "audit.json")["evidence"] == f"lineage@{theta}"
    again = CliRunner().invoke(app, ["audit", *files[:3], *few])  # another audit: not the same folder
    assert again.exit_code != 0


def test_an_audit_that_is_taken_up_again_knows_the_reference(tmp_path):
    held, columns = sample(FEW, 1), {name: np.array(column) for name, column in submitted().items()}
    state = market_state(Submission(**columns), held["features"], held["label"])
    said = []
    for seed in (2, 7):
        other = sample(MANY, seed)
        oracle = UtilityOracle(
            held["features"], held["label"], KNN,
            reference=ReferenceRows(other["features"], other["label"]),
        )  # fmt: skip
        where = tmp_path / str(seed)
        audit(state, get_mechanism("recommended"), oracle, only="junk_padding", providers=1, out=where)
        said.append(read_json(where / "manifest.json")["digest"])
    assert said[0] != said[1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda held: {"label": held["label"][:99], "features": held["features"][:99]}, "99 different reference rows"),
        (lambda held: {**held, "features": held["features"][:, 1:]}, "39 in the reference rows"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_reference_is_said(change, words, tmp_path):
    there = with_reference(tmp_path, reference=change(REFERENCE))
    if "99" in words:
        assert words in chosen(there).why
        return
    with pytest.raises(SubmissionError, match=words):
        chosen(there)


def test_submissions_are_no_reference_for_themselves(places, tmp_path):
    same = shutil.copy(places.submissions, tmp_path / "copy.parquet")
    with pytest.raises(SubmissionError, match="would decide what counts as one"):
        read_inputs(replace(places, reference=same), spec())
    with pytest.raises(
        SubmissionError, match=r"reference features have shape \(3, 2\) and labels \(2,\)"
    ):
        ReferenceRows(np.zeros((3, 2)), np.zeros(2))


def test_a_reference_needs_no_labels(tmp_path):
    """It is measured without classes then; with labels in both other tables these count as they did."""
    there = with_reference(tmp_path, reference={"features": REFERENCE["features"]})
    inputs = read_inputs(there, spec())
    assert inputs.labelled
    assert inputs.reference.label.tolist() == [""] * len(REFERENCE["features"])
    assert chosen(there).cost is not None
