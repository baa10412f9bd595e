"""audit: the attack library against a mechanism on a market, provider by provider.

The steps of the run are one provider with one attack, then one attack's worst trial explained, so a killed audit loses
at most the steps in flight. Where payees are checked, expected pay counts (`datamarket_gym.analysis.spot_checks`). An
attack that writes times at which its units did not come (`Attack.forges_times`) is tried in two markets: where the
column is *believed*, and where times are *logged* by the operator, so that copies come after what they copy.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from datamarket_gym import __version__
from datamarket_gym.analysis.metrics import clearly_paid, harm_of
from datamarket_gym.analysis.redteam.attack_grid import attack_grid, attacked_profile, family
from datamarket_gym.analysis.redteam.findings import (
    STOP_AT,
    STOP_LOSS,
    AuditReport,
    FidelityRecord,
    Finding,
    Group,
    Loss,
    Trial,
    worst_first,
)
from datamarket_gym.analysis.redteam.remedies import (
    Alternative,
    pay_alternatives,
    share_lost,
    spared_by,
    try_remedies,
)
from datamarket_gym.analysis.spot_checks import Expected, checked_attack, require_checkable
from datamarket_gym.analysis.theorems.certificate import certified
from datamarket_gym.analysis.theorems.deterrence import Checks
from datamarket_gym.analysis.theorems.paid_profile import Paid, PaidProfile, paid_by
from datamarket_gym.data.content_keys import keyed_generator
from datamarket_gym.data.ground_truth import SubmittedProfile
from datamarket_gym.errors import DataMarketError, require_count, require_in
from datamarket_gym.evidence.chaining import FEW, chain_messages, find_chains
from datamarket_gym.evidence.graph import describe_missing_times, find_collapse, suppress_market_warnings
from datamarket_gym.evidence.lineage import Lineage
from datamarket_gym.evidence.spanning_forest import MOST_PAIRS
from datamarket_gym.evidence.threshold import Threshold
from datamarket_gym.execution.files import write_json, write_text
from datamarket_gym.execution.parallel import executor_of_steps
from datamarket_gym.execution.progress import SILENT, Progress
from datamarket_gym.execution.runs import MANIFEST, Format, Run, Unkept, open_run
from datamarket_gym.games.semivalues import SEMIVALUES
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.market.datasets import looking_in, named_folder
from datamarket_gym.market.market import MarketState, ProviderMarket
from datamarket_gym.mechanism.allocation import Payments
from datamarket_gym.mechanism.own_mechanism import OwnMechanism, Payer
from datamarket_gym.mechanism.pipeline import Mechanism, as_mechanism, describe_leaks
from datamarket_gym.registry import written
from datamarket_gym.utilities.fidelity import measure_fidelity, train_on_halves
from datamarket_gym.utilities.oracle import UtilityOracle

_MOST = 3  # in a sentence


def chaining_messages(resolved: Mechanism, honest: Paid) -> list[str]:
    """Describe what few units chain together under similarity; lineage joins no two groups."""
    layer, submission = resolved.evidence, honest.profile.submission
    if isinstance(layer, Lineage) or not layer.by_similarity:
        return []

    def named(unit: int) -> str:
        return f"{submission.id[unit]} of {submission.identity[unit]}"

    chains = find_chains(honest.payments.clustering)
    if (
        chains and chains[0].crossing is None
    ):  # a few hundred near copies of one unit are enough for that
        return [
            f"{layer} matches more than {MOST_PAIRS:,} pairs, so chains through few units were not counted: look at "
            f"{chain_messages(chains[0], named)}. lineage@auto chains nothing"
        ]
    if not (thin := [chain for chain in chains if chain.thin]):
        return []
    listed = [chain_messages(chain, named) for chain in thin[:_MOST]]
    listed += [f"and {len(thin) - _MOST:,} more"] if len(thin) > _MOST else []
    return [
        f"{layer} chains large parts of clusters through {FEW} units or fewer: {'; '.join(listed)}. lineage@auto "
        "matches a unit with one earlier unit alone"
    ]


BELIEVED, LOGGED = "believed", "logged"


def clocks_of(attack: str, state: MarketState) -> tuple[str, ...]:
    """Return the clocks under which an attack is tried; the market's own ("") where it forges no times."""
    forges = ATTACKS.create(attack).forges_times and state.honest.submission.time is not None
    return (BELIEVED, LOGGED) if forges else ("",)


def assumed(attack: str, clock: str, logged: bool) -> str:
    """Return what an attack under a clock assumes beyond what holds in the audited market."""
    if clock in ("", BELIEVED):
        return ATTACKS.create(attack).assumes
    return "" if logged else "that times come from an intake log"


@dataclass(frozen=True)
class Forgery:
    family: str
    logged: bool  # whether the audited market goes by a log
    trials: dict[str, list[Trial]]

    def outcome(self, clock: str) -> str:
        played = [trial for trial in self.trials[clock] if trial.why is None]
        if not played:
            return "it cannot be played"
        worst = max(played, key=lambda t: t.unchecked_rank)
        gain = "of no defined factor" if worst.gain is None else f"times {worst.gain:.2f}"
        expected = [t.expected_gain for t in played if t.expected_gain is not None]
        if expected and worst.expected_payment != worst.attacked_payment:
            gain += f" ({max(expected):.2f} given the checks)"
        lost = max(played, key=lambda t: t.harm_rank).victim_loss
        loss = "undefined" if lost is None else f"{lost:.0%}"
        return f"an attacker's pay {gain}, a victim's loss {loss}"

    def words(self, called: str) -> str:
        believed, logged = self.outcome(BELIEVED), self.outcome(LOGGED)
        order = "where copies come after what they copy, whatever is written"
        if self.logged:
            return (
                f"Times are from an intake log, {order}. By {called}: {logged}. Were times a column that attackers "
                f"can write: {believed}."
            )
        return (
            f"Times are from a column. By {called}, for whoever can write it: {believed}. With an intake log, {order}: "
            f"{logged}."
        )


def forgeries(report: AuditReport) -> list[Forgery]:
    by_family: dict[str, dict[str, list[Trial]]] = {}
    for trial in report.trials:
        if trial.clock:
            clocks = by_family.setdefault(family(trial.attack), {BELIEVED: [], LOGGED: []})
            clocks[trial.clock].append(trial)
    return [Forgery(name, report.logged, trials) for name, trials in by_family.items()]


REPORT = "audit.json"
_MOST_PAYMENTS = 64
_honest_payments: dict[tuple[str, str], Payments] = {}


@dataclass(frozen=True, eq=False)
class Context:
    state: MarketState
    utility: UtilityOracle
    mechanism: Mechanism | OwnMechanism
    honest: PaidProfile
    attacks: list[str]
    providers: list[str]
    stop_at: float
    data: Path | None
    threshold: Threshold | None
    evidence: str
    warnings: list[str]
    checks: Checks | None
    knowledge: float
    fidelity: FidelityRecord | None
    digest: str = ""  # of all of it

    def pay_honest(self, mechanism: Mechanism) -> Payments:
        """Pay the honest profile by another mechanism, once in each process."""
        key = self.digest, mechanism.key
        if key not in _honest_payments:
            honest = self.state.honest
            paid = mechanism.pay(honest.submission, self.utility, honest.truth)
            if len(_honest_payments) >= _MOST_PAYMENTS:
                _honest_payments.clear()
            _honest_payments[key] = paid
        return _honest_payments[key]

    def alternatives(self, attacked: SubmittedProfile) -> Iterator[Alternative]:
        """Pay an attack under every other evidence."""
        assert isinstance(self.mechanism, Mechanism)
        honest, measured = self.state.honest, self.threshold
        return pay_alternatives(
            self.mechanism, honest, attacked, self.utility, measured, self.pay_honest
        )

    def attacked(self, provider: str, attack: str, clock: str) -> SubmittedProfile:
        state = replace(self.state, logged=clock != BELIEVED) if clock else self.state
        with looking_in(self.data):
            return attacked_profile(attack, provider, state, self.knowledge)


def audit(
    market: ProviderMarket | MarketState,
    mechanism: Payer,
    utility: UtilityOracle,
    *,
    providers: int | None = None,
    only: str | None = None,
    stop_at: float = STOP_AT,
    out: Path | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
    threshold: Threshold | None = None,
    checks: Checks | None = None,
    knowledge: float = 1.0,
    fidelity: bool = False,
) -> AuditReport:
    """Run the attack library against a mechanism, provider by provider.

    Parameters
    ----------
    market, mechanism, utility
        The market, the mechanism that is attacked, and what data are worth.
    providers, only
        How many providers attack, drawn at random, and comma-separated patterns of attacks; all if left out.
    stop_at
        The gain up to which an attack counts as stopped.
    out
        A folder that keeps the report as ``audit.json``, and from which an interrupted audit resumes.
    jobs, progress
        Worker processes, and where progress is reported.
    threshold
        Which similarity thresholds the whole market admits, where this one is a sample of it.
    checks, knowledge
        Spot checks of each payee (gains are expected ones then), and the share of others' units that attackers see.
    fidelity
        Whether it is also measured how well the utility's values of honest units predict what logistic regression
        learns (`datamarket_gym.fidelity`).

    Returns
    -------
    AuditReport
        All trials, and the worst of each attack explained.
    """
    state = market.state if isinstance(market, ProviderMarket) else market
    payer = as_mechanism(mechanism)
    require_in("knowledge", knowledge, 0.0, 1.0)
    require_checkable(payer, checks)
    attackers = state.providers
    if providers is not None:
        require_count("providers", providers)
        drawn = keyed_generator(state.seed, "audited").permutation(len(attackers))[:providers]
        attackers = [attackers[i] for i in sorted(drawn.tolist())]
    honest = paid_by(payer, state.honest, utility)
    resolved, evidence, warnings = _resolved(payer, honest)
    undated = describe_missing_times(state.honest.submission)
    context = Context(
        state=state,
        utility=utility,
        mechanism=payer,
        honest=honest,
        attacks=attack_grid(state, only),
        providers=attackers,
        stop_at=stop_at,
        data=named_folder(),
        threshold=threshold or resolved,
        evidence=evidence,
        warnings=warnings if undated is None else [*warnings, undated],
        checks=checks,
        knowledge=knowledge,
        fidelity=_fidelity(state, utility) if fidelity else None,
    )
    context = replace(context, digest=_digest(context))
    if out is None:
        return _report(context, Unkept(executor_of_steps(jobs), progress or SILENT))
    path, digest = out / REPORT, context.digest
    with open_run(
        out, digest, "audit", __version__,
        outputs=[REPORT], executor=executor_of_steps(jobs), progress=progress,
    ) as run:  # fmt: skip
        if not run.finished:
            write_text(path, _report(context, run).model_dump_json(indent=1) + "\n")
            manifest = {"kind": "audit", "mechanism": payer.id, "digest": digest}
            write_json(out / MANIFEST, manifest, indent=2, sort=False)
        return AuditReport.model_validate_json(path.read_text(encoding="utf-8"))


def _fidelity(state: MarketState, utility: UtilityOracle) -> FidelityRecord:
    """Measure fidelity at unit level, or at identity level where units have no formula."""
    units, shapley = state.honest.submission, SEMIVALUES.create("shapley")
    outcomes = train_on_halves(units, utility, seed=state.seed)
    level = "unit" if utility.game(units).closed_form(shapley) is not None else "identity"
    return FidelityRecord.of(measure_fidelity(units, utility, shapley, level, outcomes=outcomes))


def _resolved(
    mechanism: Mechanism | OwnMechanism, honest: PaidProfile
) -> tuple[Threshold | None, str, list[str]]:
    """Return the threshold and evidence of the honest market, and warnings; an external mechanism has none."""
    if not (isinstance(mechanism, Mechanism) and isinstance(honest, Paid)):
        return None, "", []
    resolved, threshold = honest.resolved(mechanism), honest.payments.threshold
    collapse = find_collapse(
        resolved.evidence,
        honest.profile.submission,
        honest.payments.clustering,
        checked=threshold is not None,
    )
    leaks = honest.payments.leaks
    warnings = [describe_leaks(leaks)] if len(leaks) else []
    warnings += [] if collapse is None else [collapse.message]
    return threshold, str(resolved.evidence), [*warnings, *chaining_messages(resolved, honest)]


def _report(context: Context, run: Run | Unkept) -> AuditReport:
    run.progress.stage("audit", "attacks")
    state = context.state
    played = [(attack, clock) for attack in context.attacks for clock in clocks_of(attack, state)]
    tries = [(provider, *pair) for provider in context.providers for pair in played]
    kinds = {(family(a), assumed(a, c, state.logged)) for a, c in played}
    tasks = {f"trial-{i:06d}": trial for i, trial in enumerate(tries)}
    trials = run.steps(_trial, context, tasks, _format(Trial), after=len(kinds))
    explain = {f"finding-{i:03d}": (group, len(trials)) for i, group in enumerate(worst_first(trials))}
    findings = run.steps(_explain, context, explain, _format(Finding), before=len(tries))
    resolved = context.honest.payments.threshold if isinstance(context.honest, Paid) else None
    return AuditReport(
        mechanism=m if isinstance(m := context.mechanism, Mechanism) else m.name,
        evidence=context.evidence,
        why=None if resolved is None else resolved.why,
        warnings=context.warnings,
        utility=repr(context.utility),
        stop_at=context.stop_at,
        checks=context.checks,
        knowledge=context.knowledge,
        logged=state.logged,
        fidelity=context.fidelity,
        providers=context.providers,
        trials=trials,
        findings=findings,
    )


def _trial(context: Context, provider: str, attack: str, clock: str) -> Trial:
    honest = context.honest.total(provider)
    played: dict[str, Any] = {"provider": provider, "attack": attack, "clock": clock}
    try:
        profile = context.attacked(provider, attack, clock)
        with suppress_market_warnings():
            attacked = paid_by(context.mechanism, profile, context.utility)
            checked = _checked(context, profile, attacked)
    except DataMarketError as error:  # too few units for so many names, no provider to copy from
        return Trial(**played, honest_payment=honest, why=str(error))
    before, paid = context.honest.payments, attacked.total(provider)
    due = paid if checked is None else checked.pay
    clear = clearly_paid(honest, before.grand_value, len(context.state.providers))
    harm = harm_of(before, attacked.payments, profile, provider)
    return Trial(
        **played,
        honest_payment=honest,
        attacked_payment=paid,
        gain=paid / honest if clear else None,
        expected_payment=due,
        expected_gain=due / honest if clear else None,
        victim=harm.victim,
        victim_loss=None if math.isnan(harm.victim_loss) else harm.victim_loss,
        theft=None if math.isnan(harm.theft) else harm.theft,
        assumes=assumed(attack, clock, context.state.logged),
    )


def _checked(context: Context, profile: SubmittedProfile, attacked: PaidProfile) -> Expected | None:
    if context.checks is None:
        return None
    pay, honest = context.honest.total(str(profile.attacker)), context.state.honest
    checked = checked_attack(context.mechanism, profile, attacked.payments, honest, pay, context.utility)
    return checked.expected(context.checks)


def _explain(context: Context, group: Group, all_tried: int) -> Finding:
    worst, unchecked = group.worst, group.unchecked
    profile = context.attacked(unchecked.provider, unchecked.attack, unchecked.clock)
    m, honest = context.mechanism, context.honest
    with suppress_market_warnings():
        attacked = paid_by(m, profile, context.utility)
        checked = _checked(context, profile, attacked)
        left = None if checked is None else checked.deterrence()
        certificate = certified(honest, attacked, m, comparisons=all_tried, deterrence=left)
        remedies = []
        gains = worst.expected_gain is None or worst.expected_gain > context.stop_at
        if gains and isinstance(m, Mechanism) and isinstance(honest, Paid):  # else evidence is not ours
            if unchecked != worst:
                profile = context.attacked(worst.provider, worst.attack, worst.clock)
            remedies = try_remedies(
                context.alternatives(profile),
                honest.payments,
                context.utility,
                context.stop_at,
                context.checks,
            )
        competition = _without_evidence(context, group.harmful)
        loss = _spared(context, Loss(trial=group.harmful, without_evidence=competition))
    return Finding(
        family=family(worst.attack),
        worst=worst,
        unchecked=unchecked,
        loss=loss,
        tried=group.tried,
        certificate=certificate,
        remedies=remedies,
    )


def _without_evidence(context: Context, harmful: Trial) -> float | None:
    """Return the victim's loss where nothing matches; None where the victim loses little."""
    m, lost = context.mechanism, harmful.victim_loss or 0.0
    if not isinstance(m, Mechanism) or harmful.victim is None or lost <= STOP_LOSS:
        return None
    without = m.model_copy(update={"evidence": "none"})
    profile = context.attacked(harmful.provider, harmful.attack, harmful.clock)
    after = paid_by(without, profile, context.utility).payments
    return share_lost(harmful.victim, context.state.honest, context.pay_honest(without), profile, after)


def _spared(context: Context, loss: Loss) -> Loss:
    """Add the evidence under which the loss is gone, where evidence adds to the loss and can be changed."""
    m, trial = context.mechanism, loss.trial
    if not isinstance(m, Mechanism) or trial.victim is None or loss.by_evidence <= STOP_LOSS:
        return loss
    profile = context.attacked(trial.provider, trial.attack, trial.clock)
    allowed = (loss.without_evidence or 0.0) + STOP_LOSS
    spared = spared_by(context.alternatives(profile), trial.victim, allowed)
    return loss.model_copy(update={"spared_by": spared})


def _digest(context: Context) -> str:
    state, utility, submission = context.state, context.utility, context.state.honest.submission
    parts = [
        __version__, context.mechanism.key, written(utility.learner), utility.utility.empty,
        context.stop_at, context.checks, context.knowledge, context.threshold, state.logged, state.seed,
        context.providers, context.attacks, submission.identity.tolist(), submission.times.tolist(),
        submission.keys.tolist(), utility.label.tolist(),
    ]  # fmt: skip
    arrays = [submission.vectors, utility.features, utility.embedding, state.leaked_features]
    if context.fidelity is not None:
        parts.append("fidelity")
    if (reference := utility.reference) is not None:
        parts += [reference.label.tolist(), reference.text]
        arrays += [reference.features, reference.embedding]
    digest = hashlib.sha256(repr(parts).encode())
    for array in arrays:
        digest.update(b"" if array is None else array.tobytes())
    return digest.hexdigest()


M = TypeVar("M", bound=BaseModel)


def _format(model: type[M]) -> Format[M]:
    def write(path: Path, result: M) -> None:
        path.write_text(result.model_dump_json(), encoding="utf-8")

    return Format(".json", write, lambda path: model.model_validate_json(path.read_bytes()))
