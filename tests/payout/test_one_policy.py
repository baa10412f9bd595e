"""One policy for the threshold of `recommended`: Python, experiments, audits and payout runs settle it alike."""

import warnings
from dataclasses import dataclass

import numpy as np
import pyarrow.parquet as pq
import pytest
from payout_files import run, spec, warned, write
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from datamarket_gym import (
    CollapsedMarketWarning,
    Metrics,
    Submission,
    UndatedMarketWarning,
    Utility,
    UtilityOracle,
    create,
    get_mechanism,
    registry,
)
from datamarket_gym.analysis.redteam import audit, market_state
from datamarket_gym.analysis.redteam.attack_grid import feature_scale
from datamarket_gym.cli.app import app
from datamarket_gym.evidence import threshold as choice
from datamarket_gym.evidence.graph import describe_missing_times
from datamarket_gym.execution.files import read_json
from datamarket_gym.experiments import ExperimentSpec, run_experiment
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks import Dataset, Task, TaskDraw
from datamarket_gym.mechanism import resolve_threshold
from datamarket_gym.payout.inputs import read_inputs
from datamarket_gym.payout.warnings import read_warnings

UNITS, HELD, SELLERS = 400, 300, 8
KNN = Utility("knn@5", "chance")
FIXED = "recommended/hybrid_hash_cosine@0.9"


def digits():
    """Scikit-learn's digits as raw pixels: any two are alike, whoever wrote them."""
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))[: UNITS + HELD]
    return data.data[order], data.target[order]


@pytest.fixture(scope="module")
def tables():
    pixels, label = digits()
    submitted = {
        "id": [f"u{i}" for i in range(UNITS)],
        "identity": [f"seller {i % SELLERS}" for i in range(UNITS)],
        "label": label[:UNITS],
        "features": pixels[:UNITS],
    }
    return submitted, {"label": label[UNITS:], "features": pixels[UNITS:]}


@pytest.fixture(scope="module")
def market(tables):
    """The same in memory: a submission and a utility."""
    submitted, held = tables
    columns = {name: np.array(column) for name, column in submitted.items()}
    return Submission(**columns), UtilityOracle(held["features"], held["label"], KNN)


@dataclass(frozen=True)
class DigitsTask(Task):
    """The digits dealt to sellers."""

    def draw(self, seed):
        pixels, label = digits()
        parts = [np.arange(i, UNITS, SELLERS) for i in range(SELLERS)]
        held = slice(UNITS, None)
        return TaskDraw(
            Dataset("digits", pixels[:UNITS], label[:UNITS], pixels[held], label[held]), parts
        )


@pytest.fixture
def task():
    registry.register("task", "digits_of_pixels")(DigitsTask)
    yield "digits_of_pixels"
    del registry._components["task"]["digits_of_pixels"]


def said_by(command, places, out, *options):
    """What a command prints about these files."""
    files = [str(places.submissions), "--validation", str(places.validation), "--out", str(out)]
    told = CliRunner().invoke(app, [command, *files, *options])
    assert told.exit_code == 0, told.output
    return told


def experiment(task, name):
    return ExperimentSpec(
        name="mine",
        title="Mine",
        seeds=2,
        tasks=[{"task": task}],
        utilities=[{"learner": "knn@5", "empty": "chance"}],
        attacks=["honest", "exact_dup_2x_sybils"],
        mechanisms=[{"name": name}],
    )


def test_python_does_not_merge_what_the_price_refuses(market):
    submission, oracle = market
    with warnings.catch_warnings():
        warnings.simplefilter("error", CollapsedMarketWarning)
        paid = get_mechanism("recommended").pay(submission, oracle)
    assert paid.threshold.evidence == "lineage@0.99"  # raw pixels: strangers reach 0.98
    exact = get_mechanism("recommended", evidence="lineage@none").pay(submission, oracle)
    assert exact.threshold is None
    shares = [np.array(list(p.as_dict().values())) / p.grand_value for p in (paid, exact)]
    assert np.abs(shares[0] - shares[1]).sum() / 2 <= 0.01
    assert paid.grand_value > 0.8


def test_audits_and_payout_runs_settle_as_python_does(market, tables, tmp_path):
    submission, oracle = market
    python = get_mechanism("recommended").pay(submission, oracle).threshold
    state = market_state(submission, oracle.features, oracle.label)
    report = audit(state, get_mechanism("recommended"), oracle, providers=1, only="copycat")
    paid = run(tmp_path, *tables, theta="auto")
    said = read_json(paid / "threshold.json")
    assert report.evidence == read_json(paid / "manifest.json")["evidence"]["used"] == python.evidence
    assert report.why == said["why"] == python.why
    assert {name: said[name] for name in python.model_dump()} == python.model_dump(mode="json")
    assert report.warnings == [describe_missing_times(submission)]
    assert warned(paid) == ["undated"]
    assert "copies cannot be told from originals" in read_warnings(paid)[0].words.lower()
    assert all(trial.gain is None or trial.gain < 3 for trial in report.trials)  # it was 28


def test_where_honest_units_are_alike_little_noise_pays_as_the_page_says(task):
    """docs/guarantees.md: theta is then high, so hardly changed thefts are paid."""
    market = ProviderMarket.from_task(create("task", task), 0)
    oracle, recommended = market.utility_oracle(KNN), get_mechanism("recommended")
    honest = recommended.pay(market.honest.submission, oracle)

    def gain(attack):
        profile = create("attack", attack).apply(0, market.state)
        return Metrics.evaluate(recommended.pay(profile.submission, oracle), profile, honest).gain

    def theft(spreads):
        noise = spreads * feature_scale(market.state)
        return gain(f"composite(split=1, copy=0.0, steal=1.0, steal_sigma={noise}, victims=99)")

    assert gain("sybil_split_k@3") == gain("exact_dup_2x_sybils") == theft(0.02) == 1.0
    assert theft(0.3) > 3


def test_experiments_settle_as_python_does(task, tmp_path):
    run_experiment(experiment(task, "recommended"), tmp_path)
    market = ProviderMarket.from_task(create("task", task), 0)
    oracle, honest = market.utility_oracle(KNN), market.honest.submission
    exact = get_mechanism("recommended", evidence="exact_hash").pay(honest, oracle)
    pay = {row["honest_payment"] for row in pq.read_table(tmp_path / "results.parquet").to_pylist()}
    assert pay == {exact.total(["provider_0"])}
    assert read_json(tmp_path / "manifest.json")["warnings"] == []


@pytest.mark.parametrize("separate", [False, True], ids=["features", "embeddings"])
def test_where_a_threshold_is_admitted_it_is_the_same_one(tmp_path, separate):
    rng = np.random.default_rng(1)
    label = np.arange(360) % 3
    vectors = rng.normal(size=(360, 48)) + 2.0 * np.eye(3, 48)[label]
    column = "embedding" if separate else "features"
    both = {"label": label, column: vectors}
    if separate:
        both["features"] = rng.normal(size=(360, 3)) + 3.0 * np.eye(3)[label]
    names = {"id": [f"u{i}" for i in range(120)], "identity": [f"s{i % 4}" for i in range(120)]}
    submitted = {**names, **{name: c[:120] for name, c in both.items()}}
    held = {name: c[120:] for name, c in both.items()}
    said = read_json(run(tmp_path, submitted, held, theta="auto") / "threshold.json")
    assert said["theta"] is not None
    assert said["density"] is not None  # checked on the operator's rows, not on the submissions
    places = write(tmp_path / "in", submitted, held)
    inputs = read_inputs(places, spec())
    python = get_mechanism("recommended").pay(inputs.submission, inputs.utility_oracle(spec())).threshold
    assert (python.theta, python.why) == (said["theta"], said["why"])
    told = said_by("audit", places, tmp_path / "audit", "--only", "copycat", "--providers", "1")
    assert read_json(tmp_path / "audit" / "audit.json")["evidence"] == said["evidence"]
    assert f"Evidence: {said['evidence']}" in told.stdout


def test_without_validation_embeddings_the_submissions_are_not_asked(market):
    """Whoever submits decides what they look like."""
    submission, _ = market
    rng = np.random.default_rng(2)
    label = np.arange(UNITS) % 2
    embedding = rng.normal(size=(UNITS, 48)) + 2.0 * np.eye(2, 48)[label]
    units = Submission(
        submission.id, submission.identity, rng.normal(size=(UNITS, 2)), label, embedding=embedding
    )
    oracle = UtilityOracle(rng.normal(size=(150, 2)), label[:150], KNN)
    settled, found = resolve_threshold(get_mechanism("recommended"), units, oracle)
    assert (found.theta, str(settled.evidence)) == (None, "lineage@none")
    assert "the validation rows have no embeddings" in found.why


def test_neither_names_nor_rows_decide_a_threshold():
    market = ProviderMarket.from_task(create("task", "synthetic"), 0)
    submission, oracle = market.honest.submission, market.utility_oracle(KNN)
    rng = np.random.default_rng(3)
    order, back = rng.permutation(len(submission)), rng.permutation(len(oracle.label))
    renamed = submission.take(order, {"identity": rng.permutation(submission.identity)})
    turned = UtilityOracle(oracle.features[back], oracle.label[back], KNN)
    m = get_mechanism("recommended")
    assert resolve_threshold(m, submission, oracle) == resolve_threshold(m, renamed, turned)
    assert resolve_threshold(m, submission, oracle)[1].theta is not None


def test_the_price_is_measured_once_per_validation_rows_whatever_the_seed(market, monkeypatch):
    submission, oracle = market
    made = []
    measure = choice.false_match_cost
    monkeypatch.setattr(choice, "false_match_cost", lambda *a: (made.append(1), measure(*a))[1])
    choice._measure.cache_clear()
    m = get_mechanism("recommended")
    for seed in range(3):
        fresh = UtilityOracle(oracle.features.copy(), oracle.label, KNN)
        resolve_threshold(m.seeded(seed), submission, fresh)
    assert len(made) == 1
    resolve_threshold(m, submission, UtilityOracle(oracle.features[::2], oracle.label[::2], KNN))
    assert len(made) == 2


def test_splits_move_no_threshold(market):
    submission, oracle = market
    split = submission.take(np.arange(UNITS), {"identity": [f"name {i}" for i in range(UNITS)]})
    m = get_mechanism("recommended")
    assert resolve_threshold(m, submission, oracle) == resolve_threshold(m, split, oracle)


def test_the_command_prints_what_python_takes(market, tables, tmp_path):
    _, held = tables
    np.savez(tmp_path / "held.npz", embeddings=held["features"], labels=held["label"])
    told = CliRunner().invoke(
        app, ["theta", str(tmp_path / "held.npz"), "--json", str(tmp_path / "t.json")]
    )
    assert told.exit_code == 0, told.output
    python = get_mechanism("recommended").pay(*market).threshold
    assert python.density < python.theta  # no crowd lifts it here
    assert f"takes theta {python.theta:g}" in " ".join(told.stdout.split())
    said = read_json(tmp_path / "t.json")["recommended"]
    assert said["cost"] == python.cost.model_dump(mode="json")
    assert said["theta"] == python.theta


def test_a_vector_of_zeros_is_similar_to_its_equals_alone_and_stops_nothing(market):
    submission, oracle = market
    features = submission.features.copy()
    features[:3] = 0.0
    blank = submission.take(
        np.arange(UNITS), {"features": features, "label": np.r_[0, 1, 2, submission.label[3:]]}
    )
    paid = get_mechanism("recommended").pay(blank, oracle)
    assert paid.threshold.theta == get_mechanism("recommended").pay(submission, oracle).threshold.theta
    assert np.bincount(paid.clustering.label)[paid.clustering.label[:3]].tolist() == [3, 3, 3]
    empty = UtilityOracle(np.vstack([oracle.features, features[:1]]), np.r_[oracle.label, 0], KNN)
    assert resolve_threshold(get_mechanism("recommended"), blank, empty)[1].theta == paid.threshold.theta


def test_a_threshold_that_somebody_names_is_kept_and_its_collapse_is_told(market):
    submission, oracle = market
    with pytest.warns(CollapsedMarketWarning) as caught:
        paid = get_mechanism(FIXED).pay(submission, oracle)
    sizes = np.bincount(paid.clustering.label)
    words = str(caught[0].message)
    assert [each.category for each in caught] == [CollapsedMarketWarning, UndatedMarketWarning]
    assert sizes.max() > 300
    assert paid.grand_value < 0.2
    for number in (
        f"{paid.clustering.n_clusters} clusters of {UNITS} different units",
        f"{sizes.max()} units of {SELLERS} of {SELLERS} identities",
        "datamarket theta",
    ):
        assert number in words


def test_classes_that_become_one_unit_each_are_a_collapse():
    rng = np.random.default_rng(0)
    label, held = rng.integers(0, 10, 400), rng.integers(0, 10, 200)
    near = lambda y: 5 * np.eye(10)[y] + 0.4 * rng.normal(size=(len(y), 10))  # noqa: E731
    names = [f"s{i % SELLERS}" for i in range(400)]
    submission = Submission(id=np.arange(400), identity=names, features=near(label), label=label)
    oracle = UtilityOracle(near(held), held, KNN)
    with pytest.warns(CollapsedMarketWarning, match="10 clusters of 400 different units"):
        paid = get_mechanism(FIXED, leak_check="off").pay(submission, oracle)
    assert np.bincount(paid.clustering.label).max() < 100
    assert paid.grand_value < 0.2


def test_crowding_is_a_cosine_and_exceeds_one_by_no_rounding():
    for seed in range(5):
        market = ProviderMarket.from_task(create("task", "synthetic"), seed)
        oracle, submission = market.utility_oracle(KNN), market.honest.submission
        leaked = Submission(
            id=np.arange(len(oracle.label)),
            identity=["attacker"] * len(oracle.label),
            features=oracle.features,
            label=oracle.label,
        )
        found = resolve_threshold(
            get_mechanism("recommended"), Submission.concat([submission, leaked]), oracle
        )[1]
        assert found.density <= 1.0
        assert found.theta == 1.0


@pytest.mark.parametrize(
    ("evidence", "granularity"),
    [
        ("pool", "unit"),
        ("oracle_latent", "unit"),
        ("oracle_source", "unit"),
        ("oracle_latent", "identity"),
    ],
)
def test_what_pools_by_design_is_no_collapse(market, evidence, granularity):
    submission, oracle = market
    state = market_state(submission, oracle.features, oracle.label)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CollapsedMarketWarning)
        m = get_mechanism("shapley", evidence=evidence, granularity=granularity)
        m.pay(submission, oracle, state.honest.truth)


def test_honest_synthetic_markets_do_not_warn_even_at_a_fixed_threshold():
    with warnings.catch_warnings():
        warnings.simplefilter("error", CollapsedMarketWarning)
        for seed in range(5):
            market = ProviderMarket.from_task(create("task", "synthetic"), seed)
            for name in ("recommended", FIXED):
                get_mechanism(name).pay(market.honest.submission, market.utility_oracle(KNN))


def test_an_audit_tells_a_collapse_once_and_advises_no_threshold_that_is_refused(tables, tmp_path):
    places = write(tmp_path, *tables)
    some = (
        "--only",
        "copycat",
        "--providers",
        "1",
        "--checks",
        "0",
    )  # or checks stop it, without a remedy
    told = said_by("audit", places, tmp_path / "audit", "--mechanism", FIXED, *some)
    assert told.output.count("different units") == 1
    report = read_json(tmp_path / "audit" / "audit.json")
    collapse, chains, undated = report["warnings"]
    assert "different units" in collapse
    assert "chains large parts of clusters" in chains
    assert "copies cannot be told from originals" in undated
    remedies = report["findings"][0]["remedies"]
    admissible = {r["title"] for r in remedies if r["admissible"] and "similarity" in r["title"]}
    assert admissible == {"similarity 0.99"}
    assert all(r["admissible"] for r in remedies if not r["title"].startswith("similarity"))
    advice = (tmp_path / "audit" / "audit.md").read_text().lower()
    assert not any(f"stopped by: similarity {t}" in advice for t in ("0.9 ", "0.95", "0.8", "0.7"))


def test_a_payout_run_prints_a_collapse_and_keeps_it(tmp_path):
    rng = np.random.default_rng(4)
    label = np.arange(360) % 2
    vectors = rng.normal(size=(360, 48)) + 2.0 * np.eye(2, 48)[label]
    vectors[:60] = vectors[0] + rng.normal(0, 0.02, (60, 48))  # sellers whose units all look the same
    names = {"id": [f"u{i}" for i in range(120)], "identity": [f"s{i % 4}" for i in range(120)]}
    submitted = {**names, "label": label[:120], "features": vectors[:120]}
    places = write(tmp_path, submitted, {"label": label[120:], "features": vectors[120:]})
    told = said_by("pay", places, tmp_path / "run", "--amount", "100", "--currency", "EUR")
    found = {w.name: w.words for w in read_warnings(tmp_path / "run")}
    warning = found["collapse"]
    assert "holds 60 units of 4 of 4 identities" in warning
    assert (
        "validation rows are not like what was submitted" in warning
    )  # it was checked: no use in checking it
    assert "datamarket theta" not in warning
    assert "(collapse)" in told.stdout
    assert "lineage@" in told.stdout
    assert "holds 60 units" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_experiment_tells_a_collapse_once_per_mechanism(task, tmp_path, jobs, capfd):
    with pytest.warns(CollapsedMarketWarning, match="collapsed in 2 of 2 cells") as caught:
        run_experiment(experiment(task, FIXED), tmp_path, jobs=jobs)
    assert len(caught) == 1
    assert "Collapsed" not in capfd.readouterr().err
    [(kind, name, _)] = read_json(tmp_path / "manifest.json")["warnings"]
    assert (kind, name) == ("CollapsedMarketWarning", FIXED)
