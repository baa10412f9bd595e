"""pay: money divided to the cent, explained by identity, unit and cluster."""

import re
import warnings
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym import (
    Mechanism,
    NegativeValueWarning,
    ProviderMarket,
    Submission,
    UtilityOracle,
    create,
    get_mechanism,
    pay,
)
from datamarket_gym.data.content_keys import combined_key
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.mechanism.allocation import floored, grid_of
from datamarket_gym.payout.money import divide

MARKET = ProviderMarket.from_task("digits(n_providers=4, per_provider=12, validation=60)", 1, "coverage")
HELD = (MARKET.dataset.validation_features, MARKET.dataset.validation_label)
HONEST = MARKET.honest.submission
COPIED = create("attack", "exact_dup_2x_sybils").apply(0, MARKET.state).submission


def cents(amounts):
    return [round(100 * amount) for amount in amounts]


@pytest.mark.parametrize(
    "amount", [0.01, 1, 99.99, 12345.67, 10**9, Decimal("0.10"), np.float64(7.5), np.int64(3)]
)
@pytest.mark.parametrize("name", ["recommended", "shapley", "quotient_shapley/cosine@0.99"])
def test_payments_sum_to_the_amount_by_identity_and_by_unit(amount, name):
    paid = pay(COPIED, HELD, amount=amount, mechanism=name)
    identities, units = paid.by_identity(), paid.by_unit()
    assert sum(cents(identities["amount"])) == round(100 * float(amount))
    for identity, total in zip(identities["identity"], cents(identities["amount"]), strict=True):
        assert sum(cents(units["amount"][units["identity"] == identity])) == total
    assert paid.as_dict() == dict(
        zip(identities["identity"].tolist(), identities["amount"].tolist(), strict=True)
    )


def test_pay_divides_by_value_to_within_a_cent():
    paid = pay(HONEST, HELD, amount=1000)
    values = get_mechanism("recommended").pay(HONEST, UtilityOracle(*HELD, "recommended")).totals
    due = 1000 * values / values.sum()
    assert np.abs(paid.by_identity()["amount"] - due).max() < 0.01
    np.testing.assert_allclose(paid.by_identity()["value"], values, atol=1e-12)


def test_pay_is_blind_to_names_and_to_the_order_of_rows():
    rng = np.random.default_rng(0)
    renamed = np.char.add("z", np.char.replace(HONEST.identity, "provider_", ""))[:]
    moved = HONEST.take(rng.permutation(len(HONEST)), None)
    by_name = pay(HONEST, HELD, amount=1).as_dict()
    assert pay(moved, HELD, amount=1).as_dict() == by_name
    swapped = np.array([f"x{9 - int(name[1:])}" for name in renamed])
    again = pay(HONEST.take(slice(None), {"identity": swapped}), HELD, amount=1).as_dict()
    assert {f"provider_{9 - int(name[1:])}": paid for name, paid in again.items()} == by_name


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 10**13 - 1), st.sampled_from(["shapley", "uniform", "recommended"]))
def test_pay_gives_the_cents_of_a_payout_run(cents, name):
    paid = pay(COPIED, HELD, amount=Decimal(cents) / 100, mechanism=name)
    used = floored(paid)
    weight = np.zeros(len(paid.identities), dtype=np.int64)
    steps = np.round(used.amount / grid_of(used.scores.values)).astype(np.int64)
    np.add.at(weight, used.shares.identity, steps)
    keys = [combined_key(COPIED.keys[COPIED.identity == name].tolist()) for name in paid.identities]
    names = paid.identities.tolist()
    assert paid.cents.tolist() == divide(cents, weight.tolist(), range(len(names)), keys, names).paid
    assert paid.cents.sum() == cents


def test_standard_errors_of_money_are_those_of_value_times_the_rate():
    paid = pay(
        HONEST,
        HELD,
        amount=1000,
        mechanism=get_mechanism("shapley", estimator="permutation"),
        utility="knn@1",
    )
    table, values = paid.by_identity(), floored(paid).totals
    np.testing.assert_allclose(table["standard_error"], paid.standard_errors * 1000 / values.sum())


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 10**8), st.integers(0, 3))
def test_splitting_moves_at_most_a_cent_per_identity(amount, provider):
    split = create("attack", "sybil_split_k@3").apply(provider, MARKET.state)
    before = pay(HONEST, HELD, amount=amount / 100).as_dict()[f"provider_{provider}"]
    after = pay(split.submission, HELD, amount=amount / 100).as_dict()
    mine = sum(after[name] for name in split.identities_of(f"provider_{provider}"))
    assert abs(mine - before) < 0.03 + 1e-9


def test_by_unit_says_what_an_unpaid_unit_matches():
    units = pay(COPIED, HELD, amount=100).by_unit()
    copies = np.char.find(units["identity"], "sybil") >= 0
    copies |= ~np.isin(units["identity"], HONEST.identities)
    assert copies.any()
    assert (units["amount"][copies] == 0).all()
    owners = dict(zip(COPIED.id.tolist(), COPIED.identity.tolist(), strict=True))
    for reason in units["reason"][copies]:
        unit, identity = re.fullmatch(r"matches unit (\S+) of (\S+)", reason).groups()
        assert owners[unit] == identity == "provider_0"
    assert (units["reason"][units["amount"] > 0] == "").all()


def test_by_unit_lists_leaked_units_with_their_row():
    leaked = Submission.concat([
        HONEST.take(slice(None), {"source": HONEST.source}),
        Submission(id=["leak"], identity=["attacker"], features=HELD[0][3:4], label=HELD[1][3:4], source=["leak"],
                   batch=["b"], time=[9.0], metadata={"account": np.array(["attacker"])}),
    ])  # fmt: skip
    with pytest.warns(UserWarning, match="validation row"):
        paid = pay(leaked, HELD, amount=50)
    units = paid.by_unit()
    at = units["unit"].tolist().index("leak")
    assert (units["cluster"][at], units["amount"][at]) == (-1, 0.0)
    assert units["reason"][at] == "equals validation row 3, or nearly"
    assert paid.as_dict()["attacker"] == 0.0
    assert len(units) == len(HONEST) + 1


def test_clusters_and_explanations_agree_with_the_units():
    paid = pay(COPIED, HELD, amount=100)
    clusters, units = paid.clusters(), paid.by_unit()
    assert clusters["units"].sum() == len(COPIED)
    shared = clusters["units"] > 1
    assert shared.any()
    assert set(clusters["matched_by"][shared]) == {"exact_hash"}
    assert (clusters["owner"][shared] == "provider_0").all()
    for number, count in zip(clusters["cluster"], clusters["units"], strict=True):
        assert (units["cluster"] == number).sum() == count
    mine = paid.explain("provider_0")
    assert cents([mine["amount"].sum()]) == cents([paid.as_dict()["provider_0"]])
    assert mine["amount"].tolist() == sorted(mine["amount"], reverse=True)
    assert f"provider_0 is paid {paid.as_dict()['provider_0']:,.2f} of 100.00" in " ".join(
        repr(mine).split()
    )


def test_pay_reads_files_frames_and_dicts_alike(tmp_path):
    from datamarket_gym.data import to_table, write_submission

    expected = pay(HONEST, HELD, amount=100).as_dict()
    path = tmp_path / "units.parquet"
    write_submission(HONEST, path)
    held = pa.table({"features": HELD[0].tolist(), "label": HELD[1]})
    assert pay(path, HELD, amount=100).as_dict() == expected
    assert pay(str(path), held, amount=100).as_dict() == expected
    renamed = to_table(HONEST).rename_columns(
        ["seller" if name == "identity" else name for name in to_table(HONEST).column_names]
    )
    assert pay(renamed, held, amount=100, columns={"identity": "seller"}).as_dict() == expected
    columns = to_table(HONEST).to_pydict() | {"features": HONEST.features}
    assert pay(columns, {"features": HELD[0], "label": HELD[1]}, amount=100).as_dict() == expected
    pandas = pytest.importorskip("pandas")
    assert pay(pandas.DataFrame(to_table(HONEST).to_pydict()), held, amount=100).as_dict() == expected


def test_worthless_data_are_an_error_and_not_a_division_by_zero():
    worthless = Submission.from_arrays(
        [[1.0, 0.0]] * 3, [0, 0, 1], ["a", "b", "c"], time=[0.0, 1.0, 2.0]
    )
    with pytest.raises(DataMarketError, match="worth nothing on these validation rows"):
        pay(worthless, ([[-1.0, 0.0]], [0]), amount=10)


def test_pay_refuses_a_mechanism_without_clusters():
    class Own:
        def pay(self, submission, utility):
            return dict.fromkeys(submission.identities.tolist(), 1.0)

    with pytest.raises(ParameterError, match=r"Own.*call its own pay\(\)"):
        pay(HONEST, HELD, amount=10, mechanism=Own())
    assert isinstance(get_mechanism("shapley"), Mechanism)


def test_submission_from_frame_names_and_infers_columns():
    table = pa.table(
        {"seller": ["a", "b"], "x": [0.0, 1.0], "n": [1, 2], "city": ["Rome", "Oslo"], "label": [0, 1]}
    )
    found = Submission.from_frame(table, owner="seller")
    assert found.features.tolist() == [[0.0, 1.0], [1.0, 2.0]]
    assert (found.id.tolist(), found.label.tolist()) == (["0", "1"], [0, 1])
    assert found.metadata["city"].tolist() == ["Rome", "Oslo"]
    assert Submission.from_frame(table, owner="seller", features=["n"]).features.tolist() == [
        [1.0],
        [2.0],
    ]
    bare = table.append_column("flag", pa.array([True, False])).append_column(
        "features_5", pa.array([7.0, 8.0])
    )
    chosen = Submission.from_frame(bare, owner="seller", features=["n", "flag"])
    assert chosen.features.tolist() == [[1.0, 1.0], [2.0, 0.0]]
    assert chosen.metadata["features_5"].tolist() == [7.0, 8.0]
    with pytest.raises(DataMarketError, match="no column 'saler' for 'identity'; did you mean 'seller'"):
        Submission.from_frame(table, owner="saler")
    with pytest.raises(DataMarketError, match="'target' would be a feature, and looks like labels"):
        Submission.from_frame(pa.table({"seller": ["a"], "x": [0.0], "target": [1]}), owner="seller")
    with pytest.raises(DataMarketError, match="column 'seller' is named twice"):
        Submission.from_frame(table, owner="seller", features=["seller"])


def test_repr_of_payments_shows_money():
    text = repr(pay(HONEST, HELD, amount=12345.67))
    assert text.startswith("Payments of 12,345.67 to 4 identities")
    assert re.search(r"provider_\d +\d,\d{3}\.\d{2} +\d+\.\d%", text)


def test_pay_warns_where_negative_values_count_as_zero():
    noisy = create("attack", "label_noise@0.8").apply(0, MARKET.state).submission
    with pytest.warns(NegativeValueWarning, match="worth less than nothing .* count as zero"):
        pay(noisy, HELD, amount=100, utility="knn")
    with warnings.catch_warnings():
        warnings.simplefilter("error", NegativeValueWarning)
        pay(noisy, HELD, amount=100)
