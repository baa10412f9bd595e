"""The red team of a payout run: what is aimed at the evidence is tried, and the report says who loses by it."""

import pytest
from payout_files import run, units, validation

from datamarket_gym.analysis.redteam.attack_grid import family
from datamarket_gym.analysis.redteam.audit import forgeries
from datamarket_gym.analysis.redteam.findings import Loss
from datamarket_gym.analysis.theorems import Checks
from datamarket_gym.payout.audit import read_red_team
from datamarket_gym.payout.manifest import read_manifest
from datamarket_gym.payout.report.record import attack_title, red_team_record, write_report
from datamarket_gym.payout.run import FinishedRun, PayoutJob, compute_results
from datamarket_gym.payout.settings import checked_spec
from datamarket_gym.payout.stored_inputs import places_of
from datamarket_gym.payout.validation_coverage import write_needs

AIMED = {"bridge", "leak_stuffing", "own_source", "squat"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("red_team")
    return run(place, units(120, copies=0), validation(120), theta="auto", audit=True)


@pytest.fixture(scope="module")
def results(folder):
    manifest = read_manifest(folder)
    day = PayoutJob.read(places_of(folder), checked_spec(manifest["spec"]))
    return compute_results(day, FinishedRun(folder, manifest["outputs"]))


def test_attacks_on_the_evidence_are_among_those_tried(folder):
    found, _ = read_red_team(folder / "audit.json")
    tried = {family(trial.attack) for trial in found.trials}
    assert tried >= AIMED | {"sybil_split_k", "copycat"}
    squats = [trial for trial in found.trials if family(trial.attack) == "squat"]
    assert squats
    assert all("knows=leak" in trial.attack for trial in squats)
    assumed = {family(trial.attack) for trial in found.trials if trial.assumes}
    assert assumed == {"backdate"}  # nobody saw the future


def test_the_report_says_what_a_victim_loses_by_each_attack(folder, results):
    found, _ = read_red_team(folder / "audit.json")
    rows = red_team_record(found, results)["rows"]
    assert [row["attack"] for row in rows] == [finding.family for finding in found.findings]
    for finding, row in zip(found.findings, rows, strict=True):
        assert row["loss"]["size"] == finding.loss.trial.victim_loss
        assert row["loss"]["harmful"] == (finding.loss.by_evidence > 0.02)
    assert "most a victim loses" in (folder / "report.html").read_text()


def test_forged_times_are_tried_with_and_without_a_log_in_each_run_with_a_clock(folder, results):
    found, _ = read_red_team(folder / "audit.json")
    (told,) = forgeries(found)
    believed, logged = (
        max((t for t in told.trials[clock] if t.why is None), key=lambda t: t.unchecked_rank)
        for clock in ("believed", "logged")
    )
    assert max(t.victim_loss or 0.0 for t in told.trials["believed"]) > 0.2
    assert believed.gain > 1.5 > 1.05 >= logged.gain
    assert max(t.victim_loss or 0.0 for t in told.trials["logged"]) <= 0.02
    (said,) = red_team_record(found, results)["clock"]
    assert said.startswith(
        "Times are from a column. By backdated copies (backdate), for whoever can write it"
    )
    assert f"an attacker's pay times {believed.gain:.2f}, a victim's loss" in said
    assert f"whatever is written: an attacker's pay times {logged.gain:.2f}, a victim's loss 0%" in said
    assert "backdated copies" in (folder / "report.html").read_text()
    plain = found.model_copy(update={"logged": True})
    (other,) = red_team_record(plain, results)["clock"]
    assert other.startswith("Times are from an intake log")


def test_where_no_unit_has_a_time_no_clock_is_forged(tmp_path):
    table = {k: v for k, v in units(24, copies=0).items() if k != "time"}
    place = run(tmp_path, table, validation(40), theta="none", audit=True)
    found, _ = read_red_team(place / "audit.json")
    assert not forgeries(found)
    assert not any(trial.assumes for trial in found.trials)


def page_of(audit, results, folder):
    """The report with another audit."""
    (folder / "audit.json").write_text(audit.model_dump_json())
    write_needs(results, folder)
    write_report(results, [], "0" * 64, folder)
    return " ".join((folder / "report.html").read_text(encoding="utf-8").partition("<main>")[2].split())


def test_a_victim_of_evidence_is_named_above_the_table(folder, results, tmp_path):
    found, _ = read_red_team(folder / "audit.json")
    calm = page_of(found.model_copy(update={"findings": []}), results, tmp_path)
    assert "By none did evidence cost anybody else more than 2%" in calm
    first = found.findings[0]
    trial = first.worst.model_copy(update={"victim": "000000002", "victim_loss": 0.87})
    loss = Loss(trial=trial, without_evidence=0.04, spared_by=["exact copies"])
    ruined = found.model_copy(update={"findings": [first.model_copy(update={"loss": loss})]})
    page = page_of(ruined, results, tmp_path)
    assert (
        f"By {attack_title(first.family)} ({first.family}), seller 2 lost 87% of its honest share "
        "(4% if nothing were matched)" in page
    )
    assert '<span class="bad">87%</span> of <bdi>seller 2</bdi>' in page
    assert "4% if nothing were matched; spared by exact copies" in page


def test_where_payees_are_checked_the_report_has_both_gains(folder, results, tmp_path):
    found, _ = read_red_team(folder / "audit.json")
    first = found.findings[0]
    trial = first.worst.model_copy(update={"gain": 2.5, "expected_gain": 0.625})
    deterred = first.model_copy(update={"worst": trial, "unchecked": trial})
    checked = {"findings": [deterred], "checks": Checks(2, 0.9)}
    page = page_of(found.model_copy(update=checked), results, tmp_path)
    assert '<td class="n" data-h="gain">2.500 \u2192 0.625</td>' in page
    assert "deterred by checks" in page
    assert "Each name is checked on 2 of its paid units" in page
    assert "None that assumes nothing multiplied an attacker's pay by more than" in page
    plain = page_of(found.model_copy(update={"findings": [first]}), results, tmp_path)
    assert f'data-h="gain">{first.worst.gain:.3f}</td>' in plain


def test_attacks_on_sampled_scores_are_left_out_where_they_would_take_hours(tmp_path):
    folder = run(tmp_path, units(40, copies=0), validation(30), learner="ridge", audit=True)
    found, why = read_red_team(folder / "audit.json")
    assert found is None
    assert "819,200 sets of units" in why
    assert "datamarket audit" in why
    assert "819,200 sets of units" in (folder / "report.html").read_text()


def test_attacks_on_few_units_are_played_under_any_utility(tmp_path):
    folder = run(tmp_path, units(6, copies=0), validation(20), learner="ridge", audit=True)
    found, why = read_red_team(folder / "audit.json")
    assert found is not None, why
    assert found.trials
