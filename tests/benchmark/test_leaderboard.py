"""Bundles and the leaderboard: what is written, what is not believed, and that nothing of a bundle runs."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from datamarket_gym.benchmark import leaderboard as recomputing
from datamarket_gym.benchmark import runner as module
from datamarket_gym.benchmark.bundles import (
    MANIFEST,
    RESULTS,
    SUMS,
    BenchmarkEntry,
    BundleError,
    MechanismRow,
    read_bundle,
    sums_text,
)
from datamarket_gym.benchmark.leaderboard import leaderboard
from datamarket_gym.benchmark.leaderboard_pages import html_page, markdown_page
from datamarket_gym.benchmark.runner import submit
from datamarket_gym.benchmark.scoring import mechanism_scores, require_complete
from datamarket_gym.benchmark.suite import make_key, public, suite
from datamarket_gym.errors import DataMarketError, ParameterError, RunError
from repository import ROOT

BOARD = ROOT / "docs" / "leaderboard"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A bundle of the quick part."""
    out = tmp_path_factory.mktemp("made") / "uniform"
    submit(BenchmarkEntry.of_spec("uniform", authors="A. Nobody"), public(), out, quick=True)
    return out


@pytest.fixture
def bundle(made, tmp_path):
    """A copy of it that may be changed."""
    shutil.copytree(made, tmp_path / "bundles" / "uniform")
    return tmp_path / "bundles" / "uniform"


def rehash(folder):
    data = [(folder / name).read_bytes() for name in (RESULTS, MANIFEST)]
    (folder / SUMS).write_text(sums_text(*data))


def change_rows(folder, change):
    found = json.loads((folder / RESULTS).read_text())
    rows = [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]
    rows = change(rows) or rows
    columns = list(rows[0])
    (folder / RESULTS).write_text(
        json.dumps({"columns": columns, "rows": [[row.get(c) for c in columns] for row in rows]})
    )
    rehash(folder)


def change_manifest(folder, **changes):
    told = json.loads((folder / MANIFEST).read_text())
    entry = {**told["entry"], **changes.pop("entry", {})}
    (folder / MANIFEST).write_text(json.dumps({**told, "entry": entry, **changes}))
    rehash(folder)


def refusal(folder, **more):
    """Why the one bundle of a folder is not ranked."""
    board = leaderboard(folder.parent, **more)
    assert board.groups == {}
    (refused,) = board.refused
    assert refused.folder == folder.name
    return refused.why


def test_a_bundle_is_three_files_that_say_what_was_run(made):
    assert sorted(path.name for path in made.iterdir()) == [SUMS, MANIFEST, RESULTS]
    for line in (made / SUMS).read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((made / name).read_bytes()).hexdigest() == digest
    told = read_bundle(made).manifest
    assert (told.suite, told.suite_hash, told.quick) == ("DataMarket-v1", suite().hash, True)
    assert (told.entry.spec, told.entry.authors, told.seeds) == ("uniform", "A. Nobody", "public")
    assert told.versions["datamarket-gym"]


def test_a_submission_goes_on_where_it_stopped(made, tmp_path, monkeypatch):
    out = tmp_path / "again"
    monkeypatch.setattr(module, "results_text", lambda rows: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        submit(BenchmarkEntry.of_spec("uniform"), public(), out, quick=True)
    monkeypatch.undo()
    assert not (out / MANIFEST).exists()
    with pytest.raises(BundleError, match="is missing; has the submission ended"):
        read_bundle(out)
    monkeypatch.setattr(module, "cell", lambda *_: 1 / 0)  # nothing is played twice
    submit(BenchmarkEntry.of_spec("uniform", name="other"), public(), out, quick=True)
    first, again = (
        [row.model_copy(update={"seconds": 0.0}) for row in read_bundle(folder).rows]
        for folder in (made, out)
    )
    assert first == again
    with pytest.raises(RunError, match="holds another submission"):
        submit(BenchmarkEntry.of_spec("shapley"), public(), out, quick=True)


def test_scores_are_functions_of_rows():
    """By hand, on the quick part with gains that are written down."""
    part = suite().part(True)
    attacks = ["honest", *(attack.name for attack in part.attacks), "best response"]

    def row(attack, pay, loss, paid=8.0):
        return MechanismRow(
            task="synthetic", draw=0, honest_pay=2.0, pay=pay, pot=8.0, paid=paid, providers=4, worth=10.0,
            fairness_loss=loss, seconds=1.0, evaluations=None, best_attack="", attack=attack,
        )  # fmt: skip

    rows = [row(attack, 2.0, 0.1) for attack in attacks]
    rows[3] = row(attacks[3], 5.0, 0.1)
    rows[5] = row(
        attacks[5], 0.0, 0.1, paid=0.0
    )  # nobody is paid anything where that attack is suspected
    rows[6] = row(attacks[6], 2.0, 0.1, paid=20.0)
    rows[-1] = row("best response", 4.0, 0.9)
    found = mechanism_scores(rows, part)
    assert found.worst_case.value == found.best_response.value == 2.5
    assert found.worst_attack == f"{attacks[3]}, synthetic"
    assert found.mean_gain.value == pytest.approx(1 + (1.5 - 1) / len(part.attacks))
    assert found.fairness_loss.value == pytest.approx(0.1)
    markets = len(part.attacks) + 1
    efficiency = (0.8 * (markets - 2) + 0.0 + 0.5) / markets
    assert found.efficiency.value == pytest.approx(efficiency)
    assert found.loss.value == pytest.approx(1.5 + 0.1 + 1 - efficiency)
    assert (found.loss.error, found.evaluations) == (None, None)


def test_rows_that_were_played_again_agree(bundle):
    (group,) = leaderboard(bundle.parent, markets=3).groups.values()
    assert group[0].checked == "1 of 1 markets played again"


def cheaper(rows):
    for row in rows:
        row["pay"] = min(row["pay"], row["honest_pay"])


def test_made_up_rows_with_right_hashes_are_found_by_playing_again(bundle):
    change_rows(bundle, cheaper)
    (group,) = leaderboard(bundle.parent).groups.values()  # nothing contradicts itself
    assert group[0].scores.best_response.value == 1.0
    why = refusal(bundle, markets=1)
    assert re.search(r"recomputed, synthetic, draw 0, split in 3: pay is .* and not", why)


def without_the_last(rows):
    return rows[:-1]


def twice(rows):
    return [*rows, rows[0]]


def other_draws(rows):
    for row in rows:
        row["draw"] = 17


def honest_gains(rows):
    rows[0]["pay"] = rows[0]["pay"] * 0.5


def other_market(rows):
    rows[4]["worth"] = 1.0


def other_honest(rows):
    rows[4]["honest_pay"] = 0.07


def more_than_all(rows):
    for row in rows:
        row["pay"] = row["honest_pay"] = row["pot"] * 2


def not_a_number(rows):
    rows[2]["pay"] = float("nan")


def below_zero(rows):
    rows[2]["pay"] = -0.1


def written_number(rows):
    rows[2]["pay"] = "0.1"


def fair_beyond(rows):
    rows[2]["fairness_loss"] = -0.2


def endless(rows):
    rows[2]["evaluations"] = 10**400


def next_to_nothing(rows):
    for row in rows:
        row["pot"] = 5e-324


def another_column(rows):
    for row in rows:
        row["loss"] = 0.0


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (without_the_last, "1 rows of the suite are missing"),
        (twice, "a row is there twice"),
        (other_draws, "19 rows of the suite are missing and 19 are not of it"),
        (honest_gains, "honesty gains something"),
        (other_market, "are of different markets"),
        (other_honest, "disagree on honest pay"),
        (more_than_all, "is paid more than all"),
        (not_a_number, "2.pay: Input should be a finite number"),
        (below_zero, "2.pay: Input should be greater than or equal to 0"),
        (written_number, "2.pay: Input should be a valid number"),
        (fair_beyond, "2.fairness_loss"),
        (endless, "2.evaluations: Input should be less than"),
        (next_to_nothing, "pot: Input should be greater than"),
        (another_column, "loss: Extra inputs are not permitted"),
    ],
)
def test_rows_that_cannot_be_are_refused(bundle, change, why):
    change_rows(bundle, change)
    assert why in refusal(bundle)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"suite_hash": "0" * 64}, "another suite"),
        ({"quick": False}, "rows of the suite are missing"),
        ({"seeds": "private"}, "by which key"),
        ({"entry": {"name": "n" * 61}}, "entry.name: String should have at most 60"),
        ({"entry": {"name": "a\u202eb"}}, "entry.name: Value error, use characters that can be seen"),
        ({"entry": {"name": "\u3164"}}, "entry.name: Value error, use characters that can be seen"),
        ({"entry": {"checks": 50}}, "checks more than 3 units"),
        ({"entry": {"spec": ""}}, "entry: Value error, name a spec or a command, and not both"),
        ({"entry": {"command": "true"}}, "entry: Value error, name a spec or a command"),
        (
            {"entry": {"spec": "", "command": "true", "checks": 3}},
            "a program is a mechanism without checks",
        ),
        ({"scores": {"loss": 0}}, "scores: Extra inputs are not permitted"),
        ({"digest": "x"}, "digest: String should match"),
        ({"machine": "\x1b[2J"}, "machine: Value error, use characters"),
        ({"\x1b[31mred": 1}, "?[31mred: Extra inputs"),
    ],
)
def test_manifests_that_cannot_be_are_refused(bundle, changes, why):
    change_manifest(bundle, **changes)
    assert why in refusal(bundle)


def test_files_that_are_not_as_they_were_hashed_are_refused(bundle):
    text = (bundle / RESULTS).read_text()
    (bundle / RESULTS).write_text(text.replace("0.1", "0.2", 1))
    assert "files are not those of SHA256SUMS" in refusal(bundle)


def test_only_plain_files_of_bounded_size_are_opened(bundle, tmp_path):
    elsewhere = tmp_path / "elsewhere.json"
    (bundle / RESULTS).rename(elsewhere)
    (bundle / RESULTS).symlink_to(elsewhere)
    assert "results.json is not a plain file" in refusal(bundle)
    (bundle / RESULTS).unlink()
    os.mkfifo(bundle / RESULTS)
    assert "results.json is not a plain file" in refusal(bundle)
    (bundle / RESULTS).unlink()
    with (bundle / RESULTS).open("wb") as file:
        file.truncate(50_000_000_000)  # takes no room on the disk
    assert "is larger than 2,000,000 bytes" in refusal(bundle)
    (bundle / RESULTS).unlink()
    elsewhere.rename(bundle / RESULTS)
    (bundle / "plugin.py").write_text("raise SystemExit('run')")
    assert "1 files that are of no bundle" in refusal(bundle)
    (bundle / "plugin.py").unlink()
    bundle.rename(tmp_path / "moved")
    bundle.symlink_to(tmp_path / "moved")
    assert "it is not a folder" in refusal(bundle)
    (tmp_path / "moved" / RESULTS).write_text("[" * 100_000)
    rehash(tmp_path / "moved")
    bundle.unlink()
    (tmp_path / "moved").rename(bundle)
    assert "results.json, the whole: Invalid JSON" in refusal(bundle)
    for name in (RESULTS, MANIFEST, SUMS):
        (bundle / name).unlink()
        (bundle / name).mkdir()
        assert f"{name} is not a plain file" in refusal(bundle)
        (bundle / name).rmdir()
        (bundle / name).write_text("")


@pytest.mark.parametrize(
    "entry",
    [
        {"spec": "program(command='touch {}')"},
        {"spec": "", "command": "touch {}"},
        {"spec": "touch {}"},
        {"spec": "unheard_of"},
    ],
)
def test_nothing_of_a_bundle_is_run(bundle, tmp_path, entry):
    mark = tmp_path / "run"
    change_manifest(bundle, entry={key: text.format(mark) for key, text in entry.items()})
    (group,) = leaderboard(bundle.parent, markets=1).groups.values()
    assert group[0].checked.startswith("as reported (")
    assert not mark.exists()


@pytest.mark.parametrize("ratio", ["1e300", "1e13"])
def test_an_attack_too_large_to_be_played_again_is_refused(tmp_path, ratio):
    out = tmp_path / "bundles" / "junk"
    submit(BenchmarkEntry.of_attack("junk_padding"), public(), out, quick=True)
    change_manifest(out, entry={"spec": f"junk_padding(ratio={ratio})"})
    assert "synthetic, draw 0, cannot be played again: " in refusal(out, markets=1)


def test_one_submission_is_ranked_once(bundle):
    shutil.copytree(bundle, bundle.parent / "zz")
    change_manifest(bundle.parent / "zz", entry={"name": "mine now"})
    board = leaderboard(bundle.parent)
    assert [each.folder for each in board.refused] == ["zz"]
    assert board.refused[0].why == "its rows are those of uniform"

    def by_a_hair(rows):  # less than playing again would find
        for row in rows:
            for name in ("pay", "honest_pay", "pot"):
                row[name] *= 1 + 9e-7

    change_rows(bundle.parent / "zz", by_a_hair)
    assert [each.folder for each in leaderboard(bundle.parent, markets=1).refused] == ["zz"]


def test_private_markets_are_ranked_apart_and_their_key_is_told_to_nobody(bundle, tmp_path):
    key = make_key(tmp_path / "key")
    out = bundle.parent / "private"
    submit(BenchmarkEntry.of_spec("uniform"), key, out, quick=True)
    assert all(key.key not in path.read_text() for path in out.iterdir())
    seeds = {key.seed("synthetic", 0, purpose) for purpose in ("market", "names", "mechanism")}
    assert all(str(seed) not in path.read_text() for path in out.iterdir() for seed in seeds)
    both = leaderboard(bundle.parent, draws=[key])
    assert [group.commitment for group in both.groups] == ["", key.commitment]
    # Whoever draws keys until one suits is not ranked by it: only keys that are given here are.
    alone = leaderboard(bundle.parent)
    assert [group.commitment for group in alone.groups] == [""]
    [why] = [each.why for each in alone.refused]
    assert "private key that is not given" in why
    shutil.rmtree(bundle)
    (known,) = leaderboard(out.parent, markets=1, draws=[key]).groups.values()
    assert known[0].checked == "1 of 1 markets played again"


def test_rows_of_other_markets_are_refused(bundle):
    def easier(rows):
        for row in rows:
            row["worth"] *= 0.9

    change_rows(bundle, easier)
    assert "another market" in refusal(bundle)


def test_what_would_take_forever_or_all_memory_is_not_played_again(bundle, monkeypatch):
    monkeypatch.setattr(recomputing, "SECONDS", 5.0)
    submit(BenchmarkEntry.of_attack("copycat"), public(), bundle.parent / "attack", quick=True)
    shutil.rmtree(bundle)
    for spec in ("sybil_split_k@1000000000", "junk_padding(ratio=1e6)"):
        change_manifest(bundle.parent / "attack", entry={"spec": spec})
        [why] = [each.why for each in leaderboard(bundle.parent, markets=1).refused]
        assert "cannot be played again" in why


@pytest.mark.parametrize("name", ["https://a.example", "see www.a.example"])
def test_no_name_becomes_a_link(bundle, name):
    change_manifest(bundle, entry={"name": name})
    told = markdown_page(leaderboard(bundle.parent), "bundles")
    assert "://a" not in told
    assert "www.a" not in told


def test_names_are_text_and_never_markup(bundle):
    evil = '<img src=x onerror="alert(1)"> | [a](b) `c`'
    change_manifest(bundle, entry={"name": evil, "authors": "<b>bold</b>"})
    board = leaderboard(bundle.parent)
    page = html_page(board)
    assert "<img" not in page
    assert "<b>" not in page
    assert "&lt;img src=x" in page
    assert "script" not in page.replace("default-src 'none'", "")
    told = markdown_page(board, "bundles")
    assert "<img" not in told
    assert " | [a]" not in told
    assert "&#60;img src=x onerror=" in told


def test_what_cannot_be_submitted():
    with pytest.raises(ParameterError, match="choose at most 3"):
        BenchmarkEntry.of_spec("recommended", checks=4)
    with pytest.raises(ParameterError, match="does not say what each unit earns"):
        BenchmarkEntry.of_spec("program(command='true')", checks=3)
    with pytest.raises(DataMarketError, match="unknown mechanism 'shaply'; did you mean shapley"):
        BenchmarkEntry.of_spec("shaply")
    with pytest.raises(ParameterError, match=r"submission: name = .* at most 60"):
        BenchmarkEntry.of_spec("shapley", name="n" * 61)


def test_an_attack_is_ranked_by_what_it_gains(tmp_path):
    out = tmp_path / "bundles" / "split"
    submit(BenchmarkEntry.of_attack("sybil_split_k@4"), public(), out, quick=True)
    (group,) = leaderboard(out.parent, markets=1).groups.values()
    assert group[0].checked == "1 of 1 markets played again"
    against = group[0].scores.against
    assert list(against) == [opponent.label for opponent in suite().opponents]
    assert against["uniform"].value > 2.0
    assert against["recommended"].value == against["recommended, 3 checks"].value == pytest.approx(1.0)


def test_the_page_of_the_docs_is_what_the_command_writes():
    board = leaderboard(BOARD)
    assert board.refused == []
    page = (ROOT / "docs" / "leaderboard.md").read_text(encoding="utf-8")
    assert page == markdown_page(board, "docs/leaderboard")
    assert sum(path.stat().st_size for path in BOARD.rglob("*") if path.is_file()) < 1_000_000


def test_trivial_mechanisms_lose_on_the_docs_board():
    """Whoever pays all names alike, or by the unit, is beaten by Shapley over names, and that by checks."""
    (ranked,) = (each for group, each in leaderboard(BOARD).groups.items() if group.track == "mechanism")
    order = [each.bundle.entry.name for each in ranked]
    assert order[0] == "recommended, 3 checks"
    assert order.index("shapley") < order.index("uniform")
    assert order.index("shapley") < order.index("per_example")
    part = require_complete(ranked[0].bundle)
    assert len(part.cells) == 12


PROGRAM = """
import collections, csv, pathlib, sys
given, taken = map(pathlib.Path, sys.argv[1:])
with open(given / "units.csv", newline="") as file:
    units = collections.Counter(row["identity"] for row in csv.DictReader(file))
with open(taken / "payments.csv", "w", newline="") as file:
    csv.writer(file).writerows([("identity", "amount"), *((n, c / 500) for n, c in units.items())])
"""


def test_a_program_enters_by_the_command_line(tmp_path, monkeypatch, capsys):
    from datamarket_gym.cli.app import app

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "150")
    (tmp_path / "by_weight.py").write_text(PROGRAM)
    command = f"{sys.executable} by_weight.py"
    app(
        ["benchmark", "submit", "--command", command, "--name", "by weight", "--quick"],
        standalone_mode=False,
    )
    found = read_bundle(tmp_path / "bundles" / "by-weight-quick")
    assert found.entry.command == command
    assert found.manifest.files["by_weight.py"] == hashlib.sha256(PROGRAM.encode()).hexdigest()
    told = {row.attack: row for row in found.rows}
    assert told["own copies, exact"].pay > 1.5 * told["honest"].pay
    app(
        ["benchmark", "leaderboard", "bundles", "--out", "b.html", "--out", "b.md"],
        standalone_mode=False,
    )
    shown = capsys.readouterr().out
    assert len(re.findall(r"^ *1 +by weight", shown, re.MULTILINE)) == 2
    assert "by_weight.py" in (tmp_path / "b.html").read_text()
    assert "| 1 | by weight: " in (tmp_path / "b.md").read_text()


def test_what_a_program_or_loaded_code_paid_before_a_change_of_it_is_not_taken_for_new(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / (" " + "long" * 60 + ".py")  # longer than names in a manifest
    file.write_text(PROGRAM)
    entry = BenchmarkEntry.of_command(f"{sys.executable} '{file.name}'", name="by weight")
    first = submit(entry, public(), tmp_path / "out", quick=True)
    assert any(name.startswith("longlong") for name in first.manifest.files)
    file.write_text(PROGRAM.replace("c / 500", "1 / 500"))
    with pytest.raises(RunError, match="holds another submission"):
        submit(entry, public(), tmp_path / "out", quick=True)
    entry = BenchmarkEntry.of_spec("uniform")
    submit(entry, public(), tmp_path / "loaded", quick=True)
    monkeypatch.setattr(module, "sources_elsewhere", lambda: {"mine": "0" * 64})
    with pytest.raises(RunError, match="holds another submission"):
        submit(entry, public(), tmp_path / "loaded", quick=True)


def test_a_bundle_can_be_called_anew(bundle):
    before = read_bundle(bundle)
    again = submit(BenchmarkEntry.of_spec("uniform", name="equal pay"), public(), bundle, quick=True)
    assert (again.entry.name, again.entry.authors) == ("equal pay", "")
    assert again.rows == before.rows
    assert [each.name for each in bundle.parent.iterdir()] == ["uniform"]
    assert leaderboard(bundle.parent).refused == []


SMALLER = """
import resource
from datamarket_gym.benchmark import leaderboard

leaderboard.cell = lambda *_: resource.getrlimit(resource.RLIMIT_AS)
before = (6 * 2**30, 8 * 2**30)
resource.setrlimit(resource.RLIMIT_AS, before)
print(leaderboard._bounded(None, "synthetic", 0) == before == resource.getrlimit(resource.RLIMIT_AS))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="bounds on memory are those of Linux")
def test_a_bound_on_memory_that_is_there_already_stays():
    found = subprocess.run([sys.executable, "-c", SMALLER], capture_output=True, text=True, check=False)
    assert found.stdout == "True\n", found.stderr
