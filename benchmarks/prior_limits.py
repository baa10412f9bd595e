"""What prior art leaves open, measured: tables in Markdown, means over markets and in brackets the worst of them.

Two periods, June and July, paid by the recommended mechanism for coverage, without checks; July given what June has
bought. Half of the providers sell in June and the others, the cheat among them, in July, unless a table says otherwise.
A gain is a seller's pay over what it is paid when all are honest; a loss is the part of their pay, in amounts or of
July's pot, that the other sellers of July lose together. Noise is in spreads of a feature.

Usage: python benchmarks/prior_limits.py [--only SECTION ...] [--tasks TASK ...] [--seeds N] [--jobs N] [--out FILE]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from datamarket_gym import (
    GroundTruth,
    Payments,
    ProviderMarket,
    Submission,
    SubmittedProfile,
    Utility,
    UtilityOracle,
    mechanism,
    prior_of,
)
from datamarket_gym.core.arrays import directions
from datamarket_gym.core.content import keyed_generator
from datamarket_gym.core.files import write_text
from datamarket_gym.evidence.collapse import told_once
from datamarket_gym.judge.checked import CheckedAttack
from datamarket_gym.judge.guarantees.deterrence import Checks
from datamarket_gym.judge.metrics import clearly_paid, gain_of, pot_shares
from datamarket_gym.lab.periods import TwoPeriods, continuing, divided, newcomers
from datamarket_gym.world.attacks.turning import turned

DOMAINS = ("agnews", "imdb", "synthetic", "stl10", "cifar10")
OURS = mechanism("recommended")
FEW = 60  # validation rows, where few are tried

Row = tuple[str, list[float]]
"""What a line of a table is about, and its numbers."""


@dataclass(frozen=True, eq=False)
class Months:
    """Two periods, and the utility that pays for them."""

    periods: TwoPeriods
    utility: UtilityOracle

    @staticmethod
    def of(
        market: ProviderMarket, periods: TwoPeriods | None = None, learner: str = "coverage"
    ) -> Months:
        """Those of a market: newcomers, unless others are given."""
        utility = market.utility_oracle(Utility.paying(learner))
        return Months(newcomers(market, 0) if periods is None else periods, utility)

    @property
    def thief(self) -> str:
        """Who cheats."""
        return self.periods.thief

    @property
    def new(self) -> Submission:
        """What is sold in July when all are honest."""
        return self.periods.honest.submission

    def paid(self, june: list[Submission], july: list[Submission]) -> tuple[Payments, Payments]:
        """Both months, with further units in either."""
        first = OURS.pay(Submission.concat([self.periods.old, *june]), self.utility)
        given = self.utility.given(prior_of(first))
        return first, OURS.pay(Submission.concat([self.new, *july]), given)

    def rng(self, purpose: str) -> np.random.Generator:
        """Chance of its own for each purpose."""
        return keyed_generator(self.periods.seed, purpose, self.thief)

    def noisy(self, units: Submission, noise: float) -> np.ndarray:
        """Their features under Gaussian noise."""
        step = self.rng("noise").normal(size=units.features.shape)
        return units.features + noise * self.periods.spread * step

    def june(self, features: np.ndarray, label: np.ndarray) -> Submission:
        """Units of the cheat, after all others of June."""
        return self._sold("june", features, label, float(self.periods.old.times.max()), 1.0)

    def july(self, features: np.ndarray, label: np.ndarray, name: str = "made") -> Submission:
        """Units of the cheat under a further name, before all others of July."""
        return self._sold(name, features, label, 1.0, float(self.new.times.min()))

    def _sold(
        self, name: str, features: np.ndarray, label: np.ndarray, begin: float, end: float
    ) -> Submission:
        n = len(label)
        return Submission(
            id=np.array([f"{name}_{i}" for i in range(n)]),
            identity=np.full(n, f"{self.thief}~{name}"),
            features=features,
            label=label,
            time=np.linspace(begin, end, n + 2)[1:-1],
        )

    def got(self, paid: Payments) -> float:
        """What the cheat is paid under all its names."""
        names = [str(name) for name in paid.identities]
        return paid.total([name for name in names if name.split("~")[0] == self.thief])

    def gain(self, honest: Payments, july: Payments) -> float:
        """What the cheat is paid in July over its honest pay there, where that is clearly above zero."""
        pay = self.got(honest)
        clear = clearly_paid(pay, honest.grand_value, len(honest.identities))
        return gain_of(self.got(july), pay) if clear else math.nan

    def expected(self, honest: Payments, made: Submission) -> float:
        """What the cheat can expect in July over its honest pay, where 3 units of each payee are checked, power 0.8."""
        given = self.utility.given(prior_of(OURS.pay(self.periods.old, self.utility)))
        truth, submission = (
            self.periods.honest.truth.aligned(self.new),
            Submission.concat([self.new, made]),
        )
        attacked = GroundTruth(
            submission.id,
            np.concatenate([truth.owner, np.full(len(made), self.thief)]),
            np.concatenate([truth.source, made.id]),
            {**truth.controller, str(made.identity[0]): self.thief},
        )
        profile, pay = SubmittedProfile(submission, attacked, self.thief, "made"), self.got(honest)
        checked = CheckedAttack(OURS, profile, self.periods.honest, given, self.thief, pay)
        clear = clearly_paid(pay, honest.grand_value, len(honest.identities))
        return gain_of(checked.expected(Checks(3, 0.8)).pay, pay) if clear else math.nan

    def losses(self, honest: Payments, july: Payments) -> list[float]:
        """What the other sellers of July lose together, in amounts and of a pot, if they are paid else."""
        others = [str(name) for name in honest.identities if name != self.thief]
        before, now = (pot_shares(paid.as_dict()) for paid in (honest, july))
        had = sum(before[name] for name in others)
        if not (had > 0 and honest.total(others) > 0):
            return [math.nan, math.nan]
        of_pot = sum(now[name] for name in others) / had
        return [1.0 - gain_of(july.total(others), honest.total(others)), 1.0 - of_pot]


def mixes(
    units: Submission, rows: np.ndarray, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Random convex mixes of four of the rows, of one class, about as long as units are; and their labels."""
    unit, label = directions(units.features[rows]), units.label[rows]
    length = np.linalg.norm(units.features[rows], axis=1).mean()
    first = rng.integers(len(rows), size=n)
    made = np.empty((n, unit.shape[1]))
    for place, row in enumerate(first):
        alike = np.flatnonzero(label == label[row])
        among = rng.choice(alike, min(4, len(alike)), replace=False)
        made[place] = rng.dirichlet(np.ones(len(among))) @ unit[among]
    return length * made, label[first]


def theta(paid: Payments) -> float:
    """From which cosine on units are tied; 1 where none is."""
    tied = None if paid.threshold is None else paid.threshold.theta
    return 1.0 if tied is None else float(tied)


def waiting(market: ProviderMarket) -> Iterator[Row]:
    """A seller sells all in June, half in each month, or all in July; the others in one month each, or in both."""
    everything, half = market.honest.submission, continuing(market, 0)
    mine = everything.identity == half.thief
    when = {"June": mine, "half": mine & np.isin(everything.id, half.old.id), "July": mine & False}
    for others, layout in (("in one month each", newcomers(market, 0)), ("half in each", half)):
        early = np.isin(everything.id, layout.old.id) & ~mine
        amount, pots, worth = {}, {}, {}
        for name, june in when.items():
            months = Months.of(market, divided(market, half.thief, early | june))
            both = months.paid([], [])
            amount[name] = sum(map(months.got, both))
            pots[name] = sum(pot_shares(paid.as_dict()).get(half.thief, 0.0) for paid in both)
            worth[name] = both[1].grand_value / both[0].grand_value
        later = [gain_of(amount[name], amount["June"]) for name in ("half", "July")]
        yield others, [*pots.values(), *later, worth["half"]]


def mixed(market: ProviderMarket) -> Iterator[Row]:
    """Ten mixes for each old unit: of old units, and as many of the cheat's own new ones."""
    months = Months.of(market)
    old, new = months.periods.old, months.new
    _, honest = months.paid([], [])
    pools = {"old units": (old, np.arange(len(old)))}
    pools["own new units"] = (new, np.flatnonzero(new.identity == months.thief))
    for name, (units, rows) in pools.items():
        made = mixes(units, rows, 10 * len(old), months.rng(name))
        _, july = months.paid([], [months.july(*made)])
        known = len(july.known) / len(made[1])
        yield f"of {name}", [months.gain(honest, july), *months.losses(honest, july), known]


def memory(market: ProviderMarket) -> Iterator[Row]:
    """Four sellers in July, after more and more that was bought: copies of all of it under noise 1."""
    names = market.state.providers
    everything = market.honest.submission
    whole = divided(market, names[0], ~np.isin(everything.identity, names[:4]))
    for sellers in (4, 12, 28):
        bought = np.isin(whole.old.identity, names[4 : 4 + sellers])
        months = Months.of(market, replace(whole, old=whole.old.take(bought)))
        june, honest = months.paid([], [])
        old = months.periods.old
        copies = months.july(months.noisy(old, 1.0), old.label)
        others = np.setdiff1d(np.arange(len(old)), june.leaks.unit)
        _, july = months.paid([], [copies])
        _, without = months.paid([], [copies.take(others)])
        gains = [months.gain(honest, paid) for paid in (july, without)]
        worth = honest.grand_value / june.grand_value
        yield f"{len(old):,}", [*gains, len(june.leaks), months.losses(honest, july)[0], worth]


def squatting(market: ProviderMarket) -> Iterator[Row]:
    """The cheat sells in June what may lie near to what others will sell in July."""
    months = Months.of(market)
    old, new = months.periods.old, months.new
    _, honest = months.paid([], [])
    theirs = new.take(new.identity != months.thief)
    noisy, classes = months.noisy(theirs, 0.3), np.unique(np.concatenate([old.label, new.label]))
    wrong = classes[(np.searchsorted(classes, theirs.label) + 1) % len(classes)]
    tried = {
        "20 mixes for each old unit": mixes(
            old, np.arange(len(old)), 20 * len(old), months.rng("squat")
        ),
        "July's units, noise 0.3": (noisy, theirs.label),
        "the same, wrong labels": (noisy, wrong),
    }
    for name, made in tried.items():
        june, july = months.paid([months.june(*made)], [])
        known = np.isin(new.identity[july.known.unit], theirs.identity).sum() / len(theirs)
        before = np.isin(new.identity[honest.known.unit], theirs.identity).sum() / len(theirs)
        pot = months.got(june) / june.totals.sum()
        yield name, [pot, known - before, *months.losses(honest, july)]


def rows_known(market: ProviderMarket) -> Iterator[Row]:
    """The cheat submits validation rows in June: they are set aside, and what is near to them is known in July."""
    months = Months.of(market)
    _, honest = months.paid([], [])
    utility = months.utility
    for part in (0.05, 0.25, 1.0):
        rows = slice(round(part * len(utility.label)))
        june, july = months.paid([months.june(utility.features[rows], utility.label[rows])], [])
        aside = np.char.endswith(june.leaks.identity.astype(np.str_), "~june").sum()
        known = (len(july.known) - len(honest.known)) / len(months.new)
        found = [aside / len(utility.label[rows]), known, *months.losses(honest, july)]
        yield f"{part:.0%} of the rows", found


def lifting(market: ProviderMarket) -> Iterator[Row]:
    """20 mixes for each old unit, sold in July to lift theta, so that copies under noise 0.3 escape it."""
    months, data = Months.of(market), market.dataset
    few = UtilityOracle(
        data.validation_features[:FEW], data.validation_label[:FEW], months.utility.utility
    )
    for name, utility in (("all", months.utility), (str(FEW), few)):
        months = replace(months, utility=utility)
        old = months.periods.old
        _, honest = months.paid([], [])
        copies = months.july(months.noisy(old, 0.3), old.label, "copies")
        lift = months.july(*mixes(old, np.arange(len(old)), 20 * len(old), months.rng("lift")), "lift")
        _, plain = months.paid([], [copies])
        _, lifted = months.paid([], [copies, lift])
        pay = [gain_of(p.total([f"{months.thief}~copies"]), months.got(honest)) for p in (plain, lifted)]
        yield name, [theta(honest), theta(lifted), *pay, months.gain(honest, lifted)]


def turning(market: ProviderMarket) -> Iterator[Row]:
    """All sell half in each month; the cheat sells copies of others' units, turned just below theta, in July."""
    for learner in ("knn(k=5)", "coverage"):
        months = Months.of(market, continuing(market, 0), learner)
        old = months.periods.old.take(months.periods.old.identity != months.thief)
        _, honest = months.paid([], [])
        towards = {
            "by chance": months.rng("aside").normal(size=old.features.shape),
            "to the mean of the class": np.array(
                [old.features[old.label == label].mean(axis=0) for label in old.label]
            ),
        }
        for name, aside in towards.items():
            made = months.july(turned(old.features, aside, theta(honest) - 0.01), old.label)
            _, july = months.paid([], [made])
            found = [months.gain(honest, july), months.expected(honest, made)]
            yield f"{learner}, {name}", [*found, *months.losses(honest, july)]


class Column(NamedTuple):
    """A head, how its numbers are written, and which of them is the worst (none where it is told of)."""

    head: str
    form: str
    worst: Callable[[list[float]], float] | None = max


class Section(NamedTuple):
    """A table: what is played on a market, the head of its lines, and its columns."""

    play: Callable[[ProviderMarket], Iterator[Row]]
    about: str
    columns: tuple[Column, ...]
    options: str = ""  # of the tasks


def _plain(head: str, form: str) -> Column:
    return Column(head, form, None)


GAIN = Column("gain", ".2f")
LOSSES = (Column("others' loss, amounts", ".1%"), Column("others' loss, July's pot", ".1%"))
SECTIONS = {
    "waiting": Section(
        waiting,
        "the others",
        (
            _plain("pots, all in June", ".2f"),
            Column("pots, half", ".2f"),
            Column("pots, July", ".2f"),
            Column("amount, half / June", ".2f"),
            Column("amount, July / June", ".2f"),
            Column("v(July) / v(June)", ".3f", min),
        ),
    ),
    "mixes": Section(mixed, "mixes", (GAIN, *LOSSES, _plain("mixes known", ".0%"))),
    "memory": Section(
        memory,
        "old units",
        (
            GAIN,
            Column("gain without copies of rows set aside", ".2f"),
            _plain("rows set aside", ".1f"),
            LOSSES[0],
            Column("v(July) / v(bought)", ".3f", min),
        ),
        "(n_providers=32, per_provider=50)",
    ),
    "squatting": Section(
        squatting,
        "sold in June",
        (_plain("of June's pot", ".1%"), Column("others' July units known", ".1%"), *LOSSES),
    ),
    "rows": Section(
        rows_known,
        "submitted in June",
        (_plain("set aside", ".0%"), Column("more July units known", ".1%"), *LOSSES),
    ),
    "lifting": Section(
        lifting,
        "validation rows",
        (
            _plain("theta", ".3f"),
            Column("theta, lifted", ".3f"),
            Column("pay of copies over honest pay", ".2f"),
            Column("the same, lifted", ".2f"),
            Column("gain, mixes and copies", ".2f"),
        ),
    ),
    "turning": Section(
        turning, "paid by, turned", (GAIN, Column("expected with 3 checks", ".2f"), *LOSSES)
    ),
}


def cell(name: str, domain: str, seed: int) -> list[Row]:
    """The lines of one market."""
    section = SECTIONS[name]
    with told_once():
        return list(section.play(ProviderMarket.from_task(domain + section.options, seed)))


def shown(column: Column, values: list[float]) -> str:
    """The mean, and the worst; how many there are, where some are undefined."""
    known = [value for value in values if value == value]
    if not known:
        return "-"
    worst = "" if column.worst is None else f" ({column.worst(known):{column.form}})"
    fewer = "" if len(known) == len(values) else f", {len(known)} of {len(values)}"
    return f"{np.mean(known):{column.form}}{worst}{fewer}"


def table(name: str, found: dict[str, list[list[Row]]]) -> Iterator[str]:
    """One section as Markdown."""
    section = SECTIONS[name]
    heads = ["domain", section.about, *(column.head for column in section.columns)]
    yield from ("", f"**{name}**: {(section.play.__doc__ or '').strip()}", "")
    yield from (f"| {' | '.join(heads)} |", "|" + "---|" * len(heads))
    for domain, markets in found.items():
        for line in zip(*markets, strict=True):
            numbers = zip(*(values for _, values in line), strict=True)
            cells = [shown(column, list(v)) for column, v in zip(section.columns, numbers, strict=True)]
            yield f"| {domain} | {line[0][0]} | {' | '.join(cells)} |"


def main() -> None:
    """Print the tables, and write each to a file, where one is named, as soon as it is done."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    asked.add_argument(
        "--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="some tables alone"
    )
    asked.add_argument("--tasks", nargs="+", default=DOMAINS, help="domains")
    asked.add_argument("--seeds", type=int, default=5, help="markets of each domain")
    asked.add_argument("--jobs", type=int, default=1, help="markets played at once")
    asked.add_argument("--out", type=Path, help="a file for what is printed")
    given = asked.parse_args()
    lines = [f"{given.seeds} markets of each domain; mean (worst)."]
    print(lines[0], flush=True)
    with ProcessPoolExecutor(given.jobs) as pool:
        waits = {
            name: {
                domain: [pool.submit(cell, name, domain, seed) for seed in range(given.seeds)]
                for domain in given.tasks
            }
            for name in given.only
        }
        for name, domains in waits.items():
            found = {
                domain: [each.result() for each in each_seed] for domain, each_seed in domains.items()
            }
            more = list(table(name, found))
            print("\n".join(more), flush=True)
            lines += more
            if given.out:
                write_text(given.out, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
