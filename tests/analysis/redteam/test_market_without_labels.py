"""The whole judge on a market without labels: audits, searches, the environment, certificates and the command."""

import json

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from datamarket_gym import ProviderMarket, Utility, create, get_mechanism
from datamarket_gym.analysis.redteam import audit
from datamarket_gym.analysis.redteam.attack_grid import attack_grid
from datamarket_gym.analysis.redteam.best_response import (
    SPACE,
    AttackCosts,
    Space,
    Target,
    best_response,
)
from datamarket_gym.analysis.theorems import Checks, Paid, certify, fairness_bound
from datamarket_gym.analysis.theorems.stability import quotient_stability
from datamarket_gym.cli.app import app
from datamarket_gym.cli.audit import markdown
from datamarket_gym.data.submission import write_table

pytestmark = pytest.mark.filterwarnings("ignore")
TASK = "without_labels@synthetic(n_providers=4, per_provider=12, validation=120)"
MARKET = ProviderMarket.from_task(TASK, seed=3)
COVERAGE = Utility("coverage@0.9")
NEED = {"label_noise", "label_poisoning", "link_claim"}


@pytest.fixture(scope="module")
def report():
    some = (
        "label_*,link_claim,squat*,sybil_split_k,exact_dup_2x_sybils,junk_padding,shadow,text_variants"
    )
    oracle = MARKET.utility_oracle(COVERAGE)
    return audit(MARKET, get_mechanism("recommended"), oracle, providers=1, only=some, checks=Checks())


def test_an_audit_plays_what_can_be_played_and_names_what_cannot(report):
    left = [attack for attacks in report.unplayed.values() for attack in attacks]
    worthless = [a for a in attack_grid(MARKET.state, "squat") if "worthless=True" in a]
    assert len(worthless) == 2
    assert set(left) == {*NEED, *worthless, "text_variants"}
    assert "label_noise changes labels, and this market has none; leave it out" in report.unplayed
    played = {f.family for f in report.findings}
    assert played == {"squat", "sybil_split_k", "exact_dup_2x_sybils", "junk_padding", "shadow"}
    for finding in report.findings:
        if finding.family in ("sybil_split_k", "exact_dup_2x_sybils"):
            assert finding.unchecked.gain == 1.0
    assert report.evidence.startswith("lineage@")
    assert report.evidence != "lineage@none"


def test_the_page_says_so_too(report):
    page = markdown(report)
    assert (
        "Not played, label_noise: label_noise changes labels, and this market has none; leave it out."
        in page
    )
    assert "worthless=True): worthless squatters have a class that nobody asks for" in page


def test_what_somebody_could_play_is_not_among_what_nobody_could(report):
    some, *others = [t for t in report.trials if t.attack == "label_noise"]
    assert not others
    played = some.model_copy(update={"why": None, "provider": "provider_9"})
    more = report.model_copy(update={"trials": [*report.trials, played]})
    assert "label_noise" not in str(more.unplayed)


def test_a_search_finds_a_response_and_keeps_what_was_impossible():
    target = Target(MARKET.state, get_mechanism("recommended"), MARKET.utility_oracle(COVERAGE))
    found = best_response(target, trials=60, optimiser="scipy")
    assert found.net_gain >= 1.0
    assert target.respond("squat(knows=leak, worthless=True)", AttackCosts()) is None
    assert "no labels" in target.impossible["squat(knows=leak, worthless=True)"]
    assert not set(target.impossible) & set(target.tried)


def test_the_environment_says_why_an_action_is_none():
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("datamarket_gym.envs:DataMarket/Attack-v0", task=TASK, learner="coverage@0.9")
    env.reset(seed=1)
    dials = {d.name: 0.9 for d in SPACE["squat"]}
    info = env.step(np.array(Space.point("squat", dials), dtype=np.float32))[-1]
    assert not info["possible"]
    assert "this market's units have no labels" in info["why"]
    env.reset(seed=1)
    _, reward, *_, info = env.step(np.array(Space.point("sybil_split_k", {"k": 0.5}), dtype=np.float32))
    assert info["possible"]
    assert "why" not in info
    assert (reward, info["gain"]) == (0.0, 1.0)


def test_theorems_speak_of_a_market_without_labels():
    m, oracle = get_mechanism("recommended/lineage@0.9"), MARKET.utility_oracle(COVERAGE)
    honest = MARKET.honest
    profile = create("attack", "near_duplicate_2x_sybils@0.05").apply(0, MARKET.state)
    split = create("attack", "sybil_split_k@3").apply(0, MARKET.state)
    before, copied, parted = (Paid.by(m, p, oracle) for p in (honest, profile, split))
    assert quotient_stability(before, parted).stable
    assert certify(before, parted, m).claim == "exact"
    certificate = certify(before, copied, m)
    terms = certificate.terms
    gained = copied.total("provider_0") - before.total("provider_0")
    assert abs(gained) <= terms.allocation + terms.escape + terms.drift + 1e-12
    fair = fairness_bound(honest, get_mechanism("quotient_shapley/cosine@0.8"), oracle)
    assert fair.exact
    assert 0 <= fair.loss <= fair.bound


def test_the_command_audits_tables_without_labels(tmp_path):
    honest, data = MARKET.honest.submission, MARKET.dataset
    write_table(honest.to_arrow(), tmp_path / "s.parquet")
    held = pa.table({"features": list(data.validation_features)})
    write_table(held, tmp_path / "v.parquet")
    assert "label" not in honest.to_arrow().column_names
    asked = [
        "audit", str(tmp_path / "s.parquet"), "--validation", str(tmp_path / "v.parquet"), "--utility", "coverage@0.9",
        "--only", "label_noise,sybil_split_k", "--providers", "1", "--out", str(tmp_path / "out"),
    ]  # fmt: skip
    found = CliRunner().invoke(app, asked)
    assert found.exit_code == 0, found.output
    assert "label_noise changes labels" in " ".join(found.output.split())
    kept = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert {t["attack"]: t["gain"] for t in kept["trials"]}["sybil_split_k@2"] == 1.0
