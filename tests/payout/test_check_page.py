"""checks.html: what it shows, that nothing in it runs or lies, and that it works in a browser."""

import base64
import csv
import html
import io
import re
from dataclasses import replace

import numpy as np
import pytest
from check_files import draws_of, in_browser
from payout_files import run as paid
from payout_files import spec, units, validation

from datamarket_gym.errors import DataMarketError, SubmissionError
from datamarket_gym.payout.checks.outcomes import read_outcomes
from datamarket_gym.payout.checks.review_page import (
    SIDES,
    LetterTerms,
    Ranked,
    curve,
    letter,
    nearest_units,
    visible_text,
    write_checks_page,
)
from datamarket_gym.payout.names import from_csv
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.stored_inputs import Places, places_of
from datamarket_gym.payout.what_if import finished_results

SCRIPT = "<script>document.title='owned'</script>"
HOSTILE = {
    "seller 0": SCRIPT,
    "seller 1": "\u202eesrever\u200b",
    "seller 2": "x" * 10_000,
    "seller 3": '"><img src=x onerror=document.title="owned"> {{ 7*7 }}',
}


def written(run, drawn=None):
    drawn = drawn or draws_of(run)
    write_checks_page(run, drawn)
    return (run / "checks.html").read_text(encoding="utf-8"), drawn


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return paid(tmp_path_factory.mktemp("numbers"))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    rng = np.random.default_rng(0)
    words = [
        ["goal", "match", "team", "score", "league", "coach", "season"],
        ["bank", "market", "shares", "profit", "rates", "fund", "bonds"],
    ]
    label = np.arange(80) % 2
    text = [" ".join(rng.choice(words[c], 8)) for c in label]
    text[0] = f"{SCRIPT} goal match </div></script>{SCRIPT}"
    text[1] = "bank \u202emarket\u200b " + "\u0301" * 50
    text[2] = "goal " * 20_000
    text[3] = "bank\n\tmarket\r\nshares"
    held = {
        "label": np.arange(40) % 2,
        "text": [" ".join(rng.choice(words[c], 8)) for c in np.arange(40) % 2],
    }
    names = [HOSTILE[f"seller {i % 4}"] for i in range(80)]
    ids = [f"u{i}" for i in range(80)]
    ids[0] = SCRIPT
    columns = {
        "id": ids, "identity": names, "label": label, "time": np.arange(80, dtype=float), "text": text
    }  # fmt: skip
    folder = tmp_path_factory.mktemp("hostile")
    return paid(folder, columns, held, columns={"text": "text"}, encoder="ngrams@64")


def everything(run):
    """A draw of the hostile units."""
    drawn = draws_of(run)
    _, results = finished_results(run, places_of(run))
    inputs = results.inputs
    first = [
        replace(drawn.draws[0], number=i + 1, payee=(name := inputs.identities[inputs.owner[i]]), identity=name,
                unit=inputs.ids[i], row=i)
        for i in range(8)
    ]  # fmt: skip
    drawn.draws = first
    return drawn


def beside(side, r, p, rank, payee):
    return (
        p == payee and r != rank if side == "own" else p != payee and (r < rank) == (side == "earlier")
    )


def brute(units, drawn, count, side):
    """Nearest units on a side, pair by pair."""
    found = []
    for vector, rank, payee in zip(drawn.vectors, drawn.rank, drawn.payee, strict=True):
        pairs = [
            (-min(1.0, round(float(u @ vector / np.linalg.norm(u) / np.linalg.norm(vector)), 12)), r, i)
            for i, (u, r, p) in enumerate(zip(units.vectors, units.rank, units.payee, strict=True))
            if beside(side, r, p, rank, payee) and u.any() and vector.any()
        ]
        found.append([i for _, _, i in sorted(pairs)[:count]])
    return found


@pytest.mark.parametrize("seed", range(6))
def test_the_nearest_are_those_of_all_pairs(seed):
    rng = np.random.default_rng(seed)
    n = [1, 2, 50, 300, 2500, 5000][seed]  # the last two are more than a block
    vectors = rng.normal(size=(n, 4))
    vectors[rng.integers(0, n, n // 4)] = vectors[0]  # copies
    vectors[n // 2] = 0.0
    everyone = Ranked(vectors, rng.permutation(n), rng.integers(0, 3, n))
    rows = rng.integers(0, n, 15)
    drawn = Ranked(vectors[rows], everyone.rank[rows], everyone.payee[rows])
    for side in SIDES:
        near, cosine = nearest_units(everyone, drawn, 3, side)
        assert [[i for i in row if i >= 0] for row in near.tolist()] == brute(everyone, drawn, 3, side)
        assert ((near >= 0) == np.isfinite(cosine)).all()
        assert (cosine <= 1.0).all()


def test_each_draw_stands_beside_earlier_and_later_units_of_others_and_its_own(run):
    page, drawn = written(run)
    _, results = finished_results(run, places_of(run))
    inputs = results.inputs
    time, owner = inputs.submission.times, [inputs.identities[c] for c in inputs.owner]
    place = {name: i for i, name in enumerate(inputs.ids)}
    articles = re.findall(r'<article class="check" id="check-(\d+)">(.*?)</article>', page, re.S)
    assert [int(number) for number, _ in articles] == [draw.number for draw in drawn.draws]
    near = re.compile(r"cosine (-?[\d.]+)</strong> <bdi>(\w+)</bdi> of <bdi>([\w ]+)</bdi>")
    unit = inputs.submission.vectors / np.linalg.norm(inputs.submission.vectors, axis=1)[:, None]
    shown = 0
    for draw, (_, article) in zip(drawn.draws, articles, strict=True):
        for part in article.split("<h4>")[2:]:
            found = near.findall(part)
            cosines = [float(cosine) for cosine, _, _ in found]
            assert cosines == sorted(cosines, reverse=True)
            for cosine, name, whose in found:
                other = place[name]
                assert whose == owner[other]
                assert (whose == draw.identity) == part.startswith("Nearest units of the same payee")
                if part.startswith("Nearest earlier"):
                    assert time[other] < time[draw.row]
                elif part.startswith("Nearest later"):
                    assert time[other] > time[draw.row]
                assert float(cosine) == pytest.approx(float(unit[other] @ unit[draw.row]), abs=6e-4)
                shown += 1
        assert f"EUR {draw.amount:,.2f}, {draw.share:.1%} of what this payee earns" in article
        assert all(f"<li>{v:.4g}</li>" in article for v in inputs.submission.features[draw.row])
    assert shown > 60


def test_the_page_says_what_is_asked_and_asks_nobody_else(run):
    page, drawn = written(run)
    text = html.unescape(page)
    for what in ("the original file", "its source", "the consent"):
        assert what in text
    assert text.count("Dear seller 1,") == 1
    assert "  * u1\n  * u2\n" in letter("anna", ["u1", "u2"], "f" * 64, True)
    asked = letter("anna", ["u1"], "f" * 64, True, "unit", LetterTerms("pool@example.org", "1 May"))
    assert "please send us to pool@example.org by 1 May" in asked
    assert "what that unit earns is forfeit" in asked
    assert not re.search(r"""(?:src|href|url\()\s*=?\s*["']?(?:https?:)?//""", page)
    assert "default-src 'none'" in page
    assert 'name="viewport"' in page
    assert page.count("<fieldset") == len(drawn.draws)


def with_second_look(drawn):
    """The first unit of the list is drawn twice."""
    first, *others = drawn.draws
    return replace(
        drawn,
        draws=[first, replace(first, number=2), *(replace(d, number=d.number + 1) for d in others)],
    )


def test_a_unit_that_was_drawn_twice_has_one_card_and_two_forms(run):
    drawn = with_second_look(draws_of(run))
    page, _ = written(run, drawn)
    articles = re.findall(r'<article class="check" id="check-(\d+)">(.*?)</article>', page, re.S)
    assert [int(number) for number, _ in articles] == [1, *(d.number for d in drawn.draws[2:])]
    card = articles[0][1]
    assert "Looks: 2, by different people" in card
    assert re.findall(r'data-number="(\d+)"', card) == ["1", "2"]
    assert card.count('class="who"') == card.count("look 1 of 2") + card.count("look 2 of 2") == 2
    assert "by different people" not in articles[1][1]
    assert page.count(f"  * {drawn.draws[0].unit}\n") == 1  # the payee is asked once


TWO = """
const box = (n) => document.querySelector(`fieldset[data-number="${n}"]`);
const change = (each) => each.dispatchEvent(new Event("input", { bubbles: true }));
const pick = (n, who) => {
  const radio = box(n).querySelector("input[value=genuine]"), name = box(n).querySelector(".who");
  radio.checked = true; change(radio);
  if (name) { name.value = who; change(name); }
};
const by = document.getElementById("by"); by.value = "R. Okafor"; change(by);
const same = document.querySelector(".same"), seen = [same.hidden];
pick(1, ""); pick(2, "r. okafor"); seen.push(same.hidden);
pick(2, "K. Ito"); seen.push(same.hidden); pick(3, "");
URL.createObjectURL = (blob) => { blob.text().then((text) => {
  const left = document.createElement("pre"); left.id = "left"; left.textContent = seen.join() + "|" + text;
  document.body.append(left);
}); return "#"; };
document.getElementById("save").click();
"""


def test_in_a_browser_two_looks_bear_two_names(run, tmp_path):
    _, drawn = written(run, with_second_look(draws_of(run)))
    seen, saved = in_browser(run / "checks.html", TWO, tmp_path / "profile").split("|")
    assert seen == "true,false,true"  # the warning is hidden, shown, hidden
    (tmp_path / "outcomes.csv").write_text(saved, newline="")
    found = read_outcomes(tmp_path / "outcomes.csv", drawn)
    assert [(a.number, a.by) for a in found] == [(1, "R. Okafor"), (2, "K. Ito"), (3, "R. Okafor")]


def test_hostile_names_and_texts_stay_names_and_texts(hostile):
    page, _ = written(hostile, everything(hostile))
    assert "<script>document" not in page
    assert "<img src=x" not in page
    assert len(re.findall(r"<script>", page)) == 1  # the page's own
    assert html.escape(SCRIPT, quote=False).replace("'", "&#39;") in page
    for hidden in "\u202e\u200b\0":
        assert hidden not in page
    assert "⟨U+202E⟩esrever⟨U+200B⟩" in page
    assert "x" * 65 not in page
    assert "(10,000 characters)" in page
    assert "(100,000 characters)" in page
    assert "{{ 7*7 }}" in page
    assert len(page) < 300_000
    with (hostile / "letters.csv").open(encoding="utf-8", newline="") as file:
        letters = list(csv.DictReader(file))
    assert {from_csv(row["payee"]) for row in letters} == set(HOSTILE.values())
    assert all(row["asked"].startswith("the original file") for row in letters)
    assert "⟨U+202E⟩" in letters[1]["first_words"]
    assert not any(cell.startswith(tuple("=+-@")) for row in letters for cell in row.values())


def test_texts_keep_their_lines_and_show_what_hides():
    assert visible_text("a\r\nb\n\tc\u200b", 100) == "a\nb\n    c⟨U+200B⟩"
    assert visible_text("x" * 50, 10) == "x" * 10 + "… (50 characters)"
    assert visible_text("a\0\u2028b", 10) == "a⟨U+0000⟩⟨U+2028⟩b"


def test_many_numbers_become_a_curve(tmp_path):
    wide = units()
    wide["features"] = np.hstack([wide["features"]] * 20)
    rng = np.random.default_rng(1)
    label = rng.integers(0, 3, 40)
    held = {
        "label": label,
        "features": np.hstack([2.0 * np.eye(3, 6)[label] + rng.normal(0, 0.6, (40, 6))] * 20),
    }
    page, _ = written(paid(tmp_path, wide, held))
    assert page.count("<svg") > 10
    assert 'aria-label="120 numbers as a curve"' in page
    assert curve(np.zeros(20)).count("L") == 19
    assert curve(np.arange(1000.0)).count("L") == 63


def test_pictures_are_drawn_anew_within_a_size(tmp_path):
    image = pytest.importorskip("PIL.Image")
    from PIL.PngImagePlugin import PngInfo

    rng = np.random.default_rng(0)
    info = PngInfo()
    info.add_text("comment", "SECRETCOMMENT<script>")
    for part, n in (("units/anna", 8), ("units/ben", 8), ("validation", 5)):
        for label, level in (("dark", 40), ("light", 200)):
            folder = tmp_path / part / label
            folder.mkdir(parents=True)
            for i in range(n):
                side = 600 if i == 0 else 32
                pixels = np.clip(rng.normal(level, 20, (side, side, 3)), 0, 255).astype(np.uint8)
                image.fromarray(pixels).save(folder / f"{i}.png", pnginfo=info)
    places = Places(tmp_path / "units", tmp_path / "validation")
    pay(places, spec(encoder="thumbnail@4"), tmp_path / "run")
    drawn = draws_of(tmp_path / "run", per_payee=8)
    page, _ = written(tmp_path / "run", drawn)
    assert len(re.findall(r'<img src="data:image/(?:png|jpeg);base64,', page)) > 10
    assert "U0VDUkVU" not in page  # "SECRET" in base64
    assert len(page) < 16 * 4 * 60_000


def test_pictures_of_a_table_are_shown_and_bad_ones_named(tmp_path):
    image = pytest.importorskip("PIL.Image")
    columns = units()
    columns["file"] = [f"{i}.png" for i in range(len(columns["id"]))]
    (tmp_path / "images").mkdir()
    for i, name in enumerate(columns["file"]):
        path = tmp_path / "images" / name
        image.fromarray(np.full((16, 16, 3), i, dtype=np.uint8)).save(path)
    for i in range(0, 30):
        (tmp_path / "images" / f"{i}.png").write_bytes(b"<script>no image</script>")
    held = {**validation(), "file": ["0.png"] * 40}
    named = {"features": "features", "image": "file"}
    run = paid(tmp_path, columns, held, columns=named, files={"images": str(tmp_path / "images")})
    drawn = draws_of(run, per_payee=5)
    page, _ = written(run, drawn)
    assert len(set(re.findall(r'data:image/png;base64,[^"]+', page))) > 5
    assert "The picture cannot be shown: 25 bytes that are no image; remove the unit." in page
    # the picture beside a unit is the unit's own
    for article, draw in zip(page.split('<article class="check"')[1:], drawn.draws, strict=True):
        if draw.row >= 30 and (found := re.search(r'png;base64,([^"]+)', article)):
            pixels = np.asarray(image.open(io.BytesIO(base64.b64decode(found.group(1)))))
            assert (pixels == draw.row).all()


def test_inputs_that_are_gone_or_changed_are_named(tmp_path):
    run = paid(tmp_path)
    drawn = draws_of(run)
    stranger = replace(drawn.draws[0], unit="nobody's")
    with pytest.raises(DataMarketError, match="not a unit of the run"):
        write_checks_page(run, replace(drawn, draws=[stranger]))
    places = places_of(run)
    moved = places.submissions.rename(tmp_path / "moved.parquet")
    with pytest.raises(SubmissionError, match=r"no longer at .*units\.parquet.*--submissions"):
        write_checks_page(run, drawn)
    assert not (run / "checks.html").exists()
    write_checks_page(run, drawn, replace(places, submissions=moved))
    assert (run / "checks.html").exists()


FILL = """
const name = (n) => document.querySelector(`fieldset[data-number="${n}"]`);
const change = (each) => each.dispatchEvent(new Event("input", { bubbles: true }));
const pick = (n, value) => {
  const radio = name(n).querySelector(`input[value="${value}"]`);
  radio.checked = true;
  change(radio);
};
pick(2, "genuine"); pick(5, "false"); pick(6, "unanswered");
const note = name(5).querySelector(".remark");
note.value = '=1+1, "quoted"'; change(note);
const by = document.getElementById("by"); by.value = "R. Okafor"; change(by);
URL.createObjectURL = (blob) => { blob.text().then((text) => {
  const left = document.createElement("pre"); left.id = "left"; left.textContent = text;
  document.body.append(left);
}); return "#"; };
document.getElementById("save").click();
"""


LOOK = """
document.querySelectorAll("details").forEach((each) => { each.open = true; });
const left = document.createElement("pre"); left.id = "left";
if (innerWidth < 600) document.body.style.width = "390px";  // windows are never narrower than 500
left.textContent = [document.title, document.body.scrollWidth, document.body.clientWidth,
  getComputedStyle(document.querySelector(".sides")).gridTemplateColumns.split(" ").length,
  document.getElementById("count").textContent].join("|");
document.body.append(left);
"""


def test_in_a_browser_the_answers_come_out_as_a_table_that_can_be_recorded(hostile, tmp_path):
    _, drawn = written(hostile, everything(hostile))
    saved = html.unescape(in_browser(hostile / "checks.html", FILL, tmp_path / "profile"))
    (tmp_path / "outcomes.csv").write_text(saved, newline="")
    found = read_outcomes(tmp_path / "outcomes.csv", drawn)
    assert [(a.number, a.outcome, a.note, a.by) for a in found] == [
        (2, "genuine", "", "R. Okafor"),
        (5, "false", '=1+1, "quoted"', "R. Okafor"),
        (6, "unanswered", "", "R. Okafor"),
    ]
    assert in_browser(hostile / "checks.html", LOOK, tmp_path / "profile").endswith("|3 of 8 answered")


@pytest.mark.parametrize(("width", "columns"), [(1100, "2"), (390, "1")])
def test_in_a_browser_nothing_hostile_runs_and_nothing_is_wider_than_the_screen(
    hostile, tmp_path, width, columns
):
    _, drawn = written(hostile, everything(hostile))
    title, wide, inner, sides, count = in_browser(
        hostile / "checks.html", LOOK, tmp_path / "profile", 1100 if width > 600 else 500
    ).split("|")
    assert title == f"{len(drawn.draws)} checks of 4 payees"
    assert int(inner) <= width
    assert int(wide) <= int(inner)
    assert sides == columns
    assert count == "0 of 8 answered"
