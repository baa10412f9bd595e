"""What forged times gain and cost in an audit: believed, and against a log."""

from dataclasses import replace

import pytest

from datamarket_gym.analysis.redteam import audit
from datamarket_gym.analysis.redteam.audit import forgeries
from datamarket_gym.cli.audit import markdown
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks import Synthetic
from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.utilities.oracle import Utility

UTILITY = Utility.paying("coverage")


@pytest.fixture(scope="module")
def market():
    return ProviderMarket.from_task(Synthetic(n_providers=4, per_provider=20, validation=80), 2)


def run(market, logged, **options):
    state = replace(market.state, logged=logged)
    return audit(
        state, get_mechanism("recommended"), market.utility_oracle(UTILITY), only="backdate", **options
    )


def test_both_clocks_are_measured_whichever_the_market_has(market):
    column, log = run(market, False), run(market, True)
    for report in (column, log):
        (forgery,) = forgeries(report)
        believed, logged = forgery.trials["believed"], forgery.trials["logged"]
        assert max(trial.gain for trial in believed) > 2.0
        assert max(trial.victim_loss for trial in believed) > 0.5
        assert max(trial.gain for trial in logged) <= 1.05
        assert max(trial.victim_loss for trial in logged) <= 0.02
        assert len(report.findings) == 2  # a line each in every table
    assert [f.worst.assumes for f in column.findings] == [
        "that submitters can forge their times",
        "that times come from an intake log",
    ]
    # What holds in the market assumes nothing, and comes first.
    assert [f.worst.assumes for f in log.findings] == ["", "that submitters can forge their times"]
    assert log.worst.worst.clock == "logged"
    assert {t.gain for t in column.trials} == {t.gain for t in log.trials}


def test_an_audit_of_a_logged_market_is_another_audit(market, tmp_path):
    run(market, False, out=tmp_path / "a", providers=1)
    kept = (tmp_path / "a" / "audit.json").read_bytes()
    run(market, False, out=tmp_path / "a", providers=1)
    assert (tmp_path / "a" / "audit.json").read_bytes() == kept
    with pytest.raises(Exception, match="another"):
        run(market, True, out=tmp_path / "a", providers=1)


def test_the_page_of_an_audit_has_both_lines(market):
    page = markdown(run(market, False))
    assert (
        "Times are from a column. By backdate, for whoever can write it: an attacker's pay times" in page
    )
    assert "With an intake log, where copies come after what they copy, whatever is written" in page
    assert markdown(run(market, True)).count("Were times a column that attackers can write") == 1


def test_no_clock_no_forgery(market):
    undated = ProviderMarket(
        market.dataset, market.provider_partition, seed=2, times="none", utility="none", learner="knn@3"
    )
    report = audit(
        undated, get_mechanism("recommended"), undated.utility_oracle(UTILITY), only="backdate"
    )
    assert not forgeries(report)
    assert all("no times" in trial.why for trial in report.trials)
