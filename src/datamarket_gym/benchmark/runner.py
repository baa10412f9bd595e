"""Running a submission: every market of the suite is a step of a run, so that a killed one goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from datamarket_gym import __version__
from datamarket_gym.analysis.metrics import clearly_paid
from datamarket_gym.analysis.redteam.attack_grid import feature_scale
from datamarket_gym.analysis.redteam.best_response import best_response
from datamarket_gym.analysis.theorems.deterrence import Checks
from datamarket_gym.benchmark.blind_markets import (
    BlindTarget,
    PlayedAttack,
    blind_state,
    owned,
    refused,
    require_after_originals,
    uneven,
)
from datamarket_gym.benchmark.bundles import (
    MANIFEST,
    RESULTS,
    SUMS,
    BenchmarkEntry,
    Bundle,
    BundleManifest,
    read_bundle,
    results_text,
    sums_text,
)
from datamarket_gym.benchmark.suite import Draws, Suite, SuiteTask, suite
from datamarket_gym.data.content_keys import keyed_generator
from datamarket_gym.errors import DataMarketError
from datamarket_gym.evidence.graph import collect_market_warnings
from datamarket_gym.execution.files import json_text, read_json, sha256, write_json, write_text
from datamarket_gym.execution.parallel import executor, machine
from datamarket_gym.execution.progress import Progress
from datamarket_gym.execution.runs import Format, made_with, open_run
from datamarket_gym.experiments.cells import market_of, utility_for
from datamarket_gym.experiments.kinds.spot_checks import fill_noise
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.market.market import MarketState
from datamarket_gym.mechanism.own_mechanism import OwnMechanism
from datamarket_gym.mechanism.pipeline import Mechanism
from datamarket_gym.registry import is_ours, sources_elsewhere
from datamarket_gym.testing.markets import validate_attack
from datamarket_gym.utilities.oracle import UtilityOracle

Row = dict[str, Any]
HONEST, BEST = "honest", "best response"


@dataclass(frozen=True)
class CellRequest:
    """What all cells of a submission need; it travels to worker processes."""

    suite: Suite
    draws: Draws
    entry: BenchmarkEntry


@dataclass(frozen=True, eq=False)
class BenchmarkMarket:
    """A blind market with its attacker, who is clearly worth something, and the worth of all units."""

    state: MarketState
    utility: UtilityOracle
    attacker: str
    worth: float

    @classmethod
    def of(cls, draws: Draws, task: SuiteTask, draw: int) -> BenchmarkMarket:
        """Return the market of a draw; nothing of it depends on what was submitted."""
        market = market_of(task.market, draws.seed(task.name, draw, "market"))
        market = uneven(market, draws.seed(task.name, draw, "providers"))
        state = blind_state(market, draws.seed(task.name, draw, "names"))
        utility = market.utility_oracle(task.utility.build(), utility_for(task.utility, {"jobs": 1}))
        amounts, worth = owned(state.honest, utility)
        clear = [name for name, amount in amounts.items() if clearly_paid(amount, worth, len(amounts))]
        if not clear:
            raise DataMarketError(f"no provider is worth anything in draw {draw} of {task.name}")
        rng = keyed_generator(draws.seed(task.name, draw, "attacker"))
        return cls(state, utility, clear[int(rng.integers(len(clear)))], worth)


def cell(request: CellRequest, task: str, draw: int) -> Row:
    """Return the rows of one market, and the kinds of warnings on the way."""
    with collect_market_warnings() as warned:
        try:
            drawn = BenchmarkMarket.of(request.draws, request.suite.task(task), draw)
            play = _mechanism_rows if request.entry.track == "mechanism" else _attack_rows
            rows = [{"task": task, "draw": draw, **row} for row in play(request, drawn, task, draw)]
        except DataMarketError as error:
            raise DataMarketError(f"{request.suite.name}, {task}, draw {draw}: {error}") from error
    return {"rows": rows, "warned": sorted({type(each).__name__ for each in warned})}


def _mechanism_rows(request: CellRequest, drawn: BenchmarkMarket, task: str, draw: int) -> Iterator[Row]:
    suite, entry = request.suite, request.entry
    payer = entry.mechanism().seeded(request.draws.seed(task, draw, "mechanism"))
    target = _target(request, drawn, payer, entry.checks, task, draw)
    yield _row(drawn, target, {"attack": HONEST}, target.outcome("honest"))
    scale = feature_scale(drawn.state)
    for attack in suite.attacks:
        there = target.knowing(attack.knowledge)
        yield _row(
            drawn, there, {"attack": attack.name}, there.outcome(fill_noise(attack.attack, scale))
        )
    search = request.draws.seed(task, draw, "search")
    best = best_response(target, trials=suite.trials, seed=search, optimiser="scipy").attack
    yield {**_row(drawn, target, {"attack": BEST}, target.outcome(best)), "best_attack": best}


def _attack_rows(request: CellRequest, drawn: BenchmarkMarket, task: str, draw: int) -> Iterator[Row]:
    text = fill_noise(request.entry.spec, feature_scale(drawn.state))
    for opponent in request.suite.opponents:
        payer = BenchmarkEntry.of_spec(opponent.mechanism).mechanism()
        seeded = payer.seeded(request.draws.seed(task, draw, "mechanism"))
        target = _target(request, drawn, seeded, opponent.checks, task, draw)
        require_after_originals(target.as_handed_in(text))
        yield _row(drawn, target, {"opponent": opponent.label}, target.outcome(text))


def _target(
    request: CellRequest,
    drawn: BenchmarkMarket,
    payer: Mechanism | OwnMechanism,
    checks: int,
    task: str,
    draw: int,
) -> BlindTarget:
    try:
        return BlindTarget(
            drawn.state,
            payer,
            drawn.utility,
            drawn.attacker,
            Checks(checks, request.suite.power) if checks else None,
            key=request.draws.seed(task, draw, "names"),
        )
    except DataMarketError:
        raise
    except Exception as error:  # whatever a submitted mechanism raises
        raise refused(payer, HONEST, error) from error


def _row(drawn: BenchmarkMarket, target: BlindTarget, label: Row, played: PlayedAttack) -> Row:
    return {
        **label,
        "honest_pay": target.pay,
        "pay": played.pay,
        "pot": target.pot,
        "paid": float(played.paid.totals.sum()),
        "providers": len(drawn.state.providers),
        "worth": drawn.worth,
        "fairness_loss": target.fairness_loss(played),
        "seconds": round(played.seconds, 4),
        "evaluations": played.evaluations,
        "best_attack": "",
    }


_LONGEST = 200  # characters of a file's name in a manifest
_CELL: Format[dict[str, Any]] = Format(".json", write_json, read_json)


def submit(
    entry: BenchmarkEntry,
    draws: Draws,
    out: Path,
    *,
    quick: bool = False,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Bundle:
    """Play the suite, or the quick part of it, and write the bundle; an earlier run of the same goes on."""
    if entry.track == "attack":
        attack = ATTACKS.create(fill_noise(entry.spec, 1.0))
        if not is_ours(type(attack).__module__):
            validate_attack(attack)
    library = entry.versions
    part = suite().part(quick)
    tasks = {f"{task}-{draw}": (task, draw) for task, draw in part.cells}
    jobs = min(jobs, len(tasks))
    files = _program_files(entry.command)
    digest = _digest(entry, draws, quick, files)
    with open_run(
        out, digest, "submission", __version__,
        outputs=[RESULTS, SUMS], executor=executor(jobs), progress=progress,
    ) as run:  # fmt: skip
        if not run.finished:
            run.progress.stage(f"{part.name}: {entry.name}", "markets")
            resumed = len(run.missing(tasks, _CELL)) < len(tasks)
            started = perf_counter()
            cells = run.steps(cell, CellRequest(part, draws, entry), tasks, _CELL)
            provenance = made_with(__version__)
            manifest = BundleManifest(
                digest=digest,
                suite=part.name,
                suite_hash=suite().hash,
                quick=quick,
                seeds="private" if draws.private else "public",
                commitment=draws.commitment,
                entry=entry,
                files=files,
                versions={**provenance["versions"], **library},
                plug_points=provenance["plug_points"],
                machine=machine(),
                jobs=jobs,
                finished=datetime.now(UTC).isoformat(timespec="seconds"),
                wall_seconds=None if resumed else round(perf_counter() - started, 1),
                warned=Counter(kind for each in cells for kind in each["warned"]),
            )
            results = results_text([row for each in cells for row in each["rows"]])
            write_text(out / RESULTS, results)
            _write_manifest(out, manifest)
    bundle = read_bundle(out)
    if bundle.entry == entry:
        return bundle
    # A finished submission under another name: its rows stay as they are.
    _write_manifest(out, bundle.manifest.model_copy(update={"entry": entry}))
    return read_bundle(out)


def _write_manifest(out: Path, manifest: BundleManifest) -> None:
    text = json_text(manifest.model_dump(), sort=False)
    write_text(out / SUMS, sums_text((out / RESULTS).read_bytes(), text.encode()))
    write_text(out / MANIFEST, text)


def _digest(entry: BenchmarkEntry, draws: Draws, quick: bool, files: dict[str, str]) -> str:
    """Hash of all that decides the rows; what a submission is called and by whom does not.

    Code that is not ours decides them, too: the files of a program, and what was loaded.
    """
    entry_fields = entry.model_dump(exclude={"name", "authors"})
    parts: list[Any] = [suite().hash, entry_fields, draws.commitment, quick]
    if code := {**files, **sources_elsewhere()}:
        parts.append(code)
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _program_files(command: str) -> dict[str, str]:
    """Hash the files that a command names, by their names without folders, as short as a manifest has them."""
    words = [Path(word) for word in shlex.split(command)]
    return {word.name[:_LONGEST].strip(): sha256(word) for word in words if word.is_file()}
