"""What attacks on the evidence gain, and what they cost others, at a payday as an operator runs it.

Eight sellers with 50 AG News articles each (MiniLM), EUR 10,000.00, 300 validation rows. For every attack the
files are written and paid twice, honest and attacked, by the function behind `datamarket pay`, for accuracy over
chance unless `--utility` says otherwise. Prints a
Markdown table in EUR and then, for each attack, whether the thief gains at most 2 % and no victim loses more.

The thief is seller-8 (its 50 honest units stay, what it adds comes last) or, where the earliest unit matters,
seller-1; names that are not of the eight are the thief's. The victim is whoever else is paid most by the honest
market. The attacker knows the threshold that the honest payday used. A star marks further variants, most of them
asking how far a defence reaches. Blended texts need the encoder `minilm`
and are left out where it is not installed. Leaked rows are also tried on the synthetic task and on
scikit-learn's digits through `Mechanism.pay`, in units of which the honest market pays 10,000.

Usage: python benchmarks/evidence_table.py [--seeds 0 1 2] [--only SUBSTRING ...] [--utility coverage] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from datamarket_gym import DataMarketError
from evidence_attacks import CASES
from evidence_paydays import ELSEWHERE, LAST, SELLERS, Market, Office, Paid, leaked_elsewhere

GAIN, LOSS = 1.02, 0.02


@dataclass(frozen=True)
class Found:
    """One attack on one market."""

    thief: tuple[float, float]
    victim: tuple[float, float]
    others: tuple[float, float]
    worst_loss: float
    added: int
    theta: tuple[float | None, float | None]
    warned: tuple[str, ...]
    error: str

    @classmethod
    def of(cls, before: Paid, after: Paid, thief: str, victim: str, added: int) -> Found:
        """From both paydays; warnings that the honest one raised too are marked."""
        sellers = {f"seller-{i + 1}" for i in range(SELLERS)} - {thief}
        mine = (set(before.by_name) | set(after.by_name)) - sellers
        rest = sellers - {victim}
        lost = [
            1 - after.by_name.get(name, 0.0) / before.by_name[name]
            for name in sellers
            if before.by_name.get(name, 0.0) >= 1
        ]
        return cls(
            (before.total(mine), after.total(mine)), (before.total({victim}), after.total({victim})),
            (before.total(rest), after.total(rest)), max(lost, default=0.0), added,
            (before.theta, after.theta),
            tuple(f"({name})" if name in before.warned else name for name in after.warned),
            before.error or after.error,
        )  # fmt: skip

    @property
    def gain(self) -> float:
        """Attacked over honest pay; infinite where honest pay is nothing and attacked pay is not."""
        before, after = self.thief
        return after / before if before >= 1 else 1.0 if after < 1 else float("inf")

    @property
    def loss(self) -> float:
        """The share of its pay that the victim loses."""
        return 1 - self.victim[1] / self.victim[0]


def row(name: str, found: list[Found]) -> str:
    """A line of the table, means over markets; largest of any market in brackets."""
    stopped = [each for each in found if each.error]
    paid = [each for each in found if not each.error]
    if not paid:
        return f"| {name} | {stopped[0].added} | stopped: {stopped[0].error} |" + " |" * 8

    def mean(values: list[float]) -> float:
        return float(np.mean(values))

    def pair(which: str) -> str:
        before, after = (mean([getattr(each, which)[i] for each in paid]) for i in (0, 1))
        return f"{before:,.0f} -> {after:,.0f}"

    gain = mean([e.thief[1] for e in paid]) / max(mean([e.thief[0] for e in paid]), 1e-9)
    gains = "from nothing" if gain > 1e6 else f"{gain:.3f} [{max(e.gain for e in paid):.3f}]"
    loss = 1 - mean([e.victim[1] for e in paid]) / mean([e.victim[0] for e in paid])
    thetas = sorted({f"{a} -> {b}" if a != b else f"{a}" for a, b in (e.theta for e in paid)})
    told = sorted({w for e in paid for w in e.warned})
    note = f"; stopped in {len(stopped)} markets: {stopped[0].error}" if stopped else ""
    return (
        f"| {name} | {mean([e.added for e in paid]):.0f} | {pair('thief')} | {gains} | {pair('victim')} | "
        f"{loss:.1%} [{max(e.loss for e in paid):.1%}] | {max(e.worst_loss for e in paid):.1%} | "
        f"{pair('others')} | {', '.join(thetas)} | {'; '.join(told) or 'none'}{note} |"
    )


def verdict(name: str, found: list[Found]) -> str:
    """Whether what must hold does, in every market."""
    if any(each.error for each in found):
        return f"{name}: FAILS, the payday stops"
    gain, loss = max(e.gain for e in found), max(max(e.loss, e.worst_loss) for e in found)
    told = sorted({w for e in found for w in e.warned})
    words = "holds" if gain <= GAIN and loss <= LOSS else "FAILS"
    words += f", warned of {', '.join(told)}" if told else ", no warning"
    return f"{name}: {words}; largest gain {gain:.3f}, largest loss of anybody {loss:.1%}"


def main() -> None:
    """Print the table and the verdicts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", default=[""], help="rows whose name holds one of these")
    parser.add_argument("--utility", default="knn", help="what is paid for")
    parser.add_argument("--keep", type=Path, help="keep the files of all paydays in this folder")
    chosen = parser.parse_args()
    started = time.perf_counter()
    found: dict[str, list[Found]] = defaultdict(list)
    wanted = [name for name in [*CASES, *ELSEWHERE] if any(part in name for part in chosen.only)]
    for seed in chosen.seeds:
        with tempfile.TemporaryDirectory() as temporary:
            folder = chosen.keep or Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            for name, one in replayed(seed, folder, wanted, chosen.utility):
                found[name].append(one)
                print(f"seed {seed}, {name}: {one}", file=sys.stderr, flush=True)
    print(
        "| attack | units added | thief, honest -> attacked | gain | victim, honest -> attacked | victim's loss "
        "| largest loss of anybody | others together | theta | warnings |\n" + "|---" * 10 + "|"
    )
    for name in sorted(found):
        print(row(name, found[name]))
    print(
        f"\nEUR; means over market seeds {chosen.seeds} [largest of one]; to hold, in each of them: gain at most "
        f"{GAIN}, loss of anybody at most {LOSS:.0%}. (Warnings) in brackets are raised by the honest payday too.\n"
    )
    for name in sorted(found):
        print(verdict(name, found[name]))
    print(f"\n{time.perf_counter() - started:.0f} s")


def replayed(seed: int, folder: Path, wanted: list[str], learner: str) -> Iterator[tuple[str, Found]]:
    """The attacks on one market."""
    office = Office(Market.draw(seed), folder, learner)
    for name in wanted:
        if name in CASES:
            try:
                case = CASES[name](office)
            except DataMarketError as error:
                print(f"{name} is left out: {error}")
                continue
            added = len(case.attacked) - len(office.market.honest)
            yield name, Found.of(*office.both(case), case.thief, office.victims[case.thief], added)
        else:
            before, after = leaked_elsewhere(seed, ELSEWHERE[name], learner)
            victim = max((n for n in before.by_name if n != LAST), key=lambda n: before.by_name[n])
            yield name, Found.of(before, after, LAST, victim, 100)


if __name__ == "__main__":
    main()
