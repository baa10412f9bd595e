"""Scores from elsewhere: an additive game whose semivalues are the scores themselves, found again by content."""

import json
import pickle
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_array

from datamarket_gym import ImportedScores, ScoreTable, Submission, Utility, UtilityOracle, get_mechanism
from datamarket_gym.data import AcquiredData
from datamarket_gym.data.inputs import unlabelled
from datamarket_gym.errors import DataMarketError, ParameterError, SubmissionError
from datamarket_gym.execution.arrays import directions, highest_cosines, most_similar
from datamarket_gym.games import Banzhaf, Beta, LeaveOneOut, Shapley
from datamarket_gym.games.exact import coalitions_numbered, semivalues_from_table
from datamarket_gym.utilities import TrainingRows, ValidationRows
from datamarket_gym.utilities import imported_scores as score_table
from datamarket_gym.utilities.imported_scores import read_scores

pytestmark = pytest.mark.filterwarnings("ignore::datamarket_gym.UndatedMarketWarning")

RNG = np.random.default_rng(3)
N, HELD = 12, 7
FEATURES = RNG.normal(size=(N, 4))
LABEL = np.array(list("abcabcabcabc"))
VALIDATION = RNG.normal(size=(HELD, 4))
SCORES = RNG.normal(0.2, 1.0, size=(N, HELD))
SEMIVALUES = [Shapley(), Banzhaf(), Beta(4, 1), Beta(1, 16), LeaveOneOut()]


def table(scores=SCORES, features=FEATURES, label=LABEL):
    return ScoreTable(features, label, scores, VALIDATION)


def oracle(scored=None, held=None):
    label = LABEL[:HELD] if held is None else held
    return UtilityOracle(VALIDATION, label, Utility("scores"), learner=ImportedScores(scored or table()))


def submission(features=FEATURES, label=LABEL, identity=None):
    n = len(features)
    owner = [f"p{i % 3}" for i in range(n)] if identity is None else identity
    return Submission(
        np.array([f"u{i}" for i in range(n)]), np.array(owner), features, label, time=np.arange(n)
    )


@pytest.mark.parametrize("semivalue", SEMIVALUES, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("players", [np.arange(10), np.arange(10) // 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_closed_form_is_what_all_coalitions_say(semivalue, players, weighted):
    weight = RNG.uniform(0.5, 3, size=10) if weighted else None
    n = int(players.max()) + 1
    rows = TrainingRows(
        FEATURES[:10],
        np.arange(10) % 3,
        players,
        n,
        3,
        weight,
        classes=np.array(list("abc")),
    )
    held = ValidationRows(VALIDATION, np.zeros(HELD, dtype=np.int64))
    scorer = ImportedScores(table()).scorer(rows, held)
    everything = coalitions_numbered(1, 1 << n, n)
    (wanted,) = semivalues_from_table(np.r_[0.0, scorer.utility(everything)], [semivalue])
    assert np.abs(scorer.closed_form(semivalue, 0.0) - wanted).max() < 1e-12
    by_hand = np.zeros(n)
    np.add.at(by_hand, players, (np.ones(10) if weight is None else weight) * SCORES[:10].mean(axis=1))
    assert np.abs(wanted - by_hand).max() < 1e-12
    group = np.arange(HELD) % 2
    parts = scorer.closed_form_by_group(semivalue, 0.0, group)
    for g in range(2):
        alone = ValidationRows(VALIDATION[group == g], held.label[group == g])
        own = ImportedScores(table()).scorer(rows, alone).closed_form(semivalue, 0.0)
        assert np.abs(parts[g] - own).max() < 1e-12


@pytest.mark.parametrize("semivalue", SEMIVALUES, ids=lambda s: type(s).__name__)
def test_counted_from_something_the_closed_form_is_still_what_all_coalitions_say(semivalue):
    rows = TrainingRows(FEATURES[:5], np.zeros(5, dtype=np.int64), np.arange(5), 5, 1)
    held = ValidationRows(VALIDATION, np.zeros(HELD, dtype=np.int64))
    scorer = ImportedScores(table(label=None)).scorer(rows, held)
    values = scorer.utility(coalitions_numbered(1, 32, 5)) - 0.25
    (wanted,) = semivalues_from_table(np.r_[0.0, values], [semivalue])
    assert np.abs(scorer.closed_form(semivalue, 0.25) - wanted).max() < 1e-12


def test_each_unit_is_paid_its_mean_score_and_negative_ones_are_what_they_are():
    paid = get_mechanism("recommended/none").pay(submission(identity=range(N)), oracle()).as_dict()
    mean = SCORES.mean(axis=1)
    assert (mean < 0).any()
    for i in range(N):
        assert paid[str(i)] == pytest.approx(mean[i], abs=1e-12)


def test_what_is_there_already_changes_nothing():
    old = submission(FEATURES[:3] + 0.5, LABEL[:3], ["old"] * 3)
    given = oracle().given(AcquiredData(old, np.arange(3)))
    rest = submission(FEATURES[3:], LABEL[3:])
    payer = get_mechanism("recommended/none")
    assert payer.pay(rest, given).as_dict() == payer.pay(rest, oracle()).as_dict()
    assert given.empty_value != 0.0  # what was acquired before is worth something, though
    (value,) = given.scorer(rest.features, rest.label, None, np.zeros(9, dtype=np.int64), 1).utility(
        np.ones((1, 1), dtype=bool)
    )
    assert value - given.empty_value == pytest.approx(SCORES[3:].mean(axis=1).sum(), abs=1e-12)


def test_what_is_there_already_counts_by_its_weights():
    label, classes = np.arange(6) % 3, np.array(list("abc"))
    weight, held = np.array([2.0, 0.5, 3.0]), ValidationRows(VALIDATION, np.zeros(HELD, dtype=np.int64))
    rows = TrainingRows(FEATURES[3:6], label[3:], np.arange(3), 3, 3, classes=classes)
    there = TrainingRows(FEATURES[:3], label[:3], np.zeros(3, int), 1, 3, weight, classes=classes)
    nobody = np.zeros((1, 3), dtype=bool)
    (found,) = ImportedScores(table()).scorer_given(rows, there, held).utility(nobody)
    assert found == pytest.approx(weight @ SCORES[:3].mean(axis=1), abs=1e-12)


def test_neither_the_order_of_the_table_nor_that_of_the_rows_changes_a_bit():
    order, across = RNG.permutation(N), RNG.permutation(HELD)
    mixed = ScoreTable(FEATURES[order], LABEL[order], SCORES[np.ix_(order, across)], VALIDATION[across])
    assert mixed.digest == table().digest
    assert (mixed.scores == table().scores).all()
    first = get_mechanism("recommended").pay(submission(), oracle()).as_dict()
    assert get_mechanism("recommended").pay(submission(), oracle(mixed)).as_dict() == first
    shuffled = Submission(
        submission().id[order],
        submission().identity[order],
        FEATURES[order],
        LABEL[order],
        time=np.arange(N)[order],
    )
    assert get_mechanism("recommended").pay(shuffled, oracle(mixed)).as_dict() == first


def test_the_digest_of_the_utility_covers_the_scores():
    changed = SCORES.copy()
    changed[4, 2] += 1e-9
    assert oracle().digest == oracle().digest
    assert oracle(table(changed)).digest != oracle().digest
    assert oracle(table(label=None)).digest != oracle().digest


def test_missing_pairs_are_nothing_however_they_are_written():
    sparse = np.where(RNG.random(SCORES.shape) < 0.5, 0.0, SCORES)
    rows, columns = np.nonzero(sparse)
    pairs = csr_array((sparse[rows, columns], (rows, columns)), shape=sparse.shape)
    assert table(pairs).digest == table(sparse).digest
    kept = pairs.copy()
    table(pairs)
    assert (kept.indices == pairs.indices).all()
    assert (kept.data == pairs.data).all()
    small = SCORES.astype(np.float32)
    assert table(small).scores.dtype == np.float32
    assert table(small).digest == table(small.astype(np.float64)).digest
    whole = table(np.rint(4 * SCORES).astype(np.int32))
    assert whole.digest == table(np.rint(4 * SCORES)).digest


def test_pairs_given_in_parts_and_pairs_of_nothing_change_no_bit_and_stay_as_they_were():
    halves = csr_array(
        (np.repeat(SCORES / 2, 2, axis=1).ravel(), np.tile(np.repeat(np.arange(HELD), 2), N),
         2 * HELD * np.arange(N + 1)), shape=SCORES.shape)  # fmt: skip
    assert table(halves).digest == table().digest
    assert halves.nnz == 2 * SCORES.size
    some = np.where(np.arange(HELD) % 2, SCORES, 0.0)
    written = csr_array((some.ravel(), np.tile(np.arange(HELD), N), HELD * np.arange(N + 1)))
    assert written.nnz == SCORES.size
    assert table(written).digest == table(some).digest


@pytest.mark.parametrize("copies", [2, 3, 5, 7])
def test_equal_units_have_one_score_between_them_in_whatever_order_they_come(copies):
    again = np.repeat([2], copies)
    features, label = np.vstack([FEATURES, FEATURES[again]]), np.concatenate([LABEL, LABEL[again]])
    same = ScoreTable(features, label, np.vstack([SCORES, SCORES[again]]), VALIDATION)
    assert same.uneven == 0
    assert same.largest_difference == 0.0
    assert same.digest == table().digest  # a mean of equal numbers is that number
    uneven = SCORES[again] + RNG.normal(0, 0.1, size=(copies, HELD))
    found = ScoreTable(features, label, np.vstack([SCORES, uneven]), VALIDATION)
    every = np.vstack([SCORES[[2]], uneven])
    assert found.uneven == 1
    assert found.largest_difference == pytest.approx(np.ptp(every, axis=0).max())
    place = found.units(FEATURES[[2]], LABEL[[2]])
    order = found.columns(VALIDATION)
    assert np.allclose(found.scores[place][0, order], every.mean(axis=0), rtol=0, atol=1e-15)
    mixed = RNG.permutation(copies)
    turned = ScoreTable(features, label, np.vstack([SCORES, uneven[mixed]]), VALIDATION)
    assert turned.digest == found.digest


def test_validation_rows_of_equal_features_share_their_scores_and_the_sum_stays():
    held = np.vstack([VALIDATION, VALIDATION[[0]]])
    scores = np.hstack([SCORES, RNG.normal(size=(N, 1))])
    found = ScoreTable(FEATURES, LABEL, scores, held)
    learner = ImportedScores(found)
    whole = UtilityOracle(held, np.r_[LABEL[:HELD], ["b"]], Utility("scores"), learner=learner)
    paid = get_mechanism("recommended/none").pay(submission(identity=range(N)), whole).as_dict()
    assert paid["3"] == pytest.approx(scores[3].mean(), abs=1e-12)


def test_what_nobody_scored_is_scored_as_the_known_unit_most_like_it_of_its_label():
    found = table()
    near = FEATURES[[5, 8]] + 1e-3
    assert (found.units(near, LABEL[[5, 8]]) == found.units(FEATURES[[5, 8]], LABEL[[5, 8]])).all()
    # A copy of 5 that is called "a" is compared with those of "a" alone, and one of a new label with all.
    towards = directions(FEATURES[LABEL == "a"]) @ directions(FEATURES[[5]])[0]
    wanted = np.flatnonzero(LABEL == "a")[towards.argmax()]
    assert found.units(FEATURES[[5]], np.array(["a"])) == found.units(
        FEATURES[[wanted]], LABEL[[wanted]]
    )
    assert found.units(FEATURES[[5]], np.array(["z"])) == found.units(FEATURES[[5]], LABEL[[5]])
    # Where labels do not count, of all.
    assert found.units(near[:1], np.array([""])) == found.units(FEATURES[[5]], LABEL[[5]])


def test_of_several_that_are_equally_alike_the_first_by_content_counts():
    features = np.array([[1.0, 0.0, 0, 0], [2.0, 0.0, 0, 0], [4.0, 0.0, 0, 0], [0.0, 1.0, 0, 0]])
    asked, none = np.array([[3.0, 0.0, 0, 0]]), np.array([""])
    chosen = set()
    for order in ([0, 1, 2, 3], [2, 1, 0, 3], [3, 0, 2, 1]):
        scored = ScoreTable(features[order], None, SCORES[:4][order], VALIDATION)
        (place,) = scored.units(asked, none)
        chosen.add(tuple(scored.features[place]))
    assert len(chosen) == 1
    assert chosen < {tuple(row) for row in features[:3]}


def test_where_labels_do_not_count_the_first_by_content_of_equal_features_counts():
    twice = np.concatenate([FEATURES[:2], FEATURES[:2]])
    for label in (np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0])):
        found = ScoreTable(twice, label, np.arange(4)[:, None] + np.ones((1, HELD)), VALIDATION)
        places = found.units(FEATURES[:2], unlabelled(2))
        for place, features in zip(places.tolist(), FEATURES[:2], strict=True):
            assert place == np.flatnonzero((found.features == features).all(axis=1))[0]


def test_the_most_alike_row_has_the_highest_cosine():
    many, some = RNG.normal(size=(1500, 6)), directions(RNG.normal(size=(40, 6)))
    many[[3, 700]] = many[[900, 900]]
    value, place = most_similar(some, many)
    products = some @ directions(many).T
    assert (value == highest_cosines(some, many)).all()
    assert np.allclose(value, products.max(axis=1), atol=1e-12)
    assert np.allclose(products[np.arange(40), place], value, atol=1e-12)
    assert most_similar(directions(many[[900]]), many)[1] == 3  # the first of equal ones
    assert most_similar(directions(-many[[5]]), many[[5]])[1] == 0
    assert (most_similar(some, many[:0])[1] == -1).all()


def test_a_table_travels_to_other_processes():
    again = pickle.loads(pickle.dumps(ImportedScores(table())))
    assert again.table.digest == table().digest
    first = get_mechanism("recommended").pay(submission(), oracle()).as_dict()
    assert get_mechanism("recommended").pay(submission(), oracle(again.table)).as_dict() == first


def test_without_scores_the_error_says_where_to_get_them():
    bare = UtilityOracle(VALIDATION, LABEL[:HELD], Utility("scores"))
    with pytest.raises(ParameterError, match="--scores"):
        get_mechanism("recommended").pay(submission(), bare)


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        (SCORES[:, 1:], r"shape \(12, 6\) for 12 units and 7 validation rows"),
        (np.where(np.arange(N * HELD).reshape(N, HELD) == 10, np.nan, SCORES), "unit 1 .* row 3 is nan"),
        (
            np.where(np.arange(N * HELD).reshape(N, HELD) == 80, np.inf, SCORES),
            "unit 11 .* row 3 is inf",
        ),
        (
            np.where(np.arange(N * HELD).reshape(N, HELD) == 10, -1e308, SCORES),
            "row 3 is -1e.308; .* 1e.150",
        ),
        (np.full((N, HELD), np.inf, dtype=np.float32), "validation row 0 is inf"),
        (SCORES.astype(str), "numbers"),
        (SCORES[0], "shape"),
    ],
)
def test_scores_that_cannot_be_used_are_refused_by_the_first(scores, said):
    with pytest.raises(SubmissionError, match=said):
        table(scores)


def test_scores_on_other_validation_rows_are_refused():
    other = UtilityOracle(
        VALIDATION + 1, LABEL[:HELD], Utility("scores"), learner=ImportedScores(table())
    )
    with pytest.raises(SubmissionError, match="validation row 0 is none of the 7"):
        get_mechanism("recommended").pay(submission(), other)


IDS, ROWS = [f"u{i}" for i in range(N)], [f"z{i}" for i in range(HELD)]


def written(folder, how):
    """A file of the scores, in one of the ways in which they can be written."""
    long = {
        "unit": [u for u in IDS for _ in ROWS],
        "row": ROWS * N,
        "score": SCORES.ravel().tolist(),
    }
    path = folder / f"scores.{how.split()[-1]}"
    match how:
        case "long csv":
            lines = [f"{u},{z},{s!r}" for u, z, s in zip(*long.values(), strict=True)]
            path.write_text("\n".join(["unit,row,score", *lines]))
        case "long parquet":
            pq.write_table(pa.table(long), path)
        case "long jsonl":
            path.write_text("\n".join(map(json.dumps, pa.table(long).to_pylist())))
        case "wide parquet":
            pq.write_table(pa.table({"unit": IDS[::-1], "scores": SCORES[::-1].tolist()}), path)
        case "wide csv":
            heads = ",".join(["unit", *(f"scores_{i}" for i in range(HELD))])
            path.write_text(
                "\n".join(
                    [
                        heads,
                        *(
                            f"{u},{','.join(map(repr, row))}"
                            for u, row in zip(IDS, SCORES.tolist(), strict=False)
                        ),
                    ]
                )
            )
        case "numbered csv":
            lines = [f"{i},{j},{SCORES[i, j].item()!r}" for i in range(N) for j in range(HELD)]
            path.write_text("\n".join(["unit_number,row_number,score", *lines]))
        case "matrix npy":
            np.save(path, SCORES)
        case "matrix npz":
            np.savez(path, scores=SCORES, other=np.zeros(3))
    return path


@pytest.mark.parametrize(
    "how",
    ["long csv", "long parquet", "long jsonl", "wide parquet", "wide csv", "numbered csv", "matrix npy", "matrix npz"],
)  # fmt: skip
def test_scores_are_read_from_tables_of_pairs_of_lists_and_from_matrices(tmp_path, how):
    found = read_scores(written(tmp_path, how), IDS, ROWS)
    assert found.scored.all()
    assert found.table(FEATURES, LABEL, VALIDATION).digest == table().digest


def test_units_and_rows_without_ids_go_by_numbers(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("unit,row,score\n0,6,1.5\n11,0,-2\n")
    found = read_scores(path, N, HELD)
    assert found.scores.toarray()[0, 6] == 1.5
    assert found.scores.toarray()[11, 0] == -2.0
    assert found.scores.nnz == 2
    assert np.flatnonzero(found.scored).tolist() == [0, 11]


def test_units_without_scores_count_as_nothing_and_their_equals_share(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("unit,row,score\nu0,z0,7\nu1,z0,14\n")
    features = FEATURES.copy()
    features[2], label = features[1], LABEL.copy()
    label[2] = label[1]
    found = read_scores(path, IDS, ROWS)
    assert found.unscored(features, label).tolist() == list(range(3, N))
    scored = found.table(features, label, VALIDATION)
    assert (scored.uneven, scored.largest_difference) == (0, 0.0)
    means = scored.sums(np.full((HELD, 1), 1 / HELD))[scored.units(features, label), 0]
    assert np.allclose(means, [1, 2, 2, *[0] * (N - 3)], rtol=0, atol=1e-15)


def test_units_of_other_labels_are_no_equals(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("unit,row,score\n" + "".join(f"u{i},z0,7\n" for i in range(N) if i != 2))
    features = FEATURES.copy()
    features[2] = features[1]
    found = read_scores(path, IDS, ROWS)
    assert LABEL[2] != LABEL[1]
    assert found.unscored(features, LABEL).tolist() == [2]
    assert found.unscored(features, None).tolist() == []


BAD = {
    "unit,row,score\nu0,z0,1\nu1q,z0,2\n": r"row 1: there is no submitted unit 'u1q'; did you mean 'u1'",
    "unit,row,score\nu0,z0,1\nu0,q77,2\n": r"row 1: there is no validation row 'q77'; there are 7, such as 'z0'",
    "unit,row,score\nu0,z0,1\nu1,z1,2\nu0,z0,3\n": r"rows 0 and 2 are both for unit 'u0', row 'z0'",
    "unit,row,score\nu0,z0,1\nu1,z1,nan\n": r"row 1",
    "unit,row,score\nu0,z0,inf\n": r"row 0",
    "unit,row,score\nu0,,1\n": r"column 'row' is empty in row 0",
    "unit,row,points\nu0,z0,1\n": r"no column 'score'",
    "unit,score\nu0,1\n": r"no column 'row'",
    "unit_number,row_number,score\n0,7,1\n": r"no validation row '7'; they are counted from 0 and there are 7",
    "unit,row,score\nu0,z0,1\nu1,z1,1e308\n": r"row 1 is 1e\+308; give a finite number of at most 1e\+150",
    "unit_number,row_number,score\n0,z7,1\n": r"no validation row 'z7'; they are counted from 0 and there are 7",
    "unit_number,unit,row,score\n0,u1,z0,1\n": r"a column 'unit' and a column 'unit_number'; keep one",
    "unit," + ",".join(f"scores_{i}" for i in (0, 1, 2, 3, 4, 5, 7)) + "\nu0,1,2,3,4,5,6,7\n": (
        "columns scores_5 and scores_7 and none between"
    ),
    "unit,scores_0,scores_1\nu0,1,2\n": r"2 scores for each unit but there are 7 validation rows",
    "unit," + ",".join(f"scores_{i}" for i in range(7)) + "\nu0,1,2,3,4,5,6,7\nu0,1,2,3,4,5,6,7\n": (
        "rows 0 and 1 are both for unit 'u0'"
    ),
}


@pytest.mark.parametrize("text", BAD)
def test_what_a_file_of_scores_says_wrong_is_named(tmp_path, text):
    path = tmp_path / "s.csv"
    path.write_text(text)
    with pytest.raises(DataMarketError, match=BAD[text]):
        read_scores(path, IDS, ROWS)


def test_a_matrix_of_another_shape_is_refused(tmp_path):
    np.save(tmp_path / "s.npy", SCORES.T)
    with pytest.raises(
        SubmissionError, match=r"shape \(7, 12\).*12 submitted units .* 7 validation rows"
    ):
        read_scores(tmp_path / "s.npy", IDS, ROWS)


def test_a_large_matrix_is_held_once_more_and_no_further(monkeypatch):
    """Besides what was given there are the table and a block of rows: numbers and columns, 8 bytes a score."""
    monkeypatch.setattr(score_table, "_CELLS", 1 << 14)
    rng = np.random.default_rng(0)
    units, rows = rng.normal(size=(2000, 2)), rng.normal(size=(500, 2))
    scores = rng.normal(size=(2000, 500)).astype(np.float32)
    ScoreTable(units[:2], None, scores[:2], rows)  # whatever is imported on the way
    tracemalloc.start()
    found = ScoreTable(units, None, scores, rows)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1.3 * 8 * scores.size
    assert (found.scores[found.units(units, found.label[:1].repeat(2000))] != 0).all()


def test_many_groups_of_copies_of_several_sizes_have_their_means(monkeypatch):
    monkeypatch.setattr(score_table, "_CELLS", 64)
    rng = np.random.default_rng(1)
    units, of = rng.normal(size=(40, 3)), np.r_[np.arange(40), rng.integers(0, 40, 80)]
    scores = np.where(rng.random((120, HELD)) < 0.3, 0.0, rng.normal(size=(120, HELD)))
    found = ScoreTable(units[of], None, scores, VALIDATION)
    columns = found.columns(VALIDATION)
    mine = found.scores[found.units(units, found.label[:1].repeat(40))][:, columns]
    groups = [scores[of == i] for i in range(40)]
    np.testing.assert_allclose(mine, [group.mean(axis=0) for group in groups], atol=1e-12)
    assert found.uneven == sum(len(group) > 1 for group in groups)
    assert found.largest_difference == max(np.ptp(group, axis=0).max() for group in groups)


def test_a_score_that_cannot_be_used_is_named_where_the_file_has_it(tmp_path):
    for bad in (np.nan, np.inf, 1e200):
        wrong = SCORES.copy()
        wrong[5, 2] = bad
        np.save(tmp_path / "s.npy", wrong)
        with pytest.raises(
            SubmissionError, match=r"s\.npy', row 5, entry 2 is .*; give a finite number"
        ):
            read_scores(tmp_path / "s.npy", IDS, ROWS)


def test_a_name_that_two_validation_rows_have_is_refused_and_numbers_tell_them_apart(tmp_path):
    path, rows = tmp_path / "s.csv", ["z0", "z0", *ROWS[2:]]
    path.write_text("unit,row,score\nu0,z3,1\nu1,z0,1\n")
    with pytest.raises(SubmissionError, match=r"row 1: there are 2 validation rows 'z0'.*'row_number'"):
        read_scores(path, IDS, rows)
    path.write_text("unit,row_number,score\nu0,3,1\nu1,0,1\n")
    assert read_scores(path, IDS, rows).scores.nonzero()[1].tolist() == [3, 0]


@pytest.mark.parametrize("written", ["scores@3", "scores(table=x)"])
def test_scores_cannot_be_written_into_the_name_of_the_utility(written):
    with pytest.raises(ParameterError, match="--scores"):
        Utility(written)


def test_scores_under_a_mask_are_missing():
    mask = np.arange(N * HELD).reshape(N, HELD) % 5 == 0
    hidden = np.ma.masked_array(np.where(mask, 1e300, SCORES), mask=mask)
    assert table(hidden).digest == table(np.where(mask, 0.0, SCORES)).digest


def test_features_and_scores_that_are_no_matrix_of_numbers_are_refused():
    with pytest.raises(SubmissionError, match="rows of unequal length"):
        table([[1.0], [1.0, 2.0]])
    with pytest.raises(SubmissionError, match="features of the scored units', row 0, entry 0 is nan"):
        table(features=FEATURES * np.nan)
    with pytest.raises(SubmissionError, match="is not a numeric matrix"):
        table(features=[["a"]] * N)
