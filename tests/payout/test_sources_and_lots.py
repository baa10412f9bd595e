"""Sources count where they were earlier and never outrank the clock; lots are drawn under the beacon."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from payout_files import cents, outputs, payments, run, spec, units, write
from typer.testing import CliRunner

from datamarket_gym import Submission
from datamarket_gym.cli.app import app
from datamarket_gym.errors import ParameterError, SubmissionError
from datamarket_gym.evidence.graph import seniority_ranks
from datamarket_gym.payout.inputs import read_inputs
from datamarket_gym.payout.results import drawn_clusters
from datamarket_gym.payout.stored_inputs import Places
from datamarket_gym.payout.verify import verify

SOURCES = {"columns": {"trusted_source": "source"}}
ATTACKER = slice(60, 66)


def reasons(folder):
    return {row["reason"] for row in pq.read_table(folder / "evidence.parquet").to_pylist()}


def page(folder):
    text = (folder / "report.html").read_text(encoding="utf-8")
    return re.sub(r'<a class="term"[^>]*>|</a>', "", text)  # links to the glossary left out


def test_naming_oneself_as_the_source_outranks_nobody(tmp_path):
    """The attacker's six units, copies of others', name themselves as originals; the others leave it empty."""
    columns = units()
    honest = run(tmp_path / "without", columns)
    columns["source"] = [None] * 60 + columns["id"][ATTACKER]
    found = run(tmp_path / "own", columns, **SOURCES)
    assert payments(found) == payments(honest)
    assert payments(found)["attacker"]["payment"] < payments(found)["attacker"]["without_evidence"]


def originals(columns):
    """The unit that each of the attacker's copies."""
    near = np.abs(columns["features"][ATTACKER, None] - columns["features"][None, :60]).max(axis=2)
    return near.argmin(axis=1)


def test_a_source_that_was_earlier_ties_and_one_that_was_later_says_nothing(tmp_path):
    columns = units()
    source = originals(columns)
    columns["source"] = [None] * 60 + [columns["id"][i] for i in source]
    found = run(tmp_path / "earlier", columns, **SOURCES)
    assert cents(found)["attacker"] == 0  # noisy copies are tied by their source, too
    assert "trusted source" in reasons(found)
    assert "all 6 units that name another as their source descend from it" in page(found)
    aimed = units()
    aimed["source"] = [None] * 66
    for copy, unit in zip(range(60, 66), source, strict=True):
        aimed["source"][unit] = aimed["id"][copy]  # earlier units that name later ones
    aimed["source"][0] = "no unit of this run"
    later = run(tmp_path / "later", aimed, **SOURCES)
    assert payments(later) == payments(run(tmp_path / "none"))
    assert "0 of 7 units that name another as their source descend from it; the others name" in page(
        later
    )


def test_a_payout_run_matches_by_the_column(tmp_path):
    columns = units()
    rng = np.random.default_rng(0)
    features, original = np.array(columns["features"]), originals(columns)
    columns["features"] = np.vstack(
        [features[:60], features[original] + rng.normal(0, 0.3, (6, features.shape[1]))]
    )
    plain = run(tmp_path / "plain", columns)
    assert cents(plain)["attacker"] > 0  # so far changed, the copies are not recognised by content
    columns["watermark"] = [None] * 66
    for copy, unit in zip(range(60, 66), original.tolist(), strict=True):
        columns["watermark"][unit] = columns["watermark"][copy] = f"mark {unit}"
    found = run(tmp_path / "marked", columns, columns={"metadata": "watermark"})
    assert cents(found)["attacker"] == 0
    reasons = pq.read_table(found / "evidence.parquet")["reason"].to_pylist()
    assert reasons.count("same metadata") >= 6
    with pytest.raises(SubmissionError, match="'watermark'"):
        run(tmp_path / "missing", units(), columns={"metadata": "watermark"})


def simultaneous():
    """Copies of slightly other numbers, under another name, that carry the time of their originals."""
    columns = units(copies=0)
    noisy = columns["features"] + np.random.default_rng(3).normal(0, 1e-3, columns["features"].shape)
    return {
        "id": [*columns["id"], *(f"copy {i}" for i in range(60))],
        "identity": [*columns["identity"], *["attacker"] * 60],
        "label": np.tile(columns["label"], 2),
        "time": np.tile(columns["time"], 2),
        "features": np.vstack([columns["features"], noisy]),
    }


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """The same market under two beacons and under none, tied in pairs by the operator's table."""
    import pyarrow as pa

    place = tmp_path_factory.mktemp("drawn")
    pairs = {"id_l": [f"u{i}" for i in range(60)], "id_r": [f"copy {i}" for i in range(60)]}
    pq.write_table(pa.table({**pairs, "probability": [1.0] * 60}), place / "pairs.parquet")
    linkage = {"edges": str(place / "pairs.parquet"), "between": "units"}
    return {
        beacon: run(place / (beacon or "none"), simultaneous(), beacon=beacon, linkage=linkage)
        for beacon in (None, "round 4711", "round 4712")
    }


def owned(folder):
    """The units that the attacker is paid for."""
    rows = pq.read_table(folder / "clusters.parquet").to_pylist()
    return {row["unit"] for row in rows if row["identity"] == "attacker" and row["share"] > 0}


def test_a_beacon_decides_between_units_of_equal_time(drawn):
    won = {beacon: owned(folder) for beacon, folder in drawn.items()}
    assert all(15 < len(units) < 45 for units in won.values())  # a lot for each, about half
    assert len({frozenset(units) for units in won.values()}) == 3
    manifests = {b: json.loads((folder / "manifest.json").read_text()) for b, folder in drawn.items()}
    assert len({m["run"] for m in manifests.values()}) == 3
    assert manifests["round 4711"]["spec"]["beacon"] == "round 4711"
    assert manifests["round 4711"]["mechanism"]["beacon"] == "round 4711"


def test_no_file_of_a_run_tells_what_the_validation_rows_drew(tmp_path):
    """They may be the next run's, too, and whoever knew their digest could vary copies until they win."""
    columns = {**units(), "time": np.zeros(66)}
    place = run(tmp_path, columns, audit=True)
    spent = spec(audit=True)
    inputs = read_inputs(
        Places(tmp_path / "in" / "units.parquet", tmp_path / "in" / "validation.parquet"), spent
    )
    secret = inputs.utility_oracle(spent).secret.encode()
    assert len(secret) == 64
    held = list(place.rglob("*"))
    assert len(held) > 15
    for path in held:
        if path.suffix == ".npz":
            with np.load(path) as arrays:
                assert not any(secret in arrays[name].astype("S").tobytes() for name in arrays.files)
        elif path.is_file():
            assert secret not in path.read_bytes()


def test_names_and_the_order_of_rows_draw_no_lots(drawn, tmp_path):
    columns = simultaneous()
    swapped = {
        **columns,
        "identity": [name.replace("attacker", "another") for name in columns["identity"]],
    }
    pairs = drawn[None].parent.parent / "pairs.parquet"
    linkage = {"edges": str(pairs), "between": "units"}
    found = cents(run(tmp_path, swapped, beacon="round 4711", linkage=linkage))
    assert found["another"] == cents(drawn["round 4711"])["attacker"]


def test_explain_and_the_report_name_the_beacon(drawn):
    for beacon, under in (
        ("round 4711", "the beacon “round 4711”"),
        (None, "a digest of the validation rows"),
    ):
        done = CliRunner().invoke(app, ["explain", str(drawn[beacon]), "--payee", "attacker"])
        assert done.exit_code == 0, done.output
        said = " ".join(done.output.split())
        assert (
            "In 60 of its clusters units of several names carry the same time: who was first was drawn at random "
            f"under {under}." in said
        )
        assert f"drawn at random under {under}" in page(drawn[beacon])


def test_a_lot_decides_between_units_of_two_names_that_are_as_early_and_differ():
    """Tree 0: it does. Tree 1: twins, which share. Tree 2: of one name, or later, so that the clock decides."""
    submission = Submission(
        id=np.array(list("abcdefgh")),
        identity=np.array(["ann", "bob", "ann", "bob", "ann", "ann", "bob", "bob"]),
        features=np.array([[1.0], [2.0], [3.0], [3.0], [5.0], [6.0], [7.0], [8.0]]),
        label=np.zeros(8, dtype=int),
        time=np.array([0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 4.0]),
    )
    label = np.array([0, 0, 1, 1, 2, 2, 2, 3])
    for lot in ("one", "two", "three"):  # whoever wins
        results = SimpleNamespace(
            inputs=SimpleNamespace(submission=submission, owner=submission.identity_codes),
            payments=SimpleNamespace(clustering=SimpleNamespace(label=label, tie_breaker=lot)),
            rank=seniority_ranks(submission, lot),
        )
        assert drawn_clusters(results).tolist() == [0]


def test_recomputing_uses_the_beacon(drawn):
    assert [check.what for check in verify(drawn["round 4711"], recompute=True) if not check.good] == []


def test_the_flag_is_the_setting(tmp_path):
    places = write(tmp_path, units())
    files = [
        str(places.submissions),
        "--validation",
        str(places.validation),
        "--out",
        str(tmp_path / "run"),
    ]
    words = [
        "--amount",
        "1000.00",
        "--utility",
        "coverage",
        "--theta",
        "none",
        "--no-audit",
        "--checks",
        "0",
        "--beacon",
        "round 4711",
    ]
    done = CliRunner().invoke(app, ["pay", *files, *words])
    assert done.exit_code == 0, done.output
    assert outputs(tmp_path / "run") == outputs(run(tmp_path / "same", beacon="round 4711"))


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_beacon_is_an_error_and_not_a_run_without_one(blank):
    """Somebody announced a text, and the variable that should hold it was empty."""
    with pytest.raises(ParameterError, match="write it as plain text"):
        spec(beacon=blank)


def test_a_beacon_that_no_file_can_hold_is_an_error_in_words():
    with pytest.raises(ParameterError, match="write it as plain text"):
        spec(beacon="round \udcff")
