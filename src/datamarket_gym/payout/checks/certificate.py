"""certificate.json: what the checks of a run leave to be gained, by the power that the operator states."""

from __future__ import annotations

from pathlib import Path

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.files import json_text
from datamarket_gym.judge.guarantees.deterred import Deterrence, Examined, certified_checks
from datamarket_gym.judge.guarantees.deterrence import Checks
from datamarket_gym.judge.guarantees.spill import Spill
from datamarket_gym.payout.checks import entries
from datamarket_gym.payout.checks.draw import read_checks
from datamarket_gym.payout.checks.payees import paid_payees
from datamarket_gym.payout.checks.plan import CheckPlan
from datamarket_gym.payout.checks.record import answers_of, examined
from datamarket_gym.payout.manifest import read_manifest, settled_by, spec_of
from datamarket_gym.payout.money import Currency
from datamarket_gym.pipeline.mechanism import Mechanism

FILE = "certificate.json"


def settled_certificate(run: Path) -> str:
    """The text of the certificate of a run that everybody passed, from what is kept of its checks and those before."""
    plan, settles = entries.read_plan(run), settled_by(read_manifest(run))
    if plan is not None:
        checks = CheckPlan.model_validate_json(plan).spot_checks
    elif settles is not None:  # nobody failed there, so that nothing was drawn here
        checks = Checks(settles.checks, settles.power)
    else:
        raise DataMarketError(f"no checks are planned; run: datamarket check plan {run}")
    found = certificate_of(run, checks)
    return json_text({**found.model_dump(mode="json"), "words": found.words})


def _examined(run: Path) -> Examined:
    """Whether each draw was a look of its own: by the answers here, or by those that all stand."""
    settles = settled_by(read_manifest(run))
    if settles is not None and entries.read_draw(run) is None:
        return settles.examined
    return examined(read_checks(run), answers_of(run))


def certificate_of(run: Path, checks: Checks) -> Deterrence:
    """What so many checks of every payee leave, for a run whose payees passed them."""
    manifest = read_manifest(run)
    spec, money, settles = (
        spec_of(manifest),
        Currency(manifest["currency"]),
        settled_by(manifest),
    )
    payees = paid_payees(run, manifest)
    return certified_checks(
        checks,
        payments=[p.paid / 10**money.digits for p in payees],
        kappa=max(p.kappa for p in payees),
        largest_unit=max(p.largest_unit for p in payees),
        spill=Spill.by(Mechanism.model_validate(manifest["mechanism"]), spec.utility),
        carried=len(settles.carried) if settles else 0,
        examined=_examined(run),
        money=money.code,
    )
