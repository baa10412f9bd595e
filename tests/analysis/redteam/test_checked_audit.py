"""Audits of markets that check their payees: what is stopped, what is deterred, and what is neither."""

import json
import os
import subprocess
import sys

import pyarrow as pa
import pytest

from datamarket_gym.analysis.redteam import AuditReport, audit
from datamarket_gym.analysis.spot_checks import expected
from datamarket_gym.analysis.theorems import Checks
from datamarket_gym.data.submission import write_submission, write_table
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks import Synthetic
from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.utilities.oracle import Utility

THREE = Checks(3, 0.8)
SOME = "sybil_split_k,turn,strategic_curation,synthetic_laundering"


@pytest.fixture(scope="module")
def market():
    return ProviderMarket.from_task(Synthetic(n_providers=4, per_provider=20, validation=60), 3)


def run(market, learner="coverage", only=SOME, name="recommended", **options):
    oracle = market.utility_oracle(Utility.paying(learner))
    return audit(market, get_mechanism(name), oracle, only=only, providers=1, **options)


def test_without_checks_what_is_expected_is_what_is_paid(market):
    report = run(market)
    assert (report.checks, report.knowledge, report.assumed) == (None, 1.0, "")
    for trial in report.trials:
        assert trial.expected_payment == trial.attacked_payment
        assert trial.expected_gain == trial.gain
    for finding in report.findings:
        assert finding.worst == finding.unchecked
        assert finding.verdict(report.stop_at) in ("stopped", "open")
        assert "unchecked" not in finding.words(report.stop_at)


def test_with_checks_attacks_are_stopped_deterred_or_neither(market):
    report, unchecked = run(market, checks=THREE), run(market)
    assert report.families("stopped") == ["sybil_split_k", "strategic_curation"]
    assert set(report.families("deterred")) == {"turn", "synthetic_laundering"}
    assert report.families("open") == report.families("undefined") == []
    assert set(unchecked.families("open")) == {"turn", "synthetic_laundering"}
    assert [t.gain for t in report.trials] == [t.gain for t in unchecked.trials]
    assert report.checks == THREE
    assert "checked on 3 of its paid units" in report.assumed
    turn = next(f for f in report.findings if f.family == "turn")
    own = [t for t in report.trials if t.attack.startswith("turn")]
    assert turn.unchecked.gain == max(t.gain for t in own) > 1.05 >= turn.worst.expected_gain
    assert turn.worst.expected_gain == max(t.expected_gain for t in own)
    assert turn.certificate.attack == turn.unchecked.attack  # the theorems speak of what is paid
    assert turn.remedies == []
    told = turn.words(report.stop_at)
    assert f"unchecked times {turn.unchecked.gain:.3f}" in told
    assert "Deterred by checks." in told
    assert AuditReport.model_validate_json(report.model_dump_json()) == report


def test_a_trial_expects_what_the_checked_market_pays_on_average(market):
    report = run(market, checks=THREE, knowledge=1.0)
    oracle = market.utility_oracle(Utility.paying("coverage"))
    for trial in report.trials[::3]:
        profile = ATTACKS.create(trial.attack).apply(trial.provider, market.state)
        found = expected(
            get_mechanism("recommended"), profile, market.honest, oracle, trial.provider, THREE
        )
        assert trial.expected_payment == pytest.approx(found.pay, rel=1e-12)


def test_curation_under_nearest_neighbours_is_neither_stopped_nor_deterred(market):
    oracle = market.utility_oracle(Utility.paying("knn"))
    report = audit(
        market, get_mechanism("recommended"), oracle, only="strategic_curation", checks=Checks(20, 1.0)
    )
    assert report.families("open") == ["strategic_curation"]
    (finding,) = report.findings
    assert finding.worst.expected_gain == pytest.approx(finding.worst.gain)
    assert finding.remedies  # evidence is tried, under the same checks
    assert not any(remedy.stops for remedy in finding.remedies)


def test_remedies_are_judged_by_expected_gain(market):
    """Weak checks leave the theft open; trusted sources stop it either way, and expect less."""
    weak = Checks(1, 0.05)
    report, unchecked = (run(market, only="turn", checks=checks) for checks in (weak, None))
    assert report.families("open") == ["turn"]
    gains, before = (
        {r.title: r.gain for r in found.findings[0].remedies} for found in (report, unchecked)
    )
    assert report.findings[0].worst.attack == unchecked.findings[0].worst.attack
    assert gains["exact copies"] < before["exact copies"]
    assert gains["trusted sources"] == pytest.approx(1.0)


def test_who_sees_nothing_steals_nothing(market):
    blind = run(market, only="turn,copycat,synthetic_laundering", knowledge=0.0)
    assert {f.family for f in blind.findings} == {"synthetic_laundering"}
    assert all(t.why for t in blind.trials if not t.attack.startswith("synthetic"))
    half, full = (run(market, only="turn", knowledge=k) for k in (0.5, 1.0))
    assert 1 < half.worst.worst.gain < full.worst.worst.gain
    assert half.assumed == "Attackers see 50% of the others' units."
    with pytest.raises(ParameterError, match=r"knowledge = -0\.1"):
        run(market, knowledge=-0.1)


def test_other_checks_or_other_knowledge_are_another_audit(market, tmp_path):
    options = {"only": "sybil_split_k,turn", "checks": THREE, "knowledge": 0.5}
    first = run(market, out=tmp_path, **options)
    wanted = (tmp_path / "audit.json").read_bytes()
    assert run(market, out=tmp_path, **options) == first
    for change in (
        {"checks": None},
        {"checks": Checks(2, 0.8)},
        {"checks": Checks(3, 0.9)},
        {"knowledge": 1.0},
    ):
        with pytest.raises(DataMarketError, match="holds another audit"):
            run(market, out=tmp_path, **{**options, **change})
    assert (tmp_path / "audit.json").read_bytes() == wanted


def test_an_interrupted_audit_with_checks_resumes(market, tmp_path, monkeypatch):
    options = {"only": "sybil_split_k,synthetic_laundering", "checks": THREE, "knowledge": 0.5}
    run(market, out=tmp_path / "whole", **options)
    module = sys.modules["datamarket_gym.analysis.redteam.audit"]
    trial, calls = module._trial, []

    def dies_on_the_fifth(*arguments):
        calls.append(arguments)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return trial(*arguments)

    monkeypatch.setattr(module, "_trial", dies_on_the_fifth)
    with pytest.raises(KeyboardInterrupt):
        run(market, out=tmp_path / "killed", **options)
    with pytest.raises(DataMarketError, match="another audit"):
        run(market, out=tmp_path / "killed", **{**options, "checks": Checks(2, 0.8)})
    calls.clear()
    monkeypatch.setattr(module, "_trial", lambda *a: (calls.append(a), trial(*a))[1])
    report = run(market, out=tmp_path / "killed", **options)
    assert len(calls) == len(report.trials) - 4
    whole, killed = ((tmp_path / name / "audit.json").read_bytes() for name in ("whole", "killed"))
    assert whole == killed


def test_a_mechanism_that_does_not_say_what_units_earn_cannot_be_checked(market):
    class Each:
        def pay(self, submission, utility):
            return {str(name): 1.0 for name in submission.identities}

    oracle = market.utility_oracle(Utility.paying())
    with pytest.raises(ParameterError, match="leave checks out"):
        audit(market, Each(), oracle, only="sybil_split_k", checks=THREE)
    assert audit(market, Each(), oracle, only="sybil_split_k").worst.worst.expected_gain == 5.0


def datamarket(*arguments, cwd):
    command = [sys.executable, "-c", "from datamarket_gym.cli import main; main()", "audit"]
    return subprocess.run(
        [*command, "sub.parquet", "--validation", "val.parquet", "--jobs", "1", *arguments],
        capture_output=True, text=True, cwd=cwd, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip


def test_the_command_says_what_is_stopped_deterred_and_neither(market, tmp_path):
    dataset = market.dataset
    write_submission(market.honest.submission, tmp_path / "sub.parquet")
    rows = {"features": list(dataset.validation_features), "label": dataset.validation_label}
    write_table(pa.table(rows), tmp_path / "val.parquet")
    done = datamarket("--only", SOME, "--providers", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "gain unchecked expected" in text
    assert "Each name is checked on 3 of its paid units" in text
    assert "with probability 0.8" in text
    assert "Stopped without checks: sybil_split_k, strategic_curation." in text
    assert "Stopped by checks alone: " in text
    assert "gains more than 1.05 in expectation, if these checks are made" in text
    found = tmp_path / "runs" / "audit"
    report = json.loads((found / "audit.json").read_text())
    assert (report["checks"], report["knowledge"]) == ({"per_payee": 3, "power": 0.8}, 1.0)
    assert "coverage" in report["utility"]
    page = (found / "audit.md").read_text()
    assert "Stopped by checks alone: " in page
    assert "Deterred by checks. " in page
    other = datamarket(
        "--only", SOME, "--providers", "1", "--checks", "1", "--power", "0.3", "--knowledge", "0.5",
        "--utility", "knn", "--out", "other", cwd=tmp_path,
    )  # fmt: skip
    assert other.returncode == 0, other.stderr
    text = " ".join(other.stdout.split())
    assert "Attackers see 50% of the others' units." in text
    assert "with probability 0.3" in text
    assert "knn" in json.loads((tmp_path / "other" / "audit.json").read_text())["utility"]
