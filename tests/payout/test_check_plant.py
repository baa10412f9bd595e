"""Planted fakes: false units that look like the others, sealed, and counted without touching anybody's money."""

import json
import os
import re
import signal
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from check_files import draws_of
from payout_files import run as paid
from payout_files import spec, units

from datamarket_gym.core.errors import DataMarketError, ParameterError, RunError
from datamarket_gym.payout.checks import plant, record
from datamarket_gym.payout.checks.fakes import as_written, make_fakes, spliced
from datamarket_gym.payout.checks.made_up import made_up_name, made_up_unit
from datamarket_gym.payout.checks.page import write_checks_page
from datamarket_gym.payout.checks.plant import measured_power, mixed, planted, planted_before
from datamarket_gym.payout.checks.record import CheckAnswer, keep_outcomes
from datamarket_gym.payout.checks.sealed import read_plants, require_sealed, seal
from datamarket_gym.payout.kept import places_of
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.stages import Places
from datamarket_gym.payout.what_if import finished_results


@pytest.fixture
def run(tmp_path):
    return paid(tmp_path)


def planted_run(run, monkeypatch, n=6):
    """A draw with fakes among it, as the rest of the package reads it."""
    drawn = draws_of(run)
    fakes = planted(run, drawn, n, drawn.beacon)
    whole = replace(drawn, draws=mixed(drawn.draws, fakes))
    for module in (plant, record):
        monkeypatch.setattr(module, "read_checks", lambda run: whole)
    return whole


def results_of(run):
    return finished_results(run, places_of(run))[1]


def test_no_fake_is_mixed_of_two_equal_units(tmp_path):
    """It would be a genuine unit, and nobody could find it out."""
    made = paid(tmp_path, theta="none")
    results, places = results_of(made), places_of(made)
    keys = results.inputs.submission.keys
    mixtures = [
        fake.of
        for seed in range(60)
        for fake in make_fakes(results, places, 12, np.random.default_rng(seed))
        if fake.how == "mixture"
    ]
    assert len(mixtures) >= 60
    assert all(keys[a] != keys[b] for a, b in mixtures)


def test_fakes_are_draws_of_payees_who_are_not_there(run):
    drawn = draws_of(run)
    fakes = planted(run, drawn, 6, drawn.beacon)
    inputs = results_of(run).inputs
    assert 6 <= len(fakes) < 6 + drawn.checks
    assert all(fake.planted for fake in fakes)
    assert not {fake.payee for fake in fakes} & set(inputs.identities)
    assert not {fake.unit for fake in fakes} & {draw.unit for draw in drawn.draws}
    assert len({fake.unit for fake in fakes}) == len(fakes)
    assert [fake.row for fake in fakes] == list(range(len(inputs.ids), len(inputs.ids) + len(fakes)))
    # by the pattern of the run's own names, in as many draws a payee, at amounts like those drawn
    assert all(re.fullmatch(r"seller \d+|thi.+", fake.payee) for fake in fakes)
    assert {fake.unit for fake in fakes} <= set(inputs.ids)
    assert set(Counter(fake.payee for fake in fakes).values()) <= set(
        Counter(draw.payee for draw in drawn.draws).values()
    )
    low, high = min(d.amount for d in drawn.draws), max(d.amount for d in drawn.draws)
    assert all(0.5 * low <= fake.amount <= 2.0 * high for fake in fakes)


def test_fakes_are_drawn_as_often_as_the_units_of_some_payee_and_counted_once(run, monkeypatch):
    drawn = draws_of(run)
    first = drawn.draws[0]
    drawn.draws = [first, replace(first, number=2), replace(drawn.draws[1], number=3)]
    fakes = planted(run, drawn, 4, drawn.beacon)
    assert sorted(Counter(fake.unit for fake in fakes).values()) == [1, 1, 2, 2]
    whole = replace(drawn, draws=mixed(drawn.draws, fakes))
    for module in (plant, record):
        monkeypatch.setattr(module, "read_checks", lambda run: whole)
    numbers = [whole.looks[unit] for unit in {fake.unit for fake in fakes}]
    assert all(each == list(range(each[0], each[0] + len(each))) for each in numbers)  # in a row
    twice = [each for each in numbers if len(each) == 2]
    for (one, two), outcomes in zip(twice, (("false", "genuine"), ("genuine", "false")), strict=True):
        keep_outcomes(
            run, [CheckAnswer(one, outcomes[0], "", "a"), CheckAnswer(two, outcomes[1], "", "b")]
        )
    assert measured_power(run) == (1, 4)  # the first look at each


def test_amounts_of_a_made_up_payee_could_be_true(run):
    drawn = draws_of(run, per_payee=4)
    fakes = planted(run, drawn, 40, drawn.beacon)
    assert len({fake.amount for fake in fakes}) == len(fakes) >= 40
    for payee in {fake.payee for fake in fakes}:
        mine = [fake for fake in fakes if fake.payee == payee]
        assert sum(fake.share for fake in mine) <= 1.0 + 1e-9
        assert np.ptp([fake.amount / fake.share for fake in mine]) < 1e-6  # parts of one pay


def test_who_lives_by_one_unit_or_by_all_that_were_drawn_gets_a_double_who_does(run):
    drawn = draws_of(run)
    first = drawn.draws[0]
    drawn.draws = [replace(first, share=1.0)]
    assert {fake.share for fake in planted(run, drawn, 4, drawn.beacon)} == {1.0}
    (run / "checks" / "planted.json").unlink()
    drawn.draws = [
        replace(draw, share=s, amount=9 * s)
        for draw, s in zip(draws_of(run).draws, (0.2, 0.3, 0.5), strict=False)
    ]
    for payee in {fake.payee for fake in planted(run, drawn, 9, drawn.beacon)}:
        shares = [fake.share for fake in planted_before(run) if fake.payee == payee]
        assert sum(shares) == pytest.approx(1.0, abs=1e-12)
        assert not set(shares) & {0.2, 0.3, 0.5}


def test_names_of_fakes_stand_once_on_the_page_and_lie_in_the_range_of_the_others(run, monkeypatch):
    whole = planted_run(run, monkeypatch, n=9)
    write_checks_page(run, whole)
    page = (run / "checks.html").read_text(encoding="utf-8")
    articles = dict(re.findall(r'<article class="check" id="check-(\d+)">(.*?)</article>', page, re.S))
    shown = [text for number, text in articles.items()]
    numbers = [int(draw.unit[1:]) for draw in whole.draws if not draw.planted]
    for draw in whole.draws:
        if draw.planted:
            assert sum(re.search(rf"\b{draw.unit}\b", text) is not None for text in shown) == 1
            assert 0 <= int(draw.unit[1:]) < len(results_of(run).inputs.ids)
    assert len(numbers) > 3


def test_units_of_a_made_up_payee_are_numbered_like_those_of_a_real_one(tmp_path):
    """Where units are numbered payee by payee, names from all over the run give a made-up payee away."""
    columns = units(240, 12, copies=0)
    columns["identity"] = sorted(columns["identity"])
    run = paid(tmp_path, columns)
    drawn = draws_of(run)
    fakes = planted(run, drawn, 9, drawn.beacon)
    for payee in {fake.payee for fake in fakes}:
        numbers = [int(fake.unit[1:]) for fake in fakes if fake.payee == payee]
        assert max(numbers) - min(numbers) < 20


def test_a_fake_that_was_once_taken_for_genuine_was_not_found(run, monkeypatch):
    """Who corrects answers may have looked into planted.json."""
    whole = planted_run(run, monkeypatch)
    fakes = [draw.number for draw in whole.draws if draw.planted]
    keep_outcomes(run, [CheckAnswer(n, "genuine") for n in fakes[:3]])
    keep_outcomes(run, [CheckAnswer(n, "unanswered") for n in fakes[3:]])
    keep_outcomes(run, [CheckAnswer(n, "false") for n in fakes], correct=True)
    assert measured_power(run) == (len(fakes) - 3, len(fakes))


def test_the_number_is_rounded_up_to_whole_payees(run):
    drawn = draws_of(run)
    drawn.draws = [draw for draw in drawn.draws if draw.payee == "seller 1"]
    assert len(drawn.draws) == 3
    assert len(planted(run, drawn, 4, drawn.beacon)) == 6


def test_fakes_are_made_of_other_peoples_units_in_all_kinds(run):
    drawn = draws_of(run)
    planted(run, drawn, 12, drawn.beacon)
    inputs = results_of(run).inputs
    features, label = inputs.submission.features, inputs.submission.label
    place = {name: i for i, name in enumerate(inputs.ids)}
    kinds = Counter(fake.how for fake in read_plants(run).fakes)
    assert set(kinds) == {"copy", "mixture", "relabelled"}
    assert max(kinds.values()) - min(kinds.values()) <= 1
    for fake in read_plants(run).fakes:
        of, made = [place[name] for name in fake.of], np.array(fake.features)
        assert (fake.label != str(label[of[0]])) == (fake.how == "relabelled")
        if fake.how == "mixture":
            a, b = features[of]
            assert len({inputs.owner[i] for i in of}) == 2
            part = float((made - b) @ (a - b) / ((a - b) @ (a - b)))
            assert 0.4 <= part <= 0.6
            np.testing.assert_allclose(made, part * a + (1 - part) * b)
        else:
            assert not (features == made).all(axis=1).any()


def test_what_the_evidence_would_catch_is_not_planted(tmp_path):
    results = results_of(paid(tmp_path))
    theta = 0.8
    strict = replace(results, threshold=results.threshold.model_copy(update={"theta": theta}))
    fakes = make_fakes(strict, places_of(tmp_path / "run"), 12, np.random.default_rng(0))
    vectors = results.inputs.submission.vectors
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    nearest = [float((unit @ (f.vector / np.linalg.norm(f.vector))).max()) for f in fakes]
    assert max(nearest) < theta
    free = make_fakes(results, places_of(tmp_path / "run"), 12, np.random.default_rng(0))
    assert max((unit @ (f.vector / np.linalg.norm(f.vector))).max() for f in free) > theta
    hopeless = replace(results, threshold=results.threshold.model_copy(update={"theta": -0.9}))
    with pytest.raises(DataMarketError, match=r"only 0 of 3 fakes .*theta -0\.9"):
        make_fakes(hopeless, places_of(tmp_path / "run"), 3, np.random.default_rng(0))


def test_numbers_are_written_like_the_others():
    real = np.array([[1.0, 0.25, 0.1234567], [3.0, 0.5, 0.7654321], [2.0, 0.75, -0.5]])
    made = as_written(np.array([[2.4, 0.333333, 0.2222222], [99.0, -1.0, 9.0]]), real)
    assert made[0].tolist() == [2.0, 0.33, pytest.approx(0.2222222)]
    assert made[1, :2].tolist() == [3.0, 0.5]  # 99 and -1, folded back
    many = as_written(np.random.default_rng(0).normal(0, 9, (1000, 3)), real)
    assert (many >= real.min(axis=0)).all()
    assert (many <= real.max(axis=0)).all()
    ends = (many[:, 2] == real[:, 2].min()) | (many[:, 2] == real[:, 2].max())
    assert not ends.any()  # nothing piles up at the ends of a column


def test_texts_are_spliced_and_paraphrased(tmp_path):
    rng = np.random.default_rng(0)
    words = [
        ["goal", "match", "team", "score", "league", "coach", "season", "players"],
        ["bank", "market", "shares", "profit", "rates", "fund", "bonds", "company"],
    ]

    def texts(n):
        label = np.arange(n) % 2
        return {"label": label, "text": [" ".join(rng.choice(words[c], 12)) for c in label]}

    columns = {"identity": ["anna", "ben", "cleo", "dan"] * 20, "time": np.arange(80.0), **texts(80)}
    run = paid(tmp_path, columns, texts(40), columns={"text": "text"}, encoder="ngrams@64")
    drawn = draws_of(run)
    planted(run, drawn, 9, drawn.beacon)
    theirs = dict(zip([f"row {i}" for i in range(80)], columns["text"], strict=True))
    fakes = read_plants(run).fakes
    assert {fake.how for fake in fakes} == {"copy", "mixture", "relabelled"}
    for fake in fakes:
        assert fake.text
        assert fake.text not in columns["text"] or fake.how == "relabelled"
        if fake.how == "mixture":
            assert fake.text == spliced(*(theirs[name] for name in fake.of))
    assert all(re.fullmatch(r"row \d+", fake.unit) for fake in fakes)
    assert spliced("a b c", "d e f g") == "a b f g"
    whole = replace(drawn, draws=mixed(drawn.draws, planted_before(run)))
    write_checks_page(run, whole)
    page = (run / "checks.html").read_text(encoding="utf-8")
    assert all(fake.text in page for fake in fakes)


def test_images_are_changed_and_named_after_their_payee(tmp_path):
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for part, n in (("units/anna", 8), ("units/ben", 8), ("validation", 5)):
        for label, level in (("dark", 40), ("light", 200)):
            folder = tmp_path / part / label
            folder.mkdir(parents=True)
            for i in range(n):
                pixels = np.clip(rng.normal(level, 20, (24, 24, 3)), 0, 255).astype(np.uint8)
                image.fromarray(pixels).save(folder / f"{i}.png")
    pay(
        Places(tmp_path / "units", tmp_path / "validation"),
        spec(encoder="thumbnail@4"),
        tmp_path / "run",
    )
    drawn = draws_of(tmp_path / "run")
    fakes = planted(tmp_path / "run", drawn, 6, drawn.beacon)
    assert {fake.how for fake in read_plants(tmp_path / "run").fakes} == {"copy", "relabelled"}
    assert all(re.fullmatch(rf"{fake.payee}/(dark|light)/\d+\.png", fake.unit) for fake in fakes)
    write_checks_page(tmp_path / "run", replace(drawn, draws=mixed(drawn.draws, fakes)))
    page = (tmp_path / "run" / "checks.html").read_text(encoding="utf-8")
    assert page.count("<img ") >= 12


def test_mixed_in_by_name_nothing_tells_them(run, monkeypatch):
    whole = planted_run(run, monkeypatch)
    assert [draw.number for draw in whole.draws] == list(range(1, len(whole.draws) + 1))
    assert [draw.payee for draw in whole.draws] == sorted(draw.payee for draw in whole.draws)
    assert sum(draw.planted for draw in whole.draws) >= 6
    write_checks_page(run, whole)
    page = (run / "checks.html").read_text(encoding="utf-8")
    assert "plant" not in page.lower()
    articles = re.findall(r'<article class="check" id="check-(\d+)">(.*?)</article>', page, re.S)
    shapes = {
        draw.planted: re.sub(r">[^<]*<", "><", re.sub(r'"[^"]*"', '""', article))
        for draw, (_, article) in zip(whole.draws, articles, strict=True)
        if article.count('<div class="near">') == 3
    }
    assert shapes[True] == shapes[False]  # the same markup around other words


def test_planted_once(run):
    drawn = draws_of(run)
    first = planted(run, drawn, 6, drawn.beacon)
    sealed = seal(run)
    assert planted(run, drawn, 6, drawn.beacon) == first == planted_before(run)
    assert seal(run) == sealed
    for n, beacon in ((7, drawn.beacon), (6, "another")):
        with pytest.raises(DataMarketError, match=r"6 fakes were planted .* before"):
            planted(run, drawn, n, beacon)


def test_which_they_are_does_not_follow_from_what_is_public(run, tmp_path):
    drawn = draws_of(run)
    first = planted(run, drawn, 6, drawn.beacon)
    (run / "checks" / "planted.json").unlink()
    assert planted(run, drawn, 6, drawn.beacon) != first


def test_the_seal_is_broken_by_any_change(run):
    require_sealed(run, None)
    drawn = draws_of(run)
    planted(run, drawn, 3, drawn.beacon)
    published = seal(run)
    require_sealed(run, published)
    path = run / "checks" / "planted.json"
    text = path.read_text()
    path.write_text(text.replace('"copy"', '"mixture"', 1) if '"copy"' in text else text + " ")
    with pytest.raises(RunError, match="not the one that was sealed"):
        require_sealed(run, published)
    path.unlink()
    with pytest.raises(RunError, match="missing"):
        require_sealed(run, published)
    for damaged in ("{", "[]", json.dumps({"format": 1, "fakes": [{}]})):
        path.write_text(damaged)
        with pytest.raises(RunError, match=r"planted\.json"):
            read_plants(run)


def test_power_is_what_was_found_of_what_was_planted(run, monkeypatch):
    whole = planted_run(run, monkeypatch)
    total = sum(draw.planted for draw in whole.draws)
    assert measured_power(run) == (0, total)
    fakes = [draw.number for draw in whole.draws if draw.planted]
    real = [draw.number for draw in whole.draws if not draw.planted]
    words = ["false", "false", "genuine", "unanswered"]  # the other fakes have no answer at all
    keep_outcomes(run, [CheckAnswer(n, word) for n, word in zip(fakes, words, strict=False)])
    keep_outcomes(run, [CheckAnswer(n, "false") for n in real])  # what is found of others does not count
    assert measured_power(run) == (2, total)


def test_no_plants_no_power(run, monkeypatch):
    drawn = draws_of(run)
    for module in (plant, record):
        monkeypatch.setattr(module, "read_checks", lambda run: drawn)
    assert measured_power(run) == (0, 0)
    assert seal(run) is None
    assert planted_before(run) == []
    with pytest.raises(ParameterError, match="plant"):
        planted(run, drawn, 0, drawn.beacon)
    with pytest.raises(DataMarketError, match="nothing was drawn"):
        planted(run, replace(drawn, draws=[]), 3, drawn.beacon)


def test_names_are_made_up_by_the_pattern_and_never_taken():
    rng = np.random.default_rng(0)
    people = ["Anna Berg", "Ben Diaz", "Cleo Fox"]
    for names, pattern in (
        (people, r"(Anna|Ben|Cleo) (Berg|Diaz|Fox)"),
        ([f"seller {i}" for i in range(9)], r"seller (9|1\d)"),
        ([f"seller {i}" for i in range(0, 99, 3)], r"seller ([1-9]\d?|100)"),
        ([f"p{i:03d}" for i in (3, 11, 17)], r"p0[01]\d"),
        (["\u202eevil", "ok-7"], r"ok-\d+"),
        (["\u202eevil"], r"payee \d+"),
        (["kim"], r"kiim|kim \d+"),
    ):
        taken = set(names)
        for _ in range(5):
            name = made_up_name(names, taken, rng)
            assert re.fullmatch(pattern, name)
            assert name not in taken
            taken.add(name)
    with pytest.raises(DataMarketError, match="no name"):
        made_up_name(["a 1"], _Everything(), rng)
    assert re.fullmatch(
        r"Cleo/cat/\d{4}\.png", made_up_unit("anna/cat/0017.png", "anna", "Cleo", set(), rng)
    )
    assert re.fullmatch(r"banana-\d", made_up_unit("banana-7", "an", "Cleo", set(), rng))


class _Everything(set):
    """Holds whatever is asked for."""

    def __contains__(self, name):
        return True


def test_killed_while_sealing_nothing_or_all_of_it_is_there(tmp_path):
    for after in (False, True):
        run = paid(tmp_path / str(after), units())
        drawn = draws_of(run)
        pid = os.fork()
        if pid == 0:
            real = os.replace

            def killed(a, b, real=real, after=after):
                if after:
                    real(a, b)
                os.kill(os.getpid(), signal.SIGKILL)

            os.replace = killed
            planted(run, drawn, 6, drawn.beacon)
            os._exit(0)
        assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])
        assert (seal(run) is not None) == after
        assert len(planted(run, drawn, 6, drawn.beacon)) >= 6
