"""Previously acquired data and the intake log together: nothing is paid twice, times are the operator's."""

from dataclasses import replace

import numpy as np
from logged_files import EVERYBODY, log
from payout_files import approve, cents, rows, spec, units, validation, write

from datamarket_gym.payout.explain import explain
from datamarket_gym.payout.manifest import read_manifest
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.verify import verify


def test_a_second_period_by_the_log_given_the_first(tmp_path):
    june, july = units(copies=0), units(seed=9)
    july["id"] = [f"july {name}" for name in july["id"]]
    log(tmp_path / "log.sqlite", june, EVERYBODY[:4])
    log(tmp_path / "log.sqlite", july)
    again = rows(june, [i for i, who in enumerate(june["identity"]) if who == "seller 0"])
    again = {**again, "id": [f"again {name}" for name in again["id"]]}
    where = str(tmp_path / "log.sqlite")
    first = tmp_path / "june"
    pay(replace(write(tmp_path / "1", june, validation()), intake=where), spec(), first)
    approve(first)
    second = tmp_path / "july"
    places = replace(write(tmp_path / "2", july, validation()), intake=where, acquired=(first,))
    pay(places, spec(), second)
    assert not [check for check in verify(second, recompute=True) if not check.good]
    assert read_manifest(second)["intake"]["number"] == 10
    assert explain(second, "attacker").received[0].entry == 10
    resubmitted = {name: _joined(july[name], again[name]) for name in july}
    third = tmp_path / "more"
    places = replace(write(tmp_path / "3", resubmitted, validation()), intake=where, acquired=(first,))
    pay(places, spec(), third)  # June's units are in the log, since June; they were acquired then
    assert cents(third) == cents(second)
    assert not [check for check in verify(third, recompute=True) if not check.good]


def _joined(one, other):
    return np.concatenate([one, other]) if isinstance(one, np.ndarray) else [*one, *other]
