"""``datamarket audit``: let every provider of a submission try the attack library."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from rich import table as rich
from rich.console import Console
from rich.markup import escape
from typer import Argument

from datamarket_gym import registry
from datamarket_gym.analysis.redteam import AuditReport, market_state
from datamarket_gym.analysis.redteam import audit as run_audit
from datamarket_gym.analysis.redteam.audit import forgeries
from datamarket_gym.analysis.redteam.findings import STOP_LOSS, Finding, Loss, assuming
from datamarket_gym.analysis.spot_checks import requested_checks
from datamarket_gym.cli import terminal
from datamarket_gym.cli.terminal import make_table, say
from datamarket_gym.data.readers.databases import as_files
from datamarket_gym.data.readers.tables import Table
from datamarket_gym.data.submission import Submission
from datamarket_gym.evidence.graph import suppress_market_warnings
from datamarket_gym.execution.files import write_text
from datamarket_gym.execution.parallel import available_cores, compute, computing
from datamarket_gym.execution.progress import shown_on_stderr
from datamarket_gym.market.market import MarketState
from datamarket_gym.mechanism.pipeline import MECHANISMS, as_mechanism
from datamarket_gym.payout.inputs import Inputs, encoder_name, read_inputs
from datamarket_gym.payout.settings import INTAKE_OPTION, PayoutSpec, option, payout_spec
from datamarket_gym.payout.stored_inputs import Places
from datamarket_gym.registry import Document
from datamarket_gym.utilities.oracle import Utility, UtilityOracle


class AuditOptions(Document):
    """The options of ``datamarket audit``, beside settings of a payout run."""

    validation: str = option(
        "Table of validation rows, on which units are valued, as for `pay`.", ..., in_file=True
    )
    reference: str | None = option(
        "Further honest units on which `recommended` measures its similarity threshold, as for `pay`.",
        in_file=True,
    )
    intake: str | None = INTAKE_OPTION
    mechanism: str = option(
        "The mechanism that would pay; see: datamarket list mechanism.", "recommended"
    )
    empty: str | None = option(
        "What no data at all is worth: chance (accuracy over chance; if left out) or none (accuracy over 0). Coverage "
        "always counts from 0."
    )
    knowledge: float = option("Share of the others' units that an attacker sees, from 0 to 1.", 1.0)
    providers: int | None = option("How many providers attack, drawn at random; all if left out.", ge=1)
    only: str | None = option("Only these attacks: names separated by commas, * allowed.")
    stop_at: float = option("An attack with a gain of at most this counts as stopped.", 1.05, ge=1)
    fidelity: bool = option(
        "Also measure how well values predict what a model learns from honest units.", False
    )
    seed: int = option("Seed of the attackers' random choices.", 0, ge=0)
    out: Path = option("Folder for the report.", Path("runs/audit"))


@terminal.with_payout_settings(
    ("learner", "files.scores", "checks", "power", "quarantine", *terminal.TABLES)
)
@terminal.with_options(AuditOptions)
def audit(
    submission: Annotated[
        str, Argument(help="Table of units, or a folder identity/label/image, as for `pay`.")
    ],
    options: AuditOptions,
    settings: dict[str, Any],
    jobs: terminal.Jobs = 0,
    cluster: terminal.Cluster = "",
    device: terminal.BlockDevice = "cpu",
    memory: terminal.Memory = terminal.MEMORY,
    load: terminal.Load = None,
) -> None:
    """Let every provider of a submission try the attack library, and print what it would gain.

    Every identity of the table is taken for an honest provider. Printed are, for each attack, the largest ratio of
    attacked to honest payment (1 = no gain) without spot checks and with them, and the largest loss of another
    provider. For a mechanism other than `recommended`, no checks are assumed unless --checks is set. Writes audit.json
    and audit.md; the same command resumes an audit that was interrupted.
    """
    registry.load(load or [])
    # Nothing is paid here; but the settings of a payout run include an amount.
    spec = payout_spec({"amount": "1", **terminal.without_file_times(settings, options.intake)})
    checks = settings.get("checks")
    intake: dict[str, Any] = options.model_dump(include={"intake"})
    tables = {
        "submissions": submission,
        "validation": options.validation,
        "reference": options.reference,
        "scores": spec.files.scores,
    }
    with (
        terminal.compute_context(cluster=cluster, device=device, memory=memory),
        shown_on_stderr() as progress,
        suppress_market_warnings(),  # the report has it
    ):
        with as_files(tables) as files, computing(replace(compute(), progress=progress)):
            state, oracle, ignored = _market(Places(**files | intake), spec, options)
        chosen = as_mechanism(MECHANISMS.create(options.mechanism), options.mechanism)
        report = run_audit(
            state,
            chosen,
            oracle,
            **options.model_dump(
                include={"providers", "only", "stop_at", "out", "knowledge", "fidelity"}
            ),
            jobs=jobs or available_cores(),
            progress=progress,
            checks=requested_checks(chosen, checks, spec.power),
        )
    labels = [f"Warning: Labels do not count: {'; '.join(ignored)}."] if ignored else []
    write_text(options.out / "audit.md", markdown(report))
    Console().print(_table(report))
    for text in [*_paragraphs(report), *labels]:
        say(text, "red" if text.startswith("Warning: ") else None)
    say(f"\nthe report with all certificates is in {options.out}/")


def _market(
    places: Places, spec: PayoutSpec, options: AuditOptions
) -> tuple[MarketState, UtilityOracle, tuple[str, ...]]:
    """Read, as a payout run does, the market that is audited, what it is paid by, and labels that do not count."""
    inputs = read_inputs(places, spec)
    utility = None if options.empty is None else Utility(spec.learner, options.empty)
    encoder = encoder_name(spec, "text") if inputs.encoder and spec.columns.text else ""
    state = market_state(
        _submission(places.submissions, spec, inputs),
        inputs.validation_features,
        inputs.validation_label,
        options.seed,
        places.intake is not None,
        encoder,
    )
    rows = np.arange(len(inputs.validation_label))  # as they are in the file: leaks name them
    return state, inputs.oracle_on(rows, spec, utility), inputs.ignored_labels


def _submission(path: Path, spec: PayoutSpec, inputs: Inputs) -> Submission:
    """Return the units by their names with all other columns, at which attacks and mechanisms of one's own look."""
    units, ids = inputs.submission, np.array(inputs.ids)
    named = {"id": ids, "identity": np.array(inputs.identities)[inputs.owner]}
    if units.source is not None:
        named["source"] = ids[units.source.astype(np.int64)]
    metadata = dict(units.metadata)
    if not path.is_dir():
        table, columns = Table.open(path), spec.columns
        used = {name for name in columns.model_dump().values() if name}
        used |= {"id", "time", table.label_column(columns.label)}
        for matrix in (columns.features or "features", columns.embedding or "embedding"):
            used.update(table.matrix_columns(matrix) or matrix.split(","))
        text = [name for name in ("source", "batch", "licence") if name in set(table.names) - used]
        rest = [name for name in table.names if name not in used and name not in text]
        single, _ = table.read(text, rest) if text or rest else ({}, {})
        bad = {row.row for row in inputs.bad}
        rows = np.array([row for row in range(len(ids) + len(bad)) if row not in bad])
        metadata |= {name: single[name].of(rows).objects() for name in rest}
        named = {name: np.array(single[name].of(rows).named()) for name in text} | named
    return replace(units.take(slice(None), named), metadata=metadata)


def _table(report: AuditReport) -> rich.Table:
    gains = ("gain",) if report.checks is None else ("gain unchecked", "expected")
    table = make_table(
        "attack, and by whom",
        *gains,
        *("victim's loss", "guaranteed", "stopped by (honest pay moved)"),
        title=f"Worst gain and worst loss found against {report.label}, {len(report.trials)} trials",
        right=gains,
    )
    table.columns[0].width = 24  # the longest name of an attack
    for finding in report.findings:
        stopped = finding.verdict(report.stop_at) in ("stopped", "deterred")
        trial = finding.unchecked if stopped else finding.worst
        harmful = finding.loss.by_evidence > STOP_LOSS
        table.add_row(
            escape(f"{trial.attack.replace('(', ' (')} by {trial.provider}{assuming(trial)}"),
            *[
                _gain(gain, report.stop_at)
                for gain in (finding.unchecked.gain, finding.worst.expected_gain)
            ][: len(gains)],
            f"[{'red' if harmful else 'default'}]{_loss(finding.loss)}[/]",
            finding.certificate.summary,
            _stopped_by(finding, report.stop_at),
        )
    return table


def _gain(gain: float | None, stop_at: float) -> str:
    bad = gain is None or gain > stop_at
    return f"[{'red' if bad else 'green'}]{'undefined' if gain is None else f'{gain:.3f}'}[/]"


def _loss(loss: Loss) -> str:
    """Write the largest loss by an attack; where evidence adds to it, also what would be lost without matches."""
    lost = loss.trial.victim_loss
    if lost is None:
        return "undefined"
    unmatched = loss.without_evidence is not None and loss.by_evidence > STOP_LOSS
    return f"{lost:.0%}" + (f" (unmatched {loss.without_evidence:.0%})" if unmatched else "")


def _stopped_by(finding: Finding, stop_at: float) -> str:
    match finding.verdict(stop_at):
        case "stopped":
            return "no need"
        case "deterred":
            return "deterred by checks"
    advised = [f"{r.title} ({r.moved:.0%})" for r in finding.remedies if r.advised]
    return ", ".join(advised) or "nothing that was tried"


def _paragraphs(report: AuditReport) -> Iterator[str]:
    """Yield what the screen and the page say of all attacks together."""
    if report.assumed:
        yield report.assumed
    if report.checks is not None:
        heads = {
            "stopped": "Stopped without checks",
            "deterred": "Stopped by checks alone",
            "open": "Not stopped",
            "undefined": "Undefined, as the honest payment is close to zero",
        }
        attacks = {head: report.families(verdict) for verdict, head in heads.items()}
        if text := " ".join(f"{head}: {', '.join(names)}." for head, names in attacks.items() if names):
            yield text
    yield report.conclusion
    if report.harms:
        yield f"Others lose most by {report.harms[0].family}: {report.harms[0].loss.words}"
    else:
        yield (
            "What others lose is competition: no attack that was tried makes evidence cost any of them more than "
            f"{STOP_LOSS:.0%} of the honest share; others may."
        )
    if report.fidelity is not None:
        yield report.fidelity.words
    for forgery in forgeries(report):
        yield forgery.words(forgery.family)
    if report.evidence:
        yield f"Evidence: {report.evidence}" + (f": {report.why}." if report.why else ".")
    else:
        yield f"{report.label} is a mechanism of its own: no evidence layers were tried against it."
    for why, names in report.unplayed.items():
        yield f"Not played, {', '.join(names)}: {why}."
    for warning in report.warnings:
        yield f"Warning: {warning}."


def markdown(report: AuditReport) -> str:
    """Write the report as a page: what holds for all attacks, then each attack with its certificate."""
    impossible = sum(trial.why is not None for trial in report.trials)
    head = (
        f"{len(report.trials)} trials of {len(report.providers)} providers with {report.utility}; "
        f"{impossible} could not be carried out. A gain up to {report.stop_at:g} counts as stopped."
    )
    attacks = (
        text
        for f in report.findings
        for text in (f"## {f.family}", f.words(report.stop_at), f.certificate.words)
    )
    return "\n\n".join([f"# Audit of {report.label}", head, *_paragraphs(report), *attacks]) + "\n"
