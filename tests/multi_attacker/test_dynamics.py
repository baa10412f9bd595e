"""Best-response dynamics on games whose equilibria and cycles are known."""

import math

import pytest

from datamarket_gym.analysis.redteam import best_response_dynamics
from datamarket_gym.errors import DataMarketError


def table(**cells):
    """A game of two from its cells, such as ab=(1, 2)."""
    return lambda profile: cells["".join(profile)]


DILEMMA = table(cc=(3, 3), cd=(0, 5), dc=(5, 0), dd=(1, 1))
PENNIES = table(hh=(1, -1), ht=(-1, 1), th=(-1, 1), tt=(1, -1))
SAME = table(aa=(2, 2), ab=(0, 0), ba=(0, 0), bb=(1, 1))


def test_the_dilemma_ends_where_both_defect():
    path = best_response_dynamics(DILEMMA, ["cd", "cd"])
    assert path.profiles == (("c", "c"), ("d", "c"), ("d", "d"))
    assert (path.ended, path.last, path.regrets, path.rounds) == ("equilibrium", ("d", "d"), (0, 0), 2)
    assert path.ends == (("d", "d"),)
    at_once = best_response_dynamics(DILEMMA, ["cd", "cd"], order="simultaneous")
    assert at_once.profiles == (("c", "c"), ("d", "d"))


@pytest.mark.parametrize("order", ["round_robin", "simultaneous"])
def test_matching_pennies_goes_round(order):
    path = best_response_dynamics(PENNIES, ["ht", "ht"], order=order)
    assert path.ended == "cycle"
    assert path.ends == path.cycle
    assert path.profiles[-1] == path.cycle[0]
    assert set(path.cycle) == {("h", "h"), ("h", "t"), ("t", "t"), ("t", "h")}
    for now, then in zip(path.cycle, (*path.cycle[1:], path.cycle[0]), strict=True):
        moved = [i for i in range(2) if now[i] != then[i]]
        assert moved
        assert all(PENNIES(then)[i] > PENNIES(now)[i] for i in moved) or order == "simultaneous"


def test_a_cycle_after_a_way_to_it_holds_only_what_comes_again():
    game = {
        "sh": (0, 0),
        "st": (0, 0),
    }  # h and t as in pennies; s is where it starts, and is left for good
    pay = lambda p: game.get("".join(p)) or PENNIES(p)  # noqa: E731
    path = best_response_dynamics(pay, ["sht", "ht"])
    assert path.ended == "cycle"
    assert path.profiles[0] == ("s", "h")
    assert ("s", "h") not in path.cycle


def test_all_at_once_may_go_round_where_one_after_another_agree():
    start = ("a", "b")
    assert best_response_dynamics(SAME, ["ab", "ab"], start=start).ended == "equilibrium"
    path = best_response_dynamics(SAME, ["ab", "ab"], start=start, order="simultaneous")
    assert (path.ended, path.cycle) == ("cycle", (("a", "b"), ("b", "a")))


def test_epsilon_is_what_a_move_must_pay():
    game = table(a=(1.0,), b=(1.005,), c=(1.02,))
    assert best_response_dynamics(game, ["ab"], epsilon=0.01).last == ("a",)
    path = best_response_dynamics(game, ["ab"], epsilon=0.01)
    assert path.regrets == pytest.approx((0.005,))
    assert path.epsilon == 0.01
    assert best_response_dynamics(game, ["ab"], epsilon=0.0).last == ("b",)
    assert best_response_dynamics(game, ["abc"], epsilon=0.01).last == ("c",)


def test_too_few_rounds_are_no_equilibrium():
    stairs = lambda p: (int(p[0]),) if int(p[0]) <= 9 else None  # noqa: E731
    climbing = lambda p: (int(p[0]) == int(p[1]), int(p[1]) == (int(p[0]) + 1) % 10)  # noqa: E731
    assert best_response_dynamics(stairs, ["0123"]).last == ("3",)
    path = best_response_dynamics(climbing, ["0123456789", "0123456789"], rounds=3)
    assert (path.ended, path.rounds, path.cycle) == ("unsettled", 3, ())
    assert "3 rounds" in path.why
    assert max(path.regrets) > path.epsilon
    assert best_response_dynamics(climbing, ["0123456789", "0123456789"]).ended == "cycle"


def test_what_cannot_be_played_is_not_moved_to():
    game = lambda p: None if p == ("d", "d") else DILEMMA(p)  # noqa: E731
    path = best_response_dynamics(game, ["cd", "cd"])
    assert (path.ended, path.last) == ("equilibrium", ("d", "c"))
    assert path.untried == ((), ("d",))  # of which the equilibrium says nothing
    assert best_response_dynamics(DILEMMA, ["cd", "cd"]).untried == ((), ())
    path = best_response_dynamics(game, ["cd", "cd"], order="simultaneous")
    assert (path.ended, path.last) == ("unsettled", ("d", "d"))
    assert "cannot be played" in path.why
    assert all(map(math.isnan, path.regrets))


def test_equal_pay_moves_nobody_and_of_equal_moves_the_first_is_made():
    game = table(a=(0.0,), b=(1.0,), c=(1.0,))
    assert best_response_dynamics(game, ["abc"]).last == ("b",)
    assert best_response_dynamics(game, ["acb"]).last == ("c",)
    assert best_response_dynamics(game, ["abc"], start=("c",)).last == ("c",)


def test_odd_input_is_refused():
    with pytest.raises(DataMarketError, match="menus"):
        best_response_dynamics(DILEMMA, ["cd", ""])
    with pytest.raises(DataMarketError, match="start"):
        best_response_dynamics(DILEMMA, ["cd", "cd"], start=("c",))
    with pytest.raises(DataMarketError, match="start"):
        best_response_dynamics(DILEMMA, ["cd", "cd"], start=("c", "x"))
    with pytest.raises(DataMarketError, match="order"):
        best_response_dynamics(DILEMMA, ["cd", "cd"], order="random")
    with pytest.raises(DataMarketError, match="cannot be played"):
        best_response_dynamics(lambda _: None, ["cd", "cd"])
