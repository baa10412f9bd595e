"""examples/quotient_semivalues.py is the paper in one file; it pays what the library pays."""

import importlib.util
import re
import subprocess
import sys

import numpy as np
import pytest

from datamarket_gym import Metrics, ProviderMarket, Synthetic, Utility, create, get_mechanism
from repository import ROOT

FILE = ROOT / "examples" / "quotient_semivalues.py"
SOURCE = FILE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def paper():
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("quotient_semivalues", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MARKETS = {  # seed, task, attack
    "split": (0, Synthetic(n_providers=4, per_provider=15), "sybil_split_k@3"),
    "exact duplicates": (3, Synthetic(n_providers=5, per_provider=20), "exact_dup_2x_sybils@0.5"),
    "near duplicates": (5, Synthetic(n_providers=3, per_provider=3), "near_duplicate_2x_sybils@0.03"),
}


@pytest.fixture(scope="module")
def market(request, paper):
    """The honest and the attacked profile of a market, and its two utilities: the library's and the example's."""
    seed, task, attack = MARKETS[request.param]
    drawn = ProviderMarket.from_task(task, seed=seed)
    attacked = create("attack", attack).apply(0, drawn.state)
    data = drawn.dataset
    return (
        drawn.honest,
        attacked,
        drawn.utility_oracle(Utility("logistic", "none")),
        paper.Utility(data.validation_features, data.validation_label),
    )


def as_profile(paper, submitted):
    """The raw arrays of a submission, the earliest unit first; identities and owners as numbers."""
    submission, truth = submitted.submission, submitted.truth.aligned(submitted.submission)
    profile = paper.Profile(
        submission.features,
        submission.label,
        np.unique(submission.identity, return_inverse=True)[1],
        np.unique(truth.source, return_inverse=True)[1],
        np.unique(truth.owner, return_inverse=True)[1],
    )
    order = np.argsort(submission.times, kind="stable")
    return paper.Profile(*(column[order] for column in profile))


def cosine(theta):
    return lambda paper: lambda profile: paper.cosine(profile, theta)


def same(column):
    return lambda paper: lambda profile: paper.same(getattr(profile, column))


IDENTITIES = [  # the library's mechanism and its fields, the example's evidence and settings
    ("shapley", {}, None, {}),
    ("banzhaf", {}, None, {"weights": "banzhaf"}),
    ("beta_shapley", {}, None, {"weights": "beta"}),
    ("quotient_shapley/cosine@0.99", {}, cosine(0.99), {}),
    ("quotient_shapley/cosine@0.7", {}, cosine(0.7), {}),  # some clusters mix providers
    (
        "quotient_shapley/cosine@0.8",
        {"representative": "collapse", "allocation": "count_canonical"},
        cosine(0.8),
        {"representative": "collapse", "shares": "count_shares"},
    ),
    (
        "quotient_banzhaf/oracle_source",
        {"representative": "collapse"},
        same("source"),
        {"representative": "collapse", "weights": "banzhaf"},
    ),
    ("quotient_beta_shapley/oracle_latent", {}, same("owner"), {"weights": "beta"}),
]
UNITS = [
    (
        "quotient_shapley/cosine@0.99",
        {"granularity": "unit", "representative": "capped", "allocation": "count_canonical"},
        cosine(0.99),
        {"level": "unit", "representative": "earliest", "shares": "count_shares"},
    ),
    (
        "quotient_beta_shapley/cosine@0.3",  # also ties units of different providers
        {"granularity": "unit", "representative": "collapse"},
        cosine(0.3),
        {"level": "unit", "representative": "collapse", "weights": "beta"},
    ),
]
CASES = [(name, *case) for name in MARKETS for case in IDENTITIES]
CASES += [
    ("near duplicates", *case) for case in UNITS
]  # the units of the others are too many to enumerate


@pytest.mark.filterwarnings("ignore::datamarket_gym.errors.CollapsedMarketWarning")
@pytest.mark.parametrize(
    ("market", "name", "fields", "evidence", "settings"), CASES, indirect=["market"], scope="module"
)
def test_the_example_pays_what_the_library_pays(paper, market, name, fields, evidence, settings):
    honest, attacked, oracle, utility = market
    rule = get_mechanism(name, estimator="exact", **fields)
    settings = settings | {"evidence": evidence and evidence(paper)}
    settings |= {
        key: getattr(paper, settings[key]) for key in ("representative", "shares") if key in settings
    }
    paid = {}
    for which in (honest, attacked):
        paid[which] = rule.pay(which.submission, oracle, which.truth)
        ours = paper.pay(as_profile(paper, which), utility, **settings)
        assert list(ours.values()) == pytest.approx(paid[which].totals, abs=1e-9)
    profiles = as_profile(paper, honest), as_profile(paper, attacked)
    gain = Metrics.evaluate(paid[attacked], attacked, paid[honest]).gain
    assert paper.gain(*profiles, utility, **settings) == pytest.approx(gain, abs=1e-9)


def test_the_attacks_submit_what_the_protocol_says(paper):
    honest, *_ = paper.draw_market(n_providers=4, per_provider=10, seed=1)
    rng = np.random.default_rng(1)
    parts = paper.split(honest, rng, k=3)
    assert np.bincount(parts.identity).tolist() == [4, 10, 10, 10, 3, 3]
    assert set(parts.identity[parts.owner == 0].tolist()) == {0, 4, 5}
    exact, near = paper.duplicate(honest, rng), paper.duplicate(honest, rng, sigma=0.03)
    for attacked in (exact, near):
        assert np.bincount(attacked.identity).tolist() == [10, 10, 10, 10, 5, 5]
        assert (attacked.owner[40:] == 0).all()
        first, second = attacked.source[40:45], attacked.source[45:]
        assert first.tolist() == second.tolist()  # the same units into both identities
        assert (attacked.label[40:45] == honest.label[first]).all()
    moved = near.features[40:] - honest.features[near.source[40:]]
    assert (exact.features[40:] == honest.features[exact.source[40:]]).all()
    assert moved.std() == pytest.approx(0.03, rel=0.2)


def test_the_script_is_one_short_file_and_prints_the_gain_of_each_attack():
    assert len(SOURCE.splitlines()) <= 240
    assert not re.search(r"^\s*(?:from|import) datamarket_gym", SOURCE, flags=re.MULTILINE)
    printed = subprocess.run(
        [sys.executable, FILE], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    rows = [line.rsplit(maxsplit=4)[1:] for line in printed.splitlines()[-3:]]
    (shapley, _, owner, units), *_ = gains = [[float(cell) for cell in row] for row in rows]
    assert all(row[0] > 1.2 for row in gains)  # every attack pays under Shapley over identities
    assert owner == 1.0  # evidence on owners sees through the pure split, cosine does not
    assert gains[0][1] == shapley
    assert [row[3] for row in gains] == [units] * 3 == [1.0] * 3  # at unit level none pays
