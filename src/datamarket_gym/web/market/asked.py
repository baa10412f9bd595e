"""What the page asks: a market, a cheat, a utility, a mechanism and checks, each with a default."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field

from datamarket_gym.core.errors import ParameterError
from datamarket_gym.core.progress import SILENT, Progress
from datamarket_gym.core.registry import lookup, written
from datamarket_gym.core.specs import Document
from datamarket_gym.evidence.graph import LAYERS
from datamarket_gym.judge.guarantees.deterrence import Checks
from datamarket_gym.learners.base import LEARNERS
from datamarket_gym.learners.oracle import RECOMMENDED, Utility
from datamarket_gym.pipeline.mechanism import Mechanism, mechanism
from datamarket_gym.web.market.parameters import validate_spec
from datamarket_gym.world.attacks.attack import ATTACKS
from datamarket_gym.world.tasks.base import TASKS, Task
from datamarket_gym.world.tasks.domains import DomainTask
from datamarket_gym.world.tasks.without_labels import WithoutLabels

PROVIDERS, UNITS, SAMPLES, CHECKS = 12, 200, 1024, 50
"""The most that the page asks for: its questions must end."""
SEEDS = 1_000_000
NAMED = "cosine@0.99"
"""The evidence of presets that leave it to whoever uses them."""

PARTS = (
    "evidence", "granularity", "representative", "semivalue", "estimator", "samples", "allocation", "normalize",
    "leak_check",
)  # fmt: skip
"""The parts of a mechanism that the page shows; the seed is the market's."""

Word = Annotated[str, Field(max_length=500)]
Spec = Word | dict[Word, bool | int | float | Word]


@dataclass(frozen=True)
class DrawnMarket:
    """A drawn market: all that decides who owns what."""

    task: str
    seed: int
    times: str


@dataclass(frozen=True)
class Under:
    """A utility in a drawn market; whoever is told how far it is decides nothing."""

    draw: DrawnMarket
    learner: str
    empty: str
    progress: Progress = field(default=SILENT, compare=False, repr=False)


@dataclass(frozen=True)
class AskedCheat:
    """What a provider does, and how much of the others' units it knows."""

    attack: str
    attacker: int
    knowledge: float


class MarketAsked(Document):
    """One question. A part of the mechanism that is left out is as the preset has it; components are written as in
    the registry, as text or as a mapping with a name."""

    task: Spec = "synthetic"
    providers: int = Field(default=4, ge=1, le=PROVIDERS)
    units: int = Field(default=40, ge=1, le=UNITS)
    seed: int = Field(default=0, ge=0, le=SEEDS)
    times: Literal["given", "equal", "none"] = "given"
    attack: Spec = "near_duplicate_2x_sybils"
    attacker: int = Field(default=0, ge=0, lt=PROVIDERS)
    knowledge: float = Field(default=1.0, ge=0.0, le=1.0)
    learner: Spec = RECOMMENDED
    empty: Literal["none", "chance"] | None = None
    mechanism: Word = "recommended"
    evidence: Spec | None = None
    granularity: Literal["unit", "batch", "identity"] | None = None
    representative: Spec | None = None
    semivalue: Spec | None = None
    estimator: Spec | None = None
    samples: int | None = Field(default=None, ge=1, le=SAMPLES)
    allocation: Spec | None = None
    normalize: bool | None = None
    leak_check: Literal["off", "drop", "error"] | None = None
    checks: int = Field(default=Checks().per_payee, ge=0, le=CHECKS)
    power: float = Field(default=Checks().power, gt=0.0, le=1.0)

    def filled(self) -> MarketAsked:
        """The same question with nothing left out, every component in its written form; or why it cannot be asked."""
        chosen = self.chosen()
        learner = validate_spec("learner", self.learner)
        found = {
            "task": self._task(sizes=False),
            "attack": validate_spec("attack", self.attack),
            "learner": learner,
            "empty": self.empty or LEARNERS.create(learner).paid_from,
            **chosen.model_dump(include=set(PARTS)),
        }
        Utility(learner, found["empty"])  # refuses what no accuracy is counted from
        return self.model_copy(update=found)

    def chosen(self) -> Mechanism:
        """The mechanism: a preset with the parts that were said, seeded as experiments seed it."""
        said = {part: getattr(self, part) for part in PARTS if getattr(self, part) is not None}
        for kind in ("evidence", "representative", "semivalue", "estimator", "allocation"):
            if kind in said:
                said[kind] = validate_spec(kind, said[kind])
        base = preset(self.mechanism, said.get("evidence"))
        return base.model_copy(update=said).seeded(self.seed)

    def changed(self) -> list[str]:
        """The parts that are not as the preset has them; only of a filled question."""
        base = preset(self.mechanism, str(self.evidence)).model_dump()
        return [part for part in PARTS if getattr(self, part) != base[part]]

    def _task(self, *, sizes: bool) -> str:
        text = validate_spec("task", self.task)
        if not sizes:
            return text
        counts = {"n_providers": self.providers, "per_provider": self.units}
        return written(_sized(TASKS.create(text), counts, self._content()))

    def _content(self) -> str:
        """The kind of raw content that the cheat or the evidence looks at; without it tasks need not load any."""
        attack = ATTACKS.create(validate_spec("attack", self.attack))
        layer = LAYERS.create(self.chosen().evidence)
        return attack.needs_content or layer.needs_content

    def draw(self) -> DrawnMarket:
        """Which market is drawn; only of a filled question."""
        return DrawnMarket(self._task(sizes=True), self.seed, self.times)

    def under(self, progress: Progress = SILENT) -> Under:
        """Which utility it is paid under; only of a filled question."""
        return Under(self.draw(), str(self.learner), str(self.empty), progress)

    def cheat(self) -> AskedCheat:
        """What the attacker does; only of a filled question."""
        return AskedCheat(str(self.attack), self.attacker, self.knowledge)


def preset(name: str, evidence: str | None = None) -> Mechanism:
    """A registered mechanism; one that leaves its evidence open is given some."""
    return _made(lookup("mechanism", name), name, evidence)


@lru_cache(maxsize=64)
def _made(registered: Any, name: str, evidence: str | None) -> Mechanism:
    """The same, once for as long as nothing else is registered under the name."""
    try:
        return mechanism(name)
    except ParameterError:
        return mechanism(f"{name}/{evidence or NAMED}")


def _sized(task: Task, counts: dict[str, int], content: str) -> Task:
    """The task with its providers and their units, and raw content where it is looked at and the task has it."""
    if isinstance(task, WithoutLabels):
        return WithoutLabels(written(_sized(TASKS.create(task.of), counts, content)))
    has = {f.name for f in dataclasses.fields(task)}  # type: ignore[arg-type]  # a task of somebody's own
    changes: dict[str, int | bool] = {name: count for name, count in counts.items() if name in has}
    if isinstance(task, DomainTask) and content == task.domain.kind:
        changes["content"] = True
    return dataclasses.replace(task, **changes)  # type: ignore[type-var]
