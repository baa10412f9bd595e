"""Folders of images: nobody's picture is passed over in silence."""

import csv
import os

import numpy as np
import pyarrow.parquet as pq
import pytest
from payout_files import spec, table

from datamarket_gym.errors import DataMarketError, SubmissionError
from datamarket_gym.market.datasets import IMAGES
from datamarket_gym.payout.input_files import UNREAD, image_tree, unnamed_images
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.stored_inputs import Places
from datamarket_gym.payout.warnings import read_warnings

pytest.importorskip("PIL")
HOW = {"encoder": "thumbnail", "amount": "10.00"}


def picture(place, seed=0):
    from PIL import Image

    place.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng([seed, *place.name.encode()])
    Image.fromarray(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)).save(place)
    return place


@pytest.fixture
def folders(tmp_path):
    """Units of two people and validation rows, as folders."""
    for k in range(4):
        for what in ("cat", "dog"):
            for seed, who in enumerate(("anna", "bert")):
                picture(tmp_path / "units" / who / what / f"{k}.png", seed)
            picture(tmp_path / "held" / what / f"{k}.png", 2)
            picture(tmp_path / "sample" / what / f"{k}.png", 3)
    return tmp_path


def places(folders, **more):
    return Places(folders / "units", folders / "held", **more)


def skipped(folder):
    found = [w for w in read_warnings(folder) if w.name == "skipped_files"]
    return list(found[0].items) if found else []


def test_every_file_that_is_not_read_is_listed_with_what_to_do(folders):
    units = folders / "units"
    for ending in (".heic", ".AVIF", ".cr2"):
        (units / "anna" / "cat" / f"late{ending}").write_bytes(b"a photograph")
    picture(units / "anna" / "high.png")
    picture(units / "top.png")
    picture(units / "bert" / "dog" / "album" / "deep.png")
    (units / "bert" / "dog" / "._0.png").write_bytes(b"of the Finder")
    (units / "bert" / "notes.txt").write_text("hello")
    (units / "anna" / "cat" / "gone.png").symlink_to(units / "nowhere.png")
    (units / "carl").symlink_to(units / "anna", target_is_directory=True)
    os.mkfifo(units / "bert" / "cat" / "pipe.png")
    (folders / "held" / "cat" / "also.heif").write_bytes(b"x")
    picture(folders / "sample" / "too.jpg")
    pay(places(folders, reference=folders / "sample"), spec(**HOW), folders / "run")
    assert skipped(folders / "run") == [
        "reference: too.jpg: lies too high: move it to label/image",
        "submissions: anna/cat/gone.png: a link to nothing",
        "submissions: anna/cat/late.AVIF: .avif is not read: save it as .jpg or .png",
        "submissions: anna/cat/late.cr2: .cr2 is not read: save it as .jpg or .png",
        "submissions: anna/cat/late.heic: .heic is not read: save it as .jpg or .png",
        "submissions: anna/high.png: lies too high: move it to identity/label/image",
        "submissions: bert/cat/pipe.png: no plain file",
        "submissions: bert/dog/._0.png: hidden: a program's own, or rename it",
        "submissions: bert/dog/album/deep.png: lies too deep: move it to identity/label/image",
        "submissions: bert/notes.txt: no image by its ending",
        "submissions: carl: a link to a folder; put the folder itself there",
        "submissions: top.png: lies too high: move it to identity/label/image",
        "validation: cat/also.heif: .heif is not read: save it as .jpg or .png",
    ]  # fmt: skip


@pytest.mark.parametrize("ending", [".PNG", ".Jpg", ".webp", ".TIFF"])
def test_capitals_and_every_format_that_can_be_read_are_read(ending, tmp_path):
    picture(tmp_path / "anna" / "cat" / f"x{ending}")
    found = image_tree(tmp_path, identities=True)
    assert (found.names, found.identity, found.skipped) == ([f"anna/cat/x{ending}"], ["anna"], [])
    assert found.label.tolist() == ["cat"]
    assert not set(IMAGES) & set(UNREAD)


def test_a_folder_of_photographs_in_another_format_says_so(tmp_path):
    (tmp_path / "units" / "anna" / "cat").mkdir(parents=True)
    for k in range(7):
        (tmp_path / "units" / "anna" / "cat" / f"{k}.heic").write_bytes(b"x")
    with pytest.raises(
        DataMarketError, match=r"anna/cat/0\.heic \(\.heic is not read: save it.* and 2 more"
    ):
        image_tree(tmp_path / "units", identities=True)


def test_a_link_out_of_the_folder_is_refused(folders):
    secret = picture(folders / "secret.png")
    (folders / "units" / "anna" / "cat" / "link.png").symlink_to(secret)
    with pytest.raises(SubmissionError, match=r"anna/cat/link\.png' is outside"):
        pay(places(folders), spec(**HOW), folders / "run")


def test_an_empty_image_is_an_error_by_name_and_can_be_set_aside(folders):
    (folders / "units" / "anna" / "cat" / "0.png").write_bytes(b"")
    with pytest.raises(SubmissionError, match=r"image 'anna/cat/0\.png': 0 bytes that are no image"):
        pay(places(folders), spec(**HOW), folders / "refused")
    manifest = pay(places(folders), spec(**HOW, quarantine=True), folders / "run")
    assert (manifest["quarantined"], manifest["units"]) == (1, 15)
    with (folders / "run" / "quarantine.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["unit"], row["identity"]) == ("anna/cat/0.png", "anna")
    assert "0 bytes that are no image" in row["wrong"]
    assert skipped(folders / "run") == []


def test_a_photograph_of_a_telephone_under_another_ending_is_told_apart_from_rubbish(folders):
    (folders / "units" / "anna" / "cat" / "0.png").write_bytes(b"\0\0\0\x18ftypheic" + bytes(40))
    with pytest.raises(
        SubmissionError, match=r"anna/cat/0\.png': a photograph in a format that is not read \(HEIC"
    ):
        pay(places(folders), spec(**HOW), folders / "run")


def test_an_empty_validation_image_is_an_error_whatever_is_asked(folders):
    (folders / "held" / "cat" / "0.png").write_bytes(b"")
    with pytest.raises(SubmissionError, match=r"image 'cat/0\.png': 0 bytes"):
        pay(places(folders), spec(**HOW, quarantine=True), folders / "run")


@pytest.fixture
def listed(tmp_path):
    """The same as tables, beside one folder of files."""
    names = {"units": [], "held": []}
    for whose, rows in names.items():
        for k in range(12):
            picture(tmp_path / "files" / f"{whose}{k}.png")
            rows.append(f"{whose}{k}.png")
    rng = np.random.default_rng(0)
    units = {
        "identity": [f"s{k % 3}" for k in range(12)],
        "label": rng.integers(0, 2, 12),
        "time": np.arange(12.0),
    }
    pq.write_table(table({**units, "file": names["units"]}), tmp_path / "units.parquet")
    pq.write_table(table({"label": np.arange(12) % 2, "file": names["held"]}), tmp_path / "held.parquet")
    return tmp_path


def paid(folder, out, **changes):
    how = spec(**HOW, columns={"image": "file"}, files={"images": str(folder / "files")}, **changes)
    return pay(Places(folder / "units.parquet", folder / "held.parquet"), how, folder / out)


def test_images_that_no_row_names_are_listed_and_part_of_the_run(listed):
    clean = paid(listed, "clean")
    assert skipped(listed / "clean") == []
    picture(listed / "files" / "sub" / "forgotten.png")
    (listed / "files" / "phone.HEIC").write_bytes(b"x")
    (listed / "files" / "readme.txt").write_text("no picture")
    told = paid(listed, "told")
    assert skipped(listed / "told") == [
        "images: files/phone.HEIC: no row names it; name it in the table, or take it away",
        "images: files/sub/forgotten.png: no row names it; name it in the table, or take it away",
    ]
    assert told["run"] != clean["run"]
    assert (
        unnamed_images(listed / "files", ["sub/../sub/forgotten.png", "phone.HEIC"])[0][0] == "held0.png"
    )


def test_images_that_are_missing_or_broken_are_errors_with_their_row_or_set_aside(listed):
    (listed / "files" / "units4.png").unlink()
    (listed / "files" / "units7.png").write_bytes(b"broken")
    wrong = r"(?s)2 of 12 rows.*row 4, .*: the image 'units4\.png' is not in the folder\n.*row 7, .*that are no image"
    with pytest.raises(SubmissionError, match=wrong):
        paid(listed, "refused")
    first = paid(listed, "run", quarantine=True)
    assert first["quarantined"] == 2
    with (listed / "run" / "quarantine.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["row"] for row in rows] == ["4", "7"]
    assert "is not in the folder" in rows[0]["wrong"]
    (listed / "files" / "units4.png").write_bytes(b"broken, too")
    assert paid(listed, "other", quarantine=True)["run"] != first["run"]  # the list says something else


def test_a_missing_validation_image_names_its_own_row(listed):
    (listed / "files" / "held3.png").unlink()
    with pytest.raises(SubmissionError, match=r"validation row 3: the image 'held3\.png' is not in"):
        paid(listed, "run", quarantine=True)
