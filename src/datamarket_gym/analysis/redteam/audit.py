"""audit: the attack library against a mechanism on a market, provider by provider.

The steps of the run are one provider with one attack, then one attack's worst trial explained, so a killed audit loses
at most the steps in flight. Where payees are checked, expected pay counts (`datamarket_gym.analysis.spot_checks`). An
attack that writes times at which its units did not come (`Attack.forges_times`) is tried in two markets: where the
column is *believed*, and where times are *logged* by the operator, so that copies come after what they copy.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from datamarket_gym import __version__
from datamarket_gym.analysis.metrics import clearly_paid, harm_of
from datamarket_gym.analysis.redteam.attack_grid import attack_grid, family, moved_embeddings
from datamarket_gym.analysis.redteam.findings import (
    STOP_AT,
    STOP_LOSS,
    AuditReport,
    Finding,
    Group,
    Loss,
    Trial,
    worst_first,
)
from datamarket_gym.analysis.redteam.remedies import share_lost, spared_by, try_remedies
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
from datamarket_gym.market.attacks.base import ATTACKS, apply_knowing
from datamarket_gym.market.datasets import looking_in, named_folder
from datamarket_gym.market.market import MarketState, ProviderMarket
from datamarket_gym.mechanism.external import OwnMechanism, Payer
from datamarket_gym.mechanism.pipeline import Mechanism, as_mechanism, describe_leaks
from datamarket_gym.registry import written
from datamarket_gym.utilities.oracle import UtilityOracle

_MOST = 3  # in a sentence


def chaining_messages(resolved: Mechanism, honest: Paid) -> list[str]:
    """What few units chain together under likeness; lineage joins no two groups, and other evidence is certain."""
    layer = resolved.evidence
    if isinstance(layer, Lineage) or not layer.by_similarity:
        return []
    submission = honest.profile.submission
    found = find_chains(honest.payments.clustering)

    def named(unit: int) -> str:
        return f"{submission.id[unit]} of {submission.identity[unit]}"

    if found and found[0].crossing is None:  # a few hundred near copies of one unit are enough for that
        return [
            f"{resolved.evidence} matches more than {MOST_PAIRS:,} pairs, so chains through few units were not "
            f"counted: look at {chain_messages(found[0], named)}. lineage@auto chains nothing"
        ]
    thin = [chain for chain in found if chain.thin]
    if not thin:
        return []
    words = "; ".join(chain_messages(chain, named) for chain in thin[:_MOST])
    more = f"; and {len(thin) - _MOST:,} more" if len(thin) > _MOST else ""
    head = f"{resolved.evidence} chains large parts of clusters through {FEW} units or fewer"
    return [f"{head}: {words}{more}. lineage@auto matches a unit with one earlier unit alone"]


BELIEVED, LOGGED = "believed", "logged"


def clocks_of(attack: str, state: MarketState) -> tuple[str, ...]:
    """The clocks under which an attack is tried; the market's own ("") where it writes no times, or there are none."""
    forges = ATTACKS.create(attack).forges_times and state.honest.submission.time is not None
    return (BELIEVED, LOGGED) if forges else ("",)


def under(clock: str, state: MarketState) -> MarketState:
    """Put the market under a clock."""
    return replace(state, logged=clock != BELIEVED) if clock else state


def assumed(attack: str, clock: str, logged: bool) -> str:
    """What has to hold for an attack under a clock beside what holds in the audited market."""
    if clock in ("", BELIEVED):
        return ATTACKS.create(attack).assumes
    return "" if logged else "that times come from an intake log"


@dataclass(frozen=True)
class Forgery:
    """The trials of one attack that forges times, by clock."""

    family: str
    logged: bool  # whether the audited market goes by a log
    trials: dict[str, list[Trial]]

    def outcome(self, clock: str) -> str:
        """Say what the worst trial under a clock gains, and what another loses by the most harmful one."""
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
        """Say what holds for the audited market, and what would under the other clock."""
        believed, logged = self.outcome(BELIEVED), self.outcome(LOGGED)
        if self.logged:
            return (
                f"Times are from an intake log, where copies come after what they copy, whatever is written. "
                f"By {called}: {logged}. Were times a column that attackers can write: {believed}."
            )
        return (
            f"Times are from a column. By {called}, for whoever can write it: {believed}. With an intake log, "
            f"where copies come after what they copy, whatever is written: {logged}."
        )


def forgeries(report: AuditReport) -> list[Forgery]:
    """What forged times came to in an audit, attack by attack."""
    found: dict[str, dict[str, list[Trial]]] = {}
    for trial in report.trials:
        if trial.clock:
            clocks = found.setdefault(family(trial.attack), {BELIEVED: [], LOGGED: []})
            clocks[trial.clock].append(trial)
    return [Forgery(name, report.logged, trials) for name, trials in found.items()]


REPORT = "audit.json"


@dataclass(frozen=True, eq=False)
class Context:
    """All that a step needs: it travels to the worker processes."""

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

    def attacked(self, provider: str, attack: str, clock: str) -> SubmittedProfile:
        """The profile after an attack, under a clock."""
        chosen = ATTACKS.create(attack)
        with looking_in(self.data):
            profile = apply_knowing(chosen, provider, under(clock, self.state), self.knowledge)
            profile = moved_embeddings(profile, self.state)
        return replace(profile, attack=attack)


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
) -> AuditReport:
    """Run the attack library against a mechanism, provider by provider.

    Parameters
    ----------
    market, mechanism, utility
        The market, the mechanism that is attacked, and what data are worth.
    providers
        How many providers attack, drawn at random; all if left out.
    only
        Comma-separated patterns of the attacks to try; all if left out.
    stop_at
        The gain up to which an attack counts as stopped.
    out
        A folder that keeps the report as ``audit.json``, and from which an interrupted audit resumes.
    jobs, progress
        Worker processes, and where progress is reported.
    threshold
        Which similarity thresholds the whole market admits, where this one is a sample of it.
    checks
        Spot checks of each payee; gains are expected ones then.
    knowledge
        The share of the other providers' units that attackers see.

    Returns
    -------
    AuditReport
        All trials, and the worst of each attack explained.
    """
    state = market.state if isinstance(market, ProviderMarket) else market
    payer = as_mechanism(mechanism)
    require_in("knowledge", knowledge, 0.0, 1.0)
    require_checkable(payer, checks)
    everyone = state.providers
    if providers is not None:
        require_count("providers", providers)
        chosen = keyed_generator(state.seed, "audited").permutation(len(everyone))[:providers]
        everyone = [everyone[i] for i in sorted(chosen.tolist())]
    honest = paid_by(payer, state.honest, utility)
    resolved, evidence, warnings = _resolved(payer, honest)
    undated = describe_missing_times(state.honest.submission)
    context = Context(
        state=state,
        utility=utility,
        mechanism=payer,
        honest=honest,
        attacks=attack_grid(state, only),
        providers=everyone,
        stop_at=stop_at,
        data=named_folder(),
        threshold=threshold or resolved,
        evidence=evidence,
        warnings=warnings if undated is None else [*warnings, undated],
        checks=checks,
        knowledge=knowledge,
    )
    if out is None:
        return _found(context, Unkept(executor_of_steps(jobs), progress or SILENT))
    return _audit(context, out, jobs, progress)


def _resolved(
    mechanism: Mechanism | OwnMechanism, honest: PaidProfile
) -> tuple[Threshold | None, str, list[str]]:
    """The threshold and evidence of the honest market, and warnings; one of somebody's own has none."""
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
    aside = [describe_leaks(leaks)] if len(leaks) else []
    found = [*aside, *([] if collapse is None else [collapse.message])]
    return threshold, str(resolved.evidence), [*found, *chaining_messages(resolved, honest)]


def _audit(context: Context, out: Path, jobs: int, progress: Progress | None) -> AuditReport:
    report, digest = out / REPORT, _digest(context)
    with open_run(
        out, digest, "audit", __version__,
        outputs=[REPORT], executor=executor_of_steps(jobs), progress=progress,
    ) as run:  # fmt: skip
        if not run.finished:
            write_text(report, _found(context, run).model_dump_json(indent=1) + "\n")
            manifest = {"kind": "audit", "mechanism": context.mechanism.id, "digest": digest}
            write_json(out / MANIFEST, manifest, indent=2, sort=False)
        return AuditReport.model_validate_json(report.read_text(encoding="utf-8"))


def _found(context: Context, run: Run | Unkept) -> AuditReport:
    """The report, from steps that are done or kept."""
    run.progress.stage("audit", "attacks")
    played = [
        (attack, clock) for attack in context.attacks for clock in clocks_of(attack, context.state)
    ]
    tries = [(provider, *each) for provider in context.providers for each in played]
    kinds = {(family(a), assumed(a, c, context.state.logged)) for a, c in played}
    trials = run.steps(
        _trial, context, {f"trial-{i:06d}": each for i, each in enumerate(tries)}, _TRIAL,
        after=len(kinds),
    )  # fmt: skip
    explain = {f"finding-{i:03d}": (group, len(trials)) for i, group in enumerate(worst_first(trials))}
    findings = run.steps(_explain, context, explain, _FINDING, before=len(tries))
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
        logged=context.state.logged,
        providers=context.providers,
        trials=trials,
        findings=findings,
    )


def _trial(context: Context, provider: str, attack: str, clock: str) -> Trial:
    honest = context.honest.total(provider)
    try:
        profile = context.attacked(provider, attack, clock)
        with suppress_market_warnings():
            attacked = paid_by(context.mechanism, profile, context.utility)
            checked = _checked(context, profile, attacked)
    except DataMarketError as error:  # too few units for so many names, nobody to copy from
        return Trial(
            provider=provider, attack=attack, honest_payment=honest, clock=clock, why=str(error)
        )
    before, paid = context.honest.payments, attacked.total(provider)
    due = paid if checked is None else checked.pay
    clear = clearly_paid(honest, before.grand_value, len(context.state.providers))
    harm = harm_of(before, attacked.payments, profile, provider)
    return Trial(
        provider=provider,
        attack=attack,
        honest_payment=honest,
        attacked_payment=paid,
        gain=paid / honest if clear else None,
        expected_payment=due,
        expected_gain=due / honest if clear else None,
        victim=harm.victim,
        victim_loss=_known(harm.victim_loss),
        theft=_known(harm.theft),
        assumes=assumed(attack, clock, context.state.logged),
        clock=clock,
    )


def _checked(context: Context, profile: SubmittedProfile, attacked: PaidProfile) -> Expected | None:
    """Price an attack under the checks; None where there are none."""
    if context.checks is None:
        return None
    found = checked_attack(
        context.mechanism,
        profile,
        attacked.payments,
        context.state.honest,
        context.honest.total(str(profile.attacker)),
        context.utility,
    )
    return found.expected(context.checks)


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number


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
                m,
                context.state.honest,
                profile,
                context.utility,
                honest.payments,
                context.stop_at,
                context.threshold,
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
    """What the victim of a trial loses where the mechanism matches nothing; None where it loses little."""
    m = context.mechanism
    if (
        not isinstance(m, Mechanism)
        or harmful.victim is None
        or (harmful.victim_loss or 0.0) <= STOP_LOSS
    ):
        return None
    without = m.model_copy(update={"evidence": "none"})
    profile = context.attacked(harmful.provider, harmful.attack, harmful.clock)
    honest = context.state.honest
    before, after = (paid_by(without, p, context.utility).payments for p in (honest, profile))
    return share_lost(harmful.victim, honest, before, profile, after)


def _spared(context: Context, loss: Loss) -> Loss:
    """The loss with the evidence under which it is gone, where evidence adds to it and is ours to change."""
    m, trial = context.mechanism, loss.trial
    if not isinstance(m, Mechanism) or trial.victim is None or loss.by_evidence <= STOP_LOSS:
        return loss
    profile = context.attacked(trial.provider, trial.attack, trial.clock)
    allowed = (loss.without_evidence or 0.0) + STOP_LOSS
    spared = spared_by(
        m, context.state.honest, profile, context.utility, trial.victim, allowed, context.threshold
    )
    return loss.model_copy(update={"spared_by": spared})


def _digest(context: Context) -> str:
    """A hash of all that decides an audit."""
    submission = context.state.honest.submission
    parts = [
        __version__,
        context.mechanism.key,
        written(context.utility.learner),
        context.utility.utility.empty,
        str(context.stop_at),
        repr((context.checks, context.knowledge, context.state.logged)),
        "" if context.threshold is None else context.threshold.model_dump_json(),
        str(context.state.seed),
        repr((context.providers, context.attacks, submission.identity.tolist())),
        repr(submission.times.tolist()),
    ]
    digest = hashlib.sha256("|".join(parts).encode())
    utility, reference = context.utility, context.utility.reference
    for array in (
        submission.vectors,
        utility.features,
        utility.embedding,
        context.state.leaked_features,
        None if reference is None else reference.features,
        None if reference is None else reference.embedding,
    ):
        digest.update(b"" if array is None else array.tobytes())
    if reference is not None:
        digest.update(repr((reference.label.tolist(), reference.text)).encode())
    digest.update(b"".join(submission.keys.tolist()) + repr(context.utility.label.tolist()).encode())
    return digest.hexdigest()


M = TypeVar("M", bound=BaseModel)


def _kept_as(model: type[M]) -> Format[M]:
    def write(path: Path, found: M) -> None:
        path.write_text(found.model_dump_json(), encoding="utf-8")

    def read(path: Path) -> M:
        return model.model_validate_json(path.read_text(encoding="utf-8"))

    return Format(".json", write, read)


_TRIAL, _FINDING = _kept_as(Trial), _kept_as(Finding)
