"""``datamarket audit``: let every provider of a submission try the attack library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich import table as rich
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape

from datamarket_gym import registry as scripts
from datamarket_gym.analysis.redteam import AuditReport, market_state
from datamarket_gym.analysis.redteam import audit as run_audit
from datamarket_gym.analysis.redteam.audit import forgeries
from datamarket_gym.analysis.redteam.findings import STOP_LOSS, Finding, Loss, Trial, assuming
from datamarket_gym.analysis.spot_checks import asked_checks
from datamarket_gym.cli import options
from datamarket_gym.cli.output import say
from datamarket_gym.data.readers.databases import as_files
from datamarket_gym.data.readers.tables import Table
from datamarket_gym.data.submission import Submission
from datamarket_gym.evidence.graph import suppress_market_warnings
from datamarket_gym.execution.files import write_text
from datamarket_gym.execution.parallel import available_cores
from datamarket_gym.execution.progress import shown_on_stderr
from datamarket_gym.market.market import MarketState
from datamarket_gym.mechanism.pipeline import MECHANISMS, as_mechanism
from datamarket_gym.payout.input_files import read_scored, scores_file
from datamarket_gym.payout.inputs import SubmittedRows, read_tables
from datamarket_gym.payout.intake.times import IntakeLog
from datamarket_gym.payout.settings import PayoutSpec, payout_spec
from datamarket_gym.utilities.oracle import ReferenceRows, Utility, UtilityOracle

_NAME = 24
"""Letters of the longest name of an attack: it is not cut where there is any room."""


@options.with_settings(("learner", "files.scores", "checks", "power", *options.TABLES))
def audit(
    submission: Annotated[
        str, typer.Argument(help="Table of units, or a folder identity/label/image, as for `pay`.")
    ],
    validation: Annotated[
        str,
        typer.Option(
            help="Validation rows (features, and labels if there are any), on which value is measured."
        ),
    ],
    settings: dict[str, Any],
    reference: Annotated[
        str | None,
        typer.Option(
            help="Other honest units (likewise) on which `recommended` measures its threshold in their stead."
        ),
    ] = None,
    intake: options.Intake = None,
    config: options.Config = None,
    mechanism: Annotated[
        str, typer.Option(help="The mechanism that would pay, such as quotient_shapley/cosine@0.95.")
    ] = "recommended",
    empty: Annotated[
        str | None,
        typer.Option(
            help="What accuracy is counted from: chance if left out, or none. Coverage is counted from nothing."
        ),
    ] = None,
    knowledge: Annotated[
        float, typer.Option(help="The share of the others' units that attackers see: 0 none, 1 all.")
    ] = 1.0,
    providers: Annotated[
        int | None,
        typer.Option(help="How many providers to try, drawn at random; all if left out.", min=1),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(help="Only attacks of these names, or written so (comma-separated, * allowed)."),
    ] = None,
    stop_at: Annotated[float, typer.Option(help="A gain up to this counts as stopped.", min=1.0)] = 1.05,
    seed: Annotated[int, typer.Option(help="Seed of the attackers' randomness.", min=0)] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("runs/audit"),
    jobs: options.Jobs = 0,
    cluster: options.Cluster = "",
    device: options.BlockDevice = "cpu",
    memory: options.Memory = options.MEMORY,
    load: options.Load = None,
) -> None:
    """Let every provider of a submission try the attack library, and print what it would gain.

    Each payee is taken for an honest provider. Printed are the worst gain of each attack were nothing checked, and
    what is expected given the checks (with a mechanism of your own none, if --checks is left out): which attacks are
    stopped, deterred by checks alone, or neither. Writes audit.json and audit.md; interrupted, the same command
    resumes.
    """
    scripts.load(load or [])
    # Nothing is paid here; but the settings of a payout run include an amount.
    spec = payout_spec(config, {"amount": "1", **settings})
    utility = spec.utility if empty is None else Utility(spec.learner, empty)
    checks = settings["checks"] if config is None else spec.checks
    log = None if intake is None else IntakeLog.open(intake)
    tables = {
        "submissions": submission, "validation": validation, "reference": reference, "scores": spec.files.scores,
    }  # fmt: skip
    with (
        options.computes_by(cluster=cluster, device=device, memory=memory),
        shown_on_stderr() as progress,
        suppress_market_warnings(),  # the report has it
    ):
        with as_files(tables) as files:
            state, oracle, ignored = _market(files, spec, utility, seed, log)
        chosen = as_mechanism(MECHANISMS.create(mechanism), mechanism)
        report = run_audit(
            state,
            chosen,
            oracle,
            providers=providers,
            only=only,
            stop_at=stop_at,
            out=out,
            jobs=jobs or available_cores(),
            progress=progress,
            checks=asked_checks(chosen, checks, spec.power),
            knowledge=knowledge,
        )
    write_text(out / "audit.md", markdown(report))
    Console().print(_table(report))
    for words in (report.assumed, verdicts(report), _sentence(report)):
        if words:
            say(words)
    say(_harm(report), "red" if report.harms else None)
    for words in (*_forged(report), _evidence(report), *_unplayed(report)):
        say(words)
    more = [f"Labels do not count: {'; '.join(ignored)}"] if ignored else []
    for warning in (*report.warnings, *more):
        say(f"Warning: {warning}.", "red")
    say(f"\nthe report with all certificates is in {out}/")


def _market(
    tables: dict[str, Path], spec: PayoutSpec, utility: Utility, seed: int, log: IntakeLog | None
) -> tuple[MarketState, UtilityOracle, tuple[str, ...]]:
    """Read, as a payout run does, the market that is audited, what it is paid by, and labels that do not count."""
    submissions, validation = tables["submissions"], tables["validation"]
    read = read_tables(submissions, validation, tables.get("reference"), spec, {}, log)
    held, other = read.held, read.sample
    sample = None if other is None else ReferenceRows(other.features, other.label, other.embedding)
    submission = _submission(submissions, spec, read.rows)
    file, scored = scores_file(spec, tables.get("scores")), None
    if file is not None:
        scored = read_scored(file, submissions, validation, spec, read.rows, held)
    oracle = UtilityOracle(
        held.features, held.label, utility, learner=None if scored is None else scored.learner,
        embedding=held.embedding, reference=sample,
    )  # fmt: skip
    state = market_state(submission, held.features, held.label, seed, log is not None)
    return state, oracle, read.ignored


def _submission(path: Path, spec: PayoutSpec, rows: SubmittedRows) -> Submission:
    """Read the submitted units with all other columns: attacks and mechanisms of one's own look at some of them."""
    columns = spec.columns
    metadata: dict[str, Any] = {}
    named: dict[str, Any] = {}
    if not path.is_dir():
        table = Table.open(path)
        used = {name for name in columns.model_dump().values() if isinstance(name, str)} | {
            "id",
            "time",
            table.label_column(columns.label) or "",
        }
        for matrix in (columns.features or "features", columns.embedding or "embedding"):
            used.update(table.matrix_columns(matrix) or matrix.split(","))
        text = [name for name in ("source", "batch", "licence") if name in set(table.names) - used]
        rest = [name for name in table.names if name not in used and name not in text]
        single, _ = table.read(text, rest) if text or rest else ({}, {})
        named = {name: single[name].named() for name in text}
        metadata = {name: single[name].objects() for name in rest}
    if rows.text is not None:
        metadata["text"] = np.array(rows.text, dtype=object)
    if rows.source is not None:
        named["source"] = [source or unit for source, unit in zip(rows.source, rows.ids, strict=True)]
    return Submission(
        np.array(rows.ids), np.array(rows.identity), rows.features, rows.label, rows.embedding, time=rows.time,
        metadata=metadata, **named,
    )  # fmt: skip


def _table(report: AuditReport) -> rich.Table:
    title = f"Worst gain and worst loss found against {report.label}, {len(report.trials)} trials"
    table = rich.Table(title=title, box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("attack, and by whom", overflow="fold", width=_NAME)
    for head in ("gain",) if report.checks is None else ("gain unchecked", "expected"):
        table.add_column(head, justify="right", overflow="fold")
    for head in ("victim's loss", "guaranteed", "stopped by (honest pay moved)"):
        table.add_column(head, overflow="fold")
    for finding in report.findings:
        harmful = finding.loss.by_evidence > STOP_LOSS
        gains = [finding.unchecked.gain, finding.worst.expected_gain]
        shown = [_factor(gain, report.stop_at) for gain in gains]
        kept = finding.verdict(report.stop_at) in ("stopped", "deterred")
        table.add_row(
            escape(_attack(finding.unchecked if kept else finding.worst)),
            *(shown[:1] if report.checks is None else shown),
            f"[{'red' if harmful else 'default'}]{_lost(finding.loss)}[/]",
            finding.certificate.summary,
            _stopped_by(finding, report.stop_at),
        )
    return table


def _factor(gain: float | None, stop_at: float) -> str:
    bad = gain is None or gain > stop_at
    return f"[{'red' if bad else 'green'}]{'undefined' if gain is None else f'{gain:.3f}'}[/]"


def _stopped_by(finding: Finding, stop_at: float) -> str:
    match finding.verdict(stop_at):
        case "stopped":
            return "no need"
        case "deterred":
            return "deterred by checks"
    advised = [f"{r.title} ({r.moved:.0%})" for r in finding.remedies if r.advised]
    return ", ".join(advised) or "nothing that was tried"


def verdicts(report: AuditReport) -> str:
    """Say which attacks are stopped, deterred by checks alone, or neither; nothing where nothing is checked."""
    if report.checks is None:
        return ""
    heads = {
        "stopped": "Stopped, checked or not",
        "deterred": "Deterred by checks alone",
        "open": "Neither",
        "undefined": "Undefined, as honest pay is next to nothing",
    }
    found = {head: report.families(verdict) for verdict, head in heads.items()}
    return " ".join(f"{head}: {', '.join(names)}." for head, names in found.items() if names)


def _attack(trial: Trial) -> str:
    """Name the attack, who played it and what it assumes; a line may end before the bracket."""
    return f"{trial.attack.replace('(', ' (')} by {trial.provider}{assuming(trial)}"


def _lost(loss: Loss) -> str:
    """Write the largest loss by an attack; where evidence adds to it, what would be lost if nothing were matched."""
    lost = loss.trial.victim_loss
    if lost is None:
        return "undefined"
    apart = loss.untied is not None and loss.by_evidence > STOP_LOSS
    return f"{lost:.0%}" + (f" (unmatched {loss.untied:.0%})" if apart else "")


def _sentence(report: AuditReport) -> str:
    worst = report.worst
    if worst is None:
        return "No attack of the library could be carried out."
    gain = worst.worst.expected_gain
    if gain is not None and gain <= report.stop_at:
        given = "" if report.checks is None else " in expectation, if these checks are made"
        return f"No attack that was tried gains more than {report.stop_at:g}{given}; others may."
    return worst.certificate.words


def _harm(report: AuditReport) -> str:
    """Name the attack by which evidence costs another provider most, or say that there is none."""
    if report.harms:
        return f"Others lose most by {report.harms[0].family}: {report.harms[0].loss.words}"
    return (
        "What others lose is competition: by no attack that was tried does evidence cost anybody more "
        f"than {STOP_LOSS:.0%} of the honest share; by others it may."
    )


def _forged(report: AuditReport) -> list[str]:
    """Say what forged times gain and cost, with the log and without."""
    return [each.words(each.family) for each in forgeries(report)]


def _evidence(report: AuditReport) -> str:
    if not report.evidence:
        return f"{report.label} is a mechanism of its own: no evidence layers were tried against it."
    return f"Evidence: {report.evidence}." + (f" {report.why}." if report.why else "")


def _unplayed(report: AuditReport) -> list[str]:
    """Say what could not be tried in this market, and why."""
    return [f"Not played, {', '.join(names)}: {why}." for why, names in report.unplayed.items()]


def markdown(report: AuditReport) -> str:
    """Write the findings as a page to file: a sentence and the certificate's paragraph each."""
    impossible = sum(trial.why is not None for trial in report.trials)
    lines = [
        f"# Audit of {report.label}",
        "",
        f"{len(report.trials)} trials of {len(report.providers)} providers with {report.utility}; "
        f"{impossible} could not be carried out. A gain up to {report.stop_at:g} counts as stopped.",
        *(f"\n{words}" for words in _unplayed(report)),
        *(f"\n{words}" for words in (report.assumed, verdicts(report)) if words),
        "",
        _harm(report),
        *(f"\n{words}" for words in _forged(report)),
        "",
        _evidence(report),
        *(f"\nWarning: {warning}." for warning in report.warnings),
    ]
    for finding in report.findings:
        lines += ["", f"## {finding.family}", "", finding.words(report.stop_at), ""]
        lines.append(finding.certificate.words)
    return "\n".join(lines) + "\n"
