"""Every public object is one screen at a prompt and has an HTML form: live samples of all public classes."""

import dataclasses
import importlib
import inspect
import warnings
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from ledger_files import HandBook, file_ledger
from payout_files import run as pay_run
from payout_files import spec, write
from sklearn.svm import SVC

import datamarket_gym
from component_samples import GAMES, made
from datamarket_gym import (
    Allocator,
    ProviderMarket,
    ReferenceRows,
    Synthetic,
    Utility,
    UtilityOracle,
    evaluate,
    get_mechanism,
    registry,
    utility,
    value,
)
from datamarket_gym.analysis import theorems as guarantees
from datamarket_gym.analysis.metrics import Metrics
from datamarket_gym.analysis.redteam import (
    AuditReport,
    Space,
    StageGame,
    Target,
    audit,
    best_response,
    best_response_dynamics,
)
from datamarket_gym.analysis.redteam.best_response import Effort
from datamarket_gym.analysis.spot_checks import checked_attack
from datamarket_gym.analysis.theorems.bounds import eta_of
from datamarket_gym.analysis.theorems.deterrence import Earned, deterrence
from datamarket_gym.analysis.theorems.stability import quotient_stability
from datamarket_gym.display import Screen, Shown
from datamarket_gym.errors import DataMarketError
from datamarket_gym.evidence import EvidenceGraph, View, predict_theta
from datamarket_gym.evidence.leak_check import ValidationContent
from datamarket_gym.execution.parallel import Compute
from datamarket_gym.games import Exact
from datamarket_gym.games.game import CoalitionCache
from datamarket_gym.market.attacks import Block, MultiAttackerGame
from datamarket_gym.market.attacks.base import Own
from datamarket_gym.market.datasets import DOMAINS, Corpus, Embeddings
from datamarket_gym.market.encoders import stored
from datamarket_gym.mechanism import (
    Provenance,
    QuotientGame,
    Valuator,
    acquired_from,
    represent_clusters,
)
from datamarket_gym.mechanism.own_mechanism import OwnMechanism
from datamarket_gym.payout import Currency, account_statement, open_ledger, verify_ledger
from datamarket_gym.payout.explain import explain
from datamarket_gym.payout.intake import enter_batch, read_arrivals
from datamarket_gym.payout.ledger.store import add_checkpoint
from datamarket_gym.registry import HOMES, components, create
from datamarket_gym.utilities import TrainingRows, ValidationRows
from datamarket_gym.utilities.imported_scores import read_scores
from datamarket_gym.utilities.knn import NearestNeighbourGame
from datamarket_gym.utilities.logistic.classifier import StackedLogisticScorer
from datamarket_gym.utilities.sklearn import SklearnEstimator

ROOT = Path(datamarket_gym.__file__).parent
NO_INSTANCES = {EvidenceGraph, Metrics, datamarket_gym.Payer}  # functions under one name, and a protocol
LINES, COLUMNS = 20, 100


def public_classes():
    """Every class in an ``__all__``, but exceptions and warnings."""
    found = set()
    for path in sorted(ROOT.rglob("__init__.py")):
        module = importlib.import_module(
            ".".join(("datamarket_gym", *path.parent.relative_to(ROOT).parts))
        )
        names = [
            n
            for n in getattr(module, "__all__", ())
            if n != "ParallelMarketEnv" or find_spec("pettingzoo")
        ]
        found |= {each for name in names if inspect.isclass(each := getattr(module, name))}
    chosen = {each for each in found if not issubclass(each, BaseException)} - NO_INSTANCES
    return sorted(chosen, key=lambda each: f"{each.__module__}.{each.__name__}")


def within(roots):
    """The objects of ours that these hold, at any depth."""
    found, todo = {}, list(roots)
    while todo:
        each = todo.pop()
        if id(each) in found:
            continue
        if isinstance(each, Mapping):
            todo += [*each.values()]
        elif isinstance(each, list | tuple | set | frozenset):
            todo += [*each]
        if type(each).__module__.startswith("datamarket_gym"):
            found[id(each)] = each
            todo += (
                []
                if isinstance(each, tuple)
                else [*vars(each).values()]
                if hasattr(each, "__dict__")
                else [getattr(each, field.name) for field in dataclasses.fields(each)]
            )
    return list(found.values())


def results(market):
    """What markets, mechanisms and the red team answer."""
    state, oracle, knn = market.state, market.utility_oracle(), get_mechanism("shapley")
    honest = state.honest
    checks = guarantees.Checks(2, 0.8)
    lineage = get_mechanism("quotient_shapley/cosine@0.95", granularity="unit")
    attacked = create("attack", "copycat").apply(1, state)
    paid, after = (lineage.pay(each.submission, oracle) for each in (honest, attacked))
    sides = [guarantees.Paid.by(lineage, each, oracle) for each in (honest, attacked)]
    clusters, submission = paid.clustering, honest.submission
    game = QuotientGame(represent_clusters(clusters, knn.representative), oracle)
    target = Target(state, knn, oracle, checks=checks)
    stage = StageGame(state, knn, oracle, [0, 1], checks)
    yield from (market, market.state, oracle, *sides, after, game, target, stage, checks)
    yield from (audit(state, knn, oracle, providers=1, only="copycat,sybil_split_k"),)
    yield from (
        get_mechanism("recommended"),
        get_mechanism("recommended").pay(submission, oracle),
        acquired_from(paid),
    )
    yield guarantees.certify(*sides, lineage)
    yield quotient_stability(*sides)
    yield guarantees.split_gain(create("semivalue", "shapley"), k=3, n=2)
    yield eta_of(paid.scores, after.scores)
    yield guarantees.fairness_bound(honest, get_mechanism("shapley"), oracle)
    comparison = guarantees.Comparison(
        *map(np.array, ([0.6, 0.4], [1.0, 0.0], [0.5, 0.5], [1.0, 0.0], [True, False]))
    )
    yield from (comparison, guarantees.decompose(comparison))
    yield from (Earned.of(paid), deterrence(paid, checks))
    yield checked_attack(knn, attacked, knn.pay(attacked.submission, oracle), honest, 0.2, oracle)
    yield best_response(target, trials=2)
    yield best_response_dynamics(lambda plays: [len(p) for p in plays], ["ab", "ab"])
    yield from (Space.of(state), Effort.of(attacked, state))
    yield Valuator().fit(clusters, oracle)
    yield from (
        Valuator(),
        View(submission, "unit", clusters.label),
        ValidationContent(submission.features),
    )
    provenance = Provenance(submission, clusters, paid.canonical)
    yield from (provenance, create("allocation", "equal_submitted").shares(provenance))
    yield Exact().estimate(game, create("semivalue", "shapley"), 1 << 20, np.random.default_rng(0))
    yield OwnMechanism.of(Equal())
    valued = value(submission.features, submission.label, oracle.features, oracle.label, utility="knn")
    labels = [np.arange(len(each)) % 2 for each in (submission.label, oracle.label)]
    two = (submission.features, labels[0], oracle.features, labels[1])
    yield value(*two, utility="knn").fidelity("knn", halves=10)
    yield from (valued, valued.by_unit(), evaluate("shapley", market, "copycat"), Allocator())
    yield Own("provider_0", submission, honest.truth.owner, np.arange(3), state)
    yield from (Block(0, np.arange(3)), MultiAttackerGame((0, 1), "copycat"))
    yield ReferenceRows(submission.features, submission.label)
    yield predict_theta(submission.features, submission.label, trials=2, per_provider=4)


class Equal:
    """Somebody's own mechanism."""

    def pay(self, submission, utility):
        return dict.fromkeys(submission.identities.tolist(), 1.0)


def learners(market, folder):
    """Rows, scorers, scores that are imported, and a utility of one's own."""
    submission = market.honest.submission
    code = np.unique(submission.label, return_inverse=True)[1]
    player = np.arange(len(code)) % 3
    rows = TrainingRows(submission.features, code, player, 3, int(code.max()) + 1)
    held = ValidationRows(submission.features[:20], code[:20], int(code.max()) + 1)
    yield from (rows, held)
    for name in ("knn", "coverage", "logistic"):
        yield create("learner", name).scorer(rows, held)
    yield StackedLogisticScorer([(rows, held)], 1.0, "numpy")
    seen = []

    @utility("rows_of_reprs", target="none")
    def rows_of_reprs(train, validation):
        seen.append(train)
        return float(len(train.features))

    dataset = market.dataset
    own = UtilityOracle(dataset.validation_features, utility=Utility("rows_of_reprs"))
    get_mechanism("shapley").pay(submission, own)
    yield from (own.utility, own.learner, seen[0])
    (folder / "s.csv").write_text("unit,row,score\n0,6,1.5\n11,0,-2\n")
    yield read_scores(folder / "s.csv", 12, 7)
    yield made("learner", "scores")


def payouts(folder):
    """A payout run, ledgers, and an intake log."""
    yield from (explain(pay_run(folder / "paid"), "seller 0"), spec(), Currency("EUR"))
    yield from (
        write(folder / "tables"),
        file_ledger(folder),
        *verify_ledger(open_ledger(folder / "ledger.sqlite")),
    )
    hand = HandBook()
    hand.draft("a" * 64, "EUR", {"alice": (6000, 0)})
    hand.approve("a" * 64)
    hand.send("a" * 64, "alice", "EUR", 6000)
    yield from (hand.accounts, account_statement(hand.accounts, "alice"))
    log, units = (
        open_ledger(folder / "log.sqlite", new=True),
        [sha256(bytes([i])).digest() for i in range(3)],
    )
    enter_batch(log, "alice", units, "text", by="R. Okafor")
    add_checkpoint(folder / "checkpoints.txt", log.accounts())
    yield from (read_arrivals(log),)


def others(folder, monkeypatch):
    """What is made by itself: components, games, data, encoders."""
    for kind in HOMES:
        for name in components(kind):
            if kind != "game":
                with suppress(DataMarketError):  # data or weights that are not on this machine
                    yield create(kind, made(kind, name))
    yield from (*GAMES.values(), CoalitionCache(), Compute(), *DOMAINS.values())
    yield NearestNeighbourGame.from_weights(np.full(5, 0.2), 3)
    monkeypatch.setenv("DATAMARKET_CACHE", str(folder))
    yield stored("ngrams")
    yield Corpus("text", np.array(["a", "b"], dtype=object), np.arange(2), np.ones(2, dtype=bool))
    yield Embeddings(np.eye(3), np.arange(3))
    yield Synthetic(n_providers=2, per_provider=4, validation=20).draw(0)
    if find_spec("pettingzoo"):
        from datamarket_gym.envs import AttackEnv, ParallelMarketEnv

        yield from (ParallelMarketEnv(), AttackEnv(), AttackEnv.observation_fields)


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    market = ProviderMarket.from_task(Synthetic(n_providers=3, per_provider=6, validation=120), 1, "knn")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        roots = [*results(market), *learners(market, folder), *payouts(folder), *others(folder, patch)]
        del registry._components["learner"]["rows_of_reprs"]  # other tests list what there is
        return within(roots)


def fits(each):
    text = repr(each)
    lines = text.splitlines()
    assert "object at 0x" not in text
    assert len(lines) <= LINES, text
    assert max(map(len, lines)) <= COLUMNS, text
    assert each._repr_html_().startswith("<p>")


@pytest.mark.parametrize("public", public_classes(), ids=lambda each: each.__name__)
def test_every_public_object_fits_on_a_screen(samples, public):
    mine = [each for each in samples if isinstance(each, public)]
    assert inspect.isabstract(public) or any(type(each) is public for each in mine), (
        "give a sample above"
    )
    for each in mine:
        fits(each)


def test_a_field_that_is_kept_out_of_a_repr_is_kept_out_of_the_screen(submission):
    clusters = EvidenceGraph.build(submission, "none", tie_breaker="secret")
    assert "secret" not in repr(clusters) + clusters._repr_html_()

    @dataclasses.dataclass(frozen=True)
    class Kept(Shown):
        told: int = 1
        hidden: str = dataclasses.field(default="secret", repr=False)

    assert repr(Kept()).split() == ["Kept", "field", "value", "told", "1"]


def test_names_of_strangers_are_text_and_many_fields_are_counted():
    values = {f"field {i}": "<b>" + "x" * 500 for i in range(40)}
    screen = Screen.of_fields("Many", values)
    assert len(screen.text().splitlines()) <= LINES
    assert max(map(len, screen.text().splitlines())) <= COLUMNS
    assert "... and 24 more" in screen.text()
    assert "<b>" not in screen.html()


def test_an_oracle_of_an_estimator_that_no_text_makes_has_a_repr():
    rows = np.eye(4)
    oracle = UtilityOracle(rows, [0, 1, 0, 1], learner=SklearnEstimator(SVC(C=3.0)))
    assert "SVC(C=3.0)" in repr(oracle)
    fits(oracle)


def test_an_audit_is_a_table(samples):
    report = next(each for each in samples if isinstance(each, AuditReport))
    table = report.to_arrow()
    assert len(table) == len(report.trials)
    assert table.column_names == [
        "family", "attack", "provider", "honest_payment", "attacked_payment", "gain", "expected_payment",
        "expected_gain", "victim", "victim_loss", "assumes", "verdict",
    ]  # fmt: skip
    for row, trial in zip(table.to_pylist(), report.trials, strict=True):
        assert row["honest_payment"] == trial.honest_payment
        assert row["gain"] == trial.gain
        assert row["verdict"] in ("open", "deterred", "stopped", "undefined", "impossible")
    shown = [
        line.split()
        for line in repr(report).splitlines()
        if line.split()[0] in ("copycat", "sybil_split_k")
    ]
    worst = {f.family: f for f in report.findings}
    for family, provider, gain, verdict in shown:
        assert (provider, verdict) == (
            worst[family].worst.provider,
            worst[family].verdict(report.stop_at),
        )
        assert float(gain) == pytest.approx(worst[family].worst.expected_gain, abs=1e-3)
    assert len(shown) == len(worst) == 2
