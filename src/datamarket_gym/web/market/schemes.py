"""One way of paying, for the page: who gets what, honest and attacked, what the cheat gains and others lose."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.judge.checked import Expected
from datamarket_gym.judge.guarantees.deterrence import Checks
from datamarket_gym.judge.metrics import CLEAR, Metrics, harm_of, pot_shares, provider_totals
from datamarket_gym.pipeline.mechanism import Mechanism
from datamarket_gym.pipeline.payments import Payments
from datamarket_gym.units.truth import SubmittedProfile
from datamarket_gym.web.market.asked import AskedCheat, Under
from datamarket_gym.web.market.kept import PaidMarket, attacked_by, checked_attack, market_of, paid_by
from datamarket_gym.web.market.numbers import finite
from datamarket_gym.web.workers import StoppedWork


@lru_cache(maxsize=16)
def paid_scheme(under: Under, cheat: AskedCheat, mechanism: Mechanism) -> dict[str, Any]:
    """What the mechanism pays everybody before and after the cheat; not to be written to."""
    profile = attacked_by(under.draw, cheat)
    attacker = str(profile.attacker)
    before, after = (paid_by(under, each, mechanism) for each in (None, cheat))
    honest, attacked = before.paid.payments, after.paid.payments
    return {
        "id": mechanism.id,
        "honest": _scored(honest),
        "attacked": _scored(attacked),
        "providers": list(_providers(honest, attacked, profile, attacker)),
        "identities": list(_identities(honest, attacked, profile, attacker)),
        "gain": _gain(honest, attacked, profile, attacker),
        "warnings": _warnings(before, after),
        "threshold": _thresholds(honest, attacked),
        "aside": [_aside(honest), _aside(attacked)],
    }


def _scored(payments: Payments) -> dict[str, Any]:
    scores = payments.scores
    return {
        "grand_value": finite(payments.grand_value),
        "clusters": payments.clustering.n_clusters,
        "method": scores.method,
        "exact": bool(scores.exact),
        "evaluations": int(scores.evaluations),
    }


def _providers(
    honest: Payments, attacked: Payments, profile: SubmittedProfile, attacker: str
) -> Iterator[dict[str, Any]]:
    before, after = honest.as_dict(), provider_totals(attacked, profile)
    shares, now = pot_shares(before), pot_shares(after)
    errors = [_errors(honest), _errors(attacked)]
    for name in before:
        names = profile.identities_of(name)
        lost = max(0.0, 1.0 - now[name] / shares[name]) if shares[name] > 0 else None
        yield {
            "provider": name,
            "attacker": name == attacker,
            "honest": before[name],
            "attacked": after[name],
            "honest_share": shares[name] if any(shares.values()) else None,
            "attacked_share": now[name] if any(now.values()) else None,
            "honest_error": errors[0].get(name),
            "attacked_error": _together([errors[1].get(each) for each in names]),
            "lost": None if name == attacker else lost,
        }


def _errors(payments: Payments) -> dict[str, float | None]:
    """Standard errors by identity; None where nothing bounds them."""
    found = payments.standard_errors.tolist()
    return {str(name): finite(error) for name, error in zip(payments.identities, found, strict=True)}


def _together(errors: list[float | None]) -> float | None:
    """Of a sum of amounts: no more than the sum of their errors, however they depend on each other."""
    known = [error for error in errors if error is not None]
    return sum(known) if len(known) == len(errors) else None


def _identities(
    honest: Payments, attacked: Payments, profile: SubmittedProfile, attacker: str
) -> Iterator[dict[str, Any]]:
    before, after, errors = honest.as_dict(), attacked.as_dict(), _errors(attacked)
    names, controller = profile.submission.identity.tolist(), profile.truth.controller
    for name, amount in after.items():
        yield {
            "identity": name,
            "provider": controller[name],
            "attacker": controller[name] == attacker,
            "pseudonym": name != controller[name],
            "units": names.count(name),
            "honest": before.get(name),
            "attacked": amount,
            "attacked_error": errors[name],
        }


def _gain(
    honest: Payments, attacked: Payments, profile: SubmittedProfile, attacker: str
) -> dict[str, Any]:
    report = Metrics.evaluate(attacked, profile, honest)
    harm = harm_of(honest, attacked, profile, attacker)
    return {
        "gain": None if report.near_zero else finite(report.gain),
        "why": _unclear(attacker, report.honest_payment) if report.near_zero else "",
        "additive": report.gain_additive,
        "clear": not report.near_zero,
        "honest": report.honest_payment,
        "attacked": report.attacked_payment,
        "victim": harm.victim,
        "victim_loss": finite(harm.victim_loss),
        "victim_loss_sum": finite(harm.victim_loss_sum),
        "theft": finite(harm.theft),
        "rank_stability": finite(report.rank_stability),
        "mixed_components": finite(report.mixed_components),
    }


def _unclear(attacker: str, pay: float) -> str:
    return (
        f"{attacker} earns {pay:.4g} when honest, which is not clearly above zero (no more than {CLEAR:g} of an equal "
        "share of what all data are worth), so that a multiple of it would mean nothing"
    )


def _warnings(before: PaidMarket, after: PaidMarket) -> list[dict[str, str]]:
    """Every warning once, with the market it was told of."""
    told: dict[tuple[str, str], str] = {}
    for market, paid in (("honest", before), ("attacked", after)):
        for each in paid.warnings:
            known = told.get((each.what, each.words))
            told[each.what, each.words] = "both" if known not in (None, market) else market
    return [{"what": what, "words": words, "market": market} for (what, words), market in told.items()]


def _thresholds(honest: Payments, attacked: Payments) -> dict[str, Any] | None:
    if honest.threshold is None or attacked.threshold is None:
        return None
    return {
        market: {"theta": found.theta, "evidence": found.evidence, "why": found.why}
        for market, found in (("honest", honest.threshold), ("attacked", attacked.threshold))
    }


def _aside(payments: Payments) -> int:
    """Units that were set aside because they are validation rows, or nearly."""
    return len(payments.leaks)


def expected_of(
    under: Under, cheat: AskedCheat, mechanism: Mechanism, checks: Checks
) -> tuple[Expected | None, str]:
    """What the cheat is paid in expectation with checks; or why that is not known."""
    try:
        return checked_attack(under, cheat, mechanism, checks).expected(checks), ""
    except StoppedWork:
        raise
    except DataMarketError as error:
        return None, str(error)


def checked_scheme(
    under: Under,
    cheat: AskedCheat,
    mechanism: Mechanism,
    checks: Checks,
    found: Expected | None,
    why: str,
) -> dict[str, Any]:
    """The expectation in numbers for the page."""
    told: dict[str, Any] = {"per_payee": checks.per_payee, "power": checks.power, "why": why}
    if found is None:
        return {**told, "pay": None, "gain": None, "share": None, "passes": []}
    honest = paid_by(under, None, mechanism).paid.payments
    attacker = str(attacked_by(under.draw, cheat).attacker)
    gain = paid_scheme(under, cheat, mechanism)["gain"]
    pay = gain["honest"]
    passes = checked_attack(under, cheat, mechanism, checks).passes(checks)
    return {
        **told,
        "why": gain["why"],
        "pay": found.pay,
        "gain": found.pay / pay if gain["clear"] else None,
        "share": found.share,
        "honest_share": pot_shares(honest.as_dict())[attacker],
        "spill": found.spill,
        "false_share": found.false_share,
        "kappa": finite(found.kappa),
        "passes": [{"identity": name, "chance": chance} for name, chance in passes.items()],
    }


def market_in_words(under: Under, cheat: AskedCheat) -> dict[str, Any]:
    """Who is in the market, and who hides behind which name."""
    market, profile = market_of(under.draw), attacked_by(under.draw, cheat)
    attacker = str(profile.attacker)
    return {
        "title": market.screen().title.partition("; worth by")[0],
        "providers": market.state.providers,
        "attacker": attacker,
        "pseudonyms": [name for name in profile.identities_of(attacker) if name != attacker],
        "honest_units": len(market.honest.submission),
        "attacked_units": len(profile.submission),
    }
