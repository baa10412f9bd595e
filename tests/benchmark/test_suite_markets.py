"""DataMarket-v1: what it says is fixed, and its markets tell nobody who attackers."""

from pathlib import Path

import numpy as np
import pytest

from datamarket_gym.analysis.metrics import provider_totals
from datamarket_gym.analysis.redteam.best_response import AttackCosts, best_response
from datamarket_gym.benchmark.blind_markets import (
    BlindTarget,
    RefusedError,
    blind_profile,
    require_after_originals,
)
from datamarket_gym.benchmark.bundles import BenchmarkEntry
from datamarket_gym.benchmark.runner import BenchmarkMarket, CellRequest, cell
from datamarket_gym.benchmark.scoring import MechanismRow, gain
from datamarket_gym.benchmark.suite import make_key, private, public, suite
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.market.attacks import Attack, Block
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.mechanism import get_mechanism

HASH = "e89ee764e8f2e32d1201679e6b203af1cd0e440147bac80d682270e5f3e1d2a4"
"""Where this changes, results before and after cannot be compared: it is a new suite, DataMarket-v2."""


@pytest.fixture(scope="module")
def drawn():
    return BenchmarkMarket.of(public(), suite().task("synthetic"), 0)


def target(drawn, payer, **more):
    return BlindTarget(drawn.state, payer, drawn.utility, drawn.attacker, key=7, **more)


def test_the_suite_is_what_it_was():
    assert suite().name == "DataMarket-v1"
    assert suite().hash == HASH


@pytest.mark.parametrize(
    ("task", "worth", "providers"),
    [("synthetic", 0.64770869, 6), ("digits", 0.8201836, 7), ("tumours", 0.42, 8)],
)
def test_the_public_markets_are_what_they_were(task, worth, providers):
    """Code decides markets as much as the file does: a change of a task shows here."""
    found = BenchmarkMarket.of(public(), suite().task(task), 0)
    assert found.worth == pytest.approx(worth, rel=1e-6)
    assert len(found.state.providers) == providers


def test_attacks_do_what_they_did(drawn):
    """The same for attacks: what they earn from Shapley over names in one market."""
    part = suite().part(True).model_copy(update={"trials": 1})
    rows = cell(CellRequest(part, public(), BenchmarkEntry.of_spec("shapley")), "synthetic", 0)["rows"]
    found = {row["attack"]: round(gain(MechanismRow(**row)), 3) for row in rows}
    assert found == {
        "honest": 1.0,
        "split in 3": 1.447,
        "split in 12": 1.806,
        "own copies, exact": 1.659,
        "own copies, 0.1 spreads": 1.678,
        "own copies, 0.6 spreads": 1.689,
        "laundering": 1.659,
        "curation": 0.96,
        "junk": 1.583,
        "wrong labels": 0.808,
        "theft of one, exact": 1.181,
        "theft of one, 0.6 spreads": 1.182,
        "theft of all, 0.6 spreads": 1.484,
        "theft of half, 0.6 spreads": 1.335,
        "theft of the best, 1 spread": 1.052,
        "turned copies": 1.311,
        "bridge": 1.23,
        "leaked rows": 2.124,
        "best response": 2.124,
    }


def test_providers_differ_in_number_and_size(drawn):
    sizes = np.unique(drawn.state.honest.submission.identity, return_counts=True)[1]
    assert len(set(sizes.tolist())) > 3
    markets = [BenchmarkMarket.of(public(), suite().task("tumours"), draw) for draw in range(4)]
    assert len({len(each.state.providers) for each in markets}) > 1
    assert len({each.attacker for each in markets}) == 4


@pytest.mark.parametrize("attack", ["sybil_split_k@4", "copycat", "exact_dup_2x_sybils"])
def test_nothing_but_content_tells_who_attackers(drawn, attack):
    honest = drawn.state.honest
    attacked = ATTACKS.create(attack).apply(drawn.attacker, drawn.state)
    told = "".join([*attacked.submission.identities, *attacked.submission.id])
    assert "~" in told  # before: pseudonyms and copies are written after what they are of
    blind = blind_profile(attacked, honest, 7)
    shown = blind.submission
    names = [*shown.identities.tolist(), *shown.id.tolist()]
    assert all(len(name) == 16 and set(name) <= set("0123456789abcdef") for name in names)
    assert (shown.source, shown.batch, dict(shown.metadata)) == (None, None, {})
    mine = np.isin(shown.identity, blind.identities_of(drawn.attacker))
    assert mine.sum() == len(attacked.submission) - (honest.truth.owner != drawn.attacker).sum()
    assert not mine[-mine.sum() :].all()  # nor do they come last
    assert shown.times.min() == 0.0  # when they came is a place in an order
    assert np.ptp(np.diff(np.unique(shown.times))) < 1e-12
    payer = get_mechanism("quotient_shapley/cosine@0.99")
    before = provider_totals(payer.pay(attacked.submission, drawn.utility), attacked)
    assert provider_totals(payer.pay(shown, drawn.utility), blind) == before


def test_private_keys_draw_other_markets_and_are_not_told(tmp_path):
    made = make_key(tmp_path / "key")
    assert private(tmp_path / "key") == made
    assert (tmp_path / "key").stat().st_mode & 0o077 == 0
    assert made.seed("synthetic", 0, "market") != public().seed("synthetic", 0, "market")
    assert made.key not in made.commitment
    assert made.commitment != make_key(tmp_path / "other").commitment
    with pytest.raises(ParameterError, match="not overwritten"):
        make_key(tmp_path / "key")
    (tmp_path / "weak").write_text("secret")
    with pytest.raises(ParameterError, match="64 hexadecimal digits"):
        private(Path("/dev/zero"))  # which has no end
    with pytest.raises(ParameterError, match="64 hexadecimal digits"):
        private(tmp_path / "weak")


class Paying:
    """A mechanism that is a function."""

    def __init__(self, amounts):
        self.amounts = amounts

    def pay(self, submission, utility):
        return dict(zip(submission.identities.tolist(), self.amounts(submission), strict=True))


def units_of(submission):
    return np.unique(submission.identity, return_counts=True)[1]


def test_who_pays_nobody_is_not_ranked(drawn):
    with pytest.raises(DataMarketError, match="pays no provider anything"):
        target(drawn, Paying(lambda s: [0.0] * len(s.identities)))


def test_equal_pay_loses_to_splitting(drawn):
    found = target(drawn, Paying(lambda s: [1.0] * len(s.identities)))
    assert found.over_honest(found.outcome("sybil_split_k@4").pay) == pytest.approx(4.0)


def test_who_pays_nobody_where_there_are_copies_is_unfair(drawn):
    """Whoever punishes all for one is paid for it by fairness: nobody gains, and everybody loses."""

    def all_or_none(submission):
        copies = len(np.unique(submission.features, axis=0)) < len(submission)
        return units_of(submission) * (0.0 if copies else 1.0)

    found = target(drawn, Paying(all_or_none))
    punished = found.outcome("exact_dup_2x_sybils")
    assert punished.pay == 0.0
    assert found.fairness_loss(punished) == 1.0
    assert found.fairness_loss(found.outcome("honest")) < 0.3


def test_debts_are_not_collected(drawn):
    """A name below zero is left behind: it takes nothing off what the attacker's other names earn."""
    n = len(drawn.state.providers)

    def owing(submission):
        amounts = np.ones(len(submission.identities))
        if len(amounts) > n:
            mine = np.isin(submission.identities, drawn.state.providers, invert=True)  # pseudonyms alone
            amounts[np.flatnonzero(mine)[0]] = -5.0
        return amounts

    found = target(drawn, Paying(owing)).outcome("sybil_split_k@3")
    assert found.pay == 2.0
    assert sum(provider_totals(found.paid, found.profile).values()) == n + 1.0


def test_who_will_not_pay_attacked_markets_is_refused_and_not_spared(drawn):
    n = len(drawn.state.honest.submission)

    def only_honest(submission):
        if len(submission) != n:
            raise DataMarketError("this market looks odd")
        return units_of(submission)

    found = target(drawn, Paying(only_honest))
    with pytest.raises(RefusedError, match="did not pay the market of attack 'copycat'"):
        found.respond("copycat", AttackCosts())
    with pytest.raises(RefusedError, match="looks odd"):
        best_response(found, trials=8, optimiser="scipy")
    assert found.respond("sybil_split_k@1000", AttackCosts()) is None  # that nobody can carry out


def test_mechanisms_that_ask_for_the_truth_are_refused(drawn):
    with pytest.raises(DataMarketError, match="truth"):
        target(drawn, get_mechanism("quotient_shapley/oracle_latent")).outcome("honest")


class Foresight(Attack):
    """Hands in the others' units before they came."""

    label = "foresight"

    def blocks(self, own):
        theirs = own.rows_of("all")
        return [Block(0, own.rows), Block(0, theirs, copy=True, time=own.earliest(len(theirs)))]


class Disowned(Attack):
    """The same, a hair away from the originals, and said to be made of its own units."""

    label = "disowned"

    def blocks(self, own):
        theirs = own.rows_of("all")
        moved = own.honest.features[theirs] * (1 + 1e-9)
        rows = np.resize(own.rows, len(theirs))
        early = own.earliest(len(theirs))
        return [Block(0, own.rows), Block(1, rows, features=moved, copy=True, time=early)]


def test_attacks_neither_forge_clocks_nor_foresee(drawn):
    require_after_originals(ATTACKS.create("copycat").apply(drawn.attacker, drawn.state))
    early = Foresight().apply(drawn.attacker, drawn.state)
    with pytest.raises(DataMarketError, match="before that came"):
        require_after_originals(early)
    # The clock is the operator's: what an attack writes is not believed.
    forged = ATTACKS.create("backdate(victim=all)").apply(drawn.attacker, drawn.state)
    require_after_originals(forged)
    require_after_originals(blind_profile(forged, drawn.state.honest, 7))


def arrived(drawn, attack):
    """An attacked market as it is shown: which units were added, their places, and whose unit each is nearest to."""
    honest = drawn.state.honest
    blind = blind_profile(attack.apply(drawn.attacker, drawn.state), honest, 7)
    return blind, ~np.isin(blind.submission.id, honest.submission.id)


@pytest.mark.parametrize(
    "attack",
    [
        "composite(split=1, copy=0.0, steal=1.0, steal_sigma=0.5, victims=7)",
        "near_duplicate_2x_sybils@0.5",
        "turn(cosine=0.8, victim=all)",
        "synthetic_laundering(ratio=3.0, how=mix, first=True)",
        "junk_padding(ratio=1.0, identities=3)",
        "leak_stuffing",
    ],
)
def test_what_is_added_comes_among_the_others_and_after_its_source(drawn, attack):
    blind, added = arrived(drawn, ATTACKS.create(attack))
    shown, honest = blind.submission, drawn.state.honest
    time = dict(zip(shown.id.tolist(), shown.times.tolist(), strict=True))
    assert len(set(time.values())) == len(shown)  # copies do not come at one moment
    owner = honest.truth.aligned(honest.submission).owner
    theirs = set(honest.submission.id[owner != drawn.attacker].tolist())
    source = blind.truth.aligned(shown).source
    for unit, original in zip(shown.id[added].tolist(), source[added].tolist(), strict=True):
        assert original not in theirs or time[unit] > time[original]
    # Neither the end of the queue nor its beginning is the attacker's.
    ranked = added[np.argsort(shown.times)]
    for end in (ranked[-added.sum() :], ranked[: added.sum()]):
        assert end.mean() < 0.8
    kept = shown.take(~added)  # honest units come in the order in which they came
    before = dict(zip(honest.submission.id.tolist(), honest.submission.times.tolist(), strict=True))
    order = [before[unit] for unit in kept.id[np.argsort(kept.times)].tolist()]
    assert order == sorted(order)


def test_copies_that_are_called_one_s_own_come_after_their_originals(drawn):
    blind, added = arrived(drawn, Disowned())
    shown, honest = blind.submission, drawn.state.honest.submission
    apart = ((shown.features[added][:, None] - honest.features) ** 2).sum(axis=2)
    now = dict(zip(shown.id.tolist(), shown.times.tolist(), strict=True))
    for moment, nearest in zip(shown.times[added].tolist(), apart.argmin(axis=1).tolist(), strict=True):
        assert moment > now[str(honest.id[nearest])]


def test_providers_come_in_rhythms_of_their_own(drawn):
    honest = drawn.state.honest.submission
    means = [honest.times[honest.identity == name].mean() for name in honest.identities.tolist()]
    assert max(means) - min(means) > 0.25
    assert len(set(honest.times.tolist())) == len(honest)
