"""Audits and best responses that know of checks file what these leave to an attack."""

from datamarket_gym.analysis.redteam import AuditReport, Target, audit
from datamarket_gym.analysis.theorems import Checks
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks import Synthetic
from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.utilities.oracle import Utility

MARKET = ProviderMarket.from_task(Synthetic(n_providers=3, per_provider=10, validation=40), seed=1)
ORACLE = MARKET.utility_oracle(Utility.paying())
TIED = get_mechanism("recommended/lineage@0.95")
THEFT = "copycat(sigma=1.0)"


def test_a_target_under_checks_certifies_what_they_leave():
    checked = Target(MARKET.state, TIED, ORACLE, checks=Checks(5, 0.9))
    found = checked.certificate(THEFT).deterrence
    assert (found.per_payee, found.power, found.claim) == (5, 0.9, "deterred")
    assert checked._checked[THEFT].expected(Checks(5, 0.9)).pay <= checked.pay + found.residual
    assert checked.under(None).certificate(THEFT).deterrence is None


def test_an_audit_files_it_with_every_finding():
    report = audit(MARKET, TIED, ORACLE, only="copycat", providers=1, checks=Checks(3, 0.8))
    assert all(finding.certificate.deterrence is not None for finding in report.findings)
    assert AuditReport.model_validate_json(report.model_dump_json()) == report
