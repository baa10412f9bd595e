"""The page "Market" answers with the library's own numbers, to the last bit, whatever was asked before."""

import json
import random

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra explorer is not installed")

from job_answers import followed

from datamarket_gym import Metrics, ProviderMarket, Utility, create, get_mechanism
from datamarket_gym.analysis.spot_checks import CheckedAttack
from datamarket_gym.analysis.theorems import Checks, Paid, certify
from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.progress import SILENT
from datamarket_gym.explorer.market import answer as answers
from datamarket_gym.explorer.market import cache as counted
from datamarket_gym.explorer.market import cache as kept
from datamarket_gym.explorer.market.answer import MOST, answer
from datamarket_gym.explorer.market.choices import KINDS, choices
from datamarket_gym.explorer.market.request import MarketRequest
from datamarket_gym.explorer.workers import StoppedWork, run_question
from datamarket_gym.market.attacks.base import apply_knowing
from datamarket_gym.market.tasks.real_data import DomainTask
from datamarket_gym.registry import components

THEFT = "composite(split=1, copy=0.0, steal=1.0, steal_sigma=0.7, victims=3)"
SMALL = {"providers": 3, "units": 8, "samples": 8, "checks": 1}


def forget():
    """What earlier questions left in this process is gone."""
    for remembered in (
        kept.market_of, kept._oracle, kept.attacked_by, kept.paid_by, kept.certificate_of, kept._checked_attack,
        answers._graph,
    ):  # fmt: skip
        remembered.cache_clear()


def ask(**question):
    return answer(MarketRequest(**question))


# What is asked, and the same in the library's words: task, utility, attack, mechanism.
SETTINGS = {
    "the default": (
        {},
        (
            "synthetic(n_providers=4, per_provider=40)", ("recommended", "none"), "near_duplicate_2x_sybils",
            "recommended", {},
        ),
    ),
    "an attacker": (
        {"attack": THEFT, "seed": 3},
        ("synthetic(n_providers=4, per_provider=40)", ("recommended", "none"), THEFT, "recommended", {}),
    ),
    "logistic over clusters of names": (
        {"learner": "logistic", "empty": "none", "mechanism": "quotient_shapley", "units": 15},
        (
            "synthetic(n_providers=4, per_provider=15)", ("logistic", "none"), "near_duplicate_2x_sybils",
            "quotient_shapley/cosine@0.99", {},
        ),
    ),
    "parts of one's own": (
        {
            "learner": {"name": "knn", "k": 3}, "evidence": {"name": "cosine", "theta": 0.95}, "semivalue": "banzhaf",
            "allocation": "count_raw", "attack": {"name": "copycat", "sigma": 0.2}, "attacker": 2, "knowledge": 0.6,
            "estimator": "msr", "samples": 10, "units": 8,
        },
        (
            "synthetic(n_providers=4, per_provider=8)", ("knn(k=3)", "chance"), "copycat(sigma=0.2)", "recommended",
            {
                "evidence": "cosine@0.95", "semivalue": "banzhaf", "allocation": "count_raw", "estimator": "msr",
                "samples": 10,
            },
        ),
    ),
    "numbers": (
        {"task": "synthetic_regression", "learner": "knn_regression", "attack": "label_noise@0.5"},
        (
            "synthetic_regression(n_providers=4, per_provider=40)", ("knn_regression", "none"), "label_noise@0.5",
            "recommended", {},
        ),
    ),
    "no labels, nobody first": (
        {"task": "without_labels", "times": "equal", "attack": "exact_dup_2x_sybils", "units": 20},
        (
            "without_labels(of='synthetic(n_providers=4, per_provider=20)')", ("recommended", "none"),
            "exact_dup_2x_sybils", "recommended", {},
        ),
    ),
    "an oracle, and normalised": (
        {
            "mechanism": "quotient_banzhaf", "evidence": "oracle_latent", "normalize": True, "learner": "ridge",
            "units": 12,
        },
        (
            "synthetic(n_providers=4, per_provider=12)", ("ridge", "chance"), "near_duplicate_2x_sybils",
            "quotient_banzhaf/oracle_latent", {"normalize": True},
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("question", SETTINGS)
def test_equals_the_library(question):
    asked, (task, utility, attack, name, changes) = SETTINGS[question]
    seed, provider, knowledge = (
        asked.get("seed", 0),
        asked.get("attacker", 0),
        asked.get("knowledge", 1.0),
    )
    market = ProviderMarket.from_task(task, seed, times=asked.get("times", "given"))
    oracle = market.utility_oracle(Utility(*utility))
    profile = apply_knowing(create("attack", attack), provider, market.state, knowledge)
    found = ask(**asked)
    ours = get_mechanism(name, **changes).seeded(seed)
    for scheme, m in zip(found["schemes"], (get_mechanism("shapley").seeded(seed), ours), strict=True):
        honest, paid = Paid.by(m, market.honest, oracle), Paid.by(m, profile, oracle)
        assert {
            row["provider"]: row["honest"] for row in scheme["providers"]
        } == honest.payments.as_dict()
        assert {
            row["identity"]: row["attacked"] for row in scheme["identities"]
        } == paid.payments.as_dict()
        report = Metrics.evaluate(paid.payments, profile, honest.payments)
        told = scheme["gain"]
        assert told["gain"] == (None if report.near_zero else report.gain)
        assert told["victim_loss_sum"] == (
            None if np.isnan(report.victim_loss_sum) else report.victim_loss_sum
        )
        assert scheme["clusters"] == paid.payments.clustering.n_clusters
    attacker = profile.attacker
    before = honest.payments.total([attacker])
    checked = CheckedAttack(ours, profile, market.honest, oracle, attacker, before, paid.payments)
    expected = checked.expected(Checks())
    assert found["schemes"][1]["checked"]["pay"] == expected.pay
    certificate, told = certify(honest, paid, ours), found["certificate"]
    assert (told["claim"], told["bound"], told["gain"]) == (
        certificate.claim,
        certificate.bound,
        certificate.gain,
    )
    assert told["words"] == certificate.words
    assert told["deterrence"] == expected.deterrence().words
    if certificate.terms is not None:
        terms = certificate.terms
        values = {each["key"]: each["value"] for each in told["terms"]}
        assert values == {
            "allocation": terms.allocation, "escape": terms.escape, "drift": terms.drift,
            "sampling": 2 * terms.n_clusters * terms.eta, "error": terms.error_of_terms,
        }  # fmt: skip
        assert told["normalized"] == terms.normalized


def test_what_was_asked_before_changes_no_bit():
    forget()
    questions = [
        {}, {"attack": THEFT}, {"learner": "ridge", "mechanism": "shapley"}, {"learner": "ridge", "empty": "none"},
        {"checks": 7}, {"times": "none"},
    ]  # fmt: skip
    alone = []
    for question in questions:
        forget()
        alone.append(ask(units=10, samples=4, **question))
    random.Random(0).shuffle(order := list(range(len(questions))) * 2)
    for at in order:
        assert ask(units=10, samples=4, **questions[at]) == alone[at]


def test_a_filled_question_asks_the_same():
    found = ask(
        attack={"name": "copycat", "sigma": 0.5}, evidence={"name": "lineage", "theta": 0.9}, units=10
    )
    again = ask(**found["asked"])
    assert again == found
    assert found["asked"]["attack"] == "copycat(sigma=0.5)"
    assert found["schemes"][1]["changed"] == ["evidence"]
    assert None not in found["asked"].values()


def test_gain_is_told_only_where_it_means_something():
    found = ask(evidence="cosine@-0.9")["schemes"][1]
    assert found["gain"]["gain"] is None
    assert found["checked"]["gain"] is None
    assert "not clearly above zero" in found["gain"]["why"]
    assert found["providers"][0]["honest"] == 0.0


@pytest.mark.parametrize(
    ("question", "what", "market"),
    [
        ({"times": "none"}, "nobody was first", "both"),
        ({"evidence": "cosine@0.1"}, "the market collapsed", "honest"),
        ({"attack": "leak_stuffing"}, "units equal validation rows", "attacked"),
    ],
)
def test_warnings_are_told(question, what, market):
    found = ask(**question)["schemes"][1]["warnings"]
    assert (what, market) in [(each["what"], each["market"]) for each in found]
    assert all(each["words"] for each in found)


def test_units_that_leaked_are_set_aside():
    found = ask(attack="leak_stuffing")
    assert found["graph"]["units"]["cluster"].count(None) == 50


def test_the_threshold_says_why():
    found = ask()["schemes"]
    assert found[0]["threshold"] is None
    told = found[1]["threshold"]["attacked"]
    assert told["evidence"] == f"lineage@{told['theta']}"
    assert "validation rows" in told["why"]


@pytest.mark.parametrize(
    "evidence", ["lineage@auto", "cosine@0.8", "cosine@-0.5", "exact_hash", "none", "pool"]
)
def test_ties_of_the_graph_make_its_clusters(evidence):
    graph = ask(evidence=evidence, attack="exact_dup_2x_sybils")["graph"]
    units, edges = graph["units"], graph["edges"]
    n = len(units["id"])
    group = list(range(n))
    for left, right in zip(edges["left"], edges["right"], strict=True):
        old, new = group[right], group[left]
        group = [new if each == old else each for each in group]
    pairs = set(zip(group, units["cluster"], strict=True))
    assert len(pairs) == len(set(group)) == graph["clusters"]
    assert bool(graph["note"]) == (graph["edges_in_all"] > MOST)
    copies = [at for at, of in enumerate(units["copy_of"]) if of is not None]
    assert len(copies) == 40
    assert [units["genuine"][at] for at in copies] == [False] * 40
    names = [graph["identities"][code] for code in units["identity"]]
    assert {names[at] for at in copies} == {"provider_0~1", "provider_0~2"}


def test_where_nothing_is_proven_it_says_why():
    found = ask(attack="strategic_curation")["certificate"]
    assert not found["certified"]
    assert found["bound"] is None
    assert "cannot be matched one to one" in found["why"]


def every_choice():
    for shown, kind in KINDS.items():
        control = {"representatives": "representative"}.get(shown, kind)
        yield from ((control, name) for name in components(kind))
    yield from (("mechanism", name) for name in components("mechanism"))
    yield from (("granularity", name) for name in ("unit", "batch", "identity"))
    yield from (("leak_check", name) for name in ("off", "drop", "error"))
    yield from (("times", name) for name in ("given", "equal", "none"))
    yield from (("empty", name) for name in ("none", "chance"))


def offered(control, name):
    shown = {kind: shown for shown, kind in KINDS.items()}.get(control, f"{control}s")
    found = choices()
    group = found.get(shown) or found[control]
    return next(each for each in group if each["name"] == name)


def loads_embeddings(control, name):
    return control == "task" and issubclass(components("task")[name], DomainTask)


@pytest.mark.parametrize(
    ("control", "name"),
    [
        pytest.param(*each, marks=[pytest.mark.slow] if loads_embeddings(*each) else [])
        for each in sorted(set(every_choice()))
    ],
)
def test_every_choice_is_answered_or_refused_in_words(control, name):
    if offered(control, name)["available"] and control == "task":
        learner = offered(control, name)["suited"]["learner"]
        kind, said = run_question(
            answer, (MarketRequest(**{**SMALL, "task": name, "learner": learner}),), SILENT
        )
        assert kind == "done", said
        return
    # Models are fitted to names: fits to every unit would take a minute.
    over_names = {"mechanism": "quotient_shapley"} if control == "learner" else {}
    kind, said = run_question(answer, (MarketRequest(**{**SMALL, **over_names, control: name}),), SILENT)
    assert kind in ("done", "failed"), said
    if kind == "failed":
        assert len(said) > 20
    unusable = offered(control, name)
    if "synthetic" in unusable["not_for"] or not unusable["available"]:
        assert kind == "failed"


def drawn(rng, offered):
    """A random question from what is offered, now and then with a value out of range."""
    question = {
        name: rng.choice(
            [
                control["min"],
                control["max"],
                control["default"],
                rng.uniform(control["min"], control["max"]),
            ]
        )
        for name, control in offered["controls"].items()
        if rng.random() < 0.5 and name not in ("samples", "providers", "units")
    }
    question = {
        n: v if offered["controls"][n]["kind"] == "float" else int(v) for n, v in question.items()
    }
    question |= {
        "providers": rng.randint(1, 4),
        "units": rng.choice([1, 2, 5, 12]),
        "samples": rng.choice([1, 4]),
    }
    fields = {
        "tasks": "task", "attacks": "attack", "evidence": "evidence", "representatives": "representative",
        "learners": "learner", "semivalues": "semivalue", "estimators": "estimator", "allocations": "allocation",
    }  # fmt: skip
    for shown, name in fields.items():
        if rng.random() < 0.5:
            question[name] = component(rng, rng.choice(offered[shown]))
    question["mechanism"] = rng.choice(offered["mechanisms"])["name"]
    for name in ("times", "granularity", "leak_check"):
        if rng.random() < 0.3:
            question[name] = rng.choice(offered[name])["name"]
    if rng.random() < 0.2:
        question["normalize"] = rng.random() < 0.5
    return question


def component(rng, choice):
    found = {"name": choice["name"]}
    for parameter in choice["parameters"]:
        if rng.random() < 0.4:
            found[parameter["name"]] = value(rng, parameter)
    return found


def value(rng, parameter):
    if rng.random() < 0.05:
        return rng.choice([-1e9, 1e9, "", "nonsense", True, 0])
    match parameter["kind"]:
        case "bool":
            return rng.random() < 0.5
        case "choice":
            return rng.choice(parameter["choices"])["value"]
        case "text":
            return parameter["default"]
        case kind:
            words = [each["value"] for each in parameter.get("words", [])]
            ends = [parameter["min"], parameter["max"], parameter["default"], *words]
            among = rng.uniform(parameter["min"], parameter["max"])
            return rng.choice([*ends, among if kind == "float" else int(among)])


@pytest.mark.parametrize("seed", range(30))
def test_no_question_is_a_fault(seed, monkeypatch):
    monkeypatch.setattr(counted, "MOST", 300)  # what takes long is refused sooner
    rng = random.Random(seed)
    found = choices()
    found["tasks"] = [
        each for each in found["tasks"] if each["name"].startswith(("synthetic", "without", "diabetes"))
    ]
    question = drawn(rng, found)
    kind, said = run_question(answer, (MarketRequest(**question),), SILENT)
    assert kind in ("done", "failed"), (question, said)
    if kind == "done":
        json.loads(said)


class Heard:
    """Progress that is written down, and may stop the work."""

    def __init__(self, stop=False):
        self.stages, self.counts, self.stop = [], [], stop

    def stage(self, what, unit=""):
        self.stages.append((what, unit))

    def count(self, done, total):
        self.counts.append((done, total))
        if self.stop and done:
            raise StoppedWork("it was stopped")


LONG = {"learner": "ridge", "mechanism": "shapley", "providers": 8, "units": 5, "checks": 0}


def test_long_work_counts_and_can_be_stopped():
    forget()
    with pytest.raises(StoppedWork):
        answer(MarketRequest(**LONG), progress=Heard(stop=True))
    heard = Heard()
    found = answer(MarketRequest(**LONG), progress=heard)
    assert ("paying by Shapley over identities", "coalitions") in heard.stages
    assert any(done >= 128 and total == 256 for done, total in heard.counts)
    forget()
    assert answer(MarketRequest(**LONG)) == found
    again = Heard()
    answer(MarketRequest(**LONG), progress=again)
    assert not again.counts  # all of it is remembered


def test_outcomes_of_checks_are_counted():
    forget()
    heard = Heard()
    answer(
        MarketRequest(units=10, evidence="none", attack="near_duplicate_2x_sybils@1.0"), progress=heard
    )
    assert heard.stages[-2] == ("paying every outcome of the checks", "outcomes")
    # The market in which nobody has failed is paid already.
    assert heard.counts == [(1, 4), (2, 4), (3, 4)]


def test_what_would_not_end_is_refused_in_words():
    with pytest.raises(DataMarketError, match="too long for a page"):
        ask(learner="ridge", estimator="exact", units=5, providers=4)


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(counted, "_CACHED", 100)
    forget()
    for seed in range(20):
        ask(
            seed=seed % 10,
            attack=f"near_duplicate_2x_sybils@{0.01 * seed}",
            units=3,
            learner="ridge",
            mechanism="shapley",
            checks=0,
        )
    for remembered in (
        kept.market_of,
        kept._oracle,
        kept.attacked_by,
        kept.paid_by,
        kept.certificate_of,
    ):
        info = remembered.cache_info()
        assert 0 < info.currsize <= info.maxsize < 20
    for seed in range(10):
        under = MarketRequest(seed=seed, units=3, learner="ridge").filled().priced()
        assert len(kept.oracle_of(under).cache) <= 100
    forget()


def test_over_http(client):
    explorer = client()
    found = explorer.post("/api/market/answer?topic=market", json={"units": 10})
    found = followed(explorer, found)
    assert found.json() == json.loads(json.dumps(ask(units=10)))
    assert explorer.post("/api/market/answer", json={"colour": "red"}).status_code == 422
    refused = followed(explorer, explorer.post("/api/market/answer", json={"evidence": "minhash"}))
    assert refused.status_code == 422
    assert "no column 'text'" in refused.json()["error"]
