"""``datamarket audit``: progress on stderr, findings on stdout."""

from __future__ import annotations

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from datamarket_gym.core.files import require_two_files, write_text
from datamarket_gym.core.progress import shown_on_stderr
from datamarket_gym.evidence.collapse import told_once
from datamarket_gym.judge.redteam import AuditReport, audit, market_state, read_validation
from datamarket_gym.learners.oracle import Utility, UtilityOracle
from datamarket_gym.pipeline.mechanism import MECHANISMS, as_mechanism
from datamarket_gym.units.io import read_submission, read_validation_embedding


def audit_and_show(
    submission: Path,
    validation: Path,
    mechanism: str,
    utility: tuple[str, str],
    providers: int | None,
    attacks: str | None,
    stop_at: float,
    seed: int,
    out: Path,
    jobs: int,
) -> None:
    """Audit a submission, then print the findings and where the files are."""
    require_two_files(submission, validation)
    features, label = read_validation(validation)
    state = market_state(read_submission(submission), features, label, seed)
    oracle = UtilityOracle(
        features, label, Utility(*utility), embedding=read_validation_embedding(validation)
    )
    chosen = as_mechanism(MECHANISMS.create(mechanism), mechanism)
    with shown_on_stderr() as progress, told_once():  # the report has it
        report = audit(
            state,
            chosen,
            oracle,
            providers=providers,
            only=attacks,
            stop_at=stop_at,
            out=out,
            jobs=jobs,
            progress=progress,
        )
    write_text(out / "audit.md", markdown(report))
    console = Console()
    console.print(_table(report))
    console.print(_sentence(report))
    console.print(_evidence(report), highlight=False, markup=False)
    for warning in report.warnings:
        console.print(f"Warning: {warning}.", style="red", highlight=False, markup=False)
    console.print(f"\nthe report with all certificates is in {out}/", highlight=False)


def _table(report: AuditReport) -> Table:
    title = f"Worst gain found against {report.label}, {len(report.trials)} trials"
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False)
    for head in ("attack", "worst gain", "by", "guaranteed", "stopped by (honest pay moved)"):
        table.add_column(head, justify="right" if head == "worst gain" else "left", overflow="fold")
    for finding in report.findings:
        gain = finding.worst.gain
        bad = gain is None or gain > report.stop_at
        shown = "undefined" if gain is None else f"{gain:.3f}"
        table.add_row(
            escape(finding.worst.attack),
            f"[{'red' if bad else 'green'}]{shown}[/]",
            escape(finding.worst.provider),
            finding.certificate.summary,
            ", ".join(f"{r.title} ({r.moved:.0%})" for r in finding.remedies if r.advised)
            or ("nothing that was tried" if bad else "no need"),
        )
    return table


def _sentence(report: AuditReport) -> str:
    worst = report.worst
    if worst is None:
        return "No attack of the library could be carried out."
    gain = worst.worst.gain
    if gain is not None and gain <= report.stop_at:
        return f"No attack that was tried gains more than {report.stop_at:g}; others may."
    return worst.certificate.words


def _evidence(report: AuditReport) -> str:
    if not report.evidence:
        return f"{report.label} is a mechanism of its own: no evidence layers were tried against it."
    return f"Evidence: {report.evidence}." + (f" {report.why}." if report.why else "")


def markdown(report: AuditReport) -> str:
    """The findings as a page to file: a sentence and the certificate's paragraph each."""
    impossible = sum(trial.why is not None for trial in report.trials)
    lines = [
        f"# Audit of {report.label}",
        "",
        f"{len(report.trials)} trials of {len(report.providers)} providers with {report.utility}; "
        f"{impossible} could not be carried out. A gain up to {report.stop_at:g} counts as stopped.",
        "",
        _evidence(report),
        *(f"\nWarning: {warning}." for warning in report.warnings),
    ]
    for finding in report.findings:
        lines += ["", f"## {finding.family}", "", finding.words(report.stop_at), ""]
        lines.append(finding.certificate.words)
    return "\n".join(lines) + "\n"
