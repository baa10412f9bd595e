"""Forfeits per unit: what is taken out and kept, what the certificate admits, and that simulated gains obey it."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from checks_files import answered, drawn, paid
from payout_files import cents, units

from datamarket_gym.analysis.theorems.deterrence import Checks, deterrence_gap, unit_forfeit_gap
from datamarket_gym.payout.checks.draw import draw_key, draw_units
from datamarket_gym.payout.checks.plan import CheckedPayee, CheckPlan, EarlierChecks, paid_payees
from datamarket_gym.payout.checks.settle import settle
from datamarket_gym.payout.manifest import read_manifest
from datamarket_gym.payout.verify import verify

PLAN = CheckPlan(checks=3, power=0.8)


def kept_in_simulation(amount, false, forfeit, seed):
    """What a payee is paid, draft after draft, by the draws of the package; amounts stay what they are."""
    rng, left = np.random.default_rng(seed), dict(enumerate(amount))
    earlier = EarlierChecks({}, {})
    for draft in range(200):
        if not left:
            return 0.0
        values = np.array(list(left.values()))
        payee = CheckedPayee(
            "a",
            100,
            [f"{i}" for i in left],
            ["a"] * len(left),
            np.array(list(left)),
            values,
            values.sum(),
        )
        drawn, kept = draw_units(draw_key("m", "p", f"{seed} {draft}"), PLAN, [payee], earlier)
        found = {d.row for d in drawn if false[d.row] and rng.random() < PLAN.power}
        if not found:
            return float(values.sum())
        if forfeit == "payee":
            return 0.0
        made = [d.unit for d in drawn if d.row not in found] + [d.unit for d in kept]
        looks = {unit: [f"{n}" for n in range(made.count(unit))] for unit in made}
        share = dict(zip(payee.units, payee.share.tolist(), strict=True))
        earlier = EarlierChecks({"a": [d.unit for d in (*kept, *drawn)]}, {"a": share}, looks)
        left = {i: value for i, value in left.items() if i not in found}
    raise AssertionError("no end")


@pytest.mark.parametrize("units", [1, 5, 40])
@pytest.mark.parametrize("forfeit", ["payee", "unit"])
def test_simulated_gains_obey_the_certificate_of_each_rule(units, forfeit):
    rng = np.random.default_rng(units)
    amount = rng.exponential(size=units)
    share, checks = amount / amount.sum(), PLAN.spot_checks
    gap = deterrence_gap(checks) if forfeit == "payee" else unit_forfeit_gap(checks, share)
    for part in (1.0, 0.5):
        false = rng.random(units) < part
        paid_out = [kept_in_simulation(amount, false, forfeit, seed) for seed in range(600)]
        gain = (np.array(paid_out) - amount[~false].sum()) / amount.sum()
        assert gain.mean() <= gap + 4 * gain.std() / 600**0.5


def test_the_gap_of_units_is_what_one_draft_leaves_and_grows_to_everything():
    rng, share = np.random.default_rng(0), np.array([0.5, 0.3, 0.2])
    for checks in (Checks(3, 0.8), Checks(1, 1.0), Checks(8, 0.5)):
        draws = rng.choice(3, size=(20_000, checks.per_payee), p=share)
        hit = rng.random(draws.shape) < checks.power
        once = np.repeat((rng.random((20_000, 3)) < checks.power)[:, None], 1, axis=1)[:, 0]
        for examined, found in (("anew", hit), ("once", np.take_along_axis(once, draws, axis=1))):
            out = np.zeros((20_000, 3), dtype=bool)
            rows, columns = np.nonzero(found)
            out[rows, draws[rows, columns]] = True
            left = (share * ~out).sum(axis=1)
            gap = unit_forfeit_gap(checks, share, examined)
            assert gap == pytest.approx(left.mean(), abs=4 * left.std() / 20_000**0.5)
    many = [unit_forfeit_gap(Checks(3, 0.8), np.full(n, 1 / n)) for n in (1, 61, 100_000)]
    assert many == pytest.approx([0.008, (1 - 0.8 / 61) ** 3, 1.0], abs=1e-4)
    assert unit_forfeit_gap(Checks(3, 0.8), np.array([1.5, -0.5])) == 1.0


def test_only_what_was_found_and_what_it_was_matched_with_is_not_paid_for(tmp_path):
    columns = units(copies=0)
    mine = [i for i, name in enumerate(columns["identity"]) if name == "seller 1"]
    columns["id"] += [f"again {i}" for i in mine]
    columns["identity"] += ["seller 1"] * len(mine)
    for name in ("label", "features"):
        columns[name] = np.concatenate([columns[name], columns[name][mine]])
    columns["time"] = np.concatenate([columns["time"], 1000.0 + np.arange(len(mine))])
    folder = paid(tmp_path, columns, forfeit="unit")
    found = drawn(folder)
    false = {d.unit: d.amount for d in found.draws if d.payee == "seller 1"}
    answered(folder, false=tuple(false))
    settled = settle(folder)
    out = {unit.unit for unit in settled.found}
    assert out == set(false) | {f"again {unit[1:]}" for unit in false}
    manifest = read_manifest(settled.run)
    assert manifest["settles"]["forfeited"] == []
    assert manifest["settles"]["kept"] == round(100 * sum(false.values()))
    assert 0 < cents(settled.run)["seller 1"] < cents(folder)["seller 1"]
    assert not out & set(pq.read_table(settled.run / "clusters.parquet")["unit"].to_pylist())
    first = {p.name: p.gap(Checks(3, 0.8), "unit") for p in paid_payees(folder, read_manifest(folder))}
    drawn(settled.run, "block 2", checks=6)
    answered(settled.run)
    assert settle(settled.run).checked
    certificate = json.loads((settled.run / "certificate.json").read_text())
    assert (certificate["claim"], certificate["forfeit"]) == ("none", "unit")
    assert certificate["gap"] == pytest.approx(max(first.values()))
    assert f"keep {certificate['gap']:.1%} of what the first draft paid it" in certificate["words"]
    assert [c.what for c in verify(settled.run, recompute=True) if not c.good] == []
