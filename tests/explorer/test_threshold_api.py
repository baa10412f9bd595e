"""What the page of thresholds is told is what the library says."""

import base64
import io

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from PIL import Image
from threshold_files import MARKUP, asked, made_run, picture_run, plain, units_table, vectors

from datamarket_gym.evidence import predict_theta
from datamarket_gym.evidence.admissible_interval import honest_market
from datamarket_gym.evidence.leak_check import LabelledVectors, nearest_others
from datamarket_gym.evidence.threshold import choose_threshold, honest_vectors, measure_threshold
from datamarket_gym.execution.arrays import directions
from datamarket_gym.explorer.threshold import histogram
from datamarket_gym.market.datasets import DOMAINS, Embeddings, find, load_corpus
from datamarket_gym.market.tasks import Synthetic
from datamarket_gym.payout.inputs import read_inputs
from datamarket_gym.payout.manifest import read_manifest, spec_of
from datamarket_gym.payout.settings import checked_spec
from datamarket_gym.payout.stored_inputs import places_of
from datamarket_gym.payout.threshold import recommended, table_rows

SMALL = {"trials": 3, "per_provider": 20}
HASH = ("created", "sha256", "alike", "copies", "classes")


def synthetic():
    data = Synthetic().draw(0).dataset
    return data.features, data.label


def shares(similarities, found):
    """Counts of the histogram's bins, worked out one by one."""
    start, step = found["start"], found["step"]
    return [
        float(
            np.mean(
                (similarities >= start + i * step - 1e-9)
                & (similarities < start + (i + 1) * step - 1e-9)
            )
        )
        for i in range(len(found["shares"]))
    ]


def test_the_check_is_the_librarys(lasting_client):
    features, label = synthetic()
    options = {"partition": "iid", "providers": 3, "seed": 5, "cutoff": 0.2, **SMALL}
    found = asked(lasting_client(), "check", source="synthetic", check=options).json()
    wanted = predict_theta(
        features, label, partition="iid", n_providers=3, per_provider=20, trials=3, cutoff=0.2, seed=5
    )
    said = plain(wanted.as_dict())
    for name in said.keys() - set(HASH):
        assert found[name] == said[name], name
    assert found["classes"]
    assert shares(wanted.alike, found["alike"]) == pytest.approx(found["alike"]["shares"], abs=2e-5)
    assert found["copies"]["count"] == len(wanted.copies)


def test_an_empty_partition_is_the_tasks_own(lasting_client):
    found = asked(lasting_client(), "check", source="synthetic", check=SMALL).json()
    assert found["partition"] == Synthetic().partition


def test_the_policy_is_the_librarys(lasting_client):
    features, label = synthetic()
    found = asked(lasting_client(), "policy", source="synthetic").json()
    wanted = choose_threshold(LabelledVectors(features, label), None)
    assert {name: found[name] for name in ("theta", "why", "evidence")} == {
        "theta": wanted.theta, "why": wanted.why, "evidence": wanted.evidence,
    }  # fmt: skip
    assert found["cost"] == plain(wanted.cost.model_dump())
    assert f"takes theta {wanted.theta:g}" in found["words"]


def test_rows_come_with_their_forest_and_nearest_others(lasting_client):
    features, label = synthetic()
    found = asked(lasting_client(), "rows", source="synthetic").json()
    assert found["rows"] == found["of"] == len(features)
    assert found["place"] == list(range(len(features)))
    assert len(found["score"]) == len(features) - 1
    unit = directions(features)
    exact = np.einsum("ij,ij->i", unit[found["left"]], unit[found["right"]])
    assert found["score"] == pytest.approx(exact.tolist(), abs=1e-12)
    assert found["nearest"] == plain(histogram(nearest_others(unit)))
    assert [found["labels"][code] for code in found["label"]] == [f"class {each}" for each in label]
    assert found["owner"] is None


def test_a_simulated_market_is_the_first_of_the_check(lasting_client):
    features, label = synthetic()
    market = {
        "shown": "market",
        "partition": "class_stratified",
        "providers": 3,
        "per_provider": 15,
        "seed": 2,
    }
    found = asked(lasting_client(), "rows", source="synthetic", market=market).json()
    dealt = honest_market(Embeddings(features, label), "class_stratified", 3, 15, 2)
    assert found["place"] == np.concatenate(dealt).tolist()
    assert found["owner"] == np.repeat([0, 1, 2], 15).tolist()
    large = asked(lasting_client(), "rows", source="synthetic", market=market | {"per_provider": 1000})
    assert large.status_code == 422
    assert "at most 2,000 units" in large.json()["error"]


def uploaded(client, table, name="my.csv"):
    out = io.BytesIO()
    if name.endswith(".csv"):
        pyarrow.csv.write_csv(table, out)
    else:
        pyarrow.parquet.write_table(table, out)
    kept = client.post(
        "/api/uploads", params={"name": name}, content=out.getvalue(),
        headers={"content-type": "application/octet-stream"},
    )  # fmt: skip
    return f"upload:{kept.json()['id']}"


def test_a_table_is_read_as_theta_reads_it(lasting_client):
    ours = lasting_client()
    source = uploaded(ours, units_table(), "my.parquet")
    columns = {"label": "label", "features": "features"}
    found = asked(ours, "check", source=source, columns=columns, check=SMALL).json()
    path = ours.site.places.uploads.get(source.removeprefix("upload:")).path
    rows = table_rows(path, checked_spec({"amount": "1", "columns": columns}))
    said = plain(predict_theta(rows, **SMALL).as_dict())
    for name in said.keys() - set(HASH):
        assert found[name] == said[name], name
    taken = asked(ours, "policy", source=source, columns=columns).json()
    assert taken["theta"] == recommended(rows).theta
    shown = asked(ours, "rows", source=source, columns=columns).json()
    assert shown["owners"] == sorted({*(f"seller {i}" for i in range(4)), MARKUP})
    texts = asked(ours, "contents", source=source, columns=columns, rows=[3, 95]).json()["contents"]
    assert [each["text"] for each in texts] == [f"unit {i} says {MARKUP}" for i in (3, 95)]
    choices = ours.get("/api/threshold/choices").json()
    assert {"value": source, "label": "my.parquet", "group": "Uploaded tables"} in choices["sources"]


def test_columns_that_are_not_there_are_named(lasting_client):
    ours = lasting_client()
    label, numbers = vectors(30, 0)
    source = uploaded(ours, pa.table({"kind": label, **{f"x_{i}": numbers[:, i] for i in range(6)}}))
    wrong = asked(ours, "rows", source=source)
    assert wrong.status_code == 422
    assert "no column 'embedding' (or 'features')" in wrong.json()["error"]
    right = asked(ours, "rows", source=source, columns={"embedding": "x", "label": "kind"}).json()
    assert (right["rows"], right["labels"]) == (30, ["class 0", "class 1", "class 2"])


@pytest.fixture(scope="module")
def paid(tmp_path_factory):
    return made_run(tmp_path_factory.mktemp("market") / "june")


def test_a_runs_rows_are_those_it_was_paid_by(lasting_client, paid):
    ours = lasting_client(paid.parent)
    sources = [each["value"] for each in ours.get("/api/threshold/choices").json()["sources"]]
    assert [each for each in sources if each.startswith("run:")] == [
        f"run:june/run:{part}" for part in ("validation", "reference", "submissions")
    ]
    manifest, places = read_manifest(paid), places_of(paid)
    spec = spec_of(manifest)
    inputs = read_inputs(places, spec)
    utility = inputs.utility_oracle(spec)
    held = asked(ours, "policy", source="run:june/run:reference").json()
    honest = honest_vectors(inputs.submission, utility)
    assert held["theta"] == choose_threshold(honest, None, measured_on="reference").theta
    assert held["measured_on"] == "reference"
    units = asked(ours, "policy", source="run:june/run:submissions").json()
    wanted = measure_threshold(inputs.submission, utility)
    assert (units["theta"], units["density"]) == (wanted.theta, wanted.density)
    shown = asked(ours, "rows", source="run:june/run:submissions").json()
    assert shown["evidence"] == manifest["evidence"]["used"] == wanted.evidence
    assert [shown["owners"][code] for code in shown["owner"]] == [
        inputs.identities[code] for code in inputs.owner
    ]
    assert (
        asked(ours, "contents", source="run:june/run:submissions", rows=[5]).json()["contents"][0][
            "name"
        ]
        == "u5"
    )
    validation = asked(ours, "rows", source="run:june/run:validation").json()
    assert (validation["rows"], validation["owner"]) == (60, None)


def test_files_of_a_run_outside_of_what_was_named_are_not_read(lasting_client, tmp_path):
    run = made_run(tmp_path / "named", inputs=tmp_path / "elsewhere")
    ours = lasting_client(run.parent)
    for part in ("validation", "reference", "submissions"):
        refused = asked(ours, "rows", source=f"run:named/run:{part}")
        assert refused.status_code == 403
        assert "lies outside of what the explorer was told to show" in refused.json()["error"]
    both = lasting_client(run.parent, tmp_path / "elsewhere")
    assert asked(both, "rows", source="run:named/run:submissions").status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("rows", {"source": "/etc/passwd"}, "choose synthetic"),
        ("rows", {"source": "run:../x:validation"}, "there is no payout run"),
        ("rows", {"source": "run:june:secrets"}, "name a part of the run"),
        ("rows", {"source": "upload:../../etc"}, "upload it again"),
        ("check", {"check": {"trials": 10**6}}, "less than or equal to 300"),
        ("check", {"check": {"variants": "nonsense"}}, "nonsense"),
        ("check", {"check": {"partition": "identities"}}, "needs a column 'identity'"),
        ("contents", {"rows": list(range(17))}, "at most 16"),
        ("contents", {"rows": [10**9]}, "there are 1920 rows"),
    ],
)
def test_what_cannot_be_is_refused_in_words(lasting_client, path, body, said):
    refused = asked(lasting_client(), path, **body)
    assert refused.status_code in (404, 422)
    assert said in refused.json()["error"]


def pixels(found):
    """Of a file's bytes, or of a picture within an answer."""
    data = base64.b64decode(found.partition(",")[2]) if isinstance(found, str) else found
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def test_pictures_of_a_run_are_those_of_its_rows(lasting_client, tmp_path):
    run = picture_run(tmp_path / "pictures")
    ours = lasting_client(run.parent)
    files = sorted((run.parent / "held").rglob("*.png"))
    for part in ("submissions", "validation"):
        source = f"run:pictures/run:{part}"
        rows = asked(ours, "rows", source=source).json()
        assert rows["rows"] == 24
        for each in asked(ours, "contents", source=source, rows=[0, 7, 23]).json()["contents"]:
            if part == "submissions":
                file = run.parent / "units" / each["name"]
                assert rows["owners"][rows["owner"][each["row"]]] == file.parts[-3]
            else:
                file = files[int(each["name"].removeprefix("validation row "))]
            assert np.array_equal(pixels(each["image"]), pixels(file.read_bytes()))
            assert each["label"] == file.parent.name
            assert rows["labels"][rows["label"][each["row"]]] == file.parent.name


@pytest.mark.skipif(find("cifar10_resnet18.npz") is None, reason="CIFAR-10 is not in the data folders")
def test_pictures_of_a_domain_are_those_of_its_file(lasting_client):
    found = asked(lasting_client(), "contents", source="cifar10", rows=[7]).json()["contents"][0]
    corpus = load_corpus("cifar10")
    place = int(np.flatnonzero(corpus.train)[7])
    assert np.array_equal(pixels(found["image"]), pixels(corpus.content[place]))
    assert found["label"] == DOMAINS["cifar10"].classes[corpus.label[place]]
