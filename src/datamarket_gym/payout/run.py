"""The payout run: a request, its stages up to the cents, its files and its entry in the ledger; killed, it resumes.

The stages are those of the pipeline, with overrides after matching. They leave their records in ``RUN/records``, where
they say later how a payment came about, and a run that is taken up again does not do them twice. Inputs and settings
are part of the run's id: a folder that holds another run is refused, and an approved one is never written to.
"""

from __future__ import annotations

import shlex
import shutil
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.parquet as pq

from datamarket_gym import __version__
from datamarket_gym.data.readers.databases import as_files, queries_of
from datamarket_gym.data.submission import Submission
from datamarket_gym.display import counted
from datamarket_gym.errors import (
    DataMarketError,
    FutureTimesWarning,
    LeftOutWarning,
    MarketWarning,
)
from datamarket_gym.evidence.graph import (
    AcquiredMatches,
    Clusters,
    Edges,
    clusters_by,
    collect_market_warnings,
    seniority_ranks,
)
from datamarket_gym.evidence.leak_check import Leaks
from datamarket_gym.evidence.similarity_search import NearestRows
from datamarket_gym.evidence.threshold import Threshold, measure_threshold
from datamarket_gym.execution.arrays import Codes, Values
from datamarket_gym.execution.files import claimed, make_folder, read_json, replacing, sha256, write_json
from datamarket_gym.execution.parallel import compute, computing, one_thread
from datamarket_gym.execution.progress import SILENT, Progress, Within
from datamarket_gym.execution.runs import Format, Run, open_run, read_record, record_format
from datamarket_gym.mechanism.pipeline import (
    Mechanism,
    Pipeline,
    find_leaked_units,
    match_units,
    nearest_units,
    require_playable,
)
from datamarket_gym.mechanism.representatives import CanonicalUnits, represent_clusters
from datamarket_gym.payout.acquired_data import ROLE as ACQUIRED
from datamarket_gym.payout.acquired_data import (
    AcquiredRun,
    AcquiredUnits,
    accepted,
    acquired_messages,
    overridden_known,
    write_acquired,
)
from datamarket_gym.payout.audit import run_red_team
from datamarket_gym.payout.checks.plan import SettledDraft
from datamarket_gym.payout.inputs import Inputs, read_inputs
from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.entries import Line, RunRecord, describe_state
from datamarket_gym.payout.ledger.runs import (
    LedgerInputs,
    current_warnings,
    default_ledger,
    enter_draft,
    ledger_inputs_of,
    ledger_of,
    read_ledger_inputs,
    run_of,
    same_ledger,
)
from datamarket_gym.payout.ledger.store import (
    Ledger,
    LedgerChecksum,
    has_ledger,
    open_ledger,
    read_receipt,
)
from datamarket_gym.payout.ledger.trust import is_address, require_trusted, trust_ledger
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import (
    NEAREST,
    Contents,
    read_manifest,
    require_as_written,
    run_id,
    submitted_hash,
)
from datamarket_gym.payout.money import Currency, validation_groups
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.overrides import (
    Override,
    operator_matches,
    overridden,
    payees,
    read_overrides,
    select_overrides,
)
from datamarket_gym.payout.report.record import write_report
from datamarket_gym.payout.results import (
    Results,
    has_balances,
    in_cents,
    write_manifest,
    write_tables,
)
from datamarket_gym.payout.settings import (
    SETTINGS,
    PayOptions,
    PayoutSpec,
    encoder_message,
    flat_settings,
    settings_of,
)
from datamarket_gym.payout.stored_inputs import Places, keep, require_grown, stored_log_tip
from datamarket_gym.payout.unit_payments import write_units
from datamarket_gym.payout.validation_coverage import write_needs
from datamarket_gym.payout.warnings import FILE as WARNINGS
from datamarket_gym.payout.warnings import (
    UnresolvedWarning,
    future_warnings,
    read_warnings,
    warnings_of,
    write_warnings,
)
from datamarket_gym.utilities.coverage import Coverage
from datamarket_gym.utilities.labels import require_learnable
from datamarket_gym.utilities.oracle import UtilityOracle

R = TypeVar("R")


@dataclass(frozen=True)
class PayoutJob:
    """Hold all that decides a run, read and checked; ``run`` is its id."""

    spec: PayoutSpec
    inputs: Inputs
    overrides: list[Override]
    taken: LedgerInputs
    edge_table: Path | None
    run: str
    settles: SettledDraft | None = None
    left_out: tuple[str, ...] = ()  # decisions of disputes about what is not in the run

    @classmethod
    def read(
        cls,
        places: Places,
        spec: PayoutSpec,
        settles: SettledDraft | None = None,
        taken: LedgerInputs | None = None,
    ) -> PayoutJob:
        """Read the inputs, without units that checks of the run that this one settles found to be false.

        ``taken`` is what the ledger brings: balances, and overrides by which disputes were resolved.
        """
        taken = taken or LedgerInputs()
        own = read_overrides(places.overrides)
        edges = places.edges or spec.linkage.edges
        inputs = read_inputs(places, spec)
        if settles is not None:
            inputs = inputs.without_units({false.unit for false in settles.found})
        earlier = tuple(AcquiredRun.read(folder) for folder in places.acquired)
        if earlier:
            inputs = inputs.given(AcquiredUnits.read(earlier, inputs.kind), spec)
        in_force, left_out = select_overrides(
            taken.overrides, inputs.units_named(taken.overrides), inputs.identities
        )
        overrides, taken = [*own, *in_force], replace(taken, overrides=in_force)
        run = run_id(
            spec, inputs.files, overrides, taken.opening, settles, acquired=[p.plain for p in earlier]
        )
        for role in places.queries.keys() & inputs.files.keys():
            inputs.files[role]["name"] = places.queries[role]
        edge_table = None if edges is None else Path(edges)
        return cls(spec, inputs, overrides, taken, edge_table, run, settles, tuple(left_out))

    @property
    def unpaid(self) -> frozenset[str]:
        """Return the identities that are paid nothing in this run."""
        return frozenset() if self.settles is None else self.settles.unpaid

    @cached_property
    def utility(self) -> UtilityOracle:
        """Build what units are paid for, once for the run."""
        return self.inputs.utility_oracle(self.spec)

    @cached_property
    def leaks(self) -> Leaks:
        """Find the units that are validation rows, or nearly; refuse them where there must be none."""
        inputs, check = self.inputs, self.spec.leak_check
        leaks = find_leaked_units(check, inputs.submission, self.utility, inputs.validation_content)
        require_playable(check, inputs.named(leaks), len(inputs.ids), visible)
        return leaks


@dataclass(frozen=True)
class FinishedRun:
    """Read the outputs of a finished run; each is checked against its manifest, and none is computed."""

    folder: Path
    outputs: dict[str, Any]
    progress: Progress = SILENT

    def output(self, name: str, form: Format[R], compute: Callable[[], R]) -> R:
        """Read an output of the run; refuse one that is missing or changed."""
        return form.read(require_as_written(self.folder, self.outputs, name))


_THRESHOLD = Format[Threshold](
    ".json",
    lambda path, threshold: write_json(path, threshold.model_dump(mode="json")),
    lambda path: Threshold.model_validate(read_json(path)),
)


@dataclass(eq=False, kw_only=True)
class PayoutPipeline(Pipeline):
    """Run the stages in a run's folder: compute and store their records there, or read them."""

    job: PayoutJob
    run: Run | FinishedRun
    reuse: NearestRows | None = None  # of another run; the results are the same without
    asked: dict[str, Values] = field(default_factory=dict)  # as `measure_threshold` keeps it
    overrides: list[Override] = field(init=False)  # of units of this run

    def __post_init__(self) -> None:
        self.overrides = self.job.overrides

    def run_stage(self, name: str, kind: type[R], compute: Callable[[], R]) -> R:
        """Read the record of a stage; where it is not there yet, compute and store it."""
        return self.run.output(f"records/{name}.npz", record_format(kind), compute)

    def find_leaks(self, submission: Submission) -> Leaks:
        """Find the units that are validation rows."""
        return self.job.leaks

    def measure_threshold(self, submission: Submission, utility: UtilityOracle) -> Threshold:
        """Choose the threshold, or read which was chosen."""
        progress = self.run.progress
        progress.stage("checking which similarity threshold may be used")
        threshold = self.run.output(
            "threshold.json",
            _THRESHOLD,
            lambda: measure_threshold(submission, utility, self.job.spec.theta, self.asked),
        )
        progress.stage(f"looking for copies ({threshold.evidence})")
        return threshold

    def match_units(self, mechanism: Mechanism, submission: Submission) -> Clusters:
        """Match units by their nearest earlier ones, which are stored for another run."""

        def find_nearest() -> NearestRows:
            nearest = nearest_units(mechanism, submission, self.utility, self.reuse)
            if nearest.reused:
                self.run.progress.stage(
                    f"looking for copies: of {nearest.reused:,} of {len(nearest.digest):,} different units the nearest "
                    "earlier one was known"
                )
            return nearest

        nearest = self.run_stage("nearest", NearestRows, find_nearest)
        return match_units(mechanism, submission, utility=self.utility, nearest=nearest)

    def override_acquired(self, known: AcquiredMatches, rows: Codes) -> AcquiredMatches:
        """Apply the overrides that name units of earlier runs; the others are about units of this run."""
        acquired = self.job.inputs.acquired
        assert acquired is not None
        ids, absent = self._unit_names(rows)
        overrides = [each.without(absent) for each in self.overrides]
        known, self.overrides = overridden_known(known, overrides, acquired, ids)
        return known

    def override_matches(self, clusters: Clusters, rows: Codes) -> Clusters:
        """Add the matches that the operator knows, and apply the overrides."""
        job, submission = self.job, clusters.submission
        assert submission is not None
        ids, absent = self._unit_names(rows)
        added = operator_matches(ids, absent, job.spec, job.edge_table)
        if not len(added) and not self.overrides:
            return clusters
        overrides = [each.without(absent) for each in self.overrides]
        rank = seniority_ranks(submission, clusters.tie_breaker)
        edges = Edges.concat([clusters.edges, added]).once()
        edges = overridden(edges, overrides, ids, "units", rank)
        return clusters_by(submission, edges, clusters.granularity, clusters.tie_breaker)

    def represent(self, clusters: Clusters, prefix: str) -> CanonicalUnits:
        """Store which rows stand for the clusters, and take what they hold from the submission."""
        submission = clusters.submission
        assert submission is not None
        chosen = self.run_stage(
            f"{prefix}represented",
            CanonicalUnits,
            lambda: represent_clusters(clusters, self.mechanism.representative).stored(),
        )
        return chosen.restored(submission)

    def _unit_names(self, rows: Codes) -> tuple[list[str], frozenset[str]]:
        """Return the ids of the units in the game, and of those that were submitted and are not."""
        inputs = self.job.inputs
        ids = [inputs.ids[row] for row in rows.tolist()]
        return ids, inputs.absent | (frozenset(inputs.ids) - frozenset(ids))


def compute_results(job: PayoutJob, run: Run | FinishedRun, reuse: NearestRows | None = None) -> Results:
    """Compute everything up to the cents, or read what of it the run's folder has."""
    inputs, spec, utility, progress = job.inputs, job.spec, job.utility, run.progress
    mechanism = spec.mechanism("lineage@auto")
    pipeline = PayoutPipeline(mechanism, utility, job=job, run=run, reuse=reuse)
    progress.stage("looking for leaked validation rows")
    matching = pipeline.match(inputs.submission)
    assert isinstance(matching.threshold, Threshold)
    clusters, playing = matching.clusters, inputs.playing(matching.rows)
    owners = payees(playing, spec, job.edge_table, job.overrides)
    progress.stage(f"scoring {clusters.n_clusters:,} clusters")
    groups = validation_groups(utility.features, utility.label, mechanism.seed)
    paid = pipeline.value(clusters, groups=groups).extended_to(inputs.everyone)
    progress.stage("scoring once more without evidence")
    apart = clusters_by(clusters.units, Edges.none(), clusters.granularity, clusters.tie_breaker)
    plain = pipeline.value(apart, "without_evidence_").extended_to(inputs.everyone)
    cents, without = (
        in_cents(each, playing, spec, owners.group, job.taken.opening, job.unpaid)
        for each in (paid, plain)
    )
    return Results(
        spec=spec,
        inputs=playing,
        utility=utility,
        threshold=matching.threshold,
        mechanism=matching.mechanism,
        overrides=job.overrides,
        payments=paid,
        payees=owners,
        **cents._asdict(),
        without_evidence=without.division.paid,
        leaks=inputs.named(matching.leaks),
        known=inputs.named_known(matching.acquired),
        asked=pipeline.asked,
    )


def pay(
    places: Places,
    spec: PayoutSpec,
    out: Path,
    progress: Progress | None = None,
    settles: SettledDraft | None = None,
    ledger: str | None = None,
    reuse: Path | None = None,
) -> dict[str, Any]:
    """Run, or resume, a payout into a folder, and enter it into the ledger.

    Parameters
    ----------
    places
        Where the files of the run are.
    spec
        Its settings.
    out
        The folder.
    progress
        Where progress is reported.
    settles
        What checks of a draft found.
    ledger
        Where the ledger is; beside the folder if left out.
    reuse
        The folder of a run of most of these units, whose comparisons need not be made again.

    Returns
    -------
    dict[str, Any]
        The manifest of the run.
    """
    progress = progress or SILENT
    for named in (ledger, places.intake):
        trust_ledger(named or "")
    where = _where(out, ledger)
    accounts = open_ledger(where, new=True).accounts() if has_ledger(where) else Accounts()
    if (out / MANIFEST).is_file():  # what the run took from the ledger when it was computed
        taken = ledger_inputs_of(read_manifest(out))
    else:
        taken = read_ledger_inputs(accounts, spec.currency)
    if places.intake is not None and places.upto is None:
        places = replace(places, upto=stored_log_tip(out))
    nearest = None if reuse is None else read_nearest(reuse)
    progress.stage("reading and checking the inputs", "rows")
    if places.acquired:
        places = replace(places, acquired=accepted(places.acquired, out))
    if places.intake is not None:
        require_grown(places.intake, accounts, places.acquired)
    with computing(replace(compute(), progress=progress)):
        job = PayoutJob.read(places, spec, settles, taken)
    for each in future_warnings(job.inputs, job.spec, time.time()):
        warnings.warn(FutureTimesWarning("times", f"{each.title}. {each.words}"), stacklevel=2)
    if job.left_out:
        warnings.warn(LeftOutWarning("disputes", f"{'; '.join(job.left_out)}."), stacklevel=2)
    _check_ledger(accounts, job.run, out)
    manifest = work_out(job, out, progress, places, nearest)
    progress.stage("entering the run into the ledger")
    with claimed(out):
        _enter(open_ledger(where, new=True), manifest, places, job, out)
    return manifest


def work_out(
    job: PayoutJob,
    out: Path,
    progress: Progress,
    places: Places | None = None,
    nearest: NearestRows | None = None,
) -> dict[str, Any]:
    """Compute a job into a folder, or the rest of it; return its manifest. No ledger has it yet.

    ``places`` are those of its files, where what databases answered is to be stored with the run; ``nearest`` are the
    comparisons of another run (`read_nearest`).
    """
    # What cannot be paid is refused before anything is written.
    require_learnable(job.inputs.submission.label, job.utility)
    if job.spec.leak_check == "error":
        job.leaks  # noqa: B018
    with open_run(
        out, job.run, "run", __version__, manifest_key="run", progress=progress, private=True
    ) as run:
        if not run.finished:
            if places is not None:
                received = job.inputs.received
                keep(places, out, None if received is None else received.upto)
            # Large products are divided among the cores by this package.
            with one_thread("blas"), computing(replace(compute(), progress=progress)):
                results = compute_results(job, run, nearest)
                progress.stage("writing tables", "rows")
                write_tables(results, out)
                write_units(results, job.settles, job.taken.opening, out)
                progress.stage("storing acquired units")
                write_acquired(results, job.unpaid, out)
                if isinstance(job.spec.utility_function, Coverage):
                    progress.stage("storing covered validation rows")
                write_needs(results, out)
            warned = warnings_of(results)
            write_warnings(warned, out)
            if job.spec.audit:
                progress.stage("attacking a sample of the market", "attacks")
            run_red_team(results, run.state / "audit", out / "audit.json", Within(progress))
            progress.stage("writing the report")
            write_report(results, warned, job.run, out, 0 if job.settles is None else job.settles.kept)
            taken = job.taken
            write_manifest(results, job.run, taken.opening, taken.overrides, job.settles, out)
    return read_manifest(out)


def read_nearest(folder: Path) -> NearestRows:
    """Read the nearest earlier units that a finished run has stored; refuse them if they have changed.

    If a market is paid again with late units, most pairs were compared before. What is reused is decided by content,
    unit by unit (`evidence.similarity_search`), and changes no payment, so it is not part of the run's id or manifest.
    """
    if not (folder / MANIFEST).is_file():
        raise DataMarketError(
            f"{str(folder)!r} is no finished run to re-use anything of; name the folder of one, or leave --reuse out"
        )
    outputs = read_manifest(folder)["outputs"]
    if NEAREST not in outputs:
        raise DataMarketError(
            f"the run in {str(folder)!r} has kept nothing that can be re-used: it names earlier runs "
            "(--acquired); leave --reuse out"
        )
    return read_record(require_as_written(folder, outputs, NEAREST), NearestRows)


def _where(out: Path, ledger: str | None) -> str:
    """Return the ledger that a run is entered in; a folder stays with the one it is in."""
    receipt = read_receipt(out)
    if receipt is None:
        return ledger or default_ledger(out)
    if ledger is not None and not same_ledger(ledger, receipt.ledger):
        raise DataMarketError(
            f"the run in {str(out)!r} is in the ledger {receipt.ledger!r}; choose another --out, or leave --ledger out"
        )
    return ledger or require_trusted(receipt.ledger, f"the run in {str(out)!r}")


def _check_ledger(accounts: Accounts, run: str, out: Path) -> None:
    """Refuse to compute again what the ledger has as approved, unless it is here: no payee is paid twice."""
    record = accounts.runs.get(run)
    if record is None or record.state == "draft" or (out / MANIFEST).is_file():
        return
    raise DataMarketError(
        f"this run is in the ledger already, and is {describe_state(record.state)}: the same inputs and settings, in "
        f"{record.places.get('run', 'another folder')!r}. It is not paid again; to see it, go there"
    )


def _enter(ledger: Ledger, manifest: dict[str, Any], places: Places, job: PayoutJob, out: Path) -> None:
    money, settles = Currency(manifest["currency"]), job.settles
    outputs = manifest["outputs"]  # they lay open between the manifest and now
    require_as_written(out, outputs, WARNINGS)
    amounts = ["payment", "entitled", "balance"]
    paid = require_as_written(out, outputs, "payments.parquet")
    rows = pq.read_table(paid, columns=["identity", "paid_together_with", *amounts]).to_pylist()
    joined: dict[str, list[str]] = {}
    for row in rows:
        joined.setdefault(row["paid_together_with"] or row["identity"], []).append(row["identity"])
    draft = RunRecord(
        **{name: manifest[name] for name in ("run", "amount", "currency")},
        contents=Contents(**manifest["contents"]),
        manifest=sha256(out / MANIFEST),
        places={**places.as_dict(), "run": str(out.resolve())},
        checks=job.spec.checks,
        lines=[Line(row["identity"], *(money.signed(row[a]) for a in amounts)) for row in rows],
        opening=job.taken.opening,
        overrides=[each.model_dump(mode="json") for each in job.overrides],
        standing=[each.model_dump(mode="json") for each in job.taken.overrides],
        warnings=[asdict(each) for each in read_warnings(out)],
        period=job.spec.period or "",
        submissions=submitted_hash(manifest),
        kept=settles.kept if settles else 0,
        acquired=[each["run"] for each in manifest.get(ACQUIRED, ())],
        joined=[names for names in joined.values() if len(names) > 1],
    )
    enter_draft(ledger, out, draft)


class PayRequest(PayOptions):
    """All that a payout run is given."""

    submissions: str
    spec: PayoutSpec
    out: Path


@dataclass(frozen=True)
class PaidRequest:
    """A payout run that was made: its request, its manifest, and the warnings on the way."""

    request: PayRequest
    manifest: dict[str, Any]
    market_warnings: tuple[MarketWarning, ...]

    @cached_property
    def accounts(self) -> Accounts:
        """Read the ledger; an address with a password is stored nowhere, so it comes from the request."""
        ledger = self.request.ledger
        return (ledger_of(self.request.out) if ledger is None else open_ledger(ledger)).accounts()

    @property
    def warnings(self) -> list[UnresolvedWarning]:
        """Return the warnings to accept before the run is approved: its own, and those of the ledger now."""
        return current_warnings(self.accounts, run_of(self.request.out, self.accounts))

    @property
    def columns(self) -> list[str]:
        """Return the columns of amounts to show."""
        balances = [line.balance for line in run_of(self.request.out, self.accounts).lines]
        carried = ["balance"] if has_balances(self.request.spec, balances) else []
        return ["payment", "low", "high", "without_evidence", *carried]

    def payments(self, most: int) -> list[Any]:
        """Return the first payments, the largest first."""
        table = pq.read_table(self.request.out / "payments.parquet")
        return table.slice(0, most).to_pylist()

    @property
    def title(self) -> str:
        """Write how much is divided among how many."""
        spec = self.request.spec
        return f"{spec.currency} {spec.money.shown(spec.minor)} among {counted(self.manifest['identities'], 'payee')}"

    @property
    def sentences(self) -> list[str]:
        """Write what the run rests on: evidence, what was paid for, previously acquired units."""
        evidence, reuse = self.manifest["evidence"], self.request.reuse
        messages = [
            f"Evidence: {evidence['used']}: {evidence['why']}.",
            f"Paid for {self.manifest['paid_for']['divided']}.",
            acquired_messages(self.manifest, self.accounts),
            encoder_message(self.request.spec),
        ]
        if reuse is not None:
            messages.append(
                f"Of units that {reuse} has as well, the nearest earlier ones were taken from there where they stand; "
                "the results are the same without."
            )
        return list(filter(None, messages))

    @property
    def played(self) -> str:
        """Write how many units were in the game, and how many clusters they make."""
        units = self.manifest["units"] - self.manifest["leaked"] - self.manifest.get("known", 0)
        return f"{units:,} units make {self.manifest['clusters']:,} clusters."


def pay_requested(request: PayRequest, progress: Progress) -> PaidRequest:
    """Make a payout run, or resume one that was stopped."""
    spec, out, reuse, ledger = request.spec, request.out, request.reuse, request.ledger
    tables = {
        "submissions": request.submissions,
        "validation": request.validation,
        "reference": request.reference,
        "edges": spec.linkage.edges,
        "scores": spec.files.scores,
    }
    queries = {role: str(query) for role, query in queries_of(tables).items()}
    other: dict[str, Any] = request.model_dump(include={"overrides", "acquired", "intake"})
    with collect_market_warnings() as market_warnings, as_files(tables) as files:
        places = Places(**files | other, queries=queries)
        manifest = pay(places, spec, out, progress, ledger=ledger, reuse=reuse)
    return PaidRequest(request, manifest, tuple(market_warnings))


def rehearsal(request: PayRequest, folder: Path) -> PayRequest:
    """Return the request as a dry run in ``folder/run``, with a copy of the ledger; one begun before is resumed.

    A ledger on a server is not copied: its balances are not in a dry run.
    """
    out = folder / "run"
    copy = Path(default_ledger(out))
    market = request.ledger or default_ledger(request.out)
    make_folder(folder, private=True)
    if not copy.exists() and not is_address(market) and has_ledger(market):
        ledger = Path(market).resolve()
        # The ledger is copied after its checksum: where it is, both are.
        with open_ledger(ledger).locked(reading=True) as checksum, replacing(copy, private=True) as part:
            if checksum is not None:
                checksum.require()
                shutil.copyfile(checksum.path, LedgerChecksum(copy).path)
            shutil.copyfile(ledger, part)
    return request.model_copy(update={"out": out, "ledger": str(copy)})


OF_ONE_RUN = ("amount", "period", "acquired")
"""Settings that are another for every run, which a file for all runs of a market does not have."""


def as_command(request: PayRequest, *, with_file: bool = False) -> str:
    """Write the command line of a payout run, for a shell; ``with_file`` if market.toml has its settings."""
    words = ["datamarket", "pay", request.submissions]
    settings = dict(settings_of(PayOptions)) | SETTINGS
    for name, value in given_settings(request).items():
        setting = settings[name]
        if not (with_file and setting.in_file) or name in OF_ONE_RUN:
            words += _option(setting.off if value is False else setting.flag, value)
    return shlex.join(words)


def given_settings(request: PayRequest) -> dict[str, Any]:
    """Return the options and settings of a run that are not as they would be if left out, by their names."""
    options = {name: getattr(request, name) for name, _ in settings_of(PayOptions)}
    return options | flat_settings(request.spec)


def _option(flag: str, value: Any) -> list[str]:
    """Return an option as words of a command line; none if it has no value."""
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return [word for each in value for word in _option(flag, each)]
    if isinstance(value, bool):
        return [flag]
    text = str(value)
    return [f"{flag}={text}"] if text.startswith("-") else [flag, text]
