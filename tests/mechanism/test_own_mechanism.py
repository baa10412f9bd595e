"""A mechanism of one's own: any object with pay(submission, utility), wherever mechanisms are used."""

import json
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from datamarket_gym import Metrics, PaidTotals, Payer, create, get_mechanism, register, registry
from datamarket_gym.analysis.redteam import AttackCosts, Target, audit, best_response
from datamarket_gym.cli.app import app
from datamarket_gym.data import write_submission
from datamarket_gym.errors import DataMarketError, ParameterError, UnknownNameError
from datamarket_gym.experiments import parse_spec, run_experiment
from datamarket_gym.mechanism import Payments, as_mechanism
from datamarket_gym.registry import written
from datamarket_gym.testing import ConformanceError, validate_mechanism
from datamarket_gym.utilities.oracle import Utility

KNN = Utility("knn@3", "chance")


@dataclass(frozen=True)
class ByCount:
    """A fixed price for every unit, up to a limit."""

    price: float = 0.01
    limit: int = 1000

    def pay(self, submission, utility):
        counts = np.bincount(submission.identity_codes)
        return dict(
            zip(submission.identities.tolist(), self.price * np.minimum(counts, self.limit), strict=True)
        )


class Flat:
    """One to everybody."""

    def pay(self, submission, utility):
        return dict.fromkeys(submission.identities.tolist(), 1)


@dataclass(frozen=True)
class Seeded:
    seed: int = 0

    def pay(self, submission, utility):
        return dict.fromkeys(submission.identities.tolist(), float(1 + self.seed))


class Omniscient:
    def pay(self, submission, utility, oracle):
        owners = len(set(oracle.owner.tolist()))
        return dict.fromkeys(submission.identities.tolist(), 1.0 / owners)


class Delegates:
    def pay(self, submission, utility):
        return get_mechanism("shapley").pay(submission, utility)


@pytest.fixture(autouse=True)
def registered():
    register("mechanism", "by_count")(ByCount)
    register("mechanism", "flat")(Flat())
    register("mechanism", "seeded")(Seeded)
    yield
    for name in ("by_count", "flat", "seeded"):
        del registry._components["mechanism"][name]


def test_it_is_created_from_what_is_written():
    assert create("mechanism", "by_count@0.5") == ByCount(0.5)
    assert create("mechanism", {"name": "by_count", "limit": 3}) == ByCount(limit=3)
    assert create("mechanism", "flat") is create("mechanism", "flat")
    assert [written(m) for m in (ByCount(), ByCount(0.5), create("mechanism", "flat"))] == [
        "by_count", "by_count@0.5", "flat",
    ]  # fmt: skip
    passed = ByCount()
    assert create("mechanism", passed) is passed
    assert isinstance(passed, Payer)


def test_errors_name_the_mechanism_and_the_remedy():
    with pytest.raises(
        UnknownNameError, match="parameter of mechanism by_count 'prize'; did you mean price"
    ):
        create("mechanism", "by_count(prize=1)")
    with pytest.raises(ParameterError, match="mechanism flat = 'flat@3': it takes no parameters"):
        create("mechanism", "flat@3")
    with pytest.raises(ParameterError, match=r"make it with create\('mechanism', 'by_count'\)"):
        get_mechanism("by_count")
    with pytest.raises(ParameterError, match=r"pass an instance, as ByCount\(...\)"):
        create("mechanism", ByCount)
    with pytest.raises(UnknownNameError, match="unknown mechanism 'by_cunt'; did you mean by_count"):
        create("mechanism", "by_cunt")


def test_a_registered_class_that_cannot_pay_is_refused_when_it_is_made():
    class Mute:
        pass

    register("mechanism", "mute")(Mute)
    try:
        with pytest.raises(ParameterError, match=r"mechanism mute = 'Mute': pass an object with pay"):
            create("mechanism", "mute")
    finally:
        del registry._components["mechanism"]["mute"]


def test_looking_at_payments_trains_nothing(market):
    class NoOracle:
        def __getattr__(self, name):
            raise AssertionError(name)

    paid = as_mechanism(ByCount()).pay(market.honest.submission, NoOracle())
    assert "4 identities" in repr(paid)
    assert paid.to_arrow().num_rows == 4


def answering(answer):
    class Answering:
        def pay(self, submission, utility):
            return answer(submission.identities.tolist())

    return as_mechanism(Answering())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda names: None, "mechanism Answering paid with a NoneType; return a mapping"),
        (lambda names: [1.0] * len(names), "paid with a list; return a mapping from identity to amount"),
        (lambda names: dict.fromkeys(names[1:], 1.0), "no amount for identity 'provider_0'; pay it 0.0"),
        (lambda names: {**dict.fromkeys(names, 1.0), "zoe": 2.0}, "pays 'zoe', who submitted nothing"),
        (
            lambda names: {**dict.fromkeys(names, 1.0), "provider_2": np.nan},
            "pays identity 'provider_2' nan",
        ),
        (lambda names: dict.fromkeys(names, "1"), "pays identity 'provider_0' '1'; pay a finite number"),
        (lambda names: dict.fromkeys(names, True), "pays identity 'provider_0' True; pay a finite"),
    ],
)
def test_what_is_no_payment_is_refused_by_name(market, answer, words):
    with pytest.raises(DataMarketError, match=words):
        answering(answer).pay(market.honest.submission, market.utility_oracle(KNN))


@pytest.mark.parametrize("kind", [ByCount, object(), 3])
def test_what_cannot_pay_is_no_mechanism(kind):
    with pytest.raises(ParameterError, match=r"pass an object with pay\(submission, utility\)"):
        as_mechanism(kind)


def test_a_pay_that_takes_other_things_is_refused_before_it_is_called():
    class Odd:
        def pay(self, units):
            return {}

    with pytest.raises(ParameterError, match=r"let it take \(submission, utility\)"):
        as_mechanism(Odd())


class Deduplicates:
    """Shapley over what is left of each identity when copies are dropped."""

    def pay(self, submission, utility):
        once = np.unique(submission.keys, return_index=True)[1]
        return get_mechanism("shapley").pay(submission.take(once), utility)


def test_payments_on_other_units_count_by_their_amounts(market):
    oracle = market.utility_oracle(KNN)
    copied = create("attack", "exact_dup_2x_sybils").apply(0, market.state)
    found = as_mechanism(Deduplicates())
    with pytest.raises(DataMarketError, match="has no amount for identity 'provider_0"):
        found.pay(copied.submission, oracle)  # names that are left with nothing
    turned = market.honest.submission.take(np.arange(len(market.honest.submission))[::-1])
    paid = found.pay(turned, oracle)
    assert paid.as_dict() == get_mechanism("shapley").pay(turned, oracle).as_dict()
    assert not isinstance(paid, Payments)


def test_amounts_become_paid_totals(market):
    submission, oracle = market.honest.submission, market.utility_oracle(KNN)
    ours = as_mechanism(Delegates()).pay(submission, oracle)
    assert ours.as_dict() == get_mechanism("shapley").pay(submission, oracle).as_dict()
    paid = as_mechanism(ByCount(0.5)).pay(submission, oracle)
    assert isinstance(paid, PaidTotals)
    assert paid.as_dict() == {f"provider_{i}": 6.0 for i in range(4)}
    assert paid.total(["provider_1", "provider_3"]) == 12.0
    # v(all) of what was submitted, as our pipeline has it where every unit stays
    assert paid.grand_value == get_mechanism("shapley").pay(submission, oracle).grand_value
    assert "4 identities" in repr(paid)
    assert paid.to_arrow().column_names == ["identity", "amount", "share"]


def test_the_truth_is_shown_to_those_who_ask_for_it_alone(market):
    honest, oracle = market.honest, market.utility_oracle(KNN)
    assert not as_mechanism(ByCount()).asks_oracle
    paid = as_mechanism(Omniscient()).pay(honest.submission, oracle, honest.truth)
    assert set(paid.as_dict().values()) == {0.25}


def test_gains_are_measured_and_what_needs_clusters_is_not_a_number(market):
    m, oracle = as_mechanism(ByCount()), market.utility_oracle(KNN)
    profile = create("attack", "exact_dup_2x_sybils").apply(0, market.state)
    honest = m.pay(market.honest.submission, oracle)
    report = Metrics.evaluate(m.pay(profile.submission, oracle), profile, honest)
    names = profile.identities_of("provider_0")
    units = np.isin(profile.submission.identity, names).sum()
    assert report.gain == pytest.approx(units / 12)
    assert report.utility > 0
    assert np.isnan(
        [report.mixed_components, report.clusters, report.evaluations, report.oracle_l1]
    ).all()


SPEC = """
name = "mine"
title = "Prices against Shapley"
seeds = 2
attacks = ["honest", "exact_dup_2x_sybils"]
[[tasks]]
task = "synthetic(n_providers=3, per_provider=10, validation=40)"
[[utilities]]
learner = "knn"
empty = "chance"
[[mechanisms]]
name = "by_count@{price}"
label = "by count"
sweep.price = [0.01, 0.5]
[[mechanisms]]
name = "by_count"
changes.limit = 5
label = "capped"
[[mechanisms]]
name = "shapley"
[[mechanisms]]
name = "seeded"
"""


@pytest.mark.parametrize("jobs", [1, 2])
def test_it_runs_in_experiments_beside_ours(tmp_path, jobs):
    rows = run_experiment(parse_spec(SPEC, "mine.toml"), tmp_path / "run", jobs=jobs)
    gains = {
        (row["mechanism"], row.get("price")): row["value"]
        for row in rows
        if row["metric"] == "gain" and row["attack"] == "exact_dup_2x_sybils"
    }
    assert gains["by count", 0.01] == gains["by count", 0.5] == pytest.approx(2.0)
    assert gains["capped", None] == pytest.approx(3.0)  # 5 units of each of three names
    assert gains["shapley", None] > 1.0
    measured = {
        row["metric"] for row in rows if row["mechanism"] == "by count" and row["value"] is not None
    }
    assert "utility" in measured
    assert not measured & {"clusters", "mixed_components", "oracle_l1"}
    seeded = [
        r
        for r in pq.read_table(tmp_path / "run" / "results.parquet").to_pylist()
        if r["mechanism"] == "seeded"
    ]
    assert {(r["seed"], r["honest_payment"]) for r in seeded} == {(0, 1.0), (1, 2.0)}
    assert "by count" in (tmp_path / "run" / "table.md").read_text()


@pytest.mark.parametrize(
    ("kind", "options"), [("budget", {"estimators": ["permutation"], "samples": [8]}), ("negative", {})]
)
def test_experiments_that_change_the_parts_of_a_mechanism_say_so(tmp_path, kind, options):
    spec = parse_spec(SPEC, "mine.toml").model_copy(update={"kind": kind, "options": options})
    with pytest.raises(
        DataMarketError, match=f"of kind '{kind}' change the parts .* by count is one of its own"
    ):
        run_experiment(spec, tmp_path / "run")


def test_fairness_is_measured_where_there_are_clusters(tmp_path):
    spec = parse_spec(SPEC, "mine.toml").model_copy(update={"kind": "fairness", "seeds": 1})
    rows = run_experiment(spec, tmp_path / "run")
    measured = {r["mechanism"] for r in rows if r["metric"] == "proxy_broken" and r["value"] is not None}
    assert measured == {"shapley"}


def test_the_best_response_to_it_is_found(tmp_path, market):
    target = Target(market.state, ByCount(), market.utility_oracle(KNN))
    found = best_response(target, AttackCosts(), trials=20, optimiser="scipy")
    assert found.gain > 1.5
    assert target.certificate(found.attack).claim == "none"
    spec = parse_spec(SPEC, "mine.toml").model_copy(
        update={
            "kind": "best_response",
            "seeds": 1,
            "options": {"trials": 4, "costs": [{}]},
            "only": "capped",
        }
    )
    (row,) = [r for r in run_experiment(spec, tmp_path / "run") if r["metric"] == "net_gain"]
    assert row["value"] >= 1.0


def test_it_faces_the_gymnasium_environment():
    pytest.importorskip("gymnasium")
    from datamarket_gym.analysis.redteam.gymnasium_env import AttackEnv

    env = AttackEnv(mechanism_name="by_count@0.02")
    env.reset(seed=0)
    _, reward, done, _, info = env.step(env.action_space.sample())
    assert done
    assert "A" not in info  # no theorem speaks of it
    assert np.isfinite(reward)


def test_it_is_audited_without_certificates_and_remedies(tmp_path, market):
    report = audit(
        market,
        ByCount(),
        market.utility_oracle(KNN),
        providers=1,
        only="sybil_split*,exact_dup*",
        out=tmp_path,
    )
    assert report.label == report.mechanism == "by_count"
    assert report.worst.worst.gain > 1.9
    assert report.worst.remedies == []
    assert "by_count is a mechanism of its own, without clusters" in report.worst.certificate.words
    kept = json.loads((tmp_path / "audit.json").read_text())
    assert kept["mechanism"] == "by_count"
    with pytest.raises(DataMarketError, match="holds another audit"):
        audit(
            market,
            ByCount(2.0),
            market.utility_oracle(KNN),
            providers=1,
            only="sybil_split*",
            out=tmp_path,
        )


def test_it_is_audited_from_the_command_line(tmp_path, market):
    write_submission(market.honest.submission, tmp_path / "units.parquet")
    data = market.dataset
    validation = {"features": data.validation_features.tolist(), "label": data.validation_label}
    pq.write_table(pa.table(validation), tmp_path / "val.parquet")
    done = CliRunner().invoke(
        app,
        ["audit", str(tmp_path / "units.parquet"), "--validation", str(tmp_path / "val.parquet"), "--mechanism",
         "by_count@0.5", "--providers", "1", "--only", "exact_dup*", "--jobs", "1", "--out", str(tmp_path / "a")],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "by_count@0.5" in (tmp_path / "a" / "audit.md").read_text()


@pytest.mark.parametrize("own", [ByCount(), Flat(), Omniscient(), Delegates()])
def test_it_passes_its_checker(own):
    validate_mechanism(own)


def test_the_checker_catches_broken_promises():
    class Random:
        def pay(self, submission, utility):
            return {n: float(np.random.default_rng().random()) for n in submission.identities.tolist()}

    class FirstRow:
        def pay(self, submission, utility):
            return {n: float(n == submission.identity[0]) for n in submission.identities.tolist()}

    class FirstOfEquals:
        def pay(self, submission, utility):
            gap = ((utility.features[:, None] - submission.features[None]) ** 2).sum(axis=2)
            wins = np.bincount(gap.argmin(axis=1), minlength=len(submission))
            amounts = np.bincount(submission.identity_codes, weights=wins)
            return dict(zip(submission.identities.tolist(), amounts.tolist(), strict=True))

    class Vandal:
        def pay(self, submission, utility):
            submission.features[0] = 0.0
            return dict.fromkeys(submission.identities.tolist(), 1.0)

    class Relabels:
        def pay(self, submission, utility):
            submission.label[:] = submission.label[0]
            return dict.fromkeys(submission.identities.tolist(), 1.0)

    class ByName:
        def pay(self, submission, utility):
            return {n: float("~" not in n) for n in submission.identities.tolist()}

    class FirstInTheAlphabet:
        def pay(self, submission, utility):
            return {
                n: float(n == min(submission.identities.tolist()))
                for n in submission.identities.tolist()
            }

    class FirstUnit:
        def pay(self, submission, utility):
            first = submission.identity[np.argsort(submission.id)[0]]
            return {n: float(n == first) for n in submission.identities.tolist()}

    for broken, words in (
        (Random, "paid in two ways"),
        (FirstRow, "order of rows"),
        (FirstOfEquals, "order of rows"),
        (Vandal, "changes the submission: features"),
        (Relabels, "changes the submission: label"),
        (ByName, "what identities or units are called"),
        (FirstInTheAlphabet, "what identities or units are called"),
        (FirstUnit, "what identities or units are called"),
    ):
        with pytest.raises(ConformanceError, match=words):
            validate_mechanism(broken())
    with pytest.raises(DataMarketError, match="paid with a NoneType"):
        validate_mechanism(answering(lambda names: None).payer)


def test_an_installed_package_brings_one_to_the_command_line(tmp_path):
    """What an entry point names is known to ``datamarket run my.toml`` and ``list``, workers included."""
    (tmp_path / "their_market.py").write_text(
        "from dataclasses import dataclass\nfrom datamarket_gym import register\n\n\n"
        "@register('mechanism', 'theirs')\n@dataclass(frozen=True)\nclass Theirs:\n"
        "    '''One to everybody.'''\n\n"
        "    def pay(self, submission, utility):\n"
        "        return dict.fromkeys(submission.identities.tolist(), 1.0)\n"
    )
    info = tmp_path / "their_market-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-market\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[datamarket_gym.plugins]\ntheirs = their_market\n")
    start = SPEC.index("[[mechanisms]]")
    (tmp_path / "my.toml").write_text(SPEC[:start] + '[[mechanisms]]\nname = "theirs"\n')
    path = {"PYTHONPATH": f"{tmp_path}:{':'.join(p for p in sys.path if p)}", "PATH": "/usr/bin:/bin"}

    def datamarket(*words):
        command = [sys.executable, "-c", "from datamarket_gym.cli.app import main; main()", *words]
        return subprocess.run(
            command, capture_output=True, text=True, env=path, cwd=tmp_path, check=False
        )

    assert "One to everybody." in datamarket("list", "mechanism").stdout
    done = datamarket("run", "my.toml", "--jobs", "2", "--out", "run")
    assert done.returncode == 0, done.stderr
    assert "theirs" in (tmp_path / "run" / "table.md").read_text()
