"""Audits: what they find, that they resume, and what they refuse."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from comparing import assert_near
from datamarket_gym import fidelity
from datamarket_gym.analysis.metrics import pot_shares, provider_totals
from datamarket_gym.analysis.redteam import attack_grid, audit, market_state
from datamarket_gym.analysis.redteam import audit as audit_function
from datamarket_gym.analysis.redteam.attack_grid import moved_embeddings
from datamarket_gym.analysis.redteam.findings import STOP_LOSS, AuditReport
from datamarket_gym.data import Submission
from datamarket_gym.data.submission import read_validation
from datamarket_gym.errors import DataMarketError, ParameterError, SubmissionError
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks import Synthetic
from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.registry import components, create
from datamarket_gym.utilities.coverage import RECOMMENDED
from datamarket_gym.utilities.oracle import Utility, UtilityOracle

KNN = Utility("knn@3", "chance")
SOME = "sybil_split_k,exact_dup_2x_sybils,copycat"


@pytest.fixture(scope="module")
def market():
    return ProviderMarket.from_task(Synthetic(n_providers=3, per_provider=12, validation=50), 1)


def run(market, name="recommended", **options):
    return audit(market, get_mechanism(name), market.utility_oracle(KNN), **options)


def test_the_library_finds_what_is_known(market):
    report = run(market, only=SOME)
    worst = {f.family: f for f in report.findings}
    assert worst["sybil_split_k"].worst.gain == 1.0
    assert worst["exact_dup_2x_sybils"].certificate.claim == "exact"
    assert worst["copycat"].worst.gain > 1.05
    stops = {r.title: r.stops for r in worst["copycat"].remedies}
    assert stops["trusted sources"]  # a stolen unit is the victim's, wherever it is
    assert not stops["exact copies"]
    assert "Stopped by" in worst["copycat"].words(report.stop_at)
    assert report.worst == report.findings[0]
    assert all(f.certificate.obeys in (True, None) for f in report.findings)
    from_zero = market.utility_oracle(Utility("knn@3", "none"))
    names = audit(market, get_mechanism("shapley"), from_zero, only="sybil_split_k")
    assert names.worst.worst.gain > 1.05
    assert {r.title for r in names.worst.remedies if r.stops} >= {"linked accounts"}


COMPONENTS = "recommended/hybrid_hash_cosine@0.9"
RUIN = "bridge,sybil_split_k"


def test_an_attack_that_gains_nothing_and_destroys_a_victim_is_found_and_told(market):
    """A bridge pays the bridge builder little; the victim's units go to whoever was earliest."""
    report = run(market, COMPONENTS, only=RUIN)
    (harm,) = report.harms
    lost = harm.loss.trial
    assert harm.family == "bridge"
    assert lost.victim_loss == 1.0
    assert lost.victim not in (None, lost.provider)
    assert harm.loss.without_evidence is not None
    assert harm.loss.without_evidence < lost.victim_loss - STOP_LOSS  # it is the evidence that does it
    idle = [t for t in report.trials if t.gain is not None and t.gain <= report.stop_at]
    assert max(t.victim_loss for t in idle) == 1.0
    told = harm.words(report.stop_at)
    assert (
        f"{lost.victim} loses 100% of its honest share; {harm.loss.without_evidence:.0%} if nothing matched"
        in told
    )
    split = next(f for f in report.findings if f.family == "sybil_split_k")
    assert (split.loss.trial.victim, split.loss.trial.victim_loss, split.loss.without_evidence) == (
        None,
        0.0,
        None,
    )
    assert "loses" not in split.words(report.stop_at)


def test_evidence_that_spares_the_victim_is_named_where_evidence_did_the_harm(market):
    """A bridge is no unit's copy: identical units alone, or true sources, leave the victim its pay."""
    report = run(market, COMPONENTS, only=RUIN)
    (harm,) = report.harms
    assert {"exact copies", "trusted sources"} <= set(harm.loss.spared_by)
    assert f"Spared by: {', '.join(harm.loss.spared_by)}." in harm.words(report.stop_at)
    lost = harm.loss.trial
    state, utility = market.state, market.utility_oracle(KNN)
    attacked = create("attack", lost.attack).apply(lost.provider, state)
    other = get_mechanism("recommended/exact_hash")  # paid anew
    before, after = (
        pot_shares(provider_totals(other.pay(p.submission, utility), p))
        for p in (state.honest, attacked)
    )
    assert 1 - after[lost.victim] / before[lost.victim] <= harm.loss.without_evidence + STOP_LOSS
    split = next(f for f in report.findings if f.family == "sybil_split_k")
    assert split.loss.spared_by is None
    nothing = harm.loss.model_copy(update={"spared_by": []})
    assert nothing.words.endswith("No other evidence that was tried and may be used spares it.")


def test_attacks_are_chosen_by_name_or_as_they_are_written(market):
    known = attack_grid(market.state, "squat*knows=leak)*,sybil_split_k@2")
    assert set(known) == {"squat(victim=all, points=20, knows=leak)", "sybil_split_k@2"}
    assert len(attack_grid(market.state, "squat")) == 5


def test_the_trial_that_harms_most_is_told_beside_the_one_that_gains_most(market):
    report = run(market, COMPONENTS, only="bridge,copycat,near_duplicate_2x_sybils")
    for finding in report.findings:
        own = [t for t in report.trials if t.attack.startswith(finding.family) and t.why is None]
        assert finding.loss.trial.victim_loss == max(t.victim_loss for t in own)
        assert finding.worst.gain == max(t.gain for t in own if t.gain is not None)
        assert all(t.theft >= 0.0 and t.victim != t.provider for t in own)


def test_losses_by_competition_alone_are_no_harm_by_evidence(market):
    """Generated units that evidence hardly ties: the others lose no less where nothing is tied."""
    report = run(market, only="synthetic_laundering")
    (finding,) = report.findings
    assert finding.loss.trial.victim_loss > STOP_LOSS
    assert finding.loss.without_evidence >= finding.loss.trial.victim_loss - STOP_LOSS
    assert report.harms == []


def test_what_needs_a_broken_clock_says_so_and_comes_last(market):
    report = run(market, only="backdate,squat,sybil_split_k")
    assumed = [finding.worst.assumes for finding in report.findings]
    assert assumed == sorted(assumed, key=bool)
    families = [finding.family for finding in report.findings]
    assert {"backdate", "squat"} <= {f for f, why in zip(families, assumed, strict=True) if why}
    assert (
        families.count("squat") == 2
    )  # what is known of the leak alone, and what was seen before it came
    backdate = next(f for f in report.findings if f.family == "backdate")
    assert backdate.worst.gain > report.worst.worst.gain
    assert ", assuming that submitters can forge their times)" in backdate.words(report.stop_at)
    assert report.harms[-1].loss.trial.assumes
    # What the conclusion leaves aside it names, with the largest gain first.
    aside = [f for f in report.findings if f.worst.assumes and f.worst.expected_gain > report.stop_at]
    aside.sort(key=lambda f: f.worst.expected_gain, reverse=True)
    named = "; ".join(
        f"{f.family} times {f.worst.expected_gain:.3f} (assuming {f.worst.assumes})" for f in aside
    )
    assert len(aside) > 1
    assert report.conclusion.endswith(f" Not counted, as they assume more: {named}.")
    calm = report.model_copy(update={"findings": [f for f in report.findings if f not in aside]})
    assert "assum" not in calm.conclusion


def test_every_registered_attack_is_tried(market):
    report = run(market, providers=1)
    tried = {trial.attack.partition("(")[0].partition("@")[0] for trial in report.trials}
    assert tried == set(components("attack")) - {"honest", "provider_zero_attack"}
    assert len(report.providers) == 1
    with pytest.raises(ParameterError, match="no attack of the library matches"):
        attack_grid(market.state, "nothing_like_it")


def test_what_cannot_be_carried_out_is_said(market):
    tiny = ProviderMarket.from_task(Synthetic(n_providers=4, per_provider=2, validation=30), 0)
    report = run(tiny, only="sybil_split_k")
    why = {t.attack: t.why for t in report.trials if t.provider == "provider_0"}
    assert why["sybil_split_k@2"] is None
    assert "would submit no units" in why["sybil_split_k@5"]


def test_parallel_and_resumed_audits_end_with_the_same_gains(market, tmp_path, monkeypatch):
    module = sys.modules["datamarket_gym.analysis.redteam.audit"]
    run(market, only=SOME, out=tmp_path / "one")
    run(market, only=SOME, out=tmp_path / "two", jobs=2)
    wanted = json.loads((tmp_path / "one" / "audit.json").read_text())
    assert_near(run(market, only=SOME).model_dump(mode="json"), wanted)
    assert_near(json.loads((tmp_path / "two" / "audit.json").read_text()), wanted)
    trial, calls = module._trial, []

    def dies_on_the_ninth(*arguments):
        calls.append(arguments)
        if len(calls) == 9:
            raise KeyboardInterrupt
        return trial(*arguments)

    monkeypatch.setattr(module, "_trial", dies_on_the_ninth)
    with pytest.raises(KeyboardInterrupt):
        run(market, only=SOME, out=tmp_path / "killed")
    assert not (tmp_path / "killed" / "audit.json").exists()
    assert len(list((tmp_path / "killed" / ".state").glob("trial-*.json"))) == 8
    seen = []
    monkeypatch.setattr(module, "_trial", lambda *a: (seen.append(a), trial(*a))[1])
    report = run(market, only=SOME, out=tmp_path / "killed")
    assert len(seen) == len(report.trials) - 8  # only what was missing
    assert_near(json.loads((tmp_path / "killed" / "audit.json").read_text()), wanted)
    assert {p.name for p in (tmp_path / "killed").iterdir()} == {"audit.json", "manifest.json"}
    assert AuditReport.model_validate_json((tmp_path / "killed" / "audit.json").read_text()) == report


def test_a_folder_of_another_audit_is_refused(market, tmp_path):
    run(market, only="sybil_split_k", out=tmp_path)
    for change in ({"only": SOME}, {"only": "sybil_split_k", "name": "shapley"}):
        with pytest.raises(DataMarketError, match="holds another audit"):
            run(market, out=tmp_path, **change)


def test_sampled_scores_get_certificates_for_the_number_of_trials(market):
    m = get_mechanism("shapley", estimator="permutation", samples=16)
    report = audit_function(market, m, market.utility_oracle(KNN), only="sybil_split_k")
    certificate = report.findings[0].certificate
    assert certificate.claim == "probable"
    assert certificate.delta == pytest.approx(0.05 / len(report.trials))


def own_rows(market):
    dataset = market.dataset
    return dataset.validation_features, dataset.validation_label


def test_a_submission_of_ones_own_is_a_market(market):
    features, label = own_rows(market)
    state = market_state(market.honest.submission, features, label, seed=1)
    assert state.providers == ["provider_0", "provider_1", "provider_2"]
    oracle = UtilityOracle(features, label, KNN)
    report = audit(state, get_mechanism("recommended"), oracle, only="sybil_split_k", providers=2)
    assert len(report.providers) == 2
    assert report.findings[0].worst.gain == 1.0


def test_embeddings_follow_the_features_an_attacker_changed(market):
    honest = market.honest.submission
    rng = np.random.default_rng(0)
    rows = np.arange(len(honest))
    with_own = Submission(
        id=honest.id, identity=honest.identity, features=honest.features, label=honest.label,
        embedding=honest.features @ rng.normal(size=(24, 8)), time=honest.time,
    )  # fmt: skip
    state = market_state(with_own, *own_rows(market))
    still = create("attack", "near_duplicate_2x_sybils@0.0").apply(0, state)
    moved = moved_embeddings(still, state)
    assert (moved.submission.embedding == still.submission.embedding).all()
    noisy = create("attack", "near_duplicate_2x_sybils@1.0").apply(0, state)
    moved = moved_embeddings(noisy, state)
    changed = (moved.submission.embedding != noisy.submission.embedding).any(axis=1)
    assert changed.sum() == 12  # two times six copies, and nobody else
    oracle = UtilityOracle(*own_rows(market), KNN)
    found = audit(state, get_mechanism("recommended"), oracle, only="near_duplicate_2x_sybils")
    assert found.worst.worst.gain > 1.0  # the disguise is not seen through by old embeddings
    assert len(rows) == len(honest)


def test_validation_files_are_checked(tmp_path):
    path = tmp_path / "val.csv"
    path.write_text("features_0,features_1,label\n1.0,2.0,a\n3.0,4.0,b\n")
    features, label, text = read_validation(path)
    assert features.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert label.tolist() == ["a", "b"]
    assert text is None
    path.write_text("features_0,text\n1.0,some words\n3.0,\n")
    assert read_validation(path)[2] == ["some words", ""]
    path.write_text("features_0,features_1\n1.0,2.0\n")
    assert read_validation(path)[1].tolist() == [""]  # rows without labels
    path.write_text("features_0,label\n")
    with pytest.raises(SubmissionError, match="no rows"):
        read_validation(path)


def files(market, folder):
    import pyarrow as pa

    from datamarket_gym.data.submission import write_submission, write_table

    write_submission(market.honest.submission, folder / "sub.parquet")
    features, label = own_rows(market)
    write_table(pa.table({"features": list(features), "label": label}), folder / "val.parquet")


COMMAND = [sys.executable, "-c", "from datamarket_gym.cli import main; main()", "audit"]


def datamarket(*arguments, cwd):
    environment = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, cwd=cwd, env=environment
    )


def test_the_command_prints_the_worst_and_what_stops_it(market, tmp_path):
    files(market, tmp_path)
    done = datamarket(
        "sub.parquet", "--validation", "val.parquet", "--only", SOME, "--jobs", "1",
        "--utility", "knn", "--checks", "0", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "copycat" in done.stdout
    assert "deterred" not in done.stdout
    assert "trusted sources" in done.stdout
    text = " ".join(done.stdout.split())
    assert "By Theorem 3" in text
    assert "victim's loss" in text
    assert "What others lose is competition" in text
    found = tmp_path / "runs" / "audit"
    assert {p.name for p in found.iterdir()} == {"audit.json", "audit.md", "manifest.json"}
    assert json.loads((found / "audit.json").read_text())["providers"]
    assert "## copycat" in (found / "audit.md").read_text()


def test_the_command_names_the_victim(market, tmp_path):
    files(market, tmp_path)
    done = datamarket(
        "sub.parquet", "--validation", "val.parquet", "--only", RUIN, "--jobs", "1",
        "--mechanism", COMPONENTS, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = "Others lose most by bridge: provider_"
    assert told in " ".join(done.stdout.split())
    assert "100% (unmatched" in " ".join(done.stdout.split())
    assert told in (tmp_path / "runs" / "audit" / "audit.md").read_text()


def test_mistakes_are_one_line_and_exit_2(market, tmp_path):
    files(market, tmp_path)
    good = ("sub.parquet", "--validation", "val.parquet")
    for arguments, says in (
        (("missing.parquet", "--validation", "val.parquet"), "there is no file"),
        (("sub.parquet", "--validation", "missing.parquet"), "there is no file"),
        ((*good, "--mechanism", "shapely"), "unknown mechanism 'shapely'"),
        ((*good, "--only", "sybil"), "no attack of the library matches"),
        ((*good, "--empty", "chance"), f"empty = 'chance': {RECOMMENDED} is no accuracy"),
        ((*good, "--power", "0"), "power = 0.0: choose a value in (0, 1]"),
        ((*good, "--knowledge", "1.5"), "knowledge = 1.5: choose a value in [0, 1]"),
    ):
        done = datamarket(*arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert says in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr


def test_killed_by_force_it_resumes_and_ends_with_the_same_bytes(market, tmp_path):
    files(market, tmp_path)
    arguments = ("sub.parquet", "--validation", "val.parquet", "--jobs", "1", "--only", SOME)
    whole = datamarket(*arguments, "--out", "whole", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    parts = tmp_path / "killed" / ".state"
    process = subprocess.Popen(
        [*COMMAND, *arguments, "--out", "killed"], cwd=tmp_path, stderr=subprocess.DEVNULL
    )
    while process.poll() is None and len(list(parts.glob("trial-*.json"))) < 5:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed" / "audit.json").exists()
    again = datamarket(*arguments, "--out", "killed", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    found, wanted = (
        json.loads((tmp_path / name / "audit.json").read_text()) for name in ("killed", "whole")
    )
    assert_near(found, wanted)


@pytest.mark.slow
def test_the_whole_library_on_the_papers_market_takes_under_a_minute():
    market = ProviderMarket.from_task(Synthetic(), 0)
    started = time.process_time()  # one core's seconds: what others do on the machine does not count
    report = audit(market, get_mechanism("recommended"), market.utility_oracle(Utility("knn", "chance")))
    assert len(report.trials) > 300
    assert time.process_time() - started < 60


def test_units_without_times_are_a_warning(market):
    state, oracle = market.state, market.utility_oracle(Utility("knn@3", "chance"))
    timed = audit(state, get_mechanism("recommended"), oracle, providers=1, only="exact_dup*")
    undated = replace(state.honest, submission=replace(state.honest.submission, time=None))
    found = audit(
        replace(state, honest=undated),
        get_mechanism("recommended"),
        oracle,
        providers=1,
        only="exact_dup*",
    )
    assert not any("carry no times" in words for words in timed.warnings)
    assert any("carry no times" in words for words in found.warnings)


@pytest.mark.filterwarnings("ignore::datamarket_gym.errors.CollapsedMarketWarning")
def test_an_audit_of_components_names_units_that_chain_large_groups(monkeypatch):
    """Two groups of fifty and a unit between them; lineage ties the same units and has nothing to name."""
    rng = np.random.default_rng(0)
    one, other = np.eye(20)[0], 0.6 * np.eye(20)[0] + 0.8 * np.eye(20)[1]
    groups = [centre + 0.03 * rng.normal(size=(50, 20)) for centre in (one, other)]
    n = 101
    submission = Submission(
        id=np.array([*(f"u{i}" for i in range(100)), "between"]),
        identity=np.array([*(f"seller {i % 4}" for i in range(100)), "mallory"]),
        features=np.vstack([*groups, (one + other)[None] / 2]),
        label=np.r_[np.zeros(50, dtype=int), np.ones(51, dtype=int)],
        time=np.arange(n, dtype=float),
    )
    held = np.vstack([g[:10] + 0.5 * rng.normal(size=(10, 20)) for g in groups])
    label = np.repeat([0, 1], 10)
    utility = UtilityOracle(held, label, KNN)
    state = market_state(submission, held, label)

    def told(evidence):
        report = audit(
            state, get_mechanism(f"recommended/{evidence}"), utility, providers=1, only="sybil_split_k@2"
        )
        return [words for words in report.warnings if "lineage@auto" in words and "chains" in words]

    (words,) = told("cosine@0.85")
    assert "parts of 50 and 51 units" in words
    assert "all through between of mallory" in words
    assert not told("lineage@0.85")
    assert not told("cosine@0.98")
    monkeypatch.setattr(
        "datamarket_gym.evidence.spanning_forest.MOST_PAIRS", 500
    )  # near copies make as many
    (words,) = told("cosine@0.85")
    assert "chains through few units were not counted" in words
    assert "between of mallory" in words


def test_an_audit_may_say_how_well_pay_follows_what_a_model_learns(tmp_path):
    market = ProviderMarket.from_task(Synthetic(n_providers=3, per_provider=40, validation=50), 1)
    assert run(market, only=RUIN).fidelity is None
    oracle = market.utility_oracle(Utility("coverage"))
    report = audit(market, get_mechanism("recommended"), oracle, only=RUIN, fidelity=True, out=tmp_path)
    found, units = report.fidelity, market.honest.submission
    data = market.dataset
    measured = fidelity(
        units.features, units.label, data.validation_features, data.validation_label,
        utility="coverage", seed=market.seed,
    )  # fmt: skip
    assert found.lds == pytest.approx(measured.lds)
    assert found.lds_total == pytest.approx(measured.lds_total)
    assert "coverage" in found.attributions
    assert f"{found.lds:.2f} (95 % interval" in found.words
    assert AuditReport.model_validate_json((tmp_path / "audit.json").read_text()).fidelity == found
    names = audit(market, get_mechanism("shapley"), market.utility_oracle(), only=RUIN, fidelity=True)
    assert "logistic by identity" in names.fidelity.words
